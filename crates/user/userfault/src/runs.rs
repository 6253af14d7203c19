//! Pages with values, as runs of equal ones.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Runs of pages by their first page: the page behind, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs<T>(BTreeMap<u64, (u64, T)>);

impl<T> Runs<T> {
    /// None.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Runs<T> {
        Runs(BTreeMap::new())
    }
}

impl<T: Copy + PartialEq> Runs<T> {
    /// Has no page a value?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The value of a page.
    pub fn get(&self, page: u64) -> Option<T> {
        let (_, (end, value)) = self.0.range(..=page).next_back()?;
        (page < *end).then_some(*value)
    }

    /// The value of a page, and how far, at most up to `end`, the pages behind it have the same.
    pub fn run(&self, page: u64, end: u64) -> (Option<T>, u64) {
        if let Some((_, (behind, value))) = self.0.range(..=page).next_back() {
            if page < *behind {
                return (Some(*value), end.min(*behind));
            }
        }
        let next = self.0.range(page..).next();
        (None, next.map_or(end, |(from, _)| end.min(*from)))
    }

    /// The runs of a range, cut to it.
    pub fn within(&self, start: u64, end: u64) -> Vec<(u64, u64, T)> {
        let before = self.0.range(..start).next_back();
        let inside = self.0.range(start..end.max(start));
        let all = before.into_iter().chain(inside);
        all.map(|(from, (to, value))| ((*from).max(start), (*to).min(end), *value))
            .filter(|(from, to, _)| from < to)
            .collect()
    }

    /// Pages have no value any more.
    pub fn clear(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.cut(start);
        self.cut(end);
        let gone: Vec<u64> = self.0.range(start..end).map(|(from, _)| *from).collect();
        for from in gone {
            self.0.remove(&from);
        }
    }

    /// Pages have this value.
    pub fn set(&mut self, start: u64, end: u64, value: T) {
        if start >= end {
            return;
        }
        self.clear(start, end);
        let (mut from, mut to) = (start, end);
        if let Some((before, (end, other))) =
            self.0.range(..start).next_back().map(|(a, b)| (*a, *b))
        {
            if end == start && other == value {
                from = before;
            }
        }
        if let Some((behind, other)) = self.0.get(&end).copied() {
            if other == value {
                self.0.remove(&end);
                to = behind;
            }
        }
        self.0.insert(from, (to, value));
    }

    /// No run goes across the front of a page.
    fn cut(&mut self, page: u64) {
        let Some((_, run)) = self.0.range_mut(..page).next_back() else { return };
        let (end, value) = *run;
        if end > page {
            run.0 = page;
            self.0.insert(page, (end, value));
        }
    }
}
