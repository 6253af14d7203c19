//! From a page table to the virtual addresses at which it translates (G12 §3.2.2).
//!
//! A table does not know where it is: it may be at any number of places, in any number of address
//! spaces, or nowhere. But each of those is a Mapping, and Mappings follow their table in the order
//! of the database; so the way up from a table is a range query at each level, until the root.
//!
//! How many ways there are is the user's choice (each level may multiply them by 512), so a search
//! looks at a bounded number of Mappings. What it found for the present root is remembered.

use super::unmap::is_table_empty;
use super::{Mapping, Translations};
use crate::arch::{self, VectorUnit};
use crate::cap::mapping::page_shift;
use crate::cap::CapSpace;
use crate::cap::{memory_cap, CapExt};
use crate::object::{SlotRef, Table};
use captypes::invocations::Located;
use captypes::{CapType, Rights, Status};
use paging::{Entry, Flags, PhysAddr, VirtAddr, PAGE};

/// Most addresses that a search finds.
pub const MOST_PLACES: usize = 8;
/// Most Mappings that a search looks at.
const MOST_STEPS: u32 = 64;

/// Where a table begins to translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Physical address of the root table.
    pub root: PhysAddr,
    /// The address below it.
    pub va: VirtAddr,
}

impl Place {
    /// No place.
    const NOWHERE: Place = Place { root: PhysAddr::NONE, va: VirtAddr(0) };
}

/// Where a table is, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    at: [Place; MOST_PLACES],
    len: usize,
}

impl Places {
    pub(super) const fn none() -> Places {
        Places { at: [Place::NOWHERE; MOST_PLACES], len: 0 }
    }

    /// All of them.
    #[inline]
    pub fn as_slice(&self) -> &[Place] {
        &self.at[..self.len]
    }

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `false` if there is no room.
    fn add(&mut self, place: Place) -> bool {
        let at = self.as_slice().partition_point(|&other| other < place);
        if self.len == MOST_PLACES {
            return false;
        }
        self.at.copy_within(at..self.len, at + 1);
        self.at[at] = place;
        self.len += 1;
        true
    }

    /// Those below one root.
    fn below(&self, root: PhysAddr) -> Places {
        let mut some = Places::none();
        for place in self.as_slice().iter().filter(|place| place.root == root) {
            some.at[some.len] = *place;
            some.len += 1;
        }
        some
    }
}

/// A search under way.
struct Search {
    /// Where it ends; `None` for every root table.
    root: Option<PhysAddr>,
    steps: u32,
    found: Places,
}

impl Translations {
    /// Where the table at `table`, of `level`, is below any root, from memory if possible.
    #[inline]
    pub(super) fn places(&mut self, caps: &CapSpace, table: u64, level: u8) -> Found {
        match self.known.get(table, level) {
            Some(Some(place)) => Found::At(place),
            Some(None) => Found::Nowhere,
            None => self.look_for(caps, table, level),
        }
    }

    /// A table of `level` is being mapped somewhere: that, and whatever is below it, is at more places
    /// than is known. Most tables are mapped while nothing is below them.
    pub(super) fn adds_places(&mut self, unit: &VectorUnit, table: u64, level: u8) {
        if level == 1 || is_table_empty(unit, Table::at(table)) {
            self.known.forget(table);
        } else {
            self.known.generation += 1;
        }
    }

    #[inline(never)]
    fn look_for(&mut self, caps: &CapSpace, table: u64, level: u8) -> Found {
        let places = search(caps, None, table, level);
        let found = self.found(places);
        if let Found::Nowhere | Found::At(_) = found {
            self.known.remember(table, found);
        }
        found
    }

    /// The same below the root in use.
    #[inline]
    pub(super) fn places_here(&mut self, caps: &CapSpace, table: u64, level: u8) -> Found {
        let root = arch::root();
        match self.known.get(table, level) {
            Some(Some(place)) if place.root == root => Found::At(place),
            Some(_) => Found::Nowhere,
            None => self.look_here(caps, root, table, level),
        }
    }

    #[inline(never)]
    fn look_here(&mut self, caps: &CapSpace, root: PhysAddr, table: u64, level: u8) -> Found {
        match self.look_for(caps, table, level) {
            Found::At(place) if place.root != root => Found::Nowhere,
            Found::Many => {
                let below = self.many.below(root);
                self.found(Some(below))
            }
            // There may be few below this one.
            Found::TooMany => {
                let places = places_below(caps, root, table, level);
                self.found(places)
            }
            found => found,
        }
    }
}

/// Where the table at physical address `table`, of `level`, begins to translate below the table
/// at `root`; `None` if there are too many places to look at.
pub fn places_below(caps: &CapSpace, root: PhysAddr, table: u64, level: u8) -> Option<Places> {
    search(caps, Some(root), table, level)
}

fn search(caps: &CapSpace, root: Option<PhysAddr>, table: u64, level: u8) -> Option<Places> {
    let mut search = Search { root, steps: MOST_STEPS, found: Places::none() };
    climb(caps, &mut search, table, level, VirtAddr(0)).then_some(search.found)
}

/// Adds the ways from `table` up to the root; `va` is what was collected on the way to it. The
/// recursion ends as each step is one level up.
fn climb(caps: &CapSpace, search: &mut Search, table: u64, level: u8, va: VirtAddr) -> bool {
    let arrived = match search.root {
        Some(root) => PhysAddr(table) == root,
        None => level == arch::root_level(),
    };
    if arrived {
        return search.found.add(Place { root: PhysAddr(table), va });
    }
    let Some(ty) = CapType::table_of_level(level) else { return true };
    let key = memory_cap(ty as u8, Rights::NONE, 0, table, PAGE);
    let mut at = caps.db.find(&key);
    while let Some(slot) = at {
        let cap = slot.cap();
        if search.steps == 0 {
            return false;
        }
        search.steps -= 1;
        let above = Mapping::of(&cap).filter(|mapping| mapping.is_table);
        if let Some(above) = above {
            let part = u64::from(above.entry) << page_shift(above.level);
            if !climb(caps, search, above.table, above.level, va | part) {
                return false;
            }
        }
        at = caps.db.next_before(slot, table + 1);
    }
    true
}

/// The `number`-th address of a table, or of what a Mapping maps, below the table in `root`; see
/// [`captypes::op::Locate`].
pub fn locate(
    caps: &CapSpace,
    what: SlotRef,
    root: SlotRef,
    number: u32,
) -> Result<Located, Status> {
    let (cap, root) = (what.cap(), root.cap());
    let (table, level, offset) = match Mapping::of(&cap) {
        Some(m) => (m.table, m.level, u64::from(m.entry) << page_shift(m.level)),
        None => (cap.base, cap.level(), 0),
    };
    if level == 0 || root.level() == 0 {
        return Err(Status::WrongType);
    }
    let places = places_below(caps, PhysAddr(root.base), table, level).ok_or(Status::OutOfRange)?;
    let places = places.as_slice();
    let address = places.get(number as usize).map_or(0, |place| (place.va + offset).0);
    Ok(Located { address, count: places.len() as u32 })
}

/// Where a table is.
#[derive(Clone, Copy)]
pub(super) enum Found {
    Nowhere,
    At(Place),
    /// At those that [`Translations::many`] has, until the next search.
    Many,
    TooMany,
}

impl Translations {
    fn found(&mut self, places: Option<Places>) -> Found {
        let Some(places) = places else { return Found::TooMany };
        match *places.as_slice() {
            [] => Found::Nowhere,
            [place] => Found::At(place),
            _ => {
                self.many = places;
                Found::Many
            }
        }
    }
}

/// What was found before: for tables that are at one place, or at none.
///
/// Only mapping a table adds places, to it and to those below it, so what is known of them is forgotten
/// then; and what leads to a root when that goes. That a table is still where it was is checked by a walk.
pub struct Known {
    /// Counts the times when all of it became doubtful.
    generation: u64,
    entries: [KnownTable; KNOWN],
}

/// A generation before the first.
const NEVER: u64 = 0;

/// How many tables are remembered.
const KNOWN: usize = 32;

#[derive(Clone, Copy)]
struct KnownTable {
    generation: u64,
    table: u64,
    /// Where; root 0 for nowhere.
    place: Place,
}

impl Known {
    pub(super) const fn new() -> Known {
        let none = KnownTable { generation: NEVER, table: 0, place: Place::NOWHERE };
        Known { generation: NEVER + 1, entries: [none; KNOWN] }
    }

    #[inline]
    fn index(table: u64) -> usize {
        (table / PAGE) as usize % KNOWN
    }

    /// Where it is or `None` for nowhere, if that is known.
    #[inline]
    fn get(&self, table: u64, level: u8) -> Option<Option<Place>> {
        let known = &self.entries[Self::index(table)];
        if (known.generation, known.table) != (self.generation, table) {
            return None;
        }
        if known.place.root.is_none() {
            return Some(None);
        }
        leads_to(known.place, table, level).then_some(Some(known.place))
    }

    fn remember(&mut self, table: u64, found: Found) {
        let place = if let Found::At(place) = found { place } else { Place::NOWHERE };
        let generation = self.generation;
        self.entries[Self::index(table)] = KnownTable { generation, table, place };
    }

    /// What is known of one table is forgotten.
    fn forget(&mut self, table: u64) {
        let known = &mut self.entries[Self::index(table)];
        if known.table == table {
            known.generation = NEVER;
        }
    }

    /// A root has been taken apart, and its memory may be anything from now on.
    pub(super) fn forget_root(&mut self, root: PhysAddr) {
        for known in self.entries.iter_mut().filter(|known| known.place.root == root) {
            known.generation = NEVER;
        }
    }
}

/// Does this address, below a root that exists, translate through `table`, of `level`?
#[inline]
fn leads_to(place: Place, table: u64, level: u8) -> bool {
    // Of all tables but the last ones: of the upper two levels the bit of large pages is clear.
    const TABLE: u64 = Flags::PRESENT.bits() | Flags::HUGE.bits();
    let Place { root, va } = place;
    let (mut at, mut above) = (root.0, arch::root_level());
    // The index of the next table in the top nine bits.
    let mut indices = va.0 << (64 - 9 - page_shift(above));
    while above > level {
        let entry = Table::at(at).get((indices >> 55) as u32);
        if entry & TABLE != Flags::PRESENT.bits() {
            return false;
        }
        at = Entry::from_bits(entry).address();
        indices <<= 9;
        above -= 1;
    }
    at == table
}
