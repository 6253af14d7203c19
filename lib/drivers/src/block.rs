//! The virtio block device (virtio 1.2, 5.2): runs of sectors are read and written without waiting, and come back in any order.
//!
//! A request has a place, with a buffer for its data, which is its until the answer was looked at; there are [`PLACES`] of them. Data is copied into
//! the buffer and out of it. What was written is lasting only when a flush that was begun after its answer is answered, too.

use crate::chains::{Chains, Data, Parts};
use crate::dma::Buffers;
use crate::transport::Device;
use crate::Failure;
use alloc::vec::Vec;
use core::sync::atomic::{fence, Ordering};
use libos::{CapAddr, Status};
use virtio_drivers::transport::Transport;

/// Features: the device is one of today, can only be read, knows flushes.
const VERSION_1: u64 = 1 << 32;
const READ_ONLY: u64 = 1 << 5;
const FLUSH: u64 = 1 << 9;
/// Where the device's configuration has the number of sectors.
const CAPACITY: usize = 0;

const QUEUE: u16 = 0;
/// Requests that the device has at once, at most.
pub const PLACES: usize = 16;
/// Each is a header, data, and a byte that says how it went; the next power of two.
const DESCRIPTORS: usize = 64;
/// Bytes of a sector, whatever the device's own blocks are.
pub const SECTOR: usize = 512;
/// Bytes that a request reads or writes at most, unless the driver was started with others.
pub const MOST_BYTES: usize = 32 * 1024;

/// Header and status of a request: its part of the one page for all of them.
const HEADER: usize = 16;
const SMALL: usize = 32;

/// What a request is, as its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read = 0,
    Write = 1,
    Flush = 4,
}

/// Why a request was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The device failed.
    Device,
    /// It does not know such requests.
    Unsupported,
}

/// Why a request was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// All places are taken: after the next answer there is one.
    Busy,
    /// The sectors are not there, are none, are more than fit in a request, or cannot be written.
    Invalid,
}

/// A request that the device has.
#[derive(Clone, Copy)]
struct Pending {
    kind: Kind,
    bytes: usize,
}

/// The device, and what it has been given.
pub struct Block {
    // The device is reset before the memory of its queue goes.
    device: Device,
    queue: Chains<DESCRIPTORS>,
    /// The data of each place, and how much that is.
    data: Buffers,
    most: usize,
    /// Header and status of each place.
    small: Buffers,
    free: Vec<u16>,
    /// What the device has, by place.
    pending: [Option<Pending>; PLACES],
    sectors: u64,
    read_only: bool,
    flushes: bool,
    /// The device was not told of the last request: it was still at those before.
    is_untold: bool,
}

impl Block {
    /// Sets the device up.
    pub fn start(device: Device) -> Result<Block, Failure> {
        Block::with_buffers(device, MOST_BYTES)
    }

    /// Sets the device up for requests of at most so many bytes.
    pub fn with_buffers(mut device: Device, most: usize) -> Result<Block, Failure> {
        let known = VERSION_1 | READ_ONLY | FLUSH;
        let features = device.negotiate(known).filter(|both| both & VERSION_1 != 0);
        let features = features.ok_or(Failure::Unsuitable)?;
        let data = Buffers::new(PLACES * most)?;
        let small = Buffers::new(PLACES * SMALL)?;
        let queue = Chains::new(&mut device, QUEUE, PLACES, |place| {
            // SAFETY: the device has none of them yet, and only their addresses are looked at.
            let (first, data, last) = unsafe { parts(&data, &small, most, place) };
            Parts { first, data, last }
        })?;
        if !device.has_message(QUEUE) {
            return Err(Failure::Unsuitable);
        }
        // In halves: its registers have 32 bits.
        let [low, high] = [CAPACITY, CAPACITY + 4].map(|at| device.read_config_space::<u32>(at));
        let sectors = u64::from(low?) | u64::from(high?) << 32;
        device.finish_init();
        Ok(Block {
            device,
            queue,
            data,
            most,
            small,
            free: (0..PLACES as u16).collect(),
            pending: [None; PLACES],
            sectors,
            read_only: features & READ_ONLY != 0,
            flushes: features & FLUSH != 0,
            is_untold: false,
        })
    }

    /// For who is about to wait for an answer: tells the device of what it was not told of, if it is at nothing by now. Nothing of that is needed where a
    /// fence is one; QEMU 7.2 makes none of it for a machine with one core, though the device runs beside that, and so it may have
    /// stopped looking without having seen the last request.
    pub fn nudge(&mut self) {
        if self.is_untold && self.queue.wants_notice() {
            self.is_untold = false;
            self.device.notify(self.queue.queue());
        }
    }

    /// Has this dispatcher notified of answers, with these bits.
    pub fn listen(&self, bits: u64) -> Result<(), Status> {
        self.device.listen(bits)
    }

    /// Does the device interrupt for answers? Who has it do so again looks whether one has come before it waits; who does not, looks for
    /// answers by itself, and an interrupt may come still.
    pub fn interrupts(&mut self, are_wanted: bool) {
        self.queue.interrupts(are_wanted);
        // Before the next look for an answer.
        fence(Ordering::SeqCst);
    }

    /// Its size.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Can it only be read?
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Does a flush do anything? Else what was written lasts.
    pub fn can_flush(&self) -> bool {
        self.flushes
    }

    /// How many requests can be sent now.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Begins to read sectors. Answers the request's place.
    pub fn read(&mut self, first: u64, sectors: usize) -> Result<u16, Refusal> {
        let bytes = self.bytes(first, sectors)?;
        self.send(Kind::Read, first, bytes, |_| ())
    }

    /// Begins to write sectors, whose contents `fill` puts into a buffer. Answers the request's place.
    pub fn write(
        &mut self,
        first: u64,
        sectors: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u16, Refusal> {
        let bytes = self.bytes(first, sectors)?;
        if self.read_only {
            return Err(Refusal::Invalid);
        }
        self.send(Kind::Write, first, bytes, fill)
    }

    /// Takes a free place for a request that is put together before it is sent: [`buffer`](Self::buffer) is its memory. `None`: all are taken.
    pub fn hold(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// The buffer of a place: a Frame, and its first byte there. It is the holder's until it is sent, and once more from when the answer is there until
    /// somebody else has the place.
    pub fn buffer(&self, place: u16) -> (CapAddr, u64) {
        (self.data.frame(), (usize::from(place) * self.most) as u64)
    }

    /// Begins to write the buffer of a place that is held to sectors, or to read them to there. If it is refused, the place is held as before.
    pub fn send_held(
        &mut self,
        place: u16,
        first: u64,
        sectors: usize,
        writes: bool,
    ) -> Result<(), Refusal> {
        let bytes = self.bytes(first, sectors)?;
        if writes && self.read_only {
            return Err(Refusal::Invalid);
        }
        let kind = if writes { Kind::Write } else { Kind::Read };
        self.send_place(place, kind, (first, bytes), |_| ())
    }

    /// Looks for the next answer to a request that was held before it was sent: its place, which is held again, and whether it was done.
    pub fn answer_held(&mut self) -> Option<(u16, Result<(), Error>)> {
        let mut answered = None;
        self.answer(|place, result| answered = Some((place, result.map(|_| ()))));
        if answered.is_some() {
            // It was freed last.
            self.free.pop();
        }
        answered
    }

    /// A place is free again.
    pub fn release(&mut self, place: u16) {
        debug_assert!(!self.free.contains(&place));
        self.free.push(place);
    }

    /// Begins a flush: when it is answered, all writes are lasting that were answered before it began.
    pub fn flush(&mut self) -> Result<u16, Refusal> {
        if !self.flushes {
            return Err(Refusal::Invalid);
        }
        self.send(Kind::Flush, 0, 0, |_| ())
    }

    /// Shows `look` the next answer: its place, which is free afterwards, and what was read. `false`: there is none.
    pub fn answer(&mut self, look: impl FnOnce(u16, Result<&[u8], Error>)) -> bool {
        let Some(place) = self.queue.answer() else { return false };
        // What it does not have it cannot give back.
        let pending = self.pending.get_mut(usize::from(place)).and_then(Option::take);
        let Some(Pending { kind, bytes }) = pending else { return false };
        // SAFETY: the device has given the place back; nobody here has touched it since.
        let (_, data, status) = unsafe { self.parts(place) };
        let data = &data[..bytes];
        match (status[0], kind) {
            (0, Kind::Read) => look(place, Ok(data)),
            (0, _) => look(place, Ok(&[])),
            (2, _) => look(place, Err(Error::Unsupported)),
            _ => look(place, Err(Error::Device)),
        }
        self.free.push(place);
        true
    }

    /// The bytes of a run of sectors that there is.
    fn bytes(&self, first: u64, sectors: usize) -> Result<usize, Refusal> {
        let end = first.checked_add(sectors as u64).ok_or(Refusal::Invalid)?;
        let fits = (1..=self.most / SECTOR).contains(&sectors) && end <= self.sectors;
        fits.then_some(sectors * SECTOR).ok_or(Refusal::Invalid)
    }

    fn send(
        &mut self,
        kind: Kind,
        sector: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u16, Refusal> {
        let &place = self.free.last().ok_or(Refusal::Busy)?;
        self.send_place(place, kind, (sector, bytes), fill)?;
        self.free.pop();
        Ok(place)
    }

    /// Sends a request of a place that nobody else has.
    fn send_place(
        &mut self,
        place: u16,
        kind: Kind,
        (sector, bytes): (u64, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Refusal> {
        // SAFETY: the place is free or held, so neither the device nor anybody here has its buffers.
        let (header, data, status) = unsafe { self.parts(place) };
        header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        header[4..8].fill(0);
        header[8..].copy_from_slice(&sector.to_le_bytes());
        // No answer: of a device that writes none.
        status[0] = 0xff;
        fill(&mut data[..bytes]);
        let entry = self.pending.get_mut(usize::from(place)).ok_or(Refusal::Busy)?;
        *entry = Some(Pending { kind, bytes });
        // Nobody touches the place until the device has given it back.
        let wants_notice = self.queue.send(
            place,
            match kind {
                Kind::Read => Data::Written(bytes),
                Kind::Write => Data::Read(bytes),
                Kind::Flush => Data::None,
            },
        );
        self.is_untold = !wants_notice;
        if wants_notice {
            self.device.notify(self.queue.queue());
        }
        Ok(())
    }

    /// Header, data and status of a place.
    ///
    /// # Safety
    /// The device does not have them now, and there are no other references to them.
    #[allow(clippy::mut_from_ref)]
    unsafe fn parts<'a>(&self, place: u16) -> (&'a mut [u8], &'a mut [u8], &'a mut [u8]) {
        // SAFETY: the caller's promise.
        unsafe { parts(&self.data, &self.small, self.most, usize::from(place)) }
    }
}

/// The same of buffers that are no device's yet.
///
/// # Safety
/// The same.
unsafe fn parts<'a>(
    data: &Buffers,
    small: &Buffers,
    most: usize,
    place: usize,
) -> (&'a mut [u8], &'a mut [u8], &'a mut [u8]) {
    // SAFETY: different buffers, mapped for good; the rest is the caller's promise.
    unsafe {
        let data = &mut *(data.get(place, most) as *mut [u8]);
        let small = &mut *(small.get(place, SMALL) as *mut [u8]);
        let (header, status) = small.split_at_mut(HEADER);
        (header, data, &mut status[..1])
    }
}
