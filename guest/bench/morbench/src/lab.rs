//! What measurements work with: RAM, a pool in it, and tables at which objects can be mapped.

use libos::abi::slots::VSPACE;
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType;
use libos::ephemeral::Window;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::ram::Ram;
use libos::runtime::Boot;
use libos::vspace::{entry_of, RW, RWX};
use libos::{domain, Cap, CapAddr, Place, Status, PAGE};
use testkit::{Machine, ARENA_BYTES};

/// Root index of the L2CNode for what is measured.
const FIRST_L1: u32 = 200;
/// What is not the pool's of the RAM.
const PLAY_BYTES: u64 = 8 << 20;
const MIB2: u64 = 2 << 20;

/// An address below an upper-level entry that nothing else uses; the next entry shows objects of order 3.
pub const VA: u64 = 4 << 39;
const PDPT: CapAddr = slot(200);
const PD: CapAddr = slot(201);
/// The entry of [`PDPT`] with [`PD`].
const PD_ENTRY: u32 = 511;
/// The first of other pools, in which nothing is.
const FIRST_BESIDE: u32 = 210;
/// The pool.
pub const POOL: CapAddr = slot(100);

/// Slot `n` for what is measured.
pub const fn slot(n: u32) -> CapAddr {
    CapAddr::new(FIRST_L1, n)
}

pub struct Lab<'a> {
    pub boot: &'a Boot,
    /// RAM without descendants but the pool, which is its beginning.
    ram: CapAddr,
    pub pool_bytes: u64,
    pub window: Window,
    /// The file of this program.
    pub own_file: &'static [u8],
    /// Bytes behind the pool that are in use.
    used: u64,
}

impl<'a> Lab<'a> {
    /// Makes tables, and a pool of all that the machine has, behind as many others as are to be there.
    pub fn new(machine: &'a Machine) -> Result<Lab<'a>, Status> {
        let start =
            (machine.ram_base + ARENA_BYTES.min(machine.ram_bytes / 2)).next_multiple_of(MIB2);
        let bytes = (machine.ram_base + machine.ram_bytes - start) & !(MIB2 - 1);
        let (ram, window) = domain::with(|domain| {
            let node = Place::l1(CapAddr::NULL, FIRST_L1);
            domain.arena.make(CapType::L2CNode, L2_BYTES, 1, node)?;
            Ok((domain.slot()?, domain.window()?))
        })?;
        machine.ram.retype(CapType::Ram, start - machine.ram_base, bytes, 1, ram)?;
        let own_file = testkit::file(&machine.boot, "boot/programs/morbench")?;
        let beside = libos::cmdline::number(machine.boot.cmdline(), "pools").unwrap_or(0);
        let pool_bytes = bytes - PLAY_BYTES - beside * MIB2;
        let boot = &machine.boot;
        let mut lab = Lab { boot, ram, pool_bytes, window, own_file, used: 0 };
        lab.make_tables()?;
        for n in 0..beside {
            let pool = slot(FIRST_BESIDE + n as u32);
            lab.ram.retype(CapType::Pool, pool_bytes + PLAY_BYTES + n * MIB2, MIB2, 1, pool)?;
            pool.format_pool(Persistence::Caches)?;
        }
        lab.make_pool()?;
        POOL.format_pool(Persistence::Caches)?;
        Ok(lab)
    }

    /// The capability to the pool, whatever is in its memory.
    pub fn make_pool(&self) -> Result<(), Status> {
        self.ram.retype(CapType::Pool, 0, self.pool_bytes, 1, POOL)
    }

    /// An object of the RAM behind the pool.
    pub fn make(&mut self, ty: CapType, bytes: u64, dst: CapAddr) -> Result<(), Status> {
        let at = self.used.next_multiple_of(bytes.next_power_of_two().min(MIB2));
        self.ram.retype(ty, self.pool_bytes + at, bytes, 1, dst)?;
        self.used = at + bytes;
        Ok(())
    }

    fn make_tables(&mut self) -> Result<(), Status> {
        self.make(CapType::Pdpt, PAGE, PDPT)?;
        self.make(CapType::Pd, PAGE, PD)?;
        VSPACE.map(entry_of(4, VA), 1, PDPT, 0, RWX, slot(202))?;
        PDPT.map(PD_ENTRY, 1, PD, 0, RWX, slot(203))
    }
}

/// A place at which an object of an order can be mapped, number `n` of them.
#[derive(Clone, Copy)]
pub struct Spot {
    table: CapAddr,
    entry: u32,
    pub va: u64,
    mapping: CapAddr,
}

impl Spot {
    pub fn of(order: u32, n: u32) -> Spot {
        let mapping = slot(120 + n);
        match order {
            1 => {
                let va = VA + (u64::from(PD_ENTRY) << 30) + u64::from(n) * MIB2;
                Spot { table: PD, entry: n, va, mapping }
            }
            2 => Spot { table: PDPT, entry: n, va: VA + (u64::from(n) << 30), mapping },
            _ => {
                let va = VA + ((u64::from(n) + 1) << 39);
                Spot { table: VSPACE, entry: entry_of(4, va), va, mapping }
            }
        }
    }
    pub fn map(&self, object: CapAddr) -> Result<(), Status> {
        self.table.map(self.entry, 1, object, 0, RW, self.mapping)
    }
    pub fn unmap(&self) -> Result<(), Status> {
        self.mapping.delete()
    }
}

/// A new object in slot `n`.
pub fn object(order: u32, n: u32) -> Result<CapAddr, Status> {
    POOL.create_morsel(order, slot(n)).map(|_| slot(n))
}

/// Destroys it, which nobody has mapped.
pub fn destroy(object: CapAddr) -> Result<(), Status> {
    object.destroy()
}

/// Free pages of the pool.
pub fn free() -> Result<u64, Status> {
    POOL.pool_info().map(|facts| facts.free)
}

/// The time-stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What `work` takes.
#[inline(always)]
pub fn time(work: impl FnOnce() -> Result<(), Status>) -> Result<u64, Status> {
    let before = ticks();
    work()?;
    Ok(ticks() - before)
}

/// The least of some rounds of what measures several things at once.
pub fn least<const N: usize>(
    rounds: usize,
    mut work: impl FnMut() -> Result<[u64; N], Status>,
) -> Result<[u64; N], Status> {
    let mut least = [u64::MAX; N];
    for _ in 0..rounds {
        for (least, own) in least.iter_mut().zip(work()?) {
            *least = own.min(*least);
        }
    }
    Ok(least)
}

/// Reads the first word of a page.
#[inline(always)]
pub fn read(va: u64) -> u64 {
    // SAFETY: mapped for measurements only; who calls it says that something is there.
    unsafe { core::ptr::read_volatile(va as *const u64) }
}

/// Writes it.
#[inline(always)]
pub fn write(va: u64, value: u64) {
    // SAFETY: as above, and writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, value) }
}
