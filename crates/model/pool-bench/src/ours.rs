//! `crates/storage/pool`, with its words in memory of the host.

use crate::Allocator;
use pool::{Geometry, Locals, Pool, Size, Words};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// A core's words, in a line of their own.
#[repr(align(64))]
#[derive(Default)]
struct Local {
    reserved: AtomicU64,
    found_in: AtomicUsize,
}

/// The allocator.
pub struct Ours {
    words: Vec<AtomicU64>,
    locals: Vec<Local>,
    geometry: Geometry,
}

impl Ours {
    fn with<R>(&self, work: impl FnOnce(Pool<'_, &Self, &Self>) -> R) -> R {
        work(Pool { words: &self, locals: &self, geometry: self.geometry })
    }
}

impl Words for Ours {
    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Acquire)
    }
    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Release);
    }
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64> {
        self.words[word].compare_exchange(old, new, AcqRel, Acquire).map(drop)
    }
}

impl Locals for Ours {
    fn cores(&self) -> usize {
        self.locals.len()
    }
    fn load(&self, core: usize) -> u64 {
        self.locals[core].reserved.load(Acquire)
    }
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64> {
        self.locals[core].reserved.compare_exchange(old, new, AcqRel, Acquire).map(drop)
    }
    fn found_in(&self, core: usize) -> usize {
        self.locals[core].found_in.load(Relaxed)
    }
    fn set_found_in(&self, core: usize, group: usize) {
        self.locals[core].found_in.store(group, Relaxed);
    }
}

fn size(order: usize) -> Size {
    match order {
        0 => Size::Page,
        _ => Size::Huge,
    }
}

impl Allocator for Ours {
    fn new(frames: usize, threads: usize) -> Ours {
        let geometry =
            Geometry::new(frames, 0).expect("there are more frames than the allocator needs");
        let words = (0..geometry.words()).map(|_| AtomicU64::new(0)).collect();
        let locals = (0..threads).map(|_| Local::default()).collect();
        let ours = Ours { words, locals, geometry };
        ours.with(|pool| pool.format());
        ours
    }
    fn take(&self, order: usize, thread: usize) -> Option<usize> {
        self.with(|pool| {
            let next = (order == 0).then(|| pool.take_next(thread)).flatten();
            next.or_else(|| pool.take(size(order), thread).ok())
        })
    }
    fn give(&self, frame: usize, order: usize, thread: usize) {
        let given = self.with(|pool| pool.give(frame, size(order), thread));
        assert_eq!(given, Ok(()), "a frame that was taken comes back");
    }
    fn free(&self) -> usize {
        self.with(|pool| pool.free())
    }
}
