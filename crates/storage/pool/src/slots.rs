//! Frames that are no memory: slots of a store, to which pages go that are to leave memory for a while.
//!
//! They are frames of trees that are closed for good, so nobody takes one for a page; whoever gives frames back gives them back in
//! the same way. A slot has a descriptor as a page has one, so how many lead to it is counted alike.

use crate::{Child, Locals, Pool, Tree, Words, CHILD, TREE};

/// The bits at which so many that are set follow each other.
fn runs(bits: u64, count: usize) -> u64 {
    let (mut begins, mut long) = (bits, 1);
    while long < count && begins != 0 {
        // Two runs that touch or overlap are one.
        let step = long.min(count - long);
        begins &= begins >> step;
        long += step;
    }
    begins
}

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// All of a tree are slots from now on, and free. Nothing of it may ever have been the pool's memory.
    ///
    /// Bound: 8 times as much as [`add`](Self::add).
    pub fn add_slots(&self, tree: usize) -> bool {
        let children = self.geometry.children_of(tree);
        if children.clone().any(|child| self.child(child) != Child::RAW) {
            return false;
        }
        self.close(tree);
        children.into_iter().all(|child| self.add(child).is_ok())
    }

    /// Takes free slots of this tree that follow each other: `most`, at most 64, where there are as many in one word, else as many as there are
    /// anywhere. The first, and how many.
    ///
    /// Bound: the words of a tree, `SCANS` times.
    pub fn take_slots(&self, tree: usize, most: usize) -> Option<(usize, usize)> {
        if tree >= self.geometry.trees() || most == 0 {
            return None;
        }
        for _ in 0..crate::SCANS {
            let (first, count) = self.longest(tree, most)?;
            if !self.take_closed(tree, count) {
                continue;
            }
            if self.take_child(first / CHILD, count) {
                if self.take_these_bits(first, count) {
                    return Some((first, count));
                }
                self.give_child(first / CHILD, count);
            }
            self.give_tree(tree, count);
        }
        None
    }

    /// The first run of so many free slots of a tree in one word, or the longest.
    fn longest(&self, tree: usize, most: usize) -> Option<(usize, usize)> {
        let mut best = None;
        let mut longer = 1;
        for child in self.geometry.children_of(tree) {
            let first = self.geometry.bits(child);
            for n in 0..CHILD / 64 {
                let free = !self.words.load(first + n);
                // Where as many begin as the best has, and one more.
                let mut begins = runs(free, longer);
                while begins != 0 {
                    best =
                        Some((child * CHILD + 64 * n + begins.trailing_zeros() as usize, longer));
                    if longer >= most.min(64) {
                        return best;
                    }
                    begins &= free >> longer;
                    longer += 1;
                }
            }
        }
        best
    }

    fn take_these_bits(&self, first: usize, count: usize) -> bool {
        let (word, lowest) = self.bit(first);
        let mask = (u64::MAX >> (64 - count)) << lowest.trailing_zeros();
        let mut now = self.words.load(word);
        while now & mask == 0 {
            match self.words.compare_exchange(word, now, now | mask) {
                Ok(()) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Is a frame a slot?
    pub fn is_slot(&self, frame: usize) -> bool {
        frame < self.geometry.frames() && self.tree(frame / CHILD / TREE).is_closed()
    }

    /// Frames of closed trees that are free. Bound: a word of each tree.
    pub fn free_slots(&self) -> usize {
        let trees = (0..self.geometry.trees()).map(|tree| self.tree(tree));
        trees.filter(|tree: &Tree| tree.is_closed()).map(Tree::count).sum()
    }
}
