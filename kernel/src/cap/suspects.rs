//! Containers that may have been lost: where the collector of [`cycles`](super::cycles) is worth its price.
//!
//! What was in use and is not any more was reached through one capability that has gone or moved, to a
//! container of which there are others. (Of one without others nothing is left: it is taken apart, and the
//! capabilities in it go one by one, each for itself.) So a search can find something only if one of the
//! containers that lost a capability is not in use. These are noted, and before a search each is asked
//! for its holders, these for theirs, and so on, until a chain has come up to the first dispatcher. That
//! takes some ten looks, while a search looks at every container of the core. It begins only if a chain
//! ends, or grows long, or more have lost a capability than are noted.
//!
//! A container that is in use when it is looked at, is nobody's loss: should it be lost later, another
//! capability goes then, which is noted in its turn.

use super::budget::Pause;
use super::db::Db;
use super::CapSpace;
use crate::object::{DcbRef, Obj};
use captypes::place::SLOT_BYTES;
use paging::PAGE;

/// Most containers that are noted.
const MOST: usize = 128;
/// Most containers of a chain, with those that lead nowhere.
const MOST_HOLDERS: usize = 48;
/// Most containers that are known to be in use; what is known beyond that is found again.
const MOST_KNOWN: usize = 64;

/// How many suspects there are, and whether there were more than there is room for.
pub type Mark = (usize, bool);

/// The containers that have lost a capability and are still there, by address.
pub(super) struct Suspects {
    bases: [u64; MOST],
    count: usize,
    /// More than there is room for.
    overflow: bool,
}

impl Suspects {
    pub(super) const fn new() -> Self {
        Suspects { bases: [0; MOST], count: 0, overflow: false }
    }

    /// A capability to the container at `base` went or moved, and there are others.
    pub(super) fn note(&mut self, base: u64) {
        if self.last() == Some(base) {
            return;
        }
        match self.bases.get_mut(self.count) {
            Some(place) => {
                *place = base;
                self.count += 1;
            }
            None => self.overflow = true,
        }
    }

    fn last(&self) -> Option<u64> {
        self.bases.get(self.count.checked_sub(1)?).copied()
    }

    fn drop_last(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// How many there are, and whether these are all.
    pub(super) fn mark(&self) -> Mark {
        (self.count, self.overflow)
    }

    /// Forgets what was noted since `mark`.
    pub(super) fn back_to(&mut self, (count, overflow): Mark) {
        self.count = self.count.min(count);
        self.overflow = overflow;
    }
}

/// Containers that are known to be in use, as long as nothing changes.
struct Known {
    bases: [u64; MOST_KNOWN],
    count: usize,
}

impl Known {
    fn add(&mut self, base: u64) {
        if let Some(place) = self.bases.get_mut(self.count) {
            *place = base;
            self.count += 1;
        }
    }

    fn has(&self, base: u64) -> bool {
        self.bases.iter().take(self.count).any(|&known| known == base)
    }
}

/// A container on the way up.
#[derive(Clone, Copy)]
struct Holder {
    base: u64,
    /// Index of the one that it holds.
    holds: usize,
}

/// Holders, those of the first one, then those of the second, and so on.
struct Holders {
    all: [Holder; MOST_HOLDERS],
    count: usize,
}

/// What is found out about a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It is in use, or gone.
    Fine,
    /// It may be in use by nobody.
    MaybeLost,
    /// The work of this event is used up.
    Unknown,
}

impl Holders {
    fn of(base: u64) -> Self {
        Holders { all: [Holder { base, holds: 0 }; MOST_HOLDERS], count: 1 }
    }

    fn at(&self, index: usize) -> Option<u64> {
        self.all.iter().take(self.count).nth(index).map(|holder| holder.base)
    }

    /// `false`: there is no room.
    fn add(&mut self, base: u64, holds: usize) -> bool {
        if self.all.iter().take(self.count).any(|holder| holder.base == base) {
            return true;
        }
        let Some(place) = self.all.get_mut(self.count) else { return false };
        *place = Holder { base, holds };
        self.count += 1;
        true
    }

    /// All of the chain that leads down from the holder with this index is in use.
    fn learn(&self, mut index: usize, known: &mut Known) {
        while let Some(holder) = self.all.get(index) {
            known.add(holder.base);
            if index == 0 {
                return;
            }
            index = holder.holds;
        }
    }
}

impl Db {
    /// Follows the holders of the container at `base` up to what is known to be in use, with up to `work`
    /// looks. How many it took.
    fn follow_up(&self, base: u64, known: &mut Known, work: u32) -> (Verdict, u32) {
        let (mut holders, mut index, mut looks) = (Holders::of(base), 0, 0);
        if known.has(base) {
            return (Verdict::Fine, 1);
        }
        while let Some(at) = holders.at(index) {
            looks += 1;
            let head = self.container_around(at, PAGE).filter(|head| head.cap().base == at);
            let Some(head) = head else {
                // Nothing can have changed since it was found as a holder: it is the first one.
                return (Verdict::Fine, looks);
            };
            for slot in core::iter::once(head).chain(self.copies(head)) {
                looks += 1;
                if looks >= work {
                    return (Verdict::Unknown, looks);
                }
                let Some(holder) = self.container_around(slot.pa(), SLOT_BYTES) else { continue };
                let holder = holder.cap().base;
                if known.has(holder) {
                    holders.learn(index, known);
                    return (Verdict::Fine, looks);
                }
                if !holders.add(holder, index) {
                    return (Verdict::MaybeLost, looks);
                }
            }
            index += 1;
        }
        (Verdict::MaybeLost, looks)
    }
}

impl CapSpace {
    /// What is noted so far.
    pub fn suspected(&self) -> Mark {
        self.db.suspects.mark()
    }

    /// Forgets what was noted since `mark`.
    pub fn forget_suspects(&mut self, mark: Mark) {
        self.db.suspects.back_to(mark);
    }

    /// May a search for cycles find something? Looks at what was noted, and forgets what is in use; when
    /// it answers that something may be lost, everything.
    pub(super) fn may_have_lost(&mut self, current: Option<DcbRef>) -> Result<bool, Pause> {
        let mut known = Known { bases: [0; MOST_KNOWN], count: 0 };
        let roots = [self.first, current];
        roots.into_iter().flatten().for_each(|root| known.add(Obj::pa(root)));
        let mut lost = core::mem::take(&mut self.db.suspects.overflow);
        let mut is_first = true;
        while let Some(base) = self.db.suspects.last().filter(|_| !lost) {
            let (verdict, looks) = self.db.follow_up(base, &mut known, self.budget.left());
            self.spend(looks);
            match verdict {
                Verdict::Fine => self.db.suspects.drop_last(),
                Verdict::MaybeLost => lost = true,
                // One for which all the work of an event is not enough is not to be looked at again.
                Verdict::Unknown if is_first => lost = true,
                Verdict::Unknown => return Err(Pause::Again),
            }
            is_first = false;
        }
        if lost {
            self.db.suspects = Suspects::new();
        }
        Ok(lost)
    }
}
