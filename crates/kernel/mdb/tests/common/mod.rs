//! A policy with one type of each kind, and an arena of slots.
#![allow(dead_code)] // Each test and the benchmark use their part.

use std::ptr::NonNull;

use mdb::{directory_entries, Entry, Mdb, Policy, RawCap, Slot};

pub use paging::PAGE;

pub const PHYS: u8 = 1;
pub const RAM: u8 = 2;
pub const FRAME: u8 = 3;
pub const VNODE: u8 = 4;
pub const MAPPING: u8 = 5;
/// An object without memory.
pub const IRQ: u8 = 6;
/// An object whose ranges are not multiples of a page.
pub const IO: u8 = 7;
/// An object without memory whose `aux` is not ordered.
pub const ENDPOINT: u8 = 8;
/// An object in memory; what has an `aux` is made of the one without.
pub const PORTAL: u8 = 9;

pub struct Types;

impl Policy for Types {
    const LEAF_RANK: u8 = 10;
    const HOST_RANK: u8 = 2;
    // So few that there are often more.
    const MOST_LEAVES: u64 = 3;

    fn tree(ty: u8) -> u8 {
        match ty {
            IRQ => 1,
            IO => 2,
            ENDPOINT => 3,
            _ => 0,
        }
    }

    fn rank(ty: u8) -> u8 {
        match ty {
            RAM => 1,
            FRAME | VNODE | PORTAL => 2,
            MAPPING => Self::LEAF_RANK,
            _ => 0,
        }
    }

    fn rank_of(cap: &RawCap) -> u8 {
        Self::rank(cap.ty) + u8::from(cap.ty == PORTAL && cap.aux != 0)
    }

    fn range(cap: &RawCap) -> (u64, u64) {
        match cap.ty {
            MAPPING => (cap.base, u64::from(cap.aux >> 16) * PAGE),
            IRQ | ENDPOINT => (cap.base, 0),
            _ => (cap.base, cap.word),
        }
    }

    fn identity(cap: &RawCap) -> u64 {
        match cap.ty {
            MAPPING => cap.word | u64::from(cap.aux & 0xfff),
            PORTAL => u64::from(cap.aux),
            _ => 0,
        }
    }
}

/// An object of `len` bytes at `base`.
pub fn object(ty: u8, base: u64, len: u64) -> RawCap {
    RawCap { ty, rights: 7, attrs: 0, aux: 0, base, word: len }
}

/// A Mapping of `pages` pages at `base` by the entries from `entry` of `table`.
pub fn mapping(base: u64, pages: u64, table: u64, entry: u16) -> RawCap {
    let aux = (pages as u32) << 16 | u32::from(entry);
    RawCap { ty: MAPPING, rights: 7, attrs: 0, aux, base, word: table }
}

/// A database whose memory is divided into so many pieces of so many pages, a power of two; none if
/// that is `None`.
pub fn database(division: Option<(usize, u64)>) -> Mdb<Types> {
    let mut mdb = Mdb::new();
    if let Some((pieces, pages)) = division {
        let count = directory_entries(pieces);
        let entries: &mut [Entry] = Box::leak((0..count).map(|_| Entry::default()).collect());
        assert!(mdb.divide_into(0, pieces, (pages * PAGE).ilog2(), entries));
    }
    mdb
}

/// Slots that stay in place.
pub struct Arena(NonNull<[Slot]>);

impl Arena {
    pub fn new(slots: usize) -> Self {
        let slots: Box<[Slot]> = (0..slots).map(|_| Slot::empty()).collect();
        Self(NonNull::from(Box::leak(slots)))
    }

    pub fn at(&self, index: usize) -> NonNull<Slot> {
        assert!(index < self.0.len());
        // SAFETY: the index is within the slice.
        unsafe { self.0.cast::<Slot>().add(index) }
    }

    pub fn slot(&self, index: usize) -> &Slot {
        // SAFETY: the arena keeps its slots until it is dropped, and gives no `&mut` away.
        unsafe { self.at(index).as_ref() }
    }

    pub fn put(&self, index: usize, cap: RawCap) -> NonNull<Slot> {
        assert!(self.slot(index).set_cap(cap), "slot {index} is in the database");
        self.at(index)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the slots came from a box, and a database does not touch them when it is dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The capability in a slot that a query returned.
pub fn cap(slot: NonNull<Slot>) -> RawCap {
    // SAFETY: queries return slots of the arena, which outlives the test.
    unsafe { slot.as_ref() }.cap()
}
