//! Formats of the page tables of x86-64: entries, levels, flags and the parts of an address.
//!
//! Pure arithmetic on words. Who may write which entry, and when a translation must be flushed,
//! is decided elsewhere.

#![no_std]
#![forbid(unsafe_code)]

mod address;
mod entry;
mod level;

pub use address::{is_canonical, is_user, sign_extend, user_end, PhysAddr, VirtAddr};
pub use entry::{Entry, Flags};
pub use level::Level;

/// Bytes in a page of the smallest size.
pub const PAGE: u64 = 4096;
/// Entries in a page table.
pub const ENTRIES: usize = 512;
