//! Translation: two levels of TLBs, page-structure caches, and the walk.
//!
//! A translation looks in the first-level TLB of its page size, then in the second level, then
//! walks. A walk without help reads one entry of each level of the page tables: four for a page of
//! 4 KiB, three for 2 MiB, two for 1 GiB. Page-structure caches (Intel SDM vol. 3A §4.10.3) hold
//! upper entries by the part of the address that leads to them and let the walk begin further down.

use crate::lru::{Geometry, SetAssociative};

/// The sizes of pages on x86-64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PageSize {
    Kib4,
    Mib2,
    Gib1,
}

impl PageSize {
    /// All, from the smallest.
    pub const ALL: [PageSize; 3] = [PageSize::Kib4, PageSize::Mib2, PageSize::Gib1];

    /// Its logarithm.
    pub const fn shift(self) -> u32 {
        match self {
            PageSize::Kib4 => 12,
            PageSize::Mib2 => 21,
            PageSize::Gib1 => 30,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Entries that a walk from the root reads, with four levels of tables.
    pub const fn levels(self) -> u64 {
        match self {
            PageSize::Kib4 => 4,
            PageSize::Mib2 => 3,
            PageSize::Gib1 => 2,
        }
    }

    /// As the papers write it.
    pub const fn name(self) -> &'static str {
        match self {
            PageSize::Kib4 => "4k",
            PageSize::Mib2 => "2M",
            PageSize::Gib1 => "1G",
        }
    }
}

/// One level of TLBs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// One TLB for each page size, in the order of [`PageSize::ALL`]; `None`: not held at this level.
    Split([Option<Geometry>; 3]),
    /// One TLB that holds pages of every size.
    Unified(Geometry),
}

/// Entries of the page-structure caches, which are fully associative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkCaches {
    /// Entries of page directories that point to page tables.
    pub pde: usize,
    /// Entries of page-directory-pointer tables.
    pub pdpte: usize,
    /// Entries of the root.
    pub pml4e: usize,
}

/// What is known of a processor's translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description {
    pub name: &'static str,
    pub first: Level,
    pub second: Level,
    pub walk_caches: Option<WalkCaches>,
}

enum Buffers {
    Split([Option<SetAssociative>; 3]),
    Unified(SetAssociative),
}

impl Buffers {
    fn new(level: Level) -> Self {
        match level {
            Level::Split(sizes) => Buffers::Split(sizes.map(|size| size.map(SetAssociative::new))),
            Level::Unified(geometry) => Buffers::Unified(SetAssociative::new(geometry)),
        }
    }

    /// Is the page there? It is, afterwards, if it can be.
    #[inline]
    fn access(&mut self, page: u64, size: PageSize) -> bool {
        match self {
            Buffers::Split(sizes) => {
                sizes[size as usize].as_mut().is_some_and(|buffer| buffer.access(page))
            }
            Buffers::Unified(buffer) => {
                // The set is chosen by the page's own number; the size tells pages apart.
                let sets = buffer.sets();
                buffer.access_in(page % sets, page << 2 | size as u64)
            }
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Accesses.
    pub accesses: u64,
    /// Of those, not in the first level.
    pub first_misses: u64,
    /// Of those, not in the second level either: walks.
    pub walks: u64,
    /// Entries of page tables that the walks read, with page-structure caches.
    pub references: u64,
    /// The same without such caches.
    pub references_uncached: u64,
}

impl Counts {
    /// `count` for each access.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.accesses.max(1) as f64
    }
}

/// A processor's translation at work.
pub struct Model {
    first: Buffers,
    second: Buffers,
    /// PDE, PDPTE and PML4E caches.
    walk: Option<[SetAssociative; 3]>,
    counts: Counts,
}

impl Model {
    /// Cold.
    pub fn new(description: &Description) -> Self {
        let cache = |entries| SetAssociative::new(Geometry::full(entries));
        let walk = description.walk_caches;
        Model {
            first: Buffers::new(description.first),
            second: Buffers::new(description.second),
            walk: walk.map(|sizes| [cache(sizes.pde), cache(sizes.pdpte), cache(sizes.pml4e)]),
            counts: Counts::default(),
        }
    }

    /// Translates `va`, which lies in a page of `size`.
    #[inline]
    pub fn access(&mut self, va: u64, size: PageSize) {
        self.counts.accesses += 1;
        let page = va >> size.shift();
        if self.first.access(page, size) {
            return;
        }
        self.counts.first_misses += 1;
        if self.second.access(page, size) {
            return;
        }
        self.counts.walks += 1;
        self.counts.references_uncached += size.levels();
        self.counts.references += self.walk(va, size);
    }

    /// Entries that the walk reads: those below the lowest cached one.
    fn walk(&mut self, va: u64, size: PageSize) -> u64 {
        let Some(caches) = &mut self.walk else { return size.levels() };
        // Caches of entries that point to tables, from the one just above the page's own entry up.
        let lowest = size as usize;
        let mut read = 1;
        for (level, cache) in caches.iter_mut().enumerate().skip(lowest) {
            let prefix = va >> (21 + 9 * level as u32);
            if cache.access(prefix) {
                return read;
            }
            read += 1;
        }
        read
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Forgets what happened, but not what is cached.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }
}
