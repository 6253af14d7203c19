//! Long operations, step by step: each step is bounded, and between steps others find only typed
//! errors.

use super::deletion::{collect, total};
use super::machine::*;
use crate::arch;
use crate::cap::retype::MOST_ZEROED;
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const MIB: u64 = 1 << 20;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn frame(bytes: u64, count: u32, dst: CapAddr) -> op::Retype {
    op::Retype { ty: CapType::Frame.into(), offset: 0, bytes, count, dst: dst.into() }
}

#[test]
fn a_large_retype_zeroes_in_steps() {
    let mut m = Machine::new();
    arch::take_counts();
    let args = frame(4 * MIB, 2, at(16));
    for _ in 0..7 {
        assert_eq!(m.call(RAM, args), Err(Status::Again));
        assert_eq!(arch::take_counts().zeroed_pages, MOST_ZEROED / 4096);
        let what = m.call(at(16), op::Identify {}).unwrap();
        assert_eq!((what.ty, what.base, what.bytes), (CapType::Blank, FREE, 8 * MIB));
        assert!(m.is_empty(at(17)));
    }
    assert_eq!(m.call(RAM, args), Ok(()));
    for (n, offset) in [(16, 0), (17, 4 * MIB)] {
        let what = m.call(at(n), op::Identify {}).unwrap();
        assert_eq!((what.ty, what.base, what.bytes), (CapType::Frame, FREE + offset, 4 * MIB));
    }
    assert_eq!(m.call(RAM, args), Err(Status::Occupied));
}

#[test]
fn what_is_half_zeroed_is_of_no_use_to_anybody() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 12 * MIB, 4096, 30);
    let args = frame(4 * MIB, 1, at(16));
    assert_eq!(m.call(RAM, args), Err(Status::Again));
    let blank = at(16);
    assert_eq!(m.map(pt, 0, 1, blank, MapFlags::READ, at(40)), Err(Status::WrongType));
    assert_eq!(m.call(blank, op::Copy { dst: at(40).into() }), Err(Status::WrongType));
    let mint = op::Mint { dst: at(40).into(), rights: Rights::ALL, badge: 0 };
    assert_eq!(m.call(blank, mint), Err(Status::WrongType));
    for &ty in CapType::ALL {
        let args =
            op::Retype { ty: ty.into(), offset: 0, bytes: 4096, count: 1, dst: at(40).into() };
        assert_eq!(m.call(blank, args), Err(Status::WrongType));
    }
    // Its memory belongs to it: by another copy of the RAM too.
    m.call(RAM, op::Copy { dst: at(41).into() }).unwrap();
    let part = op::Retype {
        ty: CapType::Frame.into(),
        offset: 3 * MIB,
        bytes: 4096,
        count: 1,
        dst: at(40).into(),
    };
    assert_eq!(m.call(at(41), part), Err(Status::HasDescendants));
    // The repetition must be one.
    assert_eq!(m.call(RAM, frame(3 * MIB, 1, at(16))), Err(Status::Occupied));
    assert_eq!(m.call(RAM, frame(4 * MIB, 1, at(17))), Err(Status::HasDescendants));
    // Moved, it can be gone on with where it is.
    m.call(blank, op::Move { dst: at(20).into() }).unwrap();
    assert_eq!(m.call(RAM, args), Err(Status::HasDescendants));
    m.until_done(at(41), frame(4 * MIB, 1, at(20))).unwrap();
    assert_eq!(m.call(at(20), op::Identify {}).unwrap().ty, CapType::Frame);
}

#[test]
fn a_retype_that_is_given_up_loses_nothing() {
    let mut m = Machine::new();
    assert_eq!(m.call(RAM, frame(4 * MIB, 1, at(16))), Err(Status::Again));
    m.delete(at(16)).unwrap();
    assert_eq!(collect(&mut m), [(FREE, 4 * MIB)]);
    assert_eq!(m.call(RAM, frame(4 * MIB, 1, at(16))), Err(Status::Again));
    m.revoke(RAM).unwrap();
    assert_eq!(collect(&mut m), [(FREE, 4 * MIB)]);
}

/// RAM of which every other page belongs to somebody: its last delete gives the others back.
#[test]
fn deleting_ram_full_of_holes_is_bounded() {
    let mut m = Machine::new();
    m.checking = false;
    m.core.local.caps.budget.set(100);
    let nodes = 4;
    m.retype(RAM, CapType::L2CNode, 8 * MIB, 16384, nodes, Place::l1(ROOT, 1)).unwrap();
    let pages = nodes as u64 * 256;
    m.retype(RAM, CapType::Ram, 0, pages * 8192, 1, at(16)).unwrap();
    for n in 0..pages {
        let slot = CapAddr::new(1 + n as u32 / 256, n as u32 % 256);
        m.retype(at(16), CapType::Frame, n * 8192, 4096, 1, slot).unwrap();
    }
    let mut last = FREE;
    let mut steps = 0;
    while m.call(at(16), op::Delete {}) == Err(Status::Again) {
        m.check();
        // What is left is RAM like any other, only less of it.
        let what = m.call(at(16), op::Identify {}).unwrap();
        assert_eq!((what.ty, what.base + what.bytes), (CapType::Ram, FREE + pages * 8192));
        assert!(what.base > last);
        last = what.base;
        steps += 1;
    }
    assert!(steps >= 10, "{steps} steps for {pages} holes");
    m.check();
    assert_eq!(total(&collect(&mut m)), pages * 4096);
}

/// A Frame all of whose pages are Frames of their own, mapped: deleting it unmaps nothing but what
/// only it stands for, and looks at all of them in steps.
#[test]
fn deleting_a_frame_over_many_mapped_frames_is_bounded() {
    let mut m = Machine::new();
    m.checking = false;
    m.core.local.caps.budget.set(200);
    m.retype(RAM, CapType::L2CNode, 8 * MIB, 16384, 16, Place::l1(ROOT, 1)).unwrap();
    m.retype(RAM, CapType::Pt, 9 * MIB, 4096, 5, at(100)).unwrap();
    let pages = 1024;
    m.make(CapType::Frame, 0, pages * 4096, 16);
    // First the Frame itself, from its beginning, at its end, and across the others.
    m.map(at(104), 0, 512, at(16), RW, at(50)).unwrap();
    for n in 0..pages as u32 {
        let (node, slot) = (n / 256, n % 256);
        let page = CapAddr::new(1 + node, slot);
        let offset = u64::from(n) * 4096;
        m.call(
            at(16),
            op::Retype {
                ty: CapType::Frame.into(),
                offset,
                bytes: 4096,
                count: 1,
                dst: page.into(),
            },
        )
        .unwrap();
        for copy in 0..2 {
            let table = at(100 + 2 * copy + n / 512);
            m.map(table, n % 512, 1, page, RW, CapAddr::new(5 + 4 * copy + node, slot)).unwrap();
        }
    }
    m.check();
    let mut steps = 0;
    while m.call(at(16), op::Delete {}) == Err(Status::Again) {
        m.check();
        steps += 1;
        if steps == 2 {
            assert_eq!(m.call(at(16), op::Identify {}).unwrap().rights, Rights::NONE);
            // Nobody can map it again in the meantime, and a page that goes takes its Mappings along.
            assert_eq!(m.map(at(104), 511, 1, at(16), RW, at(51)), Err(Status::NoRights));
            m.delete(CapAddr::new(4, 255)).unwrap();
            assert!(m.is_empty(CapAddr::new(8, 255)) && m.is_empty(CapAddr::new(12, 255)));
        }
        assert!(steps < 100);
    }
    assert!(steps >= 3, "{steps} steps");
    m.check();
    assert!(m.is_empty(at(50)), "no page covers all of it");
    assert_eq!(total(&collect(&mut m)), 4096);
    for n in 0..pages as u32 - 1 {
        assert!(!m.is_empty(CapAddr::new(5 + n / 256, n % 256)), "page {n} is still mapped");
    }
}
