//! Objects that go one after the other, in their order: what was found out about one is known of the next.
//!
//! Where the memory of an object goes depends on its nearest ancestor, and to find that is the longest part of deleting a
//! page. But of two nodes side by side in the order the second has no other ancestors than the first, if it lies behind that:
//! what contains it and comes before it comes before the first, too, and reaches into that or beyond, so it
//! contains that, as objects nest.
//!
//! ```text
//! home ├──────────────────────────────┤         asked about a:  its ancestor is the home, b follows
//! objects   a ├──┤  b ├──┤  c ├──┤            a goes:         b's ancestor is the home
//! ```
//!
//! The note of this is of one node. It is gone as soon as a node comes into a tree or goes from one, but for the one that it
//! is of; what joins or leaves a ring is no node.

use core::ptr::NonNull;

use crate::order::{is_leaf, Extent};
use crate::slot::{Ref, Slot};
use crate::tree::next;
use crate::{ring, Mdb, Policy};

/// What is known of a node in a tree, an object.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    node: Ref,
    /// Its nearest ancestor, if it lies in this one.
    above: Ref,
    /// What follows, if that was asked: in the same tree, and behind it.
    next: Option<Ref>,
}

impl<P: Policy> Mdb<P> {
    /// The nearest ancestor of an object of which there is one capability, and nothing is made but the leaves in its
    /// [ring](Mdb::leaf); `None` also if there is none, or that is not seen at once. O(log n), and O(1) amortised if
    /// objects are asked about, and then removed, in their order.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline(always)]
    pub unsafe fn ancestor_of_childless(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let node = unsafe { Ref::new(slot) };
        let cap = node.cap();
        if node.is_member() || is_leaf::<P>(&cap) || ring::last_copy(node).is_some() {
            return None;
        }
        let end = Extent::of::<P>(&cap).end;
        let next = next(node);
        match next {
            Some(next) if next.cap().base < end => return None,
            Some(_) => {}
            None if self.next_node(node, end).is_some() => return None,
            None => {}
        }
        let known = self.turn.get().filter(|turn| turn.node == node);
        let known = known.filter(|turn| Extent::of::<P>(&turn.above.cap()).end >= end);
        let above = match known {
            Some(turn) => turn.above,
            None => self.nearest_object(node)?,
        };
        self.turn.set(Some(Turn { node, above, next }));
        Some(above.ptr())
    }

    /// The first leaf in the ring of an object that is in a tree. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline(always)]
    pub unsafe fn leaf(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let node = unsafe { Ref::new(slot) };
        if node.is_member() {
            return None;
        }
        ring::first_leaf(node).map(Ref::ptr)
    }

    /// The node that `turn` is of is gone: what was said of it holds for the next.
    #[inline(always)]
    pub(crate) fn pass_turn(&self, gone: Ref, turn: Option<Turn>) {
        let turn = turn.filter(|turn| turn.node == gone && turn.above != gone);
        self.turn.set(turn.and_then(|Turn { above, next, .. }| {
            Some(Turn { node: next?, above, next: None })
        }));
    }
}
