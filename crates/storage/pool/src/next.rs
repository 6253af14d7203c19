//! The next page of a core's own tree: what nearly everybody wants, in a few instructions.
//!
//! It is looked for in the word of 64 bits in which the core has found a page last. Whoever finds none there
//! [searches](Pool::take), and notes where. So one in 64 searches while nobody gives anything back.

use crate::{Child, Locals, Pool, Words, CHILD, TREE};

/// Bits of a word.
const BITS: usize = 64;

/// Rights to pages of a tree, and perhaps of a child, of which nothing came because somebody else was faster: to be
/// [given back](Pool::give_back).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Owed {
    tree: usize,
    child: Option<usize>,
    count: usize,
}

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// A page, if there is one where it is looked for first.
    ///
    /// Bound: three words; three more if others are faster.
    #[inline(always)]
    pub fn take_next(&self, core: usize) -> Option<usize> {
        match self.try_next(core) {
            Ok(found) => found,
            Err(owed) => {
                self.give_back(core, owed);
                None
            }
        }
    }

    /// The same for who gives back what it owes in its own way: then all of this may be in line.
    ///
    /// Bound: three words.
    ///
    /// # Errors
    /// Others were faster.
    #[inline(always)]
    pub fn try_next(&self, core: usize) -> Result<Option<usize>, Owed> {
        let (local, group) = (self.local(core), self.locals.found_in(core));
        let child = group / (CHILD / BITS);
        let tree = child / TREE;
        if local.count() == 0 || !local.is_in(tree) || child >= self.geometry.children() {
            return Ok(None);
        }
        let (counter, word) = (self.geometry.child(child), self.geometry.bits(0) + group);
        let (free, now) = (self.words.load(counter), self.words.load(word));
        if !Child(free).has(1) || now == u64::MAX {
            return Ok(None);
        }
        if self.locals.compare_exchange(core, local.0, local.0 - 1).is_err() {
            return Ok(None);
        }
        if self.words.compare_exchange(counter, free, free - 1).is_err() {
            return Err(Owed { tree, child: None, count: 1 });
        }
        let bit = (!now).trailing_zeros() as usize;
        if self.words.compare_exchange(word, now, now | 1 << bit).is_err() {
            return Err(Owed { tree, child: Some(child), count: 1 });
        }
        Ok(Some(group * BITS + bit))
    }

    /// Gives back rights of which nothing came.
    #[cold]
    pub fn give_back(&self, core: usize, owed: Owed) {
        let Owed { tree, child, count } = owed;
        if let Some(child) = child {
            self.give_child(child, count);
        }
        self.give_right(tree, count, core);
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
            self.give_back(core, Owed { tree, child: None, count });
            return None;
        }
        let taken = (u64::MAX >> (BITS - count)) << bit;
        if self.words.compare_exchange(word, now, now | taken).is_err() {
            self.give_back(core, Owed { tree, child: Some(child), count });
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
