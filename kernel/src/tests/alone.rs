//! Write only while alone: each clause of the promise, and that nothing else gets stricter.

use super::machine::*;
use captypes::invocations::{MapFlags, Part};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const IF_ALONE: MapFlags = RW.or(MapFlags::IF_EXCLUSIVE);
const WRITE: u64 = 2;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn in_root(index: u32) -> Place {
    Place::l1(CapAddr::NULL, index)
}

/// A slot of the CNode at root index 1.
fn inside(slot: u32) -> CapAddr {
    CapAddr::new(1, slot)
}

fn is_writable(m: &mut Machine, table: CapAddr, entry: u32) -> bool {
    m.call(table, op::ReadEntry { entry }).unwrap().value & WRITE != 0
}

fn copy(m: &mut Machine, from: impl Into<Place>, to: impl Into<Place>) -> Result<(), Status> {
    m.call(from, op::Copy { dst: to.into() })
}

fn protect(m: &mut Machine, mapping: CapAddr, flags: MapFlags) -> Result<(), Status> {
    m.call(mapping, op::Protect { first: 0, count: 1, flags })
}

/// A table at 16, a Frame at 17, and at root index 1 a CNode; all are written to only while alone.
fn setup() -> Machine {
    let mut m = Machine::new();
    m.make(CapType::Pt.alone(), 0, 4096, 16);
    m.make(CapType::Frame.alone(), 0x10000, 4096, 17);
    m.retype(RAM, CapType::L2CNode.alone(), 0x4000, L2_BYTES, 1, in_root(1)).unwrap();
    m
}

#[test]
fn objects_are_born_so_that_no_holder_can_take_them_from_another() {
    let mut m = setup();
    for place in [at(16).into(), at(17).into(), in_root(1)] {
        assert_eq!(m.call(place, op::Identify {}).unwrap().rights, Rights::ALONE);
        assert_eq!(m.revoke(place), Err(Status::NoRights));
    }
    let mint = op::Mint { dst: at(20).into(), rights: Rights::KNOWN, badge: 0 };
    m.call(at(17), mint).unwrap();
    assert_eq!(m.call(at(20), op::Identify {}).unwrap().rights, Rights::ALONE, "no more by a Mint");
    // Pages of such a Frame would be another way to it.
    m.make(CapType::Frame.alone(), 0x20000, 0x4000, 21);
    for kind in [CapType::Frame.into(), CapType::Frame.alone()] {
        assert_eq!(m.retype(at(21), kind, 0, 4096, 1, at(22)), Err(Status::NoRights));
        assert_eq!(m.retype(at(21), kind, 0, 0x4000, 1, at(22)), Err(Status::NoRights));
    }
    let part = |part: Part| [part, Part::NONE, Part::NONE, Part::NONE, Part::NONE, Part::NONE];
    let [p0, p1, p2, p3, p4, p5] = part(Part::new(CapType::Frame, 1, 1, 1).unwrap());
    let many = op::RetypeMany { dst: at(22).into(), p0, p1, p2, p3, p4, p5, p6: Part::NONE };
    assert_eq!(m.call(at(21), many), Err(Status::NoRights));
    // What is not new may be somebody's already.
    m.make(CapType::Frame, 0x30000, 0x4000, 23);
    assert_eq!(m.retype(at(23), CapType::Frame.alone(), 0, 4096, 1, at(24)), Err(Status::NoRights));
    for ty in CapType::ALL.iter().filter(|ty| !ty.can_be_alone()) {
        assert_eq!(m.retype(RAM, ty.alone(), 0x40000, 4096, 1, at(24)), Err(Status::Invalid));
    }
    let p0 = Part::new(CapType::Frame, 0x40, 1, 2).unwrap().alone();
    m.call(RAM, op::RetypeMany { dst: at(25).into(), p0, ..many }).unwrap();
    assert_eq!(m.call(at(26), op::Identify {}).unwrap().rights, Rights::ALONE);
}

#[test]
fn a_frame_with_copies_gets_no_writable_entry() {
    let mut m = setup();
    let (table, frame) = (at(16), at(17));
    m.map(table, 0, 1, frame, RW, at(30)).unwrap();
    assert!(is_writable(&mut m, table, 0));
    copy(&mut m, frame, at(18)).unwrap();
    for frame in [frame, at(18)] {
        assert_eq!(m.map(table, 1, 1, frame, RW, at(31)), Err(Status::Shared));
        let (src, mapping) = (frame.into(), at(31).into());
        let many = op::MapMany { entry: 1, count: 1, src, flags: RW, mapping };
        assert_eq!(m.call(table, many), Err(Status::Shared));
        m.map(table, 1, 1, frame, IF_ALONE, at(31)).unwrap();
        assert!(!is_writable(&mut m, table, 1));
        assert_eq!(protect(&mut m, at(31), RW), Err(Status::Shared));
        let many = op::ProtectMany { count: 1, flags: RW };
        assert_eq!(m.call(at(31), many), Err(Status::Shared));
        protect(&mut m, at(31), IF_ALONE).unwrap();
        assert!(!is_writable(&mut m, table, 1));
        assert_eq!(m.call(at(31), op::Replace { src, flags: RW }), Err(Status::Shared));
        m.call(at(31), op::Replace { src, flags: IF_ALONE }).unwrap();
        assert!(!is_writable(&mut m, table, 1));
        m.delete(at(31)).unwrap();
    }
    // A plain Frame in the same table has no such condition.
    m.make(CapType::Frame, 0x12000, 4096, 19);
    copy(&mut m, at(19), at(20)).unwrap();
    m.map(table, 2, 1, at(20), RW, at(32)).unwrap();
    assert!(is_writable(&mut m, table, 2));
    m.delete(at(18)).unwrap();
    m.map(table, 1, 1, frame, MapFlags::READ, at(31)).unwrap();
    protect(&mut m, at(31), RW).unwrap();
    assert!(is_writable(&mut m, table, 1));
}

#[test]
fn who_has_the_cnode_has_what_is_in_it() {
    let mut m = setup();
    let (table, frame) = (at(16), inside(5));
    m.call(at(17), op::Move { dst: frame.into() }).unwrap();
    m.map(table, 0, 1, frame, RW, at(30)).unwrap();
    protect(&mut m, at(30), MapFlags::READ).unwrap();
    copy(&mut m, in_root(1), in_root(2)).unwrap();
    for frame in [frame, CapAddr::new(2, 5)] {
        assert_eq!(m.map(table, 1, 1, frame, RW, at(31)), Err(Status::Shared));
        m.map(table, 1, 1, frame, IF_ALONE, at(31)).unwrap();
        assert!(!is_writable(&mut m, table, 1));
        let replace = op::Replace { src: frame.into(), flags: RW };
        assert_eq!(m.call(at(31), replace), Err(Status::Shared));
        m.delete(at(31)).unwrap();
    }
    assert_eq!(protect(&mut m, at(30), RW), Err(Status::Shared));
    let many = op::ProtectMany { count: 1, flags: IF_ALONE };
    m.call(at(30), many).unwrap();
    assert!(!is_writable(&mut m, table, 0));
    m.delete(in_root(1)).unwrap();
    protect(&mut m, at(30), RW).unwrap();
    assert!(is_writable(&mut m, table, 0));
    // The CNode alone decides, not whether its own slots may change.
    m.retype(RAM, CapType::L2CNode, 0x8000, L2_BYTES, 1, in_root(1)).unwrap();
    m.call(CapAddr::new(2, 5), op::Move { dst: frame.into() }).unwrap();
    copy(&mut m, in_root(1), in_root(3)).unwrap();
    assert_eq!(m.map(table, 1, 1, frame, RW, at(31)), Err(Status::Shared));
}

/// Every invocation that fills, empties or uses up slots, on some of the CNode at root index 1.
fn changes(m: &mut Machine) -> Vec<(&'static str, Result<(), Status>)> {
    let (table, free) = (at(16), Place::own(inside(9)));
    let [ram, plain, frame, mapping] = [RAM, at(60), inside(5), inside(6)];
    let none = Part::NONE;
    let p0 = Part::new(CapType::Frame, 0x60, 1, 1).unwrap();
    let many = op::RetypeMany {
        dst: free,
        p0,
        p1: none,
        p2: none,
        p3: none,
        p4: none,
        p5: none,
        p6: none,
    };
    let page = op::RetypeCopy {
        offset: 0x70000,
        src: plain.into(),
        src_offset: 0,
        dst: free,
        bytes: 4096,
        alone: true,
    };
    let in_place = op::RetypeCopy { src: frame.into(), dst: frame.into(), ..page };
    let map_many = op::MapMany { entry: 9, count: 1, src: plain.into(), flags: RW, mapping: free };
    let (ty, only, rights) = (CapType::Frame.into(), CapType::Null, Rights::ALL);
    let unmap = op::Unmap { first: 0, count: 1, rest: Place::NULL, flags: MapFlags::default() };
    let id = |m: &mut Machine| m.call(ID, op::NewId { dst: free }).map(|_| ());
    vec![
        ("Copy", m.call(plain, op::Copy { dst: free })),
        ("Mint", m.call(plain, op::Mint { dst: free, rights, badge: 0 })),
        ("Move to", m.call(plain, op::Move { dst: free })),
        ("Move from", m.call(frame, op::Move { dst: at(61).into() })),
        (
            "Retype",
            m.call(ram, op::Retype { ty, offset: 0x50000, bytes: 4096, count: 1, dst: free }),
        ),
        ("RetypeMany", m.call(ram, many).map(|_| ())),
        ("RetypeCopy", m.call(ram, page)),
        ("RetypeCopy in place", m.call(ram, in_place)),
        ("CopyRange", m.call(plain, op::CopyRange { dst: free, count: 1, only }).map(|_| ())),
        ("Map", m.map(table, 9, 1, at(60), RW, inside(9))),
        ("MapMany", m.call(table, map_many).map(|_| ())),
        ("NewId", id(m)),
        ("Protect", protect(m, mapping, MapFlags::READ)),
        ("ProtectMany", m.call(mapping, op::ProtectMany { count: 1, flags: RW }).map(|_| ())),
        ("Replace", m.call(mapping, op::Replace { src: plain.into(), flags: RW })),
        ("Unmap", m.call(mapping, unmap)),
        ("Delete", m.delete(frame)),
        ("DeleteRange", m.until_done(frame, op::DeleteRange { count: 1 }).map(|_| ())),
    ]
}

#[test]
fn slots_change_only_while_the_cnode_is_alone() {
    let mut m = setup();
    m.call(at(17), op::Move { dst: inside(5).into() }).unwrap();
    m.make(CapType::Frame, 0x14000, 4096, 60);
    m.map(at(16), 0, 1, at(60), RW, inside(6)).unwrap();
    copy(&mut m, in_root(1), in_root(2)).unwrap();
    for (name, result) in changes(&mut m) {
        assert_eq!(result, Err(Status::Shared), "{name}");
    }
    // To read is no change.
    m.call(inside(5), op::Identify {}).unwrap();
    copy(&mut m, inside(5), at(62)).unwrap();
    m.delete(at(62)).unwrap();
    m.delete(in_root(2)).unwrap();
    copy(&mut m, at(60), inside(9)).unwrap();
    m.delete(inside(9)).unwrap();
    // Without the right there is no change at all.
    let mint = op::Mint { dst: in_root(2), rights: Rights::READ, badge: 0 };
    m.call(in_root(1), mint).unwrap();
    m.delete(in_root(1)).unwrap();
    m.call(in_root(2), op::Move { dst: in_root(1) }).unwrap();
    for (name, result) in changes(&mut m) {
        assert_eq!(result, Err(Status::NoRights), "{name}");
    }
    // Nor does it keep the CNode alive.
    m.delete(in_root(1)).unwrap();
    assert_eq!(m.call(at(16), op::ReadEntry { entry: 0 }).unwrap().value, 0);
}

#[test]
fn entries_change_only_while_the_table_is_alone() {
    let mut m = setup();
    let (table, plain) = (at(16), m.make(CapType::Frame, 0x14000, 4096, 60));
    m.map(table, 0, 1, plain, RW, at(30)).unwrap();
    copy(&mut m, table, at(20)).unwrap();
    let (src, flags) = (plain.into(), RW);
    let unmap = op::Unmap { first: 0, count: 1, rest: Place::NULL, flags };
    for table in [table, at(20)] {
        let many = op::MapMany { entry: 1, count: 1, src, flags, mapping: at(31).into() };
        assert_eq!(m.map(table, 1, 1, plain, RW, at(31)), Err(Status::Shared));
        assert_eq!(m.call(table, many), Err(Status::Shared));
        let bits = captypes::invocations::StatusBits::ALL;
        let clear = op::ClearStatus { entry: 0, count: 1, bits };
        assert_eq!(m.call(table, clear), Err(Status::Shared));
        m.call(table, op::ReadEntry { entry: 0 }).unwrap();
    }
    let mapping = at(30);
    assert_eq!(protect(&mut m, mapping, MapFlags::READ), Err(Status::Shared));
    let many = op::ProtectMany { count: 1, flags };
    assert_eq!(m.call(mapping, many), Err(Status::Shared));
    assert_eq!(m.call(mapping, op::Replace { src, flags }), Err(Status::Shared));
    assert_eq!(m.call(mapping, unmap), Err(Status::Shared));
    assert_eq!(m.delete(mapping), Err(Status::Shared));
    let range = m.until_done(mapping, op::DeleteRange { count: 1 });
    assert_eq!(range, Err(Status::Shared));
    assert!(is_writable(&mut m, table, 0));
    m.delete(table).unwrap();
    m.delete(mapping).unwrap();
    assert_eq!(m.call(at(20), op::ReadEntry { entry: 0 }).unwrap().value, 0);
}

/// Two Frames of the one kind at 40 and 41, one of the other at 42, mapped writable in the table; the
/// table in a directory at 21 by the Mapping at 22.
fn populated() -> Machine {
    let mut m = setup();
    m.make(CapType::Pd, 0x1000, 4096, 21);
    m.map(at(21), 0, 1, at(16), RW, at(22)).unwrap();
    m.retype(RAM, CapType::Frame.alone(), 0x80000, 4096, 2, at(40)).unwrap();
    m.make(CapType::Frame, 0x90000, 4096, 42);
    for n in 0..3 {
        m.map(at(16), n, 1, at(40 + n), RW, at(50 + n)).unwrap();
    }
    m
}

fn writable(m: &mut Machine, table: CapAddr) -> [bool; 3] {
    [0, 1, 2].map(|n| is_writable(m, table, n))
}

#[test]
fn nobody_writes_through_a_shared_table() {
    let mut m = populated();
    copy(&mut m, at(16), at(20)).unwrap();
    protect(&mut m, at(22), MapFlags::READ).unwrap();
    assert_eq!(protect(&mut m, at(22), RW), Err(Status::Shared));
    for (n, table) in [(1, at(16)), (2, at(20))] {
        assert_eq!(m.map(at(21), n, 1, table, RW, at(30 + n)), Err(Status::Shared));
        m.map(at(21), n, 1, table, MapFlags::READ, at(30 + n)).unwrap();
        assert_eq!(protect(&mut m, at(30 + n), RW), Err(Status::Shared));
    }
    assert_eq!(writable(&mut m, at(16)), [true; 3], "the entries stay");
}

#[test]
fn who_is_left_with_a_table_finds_its_entries_lowered() {
    for by in ["Protect", "ProtectMany", "Map", "MapMany"] {
        let mut m = populated();
        copy(&mut m, at(16), at(20)).unwrap();
        protect(&mut m, at(22), MapFlags::READ).unwrap();
        // The other takes one page along when it goes.
        copy(&mut m, at(41), at(43)).unwrap();
        m.delete(at(20)).unwrap();
        assert_eq!(writable(&mut m, at(16)), [true; 3]);
        let (src, mapping) = (at(16).into(), at(31).into());
        match by {
            "Protect" => protect(&mut m, at(22), RW).unwrap(),
            "ProtectMany" => drop(m.call(at(22), op::ProtectMany { count: 1, flags: RW }).unwrap()),
            "Map" => m.map(at(21), 1, 1, at(16), RW, at(31)).unwrap(),
            _ => {
                let many = op::MapMany { entry: 1, count: 1, src, flags: RW, mapping };
                assert_eq!(m.call(at(21), many).unwrap().count, 1);
            }
        }
        assert_eq!(writable(&mut m, at(16)), [false, false, true], "{by}");
        m.call(at(50), op::ProtectMany { count: 2, flags: IF_ALONE }).unwrap();
        assert_eq!(writable(&mut m, at(16)), [true, false, true], "{by}");
        // Once is enough.
        protect(&mut m, at(22), MapFlags::READ).unwrap();
        protect(&mut m, at(22), RW).unwrap();
        assert_eq!(writable(&mut m, at(16)), [true, false, true], "{by}");
    }
}

#[test]
fn a_table_that_was_lent_may_have_been_moved() {
    let mut m = populated();
    protect(&mut m, at(22), MapFlags::READ).unwrap();
    copy(&mut m, at(16), at(20)).unwrap();
    m.delete(at(16)).unwrap();
    m.call(at(20), op::Move { dst: at(16).into() }).unwrap();
    protect(&mut m, at(22), RW).unwrap();
    assert_eq!(writable(&mut m, at(16)), [false, false, true]);
}

#[test]
fn a_page_is_copied_unless_nobody_else_has_it() {
    let mut m = setup();
    let frame = inside(5);
    m.call(at(17), op::Move { dst: frame.into() }).unwrap();
    let copy_in_place = |offset, frame: CapAddr| op::RetypeCopy {
        offset,
        src: frame.into(),
        src_offset: 0,
        dst: frame.into(),
        bytes: 4096,
        alone: true,
    };
    assert_eq!(m.call(RAM, copy_in_place(0x50000, frame)), Err(Status::WrongState));
    // To the CNode next door, as a process that leaves its parent does.
    m.retype(RAM, CapType::L2CNode.alone(), 0x8000, L2_BYTES, 1, in_root(2)).unwrap();
    copy(&mut m, frame, CapAddr::new(2, 5)).unwrap();
    m.call(RAM, copy_in_place(0x50000, frame)).unwrap();
    let found = m.call(frame, op::Identify {}).unwrap();
    assert_eq!((found.base, found.rights), (FREE + 0x50000, Rights::ALONE));
    assert_eq!(m.call(RAM, copy_in_place(0x51000, CapAddr::new(2, 5))), Err(Status::WrongState));
}

#[test]
fn what_was_alone_is_not_remembered_when_it_is_something_else() {
    let mut m = setup();
    let (table, frame) = (at(16), inside(5));
    m.call(at(17), op::Move { dst: frame.into() }).unwrap();
    m.map(table, 0, 1, frame, RW, at(30)).unwrap();
    m.delete(at(30)).unwrap();
    // The memory of the CNode becomes a root, of which a dispatcher and a slot have a capability.
    m.delete(in_root(1)).unwrap();
    while m.call(KERNEL, op::CollectReclaimed {}).unwrap().bytes0 != 0 {}
    m.make(CapType::L1CNode, 0x4000, L2_BYTES, 20);
    m.make(CapType::Frame.alone(), 0x10000, 4096, 17);
    let slot = Place::l1(at(20), 5);
    m.call(at(17), op::Move { dst: slot }).unwrap();
    let map = |entry, src, mapping| {
        let (flags, mapping) = (RW, CapAddr(mapping).into());
        op::Map { entry, count: 1, src, offset: 0, flags, mapping }
    };
    m.call(table, map(0, slot, 30)).unwrap();
    copy(&mut m, at(20), at(21)).unwrap();
    assert_eq!(m.call(table, map(1, slot, 31)), Err(Status::Shared));
    m.delete(at(21)).unwrap();
    m.call(table, map(1, slot, 31)).unwrap();
}

#[test]
fn a_message_does_not_change_a_shared_cnode() {
    let mut m = setup();
    m.make(CapType::Endpoint, 0x2000, 4096, 40);
    copy(&mut m, in_root(1), in_root(2)).unwrap();
    m.make(CapType::Frame, 0x14000, 4096, 60);
    m.second(0x20000, 70);
    // The second one waits for a message, with slots in the shared CNode.
    let (own, other) = (m.dcb, m.slot(at(70)).cap());
    let other = crate::object::Obj::of(&other).unwrap();
    m.core.local.sched.block();
    crate::events::leave(&mut m.core);
    assert_eq!(m.current(), Some(other));
    let receive = |m: &mut Machine, slot: CapAddr| {
        let mut args = [0; 9];
        args[7] = Place::own(slot).0;
        m.raw_words(captypes::Label::ReplyRecv as u64, u64::from(at(40).0), args);
    };
    receive(&mut m, inside(9));
    m.core.local.sched.wake(own);
    m.run();
    assert_eq!(m.current(), Some(own));
    let mut args = [0; 9];
    args[6] = Place::own(at(60)).0;
    m.raw_words(captypes::Label::Call as u64 | 1 << 16, u64::from(at(40).0), args);
    assert_eq!(m.current(), Some(other));
    assert_eq!(other.ctx.r13.get(), 0, "no capability has arrived");
    assert!(m.is_empty(inside(9)) && !m.is_empty(at(60)));
}
