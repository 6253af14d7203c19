//! Memory that is to go: trees are closed, and are empty when all that was taken of them has come back.

use crate::{Locals, Pool, Tree, Words, CHILD};

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// From now on nothing is taken of a tree; what was taken can be given back.
    ///
    /// Bound: a word of each core.
    pub fn close(&self, tree: usize) {
        self.change(tree, Tree::closed);
        for core in 0..self.locals.cores() {
            if self.local(core).tree() == Some(tree) {
                self.leave(core);
            }
        }
    }

    /// Is a closed tree empty, so that it can be used for something else? If it is, it stays so until it is
    /// [opened](Self::open).
    pub fn is_empty(&self, tree: usize) -> bool {
        let now = self.tree(tree);
        let all = self.geometry.children_of(tree).len() * CHILD;
        now.is_closed() && !now.is_reserved() && now.count() == all
    }

    /// It can be taken of again.
    pub fn open(&self, tree: usize) {
        self.change(tree, Tree::opened);
    }

    fn change(&self, tree: usize, f: impl Fn(Tree) -> Tree) {
        let word = self.geometry.tree(tree);
        let mut now = self.words.load(word);
        while let Err(other) = self.words.compare_exchange(word, now, f(Tree(now)).0) {
            now = other;
        }
    }
}
