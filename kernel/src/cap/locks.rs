//! Capabilities on which the monitors work together: nobody else changes them meanwhile.
//!
//! A lock is on a capability, whatever slots hold it (G18 figure 4.1). There are few at a time, so
//! they are in a small table of the core and not in the slots: where nothing is locked, an operation
//! finds out by one load. The table remembers one slot with the capability and follows it.

use super::policy::CapPolicy;
use super::SlotRef;
use mdb::{is_copy, RawCap};

/// Most capabilities that are locked at a time on one core.
pub const MOST: usize = 64;

#[derive(Clone, Copy)]
struct Lock {
    cap: RawCap,
    slot: Option<SlotRef>,
}

/// The table of one core.
pub struct Locks {
    entries: [Lock; MOST],
    used: usize,
}

impl Locks {
    /// Nothing is locked.
    pub const fn new() -> Locks {
        Locks { entries: [Lock { cap: RawCap::NULL, slot: None }; MOST], used: 0 }
    }

    /// Is nothing locked?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn position(&self, cap: &RawCap) -> Option<usize> {
        self.entries[..self.used].iter().position(|lock| is_copy::<CapPolicy>(&lock.cap, cap))
    }

    /// Is this capability locked?
    #[inline]
    pub fn holds(&self, cap: &RawCap) -> bool {
        !self.is_empty() && self.position(cap).is_some()
    }

    /// Locks a capability, found in `slot` if this core has one; `false` if it is locked already, or
    /// too many are.
    pub(super) fn insert(&mut self, cap: RawCap, slot: Option<SlotRef>) -> bool {
        if self.used == MOST || self.position(&cap).is_some() {
            return false;
        }
        self.entries[self.used] = Lock { cap, slot };
        self.used += 1;
        true
    }

    /// Unlocks a capability; was it locked?
    pub(super) fn remove(&mut self, cap: &RawCap) -> bool {
        let Some(at) = self.position(cap) else { return false };
        self.used -= 1;
        self.entries[at] = self.entries[self.used];
        true
    }

    /// Where a locked capability is, if the slot that was known when it was locked still has it.
    pub(super) fn slot_of(&self, cap: &RawCap) -> Option<SlotRef> {
        self.entries[self.position(cap)?].slot
    }

    /// What `from` held is in `to` from now on, or nowhere.
    #[inline(never)]
    pub(super) fn follow(&mut self, from: SlotRef, to: Option<SlotRef>) {
        for lock in &mut self.entries[..self.used] {
            if lock.slot == Some(from) {
                lock.slot = to;
            }
        }
    }
}

impl Default for Locks {
    fn default() -> Self {
        Self::new()
    }
}
