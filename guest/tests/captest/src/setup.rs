//! What every test gets, and what must be left of it when the test is over.

use libos::abi::slots::KERNEL;
use libos::captypes::invocations::Counter;
use libos::captypes::place::L2_BYTES;
use libos::domain;
use libos::ephemeral::Window;
use libos::ram::Ram;
use libos::{invoke, log, op, Cap, CapAddr, CapType, Place, Status};
use testkit::{check, good, Machine, Outcome, ARENA_BYTES};

/// Bytes of the RAM that tests make things of.
pub const PLAY_BYTES: u64 = 16 << 20;
/// Physical alignment of that RAM: so that tests know where large pages begin.
const PLAY_ALIGNMENT: u64 = 2 << 20;
/// Root index of the L2CNode whose slots are empty at the start and at the end of each test.
pub const BENCH_L1: u32 = 200;

/// Slot `n` of the L2CNode for tests.
pub const fn slot(n: u32) -> CapAddr {
    CapAddr::new(BENCH_L1, n)
}

/// What tests work with.
pub struct Lab {
    /// [`PLAY_BYTES`] of RAM without descendants.
    pub ram: CapAddr,
    /// Its physical address.
    pub ram_base: u64,
    /// For looking into other address spaces.
    pub window: Window,
    /// The home capability behind `ram`, where 1 GiB pages can be found in large machines.
    pub home: CapAddr,
    /// Its first byte and its bytes.
    pub home_range: (u64, u64),
    /// Seed of everything random.
    pub seed: u64,
    /// Rounds of random operations.
    pub rounds: u64,
    /// How much load, where that is tested.
    pub scale: u32,
    /// The ELF file of this program.
    pub own_file: &'static [u8],
}

impl Lab {
    /// Takes RAM behind the domain's arena.
    pub fn new(machine: &Machine) -> Result<Self, Status> {
        let start = machine.ram_base + ARENA_BYTES.min(machine.ram_bytes / 2);
        let play = start.next_multiple_of(PLAY_ALIGNMENT);
        let (ram, window) = domain::with(|domain| {
            let ram = domain.slot()?;
            let node = Place::l1(CapAddr::NULL, BENCH_L1);
            domain.arena.make(CapType::L2CNode, L2_BYTES, 1, node)?;
            Ok((ram, domain.window()?))
        })?;
        machine.ram.retype(CapType::Ram, play - machine.ram_base, PLAY_BYTES, 1, ram)?;
        let cmdline = machine.boot.cmdline();
        Ok(Lab {
            ram,
            ram_base: play,
            window,
            home: machine.ram,
            home_range: (machine.ram_base, machine.ram_bytes),
            seed: machine.boot.seed(),
            rounds: libos::cmdline::number(cmdline, "rounds").unwrap_or(400),
            scale: libos::cmdline::number(cmdline, "scale").unwrap_or(1) as u32,
            own_file: own_file(machine),
        })
    }

    /// Runs one test, and checks that it has left nothing behind and broken nothing.
    pub fn run(&mut self, test: fn(&mut Lab) -> Outcome) -> Outcome {
        let before = capabilities();
        let outcome = test(self);
        if outcome.is_err() {
            // Whatever the test had made would make the next ones fail.
            let _ = self.clean();
            return outcome;
        }
        good!(self.clean());
        good!(invoke(KERNEL, op::CheckInvariants {}));
        let after = capabilities();
        if after != before {
            log!("capabilities: {before} before, {after} after");
        }
        check!(after == before);
        Ok(())
    }

    /// Deletes everything made of the RAM and in the slots for tests.
    pub fn clean(&mut self) -> Result<(), Status> {
        self.ram.revoke()?;
        slot(0).delete_range(256)
    }

    /// Makes one object of the first bytes of the RAM at `offset`.
    pub fn make(&self, ty: CapType, offset: u64, bytes: u64, dst: CapAddr) -> Result<(), Status> {
        self.ram.retype(ty, offset, bytes, 1, dst)
    }
}

/// Capabilities that exist in the kernel.
pub fn capabilities() -> u64 {
    libos::log::counter(Counter::Capabilities).unwrap_or(0)
}

fn own_file(machine: &Machine) -> &'static [u8] {
    let archive: &'static [u8] = machine.boot.archive();
    match bootarchive::find(archive, "boot/programs/captest") {
        Ok(Some(entry)) => entry.data,
        _ => &[],
    }
}
