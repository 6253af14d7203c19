//! Cache lines that are written back to memory, for what is to survive a power failure.

use super::cpu;
use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};

/// Which instruction the processors have; 0: not known yet.
static INSTRUCTION: AtomicU8 = AtomicU8::new(0);
const CLWB: u8 = 1;
const CLFLUSHOPT: u8 = 2;
const CLFLUSH: u8 = 3;

#[cold]
fn detect() -> u8 {
    let features = cpu::cpuid(7, 0).ebx;
    let found = match (features >> 24 & 1, features >> 23 & 1) {
        (1, _) => CLWB,
        (_, 1) => CLFLUSHOPT,
        _ => CLFLUSH,
    };
    INSTRUCTION.store(found, Ordering::Relaxed);
    found
}

/// Begins to write the line with `at` back.
///
/// # Safety
/// It is memory.
#[inline]
pub unsafe fn write_back_line(at: *const u8) {
    let instruction = match INSTRUCTION.load(Ordering::Relaxed) {
        0 => detect(),
        known => known,
    };
    // SAFETY: the processor has the instruction, which changes no contents.
    unsafe {
        match instruction {
            CLWB => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
            CLFLUSHOPT => asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags)),
            _ => asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags)),
        }
    }
}

/// Returns when what this core has begun to write back has arrived.
#[inline]
pub fn write_back_fence() {
    // SAFETY: orders stores.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
