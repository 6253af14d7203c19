//! DeviceSpaces: tables through which devices see morsels, and what devices have cached of them.
//!
//! An entry is one that shows a morsel in a page table, but for the bits that mark the first of a Mapping: to an IOMMU
//! bit 11 of it means something, and all Mappings have one entry. So its position in the database is known from the
//! entry, too.
//!
//! An IOMMU of this kind marks no entry as used. What an entry loses is forgotten whether it was used or not, and all
//! at once, when the event ends: before anybody can know that it has ended, and before what was behind it is free.

use super::morsel::{entry_bits, granted_morsel, shows};
use super::{Mapping, Shown, Translations};
use crate::arch;
use crate::cap::alone::Held;
use crate::cap::budget::{Pause, Progress};
use crate::cap::mapping::{is_in_device, IN_DEVICE};
use crate::cap::{CapExt, CapSpace};
use crate::cores::Pools;
use crate::morsels::{self, MORSEL};
use crate::object::{SlotRef, Table};
use captypes::invocations::{Counter, MapFlags};
use captypes::{Rights, Status};
use mdb::RawCap;
use paging::ENTRIES;
use vtd::{Context, CONTEXTS, LEVEL};

/// The entry of the addresses from 3 GiB on, at some of which a device raises interrupts.
const INTERRUPTS: u32 = 3;

/// A Mapping loses something. If that is in a DeviceSpace, devices have forgotten it when the event ends.
#[inline]
pub(super) fn forget_in_devices(vm: &mut Translations, cap: &RawCap) {
    // The mark first, which most have not: elsewhere it means something else.
    if cap.attrs & IN_DEVICE != 0 && is_in_device(cap) {
        vm.elsewhere.unshown.devices = true;
        vm.set_pending();
    }
}

/// Has devices forget what they must.
#[inline]
pub(super) fn flush_devices(vm: &mut Translations) {
    if core::mem::take(&mut vm.elsewhere.unshown.devices) && arch::forget_devices() {
        vm.core().add(Counter::DeviceFlushes, 1);
    }
}

/// Checks that one entry of the DeviceSpace in `table` may show the morsel in `from`. Returns the flags that are granted.
///
/// # Errors
/// What is asked for is more than a capability allows, or the entry is in use, or never used.
pub fn check_device_map(
    caps: &CapSpace,
    table: SlotRef,
    from: Held,
    args: &super::MapArgs,
) -> Result<MapFlags, Status> {
    let own = table.cap();
    if !own.rights_set().has(Rights::WRITE) {
        return Err(Status::NoRights);
    }
    let one = args.count == 1 && args.offset == 0;
    if !one || args.entry >= ENTRIES as u32 || args.entry == INTERRUPTS {
        return Err(Status::OutOfRange);
    }
    if args.flags.has(MapFlags::UNCACHED) || args.flags.has(MapFlags::EXEC) {
        return Err(Status::Invalid);
    }
    let flags = granted_morsel(caps, args.flags, from)?;
    match Table::at(own.base).get(args.entry) {
        0 => Ok(flags),
        _ => Err(Status::Occupied),
    }
}

/// Shows a table of a morsel at an entry of the DeviceSpace in `table`, which was checked, and makes the Mapping.
pub fn show_to_device(
    vm: &mut Translations,
    caps: &mut CapSpace,
    (table, entry): (SlotRef, u32),
    (from, shown, flags): (SlotRef, Shown, MapFlags),
    dst: SlotRef,
) {
    let (own, what) = (table.cap(), from.cap());
    let mapping = Mapping { rights: what.rights_set(), ..in_device(own.base, entry, shown.key) };
    // Counted before a device can use it.
    shows(vm, &mapping.to_cap());
    Table::at(own.base).set(entry, shown.base | entry_bits(flags) | shown.pool_bits());
    caps.db.insert_near(dst, mapping.to_cap(), from);
}

/// The Mapping of an entry that shows the morsel at `base` of the tree of morsels.
fn in_device(table: u64, entry: u32, base: u64) -> Mapping {
    Mapping {
        base,
        table,
        entry,
        count: 1,
        level: LEVEL,
        is_table: true,
        is_morsel: true,
        in_device: true,
        ..Mapping::NONE
    }
}

/// What the database holds for entry `index` of a DeviceSpace; `None` if that shows nothing of a pool.
pub fn device_mapping(pools: &Pools, table: u64, index: u32, entry: u64) -> Option<Mapping> {
    if entry & MORSEL == 0 {
        return None;
    }
    let (pool, record, first) = morsels::shown_table(pools, entry)?;
    Some(in_device(table, index, morsels::key(morsels::object(pool, record), first)))
}

/// Before the last capability to a DeviceSpace goes: functions that are attached to it reach nothing any more, and
/// what it maps is unmapped.
pub fn close_device_space(vm: &mut Translations, caps: &mut CapSpace, cap: &RawCap) -> Progress {
    for function in 0..CONTEXTS {
        if arch::device_context(function as u8) == Context::Translate(cap.base) {
            arch::set_device_context(function as u8, Context::Refuse);
        }
    }
    let (table, end) = (Table::at(cap.base), ENTRIES as u32);
    let mut index = table.next_used(0, end);
    while index < end {
        if !caps.spend(1) {
            return Err(Pause::Again);
        }
        let mapping = device_mapping(vm.core().cores.pools(), cap.base, index, table.get(index));
        match mapping.and_then(|mapping| caps.db.find(&mapping.to_cap())) {
            Some(slot) => vm.remove_mapping(caps, slot),
            None => {
                debug_assert!(false, "entry {index} of {:#x} without a Mapping", cap.base);
                table.set(index, 0);
            }
        }
        index = table.next_used(index, end);
    }
    Ok(())
}
