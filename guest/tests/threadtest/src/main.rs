//! Tests of libos's threads and channels. Booted in place of `init`; results are lines on the
//! kernel log.
//!
//! `test=NAME` runs the tests whose names contain NAME; `seed=N` and `rounds=N` steer the random
//! ones.
#![no_std]
#![no_main]

extern crate alloc;

mod channels;
mod random;
mod sync;
mod threads;
mod workers;

use libos::runtime::Start;
use testkit::{Machine, Outcome, Runner};

libos::program!(main);

type Test = (&'static str, fn(&Machine) -> Outcome);

const TESTS: &[&[Test]] =
    &[threads::TESTS, sync::TESTS, random::TESTS, channels::TESTS, workers::TESTS];

fn main(start: Start) {
    if start.args[0] == channels::CHILD {
        channels::child_main()
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let mut runner = Runner::on(machine.boot.cmdline());
    for &(name, test) in TESTS.iter().copied().flatten() {
        runner.run(name, || test(&machine));
    }
    runner.finish()
}
