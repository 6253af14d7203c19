//! Time, and what is due when.
//!
//! The clock is read once for each event (a message, a notification), however long that takes: what
//! becomes due in the meantime is for the next one. An event works off at most [`DUE_MAX`] things, and
//! the timer goes off [`REST_NS`] later at the earliest: so whoever has a request comes in between,
//! whatever timers others have set.

use crate::otherspaces::{more, InTimes};
use crate::procs::Pid;
use abi::slots::DISPATCHER;
use abi::DispatcherFrame;
use alloc::collections::BTreeSet;
use core::cell::Cell;
use libos::{invoke, op};
use unixproto::files::FOREVER;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// How much of what is due is worked off in one event.
pub const DUE_MAX: usize = 16;
/// Time between two events of the timer in which others are served.
const REST_NS: u64 = 20_000;
/// Shortest period of an interval timer. A shorter one is noted and told, and counts as this.
pub const PERIOD_MIN: u64 = 1_000_000;

/// What is due for a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    /// The end of what a thread waits for.
    Wait(Pid),
    /// An interval timer, by its number.
    Timer(Pid, u32),
    /// A timer among the counters, by its number.
    Counter(u32),
    /// The end of the patience with a process that was killed.
    Kill(Pid),
    /// A look at how much processor time a process has used.
    Cpu(Pid),
    /// Bytes for a serial port that was full.
    Console,
    /// A look at memory that nothing is in.
    Tidy,
    /// A look at how many threads run.
    Load,
}

/// The clock and the queue of what is due.
pub struct Clock {
    hz: u64,
    epoch: u64,
    queue: BTreeSet<(u64, Due)>,
    /// When the timer goes off, 0 if it does not.
    armed: u64,
    /// The time of the present event, once somebody has asked for it.
    time: Cell<Option<u64>>,
}

impl Clock {
    /// With the facts that the kernel has put into the frame.
    pub fn new(frame: &DispatcherFrame) -> Clock {
        let (hz, epoch) = (frame.tsc_hz.max(1), frame.epoch_ns);
        Clock { hz, epoch, queue: BTreeSet::new(), armed: 0, time: Cell::new(None) }
    }
    /// A new event begins.
    #[inline]
    pub fn begin_event(&self) {
        self.time.set(None);
    }
    /// Nanoseconds since boot (when the time-stamp counter was zero): the time of the event.
    pub fn now(&self) -> u64 {
        let now = self.time.get().unwrap_or_else(|| self.ns(ticks()));
        self.time.set(Some(now));
        now
    }
    /// Ticks in nanoseconds.
    pub fn ns(&self, ticks: u64) -> u64 {
        (ticks as u128 * SECOND as u128 / self.hz as u128) as u64
    }
    /// Nanoseconds since 1970.
    pub fn wall(&self) -> i64 {
        (self.epoch + self.now()) as i64
    }
    /// The same at this moment, which is later than the event began.
    pub fn wall_now(&self) -> i64 {
        (self.epoch + self.ns(ticks())) as i64
    }
    /// It is so many nanoseconds since 1970. Returns by how much that is more than it was; `None`: it cannot be.
    pub fn set_wall(&mut self, ns: u64) -> Option<i64> {
        // As on Linux, the machine did not boot before 1970.
        let epoch = ns.checked_sub(self.now()).filter(|_| ns <= i64::MAX as u64)?;
        let before = core::mem::replace(&mut self.epoch, epoch);
        Some(epoch.wrapping_sub(before) as i64)
    }
    /// When a clock says so many nanoseconds in a name space of times, in nanoseconds since boot; never 0.
    pub fn deadline_on(&self, (clock, times): (u32, &InTimes), ns: u64) -> u64 {
        match is_of_day(clock) {
            true => ns.saturating_sub(self.epoch).max(1),
            false => ns.saturating_add_signed(-more(times, clock)).max(1),
        }
    }
    /// Ticks of the time-stamp counter in a second.
    pub fn hz(&self) -> u64 {
        self.hz
    }
    /// Nanoseconds since 1970 at boot.
    pub fn boot_wall(&self) -> u64 {
        self.epoch
    }

    /// When something that may take `ns` ends; 0: never.
    pub fn deadline(&self, ns: u64) -> u64 {
        match ns {
            FOREVER => 0,
            ns => self.now().saturating_add(ns).max(1),
        }
    }

    /// Notes that something is due.
    pub fn add(&mut self, deadline: u64, due: Due) {
        self.queue.insert((deadline, due));
    }
    /// It is not any more.
    pub fn remove(&mut self, deadline: u64, due: Due) {
        self.queue.remove(&(deadline, due));
    }
    /// Takes the next thing whose time has come.
    pub fn take_due(&mut self) -> Option<Due> {
        let &(deadline, due) = self.queue.first()?;
        if deadline > self.now() {
            return None;
        }
        self.queue.pop_first();
        Some(due)
    }
    /// The timer went off.
    pub fn expired(&mut self) {
        self.armed = 0;
    }
    /// Has the timer go off within `ns`.
    pub fn arm_within(&mut self, ns: u64) {
        self.arm_at(self.now() + ns);
    }
    /// Sets the timer to the first deadline, unless it is, and leaves time for others before.
    pub fn arm(&mut self) {
        let Some(&(deadline, _)) = self.queue.first() else { return };
        // Mostly the timer is set already, and nobody needs to know the time.
        if self.armed == 0 || self.armed > deadline {
            self.arm_at(deadline.max(self.now() + REST_NS));
        }
    }

    fn arm_at(&mut self, deadline: u64) {
        if self.armed != 0 && self.armed <= deadline {
            return;
        }
        self.armed = deadline;
        let ticks = (deadline as u128 * self.hz as u128).div_ceil(SECOND as u128);
        let ticks = ticks.min(u64::MAX as u128) as u64;
        // The own dispatcher has a timer.
        let _ = invoke(DISPATCHER, op::SetTimer { deadline: ticks.max(1) });
    }
}

/// Does a clock change when the time of day is set? `CLOCK_REALTIME`, `CLOCK_REALTIME_ALARM` and `CLOCK_TAI` do.
pub const fn is_of_day(clock: u32) -> bool {
    matches!(clock, 0 | 8 | 11)
}

/// What becomes of a deadline of such a clock.
pub enum Moved {
    /// It is then.
    To(u64),
    /// It has passed, with its period so many times, and is then next; 0: never.
    Passed { times: u64, next: u64 },
}

/// A clock says so much more than it did: what of a deadline, with a period or 0, in nanoseconds since boot?
pub fn moved(deadline: u64, by: i64, interval: u64, now: u64) -> Moved {
    let to = i128::from(deadline) - i128::from(by);
    let late = i128::from(now) - to;
    let word = |value: i128| u64::try_from(value).unwrap_or(u64::MAX);
    if late < 0 {
        return Moved::To(word(to));
    }
    match i128::from(interval) {
        0 => Moved::Passed { times: 1, next: 0 },
        period => {
            let times = late / period + 1;
            Moved::Passed { times: word(times), next: word(to + times * period) }
        }
    }
}

fn ticks() -> u64 {
    // SAFETY: reads the time-stamp counter, which every x86-64 has.
    unsafe { core::arch::x86_64::_rdtsc() }
}
