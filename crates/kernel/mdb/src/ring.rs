//! What hangs from a slot in the tree: a ring of its copies, and of the leaves with its very range.
//!
//! ```text
//! head.copies ─► first leaf ─► leaf ─► copy ─► copy ─┐      first: marked, knows the head
//!                    ▲──────────────────────────────┘      leaves before copies
//! ```
//!
//! Nearly all Mappings are of one page which is a Frame of its own, so nearly all of them are here
//! and not in the tree: they come and go in constant time, and the tree is half as large. The
//! neighbours of a member are `left` and `right`; as the last member is the one before the first,
//! copies join and leaves are told from copies without a walk.
//!
//! Only an object of rank [`Policy::HOST_RANK`] or above has leaves here: nothing else of its range
//! can lie between it and them. Other leaves are in the tree, and so are those that were there
//! before an object of their range.
//!
//! Some questions walk over the leaves of a ring (one leaf among them, the head from a leaf), so there are at
//! most [`Policy::MOST_LEAVES`]; all others of the range are in the tree, too, where they follow the head. To
//! count them in constant time, each new leaf, which goes in first, gets the number that is one above that
//! of the first until then: wherever leaves leave the ring, the number of the first is at least how many
//! there are.

use crate::forest::Home;
use crate::order::is_leaf;
use crate::slot::Ref;
use crate::{Mdb, Policy};

/// The last member of the ring of `head`, a slot in the tree.
#[inline]
fn last(head: Ref) -> Option<Ref> {
    head.copies().and_then(|first| first.left())
}

/// The last copy of `head`, a slot in the tree.
#[inline]
pub(crate) fn last_copy(head: Ref) -> Option<Ref> {
    last(head).filter(|m| !m.is_leaf_member())
}

/// The copy before `copy`, a member of a ring.
#[inline]
pub(crate) fn copy_before(copy: Ref) -> Option<Ref> {
    if copy.is_first() {
        return None;
    }
    copy.left().filter(|m| !m.is_leaf_member())
}

/// The first leaf in the ring of `head`, a slot in the tree.
#[inline]
pub(crate) fn first_leaf(head: Ref) -> Option<Ref> {
    head.copies().filter(|m| m.is_leaf_member())
}

/// The leaf after `leaf`, a member of a ring.
#[inline]
pub(crate) fn leaf_after(leaf: Ref) -> Option<Ref> {
    leaf.right().filter(|m| m.is_leaf_member() && !m.is_first())
}

/// How many leaves there are in the ring of `head` at most.
#[inline]
pub(crate) fn leaves(head: Ref) -> u64 {
    first_leaf(head).map_or(0, |first| first.leaf_number())
}

impl<P: Policy> Mdb<P> {
    /// Adds the leaf `node` to the ring of `head`, a slot in the tree, if there is room. O(1).
    #[inline]
    pub(crate) fn join_leaf(&mut self, head: Ref, node: Ref) -> bool {
        debug_assert!(!node.is_linked() && !head.is_member(), "a slot is put in once");
        match head.copies() {
            None => node.start_first_leaf(node, node, head, 1),
            Some(first) => {
                let number = if first.is_leaf_member() { first.leaf_number() + 1 } else { 1 };
                if number > P::MOST_LEAVES {
                    return false;
                }
                let last = first.left().unwrap_or(first);
                node.start_first_leaf(last, first, head, number);
                last.set_right(Some(node));
                first.set_left(Some(node));
                first.unmake_first();
            }
        }
        self.slots += 1;
        head.set_copies(Some(node));
        true
    }

    /// Adds `node` to the ring of `head`, a slot in the tree, as a copy: the last member. O(1).
    #[inline]
    fn join(&mut self, head: Ref, node: Ref) {
        debug_assert!(!node.is_linked() && !head.is_member(), "a slot is put in once");
        let leaf = is_leaf::<P>(&head.cap());
        self.slots += 1;
        let Some(first) = head.copies() else {
            node.start_member(node, node, leaf);
            node.make_first(head);
            return head.set_copies(Some(node));
        };
        let last = first.left().unwrap_or(first);
        node.start_member(last, first, leaf);
        last.set_right(Some(node));
        first.set_left(Some(node));
    }

    /// Adds `node` as a copy of `original`, in the tree or in a ring. O(1).
    #[inline]
    pub(crate) fn join_copy(&mut self, original: Ref, node: Ref) {
        if !original.is_member() {
            return self.join(original, node);
        }
        let after = original.right().unwrap_or(original);
        node.start_member(original, after, original.is_leaf_member());
        original.set_right(Some(node));
        after.set_left(Some(node));
        self.slots += 1;
    }

    /// Takes `node` out of its ring. Its own links are left as they are. O(1).
    #[inline]
    pub(crate) fn leave(&mut self, node: Ref) {
        let (Some(before), Some(after)) = (node.left(), node.right()) else { return };
        if after == node {
            if let Some(head) = node.ring_head() {
                head.set_copies(None);
            }
            return;
        }
        before.set_right(Some(after));
        after.set_left(Some(before));
        if let Some(head) = node.is_first().then(|| node.ring_head()).flatten() {
            after.make_first(head);
            head.set_copies(Some(after));
        }
    }

    /// Puts the leaves in the ring of `head`, which is about to go and has no copies, in the tree.
    pub(crate) fn dissolve(&mut self, home: Home, head: Ref) {
        while let Some(leaf) = head.copies() {
            self.leave(leaf);
            let key = crate::order::Key::of::<P>(&leaf.cap());
            let place = self.seek(home, &key);
            leaf.clear_links();
            if let crate::tree::Place::Found(other) = place {
                self.slots -= 1;
                self.join_copy(other, leaf);
            } else {
                self.attach(home, leaf, place);
            }
        }
    }

    /// Makes the neighbours of `node`, a member of a ring, point to `heir`, which has its links.
    pub(crate) fn succeed_in_ring(&mut self, node: Ref, heir: Ref) {
        if node.right() == Some(node) {
            heir.set_left(Some(heir));
            heir.set_right(Some(heir));
        } else {
            if let Some(before) = node.left() {
                before.set_right(Some(heir));
            }
            if let Some(after) = node.right() {
                after.set_left(Some(heir));
            }
        }
        if let Some(head) = node.is_first().then(|| node.ring_head()).flatten() {
            head.set_copies(Some(heir));
        }
    }
}
