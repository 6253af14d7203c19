//! The virtio network device (virtio 1.2, 5.1): frames go out, and come in, in buffers that it shares.
//!
//! A frame that came is in a buffer until that is [given back](Receiver::give_back); a frame that goes is written into one that is free. The
//! device is told of several at once ([`Net::kick`]), and interrupts for frames that it has sent only while somebody waits for room.

use crate::dma::{Buffers, Memory};
use crate::transport::Device;
use crate::Failure;
use alloc::vec::Vec;
use libos::Status;
use virtio_drivers::transport::Transport;

/// Features: the device is one of today, sums what is sent, takes what was not summed, says how long packets may be, has an address.
const VERSION_1: u64 = 1 << 32;
const SUMS: u64 = 1;
const UNSUMMED: u64 = 1 << 1;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
/// Where the device's configuration has the address, and the length.
const MAC_AT: usize = 0;
const MTU_AT: usize = 10;

const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// Buffers of each direction.
const BUFFERS: usize = 128;
/// Bytes of one: a head of the device's, and a frame.
const SIZE: usize = 2048;
/// The head: flags; the kind of segments, their heads and bytes; from where on is summed, and where behind that the sum is; buffers. All of it is zeros where the device has nothing to do.
const HEAD: usize = 12;
const FROM_AT: usize = 6;
const SUM_AT: usize = 8;
/// Flags: the sum is to be completed; it was looked at.
const TO_SUM: u8 = 1;
const IS_RIGHT: u8 = 2;
/// Most bytes of a packet, if the device does not say.
const USUAL_MTU: u16 = 1500;
/// Least: what everybody must be able to take.
const LEAST_MTU: u16 = 576;
/// Bytes of the head of an Ethernet frame.
const ETHERNET: usize = 14;

type Queue = virtio_drivers::queue::VirtQueue<Memory, BUFFERS>;

/// The device, and what it has been given.
pub struct Net {
    /// What sends. The device is reset before the memory of its queues goes.
    pub sender: Sender,
    /// What receives.
    pub receiver: Receiver,
    mac: [u8; 6],
    mtu: u16,
    sums: bool,
}

/// A sum that the device completes: from where on is summed, and where behind that the sum is. There is that of the head that the network makes up (RFC 9293, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToSum {
    pub from: u16,
    pub at: u16,
}

/// What is known of the sum of a frame that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Nothing.
    Unknown,
    /// It is right, or was not made since nothing can have become of it.
    Right,
    /// The same, but it is not in the frame.
    Missing(ToSum),
}

/// Frames that come.
pub struct Receiver {
    queue: Queue,
    buffers: Buffers,
    /// The buffer of what the device has, by the descriptor that names it.
    tokens: [u16; BUFFERS],
    /// There are buffers of which the device was not told.
    has_offered: bool,
}

/// Frames that go.
pub struct Sender {
    device: Device,
    queue: Queue,
    buffers: Buffers,
    tokens: [u16; BUFFERS],
    free: Vec<u16>,
    /// There are frames of which the device was not told and which it has not sent.
    has_sent: bool,
    longest: usize,
    sums: bool,
}

/// A frame that has come, until it is given back.
pub struct Came {
    buffer: u16,
    bytes: usize,
}

impl Net {
    /// Sets the device up.
    pub fn start(mut device: Device) -> Result<Net, Failure> {
        let features = device.negotiate(VERSION_1 | MTU | MAC | SUMS | UNSUMMED).unwrap_or(0);
        let sums = features & (SUMS | UNSUMMED) == SUMS | UNSUMMED;
        if features & (VERSION_1 | MAC) != VERSION_1 | MAC {
            return Err(Failure::Unsuitable);
        }
        let receive = Queue::new(&mut device, RECEIVE, false, false)?;
        let mut send = Queue::new(&mut device, SEND, false, false)?;
        if !device.has_message(RECEIVE) || !device.has_message(SEND) {
            return Err(Failure::Unsuitable);
        }
        let mac = device.read_config_space::<[u8; 6]>(MAC_AT)?;
        let mtu = match features & MTU {
            0 => USUAL_MTU,
            _ => device.read_config_space::<u16>(MTU_AT)?.clamp(LEAST_MTU, USUAL_MTU),
        };
        send.set_dev_notify(false);
        let receiver = Receiver {
            queue: receive,
            buffers: Buffers::new(BUFFERS * SIZE)?,
            tokens: [0; BUFFERS],
            has_offered: false,
        };
        let buffers = Buffers::new(BUFFERS * SIZE)?;
        device.finish_init();
        let sender = Sender {
            device,
            queue: send,
            buffers,
            tokens: [0; BUFFERS],
            free: (0..BUFFERS as u16).collect(),
            has_sent: false,
            longest: ETHERNET + usize::from(mtu),
            sums,
        };
        let mut net = Net { sender, receiver, mac, mtu, sums };
        for buffer in 0..BUFFERS as u16 {
            net.receiver.offer(buffer)?;
        }
        net.kick();
        Ok(net)
    }

    /// Has this dispatcher notified of frames that have come, and of room, with these bits.
    pub fn listen(&self, bits: u64) -> Result<(), Status> {
        self.sender.device.listen(bits)
    }

    /// Its address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Does it sum what is sent, and says what is known of the sums of what comes?
    pub fn sums(&self) -> bool {
        self.sums
    }

    /// Most bytes of a packet.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Tells the device of frames to send, and of buffers. Whoever is about to wait does so once more: a device that looked at its queues need not have seen the last
    /// of them where an emulator makes nothing of fences ([`Block::nudge`](crate::block::Block::nudge)).
    pub fn kick(&mut self) {
        let Net { sender, receiver, .. } = self;
        if sender.has_sent {
            sender.collect();
            if sender.queue.should_notify() {
                sender.has_sent = false;
                sender.device.notify(SEND);
            }
        }
        if receiver.has_offered && receiver.queue.should_notify() {
            receiver.has_offered = false;
            sender.device.notify(RECEIVE);
        }
    }
}

impl Receiver {
    fn offer(&mut self, buffer: u16) -> Result<(), Failure> {
        // SAFETY: the buffer is not the device's, and nobody touches it until it has been filled.
        let token = unsafe {
            let bytes = self.buffers.get(buffer.into(), SIZE);
            self.queue.add(&[], &mut [bytes])?
        };
        self.tokens[usize::from(token)] = buffer;
        self.has_offered = true;
        Ok(())
    }

    /// The next frame that has come.
    pub fn take(&mut self) -> Option<Came> {
        let token = self.queue.peek_used()?;
        let &buffer = self.tokens.get(usize::from(token))?;
        // SAFETY: the buffer that was added with this token; its address is all that counts.
        let bytes = unsafe {
            let bytes = self.buffers.get(buffer.into(), SIZE);
            self.queue.pop_used(token, &[], &mut [bytes])
        };
        Some(Came { buffer, bytes: (bytes.ok()? as usize).clamp(HEAD, SIZE) })
    }

    /// Its bytes.
    pub fn bytes(&self, came: &Came) -> &[u8] {
        // SAFETY: `came` says that the buffer is not the device's; it is only read as long as the reference lives.
        let bytes = unsafe { self.buffers.get(came.buffer.into(), SIZE) };
        &bytes[HEAD..came.bytes]
    }

    /// What the device knows of its sum. It may say anything.
    pub fn sum(&self, came: &Came) -> Sum {
        // SAFETY: as in `bytes`.
        let head = unsafe { self.buffers.get(came.buffer.into(), SIZE) };
        let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        match head[0] & (TO_SUM | IS_RIGHT) {
            0 => Sum::Unknown,
            IS_RIGHT => Sum::Right,
            _ => Sum::Missing(ToSum { from: word(FROM_AT), at: word(SUM_AT) }),
        }
    }

    /// The device has the buffer again.
    pub fn give_back(&mut self, came: Came) {
        // An error: the queue has fewer places than it was made with. Then there is one buffer less.
        let _ = self.offer(came.buffer);
    }
}

impl Sender {
    /// Is there room for a frame? If not, there is an interrupt when there is some.
    pub fn has_room(&mut self) -> bool {
        self.collect();
        if self.free.is_empty() {
            self.queue.set_dev_notify(true);
            self.device.fence();
            // It may have come before that was said.
            self.collect();
        }
        !self.free.is_empty()
    }

    /// Buffers with frames that were sent are free.
    fn collect(&mut self) {
        while let Some(token) = self.queue.peek_used() {
            let Some(&buffer) = self.tokens.get(usize::from(token)) else { return };
            // SAFETY: as above.
            let done = unsafe {
                let bytes = self.buffers.get(buffer.into(), SIZE);
                self.queue.pop_used(token, &[bytes], &mut [])
            };
            if done.is_err() {
                return;
            }
            if self.free.is_empty() {
                self.queue.set_dev_notify(false);
            }
            self.free.push(buffer);
        }
        self.has_sent &= self.free.len() < BUFFERS;
    }

    /// Does the device sum what it is told to?
    pub fn sums(&self) -> bool {
        self.sums
    }

    /// Sends a frame of `bytes`, which `fill` writes; it says what the device is to sum. `Err`: there is no room, or it is too long.
    pub fn send<R, F: FnOnce(&mut [u8]) -> (R, Option<ToSum>)>(
        &mut self,
        bytes: usize,
        fill: F,
    ) -> Result<R, F> {
        if bytes > self.longest || !self.has_room() {
            return Err(fill);
        }
        let Some(buffer) = self.free.pop() else { return Err(fill) };
        // SAFETY: it is free, so neither the device's nor anybody's.
        let all = unsafe { self.buffers.get(buffer.into(), SIZE) };
        all[..HEAD].fill(0);
        let (result, to_sum) = fill(&mut all[HEAD..HEAD + bytes]);
        if let Some(ToSum { from, at }) = to_sum.filter(|_| self.sums) {
            all[0] = TO_SUM;
            all[FROM_AT..SUM_AT].copy_from_slice(&from.to_le_bytes());
            all[SUM_AT..SUM_AT + 2].copy_from_slice(&at.to_le_bytes());
        }
        // SAFETY: it is not touched until the device has given it back.
        match unsafe { self.queue.add(&[&all[..HEAD + bytes]], &mut []) } {
            Ok(token) => {
                self.tokens[usize::from(token)] = buffer;
                self.has_sent = true;
            }
            // As if it had been lost.
            Err(_) => self.free.push(buffer),
        }
        Ok(result)
    }
}
