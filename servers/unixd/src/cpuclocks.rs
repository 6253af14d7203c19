//! Clocks of processor time, and waiting until they say something.
//!
//! Nobody tells this server that a program has run: it looks at what the kernel has counted, when the time may have been used up, were
//! all cores working on it, and again. So a timer by such a clock goes off some [`LOOK_MIN_NS`] late at most while somebody works, and
//! up to [`LOOK_MAX_NS`] after a rest.

use crate::clock::{Clock, SECOND};
use crate::cputime::CpuTime;
use crate::life::Life;
use crate::procs::{Pid, Procs, Timer, INIT};
use crate::threads::Tid;
use crate::wait::{done, Outcome, Tried};
use unixproto::clocks::{PROCESS_CPU, THREAD_CPU, USER_ONLY};
use unixproto::{op, Errno};

/// Processor time is looked at no more often than this.
pub const LOOK_MIN_NS: u64 = 4_000_000;
/// As long as none is used, it is looked at less and less often, down to this.
const LOOK_MAX_NS: u64 = 64_000_000;
/// A time that no clock says.
const MOST_NS: u64 = SECOND << 32;

/// Of whom a clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Process(Pid),
    Thread(Tid),
}

/// A clock.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    whose: Whose,
    /// The system's part does not count.
    is_of_user: bool,
}

/// What a timer waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    clock: CpuClock,
    /// What the clock says then.
    at: u64,
    /// What it said at the last look, and how often that had been the same.
    seen: u64,
    rests: u32,
}

/// How a timer stands.
pub enum Stands {
    /// It is to be looked at then.
    Waits(u64),
    /// It has passed, and so often more.
    Passed(u64),
    /// Whose clock it is has ended.
    Never,
}

impl CpuClock {
    /// That of a process: all time, or only the program's.
    pub fn of_process(pid: Pid, is_of_user: bool) -> CpuClock {
        CpuClock { whose: Whose::Process(pid), is_of_user }
    }

    /// The clock with a number, of this or another id; 0: of the caller. `None`: it is no clock of processor time.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no such process, or no such thread of the caller's.
    pub fn find(
        procs: &Procs,
        caller: (Pid, Tid),
        (number, id): (u32, u32),
    ) -> Result<Option<CpuClock>, Errno> {
        let (pid, tid) = caller;
        let is_of_user = number & USER_ONLY != 0;
        let whose = match (number & !USER_ONLY, id) {
            (PROCESS_CPU, 0) => Whose::Process(pid),
            (PROCESS_CPU, INIT) => Whose::Process(INIT),
            (PROCESS_CPU, id) if procs.live(id).is_ok() => Whose::Process(id),
            (THREAD_CPU, 0) => Whose::Thread(tid),
            (THREAD_CPU, id) if procs.is_thread(id) && procs.leader(id) == pid => Whose::Thread(id),
            (PROCESS_CPU | THREAD_CPU, _) => return Err(Errno::EINVAL),
            _ => return Ok(None),
        };
        Ok(Some(CpuClock { whose, is_of_user }))
    }

    /// How fast it may go.
    fn speed(self) -> u64 {
        match self.whose {
            Whose::Process(_) => u64::from(libos::cores::machine().count.max(1)),
            Whose::Thread(_) => 1,
        }
    }

    /// When to look again whether it says so much more.
    fn look(self, left: u64) -> u64 {
        (left / self.speed()).max(LOOK_MIN_NS)
    }
}

impl Procs {
    /// What a clock says, in nanoseconds. `None`: whose it was has ended.
    fn read_clock(&self, time: &Clock, clock: CpuClock) -> Option<u64> {
        let used = match clock.whose {
            Whose::Process(INIT) => CpuTime::default(),
            Whose::Process(pid) => self.cpu(time, self.live(pid).ok()?),
            Whose::Thread(tid) if !self.is_thread(tid) => return None,
            Whose::Thread(tid) => CpuTime::of(self.dispatcher_of(tid)?, time),
        };
        Some(if clock.is_of_user { used.user() } else { used.ns })
    }
}

impl Life<'_> {
    /// A timer that goes off once a clock says something, or so much more than now; 0: it is off.
    ///
    /// # Errors
    ///
    /// `ESRCH`: whose the clock was has ended.
    pub fn timer_by(
        &self,
        clock: CpuClock,
        (value, is_absolute): (u64, bool),
        interval: u64,
    ) -> Result<Timer, Errno> {
        let seen = self.procs.read_clock(self.clock, clock).ok_or(Errno::ESRCH)?;
        if value == 0 {
            return Ok(Timer { interval, ..Timer::default() });
        }
        let at = if is_absolute { value } else { seen.saturating_add(value) }.min(MOST_NS);
        let left = at.saturating_sub(seen);
        let first = if left == 0 { 0 } else { clock.look(left) };
        let deadline = self.clock.now().saturating_add(first).max(1);
        Ok(Timer { deadline, interval, wanted: Some(Wanted { clock, at, seen, rests: 0 }) })
    }

    /// What is told of a timer.
    pub fn told(&self, timer: Timer) -> unixproto::ops::Timer {
        let value = match (timer.deadline, timer.wanted) {
            (0, _) => 0,
            (deadline, None) => deadline.saturating_sub(self.clock.now()).max(1),
            (_, Some(wanted)) => self
                .procs
                .read_clock(self.clock, wanted.clock)
                .map_or(0, |now| wanted.at.saturating_sub(now).max(1)),
        };
        unixproto::ops::Timer { value, interval: timer.interval }
    }

    /// It is time to look at a timer by such a clock.
    pub fn stands(&self, timer: &mut Timer, wanted: Wanted) -> Stands {
        let Wanted { clock, at, seen, rests } = wanted;
        let Some(now) = self.procs.read_clock(self.clock, clock) else { return Stands::Never };
        let rests = if now == seen { rests + 1 } else { 0 };
        let (passed, times) = match now.checked_sub(at) {
            None => (false, 0),
            Some(late) => (true, late.checked_div(timer.interval).unwrap_or(0)),
        };
        let step = timer.interval.saturating_mul(times.saturating_add(1));
        let at = if passed { at.saturating_add(step).min(MOST_NS) } else { at };
        let rest = LOOK_MIN_NS << rests.min(LOOK_MAX_NS.ilog2() - LOOK_MIN_NS.ilog2());
        let look = self.clock.now().saturating_add(clock.look(at.saturating_sub(now)).max(rest));
        timer.wanted = Some(Wanted { clock, at, seen: now, rests });
        timer.deadline = if passed && timer.interval == 0 { 0 } else { look };
        match passed {
            true => Stands::Passed(times),
            false => Stands::Waits(look),
        }
    }

    /// `clock_nanosleep` by such a clock: until it says something.
    pub fn sleep_by(&mut self, op: op::SleepBy) -> Tried {
        let caller = (self.caller.pid, self.caller.tid);
        let clock = CpuClock::find(self.procs, caller, (op.clock, op.of))?.ok_or(Errno::EINVAL)?;
        match self.procs.read_clock(self.clock, clock) {
            None => Err(Errno::EINVAL),
            Some(now) if now >= op.until => done(()),
            Some(now) => {
                Ok(Outcome::Block(self.clock.deadline(clock.look(op.until.min(MOST_NS) - now))))
            }
        }
    }
}
