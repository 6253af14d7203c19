//! How much of the address space is in memory.

use crate::backend::{Backend, There};
use crate::map::{Entry, Flags};
use crate::space::Space;

/// How much of a range is in memory, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Residency {
    /// Anons that are the process's alone.
    pub own: u64,
    /// Anons that perhaps another process has, too.
    pub shared: u64,
    /// Pages of objects that the page tables show.
    pub objects: u64,
    /// Those of them that are parts of pages of 2 MiB, shown as a whole.
    pub large: u64,
    /// Pages of objects that have left memory.
    pub out: u64,
}

impl Residency {
    /// All pages.
    pub fn all(&self) -> u64 {
        self.own + self.shared + self.objects
    }
}

/// What has to be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Pages of objects that the page tables show.
    pub files: u64,
    /// Those of them that are of objects which are [memory](Backend::object_is_memory) and nothing else.
    pub shared_memory: u64,
    /// Pages of objects that are the process's own: they are no objects to anybody else.
    pub own: u64,
    /// Last-level tables.
    pub tables: u64,
    /// Those of them that perhaps another process has, too.
    pub shared_tables: u64,
}

impl Space {
    /// Counts what page tables of its own show. Takes as long as to look at each region.
    pub fn usage(&self, b: &impl Backend) -> Usage {
        let mut usage = Usage::default();
        // Both are in order, so none is searched.
        let mut chunks = self.amap.chunks().peekable();
        for (key, region) in self.pmap.regions() {
            usage.tables += 1;
            usage.shared_tables += u64::from(region.shared);
            for half in [0, 1] {
                let mut shown = region.present_half(half);
                let number = key * 2 + u64::from(half);
                while chunks.next_if(|&(other, _)| other < number).is_some() {}
                if let Some((_, chunk)) = chunks.next_if(|&(other, _)| other == number) {
                    shown = shown.minus(&chunk.filled);
                }
                shown = shown.minus(&self.apart_of(number));
                if !shown.is_empty() {
                    usage.files += u64::from(shown.count());
                }
            }
        }
        for entry in self.map.entries() {
            let shown = || self.in_own_tables(entry.start, entry.end).objects;
            if entry.flags.has(Flags::OWN) {
                usage.files -= shown();
            } else if entry.object.is_some_and(|it| b.object_is_memory(it)) {
                usage.shared_memory += shown();
            }
        }
        usage
    }

    /// Adds what page tables show that are parts of objects, and what objects of its own have. Takes as long as to look at all tables of these.
    pub fn add_wholes(&self, b: &impl Backend, usage: &mut Usage) {
        usage.own += self.own_pages(b);
        for entry in self.map.entries().filter(|entry| !entry.flags.has(Flags::OWN)) {
            let Some(object) = entry.object else { continue };
            let pages = self.in_wholes(b, entry).pages;
            usage.files += pages;
            usage.shared_memory += if b.object_is_memory(object) { pages } else { 0 };
        }
    }

    /// How many pages are in memory in objects of its own. Takes as long as to look at all tables of these.
    pub fn own_pages(&self, b: &impl Backend) -> u64 {
        let apart = match self.apart.is_empty() {
            true => 0,
            false => self.count_apart(b, 0, self.high).0,
        };
        apart + self.own_there(b, 0, self.high)
    }

    /// How many of the pages `start..end` are in memory in objects of its own.
    pub fn own_there(&self, b: &impl Backend, start: u64, end: u64) -> u64 {
        let own = self.map.within(start, end).filter(|entry| entry.flags.has(Flags::OWN));
        let pages = own.filter_map(|entry| {
            let (start, end) = (start.max(entry.start), end.min(entry.end));
            Some(b.object_there(entry.object?, entry.object_page(start), end - start).pages)
        });
        pages.sum()
    }

    /// What is in memory of an entry.
    pub fn residency(&self, b: &impl Backend, entry: &Entry) -> Residency {
        if let (true, Some(object)) = (entry.flags.has(Flags::OWN), entry.object) {
            // A fork hides it, but it is there.
            let There { pages, large, out } = b.object_there(object, entry.offset, entry.pages());
            return Residency { objects: pages, large, out, ..Residency::default() };
        }
        let mut all = self.in_own_tables(entry.start, entry.end);
        let There { pages, large, out } = self.in_wholes(b, entry);
        all.objects += pages;
        (all.large, all.out) = (large, out);
        if !self.apart.is_empty() {
            let (own, out) = self.count_apart(b, entry.start, entry.end);
            all.own += own;
            all.out += out;
        }
        all
    }

    /// What tables show of an entry that are parts of its object: what is there of these.
    fn in_wholes(&self, b: &impl Backend, entry: &Entry) -> There {
        let mut all = There::default();
        let Some(object) = entry.object else { return all };
        let wholes = self.pmap.wholes_within(entry.start, entry.end);
        for (pages, _) in wholes.filter(|&(_, whole)| !b.whole_is_lost(whole)) {
            let (start, end) = (pages.start.max(entry.start), pages.end.min(entry.end));
            let there = b.object_there(object, entry.object_page(start), end - start);
            all.pages += there.pages;
            all.large += there.large;
            all.out += there.out;
        }
        all
    }

    /// Tells of each of the pages `start..end` whether it is in memory: of an object, whoever has it mapped. `false`: one is not
    /// mapped, and those in front of it were told of.
    pub fn tell_residency(
        &self,
        b: &mut impl Backend,
        (start, end): (u64, u64),
        mut tell: impl FnMut(bool),
    ) -> bool {
        let mut at = start;
        for entry in self.map.within(start, end) {
            if entry.start != at {
                break;
            }
            // Pages of the object up to here are alike.
            let mut run = (at, false);
            while at < entry.end {
                if let Some(object) = entry.object.filter(|_| run.0 <= at) {
                    let (pages, is_there) =
                        b.object_run(object, entry.object_page(at), entry.end - at);
                    run = (at + pages.max(1), is_there);
                }
                let is_there = match entry.object {
                    Some(_) => run.1,
                    None => self.pmap.is_readable(at),
                };
                let chunk = self.amap.chunk(at >> 8);
                let is_anon = chunk.is_some_and(|chunk| chunk.filled.get((at & 255) as u32));
                let is_there = match self.is_apart(at) {
                    true => self.count_apart(b, at, at + 1).0 > 0,
                    false => is_there,
                };
                tell(is_there || is_anon);
                at += 1;
            }
        }
        at >= end
    }

    /// What is in memory of pages `start..end`, without what tables show that are parts of objects.
    fn in_own_tables(&self, start: u64, end: u64) -> Residency {
        let mut all = Residency::default();
        let mut half = self.next_half(start >> 8);
        while half < end.div_ceil(256) {
            let first = half << 8;
            let (lo, hi) = (start.max(first) - first, end.min(first + 256) - first);
            let (lo, hi) = (lo as u32, hi as u32);
            if let Some(chunk) = self.amap.chunk(half) {
                let own = chunk.own().within(lo, hi).count() as u64;
                all.own += own;
                all.shared += chunk.filled.within(lo, hi).count() as u64 - own;
            }
            all.objects += self.objects_in(half, lo, hi);
            half = self.next_half(half + 1);
        }
        all
    }

    /// Of one entry.
    pub(crate) fn locked(flags: Flags, resident: &Residency) -> u64 {
        if flags.has(Flags::LOCKED) {
            resident.all()
        } else {
            0
        }
    }

    /// Pages of objects that the tables show in `lo..hi` of a half of a region: what is present without an anon.
    fn objects_in(&self, half: u64, lo: u32, hi: u32) -> u64 {
        let Some(region) = self.pmap.region(half >> 1) else { return 0 };
        let present = region.present_half((half & 1) as u32).within(lo, hi);
        let shown = match self.amap.chunk(half) {
            Some(chunk) => present.minus(&chunk.filled),
            None => present,
        };
        shown.minus(&self.apart_of(half)).count() as u64
    }
}
