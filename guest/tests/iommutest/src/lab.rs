//! What every test gets, and what must be left of it when the test is over.

use crate::edu::{self, Edu};
use drivers::plain::claim;
use libos::abi::slots::{KERNEL, VSPACE};
use libos::captypes::invocations::{Counter, DeviceFault, MapFlags};
use libos::captypes::place::L2_BYTES;
use libos::ephemeral::Window;
use libos::function::FunctionCap;
use libos::morsel::{Persistence, PoolCap};
use libos::ram::Ram;
use libos::vspace::{entry_of, RW};
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Place, Status, PAGE};
use testkit::{check, good, Machine, Outcome, ARENA_BYTES};

const NODE: u32 = 200;
const PLAY_BYTES: u64 = 16 << 20;
const ALIGNMENT: u64 = 2 << 20;
const POOL_BYTES: u64 = 8 << 20;

/// Slot `n` of the L2CNode for tests, empty before and after each.
pub const fn slot(n: u32) -> CapAddr {
    CapAddr::new(NODE, n)
}

/// What [`Lab::furnish`] makes.
pub const POOL: CapAddr = slot(0);
/// A morsel of order 2.
pub const OBJECT: CapAddr = slot(1);
/// Its Mapping at [`VA`].
pub const VIEW: CapAddr = slot(2);
/// To which the device is attached.
pub const SPACE: CapAddr = slot(3);
/// The Mapping of the morsel at address 0 of the device.
pub const SHOWN: CapAddr = slot(4);
/// A table of which entry 0 is at [`VA`].
pub const PDPT: CapAddr = slot(5);
const PDPT_MAPPING: CapAddr = slot(6);
/// Free for tests.
pub const FREE: u32 = 10;

/// Of RAM that nothing is made of.
pub const REST: u64 = POOL_BYTES + 2 * PAGE;
/// An address below an upper-level entry that nothing else uses, of 1 GiB.
pub const VA: u64 = 4 << 39;
const GIB: u64 = 1 << 30;

/// What tests work with.
pub struct Lab {
    /// RAM without descendants.
    pub ram: CapAddr,
    /// The device.
    pub edu: Edu,
    /// The capability to its function, and its number.
    pub function: CapAddr,
    pub number: u32,
    /// For looking into other address spaces.
    pub window: Window,
    /// The ELF file of this program.
    pub own_file: &'static [u8],
}

impl Lab {
    /// Takes RAM behind the domain's arena, and the device.
    pub fn new(machine: &Machine) -> Result<Self, Status> {
        let start = machine.ram_base + ARENA_BYTES.min(machine.ram_bytes / 2);
        let play = start.next_multiple_of(ALIGNMENT);
        let (ram, window) = domain::with(|domain| {
            let ram = domain.slot()?;
            domain.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, NODE))?;
            Ok((ram, domain.window()?))
        })?;
        machine.ram.retype(CapType::Ram, play - machine.ram_base, PLAY_BYTES, 1, ram)?;
        let claimed = claim(&machine.boot, edu::VENDOR, edu::DEVICE).map_err(|why| {
            log!("the device cannot be claimed: {why:?}");
            Status::Unsupported
        })?;
        let edu = Edu::new(claimed.registers, claimed.bytes)?;
        let archive: &'static [u8] = machine.boot.archive();
        let own_file = match bootarchive::find(archive, "boot/programs/iommutest") {
            Ok(Some(entry)) => entry.data,
            _ => &[],
        };
        let (function, number) = (claimed.function, claimed.number.into());
        Ok(Lab { ram, edu, function, number, window, own_file })
    }

    /// Runs one test, and checks that it has left nothing behind and broken nothing.
    pub fn run(&mut self, test: fn(&mut Lab) -> Outcome) -> Outcome {
        let before = capabilities();
        let outcome = test(self);
        // Whatever a test had made would make the next ones fail.
        let cleaned = self.clean();
        outcome?;
        good!(cleaned);
        good!(invoke(KERNEL, op::CheckInvariants {}));
        check!(capabilities() == before);
        check!(good!(self.fault()).is_none());
        Ok(())
    }

    fn clean(&mut self) -> Result<(), Status> {
        self.ram.revoke()?;
        slot(0).delete_range(256)
    }

    /// A pool, a morsel with a view for the program and one for the device, which is attached.
    pub fn furnish(&mut self, flags: MapFlags) -> Result<(), Status> {
        self.ram.retype(CapType::Pool, 0, POOL_BYTES, 1, POOL)?;
        POOL.format_pool(Persistence::Caches)?;
        POOL.create_morsel(2, OBJECT)?;
        self.ram.retype(CapType::Pdpt, POOL_BYTES, PAGE, 1, PDPT)?;
        VSPACE.map(entry_of(4, VA), 1, PDPT, 0, RW, PDPT_MAPPING)?;
        PDPT.map(0, 1, OBJECT, 0, RW, VIEW)?;
        self.ram.retype(CapType::DeviceSpace, POOL_BYTES + PAGE, PAGE, 1, SPACE)?;
        SPACE.map(0, 1, OBJECT, 0, flags, SHOWN)?;
        self.function.attach(SPACE)
    }

    /// What the device was refused.
    pub fn fault(&self) -> Result<Option<DeviceFault>, Status> {
        self.function.next_fault()
    }

    /// The device writes to the page at an address of its own. Was it done?
    pub fn stores(&self, address: u64) -> Result<bool, Status> {
        self.edu.store(address, 64)?;
        Ok(!self.is_refused(address, DeviceFault::WRITE, DeviceFault::NOT_WRITABLE)?)
    }

    /// The device reads.
    pub fn fetches(&self, address: u64) -> Result<bool, Status> {
        self.edu.fetch(address, 64)?;
        Ok(!self.is_refused(address, 0, DeviceFault::NOT_READABLE)?)
    }

    /// Is an access reported as refused, as it must be then? Another report is an error.
    pub fn is_refused(&self, address: u64, access: u32, reason: u32) -> Result<bool, Status> {
        let Some(fault) = self.fault()? else { return Ok(false) };
        let page = address & !(PAGE - 1);
        let expected =
            DeviceFault { function: self.number, address: page, access, reason, lost: 0 };
        if fault != expected {
            log!("{fault:x?} is not {expected:x?}");
            return Err(Status::Invalid);
        }
        Ok(true)
    }
}

/// Capabilities that exist in the kernel.
pub fn capabilities() -> u64 {
    libos::log::counter(Counter::Capabilities).unwrap_or(0)
}

/// Which page the device's address is of, seen by the program.
pub fn seen(page: u64) -> u64 {
    assert!(page < GIB / PAGE);
    VA + page * PAGE
}

/// A word of the object, as the program sees it.
pub fn word(va: u64) -> u64 {
    // SAFETY: mapped for these tests only.
    unsafe { core::ptr::read_volatile(va as *const u64) }
}

/// Writes one.
pub fn set_word(va: u64, value: u64) {
    // SAFETY: as above, and writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, value) }
}
