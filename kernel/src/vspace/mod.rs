//! Page tables and Mappings.
//!
//! A Mapping capability stands for `count` adjacent entries of one table, made in one step. It is a
//! leaf of the mapping database below whatever covers the mapped pages, so that deleting or revoking
//! those finds it. The other way, from an entry to its Mapping, is needed when a table goes: the
//! first entry of every Mapping is marked, and carries its count in bits that the processor ignores,
//! so that the Mapping's position in the database is known exactly.
//!
//! ```text
//! entry of a table   bit 11        first entry of a Mapping
//!                    bits 9, 10    count - 1, high bits
//!                    bits 52..59   count - 1, low bits
//!                    bit 59        page of a Frame that is written to only while alone
//! RawCap             base   physical address of the first page (or of the table below)
//!                    word   physical address of the table
//!                    aux    first entry, and count - 1 from bit 9 up
//!                    attrs  level of the table, whether a table is mapped, and whether the
//!                           entries change only while the table is alone
//!                    rights what the mapped capability allows
//! ```

mod address;
mod grant;
mod map;
mod protect;
mod shootdown;
mod status;
mod tlb;
mod unmap;
mod zero;

pub use address::{Place, Places, MOST_PLACES};
pub use map::MapArgs;
pub use tlb::Tlb;
pub(crate) use zero::{is_sound, is_zero_page};

use crate::arch;
use crate::cap::alone::is_alone_kind;
use crate::cap::CapExt;
use captypes::invocations::MapFlags;
use captypes::{CapType, Rights};
use mdb::RawCap;
use paging::{Entry, Flags, Level, PAGE};

/// Bits of `attrs` that hold the level.
const LEVEL: u16 = 7;
/// Bit of `attrs`: what is mapped is a table of the next level.
const IS_TABLE: u16 = 8;
/// Bit of `attrs`: the entries are in a table with the right `WRITE_ALONE`.
pub(crate) const IN_ALONE: u16 = 16;

/// `aux` of a Mapping: the first entry, and above [`ENTRY_BITS`] the count less one.
const ENTRY: u32 = 0x1ff;
const ENTRY_BITS: u32 = 9;

/// Entries of a root table that belong to user mode.
pub const USER_ROOT_ENTRIES: u32 = 256;
const ENTRIES: u32 = paging::ENTRIES as u32;

/// Bit of an entry: a Mapping begins here.
const FIRST: u64 = 1 << 11;
const COUNT_LOW_BITS: u32 = 7;
const COUNT_LOW: u32 = 52;
const COUNT_HIGH: u32 = 9;
/// All bits of the first entry of a Mapping.
const FIRST_BITS: u64 = FIRST | 3 << COUNT_HIGH | 0x7f << COUNT_LOW;
/// Bit of an entry: the page is of a Frame with the right `WRITE_ALONE`. (Protection keys, which would
/// use it, are off.)
pub(crate) const ALONE: u64 = 1 << 59;
/// All bits that the kernel keeps in entries.
const OWN_BITS: u64 = FIRST_BITS | ALONE;

/// The bits of the first entry of a Mapping.
#[inline]
fn first_bits(count: u32) -> u64 {
    let n = u64::from(count - 1);
    FIRST | (n & 0x7f) << COUNT_LOW | (n >> COUNT_LOW_BITS & 3) << COUNT_HIGH
}

/// The count in the first entry of a Mapping.
#[inline]
fn count_in(entry: u64) -> u32 {
    ((entry >> COUNT_LOW & 0x7f) | (entry >> COUNT_HIGH & 3) << COUNT_LOW_BITS) as u32 + 1
}

/// Bytes that a Mapping covers, for the order of capabilities.
#[inline]
pub fn mapped_bytes(cap: &RawCap) -> u64 {
    if cap.attrs & IS_TABLE != 0 {
        return PAGE;
    }
    u64::from((cap.aux >> ENTRY_BITS) + 1) << page_shift((cap.attrs & LEVEL) as u8)
}

/// What tells Mappings of the same range apart.
#[inline]
pub fn first_entry(cap: &RawCap) -> u64 {
    cap.word | u64::from(cap.aux & ENTRY)
}

/// The shift of the size of the pages that a table of `level` maps.
#[inline]
const fn page_shift(level: u8) -> u32 {
    3 + 9 * level as u32
}

/// A Mapping, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Physical address of the first page, or of the mapped table.
    pub base: u64,
    /// Physical address of the table with the entries.
    pub table: u64,
    pub entry: u32,
    pub count: u32,
    /// Level of the table.
    pub level: u8,
    /// Is a table mapped, rather than pages?
    pub is_table: bool,
    /// What the mapped capability allows.
    pub rights: Rights,
    /// Do the entries change only while nobody else has the table?
    pub in_alone: bool,
}

impl Mapping {
    /// Of nothing.
    const NONE: Mapping = Mapping {
        base: 0,
        table: 0,
        entry: 0,
        count: 0,
        level: 0,
        is_table: false,
        rights: Rights::NONE,
        in_alone: false,
    };

    /// The Mapping in a capability; `None` for other types.
    #[inline]
    pub fn of(cap: &RawCap) -> Option<Mapping> {
        cap.is(CapType::Mapping).then(|| Mapping {
            base: cap.base,
            table: cap.word,
            entry: cap.aux & ENTRY,
            count: (cap.aux >> ENTRY_BITS) + 1,
            level: (cap.attrs & LEVEL) as u8,
            is_table: cap.attrs & IS_TABLE != 0,
            rights: Rights(cap.rights),
            in_alone: cap.attrs & IN_ALONE != 0,
        })
    }

    /// The capability.
    #[inline]
    pub fn to_cap(self) -> RawCap {
        let is_table = if self.is_table { IS_TABLE } else { 0 };
        let in_alone = if self.in_alone { IN_ALONE } else { 0 };
        RawCap {
            ty: CapType::Mapping as u8,
            rights: self.rights.0,
            attrs: u16::from(self.level) | is_table | in_alone,
            aux: self.entry | (self.count - 1) << ENTRY_BITS,
            base: self.base,
            word: self.table,
        }
    }

    /// Bytes of one entry's page.
    #[inline]
    fn page_bytes(self) -> u64 {
        1 << page_shift(self.level)
    }

    /// The part of `count` entries from the `first` on.
    fn part(self, first: u32, count: u32) -> Mapping {
        let base = self.base + u64::from(first) * self.page_bytes();
        Mapping { base, entry: self.entry + first, count, ..self }
    }

    /// What the database would hold for the Mapping that begins at entry `index` of a table, if
    /// one does.
    pub(crate) fn at(table: u64, level: u8, index: u32, entry: u64) -> Option<Mapping> {
        if entry & FIRST == 0 {
            return None;
        }
        let bits = Entry::from_bits(entry);
        let is_table = is_table(level, entry);
        let base = match Level::from_number(level) {
            Some(level) if !is_table => bits.page_address(level),
            _ => bits.address(),
        };
        let count = count_in(entry);
        let (rights, in_alone) = (Rights::NONE, false);
        Some(Mapping { base, table, entry: index, count, level, is_table, rights, in_alone })
    }
}

/// Does an entry in use of a table of `level` point to a table, rather than a page?
#[inline]
fn is_table(level: u8, entry: u64) -> bool {
    level > 3 || level > 1 && entry & Flags::HUGE.bits() == 0
}

/// How many entries of a table user mode may use.
#[inline]
pub(crate) fn user_entries(level: u8) -> u32 {
    if level >= arch::root_level() {
        USER_ROOT_ENTRIES
    } else {
        ENTRIES
    }
}

/// The bit of the entries that map pages of a Frame with these rights.
#[inline(always)]
fn alone_bit(is_table: bool, rights: Rights) -> u64 {
    if !is_table && is_alone_kind(rights) {
        ALONE
    } else {
        0
    }
}

/// What entry `index` of a Mapping holds, but for the bits that [`without_rights`] removes.
pub(crate) fn expected_entry(mapping: &Mapping, index: u32) -> u64 {
    let huge = if mapping.level > 1 && !mapping.is_table { Flags::HUGE.bits() } else { 0 };
    let first = if index == 0 { first_bits(mapping.count) } else { 0 };
    let own = first | alone_bit(mapping.is_table, mapping.rights);
    let address = mapping.base + u64::from(index) * mapping.page_bytes();
    address | Flags::PRESENT.bits() | Flags::USER.bits() | huge | own
}

/// An entry without rights, caching and what the processor writes.
pub(crate) fn without_rights(entry: u64) -> u64 {
    let free = Flags::ACCESSED.with(Flags::DIRTY).with(Flags::DEVICE).bits();
    entry & !(RIGHTS_BITS | free)
}

/// The bits of an entry that express rights.
const RIGHTS_BITS: u64 = Flags::WRITE.bits() | Flags::NO_EXECUTE.bits();

#[inline]
fn rights_bits(flags: MapFlags) -> u64 {
    let write = if flags.has(MapFlags::WRITE) { Flags::WRITE.bits() } else { 0 };
    let execute = if flags.has(MapFlags::EXEC) { 0 } else { Flags::NO_EXECUTE.bits() };
    write | execute
}
