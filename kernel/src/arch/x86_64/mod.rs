//! The bare x86-64 machine.
//!
//! [`start`] brings the boot core from the first Rust instruction to a state in which domains can
//! run; the order of its steps is the order in which they depend on each other.

mod apic;
mod boot;
mod clock;
mod cpu;
mod entry;
mod firmware;
mod fpu;
mod iommu;
mod maps;
mod memory;
mod pages;
mod perf;
mod persist;
mod port;
mod pvh;
mod smp;
mod tables;
#[cfg(tessera_trace)]
mod trace;
mod trap;
mod zeros;

use super::{Core, Handlers};
use crate::arch::boot_info::BootInfo;
use crate::arch::log;
use memory::{BootPages, Image};

pub use apic::{eoi, irq_mask, irq_message, irq_unmask, send_ipi, timer_set};
pub use apic::{IRQS, VECTOR_IPI, VECTOR_IRQ0, VECTOR_TIMER};
pub use cpu::{
    canonical, has_fsgsbase, read_fs_base, read_gs_base, relax, take_debug_status, tsc,
    write_breakpoints, write_fs_base, write_gs_base,
};
pub use entry::{idle, resume};
pub use fpu::{fpu_area_size, fpu_init_image, fpu_restore, fpu_sanitize, fpu_save};
pub use fpu::{vectors_allow, vectors_forbid};
pub use iommu::{device_context, forget_devices, has_iommu, next_fault, set_device_context};
pub use maps::{
    answer_maps, for_each_shown, has_hidden, hide, is_shown, is_sound, join_maps, maps,
    maps_counters, seal, share, sharers, show,
};
pub use maps::{lend_at_start, take_hidden, unshare, was_read, CoreMaps, Maps, SPARSE};
pub use memory::{
    copy_kernel_half, flush_page, flush_tlb, kernel_root, page_of_zeros, root, write_root,
};
pub use memory::{is_memory, phys_to_virt, root_level, user_end, virt_to_phys};
pub use pages::{copy, copy_bytes, is_zero, zero_page};
pub use perf::{perf_facts, perf_read, perf_start};
pub use persist::{write_back_fence, write_back_line};
pub use port::{io_in, io_out, shutdown, shutdown_after_panic, LogLock, LogPort};
pub use smp::{online, start_all};
pub use trap::{enter_panic, report_panic};
pub use zeros::table_of_zeros;

/// What a core's hardware needs in memory.
pub struct Hw {
    tables: tables::Tables,
    timer: apic::Timer,
    features: cpu::Features,
}

impl Hw {
    pub(super) fn new() -> Self {
        let features = cpu::Features::default();
        Hw { tables: tables::Tables::new(), timer: apic::Timer::Deadline, features }
    }
}

/// Sets the machine up, and calls [`Handlers::start`] on the boot core's own stack.
///
/// # Safety
/// Called once, by the entry code, with what the loader passed.
pub unsafe fn start<H: Handlers>(start_info: u64) -> ! {
    LogPort::init();
    log!("Tessera {}", env!("CARGO_PKG_VERSION"));
    let mut info = BootInfo::new();
    // SAFETY: the caller's promise.
    let rsdp = unsafe { pvh::read(start_info, &mut info) };
    let controllers = firmware::read(rsdp, &mut info);
    let features = cpu::Features::detect();
    cpu::enable(&features);
    pages::init(fpu::init(&features));

    let mut pages = BootPages::new(&info);
    memory::build(&info, &mut pages, &features);
    zeros::make_tables();
    #[cfg(tessera_trace)]
    trace::init(&info, &mut pages);
    let core = smp::make_core::<H>(0, 0, &mut pages);
    core.head.hw.features = features;
    // SAFETY: made for this core.
    unsafe { smp::use_core::<H>(core) };
    apic::init(controllers.local_apic, &features, &mut pages);
    apic::init_io(&controllers.routing, &mut pages);
    if let Some(unit) = &controllers.iommu {
        iommu::init(unit, &mut pages);
    }
    core.head.apic_id = apic::id();
    put_boot_core_first(&mut info, core.head.apic_id);
    read_clocks(&mut info, core, &features);
    smp::prepare::<H>(&info, core, &mut pages);

    let info = pages.keep(info);
    memory::record(info, &pages);
    log_summary(info, &features);
    entry::call_on_stack(core, info, H::start)
}

fn put_boot_core_first(info: &mut BootInfo, apic_id: u32) {
    let cores = info.cores.as_mut_slice();
    if let Some(place) = cores.iter().position(|c| c.apic_id == apic_id) {
        cores[..=place].rotate_right(1);
    }
}

fn read_clocks<L>(info: &mut BootInfo, core: &mut Core<L>, features: &cpu::Features) {
    let rates = clock::measure(features, apic::timer_ticks);
    core.head.hw.timer = apic::Timer::new(features, rates);
    core.head.hw.timer.start();
    info.tsc_hz = rates.tsc_hz;
    info.epoch_seconds = clock::epoch_seconds();
    info.epoch_tsc = tsc();
}

fn log_summary(info: &BootInfo, features: &cpu::Features) {
    let image = Image::get();
    log!("kernel at {:#x}..{:#x}, {features:?}", image.start, image.end);
    log!("{} cores, TSC at {} kHz", info.cores.as_slice().len(), info.tsc_hz / 1000);
    if let Some(region) = info.persistent() {
        let caches = if info.caches_persist { "with" } else { "without" };
        log!("persistent memory at {:#x}..{:#x}, {caches} caches", region.start, region.end);
    }
    if let Some(region) = info.read_only() {
        log!("memory that is only read at {:#x}..{:#x}", region.start, region.end);
    }
}
