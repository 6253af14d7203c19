//! Persistent memory: its contents stay, the kernel relies on none of it, and it has no home.

use super::deletion::collect;
use super::machine::*;
use crate::arch;
use crate::cap::memory_cap;
use captypes::invocations::Part;
use captypes::{op, CapAddr, CapType, Place, RamAttrs, Rights, Status};

const BASE: u64 = FIRST + BYTES;
const PERSISTENT: CapAddr = CapAddr(60);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// A machine with such memory.
fn machine() -> Machine {
    let mut m = Machine::new();
    let attrs = RamAttrs::PERSISTENT.0 | 5;
    let cap = memory_cap(CapType::Ram as u8, Rights::ALL, attrs, BASE, MORE);
    let slot = m.slot(PERSISTENT);
    m.core.local.caps.db.insert(slot, cap);
    for page in (0..MORE).step_by(4096) {
        // SAFETY: memory of the pretended machine, to which there are no references.
        unsafe { arch::phys_to_virt(BASE + page).cast::<u64>().write(page + 1) };
    }
    arch::take_counts();
    m
}

fn word(page: u64) -> u64 {
    // SAFETY: as above.
    unsafe { arch::phys_to_virt(BASE + page * 4096).cast::<u64>().read() }
}

/// Nothing was zeroed.
fn expect_all() {
    assert_eq!(arch::take_counts().zeroed_pages, 0);
    assert!((0..MORE / 4096).all(|page| word(page) == page * 4096 + 1));
}

#[test]
fn frames_of_persistent_memory_keep_its_contents() {
    let mut m = machine();
    // In one invocation, however large.
    let ty = CapType::Frame.into();
    let all = op::Retype { ty, offset: 0, bytes: MORE, count: 1, dst: at(20).into() };
    m.call(PERSISTENT, all).unwrap();
    let what = m.call(at(20), op::Identify {}).unwrap();
    assert!(what.attrs.has(RamAttrs::PERSISTENT) && what.attrs.node() == 5);
    m.delete(at(20)).unwrap();
    m.retype(PERSISTENT, CapType::Ram, 0, MORE / 2, 2, at(20)).unwrap();
    m.retype(at(21), CapType::Frame.alone(), 4096, 4096, 3, at(30)).unwrap();
    let part = Part::new(CapType::Frame, 0, 128, 2).unwrap();
    let none = Part::NONE;
    let dst = at(40).into();
    let many = op::RetypeMany {
        dst,
        p0: part,
        p1: none,
        p2: none,
        p3: none,
        p4: none,
        p5: none,
        p6: none,
    };
    m.call(at(20), many).unwrap();
    let attrs = m.call(at(31), op::Identify {}).unwrap().attrs;
    assert!(attrs.has(RamAttrs::PERSISTENT));
    expect_all();
}

#[test]
fn ordinary_frames_are_zeroed_and_copies_are_written() {
    let mut m = machine();
    m.retype(RAM, CapType::Frame, 0, 4096, 1, at(20)).unwrap();
    assert_eq!(arch::take_counts().zeroed_pages, 1);
    let copy = op::RetypeCopy {
        offset: 8192,
        src: at(20).into(),
        src_offset: 0,
        dst: at(21).into(),
        bytes: 4096,
        alone: false,
    };
    m.call(PERSISTENT, copy).unwrap();
    assert_eq!((word(1), word(2), word(3)), (4097, 0, 3 * 4096 + 1));
}

#[test]
fn no_kernel_object_is_made_of_persistent_memory() {
    let mut m = machine();
    m.retype(PERSISTENT, CapType::Ram, 0, 1 << 20, 1, at(20)).unwrap();
    // What is half made is made of nothing.
    let made = |ty: &&CapType| ty.is_kernel_object() && !ty.sources().is_empty();
    let objects = CapType::ROWS.iter().filter(made);
    let mut count = 0;
    for &ty in objects {
        let bytes = if ty == CapType::L2CNode { 16384 } else { 4096 };
        m.make(ty, (1 << 20) + count * bytes, bytes, 21);
        m.delete(at(21)).unwrap();
        collect(&mut m);
        for source in [PERSISTENT, at(20)] {
            let offset = if source == PERSISTENT { 1 << 20 } else { 0 };
            let made = m.retype(source, ty, offset, bytes, 1, at(21));
            assert_eq!(made, Err(Status::WrongType), "{ty:?}");
        }
        count += 1;
    }
    assert!(count >= 9);
}

#[test]
fn a_dispatcher_shares_no_persistent_frame() {
    let mut m = machine();
    let dispatcher = m.make(CapType::Dispatcher, 0, 4096, 20);
    m.retype(PERSISTENT, CapType::Frame, 0, 4096, 1, at(21)).unwrap();
    let args = op::Configure {
        cspace: ROOT.into(),
        vspace: VSPACE.into(),
        frame: at(21).into(),
        frame_va: 0x2000,
        fault_ep: Place::NULL,
        options: 0,
    };
    assert_eq!(m.call(dispatcher, args), Err(Status::WrongType));
    let frame = m.make(CapType::Frame, 4096, 4096, 22);
    m.call(dispatcher, op::Configure { frame: frame.into(), ..args }).unwrap();
}

#[test]
fn persistent_memory_goes_home_to_nobody() {
    let mut m = machine();
    m.retype(PERSISTENT, CapType::Ram, 0, 1 << 20, 1, at(20)).unwrap();
    m.retype(at(20), CapType::Frame, 0, 4096, 8, at(21)).unwrap();
    m.delete(at(20)).unwrap();
    m.delete(at(21)).unwrap();
    m.revoke(PERSISTENT).unwrap();
    m.delete(PERSISTENT).unwrap();
    assert_eq!(collect(&mut m), []);
    m.check();
    expect_all();
}
