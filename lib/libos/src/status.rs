//! Accessed and dirty bits, read from memory.
//!
//! A page table can be mapped as a read-only page of the address space that it translates. Then
//! finding out which pages were written to takes loads, and no system call; clearing the bits takes
//! one for a whole table. What this is good for: the write barrier of a garbage collector, a buffer
//! pool that writes back what changed, working-set estimation.
//!
//! ```no_run
//! # use libos::{Cap, CapAddr, Status, status::TableView, vspace::R};
//! # use libos::captypes::invocations::StatusBits;
//! # fn example(heap_pt: CapAddr, last_level: CapAddr, mapping: CapAddr) -> Result<(), Status> {
//! // The table of the heap becomes the page at entry 7 of some last-level table, at VIEW.
//! const VIEW: usize = 0x7000;
//! last_level.map(7, 1, heap_pt, 0, R, mapping)?;
//! // SAFETY: just mapped, and stays so.
//! let view = unsafe { TableView::at(VIEW as *const _) };
//! heap_pt.clear_status(0, 512, StatusBits::DIRTY)?;
//! // … the program runs …
//! for page in view.dirty() {
//!     // Page number `page` of the heap was written to.
//! }
//! # Ok(())
//! # }
//! ```

use crate::vspace::ENTRIES;
use core::sync::atomic::{AtomicU64, Ordering};

const PRESENT: u64 = 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;

/// The entries of a page table that is mapped somewhere.
#[derive(Clone, Copy)]
pub struct TableView<'a>(&'a [AtomicU64; ENTRIES as usize]);

impl<'a> TableView<'a> {
    /// The table that is mapped as a page at `page`.
    ///
    /// # Safety
    /// It stays mapped during `'a`. (The processor and the kernel write it at any time.)
    pub unsafe fn at(page: *const [AtomicU64; ENTRIES as usize]) -> Self {
        // SAFETY: the caller's promise; atomics may change under a shared reference.
        TableView(unsafe { &*page })
    }

    /// Entry `index`, below 512, as the processor sees it.
    pub fn entry(self, index: u32) -> u64 {
        self.0[index as usize % ENTRIES as usize].load(Ordering::Relaxed)
    }

    /// Is something mapped by entry `index`?
    pub fn is_present(self, index: u32) -> bool {
        self.entry(index) & PRESENT != 0
    }

    /// Was entry `index` used since its bit was cleared?
    pub fn is_accessed(self, index: u32) -> bool {
        self.entry(index) & ACCESSED != 0
    }

    /// Was the page of entry `index` written to since its bit was cleared?
    pub fn is_dirty(self, index: u32) -> bool {
        self.entry(index) & DIRTY != 0
    }

    /// The entries whose pages were written to.
    pub fn dirty(self) -> impl Iterator<Item = u32> + 'a {
        (0..ENTRIES as u32).filter(move |&index| self.is_dirty(index))
    }

    /// The entries that were used.
    pub fn accessed(self) -> impl Iterator<Item = u32> + 'a {
        (0..ENTRIES as u32).filter(move |&index| self.is_accessed(index))
    }
}
