//! Questions: relatives of a slot, and the range queries of G12 §3.1.3.
//!
//! Iterators yield one slot for each distinct capability, in order; [`Mdb::copies`] yields the rest.

use core::iter::from_fn;
use core::ptr::NonNull;

use crate::order::{end_of, is_ancestor, span, Key};
use crate::slot::{page_end, RawCap, Ref, Slot};
use crate::tree::{leftmost, next, prev_object, Class, Place};
use crate::{Mdb, Policy, MAX_TREES};

impl<P: Policy> Mdb<P> {
    fn root(&self, tree: u8) -> Option<Ref> {
        self.roots[usize::from(tree) % MAX_TREES]
    }

    /// Whether another slot holds a copy of what `slot` holds. O(1).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    #[inline]
    pub unsafe fn has_copies(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        slot.is_copy() || slot.copies().is_some()
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
        group(self.head(own)).filter(move |&c| c != own).map(Ref::ptr)
    }

    /// The slot in the tree whose capability is equal to `key` but for rights and attributes.
    /// O(log n).
    pub fn find(&self, key: &RawCap) -> Option<NonNull<Slot>> {
        match self.seek(Self::tree_of(key), &Key::of::<P>(key)) {
            Place::Found(head) => Some(head.ptr()),
            _ => None,
        }
    }

    /// The first capability of a tree in the order. O(log n).
    pub fn first(&self, tree: u8) -> Option<NonNull<Slot>> {
        self.root(tree).map(|root| leftmost(root).ptr())
    }

    /// The next distinct capability of the same tree. O(log n), O(1) amortised over a walk.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn next(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let slot = unsafe { Ref::new(slot) };
        next(self.head(slot)).map(Ref::ptr)
    }

    /// Every distinct capability of a tree.
    pub fn iter(&self, tree: u8) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        walk(self.root(tree).map(leftmost), next).map(Ref::ptr)
    }

    fn descendants_of(&self, slot: Ref) -> impl Iterator<Item = Ref> + '_ {
        let head = self.head(slot);
        let cap = head.cap();
        let (_, end) = span::<P>(&cap);
        walk(next(head), next)
            .take_while(move |n| n.cap().base < end)
            .filter(move |n| is_ancestor::<P>(&cap, &n.cap()))
    }

    /// Whether anything descends from `slot`. O(log n) plus the Mappings of ancestors that begin in
    /// the range of `slot` and end beyond it; there are none if whatever has objects below it cannot
    /// be mapped there.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn has_descendants(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the same contract.
        unsafe { self.first_descendant(slot) }.is_some()
    }

    /// The first descendant of `slot`. Cost as [`has_descendants`](Self::has_descendants). To revoke,
    /// ask for the first one, delete it, and ask again.
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn first_descendant(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the same contract.
        unsafe { self.descendants(slot) }.next()
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
        let head = self.head(unsafe { Ref::new(slot) });
        let cap = head.cap();
        let start = Class::All.next::<P>(head, past_page(base));
        overlaps_from::<P>(start, base, len, Class::All)
            .find(|n| is_ancestor::<P>(&cap, &n.cap()))
            .map(Ref::ptr)
    }

    /// The innermost ancestor of `slot`. O(log n).
    ///
    /// # Safety
    ///
    /// `slot` is in this database.
    pub unsafe fn nearest_ancestor(&self, slot: NonNull<Slot>) -> Option<NonNull<Slot>> {
        // SAFETY: the caller keeps the contract of the crate.
        let head = self.head(unsafe { Ref::new(slot) });
        let cap = head.cap();
        let end = page_end(span::<P>(&cap).1);
        backwards::<P>(prev_object::<P>(head, end), end)
            .find(|n| is_ancestor::<P>(&n.cap(), &cap))
            .map(Ref::ptr)
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
        let start = self.floor(usize::from(tree) % MAX_TREES, &key)?;
        backwards::<P>(Some(start), page_end(end))
            .find(|n| {
                let cap = n.cap();
                let rank = P::rank(cap.ty);
                rank <= max_rank && rank < P::LEAF_RANK && span::<P>(&cap).1 >= end
            })
            .map(Ref::ptr)
    }

    /// What lies inside `[base, base + len)`, equal ranges included. O(log n), then O(1) amortised
    /// for each capability that begins in the range.
    pub fn inner(&self, tree: u8, base: u64, len: u64) -> impl Iterator<Item = NonNull<Slot>> + '_ {
        let end = end_of(base, len);
        let start = self.ceiling(usize::from(tree) % MAX_TREES, &Key::first(base, len));
        walk(start, next)
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
        let start = class.first::<P>(self.root(tree), past_page(base));
        overlaps_from::<P>(start, base, len, class).map(Ref::ptr)
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
        let end = end_of(base, len);
        let near = past_page(base);
        let start = class.first::<P>(self.root(tree), near);
        let front = walk(start, move |n| class.next::<P>(n, near))
            .take_while(move |n| n.cap().base < base)
            .filter(move |n| {
                let past = span::<P>(&n.cap()).1;
                past > base && past < end
            });

        let beyond = past_page(end);
        let first = self
            .ceiling(usize::from(tree) % MAX_TREES, &Key::first(base.saturating_add(1), u64::MAX));
        let first = first.and_then(|n| class.at_or_after::<P>(n, beyond));
        let back = walk(first, move |n| class.next::<P>(n, beyond))
            .take_while(move |n| n.cap().base < end)
            .filter(move |n| span::<P>(&n.cap()).1 > end);
        front.chain(back).map(Ref::ptr)
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
        let mut node = Class::Objects.first::<P>(self.root(tree), past_page(at));
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
            node = Class::Objects.next::<P>(n, past_page(at));
        }
        if at < end {
            gap(at, end - at);
        }
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
    walk(Some(head), |c| if c.is_copy() { c.right() } else { c.copies() })
}

/// `start` and the objects before it whose end, in pages, is `end` or more.
fn backwards<P: Policy>(start: Option<Ref>, end: u64) -> impl Iterator<Item = Ref> {
    walk(start, move |n| prev_object::<P>(n, end))
}

/// The smallest end, in pages, of what reaches beyond `address`.
fn past_page(address: u64) -> u64 {
    page_end(address.saturating_add(1))
}

/// `start` and what follows it of the class, as far as it overlaps `[base, base + len)`.
fn overlaps_from<P: Policy>(
    start: Option<Ref>,
    base: u64,
    len: u64,
    class: Class,
) -> impl Iterator<Item = Ref> {
    let (target, end) = (past_page(base), end_of(base, len));
    walk(start, move |n| class.next::<P>(n, target))
        .take_while(move |n| n.cap().base < end)
        .filter(move |n| span::<P>(&n.cap()).1 > base)
}
