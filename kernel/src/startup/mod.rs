//! The first domain of a core: all its memory becomes capabilities, and the domain gets them.
//!
//! On the boot core that is `init`, which gets everything but the [`shares`] of the other cores; there
//! it is `spawnd`, if the boot archive has it. What the domain itself is made of comes from the
//! end of the largest piece of free memory, or of the share; everything else that is free becomes
//! home RAM. Its CSpace:
//!
//! | root index | |
//! |---|---|
//! | 0 | the slots that every domain has, [`abi::slots`] |
//! | [`BOOT_RAM_L1`](abi::slots::BOOT_RAM_L1) | home RAM |
//! | [`BOOT_DEVICES_L1`](abi::slots::BOOT_DEVICES_L1) | PhysAddr of what is not RAM |
//! | 3 to 15 | its frames, page tables and Mappings, in the order in which they were made |

mod builder;
mod contents;
mod handlers;

use crate::arch;
use crate::arch::boot_info::{BootInfo, RegionKind};
use crate::arch::log;
use crate::cap::{CapExt, MEMORY};
use crate::cores::CoreId;
use crate::dispatch::Facts;
use crate::driver::{Core, CpuDriver};
use crate::object::{mem, DcbRef};
use crate::occupancy::OCCUPANCY;
use crate::shares;
use builder::{Builder, Error, Pool};
pub use handlers::Kernel;

use contents::IDS_OF_CORE;
use contents::{give_devices, give_memory, give_persistent, give_read_only};
use contents::{load, make_dispatcher, map_archive, map_boot_info};
use core::ops::Range;
use core::sync::atomic::Ordering;
use paging::PAGE;

const BOOT_CORE: CoreId = CoreId::BOOT;
/// The program that is started on the boot core unless the command line names another (`init=`).
const DEFAULT_INIT: &str = "boot/init";
/// Likewise for every other core (`monitor=`).
const DEFAULT_MONITOR: &str = "boot/spawnd";

/// Starts the first domain of the boot core, and the other cores.
fn start_init(core: &'static mut Core, info: &'static mut BootInfo) -> ! {
    if monitor(info).is_ok() {
        shares::divide(info);
        mem::zero(info.channels.start, info.channels.end - info.channels.start);
    }
    let info: &'static BootInfo = info;
    prepare(&mut core.local, info);
    match build(&mut core.local, info) {
        Ok(dcb) => {
            core.local.sched.wake(dcb);
            go_online(core);
            arch::start_all::<Kernel>(info);
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
fn start_core(core: &'static mut Core, info: &'static BootInfo) -> ! {
    prepare(&mut core.local, info);
    go_online(core);
    if !info.shares[core.local.core.id.index()].is_empty() {
        match build(&mut core.local, info) {
            Ok(dcb) => core.local.sched.wake(dcb),
            Err(error) => log!("core {} has no first domain: {error}", core.head.id),
        }
    }
    arch::was_read(&info.archive);
    run(core)
}

/// What the kernel of a machine without a direct map of user memory sees no more, now that this core's first domain is
/// there. `taken`: what that is made of. The boot core decides about all memory, before the others begin; they have
/// yet to read the archive.
fn hide_memory(local: &CpuDriver, info: &BootInfo, taken: Range<u64>) {
    /// Firmware's, and where the other cores begin.
    const LOW_MEMORY: Range<u64> = 0..1 << 20;
    /// The image, the memory of the cores, and two more.
    const MOST: usize = 16;
    if !arch::SPARSE {
        return;
    }
    if local.core.id == BOOT_CORE {
        let others = info.cores.as_slice().len() - 1;
        arch::lend_at_start(&info.archive, others as u32);
        let mut kept = [const { 0..0 }; MOST];
        let own = |kind| matches!(kind, RegionKind::Kernel | RegionKind::KernelData);
        let regions = info.memory.as_slice().iter().filter(|r| own(r.kind));
        let all = regions.map(|r| r.start..r.end).chain([LOW_MEMORY, taken]);
        kept.iter_mut().zip(all).for_each(|(place, range)| *place = range);
        arch::seal(&kept);
    }
    for frame in local.caps.db.iter(MEMORY).map(|slot| slot.cap()).filter(|cap| cap.is_frame()) {
        arch::hide(frame.base, frame.word);
    }
    arch::flush_tlb();
}

/// What a core needs before its first domain. The option `panic=N` makes core N fail here, for tests
/// of how that ends.
fn prepare(local: &mut CpuDriver, info: &BootInfo) {
    let number = info.option("panic").and_then(|number| number.parse().ok());
    assert!(number != Some(local.core.id.0), "the command line says so");
    local.sched.set_facts(facts(info));
    let cores = info.cores.as_slice();
    let node = cores[local.core.id.index()].node;
    let near = (0..).zip(cores).filter(|(_, core)| core.node == node);
    let near = near.fold(0, |set, (n, _)| set | CoreId(n).bit());
    local.set_node(node as u8);
    local.core.cores.get(local.core.id).place.near.store(near, Ordering::Relaxed);
    if let Some(policy) = info.option("tlb") {
        local.vm.set_policy(policy);
    }
    if let Some(unit) = info.option("occupancy") {
        local.sched.measure(&OCCUPANCY, unit == "turns");
    }
    local.caps.skip_ids(IDS_OF_CORE * local.core.id.index() as u64);
}

/// From now on this core takes interrupts, as soon as it leaves the kernel.
fn go_online(core: &Core) {
    core.local.core.cores.get(core.local.core.id).online.store(true, Ordering::Release);
    arch::join_maps(core.local.core.id.index());
}

#[cfg(target_os = "none")]
fn run(core: &mut Core) -> ! {
    crate::events::run(core)
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

/// Makes the first domain of this core.
fn build(local: &mut CpuDriver, info: &BootInfo) -> Result<DcbRef, Error> {
    let is_boot_core = local.core.id == BOOT_CORE;
    let end = Pool::new(local.core.id, info)?.0.end;
    let program = if is_boot_core { init(info)? } else { monitor(info)? };
    let (mut pool, from) = Pool::new(local.core.id, info)?;
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
        give_persistent(&mut builder, info);
        give_read_only(&mut builder, info);
    }
    map_boot_info(&mut builder, info, ram, devices)?;
    let dcb = make_dispatcher(&mut builder, entry)?;
    // Nothing is taken from the pool from here on: the rest of it is the first RAM capability.
    builder.give_pool(from, info)?;
    let taken = builder.pool.end..end;
    hide_memory(local, info, taken);
    Ok(dcb)
}

/// Gives the database a directory of the memory.
fn divide_memory(local: &mut CpuDriver, info: &BootInfo, pool: &mut Pool) -> Result<(), Error> {
    let usable = info.memory.as_slice().iter().filter(|r| r.kind == RegionKind::Usable);
    let top = match local.core.id {
        BOOT_CORE => usable.map(|r| r.end).max().unwrap_or(0),
        _ => pool.end,
    };
    let entries = mdb::directory_entries((top / mdb::PIECE) as usize + 1);
    let bytes = (entries * size_of::<mdb::Entry>()) as u64;
    let base = pool.take(bytes.next_multiple_of(PAGE))?;
    // SAFETY: the pool gives zeros that nobody else gets; zeros are an entry of an empty directory.
    local.caps.db.divide_memory(top, unsafe { mem::slice(base, entries) });
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
