//! The run queue: by priority, and below fair, by virtual runtime.
//!
//! Virtual runtime is the processor time that a dispatcher has used, in proportion to its weight; whoever has used least runs
//! next. The queue holds it in buckets of 2^20 ticks (about a third of a millisecond), 64 of them
//! from the present one on, like the hours of a clock. Inside a bucket the order is first in, first out, servers first. Whose
//! next turn is further ahead, because its weight is small, is in a heap. Who sleeps saves no time up: on waking, its
//! runtime is at least that of the present bucket.
//!
//! Those with a priority ([`prior`](super::prior)) go before all others but servers, without which nobody gets on.
//!
//! Everything is done in constant time, but with those that are far ahead: O(log n).

use super::heap::{Heap, Order};
use super::prior::Prior;
use crate::object::dcb::{flag, HeapLinks};
use crate::object::schedule::PRIORITY_MOST;
use crate::object::{DcbList, DcbRef, Schedule};

/// Width of a bucket in ticks, as a shift.
const SHIFT: u32 = 20;
const BUCKETS: u64 = 64;

/// How many are looked at to find one with a property.
const MOST_LOOKED_AT: u32 = 32;

/// The rank of a server; below are priorities.
pub const SERVER: u8 = PRIORITY_MOST as u8 + 1;

/// Buckets of programs and of servers. The numbers of lists: those of both, then priorities, then the heap.
const PROGRAMS: usize = 0;
const SERVERS: usize = 1;
const PRIORITIES: u32 = 2 * BUCKETS as u32;
const FAR: u32 = u32::MAX;

/// By virtual runtime.
struct ByRuntime;

impl Order for ByRuntime {
    fn links(dcb: &DcbRef) -> &HeapLinks {
        &dcb.share.far
    }
    fn key(dcb: DcbRef) -> u64 {
        dcb.share.runtime.get()
    }
}

/// The run queue of one core.
pub struct RunQueue {
    /// Which of the buckets are not empty.
    used: [u64; 2],
    /// Number of the present bucket: virtual runtime over 2^20.
    now: u64,
    /// Somebody waits who is far ahead, or has a priority.
    has_special: bool,
    buckets: [[DcbList; BUCKETS as usize]; 2],
    far: Heap<ByRuntime>,
    prior: Prior,
}

#[inline]
fn kind(dcb: DcbRef) -> usize {
    match dcb.has(flag::SUPERVISED) {
        true => PROGRAMS,
        false => SERVERS,
    }
}

impl RunQueue {
    /// An empty queue.
    pub const fn new() -> RunQueue {
        let buckets = [const { [const { DcbList::new() }; BUCKETS as usize] }; 2];
        let (far, prior) = (Heap::new(), Prior::new());
        RunQueue { used: [0; 2], now: 0, has_special: false, buckets, far, prior }
    }

    /// Is nobody waiting?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used[PROGRAMS] | self.used[SERVERS] == 0 && !self.has_special
    }

    /// Does somebody wait who has a priority?
    #[inline]
    pub fn has_prior(&self) -> bool {
        self.has_special && !self.prior.is_empty()
    }

    /// The first with a property, by the order in which they run, of the `MOST_LOOKED_AT` that run
    /// next: others are found when it is their turn. Of those that are far ahead only the first counts.
    pub fn find(&self, mut has: impl FnMut(DcbRef) -> bool) -> Option<DcbRef> {
        let mut left = MOST_LOOKED_AT;
        let mut find_in = |list: &DcbList| {
            let mut at = list.first();
            while let Some(dcb) = at.filter(|_| left != 0) {
                if has(dcb) {
                    return Some(dcb);
                }
                left -= 1;
                at = dcb.links.next.get();
            }
            None
        };
        if self.has_special {
            if let Some(found) = self.prior.lists().find_map(&mut find_in) {
                return Some(found);
            }
        }
        let first = (self.now % BUCKETS) as u32;
        let mut used = self.of_all().rotate_right(first);
        while used != 0 {
            let number = (u64::from(first + used.trailing_zeros()) % BUCKETS) as usize;
            let [programs, servers] = &self.buckets;
            let found = find_in(&servers[number]).or_else(|| find_in(&programs[number]));
            if found.is_some() {
                return found;
            }
            used &= used - 1;
        }
        self.far.first().filter(|&dcb| has(dcb))
    }

    /// The runtime of who is not behind and not ahead.
    pub fn present(&self) -> u64 {
        self.now << SHIFT
    }

    /// Puts a dispatcher in, behind those of its priority or runtime.
    #[inline]
    pub fn push(&mut self, dcb: DcbRef) {
        if dcb.has(flag::QUEUED) {
            return;
        }
        dcb.set(flag::QUEUED);
        match dcb.share.schedule().priority() {
            0 => self.push_fair(dcb),
            priority => {
                dcb.time.has_waited();
                self.push_prior(dcb, priority, Prior::push);
            }
        }
    }

    /// Puts one in that has run and goes on when it may. With a priority that is in its turn.
    #[inline]
    pub fn put_back(&mut self, dcb: DcbRef) {
        if dcb.has(flag::QUEUED) {
            return;
        }
        dcb.set(flag::QUEUED);
        match dcb.share.schedule().priority() {
            0 => self.push_fair(dcb),
            priority => self.push_prior(dcb, priority, Prior::put_back),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_prior(&mut self, dcb: DcbRef, priority: u8, put: fn(&mut Prior, DcbRef, u8)) {
        dcb.share.list.set(PRIORITIES + u32::from(priority));
        put(&mut self.prior, dcb, priority);
        self.has_special = true;
    }

    #[inline]
    fn push_fair(&mut self, dcb: DcbRef) {
        let runtime = dcb.share.runtime.get().max(self.present());
        dcb.share.runtime.set(runtime);
        let (kind, mut number) = (kind(dcb), runtime >> SHIFT);
        if number - self.now >= BUCKETS {
            if kind == PROGRAMS {
                return self.push_far(dcb);
            }
            number = self.now + BUCKETS - 1;
        }
        number %= BUCKETS;
        dcb.share.list.set(kind as u32 * BUCKETS as u32 + number as u32);
        self.buckets[kind][number as usize].push(dcb);
        self.used[kind] |= 1 << number;
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, dcb: DcbRef) {
        dcb.share.list.set(FAR);
        self.far.add(dcb);
        self.has_special = true;
    }

    /// Takes the one that runs next.
    #[inline]
    pub fn pop(&mut self) -> Option<DcbRef> {
        if self.has_special {
            if let Some(dcb) = self.special() {
                self.remove(dcb);
                return Some(dcb);
            }
        }
        let used = self.of_all();
        if used == 0 {
            return None;
        }
        self.now = self.next(used);
        let number = self.now % BUCKETS;
        let kind = (self.used[SERVERS] >> number & 1) as usize;
        let first = self.buckets[kind][number as usize].first()?;
        self.remove(first);
        Some(first)
    }

    /// Who runs next, if that is somebody with a priority or far ahead, or a server that goes before the former.
    #[cold]
    #[inline(never)]
    fn special(&mut self) -> Option<DcbRef> {
        let used = self.of_all();
        let others_wait = used != 0 || self.far.first().is_some();
        if !self.prior.is_empty() && !(self.prior.are_spent() && others_wait) {
            return match self.used[SERVERS] {
                0 => self.prior.first(),
                // No time passes for programs.
                servers => self.buckets[SERVERS][(self.next(servers) % BUCKETS) as usize].first(),
            };
        }
        let far = self.far.first()?;
        let bucket = far.share.runtime.get() >> SHIFT;
        if used != 0 && self.next(used) < bucket {
            return None;
        }
        self.now = self.now.max(bucket);
        Some(far)
    }

    #[inline]
    fn of_all(&self) -> u64 {
        self.used[PROGRAMS] | self.used[SERVERS]
    }

    /// The first of some buckets from the present one on.
    #[inline]
    fn next(&self, used: u64) -> u64 {
        self.now + u64::from(used.rotate_right((self.now % BUCKETS) as u32).trailing_zeros())
    }

    /// Takes a dispatcher out, wherever it is.
    pub fn remove(&mut self, dcb: DcbRef) {
        if !dcb.has(flag::QUEUED) {
            return;
        }
        dcb.clear(flag::QUEUED);
        let list = dcb.share.list.get();
        if list >= PRIORITIES {
            return self.remove_special(dcb, list);
        }
        let (kind, number) = (list as usize / BUCKETS as usize, list as usize % BUCKETS as usize);
        let list = &self.buckets[kind][number];
        list.remove(dcb);
        if list.first().is_none() {
            self.used[kind] &= !(1 << number);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_special(&mut self, dcb: DcbRef, list: u32) {
        match list {
            FAR => self.far.remove(dcb),
            list => self.prior.remove(dcb, (list - PRIORITIES) as u8),
        }
        self.has_special = !self.prior.is_empty() || self.far.first().is_some();
    }
}

/// So many ticks are a second.
pub fn set_second(queue: &mut RunQueue, ticks: u64) {
    queue.prior.set_period(ticks);
}

/// Time has passed: those with a priority may get a part of another second.
pub fn look(queue: &mut RunQueue, now: u64) {
    queue.prior.look(now);
}

/// The rank of a dispatcher: that of servers, its priority, or 0. Of two the one with the higher rank runs.
pub fn rank(queue: &RunQueue, dcb: DcbRef) -> u8 {
    match dcb.share.schedule().priority() {
        0 if kind(dcb) == SERVERS => SERVER,
        priority if !queue.prior.are_spent() => priority,
        _ => 0,
    }
}

/// The highest rank of those that wait.
pub fn highest(queue: &RunQueue) -> u8 {
    match queue.used[SERVERS] {
        0 if queue.prior.are_spent() => 0,
        0 => queue.prior.highest(),
        _ => SERVER,
    }
}

/// One whose schedule is not the usual one has run for so many ticks, until `now`.
#[cold]
#[inline(never)]
pub fn charge(queue: &mut RunQueue, dcb: DcbRef, schedule: Schedule, used: u64, now: u64) {
    let counts = match schedule.priority() {
        0 => schedule.virtual_time(used),
        _ => {
            queue.prior.charge(used, now);
            dcb.time.goes_on(used);
            used
        }
    };
    dcb.share.runtime.set(dcb.share.runtime.get().saturating_add(counts));
}

/// One leaves for another core: it is as far ahead there as here.
pub fn leave(queue: &RunQueue, dcb: DcbRef) {
    if dcb.share.schedule().priority() == 0 {
        dcb.share.runtime.set(dcb.share.runtime.get().saturating_sub(queue.present()));
    }
}

/// One has come from another core.
pub fn arrive(queue: &RunQueue, dcb: DcbRef) {
    if dcb.share.schedule().priority() == 0 {
        dcb.share.runtime.set(dcb.share.runtime.get().saturating_add(queue.present()));
    }
}

/// Panics unless the heap is in order.
#[cfg(test)]
pub fn check(queue: &RunQueue) {
    queue.far.check();
}

impl Default for RunQueue {
    fn default() -> Self {
        Self::new()
    }
}
