//! The measurements of the papers' figures and tables, for `./x bench papers`. Booted in place of
//! `init`, with `only=NAME` on the command line to choose one of [`SECTIONS`].
//!
//! Results are lines `@bench …` on the kernel log. Under `-icount shift=0` a tick of the time-stamp
//! counter is one instruction, of the program, its library and the kernel together. What a workload
//! computes is checked; a wrong result ends the program with an error and no number.
#![no_std]
#![no_main]

extern crate alloc;

mod appel_li;
mod capabilities;
mod colours;
mod flushing;
mod gc_bench;
mod interface;
mod lab;
mod library;
mod page_rank;
mod random_access;
mod region;
mod report;
mod self_paging;
mod sizes;

use lab::Lab;
use libos::runtime::Start;
use libos::{log, Status};
use testkit::Machine;

libos::program!(main);

/// Fails, to show how that is told.
const FAILING: &str = "fail";

/// A part of the measurements.
type Section = fn(&mut Lab) -> Result<(), Status>;

/// All parts, by the name that `only=` chooses.
const SECTIONS: &[(&str, Section)] = &[
    ("interface", interface::measure),
    ("flushing", flushing::measure),
    ("capabilities", capabilities::measure),
    ("sizes", sizes::measure),
    ("appel_li", appel_li::measure),
    ("random_access", random_access::measure),
    ("page_rank", page_rank::measure),
    ("gc_bench", gc_bench::measure),
    ("colours", colours::measure),
    (FAILING, self_paging::fail),
];

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let only = libos::cmdline::option(machine.boot.cmdline(), "only");
    let mut lab = Lab::new(&machine).expect("the machine has room");
    let mut status = 0;
    for (name, section) in SECTIONS {
        // One of them is only for those who ask for it.
        if !only.map_or(*name != FAILING, |only| only == *name) {
            continue;
        }
        if let Err(error) = section(&mut lab).and_then(|()| lab.clean()) {
            log!("papers: {name}: {error:?}");
            status = 1;
        }
    }
    libos::runtime::shutdown(status)
}
