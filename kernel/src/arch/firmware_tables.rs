//! The entries of four ACPI tables: SRAT (ACPI 6.5, 5.2.16), which core and which memory belongs to which
//! node; NFIT (5.2.26), where persistent memory is and what of it survives a power failure; DMAR, where the IOMMU is
//! (its entries are taken apart by [`vtd`]); and HPET (IA-PC HPET 1.0a, 3.2.4), where the registers of that timer are.
//!
//! The firmware is trusted to describe the machine, but not to do so without mistakes: whatever the bytes are,
//! nothing here panics, and persistent memory that contradicts anything else is not used.

use super::boot_info::{BootInfo, List, Region, RegionKind};
use core::ops::Range;
use paging::PAGE;

/// A little-endian number of `N` bytes at `at` in an entry, 0 behind its end.
fn number<const N: usize>(entry: &[u8], at: usize) -> u64 {
    let bytes = entry.get(at..at + N).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Calls `each` with the type and the bytes of every entry. `header`: the type and the length of
/// an entry, from its first bytes.
fn for_entries(mut left: &[u8], header: fn(&[u8]) -> (u64, u64), mut each: impl FnMut(u64, &[u8])) {
    while !left.is_empty() {
        let (kind, length) = header(left);
        let length = length as usize;
        if length == 0 || length > left.len() {
            return;
        }
        let (entry, rest) = left.split_at(length);
        each(kind, entry);
        left = rest;
    }
}

/// Nodes of cores and memory. After everything else that tells of memory.
pub fn read_srat(entries: &[u8], info: &mut BootInfo) {
    const CORE: u64 = 0;
    const CORE_X2APIC: u64 = 2;
    let header = |entry: &[u8]| (number::<1>(entry, 0), number::<1>(entry, 1));
    for_entries(entries, header, |kind, entry| match kind {
        CORE if number::<4>(entry, 4) & 1 != 0 => {
            let node = number::<1>(entry, 2) | number::<3>(entry, 9) << 8;
            set_core_node(info, number::<1>(entry, 3), node);
        }
        CORE_X2APIC if number::<4>(entry, 12) & 1 != 0 => {
            set_core_node(info, number::<4>(entry, 8), number::<4>(entry, 4));
        }
        _ => {}
    });
    // Where memory may be added later says nothing about what is there already.
    for may_be_added in [true, false] {
        for_entries(entries, header, |kind, entry| {
            set_memory_node(info, kind, entry, may_be_added)
        });
    }
}

fn set_core_node(info: &mut BootInfo, apic_id: u64, node: u64) {
    for core in info.cores.as_mut_slice() {
        if u64::from(core.apic_id) == apic_id {
            core.node = node as u32;
        }
    }
}

fn set_memory_node(info: &mut BootInfo, kind: u64, entry: &[u8], may_be_added: bool) {
    const MEMORY: u64 = 1;
    const ENABLED: u64 = 1;
    const HOT_PLUGGABLE: u64 = 2;
    let flags = number::<4>(entry, 28);
    if kind == MEMORY && flags & ENABLED != 0 && (flags & HOT_PLUGGABLE != 0) == may_be_added {
        let start = number::<8>(entry, 8);
        let end = start.saturating_add(number::<8>(entry, 16));
        info.set_node(start..end, number::<4>(entry, 2) as u32);
    }
}

/// Most ranges of persistent memory of which is known which overlap; further ones are ignored.
const MOST_RANGES: usize = 32;
/// Persistent memory is used in pieces of this size: a large page, and the least that a pool takes.
pub const PERSISTENT_UNIT: u64 = 2 << 20;
/// Below are registers of devices and the firmware, whatever the table says.
const LOWEST: u64 = 4 << 30;
/// The kernel's map has room for no more.
const HIGHEST: u64 = 1 << 46;

/// A piece of persistent memory as the table has it.
#[derive(Clone, Copy)]
struct Listed {
    start: u64,
    end: u64,
    /// The number by which other entries name it; zero: none.
    number: u64,
    /// Of a module that says that it stores nothing.
    read_only: bool,
}

const UNLISTED: Listed = Listed { start: 0, end: 0, number: 0, read_only: false };

/// Persistent memory. After everything else that tells where memory is. An entry is ignored that is too short, empty,
/// too high or too low, overlaps with another one, or with other memory.
pub fn read_nfit(entries: &[u8], info: &mut BootInfo) {
    const ADDRESS_RANGE: u64 = 0;
    const MODULE: u64 = 1;
    const PLATFORM_CAPABILITIES: u64 = 7;
    /// "The platform ensures the entire CPU store data path is flushed to persistent memory on system power loss."
    const CACHES_PERSIST: u64 = 1;
    let header = |entry: &[u8]| (number::<2>(entry, 0), number::<2>(entry, 2));
    let mut ranges: List<Listed, MOST_RANGES> = List::new(UNLISTED);
    let (mut yes, mut no) = (false, false);
    for_entries(entries, header, |kind, entry| match kind {
        ADDRESS_RANGE => {
            if let Some(Range { start, end }) = persistent_range(entry) {
                // What does not fit is not used.
                ranges.push(Listed { start, end, number: number::<2>(entry, 4), read_only: false });
            }
        }
        PLATFORM_CAPABILITIES if entry.len() >= 16 => {
            let says = number::<4>(entry, 8) & CACHES_PERSIST != 0;
            (yes, no) = (yes || says, no || !says);
        }
        _ => {}
    });
    // An entry about a module may stand before that of its range.
    for_entries(entries, header, |kind, entry| {
        if kind == MODULE && is_not_armed(entry) {
            let named = number::<2>(entry, 12);
            let ranges = ranges.as_mut_slice().iter_mut();
            let named = ranges.filter(|range| range.number == named && named != 0);
            named.for_each(|range| range.read_only = true);
        }
    });
    info.caches_persist = yes && !no;
    for (n, &Listed { start, end, read_only, .. }) in ranges.as_slice().iter().enumerate() {
        let others = ranges.as_slice().iter().enumerate().filter(|(other, _)| *other != n);
        let doubtful = others.into_iter().any(|(_, other)| other.start < end && start < other.end);
        let start = start.next_multiple_of(PERSISTENT_UNIT);
        let end = end & !(PERSISTENT_UNIT - 1);
        if !doubtful && start < end && !info.has_memory(start..end) {
            let kind = if read_only { RegionKind::ReadOnly } else { RegionKind::Persistent };
            info.add_memory(Region { start, end, kind, node: 0 });
        }
    }
}

/// Does a module say that what is stored in it would be lost ("NVDIMM device is not armed")? The emulator says so of one
/// that nothing can be stored in.
fn is_not_armed(entry: &[u8]) -> bool {
    const NOT_ARMED: u64 = 1 << 3;
    entry.len() >= 48 && number::<2>(entry, 44) & NOT_ARMED != 0
}

/// The range of an entry about addresses, if it is persistent memory and may be where it says.
fn persistent_range(entry: &[u8]) -> Option<Range<u64>> {
    /// Bytes of the entry up to and with the range.
    const LENGTH: usize = 48;
    /// "Byte-addressable persistent memory": 66f0d379-b4f3-4074-ac43-0d3318b78cdb.
    const PERSISTENT: [u8; 16] = [
        0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40, 0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c,
        0xdb,
    ];
    if entry.len() < LENGTH || entry.get(16..32) != Some(&PERSISTENT[..]) {
        return None;
    }
    let (start, bytes) = (number::<8>(entry, 32), number::<8>(entry, 40));
    let end = start.checked_add(bytes)?;
    (bytes > 0 && start >= LOWEST && end <= HIGHEST).then_some(start..end)
}

/// The IOMMU. Its registers are in no window for registers of devices.
pub fn read_dmar(entries: &[u8], info: &mut BootInfo) -> Option<vtd::Unit> {
    let unit = vtd::unit(entries)?;
    let (start, end) = (unit.base, unit.base + vtd::PAGE);
    let overlaps = |region: &Region| region.start < end && start < region.end;
    let used = |region: &Region| region.kind != RegionKind::Reserved && overlaps(region);
    if info.memory.as_slice().iter().any(used) {
        return None;
    }
    info.add_memory(Region { start, end, kind: RegionKind::Reserved, node: 0 });
    Some(unit)
}

/// Where the registers of the timer are, unless they are in memory, or `taken` has their page: registers that the kernel keeps for itself.
pub fn read_hpet(entries: &[u8], taken: [u64; 3], info: &mut BootInfo) {
    const IN_MEMORY: u64 = 0;
    let (space, base) = (number::<1>(entries, 4), number::<8>(entries, 8));
    let is_whole = entries.len() >= 16 && space == IN_MEMORY && base % PAGE == 0;
    if !is_whole || !(PAGE..HIGHEST).contains(&base) || taken.contains(&base) {
        return;
    }
    let overlaps = |region: &Region| region.start < base + PAGE && base < region.end;
    let used = |region: &Region| region.kind != RegionKind::Reserved && overlaps(region);
    if !info.memory.as_slice().iter().any(used) {
        info.timer = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::slice;

    const GIB: u64 = 1 << 30;
    const PMEM: [u8; 16] = [
        0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40, 0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c,
        0xdb,
    ];

    fn spa(start: u64, bytes: u64) -> Vec<u8> {
        let mut entry = vec![0, 0, 56, 0];
        entry.resize(16, 0);
        entry.extend(PMEM);
        entry.extend(start.to_le_bytes());
        entry.extend(bytes.to_le_bytes());
        entry.resize(56, 0);
        entry
    }

    /// An entry about a module with the range of a number.
    fn module(range: u16, flags: u16) -> Vec<u8> {
        let mut entry = vec![1, 0, 48, 0];
        entry.resize(12, 0);
        entry.extend(range.to_le_bytes());
        entry.resize(44, 0);
        entry.extend(flags.to_le_bytes());
        entry.resize(48, 0);
        entry
    }

    fn numbered(start: u64, bytes: u64, number: u8) -> Vec<u8> {
        let mut entry = spa(start, bytes);
        entry[4] = number;
        entry
    }

    fn capabilities(bits: u32) -> Vec<u8> {
        let mut entry = vec![7, 0, 16, 0, 1, 0, 0, 0];
        entry.extend(bits.to_le_bytes());
        entry.resize(16, 0);
        entry
    }

    fn machine() -> BootInfo {
        let mut info = BootInfo::new();
        let ram = |start, end| Region { start, end, kind: RegionKind::Usable, node: 0 };
        info.add_memory(ram(0, 2 * GIB));
        info.add_memory(ram(4 * GIB, 6 * GIB));
        info
    }

    fn read(entries: &[Vec<u8>]) -> BootInfo {
        let mut info = machine();
        read_nfit(&entries.concat(), &mut info);
        info
    }

    fn found(info: &BootInfo) -> Vec<(u64, u64)> {
        let all = info.memory.as_slice().iter();
        let all = all.filter(|region| region.kind == RegionKind::Persistent);
        all.map(|region| (region.start, region.end - region.start)).collect()
    }

    #[test]
    fn what_the_emulator_says_is_understood() {
        let info = read(&[spa(512 * GIB, 64 << 20), vec![1, 0, 4, 0], capabilities(3)]);
        assert_eq!(found(&info), [(512 * GIB, 64 << 20)]);
        assert!(info.caches_persist);
        let info = read(&[capabilities(2), spa(512 * GIB, 64 << 20)]);
        assert!(!info.caches_persist);
        assert_eq!(info.persistent().map(|region| region.start), Some(512 * GIB));
        assert_eq!(info.top_of_memory(), 6 * GIB);
        assert!(!read(&[spa(512 * GIB, 64 << 20)]).caches_persist);
        assert!(!read(&[capabilities(1), capabilities(2)]).caches_persist);
    }

    #[test]
    fn whole_pieces_are_used_and_the_largest_is_given() {
        let info = read(&[spa(8 * GIB + 1, (4 << 20) - 1), spa(9 * GIB, (8 << 20) + 4096)]);
        assert_eq!(found(&info), [(8 * GIB + (2 << 20), 2 << 20), (9 * GIB, 8 << 20)]);
        assert_eq!(info.persistent().map(|region| region.start), Some(9 * GIB));
    }

    #[test]
    fn what_stores_nothing_is_only_read() {
        let (a, b) = (numbered(8 * GIB, 2 << 20, 1), numbered(9 * GIB, 8 << 20, 2));
        let starts = |info: &BootInfo| {
            let start = |region: Option<&Region>| region.map(|region| region.start);
            (start(info.persistent()), start(info.read_only()))
        };
        let both = |modules: &[Vec<u8>]| {
            let all = [slice::from_ref(&a), modules, slice::from_ref(&b)].concat();
            starts(&read(&all))
        };
        assert_eq!(both(&[module(1, 0), module(2, 0)]), (Some(9 * GIB), None));
        assert_eq!(both(&[module(1, 0), module(2, 8)]), (Some(8 * GIB), Some(9 * GIB)));
        assert_eq!(both(&[module(2, 0xff), module(1, 0)]), (Some(8 * GIB), Some(9 * GIB)));
        assert_eq!(both(&[module(2, 8), module(1, 8)]), (None, Some(9 * GIB)));
        // One that is too short says nothing; nor does one about a range that is not there.
        let mut short = module(2, 8);
        short.truncate(46);
        short[2] = 46;
        assert_eq!(both(&[short, module(3, 8), module(0, 8)]), (Some(9 * GIB), None));
        let info = read(&[module(2, 8), b.clone()]);
        assert_eq!(info.top_of_memory(), 6 * GIB);
        assert!(info.persistent().is_none());
    }

    #[test]
    fn what_is_wrong_is_ignored() {
        let good = spa(16 * GIB, 2 << 20);
        let mut short = spa(8 * GIB, 2 << 20);
        short.truncate(40);
        short[2] = 40;
        let mut other = spa(8 * GIB, 2 << 20);
        other[16] ^= 1;
        let ignored = [
            short,
            other,
            spa(8 * GIB, 0),
            spa(8 * GIB, (2 << 20) - 1),
            spa(u64::MAX - 4096, 8192),
            spa(1 << 46, 2 << 20),
            // Devices, and memory.
            spa(0xfec0_0000, 2 << 20),
            spa(5 * GIB, 2 << 20),
            spa(3 * GIB, 8 * GIB),
        ];
        for entry in ignored {
            assert_eq!(found(&read(&[entry.clone(), good.clone()])), [(16 * GIB, 2 << 20)]);
        }
        // Which of two that overlap is right nobody knows.
        let info = read(&[spa(8 * GIB, 4 << 20), spa(8 * GIB + (2 << 20), 4 << 20), good]);
        assert_eq!(found(&info), [(16 * GIB, 2 << 20)]);
        // Behind an entry without a length nothing is read.
        assert_eq!(found(&read(&[vec![0; 4], spa(8 * GIB, 2 << 20)])), []);
        assert_eq!(found(&read(&[vec![0, 0, 255, 255], spa(8 * GIB, 2 << 20)])), []);
    }

    /// An entry of SRAT about memory.
    fn memory(start: u64, bytes: u64, node: u8, flags: u32) -> Vec<u8> {
        let mut entry = vec![1, 40, node, 0, 0, 0, 0, 0];
        entry.extend(start.to_le_bytes());
        entry.extend(bytes.to_le_bytes());
        entry.resize(28, 0);
        entry.extend(flags.to_le_bytes());
        entry.resize(40, 0);
        entry
    }

    #[test]
    fn memory_that_is_there_has_its_own_node() {
        let mut info = read(&[spa(512 * GIB, 64 << 20)]);
        let srat = [memory(512 * GIB, 64 << 20, 1, 5), memory(6 * GIB, 600 * GIB, 3, 3)];
        read_srat(&srat.concat(), &mut info);
        assert_eq!(info.persistent().map(|region| region.node), Some(1));
    }

    fn check(info: &BootInfo) {
        let all = info.memory.as_slice();
        assert!(all.iter().all(|region| region.start < region.end));
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        for (start, bytes) in found(info) {
            assert!(start % PERSISTENT_UNIT == 0 && bytes % PERSISTENT_UNIT == 0);
            assert!(start >= LOWEST && start + bytes <= HIGHEST);
        }
        let ram: u64 = all
            .iter()
            .filter(|region| region.kind == RegionKind::Usable)
            .map(|region| region.end - region.start)
            .sum();
        assert_eq!(ram, 4 * GIB);
        assert_eq!(info.top_of_memory(), 6 * GIB);
    }

    proptest! {
        #[test]
        fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut info = machine();
            read_nfit(&bytes, &mut info);
            read_srat(&bytes, &mut info);
            check(&info);
        }

        /// Entries that are nearly right, at few addresses, so that they meet.
        #[test]
        fn damaged_tables_are_harmless(
            entries in prop::collection::vec((0u64..24, 0u64..12, 0u64..3), 0..50),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let entries = entries.iter().map(|&(start, bytes, rest)| {
                spa((start * GIB / 2).wrapping_sub(rest), bytes * GIB / 4 + rest)
            });
            let mut bytes: Vec<u8> = entries.flatten().chain(capabilities(1)).collect();
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let mut info = machine();
            read_nfit(&bytes, &mut info);
            check(&info);
        }
    }

    fn dmar(base: u64) -> (Option<vtd::Unit>, BootInfo) {
        let mut entry = vec![0, 0, 16, 0, 1, 0, 0, 0];
        entry.extend(base.to_le_bytes());
        let mut info = machine();
        let unit = read_dmar(&entry, &mut info);
        info.find_windows(0xfee0_0000);
        (unit, info)
    }

    #[test]
    fn the_registers_of_an_iommu_are_in_no_window() {
        const BASE: u64 = 0xfed9_0000;
        let (unit, info) = dmar(BASE);
        assert_eq!(unit.map(|unit| unit.base), Some(BASE));
        let windows = info.windows.as_slice();
        assert!(!windows.is_empty());
        assert!(windows.iter().all(|&(start, end)| end <= BASE || BASE + 4096 <= start));
    }

    /// What QEMU says, with other numbers.
    fn hpet(space: u8, base: u64) -> Vec<u8> {
        let mut entries = vec![0x01, 0xa2, 0x86, 0x80, space, 0, 0, 0];
        entries.extend(base.to_le_bytes());
        entries.extend([0, 0, 0, 0]);
        entries
    }

    fn timer(entries: &[u8]) -> u64 {
        let mut info = machine();
        read_hpet(entries, [0xfee0_0000, 0xfec0_0000, 0xfed9_0000], &mut info);
        info.timer
    }

    #[test]
    fn a_timer_is_where_the_table_says() {
        assert_eq!(timer(&hpet(0, 0xfed0_0000)), 0xfed0_0000);
    }

    #[test]
    fn a_timer_elsewhere_is_none() {
        // In ports; nowhere; in a part of a page; in memory; where the kernel has something; too high.
        assert_eq!(timer(&hpet(1, 0xfed0_0000)), 0);
        for base in [0, 0xfed0_0400, GIB, 0xfee0_0000, 0xfed9_0000, 1 << 46, !(PAGE - 1)] {
            assert_eq!(timer(&hpet(0, base)), 0, "{base:#x}");
        }
        let whole = hpet(0, 0xfed0_0000);
        for end in 0..16 {
            assert_eq!(timer(&whole[..end]), 0);
        }
    }

    #[test]
    fn an_iommu_in_memory_is_none() {
        for base in [GIB, 5 * GIB, 2 * GIB - 4096] {
            let (unit, info) = dmar(base);
            assert_eq!(unit, None);
            assert_eq!(info.memory.as_slice(), machine().memory.as_slice());
        }
    }
}
