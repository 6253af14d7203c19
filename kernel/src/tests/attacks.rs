//! Input that must be refused and change nothing.

use super::machine::*;
use crate::cap::CapExt;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

#[test]
fn a_cnode_cannot_be_mapped() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    let node = m.make(CapType::L2CNode, 0x4000, 16384, 17);
    for what in [node, ROOT, DISPATCHER, RAM, KERNEL] {
        assert_eq!(m.map(pt, 0, 1, what, RW, at(20)), Err(Status::WrongType));
    }
    assert!(m.is_empty(at(20)));
}

#[test]
fn a_table_can_be_mapped_read_only_but_not_writable() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    assert_eq!(m.map(pt, 0, 1, pt, RW, at(20)), Err(Status::NoRights));
    assert_eq!(m.map(pt, 0, 1, pt, MapFlags::READ, at(20)), Ok(()));
    let args = op::Protect { first: 0, count: 1, flags: RW };
    assert_eq!(m.call(at(20), args), Err(Status::NoRights));
    assert_eq!(m.map(pt, 1, 1, VSPACE, MapFlags::READ, at(21)), Ok(()));
    m.delete(pt).unwrap();
    assert!(m.is_empty(at(20)) && m.is_empty(at(21)));
}

#[test]
fn tables_fit_only_one_level_up() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    let pd = m.make(CapType::Pd, 0x1000, 4096, 17);
    let pdpt = m.make(CapType::Pdpt, 0x2000, 4096, 18);
    assert_eq!(m.map(pdpt, 0, 1, pt, RW, at(20)), Err(Status::WrongLevel));
    assert_eq!(m.map(VSPACE, 0, 1, pd, RW, at(20)), Err(Status::WrongLevel));
    assert_eq!(m.map(pd, 0, 1, pd, RW, at(20)), Err(Status::WrongLevel));
    assert_eq!(m.map(VSPACE, 0, 1, VSPACE, RW, at(20)), Err(Status::WrongLevel));
    assert_eq!(m.map(VSPACE, 256, 1, pdpt, RW, at(20)), Err(Status::OutOfRange));
    assert_eq!(m.map(pd, 0, 2, pt, RW, at(20)), Err(Status::OutOfRange));
    assert_eq!(m.map(VSPACE, 0, 1, pdpt, RW, at(20)), Ok(()));
}

#[test]
fn ranges_of_retype_may_not_overlap() {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Frame, 0x2000, 0x2000, 2, at(16)).unwrap();
    for (offset, bytes) in [(0x2000, 0x1000), (0x5000, 0x1000), (0x1000, 0x2000), (0, 0x10000)] {
        let result = m.retype(RAM, CapType::Frame, offset, bytes, 1, at(20));
        assert_eq!(result, Err(Status::HasDescendants), "{offset:x} {bytes:x}");
    }
    let wrong = [
        (1, 0x1000, 1),
        (0, 0x800, 1),
        (0, 0, 1),
        (0, 0x1000, 0),
        (0, 1 << 40, 1),
        (!0xfff, 0x1000, 1),
        (0, !0xfff, 200),
    ];
    for (offset, bytes, count) in wrong {
        let result = m.retype(RAM, CapType::Frame, offset, bytes, count, at(20));
        assert_eq!(result, Err(Status::OutOfRange), "{offset:x} {bytes:x} {count}");
    }
    assert_eq!(m.retype(at(16), CapType::Pt, 0, 0x1000, 1, at(20)), Err(Status::WrongType));
    assert_eq!(m.retype(DEVICES, CapType::Ram, 0, 0x1000, 1, at(20)), Err(Status::WrongType));
    assert_eq!(m.retype(RAM, CapType::Mapping, 0, 0x1000, 1, at(20)), Err(Status::WrongType));
    assert!(m.is_empty(at(20)));
}

#[test]
fn slots_that_run_out_leave_nothing_changed() {
    let mut m = Machine::new();
    let before = m.core.local.caps.db.len();
    let result = m.retype(RAM, CapType::Frame, 0, 4096, 20, at(240));
    assert_eq!(result, Err(Status::NoSlot));
    m.make(CapType::Frame, 0, 4096, 30);
    let result = m.retype(RAM, CapType::Frame, 0x4000, 4096, 20, at(20));
    assert_eq!(result, Err(Status::Occupied));
    let args = op::CopyRange { dst: at(250).into(), count: 9, only: CapType::Null };
    assert_eq!(m.call(at(1), args), Err(Status::NoSlot));
    let args = op::CopyRange { dst: at(28).into(), count: 9, only: CapType::Null };
    assert_eq!(m.call(at(1), args), Err(Status::Occupied));
    assert_eq!(m.core.local.caps.db.len(), before + 1);
}

#[test]
fn a_revoked_capability_is_of_no_use() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    let frame = m.make(CapType::Frame, 0x1000, 4096, 17);
    m.call(frame, op::Copy { dst: at(18).into() }).unwrap();
    m.map(pt, 5, 1, at(18), RW, at(19)).unwrap();
    m.revoke(frame).unwrap();
    assert!(m.is_empty(at(18)) && m.is_empty(at(19)) && !m.is_empty(frame));
    assert_eq!(m.call(pt, op::ReadEntry { entry: 5 }).unwrap().value, 0);
    assert_eq!(m.map(pt, 5, 1, at(18), RW, at(19)), Err(Status::Empty));
}

#[test]
fn places_that_name_no_slot_are_refused() {
    let mut m = Machine::new();
    let odd = [
        Place(0),
        Place(u64::MAX),
        Place(0xffff_ffff),
        Place::own(CapAddr::new(1, 0)),
        Place::own(CapAddr::new(256, 0)),
        Place::l1(CapAddr::NULL, 256),
        Place::l1(CapAddr::NULL, u32::MAX),
        Place::within(ROOT, CapAddr::new(1 << 23, 0)),
        Place::within(CapAddr::new(9, 9), CapAddr(1)),
        Place::within(ROOT, CapAddr::NULL),
    ];
    for place in odd {
        assert_eq!(m.call(place, op::Identify {}), Err(Status::NoSlot), "{place:x?}");
    }
    let through_ram = Place::within(RAM, CapAddr(1));
    assert_eq!(m.call(through_ram, op::Identify {}), Err(Status::WrongType));
    assert!(m.call(Place::within(ROOT, ROOT), op::Identify {}).is_ok());
    assert!(m.call(Place::l1(ROOT, 0), op::Identify {}).is_ok());
}

#[test]
fn rights_only_shrink() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0, 4096, 16);
    let frame = m.make(CapType::Frame, 0x1000, 4096, 17);
    let mint = |dst| op::Mint { dst: at(dst).into(), rights: Rights::READ, badge: 0 };
    m.call(frame, mint(18)).unwrap();
    m.call(at(18), op::Mint { dst: at(19).into(), rights: Rights::ALL, badge: 0 }).unwrap();
    assert_eq!(m.call(at(19), op::Identify {}).unwrap().rights, Rights::READ);
    assert_eq!(m.map(pt, 0, 1, at(19), RW, at(20)), Err(Status::NoRights));
    m.map(pt, 0, 1, at(19), MapFlags::READ, at(20)).unwrap();
    let all = op::Protect { first: 0, count: 1, flags: RW };
    assert_eq!(m.call(at(20), all), Err(Status::NoRights));
    let many = op::ProtectMany { count: 1, flags: RW };
    assert_eq!(m.call(at(20), many), Err(Status::NoRights));
    m.retype(at(18), CapType::Frame, 0, 4096, 1, at(21)).unwrap();
    assert_eq!(m.call(at(21), op::Identify {}).unwrap().rights, Rights::READ);
    let badge = op::Mint { dst: at(30).into(), rights: Rights::ALL, badge: 7 };
    assert_eq!(m.call(frame, badge), Err(Status::WrongType));
    let ep = m.make(CapType::Endpoint, 0x2000, 4096, 25);
    m.call(ep, op::Mint { dst: at(26).into(), rights: Rights::SEND, badge: 7 }).unwrap();
    assert_eq!(m.call(at(26), badge), Err(Status::WrongState));
    assert_eq!(m.call(at(26), op::Poll { recv: Place::NULL }), Err(Status::NoRights));
}

#[test]
fn large_pages_need_aligned_memory() {
    let mut m = Machine::new();
    let pd = m.make(CapType::Pd, 0, 4096, 16);
    let pdpt = m.make(CapType::Pdpt, 0x1000, 4096, 17);
    // RAM begins 1 MiB into a 2 MiB page.
    let large = m.make(CapType::Frame, 1 << 20, 4 << 20, 18);
    let odd = m.make(CapType::Frame, 0x2000, 0x3000, 19);
    assert_eq!(m.map(pd, 0, 1, odd, RW, at(20)), Err(Status::OutOfRange));
    assert_eq!(m.map(pd, 0, 3, large, RW, at(20)), Err(Status::OutOfRange));
    let args = op::Map {
        entry: 0,
        count: 1,
        src: large.into(),
        offset: 0x1000,
        flags: RW,
        mapping: at(20).into(),
    };
    assert_eq!(m.call(pd, args), Err(Status::OutOfRange));
    assert_eq!(m.map(pd, 0, 2, large, RW, at(20)), Ok(()));
    m.retype(DEVICES, CapType::DevFrame, 0, 2 << 30, 1, at(21)).unwrap();
    assert_eq!(m.map(pdpt, 3, 2, at(21), RW, at(22)), Ok(()));
    assert_eq!(m.map(VSPACE, 0, 1, at(21), RW, at(23)), Err(Status::WrongLevel));
    m.delete(at(21)).unwrap();
    assert!(m.is_empty(at(22)));
}

#[test]
fn machine_operations_need_their_capability() {
    let mut m = Machine::new();
    assert_eq!(m.call(RAM, op::CollectReclaimed {}), Err(Status::WrongType));
    for (counter, core) in [(99, 0), (0, 2), (0, u32::MAX)] {
        let read = m.call(KERNEL, op::ReadCounter { counter, core });
        assert_eq!(read, Err(Status::OutOfRange));
    }
    m.retype(IO, CapType::Io, 0x3f8, 8, 1, at(16)).unwrap();
    let port = op::PortIn { port: 0x3f8, width: 3 };
    assert_eq!(m.call(IO, port), Err(Status::Invalid));
    assert_eq!(m.call(IRQ, op::IrqBind { bits: 1, to: Place::NULL }), Err(Status::OutOfRange));
    let log = op::Log { len: 41, w0: 0, w1: 0, w2: 0, w3: 0, w4: 0 };
    assert_eq!(m.call(KERNEL, log), Err(Status::OutOfRange));
    assert_eq!(m.call(KERNEL, op::CheckInvariants {}), Ok(()));
}

/// Whoever is supervised cannot run anything of which its supervisor does not know, nor decide whether
/// others run.
#[test]
fn who_is_supervised_starts_nobody_else() {
    use captypes::invocations::options;
    let configure = |options| op::Configure {
        cspace: ROOT.into(),
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::NULL,
        options,
    };
    let mut m = Machine::new();
    let dispatcher = m.make(CapType::Dispatcher, 0x9000, 4096, 60);
    m.call(dispatcher, configure(options::SUPERVISED)).unwrap();
    m.dcb.set(crate::object::dcb::flag::SUPERVISED);
    let unknown = m.make(CapType::Dispatcher, 0xa000, 4096, 61);
    assert_eq!(m.call(unknown, configure(options::SUPERVISED)), Err(Status::NoRights));
    m.call(unknown, configure(0)).unwrap();
    assert_eq!(m.call(unknown, op::Start {}), Err(Status::NoRights));
    // It is allowed to, but the dispatcher lacks an address space.
    assert_eq!(m.call(dispatcher, op::Start {}), Err(Status::WrongState));
    m.call(dispatcher, configure(0)).unwrap();
    assert_eq!(m.call(dispatcher, op::Start {}), Err(Status::WrongState));
}

#[test]
fn suspending_others_needs_the_right_to_revoke() {
    let mut m = Machine::new();
    let second = m.second(0, 16);
    let is_second = |slot: &CapAddr| {
        let cap = m.slot(*slot).cap();
        cap.is(CapType::Dispatcher) && cap.base == second.pa()
    };
    let slot = (1..256).map(at).find(is_second).unwrap();
    let rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);
    m.call(slot, op::Mint { dst: at(70).into(), rights, badge: 0 }).unwrap();
    assert_eq!(m.call(at(70), op::Suspend {}), Err(Status::NoRights));
    m.call(slot, op::Suspend {}).unwrap();
    assert_eq!(m.call(at(70), op::Continue {}), Err(Status::NoRights));
    m.call(slot, op::Continue {}).unwrap();
}
