//! Tests of the CPU driver by what user mode can see: every operation on capabilities with its
//! values and its errors, address spaces as the processor enforces them, messages, faults, time,
//! and random operations. Booted in place of `init`; results are lines on the kernel log.
//!
//! `test=NAME` runs the tests whose names contain NAME; `seed=N` and `rounds=N` steer the random
//! ones.
#![no_std]
#![no_main]

mod attacks;
mod chunks;
mod copies;
mod cspaces;
mod devices;
mod faults;
mod five_levels;
mod hostile;
mod linux;
mod load;
mod loans;
mod long;
mod maps;
mod messages;
mod morsel_race;
mod morsels;
mod privileged;
mod probe;
mod race;
mod random;
mod retype;
mod rights;
mod scheduling;
mod setup;
mod sharing;
mod stale;
mod status;
mod threads;

use libos::runtime::Start;
use setup::Lab;
use testkit::{Machine, Outcome, Runner};

libos::program!(main);

type Test = (&'static str, fn(&mut Lab) -> Outcome);

const TESTS: &[&[Test]] = &[
    copies::TESTS,
    cspaces::TESTS,
    retype::TESTS,
    maps::TESTS,
    rights::TESTS,
    faults::TESTS,
    linux::TESTS,
    hostile::TESTS,
    privileged::TESTS,
    messages::TESTS,
    scheduling::TESTS,
    sharing::TESTS,
    stale::TESTS,
    five_levels::TESTS,
    status::TESTS,
    attacks::TESTS,
    loans::TESTS,
    morsels::TESTS,
    chunks::TESTS,
    devices::TESTS,
    long::TESTS,
    race::TESTS,
    morsel_race::TESTS,
    random::TESTS,
];

fn main(start: Start) {
    if start.args[0] == sharing::CHILD {
        sharing::child_main(&start)
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let mut lab = Lab::new(&machine).expect("the machine has room for the tests");
    let mut runner = Runner::on(machine.boot.cmdline());
    for &(name, test) in TESTS.iter().chain(load::TESTS).copied().flatten() {
        runner.run(name, || lab.run(test));
    }
    runner.finish()
}
