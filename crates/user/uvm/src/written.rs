//! Which pages were written to since `/proc/PID/clear_refs` was last told so (soft-dirty pages).
//!
//! The processor notes it in the entries of the tables, which the process reads itself; nothing faults. An entry tells it from the
//! time on at which its bit was cleared, or it was made. What is lost with an entry is kept as ranges of pages, which
//! count as written: those that were unmapped, copied, mapped anew or moved. So a page may count as written that was not,
//! and never the other way round. An entry that others have taken away (a page of an object left memory) counts, too. Parts of objects that [one entry](crate::whole) maps always count as written: the bits in their
//! tables are not this process's alone.

use crate::backend::Backend;
use crate::bits::Bits;
use crate::pmap::{locate, Pmap};
use crate::space::Space;
use crate::types::{NoMemory, Refused, REGION_PAGES};
use alloc::vec::Vec;

/// Most ranges that are told apart.
const MOST: usize = 128;

/// Pages that count as written, whatever their entries say.
#[derive(Clone, Default)]
pub(crate) struct Written {
    /// Somebody has asked. If not, all are.
    since: bool,
    /// In order, none beside another.
    ranges: Vec<(u64, u64)>,
}

impl Written {
    /// All pages.
    pub(crate) const ALL: Written = Written { since: false, ranges: Vec::new() };

    /// Pages `start..end` count as written.
    #[inline]
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if self.since && start < end {
            self.insert(start, end);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, start: u64, end: u64) {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let behind = self.ranges.partition_point(|range| range.0 <= end);
        let joined = self.ranges[first..behind]
            .iter()
            .fold((start, end), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        if first < behind {
            self.ranges[first] = joined;
            self.ranges.drain(first + 1..behind);
        } else if self.ranges.len() < MOST && self.ranges.try_reserve(1).is_ok() {
            self.ranges.insert(first, joined);
        } else {
            self.widen(first, joined);
        }
    }

    /// There is no room for one more: the neighbour grows up to it, over pages that were not written to.
    fn widen(&mut self, at: usize, (start, end): (u64, u64)) {
        let [before, behind] = [at.checked_sub(1), (at < self.ranges.len()).then_some(at)];
        let gap_before = before.map_or(u64::MAX, |n| start - self.ranges[n].1);
        let gap_behind = behind.map_or(u64::MAX, |n| self.ranges[n].0 - end);
        match (before, behind) {
            (Some(n), _) if gap_before <= gap_behind => self.ranges[n].1 = end,
            (_, Some(n)) => self.ranges[n].0 = start,
            _ => self.since = false,
        }
    }

    fn has(&self, page: u64) -> bool {
        let behind = self.ranges.partition_point(|range| range.1 <= page);
        !self.since || self.ranges.get(behind).is_some_and(|range| range.0 <= page)
    }
}

/// Whether a page of private memory has contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    None,
    /// It has, and nothing says that it was written to: if it is zero, it may only be there because those
    /// around it are.
    Unwritten,
    Some,
}

/// What the entries of the last region say that somebody asked about.
#[derive(Default)]
pub(crate) struct Seen(Option<(u64, Bits<8>)>);

impl Pmap {
    /// Was a mapped page written to?
    pub(crate) fn is_written(&self, b: &mut impl Backend, page: u64, seen: &mut Seen) -> bool {
        if self.written.has(page) {
            return true;
        }
        let (key, entry) = locate(page);
        if let Some((_, bits)) = seen.0.filter(|(last, _)| *last == key) {
            return bits.get(entry);
        }
        let bits = match self.region(key) {
            Some(region) => b.entries_written(region.table).and(&region.present),
            None if self.is_whole(key) => Bits::FULL,
            None => Bits::EMPTY,
        };
        seen.0 = Some((key, bits));
        bits.get(entry)
    }

    fn clear_written(&mut self, b: &mut impl Backend) {
        self.written = Written { since: true, ranges: Vec::new() };
        let mut at = 0;
        while let Some(key) = self.next_table(at) {
            at = key + 1;
            let Some(region) = self.region(key) else { continue };
            // Of a table that another process has, too, the bits are its own as well: a new one begins without.
            let done = match region.shared {
                false => b.entries_clean(region.table),
                true => self.drop_table(b, key).map_err(|NoMemory| Refused),
            };
            if done.is_err() {
                self.written.add(key * REGION_PAGES, at * REGION_PAGES);
            }
        }
    }
}

impl Space {
    /// From now on pages count as written only when they are written to.
    #[cold]
    pub fn clear_written(&mut self, b: &mut impl Backend) {
        self.pmap.clear_written(b);
    }

    /// Tells for each of some pages whether it has contents, in memory or not. Pages that only show zeros have none.
    pub fn tell_contents(
        &self,
        b: &mut impl Backend,
        (start, end): (u64, u64),
        mut tell: impl FnMut(u64, Contents),
    ) {
        let mut last = (u64::MAX, Bits::<8>::EMPTY);
        for entry in self.map.within(start, end) {
            let mut run = (entry.start, false);
            for page in entry.start..entry.end {
                if let Some(object) = entry.object.filter(|_| run.0 <= page) {
                    let (pages, is_there) =
                        b.object_has(object, entry.object_page(page), entry.end - page);
                    run = (page + pages.max(1), is_there);
                }
                let chunk = self.amap.chunk(page >> 8);
                let is_anon = chunk.is_some_and(|chunk| chunk.filled.get((page & 255) as u32));
                if self.is_apart(page) {
                    tell(page, Contents::Some);
                    continue;
                }
                let has = match entry.object {
                    Some(_) if !is_anon => run.1,
                    _ => is_anon,
                };
                let (key, slot) = locate(page);
                if has && is_anon && last.0 != key {
                    let region = self.pmap.region(key);
                    let written =
                        region.map(|region| region.present.and(&b.entries_written(region.table)));
                    last = (key, written.unwrap_or(Bits::EMPTY));
                }
                tell(
                    page,
                    match (has, !is_anon || !last.1.get(slot)) {
                        (false, _) => Contents::None,
                        (true, true) => Contents::Unwritten,
                        (true, false) => Contents::Some,
                    },
                );
            }
        }
    }

    /// Pages `start..end` were written to, not by way of their entries.
    #[cold]
    pub fn note_written(&mut self, start: u64, end: u64) {
        self.pmap.written.add(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What was added counts, and nothing else, while there is room.
        #[test]
        fn ranges_are_a_set(adds in prop::collection::vec((0u64..300, 1u64..20), 0..60)) {
            let mut written = Written { since: true, ranges: Vec::new() };
            let mut model = [false; 400];
            for (start, pages) in adds {
                written.add(start, start + pages);
                model[start as usize..(start + pages) as usize].fill(true);
                prop_assert!((0..400).all(|page| written.has(page) == model[page as usize]));
                prop_assert!(written.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }

    #[test]
    fn too_many_ranges_become_larger_ones() {
        let mut written = Written { since: true, ranges: Vec::new() };
        for n in 0..1000 {
            let page = n * 7919 % 1000 * 3;
            written.add(page, page + 1);
            assert!(written.ranges.len() <= MOST && written.has(page));
        }
        assert!((0..1000).all(|n| written.has(n * 3)) && !written.has(3000));
    }
}
