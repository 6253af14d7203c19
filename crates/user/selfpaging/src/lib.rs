//! The parts of a self-paging library that need no page tables (G18 §3.5):
//!
//! * [`RegionMap`]: which range of addresses belongs to whom;
//! * [`Views`]: at which addresses the parts of a memory object are visible;
//! * [`Policy`]: which page is given up when another one must come in: [`Fifo`], [`Clock`], [`Sampled`] (LRU), [`Optimal`];
//! * [`Kept`]: which pages are in memory, by such a policy; and [`replay`], what comes of it for a recorded program.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod kept;
mod policy;
mod regions;
mod views;

pub use kept::{replay, Kept};
pub use policy::{Clock, Fifo, Optimal, Policy, Sampled};
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
