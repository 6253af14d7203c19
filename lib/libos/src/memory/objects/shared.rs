//! Memory that several domains see, and that its owner can take away from all others (G12 §3.4).
//!
//! | | shared by Frame | shared by page table |
//! |---|---|---|
//! | owner | [`SharedFrame`] | [`SharedTable`] |
//! | others | [`OneFrame`](super::OneFrame) or [`LazyFrame`](super::LazyFrame) of the Frame | [`ForeignTable`] |
//! | one capability stands for | one Frame | up to 512 Frames, of which the owner adds and removes some at any time |
//! | addresses | any | multiples of what the table covers |
//!
//! What is handed out is a capability with fewer rights: without `WRITE` for those who may only
//! read, and never with `REVOKE`. How it gets to the other domain is the program's business: in a
//! message, or straight into a slot of a child. Revoking is one operation of the kernel: when it
//! returns, no other domain has the capability, copies of it, or anything mapped by it.

use super::FrameTable;
use crate::frame::{Frame, FrameRequest, Slot};
use crate::memory::{Error, Fault, MemoryObject, PageSize, Pages, Prot, View, NONE};
use crate::vspace::{RW, RWX};
use crate::{domain, Cap};
use alloc::vec::Vec;
use captypes::invocations::MapFlags;
use captypes::{CapAddr, CapType, Place, Rights, Status};
use selfpaging::Views;

/// The rights of a capability for somebody who is to have `prot`.
fn rights_for(prot: Prot) -> Rights {
    let mut rights = Rights::READ;
    if prot.has(RW) {
        rights = rights.or(Rights::WRITE);
    }
    if prot.has(MapFlags::EXEC) {
        rights = rights.or(Rights::EXEC);
    }
    rights
}

/// One Frame, shared with other domains by its capability.
pub struct SharedFrame {
    frame: Frame,
    views: Views<(Prot, PageSize)>,
}

impl SharedFrame {
    /// New, zeroed memory that can be mapped with pages of `size`.
    pub fn new(bytes: u64, size: PageSize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(size.bytes());
        let frame = Frame::with(FrameRequest::bytes(bytes).aligned(size.bytes()))?;
        Ok(SharedFrame { frame, views: Views::new() })
    }

    /// The Frame.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Puts a capability that allows at most `prot` in the empty slot `to`, of any CSpace.
    pub fn share(&self, prot: Prot, to: impl Into<Place>) -> Result<(), Error> {
        Ok(self.frame.cap().mint(to, rights_for(prot))?)
    }

    /// Takes the memory away from everybody else. When this returns, nobody else can use it. The
    /// own regions stay; other threads of the owner may fault for a moment.
    pub fn revoke(&mut self, pages: &mut Pages) -> Result<(), Error> {
        self.frame.cap().revoke()?;
        let views = self.views.all();
        for &(va, bytes, ..) in &views {
            pages.forget(va, bytes)?;
        }
        for (va, bytes, offset, (prot, size)) in views {
            self.show(pages, &View { va, bytes, offset, prot, size })?;
        }
        Ok(())
    }

    fn show(&self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        if view.prot == NONE {
            return Ok(());
        }
        pages.map_mixed(view.va, &self.frame, view.offset, view.bytes, view.prot, view.size)
    }
}

impl MemoryObject for SharedFrame {
    fn bytes(&self) -> u64 {
        self.frame.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        self.show(pages, view)?;
        Ok(self.views.set(view.va, view.bytes, view.offset, (view.prot, view.size))?)
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        if pages.is_resolved(fault)? {
            return Ok(());
        }
        pages.map_around(view, fault.address, (&self.frame, 0), 0, view.size)
    }
    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.protect(view.va, view.bytes, view.prot)?;
        Ok(self.views.set(view.va, view.bytes, view.offset, (view.prot, view.size))?)
    }
    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)?;
        Ok(self.views.clear(view.va, view.bytes)?)
    }
}

/// Entries of a table.
const ENTRIES: u64 = pmap::ENTRIES as u64;

/// Up to 512 pages below one page table, which is shared with other domains by its capability. What
/// the owner puts in or takes out appears or vanishes for everybody at once.
pub struct SharedTable {
    table: CapAddr,
    size: PageSize,
    frames: FrameTable,
    mappings: Vec<CapAddr>,
    views: Views<Prot>,
}

impl SharedTable {
    /// An empty table of pages of 4 KiB (it covers 2 MiB) or 2 MiB (1 GiB).
    pub fn new(size: PageSize) -> Result<Self, Error> {
        let ty = match size {
            PageSize::Base => CapType::Pt,
            PageSize::Large => CapType::Pd,
            PageSize::Huge => return Err(Error::OutOfRange),
        };
        let frames = FrameTable::new(ENTRIES)?;
        let mut mappings = Vec::new();
        mappings.try_reserve_exact(ENTRIES as usize)?;
        mappings.resize(ENTRIES as usize, CapAddr::NULL);
        let table = domain::with(|domain| domain.make(ty, 4096))?;
        Ok(SharedTable { table, size, frames, mappings, views: Views::new() })
    }

    /// Puts a Frame of one page at page number `page`, where there is none.
    pub fn insert(&mut self, page: u64, frame: Frame) -> Result<(), Error> {
        if page >= ENTRIES || frame.bytes() != self.size.bytes() {
            return Err(Error::OutOfRange);
        }
        if self.frames.get(page).is_some() {
            return Err(Error::Occupied);
        }
        let slot = Slot::new()?;
        self.table.map(page as u32, 1, frame.cap(), 0, RWX, slot.addr)?;
        let kept = self.frames.get_or_make(page, || Ok(frame)).map(|_| ());
        if let Err(error) = kept {
            slot.addr.delete()?;
            return Err(error);
        }
        self.mappings[page as usize] = slot.keep();
        Ok(())
    }

    /// Takes the Frame at page number `page` out: nobody sees it any more.
    pub fn remove(&mut self, page: u64) -> Result<Frame, Error> {
        let mapping = *self.mappings.get(page as usize).ok_or(Error::OutOfRange)?;
        if self.frames.get(page).is_none() {
            return Err(Error::NoPage);
        }
        mapping.delete()?;
        domain::free_slot(mapping)?;
        self.mappings[page as usize] = CapAddr::NULL;
        self.frames.take(page).ok_or(Error::NoPage)
    }

    /// Puts a capability to the table that allows at most `prot` in the empty slot `to`. Those who
    /// get one with `WRITE` may make entries too.
    pub fn share(&self, prot: Prot, to: impl Into<Place>) -> Result<(), Error> {
        Ok(self.table.mint(to, rights_for(prot))?)
    }

    /// Takes the table away from everybody else, as [`SharedFrame::revoke`].
    pub fn revoke(&mut self, pages: &mut Pages) -> Result<(), Error> {
        self.table.revoke()?;
        let views = self.views.all();
        for &(va, bytes, ..) in &views {
            pages.forget(va, bytes)?;
        }
        for (va, _, _, prot) in views {
            show_table(pages, va, self.table, self.size, prot)?;
        }
        Ok(())
    }
}

/// Maps a table of pages of `size` at `va`.
fn show_table(
    pages: &mut Pages,
    va: u64,
    table: CapAddr,
    size: PageSize,
    prot: Prot,
) -> Result<(), Error> {
    if prot == NONE {
        return Ok(());
    }
    pages.map_table(va, table, size.level(), prot)
}

/// A table is mapped as a whole.
fn check_whole(view: &View, size: PageSize) -> Result<(), Error> {
    let whole = view.offset == 0 && view.bytes == ENTRIES * size.bytes();
    whole.then_some(()).ok_or(Error::Misaligned)
}

impl MemoryObject for SharedTable {
    fn bytes(&self) -> u64 {
        ENTRIES * self.size.bytes()
    }
    fn granularity(&self) -> u64 {
        self.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        show_table(pages, view.va, self.table, self.size, view.prot)?;
        Ok(self.views.set(view.va, view.bytes, view.offset, view.prot)?)
    }
    /// Makes a page of zeroes where there is none.
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        if pages.table(view.va, self.size.level()).is_none() {
            return show_table(pages, view.va, self.table, self.size, view.prot);
        }
        let unit = self.size.bytes();
        let page = view.offset_of(fault.address) / unit;
        if self.frames.get(page).is_some() {
            // It has come in the meantime.
            return Ok(());
        }
        self.insert(page, Frame::with(FrameRequest::bytes(unit).aligned(unit))?)
    }
    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        pages.protect(view.va, view.bytes, view.prot)?;
        Ok(self.views.set(view.va, view.bytes, view.offset, view.prot)?)
    }
    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        pages.unmap(view.va, view.bytes)?;
        Ok(self.views.clear(view.va, view.bytes)?)
    }
}

impl Drop for SharedTable {
    /// The table goes if nobody else has it; the pages go in any case.
    fn drop(&mut self) {
        for page in 0..ENTRIES {
            // Dropped in any case; what stays keeps its slot.
            let _ = self.remove(page);
        }
        // Dropped in any case; what stays keeps its slot.
        let _ = self.table.delete().and_then(|()| domain::free_slot(self.table));
    }
}

/// A page table of another domain.
pub struct ForeignTable {
    table: CapAddr,
    size: PageSize,
}

impl ForeignTable {
    /// The table in the slot `table`, which belongs to the object from now on.
    pub fn of(table: CapAddr) -> Result<Self, Error> {
        let size = match table.identify()?.ty {
            CapType::Pt => PageSize::Base,
            CapType::Pd => PageSize::Large,
            _ => return Err(Error::Kernel(Status::WrongType)),
        };
        Ok(ForeignTable { table, size })
    }
}

impl MemoryObject for ForeignTable {
    fn bytes(&self) -> u64 {
        ENTRIES * self.size.bytes()
    }
    fn granularity(&self) -> u64 {
        self.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        show_table(pages, view.va, self.table, self.size, view.prot)
    }
    /// Only the owner knows what should be there; or the table was revoked.
    fn fault(&mut self, pages: &mut Pages, view: &View, _: &Fault) -> Result<(), Error> {
        if pages.table(view.va, self.size.level()).is_none() {
            return show_table(pages, view.va, self.table, self.size, view.prot);
        }
        Err(Error::NoPage)
    }
    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        pages.protect(view.va, view.bytes, view.prot)
    }
    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        check_whole(view, self.size)?;
        pages.unmap(view.va, view.bytes)
    }
}

impl Drop for ForeignTable {
    fn drop(&mut self) {
        // It is empty already when the table was revoked.
        if matches!(self.table.delete(), Ok(()) | Err(Status::Empty)) {
            domain::free_or_lose_slot(self.table);
        }
    }
}
