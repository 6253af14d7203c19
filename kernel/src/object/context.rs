//! Registers of a stopped dispatcher, as the kernel reads and writes them: the layout of
//! [`abi::Regs`], one cell for each.

use abi::Regs;
use captypes::invocations::{ArgWords, ReplyWords};
use captypes::Status;
use core::cell::Cell;
use core::mem::offset_of;

/// See the head of this file.
#[repr(C)]
pub struct Ctx {
    pub rax: Cell<u64>,
    pub rbx: Cell<u64>,
    pub rcx: Cell<u64>,
    pub rdx: Cell<u64>,
    pub rsi: Cell<u64>,
    pub rdi: Cell<u64>,
    pub rbp: Cell<u64>,
    pub r8: Cell<u64>,
    pub r9: Cell<u64>,
    pub r10: Cell<u64>,
    pub r11: Cell<u64>,
    pub r12: Cell<u64>,
    pub r13: Cell<u64>,
    pub r14: Cell<u64>,
    pub r15: Cell<u64>,
    pub rip: Cell<u64>,
    pub cs: Cell<u64>,
    pub rflags: Cell<u64>,
    pub rsp: Cell<u64>,
    pub ss: Cell<u64>,
}

const _: () = {
    assert!(size_of::<Ctx>() == size_of::<Regs>());
    assert!(offset_of!(Ctx, rsi) == offset_of!(Regs, rsi));
    assert!(offset_of!(Ctx, r8) == offset_of!(Regs, r8));
    assert!(offset_of!(Ctx, r15) == offset_of!(Regs, r15));
    assert!(offset_of!(Ctx, rip) == offset_of!(Regs, rip));
    assert!(offset_of!(Ctx, rsp) == offset_of!(Regs, rsp));
};

/// Flags with which upcalls begin: interrupts on, everything else off.
pub const CLEAN_FLAGS: u64 = 0x202;

impl Ctx {
    /// Puts an invocation into the registers, as user mode does.
    #[cfg(test)]
    pub fn set_invocation(&self, rax: u64, rdi: u64, args: ArgWords) {
        let registers = [
            &self.rsi, &self.rdx, &self.r10, &self.r8, &self.r9, &self.r12, &self.r13, &self.r14,
            &self.r15,
        ];
        for (register, word) in registers.into_iter().zip(args) {
            register.set(word);
        }
        self.rax.set(rax);
        self.rdi.set(rdi);
    }

    /// The arguments of an invocation.
    #[inline]
    pub fn args(&self) -> ArgWords {
        [
            self.rsi.get(),
            self.rdx.get(),
            self.r10.get(),
            self.r8.get(),
            self.r9.get(),
            self.r12.get(),
            self.r13.get(),
            self.r14.get(),
            self.r15.get(),
        ]
    }

    /// The words of a message, in or out.
    #[inline]
    pub fn words(&self) -> ReplyWords {
        let [w0, w1, w2, w3, w4, w5, ..] = self.args();
        [w0, w1, w2, w3, w4, w5]
    }

    /// Sets the results of an invocation.
    #[inline]
    pub fn set_words(&self, words: &ReplyWords) {
        self.rsi.set(words[0]);
        self.rdx.set(words[1]);
        self.r10.set(words[2]);
        self.r8.set(words[3]);
        self.r9.set(words[4]);
        self.r12.set(words[5]);
    }

    /// Sets the status of an invocation.
    #[inline]
    pub fn set_status(&self, result: Result<(), Status>) {
        self.rax.set(match result {
            Ok(()) => 0,
            Err(status) => status.to_word(),
        });
    }

    /// Goes on at `rip` by the fast way out, with clean flags.
    #[inline]
    pub fn enter(&self, rip: u64) {
        self.rip.set(rip);
        self.rcx.set(rip);
        self.rflags.set(CLEAN_FLAGS);
        self.r11.set(CLEAN_FLAGS);
    }

    /// All registers, in the order of [`Regs`].
    pub fn each(&self) -> [&Cell<u64>; 20] {
        let Ctx { rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, .. } = self;
        let Ctx { r11, r12, r13, r14, r15, rip, cs, rflags, rsp, ss, .. } = self;
        [
            rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, cs,
            rflags, rsp, ss,
        ]
    }
}
