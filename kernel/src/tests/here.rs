//! Rights that a program takes from pages and gives back by itself: it never gets one that it was not given.

use super::machine::*;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Rights, Status};

const R: MapFlags = MapFlags::READ;
const RX: MapFlags = MapFlags::READ.or(MapFlags::EXEC);
const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const RWX: MapFlags = RW.or(MapFlags::EXEC);
const PAGE: u64 = 4096;
const VA: u64 = 1 << 39;
const PT: CapAddr = CapAddr(22);
const DIRECTORY: CapAddr = CapAddr(21);
const ABOVE_PT: CapAddr = CapAddr(32);
const FRAME: CapAddr = CapAddr(40);
const MAPPING: CapAddr = CapAddr(41);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// Tables at 512 GiB, the last of which, and a Frame of one page that it shows, are written to only while alone.
fn setup() -> Machine {
    let mut m = Machine::new();
    m.make(CapType::Pdpt, 0, PAGE, 20);
    m.make(CapType::Pd, PAGE, PAGE, DIRECTORY.0);
    m.make(CapType::Pt.alone(), 2 * PAGE, PAGE, PT.0);
    m.map(VSPACE, 1, 1, at(20), RWX, at(30)).unwrap();
    m.map(at(20), 0, 1, DIRECTORY, RWX, at(31)).unwrap();
    m.map(DIRECTORY, 0, 1, PT, RWX, ABOVE_PT).unwrap();
    m.make(CapType::Frame.alone(), 0x10000, PAGE, FRAME.0);
    m.map(PT, 0, 1, FRAME, RWX, MAPPING).unwrap();
    m
}

fn here(m: &mut Machine, flags: MapFlags) -> Result<(), Status> {
    m.call(DISPATCHER, op::ProtectHere { at: VA, bytes: PAGE, flags })
}

/// May the page be written to, and executed?
fn rights(m: &mut Machine) -> (bool, bool) {
    m.check();
    let entry = m.call(PT, op::ReadEntry { entry: 0 }).unwrap().value;
    (entry & 2 != 0, entry >> 63 == 0)
}

#[test]
fn what_was_taken_can_be_given_back() {
    let mut m = setup();
    for (flags, expected) in [
        (R, (false, false)),
        (RX, (false, true)),
        (RW, (true, false)),
        (RWX, (true, true)),
        (R, (false, false)),
        (RWX, (true, true)),
    ] {
        here(&mut m, flags).unwrap();
        assert_eq!(rights(&mut m), expected);
    }
}

#[test]
fn nothing_is_given_back_that_home_has_taken_since() {
    let mut m = setup();
    for (taken, left) in [(R, (false, false)), (RX, (false, true)), (RW, (true, false))] {
        here(&mut m, R).unwrap();
        m.call(MAPPING, op::Protect { first: 0, count: 1, flags: taken }).unwrap();
        here(&mut m, RWX).unwrap();
        assert_eq!(rights(&mut m), left);
        m.call(MAPPING, op::Protect { first: 0, count: 1, flags: RWX }).unwrap();
        here(&mut m, R).unwrap();
        m.call(MAPPING, op::ProtectMany { count: 1, flags: taken }).unwrap();
        here(&mut m, RWX).unwrap();
        assert_eq!(rights(&mut m), left);
        m.call(MAPPING, op::Protect { first: 0, count: 1, flags: RWX }).unwrap();
    }
    // A mapping of many pages.
    m.make(CapType::Frame, 0x20000, 8 * PAGE, 50);
    m.map(PT, 1, 8, at(50), RWX, at(51)).unwrap();
    let all = |flags| op::ProtectHere { at: VA + PAGE, bytes: 8 * PAGE, flags };
    m.call(DISPATCHER, all(R)).unwrap();
    m.call(at(51), op::Protect { first: 0, count: 8, flags: R }).unwrap();
    m.call(DISPATCHER, all(RWX)).unwrap();
    for entry in 1..9 {
        assert_eq!(m.call(PT, op::ReadEntry { entry }).unwrap().value & 2, 0);
    }
}

#[test]
fn a_right_that_was_never_given_is_not_there_to_be_taken_back() {
    let mut m = setup();
    m.delete(MAPPING).unwrap();
    m.map(PT, 0, 1, FRAME, R, MAPPING).unwrap();
    here(&mut m, RWX).unwrap();
    assert_eq!(rights(&mut m), (false, false));
    here(&mut m, R).unwrap();
    here(&mut m, RWX).unwrap();
    assert_eq!(rights(&mut m), (false, false));
}

#[test]
fn what_is_lent_is_not_written_to() {
    let mut m = setup();
    m.make(CapType::Frame, 0x20000, PAGE, 50);
    m.call(MAPPING, op::Replace { src: at(50).into(), flags: RW }).unwrap();
    here(&mut m, R).unwrap();
    let (dst, copies) = (at(51).into(), captypes::Place::NULL);
    let (count, offset, bytes) = (1, 0, PAGE);
    let lend = op::Lend { count, offset, bytes, rights: Rights::READ, lower: true, dst, copies };
    m.call(at(50), lend).unwrap();
    here(&mut m, RW).unwrap();
    assert_eq!(rights(&mut m), (false, false));
}

/// As after a fork, when the other one has gone: what the entries of the table allow may be of another time.
#[test]
fn a_table_that_others_have_had_gives_nothing_back() {
    let mut m = setup();
    here(&mut m, RX).unwrap();
    m.call(ABOVE_PT, op::Protect { first: 0, count: 1, flags: RX }).unwrap();
    m.call(PT, op::Copy { dst: at(60).into() }).unwrap();
    // Others may have it now.
    assert_eq!(here(&mut m, RWX), Err(Status::Unsupported));
    assert_eq!(here(&mut m, R), Err(Status::Unsupported));
    m.call(FRAME, op::Copy { dst: at(61).into() }).unwrap();
    m.delete(at(60)).unwrap();
    m.call(ABOVE_PT, op::Protect { first: 0, count: 1, flags: RWX }).unwrap();
    here(&mut m, RWX).unwrap();
    assert_eq!(rights(&mut m), (false, true), "somebody else has the page");
}

#[test]
fn only_whole_pages_of_programs_and_not_many() {
    let mut m = setup();
    for (at, bytes) in [
        (VA + 1, PAGE),
        (VA, PAGE - 1),
        (VA, 0),
        (VA, 513 * PAGE),
        (u64::MAX - PAGE + 1, PAGE),
        ((1 << 47) - PAGE, 2 * PAGE),
        (1 << 63, PAGE),
    ] {
        let call = op::ProtectHere { at, bytes, flags: R };
        assert_eq!(m.call(DISPATCHER, call), Err(Status::OutOfRange), "{at:#x} {bytes:#x}");
    }
    assert_eq!(rights(&mut m), (true, true));
    // Nothing is there: nothing to do.
    m.call(DISPATCHER, op::ProtectHere { at: 1 << 40, bytes: 512 * PAGE, flags: R }).unwrap();
    m.call(DISPATCHER, op::ProtectHere { at: VA, bytes: 512 * PAGE, flags: R }).unwrap();
    assert_eq!(rights(&mut m), (false, false));
    // A large page is home's.
    // (The memory of the machine begins 1 MiB behind a multiple of 2 MiB.)
    m.make(CapType::Frame, 3 << 20, 2 << 20, 50);
    m.map(DIRECTORY, 1, 1, at(50), RW, at(51)).unwrap();
    let call = op::ProtectHere { at: VA + (2 << 20), bytes: PAGE, flags: R };
    assert_eq!(m.call(DISPATCHER, call), Err(Status::Unsupported));
}
