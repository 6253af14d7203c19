//! The mapping database: every capability of a core, in one order, inside the capability slots.
//!
//! Copies, descendants and ancestors are not stored: they follow from the order (G18 §4.5.2),
//!
//! > tree, base, larger first, rank, type, identity
//!
//! which puts an ancestor before its descendants, as a preorder walk would. One tree node stands for
//! one *distinct* capability; its copies hang from it in a `ring`, and so do leaves with its very
//! range, so that making and deleting those never touches the tree. (Leaves in a ring have no order
//! among each other, nor with other leaves of that range.) The tree is a weak AVL tree (Haeupler, Sen and Tarjan, *Rank-Balanced
//! Trees*, 2015), augmented for the range queries *surrounding*, *inner* and *partial* of G12 §3.1.3.
//! There is one root per type tree; the tree of memory may be [divided](Mdb::divide) into pieces with a
//! root each, under a directory: see `docs/mapping-database.md`.
//!
//! # Relations
//!
//! - **Copies**: equal in all but rights, attributes and slot; `aux` and `word` count as far as
//!   [`Policy::identity`] and [`Policy::range`] read them.
//! - **Objects** are capabilities of rank below [`Policy::LEAF_RANK`]. Two objects of a tree overlap
//!   only if they are copies or one is an ancestor of the other; [`Mdb::check`] verifies it, and the
//!   caller asks [`Mdb::overlapping`] before it retypes.
//! - **Leaves** are the others: Loans and Mappings. Their ranges are free: they overlap whatever they like, and nobody
//!   asks them whether memory is covered in the sense of objects.
//! - **Records** are leaves of rank [`Policy::RECORD_RANK`] and above: Mappings. They have no copies, and are
//!   nobody's ancestors.
//! - A is an **ancestor** of B if both are in one tree, A's range contains B's, and is larger or A's rank is
//!   lower; and A is an object, or a leaf of which the record B [was made](Policy::derives). A Mapping made
//!   through a Loan is a descendant of that; those of the Frame itself pass all Loans by.
//!
//! # Contract
//!
//! The database holds no memory of its own but the directory's, which its owner gives it. Whoever puts a slot in (`unsafe`) promises that the slot
//! stays where it is, and valid, until [`Mdb::remove`] or [`Mdb::relocate`] takes it out; that there
//! is never a `&mut` to a slot in a database (all fields are cells, `&` is enough); and that the slot
//! is in one database only. A database belongs to one core and is neither `Send` nor `Sync`.
//! Slots live at sign-extended 48-bit addresses. Ranges should be multiples of 4 KiB: others are
//! answered rightly but lose the bound on the time of range queries, since the augmentation counts
//! pages; so scale IO ports by 4096. Nothing here allocates, recurses (but for `check`) or panics in
//! a release build.
//!
//! # Costs
//!
//! For `n` distinct capabilities, or so many that begin in the same piece; a piece more or less costs one
//! step for each level of the directory. The figure is the worst case unless it says otherwise, and
//! counts Mappings of one range as one where that is said at the operation.
//!
//! | operation | cost |
//! |---|---|
//! | `insert`, `find`, `surrounding`, `nearest_ancestor` | O(log n) |
//! | `insert_near` | O(1) expected next to its place, O(log d) at distance d, O(log n) at worst |
//! | `insert_run` of k consecutive objects | O(log n + k) amortised |
//! | `insert_copy`, `relocate`, `has_copies` | O(1) |
//! | `remove` | O(1) with copies, else O(log n); rebalancing O(1) amortised |
//! | `first_descendant`, `next` | O(log n), O(1) amortised over a walk |
//! | `ancestor_of_childless` | O(log n), O(1) amortised for what goes in its order |
//! | `overlapping`, `partial` | O(log n) per answer |

#![no_std]

mod check;
mod directory;
mod forest;
mod order;
mod query;
mod ring;
mod slot;
mod tree;
mod turn;

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use check::Violation;
pub use directory::{entries as directory_entries, Entry, PIECE};
pub use order::{is_ancestor, is_copy};
pub use slot::{RawCap, Slot};
pub use tree::Class;

use directory::Directory;
use forest::{Home, Outer};
use order::{is_before, is_record, Key};
use slot::Ref;
use tree::Place;
use turn::Turn;

/// What the database must know about capability types. All functions are pure.
pub trait Policy {
    /// Capabilities of this rank and above are leaves, whose ranges are free (Loans, Mappings); those below
    /// are objects.
    const LEAF_RANK: u8;

    /// Leaves of this rank and above are records (Mappings): they have no copies, and nothing is made of
    /// them.
    const RECORD_RANK: u8;

    /// Most leaves of an object's own range that hang from it; others are in the tree.
    const MOST_LEAVES: u64 = 64;

    /// Whether records may hang from objects of this type if they have the same range: such an object has
    /// no descendants of its range but leaves, and no ancestor of its range is mapped while it exists.
    fn hosts(ty: u8) -> bool;

    /// Whether `record`, which lies in the range of `leaf` and is behind it in the order, was made of that.
    /// Of objects everything is made that does so.
    #[inline]
    fn derives(_leaf: &RawCap, _record: &RawCap) -> bool {
        false
    }

    /// Whether a record was made of a leaf. It is in the tree then, where what is made of a leaf is looked
    /// for, and hangs from no object.
    #[inline]
    fn is_derived(_record: &RawCap) -> bool {
        false
    }

    /// The type tree, below [`MAX_TREES`]: capabilities of different trees never overlap.
    fn tree(ty: u8) -> u8;

    /// Order among capabilities with the same range: ancestor types have lower ranks.
    fn rank(ty: u8) -> u8;

    /// The same of a capability: the rank of its type, unless something of one type and range can
    /// descend from something else of that type and range. Not for leaves.
    #[inline]
    fn rank_of(cap: &RawCap) -> u8 {
        Self::rank(cap.ty)
    }

    /// First address, which is `cap.base`, and length; the length may be 0 without memory.
    fn range(cap: &RawCap) -> (u64, u64);

    /// The length of what is no leaf: the same as [`range`](Self::range) says, which has to tell what it is first.
    #[inline(always)]
    fn object_length(cap: &RawCap) -> u64 {
        Self::range(cap).1
    }

    /// What else must be equal in copies: for a Mapping, the address of its first entry. Objects that
    /// differ in nothing else are siblings: they descend from the same ancestors and have no
    /// descendants. Objects without siblings have 0 here.
    fn identity(cap: &RawCap) -> u64;
}

/// How many type trees there may be; [`Policy::tree`] is taken modulo this.
pub const MAX_TREES: usize = 16;

/// Where a run of new slots belongs: how many of them, in which tree, and between which nodes.
struct Gap {
    home: Home,
    before: Option<Ref>,
    after: Option<Ref>,
    count: usize,
}

/// A mapping database. See the [crate] for the contract.
pub struct Mdb<P: Policy> {
    /// Of the type trees, but for the divided one.
    roots: [Option<Ref>; MAX_TREES],
    directory: Directory,
    /// The type tree that the directory divides, or [`MAX_TREES`].
    divided: usize,
    outer: Cell<Outer>,
    turn: Turn,
    slots: usize,
    policy: PhantomData<fn() -> P>,
}

impl<P: Policy> Default for Mdb<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> Mdb<P> {
    /// An empty database with one search tree for each type tree.
    pub const fn new() -> Self {
        Self {
            roots: [None; MAX_TREES],
            directory: Directory::none(),
            divided: MAX_TREES,
            outer: Cell::new(Outer::UNKNOWN),
            turn: Turn::new(),
            slots: 0,
            policy: PhantomData,
        }
    }

    /// How many slots are in the database, copies included. O(1).
    pub const fn len(&self) -> usize {
        self.slots
    }

    /// Whether no slot is in the database.
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }

    #[inline]
    fn tree_of(cap: &RawCap) -> usize {
        usize::from(P::tree(cap.ty)) % MAX_TREES
    }

    /// Puts `slot` in; returns whether it is a copy of a capability that was there. O(log n).
    ///
    /// # Safety
    ///
    /// `slot` holds a capability, is in no database, and keeps the contract of the [crate].
    pub unsafe fn insert(&mut self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the caller keeps the contract of the crate.
        let node = unsafe { Ref::new(slot) };
        let cap = node.cap();
        let home = self.home(&cap);
        let place = self.seek(home, &Key::of::<P>(&cap));
        self.put(home, node, place)
    }

    /// The same as [`insert`](Self::insert), but looks for the place from `near`. O(1) expected if
    /// `slot` belongs next to `near`, as a Mapping does to its Frame or a sibling to the one before;
    /// O(log d) if d capabilities lie between. `near` need not be near, only in the database.
    ///
    /// # Safety
    ///
    /// As for [`insert`](Self::insert); `near` is in this database.
    #[inline]
    pub unsafe fn insert_near(&mut self, slot: NonNull<Slot>, near: NonNull<Slot>) -> bool {
        // SAFETY: the caller keeps the contract of the crate for both.
        let (node, near) = unsafe { (Ref::new(slot), Ref::new(near)) };
        let (cap, host) = (node.cap(), near.cap());
        if is_record::<P>(&cap) && Self::may_host(&host, &cap) {
            let head = self.head(near);
            if self.join_leaf(head, node) {
                return false;
            }
        }
        self.insert_in_tree(node, near)
    }

    /// Puts in the leaf in `slot`, which has the range of the object in `host`: the same as
    /// [`insert_near`](Self::insert_near), for those who know that.
    ///
    /// # Safety
    ///
    /// As for [`insert_near`](Self::insert_near).
    #[inline(always)]
    pub unsafe fn insert_leaf(&mut self, slot: NonNull<Slot>, host: NonNull<Slot>) {
        // SAFETY: the caller keeps the contract of the crate for both.
        let (node, host) = unsafe { (Ref::new(slot), Ref::new(host)) };
        debug_assert!(Self::may_host(&host.cap(), &node.cap()));
        if !self.join_leaf(self.head(host), node) {
            self.insert_in_tree(node, host);
        }
    }

    #[inline(never)]
    fn insert_in_tree(&mut self, node: Ref, near: Ref) -> bool {
        let cap = node.cap();
        let home = self.home(&cap);
        let place = self.place_near(home, &Key::of::<P>(&cap), near);
        self.put(home, node, place)
    }

    /// Whether `leaf` is a record that may hang from an object: same range, and nothing that it is made of
    /// can lie between them.
    #[inline]
    fn may_host(host: &RawCap, leaf: &RawCap) -> bool {
        host.base == leaf.base
            && P::hosts(host.ty)
            && is_record::<P>(leaf)
            && P::range(host).1 == P::range(leaf).1
            && P::tree(host.ty) == P::tree(leaf.ty)
            && !P::is_derived(leaf)
    }

    /// Puts in `slot(0)` to `slot(count - 1)`, the first of them near `near`; returns how many are
    /// copies of what was there. If they ascend in the order and nothing lies between them, as after
    /// a retype into many objects, this is O(log n + count) amortised; else each goes in with
    /// [`insert_near`](Self::insert_near), from the one before.
    ///
    /// They go in as the levels of a balanced tree, top first: the place of each is known from its
    /// neighbours, and hardly anything has to be rotated.
    ///
    /// # Safety
    ///
    /// As for [`insert_near`](Self::insert_near), for every slot; `slot` is pure.
    pub unsafe fn insert_run(
        &mut self,
        count: usize,
        slot: impl Fn(usize) -> NonNull<Slot>,
        near: NonNull<Slot>,
    ) -> usize {
        // SAFETY: the caller keeps the contract of the crate for every slot.
        let (node, mut near) = unsafe { (|i| Ref::new(slot(i)), Ref::new(near)) };
        let mut done = 0;
        while done < count {
            let rest = |i| node(done + i);
            let Some(gap) = self.gap_for(count - done, &rest, near) else {
                return self.insert_each((done..count).map(node), near);
            };
            self.fill_gap(&gap, &rest);
            done += gap.count;
            near = node(done - 1);
        }
        0
    }

    fn insert_each(&mut self, nodes: impl Iterator<Item = Ref>, near: Ref) -> usize {
        let (mut near, mut copies) = (near, 0);
        for node in nodes {
            copies += usize::from(self.insert_in_tree(node, near));
            near = node;
        }
        copies
    }

    fn fill_gap(&mut self, gap: &Gap, node: &impl Fn(usize) -> Ref) {
        // The last end is the highest: noted first, it is noted once.
        self.raise_directory(gap.home, order::own_ends::<P>(&node(gap.count - 1).cap()));
        // Positions count from 1. At each level those are in that are multiples of `2 * step`.
        let mut step = gap.count.next_power_of_two();
        while step > 0 {
            for at in (step..=gap.count).step_by(2 * step) {
                let left = if at > step { Some(node(at - step - 1)) } else { gap.before };
                let right =
                    if at + step <= gap.count { Some(node(at + step - 1)) } else { gap.after };
                self.put(gap.home, node(at - 1), tree::between(left, right));
            }
            step /= 2;
        }
    }

    /// Where the first of `limit` slots belong, as many as belong in one search tree; if all of them
    /// ascend and there is a place where nothing lies between them.
    fn gap_for(&self, limit: usize, node: &impl Fn(usize) -> Ref, near: Ref) -> Option<Gap> {
        let mut last = node(0).cap();
        let home = self.home(&last);
        let (before, after) = match self.place_near(home, &Key::of::<P>(&last), near) {
            Place::Found(_) => return None,
            Place::Root => (None, None),
            Place::Below { parent, right: false } => (tree::prev(parent), Some(parent)),
            Place::Below { parent, right: true } => (Some(parent), tree::next(parent)),
        };
        let mut count = 1;
        while count < limit {
            let cap = node(count).cap();
            if self.home(&cap) != home {
                break;
            }
            if !is_before::<P>(&last, &cap) {
                return None;
            }
            (last, count) = (cap, count + 1);
        }
        let fits = after.is_none_or(|a| is_before::<P>(&last, &a.cap()));
        fits.then_some(Gap { home, before, after, count })
    }

    #[inline]
    fn place_near(&self, home: Home, key: &Key, near: Ref) -> Place {
        if self.home(&near.cap()) == home {
            Self::seek_near(self.head(near), key)
        } else {
            self.seek(home, key)
        }
    }

    /// Puts `dst` in as a copy of `src`. O(1).
    ///
    /// # Safety
    ///
    /// `src` is in this database; `dst` is in none, holds a capability that [is a copy](is_copy) of
    /// that in `src`, and keeps the contract of the [crate].
    pub unsafe fn insert_copy(&mut self, src: NonNull<Slot>, dst: NonNull<Slot>) {
        // SAFETY: the caller keeps the contract of the crate for both.
        let (src, dst) = unsafe { (Ref::new(src), Ref::new(dst)) };
        debug_assert!(src.is_linked() && is_copy::<P>(&src.cap(), &dst.cap()), "a copy of src");
        debug_assert!(!dst.is_linked(), "a slot is put in once");
        self.join_copy(src, dst);
    }

    fn put(&mut self, home: Home, node: Ref, place: Place) -> bool {
        debug_assert!(!node.is_linked() && !node.is_empty(), "a capability in no database");
        if let Place::Found(original) = place {
            self.join_copy(original, node);
            return true;
        }
        self.attach(home, node, place);
        self.slots += 1;
        false
    }

    /// Takes `slot` out, leaves it empty and returns what it held. O(1) if it has copies, else
    /// O(log n).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn remove(&mut self, slot: NonNull<Slot>) -> RawCap {
        // SAFETY: the caller keeps the contract of the crate.
        let node = unsafe { Ref::new(slot) };
        debug_assert!(node.is_linked(), "a slot in the database");
        let cap = node.cap();
        if node.is_member() {
            self.leave(node);
            self.empty(node);
        } else {
            self.remove_from_tree(node);
        }
        cap
    }

    /// Empties a slot that nothing links to any more.
    #[inline(always)]
    fn empty(&mut self, node: Ref) {
        node.clear_links();
        node.overwrite(RawCap::NULL);
        self.slots -= 1;
    }

    #[inline(never)]
    fn remove_from_tree(&mut self, node: Ref) {
        if let Some(heir) = ring::last_copy(node) {
            self.leave(heir);
            self.succeed(node, heir);
        } else {
            let home = self.home(&node.cap());
            if node.copies().is_some() {
                self.dissolve(home, node);
            }
            self.detach(home, node);
            self.turn.pass(node);
        }
        self.empty(node);
    }

    /// Gives `heir` the place of `node`, in the tree or in a ring.
    fn succeed(&mut self, node: Ref, heir: Ref) {
        heir.take_links(&node);
        if node.is_member() {
            return self.succeed_in_ring(node, heir);
        }
        self.forget_outer_node(node);
        self.turn.forget();
        self.relink(self.home(&heir.cap()), node.parent(), node, Some(heir));
        for child in [node.left(), node.right()].into_iter().flatten() {
            child.set_parent(Some(heir));
        }
        if let Some(first) = node.copies() {
            first.make_first(heir);
        }
    }

    /// Moves the capability in `src`, with its place in the order, to the empty slot `dst`; `src`
    /// becomes empty. O(1).
    ///
    /// # Safety
    ///
    /// `src` is in this database; `dst` is in none and keeps the contract of the [crate].
    pub unsafe fn relocate(&mut self, src: NonNull<Slot>, dst: NonNull<Slot>) {
        // SAFETY: the caller keeps the contract of the crate for both.
        let (src, dst) = unsafe { (Ref::new(src), Ref::new(dst)) };
        debug_assert!(src.is_linked() && !dst.is_linked(), "from the database to a free slot");
        dst.overwrite(src.cap());
        self.succeed(src, dst);
        src.clear_links();
        src.overwrite(RawCap::NULL);
    }

    /// The slot in the tree that stands for the capability in `slot`, or from which it hangs if it
    /// is a leaf in a ring. O(1) if it is near the beginning of the ring, and for leaves, of which there
    /// are few; else O(log n).
    #[inline]
    pub(crate) fn head(&self, slot: Ref) -> Ref {
        if slot.is_member() {
            return self.head_of_member(slot);
        }
        slot
    }

    fn head_of_member(&self, slot: Ref) -> Ref {
        const NEAR: usize = 4;
        let mut at = slot;
        let mut steps = 0;
        while !at.is_first() {
            steps += 1;
            if steps == NEAR && !slot.is_leaf_member() {
                let cap = slot.cap();
                if let Place::Found(head) = self.seek(self.home(&cap), &Key::of::<P>(&cap)) {
                    return head;
                }
            }
            at = at.left().unwrap_or(at);
        }
        at.ring_head().unwrap_or(at)
    }
}
