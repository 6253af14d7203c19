//! The next page of a core's own tree: what nearly everybody wants, in a few instructions.
//!
//! It is looked for in the word of 64 bits in which the core has found a page last. Whoever finds none there
//! [searches](Pool::take), and notes where. So one in 64 searches while nobody gives anything back.

use crate::{Child, Geometry, Locals, Pool, Words, CHILD, TREE};

/// Bits of a word.
const BITS: usize = 64;

impl<W: Words + Copy, L: Locals + Copy> Pool<'_, W, L> {
    /// A page, if there is one where it is looked for first.
    ///
    /// Bound: three words; three more if others are faster.
    #[inline(always)]
    pub fn take_next(&self, core: usize) -> Option<usize> {
        let (local, group) = (self.local(core), self.locals.found_in(core));
        let (tree, child) = (local.tree()?, group / (CHILD / BITS));
        if local.count() == 0 || child / TREE != tree || child >= self.geometry.children() {
            return None;
        }
        let (counter, word) = (self.geometry.child(child), self.geometry.bits(0) + group);
        let (free, now) = (self.words.load(counter), self.words.load(word));
        if !Child(free).has(1) || now == u64::MAX {
            return None;
        }
        self.locals.compare_exchange(core, local.0, local.0 - 1).ok()?;
        if self.words.compare_exchange(counter, free, free - 1).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, None), 1);
            return None;
        }
        let bit = (!now).trailing_zeros() as usize;
        if self.words.compare_exchange(word, now, now | 1 << bit).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, Some(child)), 1);
            return None;
        }
        Some(group * BITS + bit)
    }

    /// Some pages in a row, at most so many, if there are any where a page is looked for first. Returns the first of them, and how
    /// many they are.
    ///
    /// Bound: as [`take_next`](Self::take_next).
    pub fn take_run(&self, core: usize, most: usize) -> Option<(usize, usize)> {
        let (local, group) = (self.local(core), self.locals.found_in(core));
        let (tree, child) = (local.tree()?, group / (CHILD / BITS));
        if child / TREE != tree || child >= self.geometry.children() {
            return None;
        }
        let (counter, word) = (self.geometry.child(child), self.geometry.bits(0) + group);
        let (free, now) = (self.words.load(counter), self.words.load(word));
        let bit = (!now).trailing_zeros() as usize;
        if bit == BITS || !Child(free).has(1) {
            return None;
        }
        let row = (now >> bit).trailing_zeros() as usize;
        let count = row.min(BITS - bit).min(most).min(local.count()).min(free as usize);
        if count == 0 {
            return None;
        }
        self.locals.compare_exchange(core, local.0, local.0 - count as u64).ok()?;
        if self.words.compare_exchange(counter, free, free - count as u64).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, None), count);
            return None;
        }
        let taken = (u64::MAX >> (BITS - count)) << bit;
        if self.words.compare_exchange(word, now, now | taken).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, Some(child)), count);
            return None;
        }
        Some((group * BITS + bit, count))
    }
}

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// The core has found a page.
    pub(crate) fn note(&self, core: usize, frame: usize) {
        self.locals.set_found_in(core, frame / BITS);
    }
}

/// Gives back the rights to pages of a tree and perhaps of a child, when somebody was faster. By value: whoever is not
/// that unlucky need not keep the pool in memory.
#[cold]
#[inline(never)]
fn undo<W: Words, L: Locals>(
    words: W,
    locals: L,
    geometry: Geometry,
    core: usize,
    (tree, child): (usize, Option<usize>),
    count: usize,
) {
    let pool = Pool { words: &words, locals: &locals, geometry };
    if let Some(child) = child {
        pool.give_child(child, count);
    }
    pool.give_right(tree, count, core);
}
