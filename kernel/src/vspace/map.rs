//! Making entries: pages of Frames, tables of the next level, and tables as read-only pages.

use super::{first_bits, rights_bits, user_entries, wanted, Mapping};
use crate::cap::mem::Table;
use crate::cap::{CapExt, SlotRef, SlotRun};
use crate::dispatch::Local;
use captypes::invocations::{Count, MapFlags};
use captypes::{Rights, Status};
use mdb::RawCap;
use paging::{Flags, PAGE};

/// Where and how to map.
#[derive(Clone, Copy)]
pub struct MapArgs {
    /// First entry.
    pub entry: u32,
    /// Entries.
    pub count: u32,
    /// First byte in what is mapped.
    pub offset: u64,
    pub flags: MapFlags,
}

/// What entries will point to.
struct Target {
    /// Bits of an entry besides the address.
    bits: u64,
    is_table: bool,
    /// What the source may be mapped with.
    rights: Rights,
}

const PRESENT_USER: u64 = Flags::PRESENT.bits() | Flags::USER.bits();

/// What a table of `level` can hold of `src`, and with which rights.
#[inline(always)]
fn target(level: u8, src: &RawCap) -> Result<Target, Status> {
    let rights = src.rights_set();
    if src.is_frame() {
        let huge = if level == 1 { 0 } else { Flags::HUGE.bits() };
        let fits = level <= 3;
        let target = Target { bits: PRESENT_USER | huge, is_table: false, rights };
        return if fits { Ok(target) } else { Err(Status::WrongLevel) };
    }
    match src.level() {
        0 => Err(Status::WrongType),
        // Its entries are another core's business.
        _ if src.is_foreign() => Err(Status::Unsupported),
        below if below + 1 == level => Ok(Target { bits: PRESENT_USER, is_table: true, rights }),
        _ if level == 1 => {
            let rights = rights.and(Rights::READ);
            Ok(Target { bits: PRESENT_USER, is_table: false, rights })
        }
        _ => Err(Status::WrongLevel),
    }
}

/// The level of the table in a capability.
#[inline(always)]
fn table_level(cap: &RawCap) -> Result<u8, Status> {
    match cap.level() {
        0 => Err(Status::WrongType),
        _ if cap.is_foreign() => Err(Status::Unsupported),
        level => Ok(level),
    }
}

/// The same, if the capability allows changes.
#[inline(always)]
pub(super) fn changed_level(cap: &RawCap) -> Result<u8, Status> {
    let level = table_level(cap)?;
    if cap.rights_set().has(Rights::WRITE) {
        Ok(level)
    } else {
        Err(Status::NoRights)
    }
}

/// The physical address `offset` into `src`, if `count` pages (or one table) begin there.
#[inline]
fn address(level: u8, src: &RawCap, is_table: bool, args: &MapArgs) -> Result<u64, Status> {
    if is_table {
        let whole = args.offset == 0 && args.count == 1;
        return if whole { Ok(src.base) } else { Err(Status::OutOfRange) };
    }
    let shift = super::page_shift(level);
    let pa = src.base.wrapping_add(args.offset);
    let fits = args.offset <= src.word && src.word - args.offset >= u64::from(args.count) << shift;
    if fits && pa & ((1 << shift) - 1) == 0 {
        Ok(pa)
    } else {
        Err(Status::OutOfRange)
    }
}

fn uncached(flags: MapFlags) -> u64 {
    if flags.has(MapFlags::UNCACHED) {
        Flags::DEVICE.bits()
    } else {
        0
    }
}

impl Local {
    /// `flags` without `WRITE` if that was asked for exclusive pages only and `src` has copies.
    #[inline]
    fn effective(&self, flags: MapFlags, src: SlotRef) -> MapFlags {
        if flags.has(MapFlags::WRITE.or(MapFlags::IF_EXCLUSIVE)) && !self.is_exclusive(src) {
            return MapFlags(flags.0 & !MapFlags::WRITE.0);
        }
        flags
    }

    /// Maps a part of `src` in `table` and puts the Mapping in the empty slot `dst`.
    pub fn map(
        &mut self,
        table: SlotRef,
        src: SlotRef,
        args: MapArgs,
        dst: SlotRef,
    ) -> Result<(), Status> {
        let (own, what) = (table.cap(), src.cap());
        let level = changed_level(&own)?;
        let target = target(level, &what)?;
        let limit = user_entries(level);
        if args.count == 0 || args.entry >= limit || args.count > limit - args.entry {
            return Err(Status::OutOfRange);
        }
        if !target.rights.has(wanted(args.flags)) {
            return Err(Status::NoRights);
        }
        let base = address(level, &what, target.is_table, &args)?;
        let entries = Table::at(own.base);
        if !entries.all_empty(args.entry, args.count) {
            return Err(Status::Occupied);
        }
        let flags = self.effective(args.flags, src);
        let bits = target.bits | rights_bits(flags) | uncached(flags);
        let step = 1u64 << super::page_shift(level);
        // Once each: other cores may use an entry, and mark it, as soon as it is there.
        entries.set(args.entry, base | bits | first_bits(args.count));
        entries.fill(args.entry + 1, args.count - 1, (base | bits) + step, step);
        let mapping = Mapping {
            base,
            table: own.base,
            entry: args.entry,
            count: args.count,
            level,
            is_table: target.is_table,
            rights: target.rights,
        };
        if target.is_table {
            self.adds_places(base, level - 1);
        }
        self.db.insert_near(dst, mapping.to_cap(), src);
        Ok(())
    }

    /// Makes the Mapping of one page in `slot` one of the first page of `src`.
    pub fn replace(&mut self, slot: SlotRef, src: SlotRef, flags: MapFlags) -> Result<(), Status> {
        let (cap, what) = (slot.cap(), src.cap());
        let old = Mapping::of(&cap).ok_or(Status::WrongType)?;
        let target = target(old.level, &what)?;
        if old.count != 1 || old.is_table || target.is_table {
            return Err(Status::OutOfRange);
        }
        if !target.rights.has(wanted(flags)) {
            return Err(Status::NoRights);
        }
        let args = MapArgs { entry: old.entry, count: 1, offset: 0, flags };
        let base = address(old.level, &what, false, &args)?;
        let flags = self.effective(flags, src);
        let bits = target.bits | rights_bits(flags) | uncached(flags) | first_bits(1);
        self.drop_slot(slot);
        let before = Table::at(old.table).swap(old.entry, base | bits);
        self.forget(old.table, cap.attrs, old.entry, before, flags);
        let mapping = Mapping { base, rights: target.rights, ..old };
        self.db.insert_near(slot, mapping.to_cap(), src);
        Ok(())
    }

    /// Maps what the slots of `src` hold at adjacent entries from `first` on; see
    /// [`captypes::op::MapMany`].
    pub fn map_many(
        &mut self,
        table: SlotRef,
        src: SlotRun,
        first: u32,
        flags: MapFlags,
        dst: SlotRun,
    ) -> Result<Count, Status> {
        let own = table.cap();
        let level = changed_level(&own)?;
        let limit = user_entries(level);
        if first >= limit || src.len() > limit - first {
            return Err(Status::OutOfRange);
        }
        let entries = Table::at(own.base);
        for n in 0..src.len() {
            let what = src.get(n).cap();
            if what.is_null() || entries.get(first + n) != 0 {
                continue;
            }
            if !dst.get(n).is_empty() {
                return Err(Status::Occupied);
            }
            let target = target(level, &what)?;
            if !target.rights.has(wanted(flags)) {
                return Err(Status::NoRights);
            }
            if !is_one(level, &what, &target) {
                return Err(Status::OutOfRange);
            }
        }
        let is_table = |cap: &RawCap| cap.level() + 1 == level;
        if level > 1 {
            let tables = src.iter().map(|slot| slot.cap()).filter(is_table);
            tables.for_each(|cap| self.adds_places(cap.base, level - 1));
        }
        let mut count = 0;
        for n in 0..src.len() {
            let (slot, index) = (src.get(n), first + n);
            if slot.is_empty() || entries.get(index) != 0 {
                continue;
            }
            // The runs may overlap: a Mapping made a moment ago is no source.
            let Ok(target) = target(level, &slot.cap()) else { continue };
            if !dst.get(n).is_empty() {
                continue;
            }
            let base = slot.cap().base;
            let flags = self.effective(flags, slot);
            let bits = target.bits | rights_bits(flags) | uncached(flags) | first_bits(1);
            entries.set(index, base | bits);
            let mapping = Mapping {
                base,
                table: own.base,
                entry: index,
                count: 1,
                level,
                is_table: target.is_table,
                rights: target.rights,
            };
            self.db.insert_near(dst.get(n), mapping.to_cap(), slot);
            count += 1;
        }
        Ok(Count { count })
    }

    /// The entry as it is, accessed and dirty bits with it, without the kernel's own bits.
    pub fn read_entry(&self, table: SlotRef, entry: u32) -> Result<u64, Status> {
        let own = table.cap();
        let level = table_level(&own)?;
        if !own.rights_set().has(Rights::READ) {
            return Err(Status::NoRights);
        }
        if entry >= user_entries(level) {
            return Err(Status::OutOfRange);
        }
        Ok(Table::at(own.base).get(entry) & !super::OWN_BITS)
    }
}

/// Is it a Frame of exactly one page of this level, aligned, or one table?
fn is_one(level: u8, what: &RawCap, target: &Target) -> bool {
    let bytes = if target.is_table { PAGE } else { 1 << super::page_shift(level) };
    what.word == bytes && what.base & (bytes - 1) == 0
}
