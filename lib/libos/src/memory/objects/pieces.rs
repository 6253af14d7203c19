//! Objects made of several Frames one behind the other, mapped at once: memory that grows, and
//! memory spread over the nodes of a NUMA machine.

use crate::frame::{Frame, FrameRequest};
use crate::memory::{Error, Fault, MemoryObject, PageSize, Pages, Prot, View, NONE};
use alloc::vec::Vec;
use captypes::RamAttrs;
use selfpaging::Views;

/// Frames, each with the offset in the object at which it begins.
#[derive(Debug, Default)]
struct Pieces(Vec<(u64, Frame)>);

impl Pieces {
    fn bytes(&self) -> u64 {
        self.0.last().map_or(0, |(first, frame)| first + frame.bytes())
    }

    fn push(&mut self, frame: Frame) -> Result<(), Error> {
        self.0.try_reserve(1)?;
        self.0.push((self.bytes(), frame));
        Ok(())
    }

    /// The Frame that holds the byte at `offset`, and where it begins.
    fn find(&self, offset: u64) -> Option<&(u64, Frame)> {
        let behind = self.0.partition_point(|(first, _)| *first <= offset);
        let piece = self.0.get(behind.checked_sub(1)?)?;
        (offset - piece.0 < piece.1.bytes()).then_some(piece)
    }

    /// Maps what there is of `[offset, offset + bytes)` of the object at `va`.
    fn map(&self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        let end = (view.offset + view.bytes).min(self.bytes());
        let mut at = view.offset;
        while at < end && view.prot != NONE {
            let (first, frame) = self.find(at).ok_or(Error::NoPage)?;
            let until = end.min(first + frame.bytes());
            let va = view.va + (at - view.offset);
            pages.map_mixed(va, frame, at - first, until - at, view.prot, view.size)?;
            at = until;
        }
        Ok(())
    }

    fn fault(&self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        if pages.is_resolved(fault)? {
            return Ok(());
        }
        let (first, frame) = self.find(view.offset_of(fault.address)).ok_or(Error::NoPage)?;
        pages.map_around(view, fault.address, (frame, 0), *first, view.size)
    }
}

/// Memory that grows at its end: Frames are appended, and are visible at once wherever the object
/// is. Behind the end nothing is mapped: an access there is [`Error::NoPage`].
pub struct Append {
    pieces: Pieces,
    capacity: u64,
    views: Views<(Prot, PageSize)>,
}

impl Append {
    /// Nothing yet; it can grow to `capacity` bytes, which is what views can show.
    pub fn new(capacity: u64) -> Self {
        Append { pieces: Pieces::default(), capacity, views: Views::new() }
    }

    /// Bytes that it has.
    pub fn len(&self) -> u64 {
        self.pieces.bytes()
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a Frame, and maps it wherever it is to be seen. After an error it is as it was.
    pub fn append(&mut self, pages: &mut Pages, frame: Frame) -> Result<(), Error> {
        let (first, bytes) = (self.len(), frame.bytes());
        if bytes > self.capacity - first {
            return Err(Error::OutOfRange);
        }
        self.pieces.push(frame)?;
        for (va, seen, offset, (prot, size)) in self.views.all() {
            let (low, high) = (first.max(offset), (first + bytes).min(offset + seen));
            if low >= high {
                continue;
            }
            let view = View { va: va + (low - offset), bytes: high - low, offset: low, prot, size };
            if let Err(error) = self.pieces.map(pages, &view) {
                // The kernel unmaps what was mapped of it elsewhere; the shadow must know.
                self.hide(pages, first, bytes)?;
                self.pieces.0.pop();
                return Err(error);
            }
        }
        Ok(())
    }

    fn hide(&self, pages: &mut Pages, first: u64, bytes: u64) -> Result<(), Error> {
        for (va, seen, offset, _) in self.views.all() {
            let (low, high) = (first.max(offset), (first + bytes).min(offset + seen));
            if low < high {
                pages.unmap(va + (low - offset), high - low)?;
            }
        }
        Ok(())
    }
}

impl MemoryObject for Append {
    fn bytes(&self) -> u64 {
        self.capacity
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        self.pieces.map(pages, view)?;
        Ok(self.views.set(view.va, view.bytes, view.offset, (view.prot, view.size))?)
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        self.pieces.fault(pages, view, fault)
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

/// Memory interleaved over NUMA nodes: `grain` bytes of each in turn.
pub struct Numa {
    pieces: Pieces,
    grain: u64,
    nodes: Vec<u8>,
}

impl Numa {
    /// `bytes`, a multiple of `grain`, of the memory of `nodes` in turn. The grain is a power of two
    /// and at least a page; it is mapped in the largest pages that it allows. The nodes are a wish
    /// that the memory server fulfils as long as they have memory.
    pub fn new(bytes: u64, grain: u64, nodes: &[u8]) -> Result<Self, Error> {
        if !grain.is_power_of_two() || grain < PageSize::Base.bytes() {
            return Err(Error::Misaligned);
        }
        if bytes == 0 || !bytes.is_multiple_of(grain) || nodes.is_empty() {
            return Err(Error::OutOfRange);
        }
        let mut object = Numa { pieces: Pieces::default(), grain, nodes: Vec::new() };
        object.nodes.try_reserve(nodes.len())?;
        object.nodes.extend_from_slice(nodes);
        while object.pieces.bytes() < bytes {
            let node = object.node_of(object.pieces.bytes());
            let alignment = PageSize::largest(&[grain]).bytes();
            let request = FrameRequest::bytes(grain).aligned(alignment);
            let frame = Frame::with(request.attrs(RamAttrs(u16::from(node))))?;
            object.pieces.push(frame)?;
        }
        Ok(object)
    }

    /// The node whose memory was asked for at an offset.
    pub fn node_of(&self, offset: u64) -> u8 {
        self.nodes[(offset / self.grain % self.nodes.len() as u64) as usize]
    }

    /// The Frame at an offset.
    pub fn frame(&self, offset: u64) -> Option<&Frame> {
        self.pieces.find(offset).map(|(_, frame)| frame)
    }
}

impl MemoryObject for Numa {
    fn bytes(&self) -> u64 {
        self.pieces.bytes()
    }
    fn attach(&mut self, pages: &mut Pages, view: &View) -> Result<(), Error> {
        self.pieces.map(pages, view)
    }
    fn fault(&mut self, pages: &mut Pages, view: &View, fault: &Fault) -> Result<(), Error> {
        self.pieces.fault(pages, view, fault)
    }
}
