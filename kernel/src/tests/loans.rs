//! Loans: what is lent, who may copy, what ends when.

use super::machine::*;
use crate::arch;
use crate::cap::attr;
use crate::cap::protocol::from_wire;
use crate::object::Table;
use captypes::invocations::{Copied, Identity, MapFlags, Part};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, ObjectKind, Place, Rights, Status, WireCap};
use mdb::RawCap;
use std::vec::Vec;

const PAGE: u64 = 4096;
/// Where pages of the domain are mapped, by `PT`.
const VA: u64 = 0;
const PT: CapAddr = CapAddr(12);
const RW: MapFlags = MapFlags(MapFlags::READ.0 | MapFlags::WRITE.0);

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn terms(count: u32, offset: u64, bytes: u64, rights: Rights, dst: u32, copies: u32) -> op::Lend {
    let copies = if copies == 0 { Place::NULL } else { at(copies).into() };
    op::Lend { count, offset, bytes, rights, lower: false, dst: at(dst).into(), copies }
}

/// Lends to read: the lender's Loans in slots from `dst` on, and copies from `copies` on unless that is 0.
fn lend(
    m: &mut Machine,
    frame: CapAddr,
    (count, offset, bytes): (u32, u64, u64),
    dst: u32,
    copies: u32,
) -> Result<u64, Status> {
    let args = terms(count, offset, bytes, Rights::READ, dst, copies);
    m.call(frame, args).map(|reply| reply.value)
}

fn relations(m: &mut Machine, slot: u32) -> u64 {
    let all = m.call(at(slot), op::Identify {}).unwrap().relations;
    all & (Identity::COPIES | Identity::DESCENDANTS)
}

/// The memory that has come back, as pages.
fn returned(m: &mut Machine) -> Vec<u64> {
    let back = m.call(KERNEL, op::CollectReclaimed {}).unwrap();
    let ranges = [(back.base0, back.bytes0), (back.base1, back.bytes1), (back.base2, back.bytes2)];
    let pages = ranges.iter().flat_map(|&(base, bytes)| (base..base + bytes).step_by(4096));
    let mut pages: Vec<u64> = pages.collect();
    pages.sort_unstable();
    pages
}

/// A machine with a last-level table for the first 2 MiB.
fn with_table() -> Machine {
    let mut m = Machine::new();
    for (n, ty) in [CapType::Pdpt, CapType::Pd, CapType::Pt].into_iter().enumerate() {
        let (above, slot) = ([VSPACE, at(14), at(13)][n], [at(14), at(13), PT][n]);
        m.make(ty, 0x80_0000 + n as u64 * PAGE, PAGE, slot.0);
        m.map(above, 0, 1, slot, RW, at(15 + n as u32)).unwrap();
    }
    m
}

fn bytes(m: &Machine, slot: u32, offset: u64, len: u64) -> &'static mut [u8] {
    let base = m.slot(at(slot)).cap().base + offset;
    // SAFETY: memory of the machine, which only the test uses now.
    unsafe { std::slice::from_raw_parts_mut(arch::phys_to_virt(base), len as usize) }
}

fn fill(m: &Machine, slot: u32, len: u64, seed: u8) {
    for (n, byte) in bytes(m, slot, 0, len).iter_mut().enumerate() {
        *byte = (n as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((n >> 8) as u8);
    }
}

#[test]
fn nothing_but_lending_makes_one() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10000, 0x4000, 40);
    for src in [RAM, DEVICES, frame, IO, IRQ, ID, KERNEL] {
        let made = m.retype(src, CapType::Loan, 0, 4096, 1, at(41));
        assert_eq!(made, Err(Status::WrongType));
    }
    let part = Part::new(CapType::Loan, 0, 1, 1).unwrap();
    let none = Part::NONE;
    let many = op::RetypeMany {
        dst: at(41).into(),
        p0: part,
        p1: none,
        p2: none,
        p3: none,
        p4: none,
        p5: none,
        p6: none,
    };
    assert_eq!(m.call(frame, many), Err(Status::WrongType));
    let words =
        WireCap { ty: CapType::Loan as u8, rights: 1, aux: 7, size: 4096, ..WireCap::default() };
    assert_eq!(from_wire(&words), Err(Status::Invalid));
    let insert = op::InsertCopy { dst: at(41).into(), cap: words };
    assert_eq!(m.call(KERNEL, insert), Err(Status::Invalid));
    assert!(m.is_empty(at(41)));
}

#[test]
fn each_act_of_lending_is_an_object() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10000, 0x4000, 40);
    // All of it, twice, and two parts that overlap without one being inside the other.
    let parts = [(0, 0x4000), (0, 0x4000), (100, 0x1000), (200, 0x2000)];
    for (n, (offset, bytes)) in parts.into_iter().enumerate() {
        lend(&mut m, frame, (1, offset, bytes), 41 + n as u32, 51 + n as u32).unwrap();
    }
    assert!((41..45).chain(51..55).all(|slot| relations(&mut m, slot) == Identity::COPIES));
    assert_eq!(relations(&mut m, 40), Identity::DESCENDANTS);
    assert_eq!(m.call(at(41), op::Compare { other: at(51).into() }).unwrap().value, 1);
    assert_eq!(m.call(at(41), op::Compare { other: at(42).into() }).unwrap().value, 0);
    // The borrower ends nothing but its own, and what it got on is no way to more.
    assert_eq!(m.revoke(at(53)), Err(Status::NoRights));
    assert_eq!(m.call(at(53), op::Recall { count: 1 }), Err(Status::NoRights));
    m.call(at(53), op::Mint { dst: at(60).into(), rights: Rights::ALL, badge: 0 }).unwrap();
    assert_eq!(m.call(at(60), op::Recall { count: 1 }), Err(Status::NoRights));
    assert_eq!(m.call(at(53), op::CopyIn { offset: 0, from: 0, bytes: 1 }), Err(Status::NoRights));
    let again = terms(1, 0, 10, Rights::READ, 61, 0);
    assert_eq!(m.call(at(53), again), Err(Status::WrongType));
    // Recalled: all copies go, and what else was lent stays.
    assert_eq!(m.call(at(43), op::Recall { count: 1 }).unwrap().count, 1);
    assert!([43, 53, 60].iter().all(|&slot| m.is_empty(at(slot))));
    assert!([41, 42, 44, 51, 52, 54].iter().all(|&slot| !m.is_empty(at(slot))));
    m.revoke(at(44)).unwrap();
    assert!(m.is_empty(at(54)) && !m.is_empty(at(44)));
    m.revoke(frame).unwrap();
    assert!((41..55).all(|slot| m.is_empty(at(slot))));
    assert!(returned(&mut m).is_empty());
}

#[test]
fn a_run_is_lent_at_once_or_not_at_all() {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 4, at(40)).unwrap();
    m.make(CapType::Frame, 0x20000, 0x3000, 44);
    let read = Rights::READ;
    let refused = [
        (terms(0, 0, 1, read, 60, 0), Status::OutOfRange),
        (terms(5, 4096, 0x6000, read, 60, 0), Status::OutOfRange),
        (terms(5, 0, 0x4000, read, 60, 0), Status::OutOfRange),
        (terms(5, 0, 0x7001, read, 60, 0), Status::OutOfRange),
        (terms(5, 1, u64::MAX, read, 60, 0), Status::OutOfRange),
        (terms(1, 1, 0, read, 60, 0), Status::OutOfRange),
        (terms(6, 0, 0x7000, read, 60, 0), Status::Empty),
        (terms(5, 0, 0x7000, read, 60, 64), Status::OutOfRange),
        (terms(5, 0, 0x7000, read, 60, 57), Status::OutOfRange),
        (terms(5, 0, 0x7000, read, 40, 0), Status::Occupied),
        (terms(5, 0, 0x7000, read, 60, 40), Status::Occupied),
        (terms(5, 0, 0x7000, read, 253, 0), Status::NoSlot),
        (terms(500, 0, 0x7000, read, 60, 0), Status::NoSlot),
        (terms(5, 0, 0x7000, Rights::WRITE, 60, 0), Status::Invalid),
        (terms(5, 0, 0x7000, Rights::ALL, 60, 0), Status::Invalid),
    ];
    for (args, status) in refused {
        assert_eq!(m.call(at(40), args), Err(status), "{args:?}");
    }
    for src in [RAM, DEVICES, VSPACE, ROOT, DISPATCHER, KERNEL] {
        assert_eq!(m.call(src, terms(1, 0, 1, read, 60, 0)), Err(Status::WrongType));
    }
    m.call(at(41), op::Mint { dst: at(50).into(), rights: Rights::EXEC, badge: 0 }).unwrap();
    assert_eq!(m.call(at(50), terms(1, 0, 1, read, 60, 0)), Err(Status::NoRights));
    let alone = m.make(CapType::Frame.alone(), 0x30000, 0x1000, 51);
    let both = Rights::READ.or(Rights::WRITE);
    assert_eq!(m.call(alone, terms(1, 0, 1, both, 60, 0)), Err(Status::NoRights));
    assert!((60..80).all(|slot| m.is_empty(at(slot))));
    let serial = lend(&mut m, at(40), (5, 4000, 0x3000 + 196), 60, 70).unwrap();
    let expected = [(4000, 96), (0, 4096), (0, 4096), (0, 4096), (0, 100)];
    for (n, (offset, bytes)) in (0..).zip(expected) {
        let (frame, loan) = (m.slot(at(40 + n)).cap(), m.slot(at(60 + n)).cap());
        let copy = m.slot(at(70 + n)).cap();
        assert_eq!((loan.base, loan.word), (frame.base + offset, bytes));
        assert_eq!((u64::from(loan.aux), loan.rights), (serial, read.or(Rights::REVOKE).0));
        assert_eq!(RawCap { rights: loan.rights, ..copy }, loan);
        assert_eq!(copy.rights, read.0);
    }
    assert_eq!(m.call(at(60), op::Recall { count: 20 }), Err(Status::NoRights));
    assert_eq!(m.call(at(59), op::Recall { count: 8 }).unwrap().count, 5);
    assert!((60..80).all(|slot| m.is_empty(at(slot))));
}

#[test]
fn what_the_lender_has_mapped_is_the_lenders() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10000, 4096, 40);
    let pt = m.make(CapType::Pt, 0x20000, 4096, 41);
    lend(&mut m, frame, (1, 0, 4096), 42, 0).unwrap();
    m.map(pt, 0, 1, frame, MapFlags::READ, at(43)).unwrap();
    lend(&mut m, frame, (1, 0, 4096), 44, 0).unwrap();
    assert_eq!(relations(&mut m, 42), 0);
    assert_eq!(relations(&mut m, 44), 0);
    // It is not mapped itself, and nothing is made of it.
    assert_eq!(m.map(pt, 1, 1, at(42), MapFlags::READ, at(45)), Err(Status::WrongType));
    assert_eq!(m.retype(at(42), CapType::Frame, 0, 4096, 1, at(45)), Err(Status::WrongType));
    assert_eq!(m.call(KERNEL, op::HeldAt { slot: m.slot(at(42)).pa() }), Err(Status::WrongType));
    m.revoke(at(42)).unwrap();
    m.delete(at(42)).unwrap();
    m.delete(at(44)).unwrap();
    assert!(!m.is_empty(at(43)));
    assert!(returned(&mut m).is_empty());
}

#[test]
fn nobody_gains_write_access_to_what_is_lent() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0x20000, 4096, 41);
    let alone = m.make(CapType::Frame.alone(), 0x10000, 4096, 40);
    let plain = m.make(CapType::Frame, 0x11000, 4096, 42);
    let if_exclusive = MapFlags(RW.0 | MapFlags::IF_EXCLUSIVE.0);
    for (n, frame) in (0..).zip([alone, plain]) {
        m.map(pt, n, 1, frame, RW, at(50 + n)).unwrap();
        let copy = |m: &mut Machine| {
            let (src, dst) = (frame.into(), frame.into());
            let (offset, bytes) = (0x40000 + u64::from(n) * 4096, 4096);
            m.call(RAM, op::RetypeCopy { offset, src, src_offset: 0, dst, bytes, alone: n == 0 })
        };
        assert_eq!(copy(&mut m), Err(Status::WrongState));
        let written = |m: &Machine| Table::at(m.slot(pt).cap().base).get(n) & 2 != 0;
        let args = op::Lend { lower: true, ..terms(1, 100, 1, Rights::READ, 60, 61) };
        m.call(frame, args).unwrap();
        // Its own entries are lowered, and do not rise again before all of it is returned.
        assert!(!written(&m));
        if n == 0 {
            assert_eq!(
                m.call(at(50), op::Protect { first: 0, count: 1, flags: RW }),
                Err(Status::Shared)
            );
            assert_eq!(
                m.call(at(50), op::ProtectMany { count: 1, flags: RW }),
                Err(Status::Shared)
            );
            assert_eq!(m.map(pt, 7, 1, frame, RW, at(53)), Err(Status::Shared));
            assert_eq!(
                m.call(at(50), op::Replace { src: frame.into(), flags: RW }),
                Err(Status::Shared)
            );
        }
        m.call(at(50 + n), op::Protect { first: 0, count: 1, flags: if_exclusive }).unwrap();
        assert!(!written(&m));
        lend(&mut m, frame, (1, 4095, 1), 62, 0).unwrap();
        m.call(at(60), op::Recall { count: 1 }).unwrap();
        m.call(at(50 + n), op::Protect { first: 0, count: 1, flags: if_exclusive }).unwrap();
        assert!(!written(&m));
        m.call(at(62), op::Delete {}).unwrap();
        assert_ne!(m.slot(frame).cap().attrs & attr::LENT, 0);
        m.call(at(50 + n), op::Protect { first: 0, count: 1, flags: if_exclusive }).unwrap();
        assert!(written(&m));
        // Whoever looked has found that the mark is wrong.
        assert_eq!(m.slot(frame).cap().attrs & attr::LENT, 0);
        // A write to what is lent makes a copy, and the borrower keeps the old page.
        lend(&mut m, frame, (1, 0, 8), 60, 61).unwrap();
        let before = m.slot(frame).cap().base;
        copy(&mut m).unwrap();
        assert_ne!(m.slot(frame).cap().base, before);
        assert_eq!(m.slot(at(61)).cap().base, before);
        assert!(returned(&mut m).is_empty());
        m.call(at(60), op::Recall { count: 1 }).unwrap();
        assert_eq!(returned(&mut m), [before]);
    }
}

#[test]
fn the_mark_goes_from_copy_to_copy() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0x20000, 4096, 41);
    let first = m.make(CapType::Frame.alone(), 0x10000, 4096, 40);
    m.call(first, op::Copy { dst: at(42).into() }).unwrap();
    m.call(first, op::Copy { dst: at(43).into() }).unwrap();
    lend(&mut m, first, (1, 0, 10), 60, 0).unwrap();
    for slot in [40, 42] {
        m.delete(at(slot)).unwrap();
    }
    assert_eq!(m.map(pt, 0, 1, at(43), RW, at(50)), Err(Status::Shared));
    m.call(at(43), op::Move { dst: at(44).into() }).unwrap();
    assert_eq!(m.map(pt, 0, 1, at(44), RW, at(50)), Err(Status::Shared));
    m.call(at(60), op::Recall { count: 1 }).unwrap();
    m.map(pt, 0, 1, at(44), RW, at(50)).unwrap();
}

#[test]
fn bytes_go_where_the_borrower_can_write_and_nowhere_else() {
    let mut m = with_table();
    m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 3, at(40)).unwrap();
    m.retype(RAM, CapType::Frame, 0x20000, 0x1000, 4, at(50)).unwrap();
    for n in 0..3 {
        fill(&m, 40 + n, PAGE, n as u8);
    }
    for n in 0..4 {
        let flags = if n == 2 { MapFlags::READ } else { RW };
        m.map(PT, n, 1, at(50 + n), flags, at(70 + n)).unwrap();
    }
    let whole: Vec<u8> = (40..43).flat_map(|slot| bytes(&m, slot, 0, PAGE).to_vec()).collect();
    // From byte 100 of the first to byte 200 of the last.
    lend(&mut m, at(40), (3, 100, 2 * PAGE + 100), 60, 64).unwrap();
    let lent = &whole[100..2 * PAGE as usize + 200];
    let copy = |m: &mut Machine, slot: u32, offset: u64, to: u64, bytes: u64| -> Copied {
        m.call(at(slot), op::CopyOut { offset, to, bytes }).unwrap()
    };
    let done = |bytes, short| Copied { bytes, short };
    assert_eq!(copy(&mut m, 64, 0, VA + 7, 5000), done(5000, 0));
    let seen: Vec<u8> = (50..52).flat_map(|slot| bytes(&m, slot, 0, PAGE).to_vec()).collect();
    assert_eq!(&seen[7..5007], &lent[..5000]);
    assert!(seen[..7].iter().chain(&seen[5007..]).all(|&byte| byte == 0));
    // In the middle of the run, from a Loan in the middle; and the end of it.
    bytes(&m, 50, 0, PAGE).fill(0);
    assert_eq!(copy(&mut m, 65, 10, VA, 50), done(50, 0));
    assert_eq!(&bytes(&m, 50, 0, 50)[..], &whole[PAGE as usize + 10..][..50]);
    assert_eq!(copy(&mut m, 64, 2 * PAGE + 50, VA, PAGE), done(50, 1));
    assert_eq!(copy(&mut m, 64, 2 * PAGE + 100, VA, PAGE), done(0, 1));
    assert_eq!(copy(&mut m, 64, u64::MAX, VA, PAGE), done(0, 1));
    // Memory that is not writable, not there, not the program's, or beyond all.
    assert_eq!(copy(&mut m, 64, 0, VA + PAGE + 96, 2 * PAGE), done(4000, 2));
    assert!(bytes(&m, 52, 0, PAGE).iter().all(|&byte| byte == 0));
    for to in [VA + 4 * PAGE, 1 << 30, arch::user_end(), 1 << 63, u64::MAX, u64::MAX - 5] {
        assert_eq!(copy(&mut m, 64, 0, to, 10), done(0, 2), "{to:#x}");
    }
    assert_eq!(copy(&mut m, 64, 0, VA, 0), done(0, 0));
    // A write through it is one through the entry: the bits say so.
    let entry = |m: &Machine, n| Table::at(m.slot(PT).cap().base).get(n);
    assert_eq!([0, 1, 2, 3].map(|n| entry(&m, n) & 0x60), [0x60, 0x60, 0, 0]);
    // To what it was lent for to read nobody writes.
    let into = op::CopyIn { offset: 0, from: VA, bytes: 1 };
    assert_eq!(m.call(at(60), into), Err(Status::NoRights));
    m.call(at(60), op::Recall { count: 3 }).unwrap();
    assert_eq!(m.call(at(64), op::CopyOut { offset: 0, to: VA, bytes: 1 }), Err(Status::Empty));
    // With the right to write, from a page that is read only.
    bytes(&m, 52, 0, PAGE).fill(0xa5);
    let both = Rights::READ.or(Rights::WRITE);
    m.call(at(40), terms(2, 4090, 10, both, 60, 64)).unwrap();
    let into = op::CopyIn { offset: 0, from: VA + 2 * PAGE, bytes: 100 };
    assert_eq!(m.call(at(64), into), Ok(done(10, 1)));
    assert_eq!(bytes(&m, 40, 4090, 6), [0xa5; 6]);
    assert_eq!(bytes(&m, 41, 0, 4), [0xa5; 4]);
    assert_eq!(bytes(&m, 40, 0, 4090), &whole[..4090]);
    assert_eq!(bytes(&m, 41, 4, 4092), &whole[PAGE as usize + 4..][..4092]);
    assert_eq!(entry(&m, 2) & 0x60, 0x20);
}

#[test]
fn a_run_ends_where_another_act_of_lending_begins() {
    let mut m = with_table();
    m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 4, at(40)).unwrap();
    m.make(CapType::Frame, 0x20000, 0x4000, 50);
    m.map(PT, 0, 4, at(50), RW, at(51)).unwrap();
    lend(&mut m, at(40), (2, 0, 2 * PAGE), 60, 0).unwrap();
    lend(&mut m, at(42), (2, 0, 2 * PAGE), 62, 0).unwrap();
    let all = op::CopyOut { offset: 0, to: VA, bytes: 4 * PAGE };
    assert_eq!(m.call(at(60), all), Ok(Copied { bytes: 2 * PAGE, short: 1 }));
    // One without the right, and one that is gone.
    m.call(at(63), op::Mint { dst: at(70).into(), rights: Rights::REVOKE, badge: 0 }).unwrap();
    m.delete(at(63)).unwrap();
    assert_eq!(m.call(at(62), all), Ok(Copied { bytes: PAGE, short: 1 }));
    m.call(at(70), op::Move { dst: at(63).into() }).unwrap();
    assert_eq!(m.call(at(62), all), Ok(Copied { bytes: PAGE, short: 1 }));
    assert_eq!(m.call(at(63), all), Err(Status::NoRights));
    // What devices have is no memory that could be copied to, on this machine.
    m.retype(DEVICES, CapType::DevFrame, 0, PAGE, 1, at(71)).unwrap();
    m.map(PT, 9, 1, at(71), RW, at(72)).unwrap();
    let there = op::CopyOut { offset: 0, to: VA + 9 * PAGE, bytes: 1 };
    assert_eq!(m.call(at(62), there), Ok(Copied { bytes: 0, short: 2 }));
    assert_eq!(m.call(at(71), terms(1, 0, 1, Rights::READ, 73, 0)), Err(Status::WrongType));
}

#[test]
fn a_frame_that_goes_leaves_what_is_lent() {
    // Of a page, and of several with Loans that cross each other; with a budget of one step, too.
    for budget in [u32::MAX, 2] {
        let mut m = Machine::new();
        m.core.local.caps.budget.set(budget);
        let page = m.make(CapType::Frame.alone(), 0x10000, 0x1000, 40);
        let base = m.slot(page).cap().base;
        lend(&mut m, page, (1, 4000, 96), 60, 61).unwrap();
        m.delete(page).unwrap();
        assert!(returned(&mut m).is_empty());
        let made = m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 1, at(40));
        assert_eq!(made, Err(Status::HasDescendants));
        m.delete(at(60)).unwrap();
        assert!(returned(&mut m).is_empty());
        m.delete(at(61)).unwrap();
        assert_eq!(returned(&mut m), [base]);

        let frame = m.make(CapType::Frame, 0x20000, 16 * PAGE, 40);
        let base = m.slot(frame).cap().base;
        let parts = [(PAGE + 1, 10), (PAGE + 100, 3 * PAGE), (2 * PAGE, PAGE), (8 * PAGE - 1, 2)];
        for (n, (offset, bytes)) in (0..).zip(parts) {
            lend(&mut m, frame, (1, offset, bytes), 60 + n, 0).unwrap();
        }
        // A part of it by itself, which is lent by the whole.
        m.retype(frame, CapType::Frame, 10 * PAGE, PAGE, 1, at(70)).unwrap();
        lend(&mut m, frame, (1, 10 * PAGE + 5, 1), 64, 0).unwrap();
        m.delete(frame).unwrap();
        let gone = [0, 5, 6, 9, 11, 12, 13, 14, 15].map(|n| base + n * PAGE);
        let mut all = returned(&mut m);
        while all.len() < gone.len() {
            let more = returned(&mut m);
            assert!(!more.is_empty(), "{all:x?}");
            all.extend(more);
            all.sort_unstable();
        }
        assert_eq!(all, gone);
        m.delete(at(70)).unwrap();
        assert!(returned(&mut m).is_empty());
        // A part that is left over while a Loan of the whole reaches into it.
        let whole = m.make(CapType::Frame, 0x40000, 2 * PAGE, 71);
        let second = m.slot(whole).cap().base + PAGE;
        m.retype(whole, CapType::Frame, PAGE, PAGE, 1, at(72)).unwrap();
        lend(&mut m, whole, (1, 10, PAGE), 65, 0).unwrap();
        m.delete(whole).unwrap();
        m.delete(at(72)).unwrap();
        assert!(returned(&mut m).is_empty());
        m.delete(at(65)).unwrap();
        assert_eq!(returned(&mut m), [second - PAGE, second]);
        for (slot, pages) in
            [(61, &[3u64, 4][..]), (64, &[10]), (60, &[1]), (62, &[2]), (63, &[7, 8])]
        {
            m.delete(at(slot)).unwrap();
            let pages: Vec<u64> = pages.iter().map(|n| base + n * PAGE).collect();
            assert_eq!(returned(&mut m), pages);
        }
    }
}

#[test]
fn a_part_that_goes_leaves_what_the_whole_lent_beyond_it() {
    let mut m = Machine::new();
    let whole = m.make(CapType::Frame, 0x10000, 5 * PAGE, 40);
    let base = m.slot(whole).cap().base;
    let pages = |numbers: &[u64]| numbers.iter().map(|n| base + n * PAGE).collect::<Vec<_>>();
    // Page 0; pages 1 to 3, and of them page 3 by itself.
    m.retype(whole, CapType::Frame, 0, PAGE, 1, at(41)).unwrap();
    m.retype(whole, CapType::Frame, PAGE, 3 * PAGE, 1, at(42)).unwrap();
    m.retype(at(42), CapType::Frame, 2 * PAGE, PAGE, 1, at(43)).unwrap();
    lend(&mut m, whole, (1, 10, PAGE), 60, 0).unwrap();
    lend(&mut m, whole, (1, 2 * PAGE + 10, 2 * PAGE), 61, 0).unwrap();
    for part in [whole, at(41), at(42), at(43)] {
        m.delete(part).unwrap();
        assert!(returned(&mut m).is_empty(), "{part:?}");
    }
    m.delete(at(60)).unwrap();
    assert_eq!(returned(&mut m), pages(&[0, 1]));
    m.delete(at(61)).unwrap();
    assert_eq!(returned(&mut m), pages(&[2, 3, 4]));
}

#[test]
fn the_end_of_a_large_loan_is_bounded() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10_0000, 1000 * PAGE, 40);
    let base = m.slot(frame).cap().base;
    lend(&mut m, frame, (1, 0, 1000 * PAGE), 41, 0).unwrap();
    m.delete(frame).unwrap();
    assert!(returned(&mut m).is_empty());
    let first = m.call(at(41), op::Delete {});
    assert_eq!(first, Err(Status::Again));
    m.check();
    m.to_the_end(at(41), op::Delete {}).unwrap();
    assert_eq!(returned(&mut m), (0..1000).map(|n| base + n * PAGE).collect::<Vec<_>>());
}

#[test]
fn recalling_is_bounded_and_goes_on() {
    let mut m = Machine::new();
    m.core.local.caps.budget.set(8);
    m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 20, at(40)).unwrap();
    lend(&mut m, at(40), (20, 0, 20 * PAGE), 60, 80).unwrap();
    assert_eq!(m.call(at(60), op::Recall { count: 20 }), Err(Status::Again));
    m.check();
    m.to_the_end(at(60), op::Recall { count: 20 }).unwrap();
    assert!((60..100).all(|slot| m.is_empty(at(slot))));
    assert_eq!(m.call(at(40), op::Recall { count: 1 }), Err(Status::WrongType));
}

#[test]
fn a_borrower_that_may_not_change_its_slots_uses_them() {
    let mut m = with_table();
    m.make(CapType::L2CNode, 0x40000, L2_BYTES, 40);
    m.call(at(40), op::Mint { dst: Place::l1(ROOT, 1), rights: Rights::NONE, badge: 0 }).unwrap();
    m.call(at(40), op::Copy { dst: Place::l1(ROOT, 2) }).unwrap();
    m.make(CapType::Frame, 0x10000, 0x1000, 41);
    m.make(CapType::Frame, 0x20000, 0x1000, 42);
    m.map(PT, 0, 1, at(42), RW, at(43)).unwrap();
    let (theirs, own) = (CapAddr::new(1, 5), CapAddr::new(2, 5));
    let args = op::Lend { copies: own.into(), ..terms(1, 0, 8, Rights::READ, 60, 0) };
    assert_eq!(m.call(at(41), op::Lend { copies: theirs.into(), ..args }), Err(Status::NoRights));
    m.call(at(41), args).unwrap();
    let copy = op::CopyOut { offset: 0, to: VA, bytes: 8 };
    assert_eq!(m.call(theirs, copy), Ok(Copied { bytes: 8, short: 0 }));
    assert_eq!(m.call(theirs, op::Delete {}), Err(Status::NoRights));
    // It may keep a copy, which is recalled like all.
    m.call(theirs, op::Copy { dst: at(50).into() }).unwrap();
    m.call(at(60), op::Recall { count: 1 }).unwrap();
    assert!(m.is_empty(at(50)) && m.is_empty(own));
}

#[test]
fn numbers_that_are_in_use_are_passed_over() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10000, 4096, 40);
    let first = lend(&mut m, frame, (1, 0, 100), 41, 0).unwrap();
    m.core.local.caps.db.serials.skip(u64::from(u32::MAX));
    let second = lend(&mut m, frame, (1, 0, 100), 42, 0).unwrap();
    assert_ne!(first, second);
    assert_eq!(m.call(at(41), op::Compare { other: at(42).into() }).unwrap().value, 0);
}

#[test]
fn a_frame_has_so_many_loans_at_most() {
    let mut m = Machine::new();
    let alone = m.make(CapType::Frame.alone(), 0x10000, 4096, 40);
    m.call(alone, op::Copy { dst: at(41).into() }).unwrap();
    for n in 0..64 {
        // By whatever copy.
        lend(&mut m, at(40 + n % 2), (1, u64::from(n), 10), 60 + n, 0).unwrap();
    }
    assert_eq!(lend(&mut m, alone, (1, 0, 1), 150, 0), Err(Status::OutOfRange));
    assert_eq!(lend(&mut m, at(41), (1, 0, 1), 150, 0), Err(Status::OutOfRange));
    m.call(at(70), op::Recall { count: 1 }).unwrap();
    lend(&mut m, at(41), (1, 0, 1), 150, 0).unwrap();
}

#[test]
fn kinds_without_bytes_are_refused() {
    let mut m = Machine::new();
    let kinds =
        [CapType::Pt, CapType::L1CNode, CapType::Dispatcher, CapType::Endpoint, CapType::Ram];
    for ty in kinds {
        m.make(ObjectKind::from(ty), 0x40000, 4096, 40);
        let args = terms(1, 0, 1, Rights::READ, 41, 0);
        assert_eq!(m.call(at(40), args), Err(Status::WrongType));
        m.delete(at(40)).unwrap();
        returned(&mut m);
    }
}
