//! The tables of a library that must not run out of room: they grow with what they hold, find it in
//! O(log n), and say so when there is no memory, unchanged.
//!
//! * [`Ranges`]: items that cover ranges, in order, with the free gaps between them.
//! * [`Sparse`]: values by key, few out of many.
//! * [`Numbers`]: small numbers, in use or free, the lowest free one first.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod numbers;
mod ranges;
mod slab;
mod sparse;

pub use numbers::Numbers;
pub use ranges::{Item, Iter, Place, Ranges};
pub use slab::Slab;
pub use sparse::Sparse;

/// There is no memory left for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl From<alloc::collections::TryReserveError> for NoMemory {
    fn from(_: alloc::collections::TryReserveError) -> NoMemory {
        NoMemory
    }
}
