//! The allocator of pools beside a buddy allocator with a lock, as a kernel without per-core lists has one, by the
//! host's clock.
//!
//! | workload | as in LLFree's evaluation (USENIX ATC 2023, §4.2) |
//! |---|---|
//! | bulk | each thread takes all of its share, and gives it back in the same order |
//! | random | each takes its share and gives it back in random order |
//! | repeat | each takes one and gives it back, again and again, with half of the memory in use |

mod buddy;
mod ours;
pub mod workload;

pub use buddy::LockedBuddy;
pub use ours::Ours;

/// What is measured. A frame has 4 KiB.
pub trait Allocator: Sync {
    /// With so many frames, for so many threads.
    fn new(frames: usize, threads: usize) -> Self;
    /// Takes 2^`order` frames, naturally aligned; `order` is 0 or 9.
    fn take(&self, order: usize, thread: usize) -> Option<usize>;
    /// Gives them back.
    fn give(&self, frame: usize, order: usize, thread: usize);
    /// How many frames are free.
    fn free(&self) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn takes_each_once<A: Allocator>() {
        let all = A::new(4096, 2);
        let free = all.free();
        let large: Vec<usize> = (0..2).filter_map(|n| all.take(9, n)).collect();
        assert!(large.len() == 2 && large.iter().all(|frame| frame.is_multiple_of(512)));
        let small: Vec<usize> = std::iter::from_fn(|| all.take(0, 1)).collect();
        assert_eq!(small.len(), free - 1024);
        let in_large = large.iter().flat_map(|&first| first..first + 512);
        let distinct: HashSet<usize> = small.iter().copied().chain(in_large).collect();
        assert_eq!((distinct.len(), all.free()), (free, 0));
        small.iter().for_each(|&frame| all.give(frame, 0, 0));
        large.iter().for_each(|&frame| all.give(frame, 9, 0));
        assert_eq!(all.free(), free);
        // What was given back one by one is whole again.
        assert!(all.take(9, 0).is_some());
    }

    #[test]
    fn both_are_allocators() {
        takes_each_once::<Ours>();
        takes_each_once::<LockedBuddy>();
    }

    #[test]
    fn workloads_leave_nothing() {
        for (_, run) in workload::ALL {
            let ours = Ours::new(8192, 2);
            let free = ours.free();
            assert!(run(&ours, 0, 2, 1000) > 0.0 && ours.free() == free);
            let buddy = LockedBuddy::new(8192, 2);
            let free = buddy.free();
            assert!(run(&buddy, 9, 2, 4) > 0.0 && buddy.free() == free);
        }
    }
}
