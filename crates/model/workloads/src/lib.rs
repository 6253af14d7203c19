//! The programs of G18's evaluation whose memory accesses matter, as libraries.
//!
//! The same code runs twice: in the machine, over memory that it maps itself, where it is timed and
//! its results are checked; and on the host, where an [`Observer`] sees each access to its arrays and
//! a model of a processor's TLBs or caches counts what they would have missed. So the model gets the
//! access stream of the program that was measured, not an imitation of it.
//!
//! * [`random_access`]: HPC Challenge RandomAccess (G18 §3.6.3);
//! * [`colouring`]: two of them that share a cache (G18 §3.6.7);
//! * [`graph`]: a power-law graph; [`page_rank`]: PageRank over it (G18 §3.6.4);
//! * [`gc`]: a garbage collector with a write barrier by pages, and GCBench (G18 §3.6.5).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod colouring;
pub mod gc;
pub mod graph;
pub mod page_rank;
pub mod random_access;

/// Where the machine maps the arrays of workloads, and so where models see them.
pub const ARRAYS_VA: u64 = 0x2000_0000_0000;

/// Sees accesses to the arrays of a workload.
pub trait Observer {
    /// Element `index` of the array with this number is read, written, or both.
    fn access(&mut self, array: usize, index: usize);
}

/// Sees nothing and costs nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    #[inline(always)]
    fn access(&mut self, _: usize, _: usize) {}
}
