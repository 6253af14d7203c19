//! The order of capabilities: what [`mdb`] must know about types.
//!
//! A Mapping's range is that of the pages that it maps, so that it derives from whatever covers
//! them; its encoding is that of [`Mapping`](super::mapping::Mapping). Morsels are counted in pages of
//! objects (see [`morsels`](crate::morsels)). Ports and interrupt
//! lines are scaled to pages, as the database wants it.

use captypes::types::IdentityField;
use captypes::{CapType, TypeSet};
use mdb::{Policy, RawCap};

/// The tree of physical memory.
pub const MEMORY: u8 = captypes::Tree::Memory as u8;

/// The tree of objects that are subtrees of page tables.
pub const MORSELS: u8 = captypes::Tree::Morsel as u8;

/// Units of objects that are not memory (ports, interrupt lines), as a shift.
pub const SCALE: u32 = 12;

/// The policy of the kernel's database.
pub struct CapPolicy;

const TYPES: usize = 32;

const RANKS: [u8; TYPES] = {
    let mut ranks = [0; TYPES];
    let mut at = 0;
    while at < CapType::ROWS.len() {
        ranks[CapType::ROWS[at] as usize] = CapType::ROWS[at].rank();
        at += 1;
    }
    ranks
};

const TREES: [u8; TYPES] = {
    let mut trees = [0; TYPES];
    let mut at = 0;
    while at < CapType::ROWS.len() {
        trees[CapType::ROWS[at] as usize] = CapType::ROWS[at].tree() as u8;
        at += 1;
    }
    trees
};

/// The first number of a type of which more than type and range tells the objects apart. Nearly all
/// capabilities are of types before.
const FIRST_WITH_IDENTITY: u8 = {
    let mut number = 0;
    while matches!(CapType::identity_in_slot(number), IdentityField::None) {
        number += 1;
    }
    number
};

impl Policy for CapPolicy {
    const LEAF_RANK: u8 = CapType::Loan.rank();
    const RECORD_RANK: u8 = CapType::Mapping.rank();

    /// What can be mapped is never retyped to something else of its size.
    #[inline]
    fn hosts(ty: u8) -> bool {
        TypeSet::MAPPABLE.const_has_number(ty)
    }

    #[inline]
    fn tree(ty: u8) -> u8 {
        TREES[ty as usize % TYPES]
    }

    #[inline]
    fn rank(ty: u8) -> u8 {
        RANKS[ty as usize % TYPES]
    }

    /// What has a badge is made of what has none.
    #[inline]
    fn rank_of(cap: &RawCap) -> u8 {
        let badged = match CapType::identity_in_slot(cap.ty) {
            IdentityField::Badge => cap.aux != 0,
            IdentityField::None | IdentityField::Serial | IdentityField::FirstEntry => false,
        };
        Self::rank(cap.ty) + u8::from(badged)
    }

    #[inline(always)]
    fn range(cap: &RawCap) -> (u64, u64) {
        if !super::mapping::is_mapping(cap) {
            return (cap.base, cap.word);
        }
        (cap.base, super::mapping::length(cap))
    }

    #[inline(always)]
    fn object_length(cap: &RawCap) -> u64 {
        cap.word
    }

    #[inline]
    fn identity(cap: &RawCap) -> u64 {
        if cap.ty < FIRST_WITH_IDENTITY {
            return 0;
        }
        match CapType::identity_in_slot(cap.ty) {
            IdentityField::None => 0,
            IdentityField::Badge | IdentityField::Serial => u64::from(cap.aux),
            IdentityField::FirstEntry => super::mapping::first_entry(cap),
        }
    }
}
