//! HPC Challenge RandomAccess: updates at random places of a table (Koester and Lucas, *Random
//! Access Rules*).
//!
//! The stream of random numbers is x ↦ 2x in GF(2⁶⁴), and each number both chooses a word of the
//! table and is XORed into it. The rules count four updates for each word of the table; they are
//! drawn from [`STREAMS`] places of the stream in turn, which the benchmark's look-ahead allows.
//! A second pass with the same stream must restore the table, but for at most 1 % of its words; here,
//! where nothing races, all of them.

use crate::Observer;

/// The polynomial of the field.
const POLY: u64 = 7;
/// Streams that are drawn from in turn.
pub const STREAMS: usize = 128;
/// Updates for each word of the table.
pub const UPDATES_PER_WORD: u64 = 4;

/// Sizes of the tables that are measured, in MiB, and of one more.
pub const MEASURED_MIB: [u64; 5] = [1, 4, 16, 64, 256];
/// The large one. The paper's has 32 GiB.
pub const MEASURED_LARGE_MIB: u64 = 1024;
/// Most updates that are measured: more of the same stream cost the same each.
const MOST_UPDATES: u64 = 4 << 20;

/// How many updates of a table of `bytes` are measured.
pub const fn measured_updates(bytes: u64) -> u64 {
    let all = bytes / 8 * UPDATES_PER_WORD;
    if all < MOST_UPDATES {
        all
    } else {
        MOST_UPDATES
    }
}

/// The next number of the stream.
#[inline(always)]
const fn next(x: u64) -> u64 {
    x << 1 ^ (((x as i64) >> 63) as u64 & POLY)
}

/// Number `n` of the stream, by squaring: x to the power of `n`, starting with 1.
pub const fn start(n: u64) -> u64 {
    let mut result = 1;
    let mut bit = 64 - n.leading_zeros();
    while bit > 0 {
        bit -= 1;
        result = multiply(result, result);
        if n >> bit & 1 != 0 {
            result = next(result);
        }
    }
    result
}

/// The product in the field.
const fn multiply(a: u64, b: u64) -> u64 {
    let (mut sum, mut power, mut left) = (0, a, b);
    while left != 0 {
        if left & 1 != 0 {
            sum ^= power;
        }
        power = next(power);
        left >>= 1;
    }
    sum
}

/// Where a run is in its streams. The table has a power of two of words.
#[derive(Clone, Debug)]
pub struct Streams {
    states: [u64; STREAMS],
}

impl Streams {
    /// For `updates` updates in all, a multiple of [`STREAMS`].
    pub fn new(updates: u64) -> Self {
        let share = updates / STREAMS as u64;
        Streams { states: core::array::from_fn(|i| start(share * i as u64)) }
    }

    /// Calls `update` with each of the next [`STREAMS`] numbers.
    #[inline(always)]
    pub fn round(&mut self, mut update: impl FnMut(u64)) {
        for state in &mut self.states {
            *state = next(*state);
            update(*state);
        }
    }
}

/// The word that a number chooses.
#[inline(always)]
pub const fn place(number: u64, words: usize) -> usize {
    number as usize & (words - 1)
}

/// What the table holds before the first update.
pub fn initialise(table: &mut [u64]) {
    for (i, word) in table.iter_mut().enumerate() {
        *word = i as u64;
    }
}

/// Performs `updates` updates, a multiple of [`STREAMS`].
#[inline(always)]
pub fn update(table: &mut [u64], updates: u64, observer: &mut impl Observer) {
    let words = table.len();
    let mut streams = Streams::new(updates);
    for _ in 0..updates / STREAMS as u64 {
        streams.round(|number| {
            let at = place(number, words);
            observer.access(0, at);
            table[at] ^= number;
        });
    }
}

/// The places of the same updates, without a table: for tables larger than the host's memory.
#[inline(always)]
pub fn trace(words: usize, updates: u64, observer: &mut impl Observer) {
    let mut streams = Streams::new(updates);
    for _ in 0..updates / STREAMS as u64 {
        streams.round(|number| observer.access(0, place(number, words)));
    }
}

/// How many words are not what they were at first: after an even number of passes, errors; after
/// one pass, what keeps a table that was never written from passing the verification.
pub fn errors(table: &[u64]) -> u64 {
    table.iter().enumerate().filter(|&(i, &word)| word != i as u64).count() as u64
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::Unobserved;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn starts_are_places_of_the_one_stream() {
        let mut x = 1;
        for n in 0..1000 {
            assert_eq!(start(n), x, "number {n}");
            x = next(x);
        }
        // The stream's period, as the benchmark states it.
        assert_eq!(start(1_317_624_576_693_539_401), 1);
    }

    #[test]
    fn second_pass_restores() {
        let mut table = vec![0; 1 << 12];
        initialise(&mut table);
        let updates = UPDATES_PER_WORD << 12;
        update(&mut table, updates, &mut Unobserved);
        assert!(errors(&table) > 1 << 11);
        update(&mut table, updates, &mut Unobserved);
        assert_eq!(errors(&table), 0);
        // And notices what is wrong.
        table[5] ^= 1;
        assert_eq!(errors(&table), 1);
    }

    #[test]
    fn trace_is_what_updates_touch() {
        struct Seen(Vec<usize>);
        impl Observer for Seen {
            fn access(&mut self, array: usize, index: usize) {
                assert_eq!(array, 0);
                self.0.push(index);
            }
        }
        let (mut a, mut b) = (Seen(vec![]), Seen(vec![]));
        update(&mut vec![0; 256], 1024, &mut a);
        trace(256, 1024, &mut b);
        assert_eq!(a.0.len(), 1024);
        assert_eq!(a.0, b.0);
    }
}
