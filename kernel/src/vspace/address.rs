//! From a page table to the virtual addresses at which it translates (G12 §3.2.2).
//!
//! A table does not know where it is: it may be at any number of places, in any number of address
//! spaces, or nowhere. But each of those is a Mapping, and Mappings follow their table in the order
//! of the database; so the way up from a table is a range query at each level, until the root.
//!
//! How many ways there are is the user's choice (each level may multiply them by 512), so a search
//! looks at a bounded number of Mappings. What it found for the present root is remembered.

use super::{is_table, page_shift, Mapping, ENTRY};
use crate::arch;
use crate::cap::mem::Table;
use crate::cap::{memory_cap, CapExt, SlotRef};
use crate::dispatch::Local;
use captypes::invocations::Located;
use captypes::{CapType, Rights, Status};
use paging::{Entry, Flags, PAGE};

/// Most addresses that a search finds.
pub const MOST_PLACES: usize = 8;
/// Most Mappings that a search looks at.
const MOST_STEPS: u32 = 64;

/// Addresses at which a table begins to translate, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    at: [u64; MOST_PLACES],
    len: usize,
}

impl Places {
    const fn none() -> Places {
        Places { at: [0; MOST_PLACES], len: 0 }
    }

    /// All of them.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.at[..self.len]
    }

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `false` if there is no room.
    fn add(&mut self, va: u64) -> bool {
        let at = self.as_slice().partition_point(|&other| other < va);
        if self.len == MOST_PLACES {
            return false;
        }
        self.at.copy_within(at..self.len, at + 1);
        self.at[at] = va;
        self.len += 1;
        true
    }
}

/// A search under way.
struct Search {
    root: u64,
    steps: u32,
    found: Places,
}

impl Local {
    /// Where the table at physical address `table`, of `level`, begins to translate below the table
    /// at `root`; `None` if there are too many places to look at.
    pub fn places_below(&self, root: u64, table: u64, level: u8) -> Option<Places> {
        let mut search = Search { root, steps: MOST_STEPS, found: Places::none() };
        self.climb(&mut search, table, level, 0).then_some(search.found)
    }

    /// Adds the ways from `table` up to the root; `va` is what was collected on the way to it. The
    /// recursion ends as each step is one level up.
    fn climb(&self, search: &mut Search, table: u64, level: u8, va: u64) -> bool {
        if table == search.root {
            return search.found.add(va);
        }
        let Some(ty) = CapType::table_of_level(level) else { return true };
        let key = memory_cap(ty as u8, Rights::NONE, 0, table, PAGE);
        let mut at = self.db.find(&key);
        while let Some(slot) = at {
            let cap = slot.cap();
            if search.steps == 0 {
                return false;
            }
            search.steps -= 1;
            let above = Mapping::of(&cap).filter(|mapping| mapping.is_table);
            if let Some(above) = above {
                let part = u64::from(above.entry) << page_shift(above.level);
                if !self.climb(search, above.table, above.level, va | part) {
                    return false;
                }
            }
            at = self.db.next_before(slot, table + 1);
        }
        true
    }

    /// The `number`-th address of a table, or of what a Mapping maps, below the table in `root`; see
    /// [`captypes::op::Locate`].
    pub fn locate(&self, what: SlotRef, root: SlotRef, number: u32) -> Result<Located, Status> {
        let (cap, root) = (what.cap(), root.cap());
        let (table, level, offset) = match Mapping::of(&cap) {
            Some(m) => (m.table, m.level, u64::from(m.entry) << page_shift(m.level)),
            None => (cap.base, cap.level(), 0),
        };
        if level == 0 || root.level() == 0 {
            return Err(Status::WrongType);
        }
        let places = self.places_below(root.base, table, level).ok_or(Status::OutOfRange)?;
        let places = places.as_slice();
        let address = places.get(number as usize).map_or(0, |place| place + offset);
        Ok(Located { address, count: places.len() as u32 })
    }

    /// The same below the root in use, from memory if possible.
    pub(super) fn places_here(&mut self, table: u64, level: u8) -> Here {
        let root = arch::root();
        if let Some(known) = self.tlb.known.get(root, table, level) {
            return known;
        }
        self.search_here(root, table, level)
    }

    #[inline(never)]
    fn search_here(&mut self, root: u64, table: u64, level: u8) -> Here {
        let here = match self.places_below(root, table, level) {
            None => return Here::TooMany,
            Some(places) => match *places.as_slice() {
                [] => Here::Nowhere,
                [va] => Here::At(va),
                _ => return Here::Many(places),
            },
        };
        self.tlb.known.remember(root, table, here);
        here
    }
}

/// Where a table is in the address space in use.
#[derive(Clone, Copy)]
pub(super) enum Here {
    Nowhere,
    At(u64),
    Many(Places),
    TooMany,
}

/// What was found before: for tables that are at one place, or at none.
///
/// Only mapping a table adds places, so what is known is forgotten then. That a table is still where
/// it was is checked by a walk.
pub struct Known {
    /// How often a table was mapped.
    generation: u64,
    entries: [KnownTable; KNOWN],
}

/// How many tables are remembered.
const KNOWN: usize = 32;

#[derive(Clone, Copy)]
struct KnownTable {
    generation: u64,
    root: u64,
    table: u64,
    /// Where; [`NOWHERE`] for not below that root.
    va: u64,
}

/// No address at which a table begins.
const NOWHERE: u64 = 1;

impl Known {
    pub(super) const fn new() -> Known {
        let none = KnownTable { generation: 0, root: 0, table: 0, va: 0 };
        Known { generation: 1, entries: [none; KNOWN] }
    }

    #[inline]
    fn index(table: u64) -> usize {
        (table / PAGE) as usize % KNOWN
    }

    #[inline]
    fn get(&self, root: u64, table: u64, level: u8) -> Option<Here> {
        let known = &self.entries[Self::index(table)];
        if (known.generation, known.root, known.table) != (self.generation, root, table) {
            return None;
        }
        if known.va == NOWHERE {
            return Some(Here::Nowhere);
        }
        leads_to(root, known.va, table, level).then_some(Here::At(known.va))
    }

    fn remember(&mut self, root: u64, table: u64, here: Here) {
        let va = if let Here::At(va) = here { va } else { NOWHERE };
        let generation = self.generation;
        self.entries[Self::index(table)] = KnownTable { generation, root, table, va };
    }

    /// A table was mapped somewhere.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.generation += 1;
    }
}

/// Does `va` translate through `table`, of `level`, below `root`?
#[inline]
fn leads_to(root: u64, va: u64, table: u64, level: u8) -> bool {
    let (mut at, mut above) = (root, arch::root_level());
    while above > level {
        let index = va >> page_shift(above) & u64::from(ENTRY);
        let entry = Table::at(at).get(index as u32);
        if entry & Flags::PRESENT.bits() == 0 || !is_table(above, entry) {
            return false;
        }
        at = Entry::from_bits(entry).address();
        above -= 1;
    }
    at == table
}
