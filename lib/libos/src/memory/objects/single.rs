//! Objects that are one Frame: device registers, one Frame mapped at once, mapped in one place only,
//! mapped as it is touched.

use crate::frame::{Frame, FrameRequest};
use crate::memory::{Error, Fault, MemoryObject, PageSize, Pages, Prot, View};

/// Addresses without memory, for a program that maps there by hand ([`crate::memory::pages`]). What
/// was mapped so goes with the region.
pub struct Reserved(u64);

impl Reserved {
    /// `bytes` of addresses.
    pub const fn new(bytes: u64) -> Self {
        Reserved(bytes)
    }
}

impl MemoryObject for Reserved {
    fn bytes(&self) -> u64 {
        self.0
    }
    fn fault(&mut self, pages: &mut Pages, _: &View, fault: &Fault) -> Result<(), Error> {
        let resolved = pages.is_resolved(fault)?;
        resolved.then_some(()).ok_or(Error::NoPage)
    }
}

/// Maps all of a view.
fn map_all(pages: &mut Pages, view: &View, frame: &Frame, extra: Prot) -> Result<(), Error> {
    if view.prot == crate::memory::NONE {
        return Ok(());
    }
    pages.map_mixed(view.va, frame, view.offset, view.bytes, view.prot.or(extra), view.size)
}

/// Maps the block around a fault.
fn map_some(
    pages: &mut Pages,
    view: &View,
    frame: &Frame,
    extra: Prot,
    fault: &Fault,
) -> Result<(), Error> {
    if pages.is_resolved(fault)? {
        return Ok(());
    }
    let view = View { prot: view.prot.or(extra), ..*view };
    pages.map_around(&view, fault.address, (frame, 0), 0, view.size)
}

/// Fixed memory, such as the registers of a device: mapped at once, and not cached unless asked.
pub struct Fixed {
    frame: Frame,
    extra: Prot,
}

impl Fixed {
    /// The registers in a DevFrame, not cached.
    pub fn device(frame: Frame) -> Self {
        Fixed { frame, extra: Prot::UNCACHED }
    }

    /// Memory at a physical address that matters, cached.
    pub fn cached(frame: Frame) -> Self {
        Fixed { frame, extra: crate::memory::NONE }
    }

    /// The Frame.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }
}

impl MemoryObject for Fixed {
    fn bytes(&self) -> u64 {
        self.frame.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        map_all(pages, view, &self.frame, self.extra)
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        map_some(pages, view, &self.frame, self.extra, fault)
    }
}

/// One Frame, mapped at once, in as many places as is wanted.
pub struct OneFrame(Frame);

impl OneFrame {
    /// New, zeroed memory that can be mapped with pages of `size`.
    pub fn new(bytes: u64, size: PageSize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(size.bytes());
        Ok(OneFrame(Frame::with(FrameRequest::bytes(bytes).aligned(size.bytes()))?))
    }

    /// A Frame that is there already, such as another domain's.
    pub fn of(frame: Frame) -> Self {
        OneFrame(frame)
    }

    /// The Frame.
    pub fn frame(&self) -> &Frame {
        &self.0
    }
}

impl MemoryObject for OneFrame {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        map_all(pages, view, &self.0, crate::memory::NONE)
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        map_some(pages, view, &self.0, crate::memory::NONE, fault)
    }
}

/// One Frame that is visible in one region at most: a second one is [`Error::Busy`]. What is in it
/// has one address, and can hold pointers to itself.
pub struct OneMap {
    frame: Frame,
    /// Bytes that are visible.
    visible: u64,
}

impl OneMap {
    /// New, zeroed memory that can be mapped with pages of `size`.
    pub fn new(bytes: u64, size: PageSize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(size.bytes());
        let frame = Frame::with(FrameRequest::bytes(bytes).aligned(size.bytes()))?;
        Ok(OneMap { frame, visible: 0 })
    }

    /// The Frame.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }
}

impl MemoryObject for OneMap {
    fn bytes(&self) -> u64 {
        self.frame.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        if self.visible > 0 {
            return Err(Error::Busy);
        }
        map_all(pages, view, &self.frame, crate::memory::NONE)?;
        self.visible = view.bytes;
        Ok(())
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        map_some(pages, view, &self.frame, crate::memory::NONE, fault)
    }
    fn detach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        pages.unmap(view.va, view.bytes)?;
        self.visible -= view.bytes;
        Ok(())
    }
}

/// One Frame that is mapped page by page, as it is touched.
pub struct LazyFrame(Frame);

impl LazyFrame {
    /// New, zeroed memory that can be mapped with pages of `size`.
    pub fn new(bytes: u64, size: PageSize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(size.bytes());
        Ok(LazyFrame(Frame::with(FrameRequest::bytes(bytes).aligned(size.bytes()))?))
    }

    /// A Frame that is there already.
    pub fn of(frame: Frame) -> Self {
        LazyFrame(frame)
    }

    /// The Frame.
    pub fn frame(&self) -> &Frame {
        &self.0
    }
}

impl MemoryObject for LazyFrame {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        map_some(pages, view, &self.0, crate::memory::NONE, fault)
    }
}
