//! The program's memory: regions over memory objects over page tables that it manages itself.
//!
//! ```text
//! map, unmap, protect          VRegion: a range of addresses, part of an object, rights
//!        │                        │
//!        ▼                        ▼  attach, fault, protect, detach
//!     regions ───────────────► MemoryObject: what the pages are made of, and when
//!                                 │
//!        page-fault upcall        ▼  map, unmap, lookup, status bits
//!                              Pages: shadow page tables (crate `pmap`)
//!                                 │
//!                                 ▼  invocations on tables, Frames and Mappings
//! ```
//!
//! ```no_run
//! # use libos::memory::{self, Anonymous, Map, Object, PageSize};
//! # fn example() -> Result<(), memory::Error> {
//! let object = Object::new(Anonymous::new(64 << 20, PageSize::Base)?);
//! let region = memory::map(&object, Map::default())?;
//! let first: *mut u64 = region.as_ptr();
//! // SAFETY: inside of the region, which is readable and writable; the page comes with the fault.
//! unsafe { first.write(1) };
//! region.protect(0, 4096, libos::vspace::R)?;
//! # Ok(())
//! # }
//! ```
//!
//! Regions lie between [`abi::layout::NATIVE_REGIONS`] and [`abi::layout::NATIVE_REGIONS_END`]. The
//! heap and the windows of the runtime lie elsewhere and are always mapped, so that the handler of
//! a fault, which allocates from the heap, cannot fault itself.
//!
//! After G18 §3.5.2 (shadow page tables, virtual regions, memory objects) and G12 §3.3-3.4.

mod error;
mod fault;
mod kernel;
mod object;
pub mod objects;
mod pages;
mod space;

pub use error::Error;
pub use fault::{on_unresolved, Hook};
pub use object::{Access, Fault, MemoryObject, Object, View};
pub use objects::*;
pub use pages::{permits, Page, Pages, Used};
pub use pmap::PageSize;
pub use space::{map, pages, protect, regions, unmap, Map, VRegion};

/// What a program may do with memory.
pub type Prot = captypes::invocations::MapFlags;
/// Nothing.
pub const NONE: Prot = captypes::invocations::MapFlags(0);
