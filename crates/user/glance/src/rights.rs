//! Pages whose rights one thread changes without asking anybody.
//!
//! What they are is one word, which the thread changes by a compare-and-exchange before it changes the page tables, and whoever has the lock takes away by
//! another: as of a [`Lease`](crate::Lease). Who has taken it makes the page tables what the word said. So a thread that comes late with its own
//! change, and finds that the word is not [what it has written](Rights::is), asks for it again with the lock.

use crate::lent::{Lent, State};
use crate::Word;

/// Most pages.
pub const MOST_PAGES: u64 = 512;

/// Bits of the rights, and above them, of how many pages there are.
const RIGHTS: u64 = 7;
const PAGES_AT: u32 = 3;
/// Of both.
const BITS: u32 = 16;

/// The rights of some pages, given to one thread, or to none.
#[derive(Debug)]
pub struct Rights<W>(Lent<W, BITS>);

/// What they were when that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenRights {
    /// The first page.
    pub start: u64,
    /// How many there are.
    pub pages: u64,
    /// The rights that they have, a set of three bits.
    pub rights: u8,
    /// How often they were changed, up to 255.
    pub uses: u64,
}

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed(State<BITS>);

/// How many pages, and their rights.
fn both(state: State<BITS>) -> (u64, u64) {
    (state.what() >> PAGES_AT, state.what() & RIGHTS)
}

impl<W: Word> Rights<W> {
    /// Given to nobody, of words that are zero.
    pub const fn new(state: W, start: W) -> Self {
        Rights(Lent::new(state, start))
    }

    /// Gives those of up to [`MOST_PAGES`] from `start` on, which are `rights`. By whoever has the lock, who finds none given.
    pub fn give(&self, start: u64, pages: u64, rights: u8) {
        self.0.give(start, pages << PAGES_AT | u64::from(rights));
    }

    /// The first page and how many there are, if they are given. For whoever has the lock.
    #[inline]
    pub fn pages(&self) -> Option<(u64, u64)> {
        self.0.state().map(|state| (self.0.start(), both(state).0))
    }

    /// Takes them back, if they are given. By whoever has the lock.
    pub fn take(&self) -> Option<TakenRights> {
        let (start, state) = self.0.take()?;
        let (pages, rights) = both(state);
        Some(TakenRights { start, pages, rights: rights as u8, uses: state.uses() })
    }

    /// Changes them. `None`: they are not given, or it is about other pages. By the thread that has them.
    #[inline]
    pub fn change(&self, page: u64, pages: u64, rights: u8) -> Option<Changed> {
        let state = self.0.state()?;
        let is_it = both(state).0 == pages && self.0.start() == page && u64::from(rights) <= RIGHTS;
        if !is_it {
            return None;
        }
        self.0.change(state, pages << PAGES_AT | u64::from(rights)).map(Changed)
    }

    /// Are they still as this change has left them, and given?
    #[inline]
    pub fn is(&self, changed: Changed) -> bool {
        self.0.state() == Some(changed.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent::USES;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn what_is_not_given_is_not_changed() {
        let rights = Rights::new(AtomicU64::new(0), AtomicU64::new(0));
        assert_eq!((rights.change(0, 0, 1), rights.take(), rights.pages()), (None, None, None));
        rights.give(7, 512, 3);
        assert_eq!(rights.pages(), Some((7, 512)));
        assert_eq!((rights.change(7, 511, 1), rights.change(8, 512, 1)), (None, None));
        let first = rights.change(7, 512, 1).unwrap();
        assert!(rights.is(first));
        let second = rights.change(7, 512, 3).unwrap();
        assert!(!rights.is(first) && rights.is(second));
        let taken = TakenRights { start: 7, pages: 512, rights: 3, uses: 2 };
        assert_eq!(rights.take(), Some(taken));
        assert!(!rights.is(second));
        assert_eq!((rights.change(7, 512, 1), rights.take(), rights.pages()), (None, None, None));
        // The same again is not the same.
        rights.give(7, 512, 3);
        let _ = rights.change(7, 512, 1).and(rights.change(7, 512, 3));
        assert!(!rights.is(second));
        for n in 0..1000u32 {
            assert!(rights.change(7, 512, (n % 2) as u8).is_some());
        }
        assert_eq!(rights.take().map(|taken| (taken.rights, taken.uses)), Some((1, USES)));
    }
}
