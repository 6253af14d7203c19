//! What pools and morsels cost: the figures of MOR chapter 5 as far as they concern the kernel. Booted in place of `init`;
//! results are lines `@bench CASE VALUE at=SIZE:UNIT` on the kernel log. Under `-icount shift=0` a tick of the
//! time-stamp counter is one instruction, of whichever core.
//!
//! | `part=` | what | |
//! |---|---|---|
//! | `populate` | pages by faults on all cores at once | figure 5.1 |
//! | `map` | an object is mapped, touched and unmapped, by how many pages it has | figures 5.4, 5.5 |
//! | `packets` | packets are handed from one address space to another | figure 5.7 |
//! | `snapshot` | snapshots by size, and writes after them | |
//! | `recover` | pools are formatted and recovered, by what is in them | |
//!
//! With `count=exchanges`, `populate` says only how often cores met: for machines on which they really work at the same time.
//! `pages=N` is how many pages the largest object has (of each core, for `populate`); `pools=N`, how many other pools there are.
#![no_std]
#![no_main]

mod lab;
mod mapping;
mod packets;
mod populate;
mod recovery;
mod snapshot;
mod workers;

use lab::Lab;
use libos::runtime::{shutdown, Start};
use libos::{log, Status};
use testkit::Machine;

libos::program!(main);

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    match measure(&machine) {
        Ok(()) => shutdown(0),
        Err(error) => {
            log!("morbench: {error:?}");
            shutdown(1)
        }
    }
}

fn measure(machine: &Machine) -> Result<(), Status> {
    let cmdline = machine.boot.cmdline();
    let part = libos::cmdline::option(cmdline, "part").unwrap_or("map");
    let pages = libos::cmdline::number(cmdline, "pages").unwrap_or(1 << 12);
    let mut lab = Lab::new(machine)?;
    match part {
        "populate" => populate::measure(&mut lab, pages),
        "map" => mapping::measure(&lab, pages),
        "packets" => packets::measure(&mut lab, pages),
        "snapshot" => snapshot::measure(&lab, pages),
        "recover" => recovery::measure(&lab, pages),
        _ => Err(Status::Invalid),
    }
}
