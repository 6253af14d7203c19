//! Nodes that have become small or empty.

use super::{Branch, Inner, Item, Leaf, Place, Ranges, FEW, NONE, ROOMY};

impl<T: Item> Ranges<T> {
    /// Takes an empty leaf out. Answers the place of what was behind it.
    pub(super) fn drop_leaf(&mut self, leaf: u32) -> Place {
        let Leaf { parent, before, behind, .. } = self.leaves.remove(leaf);
        self.link(before, behind);
        self.drop_branch(parent, leaf);
        match behind {
            NONE => self.end(),
            leaf => Place { leaf, index: 0 },
        }
    }

    fn link(&mut self, before: u32, behind: u32) {
        if let Some(leaf) = self.leaves.get_mut(before) {
            leaf.behind = behind;
        }
        if let Some(leaf) = self.leaves.get_mut(behind) {
            leaf.before = before;
        }
    }

    /// Merges a leaf that has few items with a neighbour below the same inner node, if they fit into
    /// one. Answers where what was at `place` is now.
    pub(super) fn merge_leaf(&mut self, place: Place) -> Place {
        let Some(&Leaf { parent, before, behind, .. }) = self.leaves.get(place.leaf) else {
            return place;
        };
        let count = self.items(place.leaf).len();
        let fits = |leaf: u32| {
            self.leaves.get(leaf).is_some_and(|leaf| leaf.parent == parent)
                && self.items(leaf).len() + count <= ROOMY
        };
        let (fits_behind, fits_before) = (fits(behind), fits(before));
        if fits_behind {
            self.absorb_leaf(place.leaf, behind);
            return self.settled(place);
        }
        if fits_before {
            let index = self.items(before).len() as u32 + place.index;
            self.absorb_leaf(before, place.leaf);
            return self.settled(Place { leaf: before, index });
        }
        self.settled(place)
    }

    /// Moves all items of `right`, the next leaf, to `left`.
    fn absorb_leaf(&mut self, left: u32, right: u32) {
        let Leaf { items, parent, behind, .. } = self.leaves.remove(right);
        if let Some(leaf) = self.leaves.get_mut(left) {
            leaf.items.extend_from_slice(&items);
        }
        self.link(left, behind);
        let gap = self.branch_of(parent, right).map_or(u32::MAX, |(at, own)| own.branches[at].gap);
        self.raise(left, gap);
        self.drop_branch(parent, right);
    }

    /// Takes the branch to a node out that is there no more.
    fn drop_branch(&mut self, inner: u32, child: u32) {
        let Some((index, own)) = self.branch_of(inner, child) else { return };
        own.branches.remove(index);
        let (left, parent) = (own.branches.len(), own.parent);
        if inner == self.root {
            self.drop_roots();
        } else if left == 0 {
            self.inners.remove(inner);
            self.drop_branch(parent, inner);
        } else if left < FEW {
            self.merge_inner(inner, parent);
        }
    }

    /// As long as the root has a single child, that is the root.
    fn drop_roots(&mut self) {
        while let &[Branch { child, .. }] = self.branches(self.root) {
            let above_leaves = self.height == 1;
            self.inners.remove(self.root);
            (self.root, self.height) = (child, self.height - 1);
            self.set_parent(above_leaves, child, NONE);
            if above_leaves {
                return;
            }
        }
    }

    fn merge_inner(&mut self, inner: u32, parent: u32) {
        let Some((index, above)) = self.branch_of(parent, inner) else { return };
        let child = |index: usize| above.branches.get(index).map(|branch| branch.child);
        let (before, behind) = (index.checked_sub(1).and_then(child), child(index + 1));
        let count = self.branches(inner).len();
        let fits = |other: &u32| self.branches(*other).len() + count <= ROOMY;
        if let Some(behind) = behind.filter(fits) {
            self.absorb_inner(inner, behind, parent);
        } else if let Some(before) = before.filter(fits) {
            self.absorb_inner(before, inner, parent);
        }
    }

    /// Moves all branches of `right`, the next inner node below `parent`, to `left`.
    fn absorb_inner(&mut self, left: u32, right: u32, parent: u32) {
        let Inner { branches, above_leaves, .. } = self.inners.remove(right);
        let of_right = self.branch_of(parent, right).map(|(at, above)| above.branches[at]);
        for branch in &branches {
            self.set_parent(above_leaves, branch.child, left);
        }
        if let Some(own) = self.inners.get_mut(left) {
            own.branches.extend_from_slice(&branches);
        }
        if let (Some((at, above)), Some(of_right)) = (self.branch_of(parent, left), of_right) {
            above.branches[at].gap = above.branches[at].gap.max(of_right.gap);
        }
        self.drop_branch(parent, right);
    }
}
