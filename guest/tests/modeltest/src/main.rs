//! The guest's half of the comparison with the model (`crates/model/capmodel`): performs what the host posts
//! and puts down what came of it, without any opinion. See `crates/model/lockstep` for what both agree on.
//!
//! `mailbox=ADDRESS` says where the shared memory is; `big=ADDRESS` and `bigbytes=N` where a large Frame
//! is to be made.
#![no_std]
#![no_main]

mod executor;
mod mailbox;
mod setup;
mod touch;

use libos::runtime::{self, Start};
use libos::{cmdline, log};
use testkit::Machine;

libos::program!(main);

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let number = |name| cmdline::number(machine.boot.cmdline(), name).unwrap_or(0);
    let wishes = setup::Wishes {
        mailbox: number("mailbox"),
        big: number("big"),
        big_bytes: number("bigbytes"),
    };
    if let Err(status) = setup::prepare(&machine, &wishes) {
        log!("modeltest: cannot prepare: {status:?}");
        runtime::shutdown(1);
    }
    // The executors do everything from here on.
}
