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
use paging::ENTRIES;

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

/// Pages that leave, or come in, together at most.
pub const TOGETHER: usize = 8;

/// What leads to pages that leave, until nobody can use them.
struct Leaving {
    children: [Child; TOGETHER],
    count: usize,
    /// Which of the row they are.
    pages: u64,
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Has pages of a row of 64 leave, those whose bits are set in `pages` and that are there, as many as there are slots: the entry of the first
    /// leads to `slots.0` from now on, that of the next to the one behind it. `keep` gets their frames, in this order, when nobody can
    /// change them any more. Answers which have left; nothing is done to the others.
    ///
    /// A page of 2 MiB becomes 512 of 4 KiB first, and a table that others have, too, is copied; both need a page.
    ///
    /// Bound: [`TOGETHER`] pages.
    ///
    /// # Errors
    /// [`Refused::Again`], and those of [`fault`](Self::fault). Nothing is kept then.
    pub fn page_out(
        &self,
        record: Record,
        (row, pages): (u64, u64),
        slots: (Frame, usize),
        keep: impl FnOnce(&[Frame]),
    ) -> Result<u64, Refused> {
        let row = row & !(GROUP - 1);
        let slots = (slots.0, slots.1.min(TOGETHER));
        let mut wanted = pages;
        // The first that is there; one that is not has perhaps no table.
        for _ in 0..TOGETHER {
            if wanted == 0 || slots.1 == 0 {
                break;
            }
            let page = row + u64::from(wanted.trailing_zeros());
            let taken = self.at_entry(record, page, |path, at, level, link, _| {
                if level == 2 {
                    self.split_huge(path, at, link)?;
                    return Err(Refused::Again);
                }
                let inside = path.end.saturating_sub(row);
                let inside = if inside < GROUP { (1 << inside) - 1 } else { u64::MAX };
                Ok(self.exchange_out(at, row, wanted & inside, slots))
            })?;
            match taken {
                Some(leaving) if leaving.count > 0 => {
                    return Ok(self.part_with(record, row, leaving, keep))
                }
                _ => wanted &= wanted - 1,
            }
        }
        Ok(0)
    }

    /// Their entries lead to slots: nobody has them any more when this has waited.
    fn part_with(
        &self,
        record: Record,
        row: u64,
        leaving: Leaving,
        keep: impl FnOnce(&[Frame]),
    ) -> u64 {
        let Leaving { children, count, pages } = leaving;
        self.cores.invalidate_some(record.id, row, pages);
        // Who was on the way to write to them has done so.
        self.cores.grace();
        let frames = children.map(|child| child.frame);
        keep(&frames[..count]);
        let mut left = Leftovers::new();
        for &child in &children[..count] {
            if self.unshare(child) {
                left.push(child);
            }
        }
        self.settle_limbo(left);
        pages
    }

    /// What entries of a table led to, from that of the first wanted page on, which lead to slots now.
    fn exchange_out(&self, first: At, row: u64, wanted: u64, slots: (Frame, usize)) -> Leaving {
        let none = Child { frame: Frame(0), kind: Kind::Page };
        let mut leaving = Leaving { children: [none; TOGETHER], count: 0, pages: 0 };
        let (start, mut wanted) = (index(row, 1), wanted);
        while wanted != 0 && leaving.count < slots.1 {
            let n = wanted.trailing_zeros();
            wanted &= wanted - 1;
            let at = At::new(first.frame, start + n as usize);
            let slot = Frame(slots.0 .0 + leaving.count as u64);
            if let Some(child) = self.exchange_for_slot(at, slot) {
                leaving.children[leaving.count] = child;
                leaving.count += 1;
                leaving.pages |= 1 << n;
            }
        }
        leaving
    }

    /// What an entry led to, which leads to `slot` now.
    fn exchange_for_slot(&self, at: At, slot: Frame) -> Option<Child> {
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

    /// Brings pages back, the first from `slot`, each other from the slot behind, up to one that is not there (any more), or to the end of a table:
    /// `fill` gets the number of each, from 0, and the frame that it is to have. Answers how many have come.
    ///
    /// Bound: [`TOGETHER`] pages.
    ///
    /// # Errors
    /// [`Refused::NoMemory`], and those of [`fault`](Self::fault), if none has.
    pub fn page_in(
        &self,
        record: Record,
        (page, count): (u64, u64),
        slot: Frame,
        mut fill: impl FnMut(u64, Frame),
    ) -> Result<u64, Refused> {
        let count = count.min(TOGETHER as u64);
        let come = self.at_entry(record, page, |path, at, level, _, left| {
            let inside = path.end.saturating_sub(page).min((ENTRIES - at.index) as u64);
            let mut come = 0;
            while level == 1 && come < count.min(inside) && !left.is_full() {
                let at = At::new(at.frame, at.index + come as usize);
                let slot = Frame(slot.0 + come);
                match self.exchange_in(at, slot, |frame| fill(come, frame), left) {
                    Ok(true) => come += 1,
                    Err(refused) if come == 0 => return Err(refused),
                    // What has come has come.
                    Ok(false) | Err(_) => break,
                }
            }
            Ok(come)
        })?;
        Ok(come.unwrap_or(0))
    }

    /// An entry that leads to `slot` leads to a page that `fill` has filled. `false`: it leads to something else.
    fn exchange_in(
        &self,
        at: At,
        slot: Frame,
        fill: impl FnOnce(Frame),
        left: &mut Leftovers,
    ) -> Result<bool, Refused> {
        let link = self.load(at);
        if link != Link::out(slot) {
            return Ok(false);
        }
        let next = self.pages.take_next();
        let frame = next.map_or_else(|| self.pages.take(0), Ok)?;
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
        let (mut there, mut used, mut out, mut bit) = (0u64, 0u64, 0u64, 1u64);
        for n in 0..GROUP as usize {
            let at = At::new(at.frame, start + n);
            let link = self.load(at);
            if link.is_page() {
                there |= bit;
                if link.is_accessed() {
                    used |= bit;
                    if rests {
                        // If it fails, somebody uses it.
                        self.exchange(at, link, link.rested());
                    }
                }
            } else if link.is_out() {
                out |= bit;
            }
            bit <<= 1;
        }
        (seen.there, seen.used, seen.out) = (there, used, out);
    }
}
