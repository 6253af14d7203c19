//! Capability invocations: the `syscall` instruction, executed while the dispatcher is disabled.

use captypes::invocations::Reply;
use captypes::{Invocation, Place, Status};
use core::arch::asm;

/// Everything that comes back from an invocation.
#[derive(Clone, Copy)]
pub struct Raw {
    pub status: u64,
    pub words: [u64; 6],
    pub received: u64,
}

/// Executes one invocation. `rax` holds the label and, for messages, the capability count.
#[inline(always)]
pub fn invoke_raw(rax: u64, cap: Place, args: [u64; 9]) -> Raw {
    let (status, received): (u64, u64);
    let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5, a6, a7, a8] = args;
    // SAFETY: the kernel changes only the registers named here. What an invocation does to memory
    // is the business of the callers, who own the objects that they name.
    unsafe {
        asm!("syscall",
            inlateout("rax") rax => status, inlateout("rdi") cap.0 => _,
            inlateout("rsi") w0, inlateout("rdx") w1, inlateout("r10") w2,
            inlateout("r8") w3, inlateout("r9") w4, inlateout("r12") w5,
            inlateout("r13") a6 => received, inlateout("r14") a7 => _, inlateout("r15") a8 => _,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    let words = [w0, w1, w2, w3, w4, w5];
    Raw { status, words, received }
}

/// Invokes the capability at `cap`.
#[inline(always)]
pub fn invoke<I: Invocation>(cap: impl Into<Place>, invocation: I) -> Result<I::Reply, Status> {
    let raw = invoke_raw(I::LABEL as u64, cap.into(), invocation.encode());
    Status::from_word(raw.status)?;
    I::Reply::decode(&raw.words)
}
