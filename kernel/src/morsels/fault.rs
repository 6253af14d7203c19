//! From an address at which a program has faulted to the page of an object.

use super::name;
use super::MORSEL;
use crate::arch;
use crate::cores::Pools;
use crate::object::Table;
use ::morsel::Access;
use paging::{Entry, Flags};

/// Bits of the error code of a page fault.
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const FETCH: u64 = 16;

/// A page of an object that is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub object: u64,
    pub page: u64,
    pub access: Access,
    /// The entries above let it be stored to.
    pub may_write: bool,
}

/// The page that a program wants by an access that has failed with `error` at `address`, if that is below an entry that
/// shows an object and lets it.
///
/// Tables above may be another core's: it may clear an entry, or have done so, but takes no table away while this core
/// has the root loaded and does not answer.
#[inline]
pub fn find(pools: &Pools, root: u64, error: u64, address: u64) -> Option<Wanted> {
    let access = match error & (PRESENT | WRITE) {
        // It may be read, and is not to be executed.
        PRESENT => return None,
        error if error & WRITE != 0 => Access::Write,
        _ => Access::Read,
    };
    let mut shift = 3 + 9 * u32::from(arch::root_level());
    // Programs have the lower half.
    if address >> (shift + 8) != 0 || root == 0 {
        return None;
    }
    let (mut table, mut all, mut any) = (root, u64::MAX, 0);
    while shift >= 12 {
        let entry = Table::at(table).get((address >> shift) as u32 & 511);
        if entry & Flags::PRESENT.bits() == 0 {
            return None;
        }
        (all, any) = (all & entry, any | entry);
        let below = Entry::from_bits(entry).address();
        if entry & MORSEL != 0 {
            let may_write = all & Flags::WRITE.bits() != 0;
            let may = access == Access::Read || may_write;
            let may_fetch = error & FETCH == 0 || any & Flags::NO_EXECUTE.bits() == 0;
            if !may || !may_fetch {
                return None;
            }
            let (object, first) = name::shown_by(pools, below)?;
            let page = first + ((address & ((1 << shift) - 1)) >> 12);
            return Some(Wanted { object, page, access, may_write });
        }
        // A large page; in upper levels this bit is never set.
        if entry & Flags::HUGE.bits() != 0 {
            return None;
        }
        (table, shift) = (below, shift - 9);
    }
    None
}
