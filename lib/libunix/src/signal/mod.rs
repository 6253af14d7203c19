//! Signals. (Written by the signals engineer, who owns this folder; callers use only:)
//!
//! * [`deliver`]: called by the upcall code as the last thing before every return to the program.
//! * [`fault`]: a synchronous fault of the program (page fault, exception).
//! * [`post_self`]: pending for this process itself.
//! * `sys_*`: the system calls, in the shape of `sys::table`.
//! * [`Signals::exec`]: what execve resets. Fork copies the state as it is and calls
//!   [`Signals::child`].

use crate::process::Process;
use abi::Regs;

/// Signal actions and masks.
pub struct Signals {}

impl Signals {
    /// All default, nothing blocked.
    pub const fn new() -> Self {
        Signals {}
    }
    /// execve: caught signals become default, the alternate stack is gone.
    pub fn exec(&mut self) {}
    /// fork: nothing is pending in the child.
    pub fn child(&mut self) {}
}

/// Makes `signal` pending for this process itself (`SIGPIPE`, for example). It is delivered when
/// the current system call returns to the program.
pub fn post_self(_p: &mut Process, _signal: u32) {}

/// Delivers pending signals: builds handler frames on the program's stack, takes default actions,
/// restarts interrupted calls.
pub fn deliver(_p: &mut Process, _regs: &mut Regs) {}

/// A fault of the program: `signal` with `si_code` = `code` and `si_addr` = `address`, delivered
/// by the next [`deliver`]; blocked or ignored ones kill, as on Linux.
pub fn fault(_p: &mut Process, _signal: u32, _code: i32, _address: u64, _vector: u64, _error: u64) {}
