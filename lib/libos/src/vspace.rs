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
            let table = match here == table_bytes(level) && level < ROOT_LEVEL {
                // Nothing else will be in it.
                true => self.new_table(level, at, supplies)?,
                false => self.table(level, at, supplies)?,
            };
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
        let place = self.new_table(level, base, supplies)?;
        self.remember(Table { level, va: base, place })?;
        Ok(place)
    }

    /// A table of `level` where there is none, which is not remembered.
    fn new_table(
        &mut self,
        level: u8,
        va: u64,
        supplies: &mut impl Supplies,
    ) -> Result<Place, Status> {
        let ty = CapType::table_of_level(level).ok_or(Status::WrongLevel)?;
        let parent = self.table(level + 1, va, supplies)?;
        let place = supplies.table(ty)?;
        parent.map(entry_of(level + 1, va), 1, place, 0, RWX, supplies.slot()?)?;
        Ok(place)
    }

    fn remember(&mut self, table: Table) -> Result<(), Status> {
        *self.tables.get_mut(self.count).ok_or(Status::NoSlot)? = table;
        self.count += 1;
        Ok(())
    }
}
