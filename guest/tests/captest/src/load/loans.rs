//! Many Loans: of one page, across each other, and in runs as long as a CNode.

use super::Load;
use crate::probe::{make_tables, PT, VA};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::captypes::invocations::Copied;
use libos::captypes::CapType::*;
use libos::vspace::RW;
use libos::{op, Cap, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Outcome, Rng};

pub const TESTS: &[Test] = &[("load_loans", loans), ("load_runs_of_loans", runs)];

fn terms(count: u32, offset: u64, bytes: u64, dst: Place) -> op::Lend {
    let (rights, copies) = (Rights::READ, Place::NULL);
    op::Lend { count, offset, bytes, rights, lower: false, dst, copies }
}

/// How many Frames are lent, one after the other.
const ROUNDS: u32 = 20;
/// Loans that begin in one Frame.
const MOST: u32 = 64;

/// Frames whose pages stay for the sake of Loans that were made in the worst order; as many of each as may be.
fn loans(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let mut random = Rng::with_seed(lab.seed);
    // What an event takes does not grow with how many there were; and memory that Loans have kept comes home late.
    for round in 0..ROUNDS {
        let bytes = if round % 2 == 0 { PAGE } else { 4 << 20 };
        let frame = good!(load.object(Frame, bytes));
        let own = good!(load.slots(MOST + 1));
        for n in 0..=MOST {
            let offset = random.u64(..bytes);
            let length = 1 + random.u64(..bytes - offset);
            let made = frame.lend(terms(1, offset, length, own.plus(n)));
            check!(made.map(drop) == if n < MOST { Ok(()) } else { Err(Status::OutOfRange) });
        }
        good!(frame.identify());
        good!(frame.copy_to(slot(2)));
        fails!(OutOfRange, slot(2).lend(terms(1, 0, 1, own.plus(MOST))));
        good!(slot(2).delete());
        good!(frame.delete());
        for n in 0..MOST {
            good!(own.plus(n).delete());
        }
    }
    good!(load.end());
    Ok(())
}

/// As many Frames as one invocation takes, lent again and again, and so few as may be lowered.
fn runs(lab: &mut Lab) -> Outcome {
    const COUNT: u32 = 128;
    let bytes = u64::from(COUNT) * PAGE;
    let mut load = good!(Load::new(lab));
    good!(make_tables(lab));
    let [frames, own, copies, mappings] = [(); 4].map(|()| load.slots(COUNT));
    let [frames, own, copies, mappings] =
        [good!(frames), good!(own), good!(copies), good!(mappings)];
    good!(load.make(Frame, PAGE, COUNT, frames));
    good!(PT.map_many(0, COUNT, frames, RW, mappings));
    let target = good!(load.object(Frame, bytes));
    good!(PT.map(COUNT, COUNT, target, 0, RW, slot(2)));
    for n in 0..u64::from(COUNT) {
        // SAFETY: mapped for this test only.
        unsafe { core::ptr::write_volatile((VA + n * PAGE) as *mut u64, n) };
    }
    let all = terms(COUNT, 0, bytes, own);
    for _ in 0..3 {
        good!(frames.lend(op::Lend { copies, ..all }));
        let to = VA + bytes;
        check!(copies.copy_out(0, to, bytes) == Ok(Copied { bytes: bytes / 2, short: 0 }));
        check!(copies.copy_out(bytes - 1, to, bytes) == Ok(Copied { bytes: 1, short: 1 }));
        // Very many copies of one of them.
        let more = good!(load.slots(256));
        for n in 0..256 {
            good!(copies.copy_to(more.plus(n)));
        }
        good!(own.recall(COUNT));
        fails!(Empty, copies.copy_out(0, to, 1));
        fails!(Empty, more.identify());
    }
    // Too many Frames, and as many as may be when entries are lowered; with many Mappings.
    fails!(OutOfRange, frames.lend(op::Lend { lower: true, ..all }));
    for table in 0..10 {
        let (at, mappings) = (slot(3 + table), load.slots(COUNT));
        good!(load.make(Pt, PAGE, 1, at));
        good!(at.map_many(0, COUNT, frames, RW, good!(mappings)));
    }
    let some = terms(24, 0, 24 * PAGE, own);
    for lower in [true, true, false] {
        good!(frames.lend(op::Lend { copies, lower, ..some }));
        good!(own.recall(COUNT));
    }
    fails!(OutOfRange, frames.lend(all));
    good!(load.end());
    Ok(())
}
