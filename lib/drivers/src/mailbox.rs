//! A Frame with requests and answers between a server that must not wait and another one that has a device, and waits for it
//! ([`ninep::serve`] says what is where in it).
//!
//! Neither believes the other: what is there is copied before it is looked at, and a wrong word means no more than that nothing has come.

use alloc::vec;
use alloc::vec::Vec;
use core::ptr::{copy_nonoverlapping, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use libos::vspace::RW;
use libos::{domain, Cap, CapAddr, Status};
use ninep::serve::{place, ANSWERED, FRAME, FREE, MESSAGE, PLACES, USER};

/// The Frame, mapped for good.
struct Map(NonNull<u8>);

impl Map {
    fn new(frame: CapAddr) -> Result<Map, Status> {
        let va = domain::with(|domain| domain.map(frame.into(), 0, bytes(), RW))?;
        NonNull::new(va as *mut u8).map(Map).ok_or(Status::NoMemory)
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < PLACES);
        // SAFETY: inside of the Frame, aligned, and used as an atomic word by everybody.
        unsafe { &*self.0.as_ptr().cast::<AtomicU64>().add(number) }
    }

    fn copy_in(&self, offset: usize, from: &[u8]) {
        assert!(offset + from.len() <= FRAME);
        // SAFETY: inside of the Frame, of which no references are made.
        unsafe { copy_nonoverlapping(from.as_ptr(), self.0.as_ptr().add(offset), from.len()) }
    }

    fn copy_out(&self, offset: usize, to: &mut [u8]) {
        assert!(offset + to.len() <= FRAME);
        // SAFETY: as above.
        unsafe { copy_nonoverlapping(self.0.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
    }

    /// A message with its size in front, and `more` bytes behind it.
    fn message<'b>(&self, offset: usize, more: usize, to: &'b mut [u8]) -> &'b [u8] {
        let mut size = [0; 4];
        self.copy_out(offset, &mut size);
        let bytes = (u32::from_le_bytes(size) as usize).saturating_add(more).min(to.len());
        self.copy_out(offset, &mut to[..bytes]);
        &to[..bytes]
    }
}

/// Bytes of the Frame, in whole pages.
pub const fn bytes() -> u64 {
    (FRAME as u64).next_multiple_of(libos::PAGE)
}

/// Whoever asks.
pub struct Asker {
    map: Map,
    /// Notified of requests.
    other: CapAddr,
    free: Vec<u16>,
    /// Of the last request.
    order: u64,
    is_gone: bool,
    buffer: Vec<u8>,
}

impl Asker {
    /// Of a Frame that nobody has used, and the endpoint of whoever answers.
    pub fn new(frame: CapAddr, other: CapAddr) -> Result<Asker, Status> {
        let free = (0..PLACES as u16).rev().collect();
        let map = Map::new(frame)?;
        Ok(Asker { map, other, free, order: ANSWERED, is_gone: false, buffer: vec![0; MESSAGE] })
    }

    /// Nobody answers any more: what was asked is answered with nothing, and nothing is sent.
    pub fn give_up(&mut self) {
        self.is_gone = true;
    }

    /// A place for a request, if there is one.
    pub fn place(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Sends a request, which `fill` puts into a buffer: its bytes, or none if there is to be no request. Its place; `None`:
    /// nothing was sent.
    pub fn send(&mut self, fill: impl FnOnce(u16, &mut [u8]) -> Option<usize>) -> Option<u16> {
        let number = self.place().filter(|_| !self.is_gone)?;
        let bytes = fill(number, &mut self.buffer)?.min(MESSAGE);
        self.map.copy_in(place(number.into()).0, &self.buffer[..bytes]);
        self.order += 1;
        self.map.word(number.into()).store(self.order, Ordering::Release);
        self.free.pop();
        // Whoever is gone is not told: that is found out otherwise.
        let _ = self.other.notify(1);
        Some(number)
    }

    /// Shows `look` an answer, and its place, which is free afterwards. `false`: there is none.
    pub fn answer(&mut self, look: impl FnOnce(u16, &[u8])) -> bool {
        let taken = (0..PLACES as u16).filter(|number| !self.free.contains(number));
        let is_there = |&number: &u16| {
            self.is_gone || self.map.word(number.into()).load(Ordering::Acquire) == ANSWERED
        };
        let Some(number) = { taken }.find(is_there) else { return false };
        let answer = match self.is_gone {
            true => &[],
            false => self.map.message(place(number.into()).1, 0, &mut self.buffer),
        };
        look(number, answer);
        self.map.word(number.into()).store(FREE, Ordering::Release);
        self.free.push(number);
        true
    }
}

/// Whoever answers.
pub struct Answerer {
    map: Map,
    /// Notified of answers.
    other: CapAddr,
    bits: u64,
    buffer: Vec<u8>,
}

impl Answerer {
    /// Of a Frame, and the endpoint of whoever asks, which is notified with these bits.
    pub fn new(frame: CapAddr, other: CapAddr, bits: u64) -> Result<Answerer, Status> {
        Ok(Answerer { map: Map::new(frame)?, other, bits, buffer: vec![0; MESSAGE] })
    }

    /// The place of the oldest request, and the request.
    pub fn request(&mut self) -> Option<(usize, &[u8])> {
        let words =
            (0..PLACES).map(|number| (self.map.word(number).load(Ordering::Acquire), number));
        let (_, number) = words.filter(|&(word, _)| word > ANSWERED).min()?;
        Some((number, self.map.message(place(number).0, USER, &mut self.buffer)))
    }

    /// Answers the request at a place.
    pub fn answer(&mut self, number: usize, answer: &[u8]) {
        self.map.copy_in(place(number).1, &answer[..answer.len().min(MESSAGE)]);
        self.map.word(number).store(ANSWERED, Ordering::Release);
        // As above.
        let _ = self.other.notify(self.bits);
    }
}
