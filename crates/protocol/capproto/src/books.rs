//! The books of a home: which cores may have something of its memory, and which operation may work on
//! which part of it.
//!
//! Both are about regions, so that copies, ancestors and descendants meet here: an operation that
//! concerns several cores locks its region at one place, before it does anything. That is why no two
//! operations can wait for one another, and why what one core has said is still so when the next
//! one is asked.

use crate::cap::BADGED;
use crate::mutation::{Bug, Mutation};
use crate::{Change, CoreId, Cores, OpId, Region, MAX_CORES};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use captypes::Tree;

/// Operations that a home lets work at a time, besides those on Morsels.
pub const GRANTS: usize = 4;
/// Operations on Morsels that a home lets work at a time. They do not count as others do, for the revoke of RAM with a pool
/// in it waits until nothing is left of the pool's objects on any core; they themselves wait for no other.
pub const GRANTS_OF_MORSELS: usize = 1;
/// Locks that a CPU driver may be asked to hold at a time: one for each operation at work.
pub const MAX_LOCKS: usize = (GRANTS + GRANTS_OF_MORSELS) * MAX_CORES as usize;
/// Regions of which the books know more than that they are within a larger one.
const MAX_ENTRIES: usize = 1024;

/// A capability that was sent to other cores: `cores` may have that, and what was made of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    region: Region,
    /// Tells it from its ancestors and descendants of the same region.
    rank: u8,
    cores: Cores,
}

/// An operation that has, or wants, a region for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Claim {
    pub core: CoreId,
    pub op: OpId,
    pub region: Region,
    pub rank: u8,
}

/// The books. What another core has is, or was made of, what an entry is for that names this core.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Books {
    /// Sorted by region and rank.
    entries: Vec<Entry>,
    /// At work.
    granted: Vec<Claim>,
    /// In order of arrival.
    queue: VecDeque<Claim>,
    pub bug: Bug,
}

impl Books {
    /// The cores that may have something that overlaps `region`.
    fn cores(&self, region: Region) -> Cores {
        let concerned = self.entries.iter().filter(|entry| entry.region.overlaps(region));
        concerned.fold(Cores::NONE, |all, entry| all.or(entry.cores))
    }

    /// An operation wants a region: see [`next`](Self::next).
    pub fn lock(&mut self, claim: Claim) {
        self.queue.push_back(claim);
    }

    /// The next operation that can begin, and the cores that it concerns. It waits for those that
    /// work on, or came before it for, something that overlaps its region.
    pub fn next(&mut self) -> Option<(Claim, Cores)> {
        let at = (0..self.queue.len()).find(|&at| self.has_room(at) && self.is_free(at))?;
        let claim = self.queue.remove(at)?;
        self.granted.push(claim);
        Some((claim, self.cores(claim.region)))
    }

    /// May one more of its kind work?
    fn has_room(&self, at: usize) -> bool {
        let Some(wanted) = self.queue.get(at) else { return false };
        let is_morsel = |claim: &Claim| claim.region.tree == Tree::Morsel as u8;
        let kind = is_morsel(wanted);
        let at_work = self.granted.iter().filter(|claim| is_morsel(claim) == kind).count();
        at_work < if kind { GRANTS_OF_MORSELS } else { GRANTS }
    }

    fn is_free(&self, at: usize) -> bool {
        let Some(wanted) = self.queue.get(at) else { return false };
        let earlier = self.queue.iter().take(at);
        let blocks = |claim: &Claim| claim.region.overlaps(wanted.region);
        !self.granted.iter().chain(earlier).any(blocks) || self.bug.is(Mutation::SkipLock)
    }

    /// An operation has ended; `home` keeps these books.
    pub fn unlock(&mut self, home: CoreId, core: CoreId, op: OpId, change: Change) {
        let Some(at) = self.granted.iter().position(|c| c.core == core && c.op == op) else {
            return;
        };
        let Claim { region, rank, .. } = self.granted.remove(at);
        match change {
            Change::Same => {}
            Change::Sent(_) if self.bug.is(Mutation::ForgetForeignCopy) => {}
            Change::Sent(to) => self.note(region, rank, Cores::only(to), home),
            Change::Alone => {
                self.forget(region, rank);
                self.note(region, rank, Cores::only(core), home);
            }
            Change::Gone => self.forget(region, rank),
        }
    }

    /// No other core has this any more, nor what was made of it. Ancestors are another matter.
    fn forget(&mut self, region: Region, rank: u8) {
        let rank = if self.bug.is(Mutation::ForgetAncestors) { 0 } else { rank };
        // Nor are others with a badge, of which the books do not know which is where.
        let other = |entry: &Entry| entry.rank < rank || rank == BADGED;
        let kept = |entry: &Entry| entry.region == region && other(entry);
        self.entries.retain(|entry| !region.contains(entry.region) || kept(entry));
    }

    /// `cores` may have something of `region` from now on. The home needs no entry.
    fn note(&mut self, region: Region, rank: u8, cores: Cores, home: CoreId) {
        let cores = cores.without(Cores::only(home));
        if cores.is_empty() {
            return;
        }
        self.add(region, rank, cores);
        if self.entries.len() > MAX_ENTRIES {
            self.coarsen();
        }
    }

    /// Joins two neighbours: what is known less precisely costs messages, and nothing else.
    fn coarsen(&mut self) {
        let gap = |at: &usize| {
            let (a, b) = (&self.entries[*at].region, &self.entries[*at + 1].region);
            (a.tree != b.tree, b.base.saturating_sub(a.end))
        };
        let Some(at) = (0..self.entries.len().saturating_sub(1)).min_by_key(gap) else { return };
        let (a, b) = (self.entries.remove(at), self.entries.remove(at));
        let end = a.region.end.max(b.region.end);
        // The bases ascend, but another entry may have just this region.
        self.add(Region { end, ..a.region }, a.rank.min(b.rank), a.cores.or(b.cores));
    }

    fn add(&mut self, region: Region, rank: u8, cores: Cores) {
        match self.entries.binary_search_by_key(&(region, rank), |entry| (entry.region, entry.rank))
        {
            Ok(at) => self.entries[at].cores = self.entries[at].cores.or(cores),
            Err(at) => self.entries.insert(at, Entry { region, rank, cores }),
        }
    }

    /// Is no operation at work or waiting?
    pub fn is_quiet(&self) -> bool {
        self.granted.is_empty() && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: CoreId = CoreId(0);

    fn region(tree: u8, base: u64, size: u64) -> Region {
        Region { tree, base, end: base + size }
    }

    fn claim(op: u32, region: Region) -> Claim {
        Claim { core: CoreId(1), op: OpId(op), region, rank: 1 }
    }

    /// Locks and unlocks at once.
    fn change(books: &mut Books, region: Region, change: Change) {
        books.lock(claim(0, region));
        assert!(books.next().is_some());
        books.unlock(HOME, CoreId(1), OpId(0), change);
    }

    #[test]
    fn overlapping_regions_wait_in_order_of_arrival() {
        let mut books = Books::default();
        let regions = [region(1, 0, 2), region(1, 1, 2), region(1, 2, 2), region(1, 8, 1)];
        (0..).zip(regions).for_each(|(op, region)| books.lock(claim(op, region)));
        let mut next = || books.next().map(|(claim, _)| claim.op.0);
        // The third waits for the second, which came first, though nobody works on its region.
        assert_eq!([next(), next(), next()], [Some(0), Some(3), None]);
        books.unlock(HOME, CoreId(1), OpId(0), Change::Same);
        assert_eq!(books.next().map(|(claim, _)| claim.op.0), Some(1));
        assert_eq!(books.next(), None);
        books.unlock(HOME, CoreId(1), OpId(1), Change::Same);
        assert_eq!(books.next().map(|(claim, _)| claim.op.0), Some(2));
    }

    #[test]
    fn no_more_work_at_a_time_than_locks_are_promised_for() {
        let mut books = Books::default();
        (0..10).for_each(|op| books.lock(claim(op, region(1, op.into(), 1))));
        assert_eq!((0..10).filter_map(|_| books.next()).count(), GRANTS);
    }

    #[test]
    fn a_region_is_forgotten_but_not_its_ancestors() {
        let mut books = Books::default();
        let (outer, inner) = (region(1, 0, 4), region(1, 0, 2));
        books.note(outer, 1, Cores::only(CoreId(2)), HOME);
        books.note(inner, 1, Cores::only(CoreId(3)), HOME);
        books.note(inner, 3, Cores::only(CoreId(4)), HOME);
        books.forget(inner, 2);
        assert_eq!(books.cores(inner), Cores::only(CoreId(2)).or(Cores::only(CoreId(3))));
        books.forget(outer, 1);
        assert_eq!(books.cores(outer), Cores::NONE);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// However many capabilities are sent away, no core is forgotten, and there is an end to
        /// what is noted.
        #[test]
        fn full_books_know_less_precisely(
            sent in prop::collection::vec((1..3u8, 0..5000u64, 1..40u64, 0..64u8), 1..3000)
        ) {
            let mut books = Books::default();
            for &(tree, base, size, core) in &sent {
                change(&mut books, region(tree, base, size), Change::Sent(CoreId(core)));
            }
            prop_assert!(books.entries.len() <= MAX_ENTRIES);
            let sorted = |a: &Entry, b: &Entry| (a.region, a.rank) < (b.region, b.rank);
            prop_assert!(books.entries.windows(2).all(|pair| sorted(&pair[0], &pair[1])));
            for &(tree, base, size, core) in &sent {
                let known = books.cores(region(tree, base, size)).has(CoreId(core));
                prop_assert!(known || CoreId(core) == HOME);
            }
        }
    }
}
