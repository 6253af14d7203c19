//! Leftist heaps (Crane 1972) through the dispatchers themselves: timers, and those of the run queue that come long after others.
//!
//! The shortest way down is always to the right, and has at most log2(n + 1) members; only such ways are walked, down to
//! merge two heaps, and up to where the ranks are right already. So everything takes O(log n) steps.

use crate::object::dcb::HeapLinks;
use crate::object::DcbRef;
use core::marker::PhantomData;

/// By what a heap is sorted, and where its links are.
pub trait Order {
    /// The links.
    fn links(dcb: &DcbRef) -> &HeapLinks;
    /// Whoever has the least is the first.
    fn key(dcb: DcbRef) -> u64;
}

/// A heap. Who is in it must not be put in again, and its key must not change.
pub struct Heap<O> {
    root: Option<DcbRef>,
    order: PhantomData<O>,
}

fn rank<O: Order>(dcb: Option<DcbRef>) -> u32 {
    dcb.map_or(0, |dcb| O::links(&dcb).rank.get())
}

/// Brings the shorter way of `dcb` to the right. Has its rank changed?
fn settle<O: Order>(dcb: DcbRef) -> bool {
    let links = O::links(&dcb);
    if rank::<O>(links.left.get()) < rank::<O>(links.right.get()) {
        links.left.swap(&links.right);
    }
    let rank = rank::<O>(links.right.get()) + 1;
    links.rank.replace(rank) != rank
}

/// One heap of two, whose roots have no parents; nor has that of the result.
fn merge<O: Order>(mut a: Option<DcbRef>, mut b: Option<DcbRef>) -> Option<DcbRef> {
    let (mut top, mut last) = (None, None::<DcbRef>);
    let mut hang = |last: Option<DcbRef>, member: Option<DcbRef>| {
        if let Some(member) = member {
            O::links(&member).parent.set(last);
        }
        match last {
            Some(last) => O::links(&last).right.set(member),
            None => top = member,
        }
    };
    // Down: the ways to the right become one, in order.
    while let (Some(x), Some(y)) = (a, b) {
        let first = if O::key(y) < O::key(x) { &mut b } else { &mut a };
        let next = *first;
        *first = next.and_then(|next| O::links(&next).right.get());
        hang(last, next);
        last = next;
    }
    hang(last, a.or(b));
    // And up: the shorter of two ways is that to the right.
    while let Some(dcb) = last {
        settle::<O>(dcb);
        last = O::links(&dcb).parent.get();
    }
    top
}

impl<O: Order> Heap<O> {
    /// Nobody is in it.
    pub const fn new() -> Heap<O> {
        Heap { root: None, order: PhantomData }
    }

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<DcbRef> {
        self.root
    }

    /// Puts one in. O(log n).
    pub fn add(&mut self, dcb: DcbRef) {
        let links = O::links(&dcb);
        links.parent.set(None);
        links.left.set(None);
        links.right.set(None);
        links.rank.set(1);
        self.root = merge::<O>(self.root, Some(dcb));
    }

    /// Takes one out that is in it. O(log n).
    pub fn remove(&mut self, dcb: DcbRef) {
        let links = O::links(&dcb);
        let (left, right, parent) = (links.left.get(), links.right.get(), links.parent.get());
        for child in [left, right].into_iter().flatten() {
            O::links(&child).parent.set(None);
        }
        let heir = merge::<O>(left, right);
        let Some(parent) = parent else {
            self.root = heir;
            return;
        };
        let above = O::links(&parent);
        let side = if above.left.get() == Some(dcb) { &above.left } else { &above.right };
        side.set(heir);
        heir.inspect(|heir| O::links(heir).parent.set(Some(parent)));
        let mut at = Some(parent).filter(|&parent| settle::<O>(parent));
        while let Some(dcb) = at {
            at = O::links(&dcb).parent.get().filter(|&above| settle::<O>(above));
        }
    }

    /// Panics unless it is in order, and the ways to the right are the shortest.
    #[cfg(test)]
    pub fn check(&self) {
        fn check<O: Order>(dcb: Option<DcbRef>, parent: Option<DcbRef>) -> u32 {
            let Some(dcb) = dcb else { return 0 };
            let links = O::links(&dcb);
            assert!(links.parent.get() == parent);
            assert!(parent.is_none_or(|parent| O::key(parent) <= O::key(dcb)));
            let left = check::<O>(links.left.get(), Some(dcb));
            let right = check::<O>(links.right.get(), Some(dcb));
            assert!(left >= right && links.rank.get() == right + 1);
            right + 1
        }
        check::<O>(self.root, None);
    }
}
