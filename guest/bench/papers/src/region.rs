//! A range of addresses and what is mapped there, in pages of one size.
//!
//! Everything that an operation needs to know is computed before: measured are the invocations, one
//! for each table that the range touches to map, one for each 256 Mappings to protect or unmap.

use crate::lab::Lab;
use alloc::vec::Vec;
use libos::captypes::invocations::MapFlags;
use libos::captypes::place::L2_SLOTS;
use libos::vspace::{entry_bytes, entry_of, table_bytes};
use libos::{Cap, CapAddr, CapType, Status};

/// The part of a region in one table.
struct Piece {
    table: CapAddr,
    entry: u32,
    count: u32,
    offset: u64,
    mapping: CapAddr,
}

/// See the head of this file.
pub struct Region {
    frame: CapAddr,
    pieces: Vec<Piece>,
    /// Runs of adjacent slots with Mappings: first and count.
    runs: Vec<(CapAddr, u32)>,
    /// First address.
    pub va: u64,
    /// Level of the tables with the entries: 1 for pages of 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    pub level: u8,
    /// Bytes.
    pub bytes: u64,
}

impl Region {
    /// Plans to map the first `bytes` of `frame` at `va`; makes the tables that are needed.
    pub fn new(
        lab: &mut Lab,
        frame: CapAddr,
        va: u64,
        bytes: u64,
        level: u8,
    ) -> Result<Self, Status> {
        let mut region = Region { frame, pieces: Vec::new(), runs: Vec::new(), va, level, bytes };
        let span = table_bytes(level);
        let tables = (va + bytes).div_ceil(span) - va / span;
        let mut left = tables as u32;
        while left > 0 {
            let count = left.min(L2_SLOTS);
            region.runs.push((lab.slots(count)?, count));
            left -= count;
        }
        let mut mappings: Vec<_> = region
            .runs
            .iter()
            .flat_map(|&(first, count)| (0..count).map(move |n| first.plus(n)))
            .collect();
        mappings.reverse();
        let mut done = 0;
        while done < bytes {
            let at = va + done;
            let here = (bytes - done).min(span - at % span);
            region.pieces.push(Piece {
                table: lab.table(level, at)?,
                entry: entry_of(level, at),
                count: (here / entry_bytes(level)) as u32,
                offset: done,
                mapping: mappings.pop().ok_or(Status::NoSlot)?,
            });
            done += here;
        }
        Ok(region)
    }

    /// Makes a Frame and maps it all.
    pub fn make(
        lab: &mut Lab,
        va: u64,
        bytes: u64,
        level: u8,
        flags: MapFlags,
    ) -> Result<Self, Status> {
        let alignment = entry_bytes(level);
        let frame = lab.make(CapType::Frame, bytes.next_multiple_of(alignment), 1, alignment)?;
        let region = Region::new(lab, frame, va, bytes.next_multiple_of(alignment), level)?;
        region.map(flags)?;
        Ok(region)
    }

    /// Maps.
    #[inline(always)]
    pub fn map(&self, flags: MapFlags) -> Result<(), Status> {
        self.pieces.iter().try_for_each(|piece| {
            let Piece { table, entry, count, offset, mapping } = *piece;
            table.map(entry, count, self.frame, offset, flags, mapping)
        })
    }

    /// Changes the rights of everything.
    #[inline(always)]
    pub fn protect(&self, flags: MapFlags) -> Result<(), Status> {
        self.runs.iter().try_for_each(|&(first, count)| match count {
            1 => first.protect(0, self.pieces[0].count, flags),
            _ => first.protect_many(count, flags).map(drop),
        })
    }

    /// Changes the rights of page `page` alone.
    #[inline(always)]
    pub fn protect_page(&self, page: u32, flags: MapFlags) -> Result<(), Status> {
        self.protect_pages(page, 1, flags)
    }

    /// Changes the rights of `count` pages from `first` on, all in one table.
    #[inline(always)]
    pub fn protect_pages(&self, first: u32, count: u32, flags: MapFlags) -> Result<(), Status> {
        let piece = &self.pieces[(first / 512) as usize];
        piece.mapping.protect(first % 512, count, flags)
    }

    /// Unmaps.
    #[inline(always)]
    pub fn unmap(&self) -> Result<(), Status> {
        self.runs.iter().try_for_each(|&(first, count)| match count {
            1 => first.delete(),
            _ => first.delete_range(count),
        })
    }

    /// The tables with the entries, in order.
    pub fn tables(&self) -> impl Iterator<Item = CapAddr> + '_ {
        self.pieces.iter().map(|piece| piece.table)
    }
}

/// `count` integers in the memory at `va`.
///
/// # Safety
/// It is mapped writable as long as the result lives, and nobody else uses it. (Faults that are
/// repaired do not count.)
pub unsafe fn view<'a, T: Word>(va: u64, count: usize) -> &'a mut [T] {
    // SAFETY: by the caller's promise; any bits are a value of an integer.
    unsafe { core::slice::from_raw_parts_mut(va as *mut T, count) }
}

/// Integers that memory can be viewed as.
pub trait Word: Copy {}
impl Word for u32 {}
impl Word for u64 {}
