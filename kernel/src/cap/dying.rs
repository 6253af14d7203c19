//! Containers that are being emptied; see [`operations::delete`](crate::operations::delete).

use super::{attr, lookup, CapExt};
use crate::object::dcb::PARKING;
use crate::object::{slot_at, Dcb, SlotRef, SlotRun};
use captypes::place::L2_SLOTS;
use captypes::CapType;
use mdb::RawCap;

/// The queue of parked containers.
pub struct Dying {
    head: Option<SlotRef>,
    tail: Option<SlotRef>,
    /// The next slot of the first container to look at.
    cursor: u32,
    /// The deletion that answers `Again` has emptied its slots.
    pub has_emptied: bool,
}

impl Dying {
    /// An empty queue.
    pub const fn new() -> Dying {
        Dying { head: None, tail: None, cursor: 0, has_emptied: false }
    }
    /// The first one.
    pub fn first(&self) -> Option<SlotRef> {
        self.head
    }
    /// The next slot of the first one to look at.
    pub fn cursor(&self) -> u32 {
        self.cursor
    }
    /// All of its slots before this one are empty, or passed over.
    pub fn set_cursor(&mut self, cursor: u32) {
        self.cursor = cursor;
    }
    /// Is nothing left to empty?
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The last one of the queue.
    pub fn last(&self) -> Option<SlotRef> {
        self.tail
    }

    /// Adds the container whose last capability is in `slot`, its own parking slot. Marks of the
    /// collector mean something else from now on.
    pub fn push(&mut self, slot: SlotRef) {
        let cap = slot.cap();
        let own = attr::SECOND_PASS | attr::TABLES_LEFT;
        let kept = if cap.attrs & attr::PARKED != 0 { own } else { 0 };
        let attrs = cap.attrs & (attr::INHERITED | attr::REMOTE | kept) | attr::PARKED;
        slot.set_rights(cap.rights, attrs);
        match self.tail {
            Some(tail) => link(tail, cap),
            None => self.head = Some(slot),
        }
        self.tail = Some(slot);
    }

    /// The first container will need a second pass.
    pub fn tables_left(&self) {
        if let Some(first) = self.head {
            let cap = first.cap();
            first.set_rights(cap.rights, cap.attrs | attr::TABLES_LEFT);
        }
    }

    pub fn pop(&mut self) -> Option<SlotRef> {
        let first = self.head?;
        self.cursor = 0;
        if self.tail == Some(first) {
            (self.head, self.tail) = (None, None);
        } else {
            self.head = Some(linked(first.cap()));
        }
        Some(first)
    }
}

impl Default for Dying {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the parked capability in `slot` name the container of `next` as the one behind it.
fn link(slot: SlotRef, next: RawCap) {
    let own = slot.cap();
    let dispatcher = if next.is(CapType::Dispatcher) { attr::NEXT_IS_DISPATCHER } else { 0 };
    // A container that comes a second time has been linked before.
    slot.set_rights(own.rights, own.attrs & !attr::NEXT_IS_DISPATCHER | dispatcher);
    slot.set_aux((next.base / paging::PAGE) as u32);
}

/// Where the container behind the one of `cap` has its parked capability.
fn linked(cap: RawCap) -> SlotRef {
    let base = u64::from(cap.aux) * paging::PAGE;
    if cap.attrs & attr::NEXT_IS_DISPATCHER != 0 {
        Dcb::slot_at(base, PARKING)
    } else {
        slot_at(base, 0)
    }
}

/// The slots of a parked container that may hold something else than its own capability.
pub fn contents(parked: &RawCap) -> SlotRun {
    match parked.kind() {
        CapType::Dispatcher => Dcb::slots(parked.base),
        CapType::L1CNode => SlotRun::new(parked.base, 1, lookup::root_slots(parked.word) - 1),
        _ => SlotRun::new(parked.base, 1, L2_SLOTS - 1),
    }
}
