//! Pools whose memory comes and goes, 2 MiB at a time, while others take and give.
//!
//! ```text
//!               add: bits and descriptors
//!  ┌─────┐      are zeroed first          ┌────────┐  free pages are taken and given back
//!  │ raw ├───────────────────────────────►│ 0…512, │◄──────────────────────────────────┐
//!  └─────┘                  ┌────────────►│ huge   ├───────────────────────────────────┘
//!                      add  │             └───┬────┘
//!                       ┌───┴────┐            │ remove: 512 free pages are taken at once,
//!                       │ absent │◄───────────┘ as who takes 2 MiB does
//!                       └────────┘
//! ```
//!
//! What is absent counts as taken as a whole, and nobody gives it back: so who takes and gives looks at nothing more than
//! elsewhere, and nobody is waited for. The pool's words are outside of what it hands out ([`Geometry::apart`](crate::Geometry::apart)).

use crate::{Child, Locals, Pool, Refused, Tree, Words, CHILD, TREE};

impl<W: Words, L: Locals> Pool<'_, W, L> {
    /// All of a tree is absent. Nobody may use the pool yet. Bound: 9 words.
    pub(crate) fn format_absent(&self, tree: usize) {
        for child in self.geometry.children_of(tree) {
            self.words.store(self.geometry.child(child), Child::RAW.0);
        }
        self.words.store(self.geometry.tree(tree), Tree::free(0).0);
    }

    /// Is it none of the pool's memory?
    pub fn is_absent(&self, child: usize) -> bool {
        child >= self.geometry.children() || self.child(child).is_absent()
    }

    /// Are all pages of it free, whoever reserves them?
    pub fn is_all_free(&self, child: usize) -> bool {
        child < self.geometry.children() && self.child(child) == Child::free(CHILD)
    }

    /// The first child from `from` on of which all pages are free, among those of so many trees; and where to go on if there is none.
    ///
    /// Bound: a word of each tree, and 8 of each that has so much.
    pub fn find_free(&self, from: usize, trees: usize) -> Result<usize, usize> {
        let first = from / TREE;
        let last = first.saturating_add(trees).min(self.geometry.trees());
        for tree in first..last {
            let now = self.tree(tree);
            // What is free is counted here, or by the core that reserves it.
            if now.is_closed() || now.count() < CHILD && !now.is_reserved() {
                continue;
            }
            let mut children = self.geometry.children_of(tree).filter(|&child| child >= from);
            if let Some(child) = children.find(|&child| self.is_all_free(child)) {
                return Ok(child);
            }
        }
        Err((last * TREE).min(self.geometry.children()))
    }

    /// 2 MiB are the pool's from now on, and free.
    ///
    /// Bound: 4 exchanges; 520 words more if they never were the pool's before.
    ///
    /// # Errors
    /// [`Refused::Outside`]; [`Refused::NotTaken`] if they are the pool's already.
    pub fn add(&self, child: usize) -> Result<(), Refused> {
        if child >= self.geometry.children() {
            return Err(Refused::Outside);
        }
        let (word, now) = (self.geometry.child(child), self.child(child));
        if !now.is_absent() {
            return Err(Refused::NotTaken);
        }
        let begun = self.words.compare_exchange(word, now.0, Child::GIVING.0);
        begun.map_err(|_| Refused::NotTaken)?;
        if now == Child::RAW {
            let bits = self.geometry.bits(child);
            (bits..bits + CHILD / 64).for_each(|word| self.words.store(word, 0));
            let descriptors = self.geometry.descriptor(child * CHILD);
            (descriptors..descriptors + CHILD).for_each(|word| self.words.store(word, 0));
        }
        // Nobody else changes the word in this state.
        self.words.store(word, Child::free(CHILD).0);
        self.give_tree(child / TREE, CHILD);
        Ok(())
    }

    /// 2 MiB are the pool's no more, if all of them are free. Those that cores have reserved are everybody's first.
    ///
    /// It may answer `false` of what is free, too, while another core takes from the same tree.
    ///
    /// Bound: a word of each core.
    pub fn remove(&self, child: usize) -> bool {
        if !self.is_all_free(child) {
            return false;
        }
        let tree = child / TREE;
        if !self.take_tree(tree, CHILD) && !self.steal(tree, CHILD) {
            return false;
        }
        let (word, free) = (self.geometry.child(child), Child::free(CHILD));
        let removed = self.words.compare_exchange(word, free.0, Child::ABSENT.0).is_ok();
        if !removed {
            self.give_tree(tree, CHILD);
        }
        removed
    }
}
