//! How a Mapping is a capability: the encoding, which the order of the database depends on. What the
//! entries hold for which it stands, `vspace` knows.

use super::CapExt;
use captypes::{CapType, Rights};
use mdb::RawCap;
use paging::PAGE;

/// Bits of `attrs` that hold the level.
pub const LEVEL: u16 = 7;
/// Bit of `attrs`: what is mapped is a table of the next level.
pub const IS_TABLE: u16 = 8;
/// Bit of `attrs`: the entries are in a table with the right `WRITE_ALONE`.
pub const IN_ALONE: u16 = 16;

/// `aux` of a Mapping: the first entry, and above [`ENTRY_BITS`] the count less one.
pub const ENTRY: u32 = 0x1ff;
pub const ENTRY_BITS: u32 = 9;

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
pub const fn page_shift(level: u8) -> u32 {
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
    pub const NONE: Mapping = Mapping {
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
    pub fn page_bytes(self) -> u64 {
        1 << page_shift(self.level)
    }

    /// The part of `count` entries from the `first` on.
    pub fn part(self, first: u32, count: u32) -> Mapping {
        let base = self.base + u64::from(first) * self.page_bytes();
        Mapping { base, entry: self.entry + first, count, ..self }
    }
}
