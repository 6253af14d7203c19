//! Making room: full nodes are divided. What can fail is done before anything changes.

use super::{Branch, Inner, Item, Leaf, Place, Ranges, FAN, LEAF, NONE};
use crate::NoMemory;
use alloc::vec::Vec;

impl<T: Item> Ranges<T> {
    /// What is to go to the start of a leaf goes to the end of that in front if the item entered last
    /// is there, or if it is the only one with room: so a program that goes on in one direction fills
    /// its leaves.
    pub(super) fn after_the_last(&mut self, place: Place) -> Result<Place, NoMemory> {
        let before = self.leaves.get(place.leaf).map_or(NONE, |leaf| leaf.before);
        let (items, full) = (self.items(before), self.items(place.leaf).len() == LEAF);
        let follows = items.last().is_some_and(|item| item.start() == self.entered);
        if !(full || follows) || items.is_empty() || items.len() == LEAF {
            return Ok(place);
        }
        let index = items.len();
        if let Some(leaf) = self.leaves.get_mut(before) {
            leaf.items.try_reserve_exact(LEAF - index)?;
        }
        self.tighten_key(place.leaf);
        Ok(Place { leaf: before, index: index as u32 })
    }

    /// Makes room at a place in a full leaf. Answers where the item is to go now.
    pub(super) fn make_room(&mut self, place: Place, item: &T) -> Result<Place, NoMemory> {
        let full = place.leaf;
        let (at, upward) = self.split_point(place, item);
        let right = self.split_leaf(full, at)?;
        let (index, end) = (place.index as usize, if upward && at < LEAF { at + 1 } else { at });
        Ok(match index < end {
            true => Place { leaf: full, ..place },
            false => Place { leaf: right, index: (index - at) as u32 },
        })
    }

    /// Makes the key of a leaf the start of its first item, so that what is in front of that has the
    /// keys of the leaf in front.
    pub(super) fn tighten_key(&mut self, leaf: u32) {
        let Some(key) = self.items(leaf).first().map(Item::start) else { return };
        self.climb(leaf, |inner, index| {
            inner.branches[index].key = key;
            index == 0
        });
    }

    /// Where to divide a full leaf: in the middle, or beside the item that was entered last if the new
    /// one is its neighbour. A program that goes on in one direction leaves full leaves behind. Answers
    /// also whether the new one follows upward.
    fn split_point(&self, place: Place, item: &T) -> (usize, bool) {
        let items = self.items(place.leaf);
        let index = place.index as usize;
        let is_last = |at: usize| items.get(at).is_some_and(|item| item.start() == self.entered);
        let upward = index > 0 && is_last(index - 1) && self.entered < item.start();
        let downward = is_last(index) && self.entered > item.start();
        match (upward || downward) && index > 0 {
            true => (index, upward),
            false => (LEAF / 2, false),
        }
    }

    /// Moves the items of a leaf from `at` on to a new leaf behind it.
    pub(super) fn split_leaf(&mut self, leaf: u32, at: usize) -> Result<u32, NoMemory> {
        let mut items = Vec::new();
        items.try_reserve_exact(LEAF)?;
        let Some(&Leaf { items: ref all, parent, behind, .. }) = self.leaves.get(leaf) else {
            return Err(NoMemory);
        };
        let moved = all.get(at..).unwrap_or_default();
        // If nothing moves, what comes behind the last item is the first of the new leaf.
        let first = moved.first().map(Item::start);
        let key = first.or_else(|| all.last().map(Item::end)).unwrap_or(0);
        items.extend_from_slice(moved);
        let right = self.leaves.add(Leaf { items, parent, before: leaf, behind })?;
        if let Err(error) = self.add_branch((true, leaf), key, right) {
            self.leaves.remove(right);
            return Err(error);
        }
        if let Some(left) = self.leaves.get_mut(leaf) {
            left.items.truncate(at);
            left.behind = right;
        }
        if let Some(next) = self.leaves.get_mut(behind) {
            next.before = right;
        }
        Ok(right)
    }

    fn take_branches(&mut self, inner: u32) -> Vec<Branch> {
        self.inners
            .get_mut(inner)
            .map(|inner| core::mem::take(&mut inner.branches))
            .unwrap_or_default()
    }

    /// Enters a branch to the new node `right` behind that to `left`, and with the same bound.
    fn add_branch(
        &mut self,
        (above_leaves, left): (bool, u32),
        key: u64,
        right: u32,
    ) -> Result<(), NoMemory> {
        let mut parent = self.parent(above_leaves, left);
        if parent == NONE {
            self.add_root(above_leaves)?;
            parent = self.parent(above_leaves, left);
        }
        if self.branches(parent).len() == FAN {
            self.split_inner(parent)?;
            parent = self.parent(above_leaves, left);
        }
        if let Some((index, inner)) = self.branch_of(parent, left) {
            let gap = inner.branches[index].gap;
            inner.branches.insert(index + 1, Branch { key, child: right, gap });
        }
        self.set_parent(above_leaves, right, parent);
        Ok(())
    }

    fn new_inner(&mut self, above_leaves: bool, parent: u32) -> Result<u32, NoMemory> {
        let mut branches = Vec::new();
        branches.try_reserve_exact(FAN)?;
        self.inners.add(Inner { branches, parent, above_leaves })
    }

    /// Puts a root above the root.
    fn add_root(&mut self, above_leaves: bool) -> Result<(), NoMemory> {
        let (old, root) = (self.root, self.new_inner(above_leaves, NONE)?);
        if let Some(inner) = self.inners.get_mut(root) {
            inner.branches.push(Branch { key: 0, child: old, gap: u32::MAX });
        }
        self.set_parent(above_leaves, old, root);
        (self.root, self.height) = (root, self.height + 1);
        Ok(())
    }

    /// Moves half of a full inner node to a new one behind it.
    fn split_inner(&mut self, inner: u32) -> Result<(), NoMemory> {
        const HALF: usize = FAN / 2;
        let Some(&Inner { above_leaves, .. }) = self.inners.get(inner) else {
            return Err(NoMemory);
        };
        let right = self.new_inner(above_leaves, NONE)?;
        let key = self.branches(inner).get(HALF).map_or(0, |branch| branch.key);
        if let Err(error) = self.add_branch((false, inner), key, right) {
            self.inners.remove(right);
            return Err(error);
        }
        let mut branches = self.take_branches(inner);
        for branch in &branches[HALF..] {
            self.set_parent(above_leaves, branch.child, right);
        }
        if let Some(new) = self.inners.get_mut(right) {
            new.branches.extend_from_slice(&branches[HALF..]);
        }
        branches.truncate(HALF);
        if let Some(left) = self.inners.get_mut(inner) {
            left.branches = branches;
        }
        Ok(())
    }
}
