//! What capability operations cost on one core, by the number of capabilities in the mapping database:
//! G18 figures 4.8 to 4.20 and 4.26 to 4.29. Booted in place of `init`; results are lines
//! `@bench CASE SAMPLE at=SIZE:UNIT` on the kernel log, each the median of some repetitions. Under
//! `-icount shift=0` a tick of the time-stamp counter is one instruction.
#![no_std]
#![no_main]

mod ops;

use libos::captypes::place::L2_BYTES;
use libos::ram::Ram;
use libos::runtime::Start;
use libos::{domain, log, Cap, CapAddr, CapType, Place, Status, PAGE};
use testkit::crowd::Crowd;
use testkit::{settle, Machine, ARENA_BYTES};

libos::program!(main);

/// Root index of the L2CNode for what is measured.
const LAB_L1: u32 = 200;
/// How many capabilities there are besides those of an idle machine.
const SIZES: [u32; 6] = [0, 256, 1024, 4096, 16384, 65536];

/// Slot `n` for what is measured.
const fn slot(n: u32) -> CapAddr {
    CapAddr::new(LAB_L1, n)
}

/// What measurements work with.
struct Lab {
    /// RAM whose last capability is its own, but for the server's: the machine's largest.
    home: CapAddr,
    /// Where in it there is memory of which nothing was made.
    free: u64,
    /// 2 MiB of RAM, of which nothing is made between measurements.
    whole: CapAddr,
    /// 4 MiB of RAM, of whose second half RAM was made.
    halved: CapAddr,
    /// 2 MiB of RAM for tables and Frames.
    play: CapAddr,
}

impl Lab {
    fn new(machine: &Machine) -> Result<(Self, Crowd), Status> {
        let (whole, halved, half, play, field) = domain::with(|domain| {
            let node = Place::l1(CapAddr::NULL, LAB_L1);
            domain.arena.make(CapType::L2CNode, L2_BYTES, 1, node)?;
            let mut slot = || domain.slot();
            Ok((slot()?, slot()?, slot()?, slot()?, slot()?))
        })?;
        const MIB: u64 = 1 << 20;
        let mut next = ARENA_BYTES;
        let mut take = |bytes: u64, dst: CapAddr| {
            machine.ram.retype(CapType::Ram, next, bytes, 1, dst)?;
            next += bytes;
            Ok::<(), Status>(())
        };
        take(2 * MIB, whole)?;
        take(4 * MIB, halved)?;
        take(2 * MIB, play)?;
        take(Crowd::BYTES, field)?;
        halved.retype(CapType::Ram, 2 * MIB, 2 * MIB, 1, half)?;
        let lab = Lab { home: machine.ram, free: next, whole, halved, play };
        Ok((lab, Crowd::new(field)?))
    }
}

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let machine = unsafe { Machine::take() }.expect("the kernel gives its first program RAM");
    let status = match measure(&machine) {
        Ok(()) => 0,
        Err(error) => {
            log!("capsize: {error:?}");
            1
        }
    };
    libos::runtime::shutdown(status)
}

fn measure(machine: &Machine) -> Result<(), Status> {
    settle(&machine.boot)?;
    let (lab, mut crowd) = Lab::new(machine)?;
    for size in SIZES {
        crowd.grow_to(size)?;
        if size == 0 {
            ops::occupied_nodes(&lab)?;
        }
        ops::all(&lab, size)?;
    }
    Ok(())
}
