//! Where the process's objects come from: one RAM capability that is used up from its start.
//!
//! A used-up capability is dropped: the objects made of it live on, and each piece of memory goes
//! home by itself when the last capability to it dies. The more the process needs, the more it
//! asks for at a time.

use crate::process::frame;
use crate::server::{self, op};
use abi::layout::PAGE;
use abi::slots::MEMD;
use captypes::{CapAddr, CapType, ObjectKind, Place, Status};
use libos::ram::Ram;
use libos::{memd, Cap};

/// Pages asked for at first, and at most.
const FIRST: u64 = 32;
const MOST: u64 = 1024;
/// How many times more each time.
const MORE: u64 = 4;

/// RAM in a slot, and how much of it is used.
pub struct Arena {
    slot: CapAddr,
    next: u64,
    end: u64,
    pages: u64,
    /// Memory comes in smaller pieces than it was wanted in.
    is_low: bool,
    /// There was none at all, since that was asked last.
    had_none: bool,
}

impl Arena {
    /// Nothing yet.
    pub const fn new(slot: CapAddr) -> Self {
        Arena { slot, next: 0, end: 0, pages: FIRST, is_low: false, had_none: false }
    }

    /// Where the RAM is.
    #[inline(always)]
    pub fn slot(&self) -> CapAddr {
        self.slot
    }

    /// Takes `bytes`: where in the RAM they start.
    #[inline(always)]
    pub fn take(&mut self, bytes: u64) -> Result<u64, Status> {
        if bytes > self.end - self.next {
            self.refill(bytes)?;
        }
        let offset = self.next;
        self.next += bytes;
        Ok(offset)
    }

    /// Makes sure that `bytes` can be taken without asking, if there is so much memory in one piece.
    pub fn prepare(&mut self, bytes: u64) {
        if bytes > self.end - self.next {
            // Where not, it comes in smaller pieces.
            let _ = self.refill(bytes);
        }
    }

    /// Gives back what was taken last, unused.
    #[inline(always)]
    pub fn put_back(&mut self, bytes: u64) {
        self.next -= bytes;
    }

    /// Pages that can be taken without asking.
    #[inline(always)]
    pub fn pages_left(&self) -> u64 {
        (self.end - self.next) / PAGE
    }

    /// Is there little memory, as far as is known from what there was?
    #[inline(always)]
    pub fn is_low(&self) -> bool {
        self.is_low
    }

    /// The same, and something is done about it now.
    pub fn take_low(&mut self) -> bool {
        core::mem::take(&mut self.is_low)
    }

    /// Has somebody found no memory at all, since this was asked last?
    pub fn take_none(&mut self) -> bool {
        core::mem::take(&mut self.had_none)
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, bytes: u64) -> Result<(), Status> {
        self.release();
        let most = bytes.max(self.pages * PAGE);
        // SAFETY: mapped as long as the process lives; what the kernel changes is atomic.
        let near = memd::near(unsafe { &*frame() });
        let mut got = memd::alloc_between(MEMD, bytes, most, near, self.slot);
        // What can leave memory makes room for what cannot.
        if got == Err(Status::NoMemory) && server::call(op::MakeMemory { bytes }).is_ok() {
            got = memd::alloc_between(MEMD, bytes, most, near, self.slot);
        }
        self.had_none |= got == Err(Status::NoMemory);
        let got = got?;
        self.is_low |= got < most;
        self.pages = (self.pages * MORE).min(MOST);
        (self.next, self.end) = (0, got);
        Ok(())
    }

    /// Drops the capability; what is left of it goes home.
    pub fn release(&mut self) {
        if self.end != 0 {
            self.slot.discard();
        }
        (self.next, self.end) = (0, 0);
    }

    /// Gives `pages` to a child, as RAM in its arena's slot. The child's arena as it must be.
    pub fn share(&mut self, child: CapAddr, pages: u64) -> Result<Arena, Status> {
        let bytes = pages * PAGE;
        let offset = self.take(bytes)?;
        let dst = Place::within(child, self.slot);
        self.slot.retype(CapType::Ram, offset, bytes, 1, dst)?;
        Ok(Arena { slot: self.slot, end: bytes, ..Arena::new(self.slot) })
    }
}

impl Ram for Arena {
    #[inline]
    fn make(
        &mut self,
        ty: impl Into<ObjectKind>,
        bytes: u64,
        count: u32,
        dst: Place,
    ) -> Result<(), Status> {
        let offset = self.take(bytes * count as u64)?;
        self.slot.retype(ty, offset, bytes, count, dst)
    }
}
