//! Small numbers, in use or free: the lowest free one is found in a few steps, however many are in use.

use crate::NoMemory;
use alloc::vec::Vec;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// A set of numbers in use.
///
/// Bit N of level 0 is set where number N is in use; bit N of a higher level where word N of the level
/// below has no free bit. What is behind the end of a level is free. The last word of level 0 is not 0.
#[derive(Clone, Default)]
pub struct Numbers {
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    /// All are free.
    pub const fn new() -> Self {
        Numbers { levels: Vec::new() }
    }

    /// Makes all free. Few words stay for the next numbers.
    pub fn clear(&mut self) {
        match &mut self.levels[..] {
            [words] => words.clear(),
            _ => self.levels = Vec::new(),
        }
    }

    /// Is a number in use?
    pub fn contains(&self, number: u32) -> bool {
        let word = self.levels.first().and_then(|level| level.get(number as usize / BITS));
        word.is_some_and(|word| word >> (number as usize % BITS) & 1 != 0)
    }

    /// The lowest free number from `from` on.
    pub fn next_free(&self, from: u32) -> u32 {
        let (mut at, mut level) = (from as usize, 0);
        // Up, until a word has a free bit at or behind the place.
        loop {
            let words = self.levels.get(level);
            let Some(word) = words.and_then(|words| words.get(at / BITS)) else { break };
            let free = !word >> (at % BITS);
            if free != 0 {
                at += free.trailing_zeros() as usize;
                break;
            }
            at = at / BITS + 1;
            level += 1;
        }
        // Down, to the first free bit below.
        for words in self.levels.iter().take(level).rev() {
            let word = words.get(at).copied().unwrap_or(0);
            at = at * BITS + word.trailing_ones() as usize;
        }
        at as u32
    }

    /// Takes the lowest free number from `from` on, if it is below `limit`.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    #[inline]
    pub fn take(&mut self, from: u32, limit: u32) -> Result<Option<u32>, NoMemory> {
        // Few numbers, of which not all are in use, are one word.
        if let (0, Some([word])) = (from, self.levels.first_mut().map(Vec::as_mut_slice)) {
            let number = word.trailing_ones();
            if number < limit.min(u64::BITS - 1) {
                *word |= 1 << number;
                return Ok(Some(number));
            }
        }
        self.search(from, limit)
    }

    fn search(&mut self, from: u32, limit: u32) -> Result<Option<u32>, NoMemory> {
        let number = self.next_free(from);
        if number >= limit {
            return Ok(None);
        }
        self.mark(number)?;
        Ok(Some(number))
    }

    /// Puts a number in use.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn mark(&mut self, number: u32) -> Result<(), NoMemory> {
        self.reserve(number)?;
        let mut at = number as usize;
        for words in &mut self.levels {
            let Some(word) = words.get_mut(at / BITS) else { break };
            *word |= 1 << (at % BITS);
            if *word != u64::MAX {
                break;
            }
            at /= BITS;
        }
        Ok(())
    }

    /// Makes all levels long enough for a number: the highest has one word.
    fn reserve(&mut self, number: u32) -> Result<(), NoMemory> {
        let (mut at, mut level) = (number as usize / BITS, 0);
        loop {
            if level == self.levels.len() {
                self.add_level()?;
            }
            let words = &mut self.levels[level];
            if at >= words.len() {
                words.try_reserve(at + 1 - words.len())?;
                words.resize(at + 1, 0);
            }
            if words.len() == 1 {
                return Ok(());
            }
            at /= BITS;
            level += 1;
        }
    }

    /// A level above the highest, which says what is full there.
    fn add_level(&mut self) -> Result<(), NoMemory> {
        self.levels.try_reserve(1)?;
        let mut words = Vec::new();
        if let Some(below) = self.levels.last() {
            words.try_reserve(below.len().div_ceil(BITS))?;
            words.resize(below.len().div_ceil(BITS), 0);
            for (at, _) in below.iter().enumerate().filter(|(_, word)| **word == u64::MAX) {
                words[at / BITS] |= 1 << (at % BITS);
            }
        }
        self.levels.push(words);
        Ok(())
    }

    /// Makes a number free.
    pub fn free(&mut self, number: u32) {
        let mut at = number as usize;
        for words in &mut self.levels {
            let Some(word) = words.get_mut(at / BITS) else { return };
            let was_full = *word == u64::MAX;
            *word &= !(1 << (at % BITS));
            if !was_full {
                break;
            }
            at /= BITS;
        }
        if let Some(words) = self.levels.first_mut() {
            while words.last() == Some(&0) {
                words.pop();
            }
        }
    }

    /// The number behind the highest one in use.
    pub fn end(&self) -> u32 {
        let words = self.levels.first().map_or(&[][..], Vec::as_slice);
        // No word in use is behind the last one, nor in it if that is empty.
        let last = words.last().map_or(0, |word| word.leading_zeros());
        (words.len() * BITS) as u32 - last
    }

    /// Every number in use, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.levels.first().map_or(&[][..], Vec::as_slice);
        words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some((at * BITS) as u32 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Op {
        Take(u32),
        Mark(u32),
        Free(u32),
        Fill(u32, u32),
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..200, 4000u32..4200, 262_000u32..262_300, 0u32..300_000]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => number().prop_map(Op::Take),
            1 => number().prop_map(Op::Mark),
            3 => number().prop_map(Op::Free),
            1 => (number(), 1u32..5000).prop_map(|(from, count)| Op::Fill(from, count)),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(ops in proptest::collection::vec(op(), 0..60)) {
            let mut numbers = Numbers::new();
            let mut set = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Take(from) => {
                        let expected = (from..).find(|n| !set.contains(n)).unwrap();
                        prop_assert_eq!(numbers.take(from, expected), Ok(None));
                        prop_assert_eq!(numbers.take(from, u32::MAX), Ok(Some(expected)));
                        set.insert(expected);
                    }
                    Op::Mark(n) => { numbers.mark(n).unwrap(); set.insert(n); }
                    Op::Free(n) => { numbers.free(n); set.remove(&n); }
                    Op::Fill(from, count) => for n in from..from + count {
                        numbers.mark(n).unwrap();
                        set.insert(n);
                    }
                }
                prop_assert_eq!(numbers.end(), set.last().map_or(0, |n| n + 1));
                let free = (0..).find(|n| !set.contains(n)).unwrap();
                prop_assert_eq!(numbers.next_free(0), free);
            }
            prop_assert_eq!(numbers.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            let beyond = set.last().map_or(0, |n| n + 1).next_power_of_two() * 128;
            prop_assert_eq!(numbers.next_free(beyond), beyond);
        }
    }
}
