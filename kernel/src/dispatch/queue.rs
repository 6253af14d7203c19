//! The run queue: by priority, and below fair, by virtual runtime.
//!
//! Virtual runtime is the processor time that a dispatcher has used, in proportion to its weight; whoever has used least runs
//! next. The queue holds it in buckets of 2^20 ticks (about a third of a millisecond), 64 of them
//! from the present one on, like the hours of a clock. Inside a bucket the order is first in, first out, servers first. Whose
//! next turn is further ahead, because its weight is small, is in a heap. Who sleeps saves no time up: on waking, its
//! runtime is at least that of the present bucket.
//!
//! Those with a priority (`prior.rs`) go before all others but servers, without which nobody gets on.
//!
//! Everything is done in constant time, but with those that are far ahead: O(log n).

use super::heap::{Heap, Order};
use super::prior::Prior;
use crate::object::dcb::{flag, HeapLinks};
use crate::object::schedule::PRIORITY_MOST;
use crate::object::{DcbList, DcbRef};

/// Width of a bucket in ticks, as a shift.
const SHIFT: u32 = 20;
const BUCKETS: u64 = 64;

/// How many are looked at to find one with a property.
const MOST_LOOKED_AT: u32 = 32;

/// The rank of a server; below are priorities.
pub const SERVER: u8 = PRIORITY_MOST as u8 + 1;

/// The numbers of lists: buckets of servers, buckets of programs, then priorities, then the heap.
pub const PROGRAMS: u32 = BUCKETS as u32;
const PRIORITIES: u32 = 2 * BUCKETS as u32;
const FAR: u32 = u32::MAX;

/// The runtime of who has a priority. Nobody else comes near.
const NEVER: u64 = 1 << 63;

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
    /// Which of the buckets are not empty, of servers or of programs.
    used: u64,
    /// Number of the present bucket: virtual runtime over 2^20.
    now: u64,
    /// Somebody waits who is far ahead, or has a priority.
    has_special: bool,
    buckets: [DcbList; PRIORITIES as usize],
    far: Heap<ByRuntime>,
    prior: Prior,
}

impl RunQueue {
    /// An empty queue.
    pub const fn new() -> RunQueue {
        let buckets = [const { DcbList::new() }; PRIORITIES as usize];
        let (far, prior) = (Heap::new(), Prior::new());
        RunQueue { used: 0, now: 0, has_special: false, buckets, far, prior }
    }

    /// Is nobody waiting?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0 && !self.has_special
    }

    /// Does somebody wait who has a priority, or is far ahead?
    #[inline]
    pub fn has_special(&self) -> bool {
        self.has_special
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
        let mut used = self.used.rotate_right(first);
        while used != 0 {
            let number = (u64::from(first + used.trailing_zeros()) % BUCKETS) as usize;
            let (servers, programs) = self.buckets.split_at(BUCKETS as usize);
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
        if !dcb.has(flag::QUEUED) {
            self.insert(dcb, Prior::push);
        }
    }

    /// Puts one in that was current, and goes on when it may. With a priority that is in its turn.
    #[inline]
    pub fn put_back(&mut self, dcb: DcbRef) {
        debug_assert!(!dcb.has(flag::QUEUED));
        self.insert(dcb, Prior::put_back);
    }

    #[inline(always)]
    fn insert(&mut self, dcb: DcbRef, with_priority: fn(&mut Prior, DcbRef, u8)) {
        dcb.set(flag::QUEUED);
        let runtime = dcb.share.runtime.get().max(self.present());
        dcb.share.runtime.set(runtime);
        let bucket = runtime >> SHIFT;
        if bucket - self.now >= BUCKETS {
            return self.insert_special(dcb, with_priority);
        }
        self.put(dcb, bucket);
    }

    #[inline(always)]
    fn put(&mut self, dcb: DcbRef, bucket: u64) {
        let list = dcb.share.buckets.get() | (bucket % BUCKETS) as u32;
        dcb.share.list.set(list);
        self.buckets[list as usize].push(dcb);
        self.used |= 1 << (bucket % BUCKETS);
    }

    /// One that is further ahead than there are buckets, which a server is not, or that has a priority.
    #[cold]
    #[inline(never)]
    fn insert_special(&mut self, dcb: DcbRef, with_priority: fn(&mut Prior, DcbRef, u8)) {
        let priority = dcb.share.schedule().priority();
        if priority != 0 {
            dcb.share.list.set(PRIORITIES + u32::from(priority));
            with_priority(&mut self.prior, dcb, priority);
        } else if dcb.share.buckets.get() == PROGRAMS {
            dcb.share.list.set(FAR);
            self.far.add(dcb);
        } else {
            return self.put(dcb, self.now + BUCKETS - 1);
        }
        self.has_special = true;
    }

    /// Takes the one that runs next.
    #[inline]
    pub fn pop(&mut self, time: u64) -> Option<DcbRef> {
        if self.has_special {
            if let Some(dcb) = self.special(time) {
                self.remove(dcb);
                return Some(dcb);
            }
        }
        if self.used == 0 {
            return None;
        }
        self.now = self.next();
        let number = self.now % BUCKETS;
        let (servers, programs) = self.buckets.split_at(BUCKETS as usize);
        let (servers, programs) = (&servers[number as usize], &programs[number as usize]);
        let (first, is_empty) = match servers.pop() {
            Some(first) => (first, servers.first().is_none() && programs.first().is_none()),
            None => (programs.pop()?, programs.first().is_none()),
        };
        first.clear(flag::QUEUED);
        if is_empty {
            self.used &= !(1 << number);
        }
        Some(first)
    }

    /// Who runs next, if that is somebody with a priority or far ahead, or a server that goes before the former.
    #[cold]
    #[inline(never)]
    fn special(&mut self, time: u64) -> Option<DcbRef> {
        self.prior.look(time);
        let others_wait = self.used != 0 || self.far.first().is_some();
        let is_theirs = !self.prior.are_spent() || !others_wait;
        if is_theirs && !self.prior.is_empty() {
            // No time passes for programs.
            return self.first_server().or(self.prior.first());
        }
        let far = self.far.first()?;
        let bucket = far.share.runtime.get() >> SHIFT;
        if self.used != 0 && self.next() < bucket {
            return None;
        }
        self.now = self.now.max(bucket);
        Some(far)
    }

    /// The server that runs next of all that wait.
    fn first_server(&self) -> Option<DcbRef> {
        let first = (self.now % BUCKETS) as u32;
        let mut used = self.used.rotate_right(first);
        while used != 0 {
            let number = u64::from(first + used.trailing_zeros()) % BUCKETS;
            let server = self.buckets[number as usize].first();
            if server.is_some() {
                return server;
            }
            used &= used - 1;
        }
        None
    }

    /// The first bucket from the present one on in which somebody is.
    #[inline]
    fn next(&self) -> u64 {
        self.now + u64::from(self.used.rotate_right((self.now % BUCKETS) as u32).trailing_zeros())
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
        self.buckets[list as usize].remove(dcb);
        let number = list % PROGRAMS;
        let both = [number, number + PROGRAMS].map(|list| self.buckets[list as usize].first());
        if both == [None; 2] {
            self.used &= !(1 << number);
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
        0 if dcb.share.buckets.get() != PROGRAMS => SERVER,
        priority if !queue.prior.are_spent() => priority,
        _ => 0,
    }
}

/// The highest rank of those that wait, somebody with a priority among them.
pub fn highest(queue: &RunQueue) -> u8 {
    match queue.first_server() {
        Some(_) => SERVER,
        None if queue.prior.are_spent() => 0,
        None => queue.prior.highest(),
    }
}

/// One whose schedule is not the usual one has run for so many ticks, until `now`.
#[cold]
#[inline(never)]
pub fn charge(queue: &mut RunQueue, dcb: DcbRef, used: u64, now: u64) {
    let schedule = dcb.share.schedule();
    if schedule.priority() != 0 {
        queue.prior.charge(used, now);
        dcb.time.goes_on(used);
        return dcb.share.turn.set(dcb.share.turn.get().saturating_add(used));
    }
    let counts = schedule.virtual_time(used);
    dcb.share.runtime.set(dcb.share.runtime.get().saturating_add(counts));
}

/// One leaves for another core: it is as far ahead there as here.
pub fn leave(queue: &RunQueue, dcb: DcbRef) {
    dcb.share.runtime.set(dcb.share.runtime.get().saturating_sub(queue.present()));
}

/// One has come from another core, and may have another schedule since.
pub fn arrive(queue: &RunQueue, dcb: DcbRef) {
    let runtime = dcb.share.runtime.get().saturating_add(queue.present());
    dcb.share.runtime.set(runtime);
    settle(queue, dcb);
}

/// It has another schedule: with a priority it is in no bucket, and comes from there into the present one.
pub fn settle(queue: &RunQueue, dcb: DcbRef) {
    let share = &dcb.share;
    match share.schedule().priority() {
        // In no bucket of any core.
        0 if share.runtime.get() >= NEVER / 2 => share.runtime.set(queue.present()),
        0 => {}
        _ => share.runtime.set(NEVER),
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
