//! What a processor's TLBs, page-structure caches and last-level cache miss on a stream of accesses.
//!
//! An emulator has no TLB like a processor's, so the size of pages does not show in the time that a
//! program takes there. What it would change can be counted: the workloads of G18's evaluation are
//! replayed here, access by access, through models of the machines on which the paper measured.
//!
//! * [`lru`]: sets of ways with least-recently-used replacement, of which the rest is built;
//! * [`tlb`]: two levels of TLBs for each page size, page-structure caches, and how many entries of
//!   page tables a walk reads;
//! * [`cache`]: a sliced last-level cache, for page colouring;
//! * [`machines`]: the sizes, with where they come from;
//! * [`replay`]: the workloads through the models.
#![forbid(unsafe_code)]

pub mod cache;
pub mod lru;
pub mod machines;
pub mod replay;
pub mod tlb;
