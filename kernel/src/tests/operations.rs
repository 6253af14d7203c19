//! Many retypes at once, other roots, Ids, comparing, counters.

use super::deletion::{collect, total};
use super::machine::*;
use captypes::invocations::{Part, Word};
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const NODE: u64 = 16384;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn many(dst: CapAddr, parts: &[(CapType, u64, u64, u32)]) -> op::RetypeMany {
    let part = |n: usize| match parts.get(n) {
        Some(&(ty, first, units, count)) => Part::new(ty, first, units, count).unwrap(),
        None => Part::NONE,
    };
    let [p0, p1, p2, p3, p4, p5, p6] = [0, 1, 2, 3, 4, 5, 6].map(part);
    op::RetypeMany { dst: dst.into(), p0, p1, p2, p3, p4, p5, p6 }
}

#[test]
fn parts_cross_as_one_word() {
    let part = Part::new(CapType::Blank, (1 << 26) - 1, (1 << 20) - 1, 4095).unwrap();
    assert_eq!(Part::from_word(part.to_word()), Ok(part));
    let fields = (part.kind(), part.first(), part.units(), part.count());
    assert_eq!(fields, (Some(CapType::Blank.into()), (1 << 26) - 1, (1 << 20) - 1, 4095));
    assert_eq!(part.alone().kind(), None, "a Blank is nobody's");
    let frames = Part::new(CapType::Frame, 1, 2, 3).unwrap().alone();
    assert_eq!(Part::from_word(frames.to_word()).unwrap().kind(), Some(CapType::Frame.alone()));
    assert_eq!((frames.first(), frames.units(), frames.count()), (1, 2, 3));
    assert_eq!(Part::new(CapType::Ram, 1 << 26, 1, 1), None);
    assert_eq!(Part::new(CapType::Ram, 0, 1 << 20, 1), None);
    assert_eq!(Part::new(CapType::Ram, 0, 1, 4096), None);
}

#[test]
fn several_kinds_of_objects_in_one_call() {
    let mut m = Machine::new();
    let all = [
        (CapType::L1CNode, 0, 4, 1),
        (CapType::L2CNode, 4, 4, 2),
        (CapType::Frame, 16, 1, 3),
        (CapType::Pt, 32, 1, 2),
        (CapType::Ram, 64, 64, 2),
        (CapType::Dispatcher, 200, 1, 1),
        (CapType::Endpoint, 201, 1, 1),
    ];
    assert_eq!(m.call(RAM, many(at(20), &all)).unwrap().count, 12);
    let mut slot = 20;
    for (ty, first, units, count) in all {
        for n in 0..u64::from(count) {
            let what = m.call(at(slot), op::Identify {}).unwrap();
            let expected = (ty, FREE + (first + n * units) * 4096, units * 4096);
            assert_eq!((what.ty, what.base, what.bytes), expected);
            slot += 1;
        }
    }
    m.revoke(RAM).unwrap();
    assert_eq!(total(&collect(&mut m)), (12 + 3 + 2 + 128 + 2) * 4096);
}

#[test]
fn all_of_many_retypes_or_none() {
    let mut m = Machine::new();
    m.make(CapType::Frame, 0x8000, 4096, 60);
    let before = m.core.local.caps.db.len();
    use CapType::{Frame, Pt, Ram};
    type Parts<'a> = &'a [(CapType, u64, u64, u32)];
    let wrong: [(Parts, Status); 8] = [
        (&[(Frame, 0, 1, 2), (Pt, 8, 1, 1)], Status::HasDescendants),
        (&[(Frame, 0, 1, 2), (Pt, 1, 1, 1)], Status::OutOfRange),
        (&[(Frame, 2, 1, 2), (Pt, 0, 1, 1)], Status::OutOfRange),
        (&[(Frame, 0, 1, 2), (Pt, 2, 2, 1)], Status::OutOfRange),
        (&[(Frame, 0, 1, 2), (CapType::Mapping, 2, 1, 1)], Status::WrongType),
        (&[(Frame, 0, 1, 2), (Frame, 16, 200, 1), (Frame, 300, 100, 1)], Status::OutOfRange),
        (&[(Ram, 0, 1, 2), (Ram, 1 << 20, 1, 1)], Status::OutOfRange),
        (&[(Ram, 0, 1, 200), (Ram, 300, 1, 100)], Status::NoSlot),
    ];
    for (parts, status) in wrong {
        assert_eq!(m.call(RAM, many(at(20), parts)), Err(status), "{parts:?}");
    }
    m.call(at(60), op::Copy { dst: at(22).into() }).unwrap();
    let parts = [(Frame, 0, 1, 2), (Pt, 2, 1, 2)];
    assert_eq!(m.call(RAM, many(at(20), &parts)), Err(Status::Occupied));
    assert_eq!(m.core.local.caps.db.len(), before + 1);
    assert_eq!(m.call(RAM, many(at(30), &parts)).unwrap().count, 4);
    assert_eq!(m.call(IO, many(at(40), &[(CapType::Io, 0x60, 1, 2)])).unwrap().count, 2);
    assert_eq!(m.call(at(41), op::Identify {}).unwrap().base, 0x61);
    assert_eq!(m.call(RAM, many(at(50), &[])).unwrap().count, 0);
}

#[test]
fn a_root_grows_and_shrinks_under_the_domain() {
    let mut m = Machine::new();
    let second = m.second(0, 16);
    m.make(CapType::L1CNode, 0x10_0000, 4 * NODE, 30);
    m.make(CapType::L2CNode, 0x8000, NODE, 31);
    m.call(at(31), op::Move { dst: Place::l1(ROOT, 200) }).unwrap();
    m.retype(RAM, CapType::Frame, 0x20000, 4096, 3, CapAddr::new(200, 9)).unwrap();
    assert_eq!(m.call(Place::l1(ROOT, 700), op::Identify {}), Err(Status::NoSlot));
    let old_base = m.call(ROOT, op::Identify {}).unwrap().base;

    m.until_done(ROOT, op::Resize { root: at(30).into() }).unwrap();
    let new = m.call(ROOT, op::Identify {}).unwrap();
    assert_eq!((new.base, new.bytes), (FREE + 0x10_0000, 4 * NODE));
    for dcb in [m.dcb, second] {
        assert_eq!((dcb.cspace_base.get(), dcb.cspace_slots.get()), (new.base, 1024));
    }
    let old = m.call(at(30), op::Identify {}).unwrap();
    assert_eq!((old.base, old.bytes, old.relations & 1), (old_base, NODE, 0));
    assert_eq!(m.call(CapAddr::new(200, 9), op::Identify {}).unwrap().base, FREE + 0x20000);
    m.make(CapType::L2CNode, 0xc000, NODE, 32);
    m.call(at(32), op::Move { dst: Place::l1(CapAddr::NULL, 700) }).unwrap();
    m.call(at(6), op::Copy { dst: CapAddr::new(700, 3).into() }).unwrap();
    m.delete(at(30)).unwrap();
    assert!(m.call(CapAddr::new(200, 10), op::Identify {}).is_ok());

    // Smaller again: not while something is at its end.
    m.make(CapType::L1CNode, 0x14_0000, NODE, 30);
    let args = op::Resize { root: at(30).into() };
    assert_eq!(m.call(ROOT, args), Err(Status::OutOfRange));
    m.delete(Place::l1(CapAddr::NULL, 700)).unwrap();
    m.until_done(ROOT, args).unwrap();
    assert_eq!(m.call(ROOT, op::Identify {}).unwrap().bytes, NODE);
    assert_eq!(m.call(Place::l1(CapAddr::NULL, 256), op::Identify {}), Err(Status::NoSlot));
    m.delete(at(30)).unwrap();
    assert!(collect(&mut m).contains(&(FREE + 0x10_0000, 4 * NODE)));
    assert!(m.call(CapAddr::new(200, 11), op::Identify {}).is_ok());
}

#[test]
fn a_root_with_much_in_it_is_resized_in_steps() {
    let mut m = Machine::new();
    m.checking = false;
    let child = m.make(CapType::L1CNode, 0, 8 * NODE, 16);
    let frame = m.make(CapType::Frame, 0x8_0000, 4096, 18);
    // Two thousand capabilities in its root; it can hold any.
    for n in 0..2000 {
        m.call(frame, op::Copy { dst: Place::l1(child, n) }).unwrap();
    }
    let pt = m.make(CapType::Pt, 0x9_0000, 4096, 19);
    let flags = captypes::invocations::MapFlags::READ;
    let mapping = Place::l1(child, 2000);
    m.call(pt, op::Map { entry: 3, count: 1, src: frame.into(), offset: 0, flags, mapping })
        .unwrap();
    m.call(child, op::Copy { dst: at(40).into() }).unwrap();
    let root = m.make(CapType::L1CNode, 0x10_0000, 16 * NODE, 17);
    let third = m.make(CapType::L1CNode, 0x20_0000, NODE, 20);
    let args = op::Resize { root: root.into() };
    assert_eq!(m.call(child, args), Err(Status::Again));
    // Half done: the old root is as it was, the new one belongs to this change.
    assert!(m.call(Place::l1(child, 1999), op::Identify {}).is_ok());
    assert_eq!(m.call(third, args), Err(Status::WrongState));
    m.until_done(child, args).unwrap();
    m.check();
    for at in [child, at(40)] {
        assert_eq!(m.call(at, op::Identify {}).unwrap().bytes, 16 * NODE);
        assert_eq!(m.call(Place::l1(at, 1999), op::Identify {}).unwrap().ty, CapType::Frame);
    }
    assert_eq!(m.call(mapping, op::Identify {}).unwrap().ty, CapType::Mapping);
    assert_eq!(m.call(root, op::Identify {}).unwrap().bytes, 8 * NODE);
    m.delete(root).unwrap();
    m.check();
    assert_eq!(total(&collect(&mut m)), 8 * NODE);
    assert_ne!(m.call(pt, op::ReadEntry { entry: 3 }).unwrap().value, 0);
}

#[test]
fn a_root_is_resized_only_by_another_empty_one() {
    let mut m = Machine::new();
    let (child, next) =
        (m.make(CapType::L1CNode, 0, NODE, 16), m.make(CapType::L1CNode, NODE, NODE, 17));
    let to = |addr: CapAddr| op::Resize { root: addr.into() };
    assert_eq!(m.call(child, to(child)), Err(Status::WrongState));
    assert_eq!(m.call(child, to(RAM)), Err(Status::WrongType));
    assert_eq!(m.call(RAM, to(next)), Err(Status::WrongType));
    m.call(next, op::Copy { dst: at(18).into() }).unwrap();
    assert_eq!(m.call(child, to(next)), Err(Status::WrongState), "others have it too");
    m.delete(at(18)).unwrap();
    m.call(RAM, op::Copy { dst: Place::l1(next, 7) }).unwrap();
    assert_eq!(m.call(child, to(next)), Err(Status::Occupied));
    m.delete(Place::l1(next, 7)).unwrap();
    let weak = Rights::ALL.0 & !Rights::REVOKE.0;
    m.call(child, op::Mint { dst: at(19).into(), rights: Rights(weak), badge: 0 }).unwrap();
    assert_eq!(m.call(at(19), to(next)), Err(Status::NoRights));
    m.call(child, to(next)).unwrap();
    assert_eq!(m.call(at(19), op::Identify {}).unwrap().rights, Rights(weak));
}

#[test]
fn ids_are_fresh_and_can_be_compared() {
    let mut m = Machine::new();
    let a = m.call(ID, op::NewId { dst: at(16).into() }).unwrap().value;
    let b = m.call(ID, op::NewId { dst: at(17).into() }).unwrap().value;
    assert!(b > a);
    let what = m.call(at(17), op::Identify {}).unwrap();
    assert_eq!((what.ty, what.base, what.bytes), (CapType::Id, b, 1));
    m.call(at(16), op::Copy { dst: at(18).into() }).unwrap();
    let mut same = |x: u32, y: CapAddr| {
        m.call(at(x), op::Compare { other: y.into() }).map(|reply| reply.value)
    };
    assert_eq!([same(16, at(18)), same(16, at(17)), same(16, RAM)], [Ok(1), Ok(0), Ok(0)]);
    assert_eq!(same(16, at(50)), Err(Status::Empty));
    // A number comes never again, and only the generator makes them.
    m.delete(at(17)).unwrap();
    assert!(m.call(ID, op::NewId { dst: at(17).into() }).unwrap().value > b);
    assert_eq!(m.call(at(16), op::NewId { dst: at(19).into() }), Err(Status::WrongState));
    assert_eq!(m.call(RAM, op::NewId { dst: at(19).into() }), Err(Status::WrongType));
    assert_eq!(m.retype(ID, CapType::Id, 1, 1, 1, at(19)), Err(Status::WrongType));
    m.revoke(ID).unwrap();
    assert!([16, 17, 18].iter().all(|&n| m.is_empty(at(n))));
}

#[test]
fn counters_need_their_capability_and_a_counter() {
    let mut m = Machine::new();
    let info = m.call(PERFMON, op::PerfInfo {}).unwrap().value;
    assert_eq!(info & 0xffff, 1, "the pretended machine has one programmable counter");
    assert_eq!(m.call(RAM, op::PerfInfo {}), Err(Status::WrongType));
    assert!(m.call(PERFMON, op::PerfProgram { counter: 1, event: 0x1_00c0 }).is_ok());
    let program = |counter, event| op::PerfProgram { counter, event };
    assert_eq!(m.call(PERFMON, program(2, 0x1_00c0)), Err(Status::Unsupported));
    assert_eq!(m.call(PERFMON, program(64, 0x1_0000)), Err(Status::Unsupported));
    // Interrupts, pin control and the like are not for programs.
    assert_eq!(m.call(PERFMON, program(1, 1 << 20)), Err(Status::Invalid));
    assert_eq!(m.call(PERFMON, program(0, 0x1_0000)), Err(Status::WrongState));
    assert!(m.call(PERFMON, op::PerfRead { counter: 0 }).is_ok());
    m.call(PERFMON, op::Mint { dst: at(16).into(), rights: Rights::READ, badge: 0 }).unwrap();
    assert_eq!(m.call(at(16), program(1, 0x1_00c0)), Err(Status::NoRights));
    assert!(m.call(at(16), op::PerfRead { counter: 1 }).is_ok());
}

#[test]
fn ports_need_the_right_to_read_or_write() {
    let mut m = Machine::new();
    m.call(IO, op::Mint { dst: at(16).into(), rights: Rights::READ, badge: 0 }).unwrap();
    m.call(IO, op::Mint { dst: at(17).into(), rights: Rights::WRITE, badge: 0 }).unwrap();
    let (read, write) =
        (op::PortIn { port: 0x80, width: 1 }, op::PortOut { port: 0x80, width: 1, value: 0 });
    assert_eq!(m.call(at(16), read).map(drop), Ok(()));
    assert_eq!(m.call(at(16), write), Err(Status::NoRights));
    assert_eq!(m.call(at(17), read).map(drop), Err(Status::NoRights));
    assert_eq!(m.call(at(17), write), Ok(()));
}

#[test]
fn capabilities_are_listed_in_the_order_of_the_database() {
    let mut m = Machine::new();
    m.call(RAM, many(at(20), &[(CapType::Frame, 0, 1, 2), (CapType::Pt, 2, 1, 1)])).unwrap();
    m.call(at(20), op::Copy { dst: at(30).into() }).unwrap();
    let mut all = Vec::new();
    while let Ok(cap) = m.call(KERNEL, op::CapabilityAt { number: all.len() as u32 }) {
        all.push(cap);
    }
    assert!(all.windows(2).all(|pair| pair[0].base <= pair[1].base));
    let first = all.iter().position(|cap| cap.ty == CapType::Frame && cap.base == FREE).unwrap();
    // Copies are one; what they were made of comes before.
    let made: Vec<_> = all[first..].iter().take(3).map(|cap| (cap.ty, cap.base)).collect();
    let (frame, table) = (CapType::Frame, CapType::Pt);
    assert_eq!(made, [(frame, FREE), (frame, FREE + 4096), (table, FREE + 8192)]);
    assert!(all[..first].iter().any(|cap| cap.ty == CapType::Ram && cap.base <= FREE));
    // Each is in the CNode that was asked to take it, its copy, too.
    let holder =
        |m: &mut Machine, copy| m.call(KERNEL, op::HolderAt { number: first as u32, copy });
    for copy in 0..2 {
        let held = holder(&mut m, copy).unwrap();
        let around = all.iter().find(|cap| cap.base == held.container).map(|cap| cap.ty);
        assert_eq!((held.ty, held.base, around), (frame, FREE, Some(CapType::L2CNode)));
    }
    assert_eq!(holder(&mut m, 2), Err(Status::OutOfRange));
    assert!(m.call(RAM, op::HolderAt { number: 0, copy: 0 }).is_err());
    let behind = op::HolderAt { number: all.len() as u32, copy: 0 };
    assert_eq!(m.call(KERNEL, behind), Err(Status::OutOfRange));
    let behind = op::CapabilityAt { number: all.len() as u32 };
    assert_eq!(m.call(KERNEL, behind), Err(Status::OutOfRange));
    assert!(m.call(RAM, behind).is_err());
}
