//! System calls: the table, and everything in it that is not memory, fork, exec or signals.

pub mod aio;
mod attributes;
mod descriptors;
mod detached;
pub mod futex;
mod futex2;
mod handles;
mod info;
mod ioctl;
pub mod limits;
mod locks;
pub mod mask;
mod membarrier;
mod messages;
mod mounts;
mod moves;
mod names;
pub mod numa;
pub mod packet_ring;
pub mod pageout;
pub mod passing;
pub mod paths;
pub mod pi;
pub mod polling;
mod privilege;
pub mod processes;
pub mod random;
pub mod readwrite;
pub mod robust;
pub mod scheduling;
pub mod seccomp;
pub mod segments;
mod semaphores;
mod sockets;

mod table;
mod thread;
pub mod time;
mod timers;
pub mod unlocked;
pub mod userdispatch;
mod xattrs;

use crate::errno::{self, Errno};
use crate::mm::{relief, userfault};
use crate::process::Process;
use crate::server::{self, op};
use abi::Regs;

/// What the calls of this module remember that concerns no other.
#[derive(Clone)]
pub struct State {
    /// Asynchronous input and output.
    aio: aio::Contexts,
    /// Execution domain.
    personality: u32,
    /// Commands of `membarrier` with which the process has registered.
    pub registered: u32,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: u32,
    /// `PR_SET_TIMERSLACK`, and what 0 sets it to. Timers are as exact as they can be, whatever it is.
    pub slack: [u64; 2],
    /// Shared memory.
    pub attached: segments::Attached,
}

impl State {
    /// Of a child.
    pub fn child(&mut self) {
        self.slack[1] = self.slack[0];
        self.aio = aio::Contexts::new();
    }

    /// What a program is left, and for one that runs as somebody else, what that may keep of it.
    pub fn left(&self) -> u32 {
        self.personality
    }

    /// Are its programs always at the same places (`ADDR_NO_RANDOMIZE`)?
    pub fn has_fixed_layout(&self) -> bool {
        self.personality & 0x0004_0000 != 0
    }

    /// Takes that over. What would make the memory of a privileged program predictable does not count.
    pub fn inherit(&mut self, personality: u32, secure: bool) {
        const CLEARED: u32 = 0x0040_0000 | 0x0020_0000 | 0x0010_0000 | 0x0004_0000;
        self.personality = if secure { personality & !CLEARED } else { personality };
    }

    /// Of a new process.
    pub const fn new() -> State {
        State {
            aio: aio::Contexts::new(),
            personality: 0,
            registered: 0,
            parent_death_signal: 0,
            slack: [50_000; 2],
            attached: segments::Attached::new(),
        }
    }
}

/// Handles the system call in `regs` and puts its result in `regs.rax`. An interrupted call leaves
/// one of the `ERESTART` numbers there, which the signal code resolves before the program goes on.
#[inline]
pub fn dispatch(p: &mut Process, regs: &mut Regs) {
    let number = regs.rax;
    regs.rax = match table::CALLS.get(number as usize) {
        Some(Some(call)) => {
            let mut tries = 0;
            let result = loop {
                let result = (call.run)(p, regs);
                let Err(error) = result else { break result };
                if error == Errno::EFAULT && !p.mm.userfaults.is_empty() {
                    match userfault::waits(p) {
                        // The page is there now: once more from the beginning, as it has changed nothing.
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(error) => break Err(error),
                    }
                }
                if error == Errno::ENOMEM && relief::again(p, number, &mut tries) {
                    continue;
                }
                if is_refusal(error) {
                    refused(number, error);
                }
                break result;
            };
            errno::to_rax(result)
        }
        _ => refused(number, Errno::ENOSYS).to_rax(),
    };
}

/// Do programs get this error for what is not there?
fn is_refusal(error: Errno) -> bool {
    use Errno::*;
    matches!(error, ENOSYS | EOPNOTSUPP | EAFNOSUPPORT | EPROTONOSUPPORT)
}

/// Has `unixd` count a call that is refused because what it asks for is not there; answers the error.
#[cold]
pub fn refused(number: u64, error: Errno) -> Errno {
    // It is only counted.
    let _ = server::call(op::RefusedCall { number, error: error as u32 });
    error
}

/// The name of a system call, for messages.
pub fn name(number: u64) -> &'static str {
    match table::CALLS.get(number as usize) {
        Some(Some(call)) => call.name,
        _ => "?",
    }
}
