//! What operations of the CPU driver cost. Booted in place of `init`, under `-icount shift=0`,
//! where the time-stamp counter counts instructions: `@bench NAME VALUE instructions`.
//!
//! Every value is the mean of many repetitions, without the cost of reading the counter.
#![no_std]
#![no_main]

mod caps;
mod messages;
mod upcalls;

use libos::abi::slots::KERNEL;
use libos::runtime::{shutdown, Start};
use libos::testkit::Machine;
use libos::{invoke, log, op, Status};

libos::program!(main);

/// Repetitions of everything that can be repeated at once.
pub const TIMES: u64 = 200;

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    if let Err(error) = unsafe { Machine::take() } {
        panic!("no machine: {error:?}");
    }
    let results =
        [("caps", caps::run()), ("messages", messages::run()), ("upcalls", upcalls::run())];
    for (name, result) in results {
        if let Err(error) = result {
            log!("@test capbench_{name} FAILED {error:?}");
            shutdown(1);
        }
    }
    let broken = invoke(KERNEL, op::CheckInvariants {}).is_err();
    shutdown(u32::from(broken));
}

/// The time-stamp counter.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: reads the time-stamp counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Writes a result.
pub fn report(name: &str, total: u64, times: u64) {
    log!("@bench {name} {} instructions", total.div_ceil(times));
}

/// Instructions that one call of `step` takes, and writes them. `undo` is not measured.
pub fn measure(
    name: &str,
    mut step: impl FnMut() -> Result<(), Status>,
    mut undo: impl FnMut() -> Result<(), Status>,
) -> Result<(), Status> {
    let mut total = 0;
    // The first round is for whatever happens only once.
    for round in 0..=TIMES {
        let empty = now();
        let start = now();
        let result = step();
        let end = now();
        result?;
        undo()?;
        if round > 0 {
            total += (end - start).saturating_sub(start - empty);
        }
    }
    report(name, total, TIMES);
    Ok(())
}

/// Nothing to undo.
pub fn nothing() -> Result<(), Status> {
    Ok(())
}
