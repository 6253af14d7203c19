//! Rights: what a capability allows, what was asked for, and what the table above allows.

use crate::probe::{make_tables, probe, Access, PD, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::captypes::invocations::MapFlags;
use libos::testkit::Outcome;
use libos::vspace::{R, RW, RWX, RX};
use libos::{check, fails, good, Cap, CapType, Rights};

pub const TESTS: &[Test] = &[
    ("rights_of_capabilities", of_capabilities),
    ("rights_of_slices", of_slices),
    ("rights_by_processor", by_processor),
    ("rights_of_tables", of_tables),
    ("rights_of_tables_minted", of_tables_minted),
];

const PAGE: u64 = 4096;
const ALL_FLAGS: [MapFlags; 4] = [R, RW, RX, RWX];

fn needed(flags: MapFlags) -> Rights {
    let right = |flag, right| if flags.has(flag) { right } else { Rights::NONE };
    right(MapFlags::READ, Rights::READ)
        .or(right(MapFlags::WRITE, Rights::WRITE))
        .or(right(MapFlags::EXEC, Rights::EXEC))
}

/// Every set of rights with every set of flags: map and protect agree with the rule.
fn of_capabilities(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    for bits in 0..8 {
        let rights = Rights(bits);
        good!(slot(0).mint(slot(1), rights));
        for flags in ALL_FLAGS {
            let result = PT.map(0, 1, slot(1), 0, flags, slot(2));
            if rights.has(needed(flags)) {
                good!(result);
                for wanted in ALL_FLAGS {
                    let result = slot(2).protect(0, 1, wanted);
                    let many = slot(2).protect_many(1, wanted);
                    if rights.has(needed(wanted)) {
                        good!(result);
                        good!(many);
                    } else {
                        fails!(NoRights, result);
                        fails!(NoRights, many);
                    }
                }
                good!(slot(2).delete());
            } else {
                fails!(NoRights, result);
                fails!(NoRights, PT.map_many(0, 1, slot(1), flags, slot(2)));
            }
        }
        good!(slot(1).delete());
    }
    Ok(())
}

fn of_slices(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, 4 * PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ));
    good!(slot(1).retype(CapType::Frame, PAGE, PAGE, 1, slot(2)));
    good!(slot(2).copy_to(slot(3)));
    fails!(NoRights, PT.map(0, 1, slot(3), 0, RW, slot(4)));
    good!(PT.map(0, 1, slot(3), 0, R, slot(4)));
    fails!(NoRights, slot(4).protect(0, 1, RW));
    fails!(NoRights, slot(4).protect(0, 1, RX));
    Ok(())
}

fn by_processor(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0, &[0xc3]));
    for flags in ALL_FLAGS {
        good!(PT.map(0, 1, slot(0), 0, flags, slot(1)));
        check!(good!(probe(lab, VA, Access::Read)).is_done());
        let execute = good!(probe(lab, VA, Access::Execute));
        if flags.has(MapFlags::EXEC) {
            check!(execute.is_done());
        } else {
            check!(execute.is_forbidden(VA, Access::Execute));
        }
        let write = good!(probe(lab, VA + 8, Access::Write));
        if flags.has(MapFlags::WRITE) {
            check!(write.is_done());
        } else {
            check!(write.is_forbidden(VA + 8, Access::Write));
        }
        good!(slot(1).delete());
    }
    Ok(())
}

/// The rights of an upper-level entry hold for everything below it.
fn of_tables(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0, &[0xc3]));
    good!(PT.map(0, 1, slot(0), 0, RWX, slot(1)));
    check!(good!(probe(lab, VA, Access::Execute)).is_done());
    good!(PT_MAPPING.protect(0, 1, RX));
    check!(good!(probe(lab, VA, Access::Write)).is_forbidden(VA, Access::Write));
    check!(good!(probe(lab, VA, Access::Execute)).is_done());
    good!(PT_MAPPING.protect(0, 1, RW));
    check!(good!(probe(lab, VA, Access::Execute)).is_forbidden(VA, Access::Execute));
    check!(good!(probe(lab, VA + 8, Access::Write)).is_done());
    // The same table at two places, with different rights at each.
    good!(PD.map(1, 1, PT, 0, R, slot(2)));
    let second = VA + (2 << 20);
    check!(good!(probe(lab, second, Access::Write)).is_forbidden(second, Access::Write));
    check!(good!(probe(lab, second + 8, Access::Read)).is_done());
    check!(good!(probe(lab, VA + 8, Access::Write)).is_done());
    Ok(())
}

fn of_tables_minted(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(PT.mint(slot(0), Rights::READ));
    fails!(NoRights, PD.map(1, 1, slot(0), 0, RWX, slot(1)));
    good!(PD.map(1, 1, slot(0), 0, R, slot(1)));
    fails!(NoRights, slot(1).protect(0, 1, RW));
    Ok(())
}
