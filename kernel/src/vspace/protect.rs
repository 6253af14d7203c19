//! Changing the rights of entries that are mapped.

use super::device::forget_in_devices;
use super::grant::asked;
use super::grant::{check_granted, granted};
use super::Translations;
use super::{rights_bits, Mapping, MAY_EXECUTE, RIGHTS_BITS, WRITABLE};
use crate::cap::alone::Held;
use crate::cap::loans::pages_of;
use crate::cap::mapping::{is_mapping, ENTRY, ENTRY_BITS, IN_DEVICE, IS_TABLE};
use crate::cap::CapExt;
use crate::cap::{CapSpace, MEMORY};
use crate::object::{SlotRef, SlotRun, Table};
use captypes::invocations::{Count, MapFlags};
use captypes::{CapType, Status};
use mdb::{Class, RawCap};
use paging::Flags;

/// Most entries that one invocation changes.
const MOST_ENTRIES: u32 = 1 << 12;

/// Do entries with this union and intersection have rights that `new` lacks, and were they used? What
/// the processors know they have marked as used before, and it stays so: it does not matter whether the
/// mark was seen before the change or after it.
#[inline]
fn loses(union: u64, intersection: u64, new: u64) -> bool {
    lost(union, intersection, new) && union & Flags::ACCESSED.bits() != 0
}

/// Do they have rights that `new` lacks, or may take them back?
#[inline(always)]
fn lost(union: u64, intersection: u64, new: u64) -> bool {
    // No-execute is a right when it is clear.
    let write = union & (!new & Flags::WRITE.bits() | MAY_BITS);
    let execute = !intersection & new & Flags::NO_EXECUTE.bits();
    write | execute != 0
}

/// Who has lost a right here, and may take it back, has been told to forget it on the cores that it knew of: others may have the table.
const MAY_BITS: u64 = WRITABLE & !Flags::WRITE.bits() | MAY_EXECUTE;

/// Gives one entry other rights, by one atomic store: there is no moment in which it is absent, or has neither the old nor
/// the new rights. Returns what it was, if translations of it have rights that it has not any more; else zero.
#[inline(always)]
fn set_one(table: Table, index: u32, bits: u64) -> u64 {
    let (old, _) = table.change(index, |entry| entry & !RIGHTS_BITS | bits);
    match lost(old, old, bits) {
        true => old,
        false => 0,
    }
}

/// The same of all entries of a Mapping: it is known of what is returned that one was used, if one was. `shared`: other
/// cores may be using them.
#[inline(always)]
fn set_all(mapping: &RawCap, bits: u64, shared: bool) -> u64 {
    let table = Table::at(mapping.word);
    // Most are of one entry, and then there is nothing above its number.
    match mapping.aux >> ENTRY_BITS {
        0 => set_one(table, mapping.aux, bits),
        more => match set_many(table, mapping.aux & ENTRY, more + 1, bits, shared) {
            true => Flags::ACCESSED.bits(),
            false => 0,
        },
    }
}

/// The entries of a Mapping mostly have the same rights, so that the same bits change in all.
#[inline(never)]
fn set_many(table: Table, start: u32, count: u32, bits: u64, shared: bool) -> bool {
    let (union, intersection) = table.union_and_intersection(start, count);
    let mixed = (union ^ intersection) & RIGHTS_BITS;
    // Where the program changes them by itself, they need not be what was seen.
    if mixed == 0 && !shared {
        table.toggle(start, count, (union & RIGHTS_BITS) ^ bits);
    } else {
        for index in start..start + count {
            table.change(index, |entry| entry & !RIGHTS_BITS | bits);
        }
    }
    // Other processors may have used some between the look and the change.
    let after = if shared { table.union_and_intersection(start, count).0 } else { 0 };
    loses(union | after & Flags::ACCESSED.bits(), intersection, bits)
}

impl Translations {
    /// Gives entries `first..first + count` of the Mapping in `slot` new rights.
    #[inline(always)]
    pub fn protect(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        first: u32,
        count: u32,
        flags: MapFlags,
    ) -> Result<(), Status> {
        let cap = slot.cap();
        let mapping = Mapping::of(&cap).ok_or(Status::WrongType)?;
        if count == 0 || first >= mapping.count || count > mapping.count - first {
            return Err(Status::OutOfRange);
        }
        let allowed = granted(caps, flags, mapping.rights, || mapped(caps, slot))?;
        self.settle_below(caps, slot, &cap, allowed);
        forget_in_devices(self, &cap);
        let bits = rights_bits(allowed);
        let shared = self.elsewhere.may_be();
        let (table, index) = (Table::at(cap.word), (cap.aux & ENTRY) + first);
        let stale = match count {
            1 => set_one(table, index, bits) & Flags::ACCESSED.bits() != 0,
            _ => set_many(table, index, count, bits, shared),
        };
        if stale {
            match count {
                1 => self.forget_used(caps, cap.word, cap.attrs, index, flags),
                _ => self.forget_range(caps, &cap, first, count, flags),
            }
        }
        Ok(())
    }

    /// Gives all entries of every Mapping in `slots` new rights.
    pub fn protect_many(
        &mut self,
        caps: &mut CapSpace,
        slots: SlotRun,
        flags: MapFlags,
    ) -> Result<Count, Status> {
        let attrs = self.check_protect(caps, slots, flags)?;
        let shared = self.elsewhere.may_be();
        // Pages that allow what is asked for are nearly all that there is.
        let apart = flags.has(MapFlags::IF_EXCLUSIVE) || attrs & IS_TABLE != 0;
        let (count, stale) = match apart && flags.has(MapFlags::WRITE) {
            true => self.set_writable(caps, slots, flags, shared),
            false => set_each(slots, shared, rights_bits(flags)),
        };
        if stale {
            self.forget_each(caps, slots, flags);
        }
        Ok(Count { count })
    }

    /// May the entries of every Mapping in `slots` get the rights that `flags` ask for? Returns the bits that any of
    /// their `attrs` has, and of what is no Mapping.
    #[inline(always)]
    fn check_protect(
        &mut self,
        caps: &CapSpace,
        slots: SlotRun,
        flags: MapFlags,
    ) -> Result<u16, Status> {
        // Mappings in adjacent slots are mostly in one table, and allow what is asked for.
        let allowed = CapType::Mapping as u32 | u32::from(asked(flags).0) << 8;
        let (mut table, mut all) = (0, 0);
        for slot in slots.each() {
            let own = slot.head_and_aux();
            all |= own;
            if own as u32 & (0xff | allowed) != allowed || slot.cap().word != table {
                check_one(caps, slot, flags, &mut table)?;
            }
        }
        let (attrs, sizes) = ((all >> 16) as u16, (all >> 32) as u32);
        if attrs & IN_DEVICE != 0 {
            forget_each_in_devices(self, slots);
        }
        if sizes >> ENTRY_BITS != 0 && entries_of(slots) > MOST_ENTRIES {
            return Err(Status::OutOfRange);
        }
        Ok(attrs)
    }

    /// Lets write through the entries of every Mapping in `slots`, as far as `flags` allow it; all were
    /// checked. Returns how many there were, and whether translations may be stale now.
    #[inline(never)]
    fn set_writable(
        &mut self,
        caps: &mut CapSpace,
        slots: SlotRun,
        flags: MapFlags,
        shared: bool,
    ) -> (u32, bool) {
        let (mut count, mut lost) = (0, 0);
        for slot in slots.each() {
            let cap = slot.cap();
            if !is_mapping(&cap) {
                continue;
            }
            let mut allowed = flags;
            if flags.has(MapFlags::IF_EXCLUSIVE) {
                let mapped = || mapped(caps, slot);
                allowed = granted(caps, flags, cap.rights_set(), mapped).unwrap_or(MapFlags::READ);
            }
            self.settle_below(caps, slot, &cap, allowed);
            lost |= set_all(&cap, rights_bits(allowed), shared);
            count += 1;
        }
        (count, lost & Flags::ACCESSED.bits() != 0)
    }

    /// Forgets what was used of the Mappings in `slots`.
    fn forget_each(&mut self, caps: &CapSpace, slots: SlotRun, flags: MapFlags) {
        self.expect(slots.len());
        if self.elsewhere.may_be() {
            self.forget_each_elsewhere(caps, slots, flags);
        }
        // Mappings in adjacent slots are mostly in one table.
        let mut known = None;
        for slot in slots.each() {
            let cap = slot.cap();
            if !is_mapping(&cap) {
                continue;
            }
            let count = count_of(&cap);
            let holder = (cap.word, cap.attrs);
            let here = match known {
                Some((known, here)) if known == holder && count == 1 => here,
                _ => self.begin_singles(caps, cap.word, cap.attrs, count, flags),
            };
            known = Some((holder, here));
            if let Some(here) = here {
                self.forget_range_at(here, &cap, 0, count);
            }
            if self.forgets_all() {
                break;
            }
        }
    }
}

/// Most entries that lose the right to write when something is lent.
const MOST_LOWERED: usize = 512;

impl Translations {
    /// Nobody can write to the pages of these Loans any more through entries that there are. `false`, and nothing has
    /// changed, if there are too many of those.
    pub fn lower(&mut self, caps: &CapSpace, loans: impl Iterator<Item = RawCap> + Clone) -> bool {
        if !can_lower(caps, loans.clone()) {
            return false;
        }
        for loan in loans {
            let (base, end) = pages_of(&loan);
            for slot in caps.db.overlapping(MEMORY, base, end - base, Class::Leaves) {
                let cap = slot.cap();
                let (first, count) = part_of(&cap, base, end);
                if lower_part(&cap, first, count) {
                    self.forget_range(caps, &cap, first, count, MapFlags::default());
                }
            }
        }
        true
    }
}

/// Are there few enough entries that show pages of these Loans?
fn can_lower(caps: &CapSpace, loans: impl Iterator<Item = RawCap>) -> bool {
    let mut left = MOST_LOWERED;
    for loan in loans {
        let (base, end) = pages_of(&loan);
        // Others than Mappings of pages are counted, too: they must be passed over.
        for slot in caps.db.overlapping(MEMORY, base, end - base, Class::Leaves) {
            let (_, count) = part_of(&slot.cap(), base, end);
            left = match left.checked_sub(count.max(1) as usize) {
                Some(left) => left,
                None => return false,
            };
        }
    }
    true
}

/// Takes the right to write from entries of a Mapping. Returns whether translations may be stale now.
fn lower_part(cap: &RawCap, first: u32, count: u32) -> bool {
    let mut used = 0;
    for index in first..first + count {
        let at = (cap.aux & ENTRY) + index;
        let (old, new) = Table::at(cap.word).change(at, |entry| entry & !WRITABLE);
        used |= if old != new { old } else { 0 };
    }
    used & Flags::ACCESSED.bits() != 0
}

/// The entries of a Mapping of pages, relative to it, that show something of `[base, end)`.
fn part_of(cap: &RawCap, base: u64, end: u64) -> (u32, u32) {
    match Mapping::of(cap) {
        Some(mapping) if !mapping.is_table => {
            let page = mapping.page_bytes();
            let first = base.saturating_sub(mapping.base) / page;
            let past = (end - mapping.base).div_ceil(page).min(u64::from(mapping.count));
            (first as u32, past.saturating_sub(first) as u32)
        }
        _ => (0, 0),
    }
}

/// May the entries of what one slot holds get the rights that `flags` ask for? Those of `table` may change.
fn check_one(
    caps: &CapSpace,
    slot: SlotRef,
    flags: MapFlags,
    table: &mut u64,
) -> Result<(), Status> {
    let cap = slot.cap();
    if !is_mapping(&cap) {
        return Ok(());
    }
    if cap.word != *table {
        caps.check_entries(&cap)?;
        *table = cap.word;
    }
    check_granted(caps, flags, cap.rights_set(), || mapped(caps, slot))
}

/// Those of the Mappings in `slots` that are in a DeviceSpace lose something. (What is no Mapping may have the mark.)
#[cold]
#[inline(never)]
fn forget_each_in_devices(vm: &mut Translations, slots: SlotRun) {
    for slot in slots.each() {
        forget_in_devices(vm, &slot.cap());
    }
}

/// Entries of all Mappings in `slots`.
#[inline(never)]
fn entries_of(slots: SlotRun) -> u32 {
    let mappings = slots.each().map(|slot| slot.cap()).filter(is_mapping);
    mappings.map(|cap| count_of(&cap)).sum()
}

/// The number of entries of a Mapping.
#[inline(always)]
fn count_of(cap: &RawCap) -> u32 {
    (cap.aux >> ENTRY_BITS) + 1
}

/// Gives the entries of every Mapping in `slots` the rights `bits`. Returns how many there were, and
/// whether translations may be stale now.
#[inline(always)]
fn set_each(slots: SlotRun, shared: bool, bits: u64) -> (u32, bool) {
    let (mut count, mut lost) = (0, 0);
    for slot in slots.each() {
        let cap = slot.cap();
        if is_mapping(&cap) {
            lost |= set_all(&cap, bits, shared);
            count += 1;
        }
    }
    (count, lost & Flags::ACCESSED.bits() != 0)
}

/// The capability to what the Mapping in `slot` maps.
#[inline(always)]
fn mapped(caps: &CapSpace, slot: SlotRef) -> Option<Held> {
    caps.db.mapped(slot).map(Held::from)
}
