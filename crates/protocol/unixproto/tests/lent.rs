//! Whatever a process was let do to a file that is lent, `unixd` is told of when it takes the file back.

use core::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use unixproto::session::{ShownFiles, ShownLoan};

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
            place.lend((INODE, DESC), 3, 4096, begun);
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            for _ in 0..state >> 56 {
                core::hint::spin_loop();
            }
            let last = place.take();
            assert_eq!((place.take(), place.get(INODE, DESC)), (0, None));
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
    place.lend((INODE, DESC), 3, 4096, 10);
    assert_eq!((place.get(INODE, DESC + 1), place.get(INODE + 8, DESC)), (None, None));
    let loan = place.get(INODE, DESC).unwrap();
    assert_eq!((loan.layout, loan.size), (3, 4096));
    // A clock that goes back is no reason to say less.
    assert!(place.write(loan, 5) && !place.write(loan, 20));
    assert_eq!((place.take(), place.get(INODE, DESC)), (11, None));
    assert!(!place.write(loan, 30));
}

#[test]
fn a_file_is_lent_after_two_writes_that_leave_its_size() {
    let place: ShownLoan = nothing();
    assert!(!place.ask(INODE, 4096) && !place.ask(INODE, 8192) && place.ask(INODE, 8192));
    assert!(!place.ask(INODE + 8, 8192) && !place.ask(INODE, 8192) && place.ask(INODE, 8192));
    place.lend((INODE, DESC), 3, 8192, 10);
    // Another file at this place changes nothing of it.
    assert!(!place.ask(INODE + 8, 1));
    assert_eq!(place.get(INODE, DESC).map(|loan| loan.size), Some(8192));
    // After it was taken back it is to be written to again.
    assert_eq!(place.take(), 10);
    assert!(!place.ask(INODE, 8192) && place.ask(INODE, 8192));
}
