//! Tests of `libos::memory`: every memory object with its values and its faults, regions and their
//! parts, sharing between domains, and random operations against a model. Booted in place of
//! `init`; results are lines on the kernel log.
//!
//! `test=NAME` runs the tests whose names contain NAME; `seed=N` and `rounds=N` steer the random
//! ones. After each test, every byte of memory and every capability must be back.
#![no_std]
#![no_main]

extern crate alloc;

mod anonymous;
mod colours;
mod objects;
mod paged;
mod peer;
mod probe;
mod random;
mod served;
mod setup;
mod sharing;
mod slots;

use libos::log;
use libos::runtime::{shutdown, Boot, Start};
use setup::Lab;
use testkit::{Outcome, Runner};

libos::program!(main);

type Test = (&'static str, fn(&mut Lab) -> Outcome);

const TESTS: &[&[Test]] = &[
    anonymous::TESTS,
    objects::TESTS,
    paged::TESTS,
    slots::TESTS,
    sharing::TESTS,
    served::TESTS,
    colours::TESTS,
    random::TESTS,
];

fn main(start: Start) {
    if peer::is_peer(&start) {
        peer::main()
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let mut runner = Runner::on(boot.cmdline());
    let mut lab = match Lab::start(&boot) {
        Ok(lab) => lab,
        Err(failure) => {
            log!("@test vm_start FAILED {failure}");
            shutdown(1)
        }
    };
    probe::install();
    for &(name, test) in TESTS.iter().copied().flatten() {
        runner.run(name, || lab.run(test));
    }
    runner.finish()
}
