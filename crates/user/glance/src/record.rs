//! Records, and how long they hold.

use crate::Word;

/// Some words that are written together, by one thread at a time.
#[derive(Debug)]
pub struct Record<W, const N: usize> {
    /// Odd while the words change.
    version: W,
    words: [W; N],
}

impl<W: Word, const N: usize> Record<W, N> {
    /// A record of words that are all zero.
    pub const fn new(version: W, words: [W; N]) -> Self {
        Record { version, words }
    }

    /// Writes it.
    pub fn write(&self, words: [u64; N]) {
        let version = self.version.load();
        self.version.store(version.wrapping_add(1));
        for (place, word) in self.words.iter().zip(words) {
            place.store(word);
        }
        self.version.store(version.wrapping_add(2));
    }

    /// What it says. `None`: it is being written.
    #[inline(always)]
    pub fn read(&self) -> Option<[u64; N]> {
        let version = self.version.load();
        let words = core::array::from_fn(|number| self.words[number].load());
        let is_whole = version & 1 == 0 && self.version.load() == version;
        is_whole.then_some(words)
    }
}

/// How often what records say has become untrue.
#[derive(Debug)]
pub struct Epoch<W>(W);

impl<W: Word> Epoch<W> {
    /// With a word that is one: records of zeros hold in no epoch.
    pub const fn new(word: W) -> Self {
        Epoch(word)
    }

    /// Which it is. What is noted in records is true in this one, if the caller keeps others from changing it.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.0.load()
    }

    /// Something is about to become untrue: who looks at it afterwards finds that this has come before.
    #[inline]
    pub fn end(&self) {
        self.0.add(1);
    }

    /// Does what was true in an epoch still hold, and did so until now?
    #[inline(always)]
    pub fn is(&self, epoch: u64) -> bool {
        self.0.load() == epoch
    }
}
