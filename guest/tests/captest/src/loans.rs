//! What can be done with Loans, by those who lend, who borrow, and who should do neither.

use crate::probe::{make_tables, probe, Access, PT, VA, WRITTEN};
use crate::setup::{capabilities, slot, Lab};
use crate::Test;
use libos::abi::slots::{DISPATCHER, ID, IO, IRQ, KERNEL, PERFMON, ROOT, VSPACE};
use libos::captypes::invocations::{Copied, MapFlags};
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::captypes::ObjectKind;
use libos::vspace::{R, RW};
use libos::{op, Cap, CapAddr, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("loan_copies", copies),
    ("loan_of_what_is_no_frame", of_what_is_no_frame),
    ("loan_forged_ranges", forged_ranges),
    ("loan_of_a_loan", of_a_loan),
    ("loan_without_rights", without_rights),
    ("loan_recalled", recalled),
    ("loan_outlives_its_frame", outlives_its_frame),
    ("loan_keeps_what_is_written", keeps_what_is_written),
    ("loan_targets", targets),
];

const READ: Rights = Rights::READ;
const BOTH: Rights = Rights(Rights::READ.0 | Rights::WRITE.0);

fn terms(count: u32, offset: u64, bytes: u64, dst: CapAddr) -> op::Lend {
    let (dst, copies) = (dst.into(), Place::NULL);
    op::Lend { count, offset, bytes, rights: READ, lower: false, dst, copies }
}

const fn done(bytes: u64, short: u32) -> Copied {
    Copied { bytes, short }
}

/// Entry `index` of the table at [`VA`].
fn at(index: u64) -> u64 {
    VA + index * PAGE
}

/// The word at an address that is mapped.
fn word(va: u64) -> u64 {
    // SAFETY: mapped for these tests only.
    unsafe { core::ptr::read_volatile(va as *const u64) }
}

fn set_word(va: u64, value: u64) {
    // SAFETY: as above, and writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, value) }
}

/// Four Frames of a page in slots 0 to 3, mapped at the first entries, with the numbers of their words in them;
/// and as many to copy to in slots 4 to 7.
fn furnish(lab: &mut Lab) -> Result<(), Status> {
    make_tables(lab)?;
    lab.ram.retype(Frame, 0, PAGE, 8, slot(0))?;
    PT.map_many(0, 8, slot(0), RW, slot(10))?;
    for n in 0..4 * PAGE / 8 {
        set_word(VA + 8 * n, n);
    }
    Ok(())
}

fn copies(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(slot(0).lend(op::Lend { copies: slot(40).into(), ..terms(4, 8, 3 * PAGE, slot(30)) }));
    check!(slot(40).copy_out(0, at(4) + 16, 2 * PAGE) == Ok(done(2 * PAGE, 0)));
    for n in 0..2 * PAGE / 8 {
        check!(word(at(4) + 16 + 8 * n) == n + 1);
    }
    check!(word(at(4)) == 0 && word(at(4) + 8) == 0 && word(at(6) + 16) == 0);
    // The end of the run, from a Loan in its middle.
    check!(slot(41).copy_out(2 * PAGE, at(7), PAGE) == Ok(done(8, 1)));
    check!(word(at(7)) == 3 * PAGE / 8 && word(at(7) + 8) == 0);
    // Odd bytes.
    check!(slot(40).copy_out(3, at(7) + 5, 13) == Ok(done(13, 0)));
    check!(word(at(7)) >> 40 == 0 && word(at(7) + 8) == 2 << 16 && word(at(7) + 16) == 0);
    good!(slot(30).recall(4));
    good!(slot(0).lend(op::Lend { rights: BOTH, ..terms(2, PAGE - 8, 16, slot(30)) }));
    set_word(at(5), WRITTEN);
    set_word(at(5) + 8, !WRITTEN);
    check!(slot(30).copy_in(0, at(5), 100) == Ok(done(16, 1)));
    check!(word(at(1) - 8) == WRITTEN && word(at(1)) == !WRITTEN);
    check!(word(at(1) - 16) == PAGE / 8 - 2 && word(at(1) + 8) == PAGE / 8 + 1);
    Ok(())
}

fn of_what_is_no_frame(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let kinds = [L1CNode, L2CNode, Dispatcher, Endpoint, Pt, Pd, Ram];
    for (n, ty) in kinds.into_iter().enumerate() {
        let bytes = if ty == L2CNode { L2_BYTES } else { PAGE };
        good!(lab.make(ty, n as u64 * L2_BYTES, bytes, slot(n as u32)));
    }
    let count = capabilities();
    let own = [ROOT, DISPATCHER, VSPACE, lab.ram, KERNEL, IO, IRQ, ID, PERFMON, PT];
    for what in (0..kinds.len() as u32).map(slot).chain(own) {
        fails!(WrongType, what.lend(terms(1, 0, 1, slot(30))));
        fails!(WrongType, what.recall(1));
        fails!(WrongType, what.copy_out(0, VA, 1));
        fails!(WrongType, what.copy_in(0, VA, 1));
    }
    fails!(Empty, slot(20).lend(terms(1, 0, 1, slot(30))));
    fails!(Empty, slot(20).copy_out(0, VA, 1));
    good!(slot(20).recall(3));
    // One of many.
    good!(lab.ram.retype(Frame, 8 << 20, PAGE, 2, slot(40)));
    good!(lab.make(Pt, 9 << 20, PAGE, slot(42)));
    fails!(WrongType, slot(40).lend(terms(3, 0, 2 * PAGE + 1, slot(50))));
    check!(capabilities() == count + 3);
    Ok(())
}

fn forged_ranges(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    let count = capabilities();
    let mut random = Rng::with_seed(lab.seed);
    for _ in 0..3_000 {
        let wild = |random: &mut Rng| match random.u32(..4) {
            0 => random.u64(..),
            1 => 1 << random.u32(..64),
            2 => random.u64(..5 * PAGE),
            _ => u64::MAX - random.u64(..PAGE),
        };
        let (count, offset, bytes) = (random.u32(..6), wild(&mut random), wild(&mut random));
        let args = terms(count, offset, bytes, slot(30));
        let end = u128::from(offset) + u128::from(bytes);
        let all = u128::from(count) * u128::from(PAGE);
        let right = count > 0
            && count <= 4
            && offset < PAGE
            && bytes > 0
            && end <= all
            && end > all - u128::from(PAGE);
        match slot(0).lend(args) {
            Ok(_) => check!(right),
            Err(error) => check!(!right && error == Status::OutOfRange || count > 4),
        }
        let (from, to, bytes) = (wild(&mut random), wild(&mut random), wild(&mut random));
        if right {
            // Nothing but what is mapped at all is written to; this is far away.
            let target = to | 1 << 45;
            let copied = good!(slot(30).copy_out(from, target, bytes));
            check!(copied.bytes == 0 && (copied.short != 0 || bytes == 0));
        }
        good!(slot(30).recall(count));
    }
    check!(capabilities() == count);
    fails!(Occupied, slot(0).lend(terms(2, 0, 2 * PAGE, slot(1))));
    fails!(NoSlot, slot(0).lend(terms(2, 0, 2 * PAGE, slot(255))));
    let twice = op::Lend { copies: slot(31).into(), ..terms(2, 0, 2 * PAGE, slot(30)) };
    fails!(OutOfRange, slot(0).lend(twice));
    check!(capabilities() == count);
    Ok(())
}

fn of_a_loan(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(slot(0).lend(terms(1, 0, PAGE, slot(30))));
    let count = capabilities();
    fails!(WrongType, slot(30).lend(terms(1, 0, 1, slot(31))));
    for ty in [Frame, Ram, Loan, Pt] {
        fails!(WrongType, slot(30).retype(ty, 0, PAGE, 1, slot(31)));
        fails!(WrongType, slot(0).retype(Loan, 0, PAGE, 1, slot(31)));
    }
    fails!(WrongType, PT.map(20, 1, slot(30), 0, R, slot(31)));
    fails!(WrongType, lab.ram.retype_copy(8 << 20, slot(30), slot(31)));
    check!(capabilities() == count);
    Ok(())
}

fn without_rights(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    // Nobody lends more than is his.
    good!(slot(0).mint(slot(20), Rights::EXEC));
    fails!(NoRights, slot(20).lend(terms(1, 0, 1, slot(30))));
    good!(slot(0).mint(slot(21), READ));
    fails!(NoRights, slot(21).lend(op::Lend { rights: BOTH, ..terms(1, 0, 1, slot(30)) }));
    good!(lab.ram.retype(ObjectKind { ty: Frame, alone: true }, 1 << 20, PAGE, 1, slot(22)));
    fails!(NoRights, slot(22).lend(op::Lend { rights: BOTH, ..terms(1, 0, 1, slot(30)) }));
    for rights in [Rights::NONE, Rights::WRITE, Rights::ALL, Rights(READ.0 | Rights::REVOKE.0)] {
        fails!(Invalid, slot(0).lend(op::Lend { rights, ..terms(1, 0, 1, slot(30)) }));
    }
    good!(slot(0).lend(op::Lend { copies: slot(40).into(), ..terms(1, 0, 8, slot(30)) }));
    fails!(NoRights, slot(40).recall(1));
    fails!(NoRights, slot(40).revoke());
    fails!(NoRights, slot(40).copy_in(0, at(5), 1));
    good!(slot(40).mint(slot(41), Rights::ALL));
    fails!(NoRights, slot(41).recall(1));
    good!(slot(40).mint(slot(42), Rights::NONE));
    fails!(NoRights, slot(42).copy_out(0, at(5), 1));
    check!(word(at(5)) == 0 && word(at(0)) == 0);
    // What cannot be changed is not emptied: a CNode without the right to its slots.
    good!(lab.make(L2CNode, 2 << 20, L2_BYTES, slot(50)));
    good!(slot(50).copy_to(Place::l1(CapAddr::NULL, 77)));
    good!(slot(30).copy_to(CapAddr::new(77, 3)));
    good!(slot(50).mint(Place::l1(CapAddr::NULL, 78), Rights::NONE));
    fails!(NoRights, CapAddr::new(78, 3).recall(1));
    check!(CapAddr::new(78, 3).copy_out(0, at(5), 8) == Ok(done(8, 0)));
    good!(Place::l1(CapAddr::NULL, 77).delete());
    good!(Place::l1(CapAddr::NULL, 78).delete());
    Ok(())
}

fn recalled(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(slot(0).lend(op::Lend { copies: slot(40).into(), ..terms(4, 0, 4 * PAGE, slot(30)) }));
    good!(slot(41).copy_to(slot(60)));
    good!(slot(30).recall(1));
    fails!(Empty, slot(40).copy_out(0, at(5), 8));
    check!(slot(41).copy_out(0, at(5), 8) == Ok(done(8, 0)));
    // The rest of a run from its middle; a hole ends it.
    good!(slot(42).delete());
    check!(slot(41).copy_out(0, at(4), 4 * PAGE) == Ok(done(PAGE, 1)));
    good!(slot(30).recall(4));
    for gone in (30..34).chain(40..44).chain([60]) {
        fails!(Empty, slot(gone).copy_out(0, at(5), 8));
    }
    // Returned by the borrower, the lender's stays.
    good!(slot(0).lend(op::Lend { copies: slot(40).into(), ..terms(1, 0, 8, slot(30)) }));
    good!(slot(40).delete());
    check!(slot(30).copy_out(0, at(5), 8) == Ok(done(8, 0)));
    // The Frame is revoked: so is what was lent.
    good!(slot(0).revoke());
    fails!(Empty, slot(30).copy_out(0, at(5), 8));
    Ok(())
}

fn outlives_its_frame(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(lab.ram.retype(Frame, 4 << 20, 4 * PAGE, 1, slot(20)));
    good!(PT.map(20, 4, slot(20), 0, RW, slot(21)));
    set_word(at(21), WRITTEN);
    good!(slot(20).lend(op::Lend { copies: slot(40).into(), ..terms(1, PAGE, 16, slot(30)) }));
    good!(slot(20).delete());
    check!(good!(probe(lab, at(21), Access::Read)).is_absent(at(21), Access::Read));
    good!(slot(30).delete());
    check!(slot(40).copy_out(0, at(5), 100) == Ok(done(16, 1)));
    check!(word(at(5)) == WRITTEN);
    // Nobody makes anything of that page, and of the others everything.
    for ty in [Frame, Pt, Endpoint, Ram, Dispatcher] {
        fails!(HasDescendants, lab.ram.retype(ty, (4 << 20) + PAGE, PAGE, 1, slot(22)));
    }
    fails!(HasDescendants, lab.ram.retype(Frame, 4 << 20, 2 * PAGE, 1, slot(22)));
    good!(lab.ram.retype(Pt, (4 << 20) + 2 * PAGE, PAGE, 1, slot(22)));
    good!(slot(40).delete());
    good!(lab.ram.retype(Endpoint, (4 << 20) + PAGE, PAGE, 1, slot(23)));
    Ok(())
}

/// The lender writes to a copy, and the borrower has what was there.
fn keeps_what_is_written(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(lab.ram.retype(ObjectKind { ty: Frame, alone: true }, 1 << 20, PAGE, 1, slot(20)));
    good!(PT.map(20, 1, slot(20), 0, RW, slot(21)));
    set_word(at(20), WRITTEN);
    let args = terms(1, 0, 8, slot(30));
    good!(slot(20).lend(op::Lend { copies: slot(40).into(), lower: true, ..args }));
    check!(!good!(probe(lab, at(20), Access::Write)).is_done());
    fails!(Shared, slot(21).protect(0, 1, RW));
    fails!(Shared, PT.map(22, 1, slot(20), 0, RW, slot(22)));
    let exclusive = MapFlags(RW.0 | MapFlags::IF_EXCLUSIVE.0);
    good!(slot(21).protect(0, 1, exclusive));
    check!(!good!(probe(lab, at(20), Access::Write)).is_done());
    let (src, dst) = (slot(20).into(), slot(20).into());
    let copy =
        op::RetypeCopy { offset: 2 << 20, src, src_offset: 0, dst, bytes: PAGE, alone: true };
    good!(libos::invoke(lab.ram, copy));
    good!(PT.map(20, 1, slot(20), 0, RW, slot(21)));
    check!(word(at(20)) == WRITTEN);
    set_word(at(20), 5);
    check!(slot(40).copy_out(0, at(5), 8) == Ok(done(8, 0)));
    check!(word(at(5)) == WRITTEN);
    good!(slot(30).recall(1));
    fails!(WrongState, libos::invoke(lab.ram, op::RetypeCopy { offset: 3 << 20, ..copy }));
    Ok(())
}

/// The kernel writes nowhere where the program could not.
fn targets(lab: &mut Lab) -> Outcome {
    good!(furnish(lab));
    good!(slot(0).lend(op::Lend { rights: BOTH, ..terms(1, 0, PAGE, slot(30)) }));
    good!(slot(15).protect(0, 1, R));
    good!(PT.map_zero(30, 1, R));
    good!(PT.map(31, 1, PT, 0, R, slot(31)));
    let before = PT.read_entry(31);
    for va in [at(5), at(30), at(31), at(40), 0, 8, 1 << 46, 1 << 47, !0, !7, 0xffff_8000_0000_0000]
    {
        check!(slot(30).copy_out(0, va, 8) == Ok(done(0, 2)));
    }
    for va in [at(40), 8, 1 << 47, !7, 0xffff_8000_0000_0000, 0xffff_ffff_8020_0000] {
        check!(slot(30).copy_in(0, va, 8) == Ok(done(0, 2)));
    }
    check!(PT.read_entry(31) == before && word(at(5)) == 0);
    check!(slot(30).copy_in(0, at(30), 8) == Ok(done(8, 0)));
    // Up to where it may write.
    check!(slot(30).copy_out(0, at(5) - 100, 200) == Ok(done(100, 2)));
    // To itself.
    check!(slot(30).copy_out(0, at(0) + 8, 100) == Ok(done(100, 0)));
    Ok(())
}
