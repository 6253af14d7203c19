//! The next page of a core's own tree: what nearly everybody wants, in a few instructions.
//!
//! It is looked for where it is if all of the tree has been taken in order: at as many pages as are missing in the core's
//! counter. So it is found at once while nobody gives anything back, and what was given back soon is used soon. Whoever does not find
//! it there [searches](Pool::take).

use crate::{Child, Geometry, Locals, Pool, Words, CHILD, TREE};

impl<W: Words + Copy, L: Locals + Copy> Pool<'_, W, L> {
    /// A page, if there is one where it is looked for first.
    ///
    /// Bound: three words; three more if others are faster.
    #[inline(always)]
    pub fn take_next(&self, core: usize) -> Option<usize> {
        let local = self.local(core);
        let (tree, count) = (local.tree()?, local.count());
        // The last tree may have fewer children.
        let children = self.geometry.children().checked_sub(TREE * tree)?.min(TREE);
        let next = (children * CHILD).checked_sub(count)?;
        let child = TREE * tree + next / CHILD;
        if count == 0 {
            return None;
        }
        let (counter, bits) = (self.geometry.child(child), self.geometry.bits(child));
        let (word, free) = (bits + next % CHILD / 64, self.words.load(counter));
        let now = self.words.load(word);
        if !Child(free).has(1) || now == u64::MAX {
            return None;
        }
        self.locals.compare_exchange(core, local.0, local.0 - 1).ok()?;
        if self.words.compare_exchange(counter, free, free - 1).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, None));
            return None;
        }
        let bit = (!now).trailing_zeros() as usize;
        if self.words.compare_exchange(word, now, now | 1 << bit).is_err() {
            undo(*self.words, *self.locals, self.geometry, core, (tree, Some(child)));
            return None;
        }
        Some(child * CHILD + next % CHILD / 64 * 64 + bit)
    }
}

/// Gives back the rights to a page of a tree and perhaps of a child, when somebody was faster. By value: whoever is not
/// that unlucky need not keep the pool in memory.
#[cold]
#[inline(never)]
fn undo<W: Words, L: Locals>(
    words: W,
    locals: L,
    geometry: Geometry,
    core: usize,
    (tree, child): (usize, Option<usize>),
) {
    let pool = Pool { words: &words, locals: &locals, geometry };
    if let Some(child) = child {
        pool.give_child(child, 1);
    }
    pool.give_right(tree, 1, core);
}
