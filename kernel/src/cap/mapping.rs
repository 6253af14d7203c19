//! How a Mapping is a capability: the encoding, which the order of the database depends on. What the
//! entries hold for which it stands, `vspace` knows.

use super::CapExt;
use captypes::{CapType, Rights};
use mdb::RawCap;
use paging::PAGE;

const PAGE_SHIFT: u32 = PAGE.trailing_zeros();

/// Bits of `attrs` that hold the level.
pub const LEVEL: u16 = 7;
/// Bit of `attrs`: what is mapped is a table of the next level.
pub const IS_TABLE: u16 = 8;
/// Bit of `attrs`: the entries are in a table with the right `WRITE_ALONE`.
pub const IN_ALONE: u16 = 16;

/// Bit of `attrs`: a morsel is shown.
pub const IS_MORSEL: u16 = 32;

/// Bit of `attrs`: the table is a DeviceSpace.
pub const IN_DEVICE: u16 = 64;

/// `aux` of a Mapping: the first entry, and above [`ENTRY_BITS`] the count less one.
pub const ENTRY: u32 = 0x1ff;
pub const ENTRY_BITS: u32 = 9;

/// Bytes that a Mapping of memory covers.
#[inline(always)]
pub fn mapped_bytes(cap: &RawCap) -> u64 {
    if cap.attrs & IS_TABLE != 0 {
        return PAGE;
    }
    u64::from((cap.aux >> ENTRY_BITS) + 1) << page_shift((cap.attrs & LEVEL) as u8)
}

/// What a Mapping of a morsel covers, in pages of the object.
#[inline(always)]
pub fn shown_pages(cap: &RawCap) -> u64 {
    u64::from((cap.aux >> ENTRY_BITS) + 1) << (page_shift((cap.attrs & LEVEL) as u8) - PAGE_SHIFT)
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

/// Both kinds of Mappings have the last numbers of all types: every step of a search asks, and it is one comparison.
const _: () = {
    let mut at = 0;
    while at < CapType::ROWS.len() {
        let ty = CapType::ROWS[at];
        let is_mapping = matches!(ty, CapType::Mapping | CapType::MorselMapping);
        assert!((ty as u8 >= CapType::Mapping as u8) == is_mapping);
        at += 1;
    }
};

/// Is it a record of entries?
#[inline(always)]
pub fn is_mapping(cap: &RawCap) -> bool {
    cap.ty >= CapType::Mapping as u8
}

/// What a Mapping covers, for the order of capabilities: bytes, or pages of an object. Nothing of it is out of line, or
/// whoever asks for the range of a capability would have to put that into memory first.
#[inline(always)]
pub fn length(cap: &RawCap) -> u64 {
    match cap.attrs & IS_MORSEL {
        0 => mapped_bytes(cap),
        _ => shown_pages(cap),
    }
}

/// Does it show a morsel to devices?
#[inline]
pub fn is_in_device(cap: &RawCap) -> bool {
    cap.is(CapType::MorselMapping) && cap.attrs & IN_DEVICE != 0
}

/// Does it show pages of a morsel one by one?
#[inline]
pub fn is_borrowed(cap: &RawCap) -> bool {
    cap.is(CapType::MorselMapping) && cap.attrs & IS_TABLE == 0
}

/// A Mapping, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Physical address of the first page, or of the mapped table; of a morsel the address of the first page in
    /// its tree.
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
    /// Is a morsel shown?
    pub is_morsel: bool,
    /// Is the table a DeviceSpace?
    pub in_device: bool,
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
        is_morsel: false,
        in_device: false,
    };

    /// The Mapping in a capability; `None` for other types.
    #[inline]
    pub fn of(cap: &RawCap) -> Option<Mapping> {
        is_mapping(cap).then(|| Mapping {
            base: cap.base,
            table: cap.word,
            entry: cap.aux & ENTRY,
            count: (cap.aux >> ENTRY_BITS) + 1,
            level: (cap.attrs & LEVEL) as u8,
            is_table: cap.attrs & IS_TABLE != 0,
            rights: Rights(cap.rights),
            in_alone: cap.attrs & IN_ALONE != 0,
            is_morsel: cap.attrs & IS_MORSEL != 0,
            in_device: cap.attrs & IN_DEVICE != 0,
        })
    }

    /// The capability.
    #[inline]
    pub fn to_cap(self) -> RawCap {
        let is_table = if self.is_table { IS_TABLE } else { 0 };
        let in_alone = if self.in_alone { IN_ALONE } else { 0 };
        let in_device = if self.in_device { IN_DEVICE } else { 0 };
        let (ty, is_morsel) = match self.is_morsel {
            true => (CapType::MorselMapping, IS_MORSEL),
            false => (CapType::Mapping, 0),
        };
        RawCap {
            ty: ty as u8,
            rights: self.rights.0,
            attrs: u16::from(self.level) | is_table | in_alone | is_morsel | in_device,
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
        let unit = if self.is_morsel { self.page_bytes() / PAGE } else { self.page_bytes() };
        let base = self.base + u64::from(first) * unit;
        Mapping { base, entry: self.entry + first, count, ..self }
    }
}
