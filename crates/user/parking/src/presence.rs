//! Whether anybody waits at an address.
//!
//! Who waits arrives first, and then looks at what it waits for; who changes that looks afterwards whether anybody is
//! there. So one of the two sees the other. Addresses share counters: somebody may seem to be there who is not.

use crate::Word;

/// Counters of those that wait, by address.
#[derive(Debug)]
pub struct Presence<W, const COUNTERS: usize>([W; COUNTERS]);

impl<W: Word, const COUNTERS: usize> Presence<W, COUNTERS> {
    /// Of words that are all zero: nobody is anywhere.
    pub const fn new(counters: [W; COUNTERS]) -> Self {
        Presence(counters)
    }

    /// Nobody is anywhere any more.
    pub fn reset(&self) {
        for counter in &self.0 {
            counter.swap(0);
        }
    }

    fn counter(&self, address: u64) -> &W {
        // Futexes are words, and those of one structure are near each other.
        let hash = (address / 4) ^ (address / 4096);
        &self.0[hash as usize % COUNTERS]
    }

    /// Somebody is going to wait there.
    #[inline]
    pub fn arrive(&self, address: u64) {
        self.counter(address).add(1);
    }

    /// And does not any more.
    #[inline]
    pub fn leave(&self, address: u64) {
        self.counter(address).add(u32::MAX);
    }

    /// Is nobody there who may have looked before what the caller has stored?
    #[inline]
    pub fn is_empty(&self, address: u64) -> bool {
        // An addition, so that the store is seen first.
        self.counter(address).add(0) == 0
    }
}
