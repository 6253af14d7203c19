//! Formats of the DMA remapping unit (IOMMU) of Intel's VT-d in legacy mode, with second-level translation.
//!
//! ```text
//!  a device's request: source (bus, device, function), address
//!
//!  root table            context table of a bus      second-level tables, of three levels
//!  ┌───────────┐         ┌───────────────────┐       ┌─────┐   ┌─────┐   ┌─────┐
//!  │ bus 0     ├────────►│ pass              │   ┌──►│     ├──►│     ├──►│ page│
//!  │ bus 1     │         │ translate, domain ├───┘   └─────┘   └─────┘   └─────┘
//!  │  …        │         │ (absent: refused) │        1 GiB     2 MiB     4 KiB an entry
//!  └───────────┘         └───────────────────┘
//! ```
//!
//! Pure arithmetic on words. Who may attach what, and when translations must be forgotten, is decided elsewhere.

#![no_std]
#![forbid(unsafe_code)]

mod dmar;
mod fault;
mod registers;
mod tables;

pub use dmar::{unit, Functions, Unit};
pub use fault::Fault;
pub use registers::{command, context_command, iotlb_command, Abilities, FaultStatus, Register};
pub use tables::{root_entry, Context, CONTEXTS, ENTRY_WORDS, LEVEL};

/// Bytes of a page, and of the registers that are looked at.
pub const PAGE: u64 = 4096;
