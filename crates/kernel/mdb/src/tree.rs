//! The tree: a weak AVL tree with parent pointers, augmented with the highest ends.
//!
//! Rank-balanced trees after Haeupler, Sen and Tarjan, *Rank-Balanced Trees*, ACM TALG 11(4), 2015:
//! the height is that of an AVL tree while nothing is deleted, at most two rotations repair an
//! insertion or a deletion, and the steps upwards are O(1) amortised. The difference of rank between
//! a node and its parent is 1 or 2, a missing node has rank −1, a node without children has rank 0;
//! so one bit of parity per node tells all differences apart. The augmentation is that of G12 §3.1.2
//! and G18 §4.5.3.

use core::cmp::Ordering;

use crate::forest::Home;
use crate::order::{is_leaf, own_ends, span, Key};
use crate::slot::{page_end, Ends, Ref};
use crate::{Mdb, Policy, RawCap};

/// Where a position is, or would be.
pub(crate) enum Place {
    Found(Ref),
    Root,
    /// A free child, the right one if `right`.
    Below {
        parent: Ref,
        right: bool,
    },
}

/// Which ends a search looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Capabilities of rank below [`Policy::LEAF_RANK`].
    Objects,
    /// Capabilities of rank [`Policy::LEAF_RANK`] and above: Mappings.
    Leaves,
    /// Both.
    All,
}

/// A class known at compile time, so that a search decodes only the end that it needs.
pub(crate) trait Reach {
    /// The one of two ends that matters, in pages.
    fn of(ends: &Ends) -> u64;

    /// The highest end of the class in the subtree of `node`, in pages.
    fn subtree(node: Ref) -> u64;

    /// The end of `node` itself, in pages, or 0 if it is of another class.
    fn own<P: Policy>(node: Ref) -> u64;
}

pub(crate) enum Objects {}
pub(crate) enum Leaves {}
pub(crate) enum All {}

impl Reach for Objects {
    #[inline]
    fn of(ends: &Ends) -> u64 {
        ends.object
    }

    #[inline]
    fn subtree(node: Ref) -> u64 {
        node.object_end()
    }

    #[inline]
    fn own<P: Policy>(node: Ref) -> u64 {
        own_ends::<P>(&node.cap()).object
    }
}

impl Reach for Leaves {
    #[inline]
    fn of(ends: &Ends) -> u64 {
        ends.leaf
    }

    #[inline]
    fn subtree(node: Ref) -> u64 {
        node.leaf_end()
    }

    #[inline]
    fn own<P: Policy>(node: Ref) -> u64 {
        own_ends::<P>(&node.cap()).leaf
    }
}

impl Reach for All {
    #[inline]
    fn of(ends: &Ends) -> u64 {
        ends.object.max(ends.leaf)
    }

    #[inline]
    fn subtree(node: Ref) -> u64 {
        node.object_end().max(node.leaf_end())
    }

    #[inline]
    fn own<P: Policy>(node: Ref) -> u64 {
        page_end(span::<P>(&node.cap()).1)
    }
}

#[inline]
fn reaches<R: Reach>(subtree: Option<Ref>, end: u64) -> Option<Ref> {
    subtree.filter(|&n| R::subtree(n) >= end)
}

/// The parity of a node; a missing one has rank −1, which is odd.
#[inline]
fn parity(node: Option<Ref>) -> bool {
    node.is_none_or(|n| n.parity())
}

#[inline]
fn is_right(node: Ref, parent: Ref) -> bool {
    parent.right() == Some(node)
}

pub(crate) fn leftmost(mut node: Ref) -> Ref {
    while let Some(left) = node.left() {
        node = left;
    }
    node
}

/// The next node in the order of its tree. O(log n), O(1) amortised over a walk.
pub(crate) fn next(node: Ref) -> Option<Ref> {
    match node.right() {
        Some(right) => Some(leftmost(right)),
        None => first_parent(node, true),
    }
}

/// The node before in the order of its tree. O(log n), O(1) amortised over a walk.
pub(crate) fn prev(node: Ref) -> Option<Ref> {
    let Some(mut last) = node.left() else { return first_parent(node, false) };
    while let Some(right) = last.right() {
        last = right;
    }
    Some(last)
}

/// The place between two neighbours in the order: one of them has no child on that side.
#[inline]
pub(crate) fn between(before: Option<Ref>, after: Option<Ref>) -> Place {
    match (before, after) {
        (Some(before), _) if before.right().is_none() => {
            Place::Below { parent: before, right: true }
        }
        (_, Some(after)) => Place::Below { parent: after, right: false },
        _ => Place::Root,
    }
}

/// The nearest ancestor in the tree that comes after `node` (`after`), or before it.
#[inline]
fn first_parent(node: Ref, after: bool) -> Option<Ref> {
    let mut child = node;
    loop {
        let parent = child.parent()?;
        if is_right(child, parent) != after {
            return Some(parent);
        }
        child = parent;
    }
}

impl Class {
    /// Which slots in the tree to look at: a ring has leaves wherever there are objects.
    pub(crate) fn of_nodes(self) -> Class {
        match self {
            Class::Objects => Class::Objects,
            _ => Class::All,
        }
    }

    /// Whether a capability is of this class.
    pub(crate) fn has<P: Policy>(self, cap: &RawCap) -> bool {
        self == Class::All || is_leaf::<P>(cap) == (self == Class::Leaves)
    }
}

/// The first node after `node` in its tree whose end, in pages, is `end` or more. O(log n).
pub(crate) fn next_reaching<P: Policy, R: Reach>(node: Ref, end: u64) -> Option<Ref> {
    let mut at = node;
    loop {
        if let Some(subtree) = reaches::<R>(at.right(), end) {
            return first_reaching::<P, R>(subtree, end);
        }
        at = first_parent(at, true)?;
        if R::subtree(at) >= end && R::own::<P>(at) >= end {
            return Some(at);
        }
    }
}

/// The first such node below `root`. O(log n).
pub(crate) fn first_reaching<P: Policy, R: Reach>(root: Ref, end: u64) -> Option<Ref> {
    let mut at = reaches::<R>(Some(root), end)?;
    loop {
        if let Some(left) = reaches::<R>(at.left(), end) {
            at = left;
        } else if R::own::<P>(at) >= end {
            return Some(at);
        } else {
            at = at.right()?;
        }
    }
}

/// The last object before `node` in its tree whose end, in pages, is `end` or more. O(log n).
pub(crate) fn prev_object<P: Policy>(node: Ref, end: u64) -> Option<Ref> {
    let mut at = node;
    loop {
        if let Some(subtree) = reaches::<Objects>(at.left(), end) {
            return last_object::<P>(subtree, end);
        }
        at = first_parent(at, false)?;
        if Objects::subtree(at) >= end && Objects::own::<P>(at) >= end {
            return Some(at);
        }
    }
}

/// The last such object below `root`. O(log n).
pub(crate) fn last_object<P: Policy>(root: Ref, end: u64) -> Option<Ref> {
    let mut at = root;
    loop {
        if let Some(right) = reaches::<Objects>(at.right(), end) {
            at = right;
        } else if Objects::own::<P>(at) >= end {
            return Some(at);
        } else {
            at = at.left()?;
        }
    }
}

/// What the ends of `node` must be, from its own range and its children.
#[inline(always)]
pub(crate) fn ends_of<P: Policy>(node: Ref) -> Ends {
    let mut ends = own_ends::<P>(&node.cap());
    if let Some(left) = node.left() {
        ends = ends.max(left.ends());
    }
    if let Some(right) = node.right() {
        ends = ends.max(right.ends());
    }
    ends
}

/// Corrects the ends from `node` upwards, where a node with the ends `lost` is gone, until one is
/// right already or `stop` is reached; returns whether that of the root changed. One of the two ends
/// lost is 0, and the other kind needs no correction.
fn refresh_up<P: Policy>(node: Option<Ref>, stop: Option<Ref>, lost: Ends) -> bool {
    let mut at = node;
    while let Some(n) = at.filter(|_| at != stop) {
        let corrected = match lost.leaf {
            0 => refresh_object_end::<P>(n, lost.object),
            leaf => n.leaf_end() <= leaf && refresh_ends::<P>(n),
        };
        if !corrected {
            return false;
        }
        at = n.parent();
    }
    at.is_none()
}

/// Corrects the object end of `node`, if one of `lost` may have been the highest; returns whether it
/// changed.
#[inline]
fn refresh_object_end<P: Policy>(node: Ref, lost: u64) -> bool {
    let noted = node.object_end();
    if noted > lost {
        return false;
    }
    let below = |child: Option<Ref>| child.map_or(0, |c| c.object_end());
    let end = Objects::own::<P>(node).max(below(node.left())).max(below(node.right()));
    node.set_object_end(end);
    end != noted
}

fn refresh_ends<P: Policy>(node: Ref) -> bool {
    let ends = ends_of::<P>(node);
    let changed = ends != node.ends();
    node.set_ends(ends);
    changed
}

/// Raises the ends from `node` upwards to `own`, the ends of a new node below it. One of the two is
/// 0, and the loop for the other reads nothing else. Returns whether that of the root changed.
fn raise_up(node: Option<Ref>, own: Ends) -> bool {
    let mut at = node;
    if own.leaf == 0 {
        while let Some(n) = at.filter(|n| n.object_end() < own.object) {
            n.set_object_end(own.object);
            at = n.parent();
        }
    } else {
        while let Some(n) = at.filter(|n| n.leaf_end() < own.leaf) {
            n.set_ends(Ends { object: n.object_end(), leaf: own.leaf });
            at = n.parent();
        }
    }
    at.is_none()
}

impl<P: Policy> Mdb<P> {
    /// Looks for `key` from the root. O(log n).
    pub(crate) fn seek(&self, home: Home, key: &Key) -> Place {
        match self.root(home) {
            Some(root) => Self::descend(root, key),
            None => Place::Root,
        }
    }

    fn descend(from: Ref, key: &Key) -> Place {
        let mut at = from;
        loop {
            let Some(after) = key.is_after::<P>(&at.cap()) else { return Place::Found(at) };
            match at.child(after) {
                Some(child) => at = child,
                None => return Place::Below { parent: at, right: after },
            }
        }
    }

    /// Looks for `key` from a node near it: up as far as the order asks, then down.
    pub(crate) fn seek_near(near: Ref, key: &Key) -> Place {
        let after = match key.cmp::<P>(&near.cap()) {
            Ordering::Equal => return Place::Found(near),
            other => other == Ordering::Greater,
        };
        let mut from = near;
        while let Some(bound) = first_parent(from, after) {
            match key.cmp::<P>(&bound.cap()) {
                Ordering::Equal => return Place::Found(bound),
                // Beyond this bound as well: what lies between is out of the question.
                Ordering::Greater if after => from = bound,
                Ordering::Less if !after => from = bound,
                _ => break,
            }
        }
        // Between `from` and the bound there is only that subtree of `from`.
        match from.child(after) {
            Some(subtree) => Self::descend(subtree, key),
            None => Place::Below { parent: from, right: after },
        }
    }

    /// The last node of a tree at `key` or before it.
    pub(crate) fn floor(&self, home: Home, key: &Key) -> Option<Ref> {
        let (mut at, mut best) = (self.root(home), None);
        while let Some(n) = at {
            let Some(after) = key.is_after::<P>(&n.cap()) else { return at };
            best = if after { at } else { best };
            at = n.child(after);
        }
        best
    }

    /// The first node of a tree at `key` or after it.
    pub(crate) fn ceiling_in(&self, home: Home, key: &Key) -> Option<Ref> {
        let (mut at, mut best) = (self.root(home), None);
        while let Some(n) = at {
            let Some(after) = key.is_after::<P>(&n.cap()) else { return at };
            best = if after { best } else { at };
            at = n.child(after);
        }
        best
    }

    /// Makes whatever pointed at `old` from above point at `new`.
    #[inline]
    pub(crate) fn relink(&mut self, home: Home, parent: Option<Ref>, old: Ref, new: Option<Ref>) {
        match parent {
            None => self.set_root(home, new),
            Some(p) => p.set_child(is_right(old, p), new),
        }
    }

    /// Turns the edge between `node` and its parent `top` around.
    fn rotate(&mut self, home: Home, node: Ref, top: Ref) {
        let above = top.parent();
        let right = is_right(node, top);
        let middle = node.child(!right);
        top.set_child(right, middle);
        node.set_child(!right, Some(top));
        if let Some(middle) = middle {
            middle.set_parent(Some(top));
        }
        self.relink(home, above, top, Some(node));
        node.set_parent(above);
        top.set_parent(Some(node));
        node.set_ends(top.ends());
        top.set_ends(ends_of::<P>(top));
    }

    /// Puts `node` at a free place. O(1) amortised, O(log n) at worst.
    pub(crate) fn attach(&mut self, home: Home, node: Ref, place: Place) {
        let own = own_ends::<P>(&node.cap());
        let parent = match place {
            Place::Below { parent, right } => {
                parent.set_child(right, Some(node));
                Some(parent)
            }
            Place::Root | Place::Found(_) => {
                self.set_root(home, Some(node));
                None
            }
        };
        node.start_node(parent, own);
        self.forget_outer(home, own.object);
        self.turn.forget();
        if raise_up(parent, own) {
            self.raise_directory(home, own);
        }
        self.repair_insert(home, node);
    }

    /// `node` may have the rank of its parent; moves that upwards or ends it with rotations.
    fn repair_insert(&mut self, home: Home, node: Ref) {
        let mut node = node;
        while let Some(p) = node.parent().filter(|p| p.parity() == node.parity()) {
            let right = is_right(node, p);
            let sibling = p.child(!right);
            if parity(sibling) != p.parity() {
                p.flip();
                node = p;
                continue;
            }
            let inner = node.child(!right);
            match inner {
                Some(inner) if inner.parity() != node.parity() => {
                    self.rotate(home, inner, node);
                    self.rotate(home, inner, p);
                    inner.flip();
                    node.flip();
                }
                _ => self.rotate(home, node, p),
            }
            p.flip();
            return;
        }
    }

    /// Takes `node` out of the tree. Its own links are left as they are.
    pub(crate) fn detach(&mut self, home: Home, node: Ref) {
        self.forget_outer_node(node);
        let parent = node.parent();
        let (child, above) = match (node.left(), node.right()) {
            (Some(left), Some(right)) => self.swap_out(home, node, left, right),
            (child, None) | (None, child) => {
                self.relink(home, parent, node, child);
                if let Some(child) = child {
                    child.set_parent(parent);
                }
                if refresh_up::<P>(parent, None, own_ends::<P>(&node.cap())) {
                    self.refresh_directory(home);
                }
                (child, parent)
            }
        };
        if let Some(above) = above {
            self.repair_remove(home, child, above);
        }
    }

    /// Puts the successor of `node` in its place; returns the hole that the successor leaves.
    fn swap_out(
        &mut self,
        home: Home,
        node: Ref,
        left: Ref,
        right: Ref,
    ) -> (Option<Ref>, Option<Ref>) {
        let successor = leftmost(right);
        let child = successor.right();
        let mut above = successor;
        if successor != right {
            // The successor is not `right` itself, so it is the left child of a node below `node`.
            above = successor.parent().unwrap_or(right);
            above.set_left(child);
            if let Some(child) = child {
                child.set_parent(Some(above));
            }
            successor.set_right(Some(right));
            right.set_parent(Some(successor));
        }
        successor.set_left(Some(left));
        left.set_parent(Some(successor));
        self.relink(home, node.parent(), node, Some(successor));
        successor.take_place(&node);
        let (moved, gone) = (own_ends::<P>(&successor.cap()), own_ends::<P>(&node.cap()));
        refresh_up::<P>(Some(above), Some(successor), moved);
        if refresh_up::<P>(Some(successor), None, gone) {
            self.refresh_directory(home);
        }
        (child, Some(above))
    }

    /// `node` (perhaps missing) below `parent` has lost one rank: repairs a difference of 3, or a
    /// parent of rank 1 without children.
    fn repair_remove(&mut self, home: Home, node: Option<Ref>, parent: Ref) {
        let (mut node, mut parent) = (node, Some(parent));
        if let Some(p) = parent.filter(|p| p.left().is_none() && p.right().is_none()) {
            if p.parity() {
                p.flip();
            }
            (node, parent) = (Some(p), p.parent());
        }
        while let Some(p) = parent.filter(|p| p.parity() != parity(node)) {
            let right = p.left() != node;
            let Some(sibling) = p.child(!right) else { return };
            let (inner, outer) = (sibling.child(right), sibling.child(!right));
            if sibling.parity() != p.parity() {
                if parity(outer) != sibling.parity() {
                    return self.lift_sibling(home, sibling, p);
                }
                if let Some(inner) = inner.filter(|i| i.parity() != sibling.parity()) {
                    self.rotate(home, inner, sibling);
                    self.rotate(home, inner, p);
                    return sibling.flip();
                }
                sibling.flip();
            }
            p.flip();
            (node, parent) = (Some(p), p.parent());
        }
    }

    /// The single rotation of a deletion.
    fn lift_sibling(&mut self, home: Home, sibling: Ref, p: Ref) {
        self.rotate(home, sibling, p);
        sibling.flip();
        if p.left().is_some() || p.right().is_some() {
            p.flip();
        }
    }
}
