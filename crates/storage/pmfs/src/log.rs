//! The record of the last operation.
//!
//! ```text
//!  line     word 0     1      2      …    5      6                                    7
//!  2        address    value  address …   value  line of the record, lines, pairs     number of the operation
//!  3        address    value  …                                                       number of the operation
//! ```
//!
//! A line belongs to the record if word 7 says so, which is cleared before the others change and stored after them; stores to
//! a line keep their order, so no fence is needed between them. A record is complete if all its lines are there. When
//! the next one is begun, what this one lists has been written back, so half a record means that nothing is to be done.

use crate::area::Area;
use crate::layout::{
    check, marked, pair, word, HIGH_WATER, LOG_FIRST, LOG_LINES, UNFINISHED, WORDS,
};
use alloc::vec::Vec;

/// Pairs in a line.
const PAIRS: usize = 3;
const SHAPE: u64 = 6;
const NUMBER: u64 = 7;
/// Most pairs of a change.
pub(crate) const MOST: usize = PAIRS * LOG_LINES as usize;
/// Numbers of operations end here: a larger one is damage.
const NUMBER_MAX: u64 = 1 << 62;

/// Words that change together.
pub(crate) struct Change {
    pairs: Vec<(u64, u64)>,
}

impl Change {
    pub fn new() -> Change {
        Change { pairs: Vec::with_capacity(16) }
    }
    /// Word `n` of a line becomes `value`. What is set twice is as it was set last.
    pub fn set(&mut self, line: u32, n: u64, value: u64) {
        self.pairs.push((word(line, n), value));
    }
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
    pub fn len(&self) -> usize {
        self.pairs.len()
    }
    /// Which directory is being made or removed with everything below it.
    pub fn mark(&mut self, dir: Option<u32>) {
        self.pairs.push((UNFINISHED, marked(dir)));
    }
    pub fn high_water(&mut self, value: u64) {
        self.pairs.push((HIGH_WATER, value));
    }
}

/// The record.
pub(crate) struct Log {
    /// Of the next operation.
    number: u64,
}

impl Log {
    /// Number of the next operation.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The change has happened when this returns, together with the bodies that were written back before.
    pub fn commit<A: Area>(&mut self, area: &A, change: &Change) {
        debug_assert!(change.pairs.len() <= MOST);
        // From here on the bodies are there, and what the operation before has changed.
        area.fence();
        let lines = change.pairs.chunks(PAIRS).enumerate();
        let total = lines.len() as u32;
        lines.for_each(|(index, pairs)| self.write(area, index as u32, total, pairs));
        area.fence();
        apply(area, change.pairs.iter().copied());
        self.number += 1;
    }

    fn write<A: Area>(&self, area: &A, index: u32, total: u32, pairs: &[(u64, u64)]) {
        let line = LOG_FIRST + index as u64;
        let at = line * WORDS;
        area.store(at + NUMBER, 0);
        let mut words = [0; 6];
        for (place, &(address, value)) in words.chunks_exact_mut(2).zip(pairs) {
            place.copy_from_slice(&[address, value]);
        }
        for (n, &value) in (0..).zip(&words) {
            area.store(at + n, value);
        }
        area.store(at + SHAPE, shape(index, total, pairs.len() as u32, self.number, &words));
        area.store(at + NUMBER, self.number);
        area.write_back(line);
    }
}

/// Stores what a record lists, and begins to write it back.
pub(crate) fn apply<A: Area>(area: &A, pairs: impl Iterator<Item = (u64, u64)>) {
    for (address, value) in pairs {
        area.store(address, value);
        area.write_back(address / WORDS);
    }
}

/// Word 6 of a line, with a check of the others.
fn shape(index: u32, total: u32, pairs: u32, number: u64, words: &[u64; 6]) -> u64 {
    let shape = index | total << 8 | pairs << 16;
    let [a, b, c, d, e, f] = *words;
    pair(shape, check(&[a, b, c, d, e, f, shape as u64, number]))
}

/// There is no record, and none was there before.
pub(crate) fn clear<A: Area>(area: &A) {
    for line in LOG_FIRST..LOG_FIRST + LOG_LINES {
        area.store(line * WORDS + NUMBER, 0);
        area.write_back(line);
    }
}

/// What a mount finds: the log, and the last operation if it may not have been carried out. `None`: the numbers are
/// none that an operation ever had.
pub(crate) fn read<A: Area>(area: &A) -> Option<(Log, Vec<(u64, u64)>)> {
    let number = |index: u64| area.load((LOG_FIRST + index) * WORDS + NUMBER);
    // Half a record may be left, whose number must not be used again.
    let last = (0..LOG_LINES).map(number).max()?;
    if last >= NUMBER_MAX {
        return None;
    }
    let complete = if last > 0 { read_record(area, last) } else { None };
    Some((Log { number: last + 1 }, complete.unwrap_or_default()))
}

/// The pairs of a complete record.
fn read_record<A: Area>(area: &A, number: u64) -> Option<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    let mut total = 1;
    let mut index = 0;
    while index < total {
        let at = (LOG_FIRST + index as u64) * WORDS;
        let words: [u64; 6] = core::array::from_fn(|n| area.load(at + n as u64));
        let found = area.load(at + SHAPE);
        total = found as u32 >> 8 & 0xff;
        let pairs = found as u32 >> 16 & 0xff;
        let fits = total as u64 <= LOG_LINES && pairs as usize <= PAIRS;
        if !fits || area.load(at + NUMBER) != number {
            return None;
        }
        if found != shape(index, total, pairs, number, &words) {
            return None;
        }
        all.extend(words.chunks_exact(2).take(pairs as usize).map(|pair| (pair[0], pair[1])));
        index += 1;
    }
    Some(all)
}
