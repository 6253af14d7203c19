//! Page tables in memory.

use super::Obj;
use crate::arch;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bit of an entry: it shows a table of a morsel, or pages of it. Entries of other Mappings do not have it.
pub const MORSEL: u64 = 1 << 60;

/// A page table. The processor writes accessed and dirty bits into it at any time.
#[derive(Clone, Copy)]
pub struct Table(NonNull<[AtomicU64; 512]>);

impl Table {
    /// The table of a VNode capability.
    #[inline]
    pub fn at(pa: u64) -> Table {
        Table(Obj::<[AtomicU64; 512]>::at_pa(pa).ptr())
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
        unsafe { arch::is_zero::<{ paging::PAGE as usize }>(self.0.as_ptr().cast()) }
    }
    /// Is the lower half empty, which of a root table is the user's?
    pub fn is_lower_half_empty(self) -> bool {
        // SAFETY: as above.
        unsafe { arch::is_zero::<2048>(self.0.as_ptr().cast()) }
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
    /// Sets the bits `noted` in entry `index`, of a table that others change, if it has the bits `needed`: the entry then.
    /// `None` if it has not. An error: somebody has changed it meanwhile.
    pub fn note(self, index: u32, needed: u64, noted: u64) -> Result<Option<u64>, u64> {
        let entry = self.entry(index);
        let old = entry.load(Ordering::Relaxed);
        if old & needed != needed {
            return Ok(None);
        }
        let new = old | noted;
        entry.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)?;
        Ok(Some(new))
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
