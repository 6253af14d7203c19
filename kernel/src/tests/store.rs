//! Pages of objects that leave for slots, and come back.

use super::machine::*;
use crate::object::{mem, Walk};
use crate::operations::morsels::{self, Served};
use abi::dispatcher::{processor_error, slot_in, with_slot};
use captypes::invocations::{MapFlags, PagedOut};
use captypes::{op, CapAddr, CapType, Rights, Status};
use std::sync::atomic::Ordering::Relaxed;
use std::vec::Vec;

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const HEAD: CapAddr = CapAddr(40);
const OBJECT: CapAddr = CapAddr(60);
const BUFFER: CapAddr = CapAddr(44);
const MIB2: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// Of the RAM: the head, a Chunk behind it, then tables and Frames.
const HEAD_AT: u64 = 1 << 20;
const CHUNK: u64 = HEAD_AT + MIB2;
const REST: u64 = CHUNK + MIB2;
/// Where the buffer is mapped, of nine pages, and 1 GiB behind that the object.
const AT: u64 = 1 << 30;
/// The first tree behind all memory.
const TREE: u64 = 1;
/// Its first slot.
const SLOT: u64 = TREE << 12;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A pool with 2 MiB of memory and 16 MiB of slots, and an object of it of 600 pages, of which
/// `pages` are there and have their numbers in them.
fn machine(pages: u64) -> Machine {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Pool, HEAD_AT, MIB2, 1, HEAD).unwrap();
    m.until_done(HEAD, op::FormatVolatile { first: FREE + HEAD_AT, pages: 0 }).unwrap();
    m.retype(RAM, CapType::Ram, CHUNK, MIB2, 1, at(70)).unwrap();
    m.until_done(HEAD, op::AddChunk { memory: at(70).into() }).unwrap();
    assert_eq!(m.call(HEAD, op::AddSlots { tree: TREE }).unwrap().value, SLOT);
    m.make(CapType::Pdpt, REST, PAGE, 41);
    m.make(CapType::Pd, REST + 0x1000, PAGE, 42);
    m.make(CapType::Pt, REST + 0x2000, PAGE, 43);
    m.make(CapType::Frame, REST + 0x4000, 9 * PAGE, 44);
    m.map(VSPACE, 0, 1, at(41), RW, at(50)).unwrap();
    m.map(at(41), 1, 1, at(42), RW, at(51)).unwrap();
    m.map(at(42), 0, 1, at(43), RW, at(52)).unwrap();
    m.map(at(43), 0, 9, at(44), RW, at(53)).unwrap();
    m.until_done(HEAD, op::CreateMorsel { order: 2, dst: OBJECT.into() }).unwrap();
    m.until_done(OBJECT, op::LimitMorsel { bytes: 600 * PAGE }).unwrap();
    (0..pages).for_each(|page| write(&mut m, page, page + 100));
    m
}

fn word(m: &Machine, va: u64) -> mem::PoolWord {
    let pa = Walk::new(m.dcb.root.get(), true).page(va).expect("it can be written").0;
    mem::PoolWord::at(pa)
}

fn buffer(m: &Machine, n: u64) -> u64 {
    word(m, AT + n * PAGE).cell().load(Relaxed)
}

/// Through the last page of the buffer.
fn write(m: &mut Machine, page: u64, value: u64) {
    word(m, AT + 8 * PAGE).cell().store(value, Relaxed);
    let args = op::WriteMorsel { offset: page * PAGE, from: AT + 8 * PAGE, bytes: 8 };
    assert_eq!(m.call(OBJECT, args).unwrap().bytes, 8);
}

/// `None`: it is in a slot.
fn read(m: &mut Machine, page: u64) -> Option<u64> {
    let args = op::ReadMorsel { offset: page * PAGE, to: AT + 8 * PAGE, bytes: 8 };
    match m.call(OBJECT, args) {
        Ok(copied) if copied.bytes == 8 => Some(buffer(m, 8)),
        _ => None,
    }
}

fn out(m: &mut Machine, page: u64, pages: u64) -> Result<PagedOut, Status> {
    m.until_done(
        HEAD,
        op::PageOut { record: 1, page, pages, tree: TREE, buffer: BUFFER.into(), offset: 0 },
    )
}

fn come_in(m: &mut Machine, page: u64, count: u64, slot: u64) -> Result<u64, Status> {
    let args = op::PageIn { record: 1, page, count, slot, buffer: BUFFER.into(), offset: 0 };
    m.until_done(HEAD, args).map(|value| value.value)
}

/// Free pages and slots.
fn free(m: &mut Machine) -> (u64, u64) {
    let facts = m.call(HEAD, op::PoolInfo {}).unwrap();
    (facts.free, facts.slots)
}

#[test]
fn a_row_of_pages_leaves_with_one_invocation_and_comes_back() {
    let mut m = machine(20);
    assert_eq!(m.until_done(OBJECT, op::DiscardMorsel { first: 3, count: 1 }).unwrap().value, 4);
    let before = free(&mut m);
    // Of the first eight that are asked for, one is not there.
    let left = out(&mut m, 5, 0xffff).unwrap();
    assert_eq!(left, PagedOut { slot: SLOT, pages: 0xf7 });
    assert_eq!(free(&mut m), (before.0 + 7, before.1 - 7));
    let pages: Vec<u64> = (0..8).filter(|&page| page != 3).collect();
    for (n, &page) in (0..).zip(&pages) {
        assert_eq!(buffer(&m, n), page + 100);
        assert_eq!(m.call(HEAD, op::SlotOf { record: 1, page }).unwrap().value, SLOT + n);
        assert_eq!(read(&mut m, page), None);
    }
    assert_eq!((read(&mut m, 3), read(&mut m, 8)), (Some(0), Some(108)));
    // Those that are out do not leave once more.
    assert_eq!(out(&mut m, 0, 0xff), Err(Status::Empty));
    assert_eq!(out(&mut m, 0, 0), Err(Status::Empty));
    assert_eq!(free(&mut m), (before.0 + 7, before.1 - 7));
    // They come where their slots are: up to the hole, and not behind it from the wrong ones.
    assert_eq!(come_in(&mut m, 0, 8, SLOT + 1), Err(Status::Empty));
    assert_eq!(come_in(&mut m, 0, 0, SLOT), Err(Status::Empty));
    assert_eq!(come_in(&mut m, 0, 8, SLOT), Ok(3));
    (0..8).for_each(|n| word(&m, AT + n * PAGE).cell().store(n + 500, Relaxed));
    assert_eq!(come_in(&mut m, 4, 2, SLOT + 3), Ok(2));
    assert_eq!(come_in(&mut m, 6, u64::MAX, SLOT + 5), Ok(2));
    let found: Vec<_> = (0..9).map(|page| read(&mut m, page)).collect();
    let expected = [100, 101, 102, 0, 500, 501, 500, 501, 108];
    assert_eq!(found, expected.map(Some));
    assert_eq!(free(&mut m), before);
}

#[test]
fn what_shows_the_object_shows_pages_that_left_no_more() {
    let mut m = machine(70);
    m.map(at(41), 2, 1, OBJECT, RW, at(61)).unwrap();
    let shown = |m: &Machine, page: u64| {
        Walk::new(m.dcb.root.get(), false).page(2 * AT + page * PAGE).is_some()
    };
    assert!((60..70).all(|page| shown(&m, page)));
    // Some of a row; those of the next are no concern of it.
    assert_eq!(out(&mut m, 63, 0b1011 << 60).unwrap().pages, 0b1011 << 60);
    let there: Vec<_> = (60..70).filter(|&page| shown(&m, page)).collect();
    assert_eq!(there, [62, 64, 65, 66, 67, 68, 69]);
    assert_eq!((buffer(&m, 0), buffer(&m, 1), buffer(&m, 2)), (160, 161, 163));
}

#[test]
fn slots_that_follow_each_other_are_taken_where_there_are_as_many() {
    let mut m = machine(8);
    assert_eq!(out(&mut m, 0, 0b11), Ok(PagedOut { slot: SLOT, pages: 0b11 }));
    assert_eq!(come_in(&mut m, 0, 1, SLOT), Ok(1));
    // One slot is free before that of page 1: for one it is enough, and for three there is room behind.
    assert_eq!(out(&mut m, 0, 0b11100), Ok(PagedOut { slot: SLOT + 2, pages: 0b11100 }));
    assert_eq!(out(&mut m, 0, 0b1), Ok(PagedOut { slot: SLOT, pages: 0b1 }));
    let before = free(&mut m);
    let mut left = |tree| {
        m.until_done(
            HEAD,
            op::PageOut {
                record: 1,
                page: 0,
                pages: 1 << 5,
                tree,
                buffer: BUFFER.into(),
                offset: 0,
            },
        )
    };
    for tree in [0, 2, u64::MAX] {
        assert_eq!(left(tree), Err(Status::Occupied));
    }
    assert_eq!(free(&mut m), before);
}

#[test]
fn pages_come_in_while_there_is_memory_and_up_to_the_end_of_a_table() {
    let mut m = machine(0);
    (508..516).for_each(|page| write(&mut m, page, page));
    assert_eq!(out(&mut m, 448, 0xf << 60).unwrap().slot, SLOT);
    assert_eq!(out(&mut m, 512, 0xf).unwrap().slot, SLOT + 4);
    assert_eq!(come_in(&mut m, 508, 8, SLOT), Ok(4));
    let mut first = 0;
    // All but two.
    while free(&mut m).0 > 2 {
        let args = op::PopulateMorsel { first, count: 1, large: false };
        first = m.until_done(OBJECT, args).unwrap().value;
    }
    assert_eq!(come_in(&mut m, 512, 4, SLOT + 4), Ok(2));
    assert_eq!(come_in(&mut m, 514, 2, SLOT + 6), Err(Status::NoMemory));
    assert_eq!(m.call(HEAD, op::SlotOf { record: 1, page: 514 }).unwrap().value, SLOT + 6);
}

#[test]
fn wrong_arguments_change_nothing() {
    let mut m = machine(8);
    let before = free(&mut m);
    // One that cannot be written to, and what is no Frame.
    m.call(BUFFER, op::Mint { dst: at(45).into(), rights: Rights::READ, badge: 0 }).unwrap();
    let args = |page, pages, (buffer, offset): (CapAddr, u64)| {
        let buffer = buffer.into();
        op::PageOut { record: 1, page, pages, tree: TREE, buffer, offset }
    };
    for (page, pages, to, error) in [
        (0, 1, (BUFFER, 8), Status::OutOfRange),
        (0, 0xff, (BUFFER, 2 * PAGE), Status::OutOfRange),
        (0, 1, (BUFFER, 9 * PAGE), Status::OutOfRange),
        (0, 0xff, (BUFFER, 0u64.wrapping_sub(2 * PAGE)), Status::OutOfRange),
        (0, 1, (at(45), 0), Status::NoRights),
        (0, 1, (at(46), 0), Status::Empty),
        (0, 1, (HEAD, 0), Status::WrongType),
        (0, 1, (OBJECT, 0), Status::WrongType),
        (640, u64::MAX, (BUFFER, 0), Status::OutOfRange),
        (u64::MAX, u64::MAX, (BUFFER, 0), Status::OutOfRange),
    ] {
        assert_eq!(
            m.until_done(HEAD, args(page, pages, to)),
            Err(error),
            "{page} {pages:#x} {to:?}"
        );
    }
    let buffer = BUFFER.into();
    let unknown = op::PageOut { record: 9, page: 0, pages: 1, tree: TREE, buffer, offset: 0 };
    assert!(m.until_done(HEAD, unknown).is_err());
    assert_eq!(free(&mut m), before);
    assert_eq!((0..8).filter_map(|page| read(&mut m, page)).count(), 8);
    out(&mut m, 0, 3).unwrap();
    for (count, slot) in [(1, u64::MAX), (2, u64::MAX - 1), (1, 1 << 40)] {
        assert_eq!(come_in(&mut m, 0, count, slot), Err(Status::OutOfRange));
    }
    let from = |buffer: CapAddr, offset| {
        let buffer = buffer.into();
        op::PageIn { record: 1, page: 0, count: 2, slot: SLOT, buffer, offset }
    };
    assert_eq!(m.until_done(HEAD, from(BUFFER, 1)), Err(Status::OutOfRange));
    assert_eq!(m.until_done(HEAD, from(BUFFER, 8 * PAGE)), Err(Status::OutOfRange));
    assert_eq!(m.until_done(HEAD, from(at(46), 0)), Err(Status::Empty));
    assert_eq!(m.until_done(HEAD, from(OBJECT, 0)), Err(Status::WrongType));
    assert_eq!(free(&mut m), (before.0 + 2, before.1 - 2));
}

/// What the library of who has faulted is told: where the page is, for as long as it is there.
#[test]
fn a_fault_on_a_page_in_a_slot_says_which() {
    let mut m = machine(20);
    m.map(at(41), 2, 1, OBJECT, RW, at(54)).unwrap();
    let fault = |m: &mut Machine, page: u64| {
        let (dcb, address) = (m.dcb, (2 << 30) + page * PAGE);
        let below = morsels::below(dcb, 6, address).expect("it is below an entry of the object");
        morsels::show_page(&mut m.core.local, dcb, (6, address), below)
    };
    // A hole.
    assert_eq!(fault(&mut m, 30), Served::Yes);
    assert_eq!(out(&mut m, 0, 0xf0), Ok(PagedOut { slot: SLOT, pages: 0xf0 }));
    for page in 4..8 {
        assert_eq!(fault(&mut m, page), Served::Out(SLOT + page - 4));
    }
    assert_eq!((fault(&mut m, 3), fault(&mut m, 8)), (Served::Yes, Served::Yes));
    assert_eq!(come_in(&mut m, 5, 1, SLOT + 1), Ok(1));
    assert_eq!((fault(&mut m, 5), fault(&mut m, 6)), (Served::Yes, Served::Out(SLOT + 2)));
    // Behind the limit there is nothing.
    assert_eq!(fault(&mut m, 600), Served::No);
}

#[test]
fn an_error_code_has_room_for_a_slot() {
    for slot in [0, 1, u64::from(u32::MAX) - 1] {
        let error = with_slot(7, slot);
        assert_eq!((slot_in(error), processor_error(error)), (Some(slot), 7));
    }
    assert_eq!(with_slot(7, u32::MAX.into()), 7);
    assert_eq!((slot_in(7), processor_error(7)), (None, 7));
}
