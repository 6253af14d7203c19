//! `membarrier`: all threads of a process, or of all processes, see memory in one order.
//!
//! Linux interrupts the cores on which such threads run. Here the caller visits every core: while it is there, no other thread runs on
//! that core, and its fence orders what the core's threads did before with what they do after. That is more than any command
//! asks for, so all of them are the same visit. Its price is a turn on every core, which programs expect of
//! `membarrier`: they call it where a lock would cost each fast path more.

use super::scheduling::{all_cores, core, own_cores, sched_yield, set_affinity};
use crate::errno::{Errno, Result};
use crate::process::Task;
use crate::sys::State;
use crate::thread::area;
use core::arch::x86_64::__cpuid;
use core::sync::atomic::{fence, Ordering};

const QUERY: u32 = 0;
const GLOBAL: u32 = 1 << 0;
const GLOBAL_EXPEDITED: u32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: u32 = 1 << 2;
const PRIVATE_EXPEDITED: u32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
const PRIVATE_EXPEDITED_SYNC_CORE: u32 = 1 << 5;
const REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: u32 = 1 << 6;
const PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 8;
const GET_REGISTRATIONS: u32 = 1 << 9;
/// All of them.
const COMMANDS: u32 = 0x1ff | GET_REGISTRATIONS;
/// Flag of `PRIVATE_EXPEDITED_RSEQ`: the threads on one core only.
const FLAG_CPU: u32 = 1;

pub fn membarrier(
    (task, sys): (&Task, &mut State),
    command: u32,
    flags: u32,
    cpu: i32,
) -> Result<u64> {
    let only = match (command, flags) {
        (PRIVATE_EXPEDITED_RSEQ, FLAG_CPU) => Some(cpu),
        (_, 0) => None,
        _ => return Err(Errno::EINVAL),
    };
    match command {
        QUERY => return Ok(COMMANDS.into()),
        GET_REGISTRATIONS => return Ok(sys.registered.into()),
        REGISTER_GLOBAL_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
        | REGISTER_PRIVATE_EXPEDITED_RSEQ => {
            sys.registered |= command;
            return Ok(0);
        }
        PRIVATE_EXPEDITED | PRIVATE_EXPEDITED_SYNC_CORE | PRIVATE_EXPEDITED_RSEQ => {
            // The bit of the registration is the next one.
            if sys.registered & command << 1 == 0 {
                return Err(Errno::EPERM);
            }
            if task.threads.is_alone() {
                return Ok(0);
            }
        }
        GLOBAL | GLOBAL_EXPEDITED => {}
        _ => return Err(Errno::EINVAL),
    }
    let cores = match only.map(u32::try_from) {
        None => all_cores(),
        // Where there is no such core, nobody runs.
        Some(core) => core.ok().and_then(|core| 1u64.checked_shl(core)).unwrap_or(0) & all_cores(),
    };
    visit_all(cores, own_cores())?;
    Ok(0)
}

/// Has a thread with this affinity run on each of these cores once.
fn visit_all(all: u64, affinity: u64) -> Result<()> {
    let visited = (0..u64::BITS).filter(|core| all >> core & 1 != 0).try_for_each(visit);
    // It ran with it before, so that it cannot be refused.
    set_affinity(area::own_dispatcher(), affinity).and(visited)
}

fn visit(number: u32) -> Result<()> {
    set_affinity(area::own_dispatcher(), 1 << number)?;
    while core() != number {
        sched_yield(());
    }
    // What this core has stored is seen, what it loads is loaded anew, and (`cpuid` serialises) so are instructions.
    fence(Ordering::SeqCst);
    let _ = __cpuid(0);
    Ok(())
}
