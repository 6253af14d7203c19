//! Invocations of any capability, and those that make or resize objects.

use super::{handlers, redirect, run, survived, Outcome};
use crate::cap::lookup::{free_slot, held_slot, slot_to_change, slots, slots_to_change, used_slot};
use crate::cap::mapping::is_mapping;
use crate::cap::retype::Order;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::object::dcb::flag;
use crate::object::DcbRef;
use crate::operations;
use captypes::invocations::{AnyOp, CNodeOp, Count, IdOp, RamOp, Value};
use captypes::{op, Invocation, Status};

/// Of any capability.
#[inline(always)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: AnyOp) -> Outcome {
    match op {
        AnyOp::NoOp => no_op(local, dcb),
        AnyOp::Copy => copy(local, dcb),
        AnyOp::Mint => mint(local, dcb),
        AnyOp::Move => move_cap(local, dcb),
        AnyOp::Retype => retype(local, dcb),
        AnyOp::RetypeMany => retype_many(local, dcb),
        AnyOp::Identify => identify(local, dcb),
        AnyOp::Compare => compare(local, dcb),
        AnyOp::CopyRange => copy_range(local, dcb),
        AnyOp::Delete => destroy(local, dcb, delete),
        AnyOp::Revoke => destroy(local, dcb, revoke),
        AnyOp::DeleteRange => destroy(local, dcb, delete_range),
    }
}

/// Of RAM.
#[inline(always)]
pub(super) fn dispatch_ram(local: &mut CpuDriver, dcb: DcbRef, op: RamOp) -> Outcome {
    match op {
        RamOp::RetypeCopy => {
            let outcome = retype_copy(local, dcb);
            survived(local, dcb, outcome)
        }
    }
}

/// Of CNodes.
#[inline(always)]
pub(super) fn dispatch_cnode(local: &mut CpuDriver, dcb: DcbRef, op: CNodeOp) -> Outcome {
    match op {
        CNodeOp::Resize => destroy(local, dcb, resize),
    }
}

/// Of Ids.
#[inline(always)]
pub(super) fn dispatch_id(local: &mut CpuDriver, dcb: DcbRef, op: IdOp) -> Outcome {
    match op {
        IdOp::NewId => new_id(local, dcb),
    }
}

handlers! {
    no_op(NoOp) = |_local, d, target, _| used_slot(d, target).map(drop);
    copy(Copy) = |local, d, target, a| {
        let (src, dst) = (used_slot(d, target)?, free_slot(&local.caps, d, a.dst)?);
        local.caps.copy(src, dst)
    };
    mint(Mint) = |local, d, target, a| {
        let (src, dst) = (used_slot(d, target)?, free_slot(&local.caps, d, a.dst)?);
        local.caps.mint(src, dst, a.rights, a.badge)
    };
    move_cap(Move) = |local, d, target, a| {
        let (src, dst) = (slot_to_change(&local.caps, d, target)?, free_slot(&local.caps, d, a.dst)?);
        if src.is_empty() {
            return Err(Status::Empty);
        }
        local.caps.check_lock(src)?;
        local.caps.move_cap(src, dst);
        Ok(())
    };
    retype(Retype) = |local, d, target, a| {
        let order = Order { kind: a.ty, offset: a.offset, bytes: a.bytes, count: a.count };
        let (src, dst) = (used_slot(d, target)?, slots_to_change(&local.caps, d, a.dst, a.count)?);
        local.caps.retype(local.sched.vector_unit(), src, order, dst)
    };
    retype_many(RetypeMany) = |local, d, target, a| {
        let parts = [a.p0, a.p1, a.p2, a.p3, a.p4, a.p5, a.p6];
        let used = parts.iter().take_while(|part| part.count() != 0).count();
        let parts = &parts[..used];
        let count = parts.iter().map(|part| part.count()).sum();
        let (src, dst) = (used_slot(d, target)?, slots_to_change(&local.caps, d, a.dst, count)?);
        local.caps.retype_many(local.sched.vector_unit(), src, parts, dst)?;
        Ok(Count { count })
    };
    retype_copy(RetypeCopy) = |local, d, target, a| {
        let (ram, src) = (used_slot(d, target)?, held_slot(d, a.src)?);
        let dst = slot_to_change(&local.caps, d, a.dst)?;
        if dst != src.slot && !dst.is_empty() {
            return Err(Status::Occupied);
        }
        local.caps.budget.begin();
        operations::copy::retype_copy(local, ram, src, dst, a)
    };
    identify(Identify) = |local, d, target, _| Ok(local.caps.identify(used_slot(d, target)?));
    compare(Compare) = |local, d, target, a| {
        let same = local.caps.compare(used_slot(d, target)?, used_slot(d, a.other)?);
        Ok(Value { value: u64::from(same) })
    };
    copy_range(CopyRange) = |local, d, target, a| {
        let (src, dst) = (slots(d, target, a.count)?, slots_to_change(&local.caps, d, a.dst, a.count)?);
        local.caps.copy_range(src, dst, a.only)
    };
    delete(Delete) = |local, d, target, _| {
        let slot = match slot_to_change(&local.caps, d, target) {
            Ok(slot) if slot.is_empty() => Err(Status::Empty),
            found => found,
        };
        if slot.is_err_and(|lost| is_done(d, lost)) {
            return operations::delete::reap_emptied(local);
        }
        let slot = slot?;
        let cap = slot.cap();
        if is_mapping(&cap) {
            local.caps.check_entries(&cap)?;
        }
        operations::delete::delete(local, slot)
    };
    revoke(Revoke) = |local, d, target, _| {
        let slot = used_slot(d, target)?;
        if !slot.cap().rights_set().has(op::Revoke::NEEDS) {
            return Err(Status::NoRights);
        }
        operations::delete::revoke(local, slot)
    };
    resize(Resize) = |local, d, target, a| {
        let (old, new) = (used_slot(d, target)?, used_slot(d, a.root)?);
        operations::resize::resize(&mut local.caps, &mut local.sched, old, new)
    };
    delete_range(DeleteRange) = |local, d, target, a| {
        let slots = slots_to_change(&local.caps, d, target, a.count);
        if slots.is_err_and(|lost| is_done(d, lost)) {
            return operations::delete::reap_emptied(local).map(|()| Count { count: 0 });
        }
        operations::delete::delete_range(local, slots?)
    };
    new_id(NewId) = |local, d, target, a| {
        let value = local.caps.new_id(used_slot(d, target)?, free_slot(&local.caps, d, a.dst)?)?;
        Ok(Value { value })
    };
}

/// Returns `true` if a deletion whose slots are not there is the repetition of one that has emptied
/// them. The way to them may have gone, too; what is parked is all that is left to do.
#[cold]
fn is_done(dcb: DcbRef, lost: Status) -> bool {
    dcb.has(flag::REPEATED) && matches!(lost, Status::Empty | Status::NoSlot | Status::WrongType)
}

/// Runs what may take several events, and may delete its own dispatcher.
#[inline(always)]
fn destroy(
    local: &mut CpuDriver,
    dcb: DcbRef,
    handler: fn(&mut CpuDriver, DcbRef) -> Outcome,
) -> Outcome {
    local.caps.budget.begin();
    local.caps.dying.has_emptied = false;
    let outcome = handler(local, dcb);
    if redirect::is_alive(local, dcb) {
        dcb.clear(flag::REPEATED);
        if outcome == Status::Again.to_word() && local.caps.dying.has_emptied {
            dcb.set(flag::REPEATED);
        }
    }
    survived(local, dcb, outcome)
}
