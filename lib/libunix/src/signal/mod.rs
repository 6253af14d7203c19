//! Signals.
//!
//! Who may send what to whom is the business of `unixd`: it makes signals pending in the session
//! header and lets the process know. Everything else is here: actions and masks, of which the
//! header has a copy so that `unixd` sees what interrupts a call; handler frames on the program's
//! stack; default actions. Synchronous faults never leave the process.
//!
//! Callers use:
//!
//! * [`settle()`]: by the upcall code, as the last thing before a return to the program, if this [needs attention](needs_attention).
//! * [`fault`]: a synchronous fault of the program (page fault, exception); [`Cause`] knows which.
//! * [`calls`]: the system calls, in the shape of `sys::table`; [`mask`] for some of the others.
//! * [`Signals::exec`]: what execve resets. Fork copies the state as it is.

mod actions;
pub mod calls;
mod cause;
mod deliver;
mod frame;
pub mod mask;
mod memory;
mod vectors;

use crate::errno::Result;
use crate::process::{Process, NO_CALL};
use crate::server::{self, header, main_header, op};
use crate::thread::Me;
use crate::trace;
use abi::Regs;
use actions::Action;
use alloc::vec::Vec;
use callfilter::ARCHITECTURE;
pub use cause::Cause;
use cause::PAGE_FAULT;
pub use deliver::settle;
pub use deliver::{check_rip, Info};
use linuxabi::general::{SYS_SECCOMP, SYS_USER_DISPATCH};
use linuxabi::sigstack::AltStack;
use linuxabi::Errno;
use unixproto::signals::*;
use vectors::Vectors;

/// Signals that nothing holds off.
const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// Signals that come before all others, since they are about the present instruction.
const SYNCHRONOUS: u64 =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);

/// A fault to be delivered.
#[derive(Clone, Copy)]
pub struct Fault {
    signal: u32,
    code: i32,
    /// `si_errno`.
    errno: u32,
    address: u64,
    /// What comes behind the address.
    more: u64,
}

impl Fault {
    fn at(signal: u32, code: i32, address: u64) -> Fault {
        Fault { signal, code, errno: 0, address, more: 0 }
    }

    /// `SIGSYS` for the call in `regs`, which is not made: `data` is what its filter says of it.
    pub fn of_call(regs: &Regs, data: u32) -> Fault {
        Fault::not_made(regs, SYS_SECCOMP, data)
    }

    /// The same for one that the program [makes itself](crate::sys::userdispatch).
    pub fn of_own_call(regs: &Regs) -> Fault {
        Fault::not_made(regs, SYS_USER_DISPATCH, 0)
    }

    fn not_made(regs: &Regs, code: u32, errno: u32) -> Fault {
        let more = regs.rax & u64::from(u32::MAX) | u64::from(ARCHITECTURE) << 32;
        Fault { signal: SIGSYS, code: code as i32, errno, address: regs.rip, more }
    }
}

/// What the last exception of the program was, as handlers see it in their context.
#[derive(Clone, Copy)]
struct Exception {
    vector: u64,
    error: u64,
    cr2: u64,
}

/// What signals do, for all threads.
#[derive(Clone)]
pub struct Signals {
    actions: [Action; 64],
    /// Signals whose action is `SIG_IGN`.
    ignored: u64,
    /// Signals that have a handler.
    caught: u64,
    /// Signals whose action was set since the program began: `execve` looks at these only.
    touched: u64,
}

/// What a thread has of its own.
#[derive(Clone)]
pub struct Own {
    blocked: u64,
    /// [`settle()`] has something to do besides pending signals: `fault` or `saved`.
    attention: bool,
    fault: Option<Fault>,
    /// The mask to which a call with a mask of its own returns.
    saved: Option<u64>,
    last: Exception,
    stack: AltStack,
    vectors: Vectors,
}

impl Signals {
    /// All default, nothing blocked.
    pub const fn new() -> Self {
        Signals { actions: [Action::DEFAULT; 64], ignored: 0, caught: 0, touched: 0 }
    }

    /// Those are ignored that the program before has ignored, of which nothing else is known.
    pub fn inherit(&mut self, ignored: u64) {
        (self.ignored, self.touched) = (ignored, ignored);
    }

    /// execve: caught signals become default.
    pub fn exec(&mut self) {
        let mut left = core::mem::take(&mut self.touched);
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let is_ignored = self.ignored & bit(index + 1) != 0;
            if let Some(action) = self.actions.get_mut(index as usize) {
                *action = if is_ignored { Action::IGNORE } else { Action::DEFAULT };
            }
        }
        self.caught = 0;
        self.publish();
    }
}

impl Own {
    /// Nothing blocked.
    pub const fn new() -> Self {
        Own {
            blocked: 0,
            attention: false,
            fault: None,
            saved: None,
            last: Exception { vector: 0, error: 0, cr2: 0 },
            stack: AltStack::NONE,
            vectors: Vectors::UNKNOWN,
        }
    }

    /// Of a new thread of the same process: it blocks the same signals.
    pub fn of_new_thread(&self) -> Self {
        let blocked = self.saved.unwrap_or(self.blocked);
        Own { blocked, vectors: self.vectors, ..Own::new() }
    }

    /// The signals that the program before has blocked.
    pub fn inherit(&mut self, blocked: u64) {
        self.blocked = blocked & !(bit(SIGKILL) | bit(SIGSTOP));
        header().blocked.store(self.blocked, core::sync::atomic::Ordering::Relaxed);
    }

    /// execve: the alternate stack is gone, vector registers are as at the start of a program.
    pub fn exec(&mut self) {
        self.fault = None;
        self.stack = AltStack::NONE;
        self.vectors.reset();
    }

    /// Signals that are blocked.
    pub fn mask(&self) -> u64 {
        self.blocked
    }

    /// Vector registers, in the form of `xsave` or, if not `extended`, of `fxsave`.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the CPU has no such form; `ENOMEM`.
    pub fn vector_state(&mut self, extended: bool) -> Result<Vec<u8>> {
        self.vectors.bytes();
        self.vectors.shown(extended)
    }

    /// Sets them.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the CPU does not take that.
    pub fn set_vector_state(&mut self, bytes: &[u8], extended: bool) -> Result<()> {
        self.vectors.bytes();
        self.vectors.take(bytes, extended)
    }

    /// Bytes of vector state in a handler's frame.
    pub fn vector_bytes(&mut self) -> u64 {
        self.vectors.bytes() as u64
    }

    /// A trap that its tracer is to hear of, whether it is blocked or not.
    pub fn trap(&mut self, code: i32, address: u64) {
        self.fault = Some(Fault::at(SIGTRAP, code, address));
        self.attention = true;
    }

    /// fork: nothing is pending in the child. (Its header has been filled in by `unixd`.)
    pub fn child(&mut self) {
        self.fault = None;
        self.attention = self.saved.is_some();
    }
}

/// The signals that wait for this thread, or for any of the process.
#[inline(always)]
pub fn pending() -> u64 {
    main_header().pending.set() | header().own.set()
}

/// Takes the next pending signal of a set: of those of the thread, then of those of the process.
#[inline]
pub fn dequeue(set: u64) -> Option<(u32, SigInfo)> {
    [&header().own, &main_header().pending].into_iter().enumerate().find_map(|(n, pending)| {
        let signal = deliver::first(pending.set() & set)?;
        let info = pending.take(signal)?;
        if pending.more() & bit(signal) != 0 {
            ask_for_next(signal, n == 0);
        }
        Some((signal, info))
    })
}

/// More signals of a number wait at `unixd` than the one that was taken.
#[cold]
#[inline(never)]
fn ask_for_next(signal: u32, own: bool) {
    // Without an answer the process has ended.
    let _ = server::call(op::NextSignal { signal, own });
}

/// Would a wait of this thread end at once because of a signal?
pub fn is_interrupted(me: &Me) -> bool {
    pending() & !me.signals.blocked != 0 || trace::has_work(header())
}

/// Is there anything for [`settle()`] to do?
#[inline(always)]
pub fn needs_attention(me: &Me, regs: &Regs) -> bool {
    is_wanted(&me.signals) || restart_wish(me, regs).is_some()
}

/// The same after a call that is never repeated.
#[inline(always)]
pub fn is_wanted(signals: &Own) -> bool {
    let own = header();
    let waiting = (main_header().pending.set() | own.own.set()) & !signals.blocked;
    waiting != 0 || signals.attention || trace::has_work(own)
}

/// Does the system call want to be repeated, and how?
#[inline(always)]
fn restart_wish(me: &Me, regs: &Regs) -> Option<Errno> {
    const FIRST: u64 = Errno::ERESTARTSYS as u64;
    const LAST: u64 = Errno::ERESTARTNOHAND as u64;
    let number = regs.rax.wrapping_neg();
    if !(FIRST..=LAST).contains(&number) || me.call == NO_CALL {
        return None;
    }
    Some(Errno::from_number(number))
}

/// A fault of the program: `signal` with `si_code` = `code` and `si_addr` = `address`, delivered
/// by the next [`settle()`]; blocked or ignored ones kill, as on Linux.
#[inline(always)]
pub fn fault(p: &mut Process, signal: u32, code: i32, address: u64, vector: u64, error: u64) {
    p.me.signals.last.vector = vector;
    p.me.signals.last.error = error;
    if vector == PAGE_FAULT {
        p.me.signals.last.cr2 = address;
    }
    force(p, Fault::at(signal, code, address));
}

/// The same for a cause. If the process ends of it, the kernel's log says where it was.
pub fn raise(p: &mut Process, regs: &mut Regs, cause: Cause) {
    let Cause { signal, code, address, vector, error } = cause;
    fault(p, signal, code, address, vector, error);
    if p.signals.action(signal).handler == actions::SIG_DFL && !trace::is_traced() {
        log_end(regs, cause);
    }
}

#[cold]
#[inline(never)]
fn log_end(regs: &Regs, cause: Cause) {
    let Cause { signal, address, vector, error, .. } = cause;
    let Regs { rip, rsp, .. } = *regs;
    let name = match vector {
        PAGE_FAULT if signal == SIGKILL => "no memory for a page",
        PAGE_FAULT => "page fault",
        _ => "exception",
    };
    let text = alloc::format!(
        "{name}: signal {signal}, vector {vector}, address {address:#x}, \
         rip {rip:#x}, rsp {rsp:#x}, error {error:#x}"
    );
    // Who cannot tell anybody ends without.
    let _ = server::call_a(op::Log {}, text.as_bytes());
}

/// A signal that the process cannot hold off.
#[inline(always)]
pub fn force(p: &mut Process, fault: Fault) {
    let signal = fault.signal;
    let (signals, me) = p.signals();
    let own = &mut me.signals;
    if (own.blocked | signals.ignored) & bit(signal) != 0 {
        signals.set_action(signal, Action::DEFAULT);
        own.set_blocked(own.blocked & !bit(signal));
    }
    own.fault = Some(fault);
    own.attention = true;
}
