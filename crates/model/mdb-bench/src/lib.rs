//! The mapping database of [`mdb`] beside those of G18 §4.5, and the measurements of §4.5.5.
//!
//! For comparison only: nothing here is part of Tessera.

#![forbid(clippy::undocumented_unsafe_blocks)]

pub mod aa;
pub mod database;
pub mod list;
pub mod measure;
pub mod order;
pub mod ours;
pub mod report;
pub mod workload;
