//! Pools of which nothing survives: objects that are made with pages, pages that are made ahead, and records that go.

use super::machine::*;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Status};

const R: MapFlags = MapFlags::READ;
const RW: MapFlags = R.or(MapFlags::WRITE);
const POOL: CapAddr = CapAddr(40);
const CHUNK: CapAddr = CapAddr(41);
const PD: CapAddr = CapAddr(43);
const PDPT: CapAddr = CapAddr(42);
const OBJECT: CapAddr = CapAddr(60);
const MIB2: u64 = 2 << 20;
const POOL_AT: u64 = 1 << 20;
const REST: u64 = POOL_AT + 2 * MIB2;
/// What entry 1 of the directory translates.
const SECOND: u64 = (1 << 30) + MIB2;

/// A machine with a volatile pool of 2 MiB, and a directory for addresses from 1 GiB on.
fn machine() -> Machine {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Pool, POOL_AT, MIB2, 1, POOL).unwrap();
    m.until_done(POOL, op::FormatVolatile { first: FREE + POOL_AT, pages: 0 }).unwrap();
    m.retype(RAM, CapType::Ram, POOL_AT + MIB2, MIB2, 1, CHUNK).unwrap();
    m.until_done(POOL, op::AddChunk { memory: CHUNK.into() }).unwrap();
    m.make(CapType::Pdpt, REST, 4096, PDPT.0);
    m.make(CapType::Pd, REST + 0x1000, 4096, PD.0);
    m.map(VSPACE, 0, 1, PDPT, RW, CapAddr(50)).unwrap();
    m.map(PDPT, 1, 1, PD, RW, CapAddr(51)).unwrap();
    m
}

fn free(m: &mut Machine) -> u64 {
    m.call(POOL, op::PoolInfo {}).unwrap().free
}

fn make(m: &mut Machine, order: u32, limit: u64, pages: u64, slot: CapAddr) -> Result<u64, Status> {
    let made = m.until_done(POOL, op::MakeMorsel { order, limit, pages, dst: slot.into() });
    made.map(|made| made.pages)
}

/// How many pages of an object are there.
fn there(m: &mut Machine, slot: CapAddr) -> u64 {
    let (mut first, mut pages) = (0, 0);
    while first < 512 {
        let survey = op::SurveyMorsel { first, count: 512 - first, until: 0 };
        let seen = m.until_done(slot, survey).unwrap();
        (first, pages) = (seen.next, pages + seen.pages);
    }
    pages
}

fn fault(m: &mut Machine, write: bool, page: u64) -> bool {
    let (core, dcb) = (&mut m.core.local, m.dcb);
    let error = if write { 6 } else { 4 };
    let served = crate::operations::morsels::show(core, dcb, error, SECOND + page * 4096);
    m.check();
    served
}

#[test]
fn an_object_is_made_with_its_limit_and_pages() {
    let mut m = machine();
    let before = free(&mut m);
    assert_eq!(make(&mut m, 1, 10_000, 2, OBJECT), Ok(2));
    assert_eq!(m.call(OBJECT, op::MorselInfo {}).unwrap().limit, 10_000);
    // With the root, and the page of records.
    assert_eq!((there(&mut m, OBJECT), before - free(&mut m)), (2, 4));
    // No more than it may have, nor than 64.
    assert_eq!(make(&mut m, 1, 10_000, 100, CapAddr(61)), Ok(3));
    assert_eq!(make(&mut m, 1, 1 << 20, 100, CapAddr(62)), Ok(64));
    assert_eq!(there(&mut m, CapAddr(62)), 64);
    assert_eq!(make(&mut m, 0, 5, 1, CapAddr(63)), Ok(1));
    assert_eq!(make(&mut m, 1, MIB2 + 1, 0, CapAddr(64)), Err(Status::OutOfRange));
    assert_eq!(make(&mut m, 5, 0, 0, CapAddr(64)), Err(Status::OutOfRange));
    // As many as there are.
    let left = free(&mut m);
    let object = CapAddr(65);
    for n in 0..left / 65 {
        assert_eq!(make(&mut m, 1, MIB2, 64, object.plus(n as u32)), Ok(64));
    }
    let rest = free(&mut m) - 1;
    assert_eq!(make(&mut m, 1, MIB2, 64, CapAddr(90)), Ok(rest));
    assert_eq!(make(&mut m, 1, MIB2, 0, CapAddr(91)), Err(Status::NoMemory));
    m.check();
}

#[test]
fn who_goes_on_finds_pages_and_who_does_not_has_few() {
    let mut m = machine();
    make(&mut m, 1, 200 * 4096, 0, OBJECT).unwrap();
    m.map(PD, 1, 1, OBJECT, RW, CapAddr(61)).unwrap();
    // A page, its neighbour, and as many behind as there are before, up to 64.
    let steps =
        [(190, 1), (0, 2), (1, 4), (3, 8), (7, 16), (15, 32), (31, 64), (63, 128), (127, 192)];
    for (page, expected) in steps {
        assert!(fault(&mut m, true, page), "page {page}");
        assert_eq!(there(&mut m, OBJECT), expected, "page {page}");
    }
    // Over a page that is there to the limit, and not behind it.
    assert!(fault(&mut m, true, 192));
    assert_eq!(there(&mut m, OBJECT), 200);
    assert!(!fault(&mut m, true, 200));
}

#[test]
fn a_hole_that_may_be_stored_to_is_a_page_when_it_is_read() {
    let mut m = machine();
    make(&mut m, 1, MIB2, 0, OBJECT).unwrap();
    m.map(PD, 1, 1, OBJECT, RW, CapAddr(61)).unwrap();
    assert!(fault(&mut m, false, 7));
    assert_eq!(there(&mut m, OBJECT), 1);
    m.call(CapAddr(61), op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert!(fault(&mut m, false, 9));
    assert_eq!(there(&mut m, OBJECT), 1);
}

#[test]
fn records_that_nobody_needs_give_their_page_back() {
    let mut m = machine();
    let mut before = 0;
    for n in 0..80 {
        if n == 63 {
            before = free(&mut m);
        }
        make(&mut m, 0, 4096, 1, CapAddr(100 + n)).unwrap();
    }
    // Records 64 to 80 have a page of their own; 0 is not one of these.
    assert_eq!(before - free(&mut m), 17 + 1);
    for n in (63..80).rev() {
        m.until_done(CapAddr(100 + n), op::DestroyMorsel {}).unwrap();
    }
    assert_eq!(free(&mut m), before);
    // The first one stays.
    for n in 0..63 {
        m.until_done(CapAddr(100 + n), op::DestroyMorsel {}).unwrap();
    }
    assert_eq!(free(&mut m), before + 63);
    make(&mut m, 0, 4096, 1, OBJECT).unwrap();
    assert_eq!(free(&mut m), before + 62);
    m.check();
}
