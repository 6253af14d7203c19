//! Removing entries: by their Mapping, with what they map, and with the table that they are in.

use super::morsel::{remove_borrowed, shows, shows_no_more};
use super::zero::is_zero_page;
use super::Translations;
use super::{first_bits, user_entries, Mapping, FIRST_BITS};
use crate::arch::{self, VectorUnit};
use crate::cap::budget::{Pause, Progress};
use crate::cap::mapping::{ENTRY, ENTRY_BITS};
use crate::cap::CapSpace;
use crate::cap::{CapExt, MEMORY};
use crate::morsels::MORSEL;
use crate::object::{SlotRef, Table};
use captypes::invocations::MapFlags;
use captypes::{CapType, Rights, Status};
use mdb::RawCap;
use paging::{Flags, PhysAddr, PAGE};

const DEFAULT: MapFlags = MapFlags(0);
/// What it costs to find a Mapping by its entry, and to remove it, in steps of destruction.
const STEPS_OF_SEARCH: u32 = 4;
/// Entries that are cleared for the price of one step of destruction.
const ENTRIES_PER_STEP: u32 = 64;

impl Translations {
    /// Clears all entries of a Mapping that is about to go.
    #[inline]
    fn clear_mapping(&mut self, caps: &mut CapSpace, cap: &RawCap) {
        if cap.aux >> ENTRY_BITS != 0 {
            return self.clear_many(
                caps,
                cap,
                cap.aux & ENTRY,
                (cap.aux >> ENTRY_BITS) + 1,
                DEFAULT,
            );
        }
        let index = cap.aux & ENTRY;
        let old = Table::at(cap.word).take(index);
        self.forget(caps, cap.word, cap.attrs, index, old, DEFAULT);
    }

    /// Clears entries of a Mapping of pages. Most were not used, and then nothing remembers them; of
    /// many that were, everything is forgotten. Both leave nothing to look at one by one.
    #[inline(never)]
    fn clear_many(
        &mut self,
        caps: &mut CapSpace,
        cap: &RawCap,
        start: u32,
        count: u32,
        flags: MapFlags,
    ) {
        if count >= ENTRIES_PER_STEP {
            caps.spend(count / ENTRIES_PER_STEP);
        }
        let (table, kind) = (Table::at(cap.word), cap.attrs);
        if self.elsewhere.may_be() {
            return self.take_many(caps, cap, start, count, flags);
        }
        let (union, _) = table.union_and_intersection(start, count);
        let used = union & Flags::ACCESSED.bits() != 0;
        let here = if used { self.begin_singles(caps, cap.word, kind, count, flags) } else { None };
        let Some(here) = here else { return table.fill(start, count, 0, 0) };
        let mut pages = 0;
        for index in start..start + count {
            if table.take(index) & Flags::ACCESSED.bits() != 0 {
                pages += self.flush_at(here, kind, index);
            }
        }
        self.count_singles(pages);
    }

    /// The same while other cores may use the entries: whether one was used is known when it is gone.
    #[inline(never)]
    fn take_many(
        &mut self,
        caps: &CapSpace,
        cap: &RawCap,
        start: u32,
        count: u32,
        flags: MapFlags,
    ) {
        let (table, kind) = (Table::at(cap.word), cap.attrs);
        let entries = start..start + count;
        let used = entries.clone().fold(0, |all, index| all | table.take(index));
        if used & Flags::ACCESSED.bits() == 0 || self.is_settled() {
            return;
        }
        self.forget_elsewhere(caps, cap.word, kind, start, count, flags);
        if let Some(here) = self.begin_singles(caps, cap.word, kind, count, flags) {
            let pages = entries.map(|index| self.flush_at(here, kind, index)).sum();
            self.count_singles(pages);
        }
    }

    /// Removes a Mapping with its entries.
    #[inline]
    pub(crate) fn remove_mapping(&mut self, caps: &mut CapSpace, slot: SlotRef) {
        let cap = slot.cap();
        self.clear_mapping(caps, &cap);
        if cap.is(CapType::MorselMapping) {
            shows_no_more(self, &cap);
        }
        caps.remove_mapping(slot);
    }

    /// Removes the Mappings that only the Frame in `slot`, the last of its kind and inside no other
    /// Frame, stands behind: those of which it is the innermost object.
    pub(crate) fn unmap_frame(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        own: &RawCap,
    ) -> Progress {
        if own.aux != 0 {
            return self.unmap_rest(caps, slot, own);
        }
        let end = own.base + own.word;
        let mut next = caps.db.next_before(slot, end);
        while let Some(at) = next {
            let cap = at.cap();
            next = caps.db.next_before(at, end);
            if !caps.spend(1) {
                // From here on in another way, which knows where it was.
                slot.set_rights(Rights::NONE.0, own.attrs);
                slot.set_aux(1);
                return Err(Pause::Again);
            }
            if cap.is(CapType::Mapping) && self.is_innermost(caps, own, &cap) {
                self.remove_mapping(caps, at);
            }
        }
        Ok(())
    }

    /// The same for a Frame full of other Frames with many Mappings, which must be passed over. It
    /// has no rights any more, so that no Mapping of it comes to those before `aux - 1` pages: those
    /// that were there are gone. A Mapping is its own if it begins in none of the Frames inside, or
    /// reaches beyond that in which it begins.
    fn unmap_rest(&mut self, caps: &mut CapSpace, slot: SlotRef, own: &RawCap) -> Progress {
        let end = own.base + own.word;
        let mut at = own.base + u64::from(slot.cap().aux - 1) * PAGE;
        while at < end {
            let inside = self.frame_inside(caps, slot, own, at);
            let (gap_end, behind) =
                inside.map_or((end, end), |cap| (cap.base, cap.base + cap.word));
            self.unmap_overlapping(caps, slot, at, gap_end)?;
            if behind < end {
                self.unmap_across(caps, slot, behind)?;
            }
            at = behind;
            slot.set_aux(((at - own.base) / PAGE) as u32 + 1);
            if at < end && !caps.spend(1) {
                return Err(Pause::Again);
            }
        }
        Ok(())
    }

    /// The outermost object made of `own` that begins next at or behind `at`.
    fn frame_inside(
        &self,
        caps: &CapSpace,
        slot: SlotRef,
        own: &RawCap,
        at: u64,
    ) -> Option<RawCap> {
        let end = own.base + own.word;
        caps.db.object_inside(slot, at, end - at).map(|slot| slot.cap())
    }

    /// Removes the Mappings that reach into `[start, end)`.
    fn unmap_overlapping(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        start: u64,
        end: u64,
    ) -> Progress {
        if start == end {
            return Ok(());
        }
        loop {
            let leaf = caps.db.record_inside(slot, start, end - start);
            let Some(leaf) = leaf else { return Ok(()) };
            if !caps.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(caps, leaf);
        }
    }

    /// Removes the Mappings that begin before `border` and end behind it.
    fn unmap_across(&mut self, caps: &mut CapSpace, slot: SlotRef, border: u64) -> Progress {
        loop {
            let leaf = caps.db.record_inside(slot, border, PAGE);
            let leaf = leaf.filter(|slot| slot.cap().base < border);
            let Some(leaf) = leaf else { return Ok(()) };
            if !caps.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(caps, leaf);
        }
    }

    /// Is the Frame `own` the innermost object around a Mapping?
    fn is_innermost(&self, caps: &CapSpace, own: &RawCap, mapping: &RawCap) -> bool {
        let bytes = crate::cap::mapping::mapped_bytes(mapping);
        if (mapping.base, bytes) == (own.base, own.word) {
            return true;
        }
        let rank = CapType::Frame.rank();
        caps.db.surrounding(MEMORY, mapping.base, bytes, rank).is_some_and(|inner| {
            let inner = inner.cap();
            (inner.base, inner.word) == (own.base, own.word)
        })
    }

    /// Removes the Mappings of and in the table in `slot`, the last of its kind.
    pub(crate) fn tear_down(
        &mut self,
        caps: &mut CapSpace,
        unit: &VectorUnit,
        slot: SlotRef,
        cap: &RawCap,
    ) -> Progress {
        let level = cap.kind().table_level().unwrap_or(1);
        let is_root = level == arch::root_level();
        if is_root {
            self.core().leave_root(PhysAddr(cap.base));
            debug_assert!(
                !self.core().is_loaded_elsewhere(PhysAddr(cap.base)),
                "a root in use goes"
            );
        }
        self.empty_table(caps, unit, slot, cap, level)?;
        if is_root {
            self.known.forget_root(PhysAddr(cap.base));
        }
        Ok(())
    }

    fn empty_table(
        &mut self,
        caps: &mut CapSpace,
        unit: &VectorUnit,
        slot: SlotRef,
        cap: &RawCap,
        level: u8,
    ) -> Progress {
        while let Some(mapping) = caps.db.first_descendant(slot) {
            if !caps.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(caps, mapping);
        }
        let table = Table::at(cap.base);
        let end = user_entries(level);
        let is_empty = match level < arch::root_level() {
            true => is_table_empty(unit, table),
            false => is_root_empty(unit, table),
        };
        if is_empty {
            return Ok(());
        }
        let mut index = table.next_used(0, end);
        while index < end {
            if !caps.spend(STEPS_OF_SEARCH) {
                return Err(Pause::Again);
            }
            self.remove_at(caps, cap.base, level, index, table.get(index))?;
            index = table.next_used(index, end);
        }
        Ok(())
    }

    /// Removes the Mapping that begins at an entry in use, or the zero page from it.
    fn remove_at(
        &mut self,
        caps: &mut CapSpace,
        table: u64,
        level: u8,
        index: u32,
        entry: u64,
    ) -> Progress {
        if is_zero_page(level, entry) {
            self.remove_zero(caps, table, index);
            return Ok(());
        }
        let pools = self.core().cores.pools();
        let key = Mapping::at(pools, table, level, index, entry).map(Mapping::to_cap);
        match key.and_then(|key| caps.db.find(&key)) {
            Some(slot) => self.remove_mapping(caps, slot),
            None if entry & MORSEL != 0 => return remove_borrowed(self, caps, table, index),
            None => {
                debug_assert!(false, "entry {index} of {table:#x} without a Mapping");
                Table::at(table).set(index, 0);
                self.forget_everything();
            }
        }
        Ok(())
    }

    /// Removes entries `first..first + count` of the Mapping in `slot`; see
    /// [`captypes::op::Unmap`]. `rest`: where the part behind them goes.
    #[inline(always)]
    pub fn unmap(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        first: u32,
        count: u32,
        rest: Result<SlotRef, Status>,
        flags: MapFlags,
    ) -> Result<(), Status> {
        let cap = slot.cap();
        let mapping = Mapping::of(&cap).ok_or(Status::WrongType)?;
        if count == 0 || first >= mapping.count || count > mapping.count - first {
            return Err(Status::OutOfRange);
        }
        let behind = mapping.count - first - count;
        let spare = if first > 0 && behind > 0 { Some(rest?) } else { None };
        let kept = caps.db.nearest_ancestor(slot);
        self.clear_many(caps, &cap, mapping.entry + first, count, flags);
        if mapping.is_morsel && count == mapping.count {
            shows_no_more(self, &cap);
        }
        caps.remove_mapping(slot);
        let tail = (behind > 0).then(|| mapping.part(first + count, behind));
        if first > 0 {
            self.restore(caps, slot, mapping.part(0, first), kept);
            if let (Some(tail), Some(spare)) = (tail, spare) {
                if mapping.is_morsel {
                    shows(self, &cap);
                }
                self.restore(caps, spare, tail, kept);
            }
        } else if let Some(tail) = tail {
            self.restore(caps, slot, tail, kept);
        }
        Ok(())
    }

    /// Makes a Mapping of entries that are mapped already.
    fn restore(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        mapping: Mapping,
        near: Option<SlotRef>,
    ) {
        let bits = first_bits(mapping.count);
        Table::at(mapping.table).change(mapping.entry, |entry| entry & !FIRST_BITS | bits);
        match near {
            Some(near) => caps.db.insert_near(slot, mapping.to_cap(), near),
            None => caps.db.insert(slot, mapping.to_cap()),
        }
    }
}

/// Removes a Mapping of what is no morsel, with its entries.
#[inline(always)]
pub(crate) fn remove_plain_mapping(vm: &mut Translations, caps: &mut CapSpace, slot: SlotRef) {
    vm.clear_mapping(caps, &slot.cap());
    caps.remove_mapping(slot);
}

/// Is the table empty? Most are when they go, and this is a quick look.
pub(super) fn is_table_empty(unit: &VectorUnit, table: Table) -> bool {
    unit.with(|| table.is_empty())
}

/// The same of what user mode has of a root table.
fn is_root_empty(unit: &VectorUnit, table: Table) -> bool {
    unit.with(|| table.is_lower_half_empty())
}
