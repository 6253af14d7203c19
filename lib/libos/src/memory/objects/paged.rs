//! Memory that is larger than its memory: pages that come from a backing store when they are
//! touched, and go back when others need their place.
//!
//! The pool is one Frame, mapped for good where only the pager sees it; a page of the object that is
//! in the pool is visible through the object's regions as well. So the pager reads and writes pages
//! without mapping anything, and what it does for one page costs one map and one unmap. How large
//! the pool is, and which page goes, is the program's decision (G18 §3.5.1): the policy is a
//! [`Policy`], and pages may be of any size.
//!
//! Nothing is written to the store that was not changed: the processor's dirty bits tell. They are
//! collected whenever an entry goes away, and before.

use super::{OneFrame, Store};
use crate::memory::{
    self, Error, Fault, Map, MemoryObject, Object, PageSize, Pages, VRegion, View,
};
use crate::memory::{Prot, NONE};
use alloc::boxed::Box;
use alloc::vec::Vec;
use captypes::invocations::StatusBits;
use selfpaging::{Policy, Views};

/// No place in the pool.
const ABSENT: u32 = u32::MAX;

/// What the pager did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PagedStats {
    /// Pages read from the store.
    pub reads: u64,
    /// Pages written to the store.
    pub writes: u64,
    /// Pages given up for others.
    pub evictions: u64,
}

/// A place of the pool.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The page in it, if any.
    page: Option<u64>,
    /// It was changed, as far as is known without a look at the tables.
    dirty: bool,
}

/// A demand-paged object.
pub struct Paged {
    store: Box<dyn Store>,
    policy: Box<dyn Policy>,
    /// The pool, and where the pager sees it.
    pool: Object<OneFrame>,
    window: VRegion,
    size: PageSize,
    places: Vec<Place>,
    free: Vec<u32>,
    /// The place of each page, or [`ABSENT`].
    place_of: Vec<u32>,
    views: Views<()>,
    stats: PagedStats,
}

impl Paged {
    /// The contents of `store` in pages of `size`, of which `places` have memory at a time.
    pub fn new(
        store: impl Store + 'static,
        mut policy: impl Policy + 'static,
        places: u32,
        size: PageSize,
    ) -> Result<Self, Error> {
        let unit = size.bytes();
        if places == 0 || !store.bytes().is_multiple_of(unit) {
            return Err(Error::Misaligned);
        }
        policy.prepare(places)?;
        let pool = Object::new(OneFrame::new(u64::from(places) * unit, size)?);
        let window = memory::map(&pool, Map::default().size(size))?;
        let mut place_of = Vec::new();
        place_of.try_reserve_exact((store.bytes() / unit) as usize)?;
        place_of.resize((store.bytes() / unit) as usize, ABSENT);
        let (mut all, mut free) = (Vec::new(), Vec::new());
        all.try_reserve_exact(places as usize)?;
        all.resize(places as usize, Place { page: None, dirty: false });
        free.try_reserve_exact(places as usize)?;
        free.extend((0..places).rev());
        let (store, policy) = (Box::new(store), Box::new(policy));
        let (views, stats) = (Views::new(), PagedStats::default());
        Ok(Paged { store, policy, pool, window, size, places: all, free, place_of, views, stats })
    }

    /// What happened so far.
    pub fn stats(&self) -> PagedStats {
        self.stats
    }

    /// Is page number `page` in the pool?
    pub fn is_resident(&self, page: u64) -> bool {
        self.place_of.get(page as usize).is_some_and(|&place| place != ABSENT)
    }

    /// Brings a page in, as a fault would, without mapping it.
    pub fn fetch(&mut self, pages: &mut Pages, page: u64) -> Result<(), Error> {
        self.place(pages, page).map(|_| ())
    }

    /// Writes every changed page to the store. What is changed from now on will be written again.
    pub fn flush(&mut self, pages: &mut Pages) -> Result<(), Error> {
        for place in 0..self.places.len() as u32 {
            let Some(page) = self.places[place as usize].page else { continue };
            self.collect(pages, page * self.unit(), (page + 1) * self.unit(), true)?;
            self.write_back(place)?;
        }
        Ok(())
    }

    fn unit(&self) -> u64 {
        self.size.bytes()
    }

    /// The place of a page, which is in the pool afterwards.
    fn place(&mut self, pages: &mut Pages, page: u64) -> Result<u32, Error> {
        let known = *self.place_of.get(page as usize).ok_or(Error::NoPage)?;
        if known != ABSENT {
            return Ok(known);
        }
        self.ask_policy(pages, |policy, accessed| policy.missed(page, accessed))?;
        let place = match self.free.last() {
            Some(&place) => place,
            None => self.evict(pages)?,
        };
        let unit = self.unit();
        let memory = memory_of(&mut self.window, unit, place);
        self.store.read(page * unit, memory)?;
        self.stats.reads += 1;
        self.free.pop();
        self.places[place as usize] = Place { page: Some(page), dirty: false };
        self.place_of[page as usize] = place;
        self.policy.filled(place, page);
        Ok(place)
    }

    /// Asks the policy something for which it may want to know what was used.
    fn ask_policy<R>(
        &mut self,
        pages: &mut Pages,
        ask: impl FnOnce(&mut dyn Policy, &mut dyn FnMut(u32) -> bool) -> R,
    ) -> Result<R, Error> {
        let Paged { policy, places, views, size, .. } = self;
        let mut asked = Ok(());
        let answer = ask(&mut **policy, &mut |place| match places[place as usize].page {
            Some(page) if asked.is_ok() => {
                take_accessed(pages, views, page * size.bytes(), size.bytes()).unwrap_or_else(
                    |why| {
                        asked = Err(why);
                        false
                    },
                )
            }
            _ => false,
        });
        asked.map(|()| answer)
    }

    /// Empties a place, which is the last of the free ones then.
    fn evict(&mut self, pages: &mut Pages) -> Result<u32, Error> {
        let place = self.ask_policy(pages, |policy, accessed| policy.victim(accessed))?;
        let place = place.ok_or(Error::OutOfMemory)?;
        let page = self.places[place as usize].page.ok_or(Error::OutOfMemory)?;
        let (low, high) = (page * self.unit(), (page + 1) * self.unit());
        self.collect(pages, low, high, false)?;
        for part in parts(&self.views, low, high) {
            pages.unmap(part.va, part.bytes)?;
        }
        self.write_back(place)?;
        self.places[place as usize].page = None;
        self.place_of[page as usize] = ABSENT;
        self.policy.emptied(place);
        self.free.push(place);
        self.stats.evictions += 1;
        Ok(place)
    }

    /// Writes a page to the store if it is known to be changed.
    fn write_back(&mut self, place: u32) -> Result<(), Error> {
        let Place { page: Some(page), dirty: true } = self.places[place as usize] else {
            return Ok(());
        };
        let unit = self.unit();
        let memory = memory_of(&mut self.window, unit, place);
        self.store.write(page * unit, memory)?;
        self.places[place as usize].dirty = false;
        self.stats.writes += 1;
        Ok(())
    }

    /// Remembers which pages in the range of offsets are dirty, wherever they are visible, and
    /// makes the entries clean if asked to.
    fn collect(
        &mut self,
        pages: &mut Pages,
        low: u64,
        high: u64,
        clean: bool,
    ) -> Result<(), Error> {
        for part in parts(&self.views, low, high) {
            let mut at = part.va;
            while let Some(va) = pages.next_mapped(at).filter(|&va| va < part.end()) {
                let Some(entry) = pages.lookup(va) else { break };
                if pages.used(va)?.is_some_and(|used| used.dirty) {
                    let first = part.offset_of(entry.va.max(part.va));
                    let place = self.place_of[(first / self.size.bytes()) as usize];
                    if let Some(place) = self.places.get_mut(place as usize) {
                        place.dirty = true;
                    }
                    if clean {
                        pages.clear_used(va, StatusBits::DIRTY)?;
                    }
                }
                at = entry.va + entry.size.bytes();
            }
        }
        Ok(())
    }

    /// The same for a range of a view, and for whatever large pages its ends cut.
    fn collect_view(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        let unit = self.unit();
        let (low, high) =
            (view.offset / unit * unit, (view.offset + view.bytes).div_ceil(unit) * unit);
        self.collect(pages, low, high, false)
    }
}

/// The memory of a place of the pool, as the pager sees it.
fn memory_of(window: &mut VRegion, unit: u64, place: u32) -> &mut [u8] {
    let first = window.start() + u64::from(place) * unit;
    // SAFETY: the window is mapped readable and writable as long as the pager exists, for the pager
    // only, which looks at one place at a time, and not while the program runs.
    unsafe { core::slice::from_raw_parts_mut(first as *mut u8, unit as usize) }
}

/// Where the offsets `low..high` of the object are visible.
fn parts(views: &Views<()>, low: u64, high: u64) -> impl Iterator<Item = View> {
    views.all().into_iter().filter_map(move |(va, bytes, offset, ())| {
        let (from, to) = (low.max(offset), high.min(offset + bytes));
        let (va, bytes) = (va + from.checked_sub(offset)?, to.checked_sub(from)?);
        let (prot, size): (Prot, PageSize) = (NONE, PageSize::Base);
        (bytes > 0).then_some(View { va, bytes, offset: from, prot, size })
    })
}

/// Was something in `[offset, offset + bytes)` used since the last time?
fn take_accessed(
    pages: &mut Pages,
    views: &Views<()>,
    offset: u64,
    bytes: u64,
) -> Result<bool, Error> {
    let mut accessed = false;
    for part in parts(views, offset, offset + bytes) {
        let mut at = part.va;
        while let Some(va) = pages.next_mapped(at).filter(|&va| va < part.end()) {
            let Some(entry) = pages.lookup(va) else { break };
            if pages.used(va)?.is_some_and(|used| used.accessed) {
                accessed = true;
                pages.clear_used(va, StatusBits::ACCESSED)?;
            }
            at = entry.va + entry.size.bytes();
        }
    }
    Ok(accessed)
}

impl MemoryObject for Paged {
    fn bytes(&self) -> u64 {
        self.place_of.len() as u64 * self.unit()
    }

    fn attach(&mut self, _: &mut Pages, view: &View) -> Result<(), Error> {
        Ok(self.views.set(view.va, view.bytes, view.offset, ())?)
    }

    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        if pages.is_resolved(fault)? {
            return Ok(());
        }
        let unit = self.unit();
        let page = view.offset_of(fault.address) / unit;
        let place = self.place(pages, page)?;
        let size = self.size;
        let map = |pool: &mut OneFrame| {
            let skip = u64::from(place) * unit;
            pages.map_around(view, fault.address, (pool.frame(), skip), page * unit, size)
        };
        self.pool.with(map)?
    }

    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        self.collect_view(pages, view)?;
        pages.protect(view.va, view.bytes, view.prot)
    }

    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        self.collect_view(pages, view)?;
        pages.unmap(view.va, view.bytes)?;
        Ok(self.views.clear(view.va, view.bytes)?)
    }
}

impl Drop for Paged {
    /// What was changed is written to the store. One that fails now cannot tell anybody: whoever
    /// wants to know calls [`Paged::flush`] before.
    fn drop(&mut self) {
        for place in 0..self.places.len() as u32 {
            // Dropped in any case: who must know of errors has written back before.
            let _ = self.write_back(place);
        }
    }
}
