//! What the kernel tells the first domain of a core (`init`, a monitor): a page at [`BOOT_INFO`],
//! read-only.

use crate::layout::NATIVE_IMAGE;

/// Where `init` finds its [`BootInfo`].
pub const BOOT_INFO: u64 = NATIVE_IMAGE - 0x10_0000;
/// Where `init` finds the boot archive, mapped read-only.
pub const ARCHIVE_VA: u64 = 0x10_0000_0000;

/// Most cores.
pub const MAX_CORES: usize = 64;

/// Everything that user mode must know about the machine.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BootInfo {
    /// Bytes of the boot archive (a cpio "newc" archive, contents aligned to 4 KiB).
    pub archive_bytes: u64,
    /// Physical address of the archive, so that files in it can be named by offset in `ARCHIVE`.
    pub archive_base: u64,
    /// RAM capabilities at [`crate::slots::BOOT_RAM_L1`], from slot 0.
    pub ram_caps: u32,
    /// PhysAddr capabilities at [`crate::slots::BOOT_DEVICES_L1`], from slot 0.
    pub device_caps: u32,
    /// Frequency of the time-stamp counter.
    pub tsc_hz: u64,
    /// Nanoseconds since 1970 when the time-stamp counter was zero.
    pub epoch_ns: u64,
    /// Cores that the firmware reports.
    pub cores: u32,
    /// The number of this one, from 0. Core 0 runs `init` and has most of the memory, all devices and
    /// all lines of interrupts.
    pub core: u32,
    /// Bytes used of `cmdline`.
    pub cmdline_len: u32,
    /// What of persistent memory ([`crate::slots::PERSISTENT`]) survives a power failure: 1, what was stored; 0, what was
    /// written back from the caches.
    pub caches_persist: u32,
    /// All usable RAM of the machine, in bytes, kernel image included.
    pub ram_bytes: u64,
    /// Where the last of it ends.
    pub ram_end: u64,
    /// Bit k: core k has memory and a first domain of its own.
    pub first_domains: u64,
    /// Bytes of the Frame at [`crate::slots::CHANNELS`], 0 if there is none.
    pub channel_bytes: u64,
    /// What is where in the registers at [`crate::slots::SHARE`]: in the copy that `init` gives to `unixd`. Zeros: there are none.
    pub share: [u64; 4],
    /// The same of the registers at [`crate::slots::SWAP`].
    pub swap: [u64; 4],
    /// Physical address of the page with the registers of the timer (HPET), or 0.
    pub timer: u64,
    /// NUMA nodes of the cores.
    pub nodes: [u8; MAX_CORES],
    /// The kernel command line.
    pub cmdline: [u8; 2048],
}

const _: () = assert!(core::mem::size_of::<BootInfo>() <= paging::PAGE as usize);
