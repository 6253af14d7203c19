//! Debug registers, which a tracer sets: the kernel watches for them while the thread runs
//! ([`captypes::op::SetBreakpoints`]).

use super::memory;
use crate::errno::{Errno, Result};
use crate::process::{frame, Task};
use crate::thread::{area, Thread};
use abi::layout::USER_END;
use abi::Regs;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::x86_64::__cpuid;
use core::sync::atomic::Ordering::Relaxed;
use libos::invoke;
use linuxabi::debugregs::{DebugRegisters, BREAKPOINTS};

/// Vector of debug exceptions.
pub const DEBUG: u64 = 1;

/// Sets one of this thread's.
pub fn set(me: &mut Thread, number: usize, value: u64) -> Result<()> {
    let new = me.debug.with(number, value, USER_END)?;
    if new.armed() != me.debug.armed() {
        arm(&new)?;
        me.before_step = None;
    }
    me.debug = new;
    Ok(())
}

/// Nothing is watched any more: what runs here has another program, or another process.
pub fn forget(me: &mut Thread) {
    if me.debug.watch() {
        // It took breakpoints, so it takes none.
        let _ = arm(&DebugRegisters::NONE);
    }
    me.debug = DebugRegisters::NONE;
    me.before_step = None;
}

/// Whoever ran here meanwhile watched nothing: what was is watched again.
pub fn restore(me: &Thread) {
    if me.debug.watch() {
        // It took them before.
        let _ = arm(&me.debug);
    }
}

fn arm(registers: &DebugRegisters) -> Result<()> {
    // A breakpoint that may not be there any more.
    pass(0);
    let ([address0, address1, address2, address3], control) = registers.armed();
    let set = captypes::op::SetBreakpoints { address0, address1, address2, address3, control };
    invoke(area::own_dispatcher(), set).map_err(|_| Errno::EINVAL)
}

/// What is watched, as it was before a single step.
pub type Before = [Option<Vec<u8>>; BREAKPOINTS];

/// Emulators report a single step and what it touches one after the other, where the kernel cannot tell them apart. There nothing
/// is watched during a step: what is written is found by comparing. Before the program goes on, with a step or without.
#[cold]
pub fn before(p: &mut Task, steps: bool) {
    if !steps && p.me.before_step.is_some() {
        return end_step(&mut p.me);
    }
    if steps && p.me.before_step.is_none() && is_emulated() {
        let before = seen(p);
        p.me.before_step = Some(Box::new(before));
        // It took breakpoints, so it takes none.
        let _ = arm(&DebugRegisters::NONE);
    }
}

fn seen(p: &mut Task) -> Before {
    p.me.debug.data().map(|data| {
        let (address, len) = data?;
        Some(memory::read(&mut p.mm, address, len, false))
    })
}

fn end_step(me: &mut Thread) {
    me.before_step = None;
    restore(me);
}

/// Does QEMU interpret this program?
fn is_emulated() -> bool {
    const HYPERVISOR: u32 = 0x4000_0000;
    let facts = __cpuid(HYPERVISOR);
    [facts.ebx, facts.ecx, facts.edx]
        == [
            u32::from_le_bytes(*b"TCGT"),
            u32::from_le_bytes(*b"CGTC"),
            u32::from_le_bytes(*b"GTCG"),
        ]
}

/// The program's debug exception, for these reasons.
pub fn happened(p: &mut Task, mut reasons: u64, regs: &Regs) {
    if let Some(before) = p.me.before_step.take() {
        for (n, (before, now)) in before.iter().zip(seen(p)).enumerate() {
            reasons |= u64::from(*before != now) << n;
        }
        end_step(&mut p.me);
    }
    p.me.debug.happened(reasons);
    if p.me.debug.is_before_instruction() {
        pass(regs.rip);
    }
}

/// The instruction at `address` is to be executed in spite of a breakpoint on it.
fn pass(address: u64) {
    // SAFETY: the frame is mapped; the field is atomic.
    unsafe { (*frame()).passes.store(address, Relaxed) };
}
