//! Changing the rights of entries that are mapped.

use super::{rights_bits, wanted, Mapping, ENTRY, ENTRY_BITS, RIGHTS_BITS};
use crate::cap::mem::Table;
use crate::cap::{CapExt, SlotRef, SlotRun};
use crate::dispatch::Local;
use captypes::invocations::{Count, MapFlags};
use captypes::{CapType, Status};
use mdb::RawCap;
use paging::Flags;

/// Are there rights in entries whose union and intersection are these that `new` lacks?
#[inline]
fn loses(union: u64, intersection: u64, new: u64) -> bool {
    // No-execute is a right when it is clear.
    let write = union & !new & Flags::WRITE.bits();
    let execute = !intersection & new & Flags::NO_EXECUTE.bits();
    write | execute != 0
}

impl Local {
    /// `flags` without `WRITE` if that was asked for exclusive pages only and these are not.
    fn effective_for(&self, flags: MapFlags, slot: SlotRef) -> MapFlags {
        if !flags.has(MapFlags::WRITE.or(MapFlags::IF_EXCLUSIVE)) {
            return flags;
        }
        let shared = match self.db.nearest_ancestor(slot) {
            Some(mapped) => self.db.has_copies(mapped),
            None => true,
        };
        if shared {
            MapFlags(flags.0 & !MapFlags::WRITE.0)
        } else {
            flags
        }
    }

    /// Gives entries `first..first + count` of a Mapping other rights. Each changes by one atomic
    /// store: there is no moment in which it is absent, or has neither the old nor the new rights.
    #[inline(always)]
    fn set_rights(&mut self, mapping: &RawCap, first: u32, count: u32, flags: MapFlags) {
        let index = (mapping.aux & ENTRY) + first;
        if count != 1 {
            return self.set_many(mapping, index, count, flags);
        }
        let bits = rights_bits(flags);
        let (old, _) = Table::at(mapping.word).change(index, |e| e & !RIGHTS_BITS | bits);
        if loses(old, old, bits) {
            self.forget(mapping.word, mapping.attrs, index, old, flags);
        }
    }

    /// The entries of a Mapping mostly have the same rights, so that the same bits change in all.
    #[inline(never)]
    fn set_many(&mut self, mapping: &RawCap, start: u32, count: u32, flags: MapFlags) {
        let (table, bits) = (Table::at(mapping.word), rights_bits(flags));
        let (union, intersection) = table.union_and_intersection(start, count);
        let mixed = (union ^ intersection) & RIGHTS_BITS;
        if mixed == 0 {
            table.toggle(start, count, (union & RIGHTS_BITS) ^ bits);
        } else {
            for index in start..start + count {
                table.change(index, |entry| entry & !RIGHTS_BITS | bits);
            }
        }
        if loses(union, intersection, bits) {
            self.forget_range(mapping.word, mapping.attrs, start, count, flags);
        }
    }

    /// Gives entries `first..first + count` of the Mapping in `slot` new rights.
    pub fn protect(
        &mut self,
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
        if !mapping.rights.has(wanted(flags)) {
            return Err(Status::NoRights);
        }
        self.set_rights(&cap, first, count, self.effective_for(flags, slot));
        Ok(())
    }

    /// Gives all entries of every Mapping in `slots` new rights.
    pub fn protect_many(&mut self, slots: SlotRun, flags: MapFlags) -> Result<Count, Status> {
        let wanted = wanted(flags);
        let allowed = |slot: SlotRef| {
            Mapping::of(&slot.cap()).is_none_or(|mapping| mapping.rights.has(wanted))
        };
        if !slots.iter().all(allowed) {
            return Err(Status::NoRights);
        }
        let mut count = 0;
        for slot in slots.iter() {
            let cap = slot.cap();
            if !cap.is(CapType::Mapping) {
                continue;
            }
            let entries = (cap.aux >> ENTRY_BITS) + 1;
            self.set_rights(&cap, 0, entries, self.effective_for(flags, slot));
            count += 1;
        }
        Ok(Count { count })
    }
}
