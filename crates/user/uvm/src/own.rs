//! Large private memory that is an object of the process's own.
//!
//! What is private and comes from nowhere has anons, page by page. Where there is much of it, it is an object that nobody else has instead,
//! mapped as [shared objects](crate::whole) are: by few entries, below which faults are the kernel's, on whichever core they happen. So
//! threads that touch different pages of it do not wait for each other, nor for this code. An entry becomes such a one when it is written
//! to for the first time: until then nobody knows whether it will be divided, or used at all.
//!
//! For the program it is private memory. What it gives up is taken out of the object, and a fork gives the child an object of its own
//! with the same contents, which is the backend's business: what the parent's page tables show of an object is never the child's.

use crate::backend::{Backend, ObjectId};
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{NoMemory, Prot, PAGE, REGION_PAGES};
use crate::whole::LEAST_REGIONS;
use alloc::vec::Vec;

/// Least bytes of memory that becomes such an object.
pub const OWN_LEAST: u64 = LEAST_REGIONS * REGION_PAGES * PAGE;
/// The same in a process with several threads, of memory that begins a region. What `malloc` maps alone is not smaller.
const OWN_LEAST_OF_THREADS: u64 = 128 << 10;

/// Pages of objects of the process's own, of which nothing is mapped any more.
pub(crate) struct GivenUp(Vec<(ObjectId, u64, u64)>);

impl Space {
    /// From now on the program has several threads, or one again. With several, less memory becomes such
    /// objects: all else that a fault needs is done by one of them at a time.
    pub fn serve_threads(&mut self, several: bool) {
        self.own_least = if several { OWN_LEAST_OF_THREADS } else { OWN_LEAST } / PAGE;
    }

    /// Least bytes of memory that becomes such an object now.
    #[inline]
    pub fn own_least(&self) -> u64 {
        self.own_least * PAGE
    }

    /// May an entry, whose first page is written to, become such an object, or a part of one?
    #[inline]
    pub(crate) fn may_be_own(&mut self, entry: &Entry) -> bool {
        !self.eager && entry.pages() >= self.own_least
            || self.serves_threads() && self.continued(entry).is_some()
    }

    /// The entry with such an object that an entry goes on from, as memory does that is made usable piece by piece.
    #[inline(never)]
    fn continued(&mut self, entry: &Entry) -> Option<Entry> {
        let before = self.map.find(entry.start.checked_sub(1)?)?;
        let is_alike = before.flags == entry.flags.or(Flags::OWN) && before.prot == entry.prot;
        (before.flags.has(Flags::OWN) && is_alike).then_some(*before)
    }

    /// Makes the object in front of an entry longer, so that it is the entry's, too. `false`: it stays as it is.
    fn become_more(&mut self, b: &mut impl Backend, entry: &Entry) -> Result<bool, NoMemory> {
        let Some(before) = self.continued(entry) else { return Ok(false) };
        let (Some(object), page) = (before.object, before.object_page(before.end)) else {
            return Ok(false);
        };
        // What is behind the end of that entry may not be seen there.
        if b.object_pages(object) != page {
            return Ok(false);
        }
        self.take_tables(b, entry.start, entry.end)?;
        if !b.object_grow(object, page + entry.pages(), before.end - 1) {
            return Ok(false);
        }
        self.map.give_object(entry.start, object, page, Flags::OWN)?;
        self.map.join(entry.start, entry.start);
        Ok(true)
    }

    /// Makes it one, if nothing was written to in it yet, and the backend has one. Returns `false` if it stays as it is.
    ///
    /// # Errors
    ///
    /// The backend refuses to take away what is shown there: it stays as it is, too.
    #[cold]
    #[inline(never)]
    pub(crate) fn become_own(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
    ) -> Result<bool, NoMemory> {
        if !self.is_untouched(entry) {
            return Ok(false);
        }
        if self.serves_threads() && self.become_more(b, entry)? {
            return Ok(true);
        }
        // Its regions are those of the address space.
        let lead = entry.start % REGION_PAGES;
        let is_large = entry.pages() >= OWN_LEAST / PAGE;
        if !is_large && (entry.pages() < self.own_least || lead != 0) {
            return Ok(false);
        }
        let large = is_large && !entry.flags.has(Flags::WANTS_SMALL);
        let Some(object) = b.object_own(lead + entry.pages(), large) else { return Ok(false) };
        // Another one that ends in the first region may be shown there by one entry.
        let left = self.pmap.leave_whole(b, entry.start / REGION_PAGES);
        let given = left.and_then(|()| self.take_tables(b, entry.start, entry.end));
        let given =
            given.and_then(|()| self.map.give_object(entry.start, object, lead, Flags::OWN));
        if let Err(error) = given {
            b.object_release(object);
            return Err(error);
        }
        if let Some(&entry) = self.map.find(entry.start) {
            self.enter_giant(b, &entry);
        }
        Ok(true)
    }

    /// Has nothing been written to in an entry that can be written to, and that is of such memory?
    fn is_untouched(&self, entry: &Entry) -> bool {
        let special = Flags::GROWS_DOWN.or(Flags::SHARED).or(Flags::OWN);
        let has_anons =
            self.amap.next_key(entry.start >> 8).is_some_and(|key| key << 8 < entry.end);
        // It grows page by page.
        let is_heap = entry.start * PAGE < self.brk && self.brk_start < entry.end * PAGE;
        let is_plain = !entry.flags.has_any(special) && entry.object.is_none();
        is_plain && entry.prot.has(Prot::WRITE) && !has_anons && !is_heap
    }

    #[inline]
    fn serves_threads(&self) -> bool {
        self.own_least < OWN_LEAST / PAGE
    }

    /// Pages from `start` on, which were reserved, can be written to from now on. If they go on from such an object they are its own at once, and not when they are
    /// written to: that would be another time that a thread comes for them.
    #[inline]
    pub(crate) fn made_usable(&mut self, b: &mut impl Backend, start: u64) {
        if self.serves_threads() {
            self.go_on(b, start);
        }
    }

    #[inline(never)]
    fn go_on(&mut self, b: &mut impl Backend, start: u64) {
        let Some(&entry) = self.map.find(start).filter(|entry| entry.start == start) else {
            return;
        };
        if self.is_untouched(&entry) {
            // Without memory for it, it is as it is until it is written to.
            let _ = self.become_more(b, &entry);
        }
    }

    /// Takes away what tables show of pages `start..end`, but not what one entry shows.
    pub(crate) fn take_tables(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), NoMemory> {
        let mut key = start >> 9;
        loop {
            key = match self.pmap.next_table(key) {
                Some(next) if next << 9 < end => next,
                _ => return Ok(()),
            };
            let (first, last) = (start.max(key << 9), end.min((key + 1) << 9));
            self.pmap.unshare(b, &mut self.amap, key)?;
            let lo = (first & 511) as u32;
            self.pmap.remove(b, &self.amap, key, lo, lo + (last - first) as u32)?;
            self.pmap.drop_if_empty(b, key)?;
            key += 1;
        }
    }

    /// A fork comes: the child inherits tables, in which nothing of these objects may be.
    #[inline]
    pub(crate) fn before_fork_of_own(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        if !self.apart.is_empty() {
            self.hide_apart(b)?;
        }
        match self.map.may_have(Flags::OWN) {
            true => self.hide_own(b),
            false => Ok(()),
        }
    }

    #[cold]
    fn hide_own(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        let mut at = 0;
        loop {
            let mut entries = self.map.entries_from(at);
            let Some(&entry) = entries.find(|entry| entry.flags.has(Flags::OWN)) else {
                return Ok(());
            };
            self.take_tables(b, entry.start, entry.end)?;
            at = entry.end;
        }
    }

    /// What of such objects is in pages `start..end`, which will be mapped no more.
    ///
    /// # Errors
    ///
    /// There is no memory to note it.
    #[inline]
    pub(crate) fn own_within(&self, start: u64, end: u64) -> Result<GivenUp, NoMemory> {
        match self.map.may_have(Flags::OWN) {
            true => self.find_own(start, end),
            false => Ok(GivenUp(Vec::new())),
        }
    }

    #[cold]
    fn find_own(&self, start: u64, end: u64) -> Result<GivenUp, NoMemory> {
        let mut all = Vec::new();
        for entry in self.map.within(start, end).filter(|entry| entry.flags.has(Flags::OWN)) {
            let Some(object) = entry.object else { continue };
            all.try_reserve(1)?;
            all.push((object, entry.offset, entry.pages()));
        }
        Ok(GivenUp(all))
    }

    /// It is not mapped any more: takes it out of the objects, unless they go as a whole.
    #[inline]
    pub(crate) fn give_up(&mut self, b: &mut impl Backend, GivenUp(parts): GivenUp) {
        for (object, page, pages) in parts {
            if self.map.uses(object) || self.aside.holds(object) {
                // What is left takes memory as long as the object is there, but is never mapped again.
                b.object_punch(object, page, pages);
            }
        }
    }

    /// Makes zeros of pages of an entry with such an object.
    ///
    /// # Errors
    ///
    /// There is no memory to divide what another process has, too.
    #[cold]
    pub(crate) fn discard_own(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
    ) -> Result<(), NoMemory> {
        let Some(object) = entry.object else { return Ok(()) };
        match b.object_punch(object, entry.offset, entry.pages()) {
            true => Ok(()),
            false => Err(NoMemory),
        }
    }
}
