//! The constant zero page: what memory shows that nobody has written to.
//!
//! It belongs to the kernel, no capability covers it, and nobody ever writes to it. An entry of a
//! last-level table may show it, to read, without a Frame and without a Mapping: a page that is only
//! read costs an entry. To the operations that map pages such an entry is empty, and it goes with its
//! table. (Invariant 2: every present user entry is covered by a Mapping, or shows this page.)

use super::map::changed_level;
use super::Translations;
use crate::arch;
use crate::cap::CapExt;
use crate::cap::CapSpace;
use crate::object::{SlotRef, Table};
use captypes::invocations::{Count, MapFlags};
use captypes::{CapType, Status};
use core::sync::atomic::Ordering::Relaxed;
use paging::{Entry, Flags, ENTRIES};

/// Does an entry in use of a table of `level` show the zero page?
#[inline(always)]
pub(crate) fn is_zero_page(level: u8, entry: u64) -> bool {
    level == 1 && Entry::from_bits(entry).address() == arch::page_of_zeros()
}

/// What an entry that shows the zero page holds, but for accessed and dirty bits.
fn entry_of(flags: MapFlags) -> u64 {
    let execute = if flags.has(MapFlags::EXEC) { 0 } else { Flags::NO_EXECUTE.bits() };
    arch::page_of_zeros() | Flags::PRESENT.bits() | Flags::USER.bits() | execute
}

/// Is it as it may be?
pub(crate) fn is_sound(entry: u64) -> bool {
    let free = Flags::ACCESSED.with(Flags::NO_EXECUTE).bits();
    entry & !free == entry_of(MapFlags::EXEC)
}

impl Translations {
    /// Shows the zero page at empty entries, or takes it away; see [`captypes::op::MapZero`].
    #[inline(always)]
    pub fn map_zero(
        &mut self,
        caps: &CapSpace,
        table: SlotRef,
        first: u32,
        count: u32,
        flags: MapFlags,
    ) -> Result<Count, Status> {
        let own = table.cap();
        changed_level(caps, table, &own)?;
        if !own.is(CapType::Pt) {
            return Err(Status::WrongLevel);
        }
        let limit = ENTRIES as u32;
        if first >= limit || count > limit - first {
            return Err(Status::OutOfRange);
        }
        if flags.has(MapFlags::WRITE) {
            return Err(Status::NoRights);
        }
        let done = match flags.has(MapFlags::READ) {
            true => show(Table::at(own.base), first, count, entry_of(flags)),
            false => self.clear_zero(caps, own.base, first, count),
        };
        Ok(Count { count: done })
    }

    /// Empties those of entries `first..first + count` of a last-level table that show the zero page.
    /// Returns how many did.
    #[cold]
    #[inline(never)]
    pub(super) fn clear_zero(
        &mut self,
        caps: &CapSpace,
        table: u64,
        first: u32,
        count: u32,
    ) -> u32 {
        self.expect(count);
        let mut done = 0;
        for index in first..first + count {
            if is_zero_page(1, Table::at(table).get(index)) {
                self.remove_zero(caps, table, index);
                done += 1;
            }
        }
        done
    }

    /// Empties an entry of a last-level table that shows the zero page.
    pub(super) fn remove_zero(&mut self, caps: &CapSpace, table: u64, index: u32) {
        let old = Table::at(table).take(index);
        self.forget(caps, table, 1, index, old, MapFlags::default());
    }
}

/// Writes `entry` to those of entries `first..first + count` that are empty.
fn show(table: Table, first: u32, count: u32, entry: u64) -> u32 {
    let empty = table.run(first, count).filter(|at| at.load(Relaxed) == 0);
    empty.map(|at| at.store(entry, Relaxed)).count() as u32
}

/// Is there nothing at entries `first..first + count` of a table but, perhaps, the zero page?
#[cold]
#[inline(never)]
pub(super) fn shows_nothing(table: u64, level: u8, first: u32, count: u32) -> bool {
    let mut entries = (first..first + count).map(|index| Table::at(table).get(index));
    entries.all(|entry| entry == 0 || is_zero_page(level, entry))
}
