//! What a first domain is given: its program, the core's own objects, memory, and what it must know.

use super::builder::{object, Builder, Error};
use super::{facts, BOOT_CORE};
use crate::arch;
use crate::arch::boot_info::{BootInfo, RegionKind, MAX_CORES};
use crate::cap::policy::SCALE;
use crate::cap::retype::home_ram;
use crate::cap::{attr, memory_cap};
use crate::devices::FUNCTIONS;
use crate::object::mem::{self};
use crate::object::{slot_at, Dcb, DcbRef, Obj};
use crate::operations::configure::{configure, Settings};
use abi::boot::{ARCHIVE_VA, BOOT_INFO};
use abi::layout::{NATIVE_FRAME, NATIVE_STACK_BYTES, NATIVE_STACK_TOP};
use abi::slots::{self, BOOT_DEVICES_L1, BOOT_RAM_L1};
use captypes::invocations::MapFlags;
use captypes::place::L2_SLOTS;
use captypes::{CapType, RamAttrs, Rights};
use mdb::RawCap;
use paging::PAGE;

/// Numbers of Ids: as many as the database can tell apart.
const IDS: u64 = 1 << 39;
/// Of these, every core has a range of its own.
pub(super) const IDS_OF_CORE: u64 = IDS / MAX_CORES as u64;
/// Loads the segments of a program and gives it a stack; returns its entry point.
pub(super) fn load(builder: &mut Builder, file: &[u8]) -> Result<u64, Error> {
    let bad = |_| Error::NotExecutable;
    let elf = elf::ElfBytes::<elf::endian::LittleEndian>::minimal_parse(file).map_err(bad)?;
    let executable =
        elf.ehdr.e_type == elf::abi::ET_EXEC && elf.ehdr.e_machine == elf::abi::EM_X86_64;
    let segments = elf.segments().filter(|_| executable).ok_or(Error::NotExecutable)?;
    for segment in segments.iter().filter(|s| s.p_type == elf::abi::PT_LOAD && s.p_memsz > 0) {
        let data = elf.segment_data(&segment).map_err(bad)?;
        let end = segment.p_vaddr.checked_add(segment.p_memsz).filter(|&end| paging::is_user(end));
        let end = end.ok_or(Error::NotExecutable)?.next_multiple_of(PAGE);
        let start = segment.p_vaddr & !(PAGE - 1);
        if data.len() as u64 > segment.p_memsz {
            return Err(Error::NotExecutable);
        }
        let frame = builder.frame(end - start)?;
        mem::write_bytes(frame.cap().base + segment.p_vaddr % PAGE, data);
        let mut flags = MapFlags::READ;
        if segment.p_flags & elf::abi::PF_W != 0 {
            flags = flags.or(MapFlags::WRITE);
        }
        if segment.p_flags & elf::abi::PF_X != 0 {
            flags = flags.or(MapFlags::EXEC);
        }
        builder.map(frame, start, flags)?;
    }
    let stack = builder.frame(NATIVE_STACK_BYTES)?;
    builder.map(
        stack,
        NATIVE_STACK_TOP - NATIVE_STACK_BYTES,
        MapFlags::READ.or(MapFlags::WRITE),
    )?;
    Ok(elf.ehdr.e_entry)
}

impl Builder<'_> {
    pub(super) fn add_singletons(&mut self) {
        let all = |ty, count: u64| RawCap {
            ty: ty as u8,
            rights: Rights::ALL.0,
            attrs: 0,
            aux: 0,
            base: 0,
            word: count << SCALE,
        };
        if self.local.core.id == BOOT_CORE {
            let (io, irq) = (self.fixed(slots::IO), self.fixed(slots::IRQ));
            self.local.caps.db.insert(io, all(CapType::Io, 1 << 16));
            self.local.caps.db.insert(irq, all(CapType::Irq, arch::IRQS as u64));
            if arch::has_iommu() {
                let functions = self.fixed(slots::FUNCTIONS);
                self.local.caps.db.insert(functions, all(CapType::PciFunction, FUNCTIONS));
            }
        }
        self.local.caps.db.insert(self.fixed(slots::KERNEL), all(CapType::Kernel, 0));
        let (id, perf) = (self.fixed(slots::ID), self.fixed(slots::PERFMON));
        let ids = self.local.core.id.index() as u64 * IDS_OF_CORE;
        self.local
            .caps
            .db
            .insert(id, RawCap { base: ids << SCALE, ..all(CapType::Id, IDS_OF_CORE) });
        // Another place than the kernel's among the things without extent.
        self.local.caps.db.insert(perf, RawCap { base: 1 << SCALE, ..all(CapType::PerfMon, 0) });
    }

    /// A Frame with the channels between the monitors.
    pub(super) fn add_channels(&mut self, info: &BootInfo) {
        let core::ops::Range { start, end } = info.channels;
        if start < end {
            let slot = self.fixed(slots::CHANNELS);
            // All cores have copies from the start; the boot core's are the owner's.
            let own = self.local.core.id == BOOT_CORE;
            let attrs = if own { attr::REMOTE_COPIES } else { attr::FOREIGN };
            let frame = object(CapType::Frame, start, end - start);
            self.local.caps.db.insert(slot, RawCap { attrs, ..frame });
        }
    }

    /// The first slot of home RAM: what is left of the pool.
    pub(super) fn give_pool(&mut self, from: u64, info: &BootInfo) -> Result<(), Error> {
        let node = node_of(info, from);
        // Before the rest is measured: the CNode is taken from it.
        let slot = slot_at(self.cnode(BOOT_RAM_L1)?, 0);
        let bytes = self.pool.end - self.pool.start;
        self.local.caps.db.insert(slot, home_ram(self.pool.start, bytes, node));
        Ok(())
    }
}

fn node_of(info: &BootInfo, start: u64) -> u8 {
    let mut regions = info.memory.as_slice().iter();
    regions.find(|r| (r.start..r.end).contains(&start)).map_or(0, |r| r.node as u8)
}

/// The archive: a Frame, mapped read-only.
pub(super) fn map_archive(builder: &mut Builder, info: &BootInfo) -> Result<(), Error> {
    let start = info.archive.start & !(PAGE - 1);
    let bytes = info.archive.end.next_multiple_of(PAGE) - start;
    let slot = builder.fixed(slots::ARCHIVE);
    // What is made of it can be taken back.
    let rights = Rights::READ.or(Rights::EXEC).or(Rights::REVOKE);
    builder.local.caps.db.insert(slot, memory_cap(CapType::Frame as u8, rights, 0, start, bytes));
    builder.map(slot, ARCHIVE_VA, MapFlags::READ)
}

/// Home RAM for all free memory but the piece that begins at `pool`, in slots from 1 on; returns
/// how many slots there are with slot 0.
pub(super) fn give_memory(builder: &mut Builder, info: &BootInfo, pool: u64) -> Result<u32, Error> {
    let node = builder.cnode(BOOT_RAM_L1)?;
    let mut count = 1;
    for region in info.memory.as_slice() {
        let (start, end) = (region.start.next_multiple_of(PAGE), region.end & !(PAGE - 1));
        if region.kind != RegionKind::Usable || region.start == pool || start >= end {
            continue;
        }
        if count < L2_SLOTS {
            let cap = home_ram(start, end - start, region.node as u8);
            builder.local.caps.db.insert(slot_at(node, count), cap);
            count += 1;
        }
    }
    Ok(count)
}

/// The persistent memory. It has no home: who deletes the last capability to it forgets it, and the next boot
/// finds it again.
pub(super) fn give_persistent(builder: &mut Builder, info: &BootInfo) {
    let Some(region) = info.persistent() else { return };
    let attrs = region.node as u16 & RamAttrs::NODE | RamAttrs::PERSISTENT.0;
    let (ty, bytes) = (CapType::Ram as u8, region.end - region.start);
    let slot = builder.fixed(slots::PERSISTENT);
    let cap = memory_cap(ty, Rights::ALL, attrs, region.start, bytes);
    builder.local.caps.db.insert(slot, cap);
}

/// The persistent memory that is only read: a Frame without the right to write, so that nobody can come to have that right. What
/// is made of it can be taken back.
pub(super) fn give_read_only(builder: &mut Builder, info: &BootInfo) {
    let Some(region) = info.read_only() else { return };
    let attrs = region.node as u16 & RamAttrs::NODE | RamAttrs::PERSISTENT.0;
    let (ty, bytes) = (CapType::Frame as u8, region.end - region.start);
    let slot = builder.fixed(slots::IMAGE);
    let rights = Rights::READ.or(Rights::EXEC).or(Rights::REVOKE);
    let cap = memory_cap(ty, rights, attrs, region.start, bytes);
    builder.local.caps.db.insert(slot, cap);
}

/// PhysAddr for tables of the firmware, and registers of devices.
pub(super) fn give_devices(builder: &mut Builder, info: &BootInfo) -> Result<u32, Error> {
    let node = builder.cnode(BOOT_DEVICES_L1)?;
    let mut count = 0;
    for region in info.memory.as_slice() {
        if region.kind != RegionKind::Acpi {
            continue;
        }
        let attrs = region.node as u16 & RamAttrs::NODE;
        let (start, end) = (region.start & !(PAGE - 1), region.end.next_multiple_of(PAGE));
        let overlaps = builder.local.caps.db.overlapping(
            crate::cap::MEMORY,
            start,
            end - start,
            mdb::Class::Objects,
        );
        if overlaps.count() > 0 || count == L2_SLOTS {
            continue;
        }
        let ty = CapType::PhysAddr as u8;
        let cap = memory_cap(ty, Rights::ALL, attrs, start, end - start);
        builder.local.caps.db.insert(slot_at(node, count), cap);
        count += 1;
    }
    let windows = info.windows.as_slice();
    let is_apart =
        |page: u64| page != 0 && !windows.iter().any(|&(start, end)| start <= page && page < end);
    let timer = Some((info.timer, info.timer + PAGE)).filter(|_| is_apart(info.timer));
    for (start, end) in windows.iter().copied().chain(timer).take((L2_SLOTS - count) as usize) {
        let cap = memory_cap(CapType::PhysAddr as u8, Rights::ALL, 0, start, end - start);
        builder.local.caps.db.insert(slot_at(node, count), cap);
        count += 1;
    }
    Ok(count)
}

pub(super) fn map_boot_info(
    builder: &mut Builder,
    info: &BootInfo,
    ram_caps: u32,
    device_caps: u32,
) -> Result<(), Error> {
    let frame = builder.frame(PAGE)?;
    let text = info.cmdline().as_bytes();
    let mut cmdline = [0; 2048];
    let used = text.len().min(cmdline.len());
    cmdline[..used].copy_from_slice(&text[..used]);
    let facts = facts(info);
    let regions = || info.memory.as_slice().iter().filter(|r| r.kind.is_volatile());
    let mut nodes = [0; MAX_CORES];
    for (place, core) in nodes.iter_mut().zip(info.cores.as_slice()) {
        *place = core.node as u8;
    }
    let shares = info.shares.iter().enumerate().filter(|(_, share)| !share.is_empty());
    let page = abi::boot::BootInfo {
        archive_bytes: info.archive.end - info.archive.start,
        archive_base: info.archive.start,
        ram_caps,
        device_caps,
        tsc_hz: facts.tsc_hz,
        epoch_ns: facts.epoch_ns,
        cores: info.cores.as_slice().len() as u32,
        core: builder.local.core.id.index() as u32,
        cmdline_len: used as u32,
        caches_persist: u32::from(info.caches_persist),
        ram_bytes: regions().map(|r| r.end - r.start).sum(),
        ram_end: regions().map(|r| r.end).max().unwrap_or(0),
        first_domains: shares.fold(BOOT_CORE.bit(), |set, (core, _)| set | 1 << core),
        channel_bytes: info.channels.end - info.channels.start,
        share: [0; 4],
        swap: [0; 4],
        timer: info.timer,
        nodes,
        cmdline,
    };
    mem::write_value(frame.cap().base, page);
    builder.map(frame, BOOT_INFO, MapFlags::READ)
}

pub(super) fn make_dispatcher(builder: &mut Builder, entry: u64) -> Result<DcbRef, Error> {
    let frame = builder.frame(PAGE)?;
    builder.map(frame, NATIVE_FRAME, MapFlags::READ.or(MapFlags::WRITE))?;
    let shared = builder.fixed(slots::FRAME);
    builder.local.caps.copy(frame, shared)?;
    let base = builder.pool.take(PAGE)?;
    Dcb::init(base, builder.local.core.id);
    let slot = builder.fixed(slots::DISPATCHER);
    builder.local.caps.db.insert(slot, object(CapType::Dispatcher, base, PAGE));
    let dcb = Obj::<Dcb>::of(&slot.cap()).ok_or(Error::NoMemory)?;
    let settings = Settings {
        cspace: Some(builder.fixed(slots::ROOT)),
        vspace: Some(builder.top),
        frame: Some(shared),
        frame_va: NATIVE_FRAME,
        ..Settings::default()
    };
    configure(builder.local, dcb, dcb, settings)?;
    builder.local.caps.set_first(dcb);
    dcb.ctx.enter(entry);
    dcb.ctx.rsp.set(NATIVE_STACK_TOP);
    dcb.ctx.rdi.set(NATIVE_FRAME);
    Ok(dcb)
}
