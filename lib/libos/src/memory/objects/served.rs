//! Memory of another domain's making (G18 §3.5.4): an endpoint stands for the object, and the *pager* that receives there answers the
//! faults of everybody who has the object mapped.
//!
//! A fault becomes a call: the pager answers with a Frame for the page, which the domain that faulted maps. How the pager comes by
//! the page is its business, and it takes one back without asking anybody: it revokes its Frame, and the entries in all domains
//! are gone with the copies. The next access asks again. A page that was not written to is read-only at first, so that the pager is
//! told of the first write by a second call.
//!
//! Who maps an object trusts its pager with the contents, and with answering: an access waits as long as the pager does.

use super::FrameTable;
use crate::frame::Frame;
use crate::interface::{OwnedCap, Remote};
use crate::memory::pages::permits;
use crate::memory::{Access, Error, Fault, MemoryObject, PageSize, Pages, Prot, View};
use crate::Cap;
use captypes::invocations::MapFlags;
use captypes::{CapAddr, Rights, Status};
use selfpaging::Views;

crate::interface! {
    /// What a pager is asked. Errors reach whoever faulted as [`Error::Kernel`], and are best told by
    /// [`Status::OutOfRange`] (no such page) and [`Status::NoRights`] (not for this caller, or not for writing).
    pub mod pager {
        /// Bytes of the object, and of each page of it: 4 KiB, 2 MiB or 1 GiB.
        1 fn describe() -> (u64, u64);
        /// The Frame of page number `page`, of the size of a page and aligned to it, without the right to revoke. With the right to write if
        /// `write`, and only then: who has it is not heard of again.
        2 fn page(page: u64, write: bool) -> OwnedCap;
    }
}

/// A memory object that another domain serves.
pub struct Served {
    pager: pager::Client,
    /// Keeps the capability to the endpoint.
    _endpoint: OwnedCap,
    size: PageSize,
    bytes: u64,
    frames: FrameTable,
    views: Views<()>,
}

impl Served {
    /// The object for which this endpoint stands. Asks its pager how large it is.
    pub fn of(endpoint: OwnedCap) -> Result<Self, Error> {
        let pager = pager::Client(Remote(endpoint.cap()));
        let (bytes, unit) = pager.describe()?;
        let sizes = [PageSize::Base, PageSize::Large, PageSize::Huge];
        let size = sizes.into_iter().find(|size| size.bytes() == unit).ok_or(Error::OutOfRange)?;
        if bytes == 0 || !bytes.is_multiple_of(unit) {
            return Err(Error::Misaligned);
        }
        let frames = FrameTable::new(bytes / unit)?;
        Ok(Served { pager, _endpoint: endpoint, size, bytes, frames, views: Views::new() })
    }

    /// Pages that this domain got and has not heard to be taken back.
    pub fn known(&self) -> u64 {
        self.frames.filled()
    }

    /// The rights to a page, if this domain has it. What the pager has revoked is taken out.
    fn rights(&mut self, pages: &mut Pages, page: u64) -> Result<Option<Rights>, Error> {
        let Some(frame) = self.frames.get(page) else { return Ok(None) };
        match frame.cap().identify() {
            Ok(what) => Ok(Some(what.rights)),
            Err(Status::Empty) => self.drop_page(pages, page).map(|()| None),
            Err(error) => Err(error.into()),
        }
    }

    fn drop_page(&mut self, pages: &mut Pages, page: u64) -> Result<(), Error> {
        let unit = self.size.bytes();
        let (begin, end) = (page * unit, (page + 1) * unit);
        // A view may begin or end inside of a large page.
        for (va, bytes, first, ()) in self.views.all() {
            let (low, high) = (begin.max(first), end.min(first + bytes));
            if low < high {
                pages.unmap(va + (low - first), high - low)?;
            }
        }
        self.frames.take(page);
        Ok(())
    }

    /// Asks the pager for a page.
    fn ask(&self, page: u64, write: bool) -> Result<Frame, Error> {
        let cap: CapAddr = self.pager.page(page, write)?.into_cap();
        let frame = Frame::from_cap(cap).inspect_err(|_| drop(OwnedCap::own(cap)))?;
        let unit = self.size.bytes();
        if frame.bytes() != unit || !frame.base().is_multiple_of(unit) {
            return Err(Error::Store);
        }
        Ok(frame)
    }
}

impl MemoryObject for Served {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn attach(&mut self, _: &mut Pages, view: &View) -> Result<(), Error> {
        Ok(self.views.set(view.va, view.bytes, view.offset, ())?)
    }

    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        let page = view.offset_of(fault.address) / self.size.bytes();
        let write = fault.access == Access::Write;
        match self.rights(pages, page)? {
            Some(rights) if !write || rights.has(Rights::WRITE) => {}
            has => {
                if has.is_some() {
                    self.drop_page(pages, page)?;
                }
                let frame = self.ask(page, write)?;
                self.frames.get_or_make(page, || Ok(frame))?;
            }
        }
        // Revoked on its way: the access faults again, and asks again.
        let Some(rights) = self.rights(pages, page)? else { return Ok(()) };
        let prot = allowed(view.prot, rights);
        if !permits(prot, fault.access) {
            return Err(Error::NotAllowed);
        }
        // Another thread was faster.
        if pages.lookup(fault.address).is_some_and(|there| permits(there.rights, fault.access)) {
            return Ok(());
        }
        let frame = self.frames.get(page).ok_or(Error::NoPage)?;
        let (view, first) = (View { prot, ..*view }, page * self.size.bytes());
        match pages.map_around(&view, fault.address, (frame, 0), first, self.size) {
            Err(Error::Kernel(Status::Empty)) => Ok(()),
            mapped => mapped,
        }
    }

    /// With more rights, pages are mapped again at the next faults: which of them may be written to, their Frames say.
    fn protect(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)
    }

    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)?;
        Ok(self.views.clear(view.va, view.bytes)?)
    }
}

/// Of the rights of a view, those that a Frame has.
fn allowed(prot: Prot, rights: Rights) -> Prot {
    let mut allowed = prot;
    for (flag, right) in [(MapFlags::WRITE, Rights::WRITE), (MapFlags::EXEC, Rights::EXEC)] {
        if !rights.has(right) {
            allowed = MapFlags(allowed.0 & !flag.0);
        }
    }
    allowed
}
