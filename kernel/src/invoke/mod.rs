//! Decoding an invocation: registers to typed arguments, places to slots, and one function.
//!
//! What must be fast is here, the rest in `rare`. Everything that arrives here is user input. What is decoded is checked by the type of the
//! argument; what a place names is checked by `lookup`; all other checks are in the functions.

mod monitor;
mod rare;
pub(crate) mod redirect;

use crate::cap::lookup::{
    free_slot, held_slot, held_slots, mapping_to_change, slot_to_change, slots, slots_to_change,
    used_slot,
};
use crate::cap::retype::Order;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::dcb::flag;
use crate::object::{Dcb, DcbRef, Endpoint, Obj};
use crate::operations;
use crate::vspace::{self, MapArgs};
use captypes::invocations::{Count, Counter, Reply, Value};
use captypes::{op, CapType, Invocation, Label, Place, Rights, Status};
use mdb::RawCap;

/// The status word of an invocation; [`SETTLED`] if the registers are as they should be already, or
/// the invoker waits.
type Outcome = u64;
const SETTLED: Outcome = u64::MAX;

#[inline(always)]
fn outcome(result: Result<(), Status>) -> Outcome {
    match result {
        Ok(()) => 0,
        Err(status) => status.to_word(),
    }
}

/// Decodes the arguments, runs `f`, and stores its results.
#[inline(always)]
fn run<I: Invocation>(
    local: &mut CpuDriver,
    dcb: DcbRef,
    f: impl FnOnce(&mut CpuDriver, Place, I) -> Result<I::Reply, Status>,
) -> Outcome {
    let target = Place(dcb.ctx.rdi.get());
    let result = I::decode(&dcb.ctx.args()).and_then(|args| f(local, target, args));
    outcome(result.map(|reply| {
        if <I::Reply as Reply>::WORDS != 0 {
            dcb.ctx.set_words(&reply.encode());
        }
    }))
}

/// Performs the invocation in the registers of `dcb`, the current dispatcher.
#[inline(always)]
pub fn invoke(local: &mut CpuDriver, dcb: DcbRef) {
    local.core.add(Counter::Invocations, 1);
    let mut outcome = match Label::from_u16(dcb.ctx.rax.get() as u16) {
        Some(label) => dispatch(local, dcb, label),
        None => Status::Invalid.to_word(),
    };
    if outcome != 0 {
        if outcome == Status::RetryThroughMonitor.to_word() {
            outcome = redirect::redirect(local, dcb);
        }
        if outcome == SETTLED {
            return;
        }
    }
    dcb.ctx.rax.set(outcome);
}

/// What remains to be told of an operation that may have deleted its own dispatcher, which must not be
/// written to then.
#[inline(always)]
fn survived(local: &CpuDriver, dcb: DcbRef, outcome: Outcome) -> Outcome {
    if redirect::is_alive(local, dcb) {
        outcome
    } else {
        SETTLED
    }
}

/// The same for a dispatcher that is not the current one.
#[inline(never)]
fn perform(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    dispatch(local, dcb, label)
}

/// One function for each operation, so that each has only its own registers to save.
#[inline(always)]
fn dispatch(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    match label {
        Label::NoOp => no_op(local, dcb),
        Label::Copy => copy(local, dcb),
        Label::Mint => mint(local, dcb),
        Label::Move => move_cap(local, dcb),
        Label::Retype => retype(local, dcb),
        Label::RetypeCopy => {
            let outcome = retype_copy(local, dcb);
            survived(local, dcb, outcome)
        }
        Label::RetypeMany => retype_many(local, dcb),
        Label::Identify => identify(local, dcb),
        Label::CopyRange => copy_range(local, dcb),
        Label::Delete | Label::Revoke | Label::DeleteRange | Label::Resize => {
            let outcome = destroy(local, dcb, label);
            survived(local, dcb, outcome)
        }
        Label::Map => map(local, dcb),
        Label::MapMany => map_many(local, dcb),
        Label::Protect => protect(local, dcb),
        Label::Replace => replace(local, dcb),
        Label::ProtectMany => protect_many(local, dcb),
        Label::Unmap => unmap(local, dcb),
        Label::ReadEntry => read_entry(local, dcb),
        Label::ClearStatus => clear_status(local, dcb),
        Label::MapZero => map_zero(local, dcb),
        Label::Call => settled(call(local, dcb)),
        Label::ReplyRecv => settled(reply_recv(local, dcb)),
        Label::Poll => settled(poll(local, dcb)),
        Label::Reply => outcome(reply(local, dcb)),
        _ => {
            let outcome = rare::dispatch(local, dcb, label);
            survived(local, dcb, outcome)
        }
    }
}

macro_rules! handlers {
    ($($name:ident($op:ident) = |$local:ident, $dcb:ident, $target:ident, $args:pat_param| $body:expr;)*) => { $(
        #[inline(never)]
        fn $name(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
            run(local, dcb, |$local, $target, $args: op::$op| {
                let $dcb = dcb;
                $body
            })
        }
    )* };
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
    copy_range(CopyRange) = |local, d, target, a| {
        let (src, dst) = (slots(d, target, a.count)?, slots_to_change(&local.caps, d, a.dst, a.count)?);
        local.caps.copy_range(src, dst, a.only)
    };
    map(Map) = |local, d, target, a| {
        let args = MapArgs { entry: a.entry, count: a.count, offset: a.offset, flags: a.flags };
        let (table, src) = (used_slot(d, target)?, held_slot(d, a.src)?);
        let dst = free_slot(&local.caps, d, a.mapping)?;
        local.vm.map(&mut local.caps, local.sched.vector_unit(), table, src, args, dst)
    };
    map_many(MapMany) = |local, d, target, a| {
        let src = held_slots(d, a.src, a.count)?;
        let dst = slots_to_change(&local.caps, d, a.mapping, a.count)?;
        local.vm.map_many(&mut local.caps, local.sched.vector_unit(), used_slot(d, target)?, src, a.entry, a.flags, dst)
    };
    protect(Protect) = |local, d, target, a| {
        let mapping = mapping_to_change(&local.caps, d, target)?;
        local.vm.protect(&mut local.caps, mapping, a.first, a.count, a.flags)
    };
    replace(Replace) = |local, d, target, a| {
        let (mapping, src) = (mapping_to_change(&local.caps, d, target)?, held_slot(d, a.src)?);
        local.vm.replace(&mut local.caps, mapping, src, a.flags)
    };
    protect_many(ProtectMany) = |local, d, target, a| {
        let mappings = slots_to_change(&local.caps, d, target, a.count)?;
        local.vm.protect_many(&mut local.caps, mappings, a.flags)
    };
    unmap(Unmap) = |local, d, target, a| {
        let rest = free_slot(&local.caps, d, a.rest);
        let mapping = mapping_to_change(&local.caps, d, target)?;
        local.vm.unmap(&mut local.caps, mapping, a.first, a.count, rest, a.flags)
    };
    read_entry(ReadEntry) = |_local, d, target, a| {
        vspace::read_entry(used_slot(d, target)?, a.entry).map(|value| Value { value })
    };
    clear_status(ClearStatus) = |local, d, target, a| {
        local.vm.clear_status(&local.caps, used_slot(d, target)?, a.entry, a.count, a.bits)
    };
    map_zero(MapZero) = |local, d, target, a| {
        local.vm.map_zero(&local.caps, used_slot(d, target)?, a.entry, a.count, a.flags)
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
        if cap.is(CapType::Mapping) {
            local.caps.check_entries(&cap)?;
        }
        operations::delete::delete(local, slot)
    };
    revoke(Revoke) = |local, d, target, _| {
        let slot = used_slot(d, target)?;
        if !slot.cap().rights_set().has(Rights::REVOKE) {
            return Err(Status::NoRights);
        }
        operations::delete::revoke(local, slot)
    };
    resize(Resize) = |local, d, target, a| {
        operations::resize::resize(&mut local.caps, &mut local.sched, used_slot(d, target)?, used_slot(d, a.root)?)
    };
    delete_range(DeleteRange) = |local, d, target, a| {
        let slots = slots_to_change(&local.caps, d, target, a.count);
        if slots.is_err_and(|lost| is_done(d, lost)) {
            return operations::delete::reap_emptied(local).map(|()| Count { count: 0 });
        }
        operations::delete::delete_range(local, slots?)
    };
}

/// Returns `true` if a deletion whose slots are not there is the repetition of one that has emptied
/// them. The way to them may have gone, too; what is parked is all that is left to do.
#[cold]
fn is_done(dcb: DcbRef, lost: Status) -> bool {
    dcb.has(flag::REPEATED) && matches!(lost, Status::Empty | Status::NoSlot | Status::WrongType)
}

fn destroy(local: &mut CpuDriver, dcb: DcbRef, label: Label) -> Outcome {
    local.caps.budget.begin();
    local.caps.dying.has_emptied = false;
    let outcome = match label {
        Label::Delete => delete(local, dcb),
        Label::Revoke => revoke(local, dcb),
        Label::Resize => resize(local, dcb),
        _ => delete_range(local, dcb),
    };
    if redirect::is_alive(local, dcb) {
        dcb.clear(flag::REPEATED);
        if outcome == Status::Again.to_word() && local.caps.dying.has_emptied {
            dcb.set(flag::REPEATED);
        }
    }
    outcome
}

/// The object of type `T` that `target` names.
#[inline]
fn object<T: crate::object::Object>(dcb: DcbRef, target: Place) -> Result<Obj<T>, Status> {
    let cap = used_slot(dcb, target)?.cap();
    Obj::of(&cap).ok_or_else(|| no_object(&cap, T::TYPE))
}

/// Why a capability stands for no object of a type that this core could use.
#[cold]
fn no_object(cap: &RawCap, ty: CapType) -> Status {
    if cap.is(ty) {
        Status::Unsupported
    } else {
        Status::WrongType
    }
}

/// The endpoint that `target` names with a right, and its badge.
#[inline]
fn endpoint(dcb: DcbRef, target: Place, right: Rights) -> Result<(Obj<Endpoint>, u32), Status> {
    let cap = used_slot(dcb, target)?.cap();
    let endpoint = Obj::of(&cap).ok_or_else(|| no_object(&cap, CapType::Endpoint))?;
    if !cap.rights_set().has(right) {
        return Err(Status::NoRights);
    }
    Ok((endpoint, cap.aux))
}

/// The dispatcher to answer.
#[inline(never)]
fn caller(dcb: DcbRef, place: Place) -> Result<DcbRef, Status> {
    if place == Place::CALLER {
        return dcb.caller.get().ok_or(Status::WrongState);
    }
    object::<Dcb>(dcb, place)
}

#[inline(always)]
fn settled(result: Result<(), Status>) -> Outcome {
    match result {
        Ok(()) => SETTLED,
        Err(status) => status.to_word(),
    }
}

#[inline(never)]
fn call(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, badge) = endpoint(dcb, target, Rights::SEND)?;
    ipc::call(&mut local.sched, &mut local.caps, dcb, endpoint, badge);
    Ok(())
}

#[inline(never)]
fn reply_recv(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, _) = endpoint(dcb, target, Rights::RECV)?;
    let to = Place(dcb.ctx.r15.get());
    let to = if to.is_null() { None } else { caller(dcb, to).ok() };
    ipc::reply_recv(&mut local.sched, &mut local.caps, dcb, endpoint, to)
}

fn poll(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, _) = endpoint(dcb, target, Rights::RECV)?;
    // Where `ReplyRecv` names the slots.
    let kept = dcb.ctx.r14.replace(dcb.ctx.rsi.get());
    let received = ipc::receive_now(&mut local.sched, &mut local.caps, dcb, endpoint);
    dcb.ctx.r14.set(kept);
    if received {
        Ok(())
    } else {
        Err(Status::Empty)
    }
}

fn reply(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    ipc::reply(&mut local.sched, &mut local.caps, dcb, caller(dcb, target)?)
}
