//! Leases on one file: who has it open is told before somebody else opens it in another way, and gives the lease up, or makes it less.
//!
//! A lease is *broken* by an open that conflicts with it. From then on it has a time at which it ends by itself, and until it ends, or
//! does not conflict any more, whoever opens waits. Nothing here happens by itself: whoever looks at leases has those
//! [expire](Leases::expire) first whose time has come.

use crate::Kind;
use alloc::vec::Vec;

/// A time that does not come.
pub const NEVER: u64 = u64::MAX;

/// A lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The open file description that has it.
    pub description: u32,
    /// The process that asked for it.
    pub process: u32,
    /// What that calls the description.
    pub fd: u32,
    /// The user it counts for.
    pub user: u32,
    /// Shared: it is told of those who open to write; exclusive: of all.
    pub kind: Kind,
    /// When it becomes shared, for somebody who wants to read; [`NEVER`]: when its holder says so.
    shares_at: Option<u64>,
    /// When it ends, for somebody who wants to write; [`NEVER`]: when its holder says so.
    ends_at: Option<u64>,
}

impl Lease {
    /// One that nobody has broken.
    pub fn new(description: u32, (process, fd): (u32, u32), user: u32, kind: Kind) -> Lease {
        Lease { description, process, fd, user, kind, shares_at: None, ends_at: None }
    }

    /// Is somebody waiting for it, or was?
    pub fn is_breaking(&self) -> bool {
        self.shares_at.is_some() || self.ends_at.is_some()
    }

    /// What is to become of it; `None`: it is to end.
    pub fn target(&self) -> Option<Kind> {
        match (self.ends_at, self.shares_at) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(Kind::Shared),
            (None, None) => Some(self.kind),
        }
    }

    fn conflicts(&self, writes: bool) -> bool {
        writes || self.kind == Kind::Exclusive
    }

    /// When it does not conflict any more.
    fn until(&self, writes: bool) -> u64 {
        let shares = if writes { None } else { self.shares_at };
        shares.into_iter().chain(self.ends_at).min().unwrap_or(NEVER)
    }
}

/// There are leases of others, or somebody waits for the end of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken;

/// All leases on a file, in the order in which they were given.
#[derive(Clone, Default, Debug)]
pub struct Leases(Vec<Lease>);

impl Leases {
    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.0.iter()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// That of a description.
    pub fn of(&self, description: u32) -> Option<&Lease> {
        self.0.iter().find(|lease| lease.description == description)
    }

    /// Gives a description a lease, or changes that which it has.
    ///
    /// A change keeps who has broken it waiting for as much as it does not give up.
    ///
    /// # Errors
    ///
    /// Somebody else has one, and it is to be exclusive; or one of somebody else is about to end.
    pub fn set(&mut self, new: Lease) -> Result<(), Taken> {
        let mut others = self.0.iter().filter(|lease| lease.description != new.description);
        if others.any(|other| new.kind == Kind::Exclusive || other.ends_at.is_some()) {
            return Err(Taken);
        }
        match self.0.iter_mut().find(|lease| lease.description == new.description) {
            Some(own) => {
                (own.kind, own.fd) = (new.kind, new.fd);
                if new.kind == Kind::Shared {
                    own.shares_at = None;
                }
            }
            None => self.0.push(new),
        }
        Ok(())
    }

    /// Takes a lease away, if there is one.
    pub fn remove(&mut self, description: u32) -> Option<Lease> {
        let at = self.0.iter().position(|lease| lease.description == description)?;
        Some(self.0.remove(at))
    }

    /// Is one in the way of opening the file to read, or to write?
    pub fn conflict(&self, writes: bool) -> bool {
        self.0.iter().any(|lease| lease.conflicts(writes))
    }

    /// The file is to be opened: leases in the way end, or become shared, at a time at the latest. `tell` is called for those of
    /// whom that was not known.
    pub fn break_for(&mut self, writes: bool, by: u64, mut tell: impl FnMut(&Lease)) {
        for lease in self.0.iter_mut().filter(|lease| lease.conflicts(writes)) {
            let is_known = if writes { lease.ends_at.is_some() } else { lease.is_breaking() };
            if is_known {
                continue;
            }
            match writes {
                true => lease.ends_at = Some(by),
                false => lease.shares_at = Some(by),
            }
            tell(lease);
        }
    }

    /// When to look again whether one is in the way: the first time at which one of those does not conflict any more.
    pub fn until(&self, writes: bool) -> u64 {
        let in_the_way = self.0.iter().filter(|lease| lease.conflicts(writes));
        in_the_way.map(|lease| lease.until(writes)).min().unwrap_or(NEVER)
    }

    /// Ends those whose time has come, or makes them shared. `ended` is called with those that have ended.
    /// Returns `true` if anything has changed.
    pub fn expire(&mut self, now: u64, mut ended: impl FnMut(&Lease)) -> bool {
        let is_past = |time: Option<u64>| time.is_some_and(|time| time <= now);
        let mut has_changed = false;
        self.0.retain_mut(|lease| {
            if is_past(lease.shares_at) {
                (lease.kind, lease.shares_at, has_changed) = (Kind::Shared, None, true);
            }
            let ends = is_past(lease.ends_at);
            if ends {
                has_changed = true;
                ended(lease);
            }
            !ends
        });
        has_changed
    }
}
