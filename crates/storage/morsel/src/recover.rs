//! Recovery: after a power failure, and at each mount, what is in use is found out from the records.
//!
//! ```text
//! 1 directory    its tree is marked                       marking: reserve the frame; found before: one sharer more;
//! 2 records      half-made ones are freed; trees marked            claims are completed, zeros and marks of entry cleared
//! 3 ends         dying objects are reaped, limits trimmed, data without its meta morsel destroyed
//! ```
//!
//! A claim counts as present: it may have been, and somebody may have written to its page. Only when all is marked is
//! something given back. Each store may be repeated, so recovery may be interrupted anywhere, and what it tidies need not
//! be written back.

use crate::durable::State;
use crate::link::{Kind, Link};
use crate::memory::{At, Cores, Frame, Memory, Pages, Reserved};
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
    /// Tables whose entries are being marked: frame, level, next entry.
    stack: [(Frame, u8, usize); 4],
    depth: usize,
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
        let stack = [(Frame(0), 0, 0); 4];
        Recovery { phase: Phase::Head, id: 0, stack, depth: 0, trimmed: 0 }
    }

    /// Does a step: a table, a page of records, or a part of what was begun. Returns `true` when nothing is left.
    ///
    /// # Errors
    /// [`Refused::Damaged`] if it is no pool, or something in it leads out of it.
    pub fn step<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<bool, Refused> {
        if self.depth > 0 {
            self.mark_table(morsels)?;
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
        let directory = morsels.directory();
        let anchor = morsels.anchor(directory);
        let good = morsels.memory.load(At::new(morsels.head, 0)) == MAGIC && anchor.is_live();
        if !good || morsels.pages.reserve(morsels.head, 0) != Reserved::First {
            return Err(Refused::Damaged);
        }
        self.phase = Phase::Records;
        self.id = 1;
        self.mark_root(morsels, directory, anchor)
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
            if !finished || self.depth > 0 {
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
        if !anchor.is_live() && !anchor.is_dying() {
            morsels.memory.store(record.at, Anchor::FREE.0);
            return Ok(true);
        }
        if anchor.has(Anchor::CUTTING) {
            morsels.memory.store(record.at, anchor.without(Anchor::CUTTING).0);
        }
        self.mark_root(morsels, record, anchor)?;
        Ok(true)
    }

    fn mark_root<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
        record: Record,
        anchor: Anchor,
    ) -> Result<(), Refused> {
        if anchor.order() > 4 || morsels.pages.reserve(anchor.root(), 0) != Reserved::First {
            return Err(Refused::Damaged);
        }
        morsels.pages.set_descriptor(anchor.root(), State::root(record.id, 0).0);
        if anchor.order() > 0 {
            self.stack[0] = (anchor.root(), anchor.order(), 0);
            self.depth = 1;
        }
        Ok(())
    }

    /// Marks what the entries of the table on top of the stack lead to, until there is a table to be marked first.
    fn mark_table<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<(), Refused> {
        let (table, level, from) = self.stack[self.depth - 1];
        for index in from..paging::ENTRIES {
            let at = At::new(table, index);
            let Some(link) = tidy(morsels, at) else { continue };
            let child = link.child(level);
            match morsels.pages.reserve(child.frame, child.kind.order()) {
                Reserved::Outside => return Err(Refused::Damaged),
                Reserved::Before if morsels.share(child.frame) => {}
                Reserved::Before => return Err(Refused::Damaged),
                Reserved::First => {
                    if let Kind::Table(below) = child.kind {
                        self.stack[self.depth - 1].2 = index + 1;
                        self.stack[self.depth] = (child.frame, below, 0);
                        self.depth += 1;
                        return Ok(());
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Ends what was begun with an object.
    fn end<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
        record: Record,
    ) -> Result<bool, Refused> {
        let anchor = morsels.anchor(record);
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

/// An entry without what only the last run knew; `None` if it leads nowhere.
fn tidy<M: Memory, P: Pages, C: Cores>(morsels: &Morsels<'_, M, P, C>, at: At) -> Option<Link> {
    let link = morsels.load(at);
    let tidy = match link {
        link if link.is_hole() => Link::EMPTY,
        link if link.is_claim() => link.completed().left(),
        link => link.left(),
    };
    if tidy != link {
        morsels.memory.store(at, tidy.0);
    }
    (!tidy.is_empty()).then_some(tidy)
}
