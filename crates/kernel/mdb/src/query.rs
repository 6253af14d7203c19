//! Questions: relatives of a slot, and the range queries of G12 §3.1.3.
//!
//! Iterators yield one slot for each distinct capability, in order; [`Mdb::copies`] yields the rest.

use core::iter::from_fn;
use core::ptr::NonNull;

use crate::order::{are_siblings, end_of, is_ancestor, is_leaf, is_record, span, Extent, Key};
use crate::ring;
use crate::slot::{page_end, past_page, RawCap, Ref, Slot};
use crate::tree::{self, Class, Place};
use crate::{Mdb, Policy, MAX_TREES};

impl<P: Policy> Mdb<P> {
    /// Whether another slot holds a copy of what `slot` holds. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline(always)]
    pub unsafe fn has_copies(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        if slot.is_member() {
            return !slot.is_leaf_member();
        }
        ring::last_copy(slot).is_some()
    }

    /// Whether `slot` is the only one with its capability. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn is_last_copy(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the same contract.
        !unsafe { self.has_copies(slot) }
    }

    /// The other slots that hold a copy of what `slot` holds. O(log n), then O(1) each.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn copies(&self, slot: NonNull<Slot>) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        // SAFETY: the caller keeps the contract of the crate.
        let own = unsafe { Ref::new(slot) };
        let head = Some(own).filter(|own| !own.is_leaf_member()).map(|own| self.head(own));
        head.into_iter().flat_map(group).filter(move |&c| c != own).map(Ref::ptr)
    }

    /// Whether there is an object that differs from that in `slot` in its identity only. O(log n).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn has_siblings(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the caller keeps the contract of the crate.
        let head = self.head(unsafe { Ref::new(slot) });
        let cap = head.cap();
        // Siblings have the same base, so they are in the same tree, side by side.
        let beside = [tree::prev(head), tree::next(head)];
        beside.into_iter().flatten().any(|n| are_siblings::<P>(&n.cap(), &cap))
    }

    /// A slot whose capability is equal to `key` but for rights and attributes. O(log n).
    pub fn find(&self, key: &RawCap) -> Option<NonNull<Slot>> {
        let (tree, position) = (Self::tree_of(key), Key::of::<P>(key));
        if is_record::<P>(key) {
            if let Some(leaf) = self.find_in_ring(tree, key, &position) {
                return Some(leaf.ptr());
            }
        }
        match self.seek(self.home_at(tree, key.base), &position) {
            Place::Found(head) => Some(head.ptr()),
            _ => None,
        }
    }

    fn find_in_ring(&self, tree: usize, key: &RawCap, position: &Key) -> Option<Ref> {
        let last = Key::last(position.base, position.len, P::LEAF_RANK.saturating_sub(1));
        let home = self.home_at(tree, key.base);
        let host = self.floor(home, &last).filter(|host| Self::may_host(&host.cap(), key))?;
        // The range is that of the host.
        let same = |leaf: &Ref| {
            let cap = leaf.cap();
            cap.ty == key.ty && P::identity(&cap) == position.identity
        };
        walk(ring::first_leaf(host), ring::leaf_after).find(same)
    }

    /// The first capability of a tree in the order. O(log n).
    pub fn first(&self, tree: u8) -> Option<NonNull<Slot>> {
        self.first_node(usize::from(tree) % MAX_TREES).map(Ref::ptr)
    }

    /// The next distinct capability of the same tree. O(log n), O(1) amortised over a walk.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn next(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the same contract.
        unsafe { self.next_before(slot, u64::MAX) }
    }

    /// The same, if it begins before the address `limit`: then nobody looks far for it.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn next_before(&self, slot: NonNull<Slot>, limit: u64) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        self.next_distinct(slot, limit).map(Ref::ptr)
    }

    /// Whether anything begins in front of `limit` and behind `slot`, which is in the tree, but for the
    /// leaves in its ring. O(log n).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline(always)]
    pub unsafe fn is_followed(&self, slot: NonNull<Slot>, limit: u64) -> bool {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        self.next_node(self.head(slot), limit).is_some()
    }

    /// The leaves in the ring of a slot in the tree come after it, and before the next one.
    #[inline]
    fn next_distinct(&self, slot: Ref, limit: u64) -> Option<Ref> {
        if slot.is_leaf_member() {
            return ring::leaf_after(slot).or_else(|| self.next_node(self.head(slot), limit));
        }
        let head = self.head(slot);
        ring::first_leaf(head).or_else(|| self.next_node(head, limit))
    }

    /// Every distinct capability of a tree.
    pub fn iter(&self, tree: u8) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        walk(self.first_node(usize::from(tree) % MAX_TREES), move |n| {
            self.next_distinct(n, u64::MAX)
        })
        .map(Ref::ptr)
    }

    fn descendants_of(&self, slot: Ref) -> impl Iterator<Item = Ref> + '_ {
        let own = Extent::of::<P>(&slot.cap());
        walk(self.first_below(slot).0, move |n| {
            let next = self.next_in(own, n);
            match is_leaf::<P>(&own.cap) {
                true => self.next_derived(own, next).0,
                false => self.next_below(own, next).0,
            }
        })
    }

    /// The first descendant of `slot`, and how many others are before it.
    #[inline]
    fn first_below(&self, slot: Ref) -> (Option<Ref>, u32) {
        let cap = slot.cap();
        if is_leaf::<P>(&cap) {
            return self.first_derived(slot);
        }
        let own = Extent::of::<P>(&cap);
        self.next_below(own, self.next_distinct(slot, own.end))
    }

    /// The first record that was made of the leaf `slot`.
    #[cold]
    #[inline(never)]
    fn first_derived(&self, slot: Ref) -> (Option<Ref>, u32) {
        if is_record::<P>(&slot.cap()) {
            return (None, 0);
        }
        let own = Extent::of::<P>(&slot.cap());
        self.next_derived(own, self.next_distinct(slot, own.end))
    }

    /// The same from `start` on, which is behind the leaf.
    #[cold]
    #[inline(never)]
    fn next_derived(&self, own: Extent, start: Option<Ref>) -> (Option<Ref>, u32) {
        let (mut at, mut passed) = (start, 0);
        while let Some(n) = at.filter(|n| !is_ancestor::<P>(&own.cap, &n.cap())) {
            passed += 1;
            at = self.next_in(own, n);
        }
        (at, passed)
    }

    /// The first descendant of what has the extent `own` from `start` on, which is behind it.
    #[inline]
    fn next_below(&self, own: Extent, start: Option<Ref>) -> (Option<Ref>, u32) {
        let (mut at, mut passed) = (start, 0);
        while let Some(n) = at {
            if own.is_ancestor_of::<P>(&Extent::of::<P>(&n.cap())) {
                break;
            }
            passed += 1;
            at = self.next_in(own, n);
        }
        (at, passed)
    }

    /// The next that begins in the extent `own` behind `node`. Of the leaves that begin at one address
    /// and end beyond the extent only the first is visited: they are larger than what descends, so that
    /// they lie together in the order.
    fn next_in(&self, own: Extent, node: Ref) -> Option<Ref> {
        let cap = node.cap();
        let (base, end) = span::<P>(&cap);
        if end <= own.end {
            return self.next_distinct(node, own.end);
        }
        let inside = self.ceiling(Self::tree_of(&cap), &Key::first(base, own.end - base));
        inside.filter(|n| n.cap().base < own.end)
    }

    /// Whether anything descends from `slot`. O(log n) for each address at which Mappings of ancestors
    /// begin that begin in the range of `slot` and end beyond it; there are none if whatever has
    /// objects below it cannot be mapped there.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn has_descendants(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the same contract.
        unsafe { self.first_descendant(slot) }.is_some()
    }

    /// The first descendant of `slot`. Cost as [`has_descendants`](Self::has_descendants), plus its
    /// siblings; what has siblings has no descendants. To revoke,
    /// ask for the first one, delete it, and ask again.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn first_descendant(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        self.first_below(unsafe { Ref::new(slot) }).0.map(Ref::ptr)
    }

    /// The same, and how many addresses had to be passed over.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn first_descendant_behind(
        &self,
        slot: NonNull<Slot>,
    ) -> (Option<NonNull<Slot>>, u32) {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        let (found, passed) = self.first_below(slot);
        (found.map(Ref::ptr), passed)
    }

    /// Every descendant of `slot`, ancestors before their descendants.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn descendants(
        &self,
        slot: NonNull<Slot>,
    ) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        self.descendants_of(slot).map(Ref::ptr)
    }

    /// The first object made of `slot` that overlaps `[base, base + len)`, a part of its range. O(log n),
    /// however many objects `slot` lies in.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn object_inside(
        &self,
        slot: NonNull<Slot>,
        base: u64,
        len: u64,
    ) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let head = self.head(unsafe { Ref::new(slot) });
        let cap = head.cap();
        // Ancestors are before it in the order, and objects nest: the first is mostly the answer.
        let start = self.next_of(Class::Objects, head, past_page(base), end_of(base, len));
        self.overlaps_from(start, base, len, Class::Objects)
            .find(|n| is_ancestor::<P>(&cap, &n.cap()))
            .map(Ref::ptr)
    }

    /// The first record that overlaps `[base, base + len)`, a part of the range of `slot`, and begins in that
    /// range. O(log n), and as much for each object inside the part that has none, and each other leaf.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn record_inside(
        &self,
        slot: NonNull<Slot>,
        base: u64,
        len: u64,
    ) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let head = self.head(unsafe { Ref::new(slot) });
        let start = self.next_of(Class::All, head, past_page(base), end_of(base, len));
        let behind = self.overlaps_from(start, base, len, Class::All);
        [head]
            .into_iter()
            .chain(behind)
            .flat_map(|n| with_leaves::<P>(n, Class::Leaves))
            .find(|n| is_record::<P>(&n.cap()))
            .map(Ref::ptr)
    }

    /// How many leaves hang at most from the slot that stands for the capability in `slot`, and go into
    /// the tree when the last copy of it goes. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn hanging_leaves(&self, slot: NonNull<Slot>) -> u32 {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        if slot.is_member() {
            return 0;
        }
        ring::leaves(slot) as u32
    }

    /// The first descendant of `slot` that overlaps `[base, base + len)`: what stands against a
    /// retype of that part. O(log n) plus what is between and overlaps but does not descend.
    ///
    /// For a retype into a kernel object ask [`overlapping`](Self::overlapping) with
    /// [`Class::Leaves`] too: a Mapping of an ancestor may reach into the part.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn descendant_overlapping(
        &self,
        slot: NonNull<Slot>,
        base: u64,
        len: u64,
    ) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        if slot.is_leaf_member() {
            return None;
        }
        let head = self.head(slot);
        let cap = head.cap();
        if let Some(leaf) = ring::first_leaf(head).filter(|_| overlaps::<P>(&cap, base, len)) {
            return Some(leaf.ptr());
        }
        let start = self.next_of(Class::All, head, past_page(base), end_of(base, len));
        self.overlaps_from(start, base, len, Class::All)
            .find(|n| is_ancestor::<P>(&cap, &n.cap()))
            .map(Ref::ptr)
    }

    /// The innermost ancestor of `slot` that is an object. O(log n) plus its siblings.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn nearest_ancestor(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        let head = self.head(slot);
        let cap = head.cap();
        if slot.is_leaf_member() && !is_leaf::<P>(&cap) {
            return Some(head.ptr());
        }
        self.nearest_object(head).map(Ref::ptr)
    }

    /// The same of a node in a tree.
    #[inline(never)]
    pub(crate) fn nearest_object(&self, node: Ref) -> Option<Ref> {
        let own = Extent::of::<P>(&node.cap());
        let end = page_end(own.end);
        self.backwards(self.object_before(node, end), end)
            .find(|n| Extent::of::<P>(&n.cap()).is_ancestor_of::<P>(&own))
    }

    /// What [`nearest_ancestor`](Self::nearest_ancestor) answers, where one look is enough: of a leaf
    /// that is the first in the ring of an object with the same range. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline(always)]
    pub unsafe fn host(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the same contract.
        let slot = unsafe { Ref::new(slot) };
        if !slot.is_leaf_member() || !slot.is_first() {
            return None;
        }
        slot.ring_head().filter(|head| !is_leaf::<P>(&head.cap())).map(Ref::ptr)
    }

    /// The innermost object with a rank of at most `max_rank` that contains `[base, base + len)`; of
    /// several with the same range, the one of the highest rank. O(log n) for each object inside the
    /// answer that contains the range but is of a higher rank.
    pub fn surrounding(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        max_rank: u8,
    ) -> Option<NonNull<Slot>> {
        let end = end_of(base, len);
        let key = Key::last(base, len, max_rank);
        let start = self.floor_or_object(usize::from(tree) % MAX_TREES, &key, page_end(end));
        self.backwards(start, page_end(end))
            .find(|n| {
                let cap = n.cap();
                let rank = P::rank_of(&cap);
                rank <= max_rank && rank < P::LEAF_RANK && span::<P>(&cap).1 >= end
            })
            .map(Ref::ptr)
    }

    /// What lies inside `[base, base + len)`, equal ranges included. O(log n), then O(1) amortised
    /// for each capability that begins in the range.
    pub fn inner(&self, tree: u8, base: u64, len: u64) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        let end = end_of(base, len);
        let start = self.ceiling(usize::from(tree) % MAX_TREES, &Key::first(base, len));
        walk(start, move |n| self.next_distinct(n, end))
            .take_while(move |n| n.cap().base < end)
            .filter(move |n| span::<P>(&n.cap()).1 <= end)
            .map(Ref::ptr)
    }

    /// What overlaps `[base, base + len)` in any way. O(log n) each.
    pub fn overlapping(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        class: Class,
    ) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        let nodes = class.of_nodes();
        let start =
            self.first_beyond(usize::from(tree) % MAX_TREES, nodes, base, end_of(base, len));
        self.overlaps_from(start, base, len, nodes)
            .flat_map(move |n| with_leaves::<P>(n, class))
            .map(Ref::ptr)
    }

    /// Whether a leaf of which there may be copies overlaps `[base, base + len)`. Also `true` if more than
    /// `most` records would have to be passed over, those in rings not counted. O(log n) each.
    pub fn has_shared_leaf(&self, tree: u8, base: u64, len: u64, most: u32) -> bool {
        let tree = usize::from(tree) % MAX_TREES;
        let start = self.first_beyond(tree, Class::Leaves, base, end_of(base, len));
        let mut passed = 0;
        self.overlaps_from(start, base, len, Class::Leaves).any(|n| {
            passed += 1;
            !is_record::<P>(&n.cap()) || passed > most
        })
    }

    /// Every distinct object of a tree that begins at `base` or behind; of those that begin there, the ones from where `from` is,
    /// or was, on: there may be very many. O(log n), then O(1) amortised for each and for the leaves between them.
    pub fn objects_from(
        &self,
        tree: u8,
        base: u64,
        from: Option<&RawCap>,
    ) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        // All of them reach beyond it.
        let end = past_page(base);
        let key = from.filter(|from| from.base == base).map(Key::of::<P>);
        let key = key.unwrap_or(Key::first(base, u64::MAX));
        let first = self.ceiling(usize::from(tree) % MAX_TREES, &key);
        let first = first.and_then(|n| self.at_or_next_of(Class::Objects, n, end, u64::MAX));
        walk(first, move |n| self.next_of(Class::Objects, n, end, u64::MAX)).map(Ref::ptr)
    }

    /// What overlaps one end of `[base, base + len)` but not the other, of one class. Those that
    /// overlap the end come after those that overlap the beginning. O(log n) each, plus as much for
    /// each of the class that contains the range.
    pub fn partial(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        class: Class,
    ) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        let (end, wanted) = (end_of(base, len), class);
        let class = class.of_nodes();
        let near = past_page(base);
        let tree = usize::from(tree) % MAX_TREES;
        let start = self.first_beyond(tree, class, base, base);
        let front = walk(start, move |n| self.next_of(class, n, near, base))
            .take_while(move |n| n.cap().base < base)
            .filter(move |n| {
                let past = span::<P>(&n.cap()).1;
                past > base && past < end
            });

        let beyond = past_page(end);
        let first = self.ceiling(tree, &Key::first(base.saturating_add(1), u64::MAX));
        let first = first.and_then(|n| self.at_or_next_of(class, n, beyond, end));
        let back = walk(first, move |n| self.next_of(class, n, beyond, end))
            .take_while(move |n| n.cap().base < end)
            .filter(move |n| span::<P>(&n.cap()).1 > end);
        front.chain(back).flat_map(move |n| with_leaves::<P>(n, wanted)).map(Ref::ptr)
    }

    /// Calls `gap(base, len)` for each maximal part of `[base, base + len)` that no object covers;
    /// a capability counts only if `ignore` is false for it or for one of its copies. Mappings do not
    /// count. For the last delete, which gives uncovered memory back: remove the slot first.
    /// O(log n) for each object looked at: the ignored ones and the outermost others.
    pub fn for_each_gap(
        &self,
        tree: u8,
        base: u64,
        len: u64,
        ignore: impl Fn(&RawCap) -> bool,
        mut gap: impl FnMut(u64, u64),
    ) {
        let end = base.saturating_add(len);
        let mut at = base;
        let tree = usize::from(tree) % MAX_TREES;
        let mut node = self.first_beyond(tree, Class::Objects, at, end);
        while let Some(n) = node.filter(|_| at < end) {
            let (first, past) = span::<P>(&n.cap());
            if first >= end {
                break;
            }
            if past > at && group(n).any(|c| !ignore(&c.cap())) {
                if first > at {
                    gap(at, first - at);
                }
                at = past;
            }
            node = self.next_of(Class::Objects, n, past_page(at), end);
        }
        if at < end {
            gap(at, end - at);
        }
    }
}

impl<P: Policy> Mdb<P> {
    /// `start` and the objects before it whose end, in pages, is `end` or more.
    fn backwards(&self, start: Option<Ref>, end: u64) -> impl Iterator<Item = Ref> + '_ {
        walk(start, move |n| self.object_before(n, end))
    }

    /// `start` and what follows it of the class, as far as it overlaps `[base, base + len)`.
    fn overlaps_from(
        &self,
        start: Option<Ref>,
        base: u64,
        len: u64,
        class: Class,
    ) -> impl Iterator<Item = Ref> + '_ {
        let (target, end) = (past_page(base), end_of(base, len));
        walk(start, move |n| self.next_of(class, n, target, end))
            .take_while(move |n| n.cap().base < end)
            .filter(move |n| span::<P>(&n.cap()).1 > base)
    }
}

/// `start` and what `step` finds from each to the next. Unlike `successors` it does not look for one
/// more than is asked for.
fn walk(start: Option<Ref>, step: impl Fn(Ref) -> Option<Ref>) -> impl Iterator<Item = Ref> {
    let (mut at, mut begun) = (start, false);
    from_fn(move || {
        if begun {
            at = at.and_then(&step);
        }
        begun = true;
        at
    })
}

/// A slot in the tree, and its copies.
pub(crate) fn group(head: Ref) -> impl Iterator<Item = Ref> {
    walk(Some(head), |c| if c.is_member() { ring::copy_before(c) } else { ring::last_copy(c) })
}

/// What of a slot in the tree, and of the leaves in its ring, is of a class.
fn with_leaves<P: Policy>(node: Ref, class: Class) -> impl Iterator<Item = Ref> {
    let own = Some(node).filter(|n| class.has::<P>(&n.cap()));
    let leaves = ring::first_leaf(node).filter(|_| class != Class::Objects);
    own.into_iter().chain(walk(leaves, ring::leaf_after))
}

/// Whether `cap` overlaps `[base, base + len)`.
fn overlaps<P: Policy>(cap: &RawCap, base: u64, len: u64) -> bool {
    let (first, past) = span::<P>(cap);
    first < end_of(base, len) && past > base
}
