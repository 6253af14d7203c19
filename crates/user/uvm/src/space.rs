//! The address space: map, amap and pmap together.

use crate::amap::Amap;
use crate::aside::Aside;
use crate::backend::Backend;
use crate::bits::Bits;
use crate::limited::Limited;
use crate::map::{Entry, Flags, Map};
use crate::own::OWN_LEAST;
use crate::pmap::Pmap;
use crate::streams::Streams;
use crate::types::{Error, NoMemory, Refused, PAGE};
use crate::victims::Victims;
use alloc::boxed::Box;
use tables::Sparse;

/// What the process may use, in bytes; `u64::MAX` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `RLIMIT_AS`.
    pub address_space: u64,
    /// `RLIMIT_DATA` (only `brk` looks at it).
    pub data: u64,
    /// `RLIMIT_STACK`.
    pub stack: u64,
    /// More than this in one private writable mapping is refused at once: all memory there is.
    pub commit: u64,
}

/// An address space.
pub struct Space {
    pub(crate) map: Map,
    pub(crate) amap: Amap,
    pub(crate) pmap: Pmap,
    /// First page that a program may use, and first behind the last.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Mappings without an address go below this page.
    pub(crate) mmap_top: u64,
    /// Start of the heap, and its end, in bytes.
    pub(crate) brk_start: u64,
    pub(crate) brk: u64,
    /// Limits.
    pub limits: Limits,
    /// Is memory locked that is mapped from now on (`MCL_FUTURE`)?
    pub locks_new: bool,
    /// Who fills one page of zeros after the other.
    pub(crate) fills: Streams,
    /// The page for which room was made last, and how often in a row.
    pub(crate) tried: (u64, u32),
    /// Anons that were copied.
    pub copies: u64,
    /// Are pages copied at a fork, and not when they are written to?
    pub(crate) eager: bool,
    /// Least pages of memory that becomes [an object of the process's own](crate::own).
    pub(crate) own_least: u64,
    /// What has gone [aside](crate::aside).
    pub(crate) aside: Aside,
    /// Which pages went aside [one by one](crate::apart), by chunk.
    pub(crate) apart: Sparse<Bits<4>, 4>,
    /// What may have [few pages in memory](crate::limited).
    pub(crate) limited: Option<Box<Limited>>,
    /// Who says [what goes aside](crate::victims), if not the hand.
    pub(crate) victims: Option<Box<Victims>>,
}

impl Space {
    /// An empty address space from `low` to `high` (addresses).
    pub const fn new(low: u64, high: u64) -> Self {
        Space {
            map: Map::new(),
            amap: Amap::new(),
            pmap: Pmap::new(),
            low: low / PAGE,
            high: high / PAGE,
            mmap_top: high / PAGE,
            brk_start: 0,
            brk: 0,
            limits: Limits {
                address_space: u64::MAX,
                data: u64::MAX,
                stack: 8 << 20,
                commit: u64::MAX,
            },
            locks_new: false,
            fills: Streams::new(),
            tried: (0, 0),
            copies: 0,
            eager: false,
            own_least: OWN_LEAST / PAGE,
            aside: Aside::NONE,
            apart: Sparse::new(),
            limited: None,
            victims: None,
        }
    }

    /// The entries.
    pub fn map(&self) -> &Map {
        &self.map
    }
    /// The anons.
    pub fn amap(&self) -> &Amap {
        &self.amap
    }
    /// The page tables.
    pub fn pmap(&self) -> &Pmap {
        &self.pmap
    }
    /// Mappings without an address go below this address.
    pub fn set_mmap_top(&mut self, addr: u64) {
        self.mmap_top = addr / PAGE;
    }

    /// The pages of `[addr, addr + len)`: `addr` must begin a page; `len` is rounded up.
    pub(crate) fn range(&self, addr: u64, len: u64) -> Result<(u64, u64), Error> {
        if !addr.is_multiple_of(PAGE) {
            return Err(Error::Invalid);
        }
        let pages = pages_of(len).ok_or(Error::NoMemory)?;
        let end = (addr / PAGE).checked_add(pages).ok_or(Error::NoMemory)?;
        Ok((addr / PAGE, end))
    }

    /// Would `pages` more be within `RLIMIT_AS`?
    pub(crate) fn may_add(&self, pages: u64) -> bool {
        self.limits.address_space == u64::MAX
            || self.map.pages().saturating_add(pages) <= self.limits.address_space / PAGE
    }

    /// The same of an entry, or of a part of one.
    pub(crate) fn discard_entry(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
    ) -> Result<(), NoMemory> {
        match entry.flags.has(Flags::OWN) {
            true => self.discard_own(b, entry),
            false => self.discard(b, entry.start, entry.end, entry.is_pure_anonymous()),
        }
    }

    /// Takes the pages `start..end` out of memory. The entries stay: those with an object will be
    /// read from it again, the others will be zero.
    ///
    /// # Errors
    ///
    /// The backend refuses. All of them are tried nevertheless; where some are left to see the region is
    /// condemned.
    #[inline(always)]
    pub(crate) fn discard(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
        pure: bool,
    ) -> Result<(), NoMemory> {
        if start >= end {
            return Ok(());
        }
        // What is apart is shown as pages of an object are.
        let pure = pure && self.apart.is_empty();
        if !self.apart.is_empty() {
            self.discard_apart(b, start, end);
        }
        if (end - 1) >> 8 != start >> 8 {
            return self.discard_halves(b, start, end, pure);
        }
        let (lo, hi) = ((start & 255) as u32, ((end - 1) & 255) as u32 + 1);
        match self.has_pages(start >> 8, lo, hi) {
            true => self.discard_in_half(b, start >> 8, lo, hi, pure),
            false => Ok(()),
        }
    }

    /// The same for a range that is not inside one half of a region.
    #[inline(never)]
    fn discard_halves(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
        pure: bool,
    ) -> Result<(), NoMemory> {
        let half = start >> 8;
        let first = match self.has_pages(half, (start & 255) as u32, 256) {
            true => start,
            false => self.next_half(half + 1).saturating_mul(256),
        };
        match first < end {
            true => self.discard_from(b, first, end, pure),
            false => Ok(()),
        }
    }

    #[inline(never)]
    fn discard_from(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
        pure: bool,
    ) -> Result<(), NoMemory> {
        let mut result = Ok(());
        let mut at = start;
        while at < end {
            let half = at >> 8;
            let behind = end.min((half + 1) << 8);
            let (lo, hi) = ((at & 255) as u32, ((behind - 1) & 255) as u32 + 1);
            if self.has_pages(half, lo, hi) {
                result = result.and(self.discard_in_half(b, half, lo, hi, pure));
            }
            if behind == end {
                break;
            }
            at = self.next_half(half + 1).saturating_mul(256);
        }
        result
    }

    /// The first half of a region, at or behind `half`, with a chunk or in a region with a table; `u64::MAX` if
    /// there is none.
    #[inline]
    pub(crate) fn next_half(&self, half: u64) -> u64 {
        let chunk = self.amap.next_key(half).unwrap_or(u64::MAX);
        let region = self.pmap.next_key(half >> 1).map_or(u64::MAX, |key| key << 1);
        chunk.min(region).max(half)
    }

    /// Are there anons, or pages that are mapped, in `lo..hi` of a half of a region?
    #[inline(never)]
    fn has_pages(&self, half: u64, lo: u32, hi: u32) -> bool {
        let base = (half as u32 & 1) * 256;
        self.amap.chunk(half).is_some_and(|chunk| chunk.filled.any_within(lo, hi))
            || self.pmap.shows_any(half >> 1, base + lo, base + hi)
    }

    #[inline(never)]
    fn discard_in_half(
        &mut self,
        b: &mut impl Backend,
        half: u64,
        lo: u32,
        hi: u32,
        pure: bool,
    ) -> Result<(), NoMemory> {
        let key = half >> 1;
        let base = (half as u32 & 1) * 256;
        if let Err(error) = self.pmap.unshare(b, &mut self.amap, key) {
            // Before anybody sees what may be left of them, the table goes.
            let _ = self.amap.free(b, half, lo, hi);
            return Err(error);
        }
        let all_own = match self.amap.chunk(half) {
            Some(chunk) => chunk.filled.within(lo, hi) == chunk.own().within(lo, hi),
            None => true,
        };
        if pure && all_own {
            // Deleting the Frames removes the entries too.
            match self.amap.free(b, half, lo, hi) {
                Ok(()) => self.pmap.forget(b, key, base + lo, base + hi),
                Err(Refused) => self.pmap.remove_unknown(b, key),
            }
        } else {
            let removed = self.pmap.remove(b, &self.amap, key, base + lo, base + hi);
            // As above.
            let _ = self.amap.free(b, half, lo, hi);
            removed
        }
    }

    /// Tells the backend about objects that nothing maps any more.
    #[inline]
    pub(crate) fn release(&mut self, b: &mut impl Backend) {
        while let Some(object) = self.map.take_unused() {
            // Pages may be there that no entry leads to.
            if !self.aside.holds(object) {
                self.forget_aside(object);
                b.object_release(object);
            }
        }
    }

    /// Checks that the layers agree; for tests.
    pub fn validate(&self) {
        self.map.validate();
    }
}

/// `len` bytes in pages, rounded up.
pub(crate) fn pages_of(len: u64) -> Option<u64> {
    len.checked_add(PAGE - 1).map(|len| len / PAGE)
}

#[cfg(test)]
impl Space {
    /// What a forked child starts with.
    pub(crate) fn duplicate(&self) -> Space {
        Space {
            map: self.map.clone(),
            amap: self.amap.clone(),
            pmap: self.pmap.clone(),
            apart: self.apart.clone(),
            limited: None,
            victims: None,
            ..*self
        }
    }
}
