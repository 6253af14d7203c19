//! The offset of an open file, as long as one process alone has it.
//!
//! It is moved without a lock, by a compare-and-exchange from what was seen. So that a thread which has seen the offset of a file
//! that was closed meanwhile does not move that of the next one at the same place, the word has a number for the file.

use crate::Word;

/// Bits of an offset.
const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;
/// Offsets up to this are kept.
pub const MOST: u64 = MASK - 1;

/// What was seen of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// The offset.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        (self.0 & MASK) - 1
    }
}

/// A place for the offset of a file: its number, and the offset and one, or zero if it is not here.
#[derive(Debug)]
pub struct Offset<W>(W);

impl<W: Word> Offset<W> {
    /// Of a word that is zero: none is here.
    pub const fn new(word: W) -> Self {
        Offset(word)
    }

    /// It is for another file from now on, whose offset is here or not.
    pub fn begin(&self, offset: Option<u64>) {
        let number = (self.0.load() >> BITS).wrapping_add(1);
        self.0.store(number << BITS | Self::coded(offset));
    }

    fn coded(offset: Option<u64>) -> u64 {
        offset.filter(|offset| *offset <= MOST).map_or(0, |offset| offset + 1)
    }

    /// What it is, if it is here.
    #[inline(always)]
    pub fn get(&self) -> Option<Seen> {
        let word = self.0.load();
        (word & MASK != 0).then_some(Seen(word))
    }

    /// Moves it to where the file is read from next. `false`: somebody has moved it since it was seen, or `offset` is more than
    /// can be here.
    #[inline(always)]
    pub fn replace(&self, seen: Seen, offset: u64) -> bool {
        offset <= MOST && self.0.replace(seen.0, (seen.0 & !MASK) | (offset + 1))
    }

    /// Moves it, whoever does so at the same time. Answers what it was. `None`: it is not here any more.
    pub fn set(&self, offset: Option<u64>) -> Option<Seen> {
        loop {
            let word = self.0.load();
            if self.0.replace(word, (word & !MASK) | Self::coded(offset)) {
                return (word & MASK != 0).then_some(Seen(word));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn offsets_come_and_go() {
        let place = Offset::new(AtomicU64::new(0));
        assert_eq!(place.get(), None);
        place.begin(Some(0));
        let seen = place.get().unwrap();
        assert_eq!(seen.offset(), 0);
        assert!(place.replace(seen, 10));
        assert!(!place.replace(seen, 20));
        assert_eq!(place.set(None).map(Seen::offset), Some(10));
        assert_eq!(place.get(), None);
        assert_eq!(place.set(Some(MOST)), None);
        let last = place.get().unwrap();
        assert_eq!(last.offset(), MOST);
        assert!(!place.replace(last, MOST + 1));
        assert_eq!(place.set(Some(MOST + 1)).map(Seen::offset), Some(MOST));
        assert_eq!(place.get(), None);
    }

    #[test]
    fn the_next_file_is_another_one() {
        let place = Offset::new(AtomicU64::new(0));
        for _ in 0..70_000 {
            place.begin(Some(5));
            let seen = place.get().unwrap();
            place.begin(Some(5));
            assert!(!place.replace(seen, 6));
            assert_eq!(place.get().unwrap().offset(), 5);
        }
    }
}
