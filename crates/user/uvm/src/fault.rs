//! Page faults: what to do when a page is touched that is not there, or not so (UVM §3.4).
//!
//! ```text
//!                 page has an anon?
//!         yes ┌─────────┴────────┐ no
//!    write?   │                  │ object?
//!   no ┌──────┴─┐ yes      no ┌──┴────┐ yes
//!   map it    others have it? zero    write? ── no: map the object's pages
//!            no ┌─┴─┐ yes     it        └ yes: copy the object's page
//!      map it writable, copy it
//! ```
//!
//! "Zero" is a page of its own for a write, and the kernel's page of zeros for a read, unless a write
//! is to be expected.

use crate::amap::{split, Place};
use crate::backend::{Backend, ObjectError, ObjectId, Shown};
use crate::map::{Entry, Flags, GUARD_PAGES};
use crate::pmap::{locate, AROUND};
use crate::space::Space;
use crate::types::{Access, FaultError, NoMemory, Prot, PAGE, REGION_PAGES};
use crate::whole::giant_limit;

/// How often an object is asked again for an extent that others have taken away meanwhile.
const TRIES: u32 = 100;
/// Most pages that one fault of a sequential program fills.
const MAX_AHEAD: u32 = 16;
/// Most pages of a region in which faults count more than memory.
const SMALL: u64 = 16;

impl From<ObjectError> for FaultError {
    fn from(error: ObjectError) -> FaultError {
        match error {
            ObjectError::NoPage => FaultError::NoPage,
            ObjectError::NoMemory => FaultError::NoMemory,
            // It was behind the end at some time since the fault.
            ObjectError::Gone => FaultError::NoPage,
        }
    }
}

impl Space {
    /// Makes the page at `addr` usable as the program wants it.
    #[inline]
    pub fn fault(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        let page = addr / PAGE;
        let entry = match self.map.find(page) {
            Some(entry) => *entry,
            None => self.grow_stack(b, page)?,
        };
        if !entry.prot.allows(access) {
            return Err(FaultError::NoAccess);
        }
        self.fault_in(b, &entry, page, access)
    }

    /// What a fault of a program is to be taken for, whose stack pointer is `sp`. Whoever reads the page
    /// that its stack pointer is in writes to it next: that needs no second fault.
    #[inline]
    pub fn foreseen(&mut self, addr: u64, access: Access, sp: u64) -> Access {
        if access != Access::Read || addr / PAGE != sp / PAGE {
            return access;
        }
        let is_own = |entry: &&Entry| entry.prot.allows(Access::Write) && !entry.is_direct();
        match self.map.find(sp / PAGE).filter(is_own) {
            Some(_) => Access::Write,
            None => access,
        }
    }

    #[inline]
    fn fault_in(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        if entry.is_direct() {
            return self.map_direct(b, entry, page, access);
        }
        if !self.apart.is_empty() {
            return self.fault_beside_apart(b, entry, page, access);
        }
        self.fault_private(b, entry, page, access)
    }

    #[inline]
    pub(crate) fn fault_private(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        let (key, slot) = split(page);
        let has_anon = self.amap.chunk(key).is_some_and(|chunk| chunk.filled.get(slot));
        match (has_anon, access == Access::Write, entry.object) {
            (true, true, _) => Ok(self.own_anon(b, entry, page)?),
            (true, false, _) => Ok(self.map_anons(b, entry, page)?),
            (false, true, None) => {
                if self.amap.chunk(key).is_none() && self.may_be_own(entry) {
                    return self.first_write(b, entry, page);
                }
                Ok(self.zero_fill(b, entry, page)?)
            }
            (false, false, None) if self.is_written_next(entry, page) => {
                Ok(self.zero_fill_early(b, entry, page)?)
            }
            (false, false, None) => {
                let (limits, prot) = ((entry.start, entry.end), entry.prot.read_only());
                Ok(self.pmap.enter_zeros(b, &mut self.amap, page, limits, prot)?)
            }
            (false, false, Some(object)) => {
                self.map_object(b, entry, object, page, entry.prot.read_only())
            }
            (false, true, Some(object)) => self.copy_object(b, entry, object, page),
        }
    }

    /// The first write to a half of a region in a large entry: perhaps the first one to it at all.
    #[inline(never)]
    fn first_write(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), FaultError> {
        match self.become_own(b, entry)? {
            false => Ok(self.zero_fill(b, entry, page)?),
            true => match self.map.find(page).copied() {
                Some(entry) => self.map_direct(b, &entry, page, Access::Write),
                None => Err(FaultError::NotMapped),
            },
        }
    }

    /// A page of an object to which stores go.
    #[inline]
    fn map_direct(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        let Some(object) = entry.object else { return Err(FaultError::NoPage) };
        let is_table = entry.pages() >= REGION_PAGES || entry.flags.has(Flags::OWN);
        let mapped = match is_table {
            true if self.is_limited(entry, page) => self.map_limited(b, entry, object, page),
            true => self.map_shared(b, entry, object, page, access),
            false => self.map_object(b, entry, object, page, entry.prot),
        };
        match mapped {
            // The process's own object has all pages: there is no memory for this one, unless the store has lost it.
            Err(FaultError::NoPage) if entry.flags.has(Flags::OWN) => {
                match b.object_is_lost(object, entry.object_page(page)) {
                    true => mapped,
                    false => Err(FaultError::NoMemory),
                }
            }
            mapped => mapped,
        }
    }

    /// Will a page, which is read and has no anon, probably be written to soon, so that to show the page
    /// of zeros there would only be a fault more? It is so in the data of programs, which are small
    /// regions, behind pages that have been written to. Where much is read, it costs a page or two.
    fn is_written_next(&self, entry: &Entry, page: u64) -> bool {
        let (key, slot) = (page >> 8, (page & 255) as u32);
        let has_anon = |slot: u32| self.amap.chunk(key).is_some_and(|chunk| chunk.filled.get(slot));
        entry.prot.allows(Access::Write)
            && entry.pages() <= SMALL
            && slot.checked_sub(1).is_some_and(has_anon)
            && !self.fills.expects(page)
    }

    /// The same for a page that is only read yet.
    #[inline(never)]
    fn zero_fill_early(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), NoMemory> {
        self.zero_fill(b, entry, page)
    }

    /// A page that nobody has touched: zeroes, and a few more pages when the program goes on from
    /// where the last such fault stopped.
    #[inline(always)]
    fn zero_fill(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), NoMemory> {
        let (key, slot) = split(page);
        self.pmap.unshare(b, &mut self.amap, page >> 9)?;
        let mut want = self.fills.begin(page, MAX_AHEAD);
        if want > 1 {
            want = want.min((entry.end - page).min(256) as u32);
        }
        let (place, mut count) = self.room(b, page, want)?;
        if b.pages_zero(place.node, place.slot, count).is_err() {
            count = 1;
            b.pages_zero(place.node, place.slot, 1)?;
        }
        self.amap.fill(key, slot, slot + count, &place);
        self.fills.went_to(page + count as u64);
        self.pmap.enter_anons(b, &mut self.amap, (page, count), &place, entry.prot)
    }

    /// Slots for the anons of up to `want` pages from `page` on, which has none.
    #[inline]
    pub(crate) fn room(
        &mut self,
        b: &mut impl Backend,
        page: u64,
        want: u32,
    ) -> Result<(Place, u32), NoMemory> {
        let (key, slot) = split(page);
        match self.amap.ready_room(key, slot, want) {
            Some(room) => Ok(room),
            None => self.other_room(b, page, want),
        }
    }

    fn other_room(
        &mut self,
        b: &mut impl Backend,
        page: u64,
        want: u32,
    ) -> Result<(Place, u32), NoMemory> {
        let (key, slot) = split(page);
        if self.amap.becomes_dense(key, want) {
            let result = self.pmap.make_dense(b, &mut self.amap, key);
            if self.amap.becomes_dense(key, 1) {
                // It is so for good reason.
                result?;
            }
        }
        self.amap.room(b, key, slot, want)
    }

    /// A write to a page that has an anon: the process must be its only owner.
    fn own_anon(&mut self, b: &mut impl Backend, entry: &Entry, page: u64) -> Result<(), NoMemory> {
        let (key, slot) = split(page);
        let (region, at) = locate(page);
        self.pmap.unshare(b, &mut self.amap, region)?;
        let (place, is_aliased) = match self.amap.own_place(key, slot) {
            Some(found) => found,
            None => {
                self.amap.make_own(b, key, true)?;
                self.amap.own_place(key, slot).ok_or(NoMemory)?
            }
        };
        if is_aliased {
            let copied = b.page_copy(place.node, place.slot)?;
            self.amap.is_own(key, slot);
            if copied {
                self.copies += 1;
                if self.pmap.replace_anon(b, region, at, &place, entry.prot)? {
                    return Ok(());
                }
            }
        }
        self.pmap.enter_anons(b, &mut self.amap, (page, 1), &place, entry.prot)
    }

    /// The same ahead of any write. What the program may not touch is not shown.
    pub(crate) fn copy_anon(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), NoMemory> {
        if entry.prot != Prot::NONE {
            return self.own_anon(b, entry, page);
        }
        let (key, slot) = split(page);
        self.amap.make_own(b, key, true)?;
        let (place, is_aliased) = self.amap.own_place(key, slot).ok_or(NoMemory)?;
        if is_aliased && b.page_copy(place.node, place.slot)? {
            self.copies += 1;
        }
        self.amap.is_own(key, slot);
        Ok(())
    }

    /// A read of a page that has an anon: maps it and its neighbours, writable only if no other
    /// process has them.
    fn map_anons(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        page: u64,
    ) -> Result<(), NoMemory> {
        let (key, slot) = split(page);
        self.pmap.unshare(b, &mut self.amap, page >> 9)?;
        let Some(chunk) = self.amap.chunk(key) else { return Ok(()) };
        let owned = chunk.owns(slot);
        let alike = if owned { chunk.own() } else { chunk.filled.minus(&chunk.own()) };
        let prot = if owned { entry.prot } else { entry.prot.read_only() };
        let (mut first, mut last) = (slot, slot + 1);
        if !self.pmap.is_present(page) {
            let base = page - slot as u64;
            let low = (slot / AROUND * AROUND).max(entry.start.saturating_sub(base) as u32);
            let high = (slot / AROUND * AROUND + AROUND).min((entry.end - base).min(256) as u32);
            let usable = |n: u32| alike.get(n) && !self.pmap.is_present(base + n as u64);
            while first > low && usable(first - 1) {
                first -= 1;
            }
            while last < high && usable(last) {
                last += 1;
            }
        }
        let base = page - slot as u64;
        while first < last {
            let (place, count) = self.amap.run(key, first, last).ok_or(NoMemory)?;
            let from = base + first as u64;
            self.pmap.enter_anons(b, &mut self.amap, (from, count), &place, prot)?;
            first += count;
        }
        Ok(())
    }

    /// A page of a large shared object: with all of its region by one entry, if the object can be mapped so, and the region
    /// shows nothing else.
    #[inline(never)]
    fn map_shared(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        let key = page >> 9;
        self.pmap.drop_condemned(b)?;
        if self.pmap.is_whole(key) {
            // Another thread has mapped it, or the object has nothing there, or there was no memory.
            let object_page = entry.object_page(page);
            if b.object_fetch(object, object_page) && self.may_try_again(page) {
                return Ok(());
            }
            for _ in 0..TRIES {
                if b.touch(page * PAGE, access) {
                    return Ok(());
                }
                if !b.object_make(object, object_page) {
                    break;
                }
                // A large page takes long to be made, and others may be waiting for this thread.
                if b.tries_again() && self.may_try_again(page) {
                    return Ok(());
                }
            }
            if !self.pmap.drop_lost(b, key)? {
                return Err(FaultError::NoPage);
            }
        }
        let until = giant_limit(entry, key);
        let mut tries = TRIES;
        'again: while tries > 0 {
            tries -= 1;
            let extent = match b.object_whole(object, entry.object_page(page), until) {
                Err(ObjectError::Gone) => {
                    b.object_forget(object, entry.object_page(page));
                    continue;
                }
                found => found?,
            };
            let Some(extent) = extent else { break };
            for (shown, first) in self.whole_candidates(b, entry, object, key) {
                match self.pmap.enter_whole(b, shown, &extent, first, entry.prot) {
                    // The object is smaller, or there is something else in the directory: a region is to be had.
                    Err(ObjectError::NoMemory) if matches!(shown, Shown::Giant(_)) => {}
                    // It is not a table, but perhaps a page of 2 MiB: its pages are to be had.
                    Err(ObjectError::NoPage) => {}
                    Err(ObjectError::Gone) => {
                        b.object_forget(object, first);
                        continue 'again;
                    }
                    result => return Ok(result?),
                }
            }
            break;
        }
        let beside = self.beside_limited(entry, page);
        self.map_object(b, &beside, object, page, entry.prot)
    }

    /// There is room now for a page that was missing: is it left to the program to find that out? Not if it has come back for
    /// it again and again.
    fn may_try_again(&mut self, page: u64) -> bool {
        let (last, tries) = self.tried;
        self.tried = (page, if last == page { tries + 1 } else { 1 });
        self.tried.1 < TRIES
    }

    /// A page that comes from an object as it is.
    pub(crate) fn map_object(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
        prot: Prot,
    ) -> Result<(), FaultError> {
        let object_page = entry.object_page(page);
        let limits = (entry.start, entry.end);
        let mut tries = TRIES;
        loop {
            let extent = b.object_extent(object, object_page)?;
            let entered =
                self.pmap.enter_object(b, &mut self.amap, page, object_page, &extent, limits, prot);
            match entered {
                Err(ObjectError::Gone) if tries > 0 => b.object_forget(object, object_page),
                result => return Ok(result?),
            }
            tries -= 1;
        }
    }

    /// A write to a page of a privately mapped object: the process gets its own copy.
    fn copy_object(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
        page: u64,
    ) -> Result<(), FaultError> {
        let (key, slot) = split(page);
        let (region, at) = locate(page);
        let object_page = entry.object_page(page);
        let mut extent = b.object_extent(object, object_page)?;
        self.pmap.unshare(b, &mut self.amap, region)?;
        let (place, _) = self.room(b, page, 1)?;
        // While the page has no anon, its Mapping is known to be the object's.
        self.pmap.remove(b, &self.amap, region, at, at + 1)?;
        let mut tries = TRIES;
        loop {
            match b.page_copy_object(&extent, object_page, place.node, place.slot) {
                Err(ObjectError::Gone) if tries > 0 => b.object_forget(object, object_page),
                // What has left memory cannot be copied.
                Err(ObjectError::NoMemory)
                    if tries > 0 && Self::come_in(b, object, object_page)? => {}
                result => break result?,
            }
            extent = b.object_extent(object, object_page)?;
            tries -= 1;
        }
        self.amap.fill(key, slot, slot + 1, &place);
        self.pmap.enter_anons(b, &mut self.amap, (page, 1), &place, entry.prot)?;
        Ok(())
    }

    /// Has a page of an object that has left memory come in. `false`: it has not left.
    pub(crate) fn come_in(
        b: &mut impl Backend,
        object: ObjectId,
        page: u64,
    ) -> Result<bool, FaultError> {
        if b.object_there(object, page, 1).out == 0 {
            return Ok(false);
        }
        match b.object_make(object, page) || b.object_page_in(object, page) {
            true => Ok(true),
            false if b.object_is_lost(object, page) => Err(FaultError::NoPage),
            false => Err(FaultError::NoMemory),
        }
    }

    /// A page below an entry that grows downward: lowers the entry, if limits and the distance to
    /// the next mapping allow it.
    #[cold]
    fn grow_stack(&mut self, b: &mut impl Backend, page: u64) -> Result<Entry, FaultError> {
        let (before, entry) = match self.map.around(page) {
            (before, Some(entry)) if entry.flags.has(Flags::GROWS_DOWN) => (before, *entry),
            _ => return Err(FaultError::NotMapped),
        };
        let too_close = before.is_some_and(|before| {
            !before.flags.has(Flags::GROWS_DOWN)
                && before.prot != Prot::NONE
                && page - before.end < GUARD_PAGES
        });
        let pages = entry.end - page;
        let too_large = pages > self.limits.stack / PAGE || !self.may_add(entry.start - page);
        if too_close || too_large || page < self.low {
            return Err(FaultError::NotMapped);
        }
        self.pmap.drop_condemned(b)?;
        self.make_way(b, page, entry.start)?;
        self.map.grow_down(entry.start, page);
        Ok(Entry { start: page, ..entry })
    }

    /// Is the page at `addr` mapped so that this access cannot fault?
    #[inline]
    pub fn is_resident(&self, addr: u64, access: Access) -> bool {
        let page = addr / PAGE;
        match access {
            Access::Write => {
                self.pmap.may_be_writable(page)
                    && match self.amap.chunk(page >> 8) {
                        Some(chunk) => {
                            let slot = (page & 255) as u32;
                            chunk.owns(slot) || !chunk.filled.get(slot)
                        }
                        None => true,
                    }
            }
            _ => self.pmap.is_readable(page),
        }
    }

    /// Makes pages from `addr` on usable until `len` bytes are, or one cannot be. Answers how many
    /// bytes are usable.
    pub fn make_resident(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<u64, FaultError> {
        let end = addr.checked_add(len).ok_or(FaultError::NotMapped)?;
        let mut at = addr;
        while at < end {
            if !self.is_resident(at, access) {
                match self.fault(b, at, access) {
                    Ok(()) => {}
                    Err(error) if at == addr => return Err(error),
                    Err(_) => return Ok(at - addr),
                }
            }
            at = (at / PAGE + 1) * PAGE;
            if access == Access::Write && at < end {
                at = self.written_end(at / PAGE) * PAGE;
            }
        }
        Ok(len)
    }

    /// The first page from `page` on that a write may fault on, at most to the end of the chunk.
    fn written_end(&self, page: u64) -> u64 {
        let mut usable = self.pmap.writable_half(page);
        if let Some(chunk) = self.amap.chunk(page >> 8) {
            usable = usable.minus(&chunk.filled.minus(&chunk.own()));
        }
        (page & !255) + usable.next_clear((page & 255) as u32) as u64
    }
}
