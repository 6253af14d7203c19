//! Pools whose pages come and go: who may give and take memory, and what is refused.

use crate::morsels::{set_word, word};
use crate::probe::{make_tables, probe, Access, PD, PDPT, PT, VA};
use crate::setup::{capabilities, slot, Lab};
use crate::Test;
use libos::abi::slots::{DISPATCHER, IO, IRQ, KERNEL, ROOT, VSPACE};
use libos::captypes::CapType::*;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::vspace::{R, RW};
use libos::{op, Cap, CapAddr, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("chunks_come_and_go", come_and_go),
    ("chunks_rights", rights),
    ("chunks_refused", refused),
    ("chunks_forged", forged),
    ("chunks_deleted", deleted),
    ("chunks_zeroed", zeroed),
];

const HEAD: CapAddr = slot(100);
const MIB2: u64 = 2 << 20;
/// Pages of 2 MiB, and of the head.
const PAGES: u64 = 512;
/// Where an object of order 2 is mapped.
const SHOWN: u64 = VA + (3 << 30);

/// A head that describes the RAM of the laboratory, and tables.
fn furnish(lab: &mut Lab) -> Result<(), Status> {
    make_tables(lab)?;
    lab.make(Pool, 0, MIB2, HEAD)?;
    HEAD.format_volatile(lab.ram_base, 0)
}

/// RAM of so many times 2 MiB, and its first address.
fn ram(lab: &Lab, first: u64, count: u64, dst: CapAddr) -> Result<u64, Status> {
    lab.make(Ram, (1 + first) * MIB2, count * MIB2, dst)?;
    Ok(lab.ram_base + (1 + first) * MIB2)
}

fn free() -> u64 {
    HEAD.pool_info().map_or(u64::MAX, |facts| facts.free)
}

fn come_and_go(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    fails!(WrongState, HEAD.pool_info());
    fails!(WrongState, HEAD.create_morsel(1, slot(0)));
    check!(good!(HEAD.remove_chunk()).is_none());
    let first = good!(ram(lab, 0, 1, slot(50)));
    let second = good!(ram(lab, 1, 2, slot(51)));
    check!(good!(HEAD.add_chunk(slot(50))) == first);
    let facts = good!(HEAD.pool_info());
    check!((facts.pages, facts.own, facts.free) == (2 * PAGES, PAGES, PAGES - 1));
    good!(HEAD.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let mut n = 0;
    while free() > 0 {
        set_word(SHOWN + n * PAGE, n + 1);
        n += 1;
    }
    // Some were made ahead.
    let end = good!(slot(0).next_hole(n, PAGES)).unwrap_or(0);
    (n..end).for_each(|n| set_word(SHOWN + n * PAGE, n + 1));
    let n = end;
    // A fault in an empty pool is the program's; when there is memory, it is served.
    let seen = good!(probe(lab, SHOWN + n * PAGE, Access::Write));
    check!(seen.is_absent(SHOWN + n * PAGE, Access::Write));
    fails!(NoMemory, slot(0).populate(n, 1, false));
    check!(good!(HEAD.add_chunk(slot(51))) == second);
    check!(free() == 2 * PAGES);
    set_word(SHOWN + n * PAGE, n + 1);
    check!(word(SHOWN + n * PAGE) == n + 1);
    good!(slot(0).populate(1024, 512, true));
    fails!(NoMemory, HEAD.create_morsel(1, slot(1)).and_then(|_| slot(1).populate(0, 512, false)));
    check!(good!(HEAD.remove_chunk()).is_none());
    good!(slot(0).discard_pages(n, 1 << 17));
    good!(slot(1).destroy());
    check!(good!(HEAD.remove_chunk()) == Some(second));
    check!(good!(HEAD.remove_chunk()).is_none());
    check!(good!(libos::invoke(slot(51), op::Identify {})).ty == Ram);
    check!((0..n).all(|n| word(SHOWN + n * PAGE) == n + 1));
    check!(good!(HEAD.pool_info()).pages == 2 * PAGES);
    // Somebody else uses it, and it comes again.
    good!(slot(51).retype(Frame, 0, PAGE, 4, slot(60)));
    fails!(HasDescendants, HEAD.add_chunk(slot(51)));
    good!(slot(60).delete_range(4));
    check!(good!(HEAD.add_chunk(slot(51))) == second);
    check!(good!(HEAD.remove_chunk()) == Some(second));
    good!(slot(10).delete());
    good!(slot(0).destroy());
    Ok(())
}

fn rights(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(ram(lab, 0, 1, slot(50)));
    good!(HEAD.mint(slot(101), Rights::READ));
    fails!(NoRights, slot(101).add_chunk(slot(50)));
    good!(HEAD.add_chunk(slot(50)));
    fails!(NoRights, slot(101).remove_chunk());
    check!(good!(slot(101).pool_info()).pages == 2 * PAGES);
    good!(HEAD.mint(slot(102), Rights::WRITE));
    good!(ram(lab, 1, 1, slot(51)));
    good!(slot(102).add_chunk(slot(51)));
    check!(good!(slot(102).remove_chunk()).is_some());
    good!(lab.make(Pool, 8 << 20, MIB2, slot(103)));
    good!(slot(103).mint(slot(104), Rights::READ));
    fails!(NoRights, slot(104).format_volatile(lab.ram_base, 0));
    good!(slot(103).format_volatile(lab.ram_base, 0));
    Ok(())
}

fn refused(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(ram(lab, 0, 2, slot(50)));
    good!(lab.make(Frame, 8 << 20, MIB2, slot(1)));
    let count = capabilities();
    for what in [ROOT, DISPATCHER, VSPACE, lab.ram, KERNEL, IO, IRQ, PT, slot(1), slot(50)] {
        fails!(WrongType, what.format_volatile(lab.ram_base, 0));
        fails!(WrongType, what.add_chunk(slot(50)));
        fails!(WrongType, what.remove_chunk());
    }
    for memory in [ROOT, DISPATCHER, VSPACE, lab.home, KERNEL, IO, IRQ, PT, HEAD, slot(1)] {
        fails!(WrongType, HEAD.add_chunk(memory));
    }
    fails!(Empty, HEAD.add_chunk(slot(90)));
    fails!(HasDescendants, HEAD.add_chunk(lab.ram));
    good!(slot(50).copy_to(slot(51)));
    fails!(HasDescendants, HEAD.add_chunk(slot(50)));
    good!(slot(51).delete());
    for (offset, bytes) in [(PAGE, MIB2), (0, MIB2 / 2), (0, MIB2 + PAGE)] {
        good!(slot(50).retype(Ram, offset, bytes, 1, slot(52)));
        fails!(OutOfRange, HEAD.add_chunk(slot(52)));
        good!(slot(52).delete());
    }
    fails!(WrongState, HEAD.format_pool(Persistence::Caches));
    fails!(WrongState, HEAD.recover_pool(Persistence::Caches));
    fails!(WrongState, HEAD.format_volatile(lab.ram_base, 0));
    check!(capabilities() == count);
    good!(HEAD.add_chunk(slot(50)));
    // It covers its memory, and nothing else is done with it.
    fails!(WrongState, HEAD.add_chunk(slot(50)));
    fails!(WrongType, slot(50).copy_to(slot(51)));
    fails!(WrongType, slot(50).mint(slot(51), Rights::READ));
    fails!(WrongType, slot(50).retype(Frame, 0, PAGE, 1, slot(51)));
    fails!(WrongType, slot(50).retype(Ram, 0, PAGE, 1, slot(51)));
    fails!(WrongType, PT.map(0, 1, slot(50), 0, R, slot(51)));
    fails!(WrongType, PD.map(0, 1, slot(50), 0, R, slot(51)));
    fails!(HasDescendants, lab.ram.retype(Frame, MIB2, PAGE, 1, slot(51)));
    check!(good!(libos::invoke(slot(50), op::Identify {})).ty == Chunk);
    good!(slot(50).move_to(slot(53)));
    check!(good!(HEAD.pool_info()).pages == 3 * PAGES);
    // A pool with pages of its own gets no others.
    good!(lab.make(Pool, 10 << 20, MIB2, slot(105)));
    good!(slot(105).format_pool(Persistence::Caches));
    good!(ram(lab, 2, 1, slot(54)));
    fails!(WrongState, slot(105).add_chunk(slot(54)));
    fails!(WrongState, slot(105).remove_chunk());
    good!(slot(105).create_morsel(0, slot(55)));
    good!(slot(55).destroy());
    Ok(())
}

fn forged(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(Pool, 0, MIB2, HEAD));
    let mut random = Rng::with_seed(lab.seed);
    let wild = |random: &mut Rng| match random.u32(..5) {
        0 => random.u64(..),
        1 => 1 << random.u32(..64),
        2 => random.u64(..1 << 20),
        3 => u64::MAX - random.u64(..PAGE),
        _ => random.u64(..1024),
    };
    let first = good!(ram(lab, 0, 1, slot(50)));
    for _ in 0..300 {
        let (a, b) = (wild(&mut random), wild(&mut random));
        match HEAD.format_volatile(a, b) {
            Ok(()) => {
                check!(a % MIB2 == 0 && b <= 502 * PAGES);
                let inside = a <= first && (b == 0 || first + MIB2 - a <= b / PAGES * MIB2);
                match HEAD.add_chunk(slot(50)) {
                    Ok(at) => {
                        check!(at == first && inside);
                        good!(slot(50).delete());
                        good!(ram(lab, 0, 1, slot(50)));
                    }
                    Err(error) => check!(error == Status::OutOfRange),
                }
                good!(HEAD.delete());
                good!(lab.make(Pool, 0, MIB2, HEAD));
            }
            Err(error) => check!(error == Status::OutOfRange),
        }
    }
    good!(HEAD.format_volatile(lab.ram_base, 0));
    let count = capabilities();
    for _ in 0..1_000 {
        let memory = libos::Place(wild(&mut random));
        if memory != slot(50).into() {
            // Nothing but that RAM can come.
            check!(libos::invoke(HEAD, op::AddChunk { memory }).is_err());
        }
        check!(good!(HEAD.remove_chunk()).is_none());
    }
    check!(capabilities() == count);
    good!(HEAD.add_chunk(slot(50)));
    Ok(())
}

/// A Chunk that is deleted takes the objects with it if anything of it is in use; and what a pool leaves is nobody's.
fn deleted(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(ram(lab, 0, 1, slot(50)));
    good!(ram(lab, 1, 1, slot(51)));
    good!(HEAD.add_chunk(slot(50)));
    good!(HEAD.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    set_word(SHOWN, 5);
    good!(HEAD.add_chunk(slot(51)));
    good!(slot(51).delete());
    check!(word(SHOWN) == 5 && good!(HEAD.pool_info()).pages == 2 * PAGES);
    good!(slot(50).delete());
    for gone in [slot(0), slot(10), slot(50)] {
        fails!(Empty, libos::invoke(gone, op::Identify {}));
    }
    fails!(WrongState, HEAD.pool_info());
    let seen = good!(probe(lab, SHOWN, Access::Read));
    check!(seen.is_absent(SHOWN, Access::Read));
    // Formatted anew it begins with nothing.
    good!(HEAD.format_volatile(lab.ram_base, 0));
    fails!(WrongState, HEAD.create_morsel(2, slot(0)));
    good!(ram(lab, 0, 1, slot(50)));
    good!(HEAD.add_chunk(slot(50)));
    good!(HEAD.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    set_word(SHOWN, 6);
    // The head goes first.
    good!(HEAD.delete());
    let seen = good!(probe(lab, SHOWN, Access::Read));
    check!(seen.is_absent(SHOWN, Access::Read));
    fails!(HasDescendants, lab.ram.retype(Frame, MIB2, PAGE, 1, slot(1)));
    good!(slot(50).delete());
    good!(lab.ram.retype(Frame, MIB2, PAGE, 1, slot(1)));
    Ok(())
}

/// Memory of others comes without what they had written.
fn zeroed(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    for large in [false, true] {
        good!(lab.make(Frame, MIB2, 2 * MIB2, slot(1)));
        good!(PD.map(5, 2, slot(1), 0, RW, slot(11)));
        let words = (0..2 * MIB2).step_by(8);
        words.for_each(|at| set_word(VA + 5 * MIB2 + at, !0));
        good!(slot(1).delete());
        good!(ram(lab, 0, 2, slot(50)));
        good!(HEAD.add_chunk(slot(50)));
        good!(HEAD.create_morsel(2, slot(0)));
        good!(PDPT.map(3, 1, slot(0), 0, R, slot(10)));
        good!(slot(0).populate(0, 512, large));
        check!((0..MIB2).step_by(8).all(|at| word(SHOWN + at) == 0));
        good!(slot(10).delete());
        good!(slot(0).destroy());
        // Its directory is in it: the pool goes.
        good!(slot(50).delete());
        good!(HEAD.format_volatile(lab.ram_base, 0));
    }
    Ok(())
}
