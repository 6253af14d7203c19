//! Timers of dispatchers: a heap by deadline, through the dispatchers themselves.
//!
//! Anybody who has a dispatcher can arm its timer, so there may be as many as there are dispatchers, with
//! deadlines that nobody reasonable would choose. What that costs the others is bounded in three ways:
//!
//! * Arming and disarming take O(log n) steps. It is a leftist heap (Crane 1972): the shortest way down
//!   is always to the right, and has at most log2(n + 1) members; only such ways are walked, down to
//!   merge two heaps, and up to where the ranks are right already.
//! * An event expires at most [`MOST_EXPIRED`] timers.
//! * Events about timers are at least [`LEAST_INTERVAL`] apart; what is due in between expires together,
//!   up to that much late. A deadline in the past counts as the present: nobody can keep a timer from
//!   expiring by arming others with earlier deadlines again and again.

use crate::arch;
use crate::object::DcbRef;

/// Most timers that expire in one event: some 300 instructions each.
pub const MOST_EXPIRED: u32 = 32;
/// Least time between two events about timers, as a fraction of a second: 50 µs, the slack that Linux
/// allows the timers of a process.
pub const LEAST_INTERVAL: u64 = 20_000;

fn rank(dcb: Option<DcbRef>) -> u32 {
    dcb.map_or(0, |dcb| dcb.timer.rank.get())
}

/// Makes `dcb` a heap of its own.
fn start(dcb: DcbRef) {
    dcb.timer.parent.set(None);
    dcb.timer.left.set(None);
    dcb.timer.right.set(None);
    dcb.timer.rank.set(1);
}

/// Brings the shorter way of `dcb` to the right. Has its rank changed?
fn settle(dcb: DcbRef) -> bool {
    let links = &dcb.timer;
    if rank(links.left.get()) < rank(links.right.get()) {
        links.left.swap(&links.right);
    }
    let rank = rank(links.right.get()) + 1;
    links.rank.replace(rank) != rank
}

/// One heap of two, whose roots have no parents; nor has that of the result.
fn merge(mut a: Option<DcbRef>, mut b: Option<DcbRef>) -> Option<DcbRef> {
    let (mut top, mut last) = (None, None::<DcbRef>);
    let mut hang = |last: Option<DcbRef>, member: Option<DcbRef>| {
        if let Some(member) = member {
            member.timer.parent.set(last);
        }
        match last {
            Some(last) => last.timer.right.set(member),
            None => top = member,
        }
    };
    // Down: the ways to the right become one, by deadline.
    while let (Some(x), Some(y)) = (a, b) {
        let first = if y.deadline.get() < x.deadline.get() { &mut b } else { &mut a };
        let next = *first;
        *first = next.and_then(|next| next.timer.right.get());
        hang(last, next);
        last = next;
    }
    hang(last, a.or(b));
    // And up: the shorter of two ways is that to the right.
    while let Some(dcb) = last {
        settle(dcb);
        last = dcb.timer.parent.get();
    }
    top
}

/// The timers of one core.
pub struct Timers {
    /// The root of the heap.
    root: Option<DcbRef>,
    /// When the next event about them may be.
    from: u64,
}

impl Timers {
    /// None is armed.
    pub const fn new() -> Timers {
        Timers { root: None, from: 0 }
    }

    /// Arms a dispatcher's timer; a deadline of 0 disarms it. O(log n).
    pub fn set(&mut self, dcb: DcbRef, deadline: u64) {
        self.cancel(dcb);
        if deadline == 0 {
            return;
        }
        dcb.deadline.set(deadline.max(arch::tsc()));
        dcb.timer.armed.set(true);
        start(dcb);
        self.root = merge(self.root, Some(dcb));
    }

    /// Disarms a dispatcher's timer. O(log n).
    pub fn cancel(&mut self, dcb: DcbRef) {
        if !dcb.timer.armed.get() {
            return;
        }
        dcb.timer.armed.set(false);
        let links = &dcb.timer;
        let (left, right, parent) = (links.left.get(), links.right.get(), links.parent.get());
        for child in [left, right].into_iter().flatten() {
            child.timer.parent.set(None);
        }
        let heir = merge(left, right);
        let Some(parent) = parent else {
            self.root = heir;
            return;
        };
        let side = match parent.timer.left.get() == Some(dcb) {
            true => &parent.timer.left,
            false => &parent.timer.right,
        };
        side.set(heir);
        heir.inspect(|heir| heir.timer.parent.set(Some(parent)));
        let mut at = Some(parent).filter(|&parent| settle(parent));
        while let Some(dcb) = at {
            at = dcb.timer.parent.get().filter(|&above| settle(above));
        }
    }

    /// When the next event about timers is wanted, if any is armed.
    pub fn next_event(&self) -> Option<u64> {
        self.root.map(|first| first.deadline.get().max(self.from))
    }

    /// Disarms a timer whose deadline has passed at `now`, the earliest one.
    pub fn take_due(&mut self, now: u64) -> Option<DcbRef> {
        let first = self.root.filter(|first| first.deadline.get() <= now)?;
        self.cancel(first);
        Some(first)
    }

    /// Some have expired at `now`: the next event about them is some time later. `hz`: ticks of a second.
    pub fn pause(&mut self, now: u64, hz: u64) {
        self.from = now + hz / LEAST_INTERVAL;
    }

    /// Panics unless the heap is in order, and the ways to the right are the shortest.
    #[cfg(test)]
    pub fn check(&self) {
        fn check(dcb: Option<DcbRef>, parent: Option<DcbRef>) -> u32 {
            let Some(dcb) = dcb else { return 0 };
            let links = &dcb.timer;
            assert!(links.parent.get() == parent);
            assert!(parent.is_none_or(|parent| parent.deadline.get() <= dcb.deadline.get()));
            let left = check(links.left.get(), Some(dcb));
            let right = check(links.right.get(), Some(dcb));
            assert!(left >= right && links.rank.get() == right + 1);
            right + 1
        }
        check(self.root, None);
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}
