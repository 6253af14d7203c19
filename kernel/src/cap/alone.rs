//! Write only while alone: copy-on-write is the kernel's promise.
//!
//! What is born with [`Rights::WRITE_ALONE`] can be written to only while nobody else has it. A
//! process and its forked child hold the same CNodes, tables and Frames, so none of them can be used
//! against the other, whatever its library does:
//!
//! | object | while it is shared |
//! |---|---|
//! | Frame | is not mapped writable, and no entry of it gets the right to write |
//! | L2CNode | its slots do not change; a Mapping in them is not used |
//! | last-level table | its entries do not change, and the entry above does not let anybody write |
//!
//! A Frame is shared if a part of it is lent (`loans`), if its capability has copies, or if the CNode does that holds it: those who have
//! the CNode have what is in it. No Frame is made of a part of such a Frame, so there is no other way
//! to share it. Nothing of this is counted; the database knows who has what.
//!
//! Entries that were made while a process was alone keep their write bits when it forks: the entry
//! above the table loses its own. Whoever is alone with the table later, and lets itself write again
//! through the entry above, finds all entries of such Frames lowered (`settle_table`), and
//! raises those that nobody else has.
//!
//! Who names a Frame names the CNode that holds it on the way. Who names a Mapping does not, and has to
//! search for the holder of its Frame, and for the capability to its table; so what was found not to
//! be copied is remembered until it is (`Uncopied`).

use super::CapSpace;
use super::{attr, CapExt, MEMORY};
use crate::object::SlotRef;
use captypes::{CapType, Rights, Status, TypeSet};
use core::cell::Cell;
use mdb::RawCap;
use paging::PAGE;

/// Containers and last-level tables of which there is only one capability, on any core, by the numbers
/// of their pages.
///
/// Only pages of those are asked for, and copies make them forgotten; so what is remembered is right,
/// also when the memory has become another container or table meanwhile.
pub(super) struct Uncopied {
    tables: [Cell<u64>; TABLES],
    /// A page of a container, and how many copies of containers had been made when it was alone.
    holders: [Cell<(u64, u64)>; HOLDERS],
    copies: Cell<u64>,
}

/// What a process works with in 256 MiB.
const TABLES: usize = 128;
/// What it works with between two forks.
const HOLDERS: usize = 64;

impl Uncopied {
    pub(super) const fn new() -> Uncopied {
        Uncopied {
            tables: [const { Cell::new(0) }; TABLES],
            holders: [const { Cell::new((0, 0)) }; HOLDERS],
            copies: Cell::new(0),
        }
    }

    #[inline(always)]
    fn table(&self, pa: u64) -> (&Cell<u64>, u64) {
        let page = pa / PAGE;
        (&self.tables[page as usize % TABLES], page)
    }

    #[inline(always)]
    fn has_table(&self, pa: u64) -> bool {
        let (cell, page) = self.table(pa);
        cell.get() == page
    }

    fn add_table(&self, pa: u64) {
        let (cell, page) = self.table(pa);
        cell.set(page);
    }

    #[inline(always)]
    fn holder(&self, pa: u64) -> (&Cell<(u64, u64)>, (u64, u64)) {
        let page = pa / PAGE;
        (&self.holders[page as usize % HOLDERS], (page, self.copies.get()))
    }

    #[inline(always)]
    fn has_holder(&self, pa: u64) -> bool {
        let (cell, now) = self.holder(pa);
        cell.get() == now
    }

    fn add_holder(&self, pa: u64) {
        let (cell, now) = self.holder(pa);
        cell.set(now);
    }

    /// Forgets everything.
    fn clear(&self) {
        self.copies.set(self.copies.get() + 1);
        self.tables.iter().for_each(|at| at.set(0));
    }
}

/// Is it a type of which [`Uncopied`] may remember an object?
#[inline(always)]
pub(super) fn is_remembered(ty: u8) -> bool {
    const TYPES: TypeSet = TypeSet::CONTAINERS.or(TypeSet::of(&[CapType::Pt]));
    TYPES.has_number(ty)
}

impl super::Db {
    /// Another capability to a container or last-level table comes into being, a copy of that in
    /// `src`. What it is to hold.
    #[inline(always)]
    pub(super) fn becomes_copied(&self, src: SlotRef, cap: RawCap) -> RawCap {
        if !cap.is(CapType::Pt) {
            self.uncopied.copies.set(self.uncopied.copies.get() + 1);
            return cap;
        }
        let (cell, page) = self.uncopied.table(cap.base);
        if cell.get() == page {
            cell.set(0);
        }
        let own = src.cap();
        src.set_rights(own.rights, own.attrs | attr::WAS_COPIED);
        RawCap { attrs: cap.attrs | attr::WAS_COPIED, ..cap }
    }

    /// A last-level table has been made that is written to only while alone: it is about to be.
    pub(super) fn is_new_table(&self, base: u64) {
        self.uncopied.add_table(base);
    }

    /// Other cores get, or have sent, capabilities.
    pub(crate) fn copied_elsewhere(&self) {
        self.uncopied.clear();
    }
}

/// How a capability may be written through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Always,
    Alone,
    Never,
}

impl Write {
    #[inline(always)]
    fn of(rights: Rights) -> Write {
        if rights.has(Rights::WRITE) {
            Write::Always
        } else if rights.has(Rights::WRITE_ALONE) {
            Write::Alone
        } else {
            Write::Never
        }
    }
}

/// Do these rights allow writing only while alone?
#[inline(always)]
pub(crate) fn is_alone_kind(rights: Rights) -> bool {
    Write::of(rights) == Write::Alone
}

/// A slot, and the capability to the CNode that it is in, if it is known.
#[derive(Clone, Copy)]
pub struct Held {
    pub slot: SlotRef,
    pub holder: Option<SlotRef>,
}

impl From<SlotRef> for Held {
    #[inline(always)]
    fn from(slot: SlotRef) -> Held {
        Held { slot, holder: None }
    }
}

impl CapSpace {
    /// Has nobody else what a slot holds, neither by another capability nor by another one to the
    /// CNode in which the slot is?
    #[inline(always)]
    pub(crate) fn is_alone(&self, what: Held) -> bool {
        self.is_exclusive(what.slot)
            && match what.holder {
                Some(holder) => self.is_exclusive(holder),
                None => self.is_holder_uncopied(what.slot),
            }
    }

    /// Is there only one capability to the CNode in which `slot` is?
    #[inline(always)]
    fn is_holder_uncopied(&self, slot: SlotRef) -> bool {
        let known = self.db.uncopied.has_holder(slot.pa());
        debug_assert!(!known || self.find_holder(slot), "a copied CNode is remembered");
        known || self.find_holder(slot)
    }

    #[cold]
    #[inline(never)]
    fn find_holder(&self, slot: SlotRef) -> bool {
        let rank = CapType::L2CNode.rank();
        let holder = self.db.surrounding(MEMORY, slot.pa(), size_of::<mdb::Slot>() as u64, rank);
        let alone = holder.is_some_and(|holder| {
            super::db::is_container(holder.cap().ty) && self.is_exclusive(holder)
        });
        if alone {
            self.db.uncopied.add_holder(slot.pa());
        }
        alone
    }

    /// Is there only one capability to the last-level table at `table`?
    #[inline(always)]
    fn is_table_uncopied(&self, table: u64) -> bool {
        let known = self.db.uncopied.has_table(table);
        debug_assert!(!known || self.find_table(table), "a copied table is remembered");
        known || self.find_table(table)
    }

    #[cold]
    #[inline(never)]
    fn find_table(&self, table: u64) -> bool {
        let key = RawCap { ty: CapType::Pt as u8, base: table, word: PAGE, ..RawCap::NULL };
        let alone = self.db.find(&key).is_some_and(|slot| self.is_exclusive(slot));
        if alone {
            self.db.uncopied.add_table(table);
        }
        alone
    }

    /// Would nobody see it if the Frame `cap` in a slot were written to?
    pub fn is_nobody_elses(&self, what: Held, cap: &RawCap) -> bool {
        match Write::of(cap.rights_set()) {
            Write::Alone => self.is_alone(what),
            Write::Always | Write::Never => {
                self.is_exclusive(what.slot) && !self.db.is_lent(what.slot)
            }
        }
    }

    /// May the entries of the table to which `slot` has a capability with these rights change?
    #[inline(always)]
    pub(crate) fn check_table(&self, slot: SlotRef, rights: Rights) -> Result<(), Status> {
        match Write::of(rights) {
            Write::Always => Ok(()),
            Write::Alone if self.is_exclusive(slot) => Ok(()),
            Write::Alone => Err(Status::Shared),
            Write::Never => Err(Status::NoRights),
        }
    }

    /// May the slots of the L2CNode change to which `holder` has the capability? Where that itself is
    /// makes no difference: CNodes are in roots, which dispatchers share.
    pub(super) fn may_change_slots(&self, holder: SlotRef) -> bool {
        match Write::of(holder.cap().rights_set()) {
            Write::Always => true,
            Write::Alone => self.is_exclusive(holder),
            Write::Never => false,
        }
    }

    /// May the entries of the Mapping `cap` change?
    #[inline(always)]
    pub(crate) fn check_entries(&self, cap: &RawCap) -> Result<(), Status> {
        debug_assert!(super::mapping::is_mapping(cap));
        if cap.attrs & super::mapping::IN_ALONE == 0 || self.is_table_uncopied(cap.word) {
            Ok(())
        } else {
            Err(Status::Shared)
        }
    }
}
