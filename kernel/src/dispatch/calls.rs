//! Dispatchers that call an endpoint of another core than their home.
//!
//! The control block goes there as it goes home for an invocation, with the message in its registers, and
//! waits in the endpoint's lists like the callers of that core; with the answer in its registers it goes
//! home again.
//!
//! ```text
//!   home                                core of the endpoint
//!   call ─────────────► [inbox] ─────► look up ──► callers ──► served
//!                                          │ none                 │ answer, or the end of the server
//!   wake ◄──────────── [inbox] ◄───────────┴──────────────────────╯
//! ```
//!
//! While it is there it belongs to that core. Home needs it back only to take it apart, or when it loses a
//! space or its frame: then a call that nobody has received yet is made again, and one that somebody has is over. Home
//! remembers by itself what else is done to a dispatcher that waits (`abroad`, `held`).

use super::guests::take_leave;
use super::{interrupted, Scheduler};
use crate::cores::CoreId;
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbRef, State};
use captypes::invocations::Counter;
use captypes::Status;

/// Has a dispatcher come with a message?
pub(super) fn is_call(errand: Errand) -> bool {
    matches!(errand, Errand::Call | Errand::Notify | Errand::Control)
}

/// The current dispatcher, at home, goes to core `to`: to the endpoint at `endpoint`, as `badge` says, or to a dispatcher there.
pub fn go_abroad(
    sched: &mut Scheduler,
    dcb: DcbRef,
    errand: Errand,
    to: CoreId,
    (endpoint, badge): (u64, u32),
) -> Result<(), Status> {
    let known = to.index() < sched.core.cores.len() && to != sched.core.id;
    if !known || endpoint == 0 {
        return Err(Status::Unsupported);
    }
    sched.core.add(Counter::CallsAbroad, 1);
    dcb.trip.called.set(endpoint);
    dcb.trip.calls_at.set(to);
    dcb.badge.set(badge);
    dcb.trip.errand.set(errand);
    sched.visits.leaving = Some(dcb);
    sched.resched = true;
    Ok(())
}

/// Nothing of the dispatcher is loaded any more. What is known of its stops stays here.
pub(super) fn send_to_endpoint(sched: &mut Scheduler, dcb: DcbRef) {
    dcb.trip.abroad.set(true);
    dcb.trip.held.set(dcb.has(flag::SUSPENDED));
    dcb.clear(flag::SUSPENDED);
    sched.send(dcb, dcb.trip.calls_at.get());
}

/// It is ready: home, if it waited here at an endpoint, and to nobody else.
#[cold]
#[inline(never)]
pub(super) fn go_back(sched: &mut Scheduler, dcb: DcbRef) {
    if !dcb.has(flag::ABROAD) {
        return;
    }
    take_leave(sched, dcb);
    let handled = !dcb.has(flag::FAULT);
    dcb.trip.errand.set(if handled { Errand::Answered } else { Errand::Unhandled });
    sched.send(dcb, dcb.home.get());
}

/// Home wants one back that waits here at an endpoint, or that is about to.
pub(super) fn call_back(sched: &mut Scheduler, dcb: DcbRef) {
    let faulted = dcb.has(flag::FAULT);
    let received = dcb.has(flag::ABROAD) && dcb.state.get() == State::Called;
    sched.turn_away(dcb);
    take_leave(sched, dcb);
    dcb.leave_endpoint();
    dcb.state.set(State::Ready);
    dcb.trip.errand.set(match (faulted, received) {
        (true, _) => Errand::Fault,
        (false, false) => Errand::Invoke,
        (false, true) => {
            interrupted(dcb, Status::PeerGone);
            Errand::Answered
        }
    });
    dcb.clear(flag::FAULT);
    sched.send(dcb, dcb.home.get());
}

/// The endpoint or dispatcher at `pa` goes: those on the way to it must not find its successor in the same memory. How many
/// there were to look at.
pub fn close_arrivals(sched: &mut Scheduler, pa: u64) -> u32 {
    if !sched.core.cores.are_many() {
        return 0;
    }
    sched.serve_requests();
    let (mut next, mut passed) = (sched.visits.arrived.first(), 0);
    while let Some(dcb) = next {
        if is_call(dcb.trip.errand.get()) && dcb.trip.called.get() == pa {
            dcb.trip.called.set(0);
        }
        next = dcb.links.next.get();
        passed += 1;
    }
    passed
}
