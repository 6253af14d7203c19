//! Addresses in which one thread maps memory and unmaps it again.
//!
//! What it has mapped is one run of pages, and that is one word: the thread changes it by a compare-and-exchange, and whoever has the lock
//! takes it away by another. So no thread waits for one that is not running, and what was taken is what the thread has been told.

use crate::lent::{Lent, State};
use crate::Word;

/// Pages of a lease.
pub const PAGES: u64 = 256;

/// Bits of the first page of the run, and above them, of how many there are.
const HALF: u32 = 16;
const MASK: u64 = (1 << HALF) - 1;
/// Of both.
const BITS: u32 = 2 * HALF;

/// A lease, to one thread, or to none.
#[derive(Debug)]
pub struct Lease<W>(Lent<W, BITS>);

/// What a lease was when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first page that was given.
    pub start: u64,
    /// The first page that is mapped.
    pub first: u64,
    /// How many are.
    pub count: u64,
    /// How often something was mapped or unmapped, up to 255.
    pub uses: u64,
}

/// What a state says of the pages: the first, and how many, counted from the start.
fn run(state: State<BITS>) -> (u64, u64) {
    (state.what() & MASK, state.what() >> HALF)
}

impl<W: Word> Lease<W> {
    /// One that is not given, of words that are zero.
    pub const fn new(state: W, start: W) -> Self {
        Lease(Lent::new(state, start))
    }

    /// Gives it: pages from `start` on, of which none is mapped. By whoever has the lock, who finds it not given.
    pub fn give(&self, start: u64) {
        self.0.give(start, 0);
    }

    /// Where it begins, if it is given. For whoever has the lock.
    #[inline]
    pub fn start(&self) -> Option<u64> {
        self.0.state().map(|_| self.0.start())
    }

    /// Ends it, if it is given. By whoever has the lock.
    pub fn take(&self) -> Option<Taken> {
        let (start, state) = self.0.take()?;
        let (first, count) = run(state);
        Some(Taken { start, first: start + first, count, uses: state.uses() })
    }

    /// Sets what is mapped, if that is still what it was.
    #[inline(always)]
    fn change(&self, state: State<BITS>, (first, count): (u64, u64)) -> Option<()> {
        self.0.change(state, count << HALF | first).map(|_| ())
    }

    /// Maps pages beside those that are mapped, above them if there is room. Answers the first. `None`: there is no room, or it is
    /// not given. By the thread that has it.
    #[inline]
    pub fn map(&self, pages: u64) -> Option<u64> {
        let state = self.0.state().filter(|_| pages <= PAGES)?;
        let start = self.0.start();
        let (first, count) = run(state);
        let (at, new) = if count == 0 {
            let at = PAGES - pages;
            (at, (at, pages))
        } else if first + count + pages <= PAGES {
            (first + count, (first, count + pages))
        } else {
            let at = first.checked_sub(pages)?;
            (at, (at, count + pages))
        };
        self.change(state, new)?;
        Some(start + at)
    }

    /// Unmaps pages, whether they are mapped or not. `None`: they are not all in what is given, or those that would stay are not one
    /// run. By the thread that has it.
    #[inline]
    pub fn unmap(&self, page: u64, pages: u64) -> Option<()> {
        let state = self.0.state()?;
        let from = page.checked_sub(self.0.start()).filter(|from| *from < PAGES)?;
        let to = from.checked_add(pages).filter(|to| *to <= PAGES)?;
        let (first, count) = run(state);
        let end = first + count;
        let left = if to <= first || end <= from {
            (first, count)
        } else if from <= first {
            (to.min(end), end - to.min(end))
        } else if end <= to {
            (first, from - first)
        } else {
            return None;
        };
        self.change(state, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent::USES;
    use core::sync::atomic::AtomicU64;
    use std::collections::BTreeSet;

    const START: u64 = 5000;

    fn lease() -> Lease<AtomicU64> {
        Lease::new(AtomicU64::new(0), AtomicU64::new(0))
    }

    #[test]
    fn what_is_not_given_is_not_used() {
        let lease = lease();
        assert_eq!((lease.map(1), lease.unmap(0, 1), lease.take()), (None, None, None));
        lease.give(START);
        assert_eq!(lease.start(), Some(START));
        assert_eq!(lease.map(3), Some(START + PAGES - 3));
        let taken = Taken { start: START, first: START + PAGES - 3, count: 3, uses: 1 };
        assert_eq!(lease.take(), Some(taken));
        assert_eq!((lease.map(1), lease.unmap(START + PAGES - 3, 1)), (None, None));
        assert_eq!((lease.take(), lease.start()), (None, None));
        lease.give(7);
        assert_eq!(lease.take(), Some(Taken { start: 7, first: 7, count: 0, uses: 0 }));
    }

    #[test]
    fn all_of_it_can_be_mapped_and_no_more() {
        let lease = lease();
        lease.give(START);
        for _ in 0..300 {
            assert_eq!(lease.map(PAGES), Some(START));
            assert_eq!((lease.map(1), lease.map(PAGES + 1)), (None, None));
            assert_eq!(lease.unmap(START, PAGES), Some(()));
        }
        assert_eq!(lease.unmap(START - 1, 2), None);
        assert_eq!(lease.unmap(START + PAGES - 1, 2), None);
        assert_eq!(lease.unmap(START + 1, u64::MAX), None);
        assert_eq!(lease.take().map(|taken| (taken.count, taken.uses)), Some((0, USES)));
    }

    /// Random operations, beside a set of pages.
    #[test]
    fn it_agrees_with_a_set_of_pages() {
        let (lease, mut state) = (lease(), 1u64);
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        let mut model: Option<BTreeSet<u64>> = None;
        for round in 0..200_000 {
            let pages = 1 + below(if round % 7 == 0 { 300 } else { 20 });
            match (below(100), &mut model) {
                (0, model) => {
                    let taken = lease.take();
                    assert_eq!(taken.is_some(), model.is_some());
                    if let (Some(taken), Some(model)) = (taken, model.take()) {
                        let all = taken.first..taken.first + taken.count;
                        assert!(all.eq(model));
                    }
                }
                (1..50, Some(model)) => match lease.map(pages) {
                    Some(at) => {
                        for page in at..at + pages {
                            assert!((START..START + PAGES).contains(&page) && model.insert(page));
                        }
                    }
                    // Beside what is there is no room, although there may be some in all.
                    None => {
                        let (first, last) = (model.first(), model.last());
                        let above = last.map_or(PAGES, |last| START + PAGES - 1 - last);
                        let under = first.map_or(PAGES, |first| first - START);
                        assert!(pages > above && pages > under);
                    }
                },
                (_, Some(model)) => {
                    let from = START - 3 + below(PAGES + 6);
                    let goes = |page: &u64| (from..from + pages).contains(page);
                    let inside = from >= START && from + pages <= START + PAGES;
                    let left: BTreeSet<u64> =
                        model.iter().copied().filter(|page| !goes(page)).collect();
                    let is_run = left.iter().zip(left.iter().skip(1)).all(|(a, b)| a + 1 == *b);
                    let expected = (inside && is_run).then_some(());
                    assert_eq!(lease.unmap(from, pages), expected);
                    if expected.is_some() {
                        *model = left;
                    }
                }
                (_, None) => {
                    lease.give(START);
                    model = Some(BTreeSet::new());
                }
            }
        }
    }
}
