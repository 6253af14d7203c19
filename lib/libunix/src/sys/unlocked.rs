//! Calls that need nothing but what is the calling thread's own, or can be read at any time: they are done without the
//! lock of the library, whoever has it.
//!
//! What they may use:
//!
//! * the headers of the session frames and the frame shared with the kernel, whose fields are atomics;
//! * the thread's own signals, which no other thread ever touches ([`thread::with_own_signals`](crate::thread::with_own_signals));
//! * what is known of open files ([`glance`]), windows on them and what is lent of them, and their [attributes](known);
//! * whether anybody waits for a futex ([`crate::thread::park::is_deserted`]);
//! * the thread's own voice with `unixd`, and invocations of its own dispatcher;
//! * memory of the program that can be used as it is. Another thread may be unmapping it, as it may while the program
//!   itself uses it: then the copy faults or does not.
//!
//! Where [addresses are lent](leases) to threads, `mmap` and `munmap` are tried so as well.
//!
//! One that finds anything else necessary (a page is not there yet) has changed nothing and answers `None`: the call is
//! made again with the lock.

use super::{futex, names, processes, scheduling, thread, time};
use crate::errno::{to_rax, Result};
use crate::fd::{glance, known};
use crate::mm::{leases, user};
use crate::signal::{self, calls, Own};
use abi::Regs;

/// A call without the lock.
///
/// What it answers goes to the program as it is: errors as [`to_rax`] makes them.
pub type Call = fn(&mut Own, &Regs) -> Option<u64>;

const NUMBERS: usize = 310;

/// Those that there are, by their numbers.
static CALLS: [Option<Call>; NUMBERS] = {
    let mut calls: [Option<Call>; NUMBERS] = [None; NUMBERS];
    calls[0] = Some(glance::own_read);
    calls[1] = Some(glance::own_write);
    calls[4] = Some(known::own_stat);
    calls[5] = Some(known::own_fstat);
    calls[6] = Some(known::own_lstat);
    calls[8] = Some(glance::own_lseek);
    calls[14] = Some(calls::own_sigprocmask);
    calls[17] = Some(glance::own_pread);
    calls[18] = Some(glance::own_pwrite);
    calls[24] = Some(|_, _| Some(scheduling::sched_yield(())));
    calls[39] = Some(|_, _| Some(processes::getpid(())));
    calls[95] = Some(|_, regs| Some(names::umask((), regs.rdi as u32)));
    calls[96] = Some(|_, regs| {
        put(regs.rdi, || linuxabi::time::to_timeval(time::realtime()))?;
        put(regs.rsi, || [0u32; 2])?;
        Some(0)
    });
    calls[102] = Some(|_, _| Some(processes::getuid(())));
    calls[104] = Some(|_, _| Some(processes::getgid(())));
    calls[107] = Some(|_, _| Some(processes::geteuid(())));
    calls[108] = Some(|_, _| Some(processes::getegid(())));
    calls[110] = Some(|_, _| Some(processes::getppid(())));
    calls[111] = Some(|_, _| Some(processes::getpgrp(())));
    calls[118] = Some(|_, regs| processes::own_ids(regs, processes::RUID));
    calls[120] = Some(|_, regs| processes::own_ids(regs, processes::RGID));
    // Of another one `unixd` is asked.
    calls[121] = Some(|_, regs| own_id(regs, processes::getpgid));
    calls[124] = Some(|_, regs| own_id(regs, processes::getsid));
    calls[127] = Some(calls::own_sigpending);
    calls[131] = Some(calls::own_sigaltstack);
    calls[146] =
        Some(|_, regs| Some(to_rax(scheduling::sched_get_priority_max((), regs.rdi as u32))));
    calls[147] =
        Some(|_, regs| Some(to_rax(scheduling::sched_get_priority_min((), regs.rdi as u32))));
    calls[186] = Some(|_, _| Some(thread::gettid(())));
    calls[201] = Some(|_, regs| {
        let now = time::realtime() / 1_000_000_000;
        put(regs.rdi, || now)?;
        Some(now)
    });
    calls[202] = Some(futex::own_futex);
    calls[228] = Some(time::own_clock_gettime);
    calls[229] = Some(time::own_clock_getres);
    calls[262] = Some(known::own_newfstatat);
    calls[309] = Some(scheduling::own_getcpu);
    calls
};

/// Writes a value where the program wants it, unless that is nowhere. `None`: that needs the lock.
pub fn put<T: user::Plain>(addr: u64, value: impl FnOnce() -> T) -> Option<()> {
    if addr == 0 {
        return Some(());
    }
    user::store(addr, &value())
}

/// A call about the caller alone: 0.
fn own_id(regs: &Regs, call: impl Fn((), i32) -> Result<u64>) -> Option<u64> {
    (regs.rdi as i32 == 0).then(|| to_rax(call((), 0)))
}

/// What came of an attempt.
pub enum Outcome {
    /// The call needs the lock.
    Locked,
    /// It is done.
    Done,
    /// It is done, and there are signals to be delivered, or the like.
    Wanted,
}

/// Makes the call in `regs`, if it can be made without the lock, and puts its result in `regs.rax`.
///
/// # Safety
///
/// The caller is outside of the lock, and no reference to anything of its thread is used meanwhile.
#[inline(always)]
pub unsafe fn dispatch(regs: &mut Regs) -> Outcome {
    let Some(Some(call)) = CALLS.get(regs.rax as usize) else {
        // Most processes have none, and pay for no attempt.
        if leases::are_given() {
            // SAFETY: the caller's promise.
            return unsafe { dispatch_lent(regs) };
        }
        return Outcome::Locked;
    };
    // SAFETY: the caller's promise.
    unsafe { attempt(*call, regs) }
}

/// The same of a call that may be about addresses which are lent.
///
/// # Safety
///
/// As of [`dispatch`].
#[inline(never)]
unsafe fn dispatch_lent(regs: &mut Regs) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { attempt(leases::own_call, regs) }
}

/// Tries a call.
///
/// # Safety
///
/// As of [`dispatch`].
#[inline(always)]
unsafe fn attempt(call: Call, regs: &mut Regs) -> Outcome {
    let attempt = |own: &mut Own| {
        let Some(result) = call(own, regs) else { return Outcome::Locked };
        regs.rax = result;
        match signal::is_wanted(own) {
            true => Outcome::Wanted,
            false => Outcome::Done,
        }
    };
    // SAFETY: the caller's promise.
    unsafe { crate::thread::with_own_signals(attempt) }
}
