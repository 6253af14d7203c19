//! Delete and revoke.
//!
//! Removing a capability that has copies is one step. Removing the last one destroys the object,
//! and that may take long: a CNode is full of capabilities which may be the last ones to other
//! CNodes, and so on, and a CNode may contain itself. Two rules keep this bounded:
//!
//! * **Containers are parked.** The last capability to a CNode or dispatcher is moved *into* the
//!   container: for a CNode to its slot 0, for a dispatcher to a slot kept for that. What was in slot 0
//!   moves to a slot of the kernel, and goes next. Nobody can reach it then. Parked containers wait in a
//!   queue, linked through the parked capabilities, and `reap` empties the one in front slot by slot.
//!   What a slot holds is deleted by the same code, so that nested containers join the queue
//!   instead of the kernel's stack.
//!   Page tables are left for a second pass: their entries go cheaply with the Mappings that made
//!   them, which most likely wait in the same queue, and each is found slowly from the table.
//! * **Work is counted.** Every event has a budget; when it is spent the invocation answers
//!   `Again`, and everything done so far stays done: slots are empty, entries are cleared. The slot on
//!   which it was invoked holds what it held, or nothing. So a repetition that finds it empty, or does
//!   not find it, as it was reached through what is parked, has the rest of the queue left to do.

use super::chunks;
use super::endpoints::close_endpoint;
use super::leave::{drop_foreign, leave_memory, leave_slot};
use super::morsels::{close_pool, unmap_morsel};
use super::pages::{delete_page, is_plain_page};
use super::protocol::delete_swept;
use super::reclaim::reclaim;
use super::retire::retire;
use crate::arch;
use crate::cap::asks::comes_home;
use crate::cap::budget::{Pause, Progress};
use crate::cap::dying::contents;
use crate::cap::loans::pages_of;
use crate::cap::mapping::is_mapping;
use crate::cap::protocol::keeps_memory;
use crate::cap::{attr, CapExt, CapSpace, MEMORY};
use crate::dispatch::Scheduler;
use crate::driver::CpuDriver;
use crate::morsels::is_all_of_pool;
use crate::object::dcb::{Dcb, PARKING};
use crate::object::{slot_at, Endpoint, Obj, SlotRef, SlotRun};
use crate::vspace::{close_device_space, remove_plain_mapping};
use captypes::invocations::{Count, Need};
use captypes::types::{Finaliser, Wire};
use captypes::{CapType, Status};
use mdb::{Class, RawCap};
use paging::PAGE;

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
/// Pages that leave the direct map for the price of one step.
const HIDDEN_PER_STEP: u32 = 64;
const STEPS_OF_CONTAINER: u32 = 2;

/// Does something else keep a part of the memory of what `slot` holds? Of a page only Loans do.
#[inline(always)]
pub(super) fn has_parts(caps: &CapSpace, slot: SlotRef, cap: &RawCap) -> bool {
    if cap.is(CapType::Frame) && cap.word == PAGE && !caps.db.may_be_lent(cap) {
        return false;
    }
    let lent = || !cap.kind().is_kernel_object() && caps.db.loan_into(cap.base).is_some();
    first_part(caps, slot, cap).is_some() || lent()
}

/// What comes next inside of the memory of `slot`, which need not descend from it: Loans of what it is a part of
/// begin in it and end behind it.
#[inline(always)]
fn first_part(caps: &CapSpace, slot: SlotRef, cap: &RawCap) -> Option<SlotRef> {
    caps.db.next_before(slot, cap.base + cap.word)
}

/// Removes the capability in `slot`.
#[inline]
pub fn delete(cpu: &mut CpuDriver, slot: SlotRef) -> Result<(), Status> {
    delete_at_once(cpu, slot)?;
    reap_emptied(cpu)
}

/// Empties all of `slots`, up to a Mapping whose entries may not change.
pub fn delete_range(cpu: &mut CpuDriver, slots: SlotRun) -> Result<Count, Status> {
    cpu.vm.expect(slots.len());
    let (mut count, mut at) = (0, slots.next_filled(0));
    let mut ends = Ok(());
    while at < slots.len() {
        let cap = slots.get(at).cap();
        if is_mapping(&cap) {
            ends = cpu.caps.check_entries(&cap);
            if ends.is_err() {
                break;
            }
        }
        delete_at_once(cpu, slots.get(at))?;
        count += 1;
        at = slots.next_filled(at + 1);
    }
    reap_emptied(cpu)?;
    ends.map(|()| Count { count })
}

/// Empties what is parked, after the slots of an invocation have been emptied; notes if only that is
/// left to do.
#[inline(always)]
pub fn reap_emptied(cpu: &mut CpuDriver) -> Result<(), Status> {
    if cpu.caps.dying.is_empty() {
        return Ok(());
    }
    let reaped = reap(cpu);
    cpu.caps.dying.has_emptied = reaped.is_err();
    Ok(reaped?)
}

/// Empties what is parked.
pub fn reap_all(cpu: &mut CpuDriver) -> Progress {
    if cpu.caps.dying.is_empty() {
        return Ok(());
    }
    reap(cpu)
}

#[inline]
pub fn finish_reaping(cpu: &mut CpuDriver) -> Result<(), Status> {
    if cpu.caps.dying.is_empty() {
        return Ok(());
    }
    Ok(reap(cpu)?)
}

/// Deletes all copies and descendants of what `slot` holds.
pub fn revoke(cpu: &mut CpuDriver, slot: SlotRef) -> Result<(), Status> {
    let cap = slot.cap();
    if cap.attrs & attr::FOREIGN != 0 || cap.has_remote(attr::COPIES_OR_DESCENDANTS) {
        return Err(cpu.caps.ask(Need::Revoke, slot).into());
    }
    cpu.caps.check_lock(slot)?;
    revoke_here(cpu, slot).map_err(Status::from)
}

/// Deletes all copies and descendants of what `slot` holds on this core.
pub fn revoke_here(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    cpu.caps.watch(Some(slot));
    let result = revoke_watched(cpu);
    cpu.caps.watch(None);
    result
}

/// The slot itself may be in a container that descends from it, and move or vanish.
fn revoke_watched(cpu: &mut CpuDriver) -> Progress {
    while let Some(copy) = cpu.caps.watched().and_then(|slot| cpu.caps.db.a_copy(slot)) {
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
        drop_slot(&mut cpu.caps, &mut cpu.sched, copy);
    }
    while let Some(slot) = cpu.caps.watched() {
        if cpu.caps.budget.left() == 0 {
            return Err(Pause::Again);
        }
        let (child, passed) = first_to_revoke(cpu, slot);
        let Some(child) = child else { break };
        let parked = child.cap().attrs & attr::PARKED != 0;
        if parked {
            reap_all(cpu)?;
        } else {
            delete_swept(cpu, child)?;
        }
        // The search is paid afterwards, so that every event comes further.
        cpu.caps.spend(SEARCHED_PER_CHILD + passed / PASSED_PER_STEP);
    }
    reap_all(cpu)
}

/// The first descendant of what `slot` holds, and how many others are before it. What has a badge
/// has none, but many siblings.
fn first_to_revoke(cpu: &CpuDriver, slot: SlotRef) -> (Option<SlotRef>, u32) {
    let cap = slot.cap();
    match cap.is(CapType::Endpoint) && cap.aux != 0 {
        true => (None, 0),
        false => cpu.caps.db.first_descendant_behind(slot),
    }
}

/// Removes what `slot` holds, and destroys the object if nobody else has it.
pub fn delete_slot(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    delete_at_once(cpu, slot)
}

/// The same, in line: most often a few loads and stores.
#[inline(always)]
fn delete_at_once(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    let ty = slot.cap().ty;
    if ty == CapType::Null as u8 {
        return Ok(());
    }
    if !cpu.caps.spend(1) {
        return Err(Pause::Again);
    }
    if ty == CapType::Mapping as u8 {
        remove_plain_mapping(&mut cpu.vm, &mut cpu.caps, slot);
        return Ok(());
    }
    cpu.caps.check_delete(slot)?;
    if cpu.caps.db.has_copies(slot) {
        drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
        return Ok(());
    }
    if is_plain_page(&cpu.caps, slot) && delete_page(cpu, slot) {
        return Ok(());
    }
    delete_last(cpu, slot)
}

/// Removes the last capability to something. A CNode that is parked leaves what was in its slot 0
/// in [`CapSpace::left`], which may be the last capability to a CNode, and so on: with that, it goes on
/// here if `slot` is that slot, and in `delete_left` if it is not.
#[inline(never)]
fn delete_last(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    loop {
        let cap = slot.cap();
        if cap.attrs & (attr::FOREIGN | attr::REMOTE) != 0 && !cap.is(CapType::Mapping) {
            if cap.is(CapType::Loan) {
                return destroy(cpu, slot, &cap);
            }
            if cap.is_foreign() {
                return drop_foreign(cpu, slot);
            }
            // With a Morsel nothing ends but what it maps here.
            if cap.row().wire() != Wire::Unowned || is_all_of_pool(&cap) {
                cpu.caps.check_relatives(slot)?;
            }
        }
        match cap.row().finaliser() {
            Finaliser::EmptyCNode => park_cnode(cpu, slot, &cap)?,
            Finaliser::StopDispatcher => park_dispatcher(cpu, slot, &cap)?,
            Finaliser::ClearEntries => cpu.vm.remove_mapping(&mut cpu.caps, slot),
            Finaliser::Close if has_other_badges(cpu, slot, &cap) => {
                drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
                return Ok(());
            }
            Finaliser::Forget
            | Finaliser::Unmap
            | Finaliser::TearDown
            | Finaliser::Close
            | Finaliser::Unbind
            | Finaliser::ClosePool
            | Finaliser::LeavePool
            | Finaliser::UnmapMorsel
            | Finaliser::CloseDeviceSpace
            | Finaliser::Return => return destroy(cpu, slot, &cap),
        }
        let left = slot.cap();
        if left.is_null() || left.attrs & attr::PARKED != 0 {
            return Ok(());
        }
        cpu.caps.check_delete(slot)?;
        if cpu.caps.db.has_copies(slot) {
            drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
            return Ok(());
        }
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
    }
}

/// Removes the last capability to what is neither a container nor a Mapping.
fn destroy(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    let above = cpu.caps.db.nearest_ancestor(slot).map(|above| above.cap());
    match cap.row().finaliser() {
        Finaliser::Unmap => unmap_uncovered(cpu, slot, cap, above.as_ref())?,
        Finaliser::TearDown => {
            cpu.caps.spend(STEPS_OF_TABLE);
            cpu.vm.tear_down(&mut cpu.caps, cpu.sched.vector_unit(), slot, cap)?
        }
        Finaliser::Close => {
            if let Some(endpoint) = Obj::<Endpoint>::of(cap) {
                close_endpoint(cpu, endpoint)?;
            }
        }
        Finaliser::Unbind => cpu.irqs.unbind(crate::dispatch::lines(cap)),
        Finaliser::Return => return return_loan(cpu, slot, cap, above.as_ref()),
        Finaliser::Forget if arch::SPARSE && cap.is(CapType::Blank) => hide_blank(cpu, slot)?,
        Finaliser::LeavePool => chunks::leave(cpu, slot, cap)?,
        Finaliser::ClosePool | Finaliser::UnmapMorsel | Finaliser::CloseDeviceSpace => {
            finalise_rare(cpu, slot, cap)?
        }
        Finaliser::Forget => {}
        // Not here: see `delete_last`.
        Finaliser::EmptyCNode | Finaliser::StopDispatcher | Finaliser::ClearEntries => {}
    }
    drop_last(cpu, slot, cap, above)
}

/// The same of what there are few of: apart, as every page that goes comes through [`destroy`].
#[cold]
#[inline(never)]
fn finalise_rare(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    match cap.row().finaliser() {
        Finaliser::ClosePool => close_pool(cpu, cap),
        Finaliser::UnmapMorsel => unmap_morsel(cpu, slot, cap),
        _ => close_device_space(&mut cpu.vm, &mut cpu.caps, cap),
    }
}

/// What a retype has made so far is memory of no object.
fn hide_blank(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    loop {
        let cap = slot.cap();
        let count = cap.aux.min(HIDDEN_PER_STEP);
        if count == 0 {
            return Ok(());
        }
        let left = cap.aux - count;
        arch::hide(cap.base + u64::from(left) * PAGE, u64::from(count) * PAGE);
        slot.set_aux(left);
        if !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
    }
}

/// The memory of a container that is empty is an object's no more, but for its first page.
fn hide_container(cpu: &mut CpuDriver, cap: &RawCap) -> Progress {
    let slots = contents(cap).len();
    let pages = (cap.word / PAGE) as u32;
    loop {
        // The cursor goes on where the slots end.
        let done = cpu.caps.dying.cursor() - slots;
        if done + 1 >= pages {
            return Ok(());
        }
        let count = (pages - 1 - done).min(HIDDEN_PER_STEP);
        arch::hide(cap.base + u64::from(1 + done) * PAGE, u64::from(count) * PAGE);
        cpu.caps.dying.set_cursor(slots + done + count);
        if count == HIDDEN_PER_STEP && !cpu.caps.spend(1) {
            return Err(Pause::Again);
        }
    }
}

/// Does another capability, with another badge or without, stand for the same Endpoint?
#[inline(never)]
fn has_other_badges(cpu: &CpuDriver, slot: SlotRef, cap: &RawCap) -> bool {
    match cap.aux {
        0 => cpu.caps.db.first_descendant(slot).is_some(),
        _ => {
            let plain = RawCap { aux: 0, ..*cap };
            cpu.caps.db.has_siblings(slot) || cpu.caps.db.find(&plain).is_some()
        }
    }
}

/// Removes the Mappings of a Frame whose last capability goes, unless another Frame stands behind
/// them.
pub fn unmap_uncovered(
    cpu: &mut CpuDriver,
    slot: SlotRef,
    cap: &RawCap,
    above: Option<&RawCap>,
) -> Progress {
    if above.is_some_and(|above| above.is_frame() && above.aux == 0) {
        // They find another place in the database.
        cpu.caps.spend(cpu.caps.db.hanging_leaves(slot));
        return Ok(());
    }
    cpu.vm.unmap_frame(&mut cpu.caps, slot, cap)
}

/// Removes the last capability to what is no Mapping. `above`: its nearest ancestor. What
/// nothing else covers but a home comes home.
#[inline]
fn drop_last(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap, above: Option<RawCap>) -> Progress {
    let at_home = comes_home(cap, above.as_ref());
    let withheld = at_home && cpu.caps.db.locks.withholds(cap);
    if at_home && !withheld && has_parts(&cpu.caps, slot, cap) {
        return give_back(cpu, slot, cap);
    }
    drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
    if arch::SPARSE && cap.kind().is_kernel_object() {
        // Of a container the rest is hidden already.
        arch::hide(cap.base, PAGE);
    }
    if at_home && !withheld {
        reclaim(cpu, cap.base, cap.word);
    }
    Ok(())
}

/// Removes the last capability to memory of which parts belong to others: the rest comes home,
/// from its beginning on. When the work of this event is used up, the capability is to what is
/// left.
fn give_back(cpu: &mut CpuDriver, slot: SlotRef, own: &RawCap) -> Progress {
    let end = own.base + own.word;
    let mut at = own.base;
    let mut next = first_part(&cpu.caps, slot, own);
    // Loans are wherever they like: some may reach into what is left after a pause.
    while let Some(past) = cpu.caps.db.loan_into(at) {
        at = past.min(end);
        if at >= end {
            next = None;
            break;
        }
        if !cpu.caps.spend(1) {
            return keep_rest(cpu, slot, at, end);
        }
    }
    while let Some(inner) = next {
        let cap = inner.cap();
        // What lies in another descendant, and Mappings, are behind `at` already.
        if cap.ty != CapType::Mapping as u8 {
            let (start, past) = pages_of(&cap);
            if start > at {
                reclaim(cpu, at, start - at);
            }
            at = at.max(past);
        }
        if at >= end {
            break;
        }
        if !cpu.caps.spend(1) {
            return keep_rest(cpu, slot, at, end);
        }
        next = cpu.caps.db.next_before(inner, end);
    }
    if at < end {
        reclaim(cpu, at, end - at);
    }
    drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
    Ok(())
}

/// The capability that is being deleted is to `[at, end)` from now on.
fn keep_rest(cpu: &mut CpuDriver, slot: SlotRef, at: u64, end: u64) -> Progress {
    let cap = cpu.caps.db.remove(slot);
    cpu.caps.db.insert(slot, RawCap { base: at, word: end - at, ..cap });
    Err(Pause::Again)
}

/// Removes the last capability to a Loan, of which `above` is the nearest ancestor. If the Frame is gone,
/// so that this is a home, the pages that nothing else covers come home, or go to the monitor, which knows whether other
/// cores have them; when the work of this event is used up, the Loan is of what has not been looked at.
#[inline(never)]
fn return_loan(
    cpu: &mut CpuDriver,
    slot: SlotRef,
    own: &RawCap,
    above: Option<&RawCap>,
) -> Progress {
    let (mut at, end) = (own.base, own.base + own.word);
    let elsewhere = cpu.caps.needs_others(own, above);
    if !elsewhere && (!comes_home(own, above) || cpu.caps.db.locks.withholds(own)) {
        at = end;
    }
    while at < end {
        let page = at & !(PAGE - 1);
        let next = (page + PAGE).min(end);
        if is_lent_once(&cpu.caps, page) {
            if elsewhere {
                leave_memory(cpu, &RawCap { base: page, word: PAGE, ..*own })?;
            } else {
                reclaim(cpu, page, PAGE);
            }
        }
        at = next;
        if at < end && !cpu.caps.spend(1) {
            return keep_rest(cpu, slot, at, end);
        }
    }
    drop_slot(&mut cpu.caps, &mut cpu.sched, slot);
    Ok(())
}

/// Is a page of a Loan covered by nothing else but a home?
fn is_lent_once(caps: &CapSpace, page: u64) -> bool {
    let all = caps.db.overlapping(MEMORY, page, PAGE, Class::All);
    let others = all.filter(|slot| keeps_memory(slot.ty()));
    others.take(2).count() == 1
}

/// Empties one slot, and nothing else.
pub fn drop_slot(caps: &mut CapSpace, sched: &mut Scheduler, slot: SlotRef) {
    if slot.cap().attrs & attr::IN_DISPATCHER != 0 {
        return drop_slot_in_dispatcher(caps, sched, slot);
    }
    caps.remove(slot);
}

#[inline(never)]
fn drop_slot_in_dispatcher(caps: &mut CapSpace, sched: &mut Scheduler, slot: SlotRef) {
    caps.remove(slot);
    sched.refresh_dispatcher(Obj::around(slot));
}

/// Moves the last capability of a CNode into it, and what was there to [`CapSpace::left`].
fn park_cnode(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    let own = slot_at(cap.base, 0);
    if own == slot {
        cpu.caps.dying.push(own);
        return Ok(());
    }
    let left = cpu.caps.left();
    if own.is_empty() {
        cpu.caps.park(slot, own);
    } else if slot == left {
        cpu.caps.park_in_use(slot, own);
    } else {
        delete_left(cpu)?;
        cpu.caps.relocate(own, left);
        cpu.caps.park(slot, own);
    }
    if cap.attrs & attr::IN_DISPATCHER != 0 {
        own.set_rights(cap.rights, cap.attrs & !attr::IN_DISPATCHER);
        cpu.sched.refresh_dispatcher(Obj::around(slot));
    }
    cpu.caps.dying.push(own);
    Ok(())
}

/// Deletes what parked CNodes have left.
fn delete_left(cpu: &mut CpuDriver) -> Progress {
    let left = cpu.caps.left();
    while !left.is_empty() {
        match delete_slot(cpu, left) {
            Err(Pause::Again) => return Err(Pause::Again),
            Err(Pause::Remote) => leave_slot(cpu, left)?,
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Stops a dispatcher and moves its last capability into it.
fn park_dispatcher(cpu: &mut CpuDriver, slot: SlotRef, cap: &RawCap) -> Progress {
    let Some(dcb) = Obj::<Dcb>::of(cap) else { return Ok(()) };
    retire(cpu, dcb)?;
    let own = Dcb::slot_at(cap.base, PARKING);
    cpu.caps.park(slot, own);
    cpu.caps.dying.push(own);
    Ok(())
}

/// Empties parked containers and gives their memory back. Page tables come last: when all else
/// is gone, nothing is mapped in them any more by the Mappings of these containers.
fn reap(cpu: &mut CpuDriver) -> Progress {
    cpu.vm.expect(u32::MAX);
    while let Some(parked) = cpu.caps.dying.first() {
        delete_left(cpu)?;
        empty_first(cpu, parked.cap())?;
        let cap = parked.cap();
        if cap.attrs & attr::TABLES_LEFT != 0 && cap.attrs & attr::SECOND_PASS == 0 {
            cpu.caps.dying.pop();
            parked.set_rights(cap.rights, cap.attrs | attr::SECOND_PASS);
            cpu.caps.dying.push(parked);
            continue;
        }
        if arch::SPARSE {
            hide_container(cpu, &cap)?;
        }
        if !cpu.caps.spend(STEPS_OF_CONTAINER) {
            return Err(Pause::Again);
        }
        let above = cpu.caps.db.nearest_ancestor(parked).map(|above| above.cap());
        if cap.attrs & attr::REMOTE != 0 && cpu.caps.needs_others(&cap, above.as_ref()) {
            leave_memory(cpu, &cap)?;
            cpu.caps.dying.pop();
            drop_slot(&mut cpu.caps, &mut cpu.sched, parked);
            arch::hide(cap.base, PAGE);
            continue;
        }
        cpu.caps.dying.pop();
        let dropped = drop_last(cpu, parked, &cap, above);
        debug_assert!(dropped == Ok(()), "nothing is made of a container");
    }
    Ok(())
}

/// Empties the first container, `parked`, but for tables in the first pass.
fn empty_first(cpu: &mut CpuDriver, parked: RawCap) -> Progress {
    let slots = contents(&parked);
    let second = parked.attrs & attr::SECOND_PASS != 0;
    loop {
        let from = cpu.caps.dying.cursor();
        let next = slots.next_filled_within(from, MOST_EMPTY);
        cpu.caps.dying.set_cursor(next);
        let looked_at = next - from;
        if !cpu.caps.spend(1 + looked_at / EMPTY_SLOTS_PER_STEP) {
            return Err(Pause::Again);
        }
        if next >= slots.len() {
            return Ok(());
        }
        if looked_at == MOST_EMPTY {
            continue;
        }
        let slot = slots.get(next);
        if !second && slot.cap().level() != 0 && !cpu.caps.db.has_copies(slot) {
            cpu.caps.dying.tables_left();
        } else {
            match delete_slot(cpu, slot) {
                Err(Pause::Again) => return Err(Pause::Again),
                Err(Pause::Remote) => leave_slot(cpu, slot)?,
                Ok(()) => {}
            }
        }
        cpu.caps.dying.set_cursor(next + 1);
    }
}
