//! Entries and their Mappings.

use super::machine::*;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Rights, Status};

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const WRITE: u64 = 2;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn entry(m: &mut Machine, table: CapAddr, entry: u32) -> u64 {
    m.call(table, op::ReadEntry { entry }).unwrap().value
}

fn setup() -> (Machine, CapAddr) {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    (m, pt)
}

#[test]
fn many_pages_are_one_mapping() {
    let (mut m, pt) = setup();
    let frame = m.make(CapType::Frame, 0x10000, 512 * 4096, 17);
    m.map(pt, 0, 512, frame, RW, at(18)).unwrap();
    assert_eq!(entry(&mut m, pt, 511) & !0xfff & !(1 << 63), FREE + 0x10000 + 511 * 4096);
    assert_eq!(m.map(pt, 511, 1, frame, RW, at(19)), Err(Status::Occupied));
    m.delete(at(18)).unwrap();
    assert_eq!(entry(&mut m, pt, 511), 0);
}

#[test]
fn unmap_shrinks_and_splits() {
    let (mut m, pt) = setup();
    let frame = m.make(CapType::Frame, 0x10000, 16 * 4096, 17);
    m.map(pt, 100, 16, frame, RW, at(18)).unwrap();
    let unmap = |first, count, rest: u32| {
        let (rest, flags) = (at(rest).into(), MapFlags::default());
        op::Unmap { first, count, rest, flags }
    };
    assert_eq!(m.call(at(18), unmap(0, 17, 30)), Err(Status::OutOfRange));
    assert_eq!(m.call(at(18), unmap(4, 4, 17)), Err(Status::Occupied));
    m.call(at(18), unmap(4, 4, 19)).unwrap();
    assert_ne!(entry(&mut m, pt, 103), 0);
    assert_eq!(entry(&mut m, pt, 104), 0);
    assert_ne!(entry(&mut m, pt, 108), 0);
    m.call(at(19), unmap(0, 1, 0)).unwrap();
    m.call(at(19), unmap(6, 1, 0)).unwrap();
    assert_eq!(m.call(at(19), op::Identify {}).unwrap().bytes, 6 * 4096);
    m.call(at(19), unmap(0, 6, 0)).unwrap();
    assert!(m.is_empty(at(19)) && !m.is_empty(at(18)));
    m.delete(frame).unwrap();
    assert!(m.is_empty(at(18)));
}

#[test]
fn a_table_takes_its_entries_along() {
    let (mut m, pt) = setup();
    let pd = m.make(CapType::Pd, 0x1000, 4096, 20);
    m.map(pd, 7, 1, pt, RW, at(21)).unwrap();
    m.map(pd, 8, 1, pt, MapFlags::READ, at(22)).unwrap();
    let frame = m.make(CapType::Frame, 0x10000, 8 * 4096, 17);
    m.map(pt, 0, 3, frame, RW, at(23)).unwrap();
    m.map(pt, 3, 8, frame, MapFlags::READ, at(24)).unwrap();
    m.call(pt, op::Copy { dst: at(30).into() }).unwrap();
    m.delete(pt).unwrap();
    assert!(!m.is_empty(at(23)));
    m.delete(at(30)).unwrap();
    for slot in [21, 22, 23, 24] {
        assert!(m.is_empty(at(slot)), "{slot}");
    }
    assert_eq!(entry(&mut m, pd, 7), 0);
}

#[test]
fn protect_changes_the_entries_that_it_names() {
    let (mut m, pt) = setup();
    let frame = m.make(CapType::Frame, 0x10000, 8 * 4096, 17);
    m.map(pt, 0, 8, frame, MapFlags::READ, at(18)).unwrap();
    let protect = |flags| op::Protect { first: 2, count: 3, flags };
    m.call(at(18), protect(RW)).unwrap();
    let writable: Vec<bool> = (0..8).map(|n| entry(&mut m, pt, n) & WRITE != 0).collect();
    assert_eq!(writable, [false, false, true, true, true, false, false, false]);
    m.call(at(18), protect(MapFlags::READ)).unwrap();
    assert!((0..8).all(|n| entry(&mut m, pt, n) & WRITE == 0));
    let odd = op::Protect { first: 6, count: 3, flags: RW };
    assert_eq!(m.call(at(18), odd), Err(Status::OutOfRange));
}

#[test]
fn exclusive_pages_alone_become_writable() {
    let (mut m, pt) = setup();
    m.retype(RAM, CapType::Frame, 0x10000, 4096, 4, at(20)).unwrap();
    m.call(at(21), op::Copy { dst: at(40).into() }).unwrap();
    let flags = RW.or(MapFlags::IF_EXCLUSIVE);
    let (src, mapping) = (at(18).into(), at(28).into());
    let args = op::MapMany { entry: 0, count: 6, src, flags, mapping };
    let done = m.call(pt, op::MapMany { src: at(20).into(), count: 4, ..args }).unwrap();
    assert_eq!(done.count, 4);
    let writable =
        |m: &mut Machine| -> Vec<bool> { (0..4).map(|n| entry(m, pt, n) & WRITE != 0).collect() };
    assert_eq!(writable(&mut m), [true, false, true, true]);
    m.delete(at(40)).unwrap();
    m.call(at(22), op::Copy { dst: at(40).into() }).unwrap();
    m.call(at(28), op::ProtectMany { count: 4, flags: MapFlags::READ }).unwrap();
    m.call(at(28), op::ProtectMany { count: 4, flags }).unwrap();
    assert_eq!(writable(&mut m), [true, true, false, true]);
}

#[test]
fn map_many_passes_over_holes() {
    let (mut m, pt) = setup();
    m.retype(RAM, CapType::Frame, 0x10000, 4096, 8, at(20)).unwrap();
    m.delete(at(22)).unwrap();
    m.map(pt, 4, 1, at(27), RW, at(60)).unwrap();
    let args =
        op::MapMany { entry: 0, count: 8, src: at(20).into(), flags: RW, mapping: at(40).into() };
    assert_eq!(m.call(pt, args).unwrap().count, 6);
    let again = op::MapMany { mapping: at(70).into(), ..args };
    assert_eq!(m.call(pt, again).unwrap().count, 0);
    let bad = op::MapMany { entry: 510, ..args };
    assert_eq!(m.call(pt, bad), Err(Status::OutOfRange));
    let cnode =
        op::MapMany { entry: 20, count: 1, src: ROOT.into(), mapping: at(80).into(), ..args };
    assert_eq!(m.call(pt, cnode), Err(Status::WrongType));
}

#[test]
fn shared_tables_are_protected_at_the_top() {
    let (mut m, pt) = setup();
    let pd = m.make(CapType::Pd, 0x1000, 4096, 20);
    m.map(pd, 0, 1, pt, RW.or(MapFlags::EXEC), at(21)).unwrap();
    assert_eq!(entry(&mut m, pd, 0) & (1 << 63 | 7), 7);
    let rx = MapFlags::READ.or(MapFlags::EXEC);
    m.call(at(21), op::Protect { first: 0, count: 1, flags: rx }).unwrap();
    assert_eq!(entry(&mut m, pd, 0) & (1 << 63 | 7), 5);
}

#[test]
fn a_mapping_can_be_given_another_page() {
    let (mut m, pt) = setup();
    let old = m.make(CapType::Frame, 0x10000, 4096, 20);
    let new = m.make(CapType::Frame, 0x11000, 8192, 21);
    m.map(pt, 3, 1, old, MapFlags::READ, at(22)).unwrap();
    let replace = op::Replace { src: new.into(), flags: RW };
    m.call(at(22), replace).unwrap();
    assert_eq!(entry(&mut m, pt, 3) & !(1 << 63), (FREE + 0x11000) | 7);
    // The old Frame has nothing to do with it any more, the new one has.
    m.call(old, op::Delete {}).unwrap();
    assert_eq!(entry(&mut m, pt, 3) & 1, 1);
    m.map(pt, 4, 2, new, MapFlags::READ, at(24)).unwrap();
    assert_eq!(m.call(at(24), replace), Err(Status::OutOfRange));
    m.call(new, op::Delete {}).unwrap();
    assert_eq!(entry(&mut m, pt, 3), 0);
    assert_eq!(m.call(at(22), replace), Err(Status::Empty));
}

#[test]
fn copies_of_pages_have_their_contents() {
    let (mut m, _) = setup();
    let source = m.make(CapType::Frame, 0x10000, 4096, 20);
    crate::object::mem::write_bytes(FREE + 0x10000, b"contents");
    let copy = op::RetypeCopy {
        offset: 0x11000,
        src: source.into(),
        src_offset: 0,
        dst: at(21).into(),
        bytes: 4096,
        alone: false,
    };
    m.call(RAM, copy).unwrap();
    assert_eq!(m.call(RAM, copy), Err(Status::Occupied));
    let other = op::RetypeCopy { dst: at(22).into(), ..copy };
    assert_eq!(m.call(RAM, other), Err(Status::HasDescendants));
    // SAFETY: memory of the test's machine.
    let bytes = unsafe { crate::object::mem::bytes(FREE + 0x11000, 8) };
    assert_eq!(bytes, b"contents");
    assert_eq!(m.call(at(21), op::Identify {}).unwrap().relations, 0);
    let replace = op::RetypeCopy { offset: 0x12000, dst: source.into(), ..copy };
    assert_eq!(m.call(RAM, replace), Err(Status::WrongState));
    m.call(source, op::Copy { dst: at(23).into() }).unwrap();
    m.call(RAM, replace).unwrap();
    assert_eq!(m.call(source, op::Identify {}).unwrap().base, FREE + 0x12000);
}

/// Every page size in one range, each from a Frame that may only be read.
#[test]
fn a_read_only_frame_stays_read_only_in_every_size() {
    let mut m = Machine::new();
    let sizes = [(CapType::Pt, 12), (CapType::Pd, 21), (CapType::Pdpt, 30)];
    m.retype(DEVICES, CapType::DevFrame, 0, 1 << 30, 1, at(20)).unwrap();
    m.call(at(20), op::Mint { dst: at(21).into(), rights: Rights::READ, badge: 0 }).unwrap();
    for (n, (ty, shift)) in sizes.into_iter().enumerate() {
        let table = m.make(ty, n as u64 * 4096, 4096, 16 + n as u32);
        let count = ((1u64 << 30) >> shift).min(8) as u32;
        assert_eq!(m.map(table, 0, count, at(21), RW, at(30 + n as u32)), Err(Status::NoRights));
        m.map(table, 0, count, at(21), MapFlags::READ, at(30 + n as u32)).unwrap();
        let seen = entry(&mut m, table, count - 1);
        assert_eq!(seen & !(1 << 63 | 1 << 7 | 0xfff), DEVICE + (u64::from(count - 1) << shift));
        assert_eq!(seen & WRITE, 0);
        let (first, flags) = (0, RW);
        assert_eq!(
            m.call(at(30 + n as u32), op::Protect { first, count, flags }),
            Err(Status::NoRights)
        );
        let many = op::ProtectMany { count: 1, flags };
        assert_eq!(m.call(at(30 + n as u32), many), Err(Status::NoRights));
        assert_eq!(entry(&mut m, table, count - 1), seen);
    }
}
