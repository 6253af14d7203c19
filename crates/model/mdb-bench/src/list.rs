//! The doubly-linked list of G18 §4.5.1, a preorder walk of the capabilities: cheap where a neighbour
//! is known, a scan where none is.

use crate::database::{Database, Place};
use crate::order::{compare, end, is_ancestor, start};
use mdb::RawCap;
use std::cell::Cell;
use std::cmp::Ordering;
use std::iter::successors;

type Link<'a> = Cell<Option<&'a Slot<'a>>>;

#[derive(Default)]
#[repr(align(64))]
pub struct Slot<'a> {
    cap: Cell<RawCap>,
    before: Link<'a>,
    after: Link<'a>,
}

impl Place for Slot<'_> {
    fn fill(&self, cap: RawCap) {
        self.cap.set(cap);
    }

    #[inline]
    fn cap(&self) -> RawCap {
        self.cap.get()
    }
}

#[derive(Default)]
pub struct List<'a> {
    first: Option<&'a Slot<'a>>,
}

impl<'a> List<'a> {
    /// From the first one on.
    fn iter(&self) -> impl Iterator<Item = &'a Slot<'a>> {
        successors(self.first, |slot| slot.after.get())
    }

    fn link(&mut self, before: Option<&'a Slot<'a>>, slot: &'a Slot<'a>) {
        let after = match before {
            Some(before) => before.after.replace(Some(slot)),
            None => self.first.replace(slot),
        };
        slot.before.set(before);
        slot.after.set(after);
        if let Some(after) = after {
            after.before.set(Some(slot));
        }
    }
}

/// Whether both are of the same capability.
#[inline]
fn is_copy(a: &Slot, b: &Slot) -> bool {
    compare(&a.cap(), &b.cap()) == Ordering::Equal
}

impl<'a> Database<'a> for List<'a> {
    type Slot = Slot<'a>;

    const NAME: &'static str = "list";

    /// In order, for to insert n one by one is n² / 4 steps.
    fn fill(&mut self, slots: &[&'a Slot<'a>]) {
        let mut slots = slots.to_vec();
        slots.sort_by(|a, b| compare(&a.cap(), &b.cap()));
        let mut last = None;
        for slot in slots {
            self.link(last, slot);
            last = Some(slot);
        }
    }

    fn insert(&mut self, slot: &'a Slot<'a>) {
        let cap = slot.cap();
        let mut before = None;
        let mut at = self.first;
        while let Some(other) = at.filter(|o| compare(&o.cap(), &cap) != Ordering::Greater) {
            before = at;
            at = other.after.get();
        }
        self.link(before, slot);
    }

    fn remove(&mut self, slot: &'a Slot<'a>) {
        let (before, after) = (slot.before.take(), slot.after.take());
        match before {
            Some(before) => before.after.set(after),
            None => self.first = after,
        }
        if let Some(after) = after {
            after.before.set(before);
        }
    }

    #[inline]
    fn next(&self, slot: &'a Slot<'a>) -> Option<&'a Slot<'a>> {
        slot.after.get()
    }

    #[inline]
    fn has_copies(&self, slot: &'a Slot<'a>) -> bool {
        slot.after.get().is_some_and(|other| is_copy(slot, other))
            || slot.before.get().is_some_and(|other| is_copy(slot, other))
    }

    fn has_ancestors(&self, slot: &'a Slot<'a>) -> bool {
        let cap = slot.cap();
        successors(slot.before.get(), |s| s.before.get()).any(|s| is_ancestor(&s.cap(), &cap))
    }

    fn has_descendants(&self, slot: &'a Slot<'a>) -> bool {
        let after = successors(slot.after.get(), |s| s.after.get()).find(|s| !is_copy(slot, s));
        after.is_some_and(|after| is_ancestor(&slot.cap(), &after.cap()))
    }

    fn overlapping(&self, base: u64, len: u64) -> Option<&'a Slot<'a>> {
        let before = self.iter().take_while(|s| start(&s.cap()) < base + len);
        before.into_iter().find(|s| end(&s.cap()) > base)
    }

    fn is_sound(&self) -> bool {
        self.iter().all(|slot| match slot.after.get() {
            None => true,
            Some(after) => {
                let linked = after.before.get().is_some_and(|s| std::ptr::eq(s, slot));
                linked && compare(&slot.cap(), &after.cap()) != Ordering::Greater
            }
        })
    }
}
