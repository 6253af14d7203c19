//! The virtio console with several ports (virtio 1.2, 5.3): a bidirectional one for input, and others for
//! output only.
//!
//! Port 1 is standard input, or the terminal in both directions; 2 standard output, 3 standard error; 4, which a
//! machine need not have, takes files at the end. Bytes
//! come into buffers that the device fills, and stay there until somebody reads them: when all are full
//! the device takes nothing from the host, so whoever sends there waits. Bytes that go out are put into
//! buffers of the queue of a port; a port without a free buffer has no room, until the host has taken
//! something, which is told by an interrupt then and only then.

use crate::dma::{Buffers, Memory};
use crate::transport::Device;
use crate::Failure;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hint::spin_loop;
use libos::Status;
use virtio_drivers::transport::Transport;

type Queue<const N: usize> = virtio_drivers::queue::VirtQueue<Memory, N>;

/// Features: the device is one of today, and has several ports.
const VERSION_1: u64 = 1 << 32;
const MULTIPORT: u64 = 1 << 1;

/// Most ports, by their numbers from 1 on.
pub const PORTS: usize = 4;
/// Those that every machine has.
const STREAMS: usize = 3;
/// The port with standard input, or the terminal.
pub const INPUT: usize = 0;
/// The port that takes files at the end.
pub const FILES: usize = 3;
/// Where the device's configuration says how many ports there may be, with number 0, which is none of ours.
const MAX_PORTS: usize = 4;

/// Queues of control messages.
const CONTROL_IN: u16 = 2;
const CONTROL_OUT: u16 = 3;
const CONTROLS: usize = 16;
/// Bytes of a buffer for a control message; a longer one is cut, behind what is looked at.
const CONTROL_BYTES: usize = 64;

/// Buffers for input: as much as the emulator delivers at once, each.
const INPUTS: usize = 32;
const INPUT_BYTES: usize = 4096;
/// Buffers for output of each port, each for as much as a process writes at once.
const OUTPUTS: usize = 8;
const OUTPUT_BYTES: usize = 12 * 1024;

/// The queue with what comes in on a port (from 0 on), and behind it the one with what goes out.
const fn queue_in(port: usize) -> u16 {
    4 + 2 * port as u16
}

/// What control messages say.
mod control {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_READY: u16 = 3;
    pub const PORT_OPEN: u16 = 6;
}

/// Buffers of one size in a queue, of which each is ours or the device's. A buffer that the device has is in
/// `tokens`, by the descriptor that names it.
struct Ring<const N: usize> {
    queue: Queue<N>,
    number: u16,
    buffers: Buffers,
    size: usize,
    tokens: [u16; N],
}

impl<const N: usize> Ring<N> {
    fn new(device: &mut Device, number: u16, size: usize) -> Result<Self, Failure> {
        let queue = Queue::new(device, number, false, false)?;
        if !device.has_message(number) {
            return Err(Failure::Unsuitable);
        }
        Ok(Ring { queue, number, buffers: Buffers::new(N * size)?, size, tokens: [0; N] })
    }

    /// A buffer that is ours.
    fn buffer(&mut self, index: u16) -> &mut [u8] {
        // SAFETY: callers name buffers only that they have not given away, and `self` is borrowed as
        // long as the reference lives.
        unsafe { self.buffers.get(index.into(), self.size) }
    }

    /// Gives the device a buffer to be filled.
    fn offer(&mut self, index: u16) -> Result<(), Failure> {
        // SAFETY: the buffer is ours; it is not touched until `take` says that it is ours again.
        let token = unsafe {
            let buffer = self.buffers.get(index.into(), self.size);
            self.queue.add(&[], &mut [buffer])?
        };
        self.tokens[usize::from(token)] = index;
        Ok(())
    }

    /// Gives the device the first `bytes` of a buffer to be sent.
    fn send(&mut self, index: u16, bytes: usize) -> Result<(), Failure> {
        // SAFETY: as above.
        let token = unsafe {
            let buffer = self.buffers.get(index.into(), self.size);
            self.queue.add(&[&buffer[..bytes]], &mut [])?
        };
        self.tokens[usize::from(token)] = index;
        Ok(())
    }

    /// The next buffer that the device has done with, which is ours again, and the bytes in it.
    fn take(&mut self, filled: bool) -> Option<(u16, usize)> {
        let token = self.queue.peek_used()?;
        let index = *self.tokens.get(usize::from(token))?;
        // SAFETY: the same buffer that was added with this token; its address is all that counts, since
        // memory is shared without copies.
        let bytes = unsafe {
            let buffer = self.buffers.get(index.into(), self.size);
            match filled {
                true => self.queue.pop_used(token, &[], &mut [buffer]),
                false => self.queue.pop_used(token, &[buffer], &mut []),
            }
        };
        bytes.ok().map(|bytes| (index, (bytes as usize).min(self.size)))
    }

    fn notify(&self, device: &mut Device) {
        if self.queue.should_notify() {
            device.notify(self.number);
        }
    }
}

/// A buffer with bytes that nobody has read yet.
struct Filled {
    index: u16,
    start: usize,
    end: usize,
}

struct Input {
    ring: Ring<INPUTS>,
    filled: VecDeque<Filled>,
    bytes: usize,
}

impl Input {
    /// Notes what has come. Answers whether something has.
    fn collect(&mut self) -> bool {
        let before = self.bytes;
        while let Some((index, end)) = self.ring.take(true) {
            self.filled.push_back(Filled { index, start: 0, end });
            self.bytes += end;
        }
        self.bytes > before
    }
}

struct Output {
    ring: Ring<OUTPUTS>,
    free: Vec<u16>,
}

impl Output {
    fn collect(&mut self) {
        while let Some((index, _)) = self.ring.take(false) {
            self.free.push(index);
        }
    }
    fn has_room(&self) -> bool {
        !self.free.is_empty() || self.ring.queue.can_pop()
    }
    /// Interrupts come only while there is no room.
    fn settle(&mut self, device: &Device) {
        self.collect();
        let full = self.free.is_empty();
        self.ring.queue.set_dev_notify(full);
        if full {
            device.fence();
            // It may have come in between, without an interrupt.
            self.collect();
        }
    }
}

/// See the head of this file.
pub struct Console {
    // The device is reset before the memory of its queues goes.
    device: Device,
    control_in: Ring<CONTROLS>,
    control_out: Ring<CONTROLS>,
    input: Input,
    /// Of the ports that there are.
    outputs: Vec<Output>,
    /// The host has closed its end of these ports.
    closed: [bool; PORTS],
}

/// What an interrupt was about.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Something has come in.
    pub input: bool,
    /// A port has room that had none, or is closed.
    pub room: bool,
}

impl Console {
    /// Sets the device up, and opens all ports. The device may take `patience` ticks of the time-stamp
    /// counter to say what ports there are.
    pub fn start(mut device: Device, patience: u64) -> Result<Console, Failure> {
        let features = device.negotiate(VERSION_1 | MULTIPORT);
        if features != Some(VERSION_1 | MULTIPORT) {
            return Err(Failure::Unsuitable);
        }
        let ports = device.read_config_space::<u32>(MAX_PORTS)?.saturating_sub(1) as usize;
        if ports < STREAMS {
            return Err(Failure::Unsuitable);
        }
        let output = |device: &mut Device, port: usize| -> Result<Output, Failure> {
            let ring = Ring::new(device, queue_in(port) + 1, OUTPUT_BYTES)?;
            Ok(Output { ring, free: (0..OUTPUTS as u16).collect() })
        };
        let mut console = Console {
            control_in: Ring::new(&mut device, CONTROL_IN, CONTROL_BYTES)?,
            control_out: Ring::new(&mut device, CONTROL_OUT, CONTROL_BYTES)?,
            input: Input {
                ring: Ring::new(&mut device, queue_in(INPUT), INPUT_BYTES)?,
                filled: VecDeque::with_capacity(INPUTS),
                bytes: 0,
            },
            outputs: (0..ports.min(PORTS))
                .map(|port| output(&mut device, port))
                .collect::<Result<_, _>>()?,
            closed: [false; PORTS],
            device,
        };
        console.device.finish_init();
        console.open_ports(patience)?;
        Ok(console)
    }

    fn open_ports(&mut self, patience: u64) -> Result<(), Failure> {
        (0..CONTROLS as u16).try_for_each(|index| self.control_in.offer(index))?;
        self.control_in.notify(&mut self.device);
        (0..INPUTS as u16).try_for_each(|index| self.input.ring.offer(index))?;
        // What was sent is of no interest any more when the device has taken it.
        self.control_out.queue.set_dev_notify(false);
        let Console { device, outputs, .. } = self;
        outputs.iter_mut().for_each(|output| output.settle(device));
        self.say(0, control::DEVICE_READY, 1)?;
        let (mut known, began) = ([false; PORTS], ticks());
        let ports = self.outputs.len();
        while known[..ports].contains(&false) {
            if ticks() - began > patience {
                return Err(Failure::Unsuitable);
            }
            self.hear(&mut known);
            spin_loop();
        }
        for port in 1..=ports as u32 {
            self.say(port, control::PORT_READY, 1)?;
            self.say(port, control::PORT_OPEN, 1)?;
        }
        self.input.ring.notify(&mut self.device);
        Ok(())
    }

    /// Has this dispatcher notified of interrupts, with these bits.
    pub fn listen(&self, bits: u64) -> Result<(), Status> {
        self.device.listen(bits)
    }

    /// Sends a control message.
    fn say(&mut self, port: u32, event: u16, value: u16) -> Result<(), Failure> {
        let words = u64::from(port) | u64::from(event) << 32 | u64::from(value) << 48;
        // Messages are sent at the start alone, no more of them than there are buffers.
        let used = CONTROLS - self.control_out.queue.available_desc();
        let index = match self.control_out.take(false) {
            Some((index, _)) => index,
            None => used as u16,
        };
        if usize::from(index) >= CONTROLS {
            return Err(Failure::Unsuitable);
        }
        self.control_out.buffer(index)[..8].copy_from_slice(&words.to_le_bytes());
        self.control_out.send(index, 8)?;
        self.control_out.notify(&mut self.device);
        Ok(())
    }

    /// Takes the control messages that have come. Notes which ports were added, and which the host opened
    /// or closed; answers whether one of them was closed.
    fn hear(&mut self, added: &mut [bool; PORTS]) -> bool {
        let mut closed = false;
        let mut heard = false;
        while let Some((index, bytes)) = self.control_in.take(true) {
            heard = true;
            let mut words = [0; 8];
            if bytes >= words.len() {
                words.copy_from_slice(&self.control_in.buffer(index)[..8]);
            }
            let words = u64::from_le_bytes(words);
            let (number, event, value) = (words as u32, (words >> 32) as u16, words >> 48);
            let port = (number as usize).wrapping_sub(1);
            match event {
                control::PORT_ADD if port < PORTS => added[port] = true,
                control::PORT_OPEN if port < PORTS => {
                    self.closed[port] = value == 0;
                    closed |= value == 0;
                }
                _ => {}
            }
            // There is room: it was there before.
            let _ = self.control_in.offer(index);
        }
        if heard {
            self.control_in.notify(&mut self.device);
        }
        closed
    }

    /// Looks what has changed.
    pub fn interrupt(&mut self) -> Changes {
        let closed = self.hear(&mut [false; PORTS]);
        let mut room = closed;
        let Console { device, outputs, .. } = self;
        for output in outputs {
            let was_full = output.free.is_empty();
            if was_full {
                output.settle(device);
                room |= !output.free.is_empty();
            }
        }
        Changes { input: self.input.collect() || closed, room }
    }

    /// Has the host closed its end of the port?
    pub fn is_closed(&self, port: usize) -> bool {
        self.closed[port]
    }

    /// Bytes that wait to be read.
    pub fn unread(&self) -> usize {
        self.input.bytes
    }

    /// Hands up to `most` of the bytes that have come to `take`, piece by piece, and forgets them. Answers how
    /// many they were.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(usize, &[u8])) -> usize {
        let Console { input, device, .. } = self;
        let (mut done, mut offered) = (0, false);
        while done < most {
            let Some(first) = input.filled.front_mut() else { break };
            let bytes = (first.end - first.start).min(most - done);
            let (index, from) = (first.index, first.start);
            first.start += bytes;
            let is_empty = first.start == first.end;
            take(done, &input.ring.buffer(index)[from..from + bytes]);
            done += bytes;
            if is_empty {
                input.filled.pop_front();
                // There is room: it was there before.
                let _ = input.ring.offer(index);
                offered = true;
            }
        }
        input.bytes -= done;
        if offered {
            input.ring.notify(device);
        }
        done
    }

    /// Is there such a port?
    pub fn has_port(&self, port: usize) -> bool {
        port < self.outputs.len()
    }

    /// Is there room for output of a port?
    #[inline]
    pub fn has_room(&self, port: usize) -> bool {
        self.closed[port] || self.outputs[port].has_room()
    }

    /// Sends up to `most` bytes, which `fill` puts into a buffer and counts. Answers how many it put there:
    /// none if there is no room. Bytes for a port that is closed are gone.
    pub fn write(
        &mut self,
        port: usize,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> usize {
        let output = &mut self.outputs[port];
        if output.free.is_empty() {
            output.collect();
        }
        let Some(&index) = output.free.last() else { return 0 };
        let buffer = output.ring.buffer(index);
        let most = most.min(buffer.len());
        let bytes = fill(&mut buffer[..most]).min(most);
        if bytes == 0 || self.closed[port] {
            return bytes;
        }
        // There is room for as many as there are buffers.
        if output.ring.send(index, bytes).is_ok() {
            output.free.pop();
            output.ring.notify(&mut self.device);
        }
        if output.free.is_empty() {
            output.settle(&self.device);
        }
        bytes
    }

    /// Has the host taken everything that was sent on ports that it has not closed?
    pub fn is_drained(&mut self) -> bool {
        let Console { device, outputs, closed, .. } = self;
        outputs.iter_mut().zip(closed).all(|(output, closed)| {
            output.collect();
            // From here on every buffer counts.
            output.ring.queue.set_dev_notify(true);
            if output.free.len() < OUTPUTS {
                device.fence();
                output.collect();
            }
            *closed || output.free.len() == OUTPUTS
        })
    }
}

fn ticks() -> u64 {
    // SAFETY: reads the time-stamp counter, which every x86-64 has.
    unsafe { core::arch::x86_64::_rdtsc() }
}
