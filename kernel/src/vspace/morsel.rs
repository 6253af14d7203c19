//! Entries that show morsels: tables of theirs, or single pages.

use super::device::forget_in_devices;
use super::grant::granted;
use super::map::changed_level;
use super::zero::shows_nothing;
use super::{first_bits, rights_bits, user_entries, MapArgs, Mapping, Translations};
use crate::cap::alone::{is_alone_kind, Held};
use crate::cap::budget::{Pause, Progress};
use crate::cap::mapping::{is_borrowed, ENTRY};
use crate::cap::{CapExt, CapSpace, MORSELS};
use crate::morsels::{self, MORSEL};
use crate::object::{SlotRef, Table};
use captypes::invocations::MapFlags;
use captypes::Status;
use core::ops::Range;
use mdb::{Class, RawCap};
use paging::Flags;

/// Places at which objects are counted.
const PLACES: usize = 64;
/// Mappings of morsels that are looked at for the price of a step of destruction.
const SEARCHED_PER_STEP: u32 = 16;

/// What is shown no more, by the place at which its object is counted.
pub(super) struct Unshown {
    /// Devices must forget everything.
    pub(super) devices: bool,
    places: u64,
    counts: [u32; PLACES],
}

impl Unshown {
    pub(super) const fn new() -> Unshown {
        Unshown { devices: false, places: 0, counts: [0; PLACES] }
    }
}

/// What an entry is to show of an object.
pub struct Shown {
    /// Physical address of the table, or page.
    pub base: u64,
    /// Its address in the tree of objects.
    pub key: u64,
    pub is_table: bool,
}

impl Shown {
    /// The bits of its entry that say which pool it is of.
    #[inline]
    pub(super) fn pool_bits(&self) -> u64 {
        match self.is_table {
            true => morsels::pool_bits(morsels::object_at(self.key)),
            false => 0,
        }
    }
}

/// An entry is going to show what the capability of a Mapping says.
pub(super) fn shows(vm: &mut Translations, cap: &RawCap) {
    let (core, object) = (vm.core(), morsels::object_of(cap));
    core.cores.pools().shows(object);
    if is_borrowed(cap) {
        core.shared.pool_use.shows_single(object);
    }
}

/// It does so no more: whoever takes pages of the object away need not ask for it once it is cached nowhere.
#[inline(never)]
pub(super) fn shows_no_more(vm: &mut Translations, cap: &RawCap) {
    forget_in_devices(vm, cap);
    if is_borrowed(cap) {
        // It may be cached still: who takes pages away has all forget what shows the object, as long as that is counted.
        vm.core().shared.pool_use.shows_single_no_more(morsels::object_of(cap));
    }
    let place = morsels::object_of(cap) as usize % PLACES;
    vm.elsewhere.unshown.places |= 1 << place;
    vm.elsewhere.unshown.counts[place] += 1;
    vm.set_pending();
}

/// What was shown is cached nowhere any more.
#[inline]
pub(super) fn forget_unshown(vm: &mut Translations) {
    while vm.elsewhere.unshown.places != 0 {
        let place = vm.elsewhere.unshown.places.trailing_zeros() as usize;
        vm.elsewhere.unshown.places &= vm.elsewhere.unshown.places - 1;
        for _ in 0..core::mem::take(&mut vm.elsewhere.unshown.counts[place]) {
            vm.core().cores.pools().shows_no_more(place as u64);
        }
    }
}

/// Checks that `args.count` entries of `table`, which is of `level`, may show the morsel in `from`. Returns the level
/// and the flags that are granted.
///
/// # Errors
/// What is asked for is more than the capability allows, or the entries are in use.
pub fn check_morsel(
    vm: &mut Translations,
    caps: &CapSpace,
    table: SlotRef,
    from: Held,
    args: &MapArgs,
) -> Result<(u8, MapFlags), Status> {
    let own = table.cap();
    let level = changed_level(caps, table, &own)?;
    let limit = user_entries(level);
    if args.count == 0 || args.entry >= limit || args.count > limit - args.entry {
        return Err(Status::OutOfRange);
    }
    let flags = granted_morsel(caps, args.flags, from)?;
    if args.flags.has(MapFlags::UNCACHED) {
        return Err(Status::Invalid);
    }
    if !Table::at(own.base).all_empty(args.entry, args.count) {
        if !shows_nothing(own.base, level, args.entry, args.count) {
            return Err(Status::Occupied);
        }
        vm.clear_zero(caps, own.base, args.entry, args.count);
    }
    Ok((level, flags))
}

/// What of `flags` is granted to who maps the morsel in `from`.
///
/// # Errors
/// The capability does not allow it.
pub fn granted_morsel(caps: &CapSpace, flags: MapFlags, from: Held) -> Result<MapFlags, Status> {
    granted(caps, flags, from.slot.cap().rights_set(), || Some(from))
}

/// Shows `pages` at adjacent entries of `table` from `args.entry` on, which were checked, and makes the
/// Mapping. The first of them says where it is in the object.
pub fn show_morsel(
    vm: &mut Translations,
    caps: &mut CapSpace,
    table: SlotRef,
    from: SlotRef,
    (entry, level, flags): (u32, u8, MapFlags),
    pages: &[Shown],
    dst: SlotRef,
) {
    let (own, what) = (table.cap(), from.cap());
    let Some(first) = pages.first() else { return };
    let count = pages.len() as u32;
    let mapping = Mapping {
        base: first.key,
        table: own.base,
        entry,
        count,
        level,
        is_table: first.is_table,
        rights: what.rights_set(),
        in_alone: is_alone_kind(own.rights_set()),
        is_morsel: true,
        in_device: false,
    };
    // Counted before anybody can cache it.
    shows(vm, &mapping.to_cap());
    let bits = entry_bits(flags) | first.pool_bits();
    for (n, page) in pages.iter().enumerate() {
        let begins = if n == 0 { first_bits(count) } else { 0 };
        let value = page.base | bits | begins;
        Table::at(own.base).set(entry + n as u32, value);
    }
    caps.db.insert_near(dst, mapping.to_cap(), from);
}

/// Makes the Mapping of one page in `slot` one of a page of the morsel in `from`.
pub fn replace_by_morsel(
    vm: &mut Translations,
    caps: &mut CapSpace,
    slot: SlotRef,
    from: SlotRef,
    flags: MapFlags,
    page: &Shown,
) {
    let (cap, what) = (slot.cap(), from.cap());
    let Some(old) = Mapping::of(&cap) else { return };
    let mapping = Mapping { base: page.key, rights: what.rights_set(), is_morsel: true, ..old };
    shows(vm, &mapping.to_cap());
    if old.is_morsel {
        shows_no_more(vm, &cap);
    }
    caps.remove_mapping(slot);
    let value = page.base | entry_bits(flags) | first_bits(1) | page.pool_bits();
    let before = Table::at(old.table).swap(old.entry, value);
    vm.forget(caps, old.table, cap.attrs, old.entry, before, flags);
    caps.db.insert_near(slot, mapping.to_cap(), from);
}

/// Removes the Mappings that show pages of an object one by one.
///
/// # Errors
/// There are more than can be removed in this event.
pub fn unmap_borrowed(
    vm: &mut Translations,
    caps: &mut CapSpace,
    object: u64,
    pages: Range<u64>,
    mut spend: impl FnMut(&mut CapSpace) -> bool,
) -> Progress {
    while let Some(slot) = first_borrowed(caps, object, pages.clone()) {
        if !spend(caps) {
            return Err(Pause::Again);
        }
        vm.remove_mapping(caps, slot);
    }
    Ok(())
}

/// Removes the Mapping of single pages of an object that begins at an entry of a table which goes. Only the order of
/// objects knows it, so all of them are looked at.
#[cold]
#[inline(never)]
pub(super) fn remove_borrowed(
    vm: &mut Translations,
    caps: &mut CapSpace,
    table: u64,
    index: u32,
) -> Progress {
    let is_it = |cap: &RawCap| cap.word == table && cap.aux & ENTRY == index;
    let mut passed = 0;
    let found = caps.db.overlapping(MORSELS, 0, u64::MAX, Class::Leaves).find(|slot| {
        passed += 1;
        is_it(&slot.cap())
    });
    caps.spend(passed / SEARCHED_PER_STEP);
    match found {
        Some(slot) => vm.remove_mapping(caps, slot),
        None => {
            debug_assert!(false, "entry {index} of {table:#x} without a Mapping");
            Table::at(table).set(index, 0);
            vm.forget_everything();
        }
    }
    Ok(())
}

/// The bits of an entry that shows a morsel, besides the address and those of a first one.
pub(super) fn entry_bits(flags: MapFlags) -> u64 {
    Flags::PRESENT.bits() | Flags::USER.bits() | rights_bits(flags) | MORSEL
}

/// The first Mapping of single pages of an object in a range.
pub fn first_borrowed(caps: &CapSpace, object: u64, pages: Range<u64>) -> Option<SlotRef> {
    let base = morsels::key(object, pages.start);
    let mut leaves =
        caps.db.overlapping(MORSELS, base, pages.end.saturating_sub(pages.start), Class::Leaves);
    leaves.find(|slot| is_borrowed(&slot.cap()))
}
