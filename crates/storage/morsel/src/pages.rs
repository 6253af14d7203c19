//! Pages by themselves: for who copies bytes, maps a page alone, or writes pages back.

use crate::link::{index, Child, Kind};
use crate::memory::{At, Cores, Frame, Memory, Pages};
use crate::record::OTHER;
use crate::walk::{Found, Goal};
use crate::{Anchor, Morsels, Record, Refused};

/// Pages that are written back in a step.
const BATCH: u64 = 64;

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Record `id`, whatever it says, if its page exists.
    pub fn record(&self, id: u32) -> Option<Record> {
        self.find(id)
    }

    /// What else belongs to an object: of the data of a meta morsel, that one.
    pub fn other(&self, record: Record) -> u32 {
        self.memory.load(record.word(OTHER)) as u32
    }

    /// The frame of a page, which is made if it is missing, and is the object's own: it stays there until pages are
    /// taken away, or the object is snapshot.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault).
    pub fn own_page(&self, record: Record, page: u64) -> Result<Frame, Refused> {
        self.with_own_page(record, page, |frame| frame)
    }

    /// Does something with that frame, as long as it is sure to be that of the page.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault).
    pub fn with_own_page<R>(
        &self,
        record: Record,
        page: u64,
        then: impl FnOnce(Frame) -> R,
    ) -> Result<R, Refused> {
        let goal = match self.anchor(record).has(Anchor::META) {
            true => Goal::Look,
            false => Goal::Fill,
        };
        let found = self.visit_and(record, page, goal, |found| frame_of(found, page).map(then));
        found.and_then(|done| done.ok_or(Refused::Again))
    }

    /// Does something with the frame of a page, `None` for a hole, as long as it is sure to be that of the page.
    ///
    /// # Errors
    /// Those of [`fault`](Self::fault).
    pub fn look_at<R>(
        &self,
        record: Record,
        page: u64,
        then: impl FnOnce(Option<Frame>) -> R,
    ) -> Result<R, Refused> {
        // A hole stays one: to look needs no memory.
        self.visit_and(record, page, Goal::Survey, |found| match found {
            Found::Entry { link, .. } if link.is_out() => Err(Refused::Out),
            found => Ok(then(frame_of(found, page))),
        })?
    }

    /// Writes back what was written to pages from `first` on since they were written back last, or `all` that is there, at
    /// most 64 pages of a table, or one of 2 MiB. Returns the first page that was not looked at.
    ///
    /// The processors mark what they write to only while they have not done so yet: so marks are cleared and forgotten
    /// before the pages are written back.
    ///
    /// # Errors
    /// [`Refused::Gone`], and [`Refused::Again`] while a snapshot is taken.
    pub fn write_back_pages(
        &self,
        record: Record,
        first: u64,
        end: u64,
        all: bool,
    ) -> Result<u64, Refused> {
        if !self.ordered() || first >= end {
            return Ok(end);
        }
        let mut written = [None; BATCH as usize];
        let next = match self.visit_and(record, first, Goal::Look, |found| {
            self.collect(found, first, end, all, &mut written)
        }) {
            // There is nothing behind the limit.
            Err(Refused::Beyond) => return Ok(end),
            found => found?,
        };
        if written.iter().any(Option::is_some) {
            self.cores.invalidate(record.id, first..next);
            written.into_iter().flatten().for_each(|child| self.save(child));
        }
        Ok(next)
    }

    /// Clears the marks of pages that were written to, and remembers which they are. Returns the first page behind.
    fn collect(
        &self,
        found: Found,
        first: u64,
        end: u64,
        all: bool,
        written: &mut [Option<Child>],
    ) -> u64 {
        match found {
            Found::Hole { level, .. } => (first | (crate::span(level) - 1)).saturating_add(1),
            Found::Table(page) => {
                written[0] = Some(Child { frame: page, kind: Kind::Page });
                end
            }
            Found::Entry { at, level: 2, .. } => {
                written[0] = self.take_mark(at, 2, all);
                (first | 511) + 1
            }
            Found::Entry { at, .. } => {
                let room = BATCH.min((paging::ENTRIES - index(first, 1)) as u64);
                let next = end.min(first + room);
                let entries = (at.index..).zip(written).take((next - first) as usize);
                for (index, written) in entries {
                    *written = self.take_mark(At::new(at.frame, index), 1, all);
                }
                next
            }
        }
    }

    /// What an entry leads to, if that was written to; it is marked so no more.
    fn take_mark(&self, at: At, level: u8, all: bool) -> Option<Child> {
        loop {
            let link = self.load(at);
            if link.is_hole() || link.is_claim() || !(all || link.is_dirty()) {
                return None;
            }
            if self.exchange(at, link, link.clean()) {
                return Some(link.child(level));
            }
        }
    }
}

fn frame_of(found: Found, page: u64) -> Option<Frame> {
    match found {
        Found::Hole { .. } => None,
        Found::Table(frame) => Some(frame),
        Found::Entry { link, level: 2, .. } => Some(Frame(link.frame().0 + (page & 511))),
        Found::Entry { link, .. } => Some(link.frame()),
    }
}
