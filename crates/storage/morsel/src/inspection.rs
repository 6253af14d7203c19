//! An inspection: would [recovery](crate::Recovery) accept what is in a memory? It is looked at through [`Look`], which cannot
//! store: so what is refused stays as it is, whatever it is.
//!
//! The same is walked through as by recovery, in the same order; what recovery notes in the pool is noted in a byte for
//! each frame that the caller lends. What recovery does with records on its way (a committed object goes back, half-made
//! ones are freed) is taken as if it had been done.

use crate::link::{Child, Kind, Link};
use crate::mark::{Marker, Marks};
use crate::memory::{At, Frame, Look};
use crate::record::{Record, RECORDS};
use crate::recover::check_head;
use crate::{index, Anchor, Morsels, Refused};
use core::cell::Cell;

/// What a frame was found to be: one of these, or 2 + the level of a table.
const PAGE: u8 = 1;
const HUGE: u8 = 2;
/// One of the 511 behind it.
const INSIDE: u8 = 6;
const ROOT: u8 = 7;
/// It can be written through the entry that leads to it.
const OWN: u8 = 8;

/// Where a pool is.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The page by which everything is found.
    pub head: Frame,
    /// Frames from there on.
    pub frames: usize,
    /// The first of them, which are never in use: the head, and the allocator's own.
    pub own: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Head,
    Trees,
    Metas,
    Done,
}

/// How far it has come.
pub struct Inspection<'a> {
    notes: Notes<'a>,
    phase: Phase,
    id: u32,
    marker: Marker,
}

/// The memory, without an allocator and without other cores.
type Looked<'a, M> = Morsels<'a, M, (), ()>;

impl<'a> Inspection<'a> {
    /// Begins. `notes`: a byte of 0 for each frame.
    ///
    /// # Errors
    /// [`Refused::Invalid`] if there are fewer.
    pub fn new(extent: Extent, notes: &'a mut [u8]) -> Result<Inspection<'a>, Refused> {
        let notes = notes.get_mut(..extent.frames).ok_or(Refused::Invalid)?;
        let notes = Notes { extent, notes: Cell::from_mut(notes).as_slice_of_cells() };
        Ok(Inspection { notes, phase: Phase::Head, id: 0, marker: Marker::new() })
    }

    /// Does a step: a table, or a page of records. Returns `true` when there is nothing that recovery would refuse.
    ///
    /// # Errors
    /// [`Refused::Damaged`]: recovery would refuse it.
    pub fn step(&mut self, memory: &impl Look) -> Result<bool, Refused> {
        let morsels = looked(memory, self.notes.extent.head);
        if self.marker.is_busy() {
            self.marker.table(memory, &self.notes)?;
            return Ok(false);
        }
        match self.phase {
            Phase::Head => {
                let anchor = check_head(&morsels)?;
                (self.phase, self.id) = (Phase::Trees, 1);
                self.marker.root(&self.notes, 0, anchor)?;
            }
            Phase::Trees | Phase::Metas => self.records(&morsels)?,
            Phase::Done => return Ok(true),
        }
        Ok(false)
    }

    /// Looks at the next records.
    fn records(&mut self, morsels: &Looked<'_, impl Look>) -> Result<(), Refused> {
        for _ in 0..RECORDS {
            let Some(next) = existing(morsels, self.id) else {
                self.phase = if self.phase == Phase::Trees { Phase::Metas } else { Phase::Done };
                self.id = 1;
                return Ok(());
            };
            self.id = next.id + 1;
            match self.phase {
                Phase::Trees => self.tree(morsels, next)?,
                _ if morsels.will_be(next)?.has(Anchor::META) => morsels.check_meta(next)?,
                _ => {}
            }
            if self.marker.is_busy() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn tree(&mut self, morsels: &Looked<'_, impl Look>, record: Record) -> Result<(), Refused> {
        let anchor = morsels.anchor(record);
        if !anchor.is_sound() {
            return Err(Refused::Damaged);
        }
        if !anchor.is_live() && !anchor.is_dying() {
            return Ok(());
        }
        match morsels.will_be(record)? {
            Anchor::FREE => Ok(()),
            anchor => self.marker.root(&self.notes, record.id, anchor),
        }
    }
}

fn looked<M: Look>(memory: &M, head: Frame) -> Looked<'_, M> {
    Morsels { memory, pages: &(), cores: &(), head, zeros: [Frame(0); 4] }
}

/// The first record from `id` on whose page exists.
fn existing<M: Look>(morsels: &Looked<'_, M>, mut id: u32) -> Option<Record> {
    let pages = crate::pages_of(morsels.anchor(morsels.directory()).order());
    while u64::from(id / RECORDS) < pages {
        match morsels.find(id) {
            Some(record) => return Some(record),
            None => id = (id / RECORDS + 1) * RECORDS,
        }
    }
    None
}

/// What recovery will leave of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inspected {
    pub record: Record,
    /// As it will be.
    pub anchor: Anchor,
    /// In bytes.
    pub limit: u64,
}

impl Inspected {
    /// Neither describes it another object, nor is it described by one.
    pub fn is_plain(&self) -> bool {
        !self.anchor.has(Anchor::META | Anchor::OWNED)
    }
}

/// The first object from record `id` on that there will be after recovery, in a memory that was inspected.
///
/// # Errors
/// [`Refused::Damaged`] if it was changed since.
pub fn inspected(
    memory: &impl Look,
    head: Frame,
    mut id: u32,
) -> Result<Option<Inspected>, Refused> {
    let morsels = looked(memory, head);
    while let Some(record) = existing(&morsels, id.max(1)) {
        if let Some((anchor, limit)) = morsels.as_recovered(record)? {
            return Ok(Some(Inspected { record, anchor, limit }));
        }
        id = record.id + 1;
    }
    Ok(None)
}

/// The frame of a page of an object in a memory that was inspected; `None` for a hole.
pub fn inspected_page(memory: &impl Look, object: Inspected, page: u64) -> Option<Frame> {
    let (mut frame, mut level) = (object.anchor.root(), object.anchor.order());
    if page >= crate::pages_of(level) {
        return None;
    }
    while level > 0 {
        let link = Link(memory.word(At::new(frame, index(page, level)))).tidy();
        if link.is_empty() {
            return None;
        }
        frame = link.frame();
        if level == 2 && link.is_huge() {
            return Some(Frame(frame.0 + (page & 511)));
        }
        level -= 1;
    }
    Some(frame)
}

/// Marks in volatile memory.
struct Notes<'a> {
    extent: Extent,
    notes: &'a [Cell<u8>],
}

impl Notes<'_> {
    /// Those of a frame, or of 512, if they may be in use.
    #[inline(always)]
    fn of(&self, frame: Frame, count: usize) -> Result<&[Cell<u8>], Refused> {
        let Extent { head, own, .. } = self.extent;
        let first = frame.0.wrapping_sub(head.0) as usize;
        let notes = self.notes.get(first..first.saturating_add(count));
        notes.filter(|_| first >= own).ok_or(Refused::Damaged)
    }
}

impl Marks for Notes<'_> {
    fn root(&self, frame: Frame, _: u32) -> Result<(), Refused> {
        match self.of(frame, 1)?[0].replace(ROOT) {
            0 => Ok(()),
            _ => Err(Refused::Damaged),
        }
    }

    #[inline(always)]
    fn child(&self, child: Child, own: bool) -> Result<bool, Refused> {
        let notes = self.of(child.frame, 1 << child.kind.order())?;
        let kind = match child.kind {
            Kind::Page => PAGE,
            Kind::Huge => HUGE,
            Kind::Table(level) => 2 + level,
        };
        let found = kind | if own { OWN } else { 0 };
        if notes.iter().all(|note| note.get() == 0) {
            notes.iter().for_each(|note| note.set(INSIDE));
            notes[0].set(found);
            return Ok(true);
        }
        // Somebody else leads to it, too: neither may write it, and both take it for the same.
        match notes[0].get() == found && !own {
            true => Ok(false),
            false => Err(Refused::Damaged),
        }
    }

    fn tidied(&self, _: At, _: Link) {}
}
