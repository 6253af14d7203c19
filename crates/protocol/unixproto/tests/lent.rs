//! Whatever a process was let do to a file that is lent, `unixd` is told of when it takes the file back.

use core::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use unixproto::session::{ShownFiles, ShownLoan, Uses};

const INODE: u64 = 5;
const DESC: u32 = 9;
const LOANS: u32 = 5_000;

fn nothing<T>() -> T {
    // SAFETY: nothing but atomics, of which zero is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[test]
fn each_write_is_told_of() {
    let place: ShownLoan = nothing();
    let (clock, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let (loans, writes) = thread::scope(|scope| {
        let writer = || {
            let mut writes = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                let Some(loan) = place.get(INODE, DESC) else { continue };
                let now = tick();
                if place.write(loan, now) {
                    writes.push(now);
                }
            }
            writes
        };
        let writers = [scope.spawn(writer), scope.spawn(writer)];
        let mut loans = Vec::new();
        let mut state = 1u64;
        for _ in 0..LOANS {
            let begun = tick();
            place.lend((INODE, DESC), (3, 4096), begun, None);
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            for _ in 0..state >> 56 {
                core::hint::spin_loop();
            }
            let last = place.take().written;
            assert_eq!((place.take().written, place.get(INODE, DESC)), (0, None));
            loans.push((begun, last));
        }
        is_over.store(true, Ordering::Release);
        let writes = writers.map(|writer| writer.join().unwrap());
        (loans, writes)
    });
    for (&(begun, last), &(next, _)) in loans.iter().zip(&loans[1..]) {
        assert!(begun <= last && last < next, "{begun} to {last}, then {next}");
    }
    let mut told = 0;
    for write in writes.iter().flatten() {
        let loan = loans.partition_point(|(begun, _)| begun < write);
        let (begun, last) = loans[loan.checked_sub(1).expect("none before the first")];
        assert!(begun < *write && *write <= last, "{write} is in no loan: {begun} to {last}");
        told += 1;
    }
    assert!(told > 0, "nothing was written");
}

#[test]
fn a_loan_is_of_one_file_and_one_description() {
    let files: ShownFiles = nothing();
    let place = files.loan(INODE);
    place.lend((INODE, DESC), (3, 4096), 10, None);
    assert_eq!((place.get(INODE, DESC + 1), place.get(INODE + 8, DESC)), (None, None));
    let loan = place.get(INODE, DESC).unwrap();
    assert_eq!((loan.layout, loan.size), (3, 4096));
    // A clock that goes back is no reason to say less.
    assert!(place.write(loan, 5) && !place.write(loan, 20));
    assert_eq!((place.take(), place.get(INODE, DESC)), (Uses { written: 11, read: 0 }, None));
    assert!(!place.write(loan, 30));
}

#[test]
fn a_file_is_lent_after_two_writes_that_leave_its_size() {
    let place: ShownLoan = nothing();
    assert!(!place.ask(INODE, 4096) && !place.ask(INODE, 8192) && place.ask(INODE, 8192));
    assert!(!place.ask(INODE + 8, 8192) && !place.ask(INODE, 8192) && place.ask(INODE, 8192));
    place.lend((INODE, DESC), (3, 8192), 10, None);
    // Another file at this place changes nothing of it.
    assert!(!place.ask(INODE + 8, 1));
    assert_eq!(place.get(INODE, DESC).map(|loan| loan.size), Some(8192));
    // After it was taken back it is to be written to again.
    assert_eq!(place.take().written, 10);
    assert!(!place.ask(INODE, 8192) && place.ask(INODE, 8192));
}

#[test]
fn reads_of_who_has_it_alone_are_told_of() {
    let place: ShownLoan = nothing();
    assert!(!place.was_read(INODE, || 1) && place.readable(INODE).is_none());
    place.lend((INODE, DESC), (3, 4096), 10, Some(5));
    assert_eq!((place.readable(INODE), place.readable(INODE + 8)), (Some((3, 4096)), None));
    // The first one after a write, and no other; none is before the write.
    assert!(place.was_read(INODE, || 20) && place.was_read(INODE, || panic!("it is known")));
    let write = |now| place.write(place.get(INODE, DESC).unwrap(), now);
    assert!(write(30) && place.was_read(INODE, || 40));
    assert!(write(50) && place.was_read(INODE, || 45));
    assert_eq!(place.take(), Uses { written: 50, read: 50 });
    assert!(!place.was_read(INODE, || 50) && place.readable(INODE).is_none());
    // Nothing of it is left for the next one, of which reads are not told, and that is what it was lent with.
    place.lend((INODE, DESC), (3, 4096), 60, Some(0));
    assert_eq!(place.take(), Uses { written: 60, read: 1 });
    place.lend((INODE, DESC), (3, 4096), 70, None);
    assert!(!place.was_read(INODE, || 80) && place.readable(INODE).is_none());
    assert_eq!(place.take(), Uses { written: 70, read: 0 });
    // Somebody else writes to it from now on.
    place.lend((INODE, DESC), (3, 4096), 90, Some(85));
    assert!(place.was_read(INODE, || 95));
    assert_eq!(place.end_reads(), 95);
    assert!(!place.was_read(INODE, || 100) && place.readable(INODE).is_none());
    assert!(write(110));
    assert_eq!(place.take(), Uses { written: 110, read: 0 });
}

/// Two threads write and then read, while reads and the loan are taken away: of each read that counts `unixd` was told, as of one behind
/// that write.
#[test]
fn each_read_is_told_of() {
    let place: ShownLoan = nothing();
    let (clock, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let worker = || {
        let mut reads = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            let Some(loan) = place.get(INODE, DESC) else { continue };
            let write = tick();
            if place.write(loan, write) && place.was_read(INODE, tick) {
                reads.push((write, tick()));
            }
        }
        reads
    };
    let (loans, reads) = thread::scope(|scope| {
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        let mut loans = Vec::new();
        for number in 0..LOANS {
            let begun = tick();
            place.lend((INODE, DESC), (3, 4096), begun, Some(1));
            (0..number % 256).for_each(|_| core::hint::spin_loop());
            let ended = (number % 2 == 0).then(|| place.end_reads());
            let uses = place.take();
            assert!(ended.is_none() || uses.read == 0);
            loans.push((begun, ended.unwrap_or(uses.read)));
        }
        is_over.store(true, Ordering::Release);
        (loans, workers.map(|worker| worker.join().unwrap()))
    });
    for (write, end) in reads.iter().flatten() {
        let begun_before = loans.partition_point(|(begun, _)| begun < end);
        let is_told = loans[..begun_before].iter().rev().any(|(_, last)| last >= write);
        assert!(is_told, "the read behind {write} is not known at {end}");
    }
    assert!(reads.iter().any(|reads| !reads.is_empty()), "nothing was read");
}
