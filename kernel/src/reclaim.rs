//! Memory that no capability but a home covers any more.
//!
//! The kernel has no memory to keep a list in, so the ranges are their own list: the first 16 bytes
//! of each hold the address of the next and the length. Retype zeroes what it makes readable, so
//! neither these nor the former contents are ever seen. A memory server that hands out what is still
//! on the list lets others write the links; so a link is followed only to memory with a home.

use crate::cap::asks::is_own_home;
use crate::cap::policy::MEMORY;
use crate::cap::Db;
use crate::object::mem::{self, Seen};
use crate::object::DcbRef;
use captypes::invocations::Reclaimed;
use core::sync::atomic::{AtomicU64, Ordering};
use paging::PAGE;

/// The list, and who is told.
pub struct Reclaim {
    /// Physical address of the first range, 0 if there is none.
    head: u64,
    /// Who is told when there is something on it, and with which bits.
    notify: Option<DcbRef>,
    bits: u64,
    /// Ranges that other cores may still write to by old translations, with their lengths.
    kept: [(u64, u64); KEPT],
    kept_count: usize,
}

/// How many ranges wait until other cores have forgotten them.
const KEPT: usize = 64;

/// The first words of a range.
struct Links(Seen);

impl Links {
    #[inline]
    fn of(range: u64) -> Links {
        Links(mem::see(range))
    }
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        let first: *const AtomicU64 = self.0.address() as *const AtomicU64;
        // SAFETY: in a page of memory that is seen as long as `self` lives; atomic accesses may meet those of a
        // program that was handed what is on the list.
        unsafe { &*first.add(index) }
    }
    /// The next range.
    #[inline]
    fn next(&self) -> u64 {
        self.word(0).load(Ordering::Relaxed)
    }
    /// Its length.
    #[inline]
    fn bytes(&self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }
    #[inline]
    fn set(&self, next: u64, bytes: u64) {
        self.word(0).store(next, Ordering::Relaxed);
        self.word(1).store(bytes, Ordering::Relaxed);
    }
}

impl Reclaim {
    /// An empty list.
    pub const fn new() -> Reclaim {
        Reclaim { head: 0, notify: None, bits: 0, kept: [(0, 0); KEPT], kept_count: 0 }
    }

    /// Keeps a range for later; `false` if there is no room.
    pub fn keep(&mut self, base: u64, bytes: u64) -> bool {
        let last = self.kept_count.checked_sub(1).and_then(|last| self.kept.get_mut(last));
        if let Some((_, length)) = last.filter(|(start, length)| *start + *length == base) {
            *length += bytes;
            return true;
        }
        let Some(place) = self.kept.get_mut(self.kept_count) else { return false };
        *place = (base, bytes);
        self.kept_count += 1;
        true
    }

    /// Adds a range; one that adjoins the newest is joined with it.
    fn push(&mut self, base: u64, bytes: u64) {
        let (mut base, mut bytes, mut next) = (base, bytes, self.head);
        if self.head != 0 {
            let links = Links::of(self.head);
            let (start, length) = (self.head, links.bytes());
            if start.wrapping_add(length) == base || base + bytes == start {
                next = links.next();
                base = base.min(start);
                bytes = bytes.wrapping_add(length);
            }
        }
        Links::of(base).set(next, bytes);
        self.head = base;
    }

    fn pop(&mut self, db: &Db) -> Option<(u64, u64)> {
        let base = self.head;
        if base == 0 {
            return None;
        }
        let links = Links::of(base);
        let bytes = links.bytes();
        self.head = links.next();
        if self.head & (PAGE - 1) != 0 || !has_home(db, self.head, PAGE) {
            self.head = 0;
        }
        Some((base, bytes))
    }

    /// Begins to take out what was kept, which is so much.
    #[inline]
    pub fn release(&mut self) -> usize {
        core::mem::take(&mut self.kept_count)
    }

    /// The `n`-th that was kept before [`release`](Self::release).
    pub fn released(&self, n: usize) -> Option<(u64, u64)> {
        self.kept.get(n).copied()
    }

    /// Puts a range on the list. Returns who is to be notified, with which bits: it was empty.
    #[inline]
    pub fn add(&mut self, base: u64, bytes: u64) -> Option<(DcbRef, u64)> {
        let was_empty = self.head == 0;
        self.push(base, bytes);
        self.notify.filter(|_| was_empty && self.head != 0).map(|dcb| (dcb, self.bits))
    }

    /// Notifies `dcb` from now on.
    pub fn listen(&mut self, dcb: DcbRef, bits: u64) {
        (self.notify, self.bits) = (Some(dcb), bits);
    }

    /// A dispatcher goes.
    pub fn forget(&mut self, dcb: DcbRef) {
        if self.notify == Some(dcb) {
            self.notify = None;
        }
    }

    /// Takes up to three ranges.
    pub fn collect(&mut self, db: &Db) -> Reclaimed {
        let mut take = || self.pop(db).unwrap_or((0, 0));
        let [(base0, bytes0), (base1, bytes1), (base2, bytes2)] = [take(), take(), take()];
        Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 }
    }

    /// Every range on the list.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let start = Some(self.head).filter(|&h| h != 0);
        core::iter::successors(start, |&at| Some(Links::of(at).next()).filter(|&n| n != 0))
            .map(|at| (at, Links::of(at).bytes()))
    }
}

/// Is this memory inside a home?
fn has_home(db: &Db, base: u64, bytes: u64) -> bool {
    db.surrounding(MEMORY, base, bytes, 0).is_some_and(|slot| is_own_home(&slot.cap()))
}

impl Default for Reclaim {
    fn default() -> Self {
        Self::new()
    }
}
