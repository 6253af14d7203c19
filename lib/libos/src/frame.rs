//! Frames that go home when they are dropped.

use crate::{domain, Cap, CapAddr, CapType, RamAttrs, Status};
use crate::{memd, ram::Ram, upcall};
use abi::layout::PAGE;
use abi::slots::MEMD;

/// What kind of memory is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameRequest {
    /// Bytes, a multiple of a page.
    pub bytes: u64,
    /// Of which power of two the physical address is a multiple; less than a page means a page.
    pub alignment: u64,
    /// Node and persistence; without, memory of the node on which the domain runs if it can be.
    pub attrs: Option<RamAttrs>,
    /// Colours that will do, as a set of bits ([`crate::colour`]); zero: any. Only of single pages.
    pub colours: u64,
}

impl FrameRequest {
    /// Any memory.
    pub const fn bytes(bytes: u64) -> Self {
        FrameRequest { bytes, alignment: 0, attrs: None, colours: 0 }
    }
    /// At a multiple of this.
    pub const fn aligned(self, alignment: u64) -> Self {
        FrameRequest { alignment, ..self }
    }
    /// Of one of these colours.
    pub const fn coloured(self, colours: u64) -> Self {
        FrameRequest { colours, ..self }
    }
    /// With these attributes.
    pub const fn attrs(self, attrs: RamAttrs) -> Self {
        FrameRequest { attrs: Some(attrs), ..self }
    }
}

/// Most bytes that come out of the domain's arena; more is asked of the memory server directly.
const SMALL: u64 = 64 << 10;

/// A Frame capability and its slot. Dropped, the capability is deleted: what was mapped of it is
/// unmapped by the kernel, and its memory goes home.
#[derive(PartialEq, Eq, Debug)]
pub struct Frame {
    cap: CapAddr,
    base: u64,
    bytes: u64,
}

impl Frame {
    /// New, zeroed memory: `bytes`, a multiple of a page.
    pub fn new(bytes: u64) -> Result<Frame, Status> {
        Frame::with(FrameRequest::bytes(bytes))
    }

    /// New, zeroed memory of a certain kind.
    pub fn with(request: FrameRequest) -> Result<Frame, Status> {
        let FrameRequest { bytes, alignment, attrs, colours } = request;
        if bytes == 0 || bytes % PAGE != 0 || colours != 0 && bytes.max(alignment) != PAGE {
            return Err(Status::OutOfRange);
        }
        let any = alignment <= PAGE && attrs.is_none() && colours == 0;
        if bytes <= SMALL && any {
            let cap = domain::with(|domain| domain.make(CapType::Frame, bytes))?;
            return Ok(Frame { cap, base: 0, bytes });
        }
        let (ram, cap) = (Slot::new()?, Slot::new()?);
        let has_server = domain::with(|domain| Ok(domain.arena.has_server()))?;
        if !has_server && any {
            let make = |arena: &mut crate::ram::Arena| {
                arena.make(CapType::Frame, bytes, 1, cap.addr.into())
            };
            domain::with(|domain| make(&mut domain.arena))?;
            return Frame::from_cap(cap.keep());
        }
        let attrs = attrs.unwrap_or_else(|| memd::near(upcall::own_frame()));
        if colours == 0 {
            memd::alloc(MEMD, bytes, alignment, attrs, ram.addr)?;
        } else {
            memd::alloc_coloured(MEMD, colours, attrs, ram.addr)?;
        }
        let made = ram.addr.retype(CapType::Frame, 0, bytes, 1, cap.addr);
        ram.addr.delete()?;
        made?;
        Frame::from_cap(cap.keep())
    }

    /// A Frame capability that is there already; it belongs to the result from now on.
    pub fn from_cap(cap: CapAddr) -> Result<Frame, Status> {
        let what = cap.identify()?;
        if !what.ty.is_frame() {
            return Err(Status::WrongType);
        }
        Ok(Frame { cap, base: what.base, bytes: what.bytes })
    }

    /// Its capability.
    pub fn cap(&self) -> CapAddr {
        self.cap
    }

    /// Its physical address, for the alignment of large pages. Of a Frame smaller than a large page
    /// it may be given as zero.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The capability, which belongs to the caller from now on.
    pub fn into_cap(self) -> CapAddr {
        let cap = self.cap;
        core::mem::forget(self);
        cap
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // The slot is this value's alone. One that cannot be emptied is not used again.
        // It is empty already when the Frame was revoked.
        if matches!(self.cap.delete(), Ok(()) | Err(Status::Empty)) {
            domain::free_or_lose_slot(self.cap);
        }
    }
}

/// A free slot, until it is kept.
pub(crate) struct Slot {
    pub addr: CapAddr,
}

impl Slot {
    pub fn new() -> Result<Slot, Status> {
        domain::with(|domain| domain.slot()).map(|addr| Slot { addr })
    }

    /// The slot is in use for good.
    pub fn keep(self) -> CapAddr {
        let addr = self.addr;
        core::mem::forget(self);
        addr
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        domain::free_or_lose_slot(self.addr);
    }
}
