//! The first domain of a core: all its memory becomes capabilities, and the domain gets them.
//!
//! On the boot core that is `init`, which gets everything but the [`shares`] of the
//! other cores; there it is `spawnd`, if the boot archive has it. What the domain itself is made
//! of comes from the end of the largest piece of free memory, or of the share; everything else that
//! is free becomes home RAM. Its CSpace:
//!
//! | root index | |
//! |---|---|
//! | 0 | the slots that every domain has, [`abi::slots`] |
//! | [`BOOT_RAM_L1`] | home RAM |
//! | [`BOOT_DEVICES_L1`] | PhysAddr of what is not RAM |
//! | 3 to 15 | its frames, page tables and Mappings, in the order in which they were made |

use crate::arch::{self, Core};
use crate::boot_info::{BootInfo, Region, RegionKind, MAX_CORES};
use crate::cap::mem::{self, slot_at};
use crate::cap::policy::SCALE;
use crate::cap::retype::{home_ram, install_kernel_half};
use crate::cap::{attr, memory_cap, Obj, SlotRef};
use crate::cores::CoreId;
use crate::dispatch::{Dcb, DcbRef, Facts, Local, Settings};
use crate::log;
use crate::shares;
use crate::vspace::MapArgs;
use abi::boot::{ARCHIVE_VA, BOOT_INFO};
use abi::layout::{NATIVE_FRAME, NATIVE_STACK_BYTES, NATIVE_STACK_TOP};
use abi::slots::{self, BOOT_DEVICES_L1, BOOT_RAM_L1};
use captypes::invocations::MapFlags;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{CapAddr, CapType, RamAttrs, Rights, Status};
use core::sync::atomic::Ordering;
use mdb::RawCap;
use paging::{Level, PAGE};

const BOOT_CORE: CoreId = CoreId(0);
/// Bytes of the root CNode of `init`.
const ROOT_BYTES: u64 = 16 * 1024;
/// First root index for what `init` is made of.
const FIRST_OWN_L1: u32 = 3;
/// Root indexes from here on belong to `init`.
const END_OWN_L1: u32 = 16;
/// Numbers of Ids: as many as the database can tell apart.
const IDS: u64 = 1 << 39;
/// Of these, every core has a range of its own.
const IDS_OF_CORE: u64 = IDS / MAX_CORES as u64;
/// The program that is started on the boot core unless the command line names another (`init=`).
const DEFAULT_INIT: &str = "boot/init";
/// Likewise for every other core (`monitor=`).
const DEFAULT_MONITOR: &str = "boot/spawnd";

/// Starts the first domain of the boot core, and the other cores.
pub extern "C" fn start_init(core: &'static mut Core, info: &'static mut BootInfo) -> ! {
    if monitor(info).is_ok() {
        shares::divide(info);
        mem::zero(info.channels.start, info.channels.end - info.channels.start);
    }
    let info: &'static BootInfo = info;
    prepare(&mut core.local, info);
    match build(&mut core.local, info) {
        Ok(dcb) => {
            core.local.wake(dcb);
            go_online(core);
            arch::start_all(info);
            run(core)
        }
        Err(error) => {
            log!("init cannot be started: {error}");
            log!("@exit 125");
            arch::shutdown()
        }
    }
}

/// Where every other core begins.
pub fn start_core(core: &'static mut Core, info: &'static BootInfo) -> ! {
    prepare(&mut core.local, info);
    go_online(core);
    if !info.shares[core.local.id.index()].is_empty() {
        match build(&mut core.local, info) {
            Ok(dcb) => core.local.wake(dcb),
            Err(error) => log!("core {} has no first domain: {error}", core.id),
        }
    }
    run(core)
}

/// What a core needs before its first domain. The option `panic=N` makes core N fail here, for tests
/// of how that ends.
fn prepare(local: &mut Local, info: &BootInfo) {
    let number = info.option("panic").and_then(|number| number.parse().ok());
    assert!(number != Some(local.id.0), "the command line says so");
    local.set_facts(facts(info));
    local.node = info.cores.as_slice()[local.id.index()].node as u8;
    if let Some(policy) = info.option("tlb") {
        local.tlb.set_policy(policy);
    }
    local.next_id += IDS_OF_CORE * local.id.index() as u64;
}

/// From now on this core takes interrupts, as soon as it leaves the kernel.
fn go_online(core: &Core) {
    core.local.cores.get(core.local.id).online.store(true, Ordering::Release);
}

#[cfg(target_os = "none")]
fn run(core: &mut Core) -> ! {
    crate::dispatch::run(core)
}

#[cfg(not(target_os = "none"))]
fn run(_: &mut Core) -> ! {
    arch::shutdown()
}

fn facts(info: &BootInfo) -> Facts {
    const NS: u128 = 1_000_000_000;
    let hz = u128::from(info.tsc_hz.max(1));
    let since = u128::from(info.epoch_tsc) * NS / hz;
    let epoch_ns = u128::from(info.epoch_seconds) * NS;
    Facts { tsc_hz: info.tsc_hz, epoch_ns: epoch_ns.saturating_sub(since) as u64 }
}

/// Why there is no first domain.
enum Error {
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
struct Pool {
    start: u64,
    end: u64,
}

impl Pool {
    /// The share of a core; for the boot core, the largest piece.
    fn new(id: CoreId, info: &BootInfo) -> Result<(Pool, u64), Error> {
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
    fn take(&mut self, bytes: u64) -> Result<u64, Error> {
        if bytes > self.end.saturating_sub(self.start) {
            return Err(Error::NoMemory);
        }
        self.end -= bytes;
        mem::zero(self.end, bytes);
        Ok(self.end)
    }
}

/// The domain under construction.
struct Builder<'a> {
    local: &'a mut Local,
    pool: Pool,
    /// Physical address of the root CNode.
    root: u64,
    /// The next slot for what it is made of.
    next: (u32, u32),
    /// The table of level 4.
    vspace: SlotRef,
    /// The root table: the same, or one of level 5.
    top: SlotRef,
}

impl<'a> Builder<'a> {
    fn new(local: &'a mut Local, mut pool: Pool) -> Result<Self, Error> {
        let root = pool.take(ROOT_BYTES)?;
        let first = pool.take(L2_BYTES)?;
        local.db.insert(slot_at(root, 0), object(CapType::L2CNode, first, L2_BYTES));
        let at = |addr: CapAddr| slot_at(first, addr.l2());
        local.db.insert(at(slots::ROOT), object(CapType::L1CNode, root, ROOT_BYTES));
        local.db.insert(at(slots::VSPACE), object(CapType::Pml4, pool.take(PAGE)?, PAGE));
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
    fn add_top_level(&mut self) -> Result<(), Error> {
        let base = self.pool.take(PAGE)?;
        self.top = self.fixed(slots::ROOT_TABLE);
        self.local.db.insert(self.top, object(CapType::Pml5, base, PAGE));
        let flags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0 | MapFlags::EXEC.0);
        let args = MapArgs { entry: 0, count: 1, offset: 0, flags };
        let mapping = self.fixed(slots::ROOT_TABLE_MAPPING);
        Ok(self.local.map(self.top, self.vspace, args, mapping)?)
    }

    fn fixed(&self, addr: CapAddr) -> SlotRef {
        slot_at(slot_at(self.root, 0).cap().base, addr.l2())
    }

    fn cnode(&mut self, l1: u32) -> Result<u64, Error> {
        let slot = slot_at(self.root, l1);
        if slot.is_empty() {
            let node = self.pool.take(L2_BYTES)?;
            self.local.db.insert(slot, object(CapType::L2CNode, node, L2_BYTES));
        }
        Ok(slot.cap().base)
    }

    /// An empty slot for a part of the domain.
    fn slot(&mut self) -> Result<SlotRef, Error> {
        let (l1, l2) = self.next;
        if l1 == END_OWN_L1 {
            return Err(Error::NoMemory);
        }
        let node = self.cnode(l1)?;
        self.next = if l2 + 1 == L2_SLOTS { (l1 + 1, 0) } else { (l1, l2 + 1) };
        Ok(slot_at(node, l2))
    }

    fn frame(&mut self, bytes: u64) -> Result<SlotRef, Error> {
        let (slot, base) = (self.slot()?, self.pool.take(bytes)?);
        self.local.db.insert(slot, object(CapType::Frame, base, bytes));
        Ok(slot)
    }

    /// The table of `level` in which `va` is translated, made if need be.
    fn table(&mut self, va: u64, level: Level) -> Result<SlotRef, Error> {
        let mut table = self.vspace;
        let mut at = Level::Pml4;
        while let (true, Some(below)) = (at > level, at.below()) {
            let index = at.index(va) as u32;
            let entry = paging::Entry::from_bits(mem::Table::at(table.cap().base).get(index));
            let ty = CapType::table_of_level(below as u8).unwrap_or(CapType::Pt);
            table = if entry.is_present() {
                let key = object(ty, entry.address(), PAGE);
                self.local.db.find(&key).ok_or(Error::NoMemory)?
            } else {
                let (slot, mapping) = (self.slot()?, self.slot()?);
                let base = self.pool.take(PAGE)?;
                self.local.db.insert(slot, object(ty, base, PAGE));
                let flags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0 | MapFlags::EXEC.0);
                let args = MapArgs { entry: index, count: 1, offset: 0, flags };
                self.local.map(table, slot, args, mapping)?;
                slot
            };
            at = below;
        }
        Ok(table)
    }

    /// Maps all of a frame at `va`.
    fn map(&mut self, frame: SlotRef, va: u64, flags: MapFlags) -> Result<(), Error> {
        let pages = frame.cap().word / PAGE;
        let mut done = 0;
        while done < pages {
            let at = va + done * PAGE;
            let table = self.table(at, Level::Pt)?;
            let entry = Level::Pt.index(at) as u32;
            let count = (pages - done).min(u64::from(512 - entry)) as u32;
            let mapping = self.slot()?;
            let args = MapArgs { entry, count, offset: done * PAGE, flags };
            self.local.map(table, frame, args, mapping)?;
            done += u64::from(count);
        }
        Ok(())
    }
}

fn object(ty: CapType, base: u64, bytes: u64) -> RawCap {
    memory_cap(ty as u8, Rights::ALL, 0, base, bytes)
}

fn build(local: &mut Local, info: &BootInfo) -> Result<DcbRef, Error> {
    let is_boot_core = local.id == BOOT_CORE;
    let program = if is_boot_core { init(info)? } else { monitor(info)? };
    let (mut pool, from) = Pool::new(local.id, info)?;
    if info.option("mdb") != Some("undivided") {
        divide_memory(local, info, &mut pool)?;
    }
    let mut builder = Builder::new(local, pool)?;
    let entry = load(&mut builder, program)?;
    builder.add_singletons();
    map_archive(&mut builder, info)?;
    builder.add_channels(info);
    let (mut ram, mut devices) = (1, 0);
    if is_boot_core {
        ram = give_memory(&mut builder, info, from)?;
        devices = give_devices(&mut builder, info)?;
    }
    map_boot_info(&mut builder, info, ram, devices)?;
    let dcb = make_dispatcher(&mut builder, entry)?;
    // Nothing is taken from the pool from here on: the rest of it is the first RAM capability.
    builder.give_pool(from, info)?;
    Ok(dcb)
}

/// Gives the database a directory of the memory.
fn divide_memory(local: &mut Local, info: &BootInfo, pool: &mut Pool) -> Result<(), Error> {
    let usable = info.memory.as_slice().iter().filter(|r| r.kind == RegionKind::Usable);
    let top = match local.id {
        BOOT_CORE => usable.map(|r| r.end).max().unwrap_or(0),
        _ => pool.end,
    };
    let entries = mdb::directory_entries((top / mdb::PIECE) as usize + 1);
    let bytes = (entries * size_of::<mdb::Entry>()) as u64;
    let base = pool.take(bytes.next_multiple_of(PAGE))?;
    // SAFETY: the pool gives zeros that nobody else gets; zeros are an entry of an empty directory.
    local.db.divide_memory(top, unsafe { mem::slice(base, entries) });
    Ok(())
}

/// The program of the boot core's first domain.
fn init(info: &BootInfo) -> Result<&'static [u8], Error> {
    program(info, info.option("init").unwrap_or(DEFAULT_INIT))
}

/// The program of the others'.
fn monitor(info: &BootInfo) -> Result<&'static [u8], Error> {
    program(info, info.option("monitor").unwrap_or(DEFAULT_MONITOR))
}

fn program(info: &BootInfo, path: &str) -> Result<&'static [u8], Error> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let file = bootarchive::find(archive(info)?, path).map_err(Error::Damaged)?;
    Ok(file.ok_or(Error::NotFound)?.data)
}

fn archive(info: &BootInfo) -> Result<&'static [u8], Error> {
    if info.archive.is_empty() {
        return Err(Error::NoArchive);
    }
    // SAFETY: the loader's module, which the memory map keeps apart; it is only ever given away
    // as a Frame without the right to write.
    Ok(unsafe { mem::bytes(info.archive.start, info.archive.end - info.archive.start) })
}

/// Loads the segments of a program and gives it a stack; returns its entry point.
fn load(builder: &mut Builder, file: &[u8]) -> Result<u64, Error> {
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
    fn add_singletons(&mut self) {
        let all = |ty, count: u64| RawCap {
            ty: ty as u8,
            rights: Rights::ALL.0,
            attrs: 0,
            aux: 0,
            base: 0,
            word: count << SCALE,
        };
        if self.local.id == BOOT_CORE {
            let (io, irq) = (self.fixed(slots::IO), self.fixed(slots::IRQ));
            self.local.db.insert(io, all(CapType::Io, 1 << 16));
            self.local.db.insert(irq, all(CapType::Irq, arch::IRQS as u64));
        }
        self.local.db.insert(self.fixed(slots::KERNEL), all(CapType::Kernel, 0));
        let (id, perf) = (self.fixed(slots::ID), self.fixed(slots::PERFMON));
        let ids = self.local.id.index() as u64 * IDS_OF_CORE;
        self.local.db.insert(id, RawCap { base: ids << SCALE, ..all(CapType::Id, IDS_OF_CORE) });
        // Another place than the kernel's among the things without extent.
        self.local.db.insert(perf, RawCap { base: 1 << SCALE, ..all(CapType::PerfMon, 0) });
    }

    /// A Frame with the channels between the monitors.
    fn add_channels(&mut self, info: &BootInfo) {
        let core::ops::Range { start, end } = info.channels;
        if start < end {
            let slot = self.fixed(slots::CHANNELS);
            // All cores have copies from the start; the boot core's are the owner's.
            let own = self.local.id == BOOT_CORE;
            let attrs = if own { attr::REMOTE_COPIES } else { attr::FOREIGN };
            let frame = object(CapType::Frame, start, end - start);
            self.local.db.insert(slot, RawCap { attrs, ..frame });
        }
    }

    /// The first slot of home RAM: what is left of the pool.
    fn give_pool(&mut self, from: u64, info: &BootInfo) -> Result<(), Error> {
        let node = node_of(info, from);
        let bytes = self.pool.end - self.pool.start;
        let slot = slot_at(self.cnode(BOOT_RAM_L1)?, 0);
        self.local.db.insert(slot, home_ram(self.pool.start, bytes, node));
        Ok(())
    }
}

fn node_of(info: &BootInfo, start: u64) -> u8 {
    let mut regions = info.memory.as_slice().iter();
    regions.find(|r| (r.start..r.end).contains(&start)).map_or(0, |r| r.node as u8)
}

/// The archive: a Frame, mapped read-only.
fn map_archive(builder: &mut Builder, info: &BootInfo) -> Result<(), Error> {
    let start = info.archive.start & !(PAGE - 1);
    let bytes = info.archive.end.next_multiple_of(PAGE) - start;
    let slot = builder.fixed(slots::ARCHIVE);
    let rights = Rights::READ.or(Rights::EXEC);
    builder.local.db.insert(slot, memory_cap(CapType::Frame as u8, rights, 0, start, bytes));
    builder.map(slot, ARCHIVE_VA, MapFlags::READ)
}

/// Home RAM for all free memory but the piece that begins at `pool`, in slots from 1 on; returns
/// how many slots there are with slot 0.
fn give_memory(builder: &mut Builder, info: &BootInfo, pool: u64) -> Result<u32, Error> {
    let node = builder.cnode(BOOT_RAM_L1)?;
    let mut count = 1;
    for region in info.memory.as_slice() {
        let (start, end) = (region.start.next_multiple_of(PAGE), region.end & !(PAGE - 1));
        if region.kind != RegionKind::Usable || region.start == pool || start >= end {
            continue;
        }
        if count < L2_SLOTS {
            let cap = home_ram(start, end - start, region.node as u8);
            builder.local.db.insert(slot_at(node, count), cap);
            count += 1;
        }
    }
    Ok(count)
}

/// PhysAddr for tables of the firmware and memory that keeps its contents.
fn give_devices(builder: &mut Builder, info: &BootInfo) -> Result<u32, Error> {
    let node = builder.cnode(BOOT_DEVICES_L1)?;
    let mut count = 0;
    for region in info.memory.as_slice() {
        let Some(attrs) = device_attrs(region) else { continue };
        let (start, end) = (region.start & !(PAGE - 1), region.end.next_multiple_of(PAGE));
        let overlaps = builder.local.db.overlapping(
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
        builder.local.db.insert(slot_at(node, count), cap);
        count += 1;
    }
    Ok(count)
}

fn device_attrs(region: &Region) -> Option<u16> {
    let node = region.node as u16 & RamAttrs::NODE;
    match region.kind {
        RegionKind::Acpi => Some(node),
        RegionKind::Persistent => Some((node | RamAttrs::PERSISTENT.0) & attr::INHERITED),
        _ => None,
    }
}

fn map_boot_info(
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
    let ram = |kind| !matches!(kind, RegionKind::Reserved | RegionKind::Persistent);
    let regions = info.memory.as_slice().iter().filter(|r| ram(r.kind));
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
        core: builder.local.id.index() as u32,
        cmdline_len: used as u32,
        reserved: 0,
        ram_bytes: regions.map(|r| r.end - r.start).sum(),
        first_domains: shares.fold(BOOT_CORE.bit(), |set, (core, _)| set | 1 << core),
        channel_bytes: info.channels.end - info.channels.start,
        nodes,
        cmdline,
    };
    mem::write_value(frame.cap().base, page);
    builder.map(frame, BOOT_INFO, MapFlags::READ)
}

fn make_dispatcher(builder: &mut Builder, entry: u64) -> Result<DcbRef, Error> {
    let frame = builder.frame(PAGE)?;
    builder.map(frame, NATIVE_FRAME, MapFlags::READ.or(MapFlags::WRITE))?;
    let shared = builder.fixed(slots::FRAME);
    builder.local.copy(frame, shared)?;
    let base = builder.pool.take(PAGE)?;
    Dcb::init(base, builder.local.id);
    let slot = builder.fixed(slots::DISPATCHER);
    builder.local.db.insert(slot, object(CapType::Dispatcher, base, PAGE));
    let dcb = Obj::<Dcb>::of(&slot.cap()).ok_or(Error::NoMemory)?;
    let settings = Settings {
        cspace: Some(builder.fixed(slots::ROOT)),
        vspace: Some(builder.top),
        frame: Some(shared),
        frame_va: NATIVE_FRAME,
        ..Settings::default()
    };
    builder.local.configure(dcb, dcb, settings)?;
    builder.local.first = Some(dcb);
    dcb.ctx.enter(entry);
    dcb.ctx.rsp.set(NATIVE_STACK_TOP);
    dcb.ctx.rdi.set(NATIVE_FRAME);
    Ok(dcb)
}
