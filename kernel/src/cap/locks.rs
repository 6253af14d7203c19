//! Capabilities on which the monitors work together: nobody else changes them meanwhile.
//!
//! A lock is on a capability and all that descends from it, whatever slots hold them (G18 figure
//! 4.1). There are few at a time, so they are in a small table of the core and not in the slots: where
//! nothing is locked, an operation finds out by one load. Memory within a locked capability is not
//! given back: the monitors do that when they know who else has a part of it.

use super::policy::CapPolicy;
use mdb::{is_ancestor, is_copy, Policy, RawCap};

/// Most capabilities that are locked at a time on one core.
pub const MOST: usize = 320;

/// What may be deleted although it is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sweep {
    /// Nothing.
    Nothing,
    /// The locked capability alone: it is the last one, and something may be made of it.
    Itself,
    /// What descends from it: it is revoked.
    Descendants,
    /// Both: they are deleted on all cores.
    All,
}

#[derive(Clone, Copy)]
struct Lock {
    cap: RawCap,
    sweep: Sweep,
}

/// The table of one core.
pub struct Locks {
    entries: [Lock; MOST],
    used: usize,
}

impl Locks {
    /// Nothing is locked.
    pub const fn new() -> Locks {
        const FREE: Lock = Lock { cap: RawCap::NULL, sweep: Sweep::Nothing };
        Locks { entries: [FREE; MOST], used: 0 }
    }

    /// Is nothing locked?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many are locked.
    pub(super) fn len(&self) -> u32 {
        self.used as u32
    }

    fn all(&self) -> &[Lock] {
        &self.entries[..self.used]
    }

    fn position(&self, cap: &RawCap) -> Option<usize> {
        self.all().iter().position(|lock| is_copy::<CapPolicy>(&lock.cap, cap))
    }

    /// Is this capability locked?
    pub fn holds(&self, cap: &RawCap) -> bool {
        !self.is_empty() && self.all().iter().any(|lock| lock.covers(cap))
    }

    /// Is it locked, and must not be deleted?
    pub fn keeps(&self, cap: &RawCap) -> bool {
        !self.is_empty() && self.all().iter().any(|lock| lock.covers(cap) && !lock.sweeps(cap))
    }

    /// Is it deleted on all cores?
    pub fn sweeps(&self, cap: &RawCap) -> bool {
        !self.is_empty() && self.all().iter().any(|lock| lock.sweeps(cap))
    }

    /// Do the monitors find out where this memory goes?
    #[inline]
    pub fn withholds(&self, cap: &RawCap) -> bool {
        !self.is_empty() && self.withhold(cap)
    }

    #[cold]
    #[inline(never)]
    fn withhold(&self, cap: &RawCap) -> bool {
        let ((base, len), tree) = (CapPolicy::range(cap), CapPolicy::tree(cap.ty));
        let contains = |lock: &Lock| {
            let (at, bytes) = CapPolicy::range(&lock.cap);
            CapPolicy::tree(lock.cap.ty) == tree && at <= base && base + len <= at + bytes
        };
        self.all().iter().any(contains)
    }

    /// Locks a capability; `false` if too many are. Locking twice does nothing.
    pub(super) fn insert(&mut self, cap: RawCap) -> bool {
        if self.position(&cap).is_some() {
            return true;
        }
        let Some(free) = self.entries.get_mut(self.used) else { return false };
        *free = Lock { cap, sweep: Sweep::Nothing };
        self.used += 1;
        true
    }

    /// Lets what is locked be deleted.
    pub fn sweep(&mut self, cap: &RawCap, sweep: Sweep) {
        if let Some(at) = self.position(cap) {
            self.entries[at].sweep = self.entries[at].sweep.max(sweep);
        }
    }

    /// Unlocks a capability.
    pub(super) fn remove(&mut self, cap: &RawCap) {
        if let Some(at) = self.position(cap) {
            self.used -= 1;
            self.entries[at] = self.entries[self.used];
        }
    }
}

impl Lock {
    fn covers(&self, cap: &RawCap) -> bool {
        is_copy::<CapPolicy>(&self.cap, cap) || is_ancestor::<CapPolicy>(&self.cap, cap)
    }

    pub fn sweeps(&self, cap: &RawCap) -> bool {
        match self.sweep {
            Sweep::Nothing => false,
            Sweep::Itself => is_copy::<CapPolicy>(&self.cap, cap),
            Sweep::Descendants => is_ancestor::<CapPolicy>(&self.cap, cap),
            Sweep::All => self.covers(cap),
        }
    }
}

impl Default for Locks {
    fn default() -> Self {
        Self::new()
    }
}
