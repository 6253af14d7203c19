//! Memory that no capability but a home covers any more.
//!
//! The kernel has no memory to keep a list in, so the ranges are their own list: the first 16 bytes
//! of each hold the address of the next and the length. Retype zeroes what it makes readable, so
//! neither these nor the former contents are ever seen. A memory server that hands out what is still
//! on the list lets others write the links; so a link is followed only to memory with a home.

use super::policy::MEMORY;
use super::{Db, HOME_RAM};
use crate::driver::Local;
use crate::object::{DcbRef, UserWord};
use captypes::invocations::Reclaimed;
use paging::PAGE;

/// The list, and who is told.
pub struct Reclaim {
    /// Physical address of the first range, 0 if there is none.
    head: u64,
    pub(crate) notify: Option<DcbRef>,
    pub(crate) bits: u64,
    /// Ranges that other cores may still write to by old translations, with their lengths.
    kept: [(u64, u64); KEPT],
    kept_count: usize,
}

/// How many ranges wait until other cores have forgotten them.
const KEPT: usize = 64;

fn next_of(range: u64) -> UserWord {
    UserWord::at(range)
}

fn bytes_of(range: u64) -> UserWord {
    UserWord::at(range + 8)
}

impl Reclaim {
    /// An empty list.
    pub const fn new() -> Reclaim {
        Reclaim { head: 0, notify: None, bits: 0, kept: [(0, 0); KEPT], kept_count: 0 }
    }

    /// Keeps a range for later; `false` if there is no room.
    fn keep(&mut self, base: u64, bytes: u64) -> bool {
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
            let (start, length) = (self.head, bytes_of(self.head).get());
            if start.wrapping_add(length) == base || base + bytes == start {
                next = next_of(start).get();
                base = base.min(start);
                bytes = bytes.wrapping_add(length);
            }
        }
        next_of(base).set(next);
        bytes_of(base).set(bytes);
        self.head = base;
    }

    fn pop(&mut self, db: &Db) -> Option<(u64, u64)> {
        let base = self.head;
        if base == 0 {
            return None;
        }
        let bytes = bytes_of(base).get();
        self.head = next_of(base).get();
        if self.head & (PAGE - 1) != 0 || !has_home(db, self.head, PAGE) {
            self.head = 0;
        }
        Some((base, bytes))
    }

    /// Every range on the list.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let start = Some(self.head).filter(|&h| h != 0);
        core::iter::successors(start, |&at| Some(next_of(at).get()).filter(|&n| n != 0))
            .map(|at| (at, bytes_of(at).get()))
    }
}

/// Is this memory inside a home?
fn has_home(db: &Db, base: u64, bytes: u64) -> bool {
    db.surrounding(MEMORY, base, bytes, 0).is_some_and(|slot| slot.cap().ty == HOME_RAM)
}

impl Default for Reclaim {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// Puts `[base, base + bytes)` on the list, which only a home covers.
    #[inline]
    pub(super) fn reclaim(&mut self, base: u64, bytes: u64) {
        if self.tlb.is_pending_elsewhere() {
            return self.reclaim_later(base, bytes);
        }
        self.reclaim_now(base, bytes);
    }

    /// The same with memory that programs on other cores may be writing to: the list is in there.
    #[inline(never)]
    fn reclaim_later(&mut self, base: u64, bytes: u64) {
        if !self.reclaim.keep(base, bytes) {
            self.shoot_down();
            self.reclaim_kept();
            self.reclaim_now(base, bytes);
        }
    }

    /// Nobody writes any more to what was kept.
    #[inline]
    pub(crate) fn reclaim_kept(&mut self) {
        let count = core::mem::take(&mut self.reclaim.kept_count);
        for n in 0..count {
            let (base, bytes) = self.reclaim.kept[n];
            self.reclaim_now(base, bytes);
        }
    }

    #[inline]
    fn reclaim_now(&mut self, base: u64, bytes: u64) {
        let was_empty = self.reclaim.head == 0;
        self.reclaim.push(base, bytes);
        self.tell(was_empty);
    }

    #[inline]
    fn tell(&mut self, was_empty: bool) {
        if was_empty && self.reclaim.head != 0 {
            if let Some(dcb) = self.reclaim.notify {
                self.sched.notify(dcb, self.reclaim.bits);
            }
        }
    }

    /// Takes up to three ranges.
    pub fn collect_reclaimed(&mut self) -> Reclaimed {
        let mut take = || self.reclaim.pop(&self.db).unwrap_or((0, 0));
        let [(base0, bytes0), (base1, bytes1), (base2, bytes2)] = [take(), take(), take()];
        Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 }
    }
}
