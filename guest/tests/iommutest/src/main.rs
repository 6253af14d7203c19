//! Tests of devices behind an IOMMU. Booted in place of `init` on a machine with QEMU's `edu` device, this program is
//! the device's driver; results are lines on the kernel log.
//!
//! What a device is to be refused it has done successfully just before: so the IOMMU has cached that it may.
#![no_std]
#![no_main]

mod authority;
mod edu;
mod lab;
mod taking;
mod transfers;

use lab::Lab;
use libos::runtime::Start;
use testkit::{Machine, Outcome, Runner};

libos::program!(main);

type Test = (&'static str, fn(&mut Lab) -> Outcome);

const TESTS: &[&[Test]] = &[transfers::TESTS, taking::TESTS, authority::TESTS];

fn main(start: Start) {
    if start.args[0] == authority::CHILD {
        authority::child_main()
    }
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let mut lab = Lab::new(&machine).expect("there are an IOMMU, a device behind it, and memory");
    let mut runner = Runner::on(machine.boot.cmdline());
    for &(name, test) in TESTS.iter().copied().flatten() {
        runner.run(name, || lab.run(test));
    }
    runner.finish()
}
