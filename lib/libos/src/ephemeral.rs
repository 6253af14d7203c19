//! Looks at memory that is not in the address space: ephemeral mappings of a domain.
//!
//! [`Area`] is where they are: windows of one size side by side, a slot for the Mapping in each. What knows which window shows
//! what is the mapping cache of the crate [`ephemeral`]; [`Windows`] is both together, for native domains, and for
//! libraries where they look at single pages.
//!
//! A slot of a capability is no name for memory: it may hold another one the next moment. So what is to be found
//! again is given a [name](Piece::name) that nothing else ever has; the mapping of anything else ends with the look.

use crate::guarded::Memory;
use crate::vspace::{entry_of, table_bytes, R, RW};
use crate::Cap;
use abi::layout::PAGE;
use captypes::invocations::MapFlags;
use captypes::{CapAddr, Place, Status};
use ephemeral::{Counters, Look, Looks, NoLook, Places};

/// Windows of `BYTES` bytes, a power of two, side by side.
#[derive(Debug)]
pub struct Area<const BYTES: u64> {
    va: u64,
    tables: Place,
    mappings: CapAddr,
}

impl<const BYTES: u64> Area<BYTES> {
    /// The windows from `va` on, a multiple of their size. The last-level tables of these addresses are in the slots from
    /// `tables` on, and nobody else uses those entries; those from `mappings` on are empty, one for each window.
    pub const fn new(va: u64, tables: Place, mappings: CapAddr) -> Self {
        Area { va, tables, mappings }
    }

    /// Where window `window` is.
    #[inline(always)]
    pub const fn address(&self, window: usize) -> u64 {
        self.va + window as u64 * BYTES
    }

    /// Which of the tables maps a window.
    pub const fn table(&self, window: usize) -> u32 {
        (self.address(window) / table_bytes(1) - self.va / table_bytes(1)) as u32
    }

    /// Maps `bytes` bytes of a Frame from `offset` on in a window that shows nothing.
    ///
    /// # Errors
    /// Those of the invocation.
    pub fn map(
        &self,
        window: usize,
        frame: Place,
        offset: u64,
        bytes: u64,
        flags: MapFlags,
    ) -> Result<(), Status> {
        let table = self.tables.plus(self.table(window));
        let (entry, count) = (entry_of(1, self.address(window)), bytes.min(BYTES).div_ceil(PAGE));
        let mapping = self.mappings.plus(window as u32);
        table.map(entry, count as u32, frame, offset, flags, mapping)
    }

    /// Lets a window show nothing, whether it shows something or not.
    pub fn unmap(&self, window: usize) {
        self.mappings.plus(window as u32).discard();
    }
}

/// Pages of a Frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// What the Frame is known by: a number that no other ever had or will have. 0: nothing.
    pub name: u64,
    /// Its capability.
    pub frame: Place,
    /// The first byte, that of a page.
    pub offset: u64,
    /// How many bytes, at most as many as a window has.
    pub bytes: u64,
    /// Are they to be written, too?
    pub write: bool,
}

impl<const BYTES: u64> Places for Area<BYTES> {
    type Piece = Piece;
    type Error = Status;

    #[inline]
    fn number(piece: &Piece) -> u64 {
        piece.name.rotate_left(20) ^ (piece.offset / PAGE)
    }
    #[inline]
    fn is_kept(piece: &Piece) -> bool {
        piece.name != 0
    }
    #[inline]
    fn address(&self, window: usize) -> usize {
        Area::address(self, window) as usize
    }
    fn show(&mut self, window: usize, piece: &Piece) -> Result<(), Status> {
        let flags = if piece.write { RW } else { R };
        let mapped = self.map(window, piece.frame, piece.offset, piece.bytes, flags);
        if mapped != Err(Status::Occupied) {
            return mapped;
        }
        self.unmap(window);
        self.map(window, piece.frame, piece.offset, piece.bytes, flags)
    }
    fn hide(&mut self, window: usize) {
        self.unmap(window);
    }
    fn forget(&mut self, window: usize) {
        self.unmap(window);
    }
}

/// `N` windows of `BYTES` bytes through which one thing at a time is looked at.
pub struct Windows<const N: usize, const BYTES: u64>(Looks<Area<BYTES>, N>);

impl<const N: usize, const BYTES: u64> Windows<N, BYTES> {
    /// Bytes of each.
    pub const BYTES: u64 = BYTES;

    /// Windows there.
    pub const fn new(area: Area<BYTES>) -> Self {
        Windows(Looks::new(area))
    }

    /// Shows `bytes` of `frame` from `offset` on, multiples of a page and at most a window, until the view is dropped.
    ///
    /// # Errors
    /// Those of the invocation that maps it.
    pub fn open(
        &mut self,
        frame: impl Into<Place>,
        offset: u64,
        bytes: u64,
        flags: MapFlags,
    ) -> Result<View<'_, N, BYTES>, Status> {
        let write = flags.has(MapFlags::WRITE);
        self.view(Piece { name: 0, frame: frame.into(), offset, bytes, write })
    }

    /// Shows a piece, and finds it again if it has a name: then nobody but who asks takes it away, and who does, or
    /// takes the name for another, [forgets](Self::forget) it before.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn view(&mut self, piece: Piece) -> Result<View<'_, N, BYTES>, Status> {
        if piece.bytes > BYTES {
            return Err(Status::OutOfRange);
        }
        let look = self.0.look(piece).map_err(|refused| match refused {
            // Each view has the windows for itself.
            NoLook::Busy => Status::WrongState,
            NoLook::Refused(status) => status,
        })?;
        Ok(View { windows: self, look: Some(look) })
    }

    /// What has this name is not shown any more.
    pub fn forget(&mut self, name: u64) {
        self.0.forget(|piece| piece.name == name);
    }

    /// What was asked for so far, and what it took.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// A window for a short look at something, as large as a last-level table allows.
pub type Window = Windows<1, { table_bytes(1) }>;

/// A way to write to Frames that are not mapped.
pub trait FrameWriter {
    /// Copies `data` to `offset` of `frame`, however much it is.
    fn write(&mut self, frame: Place, offset: u64, data: &[u8]) -> Result<(), Status>;
}

impl<const N: usize, const BYTES: u64> FrameWriter for Windows<N, BYTES> {
    fn write(&mut self, frame: Place, mut offset: u64, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let skip = offset % PAGE;
            let (part, rest) = data.split_at(data.len().min((BYTES - skip) as usize));
            let bytes = (skip + part.len() as u64).next_multiple_of(PAGE);
            self.open(frame, offset - skip, bytes, RW)?.write(skip as usize, part)?;
            (offset, data) = (offset + part.len() as u64, rest);
        }
        Ok(())
    }
}

/// What is seen through a window, until it is dropped.
pub struct View<'a, const N: usize, const BYTES: u64> {
    windows: &'a mut Windows<N, BYTES>,
    /// Taken when it is dropped.
    look: Option<Look<Piece>>,
}

impl<const N: usize, const BYTES: u64> View<'_, N, BYTES> {
    /// Where it is, how many bytes, and whether they may be written.
    fn shown(&self) -> (usize, usize, bool) {
        self.look.as_ref().map_or((0, 0, false), |look| {
            (look.address(), look.piece().bytes as usize, look.piece().write)
        })
    }

    /// The first byte. Valid as long as the view.
    pub fn as_ptr(&self) -> *mut u8 {
        self.shown().0 as *mut u8
    }

    /// The bytes, which others may take away at any time, as long as the view lives.
    pub fn memory(&self) -> Memory {
        let (address, bytes, _) = self.shown();
        // SAFETY: nothing but windows is at these addresses, and only one view of them at a time.
        unsafe { Memory::new(address as u64, bytes) }
    }

    /// Copies `data` to `offset`.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), Status> {
        let (address, bytes, is_writable) = self.shown();
        if !is_writable {
            return Err(Status::NoRights);
        }
        check(bytes, offset, data.len())?;
        let to = (address + offset) as *mut u8;
        // SAFETY: the range lies in the view, which is mapped writable; the window's addresses are
        // used for nothing else, so `data` is elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) }
        Ok(())
    }

    /// Copies from `offset` to `data`.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), Status> {
        let (address, bytes, _) = self.shown();
        check(bytes, offset, data.len())?;
        let from = (address + offset) as *const u8;
        // SAFETY: as in `write`; everything that can be mapped can be read.
        unsafe { core::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len()) }
        Ok(())
    }
}

fn check(bytes: usize, offset: usize, len: usize) -> Result<(), Status> {
    match offset.checked_add(len) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(Status::OutOfRange),
    }
}

impl<const N: usize, const BYTES: u64> Drop for View<'_, N, BYTES> {
    fn drop(&mut self) {
        if let Some(look) = self.look.take() {
            self.windows.0.end(look);
        }
    }
}
