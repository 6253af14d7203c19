//! Memory that one thread maps and unmaps, of one size at one place.
//!
//! To map and to unmap it are not one word only: page tables change, and pages go. So there are three states, of which one
//! says that the thread is at it. Each is entered by a compare-and-exchange; whoever has the lock takes the memory away by another. What
//! a thread is at counts as not mapped: `munmap` may be over for everybody else before the thread has got there, and nobody knows yet of what `mmap` will answer. The
//! thread finds out when it is [done](Kept::done). Until then its change may come late, so the same place must not be
//! [given](Kept::is_late) to another one.

use crate::lent::{Lent, State};
use crate::Word;

/// Bits of the state, and above them, of how many pages there are.
const STATE: u64 = 3;
const PAGES_AT: u32 = 2;
const BITS: u32 = 12;

const UNMAPPED: u64 = 0;
const MAPPED: u64 = 1;
const BUSY: u64 = 2;

/// Most pages.
pub const MOST_KEPT: u64 = 512;

/// Some pages, given to one thread, or to none.
#[derive(Debug)]
pub struct Kept<W> {
    lent: Lent<W, BITS>,
    /// Where it began when it was taken while the thread was at it, as long as the thread has not found out.
    late: W,
}

/// What it was when that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenKept {
    /// The first page.
    pub start: u64,
    /// Is it mapped?
    pub is_mapped: bool,
    /// The thread was at it: whether it has pages is not known.
    pub was_busy: bool,
    /// How often it was mapped or unmapped, up to 127.
    pub uses: u64,
}

/// The thread is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    state: State<BITS>,
    /// The first page.
    pub start: u64,
}

fn pages(state: State<BITS>) -> u64 {
    state.what() >> PAGES_AT
}

impl<W: Word> Kept<W> {
    /// Given to nobody, of words that are zero.
    pub const fn new(state: W, start: W, late: W) -> Self {
        Kept { lent: Lent::new(state, start), late }
    }

    /// Gives up to [`MOST_KEPT`] pages from `start` on, which are mapped. By whoever has the lock, who finds none given.
    pub fn give(&self, start: u64, pages: u64) {
        self.lent.give(start, pages << PAGES_AT | MAPPED);
    }

    /// The first page and how many there are, if they are given. For whoever has the lock.
    #[inline]
    pub fn pages(&self) -> Option<(u64, u64)> {
        self.lent.state().map(|state| (self.lent.start(), pages(state)))
    }

    /// How often it was mapped and unmapped so far. For whoever has the lock.
    pub fn uses(&self) -> u64 {
        self.lent.state().map_or(0, State::uses) / 2
    }

    /// May a thread that was at these pages when they were taken still be?
    pub fn is_late(&self, start: u64) -> bool {
        self.late.load() == start
    }

    /// Takes them back, if they are given. By whoever has the lock.
    pub fn take(&self) -> Option<TakenKept> {
        loop {
            let (start, state) = (self.lent.start(), self.lent.state()?);
            let was_busy = state.what() & STATE == BUSY;
            if was_busy {
                // Before the thread can find out.
                self.late.store(start);
            }
            if self.lent.take_from(state) {
                let is_mapped = state.what() & STATE == MAPPED;
                return Some(TakenKept { start, is_mapped, was_busy, uses: state.uses() / 2 });
            }
            if was_busy {
                // It was done in time.
                self.late.store(0);
            }
        }
    }

    /// Begins to map them. `None`: they are not given, are not so many, or are mapped. By the thread that has them.
    #[inline]
    pub fn map(&self, count: u64) -> Option<Begun> {
        let state = self.lent.state()?;
        let fits = state.what() == count << PAGES_AT | UNMAPPED && count <= MOST_KEPT;
        if fits {
            self.begin(state)
        } else {
            None
        }
    }

    /// Begins to unmap them. `None`: they are not given, are others, or are not mapped. By the thread that has them.
    #[inline]
    pub fn unmap(&self, page: u64, count: u64) -> Option<Begun> {
        let state = self.lent.state()?;
        let fits = state.what() == count << PAGES_AT | MAPPED && count <= MOST_KEPT;
        if fits && self.lent.start() == page {
            self.begin(state)
        } else {
            None
        }
    }

    #[inline]
    fn begin(&self, state: State<BITS>) -> Option<Begun> {
        let start = self.lent.start();
        let state = self.lent.change(state, pages(state) << PAGES_AT | BUSY)?;
        Some(Begun { state, start })
    }

    /// What was begun has been done. `false`: the pages were taken meanwhile, not mapped; from now on nothing comes late. By the thread that has begun.
    #[inline]
    pub fn done(&self, begun: Begun, is_mapped: bool) -> bool {
        let to = if is_mapped { MAPPED } else { UNMAPPED };
        let is_done = self.lent.change(begun.state, pages(begun.state) << PAGES_AT | to).is_some();
        if !is_done {
            // Behind what was stored before it was taken, as this sees that it was.
            let _ = self.lent.state();
            self.late.store(0);
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    fn kept() -> Kept<AtomicU64> {
        Kept::new(AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0))
    }

    #[test]
    fn only_what_was_given_is_mapped_and_unmapped() {
        let kept = kept();
        assert_eq!(
            (kept.map(0), kept.unmap(0, 0), kept.take(), kept.pages()),
            (None, None, None, None)
        );
        kept.give(1024, 512);
        assert_eq!(kept.pages(), Some((1024, 512)));
        assert_eq!(
            (kept.map(512), kept.unmap(1024, 511), kept.unmap(1025, 512)),
            (None, None, None)
        );
        let begun = kept.unmap(1024, 512).unwrap();
        // Nothing else begins meanwhile.
        assert_eq!((kept.map(512), kept.unmap(1024, 512)), (None, None));
        assert!(kept.done(begun, false));
        assert_eq!((kept.map(511), kept.unmap(1024, 512)), (None, None));
        let begun = kept.map(512).unwrap();
        assert_eq!(begun.start, 1024);
        assert!(kept.done(begun, true));
        let taken = TakenKept { start: 1024, is_mapped: true, was_busy: false, uses: 2 };
        assert_eq!((kept.take(), kept.take()), (Some(taken), None));
        kept.give(512, 1);
        for _ in 0..1000 {
            let begun = kept.unmap(512, 1).unwrap();
            assert!(kept.done(begun, false));
            let begun = kept.map(1).unwrap();
            assert!(kept.done(begun, true));
        }
        assert_eq!(kept.take().map(|taken| (taken.is_mapped, taken.uses)), Some((true, 127)));
    }

    #[test]
    fn what_is_taken_from_a_thread_that_is_at_it_is_not_mapped_and_late_until_it_knows() {
        for maps in [false, true] {
            let kept = kept();
            kept.give(512, 64);
            let mut begun = kept.unmap(512, 64).unwrap();
            if maps {
                assert!(kept.done(begun, false));
                begun = kept.map(64).unwrap();
            }
            assert!(!kept.is_late(512));
            let taken = kept.take().unwrap();
            assert_eq!((taken.is_mapped, taken.was_busy), (false, true));
            assert!(kept.is_late(512));
            // The same again is not the same.
            kept.give(512, 64);
            assert!(!kept.done(begun, maps));
            assert!(!kept.is_late(512));
            assert_eq!(kept.take().map(|taken| taken.is_mapped), Some(true));
        }
    }
}
