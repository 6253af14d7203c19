//! Shadow page tables: what a library OS knows about the page tables that it built (G18 §3.5.2).
//!
//! The kernel gives a program capabilities to its page tables and does what the program asks. Where
//! a table is, which Mapping covers an address, whether something is mapped there at all: that the
//! program has to remember. A [`Pmap`] remembers it, in one node for each table, and turns ranges
//! of addresses into operations on single tables:
//!
//! * map, unmap and protect any range, with 4 KiB, 2 MiB or 1 GiB pages chosen per mapping, and all
//!   of them next to each other;
//! * tables are made where something is mapped first, and freed when nothing is mapped in them;
//! * a range that ends inside of a large page takes that page apart, by a table of smaller pages
//!   that is filled before it takes the large page's place;
//! * a subtree that belongs to somebody else is mapped as one entry.
//!
//! What performs the operations is a [`Backend`]: invocations in a native program, a model of
//! page tables in the tests of this crate. What the nodes are made of is a [`Shadow`]: [`Arrays`],
//! in which everything is one access away, or [`Lists`], whose size is proportional to the number
//! of mappings.
//!
//! No operation changes anything when it fails, unless its documentation says otherwise.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrays;
mod lists;
mod ops;
mod share;
mod split;
mod tree;

use paging::PAGE;

pub use arrays::Arrays;
pub use lists::Lists;
pub use tree::{Pmap, Translation};

/// Entries of a table.
pub const ENTRIES: u32 = 512;

/// The sizes of pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Base = 1,
    /// 2 MiB.
    Large = 2,
    /// 1 GiB.
    Huge = 3,
}

impl PageSize {
    /// All, from the smallest.
    pub const ALL: [PageSize; 3] = [PageSize::Base, PageSize::Large, PageSize::Huge];

    /// Level of the tables whose entries map such pages.
    pub const fn level(self) -> u8 {
        self as u8
    }
    /// Bytes of such a page.
    pub const fn bytes(self) -> u64 {
        entry_bytes(self as u8)
    }
    /// The size of the pages that a table of `level` maps.
    pub const fn of_level(level: u8) -> Option<PageSize> {
        match level {
            1 => Some(PageSize::Base),
            2 => Some(PageSize::Large),
            3 => Some(PageSize::Huge),
            _ => None,
        }
    }
    /// The largest size that divides all of `values`.
    pub fn largest(values: &[u64]) -> PageSize {
        let fits = |size: &PageSize| values.iter().all(|value| value % size.bytes() == 0);
        PageSize::ALL.into_iter().rev().find(fits).unwrap_or(PageSize::Base)
    }
}

/// Bytes that one entry of a table of `level` (1 is the last) covers.
pub const fn entry_bytes(level: u8) -> u64 {
    PAGE << (9 * (level as u32 - 1))
}

/// Which entry of its table of `level` covers `va`.
pub const fn entry_of(level: u8, va: u64) -> u32 {
    (va / entry_bytes(level) % ENTRIES as u64) as u32
}

/// Why nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error<E> {
    /// An address, an offset or a size is no multiple of the page size, or is zero bytes.
    Misaligned,
    /// The range ends behind the last address.
    OutOfRange,
    /// Something is mapped in the range.
    Occupied,
    /// Nothing is mapped there, or not in the way that the operation needs.
    NotMapped,
    /// The range cuts through a subtree that is not this map's to take apart.
    Foreign,
    /// No memory for the shadow.
    OutOfMemory,
    /// The backend refused.
    Backend(E),
}

/// There is no memory for the shadow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl<E> From<OutOfMemory> for Error<E> {
    fn from(_: OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

impl From<alloc::collections::TryReserveError> for OutOfMemory {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        OutOfMemory
    }
}

/// Who performs the operations on page tables.
///
/// The names are capabilities, or whatever stands for them. `rights` mean nothing to the map.
pub trait Backend {
    /// A page table.
    type Table: Copy;
    /// The record of adjacent entries that were made in one step (G18 §3.3).
    type Mapping: Copy;
    /// Memory that can be mapped.
    type Frame: Copy;
    /// What may be done with mapped memory.
    type Rights: Copy + PartialEq;
    /// Why it was not done.
    type Error;

    /// Makes an empty table of `level`.
    fn make_table(&mut self, level: u8) -> Result<Self::Table, Self::Error>;
    /// Deletes a table, whose entries and whose Mapping in an upper table are gone already.
    fn delete_table(&mut self, table: Self::Table);
    /// Makes `child` the table at entry `entry` of `table`, with all rights or with `rights`.
    fn map_table(
        &mut self,
        table: Self::Table,
        entry: u32,
        child: Self::Table,
        rights: Option<Self::Rights>,
    ) -> Result<Self::Mapping, Self::Error>;
    /// Maps `count` pages of `frame` from the byte `offset` on at entries `entry..` of `table`.
    fn map(
        &mut self,
        table: Self::Table,
        entry: u32,
        count: u32,
        frame: Self::Frame,
        offset: u64,
        rights: Self::Rights,
    ) -> Result<Self::Mapping, Self::Error>;
    /// Changes the rights of `count` entries of a Mapping, from its entry `first` on.
    fn protect(
        &mut self,
        mapping: Self::Mapping,
        first: u32,
        count: u32,
        rights: Self::Rights,
    ) -> Result<(), Self::Error>;
    /// The same for all of several Mappings of one table, whose entries follow each other.
    fn protect_many(
        &mut self,
        mappings: &[(Self::Mapping, u32)],
        rights: Self::Rights,
    ) -> Result<(), Self::Error> {
        mappings.iter().try_for_each(|&(mapping, count)| self.protect(mapping, 0, count, rights))
    }
    /// Removes `count` entries of a Mapping, from its entry `first` on, but not all. Where
    /// entries remain on both sides (`splits`), those behind get a Mapping of their own: the answer.
    fn unmap(
        &mut self,
        mapping: Self::Mapping,
        first: u32,
        count: u32,
        splits: bool,
    ) -> Result<Option<Self::Mapping>, Self::Error>;
    /// Removes Mappings with all their entries.
    fn delete(&mut self, mappings: &[Self::Mapping]);
    /// A Mapping is gone already, because what it mapped is.
    fn forget(&mut self, mapping: Self::Mapping);
}

/// Adjacent entries of one table with one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run<T> {
    /// First entry.
    pub first: u32,
    /// Entries, at least one.
    pub count: u32,
    /// The value.
    pub value: T,
}

impl<T> Run<T> {
    /// The first entry behind it.
    pub fn end(&self) -> u32 {
        self.first + self.count
    }
}

/// What a table's entries hold: runs that do not overlap.
pub trait Runs<T: Copy> {
    /// No entry is used. Takes no memory.
    fn new() -> Self;
    /// Makes sure that `more` runs can be inserted.
    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory>;
    /// Inserts a run where there is none. There must be room.
    fn insert(&mut self, run: Run<T>);
    /// Removes the run that begins at `first`.
    fn remove(&mut self, first: u32);
    /// The run that covers entry `at`.
    fn get(&self, at: u32) -> Option<Run<T>>;
    /// The run that covers `at`, or the first one behind.
    fn next(&self, at: u32) -> Option<Run<T>>;
    /// No run is there.
    fn is_empty(&self) -> bool;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}

/// A value for each entry that is used.
pub trait Values<T: Copy + PartialEq> {
    /// No value. Takes no memory.
    fn new() -> Self;
    /// Makes sure that [`Values::set`] can be called once.
    fn reserve(&mut self, value: T) -> Result<(), OutOfMemory>;
    /// Sets the value of `first..end`. There must be room.
    fn set(&mut self, first: u32, end: u32, value: T);
    /// The values of `first..end` are of no interest any more.
    fn clear(&mut self, first: u32, end: u32);
    /// The value of an entry that was set.
    fn get(&self, at: u32) -> Option<T>;
    /// First entry behind `at` that was not set to the value of `at`, or a smaller one behind `at`.
    fn same_until(&self, at: u32) -> u32;
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}

/// What the nodes are made of.
pub trait Shadow {
    /// What entries hold.
    type Runs<T: Copy>: Runs<T>;
    /// Their rights.
    type Values<T: Copy + PartialEq>: Values<T>;
}
