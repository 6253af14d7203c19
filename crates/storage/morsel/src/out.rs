//! Pages that leave memory for a while: their contents are in a store, and their entries lead to a slot of it.
//!
//! ```text
//!            entry exchanged ─► translations forgotten ─► walks have ended ─► contents kept ─► frame given back
//!  page ─────────────────────────────────────────────────────────────────────────────────────────────────────► slot
//!        ◄─────────────────────────────────────────────────────────────────────────────────────────────────────
//!            frame taken ─► filled ─► entry exchanged ─► walks have ended ─► slot given back
//! ```
//!
//! A slot is a frame of the pool that is no memory: it has a descriptor, so that a table which is copied counts one more that leads to
//! it, and whoever discards, limits or destroys gives it back as a page. So a snapshot has in it what the object had, and
//! each brings in a page of its own; the last gives the slot back. Nobody writes to what several lead to until all
//! but one have gone, whether it is in memory or not.
//!
//! The pages of an object of order 0, of the directory, and of pools that survive do not leave.

use crate::link::{index, Child, Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::walk::{Found, Goal, Leftovers};
use crate::{Morsels, Record, Refused};

/// Pages that are looked at together.
const GROUP: u64 = 64;

/// Which pages of a row are there, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The first page behind those that were looked at.
    pub next: u64,
    pub there: u64,
    /// Those of them that were used since they were looked at last.
    pub used: u64,
    /// In a store.
    pub out: u64,
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Has a page leave: its entry leads to `slot` from now on, and `keep` gets its frame when nobody can change it any more.
    /// `false`, and nothing is done, if it is not there.
    ///
    /// A page of 2 MiB becomes 512 of 4 KiB first, and a table that others have, too, is copied; both need a page.
    ///
    /// # Errors
    /// [`Refused::Again`], and those of [`fault`](Self::fault). Nothing is kept then.
    pub fn page_out(
        &self,
        record: Record,
        page: u64,
        slot: Frame,
        keep: impl FnOnce(Frame),
    ) -> Result<bool, Refused> {
        let taken = self.at_entry(record, page, |path, at, level, link, _| {
            if level == 2 {
                self.split_huge(path, at, link)?;
                return Err(Refused::Again);
            }
            Ok(self.exchange_out(at, slot))
        })?;
        let Some(Some(child)) = taken else { return Ok(false) };
        self.cores.invalidate(record.id, page..page + 1);
        // Who was on the way to write to it has done so.
        self.cores.grace();
        keep(child.frame);
        let mut left = Leftovers::new();
        if self.unshare(child) {
            left.push(child);
        }
        self.settle_limbo(left);
        Ok(true)
    }

    /// What an entry led to, which leads to `slot` now.
    fn exchange_out(&self, at: At, slot: Frame) -> Option<Child> {
        loop {
            let link = self.load(at);
            if link.is_hole() || link.is_claim() || link.is_out() {
                return None;
            }
            // The processor may be marking it.
            if self.exchange(at, link, Link::out(slot)) {
                return Some(link.child(1));
            }
        }
    }

    /// Where a page is in the store, if it is there.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault).
    pub fn slot_of(&self, record: Record, page: u64) -> Result<Option<Frame>, Refused> {
        self.visit_and(record, page, Goal::Survey, |found| match found {
            Found::Entry { link, .. } if link.is_out() => Some(link.frame()),
            _ => None,
        })
    }

    /// Brings a page back from `slot`: `fill` gets the frame that it is to have. `false`, and nothing is done, if it is not there
    /// (any more).
    ///
    /// # Errors
    /// [`Refused::NoMemory`], and those of [`fault`](Self::fault).
    pub fn page_in(
        &self,
        record: Record,
        page: u64,
        slot: Frame,
        fill: impl FnOnce(Frame),
    ) -> Result<bool, Refused> {
        let come = self.at_entry(record, page, |_, at, _, link, left| {
            if link != Link::out(slot) {
                return Ok(false);
            }
            let frame = self.pages.take(0)?;
            fill(frame);
            let child = Child { frame, kind: Kind::Page };
            // Used once the processor says so: it may have come beside another.
            if !self.exchange(at, link, Link::own(child, true).rested()) {
                self.give(child);
                return Ok(false);
            }
            if self.unshare(link.child(1)) {
                left.push(link.child(1));
            }
            Ok(true)
        })?;
        Ok(come == Some(true))
    }

    /// Does something with the entry that leads to a page, or to 2 MiB of pages, in tables that are the object's own. `None`: there is none.
    fn at_entry<R>(
        &self,
        record: Record,
        page: u64,
        then: impl FnOnce(crate::walk::Path, At, u8, Link, &mut Leftovers) -> Result<R, Refused>,
    ) -> Result<Option<R>, Refused> {
        if self.ordered() || !self.pages.grows() || record.id == 0 {
            return Err(Refused::Invalid);
        }
        let mut left = Leftovers::new();
        self.cores.enter();
        let done = self.permit(record, page).and_then(|top| {
            let path = self.path(record, page);
            match self.walk(path, top, Goal::Reach, &mut left)? {
                Found::Entry { at, link, level } => {
                    if left.is_full() {
                        return Err(Refused::Again);
                    }
                    then(path, at, level, link, &mut left).map(Some)
                }
                _ => Ok(None),
            }
        });
        self.cores.leave();
        self.settle_limbo(left);
        done
    }

    /// Looks at the row of 64 pages around one, or over a hole. If `rests`, they count as not used from now on; what processors
    /// have cached of that is not forgotten, so that one that is used all the time may be taken for one that is not.
    ///
    /// # Errors
    /// [`Refused::Beyond`] behind the limit, [`Refused::Gone`], [`Refused::Again`] while a snapshot is taken.
    pub fn look_over(&self, record: Record, page: u64, rests: bool) -> Result<Seen, Refused> {
        let first = page & !(GROUP - 1);
        self.visit_and(record, first, Goal::Survey, |found| {
            let mut seen = Seen { next: first + GROUP, ..Seen::default() };
            match found {
                // An object of one page.
                Found::Table(_) => seen.next = first + GROUP,
                Found::Hole { level, .. } => {
                    seen.next =
                        first.max((first | (crate::span(level) - 1)) & !(GROUP - 1)) + GROUP;
                    // In a last-level table there may be pages behind it.
                    if level == 1 {
                        self.look_over_row(first, found, rests, &mut seen);
                    }
                }
                Found::Entry { at, link, level: 2 } => {
                    seen.there = u64::MAX;
                    if link.is_accessed() {
                        seen.used = u64::MAX;
                    }
                    // Each of its rows finds it as it was before the last.
                    if rests && (first | 511) - first < GROUP {
                        self.exchange(at, link, link.rested());
                    }
                }
                Found::Entry { .. } => self.look_over_row(first, found, rests, &mut seen),
            }
            seen
        })
    }

    fn look_over_row(&self, first: u64, found: Found, rests: bool, seen: &mut Seen) {
        let (Found::Entry { at, .. } | Found::Hole { at, .. }) = found else { return };
        let start = index(first, 1);
        for n in 0..GROUP as usize {
            let at = At::new(at.frame, start + n);
            let link = self.load(at);
            if link.is_hole() || link.is_claim() {
                continue;
            }
            if link.is_out() {
                seen.out |= 1 << n;
                continue;
            }
            seen.there |= 1 << n;
            if link.is_accessed() {
                seen.used |= 1 << n;
                if rests {
                    // If it fails, somebody uses it.
                    self.exchange(at, link, link.rested());
                }
            }
        }
    }
}
