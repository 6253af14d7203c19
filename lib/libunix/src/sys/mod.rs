//! System calls: the table, and everything in it that is not memory, fork, exec or signals.

mod attributes;
mod descriptors;
pub mod futex;
mod info;
mod ioctl;
pub mod limits;
mod locks;
pub mod mask;
mod names;
mod paths;
pub mod pi;
pub mod polling;
mod privilege;
pub mod processes;
pub mod random;
pub mod readwrite;
pub mod robust;
pub mod scheduling;
mod table;
mod thread;
pub mod time;
mod timers;

use crate::errno::{self, Errno};
use crate::process::Process;
use crate::server::{self, op};
use abi::Regs;

/// What the calls of this module remember that concerns no other.
#[derive(Clone)]
pub struct State {
    /// Answer of `getpriority`.
    nice: i32,
    /// Execution domain.
    personality: u32,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: u32,
}

impl State {
    /// Of a new process.
    pub const fn new() -> State {
        State { nice: 0, personality: 0, parent_death_signal: 0 }
    }
}

/// Handles the system call in `regs` and puts its result in `regs.rax`. An interrupted call leaves
/// one of the `ERESTART` numbers there, which the signal code resolves before the program goes on.
#[inline]
pub fn dispatch(p: &mut Process, regs: &mut Regs) {
    let number = regs.rax;
    regs.rax = match table::CALLS.get(number as usize) {
        Some(Some(call)) => errno::to_rax((call.run)(p, regs)),
        _ => unknown(number),
    };
}

/// Answers `ENOSYS`, and has `unixd` count it.
#[cold]
fn unknown(number: u64) -> u64 {
    // It is only counted.
    let _ = server::call(op::UnknownCall { number });
    Errno::ENOSYS.to_rax()
}

/// The name of a system call, for messages.
pub fn name(number: u64) -> &'static str {
    match table::CALLS.get(number as usize) {
        Some(Some(call)) => call.name,
        _ => "?",
    }
}
