//! Uses an address, whatever comes of it.
//!
//! An executor is *disabled* (see `abi::dispatcher`) all the time, so that its system calls are
//! invocations, but for the one instruction that uses the address: a fault of it is an upcall, which
//! returns in place of the instruction. So the translation is the one that this very address space has
//! cached.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use libos::abi::dispatcher::{DispatcherFrame, Regs};

/// What came of it: the word that was read, and whether it faulted instead.
#[repr(C)]
pub struct Touched {
    pub value: u64,
    pub faulted: u64,
}

extern "C" {
    /// Reads (`access` 0), writes (1) or calls (2) what is at `va`.
    fn modeltest_touch(va: u64, access: u64, value: u64, disabled: &AtomicU32) -> Touched;
    /// Where the kernel enters after a fault.
    pub fn modeltest_upcall();
}

const SAVE: usize = offset_of!(DispatcherFrame, save);

global_asm!(
    ".globl modeltest_touch, modeltest_upcall",
    "modeltest_touch:",
    "mov r8, rsp",
    "mov dword ptr [rcx], 0",
    "cmp esi, 1",
    "je 3f",
    "ja 4f",
    "mov rax, [rdi]",
    "jmp 5f",
    "3: mov [rdi], rdx",
    "jmp 5f",
    "4: call rdi",
    "5: mov dword ptr [rcx], 1",
    "xor edx, edx",
    "ret",
    // The stack as it was at the entry of `modeltest_touch`, whose caller keeps these registers.
    "modeltest_upcall:",
    "mov rsp, [rdi + {r8}]",
    "mov rbx, [rdi + {rbx}]",
    "mov rbp, [rdi + {rbp}]",
    "mov r12, [rdi + {r12}]",
    "mov r13, [rdi + {r13}]",
    "mov r14, [rdi + {r14}]",
    "mov r15, [rdi + {r15}]",
    "mov edx, 1",
    "ret",
    r8 = const SAVE + offset_of!(Regs, r8),
    rbx = const SAVE + offset_of!(Regs, rbx),
    rbp = const SAVE + offset_of!(Regs, rbp),
    r12 = const SAVE + offset_of!(Regs, r12),
    r13 = const SAVE + offset_of!(Regs, r13),
    r14 = const SAVE + offset_of!(Regs, r14),
    r15 = const SAVE + offset_of!(Regs, r15),
);

/// Uses an address that nothing of this program lives at.
pub fn touch(frame: &DispatcherFrame, va: u64, access: u64, value: u64) -> Touched {
    // SAFETY: the host names addresses below the upper-level entries of this program only for what was
    // mapped by it, where there is nothing of ours; code there is a return instruction. Faults return.
    unsafe { modeltest_touch(va, access, value, &frame.disabled) }
}
