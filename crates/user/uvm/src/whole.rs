//! Parts of shared objects that are page tables themselves, each mapped by one entry: 2 MiB by an entry of a directory (a
//! region), or 1 GiB by an entry of a table of directories (a giant). Faults there are the kernel's; nothing is known here of pages.
//!
//! An entry has one set of rights, and is there or is not. So whatever concerns less than all that it shows, or its rights,
//! takes it away: the next fault maps what is right then.
//!
//! A giant may belong to a mapping of less than 1 GiB: of all that the object has, which ends inside. Then nothing else is mapped in the
//! rest of it: whoever enters something there [takes it away](Space::make_way) first. And before the object gets pages that would
//! be seen there, such entries [are lost](Backend::object_whole).

use crate::backend::{Backend, Extent, ObjectError, ObjectId, Shown, Table};
use crate::map::{Entry, Flags};
use crate::pmap::Pmap;
use crate::space::Space;
use crate::types::{NoMemory, Prot, GIANT_REGIONS, PAGE, REGION_PAGES};

/// Mappings of fewer regions consist of regions: a fault for each is little, and tables of directories are not made for them.
pub(crate) const LEAST_REGIONS: u64 = if cfg!(test) { 1 } else { 4 };
/// Where the keys of giants begin.
const GIANTS: u64 = 1 << 48;

impl Shown {
    /// Where its entry is noted.
    fn key(self) -> u64 {
        match self {
            Shown::Region(number) => number,
            Shown::Giant(number) => GIANTS | number,
        }
    }
    fn of_key(key: u64) -> Shown {
        match key.checked_sub(GIANTS) {
            None => Shown::Region(key),
            Some(number) => Shown::Giant(number),
        }
    }
    /// The giant that a region is in.
    fn around(region: u64) -> Shown {
        Shown::Giant(region / GIANT_REGIONS)
    }
    /// Its regions.
    fn regions(self) -> core::ops::Range<u64> {
        match self {
            Shown::Region(number) => number..number + 1,
            Shown::Giant(number) => number * GIANT_REGIONS..(number + 1) * GIANT_REGIONS,
        }
    }
    /// Its pages.
    fn pages(self) -> core::ops::Range<u64> {
        let regions = self.regions();
        regions.start * REGION_PAGES..regions.end * REGION_PAGES
    }
}

impl Pmap {
    /// Is a region mapped by one entry, alone or with others?
    #[inline]
    pub fn is_whole(&self, key: u64) -> bool {
        self.has_wholes && self.find_whole(key)
    }

    #[cold]
    #[inline(never)]
    fn find_whole(&self, key: u64) -> bool {
        let is_there = |shown: Shown| self.wholes.get(shown.key()).is_some();
        is_there(Shown::Region(key)) || is_there(Shown::around(key))
    }

    /// The first region at or behind one that is mapped so.
    pub(crate) fn next_whole(&self, key: u64) -> Option<u64> {
        let region = self.wholes.next_key(key).filter(|&key| key < GIANTS);
        let giant = self.wholes.next_key(Shown::around(key).key());
        let giant = giant.map(|giant| key.max(Shown::of_key(giant).regions().start));
        [region, giant].into_iter().flatten().min()
    }

    /// The entry by which a region alone is mapped.
    #[inline]
    pub(crate) fn region_shown(&self, key: u64) -> Option<Table> {
        self.wholes.get(Shown::Region(key).key()).copied()
    }

    /// How many regions and giants are mapped so.
    pub fn wholes(&self) -> usize {
        self.wholes.len()
    }

    /// The pages of each region and giant mapped so that has some of `start..end`, and its entry.
    pub(crate) fn wholes_within(
        &self,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (core::ops::Range<u64>, Table)> + '_ {
        let region = start / REGION_PAGES;
        let of = move |first: Shown, is_kind: fn(u64) -> bool| {
            let next = move |key: u64| self.wholes.next_key(key).filter(|&key| is_kind(key));
            let keys = core::iter::successors(next(first.key()), move |&key| next(key + 1));
            let all =
                keys.filter_map(|key| Some((Shown::of_key(key).pages(), *self.wholes.get(key)?)));
            all.take_while(move |(pages, _)| pages.start < end)
        };
        of(Shown::Region(region), |key| key < GIANTS)
            .chain(of(Shown::around(region), |key| key >= GIANTS))
    }

    /// A giant or region, mapped by one entry, that has some of the pages `start..end`.
    pub(crate) fn whole_within(&self, start: u64, end: u64) -> Option<Shown> {
        let region = match self.whole_regions {
            0 => None,
            _ => self.wholes.next_key(start / REGION_PAGES).filter(|&key| key < GIANTS),
        };
        let giant = self.wholes.next_key(Shown::around(start / REGION_PAGES).key());
        let found = [region, giant].map(|key| key.map(Shown::of_key));
        found.into_iter().flatten().find(|shown| shown.pages().start < end)
    }

    /// Does a giant show nothing yet?
    fn is_clear(&self, giant: Shown) -> bool {
        let regions = giant.regions();
        self.next_key(regions.start).is_none_or(|key| key >= regions.end)
    }

    /// Maps a region, or a giant that is clear, by one entry to the pages of an object from `object_page` on. All that was mapped there
    /// was of that object, too.
    pub(crate) fn enter_whole(
        &mut self,
        b: &mut impl Backend,
        shown: Shown,
        extent: &Extent,
        object_page: u64,
        prot: Prot,
    ) -> Result<(), ObjectError> {
        if let Shown::Region(key) = shown {
            self.drop_region(b, key)?;
        }
        let entry = b.whole_new(shown, extent, object_page, prot)?;
        if let Err(NoMemory) = self.wholes.insert(shown.key(), entry) {
            // If it cannot be dropped either, it is lost, but nobody else maps anything there.
            let _ = b.whole_drop(shown, entry);
            return Err(ObjectError::NoMemory);
        }
        self.has_wholes = true;
        self.whole_regions += u32::from(matches!(shown, Shown::Region(_)));
        Ok(())
    }

    /// Takes the entry away by which a region is mapped, if there is one.
    ///
    /// # Errors
    ///
    /// The backend refuses: nothing has changed.
    #[inline]
    pub(crate) fn leave_whole(&mut self, b: &mut impl Backend, key: u64) -> Result<(), NoMemory> {
        match self.has_wholes {
            true => {
                self.drop_whole(b, Shown::around(key))?;
                self.drop_whole(b, Shown::Region(key))
            }
            false => Ok(()),
        }
    }

    #[cold]
    fn drop_whole(&mut self, b: &mut impl Backend, shown: Shown) -> Result<(), NoMemory> {
        if let Some(&entry) = self.wholes.get(shown.key()) {
            if let Err(refused) = b.whole_drop(shown, entry) {
                self.keeps_wholes = true;
                return Err(refused.into());
            }
            self.wholes.remove(shown.key());
            let pages = shown.pages();
            self.written.add(pages.start, pages.end);
            self.whole_regions -= u32::from(matches!(shown, Shown::Region(_)));
            self.has_wholes = !self.wholes.is_empty();
        }
        Ok(())
    }

    /// The object has got other contents, so that the entry by which a region was mapped is gone. Forgets it. Returns `false` if it
    /// is there.
    #[cold]
    pub(crate) fn drop_lost(&mut self, b: &mut impl Backend, key: u64) -> Result<bool, NoMemory> {
        for shown in [Shown::around(key), Shown::Region(key)] {
            let entry = self.wholes.get(shown.key());
            if entry.is_some_and(|&entry| b.whole_is_lost(entry)) {
                self.drop_whole(b, shown)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes all such entries away.
    pub(crate) fn drop_wholes(&mut self, b: &mut impl Backend) -> Result<(), NoMemory> {
        let mut result = Ok(());
        let mut at = 0;
        while let Some(key) = self.wholes.next_key(at) {
            at = key + 1;
            result = result.and(self.drop_whole(b, Shown::of_key(key)));
        }
        result
    }

    /// In a child: it has none of them.
    pub(crate) fn forget_wholes(&mut self, b: &mut impl Backend) {
        self.wholes.iter().for_each(|(_, &entry): (u64, &Table)| b.not_inherited(entry, [None; 2]));
        self.wholes.clear();
        (self.has_wholes, self.whole_regions, self.keeps_wholes) = (false, 0, false);
    }
}

/// Behind which page of its object nothing may be seen by a giant around a region, if that belongs to an entry.
pub(crate) fn giant_limit(entry: &Entry, key: u64) -> u64 {
    let is_exact = entry.end >= Shown::around(key).pages().end;
    if is_exact || entry.pages() < LEAST_REGIONS * REGION_PAGES {
        return u64::MAX;
    }
    entry.object_page(entry.end)
}

impl Space {
    /// Something is about to be entered at pages `start..end`, where no entry was: takes giants and regions away that would
    /// show their objects there.
    ///
    /// # Errors
    ///
    /// The backend refuses: some are left.
    #[inline]
    pub(crate) fn make_way(
        &mut self,
        b: &mut impl Backend,
        start: u64,
        end: u64,
    ) -> Result<(), NoMemory> {
        self.pmap.written.add(start, end);
        match self.pmap.has_wholes {
            true => self.leave_wholes(b, start, end),
            false => Ok(()),
        }
    }

    #[cold]
    fn leave_wholes(&mut self, b: &mut impl Backend, start: u64, end: u64) -> Result<(), NoMemory> {
        while let Some(shown) = self.pmap.whole_within(start, end) {
            self.pmap.drop_whole(b, shown)?;
        }
        Ok(())
    }

    /// The highest free place below `top` of which nothing belongs to a giant or a region that one entry maps.
    #[cold]
    pub(crate) fn find_beside_wholes(&mut self, pages: u64, mut top: u64) -> Option<u64> {
        loop {
            let start = self.map.highest_gap(pages, self.low.max(16), top)?;
            match self.pmap.whole_within(start, start + pages) {
                None => return Some(start),
                Some(shown) => top = shown.pages().start,
            }
        }
    }

    /// An entry that was just made is mapped as a giant at its start, if it can be: whoever maps so much looks at it, and so nobody
    /// enters anything there first.
    pub(crate) fn enter_giant(&mut self, b: &mut impl Backend, entry: &Entry) {
        let (Some(object), true) = (entry.object, entry.is_direct()) else { return };
        // What is mapped can be read.
        if entry.pages() < LEAST_REGIONS * REGION_PAGES || entry.prot == Prot::NONE {
            return;
        }
        let key = entry.start / REGION_PAGES;
        let (first, until) = (entry.object_page(entry.start), giant_limit(entry, key));
        let Ok(Some(extent)) = b.object_whole(object, first, until) else { return };
        let giant = Shown::around(key);
        if self.fits_giant(b, entry, object, giant) {
            let first = entry.object_page(giant.pages().start);
            // Whatever is not mapped now is mapped by a fault.
            let _ = self.pmap.enter_whole(b, giant, &extent, first, entry.prot);
        }
    }

    /// What a fault in a region of a shared object that has page tables may map by one entry, the largest first, each with the object's
    /// page that is its first.
    pub(crate) fn whole_candidates(
        &self,
        b: &impl Backend,
        entry: &Entry,
        object: ObjectId,
        key: u64,
    ) -> impl Iterator<Item = (Shown, u64)> {
        let (giant, region) = (Shown::around(key), Shown::Region(key));
        let giant = self.fits_giant(b, entry, object, giant).then_some(giant);
        let pages = region.pages();
        let is_limited = self.has_limited(&pages);
        let is_alone = entry.start <= pages.start
            && (pages.end <= entry.end || self.ends_inside(b, entry, object, pages.end));
        let fits =
            is_alone && !is_limited && entry.object_page(pages.start).is_multiple_of(REGION_PAGES);
        let all = [giant, fits.then_some(region)].into_iter().flatten();
        let entry = *entry;
        all.map(move |shown| (shown, entry.object_page(shown.pages().start)))
    }

    /// Is nothing behind an entry in its last region, up to page `end`, neither of its object nor of anybody? Only of
    /// [objects of the process's own](crate::own): no one else gives them more pages.
    fn ends_inside(&self, b: &impl Backend, entry: &Entry, object: ObjectId, end: u64) -> bool {
        if !entry.flags.has(Flags::OWN) || entry.object_page(entry.end) < b.object_pages(object) {
            return false;
        }
        let mut behind = self.map.within(entry.end, end);
        let has_anons = |half: u64| {
            let (lo, hi) = (entry.end.max(half << 8), end.min((half + 1) << 8));
            let (first, last) = ((lo & 255) as u32, ((hi - 1) & 255) as u32 + 1);
            self.amap.chunk(half).is_some_and(|chunk| chunk.filled.any_within(first, last))
        };
        behind.all(|entry| entry.object.is_none())
            && !(entry.end >> 8..=(end - 1) >> 8).any(has_anons)
    }

    fn fits_giant(&self, b: &impl Backend, entry: &Entry, object: ObjectId, giant: Shown) -> bool {
        let pages = giant.pages();
        let is_small = entry.pages() < LEAST_REGIONS * REGION_PAGES;
        if is_small || entry.start > pages.start || self.has_limited(&pages) {
            return false;
        }
        let giant_pages = GIANT_REGIONS * REGION_PAGES;
        if !entry.object_page(pages.start).is_multiple_of(giant_pages) || !self.pmap.is_clear(giant)
        {
            return false;
        }
        let has_all = || entry.object_page(entry.end) >= b.object_pages(object);
        let next = self.map.entries_from(entry.end).next();
        let next =
            next.map_or(u64::MAX, |next| next.start - self.may_grow_down(next).min(next.start));
        pages.end <= entry.end || pages.end <= next && has_all()
    }

    /// By how many pages more an entry may become larger of itself, downward.
    pub(crate) fn may_grow_down(&self, entry: &Entry) -> u64 {
        match entry.flags.has(Flags::GROWS_DOWN) {
            true => (self.limits.stack / PAGE).saturating_sub(entry.pages()),
            false => 0,
        }
    }
}
