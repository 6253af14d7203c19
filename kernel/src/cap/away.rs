//! Which memory at home on this core other cores may have something of.
//!
//! The hints of a capability say so of all that it covers: once a page of what a memory server hands out was sent away, each further
//! Retype of that would be a matter of the monitors. So a core remembers besides which pages that were. A page is in here from the event in which
//! something that covers it is shared until its memory comes home, which it does when nobody has anything of it. What is in here
//! and need not be costs a question; where there is no room for another range, the two that are nearest to one another become one.

/// Ranges that are told apart.
const MOST: usize = 256;

/// A set of pages, as ranges from the first byte up to the one behind the last, in order and apart from one another.
pub struct Away {
    ranges: [(u64, u64); MOST],
    count: usize,
}

impl Away {
    /// Nothing.
    pub const fn new() -> Away {
        Away { ranges: [(0, 0); MOST], count: 0 }
    }

    fn all(&self) -> &[(u64, u64)] {
        self.ranges.get(..self.count).unwrap_or_default()
    }

    /// Ranges that end before `base`.
    fn before(&self, base: u64) -> usize {
        self.all().partition_point(|range| range.1 <= base)
    }

    /// Is no page of `[base, end)` in it?
    #[inline]
    pub fn has_none(&self, base: u64, end: u64) -> bool {
        self.count == 0 || self.all().get(self.before(base)).is_none_or(|range| range.0 >= end)
    }

    /// Adds `[base, end)`.
    #[inline(never)]
    pub fn add(&mut self, base: u64, end: u64) {
        if base >= end {
            return;
        }
        // With those that it meets or touches, it is one range.
        let first = self.all().partition_point(|range| range.1 < base);
        let behind = self.all().partition_point(|range| range.0 <= end);
        let met = self.all().get(first..behind).unwrap_or_default();
        let (low, high) = match (met.first(), met.last()) {
            (Some(low), Some(high)) => (base.min(low.0), end.max(high.1)),
            _ => (base, end),
        };
        if first == behind && self.count == MOST {
            self.join_nearest();
            return self.add(base, end);
        }
        self.replace(first, behind, &[(low, high)]);
    }

    /// Takes out `[base, end)`.
    #[inline]
    pub fn remove(&mut self, base: u64, end: u64) {
        if !self.has_none(base, end) {
            self.cut(base, end);
        }
    }

    #[inline(never)]
    fn cut(&mut self, base: u64, end: u64) {
        let first = self.before(base);
        let behind = self.all().partition_point(|range| range.0 < end);
        let met = self.all().get(first..behind).unwrap_or_default();
        let (Some(&low), Some(&high)) = (met.first(), met.last()) else { return };
        let (left, right) = ((low.0, base), (end, high.1));
        match (left.0 < left.1, right.0 < right.1) {
            (false, false) => self.replace(first, behind, &[]),
            (true, false) => self.replace(first, behind, &[left]),
            (false, true) => self.replace(first, behind, &[right]),
            // One that would become two, where there is no room for that, stays.
            (true, true) if behind - first == 1 && self.count == MOST => {}
            (true, true) => self.replace(first, behind, &[left, right]),
        }
    }

    /// Puts others in the place of some ranges. There is room for them.
    fn replace(&mut self, first: usize, behind: usize, new: &[(u64, u64)]) {
        let to = first + new.len();
        self.ranges.copy_within(behind..self.count, to);
        self.count = self.count - (behind - first) + new.len();
        if let Some(place) = self.ranges.get_mut(first..to) {
            place.copy_from_slice(new);
        }
    }

    #[cold]
    fn join_nearest(&mut self) {
        let gaps = self.all().windows(2).enumerate().filter_map(|(n, pair)| match pair {
            [one, next] => Some((next.0 - one.1, n, (one.0, next.1))),
            _ => None,
        });
        if let Some((_, n, joined)) = gaps.min() {
            self.replace(n, n + 2, &[joined]);
        }
    }
}

impl Default for Away {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random::Random;
    use std::vec;

    /// Pages of the naive set.
    const PAGES: u64 = 4000;

    /// Random ranges against a set of pages: nothing is missing; and as long as there was room, nothing is too much.
    fn compare(seed: u64, longest: u64, rounds: u32) -> usize {
        let (mut away, mut naive) = (Away::new(), vec![false; PAGES as usize]);
        let (mut random, mut full, mut most) = (Random(seed), false, 0);
        for _ in 0..rounds {
            let base = random.below(PAGES);
            let end = (base + 1 + random.below(longest)).min(PAGES);
            let adds = random.below(5) < 3;
            match adds {
                true => away.add(base, end),
                false => away.remove(base, end),
            }
            naive[base as usize..end as usize].fill(adds);
            full |= away.count == MOST;
            most = most.max(away.count);
            let (from, to) = (random.below(PAGES), random.below(PAGES));
            let none = !naive[from.min(to) as usize..from.max(to) as usize].contains(&true);
            let found = away.has_none(from.min(to), from.max(to));
            assert!(!found || none || from == to, "{from}..{to} is missing, seed {seed}");
            assert!(full || found == none || from == to, "{from}..{to} is too much, seed {seed}");
            assert!(away.all().iter().all(|range| range.0 < range.1));
            assert!(away.all().windows(2).all(|pair| pair[0].1 < pair[1].0));
            for page in 0..PAGES {
                let known = !away.has_none(page, page + 1);
                assert!(known || !naive[page as usize], "{page} is missing, seed {seed}");
                assert!(full || known == naive[page as usize], "{page} is too much, seed {seed}");
            }
        }
        most
    }

    #[test]
    fn it_is_the_set_of_what_was_added() {
        for seed in 0..20 {
            compare(seed, 60, 300);
        }
    }

    #[test]
    fn nothing_is_missing_where_there_is_no_room() {
        assert_eq!(compare(1, 2, 3000), MOST);
    }

    #[test]
    fn what_has_come_home_is_forgotten_however_full_it_was() {
        let mut away = Away::new();
        (0..2000).for_each(|n| away.add(2 * n, 2 * n + 1));
        (0..4000).for_each(|page| away.remove(page, page + 1));
        assert!(away.has_none(0, u64::MAX) && away.count == 0);
    }
}
