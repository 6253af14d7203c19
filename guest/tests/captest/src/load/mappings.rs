//! Many Mappings: of one page, of the same part of a Frame, across the end of what was made of it, and as
//! large as a table.

use super::{Load, PAGE};
use crate::probe::{make_tables, probe, Access, PD, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::abi::slots::VSPACE;
use libos::captypes::invocations::MapFlags;
use libos::captypes::CapType::*;
use libos::vspace::{R, RW, RWX};
use libos::{invoke, op, Cap, Place};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("load_equal_mappings", equal_mappings),
    ("load_crossing_mappings", crossing_mappings),
    ("load_large_mappings", large_mappings),
    ("load_shared_tables", shared_tables),
    ("load_nested_frames", nested_frames),
];

/// Entries of a table.
const ENTRIES: u32 = 512;

/// One page mapped very often: each Mapping, and each table, is found among all of them.
fn equal_mappings(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let tables = 10 * load.scale;
    let frame = good!(load.object(Frame, PAGE));
    let (mut all, mut first) = (0, None);
    for table in 0..tables {
        let at = slot(10 + table % 2);
        if table >= 2 {
            good!(at.move_to(good!(load.slot())));
        }
        good!(load.make(Pt, PAGE, 1, at));
        for entry in 0..ENTRIES {
            let mapping = good!(load.slot());
            first.get_or_insert(mapping);
            good!(at.map(entry, 1, frame, 0, RW, mapping));
            all += 1;
        }
    }
    let mut random = Rng::with_seed(lab.seed);
    check!(all == tables * ENTRIES);
    // A Mapping, by itself.
    for _ in 0..200 {
        let which = Load::at(random.u32(..load.used));
        let Ok(what) = which.identify() else { continue };
        if what.ty != Mapping {
            continue;
        }
        good!(which.protect(0, 1, R));
        // Its table is in no address space.
        check!(good!(invoke(which, op::Locate { root: VSPACE.into(), number: 0 })).count == 0);
        let other = good!(load.slot());
        good!(which.move_to(other));
        good!(other.replace(frame, RW));
        good!(other.delete());
    }
    good!(frame.identify());
    let copy = good!(load.slot());
    good!(frame.copy_to(copy));
    good!(frame.move_to(slot(12)));
    good!(copy.delete());
    good!(slot(12).copy_to(frame));
    good!(slot(12).delete());
    // Tables, with all that is mapped in them.
    good!(slot(10).delete());
    good!(slot(11).delete());
    fails!(Empty, slot(10).identify());
    good!(frame.revoke());
    good!(frame.delete());
    good!(load.end());
    Ok(())
}

/// Mappings of a Frame that begin in a part of it and end behind: none of them is the part's.
fn crossing_mappings(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let frame = good!(load.object(Frame, 1024 * PAGE));
    let part = slot(12);
    good!(frame.retype(Frame, 0, 512 * PAGE, 1, part));
    // Of each length, and most of two pages.
    for pages in 1..512u64 {
        let at = good!(load.object(Pt, PAGE));
        let mapping = good!(load.slot());
        let offset = (512 - pages) * PAGE;
        good!(at.map(0, pages as u32 + 1, frame, offset, R, mapping));
    }
    for _ in 0..10 * load.scale {
        let at = good!(load.object(Pt, PAGE));
        for n in 0..ENTRIES / 2 {
            let mapping = good!(load.slot());
            good!(at.map(2 * n, 2, frame, 511 * PAGE, R, mapping));
        }
    }
    for _ in 0..4 {
        good!(part.identify());
        good!(part.copy_to(slot(13)));
        good!(slot(13).delete());
    }
    for n in 0..64 {
        good!(part.retype(Frame, n * 8 * PAGE, PAGE, 1, good!(load.slot())));
    }
    // Those that follow all others in the order.
    for _ in 0..64 {
        good!(part.retype(Frame, 511 * PAGE, PAGE, 1, slot(14)));
        good!(slot(14).delete());
    }
    good!(part.retype(Frame, 511 * PAGE, PAGE, 1, slot(14)));
    good!(slot(14).identify());
    good!(part.revoke());
    good!(part.delete());
    good!(frame.revoke());
    good!(frame.delete());
    good!(load.end());
    Ok(())
}

/// Mappings of 512 pages each, some of them used by the processor.
fn large_mappings(lab: &mut Lab) -> Outcome {
    const LARGE: u64 = 512 * PAGE;
    let mut load = good!(Load::new(lab));
    good!(make_tables(lab));
    let frame = good!(load.object(Frame, LARGE));
    let count = 100 * load.scale;
    let root = slot(13);
    good!(load.make(L1CNode, 64 * 8192, 1, root));
    for n in 0..count {
        let table = good!(load.object(Pt, PAGE));
        good!(table.map(0, ENTRIES, frame, 0, RW, Place::l1(root, n)));
        if n < 16 {
            let va = VA + u64::from(n + 1) * LARGE;
            good!(PD.map(1 + n, 1, table, 0, RWX, good!(load.slot())));
            for page in [0, 1, 200, 511] {
                check!(good!(probe(lab, va + page * PAGE, Access::Write)).is_done());
            }
        }
    }
    for flags in [
        R,
        RW,
        R.or(MapFlags::FLUSH_PAGES),
        RW.or(MapFlags::FLUSH_PAGES),
        R.or(MapFlags::FLUSH_ALL),
    ] {
        for many in [16, 256, 1024, count.min(4096)] {
            match Place::l1(root, 0).protect_many(many, flags) {
                Ok(done) => check!(done == many.min(count)),
                other => fails!(OutOfRange, other),
            }
        }
        good!(Place::l1(root, 0).protect(0, ENTRIES, flags));
    }
    good!(Place::l1(root, 3).unmap(100, 300, good!(load.slot())));
    good!(Place::l1(root, 4).delete());
    good!(frame.revoke());
    good!(frame.delete());
    good!(load.end());
    Ok(())
}

/// One table at very many places: what is forgotten is forgotten everywhere.
fn shared_tables(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    good!(make_tables(lab));
    let table = good!(load.object(Pt, PAGE));
    let frame = good!(load.object(Frame, 512 * PAGE));
    good!(table.map(0, ENTRIES, frame, 0, RW, slot(20)));
    for n in 1..ENTRIES {
        good!(PD.map(n, 1, table, 0, RWX, good!(load.slot())));
    }
    for upper in 0..load.scale.min(100) {
        let pd = good!(load.object(Pd, PAGE));
        for n in 0..ENTRIES {
            good!(pd.map(n, 1, table, 0, RWX, good!(load.slot())));
        }
        good!(crate::probe::PDPT.map(1 + upper, 1, pd, 0, RWX, good!(load.slot())));
    }
    for page in [0, 77, 511] {
        check!(good!(probe(lab, VA + (512 + page) * PAGE, Access::Write)).is_done());
    }
    for flags in [R, RW] {
        for how in [MapFlags(0), MapFlags::FLUSH_PAGES] {
            good!(slot(20).protect(0, ENTRIES, flags.or(how)));
            good!(slot(20).protect(77, 1, flags.or(how)));
            check!(good!(probe(lab, VA + (512 + 77) * PAGE, Access::Read)).is_done());
        }
    }
    for number in [0, 1, 400, 511, 5000, u32::MAX] {
        let _ = invoke(slot(20), op::Locate { root: VSPACE.into(), number });
        let _ = invoke(table, op::Locate { root: VSPACE.into(), number });
    }
    good!(slot(20).unmap(1, 1, slot(21)));
    good!(table.revoke());
    good!(frame.revoke());
    good!(load.end());
    Ok(())
}

/// Frames in Frames, each a page shorter than the one around it, and mapped.
fn nested_frames(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let depth = u64::from(200 * load.scale);
    let outer = good!(load.object(Frame, depth * PAGE));
    let mut inner = outer;
    let table = good!(load.object(Pt, PAGE));
    for n in 1..depth {
        let next = good!(load.slot());
        good!(inner.retype(Frame, 0, (depth - n) * PAGE, 1, next));
        if n % 64 == 0 && n / 64 < 250 {
            good!(table.map(2 * (n / 64) as u32, 2, next, 0, R, good!(load.slot())));
        }
        inner = next;
    }
    // The innermost page, and what is around it.
    good!(inner.identify());
    fails!(OutOfRange, inner.retype(Frame, PAGE, PAGE, 1, slot(20)));
    good!(inner.copy_to(slot(20)));
    good!(inner.delete());
    good!(slot(20).delete());
    for n in (1..depth / 2).rev().step_by(2) {
        good!(Load::at(n as u32).delete());
    }
    good!(outer.delete());
    good!(load.end());
    Ok(())
}
