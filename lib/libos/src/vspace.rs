//! Building address spaces, the own one and those of others.
//!
//! [`AddressSpace`] remembers the tables that it made, by level and address, so that later maps
//! find them. It needs no heap and makes a table only where something is mapped.

use crate::Cap;
use abi::layout::PAGE;
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::{CapAddr, CapType, Place, Status};

/// Readable.
pub const R: MapFlags = MapFlags::READ;
/// Readable and writable.
pub const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
/// Readable and executable.
pub const RX: MapFlags = MapFlags::READ.or(MapFlags::EXEC);
/// Everything: the rights of tables, which leave the choice to the entries below.
pub const RWX: MapFlags = RW.or(MapFlags::EXEC);

/// Entries of a table.
pub const ENTRIES: u64 = 512;
/// Most tables that an [`AddressSpace`] remembers.
pub const MAX_TABLES: usize = 160;
/// Level of the table in `VSPACE`, below which everything is built.
const ROOT_LEVEL: u8 = 4;

/// Bytes that one entry of a table of `level` (1 is the last) covers.
pub const fn entry_bytes(level: u8) -> u64 {
    PAGE << (9 * (level - 1))
}

/// Bytes that a whole table of `level` covers.
pub const fn table_bytes(level: u8) -> u64 {
    entry_bytes(level + 1)
}

/// Which entry of its table of `level` covers `va`.
pub const fn entry_of(level: u8, va: u64) -> u32 {
    (va / entry_bytes(level) % ENTRIES) as u32
}

/// The root table of the own address space, which dispatchers are configured with: the table of
/// level 4 that everything is built below, unless paging has five levels.
pub fn root() -> CapAddr {
    match slots::ROOT_TABLE.identify() {
        Ok(what) if what.ty == CapType::Pml5 => slots::ROOT_TABLE,
        _ => slots::VSPACE,
    }
}

/// Where an address space gets tables and slots from: in the CSpace that is to own them.
pub trait Supplies {
    /// A new table of type `ty`, in a new slot.
    fn table(&mut self, ty: CapType) -> Result<Place, Status>;
    /// A free slot.
    fn slot(&mut self) -> Result<Place, Status>;
}

#[derive(Clone, Copy, Debug)]
struct Table {
    level: u8,
    va: u64,
    place: Place,
}

/// An address space below the root table at `root`.
#[derive(Debug)]
pub struct AddressSpace {
    root: Place,
    tables: [Table; MAX_TABLES],
    count: usize,
}

impl AddressSpace {
    /// The space whose root table is at `root`; what is mapped in it already is not known here.
    pub const fn new(root: Place) -> Self {
        let none = Table { level: 0, va: 0, place: Place::NULL };
        AddressSpace { root, tables: [none; MAX_TABLES], count: 0 }
    }

    /// Maps `bytes` of the Frame `frame` from `offset` on at `va`, in pages of the size of an entry
    /// at `level`; all three are multiples of that. The Mappings stay in the slots that `supplies`
    /// gave. On an error, what was mapped before it stays.
    #[allow(clippy::too_many_arguments)]
    pub fn map(
        &mut self,
        level: u8,
        va: u64,
        bytes: u64,
        frame: Place,
        offset: u64,
        flags: MapFlags,
        supplies: &mut impl Supplies,
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < bytes {
            let at = va + done;
            let here = (bytes - done).min(table_bytes(level) - at % table_bytes(level));
            let table = self.table(level, at, supplies)?;
            let count = (here / entry_bytes(level)) as u32;
            let entry = entry_of(level, at);
            table.map(entry, count, frame, offset + done, flags, supplies.slot()?)?;
            done += here;
        }
        Ok(())
    }

    /// The table of `level` that covers `va`, made if need be.
    pub fn table(
        &mut self,
        level: u8,
        va: u64,
        supplies: &mut impl Supplies,
    ) -> Result<Place, Status> {
        if level == ROOT_LEVEL {
            return Ok(self.root);
        }
        let base = va & !(table_bytes(level) - 1);
        let mut known = self.tables[..self.count].iter().rev();
        if let Some(table) = known.find(|table| table.level == level && table.va == base) {
            return Ok(table.place);
        }
        if self.count == MAX_TABLES {
            return Err(Status::NoSlot);
        }
        let ty = CapType::table_of_level(level).ok_or(Status::WrongLevel)?;
        let parent = self.table(level + 1, va, supplies)?;
        let place = supplies.table(ty)?;
        parent.map(entry_of(level + 1, va), 1, place, 0, RWX, supplies.slot()?)?;
        self.remember(Table { level, va: base, place })?;
        Ok(place)
    }

    fn remember(&mut self, table: Table) -> Result<(), Status> {
        *self.tables.get_mut(self.count).ok_or(Status::NoSlot)? = table;
        self.count += 1;
        Ok(())
    }
}

/// Two MiB of the own address space in which one thing at a time is mapped for a short while.
#[derive(Debug)]
pub struct Window {
    table: Place,
    va: u64,
    mapping: CapAddr,
}

/// Bytes of a window.
pub const WINDOW_BYTES: u64 = table_bytes(1);

impl Window {
    /// The window at `va`, whose last-level table is `table`; `mapping` is a free slot.
    pub const fn new(table: Place, va: u64, mapping: CapAddr) -> Self {
        Window { table, va, mapping }
    }

    /// Maps `bytes` of `frame` from `offset` on, multiples of a page and at most the window.
    pub fn open(
        &mut self,
        frame: impl Into<Place>,
        offset: u64,
        bytes: u64,
        flags: MapFlags,
    ) -> Result<View<'_>, Status> {
        self.table.map(0, (bytes / PAGE) as u32, frame, offset, flags, self.mapping)?;
        let writable = flags.has(MapFlags::WRITE);
        Ok(View { window: self, bytes: bytes as usize, writable })
    }
}

/// A way to write to Frames that are not mapped.
pub trait FrameWriter {
    /// Copies `data` to `offset` of `frame`, however much it is.
    fn write(&mut self, frame: Place, offset: u64, data: &[u8]) -> Result<(), Status>;
}

impl FrameWriter for Window {
    fn write(&mut self, frame: Place, mut offset: u64, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let skip = offset % PAGE;
            let (part, rest) = data.split_at(data.len().min((WINDOW_BYTES - skip) as usize));
            let bytes = (skip + part.len() as u64).next_multiple_of(PAGE);
            self.open(frame, offset - skip, bytes, RW)?.write(skip as usize, part)?;
            (offset, data) = (offset + part.len() as u64, rest);
        }
        Ok(())
    }
}

/// What is mapped in a window. Dropped, it is unmapped.
pub struct View<'a> {
    window: &'a mut Window,
    bytes: usize,
    writable: bool,
}

impl View<'_> {
    /// The first byte. Valid as long as the view.
    pub fn as_ptr(&self) -> *mut u8 {
        self.window.va as *mut u8
    }

    /// Copies `data` to `offset`.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), Status> {
        if !self.writable {
            return Err(Status::NoRights);
        }
        self.check(offset, data.len())?;
        // SAFETY: the range lies in the view, which is mapped writable; the window's addresses are
        // used for nothing else, so `data` is elsewhere.
        unsafe {
            core::ptr::copy_nonoverlapping(data.as_ptr(), self.as_ptr().add(offset), data.len())
        }
        Ok(())
    }

    /// Copies from `offset` to `data`.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), Status> {
        self.check(offset, data.len())?;
        // SAFETY: as in `write`; everything that can be mapped can be read.
        unsafe {
            core::ptr::copy_nonoverlapping(self.as_ptr().add(offset), data.as_mut_ptr(), data.len())
        }
        Ok(())
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Status> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Status::OutOfRange),
        }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // The slot holds the Mapping that `open` made, which only this deletes.
        self.window.mapping.discard();
    }
}
