//! What the algorithms need of memory.

/// Words that survive when the power fails. Words that were never stored are zero.
///
/// A store is certain to survive when its line was written back afterwards and a fence has followed. Of later stores to
/// a line any number of the last ones may be missing, independently of other lines. Where caches survive, too,
/// [`write_back`](Area::write_back) and [`fence`](Area::fence) may do nothing but keep the order of stores.
///
/// Only one owner uses an area at a time; nobody else stores to it.
pub trait Area {
    /// How many words there are. It may grow between mounts.
    fn words(&self) -> u64;
    /// Reads a word below [`words`](Area::words).
    fn load(&self, word: u64) -> u64;
    /// Stores a word below [`words`](Area::words).
    fn store(&self, word: u64, value: u64);
    /// Begins to write back the words `8 * line` to `8 * line + 7`.
    fn write_back(&self, line: u64);
    /// Returns when all that was written back so far has arrived.
    fn fence(&self);
}

impl<A: Area + ?Sized> Area for &A {
    fn words(&self) -> u64 {
        (**self).words()
    }
    fn load(&self, word: u64) -> u64 {
        (**self).load(word)
    }
    fn store(&self, word: u64, value: u64) {
        (**self).store(word, value);
    }
    #[track_caller]
    fn write_back(&self, line: u64) {
        (**self).write_back(line);
    }
    #[track_caller]
    fn fence(&self) {
        (**self).fence();
    }
}
