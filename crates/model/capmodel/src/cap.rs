//! Capabilities, and how two of them are related (design §3).

use captypes::types::RamAttrs;
use captypes::{CapType, Rights, Tree};
pub use paging::PAGE;

/// A capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cap {
    /// Its type.
    pub ty: CapType,
    /// First address of its object (port, line, number). Of a Mapping: of what is mapped.
    pub base: u64,
    /// Its extent in the same unit.
    pub bytes: u64,
    /// Its rights. Of a Mapping: what the mapped capability allowed.
    pub rights: Rights,
    /// Attributes of its memory.
    pub attrs: RamAttrs,
    /// Of an Endpoint. Of a Loan: which act of lending it is.
    pub badge: u32,
    /// Of a Mapping: its entries.
    pub mapping: Option<Mapping>,
}

/// The entries for which a Mapping stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Physical address of the table.
    pub table: u64,
    /// Level of the table.
    pub level: u8,
    /// First entry.
    pub first: u32,
    /// Entries.
    pub count: u32,
    /// A table of the next level is mapped, not pages.
    pub is_table: bool,
    /// The entries change only while nobody else has the table.
    pub in_alone: bool,
}

/// Bytes that one entry of a table of this level maps.
pub const fn page_bytes(level: u8) -> u64 {
    PAGE << (9 * (level as u32 - 1))
}

impl Cap {
    /// First address behind it.
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }
    /// Memory of which the memory server keeps the home.
    pub fn is_home(&self) -> bool {
        self.attrs.has(RamAttrs::HOME)
    }
    /// Can pages of it be mapped?
    pub fn is_frame(&self) -> bool {
        self.ty.is_frame()
    }
    /// Does it have slots?
    pub fn is_container(&self) -> bool {
        self.ty.is_container()
    }
    /// The level of a page table.
    pub fn level(&self) -> Option<u8> {
        self.ty.table_level()
    }
    /// Do the two share an address?
    pub fn overlaps(&self, base: u64, end: u64) -> bool {
        self.base < end && base < self.end()
    }
    /// Does it cover these addresses?
    pub fn covers(&self, base: u64, end: u64) -> bool {
        self.base <= base && end <= self.end()
    }

    /// Do both stand for the same object, with the same badge? Rights do not matter. No two Mappings
    /// do.
    pub fn is_copy_of(&self, other: &Cap) -> bool {
        self.is_of_object_of(other) && self.badge == other.badge
    }

    /// Do both stand for the same object?
    pub fn is_of_object_of(&self, other: &Cap) -> bool {
        self.ty == other.ty
            && self.ty != CapType::Mapping
            && self.is_home() == other.is_home()
            && (self.base, self.bytes) == (other.base, other.bytes)
            && (self.ty != CapType::Loan || self.badge == other.badge)
    }

    /// Was it made of what `other` stands for? Everything that is inside of another object's range
    /// was, and of two objects of one range the one whose type comes later in the forest.
    pub fn descends_from(&self, other: &Cap) -> bool {
        self.ty.tree() == other.ty.tree()
            && self.ty.tree() != Tree::Singleton
            && !matches!(other.ty, CapType::Mapping | CapType::Loan)
            && other.covers(self.base, self.end())
            && (self.bytes < other.bytes || self.place_in_forest() > other.place_in_forest())
    }

    /// Homes come before everything else, and what has a badge after what has none.
    fn place_in_forest(&self) -> u8 {
        if self.is_home() {
            0
        } else {
            self.ty.rank() + u8::from(self.ty == CapType::Endpoint && self.badge != 0)
        }
    }
}
