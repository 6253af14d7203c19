//! What the allocators have to do.

use crate::Allocator;
use std::sync::Barrier;
use std::time::Instant;

/// Runs a workload: the allocator, the order of blocks, threads, and blocks of each thread. Returns how many ns one
/// block is taken and given back in, on each thread.
pub type Run = fn(&dyn AllocatorRef, usize, usize, usize) -> f64;

/// The allocators without their types.
pub trait AllocatorRef: Sync {
    fn take(&self, order: usize, thread: usize) -> Option<usize>;
    fn give(&self, frame: usize, order: usize, thread: usize);
}

impl<A: Allocator> AllocatorRef for A {
    fn take(&self, order: usize, thread: usize) -> Option<usize> {
        Allocator::take(self, order, thread)
    }
    fn give(&self, frame: usize, order: usize, thread: usize) {
        Allocator::give(self, frame, order, thread)
    }
}

/// All, by their names.
pub const ALL: [(&str, Run); 3] = [("bulk", bulk), ("random", random), ("repeat", repeat)];

/// How often a block is taken and given back in `repeat`, for each that the others take.
const REPEATED: usize = 4;

/// Has all threads do something at the same time; the mean of their times for a block, in ns.
fn together(threads: usize, blocks: usize, work: impl Fn(usize, &Barrier) -> f64 + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let sum: f64 = std::thread::scope(|scope| {
        let run = |thread| {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || work(thread, barrier))
        };
        let all: Vec<_> = (0..threads).map(run).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread has ended well")).sum()
    });
    sum / (threads * blocks) as f64
}

fn take_all(from: &dyn AllocatorRef, order: usize, thread: usize, blocks: usize) -> Vec<usize> {
    let mut taken = Vec::with_capacity(blocks);
    taken.extend((0..blocks).map(|_| from.take(order, thread).expect("there is enough")));
    taken
}

fn bulk(all: &dyn AllocatorRef, order: usize, threads: usize, blocks: usize) -> f64 {
    together(threads, blocks, |thread, barrier| {
        barrier.wait();
        let start = Instant::now();
        let taken = take_all(all, order, thread, blocks);
        taken.iter().for_each(|&frame| all.give(frame, order, thread));
        start.elapsed().as_nanos() as f64
    })
}

fn random(all: &dyn AllocatorRef, order: usize, threads: usize, blocks: usize) -> f64 {
    together(threads, blocks, |thread, barrier| {
        barrier.wait();
        let start = Instant::now();
        let mut taken = take_all(all, order, thread, blocks);
        let between = Instant::now();
        fastrand::Rng::with_seed(thread as u64).shuffle(&mut taken);
        let shuffled = between.elapsed();
        taken.iter().for_each(|&frame| all.give(frame, order, thread));
        (start.elapsed() - shuffled).as_nanos() as f64
    })
}

fn repeat(all: &dyn AllocatorRef, order: usize, threads: usize, blocks: usize) -> f64 {
    let rounds = blocks * REPEATED;
    together(threads, rounds, |thread, barrier| {
        let kept = take_all(all, order, thread, blocks / 2);
        barrier.wait();
        let start = Instant::now();
        for _ in 0..rounds {
            let frame = all.take(order, thread).expect("there is enough");
            all.give(frame, order, thread);
        }
        let elapsed = start.elapsed();
        kept.iter().for_each(|&frame| all.give(frame, order, thread));
        elapsed.as_nanos() as f64
    })
}
