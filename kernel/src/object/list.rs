//! Lists of dispatchers.

use super::DcbRef;
use core::cell::Cell;

/// A list of dispatchers through their `links`: callers of an endpoint, those that wait for a core.
pub struct DcbList {
    head: Cell<Option<DcbRef>>,
    tail: Cell<Option<DcbRef>>,
}

impl Default for DcbList {
    fn default() -> Self {
        Self::new()
    }
}

impl DcbList {
    /// An empty list.
    pub const fn new() -> DcbList {
        DcbList { head: Cell::new(None), tail: Cell::new(None) }
    }
    /// The first one.
    #[inline]
    pub fn first(&self) -> Option<DcbRef> {
        self.head.get()
    }
    /// Appends.
    #[inline]
    pub fn push(&self, dcb: DcbRef) {
        let tail = self.tail.replace(Some(dcb));
        dcb.links.prev.set(tail);
        dcb.links.next.set(None);
        match tail {
            Some(tail) => tail.links.next.set(Some(dcb)),
            None => self.head.set(Some(dcb)),
        }
    }
    /// Puts one before all others.
    pub fn push_front(&self, dcb: DcbRef) {
        let head = self.head.replace(Some(dcb));
        dcb.links.prev.set(None);
        dcb.links.next.set(head);
        match head {
            Some(head) => head.links.prev.set(Some(dcb)),
            None => self.tail.set(Some(dcb)),
        }
    }
    /// Takes the first one out.
    #[inline]
    pub fn pop(&self) -> Option<DcbRef> {
        let first = self.head.get()?;
        let next = first.links.next.take();
        self.head.set(next);
        match next {
            Some(next) => next.links.prev.set(None),
            None => self.tail.set(None),
        }
        Some(first)
    }
    /// Takes a member out.
    #[inline]
    pub fn remove(&self, dcb: DcbRef) {
        let (prev, next) = (dcb.links.prev.take(), dcb.links.next.take());
        match prev {
            Some(prev) => prev.links.next.set(next),
            None => self.head.set(next),
        }
        match next {
            Some(next) => next.links.prev.set(prev),
            None => self.tail.set(prev),
        }
    }
}
