//! Advisory locks on ranges of one file.
//!
//! A range has at most one lock of each owner. Locks of different owners may overlap if both are
//! shared. Setting a lock replaces what its owner had in that range, and locks of one owner and
//! kind that touch are one (POSIX.1, `fcntl`, "Advisory Record Locking").
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

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

    /// Sets a lock that nothing is in the way of.
    pub fn set(&mut self, mut new: Lock) {
        self.unset(new.owner, new.start, new.last);
        self.0.retain(|lock| {
            let joins = lock.joins(&new);
            if joins {
                new.start = new.start.min(lock.start);
                new.last = new.last.max(lock.last);
            }
            !joins
        });
        self.insert(new);
    }

    /// Removes what `owner` has from `start` to `last`. Answers whether there was anything.
    pub fn unset(&mut self, owner: Owner, start: u64, last: u64) -> bool {
        let hole = Lock { owner, kind: Kind::Exclusive, start, last };
        let (hit, rest) =
            self.0.iter().partition(|lock| lock.owner == owner && lock.overlaps(&hole));
        let hit: Vec<Lock> = hit;
        self.0 = rest;
        for lock in &hit {
            if lock.start < start {
                self.insert(Lock { last: start - 1, ..*lock });
            }
            if lock.last > last {
                self.insert(Lock { start: last + 1, ..*lock });
            }
        }
        !hit.is_empty()
    }

    fn insert(&mut self, lock: Lock) {
        let key = |lock: &Lock| (lock.owner, lock.start);
        let at = self.0.partition_point(|other| key(other) < key(&lock));
        self.0.insert(at, lock);
    }
}
