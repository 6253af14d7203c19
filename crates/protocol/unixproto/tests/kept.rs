//! What a library keeps open is closed once: by it, or by `unixd`, whenever either takes it.

use core::mem::MaybeUninit;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use unixproto::session::ShownStat;

const INODE: u64 = 5;
const ROUNDS: u32 = 200_000;

#[test]
fn each_description_is_closed_once() {
    // SAFETY: nothing but atomics, of which zero is a value.
    let place: ShownStat = unsafe { MaybeUninit::zeroed().assume_init() };
    let is_over = AtomicBool::new(false);
    let (by_library, by_unixd, again) = thread::scope(|scope| {
        let unixd = scope.spawn(|| {
            let (mut closed, mut state) = (Vec::new(), 1u64);
            while !is_over.load(Ordering::Acquire) {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                place.let_keep(INODE);
                for _ in 0..state >> 58 {
                    core::hint::spin_loop();
                }
                place.take_away(&mut |desc| closed.push(desc));
            }
            place.take_away(&mut |desc| closed.push(desc));
            closed
        });
        let (mut closed, mut again) = (Vec::new(), 0);
        for desc in 1..=ROUNDS {
            // Opened; closed, and opened again as long as it is kept.
            loop {
                if !place.keep(INODE, desc) {
                    closed.push(desc);
                    break;
                }
                if !place.take_back(INODE, desc) {
                    // It is taken away, or about to be.
                    break;
                }
                again += 1;
                if again % 7 == 0 {
                    closed.push(desc);
                    break;
                }
            }
        }
        is_over.store(true, Ordering::Release);
        (closed, unixd.join().unwrap(), again)
    });
    let all: BTreeSet<u32> = by_library.iter().chain(&by_unixd).copied().collect();
    assert_eq!(by_library.len() + by_unixd.len(), all.len(), "closed twice");
    assert_eq!(all.len(), ROUNDS as usize, "some are never closed");
    assert!(again > 0, "none was kept");
}

#[test]
fn what_is_kept_is_of_one_file() {
    // SAFETY: as above.
    let place: ShownStat = unsafe { MaybeUninit::zeroed().assume_init() };
    assert!(!place.keep(INODE, 1), "nothing may be kept");
    place.let_keep(INODE);
    assert!(!place.keep(INODE + 8, 1), "another one may not");
    assert!(place.keep(INODE, 1) && !place.keep(INODE, 2), "one at a time");
    assert!(!place.take_back(INODE + 8, 1) && !place.take_back(INODE, 2));
    assert!(place.take_back(INODE, 1) && !place.take_back(INODE, 1));
    assert!(place.keep(INODE, 3));
    let mut left = Vec::new();
    place.take_away(&mut |desc| left.push(desc));
    assert_eq!(left, [3]);
    assert!(!place.take_back(INODE, 3) && !place.keep(INODE, 4));
}
