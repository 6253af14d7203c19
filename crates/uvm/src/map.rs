//! The map: what the program has mapped where, as ordered entries that never overlap (UVM §3.1).
//!
//! Addresses are page numbers. Neighbours that could be one entry are one entry.

use crate::backend::ObjectId;
use crate::types::Prot;
use alloc::vec::Vec;

/// Properties of an entry. A set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Stores go to the object (`MAP_SHARED`); otherwise they go to the amap.
    pub const SHARED: Flags = Flags(1);
    /// Grows downward when touched below its start.
    pub const GROWS_DOWN: Flags = Flags(2);
    /// `MAP_NORESERVE`.
    pub const NO_RESERVE: Flags = Flags(4);
    /// `MADV_DONTFORK`.
    pub const DONT_FORK: Flags = Flags(8);
    /// `MADV_WIPEONFORK`.
    pub const WIPE_ON_FORK: Flags = Flags(16);
    /// `mlock`.
    pub const LOCKED: Flags = Flags(32);
    /// Never writable: a shared mapping of a file that was opened for reading.
    pub const NEVER_WRITE: Flags = Flags(64);
    /// The main stack (it is named so in `maps`).
    pub const STACK: Flags = Flags(128);

    /// The flags in either.
    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// The flags of `self` that are not in `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
    /// Are all of `other` set?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Consecutive pages with equal properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First page.
    pub start: u64,
    /// First page behind.
    pub end: u64,
    /// Page of the object that is at `start`.
    pub offset: u64,
    /// What the pages without an anon come from; zeroes if none.
    pub object: Option<ObjectId>,
    /// What the program may do.
    pub prot: Prot,
    /// Properties.
    pub flags: Flags,
}

impl Entry {
    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.end - self.start
    }
    /// Page of the object that is at `page`.
    pub fn object_page(&self, page: u64) -> u64 {
        self.offset + (page - self.start)
    }
    /// Private and without an object: only anons are ever mapped in it.
    pub fn is_pure_anonymous(&self) -> bool {
        self.object.is_none()
    }
    fn part(&self, start: u64, end: u64) -> Entry {
        Entry { start, end, offset: self.offset_at(start), ..*self }
    }
    fn offset_at(&self, page: u64) -> u64 {
        if self.object.is_some() {
            self.object_page(page)
        } else {
            0
        }
    }
    /// Could `next` be one entry with `self`, in front of it?
    fn joins(&self, next: &Entry) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.flags == next.flags
            && self.object == next.object
            && (self.object.is_none() || self.offset_at(self.end) == next.offset)
    }
}

/// Most entries that a process may have (Linux: `vm.max_map_count`).
pub const MAX_ENTRIES: usize = 65530;
/// Pages kept free below an entry that grows downward.
pub const GUARD_PAGES: u64 = 256;

/// The ordered entries.
#[derive(Clone, Default)]
pub struct Map {
    entries: Vec<Entry>,
    hint: usize,
}

impl Map {
    /// No entries.
    pub const fn new() -> Self {
        Map { entries: Vec::new(), hint: 0 }
    }
    /// All entries, by address.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
    /// Index of the first entry that ends behind `page`.
    #[inline]
    pub fn index_from(&self, page: u64) -> usize {
        if let Some(entry) = self.entries.get(self.hint) {
            if entry.start <= page && page < entry.end {
                return self.hint;
            }
        }
        self.entries.partition_point(|entry| entry.end <= page)
    }
    /// The entry that holds `page`.
    #[inline]
    pub fn find(&mut self, page: u64) -> Option<&Entry> {
        let index = self.index_from(page);
        let entry = self.entries.get(index)?;
        if entry.start > page {
            return None;
        }
        self.hint = index;
        Some(entry)
    }
    /// The part of the entry at `page` that ends at `end` at the latest.
    #[inline]
    pub fn part_at(&self, page: u64, end: u64) -> Option<Entry> {
        let entry = self.entries.get(self.index_from(page))?;
        (entry.start <= page).then(|| entry.part(page, entry.end.min(end)))
    }
    /// Entries that overlap `start..end`, cut to it.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Entry> + '_ {
        let from = self.index_from(start);
        self.entries[from..]
            .iter()
            .take_while(move |entry| entry.start < end)
            .map(move |entry| entry.part(entry.start.max(start), entry.end.min(end)))
    }
    /// Is nothing mapped in `start..end`?
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.entries.get(self.index_from(start)).is_none_or(|entry| entry.start >= end)
    }
    /// Is every page of `start..end` mapped?
    pub fn is_covered(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        for entry in self.within(start, end) {
            if entry.start != at {
                return false;
            }
            at = entry.end;
        }
        at >= end
    }
    /// Does any entry map `object`?
    pub fn uses(&self, object: ObjectId) -> bool {
        self.entries.iter().any(|entry| entry.object == Some(object))
    }
    /// Entries that a change to `start..end` could add: one for each end inside an entry.
    pub fn splits(&self, start: u64, end: u64) -> usize {
        let inside = |page: u64| {
            self.entries.get(self.index_from(page)).is_some_and(|entry| entry.start < page)
        };
        inside(start) as usize + inside(end) as usize
    }
    /// Is there room for `more` entries?
    pub fn has_room(&self, more: usize) -> bool {
        self.entries.len() + more <= MAX_ENTRIES
    }

    /// Adds an entry in free space, joined with its neighbours if they are alike.
    pub fn insert(&mut self, mut entry: Entry) {
        let mut index = self.entries.partition_point(|old| old.end <= entry.start);
        if index > 0 && self.entries[index - 1].joins(&entry) {
            index -= 1;
            entry = Entry { end: entry.end, ..self.entries[index] };
            self.entries[index] = entry;
        } else if self.entries.get(index).is_some_and(|next| entry.joins(next)) {
            entry.end = self.entries[index].end;
            self.entries[index] = entry;
            return;
        } else {
            self.entries.insert(index, entry);
            return;
        }
        if self.entries.get(index + 1).is_some_and(|next| entry.joins(next)) {
            self.entries[index].end = self.entries[index + 1].end;
            self.entries.remove(index + 1);
        }
    }

    /// Splits the entry that has `page` inside it.
    fn clip(&mut self, page: u64) {
        let index = self.index_from(page);
        let Some(&entry) = self.entries.get(index) else { return };
        if entry.start < page {
            self.entries[index] = entry.part(entry.start, page);
            self.entries.insert(index + 1, entry.part(page, entry.end));
        }
    }

    /// Removes what is in `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        let first = self.index_from(start);
        let Some(&entry) = self.entries.get(first) else { return };
        if entry.start < start && end < entry.end {
            self.clip(end);
            self.entries[first] = entry.part(entry.start, start);
            return;
        }
        let mut from = first;
        if entry.start < start {
            self.entries[first] = entry.part(entry.start, start);
            from += 1;
        }
        let behind = from + self.entries[from..].partition_point(|entry| entry.end <= end);
        if let Some(last) = self.entries.get(behind).filter(|last| last.start < end) {
            self.entries[behind] = last.part(end, last.end);
        }
        self.entries.drain(from..behind);
    }

    /// Changes what is in `start..end` and joins neighbours that have become alike.
    pub fn change(&mut self, start: u64, end: u64, mut to: impl FnMut(&mut Entry)) {
        let first = self.index_from(start);
        if let Some(entry) = self.entries.get_mut(first) {
            if entry.start == start && entry.end == end {
                to(entry);
                return self.join_around(first);
            }
        }
        self.clip(start);
        self.clip(end);
        let first = self.index_from(start);
        let mut index = first;
        while let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.start < end) {
            to(entry);
            index += 1;
        }
        self.join(first.saturating_sub(1), (index + 1).min(self.entries.len()));
    }

    /// Joins the entry at `index` with its neighbours if they have become alike.
    #[inline]
    fn join_around(&mut self, index: usize) {
        let alike = |a: usize, b: usize| match (self.entries.get(a), self.entries.get(b)) {
            (Some(a), Some(b)) => a.joins(b),
            _ => false,
        };
        if alike(index.wrapping_sub(1), index) || alike(index, index + 1) {
            self.join(index.saturating_sub(1), (index + 2).min(self.entries.len()));
        }
    }

    /// Joins neighbours among the entries with indices `first..last`.
    fn join(&mut self, first: usize, last: usize) {
        let mut kept = first;
        for index in first + 1..last {
            if self.entries[kept].joins(&self.entries[index]) {
                self.entries[kept].end = self.entries[index].end;
            } else {
                kept += 1;
                self.entries[kept] = self.entries[index];
            }
        }
        if kept + 1 < last {
            self.entries.drain(kept + 1..last);
        }
    }

    /// Lowers the start of the entry that begins at `start`.
    pub fn grow_down(&mut self, start: u64, to: u64) {
        let index = self.index_from(start);
        if let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.start == start) {
            entry.start = to;
            self.join(index.saturating_sub(1), index + 1);
        }
    }

    /// The highest free place for `pages` pages in `low..high`, with the guard distance kept from
    /// entries that grow downward.
    pub fn highest_gap(&self, pages: u64, low: u64, high: u64) -> Option<u64> {
        let mut index = self.entries.partition_point(|entry| entry.start < high);
        let mut top = match self.entries.get(index) {
            Some(next) => high.min(guarded_start(next)),
            None => high,
        };
        loop {
            let bottom = match index {
                0 => low,
                _ => low.max(self.entries[index - 1].end),
            };
            if let Some(start) = top.checked_sub(pages).filter(|&start| start >= bottom) {
                return Some(start);
            }
            if index == 0 || bottom == low {
                return None;
            }
            index -= 1;
            top = high.min(guarded_start(&self.entries[index]));
        }
    }

    /// May `start..end` be taken as a hint: free, and not in anybody's guard distance?
    pub fn is_free_with_guard(&self, start: u64, end: u64) -> bool {
        self.entries.get(self.index_from(start)).is_none_or(|next| guarded_start(next) >= end)
    }

    /// Pages mapped.
    pub fn pages(&self) -> u64 {
        self.entries.iter().map(Entry::pages).sum()
    }

    /// Are entries ordered, not empty, disjoint and joined?
    pub fn validate(&self) {
        for entry in &self.entries {
            assert!(entry.start < entry.end, "an empty entry {entry:?}");
        }
        for pair in self.entries.windows(2) {
            assert!(pair[0].end <= pair[1].start, "overlap {pair:?}");
            assert!(!pair[0].joins(&pair[1]), "not joined {pair:?}");
        }
    }
}

/// Where the distance kept below an entry begins.
fn guarded_start(entry: &Entry) -> u64 {
    if entry.flags.has(Flags::GROWS_DOWN) {
        entry.start.saturating_sub(GUARD_PAGES)
    } else {
        entry.start
    }
}
