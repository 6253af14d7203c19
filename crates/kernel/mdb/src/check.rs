//! The checker: names the invariant that broke.

use core::cmp::Ordering;
use core::ptr::NonNull;

use crate::order::{are_siblings, is_ancestor, is_leaf, span, Key};
use crate::slot::{page_end, Ref, Slot};
use crate::tree::{ends_of, leftmost, next};
use crate::{Mdb, Policy, MAX_TREES};

/// A broken invariant, and the slot where it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A slot in the database holds no capability.
    Null(NonNull<Slot>),
    /// A slot is reachable but not marked as in the database, or in the tree but marked as a copy.
    Mark(NonNull<Slot>),
    /// A slot hangs below another that it does not name as its parent.
    Parent(NonNull<Slot>),
    /// A slot is in the tree of another type, or of another piece of memory.
    Tree(NonNull<Slot>),
    /// Ranks differ by something else than 1 or 2 below this slot, or a childless slot has not 0.
    Balance(NonNull<Slot>),
    /// The noted ends of a subtree are not those of its slots.
    Ends(NonNull<Slot>),
    /// A slot does not come before the one that follows it.
    Order(NonNull<Slot>),
    /// A slot in a list of copies does not name the one before it.
    CopyLink(NonNull<Slot>),
    /// A slot in a list of copies holds something else than a copy.
    CopyKey(NonNull<Slot>),
    /// The leaves of a ring are more than the number of the first says, or are allowed.
    LeafNumber(NonNull<Slot>),
    /// The range of a capability does not begin at its base.
    Range(NonNull<Slot>),
    /// Two objects overlap, and neither is an ancestor of the other.
    Overlap(NonNull<Slot>, NonNull<Slot>),
    /// The directory notes other ends than those of its trees.
    Directory,
    /// The number of slots is not what was put in less what was taken out.
    Count { counted: usize, noted: usize },
}

impl<P: Policy> Mdb<P> {
    /// Checks every invariant. O(n log n), and recursion as deep as the tree: for tests and debug
    /// builds.
    pub fn check(&self) -> Result<(), Violation> {
        let mut counted = 0;
        for tree in 0..MAX_TREES {
            for home in self.trees(tree) {
                let Some(root) = self.root(home) else { continue };
                check_subtree::<P>(root, None, tree)?;
                let mut node = Some(leftmost(root));
                while let Some(n) = node {
                    if self.home(&n.cap()) != home {
                        return Err(Violation::Tree(n.ptr()));
                    }
                    counted += check_copies::<P>(n)?;
                    self.check_order(n)?;
                    node = next(n);
                }
            }
        }
        if !self.is_directory_right() {
            return Err(Violation::Directory);
        }
        if counted != self.slots {
            return Err(Violation::Count { counted, noted: self.slots });
        }
        Ok(())
    }

    /// `node` against the one after it and, for an object, against the last object before it that it
    /// overlaps; if that is an ancestor throughout, all overlaps are nested.
    fn check_order(&self, node: Ref) -> Result<(), Violation> {
        let cap = node.cap();
        if self
            .next_node(node, u64::MAX)
            .is_some_and(|n| Key::of::<P>(&cap).cmp::<P>(&n.cap()) != Ordering::Less)
        {
            return Err(Violation::Order(node.ptr()));
        }
        if is_leaf::<P>(&cap) {
            return Ok(());
        }
        let target = page_end(cap.base.saturating_add(1));
        let mut before = self.object_before(node, target);
        while let Some(b) = before.filter(|b| span::<P>(&b.cap()).1 <= cap.base) {
            before = self.object_before(b, target);
        }
        match before {
            // What an object overlaps, its siblings overlap, and they have been looked at.
            Some(b) if are_siblings::<P>(&b.cap(), &cap) => Ok(()),
            Some(b) if !is_ancestor::<P>(&b.cap(), &cap) => {
                Err(Violation::Overlap(b.ptr(), node.ptr()))
            }
            _ => Ok(()),
        }
    }
}

/// Links, marks, ranks and ends below `node`; returns its rank.
fn check_subtree<P: Policy>(node: Ref, parent: Option<Ref>, tree: usize) -> Result<i32, Violation> {
    let (slot, cap) = (node.ptr(), node.cap());
    if cap.is_null() {
        return Err(Violation::Null(slot));
    }
    if !node.is_linked() || node.is_member() {
        return Err(Violation::Mark(slot));
    }
    if node.parent() != parent {
        return Err(Violation::Parent(slot));
    }
    if usize::from(P::tree(cap.ty)) % MAX_TREES != tree {
        return Err(Violation::Tree(slot));
    }
    if P::range(&cap).0 != cap.base {
        return Err(Violation::Range(slot));
    }
    let mut ranks = [-1; 2];
    for (rank, child) in ranks.iter_mut().zip([node.left(), node.right()]) {
        if let Some(child) = child {
            *rank = check_subtree::<P>(child, Some(node), tree)?;
        }
    }
    let parity = i32::from(node.parity());
    let [left, right] = ranks.map(|r| if r.rem_euclid(2) == parity { r + 2 } else { r + 1 });
    if left != right || (ranks == [-1; 2] && left != 0) {
        return Err(Violation::Balance(slot));
    }
    if node.ends() != ends_of::<P>(node) {
        return Err(Violation::Ends(slot));
    }
    Ok(left)
}

/// The ring of `head`; returns how many slots there are with it.
fn check_copies<P: Policy>(head: Ref) -> Result<usize, Violation> {
    let (cap, key) = (head.cap(), Key::of::<P>(&head.cap()));
    let Some(first) = head.copies() else { return Ok(1) };
    if !first.is_first() || first.ring_head() != Some(head) {
        return Err(Violation::CopyLink(first.ptr()));
    }
    let (mut at, mut count, mut leaves) = (first, 1, true);
    let hosts = !is_leaf::<P>(&cap);
    let mut number = P::MOST_LEAVES + 1;
    loop {
        if !at.is_linked() || !at.is_member() || at.is_first() != (at == first) {
            return Err(Violation::Mark(at.ptr()));
        }
        leaves &= at.is_leaf_member();
        let held = at.cap();
        let fits = match leaves {
            true => is_leaf::<P>(&held) && P::range(&held) == P::range(&cap),
            false => !at.is_leaf_member() && key.cmp::<P>(&held) == Ordering::Equal,
        };
        if held.is_null() || !fits {
            return Err(Violation::CopyKey(at.ptr()));
        }
        if hosts && leaves && (at.leaf_number() >= number || at.leaf_number() == 0) {
            return Err(Violation::LeafNumber(at.ptr()));
        }
        number = at.leaf_number();
        count += 1;
        let Some(next) = at.right().filter(|next| next.left() == Some(at)) else {
            return Err(Violation::CopyLink(at.ptr()));
        };
        if next == first {
            return Ok(count);
        }
        at = next;
    }
}
