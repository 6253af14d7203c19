//! The naive model: one record for each page, nothing shared, nothing lazy.

use crate::map::{Flags, GUARD_PAGES};
use crate::types::{Access, Error, FaultError, Prot, GIANT_REGIONS, REGION_PAGES};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub struct Page {
    pub prot: Prot,
    pub flags: Flags,
    pub object: Option<(u32, u64)>,
    /// The private page. Its owners are those that hold the `Rc`.
    pub anon: Option<Rc<Cell<u64>>>,
}

#[derive(Clone, Default)]
pub struct Model {
    pub pages: BTreeMap<u64, Page>,
    pub low: u64,
    pub high: u64,
    pub top: u64,
    /// Where what one entry maps is, or would be in the way: nothing goes there if there is another place.
    pub giants: Vec<Range<u64>>,
    /// The fewest pages that are placed where one entry may map them.
    pub table_least: u64,
    pub stack_pages: u64,
    /// What is mapped from now on is locked.
    pub locks_new: bool,
}

pub struct Write {
    pub copied: bool,
}

impl Model {
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.pages.range(start..end).next().is_none()
    }
    fn guarded_free(&self, start: u64, end: u64) -> bool {
        let next = self.pages.range(start..).next();
        self.is_free(start, end)
            && next.is_none_or(|(&at, page)| {
                !page.flags.has(Flags::GROWS_DOWN) || at.saturating_sub(GUARD_PAGES) >= end
            })
    }
    pub fn find_space(&self, pages: u64) -> Option<u64> {
        let below = |high: u64, giants: &[Range<u64>]| {
            let is_beside = |start: u64| {
                giants.iter().all(|giant| start + pages <= giant.start || giant.end <= start)
            };
            (self.low.max(16)..=high.checked_sub(pages)?)
                .rev()
                .find(|&start| self.guarded_free(start, start + pages) && is_beside(start))
        };
        let beside = below(self.top, &self.giants).or_else(|| below(self.high, &self.giants));
        beside.or_else(|| below(self.top, &[])).or_else(|| below(self.high, &[]))
    }
    /// Where pages from `offset` on of an object go that is mapped by as few entries as possible.
    pub fn find_aligned(&self, pages: u64, offset: u64) -> Option<u64> {
        for size in [GIANT_REGIONS * REGION_PAGES, REGION_PAGES] {
            if pages < if size > REGION_PAGES { REGION_PAGES } else { self.table_least } {
                continue;
            }
            let all = pages.next_multiple_of(size) + size - 1;
            if let Some(found) = self.find_space(all) {
                return (found..).find(|start| start % size == offset % size);
            }
        }
        self.find_space(pages)
    }
    pub fn hint(&self, wish: u64, pages: u64) -> Option<u64> {
        let wish = wish.max(self.low);
        if wish + pages <= self.high && self.guarded_free(wish, wish + pages) {
            return Some(wish);
        }
        self.find_space(pages)
    }
    pub fn enter(
        &mut self,
        start: u64,
        pages: u64,
        prot: Prot,
        flags: Flags,
        object: Option<(u32, u64)>,
    ) {
        for n in 0..pages {
            let object = object.map(|(object, offset)| (object, offset + n));
            self.pages.insert(start + n, Page { prot, flags, object, anon: None });
        }
    }
    pub fn unmap(&mut self, start: u64, end: u64) {
        let gone: Vec<u64> = self.pages.range(start..end).map(|(page, _)| *page).collect();
        gone.iter().for_each(|page| drop(self.pages.remove(page)));
    }
    pub fn protect(&mut self, start: u64, end: u64, prot: Prot) -> Result<(), Error> {
        for at in start..end {
            self.pages.get_mut(&at).ok_or(Error::NoMemory)?.prot = prot;
        }
        Ok(())
    }
    /// Answers whether all pages are mapped.
    pub fn dont_fork(&mut self, start: u64, end: u64, on: bool) -> bool {
        let pages = self.pages.range_mut(start..end);
        let found = pages.map(|(_, page)| {
            let flags = page.flags.without(Flags::DONT_FORK);
            page.flags = if on { flags.or(Flags::DONT_FORK) } else { flags };
        });
        found.count() as u64 == end - start
    }
    /// As a child starts with it.
    pub fn inherited(&self) -> Model {
        let mut child = self.clone();
        child.pages.retain(|_, page| !page.flags.has(Flags::DONT_FORK));
        // Locks are the parent's alone.
        let unlock = |page: &mut Page| page.flags = page.flags.without(Flags::LOCKED);
        child.pages.values_mut().for_each(unlock);
        child.locks_new = false;
        child
    }
    pub fn discard(&mut self, start: u64, end: u64) {
        self.pages.range_mut(start..end).for_each(|(_, page)| page.anon = None);
    }
    pub fn grow(&mut self, page: u64) -> bool {
        let Some((&next, above)) = self.pages.range(page..).next() else { return false };
        if next == page || !above.flags.has(Flags::GROWS_DOWN) {
            return next == page;
        }
        let above = above.clone();
        let mut end = next;
        while self.pages.get(&end).is_some_and(|p| p.flags == above.flags && p.prot == above.prot) {
            end += 1;
        }
        let too_close = self.pages.range(..page).next_back().is_some_and(|(&at, before)| {
            !before.flags.has(Flags::GROWS_DOWN)
                && before.prot != Prot::NONE
                && page - (at + 1) < GUARD_PAGES
        });
        if too_close || end - page > self.stack_pages || page < self.low {
            return false;
        }
        self.enter(page, next - page, above.prot, above.flags, None);
        true
    }
    pub fn check(
        &mut self,
        page: u64,
        access: Access,
        size: impl Fn(u32) -> u64,
    ) -> Result<(), FaultError> {
        if !self.grow(page) {
            return Err(FaultError::NotMapped);
        }
        let at = &self.pages[&page];
        if !at.prot.allows(access) {
            return Err(FaultError::NoAccess);
        }
        match at.object {
            Some((object, offset)) if at.anon.is_none() && offset >= size(object) => {
                Err(FaultError::NoPage)
            }
            _ => Ok(()),
        }
    }
    /// What the page holds, or the object's page that it shows.
    pub fn look(&self, page: u64) -> Result<u64, (u32, u64)> {
        let at = &self.pages[&page];
        match (&at.anon, at.object) {
            (Some(anon), _) => Ok(anon.get()),
            (None, Some(object)) => Err(object),
            (None, None) => Ok(0),
        }
    }
    /// The page of a file that a store to this page goes to.
    pub fn shows<'a>(
        &self,
        page: u64,
        files: &'a mut BTreeMap<u32, Vec<u64>>,
    ) -> Option<(&'a mut Vec<u64>, usize)> {
        let at = &self.pages[&page];
        let (object, offset) = at.object.filter(|_| at.flags.has(Flags::SHARED))?;
        Some((files.get_mut(&object)?, offset as usize))
    }
    pub fn write(&mut self, page: u64, value: u64) -> Write {
        let at = self.pages.get_mut(&page).unwrap();
        if let (true, Some(_)) = (at.flags.has(Flags::SHARED), at.object) {
            return Write { copied: false };
        }
        match &at.anon {
            Some(anon) if Rc::strong_count(anon) == 1 => {
                anon.set(value);
                Write { copied: false }
            }
            old => {
                let copied = old.is_some();
                at.anon = Some(Rc::new(Cell::new(value)));
                Write { copied }
            }
        }
    }
    pub fn owned_alone(&self, page: u64) -> bool {
        let at = &self.pages[&page];
        at.flags.has(Flags::SHARED)
            || at.anon.as_ref().is_none_or(|anon| Rc::strong_count(anon) == 1)
    }
}
