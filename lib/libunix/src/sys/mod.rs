//! System calls: the table, and everything in it that is not memory, fork, exec or signals.

mod attributes;
mod descriptors;
pub mod futex;
mod info;
mod ioctl;
mod limits;
mod locks;
pub mod mask;
mod names;
mod paths;
pub mod pi;
pub mod polling;
mod privilege;
pub mod processes;
pub mod random;
mod readwrite;
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
use credentials::Capability;

/// What the calls of this module remember.
#[derive(Clone)]
pub struct State {
    /// Limits as `getrlimit` tells them: soft, hard.
    limits: [limits::Limit; limits::LIMITS],
    /// Answer of `getpriority`.
    nice: i32,
    /// Execution domain.
    personality: u32,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: u32,
    /// Of this process alone: forgotten before a child copies it.
    pub random: random::Random,
}

impl State {
    /// Of a new process.
    pub const fn new() -> State {
        State {
            limits: limits::INITIAL,
            nice: 0,
            personality: 0,
            parent_death_signal: 0,
            random: random::Random::new(),
        }
    }

    /// Descriptors are below this.
    pub fn max_files(&self) -> u32 {
        self.limits[limits::NOFILE].soft.min(limits::MAX_FILES) as u32
    }

    /// How far the stack may grow.
    pub fn max_stack(&self) -> u64 {
        self.limits[limits::STACK].soft
    }

    /// Bytes of the data segment.
    pub fn max_data(&self) -> u64 {
        self.limits[limits::DATA].soft
    }

    /// Bytes that may be locked in memory.
    pub fn max_locked(&self) -> u64 {
        match processes::has(Capability::IpcLock) {
            true => u64::MAX,
            false => self.limits[limits::MEMLOCK].soft,
        }
    }

    /// Bytes of address space.
    pub fn max_address_space(&self) -> u64 {
        self.limits[limits::AS].soft
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
