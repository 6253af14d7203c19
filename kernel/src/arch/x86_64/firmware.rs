//! The ACPI tables: which cores, interrupt controllers, NUMA nodes, persistent memory, IOMMU and timer (HPET) there are.
//!
//! The `acpi` crate finds and checks the tables and takes the MADT apart. The entries of the
//! tables that it does not know (SRAT, NFIT, DMAR, HPET) are read in `firmware_tables`. All of it
//! happens on the boot page tables, which map 4 GiB.

use super::apic::{Line, Routing, LINES};
use super::memory::phys_to_virt;
use crate::arch::boot_info::{BootInfo, CoreInfo};
use crate::arch::firmware_tables::{read_dmar, read_hpet, read_nfit, read_srat};
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
table!(Hpet, HPET, 36);

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
    if let Ok(hpet) = tables.find_table::<Hpet>() {
        let iommu = controllers.iommu.as_ref().map_or(0, |unit| unit.base);
        read_hpet(hpet.entries(), [controllers.local_apic, controllers.routing.base, iommu], info);
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
