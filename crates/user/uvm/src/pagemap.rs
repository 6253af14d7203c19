//! What `/proc/PID/pagemap` says of each page: a word, as on Linux. Frame numbers are not told.

use crate::backend::Backend;
use crate::map::{Entry, Flags};
use crate::space::Space;
use crate::written::Seen;

/// The page is in memory, and the process's tables show it (bit 63).
pub const PRESENT: u64 = 1 << 63;
/// It has left memory (bit 62).
pub const SWAPPED: u64 = 1 << 62;
/// It is a file's, or of shared memory (bit 61).
pub const SHARED: u64 = 1 << 61;
/// It was written to since `clear_refs` (bit 55).
pub const SOFT_DIRTY: u64 = 1 << 55;
/// Nobody else has it (bit 56). Only of small private memory it is known.
pub const EXCLUSIVE: u64 = 1 << 56;

/// Nobody has written there, and zeros are shown. What no program is told in this word.
pub const ZEROS: u64 = 1;
/// Something is mapped there. The same.
pub const MAPPED: u64 = 2;

/// Pages of an object up to `end` are alike.
#[derive(Clone, Copy, Default)]
struct Run {
    end: u64,
    is_there: bool,
    /// Some of them have left memory.
    some_out: bool,
}

impl Space {
    /// The words of pages `start..` are put to `words`.
    pub fn pagemap(&self, b: &mut impl Backend, start: u64, words: &mut [u64]) {
        self.page_words(b, start, words);
        words.iter_mut().for_each(|word| *word &= !(ZEROS | MAPPED));
    }

    /// The same, with what else is known.
    pub fn page_words(&self, b: &mut impl Backend, start: u64, words: &mut [u64]) {
        words.fill(0);
        for entry in self.map.within(start, start + words.len() as u64) {
            let (mut run, mut seen) = (Run::default(), Seen::default());
            for page in entry.start..entry.end {
                let word = self.word_of(b, &entry, page, &mut run);
                let written = self.pmap.is_written(b, page, &mut seen);
                let written = if written { SOFT_DIRTY } else { 0 };
                words[(page - start) as usize] = MAPPED | word | written;
            }
        }
    }

    fn word_of(&self, b: &mut impl Backend, entry: &Entry, page: u64, run: &mut Run) -> u64 {
        let slot = (page & 255) as u32;
        if let Some(chunk) = self.amap.chunk(page >> 8).filter(|chunk| chunk.filled.get(slot)) {
            return PRESENT | if chunk.own().get(slot) { EXCLUSIVE } else { 0 };
        }
        if self.is_apart(page) {
            let (there, _) = self.count_apart(b, page, page + 1);
            return if there > 0 { PRESENT } else { SWAPPED };
        }
        let Some(object) = entry.object else {
            return if self.pmap.is_readable(page) { PRESENT | ZEROS } else { 0 };
        };
        let is_own = entry.flags.has(Flags::OWN);
        // Of what is its own a fork hides the tables, but it is there.
        if !is_own && !self.pmap.is_whole(page >> 9) {
            return if self.pmap.is_present(page) { PRESENT | SHARED } else { 0 };
        }
        let at = entry.object_page(page);
        if run.end <= page {
            let (pages, is_there) = b.object_run(object, at, entry.end - page);
            let some_out = is_own && !is_there && b.object_there(object, at, pages).out > 0;
            *run = Run { end: page + pages.max(1), is_there, some_out };
        }
        match *run {
            Run { is_there: true, .. } if is_own => PRESENT,
            Run { is_there: true, .. } => PRESENT | SHARED,
            Run { some_out: true, .. } if b.object_there(object, at, 1).out > 0 => SWAPPED,
            _ => 0,
        }
    }
}
