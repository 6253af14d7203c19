//! What fork and exec do to the address space.
//!
//! Fork copies no page. Where there are many pages it does not even look at them: the parent marks
//! chunks and regions as shared; the library then copies itself, with these records, into the
//! child, and gives the child capabilities to the same CNodes and tables under the same numbers.
//! Where there are few (the stack, the data of a small program), and both processes will soon write
//! to some of them, it is cheaper to do the work of leaving each other at once: the child gets a
//! CNode of its own with copies of the Frame capabilities, and no table; the parent keeps its table.
//! So it is with all anons in [pairs](crate::pairs), however many.
//!
//! To be compared with, there is a fork that copies all pages at once, too ([`Space::copy_now`]).

use crate::amap::split;
use crate::backend::Backend;
use crate::map::Flags;
use crate::space::Space;
use crate::types::{NoMemory, PAGE};
use alloc::vec::Vec;

/// Most anons of each half of a region that is not shared with a child, and most such regions.
const FEW_PAGES: u32 = 48;
const FEW_REGIONS: usize = 6;
/// Most regions, and chunks, that are kept for the next program.
const SPARE_REGIONS: usize = 4;

/// Numbers of regions that have both anons in pairs and a dense chunk, and stay so in a fork.
pub struct MixedRegions(Vec<u64>);

impl Space {
    /// Gets ready for [`Space::fork`]: makes what CNodes and tables the process needs for it.
    ///
    /// # Errors
    ///
    /// There is no memory. Nothing has to be undone.
    pub fn before_fork(&mut self, b: &mut impl Backend) -> Result<MixedRegions, NoMemory> {
        self.pmap.drop_condemned(b)?;
        self.before_fork_of_own(b)?;
        self.amap.drop_spare(b);
        let mut mixed = Vec::new();
        let sparse = self.sparse_regions()?;
        for key in self.pmap.keep_sparse(&sparse)? {
            // What is in pairs is mapped by this process only.
            self.pmap.unshare(b, &mut self.amap, key)?;
            if !self.has_dense(key) {
                self.pmap.keep(key);
            } else if mixed.len() < FEW_REGIONS && self.is_small(key) {
                mixed.try_reserve(1)?;
                mixed.push(key);
            } else if self.pmap.region(key).is_some() {
                self.pmap.make_dense(b, &mut self.amap, key * 2)?;
                self.pmap.make_dense(b, &mut self.amap, key * 2 + 1)?;
            }
        }
        // What was in pairs may have left a shelf empty.
        self.amap.drop_spare(b);
        Ok(MixedRegions(mixed))
    }

    /// Gets ready to be copied into a child, whose CSpace is there already, right after
    /// [`Space::before_fork`]. Followed by [`Space::forked`] in the parent and by
    /// [`Space::after_fork`] in the child.
    ///
    /// # Errors
    ///
    /// There is no memory. [`Space::forked`] follows nevertheless.
    pub fn fork(
        &mut self,
        b: &mut impl Backend,
        MixedRegions(copied): MixedRegions,
    ) -> Result<(), NoMemory> {
        self.amap.copy_pairs_for_child(b)?;
        // What is in pairs is read-only now, so that its chunks must be told in any case.
        let copied = self.copy_small(b, copied).inspect_err(|_| self.amap.alias_pairs())?;
        self.amap.share(&copied);
        self.pmap.share();
        Ok(())
    }

    /// The child gets copies of the anons of small regions, `copied` among them. Answers which.
    fn copy_small(
        &mut self,
        b: &mut impl Backend,
        mut copied: Vec<u64>,
    ) -> Result<Vec<u64>, NoMemory> {
        copied.try_reserve(FEW_REGIONS - copied.len().min(FEW_REGIONS))?;
        copied.iter().try_for_each(|&key| self.keep(b, key))?;
        let small: Vec<u64> = self.pmap.small(FEW_PAGES).collect();
        for key in small {
            self.pmap.drop_if_empty(b, key)?;
            if copied.len() < FEW_REGIONS && self.is_small(key) {
                self.keep(b, key)?;
                copied.push(key);
            }
        }
        Ok(copied)
    }

    /// The child gets copies of the anons in the dense chunks of a region, and not its table.
    fn keep(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        self.amap.copy_for_child(b, key * 2)?;
        self.amap.copy_for_child(b, key * 2 + 1)?;
        self.pmap.keep(key);
        self.pmap.lower(b, &self.amap, key)
    }

    /// Regions with anons in pairs, and whether they have a dense chunk, too.
    fn sparse_regions(&self) -> Result<Vec<(u64, bool)>, NoMemory> {
        let mut all = Vec::new();
        if self.amap.shelves().is_empty() {
            return Ok(all);
        }
        // The last region that had a dense chunk.
        let mut dense = u64::MAX;
        for (chunk, found) in self.amap.chunks() {
            let key = chunk / 2;
            let last = all.last_mut().filter(|(last, _)| *last == key);
            match (last, found.is_sparse()) {
                (None, true) => {
                    all.try_reserve(1)?;
                    all.push((key, dense == key));
                }
                (Some((_, has_dense)), false) => *has_dense = true,
                (None, false) => dense = key,
                (Some(_), true) => {}
            }
        }
        Ok(all)
    }

    fn has_dense(&self, key: u64) -> bool {
        let is_dense =
            |half| self.amap.chunk(key * 2 + half).is_some_and(|chunk| !chunk.is_sparse());
        is_dense(0) || is_dense(1)
    }

    /// Does a region have few anons, which are the process's alone?
    fn is_small(&self, key: u64) -> bool {
        let half_is = |half: u64| match self.amap.chunk(key * 2 + half) {
            Some(chunk) => !chunk.is_shared() && chunk.filled.count_within(FEW_PAGES),
            None => true,
        };
        self.pmap.region(key).is_some() && half_is(0) && half_is(1)
    }

    /// The child has been made, or has not.
    pub fn forked(&mut self) {
        self.pmap.keep_no_more();
    }

    /// From now on pages are copied at each fork, as systems do without copy-on-write; or when they are written to. All private memory
    /// consists of anons then, unless it has to go aside.
    pub fn copy_at_forks(&mut self, eager: bool) {
        self.eager = eager;
    }

    /// Are pages copied at each fork?
    pub fn copies_at_forks(&self) -> bool {
        self.eager
    }

    /// Copies each anon that another process has, too (`amap_cow_now`), and shows it as it was: behind a fork nothing is left for the writes
    /// of this process, and the child has what was there before. What the child gives up by itself is not copied.
    ///
    /// # Errors
    ///
    /// There is no memory: what was not copied yet is copied when it is written to.
    pub fn copy_now(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        let passed_over = Flags::DIRECT.or(Flags::DONT_FORK).or(Flags::WIPE_ON_FORK);
        let mut at = 0;
        while let Some(page) = self.next_anon(at) {
            let Some(entry) = self.map.within(page, u64::MAX).next() else { return Ok(()) };
            at = page.max(entry.start);
            if entry.flags.has_any(passed_over) {
                at = entry.end;
                continue;
            }
            while let Some(page) = self.next_anon(at).filter(|&page| page < entry.end) {
                let (key, slot) = split(page);
                if self.amap.chunk(key).is_some_and(|chunk| !chunk.owns(slot)) {
                    self.copy_anon(b, &entry, page)?;
                }
                at = page + 1;
            }
        }
        Ok(())
    }

    /// In the child: removes or wipes what `madvise` said that it must not see.
    ///
    /// # Errors
    ///
    /// It may see some of it.
    pub fn after_fork(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        self.pmap.forget_kept(b);
        let special = Flags::DONT_FORK.or(Flags::WIPE_ON_FORK);
        let mut at = if self.map.may_have(special) { 0 } else { u64::MAX };
        while let Some(&entry) = self.map.entries_from(at).find(|e| e.flags.has_any(special)) {
            at = entry.end;
            if entry.flags.has(Flags::DONT_FORK) {
                // A whole entry: no other has to be made of it.
                self.unmap_pages(b, entry.start, entry.end)?;
            } else {
                self.discard_entry(b, &entry)?;
            }
        }
        self.locks_new = false;
        if self.map.may_have(Flags::LOCKED) {
            // All of each entry: none has to be divided.
            self.map.change(0, self.high, |entry| {
                entry.flags = entry.flags.without(Flags::LOCKED);
            })?;
        }
        Ok(())
    }

    /// Gives everything up, for a new program. A few tables and CNodes are emptied and kept: it
    /// will need some at the same places.
    ///
    /// # Errors
    ///
    /// The backend refuses: some of the old program's memory may be visible.
    pub fn clear(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        self.clear_keeping(b, SPARE_REGIONS)
    }

    /// The same, but nothing is kept.
    ///
    /// # Errors
    ///
    /// As [`Space::clear`].
    pub fn destroy(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        self.clear_keeping(b, 0)
    }

    /// Forgets everything without giving anything up: whoever has this has none of it.
    pub fn abandon(&mut self) {
        self.map.abandon();
        self.amap.abandon();
        self.pmap.abandon();
        self.apart.clear();
        self.start_anew();
    }

    /// As a new address space is, but for the tables and the limits.
    fn start_anew(&mut self) {
        let new = Space::new(self.low * PAGE, self.high * PAGE);
        self.mmap_top = new.mmap_top;
        (self.brk_start, self.brk) = (new.brk_start, new.brk);
        self.fills = new.fills;
        (self.copies, self.own_least, self.aside) = (new.copies, new.own_least, new.aside);
        self.eager = new.eager;
        (self.limited, self.victims) = (None, None);
    }

    fn clear_keeping(&mut self, b: &mut impl Backend, spare: usize) -> Result<(), NoMemory> {
        self.map.clear();
        // First the Frames: with the last capability to each its Mapping goes. What is left of them
        // may be mapped, so that no table can be kept.
        let spare = self.amap.clear(b, spare).map_or(0, |()| spare);
        let result = self.pmap.clear(b, spare);
        self.clear_apart(b);
        self.release(b);
        self.start_anew();
        result
    }
}
