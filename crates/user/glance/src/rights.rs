//! Pages whose rights one thread changes without asking anybody.
//!
//! What they are is one word, which the thread changes by a compare-and-exchange before it changes the page tables, and whoever has the lock takes away by
//! another: as of a [`Lease`](crate::Lease). Who has taken it makes the page tables what the word said. So a thread that comes late with its own
//! change, and finds that the word is not [what it has written](Rights::is), asks for it again with the lock.

use crate::Word;

/// Most pages.
pub const MOST_PAGES: u64 = 512;

/// Bits of the rights, and above them, of how many pages there are.
const RIGHTS: u64 = 7;
const PAGES_AT: u32 = 3;
const PAGES: u64 = 1023;
/// Above them, how often they were changed, up to this.
const USES_AT: u32 = 16;
const USES: u64 = 255;
/// Above them, a bit that is set as long as they are given, and a number that is another one each time.
const GIVEN: u64 = 1 << 24;
const NUMBER: u64 = 1 << 25;

/// The rights of some pages, given to one thread, or to none.
#[derive(Debug)]
pub struct Rights<W> {
    state: W,
    /// The first page. Written before they are given.
    start: W,
}

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
pub struct Changed(u64);

impl<W: Word> Rights<W> {
    /// Given to nobody, of words that are zero.
    pub const fn new(state: W, start: W) -> Self {
        Rights { state, start }
    }

    /// Gives those of up to [`MOST_PAGES`] from `start` on, which are `rights`. By whoever has the lock, who finds none given.
    pub fn give(&self, start: u64, pages: u64, rights: u8) {
        self.start.store(start);
        let number = (self.state.load() & !(NUMBER - 1)).wrapping_add(NUMBER);
        self.state.store(number | GIVEN | pages << PAGES_AT | u64::from(rights));
    }

    /// The first page and how many there are, if they are given. For whoever has the lock.
    #[inline]
    pub fn pages(&self) -> Option<(u64, u64)> {
        let state = self.state.load();
        (state & GIVEN != 0).then(|| (self.start.load(), state >> PAGES_AT & PAGES))
    }

    /// Takes them back, if they are given. By whoever has the lock.
    pub fn take(&self) -> Option<TakenRights> {
        loop {
            let state = self.state.load();
            if state & GIVEN == 0 {
                return None;
            }
            let start = self.start.load();
            if self.state.replace(state, state & !(NUMBER - 1)) {
                let (pages, rights) = (state >> PAGES_AT & PAGES, (state & RIGHTS) as u8);
                return Some(TakenRights { start, pages, rights, uses: state >> USES_AT & USES });
            }
        }
    }

    /// Changes them. `None`: they are not given, or it is about other pages. By the thread that has them.
    #[inline]
    pub fn change(&self, page: u64, pages: u64, rights: u8) -> Option<Changed> {
        let state = self.state.load();
        let is_it = state & GIVEN != 0
            && state >> PAGES_AT & PAGES == pages
            && self.start.load() == page
            && u64::from(rights) <= RIGHTS;
        if !is_it {
            return None;
        }
        let uses = ((state >> USES_AT & USES) + 1).min(USES);
        let kept = state & !(RIGHTS | USES << USES_AT);
        let new = kept | uses << USES_AT | u64::from(rights);
        // The same again after 255 uses.
        (new == state || self.state.replace(state, new)).then_some(Changed(new))
    }

    /// Are they still as this change has left them, and given?
    #[inline]
    pub fn is(&self, changed: Changed) -> bool {
        self.state.load() == changed.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
