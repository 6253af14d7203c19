//! Advisory locks on ranges of one file, and [leases](lease) on it.
//!
//! A range has at most one lock of each owner. Locks of different owners may overlap if both are
//! shared. Setting a lock replaces what its owner had in that range, and locks of one owner and
//! kind that touch are one (POSIX.1, `fcntl`, "Advisory Record Locking").
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod lease;

use alloc::vec::Vec;
use core::ops::Range;

/// Whose a lock is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// A process, by whatever descriptor.
    Process(u32),
    /// An open file description (`F_OFD_SETLK`, `flock`).
    Description(u32),
}

/// What others may have at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Shared locks.
    Shared,
    /// Nothing.
    Exclusive,
}

/// A lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Whose it is.
    pub owner: Owner,
    /// Its kind.
    pub kind: Kind,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub last: u64,
    /// The user it counts for.
    pub user: u32,
    /// The process that has set it.
    pub process: u32,
}

impl Lock {
    fn overlaps(&self, other: &Lock) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Can both not be at the same time?
    pub fn conflicts(&self, other: &Lock) -> bool {
        self.owner != other.owner
            && (self.kind == Kind::Exclusive || other.kind == Kind::Exclusive)
            && self.overlaps(other)
    }

    /// Are they one lock?
    fn joins(&self, other: &Lock) -> bool {
        self.owner == other.owner
            && self.kind == other.kind
            && self.start <= other.last.saturating_add(1)
            && other.start <= self.last.saturating_add(1)
    }
}

/// All locks of a file, by owner and start.
#[derive(Clone, Default, Debug)]
pub struct Locks(Vec<Lock>);

impl Locks {
    /// The locks, by owner and start.
    pub fn iter(&self) -> impl Iterator<Item = &Lock> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lock that is in the way of `wanted`, the one that begins first.
    pub fn conflict(&self, wanted: &Lock) -> Option<&Lock> {
        self.0.iter().filter(|lock| lock.conflicts(wanted)).min_by_key(|lock| lock.start)
    }

    /// Has room for a change. `false`: there is no memory for that, and nothing may be changed but to
    /// remove all that an owner has.
    pub fn prepare(&mut self) -> bool {
        // One lock can become three.
        self.0.try_reserve(2).is_ok()
    }

    /// The users for whom the locks of an owner count, one by one.
    pub fn users_of(&self, owner: Owner) -> impl Iterator<Item = u32> + '_ {
        self.0[self.range_of(owner)].iter().map(|lock| lock.user)
    }

    /// Where the locks of an owner are.
    fn range_of(&self, owner: Owner) -> Range<usize> {
        let first = self.0.partition_point(|lock| lock.owner < owner);
        first..self.0.partition_point(|lock| lock.owner <= owner)
    }

    /// Sets a lock that nothing is in the way of.
    pub fn set(&mut self, mut new: Lock) {
        self.unset(new.owner, new.start, new.last);
        // Those of one owner do not overlap, so at most the neighbours join.
        let range = self.range_of(new.owner);
        let joins = |lock: &Lock| lock.joins(&new);
        let first = range.start + self.0[range.clone()].partition_point(|l| l.start < new.start);
        let low = first - usize::from(first > range.start && joins(&self.0[first - 1]));
        let high = first + usize::from(first < range.end && joins(&self.0[first]));
        for lock in &self.0[low..high] {
            (new.start, new.last) = (new.start.min(lock.start), new.last.max(lock.last));
        }
        self.0.splice(low..high, [new]);
    }

    /// Removes what `owner` has from `start` to `last`. Answers whether there was anything.
    pub fn unset(&mut self, owner: Owner, start: u64, last: u64) -> bool {
        let range = self.range_of(owner);
        let own = &self.0[range.clone()];
        let low = range.start + own.partition_point(|lock| lock.last < start);
        let high = range.start + own.partition_point(|lock| lock.start <= last);
        if low >= high {
            return false;
        }
        let (lowest, highest) = (self.0[low], self.0[high - 1]);
        let before = (lowest.start < start).then(|| Lock { last: start - 1, ..lowest });
        let behind = (highest.last > last).then(|| Lock { start: last + 1, ..highest });
        self.0.splice(low..high, before.into_iter().chain(behind));
        true
    }
}
