//! Slots of CNodes and dispatchers.

use super::Obj;
use core::ptr::NonNull;
use mdb::Slot;

/// A slot in a CNode or dispatcher.
pub type SlotRef = Obj<Slot>;

impl SlotRef {
    /// A slot that the database knows, or that a container has.
    #[inline]
    pub fn from_slot(slot: NonNull<Slot>) -> SlotRef {
        Obj::wrap(slot)
    }
}

/// The slot at index `index` of the CNode at `base`.
#[inline]
pub fn slot_at(base: u64, index: u32) -> SlotRef {
    Obj::at_pa(base + u64::from(index) * size_of::<Slot>() as u64)
}

/// Adjacent slots of one CNode.
#[derive(Clone, Copy)]
pub struct SlotRun {
    first: SlotRef,
    len: u32,
}

impl SlotRun {
    /// The `len` slots from index `index` of the CNode at `base`.
    #[inline]
    pub fn new(base: u64, index: u32, len: u32) -> SlotRun {
        SlotRun { first: slot_at(base, index), len }
    }
    /// One slot alone.
    pub fn one(slot: SlotRef) -> SlotRun {
        SlotRun { first: slot, len: 1 }
    }
    /// How many.
    #[inline]
    pub fn len(self) -> u32 {
        self.len
    }
    /// Are there none?
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
    /// The first slot.
    #[inline]
    pub fn first(self) -> SlotRef {
        self.first
    }
    /// The slot at `index`, or the last one.
    #[inline]
    pub fn get(self, index: u32) -> SlotRef {
        debug_assert!(index < self.len);
        // SAFETY: inside the CNode, as the index is below the length.
        Obj::wrap(unsafe { self.first.ptr().add(index.min(self.len - 1) as usize) })
    }
    /// `len` of them from `first` on, as far as there are so many.
    pub fn part(self, first: u32, len: u32) -> SlotRun {
        let first = first.min(self.len);
        SlotRun::new(self.first.pa(), first, len.min(self.len - first))
    }
    /// All of them, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = SlotRef> {
        // SAFETY: inside the CNode, as the index is below the length.
        (0..self.len).map(move |n| Obj::wrap(unsafe { self.first.ptr().add(n as usize) }))
    }
    /// The same for a loop over one run alone, which needs no index then.
    #[inline]
    pub fn each(self) -> impl Iterator<Item = SlotRef> {
        let first = self.first.ptr().as_ptr();
        // SAFETY: all are inside the CNode, and consist of cells.
        let slots: &[Slot] = unsafe { core::slice::from_raw_parts(first, self.len as usize) };
        slots.iter().map(|slot| Obj::wrap(slot.into()))
    }
    /// Is any slot in both?
    pub fn meets(self, other: SlotRun) -> bool {
        let end = |run: SlotRun| run.first.pa() + u64::from(run.len) * size_of::<Slot>() as u64;
        self.first.pa() < end(other) && other.first.pa() < end(self)
    }
    /// Are all empty?
    pub fn all_empty(self) -> bool {
        match self.len {
            1 => self.first.ty() == 0,
            len => self.next_filled(0) == len,
        }
    }
    /// The first slot from `from` on that is in use; the length if none is. Most slots of most
    /// CNodes are empty, so it looks at many types at a time.
    #[inline]
    pub fn next_filled(self, from: u32) -> u32 {
        let mut at = from;
        // Those that are in use are mostly side by side.
        if at < self.len && self.get(at).ty() != 0 {
            return at;
        }
        while at + GROUP as u32 <= self.len
            && self.group_at(at).iter().fold(0, |a, s| a | s.ty()) == 0
        {
            at += GROUP as u32;
        }
        while at < self.len && self.get(at).ty() == 0 {
            at += 1;
        }
        at
    }
    /// The same, but at most `most` slots further on, whether that one is in use or not.
    pub fn next_filled_within(self, from: u32, most: u32) -> u32 {
        self.part(0, from.saturating_add(most)).next_filled(from)
    }
    #[inline]
    fn group_at(&self, at: u32) -> &[Slot; GROUP] {
        // SAFETY: asked only for groups that are inside the CNode.
        unsafe { self.first.ptr().add(at as usize).cast().as_ref() }
    }
}

/// Slots that are looked at together.
const GROUP: usize = 16;
