//! The pool: pages of the file in memory, found by number, pinned while in use, written back when
//! they have changed, given up by a clock.

use crate::Error;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use tessera::fs::File;
use tessera::memory::{self, Map, Object, OneFrame, PageSize, VRegion};

/// Bytes of a page of the database.
pub const PAGE_BYTES: usize = tessera::PAGE as usize;

/// What happened.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    /// A page was there already.
    pub hits: u64,
    /// Pages read from the file.
    pub reads: u64,
    /// Pages written to it.
    pub writes: u64,
    /// Pages given up for others.
    pub evictions: u64,
}

/// A place for a page.
#[derive(Clone, Copy, Default)]
struct Place {
    page: Option<u32>,
    dirty: bool,
    /// Used since the hand was here last.
    used: bool,
    /// In use right now: stays.
    pinned: bool,
}

/// See the head of this file.
pub struct BufferPool {
    file: File,
    memory: VRegion,
    places: Vec<Place>,
    /// Where the pages are that are here.
    place_of: BTreeMap<u32, usize>,
    hand: usize,
    pub stats: Stats,
}

impl BufferPool {
    /// A pool of so many pages over a file, in memory that is mapped in pages of `size`, for good:
    /// no access to it ever faults.
    pub fn new(file: File, pages: usize, size: PageSize) -> Result<Self, Error> {
        let bytes = (pages * PAGE_BYTES) as u64;
        let object = Object::new(OneFrame::new(bytes, size)?);
        let memory = memory::map(&object, Map::default().size(size))?;
        let places = alloc::vec![Place::default(); pages];
        let (place_of, stats) = (BTreeMap::new(), Stats::default());
        Ok(BufferPool { file, memory, places, place_of, hand: 0, stats })
    }

    /// Page-table entries that map the pool.
    pub fn entries(&self) -> Result<usize, Error> {
        let (mut va, end) = (self.memory.start(), self.memory.start() + self.memory.bytes());
        Ok(memory::pages(|pages| {
            let mut entries = 0;
            while let Some(page) = pages.lookup(va).filter(|_| va < end) {
                (va, entries) = (page.va + page.size.bytes(), entries + 1);
            }
            Ok(entries)
        })?)
    }

    /// Calls `f` with page number `page`, which stays in memory meanwhile. With `write` it is
    /// written back some time.
    pub fn with_page<R>(
        &mut self,
        page: u32,
        write: bool,
        f: impl FnOnce(&mut BufferPool, &mut [u8; PAGE_BYTES]) -> R,
    ) -> Result<R, Error> {
        let place = self.find(page)?;
        let at: *mut [u8; PAGE_BYTES] = self.memory(place);
        let state = &mut self.places[place];
        assert!(!state.pinned, "a page is in use once at a time");
        (state.pinned, state.used) = (true, true);
        state.dirty |= write;
        // SAFETY: inside the region; while the place is pinned nobody else has a reference to it.
        let result = f(self, unsafe { &mut *at });
        self.places[place].pinned = false;
        Ok(result)
    }

    /// Writes all pages that have changed to the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        (0..self.places.len()).try_for_each(|place| self.write_back(place))
    }

    fn memory(&self, place: usize) -> *mut [u8; PAGE_BYTES] {
        self.memory.as_ptr::<[u8; PAGE_BYTES]>().wrapping_add(place)
    }

    /// The place of a page, which is in memory afterwards.
    fn find(&mut self, page: u32) -> Result<usize, Error> {
        if let Some(&place) = self.place_of.get(&page) {
            self.stats.hits += 1;
            return Ok(place);
        }
        let place = self.free_place()?;
        // SAFETY: inside the region, and nobody uses the place.
        let bytes = unsafe { &mut *self.memory(place) };
        let read = self.file.read_at(u64::from(page) * PAGE_BYTES as u64, bytes)?;
        // Behind the end of the file are zeros.
        bytes[read..].fill(0);
        self.stats.reads += 1;
        self.places[place] = Place { page: Some(page), ..Place::default() };
        self.place_of.insert(page, place);
        Ok(place)
    }

    /// A place without a page: the hand goes round, past pinned pages and those used since the last
    /// time.
    fn free_place(&mut self) -> Result<usize, Error> {
        for _ in 0..2 * self.places.len() {
            let hand = self.hand;
            self.hand = (hand + 1) % self.places.len();
            let place = &mut self.places[hand];
            if place.pinned || core::mem::take(&mut place.used) {
                continue;
            }
            self.write_back(hand)?;
            if let Some(page) = self.places[hand].page.take() {
                self.place_of.remove(&page);
                self.stats.evictions += 1;
            }
            return Ok(hand);
        }
        Err(Error::AllPinned)
    }

    fn write_back(&mut self, place: usize) -> Result<(), Error> {
        let Place { page: Some(page), dirty: true, .. } = self.places[place] else {
            return Ok(());
        };
        // SAFETY: inside the region; nothing changes the page meanwhile.
        let bytes = unsafe { &*self.memory(place) };
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let mut done = 0;
        while done < PAGE_BYTES {
            done += self.file.write_at(offset + done as u64, &bytes[done..])?;
        }
        self.places[place].dirty = false;
        self.stats.writes += 1;
        Ok(())
    }
}
