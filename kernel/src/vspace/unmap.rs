//! Removing entries: by their Mapping, with what they map, and with the table that they are in.

use super::zero::is_zero_page;
use super::{first_bits, user_entries, Mapping, ENTRY, ENTRY_BITS, FIRST_BITS};
use crate::arch;
use crate::cap::delete::{Pause, Progress};
use crate::cap::{CapExt, MEMORY};
use crate::driver::Local;
use crate::object::{SlotRef, Table};
use captypes::invocations::MapFlags;
use captypes::{CapType, Rights, Status};
use mdb::RawCap;
use paging::{Flags, PAGE};

const DEFAULT: MapFlags = MapFlags(0);
/// What it costs to find a Mapping by its entry, and to remove it, in steps of destruction.
const STEPS_OF_SEARCH: u32 = 4;
/// Entries that are cleared for the price of one step of destruction.
const ENTRIES_PER_STEP: u32 = 64;

impl Local {
    /// Clears all entries of a Mapping that is about to go.
    #[inline]
    fn clear_mapping(&mut self, cap: &RawCap) {
        if cap.aux >> ENTRY_BITS != 0 {
            return self.clear_many(cap, cap.aux & ENTRY, (cap.aux >> ENTRY_BITS) + 1, DEFAULT);
        }
        let index = cap.aux & ENTRY;
        let old = Table::at(cap.word).take(index);
        self.forget(cap.word, cap.attrs, index, old, DEFAULT);
    }

    /// Clears entries of a Mapping of pages. Most were not used, and then nothing remembers them; of
    /// many that were, everything is forgotten. Both leave nothing to look at one by one.
    #[inline(never)]
    fn clear_many(&mut self, cap: &RawCap, start: u32, count: u32, flags: MapFlags) {
        if count >= ENTRIES_PER_STEP {
            self.spend(count / ENTRIES_PER_STEP);
        }
        let (table, kind) = (Table::at(cap.word), cap.attrs);
        if self.tlb.elsewhere.may_be() {
            return self.take_many(cap, start, count, flags);
        }
        let (union, _) = table.union_and_intersection(start, count);
        let used = union & Flags::ACCESSED.bits() != 0;
        let here = if used { self.begin_singles(cap.word, kind, count, flags) } else { None };
        let Some(here) = here else { return table.fill(start, count, 0, 0) };
        let mut pages = 0;
        for index in start..start + count {
            if table.take(index) & Flags::ACCESSED.bits() != 0 {
                pages += self.tlb.flush_at(here, kind, index);
            }
        }
        self.count_singles(pages);
    }

    /// The same while other cores may use the entries: whether one was used is known when it is gone.
    #[inline(never)]
    fn take_many(&mut self, cap: &RawCap, start: u32, count: u32, flags: MapFlags) {
        let (table, kind) = (Table::at(cap.word), cap.attrs);
        let entries = start..start + count;
        let used = entries.clone().fold(0, |all, index| all | table.take(index));
        if used & Flags::ACCESSED.bits() == 0 || self.tlb.is_settled() {
            return;
        }
        self.forget_elsewhere(cap.word, kind, start, count, flags);
        if let Some(here) = self.begin_singles(cap.word, kind, count, flags) {
            let pages = entries.map(|index| self.tlb.flush_at(here, kind, index)).sum();
            self.count_singles(pages);
        }
    }

    /// Removes a Mapping with its entries.
    #[inline]
    pub(crate) fn remove_mapping(&mut self, slot: SlotRef) {
        self.clear_mapping(&slot.cap());
        self.db.remove_mapping(slot);
        if self.watched == Some(slot) {
            self.watched = None;
        }
    }

    /// Removes the Mappings that only the Frame in `slot`, the last of its kind and inside no other
    /// Frame, stands behind: those of which it is the innermost object.
    pub(crate) fn unmap_frame(&mut self, slot: SlotRef, own: &RawCap) -> Progress {
        if own.aux != 0 {
            return self.unmap_rest(slot, own);
        }
        let end = own.base + own.word;
        let mut next = self.db.next_before(slot, end);
        while let Some(at) = next {
            let cap = at.cap();
            next = self.db.next_before(at, end);
            if !self.spend(1) {
                // From here on in another way, which knows where it was.
                slot.set_rights(Rights::NONE.0, own.attrs);
                slot.set_aux(1);
                return Err(Pause::Again);
            }
            if cap.is(CapType::Mapping) && self.is_innermost(own, &cap) {
                self.remove_mapping(at);
            }
        }
        Ok(())
    }

    /// The same for a Frame full of other Frames with many Mappings, which must be passed over. It
    /// has no rights any more, so that no Mapping of it comes to those before `aux - 1` pages: those
    /// that were there are gone. A Mapping is its own if it begins in none of the Frames inside, or
    /// reaches beyond that in which it begins.
    fn unmap_rest(&mut self, slot: SlotRef, own: &RawCap) -> Progress {
        let end = own.base + own.word;
        let mut at = own.base + u64::from(slot.cap().aux - 1) * PAGE;
        while at < end {
            let inside = self.frame_inside(slot, own, at);
            let (gap_end, behind) =
                inside.map_or((end, end), |cap| (cap.base, cap.base + cap.word));
            self.unmap_overlapping(slot, at, gap_end)?;
            if behind < end {
                self.unmap_across(slot, behind)?;
            }
            at = behind;
            slot.set_aux(((at - own.base) / PAGE) as u32 + 1);
            if at < end && !self.spend(1) {
                return Err(Pause::Again);
            }
        }
        Ok(())
    }

    /// The outermost object made of `own` that begins next at or behind `at`.
    fn frame_inside(&self, slot: SlotRef, own: &RawCap, at: u64) -> Option<RawCap> {
        let end = own.base + own.word;
        self.db.object_inside(slot, at, end - at).map(|slot| slot.cap())
    }

    /// Removes the Mappings that reach into `[start, end)`.
    fn unmap_overlapping(&mut self, slot: SlotRef, start: u64, end: u64) -> Progress {
        if start == end {
            return Ok(());
        }
        loop {
            let leaf = self.db.leaf_inside(slot, start, end - start);
            let Some(leaf) = leaf else { return Ok(()) };
            if !self.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(leaf);
        }
    }

    /// Removes the Mappings that begin before `border` and end behind it.
    fn unmap_across(&mut self, slot: SlotRef, border: u64) -> Progress {
        loop {
            let leaf = self.db.leaf_inside(slot, border, PAGE);
            let leaf = leaf.filter(|slot| slot.cap().base < border);
            let Some(leaf) = leaf else { return Ok(()) };
            if !self.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(leaf);
        }
    }

    /// Is the Frame `own` the innermost object around a Mapping?
    fn is_innermost(&self, own: &RawCap, mapping: &RawCap) -> bool {
        let bytes = super::mapped_bytes(mapping);
        if (mapping.base, bytes) == (own.base, own.word) {
            return true;
        }
        let rank = CapType::Frame.rank();
        self.db.surrounding(MEMORY, mapping.base, bytes, rank).is_some_and(|inner| {
            let inner = inner.cap();
            (inner.base, inner.word) == (own.base, own.word)
        })
    }

    /// Removes the Mappings of and in the table in `slot`, the last of its kind.
    pub(crate) fn tear_down(&mut self, slot: SlotRef, cap: &RawCap) -> Progress {
        let level = cap.kind().table_level().unwrap_or(1);
        let is_root = level == arch::root_level();
        if is_root {
            self.core.leave_root(cap.base);
            debug_assert!(!self.core.is_loaded_elsewhere(cap.base), "a root in use goes");
        }
        self.empty_table(slot, cap, level)?;
        if is_root {
            self.tlb.known.forget_root(cap.base);
        }
        Ok(())
    }

    fn empty_table(&mut self, slot: SlotRef, cap: &RawCap, level: u8) -> Progress {
        while let Some(mapping) = self.db.first_descendant(slot) {
            if !self.spend(1) {
                return Err(Pause::Again);
            }
            self.remove_mapping(mapping);
        }
        let table = Table::at(cap.base);
        let end = user_entries(level);
        let is_empty = match level < arch::root_level() {
            true => self.is_table_empty(table),
            false => self.is_root_empty(table),
        };
        if is_empty {
            return Ok(());
        }
        let mut index = table.next_used(0, end);
        while index < end {
            if !self.spend(STEPS_OF_SEARCH) {
                return Err(Pause::Again);
            }
            self.remove_at(cap.base, level, index, table.get(index));
            index = table.next_used(index, end);
        }
        Ok(())
    }

    /// Is the table empty? Most are when they go, and this is a quick look.
    pub(super) fn is_table_empty(&self, table: Table) -> bool {
        let mut empty = false;
        self.sched.vector_unit().with(|| empty = table.is_empty());
        empty
    }

    /// The same of what user mode has of a root table.
    fn is_root_empty(&self, table: Table) -> bool {
        let mut empty = false;
        self.sched.vector_unit().with(|| empty = table.is_lower_half_empty());
        empty
    }

    /// Removes the Mapping that begins at an entry in use, or the zero page from it.
    fn remove_at(&mut self, table: u64, level: u8, index: u32, entry: u64) {
        if is_zero_page(level, entry) {
            return self.remove_zero(table, index);
        }
        let key = Mapping::at(table, level, index, entry).map(Mapping::to_cap);
        match key.and_then(|key| self.db.find(&key)) {
            Some(slot) => self.remove_mapping(slot),
            None => {
                debug_assert!(false, "entry {index} of {table:#x} without a Mapping");
                Table::at(table).set(index, 0);
                self.forget_everything();
            }
        }
    }

    /// Removes entries `first..first + count` of the Mapping in `slot`; see
    /// [`captypes::op::Unmap`]. `rest`: where the part behind them goes.
    pub fn unmap(
        &mut self,
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
        let kept = self.db.nearest_ancestor(slot);
        self.clear_many(&cap, mapping.entry + first, count, flags);
        self.drop_slot(slot);
        let tail = (behind > 0).then(|| mapping.part(first + count, behind));
        if first > 0 {
            self.restore(slot, mapping.part(0, first), kept);
            if let (Some(tail), Some(spare)) = (tail, spare) {
                self.restore(spare, tail, kept);
            }
        } else if let Some(tail) = tail {
            self.restore(slot, tail, kept);
        }
        Ok(())
    }

    /// Makes a Mapping of entries that are mapped already.
    fn restore(&mut self, slot: SlotRef, mapping: Mapping, near: Option<SlotRef>) {
        let bits = first_bits(mapping.count);
        Table::at(mapping.table).change(mapping.entry, |entry| entry & !FIRST_BITS | bits);
        match near {
            Some(near) => self.db.insert_near(slot, mapping.to_cap(), near),
            None => self.db.insert(slot, mapping.to_cap()),
        }
    }
}
