//! Random operations of all cores at once on capabilities that they share, in the running kernel, with
//! its monitors. Booted in place of `init`; the parts on the cores are this program, too. Options on
//! the kernel's command line: `ops=` (of all cores together), `seed=`, `kills=`.
//!
//! | file | what |
//! |---|---|
//! | `lead` | tells the parts what to do, and checks what all of them must find at rest points |
//! | `board` | how leader and parts talk |
//! | `part` | what a part does |
//! | `holdings` | random operations, and what is held after them |
//! | `victims` | dispatchers that are deleted in the middle of operations |
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod holdings;
mod lead;
mod part;
mod victims;

use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::cores;
use libos::runtime::{Boot, Start};
use libos::spawn::SpawnError;
use libos::testkit::Runner;
use libos::{bringup, log, Status};

libos::program!(main);

/// Of servers on the endpoint that is told of faults.
const BADGE: u32 = 1;

fn main(start: Start) {
    if start.args[0] == NATIVE_ARGUMENTS {
        cores::exit(part::run(start.args[1] as usize))
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let mut runner = Runner::on(boot.cmdline());
    match prepare(&boot) {
        Ok(()) => lead::run(&boot, &mut runner),
        Err(error) => log!("@test prepare FAILED {error:?}"),
    }
    runner.finish()
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
