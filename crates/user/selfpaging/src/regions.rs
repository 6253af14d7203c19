//! Ranges of addresses that do not overlap, each with a value.

use crate::OutOfMemory;
use alloc::vec::Vec;

/// What a region knows, so that a region can be cut in two.
pub trait Advance: Clone {
    /// Becomes the value of the part that begins `bytes` further on.
    fn advance(&mut self, bytes: u64);
}

/// A range of addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region<T> {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// What is there.
    pub value: T,
}

impl<T> Region<T> {
    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Why a region was not inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertError {
    /// It is empty, or not inside of the addresses that are managed.
    OutOfRange,
    /// It overlaps another one.
    Occupied,
    /// No memory for the record.
    OutOfMemory,
}

impl From<OutOfMemory> for InsertError {
    fn from(_: OutOfMemory) -> Self {
        InsertError::OutOfMemory
    }
}

/// Regions in the order of their addresses.
///
/// An ordered array: finding is by bisection, and inserting moves what is behind, which for the some
/// thousand regions of a program costs less than following pointers. Running out of memory is an
/// answer, as it is for every part of the path of a page fault.
#[derive(Clone, Debug)]
pub struct RegionMap<T> {
    regions: Vec<Region<T>>,
    low: u64,
    high: u64,
}

impl<T: Advance> RegionMap<T> {
    /// No region in `low..high`.
    pub const fn new(low: u64, high: u64) -> Self {
        RegionMap { regions: Vec::new(), low, high }
    }

    /// All regions, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Region<T>> {
        self.regions.iter()
    }

    /// The region that contains `va`.
    pub fn find(&self, va: u64) -> Option<&Region<T>> {
        self.regions.get(self.position(va)).filter(|region| region.start <= va)
    }

    /// The regions that overlap `low..high`, in order.
    pub fn overlapping(&self, low: u64, high: u64) -> &[Region<T>] {
        let first = self.position(low);
        let count = self.regions[first..].partition_point(|region| region.start < high);
        &self.regions[first..first + count]
    }

    /// The same, to change their values.
    pub fn overlapping_mut(&mut self, low: u64, high: u64) -> &mut [Region<T>] {
        let first = self.position(low);
        let count = self.regions[first..].partition_point(|region| region.start < high);
        &mut self.regions[first..first + count]
    }

    /// The lowest address where `bytes` fit whose remainder by `alignment`, a power of two, is
    /// `phase`.
    pub fn find_free(&self, bytes: u64, alignment: u64, phase: u64) -> Option<u64> {
        let fit = |from: u64| {
            let base = from.saturating_sub(phase);
            base.checked_next_multiple_of(alignment)?.checked_add(phase)
        };
        let mut at = fit(self.low)?;
        for region in &self.regions {
            if at.checked_add(bytes)? <= region.start {
                break;
            }
            at = at.max(fit(region.end)?);
        }
        (at.checked_add(bytes)? <= self.high).then_some(at)
    }

    /// Inserts a region where there is none.
    pub fn insert(&mut self, start: u64, bytes: u64, value: T) -> Result<(), InsertError> {
        let end = start.checked_add(bytes).filter(|&end| end <= self.high);
        let end = end.ok_or(InsertError::OutOfRange)?;
        if bytes == 0 || start < self.low {
            return Err(InsertError::OutOfRange);
        }
        let position = self.position(start);
        if self.regions.get(position).is_some_and(|next| next.start < end) {
            return Err(InsertError::Occupied);
        }
        self.reserve(1)?;
        self.regions.insert(position, Region { start, end, value });
        Ok(())
    }

    /// Cuts regions, so that none lies across `low` or `high`.
    pub fn cut(&mut self, low: u64, high: u64) -> Result<(), OutOfMemory> {
        self.reserve(2)?;
        for at in [low, high] {
            let position = self.position(at);
            let Some(region) = self.regions.get_mut(position).filter(|region| region.start < at)
            else {
                continue;
            };
            let mut behind = region.clone();
            behind.start = at;
            behind.value.advance(at - region.start);
            region.end = at;
            self.regions.insert(position + 1, behind);
        }
        Ok(())
    }

    /// Takes out the first region that lies in `low..high`.
    pub fn take(&mut self, low: u64, high: u64) -> Option<Region<T>> {
        let position = self.position(low);
        let region = self.regions.get(position)?;
        (region.start >= low && region.end <= high).then(|| self.regions.remove(position))
    }

    /// Place of the region that contains `va`, or of the first one behind.
    fn position(&self, va: u64) -> usize {
        self.regions.partition_point(|region| region.end <= va)
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        Ok(self.regions.try_reserve(more)?)
    }
}
