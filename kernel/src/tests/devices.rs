//! DeviceSpaces and PCI functions: capabilities and entries, and what an IOMMU is told.

use super::machine::*;
use crate::arch::{self, add_iommu, device_context, take_device_flushes};
use crate::devices::{Refused, FUNCTIONS};
use captypes::invocations::{DeviceFault, MapFlags};
use captypes::{op, CapAddr, CapType, Place, Rights, Status};
use mdb::RawCap;
use vtd::{Context, Fault};

const R: MapFlags = MapFlags::READ;
const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const POOL: CapAddr = CapAddr(40);
const SPACE: CapAddr = CapAddr(41);
const FUNCTION: CapAddr = CapAddr(42);
const OBJECT: CapAddr = CapAddr(43);
const SHOWN: CapAddr = CapAddr(44);
/// Where the pool begins in the RAM, which itself begins 1 MiB behind a multiple of 2 MiB.
const POOL_AT: u64 = 1 << 20;
const REST: u64 = POOL_AT + (8 << 20);
/// Device 1, function 0.
const NUMBER: u8 = 8;

fn functions(first: u64, count: u64) -> RawCap {
    let (base, word) = (first << 12, count << 12);
    RawCap { ty: CapType::PciFunction as u8, rights: Rights::ALL.0, attrs: 0, aux: 0, base, word }
}

/// A machine with an IOMMU, a function, and a morsel that is mapped for it.
fn machine() -> Machine {
    add_iommu();
    let mut m = Machine::new();
    let slot = m.slot(FUNCTION);
    m.core.local.caps.db.insert(slot, functions(NUMBER.into(), 1));
    m.retype(RAM, CapType::Pool, POOL_AT, 8 << 20, 1, POOL).unwrap();
    m.until_done(POOL, op::FormatPool { domain: 0 }).unwrap();
    m.make(CapType::DeviceSpace, REST, 4096, 41);
    m.until_done(POOL, op::CreateMorsel { order: 2, dst: OBJECT.into() }).unwrap();
    m.map(SPACE, 0, 1, OBJECT, RW, SHOWN).unwrap();
    assert_eq!(device_context(NUMBER), Context::Pass);
    m.call(FUNCTION, op::AttachFunction { space: SPACE.into() }).unwrap();
    take_device_flushes();
    m
}

fn populate(m: &mut Machine, first: u64, count: u64) {
    m.until_done(OBJECT, op::PopulateMorsel { first, count, large: false }).unwrap();
}

#[test]
fn whatever_is_taken_away_devices_forget_once() {
    let mut m = machine();
    let space = m.call(SPACE, op::Identify {}).unwrap().base;
    assert_eq!(device_context(NUMBER), Context::Translate(space));
    populate(&mut m, 0, 60);
    assert_eq!(take_device_flushes(), 0, "more is no matter");
    m.call(SHOWN, op::Protect { first: 0, count: 1, flags: R }).unwrap();
    assert_eq!(take_device_flushes(), 1);
    m.call(SHOWN, op::ProtectMany { count: 1, flags: RW }).unwrap();
    assert_eq!(take_device_flushes(), 1);
    m.until_done(OBJECT, op::DiscardMorsel { first: 0, count: 30 }).unwrap();
    assert_eq!(take_device_flushes(), 1);
    m.call(SHOWN, op::Unmap { first: 0, count: 1, rest: Place::NULL, flags: R }).unwrap();
    assert_eq!(take_device_flushes(), 1);
    m.until_done(OBJECT, op::DiscardMorsel { first: 30, count: 30 }).unwrap();
    assert_eq!(take_device_flushes(), 0, "nothing shows it");
    m.map(SPACE, 0, 1, OBJECT, RW, SHOWN).unwrap();
    m.until_done(OBJECT, op::Revoke {}).unwrap();
    assert_eq!(take_device_flushes(), 1);
    m.map(SPACE, 0, 1, OBJECT, RW, SHOWN).unwrap();
    m.delete(SHOWN).unwrap();
    assert_eq!(take_device_flushes(), 1);
}

#[test]
fn a_space_that_goes_leaves_its_functions_nothing() {
    let mut m = machine();
    let space = m.call(SPACE, op::Identify {}).unwrap().base;
    for entry in [1, 7, 511] {
        m.map(SPACE, entry, 1, OBJECT, R, CapAddr(50 + entry % 50)).unwrap();
    }
    m.until_done(SPACE, op::Delete {}).unwrap();
    assert_eq!(device_context(NUMBER), Context::Refuse);
    assert!(take_device_flushes() > 0);
    for slot in [SHOWN, CapAddr(51), CapAddr(57), CapAddr(61)] {
        assert_eq!(m.call(slot, op::Identify {}).err(), Some(Status::Empty));
    }
    // Its memory is free, and the object.
    assert!(m.core.local.reclaim.iter().any(|range| range == (space, 4096)));
    m.until_done(OBJECT, op::DestroyMorsel {}).unwrap();
}

#[test]
fn functions_are_set_one_by_one() {
    let mut m = machine();
    let attach = |space: CapAddr| op::AttachFunction { space: space.into() };
    // The tree of functions has room for one at a time here.
    let set = |m: &mut Machine, cap| {
        let slot = m.slot(FUNCTION);
        m.core.local.caps.db.remove(slot);
        m.core.local.caps.db.insert(slot, cap);
    };
    for (first, count) in [(0, FUNCTIONS), (256, 1), (0xf8, 1), (16, 2)] {
        set(&mut m, functions(first, count));
        let expected = if first == 0xf8 { Status::Unsupported } else { Status::OutOfRange };
        assert_eq!(m.call(FUNCTION, attach(SPACE)), Err(expected));
        assert_eq!(m.call(FUNCTION, op::BlockFunction {}), Err(expected));
    }
    set(&mut m, functions(NUMBER.into(), 1));
    assert_eq!(m.call(FUNCTION, attach(OBJECT)), Err(Status::WrongType));
    assert_eq!(m.call(SPACE, attach(SPACE)), Err(Status::WrongType));
    m.call(FUNCTION, op::BlockFunction {}).unwrap();
    assert_eq!(device_context(NUMBER), Context::Refuse);
    assert!((0..=255).filter(|&n| n != NUMBER).all(|n| device_context(n) == Context::Pass));
}

#[test]
fn what_was_refused_is_told_to_whom_it_concerns() {
    add_iommu();
    let fault =
        |source, page: u64| Fault { source, address: page * 4096, reason: 5, is_write: true };
    let mut refused = Refused::new();
    let (first, both) = (functions(8, 1), functions(8, 2));
    assert_eq!(refused.next(&both), None);
    for page in 0..3 {
        arch::refuse(fault(9, page));
        arch::refuse(fault(8, 100 + page));
    }
    let expected = |source, page: u64| DeviceFault {
        function: source,
        address: page * 4096,
        access: DeviceFault::WRITE,
        reason: DeviceFault::NOT_WRITABLE,
        lost: 0,
    };
    assert_eq!(refused.next(&functions(0, 8)), None);
    assert_eq!(refused.next(&first), Some(expected(8, 100)));
    assert_eq!(refused.next(&both), Some(expected(9, 0)));
    assert_eq!(refused.next(&both), Some(expected(9, 1)));
    assert_eq!(refused.next(&both), Some(expected(8, 101)));
    assert_eq!(refused.next(&first), Some(expected(8, 102)));
    assert_eq!(refused.next(&first), None);
    // Who is never asked for makes room for others.
    for page in 0..40 {
        arch::refuse(fault(9, 200 + page));
        assert_eq!(refused.next(&first), None);
    }
    arch::refuse(fault(8, 7));
    assert_eq!(refused.next(&first), Some(DeviceFault { lost: 1, ..expected(8, 7) }));
    let left: Vec<_> =
        core::iter::from_fn(|| refused.next(&both)).map(|f| f.address >> 12).collect();
    assert_eq!(left, (225..240).collect::<Vec<_>>());
}
