//! What morsels need of the machine: words of frames, an allocator of frames, and the other cores.

use crate::Refused;
use core::ops::Range;

/// The number of a physical page of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Frame(pub u64);

/// A word of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct At {
    pub frame: Frame,
    /// 0 to 511.
    pub index: usize,
}

impl At {
    pub(crate) fn new(frame: Frame, index: usize) -> At {
        At { frame, index }
    }
    /// Which cache line of the frame it is in.
    pub fn line(self) -> usize {
        self.index / WORDS
    }
}

/// Words of a cache line.
pub const WORDS: usize = 8;
/// Cache lines of a frame.
pub const LINES: usize = 64;

/// What survives when the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Everything that was stored, in the order of the stores; or nothing is meant to survive. Write-back and
    /// fence do nothing, and leaves are born accessed and dirty, so that the processor never writes them.
    Caches,
    /// What was written back before a fence, and any other line as well.
    Memory,
}

/// Words of frames. Loads acquire, stores release, exchanges do both.
pub trait Memory {
    fn load(&self, at: At) -> u64;
    fn store(&self, at: At, value: u64);
    /// # Errors
    /// What is there, if it is not `old`.
    fn compare_exchange(&self, at: At, old: u64, new: u64) -> Result<(), u64>;
    /// Begins to write a line back.
    fn write_back(&self, frame: Frame, line: usize);
    /// Returns when all that this core began to write back has arrived.
    fn fence(&self);
    fn zero(&self, frame: Frame);
    /// The same with frames in a row.
    fn zero_run(&self, first: Frame, count: usize) {
        (first.0..first.0 + count as u64).for_each(|frame| self.zero(Frame(frame)));
    }
    fn copy(&self, from: Frame, to: Frame);
    fn domain(&self) -> Domain;
}

/// Words of frames, for who only looks at them. Whatever can be stored to can be looked at.
pub trait Look {
    fn word(&self, at: At) -> u64;
}

impl<M: Memory> Look for M {
    #[inline(always)]
    fn word(&self, at: At) -> u64 {
        self.load(at)
    }
}

/// What [`Pages::reserve`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserved {
    First,
    /// It had been reserved: somebody else leads to it, too.
    Before,
    /// It is no frame of this pool.
    Outside,
}

/// The pool. Frames that it hands out have a descriptor of 0, and are given back so.
pub trait Pages {
    /// 2^`order` frames, naturally aligned; `order` is 0 or 9.
    ///
    /// # Errors
    /// [`Refused::NoMemory`] if there are none; [`Refused::Again`] if there may be, but other cores are moving them: who takes that
    /// for the former fails in a pool that has enough.
    fn take(&self, order: u8) -> Result<Frame, Refused>;
    /// A frame, if there is one at hand; else [`take`](Self::take) may still find one.
    fn take_next(&self) -> Option<Frame> {
        self.take(0).ok()
    }
    /// Does it get more frames when somebody has found none?
    fn grows(&self) -> bool {
        false
    }
    /// Some frames in a row, at most so many, and how many, as with [`take_next`](Self::take_next).
    fn take_run(&self, most: usize) -> Option<(Frame, usize)> {
        debug_assert!(most > 0);
        self.take_next().map(|frame| (frame, 1))
    }
    /// Gives back frames in a row that were taken one by one, or as a run.
    fn give_run(&self, first: Frame, count: usize) {
        (first.0..first.0 + count as u64).for_each(|frame| self.give(Frame(frame), 0));
    }
    /// Of 512 frames that were taken together, some may be given back alone.
    fn give(&self, frame: Frame, order: u8);
    /// For recovery: these are in use. Of 512, one that had been reserved is enough for [`Reserved::Before`].
    fn reserve(&self, frame: Frame, order: u8) -> Reserved;
    fn descriptor(&self, frame: Frame) -> u64;
    fn set_descriptor(&self, frame: Frame, value: u64);
    /// # Errors
    /// What is there, if it is not `old`.
    fn exchange_descriptor(&self, frame: Frame, old: u64, new: u64) -> Result<(), u64>;
    /// Makes of a descriptor what `change` says, until nobody else changes it meanwhile. Returns what it was; `None` if `change`
    /// does.
    fn change_descriptor(&self, frame: Frame, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut old = self.descriptor(frame);
        loop {
            match self.exchange_descriptor(frame, old, change(old)?) {
                Ok(()) => return Some(old),
                Err(now) => old = now,
            }
        }
    }
}

/// The other cores: what they cache, and where they are.
pub trait Cores {
    /// This core begins to look at tables. What it does next is not done before others can see this.
    fn enter(&self);
    /// It has ended.
    fn leave(&self);
    /// Returns when no core and no device uses a translation of these pages of an object that it found
    /// before the call, nor an entry that leads to the page of an object of order 0. May be called between [`enter`](Self::enter) and [`leave`](Self::leave): who waits
    /// here answers others that do.
    fn invalidate(&self, object: u32, pages: Range<u64>);
    /// The same of some pages of a row of 64, those whose bits are set.
    fn invalidate_some(&self, object: u32, row: u64, pages: u64) {
        runs(row, pages).for_each(|pages| self.invalidate(object, pages));
    }
    /// Returns when all who had entered before the call have left. Never called by who has entered.
    fn grace(&self);
}

/// Pages of a row, by one bit for each, as ranges.
pub fn runs(row: u64, pages: u64) -> impl Iterator<Item = Range<u64>> {
    let mut left = pages;
    core::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let first = left.trailing_zeros();
        let count = (left >> first).trailing_ones();
        left &= u64::MAX.checked_shl(first + count).unwrap_or(0);
        Some(row + u64::from(first)..row + u64::from(first + count))
    })
}
