//! The capabilities of one core, and what operations on them remember.

use super::asks::Asks;
use super::budget::Budget;
use super::dying::Dying;
use super::Db;
use crate::cores::ThisCore;
use crate::object::{DcbRef, SlotRef};
use captypes::invocations::Counter;
use mdb::{RawCap, Slot};

/// All capabilities of one core.
pub struct CapSpace {
    pub(super) core: ThisCore,
    /// The database.
    pub db: Db,
    /// What the present event may still do.
    pub budget: Budget,
    /// Containers that are being emptied.
    pub dying: Dying,
    /// What stands in the way of invocations.
    pub asks: Asks,
    /// A slot that a loop relies on; follows it, and is cut when it is emptied.
    watched: Option<SlotRef>,
    /// For trading the contents of two slots.
    spare: Slot,
    /// What was in slot 0 of a CNode whose own capability is there now: it is deleted next.
    left: Slot,
    /// The first dispatcher: what capabilities lead to from here is in use.
    pub(super) first: Option<DcbRef>,
    /// The next number of [`captypes::op::NewId`].
    pub(super) next_id: u64,
}

impl CapSpace {
    /// There are none.
    pub const fn new() -> CapSpace {
        CapSpace {
            core: ThisCore::ALONE,
            db: Db::new(),
            budget: Budget::new(),
            dying: Dying::new(),
            asks: Asks::new(),
            watched: None,
            spare: Slot::empty(),
            left: Slot::empty(),
            first: None,
            next_id: 1,
        }
    }

    /// Makes these the capabilities of a core.
    pub fn set_core(&mut self, core: ThisCore) {
        self.core = core;
    }

    /// The Ids of this core begin behind so many.
    pub fn skip_ids(&mut self, count: u64) {
        self.next_id += count;
    }

    /// The first dispatcher.
    pub fn first(&self) -> Option<DcbRef> {
        self.first
    }

    /// Makes `dcb` the first dispatcher.
    pub fn set_first(&mut self, dcb: DcbRef) {
        self.first = Some(dcb);
    }

    /// A dispatcher goes.
    pub fn forget(&mut self, dcb: DcbRef) {
        if self.first == Some(dcb) {
            self.first = None;
        }
    }

    /// Spends `steps` of this event; `false` if its budget is used up.
    #[inline]
    pub fn spend(&mut self, steps: u32) -> bool {
        self.budget.spend(steps)
    }

    /// Adds to a counter of the core.
    #[inline]
    pub fn count(&self, counter: Counter, n: u64) {
        self.core.add(counter, n);
    }

    /// The slot that is watched; `None` when it has been emptied.
    #[inline]
    pub fn watched(&self) -> Option<SlotRef> {
        self.watched
    }

    /// Watches a slot from now on, or none.
    pub fn watch(&mut self, slot: Option<SlotRef>) {
        self.watched = slot;
    }

    /// Empties a slot with a Mapping whose entries are cleared.
    #[inline]
    pub fn remove_mapping(&mut self, slot: SlotRef) {
        if self.watched == Some(slot) {
            self.watched = None;
        }
        self.db.remove_mapping(slot);
    }

    /// Empties a slot. Returns what was in it: a dispatcher may have to know.
    #[inline]
    pub fn remove(&mut self, slot: SlotRef) -> RawCap {
        if self.watched == Some(slot) {
            self.watched = None;
        }
        self.db.remove(slot)
    }

    /// Moves what a slot holds, watched or not.
    pub fn relocate(&mut self, from: SlotRef, to: SlotRef) {
        self.db.relocate(from, to);
        self.follow(from, to);
    }

    /// The same of the last capability to a container that is parked.
    pub fn park(&mut self, from: SlotRef, to: SlotRef) {
        self.db.relocate_same(from, to);
        self.follow(from, to);
    }

    fn follow(&mut self, from: SlotRef, to: SlotRef) {
        if self.watched == Some(from) {
            self.watched = Some(to);
        }
    }

    /// The slot for what a parked CNode has left. It is in use only while that CNode, or one that was
    /// parked after it, is in the queue.
    pub fn left(&self) -> SlotRef {
        SlotRef::from_slot((&self.left).into())
    }

    /// Parks what is in `a` in the slot `b`, and moves what is there to `a`.
    pub fn park_in_use(&mut self, a: SlotRef, b: SlotRef) {
        let spare = SlotRef::from_slot((&self.spare).into());
        self.db.relocate_same(a, spare);
        self.db.relocate(b, a);
        self.db.relocate_same(spare, b);
        self.watched = match self.watched {
            Some(slot) if slot == a => Some(b),
            Some(slot) if slot == b => Some(a),
            other => other,
        };
    }
}

impl Default for CapSpace {
    fn default() -> Self {
        Self::new()
    }
}
