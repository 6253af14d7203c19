//! Random operations of all cores at once on capabilities that they share, in the running kernel, with
//! its monitors. Booted in place of `init`; the parts on the cores are this program, too. Options on
//! the kernel's command line: `ops=` (of all cores together), `seed=`, `kills=` (of
//! dispatchers), `deaths=` (of domains).
//!
//! | file | what |
//! |---|---|
//! | `lead` | tells the parts what to do, and checks what all of them must find at rest points |
//! | `board` | how leader and parts talk |
//! | `part` | what a part does |
//! | `holdings` | random operations, and what is held after them |
//! | `doomed` | what domains do that are killed at any point of it |
//! | `deaths` | starts them, and kills them |
//! | `victims` | dispatchers that are deleted in the middle of operations |
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod deaths;
mod doomed;
mod holdings;
mod lead;
mod part;
mod victims;

use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::cores;
use libos::runtime::{Boot, Start};

libos::program!(main);

fn main(start: Start) {
    if start.args[0] == NATIVE_ARGUMENTS {
        cores::exit(part::run(start.args[1] as usize))
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    testkit::run_with_servers(&boot, |runner| lead::run(&boot, runner))
}
