//! Invocations that this core alone cannot perform are the monitor's to prepare; see
//! [`crate::cap::remote`].
//!
//! ```text
//! invoker ─ RetryThroughMonitor ─► waits, as after a Call ─► message ─► monitor runs the protocol
//!    ▲                                                                    │ Proceed
//!    ╰──────────── status and results ◄── performed again ◄───────────────╯ (or Finish)
//! ```
//!
//! The registers of the invoker stay as they were, so that its invocation can be performed at any
//! time. What the kernel remembers of the request is in the cells for reports of faults: a dispatcher
//! that invokes has none.

use super::monitor::DONE;
use super::{perform, Outcome, SETTLED};
use crate::cap::remote::{Ask, MonitorRef};
use crate::driver::Local;
use crate::object::dcb::flag;
use crate::object::{DcbRef, Endpoint};
use captypes::invocations::{Asked, ReplyWords, Word};
use captypes::{Label, Status};

/// `fault[0]`: the need, and from this bit on the number of the request.
const TICKET: u32 = 8;

const RETRY: Outcome = Status::RetryThroughMonitor.to_word();

/// Makes `dcb`, the current dispatcher, wait for the monitor.
#[cold]
#[inline(never)]
pub(super) fn redirect(local: &mut Local, dcb: DcbRef) -> Outcome {
    let (Some(ask), Some(monitor)) = (local.remote.ask.take(), local.remote.monitor) else {
        return RETRY;
    };
    let server = monitor.endpoint.server.get();
    if server.is_none_or(|server| server == dcb) {
        return RETRY;
    }
    local.remote.ticket += 1;
    note(dcb, local.remote.ticket, &ask);
    dcb.set(flag::REDIRECTED);
    local.call_endpoint(dcb, monitor.endpoint, 0);
    SETTLED
}

fn note(dcb: DcbRef, ticket: u64, ask: &Ask) {
    let words = [ask.need.to_word() | ticket << TICKET, ask.slot.pa(), ask.base, ask.bytes];
    for (cell, word) in dcb.fault.iter().zip(words) {
        cell.set(word);
    }
}

/// The number of the request of a dispatcher that waits for the monitor.
pub(crate) fn ticket(dcb: DcbRef) -> u64 {
    dcb.fault[0].get() >> TICKET
}

/// What the monitor receives.
pub(crate) fn message(dcb: DcbRef) -> ReplyWords {
    let [first, slot, base, bytes] = [0, 1, 2, 3].map(|n: usize| dcb.fault[n].get());
    [first & ((1 << TICKET) - 1), dcb.pa(), first >> TICKET, slot, base, bytes]
}

impl Local {
    /// Names the monitor.
    pub(crate) fn set_monitor(&mut self, monitor: MonitorRef) {
        self.remote.monitor = Some(monitor);
    }

    /// An endpoint goes.
    pub(crate) fn forget_monitor(&mut self, endpoint: crate::object::Obj<Endpoint>) {
        if self.remote.monitor.is_some_and(|monitor| monitor.endpoint == endpoint) {
            self.remote.monitor = None;
        }
    }

    /// Performs the invocation of a dispatcher that waits for `server`; see
    /// [`captypes::op::Proceed`].
    pub(crate) fn proceed(
        &mut self,
        server: DcbRef,
        client: u64,
        ticket: u64,
        checked: bool,
    ) -> Result<Asked, Status> {
        let client = self.redirected(server, client, ticket).ok_or(Status::Empty)?;
        let label = Label::from_u16(client.ctx.rax.get() as u16).ok_or(Status::Invalid)?;
        let [_, _, base, bytes] = [0, 1, 2, 3].map(|n: usize| client.fault[n].get());
        self.remote.grant = checked.then_some((base, bytes));
        self.remote.client = Some(client);
        let outcome = perform(self, client, label);
        self.remote.grant = None;
        if self.remote.client.take().is_none() {
            // It has deleted itself.
            return Ok(DONE);
        }
        let ask = self.remote.ask.take().filter(|_| outcome == RETRY);
        if let Some(ask) = ask {
            note(client, ticket, &ask);
            return Ok(ask.into());
        }
        client.ctx.rax.set(outcome);
        self.end_redirected(client);
        Ok(DONE)
    }

    /// Ends such an invocation; see [`captypes::op::Finish`].
    pub(crate) fn finish(
        &mut self,
        server: DcbRef,
        client: u64,
        ticket: u64,
        status: u64,
    ) -> Result<(), Status> {
        let client = self.redirected(server, client, ticket).ok_or(Status::Empty)?;
        client.ctx.rax.set(status);
        self.end_redirected(client);
        Ok(())
    }

    /// Is `dcb`, whose invocation is being performed, still there?
    #[inline]
    pub(super) fn is_alive(&self, dcb: DcbRef) -> bool {
        self.sched.current() == Some(dcb) || self.remote.client == Some(dcb)
    }
}
