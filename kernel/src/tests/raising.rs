//! Limits that a program raises by itself: only as far as the owner of the object has allowed, and only of what it may write to where it runs.

use super::chunks::{machine, populate, ram};
use super::machine::*;
use super::morsels::{at, fault, peek, poke, AT, PD, R, READ, RW, SECOND, WRITE};
use captypes::{op, CapAddr, CapType, Rights, Status};

const HEAD: CapAddr = CapAddr(40);
const OBJECT: CapAddr = CapAddr(60);
/// The Mapping by which it is shown at [`SECOND`].
const MAPPING: CapAddr = CapAddr(61);
/// Of the RAM, behind what the pool gets.
const TABLES: u64 = (1 << 20) + 6 * (2 << 20);
const PAGE: u64 = 4096;

/// A machine with an object of four pages in a pool that grows.
fn setup() -> Machine {
    let mut m = machine();
    ram(&mut m, 0, 1, 70);
    m.until_done(HEAD, op::AddChunk { memory: at(70).into() }).unwrap();
    m.make(CapType::Pdpt, TABLES, PAGE, 41);
    m.make(CapType::Pd, TABLES + PAGE, PAGE, 42);
    m.map(VSPACE, 0, 1, at(41), RW, at(50)).unwrap();
    m.map(at(41), 1, 1, PD, RW, at(51)).unwrap();
    m.until_done(HEAD, op::CreateMorsel { order: 1, dst: OBJECT.into() }).unwrap();
    limit(&mut m, 4);
    m.map(PD, 1, 1, OBJECT, RW, MAPPING).unwrap();
    m
}

fn limit(m: &mut Machine, pages: u64) {
    m.until_done(OBJECT, op::LimitMorsel { bytes: pages * PAGE }).unwrap();
}

/// Answers up to which page.
fn allow(m: &mut Machine, pages: u64) -> Result<u64, Status> {
    m.call(OBJECT, op::AllowRaising { pages }).map(|most| most.value / PAGE)
}

fn raise_at(m: &mut Machine, at: u64, from: u64, to: u64) -> Result<(), Status> {
    let raised = m.call(DISPATCHER, op::RaiseHere { at, from, to });
    m.check();
    raised
}

fn raise(m: &mut Machine, from: u64, to: u64) -> Result<(), Status> {
    raise_at(m, SECOND, from * PAGE, to * PAGE)
}

fn pages(m: &mut Machine) -> u64 {
    m.call(OBJECT, op::MorselInfo {}).unwrap().limit / PAGE
}

fn may_write(m: &mut Machine, page: u64) -> bool {
    fault(m, WRITE, SECOND + page * PAGE)
}

const BEYOND: Result<(), Status> = Err(Status::OutOfRange);
const REFUSED: Result<(), Status> = Err(Status::Unsupported);

#[test]
fn a_limit_is_raised_as_far_as_is_allowed_and_no_farther() {
    let mut m = setup();
    // Nothing is allowed at first.
    assert_eq!((raise(&mut m, 4, 5), raise(&mut m, 4, 4)), (BEYOND, Ok(())));
    assert_eq!(allow(&mut m, 10), Ok(14));
    assert!(!may_write(&mut m, 4));
    assert_eq!((raise(&mut m, 4, 7), pages(&mut m)), (Ok(()), 7));
    assert!(may_write(&mut m, 6) && !may_write(&mut m, 7));
    assert_eq!(peek(&m, SECOND + 6 * PAGE), 0);
    // What it is not, less than it is, and more than is left.
    for (from, to) in [(4, 8), (6, 9), (8, 9), (7, 15), (7, 6), (7, 0), (7, u64::MAX / PAGE)] {
        assert_eq!(raise(&mut m, from, to), BEYOND, "{from} {to}");
    }
    for (from, to) in [(7 * PAGE, 8 * PAGE + 1), (7 * PAGE + 8, 8 * PAGE), (7 * PAGE, u64::MAX)] {
        assert_eq!(raise_at(&mut m, SECOND, from, to), BEYOND, "{from:x} {to:x}");
    }
    assert_eq!((raise(&mut m, 7, 14), raise(&mut m, 14, 15), pages(&mut m)), (Ok(()), BEYOND, 14));
    // Not more than the object has tables for, and fewer than before.
    assert_eq!((allow(&mut m, u64::MAX), allow(&mut m, 2)), (Ok(512), Ok(16)));
    assert_eq!((raise(&mut m, 14, 17), raise(&mut m, 14, 16)), (BEYOND, Ok(())));
}

/// What its owner says counts, and nothing that was behind is seen.
#[test]
fn who_sets_a_limit_ends_what_was_allowed() {
    let mut m = setup();
    for (set, end) in [(3, 4), (8, 9), (4, 5)] {
        limit(&mut m, 4);
        assert_eq!((allow(&mut m, 8), raise(&mut m, 4, 6)), (Ok(12), Ok(())));
        assert!(may_write(&mut m, 5));
        poke(&m, SECOND + 5 * PAGE, 7);
        limit(&mut m, set);
        assert_eq!((raise(&mut m, set, end), pages(&mut m)), (BEYOND, set));
        assert_eq!(allow(&mut m, 8), Ok(set + 8));
        assert_eq!(raise(&mut m, set, set + 8), Ok(()));
        assert!(may_write(&mut m, 5));
        assert_eq!(peek(&m, SECOND + 5 * PAGE) != 0, set > 5, "{set}");
    }
    // A limit inside a page.
    m.until_done(OBJECT, op::LimitMorsel { bytes: 2 * PAGE + 8 }).unwrap();
    assert_eq!(allow(&mut m, 8), Err(Status::Unsupported));
}

#[test]
fn only_where_it_may_write_does_a_program_raise_a_limit() {
    let mut m = setup();
    allow(&mut m, 100).unwrap();
    for at in [AT, SECOND + (2 << 20), 0, 1 << 46, 1 << 47, u64::MAX, SECOND - 1] {
        assert_eq!(raise_at(&mut m, at, 4 * PAGE, 5 * PAGE), REFUSED, "{at:x}");
    }
    m.call(MAPPING, op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert_eq!(raise(&mut m, 4, 5), REFUSED);
    m.call(MAPPING, op::Protect { first: 0, count: 1, flags: RW }).unwrap();
    assert_eq!(raise_at(&mut m, SECOND + (2 << 20) - 1, 4 * PAGE, 5 * PAGE), Ok(()));
    m.call(at(51), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert_eq!(raise(&mut m, 5, 6), REFUSED);
    m.call(at(51), op::Protect { first: 0, count: 1, flags: RW }).unwrap();
    m.delete(MAPPING).unwrap();
    assert_eq!((raise(&mut m, 5, 6), pages(&mut m)), (REFUSED, 5));
    // Only the owner allows it.
    m.call(
        OBJECT,
        op::Mint { dst: at(62).into(), rights: Rights::READ.or(Rights::WRITE), badge: 0 },
    )
    .unwrap();
    assert_eq!(m.call(at(62), op::AllowRaising { pages: 1 }), Err(Status::NoRights));
}

/// A snapshot may become as large as the original, and each does for itself.
#[test]
fn a_snapshot_is_raised_by_itself() {
    let mut m = setup();
    assert!(may_write(&mut m, 3));
    allow(&mut m, 4).unwrap();
    m.until_done(OBJECT, op::SnapshotMorsel { dst: at(63).into() }).unwrap();
    m.map(PD, 2, 1, at(63), RW, at(64)).unwrap();
    let third = SECOND + (2 << 20);
    assert_eq!(raise_at(&mut m, third, 4 * PAGE, 8 * PAGE), Ok(()));
    assert_eq!(raise_at(&mut m, third, 8 * PAGE, 9 * PAGE), BEYOND);
    assert_eq!((pages(&mut m), raise(&mut m, 4, 5)), (4, Ok(())));
    assert!(fault(&mut m, WRITE, third + 7 * PAGE) && !may_write(&mut m, 7));
    assert!(may_write(&mut m, 4));
    poke(&m, SECOND + 4 * PAGE, 5);
    assert!(fault(&mut m, READ, third + 4 * PAGE));
    assert_eq!(peek(&m, third + 4 * PAGE), 0);
}

/// All of what was raised goes with the object.
#[test]
fn nothing_is_left_of_what_was_raised() {
    let mut m = setup();
    let free = m.call(HEAD, op::PoolInfo {}).unwrap().free;
    allow(&mut m, 508).unwrap();
    raise(&mut m, 4, 300).unwrap();
    assert_eq!(populate(&mut m, 60, 0, 300), Ok(300));
    m.delete(MAPPING).unwrap();
    m.until_done(OBJECT, op::DestroyMorsel {}).unwrap();
    // And its root.
    assert_eq!(m.call(HEAD, op::PoolInfo {}).unwrap().free, free + 1);
}

fn extend(m: &mut Machine, bytes: u64, first: u64) -> Result<u64, Status> {
    let made = m.call(OBJECT, op::ExtendMorsel { bytes, first }).map(|next| next.value);
    m.check();
    made
}

/// Which of its pages are there, up to a page.
fn is_there(m: &mut Machine, pages: u64) -> Vec<bool> {
    let mut is_there = |first| {
        let survey = op::SurveyMorsel { first, count: 1, until: 0 };
        m.call(OBJECT, survey).unwrap().pages == 1
    };
    (0..pages).map(&mut is_there).collect()
}

#[test]
fn what_is_made_larger_has_its_pages_at_once() {
    let mut m = setup();
    assert_eq!((extend(&mut m, 6 * PAGE, 4), pages(&mut m)), (Ok(6), 6));
    assert_eq!(is_there(&mut m, 6), [false, false, false, false, true, true]);
    assert_eq!(peek(&m, SECOND + 5 * PAGE), 0);
    poke(&m, SECOND + 5 * PAGE, 7);
    // As large, or smaller: nothing is done.
    for bytes in [6 * PAGE, 5 * PAGE, 0] {
        assert_eq!(
            (extend(&mut m, bytes, 0), pages(&mut m)),
            (extended_not(bytes), 6),
            "{bytes:x}"
        );
    }
    assert!(!is_there(&mut m, 1)[0]);
    // A hole stays between, and what is there stays.
    assert_eq!(extend(&mut m, 10 * PAGE, 9), Ok(10));
    assert_eq!(is_there(&mut m, 10)[4..], [true, true, false, false, false, true]);
    assert_eq!(extend(&mut m, 11 * PAGE, 5), Ok(11));
    assert_eq!(
        (is_there(&mut m, 11)[5..].to_vec(), peek(&m, SECOND + 5 * PAGE)),
        (vec![true; 6], 7)
    );
    // Not more than it has tables for.
    assert_eq!(
        (extend(&mut m, 200 * PAGE, 100), is_there(&mut m, 200)[100..] == [true; 100]),
        (Ok(200), true)
    );
    assert_eq!(extend(&mut m, 600 * PAGE, 512), Err(Status::OutOfRange));
}

/// Of no page nothing is asked, and nothing is done.
fn extended_not(bytes: u64) -> Result<u64, Status> {
    match bytes {
        0 => Ok(0),
        _ => Err(Status::Unsupported),
    }
}

/// What somebody may have written behind a limit inside a page is not cleared by this.
#[test]
fn a_size_inside_a_page_is_not_made_larger_at_once() {
    let mut m = setup();
    assert!(may_write(&mut m, 2));
    m.until_done(OBJECT, op::LimitMorsel { bytes: 2 * PAGE + 8 }).unwrap();
    poke(&m, SECOND + 2 * PAGE + 16, 9);
    assert_eq!(extend(&mut m, 5 * PAGE, 3), Err(Status::Unsupported));
    limit(&mut m, 5);
    assert_eq!(peek(&m, SECOND + 2 * PAGE + 16), 0);
    assert_eq!(extend(&mut m, 6 * PAGE, 5), Ok(6));
}

/// Who may write to it does not decide how large it is.
#[test]
fn only_its_owner_makes_it_larger_at_once() {
    let mut m = setup();
    let rights = Rights::READ.or(Rights::WRITE);
    m.call(OBJECT, op::Mint { dst: at(62).into(), rights, badge: 0 }).unwrap();
    let wanted = op::ExtendMorsel { bytes: 5 * PAGE, first: 4 };
    assert_eq!(m.call(at(62), wanted), Err(Status::NoRights));
    assert_eq!(pages(&mut m), 4);
}
