//! The pmap: what the page tables hold, as shadow records of each 2 MiB region.
//!
//! A region has one last-level table and, for each half of it, a CNode with the Mapping
//! capabilities of its entries, but for anons in [pairs](crate::pairs), which have theirs there. After a fork both processes map the *same* table, write-protected
//! by its upper entry, and hold the same Mapping CNodes. A process that wants to change anything
//! there first leaves the other: it drops the table and starts with an empty one, or, when the
//! other has already left, keeps it and takes the write protection off. A region with anons in pairs
//! is not shared.
//!
//! What the backend refuses to do to entries is done by taking the whole table away (`Pmap::reset`). Where
//! that is refused, too, the operation fails, and the region is condemned: nothing counts as mapped there,
//! and nothing is mapped there before its table has gone.

use crate::amap::{Amap, Chunk, Place};
use crate::backend::{Backend, Extent, ObjectError, Table};
use crate::bits::Bits;
use crate::types::{NoMemory, Prot, Refused};
use crate::written::Written;
use alloc::vec::Vec;
use tables::Sparse;

pub use crate::region::Region;

/// Pages of a window in which a read fault maps what is there already, or nowhere.
pub const AROUND: u32 = 16;
/// Entries of one half of a region.
pub const HALF: u32 = 256;

/// All regions, by number (page number / 512).
#[derive(Clone, Default)]
pub struct Pmap {
    regions: Sparse<Region, 16>,
    /// Regions and giants that [one entry](crate::whole) maps: its number, for the backend. No region of them has a table.
    pub(crate) wholes: Sparse<Table, 16>,
    /// There may be such regions. Mostly there are none, and nobody looks for them.
    pub(crate) has_wholes: bool,
    /// How many of them are regions: mostly there are only giants to look for.
    pub(crate) whole_regions: u32,
    /// Some region may be condemned.
    condemned: bool,
    /// Some region or giant that one entry maps could not be taken away: it may show what is not mapped.
    pub(crate) keeps_wholes: bool,
    /// Pages that count as written.
    pub(crate) written: Written,
}

/// Region and entry of a page.
#[inline]
pub fn locate(page: u64) -> (u64, u32) {
    (page >> 9, (page & 511) as u32)
}

impl Pmap {
    /// No tables.
    pub const fn new() -> Self {
        Pmap {
            regions: Sparse::new(),
            wholes: Sparse::new(),
            has_wholes: false,
            whole_regions: 0,
            condemned: false,
            keeps_wholes: false,
            written: Written::ALL,
        }
    }
    /// All regions, by number.
    pub fn regions(&self) -> impl Iterator<Item = (u64, &Region)> {
        self.regions.iter()
    }
    /// Is this page mapped?
    #[inline]
    pub fn is_present(&self, page: u64) -> bool {
        let (key, entry) = locate(page);
        self.regions.get(key).is_some_and(|region| region.present.get(entry))
    }
    /// Can this page be read without a fault?
    #[inline]
    pub fn is_readable(&self, page: u64) -> bool {
        let (key, entry) = locate(page);
        let region = self.regions.get(key);
        region
            .is_some_and(|region| region.present.get(entry) || region.shows_zeros(entry, entry + 1))
    }
    /// Does any of the entries `lo..hi` of a region show something, be it the page of zeros?
    #[inline]
    pub fn shows_any(&self, key: u64, lo: u32, hi: u32) -> bool {
        let region = self.regions.get(key);
        region.is_some_and(|r| r.present.any_within(lo, hi) || r.shows_zeros(lo, hi))
            || self.is_whole(key)
    }
    /// Is this page mapped and, as far as the pmap knows, writable?
    #[inline]
    pub fn may_be_writable(&self, page: u64) -> bool {
        let (key, entry) = locate(page);
        self.regions.get(key).is_some_and(|region| !region.shared && region.writable.get(entry))
    }
    /// The pages of this page's half of a region of which [`may_be_writable`](Self::may_be_writable) is
    /// true.
    pub fn writable_half(&self, page: u64) -> Bits<4> {
        let (key, entry) = locate(page);
        let region = self.regions.get(key).filter(|region| !region.shared);
        region.map_or(Bits::EMPTY, |region| region.writable_half(entry / HALF))
    }
    /// The first region at or behind a number.
    pub fn next_key(&self, key: u64) -> Option<u64> {
        match self.has_wholes {
            true => self.next_of_both(key),
            false => self.next_table(key),
        }
    }
    /// The same of those that have a table.
    pub(crate) fn next_table(&self, key: u64) -> Option<u64> {
        self.regions.next_key(key)
    }
    /// The same, where one entry may map a region.
    #[cold]
    #[inline(never)]
    fn next_of_both(&self, key: u64) -> Option<u64> {
        [self.regions.next_key(key), self.next_whole(key)].into_iter().flatten().min()
    }

    /// Leaves the other process that shares the table of a region, if there is one. Afterwards
    /// the region may be changed, or is gone.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    #[inline]
    pub fn unshare(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        key: u64,
    ) -> Result<(), NoMemory> {
        if self.regions.get(key).is_some_and(|region| region.shared) {
            self.leave(b, amap, key)?;
        }
        Ok(())
    }

    #[cold]
    fn leave(&mut self, b: &mut impl Backend, amap: &mut Amap, key: u64) -> Result<(), NoMemory> {
        let Some(region) = self.regions.get_mut(key) else { return Ok(()) };
        if region.condemned || region.is_held_by_another(b) {
            return self.reset(b, key);
        }
        if b.table_writable(key, region.table).is_err() {
            return self.reset(b, key);
        }
        region.shared = false;
        let settled = (0..2).try_for_each(|half| Self::settle_half(b, amap, region, key, half));
        settled.or_else(|Refused| self.reset(b, key))
    }

    /// What is noted of a region is not what its table holds, as the backend has refused something: takes
    /// the table away. Faults bring back what belongs there.
    ///
    /// # Errors
    ///
    /// The backend refuses that, too: the region is condemned.
    #[cold]
    #[inline(never)]
    fn reset(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        self.drop_region(b, key).inspect_err(|_| {
            if let Some(region) = self.regions.get_mut(key) {
                region.condemn();
                self.condemned = true;
            }
        })
    }

    /// Takes the tables of all condemned regions away.
    ///
    /// # Errors
    ///
    /// The backend refuses: some are left.
    #[inline]
    pub fn drop_condemned(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        match self.condemned || self.keeps_wholes {
            true => self.find_condemned(b),
            false => Ok(()),
        }
    }

    #[cold]
    fn find_condemned(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        if self.keeps_wholes {
            // Those that are right are mapped again by a fault.
            self.drop_wholes(b)?;
            self.keeps_wholes = false;
        }
        let mut at = 0;
        while let Some(key) = self.regions.next_key(at) {
            at = key + 1;
            if self.regions.get(key).is_some_and(|region| region.condemned) {
                self.drop_region(b, key)?;
            }
        }
        self.condemned = false;
        Ok(())
    }

    /// Restores what the entries of a half allow after the upper entry's write protection has gone,
    /// and the write bits of all anons with it: those that nobody else sees can be written to again.
    fn settle_half(
        b: &mut impl Backend,
        amap: &mut Amap,
        region: &mut Region,
        key: u64,
        half: u32,
    ) -> Result<(), Refused> {
        let chunk_key = key * 2 + half as u64;
        let must_stay = amap.still_shared(b, chunk_key);
        let chunk = amap.chunk(chunk_key).filter(|chunk| !chunk.is_sparse());
        let (Some(chunk), Some(node)) = (chunk, region.nodes[half as usize]) else {
            return Ok(());
        };
        for (lo, hi) in region.writable_anons(half, &chunk.filled).runs() {
            if must_stay {
                region.writable.clear_range(half * HALF + lo, half * HALF + hi);
            } else {
                b.protect_exclusive(node, lo, hi - lo)?;
            }
        }
        Ok(())
    }

    /// The region with this number, made if there was none, whose table may be changed.
    #[inline]
    fn own(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        key: u64,
    ) -> Result<&mut Region, NoMemory> {
        if self.regions.get(key).is_none_or(|region| region.shared) {
            self.make_own(b, amap, key)?;
        }
        self.regions.get_mut(key).ok_or(NoMemory)
    }

    #[cold]
    fn make_own(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        key: u64,
    ) -> Result<(), NoMemory> {
        self.unshare(b, amap, key)?;
        self.leave_whole(b, key)?;
        if self.regions.get(key).is_none() {
            let table = b.table_new(key)?;
            if let Err(NoMemory) = self.regions.insert(key, Region::new(table)) {
                // If it cannot be dropped either, it is lost: an empty table, where no other is made.
                let _ = b.table_drop(key, table);
                return Err(NoMemory);
            }
        }
        Ok(())
    }

    /// Shows zeros at a page that nobody has written to, and at its neighbours in `low..high` of which
    /// that is true, too.
    pub fn enter_zeros(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        page: u64,
        (low, high): (u64, u64),
        prot: Prot,
    ) -> Result<(), NoMemory> {
        let (key, entry) = locate(page);
        self.own(b, amap, key)?;
        let filled = amap.chunk(page / HALF as u64).map_or(Bits::EMPTY, |chunk| chunk.filled);
        let Some(region) = self.regions.get_mut(key) else { return Err(NoMemory) };
        let in_use = |at: u32| region.present.get(at) || filled.get(at % HALF);
        let base = page - entry as u64;
        let first = (entry / AROUND * AROUND).max(low.saturating_sub(base) as u32);
        let end = (entry / AROUND * AROUND + AROUND).min((high - base).min(512) as u32);
        let lo = (first..entry).rev().find(|&at| in_use(at)).map_or(first, |at| at + 1);
        let hi = (entry + 1..end).find(|&at| in_use(at)).unwrap_or(end);
        b.zeros_show(region.table, lo, hi - lo, prot)?;
        region.note_zeros(lo, hi);
        Ok(())
    }

    /// Maps the anons of `count` pages from `page` on, all of one chunk, which are in `place`;
    /// pages already mapped get the rights. If the backend refuses that, the table goes, and the next fault brings
    /// them back.
    #[inline]
    pub fn enter_anons(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        (page, count): (u64, u32),
        place: &Place,
        prot: Prot,
    ) -> Result<(), NoMemory> {
        let (key, entry) = locate(page);
        let region = self.own(b, amap, key)?;
        let mapping = match place.mapping() {
            Some(mapping) => {
                region.paired[(entry / HALF) as usize % 2] = true;
                mapping
            }
            None => (region.node(b, entry / HALF)?, entry % HALF),
        };
        if count == 1 && region.present.get(entry) {
            if b.protect_part(mapping, 0, 1, prot).is_err() {
                return self.reset(b, key);
            }
        } else {
            let pages = (place.node, place.slot);
            b.map_pages((region.table, entry), count, pages, mapping, prot)?;
        }
        region.head.set_range(entry, entry + count);
        region.note(entry, entry + count, prot);
        Ok(())
    }

    /// The anon mapped at an entry of an own region is another page now. Answers whether it is
    /// mapped; if not, nothing is.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    #[inline(always)]
    pub fn replace_anon(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        entry: u32,
        place: &Place,
        prot: Prot,
    ) -> Result<bool, NoMemory> {
        let Some(region) = self.regions.get_mut(key) else { return Ok(false) };
        let in_node = || Some((region.nodes[(entry / HALF) as usize % 2]?, entry % HALF));
        let Some(mapping) = place.mapping().or_else(in_node) else { return Ok(false) };
        if !region.present.get(entry) {
            return Ok(false);
        }
        let replaced = b.replace(mapping, (place.node, place.slot), prot);
        match replaced {
            Ok(true) => region.set_writable(entry, entry + 1, prot),
            Ok(false) => region.forget(entry, entry + 1),
            Err(Refused) => self.reset(b, key)?,
        }
        let page = key * u64::from(2 * HALF) + u64::from(entry);
        self.written.add(page, page + 1);
        Ok(replaced == Ok(true))
    }

    /// Maps pages of an object around page `page`, of which `object_page` is there: as many as
    /// one extent holds, inside `low..high`, and as are not mapped yet, up to a half of a region. If the page is
    /// mapped, it gets the rights, or as in [`enter_anons`](Self::enter_anons).
    #[allow(clippy::too_many_arguments)]
    pub fn enter_object(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        page: u64,
        object_page: u64,
        extent: &Extent,
        (low, high): (u64, u64),
        prot: Prot,
    ) -> Result<(), ObjectError> {
        let (key, entry) = locate(page);
        self.own(b, amap, key)?;
        let (half, base) = (entry / HALF, page - (entry % HALF) as u64);
        let filled = amap.chunk(page / HALF as u64).map_or(Bits::EMPTY, |chunk| chunk.filled);
        let Some(region) = self.regions.get_mut(key) else { return Err(ObjectError::NoMemory) };
        let node = region.node(b, half)?;
        let words = &region.present.0[half as usize * 4..];
        let used = Bits([words[0], words[1], words[2], words[3]]).or(&filled);
        let slot = entry % HALF;
        if used.get(slot) {
            let head = region.mapping_start(entry);
            if b.protect_part((node, head % HALF), entry - head, 1, prot).is_err() {
                // Others may have taken the page away.
                return Ok(self.reset(b, key)?);
            }
            region.set_writable(entry, entry + 1, prot);
            return Ok(());
        }
        let before = (object_page - extent.first).min(page - low);
        let behind = (extent.first + extent.pages - object_page).min(high - page);
        let first = used.prev_set(slot).map_or(0, |used| used + 1);
        let first = first.max(slot.saturating_sub(before.min(256) as u32));
        let last = used.next_set(slot).min(slot + behind.min(256) as u32);
        let start = object_page - (slot - first) as u64;
        debug_assert!(base + (first as u64) >= low);
        b.map_extent((region.table, half), first, last - first, extent, start, node, prot)?;
        let (lo, hi) = (half * HALF + first, half * HALF + last);
        region.head.clear_range(lo, hi);
        region.head.set(lo);
        region.note(lo, hi, prot);
        Ok(())
    }

    /// Removes entries `lo..hi` of a region that is not shared.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    pub fn remove(
        &mut self,
        b: &mut impl Backend,
        amap: &Amap,
        key: u64,
        lo: u32,
        hi: u32,
    ) -> Result<(), NoMemory> {
        let Some(region) = self.regions.get_mut(key) else { return self.leave_whole(b, key) };
        let first = key * u64::from(2 * HALF);
        self.written.add(first + u64::from(lo), first + u64::from(hi));
        match region.remove(b, (amap, key), (lo, hi)) {
            Ok(()) => Ok(()),
            Err(Refused) => self.reset(b, key),
        }
    }

    /// Notes that the Frames mapped in `lo..hi` of a region are gone, and their entries with them, and
    /// takes the page of zeros away.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    #[inline]
    pub fn forget(
        &mut self,
        b: &mut impl Backend,
        key: u64,
        lo: u32,
        hi: u32,
    ) -> Result<(), NoMemory> {
        let Some(region) = self.regions.get_mut(key) else { return self.leave_whole(b, key) };
        let first = key * u64::from(2 * HALF);
        self.written.add(first + u64::from(lo), first + u64::from(hi));
        region.forget(lo, hi);
        match region.hide_zeros(b, lo, hi) {
            Ok(()) => Ok(()),
            Err(Refused) => self.reset(b, key),
        }
    }

    /// The Frames that some entries of a region map could not be deleted, and are noted nowhere: the
    /// entries go with the table.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    pub fn remove_unknown(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        self.reset(b, key)
    }

    /// Sets the rights of what is present in `lo..hi`, inside one half of a region that is not
    /// shared: `prot` for entries in `own`, `prot` without the right to write for the others.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    pub fn protect(
        &mut self,
        b: &mut impl Backend,
        of: (&Amap, u64),
        range: (u32, u32),
        own: &Bits<4>,
        prot: Prot,
    ) -> Result<(), NoMemory> {
        match self.try_protect(b, of, range, own, prot) {
            Ok(()) => self.leave_whole(b, of.1),
            Err(Refused) => self.reset(b, of.1),
        }
    }

    #[inline(always)]
    fn try_protect(
        &mut self,
        b: &mut impl Backend,
        (amap, key): (&Amap, u64),
        (lo, hi): (u32, u32),
        own: &Bits<4>,
        prot: Prot,
    ) -> Result<(), Refused> {
        let Some(region) = self.regions.get_mut(key) else { return Ok(()) };
        // They come again with the rights that they have then.
        region.hide_zeros(b, lo, hi)?;
        if hi == lo + 1 && region.is_alone(lo) {
            let writable = prot.has(Prot::WRITE) && own.get(lo % HALF);
            let rights = if writable { prot } else { prot.read_only() };
            if let Some((node, slot)) = region.mapping(amap, key, lo) {
                b.protect(node, slot, 1, rights)?;
                region.set_writable(lo, hi, rights);
            }
            return Ok(());
        }
        let mut at = region.present.next_set(lo);
        while at < hi {
            let behind = region.present.next_clear(at).min(hi);
            let owned = prot.has(Prot::WRITE) && own.get(at % HALF);
            let (stop, rights) = match (prot.has(Prot::WRITE), owned) {
                (false, _) => (behind, prot),
                (true, true) => (own.next_clear(at % HALF) + at / HALF * HALF, prot),
                (true, false) => (own.next_set(at % HALF) + at / HALF * HALF, prot.read_only()),
            };
            let stop = stop.min(behind);
            region.protect_run(b, (amap, key), (at, stop), rights)?;
            at = region.present.next_set(stop);
        }
        Ok(())
    }

    /// Takes a region out that has no page any more.
    ///
    /// # Errors
    ///
    /// The backend refuses: nothing has changed.
    pub fn drop_if_empty(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        let is_empty =
            |region: &Region| region.present.is_empty() && !region.shows_zeros(0, 2 * HALF);
        match self.regions.get(key).is_some_and(is_empty) {
            true => self.drop_region(b, key),
            false => Ok(()),
        }
    }

    /// Drops a region with all its entries, shared or not.
    ///
    /// # Errors
    ///
    /// The backend refuses: nothing has changed.
    pub fn drop_region(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        self.drop_table(b, key)?;
        let pages = u64::from(2 * HALF);
        self.written.add(key * pages, (key + 1) * pages);
        Ok(())
    }

    /// The same, if nobody asks what was written to before.
    pub(crate) fn drop_table(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        if let Some(region) = self.regions.get(key) {
            region.drop_all(b, key)?;
            self.regions.remove(key);
        }
        self.leave_whole(b, key)
    }

    /// Forgets all, without giving anything up.
    pub fn abandon(&mut self) {
        self.regions.clear();
        self.wholes.clear();
        (self.has_wholes, self.whole_regions, self.keeps_wholes) = (false, 0, false);
        self.condemned = false;
        self.written = Written::ALL;
    }

    /// Gives all pages up. Up to `spare` regions stay, empty.
    ///
    /// # Errors
    ///
    /// The backend refuses: some regions are condemned.
    pub fn clear(&mut self, b: &mut impl Backend, spare: usize) -> Result<(), NoMemory> {
        let (mut kept, mut result) = (0, self.drop_wholes(b));
        self.written = Written::ALL;
        let mut at = 0;
        while let Some(key) = self.regions.next_key(at) {
            at = key + 1;
            let Some(region) = self.regions.get_mut(key) else { break };
            let keep = !region.shared && kept < spare && region.empty(b).is_ok();
            kept += keep as usize;
            if !keep {
                result = result.and(self.reset(b, key));
            }
        }
        result
    }

    /// Is the table of this region perhaps shared?
    pub fn is_shared(&self, key: u64) -> bool {
        self.regions.get(key).is_some_and(|region| region.shared)
    }

    /// The region with this number.
    pub fn region(&self, key: u64) -> Option<&Region> {
        self.regions.get(key)
    }

    /// Makes a sparse chunk dense, with the Mappings of its pages.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn make_dense(
        &mut self,
        b: &mut impl Backend,
        amap: &mut Amap,
        chunk: u64,
    ) -> Result<(), NoMemory> {
        let (key, half) = (chunk / 2, (chunk % 2) as u32);
        let Some(Chunk { filled, .. }) = amap.sparse(chunk) else { return Ok(()) };
        let mapped = match self.regions.get(key) {
            Some(region) => region.present_half(half).and(filled),
            None => Bits::EMPTY,
        };
        let mut mappings = None;
        if let Some(region) = self.regions.get_mut(key).filter(|_| !mapped.is_empty()) {
            mappings = Some(region.node(b, half)?);
        }
        if let Err(error) = amap.make_dense(b, chunk, &mapped, mappings) {
            if amap.sparse(chunk).is_none() {
                self.reset(b, key)?;
            }
            return Err(error);
        }
        if let Some(region) = self.regions.get_mut(key) {
            region.paired[half as usize % 2] = false;
        }
        Ok(())
    }

    /// For a fork: the child gets no table for this region, so the process can keep its own as it
    /// is, but for the anons, which the child has too: they become read-only.
    pub fn keep(&mut self, key: u64) {
        if let Some(region) = self.regions.get_mut(key) {
            region.kept = true;
        }
    }

    /// The same for those of these regions that are not shared, and to which not `true` belongs. The
    /// others are the answer.
    ///
    /// # Errors
    ///
    /// There is no memory; some are kept.
    pub fn keep_sparse(&mut self, sparse: &[(u64, bool)]) -> Result<Vec<u64>, NoMemory> {
        /// A search takes as long as to look at so many regions.
        const SEARCH: usize = 8;
        let (mut others, mut result) = (Vec::new(), Ok(()));
        let mut enter = |key: u64, region: &mut Region, mixed: bool| {
            if !region.shared && !mixed {
                region.kept = true;
            } else if others.try_reserve(1).is_ok() {
                others.push(key);
            } else {
                result = Err(NoMemory);
            }
        };
        if sparse.len() * SEARCH < self.regions.len() {
            for &(key, mixed) in sparse {
                if let Some(region) = self.regions.get_mut(key) {
                    enter(key, region, mixed);
                }
            }
        } else if !sparse.is_empty() {
            let mut rest = sparse.iter().peekable();
            self.regions.for_each_mut(|key, region| {
                while rest.next_if(|(next, _)| *next < key).is_some() {}
                if let Some((_, mixed)) = rest.next_if(|(next, _)| *next == key) {
                    enter(key, region, *mixed);
                }
            });
        }
        result.map(|()| others)
    }

    /// Takes the right to write from the anons in the dense chunks of a region.
    ///
    /// # Errors
    ///
    /// The backend refuses: the region is condemned.
    pub fn lower(&mut self, b: &mut impl Backend, amap: &Amap, key: u64) -> Result<(), NoMemory> {
        match self.try_lower(b, amap, key) {
            Ok(()) => Ok(()),
            Err(Refused) => self.reset(b, key),
        }
    }

    fn try_lower(&mut self, b: &mut impl Backend, amap: &Amap, key: u64) -> Result<(), Refused> {
        let Some(region) = self.regions.get_mut(key) else { return Ok(()) };
        for half in 0..2 {
            let chunk = amap.chunk(key * 2 + half as u64).filter(|chunk| !chunk.is_sparse());
            let (Some(chunk), Some(node)) = (chunk, region.nodes[half as usize]) else { continue };
            for (lo, hi) in region.writable_anons(half, &chunk.filled).runs() {
                b.protect(node, lo, hi - lo, Prot::READ)?;
                region.writable.clear_range(half * HALF + lo, half * HALF + hi);
            }
        }
        Ok(())
    }

    /// Marks every region but those kept as mapped by two processes: a fork comes.
    pub fn share(&mut self) {
        self.regions.values_mut().for_each(|region| region.shared = !region.kept);
    }

    /// The fork is over, or has failed.
    pub fn keep_no_more(&mut self) {
        self.regions.values_mut().for_each(|region| region.kept = false);
    }

    /// In the child: forgets the regions that the parent kept.
    pub fn forget_kept(&mut self, b: &mut impl Backend) {
        self.written = Written::ALL;
        self.forget_wholes(b);
        self.regions.retain(|region| {
            if region.kept {
                b.not_inherited(region.table, region.nodes);
            }
            !region.kept
        });
    }

    /// Numbers of regions with few pages, at most `most` in each half, which no other process maps,
    /// and which are not kept yet.
    pub fn small(&self, most: u32) -> impl Iterator<Item = u64> + '_ {
        let is_small = move |r: &Region| !r.shared && !r.kept && r.present.count_within(2 * most);
        self.regions.iter().filter(move |(_, region)| is_small(region)).map(|(key, _)| key)
    }
}
