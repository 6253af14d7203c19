//! Memory that is zero until it is written to, and takes no RAM before it is touched.

use super::FrameTable;
use crate::frame::{Frame, FrameRequest};
use crate::memory::{Error, Fault, MemoryObject, PageSize, Pages, View};
use captypes::RamAttrs;
use selfpaging::Views;

/// Demand-zero memory: a Frame for each page, made at the first fault there.
pub struct Anonymous {
    frames: FrameTable,
    size: PageSize,
    attrs: Option<RamAttrs>,
    colours: u64,
    views: Views<()>,
}

impl Anonymous {
    /// `bytes` of zeroes in pages of `size`.
    pub fn new(bytes: u64, size: PageSize) -> Result<Self, Error> {
        if bytes == 0 || !bytes.is_multiple_of(size.bytes()) {
            return Err(Error::Misaligned);
        }
        let frames = FrameTable::new(bytes / size.bytes())?;
        let (attrs, views) = (None, Views::new());
        Ok(Anonymous { frames, size, attrs, colours: 0, views })
    }

    /// The same, of RAM with these attributes.
    pub fn with_attrs(self, attrs: RamAttrs) -> Self {
        Anonymous { attrs: Some(attrs), ..self }
    }

    /// The same, of pages whose colours are in this set of bits ([`crate::colour`]): it takes up that
    /// part of the cache only. For pages of 4 KiB.
    pub fn with_colours(self, colours: u64) -> Self {
        Anonymous { colours, ..self }
    }

    /// Bytes of RAM that it has.
    pub fn resident(&self) -> u64 {
        self.frames.filled() * self.size.bytes()
    }

    /// Gives the pages in `[offset, offset + bytes)`, multiples of the page size, back: they are
    /// zero again.
    pub fn discard(&mut self, pages: &mut Pages, offset: u64, bytes: u64) -> Result<(), Error> {
        let unit = self.size.bytes();
        if !(offset | bytes).is_multiple_of(unit) {
            return Err(Error::Misaligned);
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes()) {
            return Err(Error::OutOfRange);
        }
        for page in offset / unit..(offset + bytes) / unit {
            if self.frames.get(page).is_some() {
                self.hide(pages, page * unit)?;
                self.frames.take(page);
            }
        }
        Ok(())
    }

    /// Unmaps a page wherever it is visible. A view may begin or end inside of a large page.
    fn hide(&self, pages: &mut Pages, offset: u64) -> Result<(), Error> {
        let end = offset + self.size.bytes();
        for (va, bytes, first, ()) in self.views.all() {
            let (low, high) = (offset.max(first), end.min(first + bytes));
            if low < high {
                pages.unmap(va + (low - first), high - low)?;
            }
        }
        Ok(())
    }
}

impl MemoryObject for Anonymous {
    fn bytes(&self) -> u64 {
        self.frames.pages() * self.size.bytes()
    }

    fn attach(&mut self, _: &mut Pages, view: &View) -> Result<(), Error> {
        Ok(self.views.set(view.va, view.bytes, view.offset, ())?)
    }

    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        if pages.is_resolved(fault)? {
            return Ok(());
        }
        let unit = self.size.bytes();
        let request = FrameRequest {
            attrs: self.attrs,
            ..FrameRequest::bytes(unit).aligned(unit).coloured(self.colours)
        };
        let page = view.offset_of(fault.address) / unit;
        let frame = self.frames.get_or_make(page, || Ok(Frame::with(request)?))?;
        pages.map_around(view, fault.address, (frame, 0), page * unit, self.size)
    }

    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)?;
        Ok(self.views.clear(view.va, view.bytes)?)
    }
}
