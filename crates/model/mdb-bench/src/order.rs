//! The order of G18 §4.5.2, with the address of the slot as the last resort, and the types.
//!
//! Tree and base are compared as one word, for the comparison is most of what a search does.

use mdb::{Policy, RawCap};
use std::cmp::Ordering;

/// RAM, the only type of the measurements.
pub const RAM: u8 = 2;
/// What RAM is made of.
pub const PHYS: u8 = 1;
/// What is made of RAM, of the same size or smaller.
pub const FRAME: u8 = 3;

/// The forest of types, in tables as in the kernel.
pub struct Types;

const TYPES: usize = 32;
const RANKS: [u8; TYPES] = {
    let mut ranks = [0; TYPES];
    ranks[RAM as usize] = 1;
    ranks[FRAME as usize] = 2;
    ranks
};
const TREES: [u8; TYPES] = [0; TYPES];

impl Policy for Types {
    const LEAF_RANK: u8 = 10;
    const HOST_RANK: u8 = 2;

    #[inline]
    fn tree(ty: u8) -> u8 {
        TREES[usize::from(ty) % TYPES]
    }

    #[inline]
    fn rank(ty: u8) -> u8 {
        RANKS[usize::from(ty) % TYPES]
    }

    #[inline]
    fn range(cap: &RawCap) -> (u64, u64) {
        (cap.base, cap.word)
    }

    #[inline]
    fn identity(_: &RawCap) -> u64 {
        0
    }
}

/// A capability of `ty` to `[base, base + len)`.
pub fn memory(ty: u8, base: u64, len: u64) -> RawCap {
    RawCap { ty, rights: 7, attrs: 0, aux: 0, base, word: len }
}

/// Tree and address in one word.
#[inline]
pub fn position(cap: &RawCap, address: u64) -> u64 {
    u64::from(Types::tree(cap.ty)) << 56 | address
}

/// Tree and first address.
#[inline]
pub fn start(cap: &RawCap) -> u64 {
    position(cap, cap.base)
}

/// Tree and the address behind the last one.
#[inline]
pub fn end(cap: &RawCap) -> u64 {
    let (base, len) = Types::range(cap);
    position(cap, base + len.max(1))
}

/// Compares all but the addresses of the slots.
#[inline]
pub fn compare(a: &RawCap, b: &RawCap) -> Ordering {
    match start(a).cmp(&start(b)) {
        Ordering::Equal => compare_same_start(a, b),
        other => other,
    }
}

#[inline(never)]
fn compare_same_start(a: &RawCap, b: &RawCap) -> Ordering {
    let larger_first = Types::range(b).1.cmp(&Types::range(a).1);
    larger_first
        .then_with(|| (Types::rank(a.ty), a.ty).cmp(&(Types::rank(b.ty), b.ty)))
        .then_with(|| Types::identity(a).cmp(&Types::identity(b)))
}

/// Whether `b`, which comes after `a` in the order, descends from it: copies do not.
#[inline]
pub fn is_ancestor(a: &RawCap, b: &RawCap) -> bool {
    end(b) <= end(a) && compare(a, b) == Ordering::Less
}
