//! Frames that are no memory: slots of a store, to which pages go that are to leave memory for a while.
//!
//! They are frames of trees that are closed for good, so nobody takes one for a page; whoever gives frames back gives them back in
//! the same way. A slot has a descriptor as a page has one, so how many lead to it is counted alike.

use crate::{Child, Locals, Pool, Tree, Words, TREE};

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

    /// Takes a slot of this tree, if it has a free one.
    ///
    /// Bound: the words of a tree.
    pub fn take_slot(&self, tree: usize) -> Option<usize> {
        if tree >= self.geometry.trees() || !self.take_closed(tree) {
            return None;
        }
        for child in self.geometry.children_of(tree) {
            if self.take_child(child, 1) {
                if let Some(slot) = self.take_bit(child) {
                    return Some(slot);
                }
            }
        }
        self.give_tree(tree, 1);
        None
    }

    /// Takes this slot, if it is free.
    ///
    /// Bound: a word.
    pub fn take_slot_at(&self, slot: usize) -> bool {
        let (child, tree) = (slot / crate::CHILD, slot / crate::CHILD / TREE);
        if slot >= self.geometry.frames() || !self.is_free(slot) || !self.take_closed(tree) {
            return false;
        }
        let taken = self.take_child(child, 1) && self.take_this_bit(slot);
        if !taken {
            self.give_tree(tree, 1);
        }
        taken
    }

    /// Is a frame a slot?
    pub fn is_slot(&self, frame: usize) -> bool {
        frame < self.geometry.frames() && self.tree(frame / crate::CHILD / TREE).is_closed()
    }

    /// Frames of closed trees that are free. Bound: a word of each tree.
    pub fn free_slots(&self) -> usize {
        let trees = (0..self.geometry.trees()).map(|tree| self.tree(tree));
        trees.filter(|tree: &Tree| tree.is_closed()).map(Tree::count).sum()
    }
}
