//! Tessera's own, for the same measurements.

use crate::database::{Database, Place};
use crate::order::{Types, RAM};
use mdb::{Class, Entry, Mdb, Policy, RawCap, Slot, PIECE};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The database, and for how long its slots live.
#[derive(Default)]
pub struct Ours<'a> {
    mdb: Mdb<Types>,
    slots: PhantomData<&'a Slot>,
}

impl Place for Slot {
    fn fill(&self, cap: RawCap) {
        self.set_cap(cap);
    }

    #[inline]
    fn cap(&self) -> RawCap {
        self.cap()
    }
}

impl<'a> Ours<'a> {
    #[inline]
    fn slot(found: NonNull<Slot>) -> &'a Slot {
        // SAFETY: a database returns only slots that were put in: references that live for `'a`.
        unsafe { found.as_ref() }
    }
}

impl<'a> Database<'a> for Ours<'a> {
    type Slot = Slot;

    const NAME: &'static str = "Tessera";

    /// The directory is never freed: the database keeps it for ever, as that of a kernel does.
    fn prepare(&mut self, bytes: u64) {
        let count = mdb::directory_entries((bytes / PIECE) as usize + 1);
        let entries = (0..count).map(|_| Entry::default()).collect();
        self.mdb.divide(Types::tree(RAM), bytes, Box::leak(entries));
    }

    #[inline]
    fn insert(&mut self, slot: &'a Slot) {
        // SAFETY: the slot outlives the database, only `&` exist, and it is in no other database.
        unsafe { self.mdb.insert(slot.into()) };
    }

    #[inline]
    fn remove(&mut self, slot: &'a Slot) {
        // SAFETY: the slot is in the database.
        unsafe { self.mdb.remove(slot.into()) };
    }

    #[inline]
    fn next(&self, slot: &'a Slot) -> Option<&'a Slot> {
        // SAFETY: the slot is in the database.
        unsafe { self.mdb.next(slot.into()) }.map(Self::slot)
    }

    #[inline]
    fn has_copies(&self, slot: &'a Slot) -> bool {
        // SAFETY: the slot is in the database.
        unsafe { self.mdb.has_copies(slot.into()) }
    }

    #[inline]
    fn has_ancestors(&self, slot: &'a Slot) -> bool {
        // SAFETY: the slot is in the database.
        unsafe { self.mdb.nearest_ancestor(slot.into()) }.is_some()
    }

    #[inline]
    fn has_descendants(&self, slot: &'a Slot) -> bool {
        // SAFETY: the slot is in the database.
        unsafe { self.mdb.has_descendants(slot.into()) }
    }

    #[inline]
    fn overlapping(&self, base: u64, len: u64) -> Option<&'a Slot> {
        self.mdb.overlapping(Types::tree(RAM), base, len, Class::Objects).next().map(Self::slot)
    }

    fn is_sound(&self) -> bool {
        self.mdb.check().is_ok()
    }
}
