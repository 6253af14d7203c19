//! Invocations of Endpoints, and of Dispatchers that wait for an answer.

use super::{dispatcher, no_object, run, settled, Outcome};
use crate::cap::lookup::used_slot;
use crate::cap::CapExt;
use crate::dispatch;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::dcb::Errand;
use crate::object::{Dcb, DcbRef, Endpoint, Listener, Obj};
use captypes::invocations::{EndpointOp, ReceiverOp};
use captypes::{op, CapType, Invocation, Label, Place, Rights, Status};
use mdb::RawCap;

/// Bits of `rax`: how many capabilities go along.
const CAPS: u64 = 0xff << 16;

/// Of Endpoints.
#[inline(always)]
pub(super) fn dispatch(local: &mut CpuDriver, dcb: DcbRef, op: EndpointOp) -> Outcome {
    match op {
        EndpointOp::Call => settled(call(local, dcb)),
        EndpointOp::ReplyRecv => settled(reply_recv(local, dcb)),
        EndpointOp::Poll => settled(poll(local, dcb)),
        EndpointOp::Listen => listen(local, dcb),
    }
}

/// Of Dispatchers and Endpoints.
#[inline(always)]
pub(super) fn dispatch_receiver(local: &mut CpuDriver, dcb: DcbRef, op: ReceiverOp) -> Outcome {
    match op {
        ReceiverOp::Notify => notify(local, dcb),
    }
}

/// The endpoint that `target` names with a right, and its badge.
#[inline]
pub(super) fn endpoint(
    dcb: DcbRef,
    target: Place,
    right: Rights,
) -> Result<(Obj<Endpoint>, u32), Status> {
    let cap = used_slot(dcb, target)?.cap();
    let endpoint = Obj::of(&cap).ok_or_else(|| no_object(&cap, CapType::Endpoint))?;
    if !cap.rights_set().has(right) {
        return Err(Status::NoRights);
    }
    Ok((endpoint, cap.aux))
}

/// The dispatcher to answer.
#[inline(never)]
pub(super) fn caller(local: &CpuDriver, dcb: DcbRef, place: Place) -> Result<DcbRef, Status> {
    if place == Place::CALLER {
        return dcb.caller.get().ok_or(Status::WrongState);
    }
    let cap = used_slot(dcb, place)?.cap();
    Obj::of(&cap).map_or_else(|| guest(local, &cap), Ok)
}

/// The dispatcher of another core that waits here, by a capability to it.
#[cold]
#[inline(never)]
fn guest(local: &CpuDriver, cap: &RawCap) -> Result<DcbRef, Status> {
    match cap.is(CapType::Dispatcher) {
        true => dispatch::guest(&local.sched, cap.base).ok_or(Status::WrongState),
        false => Err(Status::WrongType),
    }
}

#[inline(never)]
fn call(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, badge) = match endpoint(dcb, target, op::Call::NEEDS) {
        Ok(found) => found,
        Err(Status::Unsupported) => return call_abroad(local, dcb, Errand::Call),
        Err(error) => return Err(error),
    };
    ipc::call(&mut local.sched, &mut local.caps, dcb, endpoint, badge);
    Ok(())
}

/// The endpoint or dispatcher that is invoked belongs to another core: the invoker goes there.
#[cold]
#[inline(never)]
fn call_abroad(local: &mut CpuDriver, dcb: DcbRef, errand: Errand) -> Result<(), Status> {
    let cap = used_slot(dcb, Place(dcb.ctx.rdi.get()))?.cap();
    if errand != Errand::Control && !cap.rights_set().has(op::Call::NEEDS) {
        return Err(Status::NoRights);
    }
    // Capabilities stay on the core that has them.
    if errand == Errand::Call && dcb.ctx.rax.get() & CAPS != 0 {
        return Err(Status::Unsupported);
    }
    ipc::go_to_endpoint(&mut local.sched, dcb, errand, &cap)
}

#[inline(never)]
fn reply_recv(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, _) = endpoint(dcb, target, op::ReplyRecv::NEEDS)?;
    let to = Place(dcb.ctx.r15.get());
    let to = if to.is_null() { None } else { caller(local, dcb, to).ok() };
    ipc::reply_recv(&mut local.sched, &mut local.caps, dcb, endpoint, to)
}

fn poll(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, _) = endpoint(dcb, target, op::Poll::NEEDS)?;
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

pub(super) fn reply(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let caller = caller(local, dcb, target)?;
    ipc::reply(&mut local.sched, &mut local.caps, dcb, caller)
}

#[inline(never)]
fn listen(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
    run(local, dcb, |local, t, a: op::Listen| {
        let (endpoint, _) = endpoint(dcb, t, op::Listen::NEEDS)?;
        ipc::listen(&mut local.sched, dcb, endpoint, a.bits);
        Ok(())
    })
}

/// Who is notified through a capability: a dispatcher, or whoever receives at an endpoint.
pub(super) fn listener(dcb: DcbRef, target: Place) -> Result<Listener, Status> {
    let cap = used_slot(dcb, target)?.cap();
    match Obj::<Dcb>::of(&cap) {
        Some(target) => Ok(Listener::Dispatcher(target)),
        None if cap.is(CapType::Dispatcher) => Err(Status::Unsupported),
        None => Ok(Listener::Endpoint(endpoint(dcb, target, Rights::SEND)?.0)),
    }
}

/// Notifies a dispatcher, or the receiver of an endpoint.
#[inline(never)]
fn notify(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
    let outcome = run(local, dcb, |local, t, a: op::Notify| {
        let target = listener(dcb, t)?.dispatcher().ok_or(Status::WrongState)?;
        local.sched.notify(target, a.bits);
        Ok(())
    });
    if is_abroad(outcome) {
        let errand = if is_endpoint(dcb) { Errand::Notify } else { Errand::Control };
        return settled(call_abroad(local, dcb, errand));
    }
    outcome
}

/// Has an invocation failed because what is invoked is another core's?
#[inline(always)]
fn is_abroad(outcome: Outcome) -> bool {
    outcome == Status::Unsupported.to_word()
}

/// The outcome of an invocation of a dispatcher; if that is another core's, the invoker goes there. Whether it has
/// the right to it was checked here, where its capability is.
#[inline(always)]
pub(super) fn or_abroad(local: &mut CpuDriver, dcb: DcbRef, outcome: Outcome) -> Outcome {
    match is_abroad(outcome) {
        true => settled(call_abroad(local, dcb, Errand::Control)),
        false => outcome,
    }
}

/// What `dcb` has come to this core for is done to `target`.
pub(super) fn control(local: &mut CpuDriver, dcb: DcbRef, target: DcbRef) -> Outcome {
    match Label::from_u16(dcb.ctx.rax.get() as u16) {
        Some(Label::Notify) => run(local, dcb, |local, _, a: op::Notify| {
            local.sched.notify(target, a.bits);
            Ok(())
        }),
        Some(Label::Suspend) => {
            run(local, dcb, |local, _, _: op::Suspend| local.sched.suspend(target))
        }
        Some(Label::Continue) => {
            run(local, dcb, |local, _, _: op::Continue| local.sched.resume(target))
        }
        Some(Label::Usage) => {
            run(local, dcb, |local, _, _: op::Usage| Ok(local.sched.usage(target)))
        }
        Some(Label::SetSchedule) => run(local, dcb, |local, _, args: op::SetSchedule| {
            dispatch::set_schedule(&mut local.sched, target, dispatcher::schedule(&args)?);
            Ok(())
        }),
        _ => Status::Invalid.to_word(),
    }
}

/// Is what is invoked an Endpoint?
fn is_endpoint(dcb: DcbRef) -> bool {
    let slot = used_slot(dcb, Place(dcb.ctx.rdi.get()));
    slot.is_ok_and(|slot| slot.cap().is(CapType::Endpoint))
}
