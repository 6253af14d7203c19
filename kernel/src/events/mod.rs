//! Events: where user mode and the machine enter the kernel.
//!
//! The entry code stores the registers of user mode in the current dispatcher and calls one of the
//! four functions here. Each does its work on the CPU driver of the core, and then `leave`s: stale
//! translations are invalidated, and if the current dispatcher cannot go on, the next one is loaded.
//! What the entry code loads afterwards is whatever is current then.

mod faults;
mod visits;

use crate::arch;
use crate::driver::Core;
use crate::event_lengths::{self, Kind};
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbRef, Listener};
use crate::operations::morsels::{self, Below, Served};
use crate::operations::reclaim::flush_translations;
use abi::dispatcher::with_slot;
use captypes::invocations::Counter;

/// Numbers of exceptions.
const NO_VECTORS: u64 = 7;
const GENERAL_PROTECTION: u64 = 13;
/// Vector of traps behind single instructions.
const DEBUG: u64 = 1;
const PAGE_FAULT: u64 = 14;

/// User mode executed `syscall`; its registers are in the current dispatcher.
///
/// The entry code of the machine itself knows most system calls of Linux programs and does the same
/// for them (arch/x86_64/entry.rs); what it knows to be an invocation goes to [`on_invocation`].
#[inline]
pub fn on_syscall(core: &mut Core) {
    let local = &mut core.local;
    let Some(dcb) = local.sched.current() else { return };
    if dcb.has(flag::LINUX) && !dcb.frame.get().is_disabled(dcb.ctx.rip.get()) {
        let event = event_lengths::begin(Kind::SystemCall);
        local.upcall_syscall(dcb);
        return event.end();
    }
    on_invocation(core, dcb);
}

/// User mode invokes a capability; its registers are in `dcb`, the current dispatcher.
#[inline(always)]
pub fn on_invocation(core: &mut Core, dcb: DcbRef) {
    let event = event_lengths::begin(Kind::Invocation(dcb.ctx.rax.get()));
    let local = &mut core.local;
    if local.sched.is_visiting(dcb) && !crate::invoke::is_done_here(dcb) {
        local.sched.go_home(dcb, Errand::Invoke);
    } else {
        crate::invoke::invoke(local, dcb);
    }
    leave(core);
    event.end();
}

/// User mode raised exception `vector`.
#[inline]
pub fn on_trap(core: &mut Core, vector: u64, error: u64, cr2: u64) {
    let local = &mut core.local;
    let Some(dcb) = local.sched.current() else { return };
    // Apart, so that nobody else needs its registers.
    match vector == PAGE_FAULT && morsels::are_shown(local) {
        true => on_page_fault(core, dcb, error, cr2),
        false => on_other_trap(core, vector, error, cr2, dcb),
    }
}

/// A fault while objects are shown. Before anybody is asked, whoever runs: its library may be looking at one.
#[inline(never)]
fn on_page_fault(core: &mut Core, dcb: DcbRef, error: u64, address: u64) {
    match morsels::below(dcb, error, address) {
        Some(below) => on_fault_below(core, dcb, (error, address), below),
        None => on_other_trap(core, PAGE_FAULT, error, address, dcb),
    }
}

/// It is not a fault below an entry that shows an object.
#[inline(never)]
fn on_other_trap(core: &mut Core, vector: u64, error: u64, cr2: u64, dcb: DcbRef) {
    let local = &mut core.local;
    if vector == NO_VECTORS && local.sched.first_use_of_vectors(dcb) {
        return;
    }
    let event = event_lengths::begin(Kind::Exception);
    let address = if vector == PAGE_FAULT { cr2 } else { 0 };
    local.fault(dcb, vector, error, address);
    leave(core);
    event.end();
}

/// A program, or its library, has faulted below an entry that shows an object.
#[inline(never)]
fn on_fault_below(core: &mut Core, dcb: DcbRef, (error, address): (u64, u64), below: Below) {
    let event = event_lengths::begin(Kind::Exception);
    match morsels::show_page(&mut core.local, dcb, (error, address), below) {
        Served::Yes => {}
        Served::No => core.local.fault(dcb, PAGE_FAULT, error, address),
        Served::Out(slot) => {
            core.local.fault(dcb, PAGE_FAULT, with_slot(error, slot), address);
        }
    }
    leave(core);
    event.end();
}

/// An interrupt arrived in user mode or in the idle loop.
#[inline]
pub fn on_irq(core: &mut Core, vector: u64) {
    let event = event_lengths::begin(match vector {
        arch::VECTOR_TIMER => Kind::Timer,
        arch::VECTOR_IPI => Kind::Request,
        _ => Kind::Line,
    });
    let local = &mut core.local;
    let line = vector.wrapping_sub(arch::VECTOR_IRQ0);
    if vector == arch::VECTOR_TIMER {
        if local.sched.on_timer() {
            local.receive();
        }
    } else if vector == arch::VECTOR_IPI {
        local.attend();
    } else if let Some((to, bits)) = local.irqs.listener(line) {
        // Without a receiver the line stays masked until somebody acknowledges it.
        if let Some(dcb) = to.and_then(Listener::dispatcher) {
            local.sched.notify(dcb, bits);
            local.sched.yield_to_woken();
        }
    }
    local.sched.consider_upcall();
    leave(core);
    event.end();
}

/// The way out of every event.
#[inline]
pub(crate) fn leave(core: &mut Core) {
    if core.local.vm.is_pending() {
        flush_translations(&mut core.local);
    }
    if core.local.sched.has_changes() {
        reschedule(core);
    }
}

/// Somebody else runs, or the timer is to expire earlier, or both.
#[inline(never)]
fn reschedule(core: &mut Core) {
    let local = &mut core.local;
    if local.sched.must_switch() {
        if arch::SPARSE {
            local.publish_maps();
        }
        local.sched.pick_next();
        core.head.current_ctx = match local.sched.current() {
            Some(dcb) => dcb.context(),
            None => {
                // The other cores cannot ask the database.
                let count = local.counter(Counter::Capabilities);
                local.core.shared.set_counter(Counter::Capabilities, count);
                core::ptr::null_mut()
            }
        };
    }
    if let Some(deadline) = local.sched.deadline_to_arm() {
        arch::timer_set(&mut core.head, deadline);
    }
}

/// Begins to run what is ready. For the end of the start-up.
#[cfg(target_os = "none")]
pub fn run(core: &mut Core) -> ! {
    core.local.sched.block();
    leave(core);
    trace::mark(trace::Mark::Leave);
    arch::resume(&mut core.head)
}
