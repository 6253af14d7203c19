//! Pools and morsels: what is shown by one entry, who may change what, and what is refused.

use crate::probe::{make_tables, probe, Access, PD, PDPT, PT, VA};
use crate::setup::{capabilities, slot, Lab};
use crate::Test;
use libos::abi::slots::{DISPATCHER, IO, IRQ, KERNEL, ROOT, VSPACE};
use libos::captypes::invocations::MorselFacts;
use libos::captypes::CapType::*;
use libos::morsel::{MorselCap, Persistence, PoolCap};
use libos::vspace::{entry_of, R, RW, RWX};
use libos::{op, Cap, CapAddr, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("morsel_orders", orders),
    ("morsel_rights", rights),
    ("morsel_limit", limit),
    ("morsel_snapshot", snapshot),
    ("morsel_single_pages", single_pages),
    ("morsel_large_pages", large_pages),
    ("morsel_advised", advised),
    ("morsel_survey", survey),
    ("morsel_commit", commit),
    ("morsel_of_what_is_none", of_what_is_none),
    ("morsel_forged", forged),
    ("morsel_pool_is_full", pool_is_full),
    ("morsel_many", many),
];

pub const POOL: CapAddr = slot(100);
const MIB2: u64 = 2 << 20;
/// Bytes of the pool.
const BYTES: u64 = 8 << 20;
/// What entry `n` of the [`PD`] translates.
const fn second(n: u64) -> u64 {
    VA + n * MIB2
}

pub fn word(va: u64) -> u64 {
    // SAFETY: mapped for these tests only.
    unsafe { core::ptr::read_volatile(va as *const u64) }
}

pub fn set_word(va: u64, value: u64) {
    // SAFETY: as above, and writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, value) }
}

/// A pool, and tables at [`VA`].
pub fn furnish(lab: &mut Lab) -> Result<(), Status> {
    make_tables(lab)?;
    lab.make(Pool, 0, BYTES, POOL)?;
    POOL.format_pool(Persistence::Caches)
}

pub fn free() -> u64 {
    POOL.pool_info().map_or(0, |facts| facts.free)
}

fn orders(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    let far = 6u64 << 39;
    let places = [
        (0, PT, 9, VA + 9 * PAGE, 0),
        (1, PD, 5, second(5), 511 * PAGE),
        (2, PDPT, 3, VA + (3 << 30), (1 << 30) - PAGE),
        (3, VSPACE, entry_of(4, far), far, (1 << 39) - PAGE),
    ];
    for (n, (order, table, entry, va, last)) in places.into_iter().enumerate() {
        let (cap, mapping) = (slot(n as u32), slot(10 + n as u32));
        good!(POOL.create_morsel(order, cap));
        for (other, (at, ..)) in places.iter().map(|p| (p.1, p.0)).enumerate() {
            if other != n && at != PT {
                fails!(WrongLevel, at.map(100, 1, cap, 0, RW, mapping));
            }
        }
        let before = free();
        good!(table.map(entry, 1, cap, 0, RW, mapping));
        // Nothing is preallocated.
        check!(free() == before);
        set_word(va + last, order as u64 + 7);
        check!(word(va + last) == order as u64 + 7 && word(va) == if last == 0 { 7 } else { 0 });
        check!(before - free() == u64::from(order));
        good!(mapping.delete());
        let seen = good!(probe(lab, va + last, Access::Read));
        check!(seen.is_absent(va + last, Access::Read));
        good!(table.map(entry, 1, cap, 0, R, mapping));
        check!(word(va + last) == order as u64 + 7);
        good!(mapping.delete());
        good!(cap.destroy());
    }
    fails!(OutOfRange, POOL.create_morsel(5, slot(0)));
    fails!(OutOfRange, POOL.create_morsel(u32::MAX, slot(0)));
    Ok(())
}

fn rights(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(1, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ));
    good!(slot(0).mint(slot(2), Rights::READ.or(Rights::EXEC)));
    fails!(NoRights, PD.map(5, 1, slot(1), 0, RW, slot(10)));
    fails!(NoRights, PD.map(5, 1, slot(1), 0, RWX, slot(10)));
    good!(PD.map(5, 1, slot(1), 0, R, slot(10)));
    good!(PD.map(6, 1, slot(0), 0, RW, slot(11)));
    fails!(NoRights, slot(10).protect(0, 1, RW));
    set_word(second(6), 1);
    check!(word(second(5)) == 1);
    let seen = good!(probe(lab, second(5), Access::Write));
    check!(seen.is_forbidden(second(5), Access::Write));
    // Not populated, and not allowed: nobody is asked to populate it.
    let seen = good!(probe(lab, second(5) + PAGE, Access::Write));
    check!(seen.is_absent(second(5) + PAGE, Access::Write));
    let seen = good!(probe(lab, second(5), Access::Execute));
    check!(seen.is_forbidden(second(5), Access::Execute));
    let before = free();
    check!(word(second(5) + 2 * PAGE) == 0 && free() == before);
    let seen = good!(probe(lab, second(5) + 2 * PAGE, Access::Write));
    check!(seen.is_forbidden(second(5) + 2 * PAGE, Access::Write));
    // The same page becomes writable where it may be written.
    set_word(second(6) + 2 * PAGE, 3);
    check!(word(second(5) + 2 * PAGE) == 3);
    for cap in [slot(1), slot(2)] {
        fails!(NoRights, cap.populate(0, 1, false));
        fails!(NoRights, cap.discard_pages(0, 1));
        fails!(NoRights, cap.grow());
        fails!(NoRights, cap.set_limit(0));
        fails!(NoRights, cap.snapshot(slot(20)));
        fails!(NoRights, cap.commit());
        fails!(NoRights, cap.destroy());
        fails!(NoRights, cap.write_morsel(0, second(6), 8));
        check!(cap.read_morsel(0, second(6) + 8, 8) == slot(0).read_morsel(0, second(6) + 8, 8));
    }
    good!(POOL.mint(slot(30), Rights::READ));
    fails!(NoRights, slot(30).format_pool(Persistence::Caches));
    fails!(NoRights, slot(30).create_morsel(0, slot(31)));
    let record = good!(slot(0).morsel_info()).record;
    fails!(NoRights, slot(30).open_morsel(record, Rights::READ.or(Rights::WRITE), slot(31)));
    fails!(NoRights, slot(30).open_morsel(record, Rights::REVOKE, slot(31)));
    good!(slot(30).open_morsel(record, Rights::READ, slot(31)));
    check!(good!(libos::invoke(slot(31), op::Compare { other: slot(0).into() })).value == 1);
    // A page that may be written through one entry only by whoever has all of it revoked.
    good!(slot(0).revoke());
    let seen = good!(probe(lab, second(6), Access::Read));
    check!(seen.is_absent(second(6), Access::Read));
    Ok(())
}

fn limit(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let va = VA + (3 << 30);
    let before = free();
    for n in 0..600 {
        set_word(va + n * PAGE, n + 1);
        set_word(va + n * PAGE + 4088, n + 2);
    }
    good!(slot(0).set_limit(100 * PAGE + 8));
    check!(word(va + 100 * PAGE) == 101 && word(va + 100 * PAGE + 4088) == 0);
    for n in [101, 511, 512, 599] {
        for access in [Access::Read, Access::Write] {
            let seen = good!(probe(lab, va + n * PAGE, access));
            check!(seen.is_absent(va + n * PAGE, access));
        }
    }
    good!(slot(0).set_limit(1 << 30));
    check!((101..600).all(|n| word(va + n * PAGE) == 0));
    good!(slot(0).discard_pages(0, 1 << 18));
    check!(word(va) == 0);
    good!(slot(10).delete());
    good!(slot(0).discard_pages(0, 1 << 18));
    // The root is left; tables that show zeros are nobody's.
    check!(free() + 2 >= before);
    good!(slot(0).destroy());
    Ok(())
}

fn snapshot(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(1, slot(0)));
    good!(PD.map(5, 1, slot(0), 0, RW, slot(10)));
    (0..40).for_each(|n| set_word(second(5) + n * PAGE, n + 1));
    let before = free();
    good!(slot(0).snapshot(slot(1)));
    check!(before - free() == 1);
    good!(PD.map(6, 1, slot(1), 0, RW, slot(11)));
    (0..40).for_each(|n| set_word(second(5) + n * PAGE, n + 100));
    check!((0..40).all(|n| word(second(6) + n * PAGE) == n + 1));
    check!(before - free() == 41);
    set_word(second(6), 7);
    check!(word(second(5)) == 100 && word(second(6)) == 7);
    good!(slot(10).delete());
    good!(slot(0).destroy());
    check!((1..40).all(|n| word(second(6) + n * PAGE) == n + 1));
    good!(slot(11).delete());
    good!(slot(1).destroy());
    Ok(())
}

fn single_pages(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(1, slot(0)));
    good!(PD.map(5, 1, slot(0), 0, RW, slot(10)));
    set_word(second(5) + 8 * PAGE, 8);
    good!(PT.map(3, 4, slot(0), 7 * PAGE, RW, slot(11)));
    check!(word(VA + 4 * PAGE) == 8);
    set_word(VA + 6 * PAGE, 10);
    check!(word(second(5) + 10 * PAGE) == 10);
    good!(slot(11).protect(0, 4, R));
    let seen = good!(probe(lab, VA + 4 * PAGE, Access::Write));
    check!(seen.is_forbidden(VA + 4 * PAGE, Access::Write));
    check!(good!(slot(11).protect_many(1, RW)) == 1);
    set_word(VA + 4 * PAGE, 88);
    check!(good!(slot(11).protect_many(1, R)) == 1);
    let seen = good!(probe(lab, VA + 4 * PAGE, Access::Write));
    check!(seen.is_forbidden(VA + 4 * PAGE, Access::Write));
    // Taken away with the page, on all sides.
    good!(slot(0).discard_pages(8, 1));
    let seen = good!(probe(lab, VA + 4 * PAGE, Access::Read));
    check!(seen.is_absent(VA + 4 * PAGE, Access::Read));
    check!(word(second(5) + 8 * PAGE) == 0);
    good!(PT.map(3, 1, slot(0), 8 * PAGE, RW, slot(11)));
    set_word(VA + 3 * PAGE, 5);
    // The table goes, and its entries with it.
    good!(PT.delete());
    check!(word(second(5) + 8 * PAGE) == 5);
    Ok(())
}

fn large_pages(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let va = VA + (3 << 30);
    let before = free();
    good!(slot(0).populate(512, 512, true));
    check!(before - free() == 512);
    set_word(va + MIB2 + 5 * PAGE, 9);
    good!(slot(0).discard_pages(512 + 6, 1));
    check!(word(va + MIB2 + 5 * PAGE) == 9 && word(va + MIB2 + 6 * PAGE) == 0);
    // One page came back, and a table was needed.
    check!(before - free() == 512);
    good!(slot(0).populate(0, 64, false));
    check!(before - free() == 512 + 65);
    fails!(OutOfRange, slot(0).populate(1 << 18, 1, false));
    let wild = op::PopulateMorsel { first: u64::MAX, count: 2, large: true };
    fails!(OutOfRange, libos::invoke(slot(0), wild));
    good!(slot(10).delete());
    good!(slot(0).destroy());
    Ok(())
}

fn advised(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let va = VA + (3 << 30);
    let is_large = || slot(0).morsel_info().map(|facts| facts.flags & MorselFacts::LARGE != 0);
    good!(slot(0).mint(slot(2), Rights::READ.or(Rights::WRITE)));
    fails!(NoRights, slot(2).advise(true));
    check!(!good!(is_large()));
    good!(slot(0).advise(true));
    check!(good!(is_large()));
    // What is only read stays a hole; what is written takes its 2 MiB with it.
    let before = free();
    check!(word(va + 5 * PAGE) == 0 && free() == before);
    set_word(va + 5 * PAGE, 5);
    check!(before - free() == 512);
    check!((0..512).all(|n| word(va + n * PAGE) == if n == 5 { 5 } else { 0 }));
    // A page that the limit cuts would be behind it.
    good!(slot(0).set_limit(1123 * PAGE + 1));
    set_word(va + 1100 * PAGE, 6);
    check!(before - free() == 512 + 2);
    good!(slot(0).set_limit(1 << 30));
    // Where there are small ones, there are none of the others.
    set_word(va + 1500 * PAGE, 7);
    check!(before - free() == 512 + 3);
    // A copy of one.
    good!(slot(0).snapshot(slot(1)));
    check!(good!(slot(1).morsel_info()).flags & MorselFacts::LARGE != 0);
    let shared = free();
    set_word(va + 6 * PAGE, 8);
    check!(shared - free() == 512);
    good!(PDPT.map(4, 1, slot(1), 0, RW, slot(11)));
    check!(word(va + (1 << 30) + 5 * PAGE) == 5 && word(va + (1 << 30) + 6 * PAGE) == 0);
    // The pool has no 2 MiB in one piece any more.
    while free() > 512 {
        good!(slot(0).populate((1 << 18) - 512 - free(), 1, false));
    }
    let last = free();
    check!(last > 8);
    set_word(va + 4096 * PAGE, 9);
    check!(last - free() <= 2 && word(va + 4096 * PAGE) == 9);
    good!(slot(0).advise(false));
    check!(!good!(is_large()));
    good!(slot(10).delete());
    good!(slot(11).delete());
    good!(slot(1).destroy());
    good!(slot(0).discard_pages(0, 1 << 18));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let before = free();
    set_word(va + 5 * PAGE, 5);
    check!(before - free() == 2);
    good!(slot(10).delete());
    good!(slot(2).delete());
    good!(slot(0).destroy());
    Ok(())
}

fn survey(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let (va, all) = (VA + (3 << 30), 1 << 18);
    for n in [5, 6, 600, all - 1] {
        set_word(va + n * PAGE, n);
    }
    good!(slot(0).populate(1024, 512, true));
    // What is only read stays a hole.
    check!(word(va + 7 * PAGE) == 0 && word(va + 5000 * PAGE) == 0);
    check!(good!(slot(0).count_pages(0, all)) == 4 + 512);
    check!(good!(slot(0).count_pages(6, 594)) == 1 && good!(slot(0).count_pages(6, 595)) == 2);
    check!(good!(slot(0).count_pages(1100, 10)) == 10);
    let large =
        |first, count| slot(0).survey_pages(first, count).map(|seen| (seen.pages, seen.large));
    check!(good!(large(0, all)) == (4 + 512, 512) && good!(large(1024, 512)) == (512, 512));
    check!(good!(large(1025, 511)) == (511, 0) && good!(large(1024, 511)) == (511, 0));
    check!(good!(slot(0).next_page(0, all)) == Some(5) && good!(slot(0).next_page(0, 5)).is_none());
    check!(good!(slot(0).next_hole(5, all - 5)) == Some(7));
    check!(good!(slot(0).next_page(7, all - 7)) == Some(600));
    check!(good!(slot(0).next_hole(1024, 512)).is_none());
    check!(good!(slot(0).next_hole(1030, all - 1030)) == Some(1536));
    check!(good!(slot(0).next_page(1536, all - 1536)) == Some(all - 1));
    good!(slot(0).mint(slot(1), Rights::READ));
    check!(good!(slot(1).count_pages(0, all)) == 4 + 512);
    good!(slot(0).mint(slot(2), Rights::WRITE));
    fails!(NoRights, slot(2).count_pages(0, all));
    fails!(Invalid, libos::invoke(slot(0), op::SurveyMorsel { first: 0, count: 1, until: 3 }));
    fails!(OutOfRange, slot(0).count_pages(u64::MAX - 1, 1));
    good!(slot(0).set_limit(6 * PAGE));
    check!(good!(slot(0).count_pages(0, all)) == 1);
    check!(
        good!(slot(0).next_hole(0, all)) == Some(0) && good!(slot(0).next_hole(5, all)) == Some(6)
    );
    Ok(())
}

fn commit(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    let record = good!(POOL.create_morsel(1, slot(0)));
    good!(PD.map(5, 1, slot(0), 0, RW, slot(10)));
    set_word(second(5), 1);
    set_word(second(5) + PAGE, 1);
    good!(slot(0).commit());
    set_word(second(5), 2);
    good!(slot(0).commit());
    set_word(second(5), 3);
    set_word(second(5) + PAGE, 3);
    good!(slot(10).delete());
    good!(POOL.delete());
    // As after a start: nobody knows anything of it but its memory.
    good!(lab.make(Pool, 0, BYTES, POOL));
    good!(POOL.recover_pool(Persistence::Caches));
    let all = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
    good!(POOL.open_morsel(record, all, slot(0)));
    good!(PD.map(5, 1, slot(0), 0, RW, slot(10)));
    check!(word(second(5)) == 2 && word(second(5) + PAGE) == 1);
    // What was committed counts no more once it is released.
    set_word(second(5), 4);
    good!(slot(0).commit());
    set_word(second(5), 5);
    good!(slot(0).release_commit());
    set_word(second(5) + PAGE, 6);
    good!(slot(10).delete());
    good!(POOL.delete());
    good!(lab.make(Pool, 0, BYTES, POOL));
    good!(POOL.recover_pool(Persistence::Caches));
    good!(POOL.open_morsel(record, all, slot(0)));
    good!(PD.map(5, 1, slot(0), 0, RW, slot(10)));
    check!(word(second(5)) == 5 && word(second(5) + PAGE) == 6);
    // Many pages are given back step by step, and all of them.
    let before = free();
    for round in 0..3 {
        (0..512).for_each(|n| set_word(second(5) + n * PAGE, round));
        good!(slot(0).commit());
    }
    good!(slot(0).release_commit());
    good!(slot(10).delete());
    good!(slot(0).destroy());
    good!(POOL.create_morsel(0, slot(0)));
    good!(POOL.create_morsel(0, slot(1)));
    check!(free() + 2 >= before);
    Ok(())
}

fn of_what_is_none(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(1, slot(0)));
    good!(lab.make(Frame, 13 << 20, PAGE, slot(1)));
    let count = capabilities();
    for what in [ROOT, DISPATCHER, VSPACE, lab.ram, KERNEL, IO, IRQ, PT, slot(0), slot(1)] {
        fails!(WrongType, what.format_pool(Persistence::Memory));
        fails!(WrongType, what.recover_pool(Persistence::Memory));
        fails!(WrongType, what.create_morsel(1, slot(20)));
        fails!(WrongType, what.create_meta(1, 0));
        fails!(WrongType, what.open_morsel(1, Rights::READ, slot(20)));
        fails!(WrongType, what.pool_info());
    }
    for what in [ROOT, DISPATCHER, VSPACE, lab.ram, KERNEL, IO, IRQ, PT, POOL, slot(1)] {
        fails!(WrongType, what.populate(0, 1, false));
        fails!(WrongType, what.discard_pages(0, 1));
        fails!(WrongType, what.part(0, 1, slot(20)));
        fails!(WrongType, what.grow());
        fails!(WrongType, what.set_limit(0));
        fails!(WrongType, what.snapshot(slot(20)));
        fails!(WrongType, what.destroy());
        fails!(WrongType, what.morsel_info());
        fails!(WrongType, what.count_pages(0, 1));
        fails!(WrongType, what.read_morsel(0, VA, 1));
    }
    fails!(WrongType, PT.map(0, 1, POOL, 0, R, slot(20)));
    fails!(WrongType, PT.map_many(0, 1, slot(0), R, slot(20)));
    fails!(Occupied, POOL.create_morsel(1, slot(1)));
    fails!(WrongType, slot(0).retype(Frame, 0, PAGE, 1, slot(20)));
    fails!(WrongType, POOL.retype(Frame, 0, PAGE, 1, slot(20)));
    fails!(WrongState, POOL.format_pool(Persistence::Memory));
    fails!(HasDescendants, lab.ram.retype(Frame, PAGE, PAGE, 1, slot(20)));
    fails!(OutOfRange, lab.ram.retype(Pool, 9 << 20, 1 << 20, 1, slot(20)));
    good!(lab.ram.retype(Pool, 9 << 20, MIB2, 1, slot(20)));
    // It is not aligned.
    fails!(OutOfRange, slot(20).format_pool(Persistence::Caches));
    good!(slot(20).delete());
    check!(capabilities() == count);
    Ok(())
}

fn forged(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let mut random = Rng::with_seed(lab.seed);
    let count = capabilities();
    for _ in 0..2_000 {
        let wild = |random: &mut Rng| match random.u32(..5) {
            0 => random.u64(..),
            1 => 1 << random.u32(..64),
            2 => random.u64(..1 << 18),
            3 => u64::MAX - random.u64(..PAGE),
            _ => random.u64(..1024),
        };
        let (a, b) = (wild(&mut random), wild(&mut random));
        let inside = a < 1 << 18 && b <= (1 << 18) - a;
        let step = |result: Result<_, Status>| {
            matches!(result, Ok(_) | Err(Status::OutOfRange | Status::Again))
        };
        check!(step(libos::invoke(slot(0), op::DiscardMorsel { first: a, count: b }).map(|_| ())));
        check!(step(
            libos::invoke(slot(0), op::WriteBackMorsel { first: a, count: b }).map(|_| ())
        ));
        let until = random.u32(..4);
        match libos::invoke(slot(0), op::SurveyMorsel { first: a, count: b, until }) {
            Ok(seen) => check!(seen.pages == 0 && seen.next >= a && seen.next <= a + b),
            Err(error) => check!(matches!(error, Status::OutOfRange | Status::Invalid)),
        }
        if random.bool() && inside && b < 40 {
            good!(libos::invoke(
                slot(0),
                op::PopulateMorsel { first: a, count: b, large: random.bool() }
            ));
            good!(slot(0).discard_pages(0, 1 << 18));
        }
        let order = random.u32(..);
        match slot(0).part(a, order, slot(20)) {
            Ok(()) => {
                check!((1..=2).contains(&order));
                good!(slot(20).delete());
            }
            Err(error) => check!(error == Status::OutOfRange),
        }
        check!(step(slot(0).read_morsel(a, second(100), b).map(|_| ())));
        let args =
            op::OpenMorsel { record: a as u32, rights: Rights(b as u8), dst: slot(20).into() };
        match libos::invoke(POOL, args) {
            Ok(()) => good!(slot(20).delete()),
            Err(error) => check!(matches!(error, Status::Empty | Status::Invalid)),
        }
        if let Ok(()) =
            PT.map(a as u32, (b as u32).clamp(1, 600), slot(0), a & !0xfff, RW, slot(21))
        {
            good!(slot(21).delete());
        }
    }
    check!(capabilities() == count);
    Ok(())
}

fn pool_is_full(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(POOL.create_morsel(2, slot(0)));
    good!(PDPT.map(3, 1, slot(0), 0, RW, slot(10)));
    let va = VA + (3 << 30);
    let mut n = 0;
    while free() > 0 {
        set_word(va + n * PAGE, n);
        n += 1;
    }
    let seen = good!(probe(lab, va + n * PAGE, Access::Write));
    check!(seen.is_absent(va + n * PAGE, Access::Write));
    fails!(NoMemory, slot(0).populate(n, 1, false));
    fails!(NoMemory, POOL.create_morsel(0, slot(1)));
    fails!(NoMemory, slot(0).snapshot(slot(1)));
    // What was there is there, holes read as zeros, and what is given back can be used.
    check!((0..n).all(|n| word(va + n * PAGE) == n) && word(va + n * PAGE) == 0);
    good!(slot(0).discard_pages(0, 10));
    check!(free() == 10);
    set_word(va + n * PAGE, n);
    check!(word(va + n * PAGE) == n);
    good!(slot(10).delete());
    good!(slot(0).destroy());
    Ok(())
}

/// More objects than a page of records has, some of which come and go.
fn many(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    let mut records = [0; 200];
    for (n, record) in records.iter_mut().enumerate() {
        *record = good!(POOL.create_morsel(1, slot(90)));
        check!(good!(slot(90).write_morsel(0, core::ptr::from_ref(&n) as u64, 8)).bytes == 8);
        good!(slot(90).delete());
    }
    let mut seen = 0;
    let mut from = 0;
    while let Some(facts) = good!(POOL.next_morsel(from)) {
        check!(records.contains(&facts.record));
        from = facts.record + 1;
        seen += 1;
    }
    check!(seen == records.len());
    for (n, &record) in records.iter().enumerate() {
        let rights = Rights::READ.or(Rights::WRITE).or(Rights::REVOKE);
        good!(POOL.open_morsel(record, rights, slot(90)));
        let mut value = 0u64;
        let to = core::ptr::from_mut(&mut value) as u64;
        check!(good!(slot(90).read_morsel(0, to, 8)).bytes == 8);
        check!(value == n as u64);
        good!(slot(90).destroy());
    }
    check!(good!(POOL.next_morsel(0)).is_none());
    check!(Place::from(slot(90)) == slot(90).place());
    Ok(())
}
