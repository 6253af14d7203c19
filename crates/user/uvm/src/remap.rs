//! `mremap`.

use crate::amap::split;
use crate::backend::Backend;
use crate::map::{Entry, Flags};
use crate::mmap::{MapRequest, Placement};
use crate::space::{pages_of, Space};
use crate::types::{Error, FaultError, NoMemory, Prot, PAGE, REGION_PAGES};
use alloc::vec::Vec;

/// `MREMAP_MAYMOVE`, `MREMAP_FIXED`, `MREMAP_DONTUNMAP`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RemapFlags {
    /// The mapping may move.
    pub may_move: bool,
    /// To this address.
    pub fixed: Option<u64>,
    /// The old range stays mapped, empty.
    pub dont_unmap: bool,
}

/// How much of memory in large pages goes where: as many of them, and never more than there were.
fn remap_of_large(start: u64, old: u64, new: u64, flags: RemapFlags) -> Result<(u64, u64), Error> {
    let whole = |pages: u64| pages.checked_next_multiple_of(REGION_PAGES).ok_or(Error::Invalid);
    let (old, new) = (whole(old)?, whole(new)?);
    let is_aligned = |page: u64| page.is_multiple_of(REGION_PAGES);
    let goes_well = is_aligned(start) && flags.fixed.is_none_or(|addr| is_aligned(addr / PAGE));
    match goes_well && !flags.dont_unmap && new <= old {
        true => Ok((old, new)),
        false => Err(Error::Invalid),
    }
}

impl Space {
    /// `mremap`. Answers the new address.
    pub fn mremap(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
    ) -> Result<u64, Error> {
        if (flags.fixed.is_some() || flags.dont_unmap) && !flags.may_move
            || !addr.is_multiple_of(PAGE)
        {
            return Err(Error::Invalid);
        }
        let old = pages_of(old_len).ok_or(Error::Invalid)?;
        let new = pages_of(new_len).filter(|&new| new != 0).ok_or(Error::Invalid)?;
        if flags.dont_unmap && old != new {
            return Err(Error::Invalid);
        }
        self.pmap.drop_condemned(b)?;
        let start = addr / PAGE;
        let entry = *self.map.find(start).ok_or(Error::Fault)?;
        let (old, new) = match entry.flags.has(Flags::LARGE_PAGES) {
            true => remap_of_large(start, old, new, flags)?,
            false => (old, new),
        };
        if flags.fixed.is_some() || flags.dont_unmap {
            return self.remap_to(b, start, old, new, flags);
        }
        if old >= new && old != 0 {
            if old > new {
                self.munmap(b, (start + new) * PAGE, (old - new) * PAGE)?;
            }
            return Ok(addr);
        }
        if let Some(pieces) = self.pieces(b, &entry, start, old)? {
            return self.remap_pieces(b, &pieces, (start, old), new, flags);
        }
        self.may_resize(&entry, start, old, new)?;
        let end = start + old;
        let room_behind = start + new <= self.high
            && old != 0
            && entry.end == end
            && self.map.is_free_with_guard(end, start + new);
        if room_behind {
            self.make_way(b, end, start + new)?;
            self.map.insert(match entry.flags.has(Flags::OWN) {
                true => Self::beside_own(&entry, end, start + new),
                false => Entry {
                    start: end,
                    end: start + new,
                    offset: if entry.object.is_some() { entry.object_page(end - 1) + 1 } else { 0 },
                    ..entry
                },
            })?;
            return Ok(addr);
        }
        if !flags.may_move {
            return Err(Error::NoMemory);
        }
        let is_table = new >= self.table_least();
        let aligned = match entry.flags.has(Flags::OWN) && is_table {
            true => self.find_aligned(new, entry.object_page(start)),
            false => None,
        };
        let to = aligned.or_else(|| self.find_space(new)).ok_or(Error::NoMemory)?;
        self.move_entry(b, (start, old), (to, new), false)
    }

    /// The entries of a range that for the program is one mapping, though it has several: memory of which parts have become
    /// [objects of the process's own](crate::own). At most one of them is none: several go [aside](crate::aside) before, so that
    /// there is one only whose move may be refused.
    fn pieces(
        &mut self,
        b: &mut impl Backend,
        first: &Entry,
        start: u64,
        old: u64,
    ) -> Result<Option<Vec<Entry>>, Error> {
        let Some(end) = start.checked_add(old).filter(|&end| end > first.end) else {
            return Ok(None);
        };
        let Some((all, others)) = self.alike(first, start, end)? else { return Ok(None) };
        if others <= 1 {
            return Ok(Some(all));
        }
        self.move_all_aside(b, start, end)?;
        let first = *self.map.find(start).ok_or(Error::Fault)?;
        match self.alike(&first, start, end)? {
            Some((all, 0..=1)) => Ok(Some(all)),
            _ => Err(Error::NoMemory),
        }
    }

    /// The entries of a range, if they differ only in what they consist of, and how many consist of anons.
    fn alike(
        &self,
        first: &Entry,
        start: u64,
        end: u64,
    ) -> Result<Option<(Vec<Entry>, usize)>, Error> {
        let kind = |entry: &Entry| (entry.prot, entry.flags.without(Flags::OWN));
        let (mut all, mut at, mut others) = (Vec::new(), start, 0);
        for entry in self.map.within(start, end) {
            let is_alike = entry.is_private_anonymous() && kind(&entry) == kind(first);
            others += usize::from(!entry.flags.has(Flags::OWN));
            if !is_alike || entry.start > at {
                return Ok(None);
            }
            at = entry.end;
            all.try_reserve(1).map_err(|_| Error::NoMemory)?;
            all.push(entry);
        }
        Ok((at >= end).then_some((all, others)))
    }

    /// Lengthens such a range, or moves it to where it can be longer.
    fn remap_pieces(
        &mut self,
        b: &mut impl Backend,
        pieces: &[Entry],
        (start, old): (u64, u64),
        new: u64,
        flags: RemapFlags,
    ) -> Result<u64, Error> {
        let end = start + old;
        let last = pieces.last().ok_or(Error::Fault)?;
        self.may_lengthen(last, new - old, pieces.len())?;
        let is_end = last.end == end && start + new <= self.high;
        if is_end && self.map.is_free_with_guard(end, start + new) {
            self.make_way(b, end, start + new)?;
            self.map.insert(Self::beside_own(last, end, start + new))?;
            return Ok(start * PAGE);
        }
        if !flags.may_move {
            return Err(Error::NoMemory);
        }
        // What is mapped by few entries stays so.
        let is_table = new >= self.table_least();
        let aligned = if is_table { self.find_aligned(new, start) } else { None };
        let to = aligned.or_else(|| self.find_space(new)).ok_or(Error::NoMemory)?;
        self.move_pieces(b, pieces, (start, old), (to, new))
    }

    /// May a range become so many pages longer, as far as limits are concerned, and be moved piece by piece?
    fn may_lengthen(&self, entry: &Entry, more: u64, pieces: usize) -> Result<(), Error> {
        let private_write = entry.prot.has(Prot::WRITE) && !entry.flags.has(Flags::SHARED);
        let too_much = private_write && more > self.limits.commit / PAGE;
        match self.may_add(more) && !too_much && self.map.has_room(3 * pieces) {
            true => Ok(()),
            false => Err(Error::NoMemory),
        }
    }

    /// Moves such a range to where nothing is.
    fn move_pieces(
        &mut self,
        b: &mut impl Backend,
        pieces: &[Entry],
        (start, old): (u64, u64),
        (to, new): (u64, u64),
    ) -> Result<u64, Error> {
        let (more, end) = (new - old, start + old);
        // What may be refused comes first, at last the one that has anons; then entries are all that changes.
        self.make_way(b, to, to + new)?;
        let is_own = |entry: &&Entry| entry.flags.has(Flags::OWN);
        for piece in pieces.iter().filter(is_own) {
            self.discard_tables(b, piece.start.max(start), piece.end.min(end))?;
        }
        let others = pieces.iter().filter(|piece| !is_own(piece));
        for piece in others.chain(pieces.iter().filter(is_own)) {
            let (from, until) = (piece.start.max(start), piece.end.min(end));
            let grown = if until == end { more } else { 0 };
            let target = (to + (from - start), until - from + grown);
            self.move_entry(b, (from, until - from), target, false)?;
        }
        Ok(to * PAGE)
    }

    fn remap_to(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        mut old: u64,
        new: u64,
        flags: RemapFlags,
    ) -> Result<u64, Error> {
        let to = match flags.fixed {
            Some(addr) if !addr.is_multiple_of(PAGE) => return Err(Error::Invalid),
            Some(addr) => addr / PAGE,
            None => self.find_space(new).ok_or(Error::NoMemory)?,
        };
        let overlaps = start + old > to && to + new > start;
        let is_cut = flags.fixed.is_some() && self.map.cuts_large(to, to.saturating_add(new));
        if new > self.high || to > self.high - new || overlaps || is_cut {
            return Err(Error::Invalid);
        }
        if to < self.low {
            return Err(Error::Permission);
        }
        if flags.fixed.is_some() {
            self.unmap_pages(b, to, to + new)?;
        }
        if old > new {
            self.munmap(b, (start + new) * PAGE, (old - new) * PAGE)?;
            old = new;
        }
        let entry = *self.map.find(start).ok_or(Error::Fault)?;
        let pieces = match flags.dont_unmap {
            true => None,
            false => self.pieces(b, &entry, start, old)?,
        };
        if let Some(pieces) = pieces {
            self.may_lengthen(&entry, new - old, pieces.len())?;
            return self.move_pieces(b, &pieces, (start, old), (to, new));
        }
        self.may_resize(&entry, start, old, new)?;
        self.move_entry(b, (start, old), (to, new), flags.dont_unmap)
    }

    fn may_resize(&self, entry: &Entry, start: u64, old: u64, new: u64) -> Result<(), Error> {
        if old == 0 && !entry.flags.has(Flags::SHARED) {
            return Err(Error::Invalid);
        }
        if old > entry.end - start {
            return Err(Error::Fault);
        }
        self.may_lengthen(entry, new.saturating_sub(old), 1)
    }

    /// Enters a copy of the entry at `start` at `to`, moves the anons, and unmaps the old range.
    fn move_entry(
        &mut self,
        b: &mut impl Backend,
        (start, old): (u64, u64),
        (to, new): (u64, u64),
        dont_unmap: bool,
    ) -> Result<u64, Error> {
        let entry = *self.map.find(start).ok_or(Error::Fault)?;
        if entry.flags.has(Flags::OWN) {
            return self.move_own(b, &entry, (start, old), (to, new), dont_unmap);
        }
        let offset = if entry.object.is_some() { entry.object_page(start) } else { 0 };
        let moved = MapRequest {
            addr: to * PAGE,
            len: new * PAGE,
            prot: entry.prot,
            placement: Placement::Fixed,
            flags: entry.flags.without(Flags::STACK),
            object: entry.object.map(|object| (object, offset * PAGE)),
        };
        if !dont_unmap {
            self.map.isolate(start, start + old)?;
        }
        let result = self.enter_moved(b, &moved, (start, old));
        match result {
            // Nothing has to be divided for this any more, and nothing above: the new range, even
            // where it was joined with the old one.
            Ok(_) if !dont_unmap => self.unmap_pages(b, start, start + old)?,
            Ok(_) if entry.flags.has(Flags::LOCKED) => {
                // Locks go with the pages. Where there is no memory to note it, what comes there is locked still.
                let unlock = |entry: &mut Entry| entry.flags = entry.flags.without(Flags::LOCKED);
                let _ = self.map.change(start, start + old, unlock);
            }
            _ => self.map.join(start, start + old),
        }
        result
    }

    /// The same of an entry with [an object of the process's own](crate::own): that is shown elsewhere. What is new has anons.
    fn move_own(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        (start, old): (u64, u64),
        (to, new): (u64, u64),
        dont_unmap: bool,
    ) -> Result<u64, Error> {
        let object = entry.object.ok_or(Error::Fault)?;
        self.aside.note_move();
        self.make_way(b, to, to + new)?;
        // What may be refused comes first. What was taken away, faults bring back.
        self.discard_tables(b, start, start + old)?;
        self.map.isolate(start, start + old)?;
        let (offset, end) = (entry.object_page(start), to + old);
        let rest = (new > old).then(|| Self::beside_own(entry, end, to + new));
        let mut left = dont_unmap.then(|| Self::beside_own(entry, start, start + old));
        if let Some(left) = &mut left {
            // Locks go with the pages.
            left.flags = left.flags.without(Flags::LOCKED);
        }
        self.map.insert(Entry { start: to, end, offset, object: Some(object), ..*entry })?;
        if let Some(error) = rest.and_then(|rest| self.map.insert(rest).err()) {
            // Only what has nothing yet.
            self.remove_pages(b, to, end)?;
            return Err(error.into());
        }
        self.remove_pages(b, start, start + old)?;
        if let Some(left) = left {
            self.map.insert(left)?;
        }
        Ok(to * PAGE)
    }

    /// Pages `start..end` of the same kind of memory as an entry with such an object, with nothing in them.
    fn beside_own(entry: &Entry, start: u64, end: u64) -> Entry {
        let flags = entry.flags.without(Flags::OWN);
        Entry { start, end, offset: 0, object: None, prot: entry.prot, flags }
    }

    /// Enters the new range and moves the anons of the old one there: both or nothing.
    fn enter_moved(
        &mut self,
        b: &mut impl Backend,
        moved: &MapRequest,
        (start, old): (u64, u64),
    ) -> Result<u64, Error> {
        let (limits, locks_new) = (self.limits, self.locks_new);
        // What moves is not new. Both ranges exist for a moment; the limits were checked for the difference.
        self.locks_new = false;
        self.limits.address_space = u64::MAX;
        self.limits.commit = u64::MAX;
        let entered = self.mmap(b, moved);
        (self.limits, self.locks_new) = (limits, locks_new);
        let to = entered? / PAGE;
        if let Err(error) = self.move_anons(b, start, to, old) {
            self.unmap_pages(b, to, to + moved.len / PAGE)?;
            return Err(error);
        }
        Ok(to * PAGE)
    }

    /// Moves the anons of `count` pages. What can fail is done first.
    fn move_anons(
        &mut self,
        b: &mut impl Backend,
        from: u64,
        to: u64,
        count: u64,
    ) -> Result<(), Error> {
        // Where they are the address says.
        match self.bring_all_back(b, from, from + count) {
            Err(FaultError::NoPage) => return Err(Error::Fault),
            back => back.map_err(|_| Error::NoMemory)?,
        }
        // Pairs stay where they are, if only the chunk changes whose they are.
        let apart = (from >> 8) > (to + count - 1) >> 8 || (to >> 8) > (from + count - 1) >> 8;
        let mut at = 0;
        while at < count {
            let behind = count.min(((((to + at) >> 8) + 1) << 8) - to);
            self.make_room(b, (from + at, from + behind), (to + at) >> 8, apart)?;
            at = behind;
        }
        self.discard_tables(b, from, from + count)?;
        at = 0;
        while let Some(page) = self.next_anon(from + at).filter(|&page| page < from + count) {
            at = page - from;
            if self.amap.move_anon(b, page, to + at).is_err() {
                // What cannot be moved back goes with the new range.
                while let Some(page) = self.next_anon(to).filter(|&page| page < to + at) {
                    let home = from + page - to;
                    // A pair that it had is free.
                    self.amap.make_own(b, home >> 8, true)?;
                    self.pmap.make_dense(b, &mut self.amap, home >> 8)?;
                    self.amap.move_anon(b, page, home).map_err(NoMemory::from)?;
                }
                return Err(Error::NoMemory);
            }
            at += 1;
        }
        Ok(())
    }

    /// Makes sure that the anons of pages `from..end` can be moved to a chunk that has room for them
    /// in its CNode, or, if `pairs` may be, for their pairs.
    fn make_room(
        &mut self,
        b: &mut impl Backend,
        (from, end): (u64, u64),
        to: u64,
        pairs: bool,
    ) -> Result<(), Error> {
        let (mut all, mut paired) = (0, pairs);
        let mut at = from;
        while let Some(page) = self.next_anon(at).filter(|&page| page < end) {
            let (key, slot) = split(page);
            self.amap.make_own(b, key, true)?;
            let behind = end.min((key + 1) << 8);
            let chunk = self.amap.chunk(key).ok_or(Error::NoMemory)?;
            all += chunk.filled.within(slot, (behind - (key << 8)) as u32).count();
            paired &= chunk.is_sparse();
            at = behind;
        }
        if all == 0 {
            return Ok(());
        }
        let dense = !paired || !self.amap.takes_pairs(to, all);
        self.amap.make_own(b, to, dense)?;
        if dense {
            self.pmap.make_dense(b, &mut self.amap, to)?;
        }
        Ok(())
    }

    /// The first page at or behind `page` that has an anon.
    pub(crate) fn next_anon(&self, page: u64) -> Option<u64> {
        let mut at = page;
        loop {
            let key = self.amap.next_key(at >> 8)?;
            at = at.max(key << 8);
            let slot = self.amap.chunk(key)?.filled.next_set((at & 255) as u32);
            if slot < 256 {
                return Some((key << 8) + slot as u64);
            }
            at = (key + 1) << 8;
        }
    }

    /// Removes `start..end` from the page tables only.
    pub(crate) fn discard_tables(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), NoMemory> {
        let mut at = start;
        while let Some(key) = self.pmap.next_key(at >> 9).filter(|&key| key << 9 < end) {
            at = at.max(key << 9);
            let behind = end.min((key + 1) << 9);
            self.pmap.unshare(b, &mut self.amap, key)?;
            let lo = (at & 511) as u32;
            self.pmap.remove(b, &self.amap, key, lo, lo + (behind - at) as u32)?;
            at = behind;
            if at >= end {
                break;
            }
        }
        Ok(())
    }
}
