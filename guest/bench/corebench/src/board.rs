//! A page that all parts have: what they are to do, and how far they are.

use crate::PAGE;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use libos::interface::OwnedCap;
use libos::vspace::RW;
use libos::{domain, Status};

/// Most cores.
pub const MOST: usize = 64;

/// What a part does with the capability that it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Work {
    /// Keeps it.
    Keep = 1,
    /// Keeps it with nine more copies.
    KeepTen,
    /// Keeps it, and makes RAM of a page of it, behind its first 2 MiB, by the number of the core.
    Divide,
    /// Keeps it, a Morsel, and shows its first page alone.
    Show,
    /// Deletes it and all that it has kept.
    Drop,
    /// Deletes it, and sends core 0 a copy of new RAM that it keeps.
    Make,
    /// Ends.
    End,
}

/// The page.
pub struct Board {
    work: AtomicU32,
    /// How many orders each core has carried out; the last one wrongly if [`FAILED`] is set.
    done: [AtomicU64; MOST],
}

const FAILED: u64 = 1 << 63;

impl Board {
    /// Maps the page, for good.
    pub fn map(frame: &OwnedCap) -> Result<&'static Board, Status> {
        let base = domain::with(|domain| domain.map(frame.cap().into(), 0, PAGE, RW))?;
        // SAFETY: mapped for good; all of it is atomic, and zero at first.
        Ok(unsafe { &*(base as *const Board) })
    }

    /// What is to be done; `None` if that is nothing.
    pub fn work(&self) -> Option<Work> {
        use Work::*;
        let all = [Keep, KeepTen, Divide, Show, Drop, Make, End];
        let work = self.work.load(Ordering::Acquire);
        all.into_iter().find(|own| *own as u32 == work)
    }

    /// The next order.
    pub fn order(&self, work: Work) {
        self.work.store(work as u32, Ordering::Release);
    }

    /// How many orders a core has carried out, or that the last one went wrong.
    pub fn done(&self, core: u32) -> Result<u64, Status> {
        match self.done[core as usize % MOST].load(Ordering::Acquire) {
            count if count & FAILED == 0 => Ok(count),
            _ => Err(Status::WrongState),
        }
    }

    /// A core has carried out one more.
    pub fn report(&self, core: u32, well: bool) {
        let failed = if well { 0 } else { FAILED };
        self.done[core as usize % MOST].fetch_add(1 | failed, Ordering::AcqRel);
    }
}

/// The key of what is sent to a core.
pub fn key(core: u32) -> u64 {
    0x636f_7265_6265_6e63 ^ u64::from(core) << 8
}
