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
//!                    bits 52..59   count - 1, low bits; of one that shows a table of a morsel, which is alone, its pool
//!                    bit 59        page of a Frame that is written to only while alone
//!                    bit 60        of a morsel
//!                    bits 61, 62   the program may write to the page, or execute it, but does not want to now ([`here`])
//! RawCap             base   physical address of the first page (or of the table below)
//!                    word   physical address of the table
//!                    aux    first entry, and count - 1 from bit 9 up
//!                    attrs  level of the table, whether a table is mapped, and whether the
//!                           entries change only while the table is alone
//!                    rights what the mapped capability allows
//! ```

mod address;
mod device;
mod grant;
mod here;
mod map;
mod morsel;
mod protect;
mod shootdown;
mod status;
mod tlb;
mod unmap;
mod zero;

pub use address::{locate, places_below, Place, Places, MOST_PLACES};
pub use device::{check_device_map, close_device_space, device_mapping, show_to_device};
pub use here::{
    allow_hiding, forget_tables_of, hidden_here, hide_here, may_hide_here, protect_here, rest_here,
    show_here,
};
pub use map::{read_entry, MapArgs};
pub use morsel::{
    check_morsel, first_borrowed, granted_morsel, replace_by_morsel, show_morsel, unmap_borrowed,
    Shown,
};
pub use tlb::Translations;
pub(crate) use unmap::remove_plain_mapping;
pub(crate) use zero::{is_sound, is_zero_page};

use crate::arch;
use crate::cap::alone::is_alone_kind;
pub use crate::cap::mapping::{mapped_bytes, Mapping};
use crate::cores::Pools;
use crate::morsels::{self, MORSEL};
use captypes::invocations::MapFlags;
use captypes::Rights;
use paging::{Entry, Flags, Level};

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
const OWN_BITS: u64 = FIRST_BITS | ALONE | MORSEL;
/// Bits of an entry of a page that lacks a right which the program may take back by itself.
pub(crate) const MAY_WRITE: u64 = 1 << 61;
pub(crate) const MAY_EXECUTE: u64 = 1 << 62;
/// Bit of an entry that shows a table of an object: the program may hide it, so that it is not present, and show it again. (Such entries
/// have no count of entries, to which the bit belongs in others, but the number of a pool in front of it.)
pub(crate) const MAY_HIDE: u64 = 1 << 56;
const _: () = assert!(MAY_HIDE & FIRST_BITS != 0 && MAY_HIDE & morsels::ALL_POOL_BITS == 0);
/// Whoever can write through such an entry, or could.
pub(crate) const WRITABLE: u64 = Flags::WRITE.bits() | MAY_WRITE;

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

impl Mapping {
    /// What the database would hold for the Mapping that begins at entry `index` of a table, if
    /// one does. `None` also for one of single pages of a morsel, which only the database knows.
    pub(crate) fn at(
        pools: &Pools,
        table: u64,
        level: u8,
        index: u32,
        entry: u64,
    ) -> Option<Mapping> {
        if entry & FIRST == 0 {
            return None;
        }
        let bits = Entry::from_bits(entry);
        let (is_table, is_morsel) = (is_table(level, entry), entry & MORSEL != 0);
        let base = match Level::from_number(level) {
            Some(level) if !is_table => bits.page_address(level),
            _ => bits.address(),
        };
        let base = if is_morsel {
            let (pool, record, first) = match is_table {
                true => morsels::shown_table(pools, entry)?,
                false => morsels::shown_page(pools, base)?,
            };
            morsels::key(morsels::object(pool, record), first)
        } else {
            base
        };
        // An entry that shows a table of a morsel is alone, and has the number of its pool where others have their count.
        let count = if is_morsel && is_table { 1 } else { count_in(entry) };
        let rights = Rights::NONE;
        let entry = index;
        Some(Mapping {
            base,
            table,
            entry,
            count,
            level,
            is_table,
            rights,
            is_morsel,
            ..Mapping::NONE
        })
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

/// The bits of an entry that express rights. Who sets some decides about those that may be taken back, too.
const RIGHTS_BITS: u64 = WRITABLE | Flags::NO_EXECUTE.bits() | MAY_EXECUTE;

#[inline]
fn rights_bits(flags: MapFlags) -> u64 {
    let write = if flags.has(MapFlags::WRITE) { Flags::WRITE.bits() } else { 0 };
    let execute = if flags.has(MapFlags::EXEC) { 0 } else { Flags::NO_EXECUTE.bits() };
    write | execute
}
