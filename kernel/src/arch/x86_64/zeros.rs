//! Constant tables that show the page of zeros everywhere: holes of objects that were only read.

use super::memory::{page_of_zeros, KERNEL_BASE};
use core::sync::atomic::{AtomicU64, Ordering};
use paging::{Entry, Flags, ENTRIES};

/// Levels of which there is one.
const LEVELS: usize = 3;

#[repr(align(4096))]
struct Table([AtomicU64; ENTRIES]);

static TABLES: [Table; LEVELS] = [const { Table([const { AtomicU64::new(0) }; ENTRIES]) }; LEVELS];

/// Physical address of the table of `level`, 1 to 3, that shows nothing but zeros; of the page itself for level 0.
#[inline]
pub fn table_of_zeros(level: usize) -> u64 {
    match level.checked_sub(1).and_then(|index| TABLES.get(index)) {
        Some(table) => table.0.as_ptr() as u64 - KERNEL_BASE,
        None => page_of_zeros(),
    }
}

/// Fills them. While the machine starts.
pub fn make_tables() {
    // The processor has nothing to write then.
    let flags = Flags::PRESENT.with(Flags::USER).with(Flags::ACCESSED);
    for level in 1..=LEVELS {
        let entry = Entry::new(table_of_zeros(level - 1), flags).bits();
        TABLES[level - 1].0.iter().for_each(|at| at.store(entry, Ordering::Relaxed));
    }
}
