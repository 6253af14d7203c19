//! Buffers for the function trace ([`trace::probe`]), one per core. Nothing here is in a build
//! without probes.

use super::cpu::{cpuid, msr, write_msr};
use super::memory::{self, BootPages};
use crate::arch::boot_info::BootInfo;
use crate::arch::log;
use trace::probe::{self, Header, ALIGNMENT, HEADER_BYTES};

/// Reserves the buffers of all cores, maps them for user mode too, and begins to record. The host
/// finds them by the line `@trace PHYSICAL-ADDRESS BYTES-PER-CORE CORES` in the log.
pub fn init(info: &BootInfo, pages: &mut BootPages) {
    const HAS_RDTSCP: u32 = 1 << 27;
    assert!(cpuid(0x8000_0001, 0).edx & HAS_RDTSCP != 0, "tracing needs the instruction rdtscp");
    let asked = info.option("trace").and_then(|bytes| bytes.parse().ok());
    let bytes = u64::max(asked.unwrap_or(probe::DEFAULT_BYTES), HEADER_BYTES);
    let bytes = bytes.next_multiple_of(ALIGNMENT);
    let cores = (info.cores.as_slice().len() as u64).clamp(1, probe::MOST_CORES);
    let pa = pages.take_uncleared(cores * bytes, ALIGNMENT);
    for core in 0..cores {
        let buffer = pa + core * bytes;
        // SAFETY: fresh memory that nobody else has, in the direct map.
        unsafe { memory::phys_to_virt(buffer).cast::<Header>().write(Header::new(bytes)) };
        memory::share_with_user_mode(
            probe::USER_WINDOW + core * probe::USER_STRIDE,
            buffer,
            bytes,
            pages,
        );
    }
    log!("@trace {pa:#x} {bytes} {cores}");
    init_core(0);
    // SAFETY: the direct map stays for ever; each core calls `init_core` before it traces, and is
    // taken for core 0 until then.
    unsafe { probe::start(memory::phys_to_virt(pa) as u64, bytes) };
    probe::calibrate();
}

/// Tells this core's probes its number.
pub fn init_core(number: u32) {
    // SAFETY: a processor with `rdtscp` has the register, whose value means nothing to it.
    unsafe { write_msr(msr::TSC_AUX, u64::from(number)) };
}
