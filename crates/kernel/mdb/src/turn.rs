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

use core::cell::Cell;
use core::ptr::NonNull;

use crate::order::{is_leaf, Extent};
use crate::slot::{Ref, Slot};
use crate::tree::next;
use crate::{ring, Mdb, Policy};

/// What is known of a node in a tree, an object.
pub(crate) struct Turn {
    node: Cell<Option<Ref>>,
    /// Its nearest ancestor, if it lies in this one.
    above: Cell<Option<Ref>>,
    /// What follows, if that was asked: in the same tree, and behind it.
    next: Cell<Option<Ref>>,
}

impl Turn {
    /// Nothing.
    pub const fn new() -> Self {
        Self { node: Cell::new(None), above: Cell::new(None), next: Cell::new(None) }
    }

    /// A node comes, or another one goes.
    #[inline(always)]
    pub fn forget(&self) {
        self.node.set(None);
    }

    /// `node` is gone: what was said of it holds for the next.
    #[inline(always)]
    pub fn pass(&self, node: Ref) {
        let next = if self.node.get() == Some(node) { self.next.take() } else { None };
        self.node.set(next);
    }
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
        let turn = &self.turn;
        let known = if turn.node.get() == Some(node) { turn.above.get() } else { None };
        let known = known.filter(|above| Extent::of::<P>(&above.cap()).end >= end);
        let above = match known {
            Some(above) => above,
            None => {
                let above = self.nearest_object(node)?;
                turn.node.set(Some(node));
                turn.above.set(Some(above));
                above
            }
        };
        turn.next.set(next);
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
}
