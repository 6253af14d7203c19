//! Nodes as arrays: every question about an entry is one access.

use crate::{OutOfMemory, Run, Runs, Shadow, Values, ENTRIES};
use alloc::vec::Vec;

/// The shadow whose nodes are arrays over all entries of a table.
#[derive(Clone, Copy, Debug)]
pub struct Arrays;

impl Shadow for Arrays {
    type Runs<T: Copy> = ArrayRuns<T>;
    type Values<T: Copy + PartialEq> = ArrayValues<T>;
}

const WORDS: usize = ENTRIES as usize / 64;

/// Runs, and for each entry the number of its run.
#[derive(Clone, Debug)]
pub struct ArrayRuns<T> {
    /// By entry, valid where `used` says so. Empty until the first reservation.
    number: Vec<u16>,
    used: [u64; WORDS],
    runs: Vec<Run<T>>,
    /// Numbers in `runs` that are free.
    free: Vec<u16>,
}

impl<T> ArrayRuns<T> {
    fn is_used(&self, at: u32) -> bool {
        at < ENTRIES && self.used[at as usize / 64] >> (at % 64) & 1 != 0
    }

    /// Flips the bits of `first..end`, which are all alike.
    fn flip(&mut self, first: u32, end: u32) {
        let mut at = first;
        while at < end {
            let until = end.min((at / 64 + 1) * 64);
            let mask = u64::MAX >> (64 - (until - at)) << (at % 64);
            self.used[at as usize / 64] ^= mask;
            at = until;
        }
    }

    fn next_used(&self, at: u32) -> Option<u32> {
        let mut word = at as usize / 64;
        let mut bits = *self.used.get(word)? & (u64::MAX << (at % 64));
        while bits == 0 {
            word += 1;
            bits = *self.used.get(word)?;
        }
        Some(word as u32 * 64 + bits.trailing_zeros())
    }
}

impl<T: Copy> Runs<T> for ArrayRuns<T> {
    fn new() -> Self {
        let (number, runs, free) = (Vec::new(), Vec::new(), Vec::new());
        ArrayRuns { number, used: [0; WORDS], runs, free }
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        if self.number.is_empty() {
            self.number.try_reserve_exact(ENTRIES as usize)?;
            self.number.resize(ENTRIES as usize, 0);
        }
        let spare = self.free.len();
        self.runs.try_reserve(more.saturating_sub(spare))?;
        // Whatever is inserted can be removed.
        let all = self.runs.len() + more;
        self.free.try_reserve(all.saturating_sub(spare))?;
        Ok(())
    }

    fn insert(&mut self, run: Run<T>) {
        let number = match self.free.pop() {
            Some(number) => {
                self.runs[number as usize] = run;
                number
            }
            None => {
                self.runs.push(run);
                self.runs.len() as u16 - 1
            }
        };
        self.number[run.first as usize..run.end() as usize].fill(number);
        self.flip(run.first, run.end());
    }

    fn remove(&mut self, first: u32) {
        if !self.is_used(first) {
            return;
        }
        let number = self.number[first as usize];
        let end = self.runs[number as usize].end();
        self.flip(first, end);
        self.free.push(number);
        if self.free.len() == self.runs.len() {
            self.runs.clear();
            self.free.clear();
        }
    }

    fn get(&self, at: u32) -> Option<Run<T>> {
        self.is_used(at).then(|| self.runs[self.number[at as usize] as usize])
    }

    fn next(&self, at: u32) -> Option<Run<T>> {
        let at = self.next_used(at)?;
        Some(self.runs[self.number[at as usize] as usize])
    }

    fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        2 * (self.number.capacity() + self.free.capacity())
            + self.runs.capacity() * size_of::<Run<T>>()
    }
}

/// A value for each entry.
#[derive(Clone, Debug)]
pub struct ArrayValues<T>(Vec<T>);

impl<T: Copy + PartialEq> Values<T> for ArrayValues<T> {
    fn new() -> Self {
        ArrayValues(Vec::new())
    }

    fn reserve(&mut self, value: T) -> Result<(), OutOfMemory> {
        if self.0.is_empty() {
            self.0.try_reserve_exact(ENTRIES as usize)?;
            self.0.resize(ENTRIES as usize, value);
        }
        Ok(())
    }

    fn set(&mut self, first: u32, end: u32, value: T) {
        self.0[first as usize..end as usize].fill(value);
    }

    fn clear(&mut self, _: u32, _: u32) {}

    fn get(&self, at: u32) -> Option<T> {
        self.0.get(at as usize).copied()
    }

    fn same_until(&self, at: u32) -> u32 {
        let rest = self.0.get(at as usize..).unwrap_or(&[]);
        let same = rest
            .first()
            .map_or(0, |value| rest.iter().position(|other| other != value).unwrap_or(rest.len()));
        at + (same as u32).max(1)
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}
