//! Timers of dispatchers: a heap by deadline, through the dispatchers themselves.
//!
//! Anybody who has a dispatcher can arm its timer, so there may be as many as there are dispatchers, with
//! deadlines that nobody reasonable would choose. What that costs the others is bounded in three ways:
//!
//! * Arming and disarming take O(log n) steps.
//! * An event expires at most [`MOST_EXPIRED`] timers.
//! * Events about timers are at least [`LEAST_INTERVAL`] apart; what is due in between expires together,
//!   up to that much late. A deadline in the past counts as the present: nobody can keep a timer from
//!   expiring by arming others with earlier deadlines again and again.

use super::heap::{Heap, Order};
use crate::arch;
use crate::object::dcb::HeapLinks;
use crate::object::DcbRef;

/// Most timers that expire in one event: some 300 instructions each.
pub const MOST_EXPIRED: u32 = 32;
/// Least time between two events about timers, as a fraction of a second: 50 µs, the slack that Linux
/// allows the timers of a process.
pub const LEAST_INTERVAL: u64 = 20_000;

/// By deadline.
struct ByDeadline;

impl Order for ByDeadline {
    #[inline]
    fn links(dcb: &DcbRef) -> &HeapLinks {
        &dcb.timer.links
    }
    #[inline]
    fn key(dcb: DcbRef) -> u64 {
        dcb.timer.deadline.get()
    }
}

/// The timers of one core.
pub struct Timers {
    armed: Heap<ByDeadline>,
    /// When the next event about them may be.
    from: u64,
}

impl Timers {
    /// None is armed.
    pub const fn new() -> Timers {
        Timers { armed: Heap::new(), from: 0 }
    }

    /// Arms a dispatcher's timer; a deadline of 0 disarms it. O(log n).
    pub fn set(&mut self, dcb: DcbRef, deadline: u64) {
        self.cancel(dcb);
        if deadline == 0 {
            return;
        }
        dcb.timer.deadline.set(deadline.max(arch::tsc()));
        dcb.timer.armed.set(true);
        self.armed.add(dcb);
    }

    /// Disarms a dispatcher's timer. O(log n).
    pub fn cancel(&mut self, dcb: DcbRef) {
        if dcb.timer.armed.replace(false) {
            self.armed.remove(dcb);
        }
    }

    /// When the next event about timers is wanted, if any is armed.
    pub fn next_event(&self) -> Option<u64> {
        self.armed.first().map(|first| first.timer.deadline.get().max(self.from))
    }

    /// Disarms a timer whose deadline has passed at `now`, the earliest one.
    pub fn take_due(&mut self, now: u64) -> Option<DcbRef> {
        let first = self.armed.first().filter(|first| first.timer.deadline.get() <= now)?;
        self.cancel(first);
        Some(first)
    }

    /// Some have expired at `now`: the next event about them is some time later. `hz`: ticks of a second.
    pub fn pause(&mut self, now: u64, hz: u64) {
        self.from = now + hz / LEAST_INTERVAL;
    }

    /// Panics unless the heap is in order.
    #[cfg(test)]
    pub fn check(&self) {
        self.armed.check();
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}
