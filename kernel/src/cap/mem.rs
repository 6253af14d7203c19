//! Objects in physical memory, seen through the direct map.
//!
//! What makes the references here sound:
//! * The direct map shows all memory for ever, so no address that comes from a capability is ever
//!   unmapped.
//! * Only the kernel reaches a kernel object (invariant 1: it is never mapped writable), and only
//!   this core's: capabilities to it are in this core's database.
//! * All fields of objects are cells or atomics, so shared references may coexist with changes, and
//!   memory full of zeros is a valid object of every type.
//! * An [`Obj`] is not used after its object was deleted. Within one event of the kernel that is the
//!   duty of `delete`; between events the only ones that stay are the links of dispatchers and
//!   endpoints, which are cut when either is deleted.
//! * User memory (frames) is only read and written by volatile and atomic accesses, or as whole
//!   pages by the architecture.

use super::{CapExt, SlotRef};
use crate::arch::{self, phys_to_virt, virt_to_phys};
use captypes::CapType;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use mdb::{RawCap, Slot};

/// A kernel object in memory.
///
/// # Safety
/// All fields are cells or atomics; all-zero memory is valid; no larger than the object that a
/// retype to [`Object::TYPE`] makes, and aligned to at most 4 KiB.
pub unsafe trait Object {
    /// Type of the capabilities to it.
    const TYPE: CapType;
}

/// A reference to an object in physical memory.
#[repr(transparent)]
pub struct Obj<T>(NonNull<T>);

impl<T> Clone for Obj<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Obj<T> {}
impl<T> PartialEq for Obj<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Obj<T> {}

impl<T> core::fmt::Debug for Obj<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.pa())
    }
}

impl<T> Deref for Obj<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: see the head of this file.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Obj<T> {
    /// The pointer.
    #[inline]
    pub fn ptr(self) -> NonNull<T> {
        self.0
    }
    /// The physical address.
    #[inline]
    pub fn pa(self) -> u64 {
        virt_to_phys(self.0.as_ptr())
    }
    /// A reference found in the database, or to a field of an object.
    #[inline]
    pub(crate) fn wrap(at: NonNull<T>) -> Obj<T> {
        Obj(at)
    }
    #[inline]
    fn at_pa(pa: u64) -> Obj<T> {
        let at: *mut T = phys_to_virt(pa).cast();
        debug_assert!(!at.is_null() && at.is_aligned());
        // SAFETY: the direct map does not begin at address zero.
        Obj(unsafe { NonNull::new_unchecked(at) })
    }
}

impl<T: Object> Obj<T> {
    /// The object at `pa`, which the caller knows to be one.
    #[inline]
    pub(crate) fn at(pa: u64) -> Obj<T> {
        Obj::at_pa(pa)
    }

    /// The object of a capability; `None` if the type differs, or if it is another core's.
    #[inline]
    pub fn of(cap: &RawCap) -> Option<Obj<T>> {
        (cap.is(T::TYPE) && !cap.is_foreign()).then(|| Obj::at_pa(cap.base))
    }

    /// The object in which `slot`, one of its own slots, lies. Objects are one page.
    #[inline]
    pub fn around(slot: SlotRef) -> Obj<T> {
        Obj::at_pa(slot.pa() & !(paging::PAGE - 1))
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
        Obj(unsafe { self.first.0.add(index.min(self.len - 1) as usize) })
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
        (0..self.len).map(move |n| Obj(unsafe { self.first.0.add(n as usize) }))
    }
    /// The same for a loop over one run alone, which needs no index then.
    #[inline]
    pub fn each(self) -> impl Iterator<Item = SlotRef> {
        let first = self.first.0.as_ptr();
        // SAFETY: all are inside the CNode, and consist of cells.
        let slots: &[Slot] = unsafe { core::slice::from_raw_parts(first, self.len as usize) };
        slots.iter().map(|slot| Obj(slot.into()))
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
        unsafe { self.first.0.add(at as usize).cast().as_ref() }
    }
}

/// Slots that are looked at together.
const GROUP: usize = 16;

/// A page table. The processor writes accessed and dirty bits into it at any time.
#[derive(Clone, Copy)]
pub struct Table(NonNull<[AtomicU64; 512]>);

impl Table {
    /// The table of a VNode capability.
    #[inline]
    pub fn at(pa: u64) -> Table {
        Table(Obj::at_pa(pa).0)
    }
    #[inline]
    fn entry(self, index: u32) -> &'static AtomicU64 {
        // SAFETY: see the head of this file; the index is inside.
        unsafe { &(*self.0.as_ptr())[index as usize & 511] }
    }
    /// Entry `index`, below 512.
    #[inline]
    pub fn get(self, index: u32) -> u64 {
        self.entry(index).load(Ordering::Relaxed)
    }
    /// Writes entry `index`.
    #[inline]
    pub fn set(self, index: u32, value: u64) {
        self.entry(index).store(value, Ordering::Relaxed);
    }
    /// Writes entry `index` and returns what it was, with all that the processor wrote.
    #[inline]
    pub fn swap(self, index: u32, value: u64) -> u64 {
        self.entry(index).swap(value, Ordering::Relaxed)
    }
    /// Clears entry `index`, likewise.
    #[inline]
    pub fn take(self, index: u32) -> u64 {
        self.swap(index, 0)
    }
    /// Entries `start..start + count`, inside the table, in order.
    #[inline]
    pub fn run(self, start: u32, count: u32) -> impl Iterator<Item = &'static AtomicU64> {
        self.entries(start, count).iter()
    }
    /// Are entries `start..start + count`, inside the table, all empty?
    #[inline]
    pub fn all_empty(self, start: u32, count: u32) -> bool {
        self.entries(start, count).iter().fold(0, |all, e| all | e.load(Ordering::Relaxed)) == 0
    }
    /// The first entry in use of `from..end`, which is inside the table; `end` if none is.
    #[inline]
    pub fn next_used(self, from: u32, end: u32) -> u32 {
        const GROUP: u32 = 16;
        let mut at = from;
        while at + GROUP <= end && self.all_empty(at, GROUP) {
            at += GROUP;
        }
        while at < end && self.get(at) == 0 {
            at += 1;
        }
        at
    }
    /// Is the whole table empty?
    pub fn is_empty(self) -> bool {
        // SAFETY: a table is a page of memory.
        unsafe { arch::is_zero::<4096>(virt_to_phys(self.0.as_ptr())) }
    }
    /// Is the lower half empty, which of a root table is the user's?
    pub fn is_lower_half_empty(self) -> bool {
        // SAFETY: as above.
        unsafe { arch::is_zero::<2048>(virt_to_phys(self.0.as_ptr())) }
    }
    /// Writes `first`, `first + step`, … to entries `start..start + count`.
    #[inline]
    pub fn fill(self, start: u32, count: u32, first: u64, step: u64) {
        in_groups(self.entries(start, count), first, |value, entry| {
            entry.store(value, Ordering::Relaxed);
            value.wrapping_add(step)
        });
    }
    #[inline]
    fn entries(self, start: u32, count: u32) -> &'static [AtomicU64] {
        // SAFETY: see the head of this file.
        let all: &[AtomicU64; 512] = unsafe { &*self.0.as_ptr() };
        let (start, count) = (start as usize, count as usize);
        all.get(start..start + count).unwrap_or(&[])
    }
    /// The union and the intersection of entries `start..start + count`.
    #[inline]
    pub fn union_and_intersection(self, start: u32, count: u32) -> (u64, u64) {
        let both = |(union, intersection), entry: &AtomicU64| {
            let value = entry.load(Ordering::Relaxed);
            (union | value, intersection & value)
        };
        in_groups(self.entries(start, count), (0, u64::MAX), both)
    }
    /// Calls `visit` with the number and value of each of entries `start..start + count` that has one
    /// of `bits`. Most have none, so it looks at eight at a time.
    #[inline]
    pub fn for_each_with(self, start: u32, count: u32, bits: u64, mut visit: impl FnMut(u32, u64)) {
        let mut one = |n: u32, entry: &AtomicU64| {
            let value = entry.load(Ordering::Relaxed);
            if value & bits != 0 {
                visit(n, value);
            }
        };
        let (groups, rest) = self.entries(start, count).as_chunks::<8>();
        let mut index = start;
        for group in groups {
            let union = group.iter().fold(0, |all, entry| all | entry.load(Ordering::Relaxed));
            if union & bits != 0 {
                (index..).zip(group).for_each(|(n, entry)| one(n, entry));
            }
            index += 8;
        }
        (index..).zip(rest).for_each(|(n, entry)| one(n, entry));
    }
    /// Inverts `bits` in entries `start..start + count`, without losing what the processor writes.
    #[inline]
    pub fn toggle(self, start: u32, count: u32, bits: u64) {
        let toggle = |(), entry: &AtomicU64| {
            entry.fetch_xor(bits, Ordering::Relaxed);
        };
        in_groups(self.entries(start, count), (), toggle);
    }
    /// Changes entry `index` by `change`, without losing what the processor writes. Returns the
    /// old and the new entry.
    #[inline]
    pub fn change(self, index: u32, change: impl Fn(u64) -> u64) -> (u64, u64) {
        let entry = self.entry(index);
        let mut old = entry.load(Ordering::Relaxed);
        loop {
            let new = change(old);
            match entry.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return (old, new),
                Err(now) => old = now,
            }
        }
    }
}

/// A fold over entries that looks at the count only once for eight of them.
#[inline(always)]
fn in_groups<T>(entries: &[AtomicU64], initial: T, mut step: impl FnMut(T, &AtomicU64) -> T) -> T {
    let (groups, rest) = entries.as_chunks::<8>();
    let mut value = initial;
    for group in groups {
        for entry in group {
            value = step(value, entry);
        }
    }
    for entry in rest {
        value = step(value, entry);
    }
    value
}

/// A word of user memory that the kernel and a program share.
#[derive(Clone, Copy)]
pub struct UserWord(NonNull<AtomicU64>);

impl UserWord {
    /// The word at physical address `pa`, a multiple of 8, in a page that a Frame covers.
    #[inline]
    pub fn at(pa: u64) -> UserWord {
        UserWord(Obj::at_pa(pa & !7).0)
    }
    #[inline]
    fn cell(self) -> &'static AtomicU64 {
        // SAFETY: memory of the direct map; atomic accesses may meet those of the program.
        unsafe { self.0.as_ref() }
    }
    /// Its value.
    #[inline]
    pub fn get(self) -> u64 {
        self.cell().load(Ordering::Relaxed)
    }
    /// Writes it.
    #[inline]
    pub fn set(self, value: u64) {
        self.cell().store(value, Ordering::Relaxed);
    }
    /// Sets bits.
    #[inline]
    pub fn or(self, bits: u64) {
        self.cell().fetch_or(bits, Ordering::AcqRel);
    }
    /// Takes the value and leaves zero.
    #[inline]
    pub fn take(self) -> u64 {
        self.cell().swap(0, Ordering::AcqRel)
    }
}

/// Fills `[base, base + bytes)`, whole pages without owner, with zeros.
pub fn zero(base: u64, bytes: u64) {
    for page in (base..base + bytes).step_by(paging::PAGE as usize) {
        // SAFETY: memory without descendants in the database: nobody refers to it.
        unsafe { arch::zero_page(page) };
    }
}

/// Copies the 4 KiB at `src`, of a Frame, to `dst`, without owner.
pub fn copy_page(dst: u64, src: u64) {
    // SAFETY: `dst` has no owner, so it differs from `src` and nobody refers to it.
    unsafe { arch::copy::<4096>(dst, src) };
}

/// Writes `bytes` to the page-aligned address `pa`, in memory without owner.
pub fn write_bytes(pa: u64, bytes: &[u8]) {
    // SAFETY: memory of the direct map without owner; the slice is none of it.
    unsafe { phys_to_virt(pa).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Writes a value to the page-aligned address `pa`, in memory without owner.
pub fn write_value<T: Copy>(pa: u64, value: T) {
    // SAFETY: as above; aligned enough for anything.
    unsafe { phys_to_virt(pa).cast::<T>().write(value) };
}

/// `len` bytes at `pa`, which are never written as long as the kernel runs.
///
/// # Safety
/// Nobody writes there during `'a`, and all of it is memory.
pub unsafe fn bytes<'a>(pa: u64, len: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(phys_to_virt(pa), len as usize) }
}

/// A slice of what is zeros to begin with, at the page-aligned address `pa`, for as long as the kernel
/// runs.
///
/// # Safety
/// `len` times a `T` at `pa` are zeros without owner, and nobody else ever refers to them; a `T` of
/// zeros is valid and aligned at pages.
pub unsafe fn slice<T>(pa: u64, len: usize) -> &'static mut [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(phys_to_virt(pa).cast(), len) }
}
