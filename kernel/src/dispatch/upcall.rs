//! Entering a dispatcher's library, and what happens where there is none to enter.

use super::{Local, PAGE_FAULT};
use crate::arch::log;
use crate::cores::CoreId;
use crate::object::dcb::{flag, Errand, FAULT_EP};
use crate::object::{DcbRef, Endpoint, Obj, State};
use abi::dispatcher::Upcall;
use captypes::invocations::{received, Counter, NOTIFY_TIMER};
use captypes::Status;

/// Exit status of a session whose first program failed: none that a program's end gives.
const FIRST_PROGRAM_GONE: u32 = 125;

impl Local {
    /// The program executed `syscall`.
    #[inline]
    pub(super) fn upcall_syscall(&mut self, dcb: DcbRef) {
        self.add(Counter::LinuxCalls, 1);
        dcb.frame.get().upcall(&dcb.ctx, Upcall::Syscall, dcb.frame_va.get());
    }

    /// The current dispatcher raised an exception.
    pub(super) fn fault(&mut self, dcb: DcbRef, vector: u64, error: u64, address: u64) {
        let frame = dcb.frame.get();
        let reason = if vector == PAGE_FAULT { Upcall::PageFault } else { Upcall::Exception };
        if is_upcalled(dcb, reason) && !frame.is_disabled(dcb.ctx.rip.get()) {
            frame.set_fault(vector, error, address);
            if reason == Upcall::PageFault {
                self.add(Counter::PageFaults, 1);
            }
            return frame.upcall(&dcb.ctx, reason, dcb.frame_va.get());
        }
        let words = [vector, error, address, dcb.ctx.rip.get()];
        for (cell, word) in dcb.fault.iter().zip(words) {
            cell.set(word);
        }
        if self.is_visiting(dcb) {
            return self.go_home(dcb, Errand::Fault);
        }
        self.deliver_fault(dcb);
    }

    /// Makes the current dispatcher, at home, call its fault endpoint; without one it is stopped.
    #[inline(never)]
    pub(super) fn deliver_fault(&mut self, dcb: DcbRef) {
        let cap = dcb.slot(FAULT_EP).cap();
        if let Some(endpoint) = Obj::<Endpoint>::of(&cap) {
            dcb.set(flag::FAULT);
            return self.call_endpoint(dcb, endpoint, cap.aux);
        }
        log_fault(dcb);
        self.stop(dcb);
        if self.first == Some(dcb) && self.id == CoreId::BOOT {
            // It was given everything, and nobody watches over it.
            log!("the first program is gone");
            log!("@exit {FIRST_PROGRAM_GONE}");
            crate::machine::shutdown(self, FIRST_PROGRAM_GONE);
        }
    }

    /// Sets notification bits of a dispatcher, and wakes it if it waits for them.
    pub(crate) fn notify(&mut self, dcb: DcbRef, bits: u64) {
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
    pub(super) fn consider_upcall(&mut self) {
        let Some(dcb) = self.current else { return };
        let frame = dcb.frame.get();
        if !frame.is_some() {
            return;
        }
        let bits = frame.notifications().get();
        if bits == 0 || frame.is_disabled(dcb.ctx.rip.get()) {
            return;
        }
        let reason = if bits == NOTIFY_TIMER { Upcall::Timer } else { Upcall::Message };
        if !is_upcalled(dcb, reason) {
            return;
        }
        frame.upcall(&dcb.ctx, reason, dcb.frame_va.get());
    }

    /// The current dispatcher takes its notifications, or waits for one.
    pub(crate) fn wait(&mut self, dcb: DcbRef) {
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
fn is_upcalled(dcb: DcbRef, reason: Upcall) -> bool {
    let frame = dcb.frame.get();
    dcb.has(flag::LINUX) || frame.is_some() && frame.has_entry(reason)
}

fn end_wait(dcb: DcbRef, bits: u64) {
    dcb.ctx.set_words(&[bits, 0, 0, 0, 0, 0]);
    dcb.ctx.set_status(Ok(()));
}

/// Gives a receiver notification bits instead of a message.
pub(crate) fn receive_notifications(dcb: DcbRef, bits: u64) {
    dcb.ctx.set_words(&[bits, 0, 0, 0, 0, 0]);
    dcb.ctx.rdi.set(0);
    dcb.ctx.r13.set(received::NOTIFICATION);
    dcb.ctx.set_status(Ok(()));
}

/// A dispatcher whose call or wait ends without what it waited for.
pub(crate) fn interrupted(dcb: DcbRef, status: Status) {
    dcb.ctx.r13.set(0);
    dcb.ctx.set_status(Err(status));
}

/// Says what stopped a dispatcher.
pub(crate) fn log_fault(dcb: DcbRef) {
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
