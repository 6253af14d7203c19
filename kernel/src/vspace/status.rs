//! The bits that the processor writes: whether an entry was used, and its page written to.
//!
//! A program reads them from memory, in a page table that is mapped as a read-only page. Clearing
//! them is the kernel's: the processor sets a bit when it walks the tables, not when it uses a
//! translation that it has cached, so one that stayed cached would hide the next use or write.

use super::map::changed_level;
use super::Translations;
use super::{is_table, user_entries};
use crate::cap::mapping::IS_TABLE;
use crate::cap::CapSpace;
use crate::object::{SlotRef, Table};
use captypes::invocations::{Count, MapFlags, StatusBits};
use captypes::Status;
use paging::Flags;

/// The bits of an entry.
fn entry_bits(bits: StatusBits) -> u64 {
    let one = |bit, flag: Flags| if bits.has(bit) { flag.bits() } else { 0 };
    one(StatusBits::ACCESSED, Flags::ACCESSED) | one(StatusBits::DIRTY, Flags::DIRTY)
}

impl Translations {
    /// Clears status bits of entries `first..first + count` of a table; see
    /// [`captypes::op::ClearStatus`].
    #[inline(always)]
    pub fn clear_status(
        &mut self,
        caps: &CapSpace,
        table: SlotRef,
        first: u32,
        count: u32,
        bits: StatusBits,
    ) -> Result<Count, Status> {
        let own = table.cap();
        let level = changed_level(caps, table, &own)?;
        let limit = user_entries(level);
        if first >= limit || count > limit - first {
            return Err(Status::OutOfRange);
        }
        let (entries, bits) = (Table::at(own.base), entry_bits(bits));
        // How to forget depends on how many there are.
        let (mut changed, mut kind) = (0, u16::from(level));
        entries.for_each_with(first, count, bits, |_, entry| {
            changed += 1;
            kind |= if is_table(level, entry) { IS_TABLE } else { 0 };
        });
        if changed != 0 {
            let here = self.begin_singles(caps, own.base, kind, changed, MapFlags::default());
            let (mut pages, mut last) = (0, first);
            entries.for_each_with(first, count, bits, |index, entry| {
                if is_table(level, entry) && kind & IS_TABLE == 0 {
                    // Marked a moment ago.
                    return;
                }
                entries.change(index, |entry| entry & !bits);
                pages += here.map_or(0, |here| self.flush_at(here, kind, index));
                last = index;
            });
            self.count_singles(pages);
            if self.elsewhere.may_be() {
                let changed = last + 1 - first;
                self.forget_elsewhere(caps, own.base, kind, first, changed, MapFlags::default());
            }
        }
        Ok(Count { count: changed })
    }
}
