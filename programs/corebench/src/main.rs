//! What capability operations cost that concern several cores: G18 figures 4.9 to 4.32 by locality.
//! Booted in place of `init`; results are lines `@bench CASE SAMPLE at=K:others` on the kernel
//! log, each the median of some repetitions. Under `-icount shift=0` a tick of the time-stamp counter
//! is one instruction, of whichever core.
//!
//! The parts on other cores are this program, too. They sleep until they are sent a capability, do
//! with it what the board says, and sleep again; so nobody runs during a measurement but whoever has
//! to. `crowd=N` on the command line puts so many more capabilities into the database of core 0.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod lab;
mod operations;
mod part;

use lab::Lab;
use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::runtime::{shutdown, Boot, Start};
use libos::spawn::SpawnError;
use libos::{bringup, cores, log, Status};

libos::program!(main);

const PAGE: u64 = 4096;
/// Of servers on the endpoint that is told of faults.
const BADGE: u32 = 1;

fn main(start: Start) {
    if start.args[0] == NATIVE_ARGUMENTS {
        cores::exit(part::run())
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let measured = prepare(&boot).and_then(|()| Ok(operations::measure(Lab::new(&boot)?)?));
    if let Err(error) = measured {
        log!("corebench: {error:?}");
        shutdown(1)
    }
    shutdown(0)
}

/// What `init` does.
fn prepare(boot: &Boot) -> Result<(), SpawnError> {
    let file = |path| {
        let found = bootarchive::find(boot.archive(), path).map_err(|_| Status::Invalid)?;
        found.map(|entry| entry.data).ok_or(Status::NoSlot)
    };
    let mut window = bringup::prepare(boot)?;
    bringup::start_memd(boot, file("boot/memd")?, BADGE, &mut window)?;
    bringup::start_monitor(boot, (0, 0), file("boot/monitor")?, BADGE, &mut window)?;
    bringup::start_spawnd(boot, file("boot/spawnd")?, BADGE, &mut window)
}
