//! Recovery: after a power failure, and at each mount, what is in use is found out from the records.
//!
//! ```text
//! 1 directory    its tree is marked                       marking: reserve the frame; found before: one sharer more;
//! 2 records      half-made ones are freed, committed ones as they were; trees marked            claims are completed, zeros and marks of entry cleared
//! 3 ends         dying objects are reaped, limits trimmed, data without its meta morsel destroyed
//! ```
//!
//! A claim counts as present: it may have been, and somebody may have written to its page. Only when all is marked is
//! something given back. Each store may be repeated, so recovery may be interrupted anywhere, and what it tidies need not
//! be written back.

use crate::durable::State;
use crate::link::{Child, Link};
use crate::mark::{Marker, Marks};
use crate::memory::{At, Cores, Frame, Look, Memory, Pages, Reserved};
use crate::record::{Record, MAGIC, RECORDS};
use crate::{Anchor, Morsels, Refused};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Head,
    Records,
    Ends,
    Done,
}

/// How far recovery has come. All frames of the pool are free, with descriptors of 0, when it begins.
#[derive(Debug)]
pub struct Recovery {
    phase: Phase,
    id: u32,
    marker: Marker,
    /// How far the limit of the present object is trimmed.
    trimmed: u64,
}

impl Default for Recovery {
    fn default() -> Self {
        Self::new()
    }
}

impl Recovery {
    pub fn new() -> Recovery {
        Recovery { phase: Phase::Head, id: 0, marker: Marker::new(), trimmed: 0 }
    }

    /// Does a step: a table, a page of records, or a part of what was begun. Returns `true` when nothing is left.
    ///
    /// # Errors
    /// [`Refused::Damaged`] if it is no pool, or these algorithms cannot have left it so: an entry leads out of the pool, or
    /// takes a table for a page, or lets somebody write what another object has, too.
    pub fn step<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<bool, Refused> {
        if self.marker.is_busy() {
            self.marker.table(morsels.memory, &InPool(morsels))?;
            return Ok(false);
        }
        match self.phase {
            Phase::Head => self.begin(morsels)?,
            Phase::Records | Phase::Ends => self.records(morsels)?,
            Phase::Done => return Ok(true),
        }
        Ok(false)
    }

    fn begin<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<(), Refused> {
        let anchor = check_head(morsels)?;
        if morsels.pages.reserve(morsels.head, 0) != Reserved::First {
            return Err(Refused::Damaged);
        }
        self.phase = Phase::Records;
        self.id = 1;
        self.marker.root(&InPool(morsels), 0, anchor)
    }

    /// Looks at the next records.
    fn records<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<(), Refused> {
        let pages = crate::pages_of(morsels.anchor(morsels.directory()).order());
        for _ in 0..RECORDS {
            if (self.id / RECORDS) as u64 >= pages {
                self.phase = if self.phase == Phase::Records { Phase::Ends } else { Phase::Done };
                self.id = 1;
                return Ok(());
            }
            let Some(record) = morsels.find(self.id) else {
                self.id = (self.id / RECORDS + 1) * RECORDS;
                continue;
            };
            let finished = match self.phase {
                Phase::Records => self.normalise(morsels, record)?,
                _ => self.end(morsels, record)?,
            };
            if finished {
                self.id += 1;
                self.trimmed = 0;
            }
            if !finished || self.marker.is_busy() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A record as it would be without what was under way, and its tree to be marked.
    fn normalise<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
        record: Record,
    ) -> Result<bool, Refused> {
        let anchor = morsels.anchor(record);
        if !anchor.is_sound() {
            return Err(Refused::Damaged);
        }
        if !anchor.is_live() && !anchor.is_dying() {
            morsels.memory.store(record.at, Anchor::FREE.0);
            return Ok(true);
        }
        let anchor = morsels.go_back(record)?;
        if anchor == Anchor::FREE {
            return Ok(true);
        }
        if anchor.has(Anchor::CUTTING) {
            morsels.memory.store(record.at, anchor.without(Anchor::CUTTING).0);
        }
        self.marker.root(&InPool(morsels), record.id, anchor)?;
        Ok(true)
    }

    /// Ends what was begun with an object.
    fn end<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
        record: Record,
    ) -> Result<bool, Refused> {
        let anchor = morsels.anchor(record);
        if anchor.has(Anchor::META) {
            morsels.check_meta(record)?;
        }
        if anchor.is_dying() {
            return morsels.reap(record);
        }
        if anchor.is_live() && anchor.has(Anchor::OWNED) && !morsels.is_described(record) {
            // Of a meta morsel that is dying it is the data, which goes with it; else there never was one.
            return morsels.doom(record).map(|()| false);
        }
        if anchor.is_live() && anchor.has(Anchor::TRIMMING) {
            return match morsels.trim(record, self.trimmed) {
                Ok(Some(next)) => {
                    self.trimmed = next;
                    Ok(false)
                }
                // A pool that is full must be usable, if only to make room in it: it is trimmed before it grows.
                Ok(None) | Err(Refused::NoMemory) => Ok(true),
                Err(refused) => Err(refused),
            };
        }
        Ok(true)
    }
}

/// So large is a directory of 2^24 records.
const DIRECTORY_ORDER: u8 = 2;

/// What the page that names all others says of the directory.
///
/// # Errors
/// [`Refused::Damaged`] if it is no such page.
pub(crate) fn check_head<M: Look, P, C>(morsels: &Morsels<'_, M, P, C>) -> Result<Anchor, Refused> {
    let anchor = morsels.anchor(morsels.directory());
    let plain = Anchor::live(anchor.root(), anchor.order(), 0);
    let good = morsels.memory.word(At::new(morsels.head, 0)) == MAGIC
        && anchor == plain
        && (1..=DIRECTORY_ORDER).contains(&anchor.order());
    good.then_some(anchor).ok_or(Refused::Damaged)
}

/// Marks are in the pool itself, which is tidied on the way.
struct InPool<'a, 'm, M, P, C>(&'a Morsels<'m, M, P, C>);

impl<M: Memory, P: Pages, C: Cores> Marks for InPool<'_, '_, M, P, C> {
    fn root(&self, frame: Frame, record: u32) -> Result<(), Refused> {
        match self.0.pages.reserve(frame, 0) {
            Reserved::First => {
                self.0.pages.set_descriptor(frame, State::root(record, 0).0);
                Ok(())
            }
            Reserved::Before | Reserved::Outside => Err(Refused::Damaged),
        }
    }

    #[inline(always)]
    fn child(&self, child: Child, own: bool) -> Result<bool, Refused> {
        let found = State::found(child.kind, own);
        match self.0.pages.reserve(child.frame, child.kind.order()) {
            Reserved::First => {
                self.0.pages.set_descriptor(child.frame, found.0);
                Ok(true)
            }
            Reserved::Before => {
                let before = State(self.0.pages.descriptor(child.frame));
                let shared = before.may_be_shared(found) && self.0.share(child);
                shared.then_some(false).ok_or(Refused::Damaged)
            }
            Reserved::Outside => Err(Refused::Damaged),
        }
    }

    #[inline]
    fn tidied(&self, at: At, link: Link) {
        self.0.memory.store(at, link.0);
    }
}
