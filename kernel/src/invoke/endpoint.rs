//! Invocations of Endpoints, and of Dispatchers that wait for an answer.

use super::{no_object, object, run, settled, Outcome};
use crate::cap::lookup::used_slot;
use crate::cap::CapExt;
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::{Dcb, DcbRef, Endpoint, Listener, Obj};
use captypes::invocations::{EndpointOp, ReceiverOp};
use captypes::{op, CapType, Invocation, Place, Rights, Status};

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
pub(super) fn caller(dcb: DcbRef, place: Place) -> Result<DcbRef, Status> {
    if place == Place::CALLER {
        return dcb.caller.get().ok_or(Status::WrongState);
    }
    object::<Dcb>(dcb, place)
}

#[inline(never)]
fn call(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, badge) = endpoint(dcb, target, op::Call::NEEDS)?;
    ipc::call(&mut local.sched, &mut local.caps, dcb, endpoint, badge);
    Ok(())
}

#[inline(never)]
fn reply_recv(local: &mut CpuDriver, dcb: DcbRef) -> Result<(), Status> {
    let target = Place(dcb.ctx.rdi.get());
    let (endpoint, _) = endpoint(dcb, target, op::ReplyRecv::NEEDS)?;
    let to = Place(dcb.ctx.r15.get());
    let to = if to.is_null() { None } else { caller(dcb, to).ok() };
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
    ipc::reply(&mut local.sched, &mut local.caps, dcb, caller(dcb, target)?)
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
        None => Ok(Listener::Endpoint(endpoint(dcb, target, Rights::SEND)?.0)),
    }
}

/// Notifies a dispatcher, or the receiver of an endpoint.
#[inline(never)]
fn notify(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
    run(local, dcb, |local, t, a: op::Notify| {
        let target = listener(dcb, t)?.dispatcher().ok_or(Status::WrongState)?;
        local.sched.notify(target, a.bits);
        Ok(())
    })
}
