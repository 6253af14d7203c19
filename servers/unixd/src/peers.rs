//! Rings through which bytes go from one process to another without this server ([`peers`]; [decision
//! 280](../../../docs/decisions/0280-pipes-are-lent-to-their-ends.md)).
//!
//! A pipe, or a direction of a stream of local sockets, that one process writes and one reads is lent to both: each has the ring mapped, the writer to write. Whatever this server is to
//! do with the pipe, it closes the ring first, and has what is in it. While the ring is open there is nothing else in the
//! pipe, and nobody waits for it or watches it: so nothing that is told of a pipe depends on what its ends do meanwhile.
//!
//! Of a stream the process that reads may watch what comes, and looks into the ring itself ([decision
//! 291](../../../docs/decisions/0291-who-polls-looks-into-the-ring.md)).
//!
//! Of what the two say in shared memory only how many bytes there are is believed, if there is room for as many; and that an end sleeps, by which it is
//! notified once more than it need be.

use crate::caps::{errno, frame, mint, object, Slots};
use crate::descs::Descs;
use crate::frames::revoke;
use crate::procs::Pid;
use crate::ring::{READ, WRITE};
use crate::wait::Outcome;
use crate::window::Shared;
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{fence, AtomicU32, Ordering::SeqCst};
use libos::ipc::Caps;
use libos::{Cap, CapType, Rights};
use peers::{filled, further, place, CLOSED, CLOSINGS_OFFSET, RING, SLEEPS_OFFSET};
use unixproto::session::NOTE_PEER;
use unixproto::{Errno, Words};

/// Pages that a ring counts for, with its bells.
pub const PAGES: usize = RING / PAGE as usize + 4;

/// The parts that can be taken back: the bytes, and of each end its words and its bell, by which it is notified.
const BYTES: u32 = 0;
const WORDS: [u32; 2] = [1, 2];
const BELLS: [u32; 2] = [3, 4];
const PARTS: u32 = 5;
/// Most capabilities that go with an answer.
const SENT: u32 = 4;

const _: () = assert!(RING <= sockets::RING_BYTES);

/// Who has an end lent.
#[derive(Clone, Copy, PartialEq)]
struct Holder {
    pid: Pid,
    desc: u32,
}

/// Since when a process watches what comes to an end of a description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    pub pid: Pid,
    pub desc: u32,
    /// No other act of watching has this number.
    pub number: u64,
}

/// Numbers of streams whose rings were closed that somebody watches, and was not told of.
pub type Closed = Rc<RefCell<Vec<u32>>>;

/// A ring.
pub struct Ring {
    // Unmapped first.
    bytes: Shared,
    words: Shared,
    _wholes: [Slots; 2],
    parts: Slots,
    sent: Slots,
    /// Who has which end.
    holders: [Option<Holder>; 2],
    is_open: Cell<bool>,
    /// How many bytes had been read when it was closed, and how many were in it that are to be had.
    left: Cell<(u32, usize)>,
    /// Its words could not be: nothing of it is used any more.
    is_bad: Cell<bool>,
    /// Since when its reader watches it and looks into it.
    watched: Option<Watched>,
    /// Of a stream: its number, and where that is noted when the ring is closed.
    noted: Option<(u32, Closed)>,
}

impl Ring {
    /// One that is closed and empty, and lent to nobody.
    pub fn new() -> Result<Ring, Errno> {
        let wholes = [frame(RING as u64)?, frame(2 * PAGE)?];
        let parts = Slots::new(PARTS)?;
        let make = |whole: &Slots, start, bytes, part| {
            let made = whole.first().retype(CapType::Frame, start, bytes, 1, parts.at(part));
            made.map_err(errno)
        };
        make(&wholes[0], 0, RING as u64, BYTES)?;
        for which in [READ, WRITE] {
            make(&wholes[1], which as u64 * PAGE, PAGE, WORDS[which])?;
            object(CapType::Endpoint, PAGE, parts.at(BELLS[which]))?;
        }
        let ring = Ring {
            bytes: Shared::map(wholes[0].first(), RING as u64)?,
            words: Shared::map(wholes[1].first(), 2 * PAGE)?,
            _wholes: wholes,
            parts,
            sent: Slots::new(SENT)?,
            holders: [None; 2],
            is_open: Cell::new(false),
            left: Cell::new((0, 0)),
            is_bad: Cell::new(false),
            watched: None,
            noted: None,
        };
        ring.close_word(READ);
        ring.close_word(WRITE);
        Ok(ring)
    }

    fn word(&self, which: usize, offset: usize) -> &AtomicU32 {
        let at = self.words.address(which * PAGE as usize + offset, size_of::<AtomicU32>());
        // SAFETY: mapped as long as `self` lives, aligned, and used by nobody but as an atomic.
        unsafe { &*(at.unwrap_or_default() as *const AtomicU32) }
    }
    fn close_word(&self, which: usize) -> u32 {
        self.word(which, 0).fetch_or(CLOSED, SeqCst) & !CLOSED
    }

    /// The same of a stream.
    pub fn of_stream(number: u32, closed: Closed) -> Result<Ring, Errno> {
        let mut ring = Ring::new()?;
        ring.noted = Some((number, closed));
        Ok(ring)
    }

    /// Its reader, to whom it is lent now, watches it since then, and looks into it.
    pub fn set_watched(&mut self, watched: Option<Watched>) {
        self.watched = watched;
    }

    /// Does its reader look into it who watches it since then? `None`: nobody reads it.
    pub fn is_watched_since(&self, watched: Watched) -> Option<bool> {
        let Holder { pid, desc } = self.holders[READ]?;
        Some((pid, desc) == (watched.pid, watched.desc) && self.watched == Some(watched))
    }

    /// Lends an end to a process, for a description.
    ///
    /// # Errors
    /// `EBUSY`: another one has it.
    pub fn lend(&mut self, which: usize, (pid, desc): (Pid, u32)) -> Result<(), Errno> {
        let who = Holder { pid, desc };
        match self.holders[which].get_or_insert(who) == &who {
            true => Ok(()),
            false => Err(Errno::EBUSY),
        }
    }

    /// What a process gets that has an end lent: the bytes, its own words and those of the other end, and its bell.
    pub fn end(&self, which: usize, answer: Words) -> Result<Outcome, Errno> {
        let read = Rights::READ;
        let own = read.or(Rights::WRITE);
        let bytes = if which == WRITE { own } else { read };
        let all = [
            (BYTES, bytes),
            (WORDS[which], own),
            (WORDS[1 - which], read),
            (BELLS[which], Rights::RECV),
        ];
        for ((part, rights), to) in all.into_iter().zip(0..) {
            mint(self.parts.at(part), self.sent.at(to), rights)?;
        }
        Ok(Outcome::WithCaps(answer, Caps::moved(self.sent.first(), SENT)))
    }

    /// What notifies the other end, for who has one.
    ///
    /// # Errors
    /// `EBADF`: it does not. `EAGAIN`: nobody has the other one yet.
    pub fn bell(&self, which: usize, pid: Pid, answer: Words) -> Result<Outcome, Errno> {
        self.holders[which].filter(|holder| holder.pid == pid).ok_or(Errno::EBADF)?;
        self.holders[1 - which].ok_or(Errno::EAGAIN)?;
        mint(self.parts.at(BELLS[1 - which]), self.sent.first(), Rights::SEND)?;
        Ok(Outcome::WithCaps(answer, Caps::moved(self.sent.first(), 1)))
    }

    /// Is it open?
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Is it of no use any more?
    pub fn is_bad(&self) -> bool {
        self.is_bad.get()
    }

    /// Has somebody who had an end let go what he had it for?
    pub fn is_returned(&self, descs: &Descs) -> bool {
        let mut holders = self.holders.iter().flatten();
        holders.any(|holder| !descs.holds(holder.pid, holder.desc))
    }

    /// Is there anything to be done before the pipe is used?
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        self.is_open.get() || self.left.get().1 > 0
    }

    /// Is it lent at both ends, and closed and empty?
    #[inline]
    pub fn can_be_opened(&self) -> bool {
        !self.is_in_use() && !self.is_bad.get() && !self.holders.contains(&None)
    }

    /// Opens it, if that can be.
    pub fn open(&self) {
        if !self.can_be_opened() {
            return;
        }
        let count = self.left.get().0;
        for which in [READ, WRITE] {
            self.word(which, 0).store(count, SeqCst);
        }
        self.is_open.set(true);
    }

    /// How many bytes are in it, as its ends say; nothing, if they say what cannot be. It stays as it is.
    pub fn bytes(&self) -> usize {
        if !self.is_open.get() {
            return self.left.get().1;
        }
        let [read, written] = [READ, WRITE].map(|which| self.word(which, 0).load(SeqCst));
        filled(written, read).unwrap_or(0)
    }

    /// Closes it. Answers how many bytes are in it, which come before all others of the pipe.
    #[inline]
    pub fn close(&self) -> usize {
        if self.is_open.get() {
            self.close_now();
        }
        self.left.get().1
    }

    #[cold]
    #[inline(never)]
    fn close_now(&self) {
        self.is_open.set(false);
        // Who finds it closed finds that, too.
        self.word(READ, CLOSINGS_OFFSET).fetch_add(1, SeqCst);
        if let (Some(_), Some((number, closed))) = (self.watched, &self.noted) {
            closed.borrow_mut().push(*number);
        }
        let (written, read) = (self.close_word(WRITE), self.close_word(READ));
        match filled(written, read) {
            Ok(bytes) => self.left.set((read, bytes)),
            Err(_) => {
                self.is_bad.set(true);
                self.left.set((read, 0));
            }
        }
        fence(SeqCst);
        // Who sleeps there finds out that it is closed.
        for which in [READ, WRITE] {
            if self.word(which, SLEEPS_OFFSET).load(SeqCst) & 1 == 1 {
                // An error: nobody hears it.
                let _ = self.parts.at(BELLS[which]).notify(NOTE_PEER);
            }
        }
    }

    /// Has what is in it, which is closed, copied somewhere else: `copy` is told from where in `from`, where it begins among all, and how many
    /// bytes.
    pub fn take(&self, mut copy: impl FnMut(&Shared, usize, usize, usize)) {
        let (read, bytes) = self.left.get();
        let at = place(read);
        let first = bytes.min(RING - at);
        copy(&self.bytes, at, 0, first);
        if bytes > first {
            copy(&self.bytes, 0, first, bytes - first);
        }
        self.left.set((further(read, bytes), 0));
    }
}

impl sockets::Ring for Box<Ring> {
    fn is_in_use(&self) -> bool {
        (**self).is_in_use()
    }
    fn is_open(&self) -> bool {
        (**self).is_open()
    }
    fn is_bad(&self) -> bool {
        (**self).is_bad()
    }
    fn close(&self) -> usize {
        (**self).close()
    }
    fn bytes(&self) -> usize {
        (**self).bytes()
    }
    fn open(&self) {
        (**self).open();
    }
    fn take(&self, to: &mut Vec<u8>) {
        (**self).take(|from, at, _, bytes| from.append_to(to, at, bytes));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Whoever sleeps is told.
        self.close();
        for part in 0..PARTS {
            // One that others prolong for ever is theirs alone from now on: nobody else is lent this memory before it is deleted.
            let _ = revoke(self.parts.at(part));
        }
    }
}
