//! What entries may allow: what was asked for, as far as the mapped capability has the right.

use super::Translations;
use super::{ALONE, WRITABLE};
use crate::cap::alone::{is_alone_kind, Held};
use crate::cap::mapping::{ENTRY, IS_MORSEL, IS_TABLE};
use crate::cap::CapExt;
use crate::cap::CapSpace;
use crate::object::{SlotRef, Table};
use captypes::invocations::MapFlags;
use captypes::{Rights, Status};
use mdb::RawCap;
use paging::Flags;

/// What must be so for entries to allow writing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing: or they are not to allow it.
    None,
    /// The mapped capability has no copies.
    Exclusive,
    /// Nor has the CNode that holds it.
    Alone,
}

/// The rights that a map or protect with these flags needs, if none is granted on a condition.
#[inline(always)]
pub(super) fn asked(flags: MapFlags) -> Rights {
    const READ: u8 = Rights::READ.0;
    const RIGHTS: u8 = READ | Rights::WRITE.0 | Rights::EXEC.0;
    Rights(flags.0 as u8 & RIGHTS | READ)
}

// Flags that ask for a right are the bits of that right.
const _: () = assert!(
    MapFlags::READ.0 == Rights::READ.0 as u32
        && MapFlags::WRITE.0 == Rights::WRITE.0 as u32
        && MapFlags::EXEC.0 == Rights::EXEC.0 as u32
);

/// On what condition may a capability with `rights` be mapped as `flags` ask for?
#[inline(always)]
pub(super) fn condition(flags: MapFlags, rights: Rights) -> Result<Condition, Status> {
    // Either right to write counts as `WRITE`, on its condition.
    const APART: u32 = Rights::WRITE_ALONE.0.trailing_zeros() - Rights::WRITE.0.trailing_zeros();
    let either = Rights(rights.0 | (rights.0 & Rights::WRITE_ALONE.0) >> APART);
    if !either.has(asked(flags)) {
        return Err(Status::NoRights);
    }
    Ok(match (flags.has(MapFlags::WRITE), rights.has(Rights::WRITE)) {
        (false, _) => Condition::None,
        (true, false) => Condition::Alone,
        (true, true) if flags.has(MapFlags::IF_EXCLUSIVE) => Condition::Exclusive,
        (true, true) => Condition::None,
    })
}

impl Translations {
    /// The Mapping in `slot` is about to get what `granted` says. If it is the entry of a table through
    /// which nobody could write, those of the table must be right before somebody can.
    #[inline(always)]
    pub(super) fn settle_below(
        &mut self,
        caps: &mut CapSpace,
        slot: SlotRef,
        cap: &RawCap,
        granted: MapFlags,
    ) {
        if cap.attrs & (IS_TABLE | IS_MORSEL) == IS_TABLE && granted.has(MapFlags::WRITE) {
            self.settle_mapped(caps, slot);
        }
    }

    #[inline(never)]
    fn settle_mapped(&mut self, caps: &mut CapSpace, slot: SlotRef) {
        let cap = slot.cap();
        let entry = Table::at(cap.word).get(cap.aux & ENTRY);
        if is_alone_kind(cap.rights_set()) && entry & Flags::WRITE.bits() == 0 {
            if let Some(table) = caps.db.nearest_ancestor(slot) {
                self.settle_table(caps, table);
            }
        }
    }

    /// The entry above a table is about to allow writing. Takes the right to write from all entries
    /// of Frames that may be written to only while alone, if anybody else has ever had the table:
    /// what such an entry says may be of a time when the Frame was not shared. `slot`: a capability to
    /// the table, which nobody else has now if it is one of those that must be alone to be written to.
    #[inline]
    pub(crate) fn settle_table(&mut self, caps: &mut CapSpace, slot: SlotRef) {
        let cap = slot.cap();
        let may_be_stale =
            cap.attrs & crate::cap::attr::WAS_COPIED != 0 && cap.is(captypes::CapType::Pt);
        if may_be_stale && is_alone_kind(cap.rights_set()) {
            self.lower_table(caps, slot, &cap);
        }
    }

    #[inline(never)]
    fn lower_table(&mut self, caps: &mut CapSpace, slot: SlotRef, cap: &RawCap) {
        let (write, accessed) = (WRITABLE, Flags::ACCESSED.bits());
        let table = Table::at(cap.base);
        let mut used = 0;
        table.for_each_with(0, paging::ENTRIES as u32, write, |index, entry| {
            if entry & ALONE != 0 {
                used |= table.change(index, |entry| entry & !write).0;
            }
        });
        // Through the entry above nobody could write until now, but perhaps through another one.
        if used & accessed != 0 && self.is_mapped_twice(caps, slot, cap) {
            self.forget_everything();
        }
        slot.set_rights(cap.rights, cap.attrs & !crate::cap::attr::WAS_COPIED);
    }

    /// Is a table mapped at more than one entry?
    fn is_mapped_twice(&self, caps: &CapSpace, slot: SlotRef, cap: &RawCap) -> bool {
        let first = caps.db.first_descendant(slot);
        first.is_some_and(|first| caps.db.next_before(first, cap.base + paging::PAGE).is_some())
    }
}

#[inline(always)]
pub(super) fn holds(
    caps: &CapSpace,
    condition: Condition,
    mapped: impl FnOnce() -> Option<Held>,
) -> bool {
    match condition {
        Condition::None => true,
        Condition::Exclusive => {
            mapped().is_some_and(|what| caps.is_exclusive(what.slot) && !caps.db.is_lent(what.slot))
        }
        Condition::Alone => mapped().is_some_and(|what| caps.is_alone(what)),
    }
}

/// What of `flags` may be done with a capability that may be mapped with `rights`: all, or all but
/// `WRITE` if that was asked for exclusive pages only, and these are not. `mapped`: where
/// the capability is.
#[inline(always)]
pub(super) fn granted(
    caps: &CapSpace,
    flags: MapFlags,
    rights: Rights,
    mapped: impl FnOnce() -> Option<Held>,
) -> Result<MapFlags, Status> {
    if holds(caps, condition(flags, rights)?, mapped) {
        Ok(flags)
    } else if flags.has(MapFlags::IF_EXCLUSIVE) {
        Ok(MapFlags(flags.0 & !MapFlags::WRITE.0))
    } else {
        Err(Status::Shared)
    }
}

/// Is [`granted`](Self::granted) no error? For operations on many, which look first.
#[inline(always)]
pub(super) fn check_granted(
    caps: &CapSpace,
    flags: MapFlags,
    rights: Rights,
    mapped: impl FnOnce() -> Option<Held>,
) -> Result<(), Status> {
    let condition = condition(flags, rights)?;
    if flags.has(MapFlags::IF_EXCLUSIVE) || holds(caps, condition, mapped) {
        Ok(())
    } else {
        Err(Status::Shared)
    }
}
