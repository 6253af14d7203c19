//! Notifications: bits in a dispatcher's frame, and how it learns of them.

use super::Scheduler;
use crate::arch::log;
use crate::object::dcb::flag;
use crate::object::{DcbRef, State};
use abi::dispatcher::Upcall;
use captypes::invocations::{received, NOTIFY_TIMER};
use captypes::Status;

impl Scheduler {
    /// Sets notification bits of a dispatcher, and wakes it if it waits for them.
    pub fn notify(&mut self, dcb: DcbRef, bits: u64) {
        let frame = dcb.frame.get();
        if !frame.is_some() {
            return;
        }
        frame.notifications().or(bits);
        if dcb.away.get() {
            return self.poke(dcb);
        }
        match dcb.state.get() {
            State::Waiting => {
                end_wait(dcb, frame.notifications().take());
                self.wake(dcb);
            }
            State::Receiving => {
                dcb.leave_endpoint();
                receive_notifications(dcb, frame.notifications().take());
                self.wake(dcb);
            }
            // Not before the present event has left its results in the registers.
            State::Ready if self.current == Some(dcb) => self.block(),
            _ => {}
        }
    }

    /// Before the current dispatcher goes on: a program with notifications pending enters its
    /// library.
    pub fn consider_upcall(&mut self) {
        let Some(dcb) = self.current else { return };
        let frame = dcb.frame.get();
        if !frame.is_some() {
            return;
        }
        let bits = frame.notifications().get();
        if bits == 0 && !frame.was_switched() || frame.is_disabled(dcb.ctx.rip.get()) {
            return;
        }
        let reason = if bits == NOTIFY_TIMER { Upcall::Timer } else { Upcall::Message };
        if !is_upcalled(dcb, reason) {
            return;
        }
        frame.upcall(&dcb.ctx, reason, dcb.frame_va.get());
    }

    /// The current dispatcher takes its notifications, or waits for one.
    pub fn wait(&mut self, dcb: DcbRef) {
        let bits = dcb.frame.get().notifications().take();
        if bits != 0 {
            return end_wait(dcb, bits);
        }
        dcb.state.set(State::Waiting);
        self.block();
    }
}

/// Does the dispatcher's library handle this? That of a native domain does so once it has said
/// where.
#[inline]
pub fn is_upcalled(dcb: DcbRef, reason: Upcall) -> bool {
    let frame = dcb.frame.get();
    dcb.has(flag::LINUX) || frame.is_some() && frame.has_entry(reason)
}

fn end_wait(dcb: DcbRef, bits: u64) {
    dcb.ctx.set_words(&[bits, 0, 0, 0, 0, 0]);
    dcb.ctx.set_status(Ok(()));
}

/// Gives a receiver notification bits instead of a message.
pub fn receive_notifications(dcb: DcbRef, bits: u64) {
    dcb.ctx.set_words(&[bits, 0, 0, 0, 0, 0]);
    dcb.ctx.rdi.set(0);
    dcb.ctx.r13.set(received::NOTIFICATION);
    dcb.ctx.set_status(Ok(()));
}

/// A dispatcher whose call or wait ends without what it waited for.
pub fn interrupted(dcb: DcbRef, status: Status) {
    dcb.ctx.r13.set(0);
    dcb.ctx.set_status(Err(status));
}

/// Says what stopped a dispatcher.
pub fn log_fault(dcb: DcbRef) {
    let [vector, error, address, rip] = [0, 1, 2, 3].map(|n: usize| dcb.fault[n].get());
    log!("fault without a handler: vector {vector}, error {error:#x}, address {address:#x}");
    let ctx = &dcb.ctx;
    log!("  dispatcher {:#x}  rip {rip:#x}  rsp {:#x}", dcb.pa(), ctx.rsp.get());
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, ..] = ctx.each().map(|r| r.get());
    log!("  rax {rax:x} rbx {rbx:x} rcx {rcx:x} rdx {rdx:x}");
    log!("  rsi {rsi:x} rdi {rdi:x} rbp {rbp:x} r8 {r8:x}");
    log!("  at {rip:#x}");
    // For the host's tool: who measures need not wait for somebody who never answers.
    log!("@fault {vector} {rip:#x}");
}
