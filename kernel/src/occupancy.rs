//! How many cores work at the same time, and whether somebody waits while one has nothing to do.
//!
//! All cores report to one place when they begin or cease to work, and when the first dispatcher
//! begins to wait or the last one ceases to. A line of memory that all of them write is what a
//! multikernel avoids; so this is only done if the command line asks for it, to measure:
//!
//! | word | what is a unit of time |
//! |---|---|
//! | `occupancy=clock` | a tick of the time-stamp counter |
//! | `occupancy=turns` | an instruction of each core that works |
//!
//! In the emulator with counted instructions the cores take turns, and the time-stamp counter counts
//! for all of them: while k cores work it is k times as fast as a machine whose cores work at the same
//! time. Divided by k, it tells the time of such a machine, the same in every run.

use crate::cores::{CoreId, MAX_CORES};
use captypes::invocations::Counter;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Fractions of a tick, as a shift: what is divided by a number of cores must not be lost.
const FRACTION: u32 = 10;
/// Ticks of a turn.
pub const TURN: u64 = 5_000;
/// No core works.
const NOBODY: u64 = u64::MAX;

/// What cores have reported. All times are in units of 2^-10 ticks.
pub struct Occupancy {
    /// Somebody is at it. The fields below belong to whoever has set this.
    held: AtomicBool,
    /// Do cores take turns?
    turns: AtomicBool,
    /// Whose turn it is, or [`NOBODY`].
    turn: AtomicU64,
    /// The cores that there are, those that work, and those at which somebody waits.
    all: AtomicU64,
    busy: AtomicU64,
    waiting: AtomicU64,
    /// Up to when the times are complete.
    since: AtomicU64,
    span: AtomicU64,
    starved: AtomicU64,
    /// By the number of cores that worked.
    width: [AtomicU64; MAX_CORES + 1],
    /// Of each core.
    worked: [AtomicU64; MAX_CORES],
}

/// That of this machine.
pub static OCCUPANCY: Occupancy = Occupancy::new();

/// What a core reports.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    /// It works, or it has nothing to do.
    Works(bool),
    /// Somebody who may run elsewhere waits here, or nobody.
    Waits(bool),
}

impl Occupancy {
    /// Nothing has been reported.
    pub const fn new() -> Self {
        Occupancy {
            held: AtomicBool::new(false),
            turns: AtomicBool::new(false),
            turn: AtomicU64::new(NOBODY),
            all: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            since: AtomicU64::new(0),
            span: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            width: [const { AtomicU64::new(0) }; MAX_CORES + 1],
            worked: [const { AtomicU64::new(0) }; MAX_CORES],
        }
    }

    /// Begins to measure a core, which has nothing to do yet.
    pub fn watch(&self, core: CoreId, turns: bool, now: u64) {
        self.hold();
        self.pass(now);
        self.turns.store(turns, Relaxed);
        self.all.fetch_or(core.bit(), Relaxed);
        self.held.store(false, Release);
    }

    /// What has changed at a core at `now`.
    pub fn report(&self, core: CoreId, report: Report, now: u64) {
        self.hold();
        self.pass(now);
        let (set, on) = match report {
            Report::Works(on) => (&self.busy, on),
            Report::Waits(on) => (&self.waiting, on),
        };
        match on {
            true => set.fetch_or(core.bit(), Relaxed),
            false => set.fetch_and(!core.bit(), Relaxed),
        };
        self.held.store(false, Release);
    }

    /// A time that is counted here, at `now`; `None` for all other counters.
    pub fn read(&self, counter: Counter, core: CoreId, now: u64) -> Option<u64> {
        let sum = match counter {
            Counter::SpanTime => &self.span,
            Counter::StarvedTime => &self.starved,
            Counter::BusyTime => &self.worked[core.index() % MAX_CORES],
            Counter::WidthTime => &self.width[core.index() % MAX_CORES + 1],
            _ => return None,
        };
        self.hold();
        self.pass(now);
        self.held.store(false, Release);
        Some(sum.load(Relaxed) >> FRACTION)
    }

    /// Do cores take turns?
    pub fn has_turns(&self) -> bool {
        self.turns.load(Relaxed)
    }

    /// Is it the turn of this core?
    pub fn is_turn_of(&self, core: CoreId) -> bool {
        self.turn.load(Relaxed) == u64::from(core.0)
    }

    /// Waits until it is the turn of a core that works. `answer` does meanwhile what whose turn it is may be waiting for.
    pub fn await_turn(&self, core: CoreId, answer: impl Fn()) {
        let own = u64::from(core.0);
        while self.turn.load(Acquire) != own {
            if self.turn.compare_exchange(NOBODY, own, AcqRel, Relaxed).is_ok() {
                return;
            }
            answer();
            core::hint::spin_loop();
        }
    }

    /// If it is the turn of this core, it is that of the next one that works now.
    pub fn end_turn(&self, core: CoreId) {
        if !self.is_turn_of(core) {
            return;
        }
        let busy = self.busy.load(Acquire);
        // Beginning behind this one, which is the last of them.
        let ahead = busy.rotate_right(u32::from(core.0) + 1).trailing_zeros();
        let next = (u64::from(core.0) + 1 + u64::from(ahead)) % u64::from(u64::BITS);
        self.turn.store(if busy == 0 { NOBODY } else { next }, Release);
    }

    fn hold(&self) {
        while self.held.swap(true, Acquire) {
            core::hint::spin_loop();
        }
    }

    /// Adds the time up to `now` to what it belongs to.
    fn pass(&self, now: u64) {
        // Counters of different cores may differ a little.
        let passed = now.saturating_sub(self.since.load(Relaxed));
        self.since.fetch_max(now, Relaxed);
        let (all, busy) = (self.all.load(Relaxed), self.busy.load(Relaxed));
        let works = busy.count_ones();
        let turns = self.turns.load(Relaxed);
        let time = (passed << FRACTION) / if turns { u64::from(works.max(1)) } else { 1 };
        let add = |sum: &AtomicU64| sum.store(sum.load(Relaxed) + time, Relaxed);
        add(&self.span);
        add(&self.width[works as usize]);
        if self.waiting.load(Relaxed) != 0 && busy != all {
            add(&self.starved);
        }
        let mut rest = busy;
        while rest != 0 {
            add(&self.worked[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
    }
}

impl Default for Occupancy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Report::*;
    use super::*;

    fn times(of: &Occupancy, now: u64) -> [u64; 6] {
        let read = |counter, core| of.read(counter, CoreId(core), now).unwrap();
        [
            read(Counter::SpanTime, 0),
            read(Counter::StarvedTime, 0),
            read(Counter::BusyTime, 0),
            read(Counter::BusyTime, 1),
            read(Counter::WidthTime, 0),
            read(Counter::WidthTime, 1),
        ]
    }

    /// Core 0 works from 100 on and core 1 from 200 to 300; somebody waits from 150 to 250.
    fn two_cores(turns: bool) -> Occupancy {
        let of = Occupancy::new();
        (0..2).for_each(|core| of.watch(CoreId(core), turns, 0));
        for (core, report, at) in [
            (0, Works(true), 100),
            (0, Waits(true), 150),
            (1, Works(true), 200),
            (0, Waits(false), 250),
            (1, Works(false), 300),
        ] {
            of.report(CoreId(core), report, at);
        }
        of
    }

    #[test]
    fn by_the_clock() {
        let of = two_cores(false);
        assert_eq!(times(&of, 400), [400, 50, 300, 100, 200, 100]);
        assert_eq!(times(&of, 390), times(&of, 400), "a clock that is behind");
        assert_eq!(of.read(Counter::IdleTicks, CoreId(0), 500), None);
    }

    #[test]
    fn taking_turns() {
        // From 200 to 300 each of the two executes 50 instructions.
        assert_eq!(times(&two_cores(true), 400), [350, 50, 250, 50, 200, 50]);
    }
}
