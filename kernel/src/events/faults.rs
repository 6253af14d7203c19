//! Entering a dispatcher's library, and what happens where there is none to enter.

use super::{DEBUG, GENERAL_PROTECTION, PAGE_FAULT};
use crate::arch::{self, log};
use crate::cores::CoreId;
use crate::dispatch::{is_upcalled, log_fault};
use crate::driver::CpuDriver;
use crate::ipc;
use crate::object::context::CLEAN_FLAGS;
use crate::object::dcb::{flag, Errand, FAULT_EP};
use crate::object::frame::{finish_step, take_pass};
use crate::object::{DcbRef, Endpoint, Obj};
use abi::dispatcher::{guarded_fault, processor_error, Upcall};
use captypes::invocations::{Counter, DEBUG_STEP};

/// The flag with which the processor executes an instruction in spite of a breakpoint on it.
const RESUME_FLAG: u64 = 1 << 16;

/// Exit status of a session whose first program failed: none that a program's end gives.
const FIRST_PROGRAM_GONE: u32 = 125;

impl CpuDriver {
    /// The program executed `syscall`.
    #[inline]
    pub(super) fn upcall_syscall(&mut self, dcb: DcbRef) {
        self.core.add(Counter::LinuxCalls, 1);
        dcb.frame.get().upcall(&dcb.ctx, Upcall::Syscall, dcb.frame_va.get());
    }

    /// The current dispatcher raised an exception.
    #[inline(always)]
    pub(super) fn fault(&mut self, dcb: DcbRef, vector: u64, error: u64, address: u64) {
        let frame = dcb.frame.get();
        let error = if vector == DEBUG { arch::take_debug_status() } else { error };
        if vector == DEBUG && passes_over(dcb, error) {
            return;
        }
        let reason = if vector == PAGE_FAULT { Upcall::PageFault } else { Upcall::Exception };
        if is_upcalled(dcb, reason) && !frame.is_disabled(dcb.ctx.rip.get()) {
            frame.set_fault(vector, error, address);
            if reason == Upcall::PageFault {
                self.core.add(Counter::PageFaults, 1);
            }
            return frame.upcall(&dcb.ctx, reason, dcb.frame_va.get());
        }
        // Only a program's library asks for what is in a store.
        let error = processor_error(error);
        if goes_on_at_fixup(dcb, vector, error, address) {
            return;
        }
        // Of the registers before those that this loads, the trap has come too late.
        if vector == DEBUG && frame.is_some() && finish_step(frame, &dcb.ctx) {
            return;
        }
        let words = [vector, error, address, dcb.ctx.rip.get()];
        for (cell, word) in dcb.fault.iter().zip(words) {
            cell.set(word);
        }
        if self.sched.is_visiting(dcb) {
            return self.sched.go_home(dcb, Errand::Fault);
        }
        self.deliver_fault(dcb);
    }

    /// Makes the current dispatcher, at home, call its fault endpoint; without one it is stopped.
    #[inline(never)]
    pub(super) fn deliver_fault(&mut self, dcb: DcbRef) {
        let cap = dcb.slot(FAULT_EP).cap();
        if let Some(endpoint) = Obj::<Endpoint>::of(&cap) {
            dcb.set(flag::FAULT);
            return ipc::call(&mut self.sched, &mut self.caps, dcb, endpoint, cap.aux);
        }
        if ipc::go_to_endpoint(&mut self.sched, dcb, Errand::Call, &cap).is_ok() {
            return dcb.set(flag::FAULT);
        }
        log_fault(dcb);
        self.sched.stop(dcb);
        if self.caps.first() == Some(dcb) && self.core.id == CoreId::BOOT {
            // It was given everything, and nobody watches over it.
            log!("the first program is gone");
            log!("@exit {FIRST_PROGRAM_GONE}");
            crate::machine::shutdown(self, FIRST_PROGRAM_GONE);
        }
    }
}

/// Is this debug exception nobody's business? The library touches for the program what that watches, or the program goes on
/// behind a breakpoint that it was told of.
#[cold]
fn passes_over(dcb: DcbRef, status: u64) -> bool {
    let is_breakpoint = status & !DEBUG_STEP != 0 && status & DEBUG_STEP == 0;
    if !is_breakpoint || !dcb.frame.get().is_some() {
        return false;
    }
    let (frame, rip) = (dcb.frame.get(), dcb.ctx.rip.get());
    let passes = match dcb.has(flag::LINUX) && frame.is_disabled(rip) {
        true => true,
        false => take_pass(frame, rip),
    };
    if passes {
        // What is watched may be the instruction itself.
        dcb.ctx.rflags.set(dcb.ctx.rflags.get() | RESUME_FLAG);
    }
    passes
}

/// Lets a disabled dispatcher go on where its library said, if a guarded instruction of it has faulted. That
/// needs nothing from home.
fn goes_on_at_fixup(dcb: DcbRef, vector: u64, error: u64, address: u64) -> bool {
    let (frame, rip) = (dcb.frame.get(), dcb.ctx.rip.get());
    let may_be_guarded = matches!(vector, PAGE_FAULT | GENERAL_PROTECTION);
    if !may_be_guarded || !frame.is_some() || !frame.is_disabled(rip) {
        return false;
    }
    let Some(fixup) = frame.fixup(rip) else { return false };
    dcb.ctx.rip.set(fixup);
    dcb.ctx.rflags.set(CLEAN_FLAGS);
    dcb.ctx.rax.set(address);
    dcb.ctx.rdx.set(guarded_fault(vector, error));
    true
}
