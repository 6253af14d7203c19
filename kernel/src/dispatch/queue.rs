//! The run queue: fair, by virtual runtime, with every operation in constant time.
//!
//! Virtual runtime is the processor time that a dispatcher has used; whoever has used least runs
//! next. The queue holds it in buckets of 2^20 ticks (about a third of a millisecond), 64 of them
//! from the present one on, like the hours of a clock: what is further ahead waits in the last.
//! Inside a bucket the order is first in, first out. Who sleeps saves no time up: on waking, its
//! runtime is at least that of the present bucket.

use crate::object::dcb::flag;
use crate::object::DcbRef;

/// Width of a bucket in ticks, as a shift.
const SHIFT: u32 = 20;
const BUCKETS: u64 = 64;

/// How many are looked at to find one with a property.
const MOST_LOOKED_AT: u32 = 32;

#[derive(Clone, Copy)]
struct Bucket {
    head: Option<DcbRef>,
    tail: Option<DcbRef>,
}

/// The run queue of one core.
pub struct RunQueue {
    buckets: [Bucket; BUCKETS as usize],
    /// Which of them are not empty.
    used: u64,
    /// Number of the present bucket: virtual runtime over 2^20.
    now: u64,
}

impl RunQueue {
    /// An empty queue.
    pub const fn new() -> RunQueue {
        let empty = Bucket { head: None, tail: None };
        RunQueue { buckets: [empty; BUCKETS as usize], used: 0, now: 0 }
    }

    /// Is nobody waiting?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The first with a property, by the order in which they run, of the `MOST_LOOKED_AT` that run
    /// next: others are found when it is their turn.
    pub fn find(&self, mut has: impl FnMut(DcbRef) -> bool) -> Option<DcbRef> {
        let mut left = MOST_LOOKED_AT;
        let first = (self.now % BUCKETS) as u32;
        let mut used = self.used.rotate_right(first);
        while used != 0 {
            let number = (first + used.trailing_zeros()) % BUCKETS as u32;
            let mut at = self.buckets[number as usize].head;
            while let Some(dcb) = at {
                if has(dcb) {
                    return Some(dcb);
                }
                left -= 1;
                if left == 0 {
                    return None;
                }
                at = dcb.links.next.get();
            }
            used &= used - 1;
        }
        None
    }

    /// The runtime of who is not behind and not ahead.
    pub fn present(&self) -> u64 {
        self.now << SHIFT
    }

    /// Puts a dispatcher in, by its runtime.
    #[inline]
    pub fn push(&mut self, dcb: DcbRef) {
        if dcb.has(flag::QUEUED) {
            return;
        }
        dcb.set(flag::QUEUED);
        dcb.runtime.set(dcb.runtime.get().max(self.present()));
        let number = (dcb.runtime.get() >> SHIFT).min(self.now + BUCKETS - 1) % BUCKETS;
        dcb.bucket.set(number);
        let bucket = &mut self.buckets[number as usize];
        dcb.links.prev.set(bucket.tail);
        dcb.links.next.set(None);
        match bucket.tail.replace(dcb) {
            Some(tail) => tail.links.next.set(Some(dcb)),
            None => bucket.head = Some(dcb),
        }
        self.used |= 1 << number;
    }

    /// Takes the one that has run least.
    #[inline]
    pub fn pop(&mut self) -> Option<DcbRef> {
        if self.used == 0 {
            return None;
        }
        let ahead = self.used.rotate_right((self.now % BUCKETS) as u32).trailing_zeros();
        self.now += u64::from(ahead);
        let first = self.buckets[(self.now % BUCKETS) as usize].head?;
        self.remove(first);
        Some(first)
    }

    /// Takes a dispatcher out, wherever it is.
    pub fn remove(&mut self, dcb: DcbRef) {
        if !dcb.has(flag::QUEUED) {
            return;
        }
        dcb.clear(flag::QUEUED);
        let number = dcb.bucket.get() % BUCKETS;
        let bucket = &mut self.buckets[number as usize];
        let (prev, next) = (dcb.links.prev.take(), dcb.links.next.take());
        match prev {
            Some(prev) => prev.links.next.set(next),
            None => bucket.head = next,
        }
        match next {
            Some(next) => next.links.prev.set(prev),
            None => bucket.tail = prev,
        }
        if bucket.head.is_none() {
            self.used &= !(1 << number);
        }
    }
}

impl Default for RunQueue {
    fn default() -> Self {
        Self::new()
    }
}
