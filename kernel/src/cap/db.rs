//! The mapping database of the core, with slots as references that are always valid.
//!
//! The contract of [`mdb`] is that a slot in the database stays in place. It is kept as slots are
//! made by retype (zeros: empty) and their memory is given back only by `delete`, which empties
//! every slot of a container before.

use super::alone::{is_remembered, Uncopied};
use super::cycles::Collector;
use super::loans::Serials;
use super::locks::Locks;
use super::policy::{CapPolicy, MEMORY};
use super::suspects::Suspects;
use crate::object::{Obj, SlotRef, SlotRun};
use captypes::{CapType, TypeSet};
use mdb::{Class, Entry, Mdb, RawCap, Violation};

/// The newest object, and what it was made of.
struct Newest {
    slot: Option<SlotRef>,
    of: RawCap,
}

/// The database of one core.
pub struct Db {
    mdb: Mdb<CapPolicy>,
    newest: Newest,
    /// Who looks for cycles must know what happens to capabilities to containers.
    pub(super) collector: Collector,
    /// Where that might find something.
    pub(super) suspects: Suspects,
    /// Capabilities on which the monitors work.
    pub(crate) locks: Locks,
    /// Of which containers and tables there is only one capability.
    pub(super) uncopied: Uncopied,
    /// Numbers of Loans.
    pub(crate) serials: Serials,
}

/// Is it a type with slots in it?
#[inline]
pub(super) fn is_container(ty: u8) -> bool {
    TypeSet::CONTAINERS.const_has_number(ty)
}

impl Db {
    /// An empty one.
    pub const fn new() -> Db {
        Db {
            mdb: Mdb::new(),
            newest: Newest { slot: None, of: RawCap::NULL },
            collector: Collector::new(),
            suspects: Suspects::new(),
            locks: Locks::new(),
            uncopied: Uncopied::new(),
            serials: Serials::new(),
        }
    }

    /// Searches memory below `top` in pieces; `entries` are as many as [`mdb::directory_entries`]
    /// says. Before anything is inserted.
    pub fn divide_memory(&mut self, top: u64, entries: &'static mut [Entry]) {
        let empty = self.mdb.divide(MEMORY, top, entries);
        debug_assert!(empty, "divided before anything is inserted");
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.mdb.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.mdb.is_empty()
    }

    /// Puts `cap` into the empty slot `slot`.
    pub fn insert(&mut self, slot: SlotRef, cap: RawCap) {
        if is_remembered(cap.ty) {
            self.copied_elsewhere();
        }
        if slot.set_cap(cap) {
            // SAFETY: the slot holds a capability, was in no database, and stays (see above).
            unsafe { self.mdb.insert(slot.ptr()) };
            self.arrived(slot, cap.ty);
        }
    }

    /// The same for what is no container, looking for the place from `near`, which is in use.
    #[inline]
    pub fn insert_near(&mut self, slot: SlotRef, cap: RawCap, near: SlotRef) {
        debug_assert!(near.is_linked() && !is_container(cap.ty));
        if slot.set_cap(cap) {
            // SAFETY: as above; a slot in use is in the database.
            unsafe { self.mdb.insert_near(slot.ptr(), near.ptr()) };
        }
    }

    /// Puts `mapping`, of all of what `host` holds, into the empty slot `slot`.
    #[inline(always)]
    pub fn insert_mapping(&mut self, slot: SlotRef, mapping: RawCap, host: SlotRef) {
        debug_assert!(host.is_linked());
        if slot.set_cap(mapping) {
            // SAFETY: as above.
            unsafe { self.mdb.insert_leaf(slot.ptr(), host.ptr()) };
        }
    }

    /// Puts capabilities into the empty slots of `run`: `first`, and then each one `step` further on.
    /// They belong near `near`, which is in use, and were made of `source`.
    pub fn insert_objects(
        &mut self,
        run: SlotRun,
        first: RawCap,
        step: u64,
        near: SlotRef,
        source: &RawCap,
    ) {
        self.newest.of = *source;
        if run.len() != 1 {
            return self.insert_run(run, first, step, near);
        }
        let slot = run.first();
        slot.set_cap(first);
        // SAFETY: it holds a capability, was in no database, and stays (see above).
        unsafe { self.mdb.insert_near(slot.ptr(), near.ptr()) };
        self.arrived(slot, first.ty);
        self.newest.slot = Some(slot);
    }

    /// The same for more than one.
    #[inline(never)]
    fn insert_run(&mut self, run: SlotRun, first: RawCap, step: u64, near: SlotRef) {
        let mut cap = first;
        for slot in run.iter() {
            slot.set_cap(cap);
            cap.base += step;
        }
        let slot = |n: usize| run.get(n as u32).ptr();
        // SAFETY: as in `insert_objects`, for each of them.
        unsafe { self.mdb.insert_run(run.len() as usize, slot, near.ptr()) };
        run.iter().for_each(|slot| self.arrived(slot, first.ty));
        self.newest.slot = Some(run.get(run.len() - 1));
    }

    /// Objects are mostly made of memory from its beginning to its end: the newest one, if
    /// `[base, base + len)` of `source` begins where that ends, and nothing is there.
    ///
    /// What covers the newest object is larger than its source or a copy of it, or it could not have
    /// been made; so nothing that begins before reaches into the range but ancestors.
    #[inline(always)]
    pub fn newest_before(&self, source: &RawCap, base: u64, len: u64) -> Option<SlotRef> {
        let newest = self.newest.slot?;
        let (cap, of) = (newest.cap(), &self.newest.of);
        let follows = cap.base + cap.word == base
            && (of.base, of.word, of.ty) == (source.base, source.word, source.ty);
        if !follows {
            return None;
        }
        // SAFETY: `remove` and `relocate` keep the newest one in the database.
        let followed = unsafe { self.mdb.is_followed(newest.ptr(), base + len) };
        (!followed).then_some(newest)
    }

    /// Puts `cap`, a copy of what `src` holds, into the empty slot `dst`.
    #[inline]
    pub fn insert_copy(&mut self, src: SlotRef, dst: SlotRef, cap: RawCap) {
        debug_assert!(src.is_linked());
        if self.collector.is_busy() {
            return self.insert_copy_observed(src, dst, cap);
        }
        let cap = if is_remembered(cap.ty) { self.becomes_copied(src, cap) } else { cap };
        if dst.set_cap(cap) {
            // SAFETY: as above.
            unsafe { self.mdb.insert_copy(src.ptr(), dst.ptr()) };
        }
    }

    #[inline(never)]
    fn insert_copy_observed(&mut self, src: SlotRef, dst: SlotRef, cap: RawCap) {
        let cap = if is_remembered(cap.ty) { self.becomes_copied(src, cap) } else { cap };
        if dst.set_cap(cap) {
            // SAFETY: as above.
            unsafe { self.mdb.insert_copy(src.ptr(), dst.ptr()) };
            self.arrived(dst, cap.ty);
        }
    }

    /// Empties a slot in use with a Mapping.
    #[inline]
    pub fn remove_mapping(&mut self, slot: SlotRef) {
        debug_assert!(slot.is_linked() && super::mapping::is_mapping(&slot.cap()));
        // SAFETY: it is in the database. (A Mapping is never the newest object.)
        unsafe { self.mdb.remove(slot.ptr()) };
    }

    /// Empties a slot in use.
    #[inline(always)]
    pub fn remove(&mut self, slot: SlotRef) -> RawCap {
        if !slot.is_linked() {
            return RawCap::NULL;
        }
        if self.newest.slot == Some(slot) {
            self.newest.slot = None;
        }
        let cap = slot.cap();
        if cap.attrs & super::attr::LENT != 0 && cap.ty == CapType::Frame as u8 {
            self.pass_on_mark(slot);
        }
        if is_container(cap.ty) && self.has_copies(slot) {
            self.remove_copy_of_container(slot);
        } else {
            // SAFETY: it is in the database.
            unsafe { self.mdb.remove(slot.ptr()) };
        }
        cap
    }

    /// The same for one of several capabilities to a container: what the others are left with is suspect.
    #[inline(never)]
    fn remove_copy_of_container(&mut self, slot: SlotRef) {
        self.suspect(&slot.cap());
        if self.collector.is_busy() {
            return self.remove_observed(slot);
        }
        // SAFETY: the caller found it in the database.
        unsafe { self.mdb.remove(slot.ptr()) };
    }

    #[inline(never)]
    fn remove_observed(&mut self, slot: SlotRef) {
        // SAFETY: as above.
        let cap = unsafe { self.mdb.remove(slot.ptr()) };
        self.left(&cap);
    }

    /// Moves what `src` holds to the empty slot `dst`.
    #[inline]
    pub fn relocate(&mut self, src: SlotRef, dst: SlotRef) {
        let cap = src.cap();
        if is_container(cap.ty) {
            self.suspect(&cap);
        }
        self.relocate_same(src, dst);
    }

    /// The same for what leads nowhere any more, or is on the way to another slot.
    #[inline]
    pub(super) fn relocate_same(&mut self, src: SlotRef, dst: SlotRef) {
        if src.is_linked() && !dst.is_linked() {
            if self.newest.slot == Some(src) {
                self.newest.slot = Some(dst);
            }
            let ty = src.cap().ty;
            // SAFETY: just checked; `dst` stays in place as every slot.
            unsafe { self.mdb.relocate(src.ptr(), dst.ptr()) };
            if is_container(ty) {
                self.arrived(dst, ty);
            }
        }
    }

    /// Is there another slot with the same capability?
    #[inline(always)]
    pub fn has_copies(&self, slot: SlotRef) -> bool {
        // SAFETY: callers pass slots in use.
        slot.is_linked() && unsafe { self.mdb.has_copies(slot.ptr()) }
    }

    /// Is there a capability that differs from that in `slot` in its badge only?
    pub fn has_siblings(&self, slot: SlotRef) -> bool {
        // SAFETY: in the database, as checked.
        slot.is_linked() && unsafe { self.mdb.has_siblings(slot.ptr()) }
    }

    /// The other slots with the same capability as a slot in use.
    pub fn copies(&self, slot: SlotRef) -> impl Iterator<Item = SlotRef> + '_ {
        debug_assert!(slot.is_linked());
        // SAFETY: it is in the database; only attributes are changed while the copies are visited.
        unsafe { self.mdb.copies(slot.ptr()) }.map(Obj::from_slot)
    }

    /// One of the copies of a slot in use.
    pub fn a_copy(&self, slot: SlotRef) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.copies(slot.ptr()) }.next().map(Obj::from_slot)
    }

    /// The first descendant of a slot in use.
    #[inline]
    pub fn first_descendant(&self, slot: SlotRef) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.first_descendant(slot.ptr()) }.map(Obj::from_slot)
    }

    /// The same, and how many others had to be passed over.
    pub fn first_descendant_behind(&self, slot: SlotRef) -> (Option<SlotRef>, u32) {
        if !slot.is_linked() {
            return (None, 0);
        }
        // SAFETY: it is in the database.
        let (found, passed) = unsafe { self.mdb.first_descendant_behind(slot.ptr()) };
        (found.map(Obj::from_slot), passed)
    }

    /// The first object made of what a slot in use holds that overlaps a part of it.
    pub fn object_inside(&self, slot: SlotRef, base: u64, len: u64) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.object_inside(slot.ptr(), base, len) }.map(Obj::from_slot)
    }

    /// The first Mapping that overlaps a part of what a slot in use holds, and begins in that.
    pub fn record_inside(&self, slot: SlotRef, base: u64, len: u64) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.record_inside(slot.ptr(), base, len) }.map(Obj::from_slot)
    }

    /// How many Mappings become nodes of the tree when the last copy of what `slot` holds goes.
    #[inline]
    pub fn hanging_leaves(&self, slot: SlotRef) -> u32 {
        if slot.is_linked() {
            // SAFETY: it is in the database, as checked.
            unsafe { self.mdb.hanging_leaves(slot.ptr()) }
        } else {
            0
        }
    }

    /// The distinct capability after a slot in use, if it begins before `limit`.
    #[inline]
    pub fn next_before(&self, slot: SlotRef, limit: u64) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.next_before(slot.ptr(), limit) }.map(Obj::from_slot)
    }

    /// The innermost capability from which that in `slot` descends.
    pub fn nearest_ancestor(&self, slot: SlotRef) -> Option<SlotRef> {
        if !slot.is_linked() {
            return None;
        }
        // SAFETY: it is in the database.
        unsafe { self.mdb.nearest_ancestor(slot.ptr()) }.map(Obj::from_slot)
    }

    /// The innermost capability from which that in `slot` descends, an object of which there is no other capability, and
    /// of which nothing is made but the Mappings that [`mapping_of`] finds. Else `None`.
    #[inline(always)]
    pub fn ancestor_of_childless(&self, slot: SlotRef) -> Option<SlotRef> {
        debug_assert!(slot.is_linked());
        // SAFETY: it is in the database.
        unsafe { self.mdb.ancestor_of_childless(slot.ptr()) }.map(Obj::from_slot)
    }

    /// The innermost capability to what the Mapping in `slot` maps.
    #[inline(always)]
    pub fn mapped(&self, slot: SlotRef) -> Option<SlotRef> {
        debug_assert!(slot.is_linked());
        // SAFETY: it is in the database.
        match unsafe { self.mdb.host(slot.ptr()) } {
            Some(host) => Some(Obj::from_slot(host)),
            None => self.nearest_ancestor(slot),
        }
    }

    /// The innermost capability from which that in `slot` descends. It may have many siblings: most
    /// often the ancestor is the Endpoint without badge.
    pub fn ancestor_behind_siblings(&self, slot: SlotRef) -> Option<SlotRef> {
        let cap = slot.cap();
        let plain = RawCap { aux: 0, ..cap };
        match cap.ty == CapType::Endpoint as u8 && cap.aux != 0 {
            true => self.find(&plain).or_else(|| self.nearest_ancestor(slot)),
            false => self.nearest_ancestor(slot),
        }
    }

    /// Does any descendant of `slot` overlap `[base, base + len)`?
    pub fn descendant_overlaps(&self, slot: SlotRef, base: u64, len: u64) -> bool {
        // SAFETY: in the database, as checked.
        slot.is_linked()
            && unsafe { self.mdb.descendant_overlapping(slot.ptr(), base, len) }.is_some()
    }

    /// The slot with the same capability as `key`.
    pub fn find(&self, key: &RawCap) -> Option<SlotRef> {
        self.mdb.find(key).map(Obj::from_slot)
    }

    /// The first capability that begins in a range, and is not longer.
    pub fn first_inside(&self, tree: u8, base: u64, len: u64) -> Option<SlotRef> {
        self.mdb.inner(tree, base, len).next().map(Obj::from_slot)
    }

    /// The innermost object of at most this rank around a range.
    pub fn surrounding(&self, tree: u8, base: u64, len: u64, max_rank: u8) -> Option<SlotRef> {
        self.mdb.surrounding(tree, base, len, max_rank).map(Obj::from_slot)
    }

    /// Every distinct object of a tree that begins at `base` or behind.
    pub fn objects_from(
        &self,
        tree: u8,
        base: u64,
        from: Option<&RawCap>,
    ) -> impl Iterator<Item = SlotRef> + '_ {
        self.mdb.objects_from(tree, base, from).map(Obj::from_slot)
    }

    /// What overlaps a range.
    pub fn overlapping(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        class: Class,
    ) -> impl Iterator<Item = SlotRef> + '_ {
        self.mdb.overlapping(tree, base, len, class).map(Obj::from_slot)
    }

    /// Does a Loan overlap a range of memory? Also `true` if there are more Mappings than can be passed
    /// over.
    pub fn has_loans(&self, base: u64, len: u64) -> bool {
        const MOST_PASSED: u32 = 64;
        self.mdb.has_shared_leaf(MEMORY, base, len, MOST_PASSED)
    }

    /// All distinct capabilities of a tree.
    pub fn iter(&self, tree: u8) -> impl Iterator<Item = SlotRef> + '_ {
        self.mdb.iter(tree).map(Obj::from_slot)
    }

    /// The parts of a range that no object covers, but for those that `ignore` says.
    pub fn for_each_gap(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        ignore: impl Fn(&RawCap) -> bool,
        gap: impl FnMut(u64, u64),
    ) {
        self.mdb.for_each_gap(tree, base, len, ignore, gap);
    }

    /// Checks the database itself.
    pub fn check(&self) -> Result<(), Violation> {
        self.mdb.check()
    }
}

/// A Mapping of all of what `slot`, which is in use, holds, and that hangs from it.
#[inline(always)]
pub fn mapping_of(db: &Db, slot: SlotRef) -> Option<SlotRef> {
    debug_assert!(slot.is_linked());
    // SAFETY: it is in the database.
    unsafe { db.mdb.leaf(slot.ptr()) }.map(Obj::from_slot)
}

/// Empties a slot in use with a Frame that is not lent, and has no copies.
#[inline(always)]
pub fn remove_frame(db: &mut Db, slot: SlotRef) {
    debug_assert!(slot.is_linked() && slot.cap().ty == CapType::Frame as u8);
    if db.newest.slot == Some(slot) {
        db.newest.slot = None;
    }
    // SAFETY: it is in the database.
    unsafe { db.mdb.remove(slot.ptr()) };
}

impl Default for Db {
    fn default() -> Self {
        Self::new()
    }
}
