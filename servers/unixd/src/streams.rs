//! Standard input, output and error where they are no terminal, and the way in and out of the terminal.
//!
//! They go over the ports of a virtio console, if the machine has one ([`drivers::console`]): from its buffers
//! straight to the data area of whoever reads, and the other way round. Without the device there is the
//! serial port: it takes bytes in one by one, and has one way out for all.
//!
//! What waits for a reader stays in the device's buffers, and what the host does not take yet in those of the
//! port: so whoever is slow makes the other side wait, and nothing is lost.

use crate::clock::SECOND;
use crate::server::{note, RECEIVED};
use crate::window::Session;
use abi::slots::SELF_EP;
use abi::DispatcherFrame;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use drivers::console::{Changes, Console as Device, FILES, INPUT};
use drivers::Slots;
use libos::{Cap, Place};
use unixproto::files::*;
use unixproto::session::DATA_BYTES;

/// Bytes that wait for a reader, if they come by the serial port; more stay there.
const SERIAL_MAX: usize = 64 * 1024;
/// How long the device may take to say what ports it has, in seconds: that is a thread of the emulator, which on a busy host may wait
/// long for its turn.
const PATIENCE: u64 = 10;

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Channel {
    /// Its port of the device.
    fn port(self) -> usize {
        match self {
            Channel::Input => INPUT,
            Channel::Output => 1,
            Channel::Error => 2,
        }
    }

    /// Of the name of the host's for it.
    pub fn named(name: &str) -> Option<Channel> {
        match name {
            "out" => Some(Channel::Output),
            "err" => Some(Channel::Error),
            _ => None,
        }
    }
}

/// See the head of this file.
#[derive(Default)]
pub struct Streams {
    device: Option<Box<Device>>,
    /// What came by the serial port.
    serial: VecDeque<u8>,
    received: u64,
    eof_after: Option<u64>,
    /// The host says that nobody reads these any more, by their ports.
    broken: [bool; 3],
}

impl Streams {
    /// Takes the device over that this server was given, if there is one. If it does not work, that is as if there
    /// were none.
    pub fn new(words: [u64; 4], frame: &DispatcherFrame) -> Streams {
        let device = match drivers::Device::of(drivers::DeviceType::Console, Slots::FIRST, words) {
            Ok(None) => return Streams::default(),
            Ok(Some(device)) => device,
            Err(error) => {
                libos::log!("unixd: the console's registers cannot be mapped: {error:?}");
                return Streams::default();
            }
        };
        let started = Device::start(device, frame.tsc_hz.max(SECOND).saturating_mul(PATIENCE));
        let heard = started.and_then(|device| {
            device.listen(note::STREAMS)?;
            Ok(device)
        });
        match heard {
            Ok(device) => Streams { device: Some(Box::new(device)), ..Streams::default() },
            Err(failure) => {
                libos::log!("unixd: the console device does not work: {failure:?}");
                Streams::default()
            }
        }
    }

    /// Is there a device? Else the serial port is used.
    #[inline]
    pub fn have_device(&self) -> bool {
        self.device.is_some()
    }

    /// No more than `bytes` will come, counted from the start.
    pub fn end_after(&mut self, bytes: u64) {
        self.eof_after = Some(bytes);
    }

    /// Has everything been received that there is?
    pub fn at_end(&self) -> bool {
        let said = self.eof_after.is_some_and(|end| self.received >= end);
        said || self.device.as_ref().is_some_and(|device| device.is_closed(INPUT))
    }

    /// Is there room for more from the serial port?
    pub fn has_room(&self) -> bool {
        self.serial.len() < SERIAL_MAX
    }

    /// A byte came by the serial port; `kept`: for a reader of the stream.
    pub fn came(&mut self, byte: u8, kept: bool) {
        self.received += 1;
        if kept {
            self.serial.push_back(byte);
        }
    }

    /// The device has interrupted.
    pub fn interrupt(&mut self) -> Changes {
        let Some(device) = &mut self.device else { return Changes::default() };
        let before = device.unread();
        let changes = device.interrupt();
        self.received += (device.unread() - before) as u64;
        changes
    }

    /// Bytes that can be read.
    pub fn available(&self) -> usize {
        self.device.as_ref().map_or(self.serial.len(), |device| device.unread())
    }

    /// Takes what has come by the device to be typed at the terminal: some of it, so that others get their turn.
    pub fn typed(&mut self, bytes: &mut Vec<u8>) {
        const BURST: usize = 4096;
        if let Some(device) = &mut self.device {
            device.read(BURST, |_, piece| bytes.extend_from_slice(piece));
        }
    }

    /// Puts up to `bytes` that have come into the data area of a reader. Answers how many.
    pub fn read(&mut self, session: &Session, bytes: usize) -> usize {
        let most = bytes.min(DATA_BYTES);
        match &mut self.device {
            Some(device) => device.read(most, |offset, piece| session.put_at(offset, piece)),
            None => {
                let most = most.min(self.serial.len());
                let data: Vec<u8> = self.serial.drain(..most).collect();
                session.put_at(0, &data);
                most
            }
        }
    }

    /// Sends the bytes `[from, to)` of the data area of a writer over the device, as far as there is room.
    /// Answers how many.
    pub fn write(&mut self, channel: Channel, session: &Session, from: usize, to: usize) -> usize {
        let Some(device) = &mut self.device else { return 0 };
        let mut done = from;
        while done < to {
            let sent = device.write(channel.port(), to - done, |buffer| {
                session.read(done, buffer);
                buffer.len()
            });
            if sent == 0 {
                break;
            }
            done += sent;
        }
        done - from
    }

    /// Is there a way out for files?
    pub fn takes_files(&self) -> bool {
        self.device.as_ref().is_some_and(|device| device.has_port(FILES))
    }

    /// Sends up to `most` bytes, which `fill` puts into a buffer, where files go; waits until there is room. Returns how
    /// many. What nobody takes counts as sent.
    pub fn send_file(&mut self, most: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let Some(device) = &mut self.device else { return most };
        while !device.has_room(FILES) {
            wait();
            device.interrupt();
        }
        match device.is_closed(FILES) {
            true => most,
            false => device.write(FILES, most, fill),
        }
    }

    /// Sends what `fill` puts into buffers to the terminal, until it has no more or there is no room.
    pub fn show(&mut self, mut fill: impl FnMut(&mut [u8]) -> usize) {
        let Some(device) = &mut self.device else { return };
        while device.has_room(INPUT) && device.write(INPUT, usize::MAX, &mut fill) > 0 {}
    }

    /// Is there room for output by the device?
    pub fn is_writable(&self, channel: Channel) -> Option<bool> {
        self.device.as_ref().map(|device| device.has_room(channel.port()))
    }

    /// Nobody reads there any more.
    pub fn close(&mut self, channel: Channel) {
        self.broken[channel.port()] = true;
    }

    /// Does nobody read there any more?
    pub fn is_broken(&self, channel: Channel) -> bool {
        let port = channel.port();
        self.broken[port] || self.device.as_ref().is_some_and(|device| device.is_closed(port))
    }

    /// `POLL*` bits.
    pub fn ready(&self, channel: Channel, serial_writable: bool) -> u16 {
        let mut bits = 0;
        if channel == Channel::Input {
            if self.available() > 0 {
                bits |= POLLIN | POLLRDNORM;
            } else if self.at_end() {
                bits |= POLLHUP;
            }
            return bits;
        }
        if self.is_broken(channel) {
            bits |= POLLERR;
        }
        if self.is_broken(channel) || self.is_writable(channel).unwrap_or(serial_writable) {
            bits |= POLLOUT | POLLWRNORM;
        }
        bits
    }

    /// Waits until the host has taken everything that the device was given. Whoever else calls meanwhile gets
    /// no answer: the session is over.
    pub fn drain(&mut self) {
        let Some(device) = &mut self.device else { return };
        while !device.is_drained() {
            wait();
            device.interrupt();
        }
    }

    /// Waits until there is room on the way to the terminal.
    pub fn wait_for_room(&mut self) {
        let Some(device) = &mut self.device else { return };
        while !device.has_room(INPUT) {
            wait();
            device.interrupt();
        }
    }
}

/// Waits for a notification.
fn wait() {
    // An error: nothing came, and the next look says what there is.
    if let Ok(message) = libos::ipc::recv(SELF_EP, Place::own(RECEIVED)) {
        for index in 0..message.caps() {
            RECEIVED.plus(index).discard();
        }
    }
}
