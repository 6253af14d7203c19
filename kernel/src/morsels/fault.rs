//! From an address at which a program has faulted to the page of an object.

use super::name;
use super::MORSEL;
use crate::arch;
use crate::cores::Pools;
use crate::object::Table;
use ::morsel::{Access, Entered, Frame};
use paging::{Entry, Flags, PAGE};

/// Bits of the error code of a page fault.
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const FETCH: u64 = 16;

/// A page of an object that is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The number of the pool.
    pub pool: usize,
    /// The number of the object in it.
    pub record: u32,
    pub page: u64,
    /// What the entry shows, through which the page is reached.
    pub entered: Entered,
}

/// An entry that shows an object, and lets who has faulted below it do what it wanted. (Two words: each such fault hands it on.)
#[derive(Clone, Copy)]
pub struct Below {
    /// Its physical address, and the level of its table in the bits below.
    at: u64,
    entry: u64,
}

const LEVEL: u64 = 7;

/// What was wanted by an access that has failed with `error`.
#[inline(always)]
pub fn access(error: u64) -> Access {
    match error & WRITE {
        0 => Access::Read,
        _ => Access::Write,
    }
}

/// Bits of entries that lead from one table to the next.
const LEADS_ON: u64 = Flags::PRESENT.bits() | Flags::HUGE.bits() | MORSEL;

/// The entry above an address at which a program has failed with `error`, if that shows a table of an object. (A page that an
/// entry of a last-level table shows may be used as that entry says: nothing else can be wanted there.)
///
/// This is asked at each fault, and most are below none: so each level is in line, with its own numbers. Tables
/// may be another core's: it may clear an entry, or have done so, but takes no table away while this core has the root
/// loaded and does not answer.
#[inline(always)]
pub fn look(root: u64, error: u64, address: u64) -> Option<Below> {
    // What is there and may be read is not to be executed.
    if error & (PRESENT | WRITE) == PRESENT || root == 0 {
        return None;
    }
    // Who writes may do so by all entries: the bit is the same one.
    let (mask, wanted) = (LEADS_ON | error & WRITE, Flags::PRESENT.bits() | error & WRITE);
    let mut walk = Walk { at: 0, entry: root, level: 0, mask, wanted };
    // Programs have the lower half.
    let (ends, is_upper) = match arch::root_level() {
        5 => (walk.ends_at(5, address), address >> 56),
        _ => (false, address >> 47),
    };
    if is_upper != 0 {
        return None;
    }
    let _ =
        ends || walk.ends_at(4, address) || walk.ends_at(3, address) || walk.ends_at(2, address);
    let Walk { at, entry, level, .. } = walk;
    // The program may have hidden it.
    let shows = MORSEL | PRESENT | error & WRITE;
    let may = entry & shows == shows && (error & FETCH == 0 || rights(root, address).1);
    may.then_some(Below { at: at | u64::from(level), entry })
}

const _: () = assert!(WRITE == Flags::WRITE.bits());

/// The same for an address at which a program would write.
pub fn written(root: u64, address: u64) -> Option<Below> {
    look(root, WRITE, address)
}

struct Walk {
    /// Where the entry is.
    at: u64,
    entry: u64,
    /// Of its table.
    level: u8,
    /// What these bits of an entry are if it leads on.
    mask: u64,
    wanted: u64,
}

impl Walk {
    /// Looks at the entry for an address in the table to which the walk has come. Does it lead to no further table of a program?
    #[inline(always)]
    fn ends_at(&mut self, level: u8, address: u64) -> bool {
        let table = Entry::from_bits(self.entry).address();
        self.at = table | (address >> shift_of(level) & 511) << 3;
        self.level = level;
        self.entry = entry_at(self.at);
        self.entry & self.mask != self.wanted
    }
}

/// Do the entries on the way to one that shows an object, and that one, let a program write, and execute?
#[cold]
#[inline(never)]
fn rights(root: u64, address: u64) -> (bool, bool) {
    let mut walk = Walk { at: 0, entry: root, level: 0, mask: LEADS_ON, wanted: 1 };
    let (mut all, mut any) = (u64::MAX, 0);
    for level in (2..=arch::root_level()).rev() {
        let ends = walk.ends_at(level, address);
        (all, any) = (all & walk.entry, any | walk.entry);
        if ends {
            break;
        }
    }
    (all & Flags::WRITE.bits() != 0, any & Flags::NO_EXECUTE.bits() == 0)
}

/// Could a program that reads write there, too?
#[inline(always)]
pub fn may_write(root: u64, address: u64) -> bool {
    rights(root, address).0
}

impl Below {
    fn level(self) -> u8 {
        (self.at & LEVEL) as u8
    }

    /// Is it still so? Who asks takes part in the [walks](crate::cores::PoolUse::turn) through tables of pools, so that the object
    /// stays from here on.
    #[inline(always)]
    pub fn is_there(self) -> bool {
        let now = entry_at(self.at & !LEVEL);
        (now ^ self.entry) & !Flags::ACCESSED.bits() == 0
    }

    /// What it shows at an address.
    #[inline(always)]
    pub fn wanted(self, pools: &Pools, address: u64) -> Option<Wanted> {
        let (pool, record, first) = name::shown_table(pools, self.entry)?;
        let page = first + ((address & ((1 << shift_of(self.level())) - 1)) >> 12);
        let table = Frame(Entry::from_bits(self.entry).address() >> 12);
        Some(Wanted { pool, record, page, entered: Entered { table, level: self.level() - 1 } })
    }
}

/// The entry at `pa`.
#[inline(always)]
fn entry_at(pa: u64) -> u64 {
    Table::at(pa & !(PAGE - 1)).get((pa & (PAGE - 1)) as u32 >> 3)
}

/// Where in an address the number of an entry of a table of this level is.
#[inline(always)]
fn shift_of(level: u8) -> u32 {
    3 + 9 * u32::from(level)
}
