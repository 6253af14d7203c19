//! Invocations that this core alone cannot perform are the monitor's to prepare; see
//! [`crate::cap::asks`].
//!
//! ```text
//! invoker ─ RetryThroughMonitor ─► waits, as after a Call ─► message ─► monitor runs the protocol
//!    ▲                                                                    │ Proceed
//!    ╰──────────── status and results ◄── performed again ◄───────────────╯ (or Finish)
//! ```
//!
//! The registers of the invoker stay as they were, so that its invocation can be performed at any
//! time.

use super::monitor::DONE;
use super::{perform, Outcome, SETTLED};
use crate::driver::CpuDriver;
use crate::ipc::{self, redirected};
use crate::object::dcb::flag;
use crate::object::DcbRef;
use captypes::invocations::Asked;
use captypes::{Label, Status};

const RETRY: Outcome = Status::RetryThroughMonitor.to_word();

/// Makes `dcb`, the current dispatcher, wait for the monitor.
#[cold]
#[inline(never)]
pub(super) fn redirect(local: &mut CpuDriver, dcb: DcbRef) -> Outcome {
    let (Some(ask), Some(monitor)) = (local.caps.asks.take(), local.monitor.get()) else {
        return RETRY;
    };
    let server = monitor.endpoint.server.get();
    if server.is_none_or(|server| server == dcb) {
        return RETRY;
    }
    redirected::note(dcb, local.monitor.next_ticket(), &ask);
    dcb.set(flag::REDIRECTED);
    ipc::call(&mut local.sched, &mut local.caps, dcb, monitor.endpoint, 0);
    SETTLED
}

/// Performs the invocation of a dispatcher that waits for `server`; see [`captypes::op::Proceed`].
pub(super) fn proceed(
    local: &mut CpuDriver,
    server: DcbRef,
    client: u64,
    ticket: u64,
    checked: bool,
) -> Result<Asked, Status> {
    let client = ipc::redirected(&local.caps, server, client, ticket).ok_or(Status::Empty)?;
    let label = Label::from_u16(client.ctx.rax.get() as u16).ok_or(Status::Invalid)?;
    local.caps.asks.set_grant(checked.then(|| redirected::range(client)));
    local.monitor.begin(client);
    let outcome = perform(local, client, label);
    local.caps.asks.set_grant(None);
    if !local.monitor.end() {
        // It has deleted itself.
        return Ok(DONE);
    }
    let ask = local.caps.asks.take().filter(|_| outcome == RETRY);
    if let Some(ask) = ask {
        redirected::note(client, ticket, &ask);
        return Ok(ask.into());
    }
    client.ctx.rax.set(outcome);
    ipc::end_redirected(&mut local.sched, client);
    Ok(DONE)
}

/// Ends such an invocation; see [`captypes::op::Finish`].
pub(super) fn finish(
    local: &mut CpuDriver,
    server: DcbRef,
    client: u64,
    ticket: u64,
    status: u64,
) -> Result<(), Status> {
    let client = ipc::redirected(&local.caps, server, client, ticket).ok_or(Status::Empty)?;
    client.ctx.rax.set(status);
    ipc::end_redirected(&mut local.sched, client);
    Ok(())
}

/// Is `dcb`, whose invocation is being performed, still there?
#[inline]
pub(super) fn is_alive(local: &CpuDriver, dcb: DcbRef) -> bool {
    local.sched.current() == Some(dcb) || local.monitor.is_client(dcb)
}
