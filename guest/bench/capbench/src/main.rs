//! What operations of the CPU driver cost. Booted in place of `init`; results are lines
//! `@bench NAME VALUE` on the kernel log. Under `-icount shift=0` a tick of the time-stamp
//! counter is one instruction, of the caller and the kernel together, on all cores.
//!
//! On a machine with several cores, `on=CORE` makes the program run there, so that it is carried home
//! for every operation; `busy=CORES` (a set, as a number) keeps cores busy in the same address space,
//! at no cost to what is measured. A second line for each operation then says how many interrupts the
//! cores sent each other for it.
#![no_std]
#![no_main]

extern crate alloc;

mod load;
mod ops;
mod regions;
mod server;
mod upcalls;

use libos::captypes::invocations::Counter;
use libos::captypes::place::L2_BYTES;
use libos::ram::Ram;
use libos::runtime::Start;
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Place, Status};
use load::time;
use testkit::{Machine, ARENA_BYTES};

libos::program!(main);

/// Root indexes of two empty L2CNodes.
const FIRST_L1: u32 = 200;
/// RAM to make things of.
const PLAY_BYTES: u64 = 16 << 20;

/// Slot `n` of the first L2CNode for measurements.
const fn slot(n: u32) -> CapAddr {
    CapAddr::new(FIRST_L1, n)
}

/// Slot `n` of the second one.
const fn other(n: u32) -> CapAddr {
    CapAddr::new(FIRST_L1 + 1, n)
}

/// Slot `n` of the third one.
const fn third(n: u32) -> CapAddr {
    CapAddr::new(FIRST_L1 + 2, n)
}

/// The word `name=…` of the command line.
fn option(name: &str) -> Option<&'static str> {
    // SAFETY: the kernel has mapped the page for its first program, which this is.
    let boot = unsafe { libos::runtime::Boot::new() };
    libos::cmdline::option(boot.cmdline(), name)
}

/// The number in `name=N` of the command line.
fn number(name: &str) -> Option<u64> {
    option(name)?.parse().ok()
}

/// Is the name one of those of `only=NAME,…` on the command line, or are there none?
fn wanted(name: &str) -> bool {
    option("only").is_none_or(|only| only.split(',').any(|only| only == name))
}

/// Writes the least of several measurements of `work`, which does `each` operations.
fn report(name: &str, each: u64, mut work: impl FnMut() -> Result<u64, Status>) {
    if !wanted(name) || !report_cost(name, each, &mut work) {
        return;
    }
    if let Some(Ok(sent)) = load::counting_interrupts(work) {
        let hundredths = sent * 100 / each;
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        log!("@bench {name} {whole}.{rest:02} unit=interrupts");
    }
}

/// The same in instructions only. Was there anything to report?
fn report_cost(name: &str, each: u64, work: impl FnMut() -> Result<u64, Status>) -> bool {
    match least(work) {
        Ok(cost) => log!("@bench {name} {}", cost / each),
        Err(error) => {
            log!("capbench: {name}: {error:?}");
            return false;
        }
    }
    true
}

fn least(mut work: impl FnMut() -> Result<u64, Status>) -> Result<u64, Status> {
    const ROUNDS: usize = 7;
    let mut least = u64::MAX;
    for _ in 0..ROUNDS {
        least = least.min(work()?);
    }
    Ok(least)
}

/// What measurements work with.
struct Lab {
    /// RAM without descendants.
    ram: CapAddr,
    window: libos::ephemeral::Window,
}

impl Lab {
    fn new(machine: &Machine) -> Result<Self, Status> {
        let ram = domain::with(|domain| {
            for n in 0..3 {
                let node = Place::l1(CapAddr::NULL, FIRST_L1 + n);
                domain.arena.make(CapType::L2CNode, L2_BYTES, 1, node)?;
            }
            domain.slot()
        })?;
        let start = ARENA_BYTES.min(machine.ram_bytes / 2);
        machine.ram.retype(CapType::Ram, start, PLAY_BYTES, 1, ram)?;
        Ok(Lab { ram, window: domain::with(|domain| domain.window())? })
    }

    /// Deletes everything made of the RAM.
    fn clean(&self) -> Result<(), Status> {
        self.ram.revoke()?;
        for first in [slot(0), other(0), third(0)] {
            first.delete_range(256)?;
        }
        Ok(())
    }
}

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let mut lab = Lab::new(&machine).expect("the machine has room");
    load::prepare(&machine.boot, &mut lab).expect("the cores of the command line exist");
    ops::measure(&lab);
    regions::measure(&lab);
    server::measure(&mut lab);
    upcalls::measure(&mut lab);
    let count = libos::log::counter(Counter::TlbFlushes).unwrap_or(0);
    log!("capbench: {count} flushes");
    let _ = invoke(libos::abi::slots::KERNEL, op::CheckInvariants {});
    libos::runtime::shutdown(0)
}
