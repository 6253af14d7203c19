//! The order of capabilities, and the relations between two of them.

use core::cmp::Ordering;

use crate::slot::{page_end, Ends, RawCap};
use crate::Policy;

/// A capability's position, without the slot address that G18 §4.5.2 adds to part copies: copies
/// share one position here.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub base: u64,
    pub len: u64,
    /// Rank, then type.
    pub minor: u16,
    pub identity: u64,
}

impl Key {
    #[inline]
    pub fn of<P: Policy>(cap: &RawCap) -> Self {
        let (base, len) = P::range(cap);
        debug_assert_eq!(base, cap.base, "a range begins at the base");
        Self { base, len, minor: minor::<P>(cap), identity: P::identity(cap) }
    }

    /// The first position of all for ranges that begin at `base` with at most `len` bytes.
    pub fn first(base: u64, len: u64) -> Self {
        Self { base, len, minor: 0, identity: 0 }
    }

    /// The last position for `base`, `len` and ranks up to `rank`.
    pub fn last(base: u64, len: u64, rank: u8) -> Self {
        Self { base, len, minor: u16::from(rank) << 8 | 0xff, identity: u64::MAX }
    }

    /// Compares with the position of `cap`. The base alone decides nearly always.
    #[inline]
    pub fn cmp<P: Policy>(&self, cap: &RawCap) -> Ordering {
        if self.base != cap.base {
            return self.base.cmp(&cap.base);
        }
        self.cmp_same_base::<P>(cap)
    }

    /// Whether the position is after that of `cap`; `None` if it is the same. For descents: which
    /// way they go is a coin toss, so it is a value and not a branch.
    #[inline]
    pub fn is_after<P: Policy>(&self, cap: &RawCap) -> Option<bool> {
        if self.base != cap.base {
            return Some(self.base > cap.base);
        }
        match self.cmp_same_base::<P>(cap) {
            Ordering::Equal => None,
            other => Some(other == Ordering::Greater),
        }
    }

    #[inline(never)]
    fn cmp_same_base<P: Policy>(&self, cap: &RawCap) -> Ordering {
        let larger_first = P::range(cap).1.cmp(&self.len);
        larger_first
            .then_with(|| self.minor.cmp(&minor::<P>(cap)))
            .then_with(|| self.identity.cmp(&P::identity(cap)))
    }
}

#[inline]
fn minor<P: Policy>(cap: &RawCap) -> u16 {
    u16::from(P::rank_of(cap)) << 8 | u16::from(cap.ty)
}

#[inline(always)]
pub(crate) fn is_leaf<P: Policy>(cap: &RawCap) -> bool {
    P::rank(cap.ty) >= P::LEAF_RANK
}

/// Whether there can be one capability to it only.
#[inline(always)]
pub(crate) fn is_record<P: Policy>(cap: &RawCap) -> bool {
    P::rank(cap.ty) >= P::RECORD_RANK
}

/// Whether something of the range of `a`, behind it in the order, was made of it.
#[inline]
fn derives<P: Policy>(a: &RawCap, b: &RawCap) -> bool {
    !is_leaf::<P>(a) || is_record::<P>(b) && P::derives(a, b)
}

/// Whether `a` comes before `b` in their tree.
#[inline(always)]
pub(crate) fn is_before<P: Policy>(a: &RawCap, b: &RawCap) -> bool {
    a.base < b.base || a.base == b.base && Key::of::<P>(a).cmp::<P>(b) == Ordering::Less
}

/// The end of a range; an object without memory counts as one byte.
#[inline(always)]
pub(crate) fn end_of(base: u64, len: u64) -> u64 {
    base.saturating_add(len.max(1))
}

/// First and end of what `cap` covers.
#[inline(always)]
pub(crate) fn span<P: Policy>(cap: &RawCap) -> (u64, u64) {
    let (base, len) = P::range(cap);
    (base, end_of(base, len))
}

/// The end of an object, in pages.
#[inline(always)]
fn object_end<P: Policy>(cap: &RawCap) -> u64 {
    debug_assert!(!is_leaf::<P>(cap));
    page_end(end_of(cap.base, P::object_length(cap)))
}

/// What `cap` alone adds to the ends of a subtree.
#[inline(always)]
pub(crate) fn own_ends<P: Policy>(cap: &RawCap) -> Ends {
    if is_leaf::<P>(cap) {
        Ends { object: 0, leaf: page_end(span::<P>(cap).1) }
    } else {
        Ends { object: object_end::<P>(cap), leaf: 0 }
    }
}

/// What is needed of a capability to tell its descendants from others of its tree.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub end: u64,
    len: u64,
    pub cap: RawCap,
}

impl Extent {
    #[inline]
    pub fn of<P: Policy>(cap: &RawCap) -> Self {
        let (base, len) = P::range(cap);
        Self { end: end_of(base, len), len, cap: *cap }
    }

    /// Whether what has this extent, an object, is an ancestor of `after`, which comes behind it in the order.
    /// The lengths mostly decide.
    #[inline(always)]
    pub fn is_ancestor_of<P: Policy>(&self, after: &Extent) -> bool {
        after.end <= self.end
            && (after.len != self.len || P::rank_of(&after.cap) > P::rank_of(&self.cap))
            && !is_leaf::<P>(&self.cap)
    }
}

/// Whether `a` is an ancestor of `b`: of the same tree, with a range that contains that of `b` and is larger, or
/// has a lower rank; and an object, or a leaf of which `b` was made.
pub fn is_ancestor<P: Policy>(a: &RawCap, b: &RawCap) -> bool {
    let ((a_base, a_end), (b_base, b_end)) = (span::<P>(a), span::<P>(b));
    let contains = a_base <= b_base && b_end <= a_end;
    let before = match P::range(a).1.cmp(&P::range(b).1) {
        Ordering::Greater => true,
        Ordering::Equal => P::rank_of(a) < P::rank_of(b),
        Ordering::Less => false,
    };
    P::tree(a.ty) == P::tree(b.ty) && contains && before && derives::<P>(a, b)
}

/// Whether `a` and `b` differ in their identity only: see [`Policy::identity`].
pub(crate) fn are_siblings<P: Policy>(a: &RawCap, b: &RawCap) -> bool {
    let same = (a.base, P::range(a).1, minor::<P>(a)) == (b.base, P::range(b).1, minor::<P>(b));
    same && P::tree(a.ty) == P::tree(b.ty) && P::identity(a) != P::identity(b)
}

/// Whether `a` and `b` are copies of one another: they have the same position in the order.
pub fn is_copy<P: Policy>(a: &RawCap, b: &RawCap) -> bool {
    P::tree(a.ty) == P::tree(b.ty) && Key::of::<P>(a).cmp::<P>(b) == Ordering::Equal
}
