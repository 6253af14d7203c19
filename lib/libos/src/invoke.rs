//! The system call.
//!
//! One function for every operation of the table: the arguments' struct chooses the operation, and
//! after inlining only the registers that this operation uses are loaded. The kernel may write all
//! result registers whatever the operation, so all of them are declared lost.

use captypes::invocations::{ArgWords, Reply, ReplyWords};
use captypes::{Invocation, Place, Status};
use core::arch::asm;

/// Everything that comes back from the kernel.
pub struct Answer {
    /// Zero, or a [`Status`].
    pub status: u64,
    /// Badge of a received message.
    pub badge: u64,
    /// Results.
    pub words: ReplyWords,
    /// [`captypes::invocations::received`] flags.
    pub flags: u64,
}

/// Performs the operation `args` on the capability at `target`.
#[inline(always)]
pub fn invoke<I: Invocation>(target: impl Into<Place>, args: I) -> Result<I::Reply, Status> {
    let answer = raw::<I>(target.into(), 0, args);
    Status::from_word(answer.status)?;
    I::Reply::decode(&answer.words)
}

/// The same with further bits of `rax`, and the answer as it is.
#[inline(always)]
pub fn raw<I: Invocation>(target: Place, bits: u64, args: I) -> Answer {
    let rax = I::LABEL as u64 | bits;
    let words = args.encode();
    match I::ARGS {
        0 => trap0(rax, target.0, &words),
        1 => trap1(rax, target.0, &words),
        2 => trap2(rax, target.0, &words),
        3 => trap3(rax, target.0, &words),
        4 => trap4(rax, target.0, &words),
        5 => trap5(rax, target.0, &words),
        6 => trap6(rax, target.0, &words),
        7 => trap7(rax, target.0, &words),
        8 => trap8(rax, target.0, &words),
        _ => trap9(rax, target.0, &words),
    }
}

/// Defines a function that loads some of the argument registers and executes `syscall`.
///
/// Named are the registers that carry an argument and a result (with the number of both), those
/// that carry a result only, and those that carry an argument only.
macro_rules! trap {
    ($name:ident [$($both:tt $index:tt)*] [$($out:tt $at:tt)*]
     [$(in $seventh:tt)? $(out $flags:tt)?] [$($keep:tt $kept:tt)*]) => {
        #[inline(always)]
        #[allow(unused_variables)]
        fn $name(rax: u64, rdi: u64, args: &ArgWords) -> Answer {
            let (status, badge, flags);
            let mut words: ReplyWords = [0; 6];
            // SAFETY: the kernel changes no memory of this domain but what the operation asks for
            // by capabilities, uses no user stack, and changes only the registers named here.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") rax => status,
                    inlateout("rdi") rdi => badge,
                    $(inlateout($both) args[$index] => words[$index],)*
                    $(lateout($out) words[$at],)*
                    $(inlateout($seventh) args[6] => flags,)?
                    $(lateout($flags) flags,)?
                    $(in($keep) args[$kept],)*
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack, preserves_flags),
                );
            }
            Answer { status, badge, words, flags }
        }
    };
}

trap!(trap0 [] ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [out "r13"] []);
trap!(trap1 ["rsi" 0] ["rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [out "r13"] []);
trap!(trap2 ["rsi" 0 "rdx" 1] ["r10" 2 "r8" 3 "r9" 4 "r12" 5] [out "r13"] []);
trap!(trap3 ["rsi" 0 "rdx" 1 "r10" 2] ["r8" 3 "r9" 4 "r12" 5] [out "r13"] []);
trap!(trap4 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3] ["r9" 4 "r12" 5] [out "r13"] []);
trap!(trap5 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4] ["r12" 5] [out "r13"] []);
trap!(trap6 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [] [out "r13"] []);
trap!(trap7 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [] [in "r13"] []);
trap!(trap8 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [] [in "r13"] ["r14" 7]);
trap!(trap9 ["rsi" 0 "rdx" 1 "r10" 2 "r8" 3 "r9" 4 "r12" 5] [] [in "r13"] ["r14" 7 "r15" 8]);
