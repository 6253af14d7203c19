//! Ranges of memory that go to other processes (UVM §3.7.4: passing of map entries).
//!
//! On its way, a range is an object that nobody has mapped yet. Where it is a part of one object of the process's own
//! ([own](crate::own)), the backend makes that of its page tables: no page is looked at. All else is copied, as Frames are the process's own
//! and a receiver could not know what else is done with them.
//!
//! A range that leaves the process, or that others will write to, holds still meanwhile: its pages are in no table, or cannot be written to, so
//! that another thread that tries waits until it is done.

use crate::amap::split;
use crate::backend::{Backend, ObjectError, ObjectId};
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::types::{Access, Error, PAGE};
use alloc::vec::Vec;

/// What a range consists of.
pub struct Passed {
    /// Its entries, cut to it.
    pub entries: Vec<Entry>,
    /// The object of the process's own that all of it is a part of, and its first page there, if its tables are to be had and nothing is to be
    /// copied.
    pub own: Option<(ObjectId, u64)>,
    /// It is to be copied, and cannot be written to meanwhile.
    is_lowered: bool,
}

/// Below so many pages a copy costs less than an object that has the same tables.
const TABLES_LEAST: u64 = 64;
/// Most pages of an object that are asked about at a time.
const PIECE: u64 = 64;

impl Space {
    /// Looks at a range that is to be passed. If it `leaves`, or others get it as it is, it must be private memory that comes from nowhere,
    /// and holds still from now on, until it is unmapped, something else is mapped there, or it is to [stay](Space::stay).
    ///
    /// # Errors
    ///
    /// [`Invalid`](Error::Invalid): it is empty, does not begin a page, or is memory that cannot be passed so; [`NoMemory`](Error::NoMemory):
    /// not all of it is mapped; [`Access`](Error::Access): it cannot be read; [`Again`](Error::Again): it leaves, and is locked.
    pub fn pass(
        &mut self,
        b: &mut impl Backend,
        addr: u64,
        len: u64,
        leaves: bool,
    ) -> Result<Passed, Error> {
        let (start, end) = self.range(addr, len)?;
        if start == end || end > self.high {
            return Err(Error::Invalid);
        }
        if !self.map.is_covered(start, end) {
            return Err(Error::NoMemory);
        }
        let mut entries = Vec::new();
        for entry in self.map.within(start, end) {
            may_pass(&entry, leaves)?;
            entries.try_reserve(1).map_err(|_| Error::NoMemory)?;
            entries.push(entry);
        }
        self.pmap.drop_condemned(b)?;
        let own = match entries[..] {
            [entry] if entry.flags.has(Flags::OWN) && entry.pages() >= TABLES_LEAST => {
                entry.object.map(|object| (object, entry.offset))
            }
            _ => None,
        };
        let passed = Passed { entries, own, is_lowered: leaves && own.is_none() };
        if passed.is_lowered {
            let lowered = passed.entries.iter().try_for_each(|entry| {
                let prot = entry.prot.read_only();
                self.mprotect(b, entry.start * PAGE, entry.pages() * PAGE, prot)
            });
            lowered.inspect_err(|_| self.stay(b, &passed))?;
        } else if leaves {
            self.discard_tables(b, start, end)?;
        }
        Ok(passed)
    }

    /// A range that was to leave stays.
    pub fn stay(&mut self, b: &mut impl Backend, passed: &Passed) {
        for entry in passed.entries.iter().filter(|_| passed.is_lowered) {
            // Where there is no memory for it, the program cannot write any more, and is told so when it tries.
            let _ = self.mprotect(b, entry.start * PAGE, entry.pages() * PAGE, entry.prot);
        }
    }

    /// The first of pages `page..end` of such a range that have something: what is missing is zeros. The range may have gone
    /// aside meanwhile, in parts.
    ///
    /// # Errors
    ///
    /// [`Fault`](Error::Fault): a file that is mapped there has no such page.
    pub fn next_contents(
        &mut self,
        b: &mut impl Backend,
        mut page: u64,
        end: u64,
    ) -> Result<Option<(u64, u64)>, Error> {
        while let Some(entry) = self.first_within(page, end) {
            let found = match entry.object {
                Some(object) => self.next_of_object(b, &entry, object)?,
                None => self.next_anons(&entry),
            };
            if found.is_some() {
                return Ok(found);
            }
            page = entry.end;
        }
        Ok(None)
    }

    fn first_within(&self, start: u64, end: u64) -> Option<Entry> {
        self.map.within(start, end).next().filter(|entry| entry.start < entry.end)
    }

    fn next_anons(&self, entry: &Entry) -> Option<(u64, u64)> {
        let anon = self.next_anon(entry.start).filter(|&first| first < entry.end);
        let apart = self.next_apart(entry.start, entry.end);
        if let Some(apart) = apart.filter(|&apart| anon.is_none_or(|anon| apart < anon)) {
            // It comes back by being read.
            return Some((apart, 1));
        }
        let first = anon?;
        let (key, slot) = split(first);
        let chunk = self.amap.chunk(key)?;
        let end = u64::from(chunk.filled.next_clear(slot)) + (key << 8);
        Some((first, end.min(entry.end) - first))
    }

    fn next_of_object(
        &mut self,
        b: &mut impl Backend,
        entry: &Entry,
        object: ObjectId,
    ) -> Result<Option<(u64, u64)>, Error> {
        let mut page = entry.start;
        while page < entry.end {
            let at = entry.object_page(page);
            if !entry.flags.has(Flags::OWN)
                && b.object_extent(object, at) == Err(ObjectError::NoPage)
            {
                return Err(Error::Fault);
            }
            let (count, is_there) = b.object_run(object, at, (entry.end - page).min(PIECE));
            if is_there {
                return Ok(Some((page, count)));
            }
            // Anons stand for pages of a file. What has left memory comes back by being read.
            let has =
                |n: &u64| self.has_anon(page + n) || b.object_there(object, at + n, 1).out > 0;
            match (0..count).find(has) {
                Some(n) => return Ok(Some((page + n, 1))),
                None => page += count.max(1),
            }
        }
        Ok(None)
    }

    fn has_anon(&self, page: u64) -> bool {
        let (key, slot) = split(page);
        self.amap.chunk(key).is_some_and(|chunk| chunk.filled.get(slot)) || self.is_apart(page)
    }

    /// Where pages of an object from page `page` on are best mapped, if the program does not mind where: so that whole tables of it are.
    pub fn place_for(&mut self, pages: u64, page: u64) -> Option<u64> {
        match pages >= self.table_least() {
            true => self.find_aligned(pages, page),
            false => None,
        }
    }
}

fn may_pass(entry: &Entry, leaves: bool) -> Result<(), Error> {
    let special = Flags::LARGE_PAGES.or(Flags::LENT);
    if entry.flags.has_any(special) {
        return Err(Error::Invalid);
    }
    if leaves && (!entry.is_private_anonymous() || entry.flags.has(Flags::GROWS_DOWN)) {
        return Err(Error::Invalid);
    }
    if !entry.prot.allows(Access::Read) {
        return Err(Error::Access);
    }
    match leaves && entry.flags.has(Flags::LOCKED) {
        true => Err(Error::Again),
        false => Ok(()),
    }
}
