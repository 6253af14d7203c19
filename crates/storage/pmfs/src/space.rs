//! Which lines are free. Known in memory only: what is used is what can be reached.

use crate::layout::{high_water, Line, EXTENT};
use alloc::vec::Vec;

/// A set of numbers that finds its smallest one: bits, and above each 64 of them one that says that there are any.
struct Smallest {
    levels: Vec<Vec<u64>>,
}

impl Smallest {
    fn new() -> Smallest {
        Smallest { levels: Vec::new() }
    }
    /// Numbers below `count` can be inserted.
    fn grow(&mut self, count: u32) {
        let mut bits = count as usize;
        let mut level = 0;
        loop {
            bits = bits.div_ceil(64);
            if level == self.levels.len() {
                // The new top says what is below it.
                let below = self.levels.last().map_or(0, |words| (words[0] != 0) as u64);
                self.levels.push(alloc::vec![below]);
            }
            let words = &mut self.levels[level];
            words.resize(bits.max(words.len()), 0);
            if bits <= 1 {
                return;
            }
            level += 1;
        }
    }
    fn insert(&mut self, number: u32) {
        let mut at = number as usize;
        for words in &mut self.levels {
            words[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }
    /// `true` if it was there.
    fn remove(&mut self, number: u32) -> bool {
        let mut at = number as usize;
        for (level, words) in self.levels.iter_mut().enumerate() {
            let (word, bit) = (&mut words[at / 64], 1 << (at % 64));
            if level == 0 && *word & bit == 0 {
                return false;
            }
            *word &= !bit;
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        true
    }
    fn first(&self) -> Option<u32> {
        let mut at = 0;
        for words in self.levels.iter().rev() {
            let word = words[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        (!self.levels.is_empty()).then_some(at as u32)
    }
}

/// The lines from [`ROOT`](crate::layout::ROOT) on.
pub(crate) struct Lines {
    /// Free ones below `high`.
    free: Smallest,
    free_below: u32,
    /// Lines that were ever used, or are said to be by the next change.
    high: u32,
    /// What the area says.
    saved: u32,
    capacity: u32,
}

impl Lines {
    /// All below `high` are free; those below `from` are not counted.
    pub fn new(from: u32, high: u32, capacity: u32) -> Lines {
        let mut free = Smallest::new();
        free.grow(high);
        (from..high).for_each(|line| free.insert(line));
        Lines { free, free_below: high - from, high, saved: high, capacity }
    }
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    pub fn high(&self) -> u32 {
        self.high
    }
    pub fn free(&self) -> u32 {
        self.free_below + (self.capacity - self.high)
    }

    /// One that is found to be used; `false` if it already is, or is none.
    pub fn mark(&mut self, line: Line) -> bool {
        let was_free = line < self.high && self.free.remove(line);
        self.free_below -= was_free as u32;
        was_free
    }

    /// Takes so many, if there are as many.
    pub fn take(&mut self, count: usize) -> Option<Vec<Line>> {
        if count > self.free() as usize {
            return None;
        }
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            match self.free.first() {
                Some(line) if self.mark(line) => taken.push(line),
                _ => self.extend(),
            }
        }
        Some(taken)
    }

    pub fn give(&mut self, line: Line) {
        self.free.insert(line);
        self.free_below += 1;
    }

    /// More lines are used.
    fn extend(&mut self) {
        let new = self.high.saturating_add(EXTENT).min(self.capacity);
        self.free.grow(new);
        (self.high..new).for_each(|line| self.free.insert(line));
        self.free_below += new - self.high;
        self.high = new;
    }

    /// What the next change is to store, if more lines are used than the area says.
    pub fn new_high_water(&mut self) -> Option<u64> {
        let is_new = self.high != self.saved;
        self.saved = self.high;
        is_new.then(|| high_water(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn the_smallest_is_found_while_the_set_grows() {
        let (mut set, mut model) = (Smallest::new(), BTreeSet::new());
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(set.first(), None);
        let mut count = 0;
        for step in 0..100_000 {
            if step % 1000 == 0 {
                count += random.u32(1..3000);
                set.grow(count);
            }
            let number = random.u32(..count);
            if random.bool() {
                set.insert(number);
                model.insert(number);
            } else {
                assert_eq!(set.remove(number), model.remove(&number));
                assert_eq!(set.first(), model.first().copied());
            }
            if random.u8(..4) > 0 {
                if let Some(first) = set.first() {
                    assert!(set.remove(first) && model.remove(&first));
                }
            }
        }
    }

    #[test]
    fn all_lines_are_taken_once_and_no_more() {
        let mut lines = Lines::new(64, 128, 1000);
        assert_eq!(lines.free(), 936);
        assert!(lines.take(937).is_none());
        let taken: BTreeSet<Line> = lines.take(936).unwrap_or_default().into_iter().collect();
        assert_eq!(taken, (64..1000).collect());
        assert_eq!(lines.new_high_water(), Some(high_water(1000)));
        assert_eq!(lines.new_high_water(), None);
        assert!(lines.take(1).is_none());
        lines.give(77);
        assert_eq!(lines.take(1), Some(alloc::vec![77]));
    }
}
