//! What capability operations cost that concern several cores: G18 figures 4.9 to 4.32 by locality.
//! Booted in place of `init`; results are lines `@bench CASE SAMPLE at=K:others` on the kernel
//! log, each the median of some repetitions. Under `-icount shift=0` a tick of the time-stamp counter
//! is one instruction, of whichever core. Lines `@window CASE K FROM TO COUNT` say when that was, of
//! so many in a row.
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
mod sharing;

use lab::Lab;
use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::runtime::{shutdown, Boot, Start};
use libos::{cores, log, PAGE};

libos::program!(main);

fn main(start: Start) {
    if start.args[0] == NATIVE_ARGUMENTS {
        cores::exit(part::run())
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let measured =
        testkit::start_servers(&boot).and_then(|()| Ok(operations::measure(Lab::new(&boot)?)?));
    if let Err(error) = measured {
        log!("corebench: {error:?}");
        shutdown(1)
    }
    shutdown(0)
}
