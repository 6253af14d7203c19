//! Objects that a program hides by itself, with all that is in them: only such as home lets it hide, and they are seen again only as home has shown them.

use super::machine::*;
use super::morsels::{
    at, create, fault, free, machine, page, peek, poke, AT, PD, PT, R, READ, RW, SECOND, WRITE,
};
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, Rights, Status};

/// The Mapping by which the object in slot 60 is shown at [`SECOND`].
const MAPPING: CapAddr = CapAddr(61);
const BYTES: u64 = 2 << 20;

/// A machine with an object that the program may hide.
fn setup() -> Machine {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.map(PD, 1, 1, at(60), RW, MAPPING).unwrap();
    allow(&mut m, true).unwrap();
    m
}

fn allow(m: &mut Machine, allow: bool) -> Result<(), Status> {
    m.call(MAPPING, op::AllowHiding { allow })
}

fn hide(m: &mut Machine, first: u32, end: u32) -> Result<u64, Status> {
    let reached = m.call(DISPATCHER, op::HideHere { at: SECOND, first, end });
    m.check();
    reached.map(|reached| reached.value)
}

fn show(m: &mut Machine) -> Result<(), Status> {
    let shown = m.call(DISPATCHER, op::ShowHere { at: SECOND });
    m.check();
    shown
}

fn is_shown(m: &Machine) -> bool {
    page(m, SECOND, false).is_some()
}

/// Puts something into the first pages.
fn fill(m: &mut Machine, pages: u64) {
    for n in 0..pages {
        assert!(fault(m, WRITE, SECOND + n * 4096));
        poke(m, SECOND + n * 4096, 1 + n);
    }
}

#[test]
fn what_is_hidden_is_seen_by_nobody_and_empty_when_it_is_shown_again() {
    let mut m = setup();
    let before = free(&mut m);
    for round in 0..5 {
        fill(&mut m, 64);
        assert_eq!(free(&mut m), before - 64, "round {round}");
        assert_eq!(hide(&mut m, 0, 64), Ok(64));
        assert_eq!(free(&mut m), before);
        assert!(!is_shown(&m));
        // A fault does not bring it back, nor make pages.
        assert!(!fault(&mut m, WRITE, SECOND) && !fault(&mut m, READ, SECOND + 4096));
        assert_eq!(free(&mut m), before);
        // Nor is it hidden twice, or by an entry that is no more.
        assert_eq!(hide(&mut m, 0, 64), Ok(64));
        show(&mut m).unwrap();
        assert!(fault(&mut m, WRITE, SECOND + 5 * 4096));
        assert_eq!(peek(&m, SECOND + 5 * 4096), 0);
        assert_eq!(hide(&mut m, 0, 64), Ok(64));
        show(&mut m).unwrap();
        // What is shown can be shown.
        show(&mut m).unwrap();
    }
    m.delete(MAPPING).unwrap();
    assert_eq!(free(&mut m), before);
}

/// An event takes a bounded number of pages.
#[test]
fn much_goes_in_several_events() {
    let mut m = setup();
    let before = free(&mut m);
    fill(&mut m, 512);
    let (mut reached, mut events) = (0, 0);
    while reached < 512 {
        let next = hide(&mut m, reached as u32, 512).unwrap();
        assert!(next > reached && next - reached <= 256);
        assert!(!is_shown(&m));
        (reached, events) = (next, events + 1);
    }
    assert_eq!((events, free(&mut m)), (2, before));
    show(&mut m).unwrap();
    assert_eq!(page(&m, SECOND + 511 * 4096, false), None);
    // As many pages as are asked for.
    fill(&mut m, 8);
    assert_eq!(hide(&mut m, 2, 6), Ok(6));
    show(&mut m).unwrap();
    let left: Vec<u64> = (0..8).filter(|n| page(&m, SECOND + n * 4096, false).is_some()).collect();
    assert_eq!(left, [0, 1, 6, 7]);
}

#[test]
fn only_what_home_lets_it_hide_is_hidden_and_shown() {
    let mut m = setup();
    fill(&mut m, 2);
    allow(&mut m, false).unwrap();
    assert_eq!(
        (hide(&mut m, 0, 64), show(&mut m)),
        (Err(Status::Unsupported), Err(Status::Unsupported))
    );
    assert_eq!(peek(&m, SECOND + 4096), 2);
    allow(&mut m, true).unwrap();
    assert_eq!(hide(&mut m, 0, 64), Ok(64));
    // Home shows it.
    allow(&mut m, false).unwrap();
    assert!(fault(&mut m, WRITE, SECOND) && is_shown(&m));
    allow(&mut m, true).unwrap();
    // Home has taken it away, and shows something else there: who comes late does nothing.
    hide(&mut m, 0, 64).unwrap();
    m.delete(MAPPING).unwrap();
    assert_eq!((show(&mut m), is_shown(&m)), (Err(Status::Unsupported), false));
    create(&mut m, 1, 70);
    m.map(PD, 1, 1, at(70), RW, MAPPING).unwrap();
    fill(&mut m, 2);
    assert_eq!(
        (hide(&mut m, 0, 64), show(&mut m)),
        (Err(Status::Unsupported), Err(Status::Unsupported))
    );
    assert_eq!(peek(&m, SECOND), 1);
    for address in [SECOND + 4096, AT, SECOND + BYTES, 1 << 46, 1 << 47, !(BYTES - 1), 0] {
        let hidden = m.call(DISPATCHER, op::HideHere { at: address, first: 0, end: 512 });
        assert!(hidden.is_err(), "{address:x}");
        assert!(m.call(DISPATCHER, op::ShowHere { at: address }).is_err(), "{address:x}");
    }
    allow(&mut m, true).unwrap();
    assert_eq!(hide(&mut m, 0, 513), Err(Status::OutOfRange));
    assert!(is_shown(&m));
    assert_eq!(hide(&mut m, 9, 5), Ok(9));
}

#[test]
fn what_may_not_be_written_to_may_not_be_hidden() {
    let mut m = machine();
    create(&mut m, 1, 60);
    m.call(at(60), op::Mint { dst: at(62).into(), rights: Rights::READ, badge: 0 }).unwrap();
    m.map(PD, 1, 1, at(62), R, MAPPING).unwrap();
    assert_eq!(allow(&mut m, true), Err(Status::NoRights));
    // Nor pages, nor tables of programs.
    m.map(PT, 3, 1, at(60), RW, at(63)).unwrap();
    for mapping in [at(63), at(52), at(51)] {
        assert_eq!(m.call(mapping, op::AllowHiding { allow: true }), Err(Status::Unsupported));
    }
    // A table that the program cannot write to may be others', too.
    m.delete(MAPPING).unwrap();
    m.delete(at(63)).unwrap();
    m.map(PD, 1, 1, at(60), RW, MAPPING).unwrap();
    allow(&mut m, true).unwrap();
    m.call(at(51), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert_eq!(
        (hide(&mut m, 0, 64), show(&mut m)),
        (Err(Status::Unsupported), Err(Status::Unsupported))
    );
}

#[test]
fn rights_are_those_that_home_has_given_last() {
    let mut m = setup();
    hide(&mut m, 0, 64).unwrap();
    m.call(MAPPING, op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert!(!is_shown(&m));
    show(&mut m).unwrap();
    assert!(!fault(&mut m, WRITE, SECOND) && fault(&mut m, READ, SECOND));
    m.call(MAPPING, op::Protect { first: 0, count: 1, flags: RW }).unwrap();
    assert!(fault(&mut m, WRITE, SECOND));
}

/// What others show of the object is gone as well, since it has nothing any more; and pages that are shown one by one are home's to take away.
#[test]
fn others_who_show_the_object_see_nothing_either() {
    let mut m = setup();
    m.map(PD, 2, 1, at(60), RW, at(64)).unwrap();
    fill(&mut m, 3);
    assert_eq!(peek(&m, SECOND + BYTES), 1);
    assert_eq!(hide(&mut m, 0, 64), Ok(64));
    assert_eq!(page(&m, SECOND + BYTES, false), None);
    assert!(fault(&mut m, WRITE, SECOND + BYTES));
    assert_eq!(peek(&m, SECOND + BYTES), 0);
    show(&mut m).unwrap();
    assert!(is_shown(&m));
    let flags: MapFlags = RW;
    let (src, mapping) = (at(60).into(), at(65).into());
    m.call(PT, op::Map { entry: 3, count: 1, src, offset: 0, flags, mapping }).unwrap();
    assert_eq!((hide(&mut m, 0, 64), is_shown(&m)), (Err(Status::Unsupported), true));
    m.delete(at(65)).unwrap();
    assert_eq!(hide(&mut m, 0, 64), Ok(64));
}
