//! Limits that a program raises where it runs, as far as the object's owner has allowed.
//!
//! The word of a record that says the limit says in its upper bits how many pages more there may be. Whoever has the object shown, and may
//! write to it, moves pages from there to the limit by one compare-and-exchange. So a limit never rises above what the owner has said, however many do
//! it at once, and nobody need be asked.
//!
//! Who sets the limit first makes sure that nobody raises it any more: what was behind the old one is nothing then, and stays so.

use crate::memory::{Cores, Memory, Pages};
use crate::record::{Record, LIMIT};
use crate::{pages_of, Anchor, Morsels, Refused};

/// Where in the word of the limit is how many pages more there may be. The largest object has 2^48 bytes.
const MORE_AT: u32 = 52;
/// The largest limit that can be noted.
pub(crate) const MOST_BYTES: u64 = (1 << MORE_AT) - 1;
/// Most pages that a limit may be raised by.
pub const MOST_MORE: u64 = u64::MAX >> MORE_AT;

/// The limit that is noted in a word.
pub(crate) fn limit_in(word: u64) -> u64 {
    word & MOST_BYTES
}

/// By how many pages it may be raised.
fn more_in(word: u64) -> u64 {
    word >> MORE_AT
}

fn word_of(limit: u64, more: u64) -> u64 {
    limit | more << MORE_AT
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Nobody sets the limit meanwhile. Allows that it is raised by up to so many pages from what it is now, or by fewer than was allowed. Answers up to which byte it may be raised: no
    /// farther than the object has tables for, nor by more than [`MOST_MORE`].
    ///
    /// # Errors
    /// [`Refused::Invalid`] if the object survives, or its limit is inside a page; [`Refused::Again`] if something else changes it.
    pub fn allow_raising(&self, record: Record, pages: u64) -> Result<u64, Refused> {
        let anchor = self.anchor(record);
        if !anchor.is_live() {
            return Err(Refused::Gone);
        }
        if anchor.has(Anchor::CUTTING) {
            return Err(Refused::Again);
        }
        if anchor.has(Anchor::TRIMMING) {
            // Something is left behind it.
            return Ok(self.limit(record));
        }
        if !self.pages.grows() || anchor.has(Anchor::META | Anchor::OWNED) || record.id == 0 {
            return Err(Refused::Invalid);
        }
        loop {
            let word = self.limit_word(record);
            let limit = limit_in(word);
            if limit & 4095 != 0 {
                return Err(Refused::Invalid);
            }
            let room = pages_of(anchor.order()).saturating_sub(limit >> 12);
            let more = pages.min(room).min(MOST_MORE);
            if self.exchange_limit(record, word, word_of(limit, more)) {
                return Ok(limit + (more << 12));
            }
        }
    }

    /// Raises the limit from `from` to `to` bytes, if that is allowed, by somebody for whom the object may be ended at any time, unless `is_there` sees something that leads to it
    /// (as with [`discard_while`](Self::discard_while)).
    ///
    /// # Errors
    /// [`Refused::Gone`] if it does not, [`Refused::Beyond`] if the limit is another one, or may not be raised so far; [`Refused::Again`] if something else changes
    /// the object.
    pub fn raise_while(
        &self,
        record: Record,
        (from, to): (u64, u64),
        is_there: impl FnOnce() -> bool,
    ) -> Result<(), Refused> {
        let is_it = || is_there() && self.find(record.id).is_some_and(|now| now.at == record.at);
        self.cores.enter();
        let raised = match is_it() {
            true => self.raise(record, from, to),
            false => Err(Refused::Gone),
        };
        self.cores.leave();
        raised
    }

    fn raise(&self, record: Record, from: u64, to: u64) -> Result<(), Refused> {
        self.undisturbed(record)?;
        let word = self.limit_word(record);
        let pages = to.wrapping_sub(from) >> 12;
        let may = limit_in(word) == from && from <= to && to & 4095 == 0 && from & 4095 == 0;
        if !may || pages > more_in(word) {
            return Err(Refused::Beyond);
        }
        // If it has changed, others have raised it, or set it.
        match self.exchange_limit(record, word, word_of(to, more_in(word) - pages)) {
            true => Ok(()),
            false => Err(Refused::Again),
        }
    }

    /// From now on nobody raises the limit. (In a memory that survives nobody does.)
    pub(crate) fn forbid_raising(&self, record: Record) {
        loop {
            let word = self.limit_word(record);
            if more_in(word) == 0 || self.exchange_limit(record, word, limit_in(word)) {
                return;
            }
        }
    }

    /// The limit with what it may be raised by, for a record of another object with the same contents.
    pub(crate) fn limit_word(&self, record: Record) -> u64 {
        self.memory.load(record.word(LIMIT))
    }

    fn exchange_limit(&self, record: Record, old: u64, new: u64) -> bool {
        self.memory.compare_exchange(record.word(LIMIT), old, new).is_ok()
    }
}
