//! Attacks with what the processor still remembers: a page is touched, so that its translation is
//! cached; then it is taken away, in every way and under every strategy of flushing; and the next
//! access must fault.

use crate::probe::{make_tables, probe, probe_in, Access, PD, PDPT, PT, PT_MAPPING, VA};
use crate::setup::{slot, Lab};
use crate::sharing::with_shared_table;
use crate::Test;
use libos::abi::slots::{KERNEL, VSPACE};
use libos::captypes::invocations::{Counter, FlushStrategy, MapFlags, StatusBits};
use libos::vspace::{R, RW, RWX};
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("stale_after_revoke", after_revoke),
    ("stale_after_revoke_of_copy", after_revoke_of_copy),
    ("stale_after_delete", after_delete),
    ("stale_after_protect", after_protect),
    ("stale_after_replace", after_replace),
    ("stale_in_shared_table", in_shared_table),
    ("stale_in_other_space", in_other_space),
    ("stale_upper_levels", upper_levels),
    ("stale_large_page", large_page),
    ("flush_counters", counters),
    ("locate", locate),
];

const MIB2: u64 = 2 << 20;
/// Pages of the Frame.
const PAGES: u32 = 40;

/// Strategies with thresholds below and above what the tests do.
const POLICIES: [(FlushStrategy, u32); 4] = [
    (FlushStrategy::Full, 0),
    (FlushStrategy::Selective, 0),
    (FlushStrategy::Hybrid, 4),
    (FlushStrategy::Hybrid, 100),
];

/// `test` under every policy, and the one from before afterwards.
fn under_each_policy(lab: &mut Lab, test: impl Fn(&mut Lab) -> Outcome) -> Outcome {
    for (strategy, threshold) in POLICIES {
        let before = good!(invoke(KERNEL, op::SetFlushPolicy { strategy, threshold }));
        let outcome = test(lab);
        let (strategy, threshold) = (before.strategy, before.threshold);
        good!(invoke(KERNEL, op::SetFlushPolicy { strategy, threshold }));
        outcome?;
        good!(lab.clean());
    }
    Ok(())
}

/// Fills the translation cache by a write here, in the address space under test.
fn touch(va: u64) {
    // SAFETY: callers have mapped a page of the laboratory's there, writable.
    unsafe { core::ptr::write_volatile(va as *mut u64, va) }
}

const fn page(n: u32) -> u64 {
    VA + n as u64 * PAGE
}

/// A Frame at the first entries, every page touched.
fn mapped(lab: &mut Lab) -> Result<(), Status> {
    make_tables(lab)?;
    lab.make(CapType::Frame, 0, PAGES as u64 * PAGE, slot(0))?;
    PT.map(0, PAGES, slot(0), 0, RW, slot(1))?;
    (0..PAGES).for_each(|n| touch(page(n)));
    Ok(())
}

fn is_absent(lab: &mut Lab, va: u64) -> Result<bool, Status> {
    Ok(probe(lab, va, Access::Read)?.is_absent(va, Access::Read))
}

fn after_revoke(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        good!(slot(0).revoke());
        for n in [0, 17, PAGES - 1] {
            check!(good!(is_absent(lab, page(n))));
        }
        fails!(Empty, slot(1).protect(0, 1, R));
        Ok(())
    })
}

/// A page that is mapped by a copy goes with the original's revocation, and the copy as well.
fn after_revoke_of_copy(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        good!(slot(0).mint(slot(2), Rights::READ));
        good!(slot(2).copy_to(slot(3)));
        good!(PT.map(100, 1, slot(3), 0, R, slot(4)));
        check!(good!(probe(lab, page(100), Access::Read)).is_done());
        good!(slot(0).revoke());
        check!(good!(is_absent(lab, page(100))));
        fails!(Empty, slot(3).identify());
        fails!(Empty, PT.map(100, 1, slot(3), 0, R, slot(4)));
        fails!(Empty, PT.map(100, 1, slot(2), 0, R, slot(4)));
        check!(good!(PT.read_entry(100)) == 0);
        Ok(())
    })
}

fn after_delete(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        // A part, by the Mapping; the rest, with the Frame.
        good!(slot(1).unmap(3, 5, slot(2)));
        for n in 0..10 {
            check!(good!(is_absent(lab, page(n))) == (3..8).contains(&n));
        }
        good!(slot(0).delete());
        check!(good!(is_absent(lab, page(0))) && good!(is_absent(lab, page(PAGES - 1))));
        fails!(Empty, slot(2).identify());
        Ok(())
    })
}

fn after_protect(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        for flags in [R, R.or(MapFlags::FLUSH_ALL), R.or(MapFlags::FLUSH_PAGES)] {
            (0..PAGES).for_each(|n| touch(page(n)));
            good!(slot(1).protect(2, 20, flags));
            for n in [0, 2, 21, 22] {
                let write = good!(probe(lab, page(n), Access::Write));
                check!(write.is_done() != (2..22).contains(&n));
                check!(good!(probe(lab, page(n), Access::Read)).is_done());
            }
            good!(slot(1).protect(0, PAGES, RW));
        }
        Ok(())
    })
}

fn after_replace(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(make_tables(lab));
        good!(lab.ram.retype(CapType::Frame, 0, PAGE, 2, slot(0)));
        good!(PT.map(5, 1, slot(0), 0, RW, slot(2)));
        touch(page(5));
        good!(slot(2).replace(slot(1), R));
        check!(good!(probe(lab, page(5), Access::Read)) == crate::probe::Seen::Done(0));
        check!(good!(probe(lab, page(5), Access::Write)).is_forbidden(page(5), Access::Write));
        Ok(())
    })
}

/// One table at two addresses: what goes is gone at both.
fn in_shared_table(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        good!(PD.map(7, 1, PT, 0, RWX, slot(3)));
        let second = |n| page(n) + 7 * MIB2;
        touch(second(2));
        touch(second(3));
        good!(slot(1).protect(2, 1, R));
        check!(good!(probe(lab, page(2), Access::Write)).is_forbidden(page(2), Access::Write));
        let there = good!(probe(lab, second(2), Access::Write));
        check!(there.is_forbidden(second(2), Access::Write));
        good!(slot(0).revoke());
        check!(good!(is_absent(lab, page(3))) && good!(is_absent(lab, second(3))));
        Ok(())
    })
}

/// One table in two address spaces: revoked here, gone there.
fn in_other_space(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(PT.map(0, 1, slot(0), 0, RW, slot(1)));
    with_shared_table(lab, |lab, there| {
        check!(good!(probe_in(lab, there, VA, Access::Write)).is_done());
        good!(slot(0).revoke());
        check!(good!(probe_in(lab, there, VA, Access::Read)).is_absent(VA, Access::Read));
        check!(good!(is_absent(lab, VA)));
        Ok(())
    })
}

/// Whole tables: taken out, with fewer rights, and destroyed.
fn upper_levels(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(mapped(lab));
        good!(PT_MAPPING.protect(0, 1, R));
        check!(good!(probe(lab, page(9), Access::Write)).is_forbidden(page(9), Access::Write));
        good!(PT_MAPPING.protect(0, 1, RWX));
        touch(page(9));
        good!(PT_MAPPING.delete());
        check!(good!(is_absent(lab, page(9))));
        good!(PD.map(0, 1, PT, 0, RWX, PT_MAPPING));
        touch(page(9));
        good!(PD.delete());
        check!(good!(is_absent(lab, page(9))));
        // The table under it is whole, and of use elsewhere.
        good!(lab.make(CapType::Pd, 13 << 20, PAGE, PD));
        good!(PDPT.map(0, 1, PD, 0, RWX, slot(5)));
        good!(PD.map(0, 1, PT, 0, RWX, slot(6)));
        touch(page(9));
        good!(PT.delete());
        check!(good!(is_absent(lab, page(9))));
        Ok(())
    })
}

/// A large page gives way to a table of small ones, and that to a large page.
fn large_page(lab: &mut Lab) -> Outcome {
    under_each_policy(lab, |lab| {
        good!(make_tables(lab));
        good!(lab.make(CapType::Frame, 4 << 20, MIB2, slot(0)));
        good!(lab.make(CapType::Pt, 13 << 20, PAGE, slot(2)));
        good!(lab.make(CapType::Frame, 0, PAGE, slot(3)));
        good!(slot(2).map(0, 1, slot(3), 0, RW, slot(4)));
        let va = VA + 3 * MIB2;
        for _ in 0..2 {
            good!(PD.map(3, 1, slot(0), 0, RW, slot(1)));
            touch(va);
            touch(va + MIB2 - 8);
            good!(slot(1).delete());
            check!(good!(is_absent(lab, va)) && good!(is_absent(lab, va + MIB2 - 8)));
            good!(PD.map(3, 1, slot(2), 0, RWX, slot(1)));
            touch(va);
            check!(good!(is_absent(lab, va + PAGE)));
            good!(slot(1).delete());
            check!(good!(is_absent(lab, va)));
        }
        Ok(())
    })
}

/// What each strategy does, as the kernel counts it.
fn counters(lab: &mut Lab) -> Outcome {
    good!(mapped(lab));
    let flushed = |count, flags| {
        // More rights, and entries that were not used since: nothing to forget.
        slot(1).protect(0, PAGES, RW)?;
        PT.clear_status(0, PAGES, StatusBits::ALL)?;
        (0..count).for_each(|n| touch(page(n)));
        let read = |counter| libos::log::counter(counter);
        let before = (read(Counter::TlbFlushes)?, read(Counter::TlbPages)?);
        slot(1).protect(0, PAGES, flags)?;
        Ok((read(Counter::TlbFlushes)? - before.0, read(Counter::TlbPages)? - before.1))
    };
    let flushed = |count, flags| -> Result<(u64, u64), Status> { flushed(count, flags) };
    check!(good!(flushed(0, R.or(MapFlags::FLUSH_ALL))) == (0, 0));
    check!(good!(flushed(3, R.or(MapFlags::FLUSH_ALL))) == (1, 0));
    check!(good!(flushed(3, R.or(MapFlags::FLUSH_PAGES))) == (0, 3));
    check!(good!(flushed(PAGES, R.or(MapFlags::FLUSH_PAGES))) == (0, PAGES as u64));
    check!(good!(flushed(3, RWX.or(MapFlags::FLUSH_PAGES))) == (0, 0));
    Ok(())
}

fn locate(lab: &mut Lab) -> Outcome {
    good!(mapped(lab));
    let at = |what: CapAddr, root: CapAddr, number| {
        invoke(what, op::Locate { root: root.into(), number }).map(|at| (at.address, at.count))
    };
    check!(good!(at(PT, VSPACE, 0)) == (VA, 1));
    check!(good!(at(slot(1), VSPACE, 0)) == (VA, 1));
    check!(good!(at(PT, VSPACE, 1)) == (0, 1));
    good!(slot(1).unmap(0, 3, Place::NULL));
    check!(good!(at(slot(1), VSPACE, 0)) == (page(3), 1));
    good!(PDPT.map(5, 1, PD, 0, RWX, slot(2)));
    check!(good!(at(slot(1), VSPACE, 1)) == (page(3) + (5 << 30), 2));
    check!(good!(at(PT, PD, 0)) == (0, 1));
    check!(good!(at(PT, PT, 0)) == (0, 1));
    check!(good!(at(PD, PT, 0)) == (0, 0));
    fails!(WrongType, at(slot(0), VSPACE, 0));
    fails!(WrongType, at(PT, slot(0), 0));
    // More ways than the kernel follows.
    for n in 1..20 {
        good!(PD.map(n, 1, PT, 0, RWX, slot(100 + n)));
    }
    fails!(OutOfRange, at(PT, VSPACE, 0));
    Ok(())
}
