//! The walk of the processor, done by the kernel on behalf of a program: for copies that a program asks for.
//!
//! It sets accessed and dirty bits as the processor does, so that whoever collects them misses nothing. Tables are
//! changed on the core of their capabilities only. Mostly that is this one: what a program invokes is done
//! there, and nothing changes between the look and the copy. What is not cached need not be forgotten. Tables of another core
//! ([`Walk::afar`]) may change at any time. Who walks them has said so ([`ThisCore::walk_afar`](crate::cores::ThisCore::walk_afar)), as
//! a processor that loads their root does, and sets accessed bits before it goes on, as a processor does: so the
//! other core knows whom to wait for before what was found is anything else. Those of an object of
//! another core's pool may change at any time, but what they lead to stays there
//! [`while_walking`](crate::morsels::while_walking).

use super::mem::PoolWord;
use super::table::{Table, MORSEL};
use crate::arch;
use core::sync::atomic::Ordering::Relaxed;
use paging::{Entry, Flags, Level, PAGE};

/// What is to be done with a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

impl Use {
    /// The bits that entries on all levels must have.
    const fn needed(self) -> u64 {
        let read = Flags::PRESENT.bits() | Flags::USER.bits();
        match self {
            Use::Read => read,
            Use::Write => read | Flags::WRITE.bits(),
        }
    }

    /// The bits that are set in the last one.
    const fn noted(self) -> u64 {
        match self {
            Use::Read => Flags::ACCESSED.bits(),
            Use::Write => Flags::ACCESSED.bits() | Flags::DIRTY.bits(),
        }
    }
}

/// Walks to pages of one address space, one after the other.
pub struct Walk {
    root: u64,
    access: Use,
    /// The last-level table that was found last, and the region that it translates.
    found: Option<(u64, u64)>,
    /// The tables that are looked at are a morsel's, which the kernel's map need not show.
    in_pool: bool,
    /// Those that are none are another core's.
    afar: bool,
}

/// An entry of a table of a morsel. Out of line, as is what follows: copies look at tables for every page, and nearly none
/// is a morsel's.
#[cold]
#[inline(never)]
fn get_in_pool(table: u64, index: u32) -> u64 {
    PoolWord::at(table + 8 * u64::from(index)).cell().load(Relaxed)
}

/// Sets bits in one, if it is still `entry`: other cores may be changing it. Returns whether it was.
#[cold]
#[inline(never)]
fn note_in_pool(table: u64, index: u32, entry: u64, noted: u64) -> bool {
    let word = PoolWord::at(table + 8 * u64::from(index));
    word.cell().compare_exchange(entry, entry | noted, Relaxed, Relaxed).is_ok()
}

/// How often an entry of another core's table is looked at that is being changed: its threads set the same bits.
const LOOKS: u32 = 8;

/// The entry of a table of another core, with bits set in it as a processor would, if it has those that are needed.
#[cold]
#[inline(never)]
fn note_afar(table: u64, index: u32, needed: u64, noted: u64) -> Option<u64> {
    (0..LOOKS).find_map(|_| Table::at(table).note(index, needed, noted).ok()).flatten()
}

/// Bytes that a last-level table translates.
const REGION: u64 = PAGE * paging::ENTRIES as u64;

impl Walk {
    /// Below the root table at `root`, to write to what is found or to read it.
    pub fn new(root: u64, write: bool) -> Walk {
        let access = if write { Use::Write } else { Use::Read };
        Walk { root, access, found: None, in_pool: false, afar: false }
    }

    /// The same, of tables of another core.
    pub fn afar(self) -> Walk {
        Walk { afar: true, ..self }
    }

    /// The physical address of `va`, and how many bytes of the page there are from there on; `None` if the
    /// program could not access it, or no memory is there.
    #[inline(always)]
    pub fn page(&mut self, va: u64) -> Option<(u64, u64)> {
        let (entry, page) = match self.found {
            Some((region, table)) if region == va / REGION => {
                (self.entry(table, 1, va, self.access.noted())?, PAGE)
            }
            _ => self.descend(va)?,
        };
        let at = (entry.address() & !(page - 1)) + va % page;
        arch::is_memory(at).then_some((at, PAGE - va % PAGE))
    }

    #[inline(never)]
    fn descend(&mut self, va: u64) -> Option<(Entry, u64)> {
        if va >= arch::user_end() || self.root == 0 {
            return None;
        }
        let mut table = self.root;
        self.in_pool = false;
        for level in (2..=arch::root_level()).rev() {
            let found = self.get(table, index(level, va));
            let huge = found & Flags::HUGE.bits() != 0 && level <= 3;
            let noted = if huge { self.access.noted() } else { Flags::ACCESSED.bits() };
            let entry = self.noted(found, table, index(level, va), noted)?;
            if huge {
                let address = Level::from_number(level).map(|level| entry.page_address(level))?;
                return Some((Entry::from_bits(address), 1 << shift(level)));
            }
            table = entry.address();
            self.in_pool |= entry.bits() & MORSEL != 0;
        }
        self.found = Some((va / REGION, table));
        Some((self.entry(table, 1, va, self.access.noted())?, PAGE))
    }

    #[inline(always)]
    fn get(&self, table: u64, index: u32) -> u64 {
        match self.in_pool {
            false => Table::at(table).get(index),
            true => get_in_pool(table, index),
        }
    }

    /// The entry for `va` in a table, if it allows the access; with some bits set.
    #[inline(always)]
    fn entry(&self, table: u64, level: u8, va: u64, noted: u64) -> Option<Entry> {
        let index = index(level, va);
        self.noted(self.get(table, index), table, index, noted)
    }

    /// The same of an entry that has been looked at.
    #[inline(always)]
    fn noted(&self, entry: u64, table: u64, index: u32, noted: u64) -> Option<Entry> {
        let needed = self.access.needed();
        if entry & needed != needed {
            return None;
        }
        if entry & noted != noted {
            match (self.in_pool, self.afar) {
                (false, false) => {
                    Table::at(table).change(index, |entry| entry | noted);
                }
                (false, true) => {
                    return note_afar(table, index, needed, noted).map(Entry::from_bits)
                }
                (true, _) if note_in_pool(table, index, entry, noted) => {}
                (true, _) => return None,
            }
        }
        Some(Entry::from_bits(entry))
    }
}

/// Which entry of a table of `level` an address selects.
#[inline(always)]
fn index(level: u8, va: u64) -> u32 {
    (va >> shift(level)) as u32 & (paging::ENTRIES as u32 - 1)
}

/// The shift of the size of what an entry of a table of `level` translates.
#[inline(always)]
fn shift(level: u8) -> u32 {
    3 + 9 * u32::from(level)
}
