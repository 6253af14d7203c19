//! The order of capabilities: what [`mdb`] must know about types.
//!
//! A Mapping's range is that of the pages that it maps, so that it derives from whatever covers
//! them; its encoding is that of [`Mapping`](super::mapping::Mapping). Ports and interrupt
//! lines are scaled to pages, as the database wants it.

use super::HOME_RAM;
use captypes::CapType;
use mdb::{Policy, RawCap};

/// The tree of physical memory.
pub const MEMORY: u8 = captypes::Tree::Memory as u8;

/// Units of objects that are not memory (ports, interrupt lines), as a shift.
pub const SCALE: u32 = 12;

/// The policy of the kernel's database.
pub struct CapPolicy;

const TYPES: usize = 32;

const RANKS: [u8; TYPES] = {
    let mut ranks = [0; TYPES];
    let mut at = 0;
    while at < CapType::ALL.len() {
        ranks[CapType::ALL[at] as usize] = CapType::ALL[at].rank();
        at += 1;
    }
    ranks[HOME_RAM as usize] = 0;
    ranks
};

const TREES: [u8; TYPES] = {
    let mut trees = [0; TYPES];
    let mut at = 0;
    while at < CapType::ALL.len() {
        trees[CapType::ALL[at] as usize] = CapType::ALL[at].tree() as u8;
        at += 1;
    }
    trees[HOME_RAM as usize] = MEMORY;
    trees
};

impl Policy for CapPolicy {
    const LEAF_RANK: u8 = CapType::Mapping.rank();
    /// What can be mapped is never retyped to something else of its size.
    const HOST_RANK: u8 = CapType::Frame.rank();

    #[inline]
    fn tree(ty: u8) -> u8 {
        TREES[ty as usize % TYPES]
    }

    #[inline]
    fn rank(ty: u8) -> u8 {
        RANKS[ty as usize % TYPES]
    }

    /// What has a badge is made of the Endpoint without.
    #[inline]
    fn rank_of(cap: &RawCap) -> u8 {
        Self::rank(cap.ty) + u8::from(cap.ty == CapType::Endpoint as u8 && cap.aux != 0)
    }

    #[inline]
    fn range(cap: &RawCap) -> (u64, u64) {
        if cap.ty == CapType::Mapping as u8 {
            return (cap.base, super::mapping::mapped_bytes(cap));
        }
        (cap.base, cap.word)
    }

    #[inline]
    fn identity(cap: &RawCap) -> u64 {
        if cap.ty == CapType::Mapping as u8 {
            return super::mapping::first_entry(cap);
        }
        if cap.ty == CapType::Endpoint as u8 {
            return u64::from(cap.aux);
        }
        0
    }
}
