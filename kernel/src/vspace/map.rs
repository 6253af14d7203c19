//! Making entries: pages of Frames, tables of the next level, and tables as read-only pages.

use super::grant::{condition, Condition};
use super::grant::{granted, holds};
use super::morsel::shows_no_more;
use super::zero::is_zero_page;
use super::zero::shows_nothing;
use super::Translations;
use super::{alone_bit, first_bits, rights_bits, user_entries, Mapping};
use crate::arch::VectorUnit;
use crate::cap::alone::{is_alone_kind, Held};
use crate::cap::CapExt;
use crate::cap::CapSpace;
use crate::object::{SlotRef, SlotRun, Table};
use captypes::invocations::{Count, MapFlags};
use captypes::{Rights, Status};
use core::sync::atomic::Ordering::Relaxed;
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
    /// What the source may be mapped with, and [`Target::TABLE`]: in one word, which a register holds.
    shape: u64,
}

impl Target {
    /// It is a table.
    const TABLE: u64 = 1 << 8;

    #[inline(always)]
    fn new(bits: u64, rights: Rights, is_table: bool) -> Target {
        Target { bits, shape: u64::from(rights.0) | if is_table { Target::TABLE } else { 0 } }
    }

    #[inline(always)]
    fn is_table(&self) -> bool {
        self.shape & Target::TABLE != 0
    }

    #[inline(always)]
    fn rights(&self) -> Rights {
        Rights(self.shape as u8)
    }

    /// All bits of an entry but the address and those of the first one.
    #[inline(always)]
    fn entry_bits(&self, flags: MapFlags) -> u64 {
        let own = alone_bit(self.is_table(), self.rights());
        self.bits | rights_bits(flags) | uncached(flags) | own
    }
}

const PRESENT_USER: u64 = Flags::PRESENT.bits() | Flags::USER.bits();

/// What a table of `level` can hold of `src`, and with which rights.
#[inline(always)]
fn target(level: u8, src: &RawCap) -> Result<Target, Status> {
    let rights = src.rights_set();
    if src.is_frame() {
        let huge = if level == 1 { 0 } else { Flags::HUGE.bits() };
        let fits = level <= 3;
        let target = Target::new(PRESENT_USER | huge, rights, false);
        return if fits { Ok(target) } else { Err(Status::WrongLevel) };
    }
    match src.level() {
        0 => Err(Status::WrongType),
        // Its entries are another core's business.
        _ if src.is_foreign() => Err(Status::Unsupported),
        below if below + 1 == level => Ok(Target::new(PRESENT_USER, rights, true)),
        _ if level == 1 => Ok(Target::new(PRESENT_USER, rights.and(Rights::READ), false)),
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

/// The physical address `offset` into `src`, if `count` pages (or one table) begin there.
#[inline]
fn address(level: u8, src: &RawCap, is_table: bool, args: &MapArgs) -> Result<u64, Status> {
    if is_table {
        let whole = args.offset == 0 && args.count == 1;
        return if whole { Ok(src.base) } else { Err(Status::OutOfRange) };
    }
    let shift = crate::cap::mapping::page_shift(level);
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

impl Translations {
    /// Maps a part of `src` in `table` and puts the Mapping in the empty slot `dst`.
    #[inline(always)]
    pub fn map(
        &mut self,
        caps: &mut CapSpace,
        unit: &VectorUnit,
        table: SlotRef,
        from: Held,
        args: MapArgs,
        dst: SlotRef,
    ) -> Result<(), Status> {
        let src = from.slot;
        let (own, what) = (table.cap(), src.cap());
        let level = changed_level(caps, table, &own)?;
        if (level, args.count, what.word) == (1, 1, PAGE) && what.is_frame() {
            return self.map_page(caps, &own, from, &what, args, dst);
        }
        let target = target(level, &what)?;
        let limit = user_entries(level);
        if args.count == 0 || args.entry >= limit || args.count > limit - args.entry {
            return Err(Status::OutOfRange);
        }
        let flags = granted(caps, args.flags, target.rights(), || Some(from))?;
        let base = address(level, &what, target.is_table(), &args)?;
        let entries = Table::at(own.base);
        let used = match args.count {
            1 => entries.get(args.entry) != 0,
            count => !entries.all_empty(args.entry, count),
        };
        if used {
            if !shows_nothing(own.base, level, args.entry, args.count) {
                return Err(Status::Occupied);
            }
            self.clear_zero(caps, own.base, args.entry, args.count);
        }
        if target.is_table() && flags.has(MapFlags::WRITE) {
            self.settle_table(caps, src);
        }
        let bits = target.entry_bits(flags);
        let step = 1u64 << crate::cap::mapping::page_shift(level);
        // Once each: other cores may use an entry, and mark it, as soon as it is there.
        entries.set(args.entry, base | bits | first_bits(args.count));
        if args.count > 1 {
            entries.fill(args.entry + 1, args.count - 1, (base | bits) + step, step);
        }
        let mapping = Mapping {
            base,
            table: own.base,
            entry: args.entry,
            count: args.count,
            level,
            is_table: target.is_table(),
            rights: target.rights(),
            in_alone: is_alone_kind(own.rights_set()),
            is_morsel: false,
            in_device: false,
        };
        if target.is_table() {
            self.adds_places(unit, base, level - 1);
        }
        let bytes = if target.is_table() { PAGE } else { u64::from(args.count) * step };
        match (base, bytes) == (what.base, what.word) {
            true => caps.db.insert_mapping(dst, mapping.to_cap(), src),
            false => caps.db.insert_near(dst, mapping.to_cap(), src),
        }
        Ok(())
    }

    /// The same of a Frame of one page at one entry of the last-level table `own`: what most faults ask
    /// for, with fewer cases.
    #[inline(always)]
    fn map_page(
        &mut self,
        caps: &mut CapSpace,
        own: &RawCap,
        from: Held,
        what: &RawCap,
        args: MapArgs,
        dst: SlotRef,
    ) -> Result<(), Status> {
        if args.entry >= paging::ENTRIES as u32 {
            return Err(Status::OutOfRange);
        }
        let rights = what.rights_set();
        let flags = granted(caps, args.flags, rights, || Some(from))?;
        if args.offset != 0 {
            return Err(Status::OutOfRange);
        }
        let entries = Table::at(own.base);
        let old = entries.get(args.entry);
        if old != 0 {
            if !is_zero_page(1, old) {
                return Err(Status::Occupied);
            }
            self.clear_zero(caps, own.base, args.entry, 1);
        }
        let target = Target::new(PRESENT_USER, rights, false);
        entries.set(args.entry, what.base | target.entry_bits(flags) | first_bits(1));
        let mapping = Mapping {
            base: what.base,
            table: own.base,
            entry: args.entry,
            count: 1,
            level: 1,
            is_table: false,
            rights,
            in_alone: is_alone_kind(own.rights_set()),
            is_morsel: false,
            in_device: false,
        };
        caps.db.insert_mapping(dst, mapping.to_cap(), from.slot);
        Ok(())
    }

    /// Makes the Mapping of one page in `slot` one of the first page of `src`.
    #[inline(always)]
    pub fn replace(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        from: Held,
        flags: MapFlags,
    ) -> Result<(), Status> {
        let src = from.slot;
        let (cap, what) = (slot.cap(), src.cap());
        let old = Mapping::of(&cap).ok_or(Status::WrongType)?;
        let target = target(old.level, &what)?;
        if old.count != 1 || old.is_table || target.is_table() {
            return Err(Status::OutOfRange);
        }
        let flags = granted(caps, flags, target.rights(), || Some(from))?;
        let args = MapArgs { entry: old.entry, count: 1, offset: 0, flags };
        let base = address(old.level, &what, false, &args)?;
        let bits = target.entry_bits(flags) | first_bits(1);
        caps.remove_mapping(slot);
        let before = Table::at(old.table).swap(old.entry, base | bits);
        self.forget(caps, old.table, cap.attrs, old.entry, before, flags);
        let mapping = Mapping { base, rights: target.rights(), is_morsel: false, ..old };
        if old.is_morsel {
            shows_no_more(self, &cap);
        }
        caps.db.insert_near(slot, mapping.to_cap(), src);
        Ok(())
    }

    /// Maps what the slots of `src` hold at adjacent entries from `first` on; see
    /// [`captypes::op::MapMany`].
    pub fn map_many(
        &mut self,
        caps: &mut CapSpace,
        unit: &VectorUnit,
        (table, first): (SlotRef, u32),
        (src, holder): (SlotRun, Option<SlotRef>),
        flags: MapFlags,
        dst: SlotRun,
    ) -> Result<Count, Status> {
        let own = table.cap();
        let level = changed_level(caps, table, &own)?;
        let limit = user_entries(level);
        if first >= limit || src.len() > limit - first {
            return Err(Status::OutOfRange);
        }
        let mut shape = check_many(caps, &own, level, (src, holder), first, flags, dst)?;
        let is_table = |cap: &RawCap| cap.level() + 1 == level;
        if level > 1 {
            let tables = src.iter().map(|slot| slot.cap()).filter(is_table);
            tables.for_each(|cap| self.adds_places(unit, cap.base, level - 1));
        }
        let table = Table::at(own.base);
        let mut mapping = Mapping { table: own.base, count: 1, level, ..Mapping::NONE };
        mapping.in_alone = is_alone_kind(own.rights_set());
        let if_exclusive = flags.has(MapFlags::WRITE.or(MapFlags::IF_EXCLUSIVE));
        (mapping.is_table, mapping.rights) = (shape.is_table, shape.rights);
        let mut count = 0;
        let runs = src.iter().zip(dst.iter()).zip(table.run(first, src.len()));
        for (((slot, to), entry), index) in runs.zip(first..) {
            let what = slot.cap();
            if what.is_null() || !to.is_empty() {
                continue;
            }
            let old = entry.load(Relaxed);
            if old != 0 && !is_zero_page(level, old) {
                continue;
            }
            if !shape.is_of(&what) {
                // The runs may overlap: a Mapping made a moment ago is no source.
                let Ok(new) = Shape::of(level, &what, flags) else { continue };
                (mapping.is_table, mapping.rights) = (new.is_table, new.rights);
                shape = new;
            }
            let mut bits = shape.bits;
            if if_exclusive && !holds(caps, shape.condition, || Some(Held { slot, holder })) {
                bits &= !Flags::WRITE.bits();
            }
            if shape.is_table && bits & Flags::WRITE.bits() != 0 {
                self.settle_table(caps, slot);
            }
            if old != 0 {
                self.clear_zero(caps, own.base, index, 1);
            }
            entry.store(what.base | bits, Relaxed);
            (mapping.base, mapping.entry) = (what.base, index);
            // All of it was checked to be mapped.
            caps.db.insert_mapping(to, mapping.to_cap(), slot);
            count += 1;
        }
        Ok(Count { count })
    }
}

/// May what the slots of `src` hold be mapped, as far as the entries are empty? The shape of the last
/// one, which is mostly that of all.
#[inline(always)]
fn check_many(
    caps: &CapSpace,
    own: &RawCap,
    level: u8,
    (src, holder): (SlotRun, Option<SlotRef>),
    first: u32,
    flags: MapFlags,
    dst: SlotRun,
) -> Result<Shape, Status> {
    let if_exclusive = flags.has(MapFlags::IF_EXCLUSIVE);
    let mut shape = Shape::NONE;
    let entries = Table::at(own.base).run(first, src.len());
    for ((slot, to), entry) in src.iter().zip(dst.iter()).zip(entries) {
        let what = slot.cap();
        let old = entry.load(Relaxed);
        if what.is_null() || old != 0 && !is_zero_page(level, old) {
            continue;
        }
        if !to.is_empty() {
            return Err(Status::Occupied);
        }
        if !shape.is_of(&what) {
            shape = Shape::of(level, &what, flags)?;
            // All slots of a run are in one CNode.
            let held = Held { slot, holder };
            if !if_exclusive && !holds(caps, shape.condition, || Some(held)) {
                return Err(Status::Shared);
            }
        }
        if what.base & (shape.bytes - 1) != 0 {
            return Err(Status::OutOfRange);
        }
        if shape.condition == Condition::Alone && !if_exclusive && !caps.is_exclusive(slot) {
            return Err(Status::Shared);
        }
    }
    Ok(shape)
}

/// How one of many capabilities is mapped; the next one is mostly of the same shape.
struct Shape {
    /// Type, rights and attributes of the capability.
    head: u32,
    rights: Rights,
    /// Of the whole object: one page of the level, or a table.
    bytes: u64,
    is_table: bool,
    condition: Condition,
    /// All bits of the entry but the address.
    bits: u64,
}

impl Shape {
    /// Of nothing.
    const NONE: Shape = Shape {
        head: 0,
        rights: Rights::NONE,
        bytes: PAGE,
        is_table: false,
        condition: Condition::None,
        bits: 0,
    };

    /// Is it that of `what`?
    #[inline(always)]
    fn is_of(&self, what: &RawCap) -> bool {
        (self.head, self.bytes) == (what.head(), what.word)
    }

    /// The shape of `what`, for a table of `level`.
    fn of(level: u8, what: &RawCap, flags: MapFlags) -> Result<Shape, Status> {
        let target = target(level, what)?;
        let condition = condition(flags, target.rights())?;
        let bytes =
            if target.is_table() { PAGE } else { 1 << crate::cap::mapping::page_shift(level) };
        if what.word != bytes {
            return Err(Status::OutOfRange);
        }
        let (is_table, rights) = (target.is_table(), target.rights());
        let bits = target.entry_bits(flags) | first_bits(1);
        Ok(Shape { head: what.head(), rights, bytes, is_table, condition, bits })
    }
}

/// The level of the table `cap` in `slot`, if its entries may change.
#[inline(always)]
pub(super) fn changed_level(caps: &CapSpace, slot: SlotRef, cap: &RawCap) -> Result<u8, Status> {
    let level = table_level(cap)?;
    caps.check_table(slot, cap.rights_set())?;
    Ok(level)
}

/// The entry as it is, accessed and dirty bits with it, without the kernel's own bits.
pub fn read_entry(table: SlotRef, entry: u32) -> Result<u64, Status> {
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
