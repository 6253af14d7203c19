//! The PVH start information: what the loader tells.
//!
//! Read once, through the direct map of the boot page tables (which covers 4 GiB), and copied: the
//! memory that it lies in is given away afterwards.

use super::memory::phys_to_virt;
use crate::arch::boot_info::{BootInfo, Region, RegionKind, MAX_CMDLINE};

const MAGIC: u32 = 0x336e_c578;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    cmdline: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct Module {
    start: u64,
    size: u64,
    cmdline: u64,
    reserved: u64,
}

#[repr(C)]
struct MemoryMapEntry {
    start: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// `count` things at physical address `pa`.
///
/// # Safety
/// The loader put them there, and nothing has written there since.
unsafe fn at<T>(pa: u64, count: usize) -> &'static [T] {
    if pa == 0 || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; the boot tables map the first 4 GiB.
    unsafe { core::slice::from_raw_parts(phys_to_virt(pa).cast(), count) }
}

/// Fills in the memory map, command line and archive. Returns the physical address of the root of
/// the ACPI tables, 0 if the loader does not know it.
///
/// # Safety
/// `start_info` is what the loader passed, untouched.
pub unsafe fn read(start_info: u64, info: &mut BootInfo) -> u64 {
    // SAFETY: the caller's promise.
    let start: &StartInfo = unsafe { &at(start_info, 1)[0] };
    assert!(start.magic == MAGIC && start.version >= 1, "not started by a PVH loader");
    // SAFETY: as above, for everything that the start information points to.
    unsafe {
        let entries: &[MemoryMapEntry] = at(start.memory_map, start.memory_map_entries as usize);
        for entry in entries {
            info.add_memory(region(entry));
        }
        info.set_cmdline(until_nul(start.cmdline));
        let modules: &[Module] = at(start.module_list, start.modules as usize);
        if let Some(module) = modules.first() {
            info.archive = module.start..module.start.saturating_add(module.size);
        }
    }
    start.rsdp
}

fn region(entry: &MemoryMapEntry) -> Region {
    let kind = match entry.kind {
        1 => RegionKind::Usable,
        3 | 4 => RegionKind::Acpi,
        _ => RegionKind::Reserved,
    };
    Region { start: entry.start, end: entry.start.saturating_add(entry.size), kind, node: 0 }
}

/// The bytes at `pa` up to a NUL, at most [`MAX_CMDLINE`].
///
/// # Safety
/// As [`at`], for as many bytes.
unsafe fn until_nul(pa: u64) -> &'static [u8] {
    // SAFETY: the caller's promise.
    let bytes: &[u8] = unsafe { at(pa, MAX_CMDLINE) };
    let length = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..length]
}
