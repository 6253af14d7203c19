//! A first domain under construction: its memory, its CSpace and its address space.
//!
//! No part of the kernel can be asked yet for what a domain is made of; so all of it comes from one
//! piece of free memory, and the capabilities are put into the database as if somebody had retyped
//! them.

use super::BOOT_CORE;
use crate::arch;
use crate::arch::boot_info::{BootInfo, RegionKind};
use crate::cap::alone::Held;
use crate::cap::memory_cap;
use crate::cap::retype::install_kernel_half;
use crate::cores::CoreId;
use crate::driver::CpuDriver;
use crate::object::mem::{self};
use crate::object::{slot_at, SlotRef};
use crate::vspace::MapArgs;
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{CapAddr, CapType, Rights, Status};
use mdb::RawCap;
use paging::{Level, PAGE};

/// Bytes of the root CNode.
const ROOT_BYTES: u64 = 16 * 1024;
/// First root index for what the domain is made of.
const FIRST_OWN_L1: u32 = 3;
/// Root indexes from here on belong to it.
const END_OWN_L1: u32 = 16;

/// Why there is no first domain.
pub(super) enum Error {
    NoMemory,
    NoArchive,
    Damaged(bootarchive::Damage),
    NotFound,
    NotExecutable,
    Refused(Status),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::NoMemory => f.write_str("not enough memory"),
            Error::NoArchive => f.write_str("there is no boot archive"),
            Error::Damaged(damage) => write!(f, "the boot archive is damaged: {damage:?}"),
            Error::NotFound => f.write_str("the program is not in the boot archive"),
            Error::NotExecutable => f.write_str("the program is no static x86-64 ELF file"),
            Error::Refused(status) => write!(f, "an operation was refused: {status:?}"),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Refused(status)
    }
}

/// Free memory, taken from its end.
pub(super) struct Pool {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Pool {
    /// The share of a core; for the boot core, the largest piece.
    pub(super) fn new(id: CoreId, info: &BootInfo) -> Result<(Pool, u64), Error> {
        if id != BOOT_CORE {
            let core::ops::Range { start, end } = info.shares[id.index()];
            return Ok((Pool { start, end }, start));
        }
        let usable = info.memory.as_slice().iter().filter(|r| r.kind == RegionKind::Usable);
        let largest = usable.max_by_key(|r| r.end - r.start).ok_or(Error::NoMemory)?;
        let start = largest.start.next_multiple_of(PAGE);
        Ok((Pool { start, end: largest.end & !(PAGE - 1) }, largest.start))
    }

    /// `bytes` (whole pages) of zeros.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64, Error> {
        if bytes > self.end.saturating_sub(self.start) {
            return Err(Error::NoMemory);
        }
        self.end -= bytes;
        mem::zero_object(self.end, bytes);
        Ok(self.end)
    }
}

/// The domain under construction.
pub(super) struct Builder<'a> {
    pub(super) local: &'a mut CpuDriver,
    pub(super) pool: Pool,
    /// Physical address of the root CNode.
    root: u64,
    /// The next slot for what it is made of.
    next: (u32, u32),
    /// The table of level 4.
    vspace: SlotRef,
    /// The root table: the same, or one of level 5.
    pub(super) top: SlotRef,
}

impl<'a> Builder<'a> {
    pub(super) fn new(local: &'a mut CpuDriver, mut pool: Pool) -> Result<Self, Error> {
        let root = pool.take(ROOT_BYTES)?;
        let first = pool.take(L2_BYTES)?;
        local.caps.db.insert(slot_at(root, 0), object(CapType::L2CNode, first, L2_BYTES));
        let at = |addr: CapAddr| slot_at(first, addr.l2());
        local.caps.db.insert(at(slots::ROOT), object(CapType::L1CNode, root, ROOT_BYTES));
        local.caps.db.insert(at(slots::VSPACE), object(CapType::Pml4, pool.take(PAGE)?, PAGE));
        let next = (FIRST_OWN_L1, 0);
        let mut builder =
            Builder { local, pool, root, next, vspace: at(slots::VSPACE), top: at(slots::VSPACE) };
        if arch::root_level() > 4 {
            builder.add_top_level()?;
        }
        install_kernel_half(builder.top.cap().base);
        Ok(builder)
    }

    /// With five levels, the table in `VSPACE` is the first of those below the root.
    pub(super) fn add_top_level(&mut self) -> Result<(), Error> {
        let base = self.pool.take(PAGE)?;
        self.top = self.fixed(slots::ROOT_TABLE);
        self.local.caps.db.insert(self.top, object(CapType::Pml5, base, PAGE));
        let flags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0 | MapFlags::EXEC.0);
        let args = MapArgs { entry: 0, count: 1, offset: 0, flags };
        let mapping = self.fixed(slots::ROOT_TABLE_MAPPING);
        Ok(self.map_entries(self.top, self.vspace.into(), args, mapping)?)
    }

    pub(super) fn fixed(&self, addr: CapAddr) -> SlotRef {
        slot_at(slot_at(self.root, 0).cap().base, addr.l2())
    }

    pub(super) fn cnode(&mut self, l1: u32) -> Result<u64, Error> {
        let slot = slot_at(self.root, l1);
        if slot.is_empty() {
            let node = self.pool.take(L2_BYTES)?;
            self.local.caps.db.insert(slot, object(CapType::L2CNode, node, L2_BYTES));
        }
        Ok(slot.cap().base)
    }

    /// An empty slot for a part of the domain.
    pub(super) fn slot(&mut self) -> Result<SlotRef, Error> {
        let (l1, l2) = self.next;
        if l1 == END_OWN_L1 {
            return Err(Error::NoMemory);
        }
        let node = self.cnode(l1)?;
        self.next = if l2 + 1 == L2_SLOTS { (l1 + 1, 0) } else { (l1, l2 + 1) };
        Ok(slot_at(node, l2))
    }

    pub(super) fn frame(&mut self, bytes: u64) -> Result<SlotRef, Error> {
        let (slot, base) = (self.slot()?, self.pool.take(bytes)?);
        self.local.caps.db.insert(slot, object(CapType::Frame, base, bytes));
        Ok(slot)
    }

    /// The table of `level` in which `va` is translated, made if need be.
    pub(super) fn table(&mut self, va: u64, level: Level) -> Result<SlotRef, Error> {
        let mut table = self.vspace;
        let mut at = Level::Pml4;
        while let (true, Some(below)) = (at > level, at.below()) {
            let index = at.index(va) as u32;
            let entry =
                paging::Entry::from_bits(crate::object::Table::at(table.cap().base).get(index));
            let ty = CapType::table_of_level(below as u8).unwrap_or(CapType::Pt);
            table = if entry.is_present() {
                let key = object(ty, entry.address(), PAGE);
                self.local.caps.db.find(&key).ok_or(Error::NoMemory)?
            } else {
                let (slot, mapping) = (self.slot()?, self.slot()?);
                let base = self.pool.take(PAGE)?;
                self.local.caps.db.insert(slot, object(ty, base, PAGE));
                let flags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0 | MapFlags::EXEC.0);
                let args = MapArgs { entry: index, count: 1, offset: 0, flags };
                self.map_entries(table, slot.into(), args, mapping)?;
                slot
            };
            at = below;
        }
        Ok(table)
    }

    fn map_entries(
        &mut self,
        table: SlotRef,
        from: Held,
        args: MapArgs,
        mapping: SlotRef,
    ) -> Result<(), Status> {
        let CpuDriver { vm, caps, sched, .. } = &mut *self.local;
        vm.map(caps, sched.vector_unit(), table, from, args, mapping)
    }

    /// Maps all of a frame at `va`.
    pub(super) fn map(&mut self, frame: SlotRef, va: u64, flags: MapFlags) -> Result<(), Error> {
        let pages = frame.cap().word / PAGE;
        let mut done = 0;
        while done < pages {
            let at = va + done * PAGE;
            let table = self.table(at, Level::Pt)?;
            let entry = Level::Pt.index(at) as u32;
            let count = (pages - done).min(u64::from(512 - entry)) as u32;
            let mapping = self.slot()?;
            let args = MapArgs { entry, count, offset: done * PAGE, flags };
            self.map_entries(table, frame.into(), args, mapping)?;
            done += u64::from(count);
        }
        Ok(())
    }
}

pub(super) fn object(ty: CapType, base: u64, bytes: u64) -> RawCap {
    memory_cap(ty as u8, Rights::ALL, 0, base, bytes)
}
