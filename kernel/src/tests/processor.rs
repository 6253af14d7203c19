//! A pretended memory management unit with a translation cache that forgets nothing by itself: the
//! nastiest processor that the manuals allow.
//!
//! It walks the page tables as a processor does, sets accessed and dirty bits, and keeps every
//! translation, and every upper-level entry that it came by, until it is told to forget it.
//! [`Processor::check`] fails if the tables do not allow any more what it remembers: that is
//! invariant 5.

use super::machine::Machine;
use crate::arch::{self, Flush};
use crate::object::Table;
use crate::vspace::{MAY_EXECUTE, MAY_WRITE};
use paging::{Entry, Flags, Level};

/// What a walk finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// First virtual address.
    pub va: u64,
    /// Its physical address.
    pub pa: u64,
    pub bytes: u64,
    pub write: bool,
    pub execute: bool,
    /// It was made by a write, so later ones need no walk.
    pub dirty: bool,
}

/// An upper-level entry: where the walk goes on for these addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    va: u64,
    bytes: u64,
    table: u64,
    write: bool,
    execute: bool,
}

#[derive(Default)]
pub struct Processor {
    pages: Vec<Translation>,
    steps: Vec<Step>,
}

fn truncate(va: u64, bytes: u64) -> u64 {
    va & !(bytes - 1)
}

/// Walks from the root in use. `visit` sees every entry used, and may write it.
fn walk(va: u64, mut visit: impl FnMut(Table, u32, Level)) -> (Vec<Step>, Option<Translation>) {
    let (mut table, mut level) = (arch::root().0, Level::Pml4);
    let (mut write, mut execute) = (true, true);
    let mut steps = Vec::new();
    loop {
        let index = level.index(va) as u32;
        let entry = Entry::from_bits(Table::at(table).get(index));
        if !entry.is_present() {
            return (steps, None);
        }
        visit(Table::at(table), index, level);
        write &= entry.flags().contains(Flags::WRITE);
        execute &= !entry.flags().contains(Flags::NO_EXECUTE);
        let bytes = level.entry_span();
        let start = truncate(va, bytes);
        if entry.is_page(level) {
            let pa = entry.page_address(level);
            let dirty = entry.flags().contains(Flags::DIRTY);
            return (steps, Some(Translation { va: start, pa, bytes, write, execute, dirty }));
        }
        table = entry.address();
        steps.push(Step { va: start, bytes, table, write, execute });
        level = level.below().unwrap();
    }
}

/// What the tables say now, without a trace.
pub fn look(va: u64) -> Option<Translation> {
    walk(va, |_, _, _| {}).1
}

/// The same with the rights that a program has taken from a page and may give back: it has others forget them only where it took them.
fn granted(va: u64) -> Option<Translation> {
    let mut last = 0;
    let (steps, found) = walk(va, |table, index, _| last = table.get(index));
    let above = steps.last().map_or((true, true), |step| (step.write, step.execute));
    found.map(|found| Translation {
        write: found.write || above.0 && last & MAY_WRITE != 0,
        execute: found.execute || above.1 && last & MAY_EXECUTE != 0,
        ..found
    })
}

impl Processor {
    /// An access at `va`: what it finds, from the cache if possible. A write that is not allowed
    /// finds nothing.
    pub fn touch(&mut self, va: u64, write: bool) -> Option<Translation> {
        let covers = |t: &&Translation| truncate(va, t.bytes) == t.va;
        let usable = |t: &&Translation| !write || t.write && t.dirty;
        if let Some(&hit) = self.pages.iter().filter(covers).find(usable) {
            return Some(hit);
        }
        let (_, found) = walk(va, |_, _, _| {});
        let refused = write && found.is_some_and(|t| !t.write);
        let (steps, _) = walk(va, |table, index, level| {
            let page = Entry::from_bits(table.get(index)).is_page(level);
            let dirty = if page && write && !refused { Flags::DIRTY.bits() } else { 0 };
            table.change(index, |entry| entry | Flags::ACCESSED.bits() | dirty);
        });
        self.steps.extend(steps);
        let translation = look(va)?;
        self.pages.retain(|t| t.va != translation.va || t.bytes != translation.bytes);
        self.pages.push(translation);
        (!refused).then_some(translation)
    }

    /// Forgets what the kernel has told to forget since the last call.
    pub fn obey(&mut self) {
        for flush in arch::take_flushes() {
            // The manuals: `invlpg` forgets all upper-level entries.
            self.steps.clear();
            match flush {
                Flush::All => self.pages.clear(),
                Flush::Page(va) => self.pages.retain(|t| truncate(va, t.bytes) != t.va),
            }
        }
    }

    /// How much is remembered.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Fails if something is remembered that the tables do not allow.
    pub fn check(&self) {
        for cached in &self.pages {
            let Some(now) = granted(cached.va) else { panic!("absent: {cached:x?}") };
            assert_eq!((now.pa, now.bytes), (cached.pa, cached.bytes), "{cached:x?} is {now:x?}");
            assert!(now.write || !cached.write, "{cached:x?} is {now:x?}");
            assert!(now.execute || !cached.execute, "{cached:x?} is {now:x?}");
            assert!(now.dirty || !cached.dirty, "{cached:x?} is {now:x?}");
        }
        for cached in &self.steps {
            let (steps, _) = walk(cached.va, |_, _, _| {});
            let now = steps.iter().find(|step| step.bytes == cached.bytes);
            let Some(now) = now else { panic!("absent: {cached:x?}") };
            assert_eq!(now.table, cached.table, "{cached:x?} is {now:x?}");
            assert!(now.write || !cached.write, "{cached:x?} is {now:x?}");
            assert!(now.execute || !cached.execute, "{cached:x?} is {now:x?}");
        }
    }
}

/// Every address at which `wanted` is a table below `root`, by looking into every entry.
pub fn places(root: u64, level: u8, wanted: u64) -> Vec<u64> {
    let mut found = Vec::new();
    search(root, level, wanted, 0, &mut found);
    found
}

fn search(table: u64, level: u8, wanted: u64, va: u64, found: &mut Vec<u64>) {
    if table == wanted {
        return found.push(va);
    }
    let Some(level) = Level::from_number(level).filter(|&level| level != Level::Pt) else { return };
    for index in 0..crate::vspace::user_entries(level as u8) {
        let entry = Entry::from_bits(Table::at(table).get(index));
        if entry.is_present() && !entry.is_page(level) {
            let below = va + u64::from(index) * level.entry_span();
            search(entry.address(), level as u8 - 1, wanted, below, found);
        }
    }
}

impl Machine {
    /// Physical address of the root table in use.
    pub fn root(&self) -> u64 {
        arch::root().0
    }
}
