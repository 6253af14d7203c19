//! What the machine-independent part needs: capability slots, page tables, memory objects.
//!
//! The library implements this with one or two invocations for each function; the tests implement
//! it with a model of the kernel. Page tables and CNodes are named by numbers that the backend
//! chooses. Where much is mapped, slots and entries go together: the Mapping of entry `e` of a region
//! is in slot `e % 256` of the region's CNode for that half, and the Frame of the same page in the
//! same slot of the chunk. Where little is, both are in a [pair](crate::pairs).

use crate::bits::Bits;
use crate::types::{Access, NoMemory, Prot, Refused};
use core::num::NonZeroU32;

/// A CNode of 256 slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CNode(pub u32);

/// A last-level page table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Table(pub u32);

/// What one entry may show, by its number in the address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// 2 MiB.
    Region(u64),
    /// 1 GiB.
    Giant(u64),
}

/// A memory object that entries map: a file, or shared anonymous memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(NonZeroU32);

impl ObjectId {
    /// Number `index` of the objects, counted from 0; the last is 2³² - 2.
    pub const fn new(index: u32) -> ObjectId {
        ObjectId(NonZeroU32::MIN.saturating_add(index))
    }
    /// Which of the objects it is.
    #[inline]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Pages of an object that one Frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The Frame, as the backend names it.
    pub frame: u64,
    /// Page of the Frame that holds page `first` of the object.
    pub frame_page: u64,
    /// First page of the object.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
}

/// How much of a range of an object is in memory, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct There {
    /// All.
    pub pages: u64,
    /// Those of them that are in pages of 2 MiB.
    pub large: u64,
    /// Pages that have left memory, and are not counted in the others.
    pub out: u64,
}

/// Why an object has no page to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectError {
    /// The page is behind the end of the object.
    NoPage,
    /// There is no memory for it.
    NoMemory,
    /// The Frame that held it has been taken away: another one may hold it now.
    Gone,
}

impl From<NoMemory> for ObjectError {
    fn from(_: NoMemory) -> ObjectError {
        ObjectError::NoMemory
    }
}

impl From<Refused> for ObjectError {
    fn from(_: Refused) -> ObjectError {
        ObjectError::NoMemory
    }
}

/// Capabilities, page tables and objects of one process.
pub trait Backend {
    /// Makes an empty CNode.
    fn cnode_new(&mut self) -> Result<CNode, NoMemory>;
    /// Gives up the process's capability to a CNode; the last one deletes what it holds. After an error
    /// it is still there, but nobody's: its number is not given out again.
    fn cnode_drop(&mut self, node: CNode) -> Result<(), Refused>;
    /// Does another process hold this CNode too?
    fn cnode_shared(&mut self, node: CNode) -> bool;
    /// Copies slots `first..first + count` of one CNode to the same slots of another.
    fn slots_copy(
        &mut self,
        from: CNode,
        to: CNode,
        first: u32,
        count: u32,
    ) -> Result<(), NoMemory>;
    /// Deletes what slots `first..first + count` hold. The last capability to a page unmaps it. After an
    /// error some may be left.
    fn slots_drop(&mut self, node: CNode, first: u32, count: u32) -> Result<(), Refused>;
    /// Moves a capability to an empty slot.
    fn slot_move(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), Refused>;
    /// Copies a capability to an empty slot.
    fn slot_copy(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), NoMemory>;
    /// Makes `count` zeroed pages in empty slots.
    fn pages_zero(&mut self, to: CNode, first: u32, count: u32) -> Result<(), NoMemory>;
    /// Replaces the page in a slot by a copy of it, unless its capability has no copies: then
    /// answers `false`. A Mapping of the old page stays.
    fn page_copy(&mut self, node: CNode, slot: u32) -> Result<bool, NoMemory>;
    /// Makes a copy of an object's page (page `page` of the object, which `extent` holds) in an
    /// empty slot. [`Gone`](ObjectError::Gone) as of [`map_extent`](Self::map_extent).
    fn page_copy_object(
        &mut self,
        extent: &Extent,
        page: u64,
        to: CNode,
        slot: u32,
    ) -> Result<(), ObjectError>;

    /// Which of entries `first..first + count`, at most 64, of a table were used since this was asked last: bit 0 is the first.
    fn entries_used(&mut self, table: Table, first: u32, count: u32) -> u64;
    /// Entries of a last-level table whose pages were written to since [`entries_clean`](Self::entries_clean), or since they were made,
    /// and those that are not there.
    fn entries_written(&mut self, table: Table) -> Bits<8>;
    /// From now on no entry of a last-level table, which is this process's alone, says that its page was written to.
    fn entries_clean(&mut self, table: Table) -> Result<(), Refused>;
    /// Has anybody else the page in a slot?
    fn page_shared(&mut self, page: (CNode, u32)) -> bool;
    /// Copies the page in a slot to a page of an object that is [this process's alone](Self::object_own).
    fn page_aside(&mut self, page: (CNode, u32), object: ObjectId, to: u64)
        -> Result<(), NoMemory>;

    /// Makes an empty table and maps it, writable, for the 2 MiB with number `region`.
    fn table_new(&mut self, region: u64) -> Result<Table, NoMemory>;
    /// Unmaps a table and gives up its capability. The Mappings in it go with the last one. After an error
    /// it is still mapped.
    fn table_drop(&mut self, region: u64, table: Table) -> Result<(), Refused>;
    /// Does another process hold this table too?
    fn table_shared(&mut self, table: Table) -> bool;
    /// Takes the write protection from the upper entry of a table, and the write bits from those of
    /// its entries that map anons: they may be others', too. After an error it is protected still.
    fn table_writable(&mut self, region: u64, table: Table) -> Result<(), Refused>;

    /// Shows the page of zeros, to read, at those of entries `first..first + count` of a table that are
    /// empty. To the functions that map pages they are empty still.
    fn zeros_show(
        &mut self,
        table: Table,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), NoMemory>;
    /// Empties those of entries `first..first + count` of a table that show it.
    fn zeros_hide(&mut self, table: Table, first: u32, count: u32) -> Result<(), Refused>;
    /// Maps `count` pages, the first of which is in slot `pages`, at consecutive entries of a table.
    /// Mappings go to the slots from `mappings` on. Entries in use are passed over.
    fn map_pages(
        &mut self,
        entry: (Table, u32),
        count: u32,
        pages: (CNode, u32),
        mappings: (CNode, u32),
        prot: Prot,
    ) -> Result<(), NoMemory>;
    /// Makes the Mapping of one page in `mapping` one of another page. `false` if there is none: it has
    /// gone with the last capability to the page.
    fn replace(
        &mut self,
        mapping: (CNode, u32),
        page: (CNode, u32),
        prot: Prot,
    ) -> Result<bool, Refused>;
    /// Maps `count` pages of an object from page `page` on at entries from `first` of `half` on,
    /// with one Mapping in slot `first`. [`Gone`](ObjectError::Gone): the Frame has been taken away since the
    /// object was asked for the extent, which it is to [forget](Self::object_forget).
    #[allow(clippy::too_many_arguments)]
    fn map_extent(
        &mut self,
        table: (Table, u32),
        first: u32,
        count: u32,
        extent: &Extent,
        page: u64,
        mappings: CNode,
        prot: Prot,
    ) -> Result<(), ObjectError>;
    /// Sets the rights of all Mappings in slots `first..first + count`, of which some may be empty. After an
    /// error some have them.
    fn protect(
        &mut self,
        mappings: CNode,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused>;
    /// Makes the Mappings in these slots writable where the page has no copies, else read-only. After an
    /// error some are.
    fn protect_exclusive(&mut self, mappings: CNode, first: u32, count: u32)
        -> Result<(), Refused>;
    /// Sets the rights of entries `first..first + count` of one Mapping. Refused, too, if it has gone with its
    /// Frame, which others have taken away.
    fn protect_part(
        &mut self,
        mapping: (CNode, u32),
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused>;
    /// Removes entries `first..first + count`, not all, of one Mapping that has `len`. A part in
    /// front of them stays in its slot, a part behind them moves to the slot of its first entry.
    /// After an error any of that may be done, or nothing.
    fn unmap_part(
        &mut self,
        mapping: (CNode, u32),
        first: u32,
        count: u32,
        len: u32,
    ) -> Result<(), Refused>;

    /// Maps a region, where no table is, or a giant, where at most an empty directory is, by one entry to the pages of an object from
    /// page `page` on, a multiple of its pages. Only of objects that can be [mapped so](Self::object_whole). [`NoPage`](ObjectError::NoPage): what is
    /// there is no table.
    fn whole_new(
        &mut self,
        _shown: Shown,
        _extent: &Extent,
        _page: u64,
        _prot: Prot,
    ) -> Result<Table, ObjectError> {
        Err(ObjectError::NoMemory)
    }
    /// Takes such an entry away. After an error it is still there.
    fn whole_drop(&mut self, _shown: Shown, _entry: Table) -> Result<(), Refused> {
        Err(Refused)
    }
    /// Allows, or no longer, that a thread hides what such an entry of a region shows, where it runs: then its object has nothing any more, and is not
    /// to be seen there until it shows it again. When it is no longer allowed it is shown.
    fn whole_allow_hiding(&mut self, _entry: Table, _allow: bool) -> Result<(), Refused> {
        Err(Refused)
    }

    /// Is such an entry gone, as what it showed was taken away?
    fn whole_is_lost(&self, _entry: Table) -> bool {
        false
    }
    /// Uses a byte that such an entry shows, as a program would. `false`: that is a fault.
    fn touch(&mut self, _addr: u64, _access: Access) -> bool {
        false
    }

    /// Makes an empty CNode under the same number for the child of a fork that is going on.
    fn child_node(&mut self, node: CNode) -> Result<(), NoMemory>;
    /// Copies slots `first..first + count` of a CNode to the child's CNode of the same number.
    fn child_slots(&mut self, node: CNode, first: u32, count: u32) -> Result<(), NoMemory>;
    /// In a child: these numbers stand for nothing here.
    fn not_inherited(&mut self, table: Table, nodes: [Option<CNode>; 2]);

    /// The part of an object around page `page` that lies in one Frame.
    fn object_extent(&mut self, object: ObjectId, page: u64) -> Result<Extent, ObjectError>;
    /// The object as an extent, if it consists of page tables, so that [`whole_new`](Self::whole_new) maps parts of it; `None` if it
    /// does not. As [`object_extent`](Self::object_extent) otherwise. Whatever shows it as `whole_new` does is lost before the object
    /// gets pages behind `until`, if it has none there now.
    fn object_whole(
        &mut self,
        _object: ObjectId,
        _page: u64,
        _until: u64,
    ) -> Result<Option<Extent>, ObjectError> {
        Ok(None)
    }
    /// Pages that an object, of which an extent was asked for, has, as far as is known.
    fn object_pages(&self, _object: ObjectId) -> u64 {
        u64::MAX
    }
    /// Can pages of objects leave memory?
    fn pages_can_leave(&mut self) -> bool {
        false
    }
    /// Pages of an object leave memory, as many as can.
    fn object_page_out(&mut self, _object: ObjectId, _page: u64, _pages: u64) {}
    /// A page of an object, and no other, that has left memory comes in. `false`: it has not left, or does not come.
    fn object_page_in(&mut self, _object: ObjectId, _page: u64) -> bool {
        false
    }
    /// How much of some pages of an object is in memory, whoever has it mapped. Of an object that was never asked for, nothing.
    fn object_there(&self, _object: ObjectId, _page: u64, _pages: u64) -> There {
        There::default()
    }
    /// How many pages of an object from a page on are like the first of them, and whether they are in memory. At least one.
    fn object_run(&mut self, object: ObjectId, page: u64, pages: u64) -> (u64, bool);
    /// The same of whether they have contents, in memory or not.
    fn object_has(&mut self, object: ObjectId, page: u64, pages: u64) -> (u64, bool) {
        self.object_run(object, page, pages)
    }
    /// Is it memory and nothing else, as `memfd`, shared anonymous memory and files that do not survive are?
    fn object_is_memory(&self, _object: ObjectId) -> bool {
        false
    }
    /// Such an entry shows no memory for this page. Makes some, if the object has the page; `true`: it is to be tried again.
    fn object_make(&mut self, _object: ObjectId, _page: u64) -> bool {
        false
    }
    /// The fault that is being served has said that this page of an object has left memory: has it come in?
    fn object_fetch(&mut self, _object: ObjectId, _page: u64) -> bool {
        false
    }
    /// Has a page left memory that the store does not give back?
    fn object_is_lost(&mut self, _object: ObjectId, _page: u64) -> bool {
        false
    }
    /// What is missing of an object is to be made in pages of 2 MiB, or not any more. It is advice.
    fn object_advise(&mut self, _object: ObjectId, _large: bool) {}
    /// Takes pages of an object away, from everybody, so that there are zeros. `false`: that is not done with such an object.
    fn object_punch(&mut self, _object: ObjectId, _page: u64, _pages: u64) -> bool {
        false
    }
    /// Makes an object of so many zeros that is this process's alone, and can be [mapped by one entry](Self::object_whole). `None`: there
    /// is none to be had. Its pages may be large if they are wanted so.
    fn object_own(&mut self, _pages: u64, _large: bool) -> Option<ObjectId> {
        None
    }
    /// The same, for what goes aside as memory is short.
    fn object_aside(&mut self, pages: u64) -> Option<ObjectId> {
        self.object_own(pages, false)
    }
    /// Makes such an object larger, by zeros at its end. Its last page is mapped at page `last`, where an entry may show it. `false`: it is as it was.
    fn object_grow(&mut self, _object: ObjectId, _pages: u64, _last: u64) -> bool {
        false
    }
    /// Does whoever has faulted try again by itself what it did, without waiting for anybody?
    fn tries_again(&self) -> bool {
        false
    }
    /// The extent that holds this page has been taken away.
    fn object_forget(&mut self, object: ObjectId, page: u64);
    /// No entry maps this object any more.
    fn object_release(&mut self, object: ObjectId);
}
