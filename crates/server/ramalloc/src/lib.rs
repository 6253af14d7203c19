//! The allocator inside the memory server.
//!
//! The server cannot touch the memory that it hands out: it holds capabilities to it, no mapping.
//! So everything known about free pages is in bitmaps on the side, in memory that the owner
//! provides as a slice of words:
//!
//! * [`bits`]: a set of numbers that finds its smallest member in a few steps;
//! * [`buddy`]: free pages of one range of physical memory as aligned blocks of 2^k pages, which
//!   merge when both halves are free; sizes need not be powers of two, what a request leaves of its
//!   block is free at once;
//! * [`pool`]: all ranges of a machine with their attributes, and the reserve that only trusted
//!   servers may use.
#![no_std]
#![forbid(unsafe_code)]

pub mod bits;
pub mod buddy;
pub mod pool;

pub use buddy::{Buddy, FreeError};
pub use pool::{AllocError, Grant, Pool, Request, Usage};

pub use paging::PAGE;
