//! Loans, as far as there are any: nothing makes one yet, so that these are put into their slots by hand.

use super::machine::*;
use crate::cap::protocol::from_wire;
use crate::cap::{attr, CapExt};
use captypes::invocations::{Identity, MapFlags, Part};
use captypes::{op, CapAddr, CapType, Rights, Status, WireCap};
use mdb::RawCap;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

/// Puts a Loan of `bytes` from `base` on into a slot.
fn lend(m: &mut Machine, serial: u32, base: u64, bytes: u64, slot: u32) {
    let cap = RawCap {
        ty: CapType::Loan as u8,
        rights: Rights::READ.or(Rights::REVOKE).0,
        attrs: 0,
        aux: serial,
        base,
        word: bytes,
    };
    let slot = m.slot(at(slot));
    m.core.local.caps.db.insert(slot, cap);
    m.check();
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
    pages.collect()
}

#[test]
fn nobody_can_make_one() {
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
    let base = m.slot(frame).cap().base;
    // All of it, twice, and two parts that overlap without one being inside the other.
    lend(&mut m, 1, base, 0x4000, 41);
    lend(&mut m, 2, base, 0x4000, 42);
    lend(&mut m, 3, base + 100, 0x1000, 43);
    lend(&mut m, 4, base + 200, 0x2000, 44);
    assert!((41..45).all(|slot| relations(&mut m, slot) == 0));
    assert_eq!(relations(&mut m, 40), Identity::DESCENDANTS);
    for slot in 41..45 {
        m.call(at(slot), op::Copy { dst: at(slot + 10).into() }).unwrap();
        assert_eq!(relations(&mut m, slot), Identity::COPIES);
    }
    assert_eq!(m.call(at(41), op::Compare { other: at(51).into() }).unwrap().value, 1);
    assert_eq!(m.call(at(41), op::Compare { other: at(42).into() }).unwrap().value, 0);
    // Recalled: the borrower's copy goes, what else was lent stays.
    m.revoke(at(43)).unwrap();
    assert!(m.is_empty(at(53)) && !m.is_empty(at(43)));
    assert!([41, 42, 44, 51, 52, 54].iter().all(|&slot| !m.is_empty(at(slot))));
    m.revoke(frame).unwrap();
    assert!((41..55).all(|slot| m.is_empty(at(slot))));
    assert!(returned(&mut m).is_empty());
}

#[test]
fn what_the_lender_has_mapped_is_the_lenders() {
    let mut m = Machine::new();
    let frame = m.make(CapType::Frame, 0x10000, 4096, 40);
    let pt = m.make(CapType::Pt, 0x20000, 4096, 41);
    let base = m.slot(frame).cap().base;
    lend(&mut m, 1, base, 4096, 42);
    m.map(pt, 0, 1, frame, MapFlags::READ, at(43)).unwrap();
    lend(&mut m, 2, base, 4096, 44);
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
fn pages_that_only_loans_keep_come_home_with_the_last() {
    let mut m = Machine::new();
    let home = m.slot(RAM).cap();
    assert_eq!(home.row(), CapType::HomeRam);
    let base = home.base + 0x10000;
    // What is left of a Frame that is gone: two Loans share the second page, and one copy is there.
    lend(&mut m, 1, base + 4000, 1000, 41);
    lend(&mut m, 2, base + 4096 + 100, 8192, 42);
    m.call(at(42), op::Copy { dst: at(43).into() }).unwrap();
    assert_eq!(m.slot(at(43)).cap().attrs & attr::FOREIGN, 0);
    m.delete(at(41)).unwrap();
    assert_eq!(returned(&mut m), [base]);
    m.delete(at(42)).unwrap();
    assert!(returned(&mut m).is_empty());
    m.delete(at(43)).unwrap();
    assert_eq!(returned(&mut m), [base + 0x1000, base + 0x2000, base + 0x3000]);
}

#[test]
fn the_end_of_a_large_loan_is_bounded() {
    let mut m = Machine::new();
    let base = m.slot(RAM).cap().base + 0x10000;
    lend(&mut m, 1, base, 1000 * 4096, 41);
    let first = m.call(at(41), op::Delete {});
    assert_eq!(first, Err(Status::Again));
    m.check();
    m.to_the_end(at(41), op::Delete {}).unwrap();
    assert_eq!(returned(&mut m), (0..1000).map(|n| base + n * 4096).collect::<Vec<_>>());
}
