//! One scenario per relation, small enough to read.

mod common;

use common::*;
use mdb::{Class, Mdb, RawCap, Violation};

/// RAM of 16 pages, two Frames in it, a Mapping of two pages of the first, a copy of the second.
fn family(arena: &Arena) -> Mdb<Types> {
    let mut mdb = Mdb::<Types>::new();
    let caps = [
        object(RAM, 0, 16 * PAGE),
        object(FRAME, 0, 4 * PAGE),
        object(FRAME, 4 * PAGE, 4 * PAGE),
        mapping(PAGE, 2, 0x10_0000, 3),
        object(FRAME, 4 * PAGE, 4 * PAGE),
    ];
    for (i, cap) in caps.into_iter().enumerate() {
        let slot = arena.put(i, cap);
        // SAFETY: the slots of the arena stay in place and outlive the database.
        assert_eq!(unsafe { mdb.insert(slot) }, i == 4);
    }
    assert_eq!(mdb.check(), Ok(()));
    mdb
}

#[test]
fn relatives() {
    let arena = Arena::new(8);
    let mdb = family(&arena);
    let [ram, low, high, map, copy] = [0, 1, 2, 3, 4].map(|i| arena.at(i));
    // SAFETY: all five are in the database.
    unsafe {
        assert_eq!(mdb.descendants(ram).collect::<Vec<_>>(), [low, map, high]);
        assert_eq!(mdb.first_descendant(low), Some(map));
        assert!(
            !mdb.has_descendants(high) && !mdb.has_descendants(copy) && !mdb.has_descendants(map)
        );
        assert!(mdb.has_copies(high) && mdb.has_copies(copy) && mdb.is_last_copy(low));
        assert_eq!(mdb.copies(copy).collect::<Vec<_>>(), [high]);
        assert_eq!(mdb.nearest_ancestor(map), Some(low));
        assert_eq!(mdb.nearest_ancestor(copy), Some(ram));
        assert_eq!(mdb.nearest_ancestor(ram), None);
        assert_eq!(mdb.descendant_overlapping(low, 0, PAGE), None);
        assert_eq!(mdb.descendant_overlapping(low, 2 * PAGE, PAGE), Some(map));
        assert_eq!(mdb.descendant_overlapping(ram, 8 * PAGE, 8 * PAGE), None);
    }
    assert_eq!(mdb.find(&mapping(PAGE, 2, 0x10_0000, 3)), Some(map));
    assert_eq!(mdb.find(&mapping(PAGE, 2, 0x10_0000, 4)), None);
}

#[test]
fn what_was_mapped_through_a_loan_is_the_loans() {
    let arena = Arena::new(8);
    let mut mdb = Mdb::<Types>::new();
    let caps = [
        object(RAM, 0, 16 * PAGE),
        object(FRAME, 0, PAGE),
        RawCap { aux: 5, ..object(LOAN, 0, PAGE) },
        mapping_of_loan(0, 1, 0x10_0000, 3, 5),
        mapping(0, 1, 0x10_0000, 4),
    ];
    let [_, frame, loan, borrowed, own] = [0, 1, 2, 3, 4].map(|i| arena.at(i));
    for (i, cap) in caps.into_iter().enumerate() {
        let slot = arena.put(i, cap);
        // SAFETY: the slots of the arena stay in place; the Frame is in the database before both Mappings.
        unsafe {
            match i {
                3 | 4 => mdb.insert_near(slot, frame),
                _ => mdb.insert(slot),
            };
        }
    }
    assert_eq!(mdb.check(), Ok(()));
    // SAFETY: all are in the database.
    unsafe {
        assert_eq!(mdb.descendants(loan).collect::<Vec<_>>(), [borrowed]);
        assert_eq!(mdb.nearest_ancestor(own), Some(frame));
    }
}

#[test]
fn ranges() {
    let arena = Arena::new(8);
    let mdb = family(&arena);
    let [ram, low, high, map] = [0, 1, 2, 3].map(|i| arena.at(i));
    assert_eq!(mdb.surrounding(0, PAGE, PAGE, 255), Some(low));
    assert_eq!(mdb.surrounding(0, PAGE, PAGE, 1), Some(ram));
    assert_eq!(mdb.surrounding(0, 0, 5 * PAGE, 255), Some(ram));
    assert_eq!(mdb.surrounding(0, 0, 17 * PAGE, 255), None);
    assert_eq!(mdb.inner(0, 0, 4 * PAGE).collect::<Vec<_>>(), [low, map]);
    assert_eq!(
        mdb.partial(0, 2 * PAGE, 3 * PAGE, Class::All).collect::<Vec<_>>(),
        [low, map, high]
    );
    assert_eq!(mdb.partial(0, 2 * PAGE, 3 * PAGE, Class::Objects).collect::<Vec<_>>(), [low, high]);
    assert_eq!(mdb.overlapping(0, 3 * PAGE, PAGE, Class::All).collect::<Vec<_>>(), [ram, low]);
    assert_eq!(mdb.overlapping(0, 2 * PAGE, PAGE, Class::Leaves).collect::<Vec<_>>(), [map]);
}

#[test]
fn gaps_of_what_is_not_at_home() {
    let arena = Arena::new(8);
    let mdb = family(&arena);
    let mut gaps = Vec::new();
    mdb.for_each_gap(0, 2 * PAGE, 14 * PAGE, |c| c.ty == RAM, |base, len| gaps.push((base, len)));
    assert_eq!(gaps, [(8 * PAGE, 8 * PAGE)]);
    gaps.clear();
    mdb.for_each_gap(0, 0, 20 * PAGE, |_| false, |base, len| gaps.push((base, len)));
    assert_eq!(gaps, [(16 * PAGE, 4 * PAGE)]);
}

#[test]
fn the_tree_node_passes_to_a_copy() {
    let arena = Arena::new(8);
    let mut mdb = family(&arena);
    let (high, copy, free) = (arena.at(2), arena.at(4), arena.at(5));
    // SAFETY: both are in the database, `free` is not.
    unsafe {
        assert_eq!(mdb.remove(high), object(FRAME, 4 * PAGE, 4 * PAGE));
        assert_eq!(mdb.check(), Ok(()));
        assert!(mdb.is_last_copy(copy));
        mdb.relocate(copy, free);
    }
    assert_eq!(mdb.check(), Ok(()));
    assert!(arena.slot(2).is_empty() && arena.slot(4).is_empty());
    assert_eq!(mdb.find(&object(FRAME, 4 * PAGE, 4 * PAGE)), Some(free));
    assert_eq!(mdb.len(), 4);
}

#[test]
fn check_names_overlapping_objects() {
    let arena = Arena::new(8);
    let mut mdb = family(&arena);
    let slot = arena.put(5, object(VNODE, 3 * PAGE, 2 * PAGE));
    // SAFETY: the slots of the arena stay in place and outlive the database.
    unsafe { mdb.insert(slot) };
    assert_eq!(mdb.check(), Err(Violation::Overlap(arena.at(1), slot)));
}

#[test]
fn zeroed_memory_is_an_empty_slot() {
    // SAFETY: documented: 64 zero bytes are an empty slot.
    let slot: mdb::Slot = unsafe { std::mem::zeroed() };
    assert!(slot.is_empty() && !slot.is_linked());
}

/// What is known of the ancestor of the next object that goes is of no use once another comes, moves or goes in between.
#[test]
fn the_ancestor_of_the_next_is_asked_again_when_anything_changes() {
    let arena = Arena::new(8);
    let [outer, home, first, second, third, around, other] = [0, 1, 2, 3, 4, 5, 6];
    let page = |n: u64| object(FRAME, n * PAGE, PAGE);
    for change in 0..5 {
        let mut mdb = database(None);
        // SAFETY: the slots of the arena stay in place and outlive the database; those in it only are asked about, moved or
        // removed.
        unsafe {
            mdb.insert(arena.put(outer, object(PHYS, 0, 16 * PAGE)));
            mdb.insert(arena.put(home, object(RAM, 0, 8 * PAGE)));
            for (slot, n) in [(first, 0), (second, 1), (third, 2)] {
                mdb.insert(arena.put(slot, page(n)));
            }
            assert_eq!(mdb.ancestor_of_childless(arena.at(first)), Some(arena.at(home)));
            if change != 4 {
                mdb.remove(arena.at(first));
            }
            let expected = match change {
                0 => home,
                1 => {
                    mdb.insert(arena.put(around, object(RAM, PAGE, 2 * PAGE)));
                    around
                }
                2 => {
                    mdb.relocate(arena.at(home), arena.at(other));
                    // The slot where it was has something else, which is no node.
                    mdb.insert_copy(arena.at(third), arena.put(home, page(2)));
                    other
                }
                _ => {
                    mdb.remove(arena.at(home));
                    mdb.insert_copy(arena.at(third), arena.put(home, page(2)));
                    outer
                }
            };
            let found = mdb.ancestor_of_childless(arena.at(second));
            assert_eq!(found, Some(arena.at(expected)), "after change {change}");
            for slot in 0..8 {
                if arena.slot(slot).is_linked() {
                    mdb.remove(arena.at(slot));
                }
            }
        }
        assert!(mdb.is_empty());
    }
}
