//! Tests of monitors, and of parts of a program on several cores. Booted in place of `init`; results
//! are lines on the kernel log. The parts on other cores are this program, too.
#![no_std]
#![no_main]

extern crate alloc;

mod calls;
mod late;
mod lending;
mod objects;
mod part;
mod pings;
mod sharing;
mod spawning;

use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::cores::{self, Machine};
use libos::runtime::{Boot, Start};
use testkit::{Outcome, Runner};

libos::program!(main);

type Test = (&'static str, fn(&Machine) -> Outcome);

const TESTS: &[&[Test]] = &[
    pings::TESTS,
    spawning::TESTS,
    sharing::TESTS,
    calls::TESTS,
    lending::TESTS,
    late::TESTS,
    objects::TESTS,
];

fn main(start: Start) {
    if start.args[0] == NATIVE_ARGUMENTS {
        cores::exit(part::run(start.args[1] as usize))
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    testkit::run_with_servers(&boot, |runner| run(&boot, runner))
}

fn run(boot: &Boot, runner: &mut Runner) {
    let machine = cores::machine();
    let expected = Machine { this: 0, count: boot.info.cores, usable: boot.info.first_domains };
    runner.run("machine", || {
        testkit::check!(machine == expected && machine.count > 1);
        testkit::check!(machine.usable.count_ones() == machine.count);
        Ok(())
    });
    for &(name, test) in TESTS.iter().copied().flatten() {
        runner.run(name, || test(&machine));
    }
}
