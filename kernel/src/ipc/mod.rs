//! Endpoints: synchronous calls with words and capabilities.
//!
//! ```text
//!            Call                      ReplyRecv, Poll
//! caller ─► [callers: Calling] ─────► received ─► [served: Called] ─ Reply, ReplyRecv ─► Ready
//!            (skipped if the receiver waits)
//! ```
//!
//! Both queues are lists through the dispatchers. When the receiver waits, the caller switches to
//! it directly, and the answer switches back, without a trip through the run queue.

mod monitor;
pub mod redirected;
mod transfer;

pub use monitor::{Monitor, MonitorRef};

use crate::cap::budget::{Pause, Progress};
use crate::cap::{memory_cap, CapExt, CapSpace};
use crate::dispatch::{go_abroad, Scheduler};
use crate::dispatch::{interrupted, log_fault, receive_notifications};
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbRef, EndpointRef, Obj, State};
use captypes::{CapType, Rights, Status};
use mdb::RawCap;

/// What a report of a fault in the log costs, in steps of destruction.
const STEPS_OF_REPORT: u32 = 12;

/// `dcb`, the current dispatcher, calls `endpoint` with the message in its registers.
#[inline]
pub fn call(
    sched: &mut Scheduler,
    caps: &mut CapSpace,
    dcb: DcbRef,
    endpoint: EndpointRef,
    badge: u32,
) {
    dcb.badge.set(badge);
    if let Some(server) = endpoint.receiver.take() {
        deliver(caps, endpoint, dcb, server);
        return sched.switch_directly(server);
    }
    if endpoint.orphaned.get() {
        return refuse(sched, dcb);
    }
    dcb.endpoint.set(Some(endpoint));
    dcb.state.set(State::Calling);
    endpoint.callers.push(dcb);
    sched.block();
    if endpoint.bell.get() != 0 {
        ring(sched, endpoint);
    }
}

/// `dcb`, the current dispatcher, goes to the core of the foreign endpoint `cap`, or dispatcher for [`Errand::Control`].
pub fn go_to_endpoint(
    sched: &mut Scheduler,
    dcb: DcbRef,
    errand: Errand,
    cap: &RawCap,
) -> Result<(), Status> {
    let ty = if errand == Errand::Control { CapType::Dispatcher } else { CapType::Endpoint };
    if !cap.is(ty) {
        return Err(Status::WrongType);
    }
    go_abroad(sched, dcb, errand, cap.pinned_core(), (cap.base, cap.aux))
}

/// The endpoint of this core that a dispatcher of another has come to. Its capability is not here; so this looks
/// whether there still is one like it.
pub fn called(caps: &CapSpace, dcb: DcbRef) -> Option<EndpointRef> {
    let (ty, base) = (CapType::Endpoint as u8, dcb.trip.called.get());
    let key = memory_cap(ty, Rights::NONE, 0, base, paging::PAGE);
    let found = caps.find_whole(&RawCap { aux: dcb.badge.get(), ..key })?;
    Obj::of(&found.cap())
}

/// The dispatcher of this core to which one of another has come, likewise.
pub fn controlled(caps: &CapSpace, dcb: DcbRef) -> Option<DcbRef> {
    dispatcher_at(caps, dcb.trip.called.get())
}

/// The dispatcher of this core at `pa`, if there is one.
fn dispatcher_at(caps: &CapSpace, pa: u64) -> Option<DcbRef> {
    let key = memory_cap(CapType::Dispatcher as u8, Rights::NONE, 0, pa, paging::PAGE);
    Obj::of(&caps.find_whole(&key)?.cap())
}

/// `dcb` has come from another core to call `endpoint`. It runs nowhere, and whoever runs here goes on.
pub fn arrive(sched: &mut Scheduler, caps: &mut CapSpace, dcb: DcbRef, endpoint: EndpointRef) {
    if let Some(server) = endpoint.receiver.take() {
        deliver(caps, endpoint, dcb, server);
        return sched.wake(server);
    }
    if endpoint.orphaned.get() {
        return refuse(sched, dcb);
    }
    dcb.endpoint.set(Some(endpoint));
    dcb.state.set(State::Calling);
    endpoint.callers.push(dcb);
    if endpoint.bell.get() != 0 {
        ring(sched, endpoint);
    }
}

/// A call waits: its server wants to know.
#[inline(never)]
fn ring(sched: &mut Scheduler, endpoint: EndpointRef) {
    if let Some(server) = endpoint.server.get() {
        sched.notify(server, endpoint.bell.get());
    }
}

/// `server` receives from `endpoint`, and is notified of calls. Those that wait already count.
pub fn listen(sched: &mut Scheduler, server: DcbRef, endpoint: EndpointRef, bits: u64) {
    endpoint.bind(server);
    endpoint.bell.set(bits);
    if bits != 0 && endpoint.callers.first().is_some() {
        ring(sched, endpoint);
    }
}

/// Gives `server` the message of `caller`, which waits for the answer from now on.
#[inline]
fn deliver(caps: &mut CapSpace, endpoint: EndpointRef, caller: DcbRef, server: DcbRef) {
    transfer::call(caps, caller, server);
    caller.endpoint.set(Some(endpoint));
    caller.state.set(State::Called);
    endpoint.served.push(caller);
    server.caller.set(Some(caller));
}

/// Answers `caller` with the message in the registers of `server`.
#[inline]
fn answer(caps: &mut CapSpace, server: DcbRef, caller: DcbRef) -> Result<(), Status> {
    let endpoint = EndpointRef::of_call(server, caller).ok_or(Status::WrongState)?;
    endpoint.served.remove(caller);
    caller.endpoint.set(None);
    if server.caller.get() == Some(caller) {
        server.caller.set(None);
    }
    transfer::answer(caps, server, caller);
    Ok(())
}

/// The dispatcher at `pa` whose invocation was handed on to `server` as number `ticket`, if it
/// still waits.
pub fn redirected(caps: &CapSpace, server: DcbRef, pa: u64, ticket: u64) -> Option<DcbRef> {
    let caller = dispatcher_at(caps, pa)?;
    EndpointRef::of_call(server, caller)?;
    (caller.has(flag::REDIRECTED) && redirected::ticket(caller) == ticket).then_some(caller)
}

/// Ends the wait of a dispatcher whose invocation was handed on.
pub fn end_redirected(sched: &mut Scheduler, caller: DcbRef) {
    if let Some(endpoint) = caller.endpoint.take() {
        endpoint.served.remove(caller);
        endpoint.forget_caller(caller);
    }
    caller.clear(flag::REDIRECTED);
    sched.wake(caller);
}

/// Answers `caller` and goes on.
pub fn reply(
    sched: &mut Scheduler,
    caps: &mut CapSpace,
    server: DcbRef,
    caller: DcbRef,
) -> Result<(), Status> {
    answer(caps, server, caller)?;
    sched.wake(caller);
    Ok(())
}

/// Answers `to` if it still waits, and receives from `endpoint`. `None`: the receiver waits, or
/// its registers hold what it received.
pub fn reply_recv(
    sched: &mut Scheduler,
    caps: &mut CapSpace,
    server: DcbRef,
    endpoint: EndpointRef,
    to: Option<DcbRef>,
) -> Result<(), Status> {
    if endpoint.receiver.get().is_some() {
        return Err(Status::WrongState);
    }
    // Whoever is gone meanwhile needs no answer.
    let answered = to.filter(|&to| answer(caps, server, to).is_ok());
    if receive_now(sched, caps, server, endpoint) {
        if let Some(caller) = answered {
            sched.wake(caller);
        }
        return Ok(());
    }
    server.endpoint.set(Some(endpoint));
    server.state.set(State::Receiving);
    endpoint.receiver.set(Some(server));
    match answered {
        Some(caller) => sched.switch_directly(caller),
        None => sched.block(),
    }
    Ok(())
}

/// Receives what is there already.
pub fn receive_now(
    _sched: &mut Scheduler,
    caps: &mut CapSpace,
    server: DcbRef,
    endpoint: EndpointRef,
) -> bool {
    endpoint.bind(server);
    let bits = server.frame.get().notifications().take();
    if bits != 0 {
        receive_notifications(server, bits);
        return true;
    }
    let Some(caller) = endpoint.callers.first() else { return false };
    endpoint.callers.remove(caller);
    deliver(caps, endpoint, caller, server);
    true
}

pub fn dismiss_callers(
    sched: &mut Scheduler,
    caps: &mut CapSpace,
    endpoint: EndpointRef,
) -> Progress {
    for list in [&endpoint.callers, &endpoint.served] {
        while let Some(caller) = list.first() {
            if !caps.spend(1) {
                return Err(Pause::Again);
            }
            list.remove(caller);
            endpoint.forget_caller(caller);
            caller.endpoint.set(None);
            caller.state.set(State::Ready);
            if caller.has(flag::FAULT) {
                caps.spend(STEPS_OF_REPORT);
            }
            refuse(sched, caller);
        }
    }
    Ok(())
}

/// Ends a call that nobody will answer. A dispatcher that faulted stops: nobody handles it.
pub fn refuse(sched: &mut Scheduler, caller: DcbRef) {
    if caller.has(flag::FAULT) {
        if caller.has(flag::ABROAD) {
            // Its home stops it.
            return sched.wake(caller);
        }
        caller.clear(flag::FAULT);
        log_fault(caller);
        return sched.stop(caller);
    }
    caller.clear(flag::REDIRECTED);
    interrupted(caller, Status::PeerGone);
    sched.wake(caller);
}
