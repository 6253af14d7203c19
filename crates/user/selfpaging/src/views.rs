//! At which addresses the parts of a memory object are visible.

use crate::{Advance, OutOfMemory, Region, RegionMap};
use alloc::vec::Vec;

/// Where a byte of an object is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<T> {
    /// Its address.
    pub va: u64,
    /// What the view says.
    pub value: T,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At<T> {
    offset: u64,
    value: T,
}

impl<T: Copy> Advance for At<T> {
    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
    }
}

/// The views of one object: ranges of addresses, the offset in the object of each, and a value such
/// as the rights there.
#[derive(Clone, Debug)]
pub struct Views<T>(RegionMap<At<T>>);

impl<T: Copy> Views<T> {
    /// None.
    pub const fn new() -> Self {
        Views(RegionMap::new(0, u64::MAX))
    }

    /// Is the object visible nowhere?
    pub fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }

    /// Notes that `[va, va + bytes)` shows the object from `offset` on, whatever it showed before.
    pub fn set(&mut self, va: u64, bytes: u64, offset: u64, value: T) -> Result<(), OutOfMemory> {
        self.clear(va, bytes)?;
        let inserted = self.0.insert(va, bytes, At { offset, value });
        debug_assert!(!matches!(inserted, Err(crate::InsertError::Occupied)));
        inserted.map_err(|_| OutOfMemory)
    }

    /// Notes that `[va, va + bytes)` does not show the object any more.
    pub fn clear(&mut self, va: u64, bytes: u64) -> Result<(), OutOfMemory> {
        self.0.cut(va, va + bytes)?;
        while self.0.take(va, va + bytes).is_some() {}
        Ok(())
    }

    /// Where byte `offset` of the object is visible.
    pub fn of(&self, offset: u64) -> impl Iterator<Item = Place<T>> + '_ {
        let shows = move |region: &&Region<At<T>>| {
            let first = region.value.offset;
            first <= offset && offset - first < region.bytes()
        };
        self.0.iter().filter(shows).map(move |region| Place {
            va: region.start + (offset - region.value.offset),
            value: region.value.value,
        })
    }

    /// All views: address, bytes, offset, value.
    pub fn all(&self) -> Vec<(u64, u64, u64, T)> {
        let view = |r: &Region<At<T>>| (r.start, r.bytes(), r.value.offset, r.value.value);
        self.0.iter().map(view).collect()
    }
}

impl<T: Copy> Default for Views<T> {
    fn default() -> Self {
        Self::new()
    }
}
