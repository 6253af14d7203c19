//! The ACPI tables: which cores, interrupt controllers, NUMA nodes, persistent memory and IOMMU there are.
//!
//! The `acpi` crate finds and checks the tables and takes the MADT apart. The entries of the
//! tables that it does not know (SRAT, NFIT) are read here, and those of DMAR by [`vtd`]. All of it happens on the boot page
//! tables, which map 4 GiB.

use super::apic::{Line, Routing, LINES};
use super::memory::phys_to_virt;
use crate::arch::boot_info::{BootInfo, CoreInfo, Region, RegionKind};
use acpi::madt::{InterruptSourceOverrideEntry, Madt, MadtEntry};
use acpi::sdt::{SdtHeader, Signature};
use acpi::{AcpiHandler, AcpiTable, AcpiTables, PhysicalMapping};
use core::ptr::NonNull;

/// Where registers are that only the kernel has.
pub struct Controllers {
    /// Physical address of the local APIC's.
    pub local_apic: u64,
    pub routing: Routing,
    /// The IOMMU, if there is one.
    pub iommu: Option<vtd::Unit>,
}

/// Shows physical memory to the `acpi` crate.
#[derive(Clone)]
struct DirectMap;

impl AcpiHandler for DirectMap {
    unsafe fn map_physical_region<T>(&self, pa: usize, size: usize) -> PhysicalMapping<Self, T> {
        let at = NonNull::new(phys_to_virt(pa as u64).cast()).unwrap_or(NonNull::dangling());
        // SAFETY: the direct map shows it for ever; the caller says what is there.
        unsafe { PhysicalMapping::new(pa, at, size, size, DirectMap) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}

/// Defines a table of which we read the entries ourselves.
macro_rules! table {
    ($name:ident, $signature:ident, $entries_at:literal) => {
        #[repr(C, packed)]
        struct $name {
            header: SdtHeader,
        }

        // SAFETY: every table begins with this header.
        unsafe impl AcpiTable for $name {
            const SIGNATURE: Signature = Signature::$signature;

            fn header(&self) -> &SdtHeader {
                &self.header
            }
        }

        impl $name {
            /// The bytes of its entries.
            fn entries(&self) -> &[u8] {
                let length = self.header.length as usize;
                let table: *const u8 = (&raw const *self).cast();
                // SAFETY: the header says how long the table is, and its checksum was right.
                let bytes = unsafe { core::slice::from_raw_parts(table, length) };
                bytes.get($entries_at..).unwrap_or(&[])
            }
        }
    };
}

table!(Srat, SRAT, 48);
table!(Nfit, NFIT, 40);
table!(Dmar, DMAR, 48);

/// Reads all tables. `rsdp`: physical address of their root, or 0 to search for it.
///
/// # Panics
/// Without a MADT there is no way to know the machine.
pub fn read(rsdp: u64, info: &mut BootInfo) -> Controllers {
    // SAFETY: the loader or the BIOS put it there.
    let tables = unsafe {
        match rsdp {
            0 => AcpiTables::search_for_rsdp_bios(DirectMap),
            _ => AcpiTables::from_rsdp(DirectMap, rsdp as usize),
        }
    };
    let tables = match tables {
        Ok(tables) => tables,
        Err(error) => panic!("no ACPI tables: {error:?}"),
    };
    let mut controllers = match tables.find_table::<Madt>() {
        Ok(madt) => read_madt(&madt, info),
        Err(error) => panic!("no table of interrupt controllers: {error:?}"),
    };
    if let Ok(nfit) = tables.find_table::<Nfit>() {
        read_nfit(nfit.entries(), info);
    }
    if let Ok(srat) = tables.find_table::<Srat>() {
        read_srat(srat.entries(), info);
    }
    if let Ok(dmar) = tables.find_table::<Dmar>() {
        controllers.iommu = read_dmar(dmar.entries(), info);
    }
    controllers
}

fn read_madt(madt: &PhysicalMapping<DirectMap, Madt>, info: &mut BootInfo) -> Controllers {
    const ENABLED: u32 = 1;
    let madt = madt.get();
    let mut local_apic = u64::from(madt.local_apic_address);
    let line = |pin| Line { pin, active_low: false, level: false };
    let mut routing =
        Routing { base: 0xfec0_0000, lines: core::array::from_fn(|n| line(n as u32)) };
    let mut add_core = |apic_id, flags| {
        let known = info.cores.as_slice().iter().any(|core| core.apic_id == apic_id);
        if flags & ENABLED != 0 && !known {
            info.cores.push(CoreInfo { apic_id, node: 0 });
        }
    };
    for entry in madt.entries() {
        match entry {
            MadtEntry::LocalApic(core) => add_core(u32::from(core.apic_id), core.flags),
            MadtEntry::LocalX2Apic(core) => add_core(core.x2apic_id, core.flags),
            MadtEntry::LocalApicAddressOverride(new) => local_apic = new.local_apic_address,
            MadtEntry::IoApic(io) if io.global_system_interrupt_base == 0 => {
                routing.base = u64::from(io.io_apic_address);
            }
            MadtEntry::InterruptSourceOverride(new) => override_line(&mut routing, new),
            _ => {}
        }
    }
    Controllers { local_apic, routing, iommu: None }
}

fn override_line(routing: &mut Routing, new: &InterruptSourceOverrideEntry) {
    const ACTIVE_LOW: u16 = 3;
    const LEVEL: u16 = 3 << 2;
    let number = usize::from(new.irq);
    if number < LINES && new.bus == 0 {
        routing.lines[number] = Line {
            pin: new.global_system_interrupt,
            active_low: new.flags & 3 == ACTIVE_LOW,
            level: new.flags & 3 << 2 == LEVEL,
        };
    }
}

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

/// Nodes of cores and memory.
fn read_srat(entries: &[u8], info: &mut BootInfo) {
    const CORE: u64 = 0;
    const MEMORY: u64 = 1;
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
        MEMORY if number::<4>(entry, 28) & 1 != 0 => {
            let start = number::<8>(entry, 8);
            let end = start.saturating_add(number::<8>(entry, 16));
            info.set_node(start..end, number::<4>(entry, 2) as u32);
        }
        _ => {}
    });
}

fn set_core_node(info: &mut BootInfo, apic_id: u64, node: u64) {
    for core in info.cores.as_mut_slice() {
        if u64::from(core.apic_id) == apic_id {
            core.node = node as u32;
        }
    }
}

/// Persistent memory.
fn read_nfit(entries: &[u8], info: &mut BootInfo) {
    const ADDRESS_RANGE: u64 = 0;
    /// The type "byte-addressable persistent memory".
    const PERSISTENT: [u8; 16] = [
        0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40, 0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c,
        0xdb,
    ];
    let header = |entry: &[u8]| (number::<2>(entry, 0), number::<2>(entry, 2));
    for_entries(entries, header, |kind, entry| {
        if kind == ADDRESS_RANGE && entry.get(16..32) == Some(&PERSISTENT[..]) {
            let start = number::<8>(entry, 32);
            let end = start.saturating_add(number::<8>(entry, 40));
            info.add_memory(Region { start, end, kind: RegionKind::Persistent, node: 0 });
        }
    });
}

/// The IOMMU. Its registers are in no window for registers of devices.
fn read_dmar(entries: &[u8], info: &mut BootInfo) -> Option<vtd::Unit> {
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
