//! What measurements work with: RAM of their own, slots, and page tables.

use alloc::collections::BTreeMap;
use libos::captypes::place::{L2_BYTES, L2_SLOTS};
use libos::ram::Ram;
use libos::vspace::{entry_of, table_bytes, RWX};
use libos::{domain, Cap, CapAddr, CapType, Place, Status, PAGE};
use testkit::{Machine, ARENA_BYTES};

/// Root indexes of the L2CNodes of the lab.
const FIRST_NODE: u32 = 96;
const NODES: u32 = 150;
/// Addresses for measurements: one entry of the root table.
pub const PLAY_VA: u64 = workloads::ARRAYS_VA;
/// Bytes for [`Lab::make_of_home`], which never come back to it.
const HOME_BYTES: u64 = 32 << 20;

/// RAM, slots and tables; all of it comes back with [`Lab::clean`].
pub struct Lab {
    /// Only to see that everything works: the large cases are left out.
    pub small: bool,
    /// RAM of which everything here is made.
    pub ram: CapAddr,
    /// Home RAM, of which memory goes home when its last capability is deleted.
    home: CapAddr,
    /// The next free byte of it, and the first that is not.
    next_home: u64,
    end_home: u64,
    /// Its first physical address.
    base: u64,
    bytes: u64,
    next_byte: u64,
    next_slot: u32,
    tables: BTreeMap<(u8, u64), CapAddr>,
}

impl Lab {
    /// Of the machine's largest RAM, without the part that is the program's own.
    pub fn new(machine: &Machine) -> Result<Self, Status> {
        let own = ARENA_BYTES.min(machine.ram_bytes / 2);
        let bytes = (machine.ram_bytes - own - HOME_BYTES) & !(PAGE - 1);
        let ram = domain::with(|domain| {
            let nodes = Place::l1(CapAddr::NULL, FIRST_NODE);
            domain.arena.make(CapType::L2CNode, L2_BYTES, NODES, nodes)?;
            domain.slot()
        })?;
        machine.ram.retype(CapType::Ram, own, bytes, 1, ram)?;
        let base = machine.ram_base + own;
        let (home, next_home) = (machine.ram, own + bytes);
        let end_home = next_home + HOME_BYTES;
        let (next_byte, next_slot, tables) = (0, 0, BTreeMap::new());
        let small = machine.boot.flag("small");
        Ok(Lab { small, ram, home, next_home, end_home, base, bytes, next_byte, next_slot, tables })
    }

    /// Bytes of RAM that are left.
    pub fn left(&self) -> u64 {
        self.bytes - self.next_byte
    }

    /// The first of `count` (at most 256) adjacent empty slots.
    pub fn slots(&mut self, count: u32) -> Result<CapAddr, Status> {
        let first = match self.next_slot % L2_SLOTS + count {
            end if end <= L2_SLOTS => self.next_slot,
            _ => self.next_slot.next_multiple_of(L2_SLOTS),
        };
        if count > L2_SLOTS || first + count > NODES * L2_SLOTS {
            return Err(Status::NoSlot);
        }
        self.next_slot = first + count;
        Ok(CapAddr::new(FIRST_NODE, 0).plus(first))
    }

    /// Reserves RAM whose physical address is a multiple of `alignment`; answers its offset.
    pub fn reserve(&mut self, bytes: u64, alignment: u64) -> Result<u64, Status> {
        let offset = (self.base + self.next_byte).next_multiple_of(alignment) - self.base;
        if offset + bytes > self.bytes {
            return Err(Status::NoMemory);
        }
        self.next_byte = offset + bytes;
        Ok(offset)
    }

    /// Makes `count` (at most 256) objects, aligned to `alignment`, in adjacent slots.
    pub fn make(
        &mut self,
        ty: CapType,
        bytes: u64,
        count: u32,
        alignment: u64,
    ) -> Result<CapAddr, Status> {
        let slot = self.slots(count)?;
        let offset = self.reserve(bytes * u64::from(count), alignment)?;
        self.ram.retype(ty, offset, bytes, count, slot)?;
        Ok(slot)
    }

    /// Makes objects whose memory goes home with the last capability to it: of memory that is used
    /// once.
    pub fn make_of_home(
        &mut self,
        ty: CapType,
        bytes: u64,
        count: u32,
        dst: impl Into<Place>,
    ) -> Result<(), Status> {
        let offset = self.next_home.next_multiple_of(bytes);
        let end = offset + bytes * u64::from(count);
        if end > self.end_home {
            return Err(Status::NoMemory);
        }
        self.next_home = end;
        self.home.retype(ty, offset, bytes, count, dst)
    }

    /// The table of `level` that covers `va`, made and mapped if need be.
    pub fn table(&mut self, level: u8, va: u64) -> Result<CapAddr, Status> {
        if level == 4 {
            return Ok(libos::abi::slots::VSPACE);
        }
        let key = (level, va & !(table_bytes(level) - 1));
        if let Some(&table) = self.tables.get(&key) {
            return Ok(table);
        }
        let ty = CapType::table_of_level(level).ok_or(Status::WrongLevel)?;
        let table = self.make(ty, PAGE, 1, PAGE)?;
        let parent = self.table(level + 1, va)?;
        parent.map(entry_of(level + 1, va), 1, table, 0, RWX, self.slots(1)?)?;
        self.tables.insert(key, table);
        Ok(table)
    }

    /// Makes `count` Frames that nothing happens to.
    pub fn populate(&mut self, count: u32) -> Result<(), Status> {
        for _ in 0..count / L2_SLOTS {
            self.make(CapType::Frame, PAGE, L2_SLOTS, PAGE)?;
        }
        Ok(())
    }

    /// Deletes everything.
    pub fn clean(&mut self) -> Result<(), Status> {
        self.ram.revoke()?;
        for node in 0..self.next_slot.div_ceil(L2_SLOTS) {
            CapAddr::new(FIRST_NODE + node, 0).delete_range(L2_SLOTS)?;
        }
        (self.next_byte, self.next_slot) = (0, 0);
        self.tables.clear();
        Ok(())
    }
}
