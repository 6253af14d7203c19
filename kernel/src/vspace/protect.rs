//! Changing the rights of entries that are mapped.

use super::{rights_bits, wanted, Mapping, RIGHTS_BITS};
use crate::cap::mem::Table;
use crate::cap::{SlotRef, SlotRun};
use crate::dispatch::Local;
use captypes::invocations::{Count, MapFlags};
use captypes::Status;
use paging::Flags;

/// Did the entry lose a right?
#[inline]
fn lost(old: u64, new: u64) -> bool {
    // No-execute is a right when it is clear: invert it.
    (old ^ Flags::NO_EXECUTE.bits()) & !(new ^ Flags::NO_EXECUTE.bits()) & RIGHTS_BITS != 0
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

    #[inline]
    fn set_rights(&mut self, mapping: &Mapping, first: u32, count: u32, bits: u64) {
        let table = Table::at(mapping.table);
        let start = mapping.entry + first;
        let mut stale = false;
        for index in start..start + count {
            let (old, new) = table.change(index, |entry| entry & !RIGHTS_BITS | bits);
            stale |= lost(old, new);
        }
        if stale {
            self.tlb.stale();
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
        let mapping = Mapping::of(&slot.cap()).ok_or(Status::WrongType)?;
        if count == 0 || first >= mapping.count || count > mapping.count - first {
            return Err(Status::OutOfRange);
        }
        if !mapping.rights.has(wanted(flags)) {
            return Err(Status::NoRights);
        }
        let bits = rights_bits(self.effective_for(flags, slot));
        self.set_rights(&mapping, first, count, bits);
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
            let Some(mapping) = Mapping::of(&slot.cap()) else { continue };
            let bits = rights_bits(self.effective_for(flags, slot));
            self.set_rights(&mapping, 0, mapping.count, bits);
            count += 1;
        }
        Ok(Count { count })
    }
}
