//! Delete and revoke.
//!
//! Removing a capability that has copies is one step. Removing the last one destroys the object,
//! and that may take long: a CNode is full of capabilities which may be the last ones to other
//! CNodes, and so on, and a CNode may contain itself. Two rules keep this bounded:
//!
//! * **Containers are parked.** The last capability to a CNode or dispatcher is moved *into* the
//!   container: for a CNode to its slot 0, for a dispatcher to a slot kept for that. What was in slot 0
//!   moves to a slot of the kernel, and goes next. Nobody can reach it then. Parked containers wait in a
//!   queue, linked through the parked capabilities, and `Local::reap` empties the one in front slot by slot.
//!   What a slot holds is deleted by the same code, so that nested containers join the queue
//!   instead of the kernel's stack.
//!   Page tables are left for a second pass: their entries go cheaply with the Mappings that made
//!   them, which most likely wait in the same queue, and each is found slowly from the table.
//! * **Work is counted.** Every event has a budget; when it is spent the invocation answers
//!   `Again`, and everything done so far stays done: slots are empty, entries are cleared. The slot on
//!   which it was invoked holds what it held, or nothing. So a repetition that finds it empty, or does
//!   not find it, as it was reached through what is parked, has the rest of the queue left to do.

use super::mem::{slot_at, Obj, SlotRun};
use super::{attr, lookup, CapExt, SlotRef, HOME_RAM};
use crate::dispatch::dcb::{Dcb, PARKING};
use crate::dispatch::Local;
use crate::ipc::Endpoint;
use captypes::invocations::{Count, Need};
use captypes::place::L2_SLOTS;
use captypes::{CapType, Status};
use mdb::RawCap;

/// Steps of destruction in one event: some 300 instructions each, 600 at worst. What takes longer spends
/// more of them.
pub const BUDGET: u32 = 160;
/// Empty slots that are looked at for the price of one step.
const EMPTY_SLOTS_PER_STEP: u32 = 128;
/// Most of them that are looked at before that is paid.
const MOST_EMPTY: u32 = 16 * EMPTY_SLOTS_PER_STEP;
/// What it costs to find a descendant that is revoked, in steps.
const SEARCHED_PER_CHILD: u32 = 1;
/// Capabilities passed over in the database for the price of one step.
const PASSED_PER_STEP: u32 = 1;
/// What the end of a page table costs besides the step for its slot, and that of a container.
const STEPS_OF_TABLE: u32 = 2;
const STEPS_OF_CONTAINER: u32 = 2;

/// Why destruction stops before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// The work of this event is used up: the invocation is to be repeated.
    Again,
    /// This core alone cannot go on; the monitor is told with what.
    Remote,
}

/// Whether destruction came to its end.
pub type Progress = Result<(), Pause>;

impl From<Pause> for Status {
    fn from(pause: Pause) -> Status {
        match pause {
            Pause::Again => Status::Again,
            Pause::Remote => Status::RetryThroughMonitor,
        }
    }
}

/// The queue of parked containers.
pub struct Dying {
    head: Option<SlotRef>,
    tail: Option<SlotRef>,
    /// The next slot of the first container to look at.
    cursor: u32,
}

impl Dying {
    /// An empty queue.
    pub const fn new() -> Dying {
        Dying { head: None, tail: None, cursor: 0 }
    }
    /// Is nothing left to empty?
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The last one of the queue.
    pub(crate) fn last(&self) -> Option<SlotRef> {
        self.tail
    }

    /// Adds the container whose last capability is in `slot`, its own parking slot. Marks of the
    /// collector mean something else from now on.
    fn push(&mut self, slot: SlotRef) {
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
    fn tables_left(&self) {
        if let Some(first) = self.head {
            let cap = first.cap();
            first.set_rights(cap.rights, cap.attrs | attr::TABLES_LEFT);
        }
    }

    fn pop(&mut self) -> Option<SlotRef> {
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
fn contents(parked: &RawCap) -> SlotRun {
    match parked.kind() {
        CapType::Dispatcher => Dcb::slots(parked.base),
        CapType::L1CNode => SlotRun::new(parked.base, 1, lookup::root_slots(parked.word) - 1),
        _ => SlotRun::new(parked.base, 1, L2_SLOTS - 1),
    }
}

/// Does memory come home when its last capability goes, with `above` its nearest ancestor?
#[inline]
pub(super) fn comes_home(cap: &RawCap, above: Option<&RawCap>) -> bool {
    above.is_some_and(|above| above.ty == HOME_RAM) && cap.ty != HOME_RAM
}

/// May something that keeps memory have been made of a part of it? Of a page nothing is.
#[inline(always)]
fn has_parts(cap: &RawCap) -> bool {
    !cap.is(CapType::Frame) || cap.word != paging::PAGE
}

impl Local {
    /// Spends `steps`; `false` if the budget of this event is used up.
    #[inline]
    pub(crate) fn spend(&mut self, steps: u32) -> bool {
        if self.work == 0 {
            return false;
        }
        self.work = self.work.saturating_sub(steps);
        true
    }

    /// Removes the capability in `slot`.
    #[inline]
    pub fn delete(&mut self, slot: SlotRef) -> Result<(), Status> {
        self.delete_at_once(slot)?;
        self.reap_emptied()
    }

    /// Empties all of `slots`, up to a Mapping whose entries may not change.
    pub fn delete_range(&mut self, slots: SlotRun) -> Result<Count, Status> {
        self.tlb.expect(slots.len());
        let (mut count, mut at) = (0, slots.next_filled(0));
        let mut ends = Ok(());
        while at < slots.len() {
            let cap = slots.get(at).cap();
            if cap.is(CapType::Mapping) {
                ends = self.check_entries(&cap);
                if ends.is_err() {
                    break;
                }
            }
            self.delete_at_once(slots.get(at))?;
            count += 1;
            at = slots.next_filled(at + 1);
        }
        self.reap_emptied()?;
        ends.map(|()| Count { count })
    }

    /// Empties what is parked, after the slots of an invocation have been emptied: [`Local::emptied`]
    /// says if only that is left to do.
    #[inline(always)]
    pub(crate) fn reap_emptied(&mut self) -> Result<(), Status> {
        if self.dying.is_empty() {
            return Ok(());
        }
        let reaped = self.reap();
        self.emptied = reaped.is_err();
        Ok(reaped?)
    }

    /// Empties what is parked.
    pub(super) fn reap_all(&mut self) -> Progress {
        if self.dying.is_empty() {
            return Ok(());
        }
        self.reap()
    }

    #[inline]
    pub(crate) fn finish_reaping(&mut self) -> Result<(), Status> {
        if self.dying.is_empty() {
            return Ok(());
        }
        Ok(self.reap()?)
    }

    /// Deletes all copies and descendants of what `slot` holds.
    pub fn revoke(&mut self, slot: SlotRef) -> Result<(), Status> {
        let cap = slot.cap();
        if cap.attrs & attr::FOREIGN != 0 || cap.has_remote(attr::COPIES_OR_DESCENDANTS) {
            return Err(self.ask(Need::Revoke, slot).into());
        }
        self.check_lock(slot)?;
        self.revoke_here(slot).map_err(Status::from)
    }

    /// Deletes all copies and descendants of what `slot` holds on this core.
    pub(super) fn revoke_here(&mut self, slot: SlotRef) -> Progress {
        self.watched = Some(slot);
        let result = self.revoke_watched();
        self.watched = None;
        result
    }

    /// The slot itself may be in a container that descends from it, and move or vanish.
    fn revoke_watched(&mut self) -> Progress {
        while let Some(copy) = self.watched.and_then(|slot| self.db.a_copy(slot)) {
            if !self.spend(1) {
                return Err(Pause::Again);
            }
            self.drop_slot(copy);
        }
        while let Some(slot) = self.watched {
            if self.work == 0 {
                return Err(Pause::Again);
            }
            let (child, passed) = self.first_to_revoke(slot);
            let Some(child) = child else { break };
            let parked = child.cap().attrs & attr::PARKED != 0;
            if parked {
                self.reap_all()?;
            } else {
                self.delete_swept(child)?;
            }
            // The search is paid afterwards, so that every event comes further.
            self.spend(SEARCHED_PER_CHILD + passed / PASSED_PER_STEP);
        }
        self.reap_all()
    }

    /// The first descendant of what `slot` holds, and how many others are before it. What has a badge
    /// has none, but many siblings.
    fn first_to_revoke(&self, slot: SlotRef) -> (Option<SlotRef>, u32) {
        let cap = slot.cap();
        match cap.is(CapType::Endpoint) && cap.aux != 0 {
            true => (None, 0),
            false => self.db.first_descendant_behind(slot),
        }
    }

    /// Removes what `slot` holds, and destroys the object if nobody else has it.
    pub(crate) fn delete_slot(&mut self, slot: SlotRef) -> Progress {
        self.delete_at_once(slot)
    }

    /// The same, in line: most often a few loads and stores.
    #[inline(always)]
    fn delete_at_once(&mut self, slot: SlotRef) -> Progress {
        let ty = slot.cap().ty;
        if ty == CapType::Null as u8 {
            return Ok(());
        }
        if !self.spend(1) {
            return Err(Pause::Again);
        }
        if ty == CapType::Mapping as u8 {
            self.remove_mapping(slot);
            return Ok(());
        }
        self.check_delete(slot)?;
        if self.db.has_copies(slot) {
            self.drop_slot(slot);
            return Ok(());
        }
        self.delete_last(slot)
    }

    /// Removes the last capability to something. A CNode that is parked leaves what was in its slot 0
    /// in [`Local::left`], which may be the last capability to a CNode, and so on: with that, it goes on
    /// here if `slot` is that slot, and in [`Local::delete_left`] if it is not.
    #[inline(never)]
    fn delete_last(&mut self, slot: SlotRef) -> Progress {
        loop {
            let cap = slot.cap();
            if cap.attrs & (attr::FOREIGN | attr::REMOTE) != 0 && !cap.is(CapType::Mapping) {
                if cap.is_foreign() {
                    return self.drop_foreign(slot);
                }
                self.check_relatives(slot)?;
            }
            match cap.kind() {
                CapType::L1CNode | CapType::L2CNode => self.park_cnode(slot, &cap)?,
                CapType::Dispatcher => self.park_dispatcher(slot, &cap)?,
                CapType::Mapping => self.remove_mapping(slot),
                CapType::Endpoint if self.has_other_badges(slot, &cap) => {
                    self.drop_slot(slot);
                    return Ok(());
                }
                _ => return self.destroy(slot, &cap),
            }
            let left = slot.cap();
            if left.is_null() || left.attrs & attr::PARKED != 0 {
                return Ok(());
            }
            self.check_delete(slot)?;
            if self.db.has_copies(slot) {
                self.drop_slot(slot);
                return Ok(());
            }
            if !self.spend(1) {
                return Err(Pause::Again);
            }
        }
    }

    /// Removes the last capability to what is neither a container nor a Mapping.
    fn destroy(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        let above = self.db.nearest_ancestor(slot).map(|above| above.cap());
        match cap.kind() {
            CapType::Frame | CapType::DevFrame => {
                self.unmap_uncovered(slot, cap, above.as_ref())?
            }
            _ if cap.level() != 0 => {
                self.spend(STEPS_OF_TABLE);
                self.tear_down(slot, cap)?
            }
            CapType::Endpoint => {
                if let Some(endpoint) = Obj::<Endpoint>::of(cap) {
                    self.close_endpoint(endpoint)?;
                }
            }
            CapType::Irq => self.unbind_irqs(cap),
            _ => {}
        }
        self.drop_last(slot, cap, above)
    }

    /// Does another capability, with another badge or without, stand for the same Endpoint?
    #[inline(never)]
    fn has_other_badges(&self, slot: SlotRef, cap: &RawCap) -> bool {
        match cap.aux {
            0 => self.db.first_descendant(slot).is_some(),
            _ => {
                let plain = RawCap { aux: 0, ..*cap };
                self.db.has_siblings(slot) || self.db.find(&plain).is_some()
            }
        }
    }

    /// Removes the Mappings of a Frame whose last capability goes, unless another Frame stands behind
    /// them.
    pub(super) fn unmap_uncovered(
        &mut self,
        slot: SlotRef,
        cap: &RawCap,
        above: Option<&RawCap>,
    ) -> Progress {
        if above.is_some_and(|above| above.is_frame() && above.aux == 0) {
            // They find another place in the database.
            self.spend(self.db.hanging_leaves(slot));
            return Ok(());
        }
        self.unmap_frame(slot, cap)
    }

    /// Removes the last capability to what is no Mapping. `above`: its nearest ancestor. What
    /// nothing else covers but a home comes home.
    #[inline]
    fn drop_last(&mut self, slot: SlotRef, cap: &RawCap, above: Option<RawCap>) -> Progress {
        let at_home = comes_home(cap, above.as_ref());
        let withheld = at_home && self.db.locks.withholds(cap);
        if at_home && !withheld && has_parts(cap) && self.db.first_descendant(slot).is_some() {
            return self.give_back(slot, cap);
        }
        self.drop_slot(slot);
        if at_home && !withheld {
            self.reclaim(cap.base, cap.word);
        }
        Ok(())
    }

    /// Removes the last capability to memory of which parts belong to others: the rest comes home,
    /// from its beginning on. When the work of this event is used up, the capability is to what is
    /// left.
    fn give_back(&mut self, slot: SlotRef, own: &RawCap) -> Progress {
        let end = own.base + own.word;
        let mut at = own.base;
        let mut next = self.db.first_descendant(slot);
        while let Some(inner) = next {
            let cap = inner.cap();
            // What lies in another descendant, and Mappings, are behind `at` already.
            if cap.base >= at && cap.ty != CapType::Mapping as u8 {
                if cap.base > at {
                    self.reclaim(at, cap.base - at);
                }
                at = cap.base + cap.word;
            }
            if at >= end {
                break;
            }
            if !self.spend(1) {
                let cap = self.db.remove(slot);
                self.db.insert(slot, RawCap { base: at, word: end - at, ..cap });
                return Err(Pause::Again);
            }
            next = self.db.next_before(inner, end);
        }
        if at < end {
            self.reclaim(at, end - at);
        }
        self.drop_slot(slot);
        Ok(())
    }

    /// Empties one slot, and nothing else.
    pub(crate) fn drop_slot(&mut self, slot: SlotRef) {
        let cap = self.db.remove(slot);
        if self.watched == Some(slot) {
            self.watched = None;
        }
        if cap.attrs & attr::IN_DISPATCHER != 0 {
            self.refresh_dispatcher(Obj::around(slot));
        }
    }

    /// Moves the last capability of a CNode into it, and what was there to [`Local::left`].
    fn park_cnode(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        let own = slot_at(cap.base, 0);
        if own == slot {
            self.dying.push(own);
            return Ok(());
        }
        let left = self.left();
        if own.is_empty() {
            self.relocate_watched(slot, own);
        } else if slot == left {
            self.swap(slot, own);
        } else {
            self.delete_left()?;
            self.move_to_left(own, left);
            self.relocate_watched(slot, own);
        }
        if cap.attrs & attr::IN_DISPATCHER != 0 {
            own.set_rights(cap.rights, cap.attrs & !attr::IN_DISPATCHER);
            self.refresh_dispatcher(Obj::around(slot));
        }
        self.dying.push(own);
        Ok(())
    }

    /// The slot for what a parked CNode has left. It is in use only while that CNode, or one that was
    /// parked after it, is in the queue.
    fn left(&self) -> SlotRef {
        SlotRef::from_slot((&self.left).into())
    }

    /// Deletes what parked CNodes have left.
    fn delete_left(&mut self) -> Progress {
        let left = self.left();
        while !left.is_empty() {
            match self.delete_slot(left) {
                Err(Pause::Again) => return Err(Pause::Again),
                Err(Pause::Remote) => self.leave_slot(left)?,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Moves what slot 0 of a CNode holds to an empty slot of the kernel.
    fn move_to_left(&mut self, own: SlotRef, left: SlotRef) {
        self.db.relocate(own, left);
        if self.watched == Some(own) {
            self.watched = Some(left);
        }
    }

    /// Moves the last capability to a container that is parked.
    fn relocate_watched(&mut self, from: SlotRef, to: SlotRef) {
        self.db.relocate_same(from, to);
        if self.watched == Some(from) {
            self.watched = Some(to);
        }
    }

    fn swap(&mut self, a: SlotRef, b: SlotRef) {
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

    /// Stops a dispatcher and moves its last capability into it.
    fn park_dispatcher(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        let Some(dcb) = Obj::<Dcb>::of(cap) else { return Ok(()) };
        self.retire(dcb)?;
        let own = Dcb::slot_at(cap.base, PARKING);
        self.relocate_watched(slot, own);
        self.dying.push(own);
        Ok(())
    }

    /// Empties parked containers and gives their memory back. Page tables come last: when all else
    /// is gone, nothing is mapped in them any more by the Mappings of these containers.
    fn reap(&mut self) -> Progress {
        self.tlb.expect(u32::MAX);
        while let Some(parked) = self.dying.head {
            self.delete_left()?;
            self.empty_first(parked.cap())?;
            let cap = parked.cap();
            if cap.attrs & attr::TABLES_LEFT != 0 && cap.attrs & attr::SECOND_PASS == 0 {
                self.dying.pop();
                parked.set_rights(cap.rights, cap.attrs | attr::SECOND_PASS);
                self.dying.push(parked);
                continue;
            }
            if !self.spend(STEPS_OF_CONTAINER) {
                return Err(Pause::Again);
            }
            let above = self.db.nearest_ancestor(parked).map(|above| above.cap());
            if cap.attrs & attr::REMOTE != 0 && self.needs_others(&cap, above.as_ref()) {
                self.leave_memory(&cap)?;
                self.dying.pop();
                self.drop_slot(parked);
                continue;
            }
            self.dying.pop();
            let dropped = self.drop_last(parked, &cap, above);
            debug_assert!(dropped == Ok(()), "nothing is made of a container");
        }
        Ok(())
    }

    /// Empties the first container, `parked`, but for tables in the first pass.
    fn empty_first(&mut self, parked: RawCap) -> Progress {
        let slots = contents(&parked);
        let second = parked.attrs & attr::SECOND_PASS != 0;
        loop {
            let from = self.dying.cursor;
            let next = slots.next_filled_within(from, MOST_EMPTY);
            self.dying.cursor = next;
            let looked_at = next - from;
            if !self.spend(1 + looked_at / EMPTY_SLOTS_PER_STEP) {
                return Err(Pause::Again);
            }
            if next >= slots.len() {
                return Ok(());
            }
            if looked_at == MOST_EMPTY {
                continue;
            }
            let slot = slots.get(next);
            if !second && slot.cap().level() != 0 && !self.db.has_copies(slot) {
                self.dying.tables_left();
            } else {
                match self.delete_slot(slot) {
                    Err(Pause::Again) => return Err(Pause::Again),
                    Err(Pause::Remote) => self.leave_slot(slot)?,
                    Ok(()) => {}
                }
            }
            self.dying.cursor += 1;
        }
    }
}
