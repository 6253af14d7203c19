//! The augmented AA tree of G18 §4.5.2 to 4.5.4, with parent pointers and without.
//!
//! Every slot is a node, copies too; each node notes the highest end in its subtree. Beyond G18's
//! description, and as our own tree does it: descents choose the child without a branch, insertion and
//! removal go up only as far as something changes, and with parent pointers a removal does not search
//! for its node. Nobody recurses.
//!
//! Levels, skew and split are those of Andersson, *Balanced Search Trees Made Simple*, 1993. A node of
//! level 1 has at most a right child, of level 1; nodes of higher levels have two children. A left
//! child is one level lower than its parent, a right one lower or equal, a right grandchild lower.

use crate::database::{Database, Place};
use crate::order::{compare, end, is_ancestor, start};
use mdb::RawCap;
use std::cell::Cell;
use std::cmp::Ordering;
use std::ptr;

type Link<'a> = Cell<Option<&'a Node<'a>>>;

/// A slot with its node.
#[derive(Default)]
#[repr(align(64))]
pub struct Node<'a> {
    cap: Cell<RawCap>,
    /// Left and right.
    children: [Link<'a>; 2],
    /// Of trees with parent pointers only.
    parent: Link<'a>,
    /// The highest end in the subtree.
    end: Cell<u64>,
    level: Cell<u8>,
}

const _: () = assert!(size_of::<Node>() == 64);

impl Place for Node<'_> {
    fn fill(&self, cap: RawCap) {
        self.cap.set(cap);
    }

    #[inline]
    fn cap(&self) -> RawCap {
        self.cap.get()
    }
}

const LEFT: bool = false;
const RIGHT: bool = true;

impl<'a> Node<'a> {
    #[inline]
    fn child(&self, side: bool) -> Option<&'a Node<'a>> {
        self.children[usize::from(side)].get()
    }

    #[inline]
    fn end_of(node: Option<&Node>) -> u64 {
        node.map_or(0, |n| n.end.get())
    }

    /// The level of a node; a missing one has 0.
    #[inline]
    fn level_of(node: Option<&Node>) -> u8 {
        node.map_or(0, |n| n.level.get())
    }

    /// Notes the highest end anew, from the children.
    #[inline]
    fn refresh(&self) {
        let below = Self::end_of(self.child(LEFT)).max(Self::end_of(self.child(RIGHT)));
        self.end.set(end(&self.cap()).max(below));
    }

    /// The first or the last node of a subtree.
    #[inline]
    fn outermost(&'a self, side: bool) -> &'a Node<'a> {
        let mut at = self;
        while let Some(next) = at.child(side) {
            at = next;
        }
        at
    }
}

/// Where a node stands in the order: after another one?
#[inline]
fn is_after(a: &Node, b: &Node) -> bool {
    let (a_start, b_start) = (start(&a.cap()), start(&b.cap()));
    if a_start != b_start {
        return a_start > b_start;
    }
    match compare(&a.cap(), &b.cap()) {
        Ordering::Equal => ptr::from_ref(a).addr() > ptr::from_ref(b).addr(),
        other => other == Ordering::Greater,
    }
}

#[inline]
fn is_copy(a: &Node, b: &Node) -> bool {
    compare(&a.cap(), &b.cap()) == Ordering::Equal
}

/// Twice the logarithm of more slots than memory has.
const LONGEST: usize = 96;

/// The nodes above one that was found from the root.
struct Path<'a> {
    nodes: [Option<&'a Node<'a>>; LONGEST],
    len: usize,
}

impl<'a> Path<'a> {
    #[inline]
    fn push(&mut self, node: &'a Node<'a>) {
        self.nodes[self.len] = Some(node);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<&'a Node<'a>> {
        self.len = self.len.checked_sub(1)?;
        self.nodes[self.len]
    }
}

/// The tree, with parent pointers if `PARENTS`.
pub struct Tree<'a, const PARENTS: bool> {
    root: Option<&'a Node<'a>>,
    /// The way that the last descent took; of trees without parent pointers only.
    path: Path<'a>,
}

/// With parent pointers.
pub type WithParents<'a> = Tree<'a, true>;
/// Without.
pub type WithoutParents<'a> = Tree<'a, false>;

impl<const PARENTS: bool> Default for Tree<'_, PARENTS> {
    fn default() -> Self {
        Self { root: None, path: Path { nodes: [None; LONGEST], len: 0 } }
    }
}

impl<'a, const PARENTS: bool> Tree<'a, PARENTS> {
    #[inline]
    fn set_child(parent: &'a Node<'a>, side: bool, child: Option<&'a Node<'a>>) {
        parent.children[usize::from(side)].set(child);
        Self::set_parent(child, Some(parent));
    }

    #[inline]
    fn set_parent(child: Option<&'a Node<'a>>, parent: Option<&'a Node<'a>>) {
        if let (true, Some(child)) = (PARENTS, child) {
            child.parent.set(parent);
        }
    }

    /// The node above `node`, which is the last one that was gone through or returned here.
    #[inline]
    fn above(&mut self, node: &'a Node<'a>) -> Option<&'a Node<'a>> {
        match PARENTS {
            true => node.parent.get(),
            false => self.path.pop(),
        }
    }

    /// Puts `new` in the place of `old` below `parent`.
    #[inline]
    fn replace(
        &mut self,
        parent: Option<&'a Node<'a>>,
        old: &'a Node<'a>,
        new: Option<&'a Node<'a>>,
    ) {
        match parent {
            None => {
                self.root = new;
                Self::set_parent(new, None);
            }
            Some(parent) => {
                let right = parent.child(RIGHT).is_some_and(|right| ptr::eq(right, old));
                Self::set_child(parent, right, new);
            }
        }
    }

    /// Turns the edge to a child around and returns that child, the new top. The caller links it.
    #[inline]
    fn rotate(top: &'a Node<'a>, child: &'a Node<'a>, side: bool) -> &'a Node<'a> {
        Self::set_child(top, side, child.child(!side));
        Self::set_child(child, !side, Some(top));
        child.end.set(top.end.get());
        top.refresh();
        child
    }

    /// Makes a left child of the same level a right one.
    #[inline]
    fn skew(top: &'a Node<'a>) -> &'a Node<'a> {
        match top.child(LEFT) {
            Some(left) if left.level.get() == top.level.get() => Self::rotate(top, left, LEFT),
            _ => top,
        }
    }

    /// Lifts the middle one of three in a row of the same level.
    #[inline]
    fn split(top: &'a Node<'a>) -> &'a Node<'a> {
        match top.child(RIGHT) {
            Some(right) if Node::level_of(right.child(RIGHT)) == top.level.get() => {
                right.level.set(right.level.get() + 1);
                Self::rotate(top, right, RIGHT)
            }
            _ => top,
        }
    }

    /// Finds the parent for a new node, and the side.
    #[inline]
    fn descend(&mut self, node: &'a Node<'a>) -> Option<(&'a Node<'a>, bool)> {
        self.path.len = 0;
        let mut found = None;
        let mut at = self.root;
        while let Some(n) = at {
            if !PARENTS {
                self.path.push(n);
            }
            let right = is_after(node, n);
            found = Some((n, right));
            at = n.child(right);
        }
        found
    }

    /// From the parent of a new node upwards, until nothing changes. What happens at a node depends on
    /// the two below it, so two that stay as they are end it.
    fn repair_insert(&mut self, parent: Option<&'a Node<'a>>, end: u64) {
        let mut at = parent;
        let mut unchanged = 0;
        while let Some(node) = at {
            let above = self.above(node);
            let higher = node.end.get() < end;
            if higher {
                node.end.set(end);
            }
            let level = node.level.get();
            let top = Self::split(Self::skew(node));
            unchanged += 1;
            if !ptr::eq(top, node) || top.level.get() != level {
                self.replace(above, node, Some(top));
                unchanged = 0;
            }
            if unchanged >= 2 && !higher {
                return;
            }
            at = above;
        }
    }

    /// Makes [`Self::above`] lead upwards from `node`.
    #[inline]
    fn find_path(&mut self, node: &'a Node<'a>) {
        if PARENTS {
            return;
        }
        self.path.len = 0;
        let mut at = self.root;
        while let Some(n) = at.filter(|n| !ptr::eq(*n, node)) {
            self.path.push(n);
            at = n.child(is_after(node, n));
        }
    }

    /// Puts the successor of `node`, which has two children, in its place. Returns the lowest node
    /// that has lost something, and the successor.
    fn swap_out(
        &mut self,
        node: &'a Node<'a>,
        right: &'a Node<'a>,
    ) -> (&'a Node<'a>, &'a Node<'a>) {
        let above = self.above(node);
        if !PARENTS {
            if let Some(above) = above {
                self.path.push(above);
            }
        }
        let heir = right.outermost(LEFT);
        let mut lowest = heir;
        if !ptr::eq(heir, right) {
            if !PARENTS {
                self.path.push(heir);
            }
            lowest = self.hole_of(heir, right);
            Self::set_child(lowest, LEFT, heir.child(RIGHT));
            Self::set_child(heir, RIGHT, Some(right));
        }
        Self::set_child(heir, LEFT, node.child(LEFT));
        heir.level.set(node.level.get());
        heir.end.set(node.end.get());
        self.replace(above, node, Some(heir));
        (lowest, heir)
    }

    /// The parent of `heir`, the first node below `right`; the path is lengthened to before it.
    #[inline]
    fn hole_of(&mut self, heir: &'a Node<'a>, right: &'a Node<'a>) -> &'a Node<'a> {
        if PARENTS {
            return heir.parent.get().unwrap_or(right);
        }
        let mut at = right;
        while let Some(left) = at.child(LEFT).filter(|left| !ptr::eq(*left, heir)) {
            self.path.push(at);
            at = left;
        }
        at
    }

    /// From `lowest` upwards, until nothing changes; not before `heir`, which has the end of a node
    /// that is gone.
    fn repair_remove(&mut self, lowest: Option<&'a Node<'a>>, heir: Option<&'a Node<'a>>) {
        let mut at = lowest;
        let mut heir = heir;
        let mut balanced = false;
        while let Some(node) = at {
            let above = self.above(node);
            let (level, end) = (node.level.get(), node.end.get());
            node.refresh();
            let mut top = node;
            match (!balanced).then(|| Self::lower(node)).flatten() {
                Some(lowered) => {
                    top = lowered;
                    self.replace(above, node, Some(top));
                    balanced = top.level.get() == level;
                }
                None => balanced = true,
            }
            heir = heir.filter(|heir| !ptr::eq(*heir, node));
            if balanced && heir.is_none() && top.end.get() == end {
                return;
            }
            at = above;
        }
    }

    /// Lowers `top` if a child is two levels below it, and repairs what that breaks; returns the new
    /// top.
    #[inline]
    fn lower(top: &'a Node<'a>) -> Option<&'a Node<'a>> {
        let (left, right) = (top.child(LEFT), top.child(RIGHT));
        let fit = Node::level_of(left).min(Node::level_of(right)) + 1;
        if top.level.get() <= fit {
            return None;
        }
        top.level.set(fit);
        if let Some(right) = right.filter(|right| right.level.get() > fit) {
            right.level.set(fit);
        }
        let top = Self::skew(top);
        if let Some(right) = Self::below(top, Self::skew) {
            Self::below(right, Self::skew);
        }
        let top = Self::split(top);
        Self::below(top, Self::split);
        Some(top)
    }

    /// Turns the right subtree of `node`; returns its new top.
    #[inline]
    fn below(
        node: &'a Node<'a>,
        turn: impl Fn(&'a Node<'a>) -> &'a Node<'a>,
    ) -> Option<&'a Node<'a>> {
        let right = node.child(RIGHT)?;
        let top = turn(right);
        if !ptr::eq(top, right) {
            Self::set_child(node, RIGHT, Some(top));
        }
        Some(top)
    }

    /// The next node in the order (`RIGHT`), or the one before.
    #[inline]
    fn neighbour(&self, node: &'a Node<'a>, side: bool) -> Option<&'a Node<'a>> {
        if let Some(below) = node.child(side) {
            return Some(below.outermost(!side));
        }
        match PARENTS {
            true => Self::neighbour_above(node, side),
            false => self.neighbour_from_root(node, side),
        }
    }

    #[inline]
    fn neighbour_above(node: &'a Node<'a>, side: bool) -> Option<&'a Node<'a>> {
        let mut at = node;
        loop {
            let above = at.parent.get()?;
            if above.child(!side).is_some_and(|child| ptr::eq(child, at)) {
                return Some(above);
            }
            at = above;
        }
    }

    /// The last node on the way down to `node` from which the way went to the other side.
    fn neighbour_from_root(&self, node: &'a Node<'a>, side: bool) -> Option<&'a Node<'a>> {
        let mut found = None;
        let mut at = self.root;
        while let Some(n) = at.filter(|n| !ptr::eq(*n, node)) {
            let right = is_after(node, n);
            if right != side {
                found = at;
            }
            at = n.child(right);
        }
        found
    }

    /// Checks levels, order, ends and links below a node; returns their first and last one.
    fn check(node: &'a Node<'a>) -> Option<(&'a Node<'a>, &'a Node<'a>)> {
        let (mut first, mut last, mut highest) = (node, node, end(&node.cap()));
        for side in [LEFT, RIGHT] {
            let Some(child) = node.child(side) else { continue };
            let (low, high) = Self::check(child)?;
            let (inner, outer) = if side == LEFT { (high, low) } else { (low, high) };
            let parent = child.parent.get().is_some_and(|parent| ptr::eq(parent, node));
            if is_after(inner, node) != side || parent != PARENTS {
                return None;
            }
            *if side == LEFT { &mut first } else { &mut last } = outer;
            highest = highest.max(child.end.get());
        }
        let level = node.level.get();
        let right = node.child(RIGHT);
        let levels = Node::level_of(node.child(LEFT)) + 1 == level
            && [level, level - 1].contains(&Node::level_of(right))
            && Node::level_of(right.and_then(|right| right.child(RIGHT))) < level;
        (levels && node.end.get() == highest).then_some((first, last))
    }
}

impl<'a, const PARENTS: bool> Database<'a> for Tree<'a, PARENTS> {
    type Slot = Node<'a>;

    const NAME: &'static str = if PARENTS { "AA tree" } else { "AA tree, no parents" };

    fn insert(&mut self, node: &'a Node<'a>) {
        let end = end(&node.cap());
        let place = self.descend(node);
        node.children.iter().for_each(|child| child.set(None));
        node.level.set(1);
        node.end.set(end);
        let Some((parent, side)) = place else { return self.root = Some(node) };
        Self::set_child(parent, side, Some(node));
        if !PARENTS {
            self.path.pop();
        }
        self.repair_insert(Some(parent), end);
    }

    fn remove(&mut self, node: &'a Node<'a>) {
        self.find_path(node);
        match (node.child(LEFT), node.child(RIGHT)) {
            (Some(_), Some(right)) => {
                let (lowest, heir) = self.swap_out(node, right);
                self.repair_remove(Some(lowest), Some(heir));
            }
            (_, right) => {
                let above = self.above(node);
                self.replace(above, node, right);
                self.repair_remove(above, None);
            }
        }
        node.parent.set(None);
    }

    #[inline]
    fn next(&self, node: &'a Node<'a>) -> Option<&'a Node<'a>> {
        self.neighbour(node, RIGHT)
    }

    #[inline]
    fn has_copies(&self, node: &'a Node<'a>) -> bool {
        let is_copy = |other: Option<&Node>| other.is_some_and(|other| is_copy(node, other));
        is_copy(self.neighbour(node, RIGHT)) || is_copy(self.neighbour(node, LEFT))
    }

    /// Goes down to where the first copy of `node` is or would be: what is left of that way comes
    /// before, and of that whatever ends with `node` or behind it is an ancestor.
    fn has_ancestors(&self, node: &'a Node<'a>) -> bool {
        let (cap, needed) = (node.cap(), end(&node.cap()));
        let mut at = self.root;
        while let Some(n) = at {
            let right = compare(&n.cap(), &cap) == Ordering::Less;
            if right && (end(&n.cap()) >= needed || Node::end_of(n.child(LEFT)) >= needed) {
                return true;
            }
            at = n.child(right);
        }
        false
    }

    fn has_descendants(&self, node: &'a Node<'a>) -> bool {
        let mut after = self.neighbour(node, RIGHT);
        while let Some(copy) = after.filter(|after| is_copy(node, after)) {
            after = self.neighbour(copy, RIGHT);
        }
        after.is_some_and(|after| is_ancestor(&node.cap(), &after.cap()))
    }

    /// The search in an interval tree: if the left subtree reaches into the range and has nothing in
    /// it, then what reaches begins behind the range, and so does all on the right.
    fn overlapping(&self, base: u64, len: u64) -> Option<&'a Node<'a>> {
        let mut at = self.root;
        while let Some(n) = at {
            if start(&n.cap()) < base + len && end(&n.cap()) > base {
                return at;
            }
            at = n.child(Node::end_of(n.child(LEFT)) <= base);
        }
        None
    }

    fn is_sound(&self) -> bool {
        self.root.is_none_or(|root| Self::check(root).is_some())
    }
}
