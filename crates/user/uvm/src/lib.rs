//! Machine-independent virtual memory of a Linux process, after UVM (chapters 3 and 4).
//!
//! Three layers, each in its own module:
//!
//! * [`map`]: what is mapped where and how: ordered entries. Knows nothing of pages.
//! * [`amap`]: the anonymous pages (anons), as Frame capabilities in CNodes; [`pairs`] is where it
//!   puts those of which there are few in a MiB.
//! * [`pmap`]: what the page tables hold. Knows nothing of entries.
//!
//! [`Space`] puts them together: each of its operations (mmap, munmap, mprotect, mremap, madvise,
//! brk, fault, fork) is a module of its own. All work on capabilities and tables goes through
//! [`Backend`], so the same code runs in a process, on invocations, and in the tests, on a model
//! of the kernel.
//!
//! The page tables can always be made anew from the map and the amap. So where the backend refuses to change
//! entries, the whole table of the region goes, and comes again by faults; where it refuses even that, the
//! region is *condemned*: nothing is done with it until its table has gone (see [`pmap`]).
//!
//! What it guarantees: the results are Linux's; no page is copied before somebody writes to it;
//! the last owner of a page never copies; a write after a fork copies exactly the page written.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod amap;
mod apart;
mod aside;
pub mod backend;
pub mod bits;
mod brk;
mod chunk;
mod fault;
mod fork;
mod lent;
mod limited;
mod madvise;
pub mod map;
mod maps;
mod mmap;
mod own;
pub mod pagemap;
pub mod pairs;
mod pass;
pub mod pmap;
mod protect;
mod region;
mod remap;
mod space;
mod streams;
mod types;
mod unmap;
mod usage;
mod victims;
mod whole;
mod written;

#[cfg(test)]
mod tests;

pub use backend::{Backend, CNode, Extent, ObjectError, ObjectId, Shown, Table, There};
pub use fork::MixedRegions;
pub use madvise::Advice;
pub use map::{Entry, Flags};
pub use maps::{Detail, ObjectName, Span, SHARED_MEMORY};
pub use mmap::{MapRequest, Placement};
pub use own::OWN_LEAST;
pub use pass::Passed;
pub use remap::RemapFlags;
pub use space::{Limits, Space};
pub use streams::Streams;
pub use types::{
    Access, Error, FaultError, NoMemory, Prot, Refused, CHUNK_PAGES, PAGE, REGION_PAGES,
};
pub use usage::{Residency, Usage};
pub use written::Contents;
