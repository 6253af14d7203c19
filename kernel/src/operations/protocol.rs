//! The steps of the monitors' protocol that destroy something.

use super::delete::{delete_slot, reap_all, revoke_here};
use super::leave::{self, leave_slot};
use super::reclaim::reclaim;
use crate::cap::asks::is_own_home;
use crate::cap::budget::{Pause, Progress};
use crate::cap::locks::Sweep;
use crate::cap::mapping::is_mapping;
use crate::cap::policy::{CapPolicy, MEMORY};
use crate::cap::{attr, CapExt};
use crate::driver::CpuDriver;
use crate::morsels::{is_at_home, is_whole};
use crate::object::{slot_at, SlotRef};
use captypes::types::Finaliser;
use captypes::{CapType, Status};
use mdb::{is_ancestor, is_copy, Class, Policy, RawCap};
use paging::PAGE;

/// Capabilities passed over for the price of one step of destruction.
const PASSED_PER_STEP: u32 = 16;

/// Deletes all copies and descendants of a locked capability, and what only those hold.
pub fn sweep_all(cpu: &mut CpuDriver, cap: &RawCap) -> Progress {
    cpu.caps.db.locks.sweep(cap, Sweep::All);
    let end = cap.base + cap.word;
    let tree = CapPolicy::tree(cap.ty);
    let belongs = |slot: &SlotRef| {
        let other = slot.cap();
        is_copy::<CapPolicy>(cap, &other) || is_ancestor::<CapPolicy>(cap, &other)
    };
    // What something larger here stands behind stays mapped when its own capabilities go: so it is looked for.
    let is_mapped = cap.is_frame() || cap.is(CapType::Morsel);
    let class = if is_mapped { Class::All } else { cpu.caps.db.keepers() };
    let goes = |slot: &SlotRef| (is_mapped || !is_mapping(&slot.cap())) && belongs(slot);
    loop {
        let mut all = cpu.caps.db.overlapping(tree, cap.base, end - cap.base, class);
        let mut passed = 0;
        let found = all.find(|slot| {
            passed += 1;
            goes(slot)
        });
        let Some(slot) = found else { break };
        drop(all);
        cpu.caps.spend(passed / PASSED_PER_STEP);
        if slot.cap().attrs & attr::PARKED != 0 {
            reap_all(cpu)?;
        } else {
            delete_swept(cpu, slot)?;
        }
    }
    reap_for(cpu, cap)
}

/// Empties what is parked, after the copies or descendants of a capability are gone. Nothing is parked on account of objects of
/// pools; and what is may be waiting for just this operation, so that a pool can go. So may what has been left to the monitor until
/// no more can be: parts of what this operation has locked.
fn reap_for(cpu: &mut CpuDriver, cap: &RawCap) -> Progress {
    if cap.is(CapType::Morsel) {
        return Ok(());
    }
    match reap_all(cpu) {
        // Whoever makes room goes on with it.
        Err(Pause::Again) if leave::is_full(&cpu.caps, &cpu.monitor) => Ok(()),
        result => result,
    }
}

/// Removes what `slot` holds. If that is the last capability to a CNode that is deleted on all cores,
/// it goes into slot 0 of the CNode, and what is there must not come to `slot` instead: it may need
/// other cores, and nobody will look there again.
pub fn delete_swept(cpu: &mut CpuDriver, slot: SlotRef) -> Progress {
    let cap = slot.cap();
    let is_cnode = cap.row().finaliser() == Finaliser::EmptyCNode;
    let is_last = is_cnode && !cap.is_foreign() && !cpu.caps.db.has_copies(slot);
    if is_last && cpu.caps.db.locks.sweeps(&cap) {
        let own = slot_at(cap.base, 0);
        if own != slot && !own.is_empty() {
            leave_slot(cpu, own)?;
        }
    }
    delete_slot(cpu, slot)
}

/// Deletes the last copy on all cores of a locked capability, and destroys the object.
pub fn delete_everywhere(cpu: &mut CpuDriver, cap: &RawCap) -> Progress {
    cpu.caps.db.locks.sweep(cap, Sweep::Itself);
    while let Some(slot) = cpu.caps.db.find(cap) {
        if slot.cap().attrs & attr::PARKED != 0 {
            reap_all(cpu)?;
        } else {
            delete_swept(cpu, slot)?;
        }
    }
    reap_for(cpu, cap)
}

/// The local part of a revoke, after no other core has a copy or descendant: what `slot` holds
/// remains if it is the capability, else any copy.
pub fn revoke_rest(cpu: &mut CpuDriver, slot: Option<SlotRef>, cap: &RawCap) -> Progress {
    let named = slot.filter(|slot| is_copy::<CapPolicy>(cap, &slot.cap()));
    let Some(kept) = named.or_else(|| cpu.caps.find_whole(cap)) else { return Ok(()) };
    cpu.caps.db.locks.sweep(cap, Sweep::Descendants);
    revoke_here(cpu, kept)?;
    // At other cores than that of its pool an object may be opened, or a part of it made, as long as anybody has a larger part.
    let is_known = !cap.is(CapType::Morsel) || is_whole(cap) && is_at_home(cpu.core, cap);
    if let Some(left) = cpu.caps.find_whole(cap).filter(|_| is_known) {
        cpu.caps.change_all(left, |attrs| {
            let ancestors = if attrs & attr::FOREIGN != 0 { attr::REMOTE_ANCESTORS } else { 0 };
            attrs & !(attr::FOREIGN | attr::COPIES_OR_DESCENDANTS) | ancestors
        });
    }
    Ok(())
}

/// Gives memory to the server of its home, as far as nothing else covers it.
pub fn give_back_region(cpu: &mut CpuDriver, base: u64, len: u64) -> Result<(), Status> {
    let has_home =
        cpu.caps.db.surrounding(MEMORY, base, len, 0).is_some_and(|home| is_own_home(&home.cap()));
    if (base | len) & (PAGE - 1) != 0 || len == 0 || !has_home {
        return Err(Status::OutOfRange);
    }
    if cpu.caps.first_cover(base, len).is_some() {
        return Err(Status::WrongState);
    }
    reclaim(cpu, base, len);
    Ok(())
}
