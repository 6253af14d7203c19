//! `mmap`: placing and entering a mapping.

use crate::backend::{Backend, ObjectId};
use crate::map::{Entry, Flags};
use crate::space::{pages_of, Space};
use crate::types::{Error, Prot, GIANT_REGIONS, PAGE, REGION_PAGES};
use crate::whole::LEAST_REGIONS;

/// Where a mapping goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// At the address if that is free, else anywhere; 0 is no wish.
    Hint,
    /// The same; anywhere is where whole regions of the object can be mapped by one entry.
    HintAligned,
    /// At the address; what is there goes away (`MAP_FIXED`).
    Fixed,
    /// At the address, or not at all (`MAP_FIXED_NOREPLACE`).
    FixedNoReplace,
}

/// What to map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRequest {
    /// Wished address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub prot: Prot,
    /// How to take the address.
    pub placement: Placement,
    /// Properties of the entry.
    pub flags: Flags,
    /// The object, and its byte at the start of the mapping.
    pub object: Option<(ObjectId, u64)>,
}

impl MapRequest {
    /// Private anonymous memory anywhere.
    pub const fn anonymous(len: u64, prot: Prot) -> Self {
        let placement = Placement::Hint;
        MapRequest { addr: 0, len, prot, placement, flags: Flags(0), object: None }
    }
}

impl Space {
    /// `mmap`. Answers the address. On an error the object is still the caller's.
    pub fn mmap(&mut self, b: &mut impl Backend, request: &MapRequest) -> Result<u64, Error> {
        let flags = request.flags;
        if request.len == 0 {
            return Err(Error::Invalid);
        }
        let pages = pages_of(request.len).ok_or(Error::NoMemory)?;
        let (object, offset) = match request.object {
            Some((object, offset)) => (Some(object), offset / PAGE),
            None => (None, 0),
        };
        offset.checked_add(pages).filter(|&end| end < 1 << 51).ok_or(Error::Overflow)?;
        if !self.map.has_room(1) {
            return Err(Error::NoMemory);
        }
        self.pmap.drop_condemned(b)?;
        let start = self.place(request, pages)?;
        let end = start + pages;
        let replaced = match request.placement {
            Placement::Fixed => self.map.within(start, end).map(|entry| entry.pages()).sum(),
            _ => 0,
        };
        if !self.may_add(pages - replaced) || self.overcommits(request, pages) {
            return Err(Error::NoMemory);
        }
        if replaced != 0 && self.map.cuts_large(start, end) {
            return Err(Error::NoMemory);
        }
        let flags = if flags.has(Flags::LARGE_PAGES) { flags } else { flags.or(self.new_flags()) };
        let entry = Entry { start, end, offset, object, prot: request.prot, flags };
        let lowest = start.saturating_sub(self.may_grow_down(&entry));
        self.make_way(b, lowest, end)?;
        if replaced == 0 {
            self.map.insert(entry)?;
            if request.placement == Placement::HintAligned {
                self.enter_giant(b, &entry);
            }
        } else {
            let own = self.own_within(start, end)?;
            let removed = self.remove_pages(b, start, end);
            self.give_up(b, own);
            let entered = removed.and_then(|()| self.map.insert(entry));
            self.release(b);
            entered?;
        }
        Ok(start * PAGE)
    }

    /// What memory that is mapped now has beside what is asked for.
    pub(crate) fn new_flags(&self) -> Flags {
        if self.locks_new {
            Flags::LOCKED
        } else {
            Flags::default()
        }
    }

    fn overcommits(&self, request: &MapRequest, pages: u64) -> bool {
        request.prot.has(Prot::WRITE)
            && !request.flags.has(Flags::SHARED)
            && !request.flags.has(Flags::NO_RESERVE)
            && pages > self.limits.commit / PAGE
    }

    fn place(&mut self, request: &MapRequest, pages: u64) -> Result<u64, Error> {
        if pages > self.high {
            return Err(Error::NoMemory);
        }
        let wish = request.addr / PAGE;
        if matches!(request.placement, Placement::Fixed | Placement::FixedNoReplace) {
            if !request.addr.is_multiple_of(PAGE) {
                return Err(Error::Invalid);
            }
            if wish > self.high - pages {
                return Err(Error::NoMemory);
            }
            if wish < self.low {
                return Err(Error::Permission);
            }
            let free = self.map.is_free(wish, wish + pages);
            if request.placement == Placement::FixedNoReplace && !free {
                return Err(Error::Exists);
            }
            return Ok(wish);
        }
        if wish != 0 {
            let wish = wish.max(self.low)
                + (wish >= self.low && !request.addr.is_multiple_of(PAGE)) as u64;
            let fits = wish.checked_add(pages).is_some_and(|end| end <= self.high);
            if fits && self.map.is_free_with_guard(wish, wish + pages) {
                return Ok(wish);
            }
        }
        if request.placement == Placement::HintAligned && pages >= self.table_least() {
            let offset = request.object.map_or(0, |(_, offset)| offset);
            if let Some(start) = self.find_aligned(pages, offset / PAGE) {
                return Ok(start);
            }
        }
        if request.flags.has(Flags::LARGE_PAGES) {
            let found = self.find_space(pages + REGION_PAGES - 1).ok_or(Error::NoMemory)?;
            return Ok(found.next_multiple_of(REGION_PAGES));
        }
        self.find_space(pages).ok_or(Error::NoMemory)
    }

    /// The fewest pages that may be mapped by an entry of a region or more.
    pub(crate) fn table_least(&self) -> u64 {
        REGION_PAGES.min(self.own_least)
    }

    /// A place for pages of an object from `offset` on, where whole regions of it, or all of it, can be mapped by one entry.
    pub(crate) fn find_aligned(&mut self, pages: u64, offset: u64) -> Option<u64> {
        let giant = (pages >= LEAST_REGIONS * REGION_PAGES).then_some(GIANT_REGIONS * REGION_PAGES);
        let sizes = giant.into_iter().chain([REGION_PAGES]);
        let mut places = sizes.filter_map(|size| {
            let found =
                self.find_space(pages.checked_next_multiple_of(size)?.checked_add(size - 1)?)?;
            Some(found + offset.wrapping_sub(found) % size)
        });
        places.next()
    }

    /// The highest free place below the mmap area's top, or, if there is none, anywhere; and, if that can be had, not where
    /// a giant or region would have to go that one entry maps.
    pub(crate) fn find_space(&mut self, pages: u64) -> Option<u64> {
        let tops = [self.mmap_top, self.high];
        let beside_wholes = match self.pmap.has_wholes {
            true => tops.into_iter().find_map(|top| self.find_beside_wholes(pages, top)),
            false => None,
        };
        let low = self.low.max(16);
        beside_wholes
            .or_else(|| tops.into_iter().find_map(|top| self.map.highest_gap(pages, low, top)))
    }
}
