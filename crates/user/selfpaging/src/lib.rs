//! The parts of a self-paging library that need no page tables (G18 §3.5):
//!
//! * [`RegionMap`]: which range of addresses belongs to whom;
//! * [`Views`]: at which addresses the parts of a memory object are visible;
//! * [`Policy`]: which page is given up when another one must come in, [`Fifo`] and [`Clock`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod policy;
mod regions;
mod views;

pub use policy::{Clock, Fifo, Policy};
pub use regions::{Advance, InsertError, Region, RegionMap};
pub use views::{Place, Views};

/// There is no memory for the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl From<alloc::collections::TryReserveError> for OutOfMemory {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        OutOfMemory
    }
}
