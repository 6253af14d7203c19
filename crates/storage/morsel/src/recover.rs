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
use crate::link::{Child, Kind, Link};
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

/// A table whose entries are being marked.
#[derive(Clone, Copy, Debug)]
struct Marking {
    table: Frame,
    level: u8,
    next: usize,
    /// Can all that led here be written?
    own: bool,
}

/// How far recovery has come. All frames of the pool are free, with descriptors of 0, when it begins.
#[derive(Debug)]
pub struct Recovery {
    phase: Phase,
    id: u32,
    /// Tables whose entries are being marked.
    stack: [Marking; 4],
    depth: usize,
    /// Whose they are.
    owner: u32,
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
        let stack = [Marking { table: Frame(0), level: 0, next: 0, own: false }; 4];
        Recovery { phase: Phase::Head, id: 0, stack, depth: 0, owner: 0, trimmed: 0 }
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
        let plain = Anchor::live(anchor.root(), anchor.order(), 0);
        let good = morsels.memory.load(At::new(morsels.head, 0)) == MAGIC
            && anchor == plain
            && anchor.order() > 0;
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
        if !anchor.is_sound() || anchor.has(Anchor::META) && anchor.order() > 0 {
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
            let (table, level) = (anchor.root(), anchor.order());
            self.stack[0] = Marking { table, level, next: 0, own: true };
            self.depth = 1;
            self.owner = record.id;
        }
        Ok(())
    }

    /// Marks what the entries of the table on top of the stack lead to, until there is a table to be marked first.
    fn mark_table<M: Memory, P: Pages, C: Cores>(
        &mut self,
        morsels: &Morsels<'_, M, P, C>,
    ) -> Result<(), Refused> {
        let Marking { table, level, next, own } = self.stack[self.depth - 1];
        for index in next..paging::ENTRIES {
            let Some(link) = tidy(morsels, At::new(table, index), level)? else { continue };
            let (child, own) = (link.child(level), own && link.is_own());
            // The directory has pages of 64 records.
            if child.kind == Kind::Huge && self.owner == 0 {
                return Err(Refused::Damaged);
            }
            let first = mark(morsels, child, own)?;
            if let (true, Kind::Table(level)) = (first, child.kind) {
                self.stack[self.depth - 1].next = index + 1;
                self.stack[self.depth] = Marking { table: child.frame, level, next: 0, own };
                self.depth += 1;
                return Ok(());
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
        if anchor.is_live() && anchor.has(Anchor::META) {
            // It was made after what it describes.
            morsels.described(record)?;
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

/// One more entry leads to it. Was it the first?
fn mark<M: Memory, P: Pages, C: Cores>(
    morsels: &Morsels<'_, M, P, C>,
    child: Child,
    own: bool,
) -> Result<bool, Refused> {
    let found = State::found(child.kind, own);
    match morsels.pages.reserve(child.frame, child.kind.order()) {
        Reserved::First => {
            morsels.pages.set_descriptor(child.frame, found.0);
            Ok(true)
        }
        Reserved::Before => {
            let before = State(morsels.pages.descriptor(child.frame));
            let shared = before.may_be_shared(found) && morsels.share(child.frame);
            shared.then_some(false).ok_or(Refused::Damaged)
        }
        Reserved::Outside => Err(Refused::Damaged),
    }
}

/// An entry without what only the last run knew; `None` if it leads nowhere.
fn tidy<M: Memory, P: Pages, C: Cores>(
    morsels: &Morsels<'_, M, P, C>,
    at: At,
    level: u8,
) -> Result<Option<Link>, Refused> {
    let link = morsels.load(at);
    let tidy = match link {
        link if link.is_hole() => Link::EMPTY,
        link if link.is_claim() => link.completed().left(),
        link => link.left(),
    };
    if tidy != link {
        morsels.memory.store(at, tidy.0);
    }
    match tidy {
        tidy if tidy.is_empty() => Ok(None),
        tidy if tidy.is_sound(level) => Ok(Some(tidy)),
        _ => Err(Refused::Damaged),
    }
}
