//! Counters that processes share: `eventfd` and `timerfd` behind a fork, and `pidfd`.
//!
//! As long as one process alone has an `eventfd` or a `timerfd` its library keeps it. Before the process
//! forks, the library has a counter made here with the same state, and both ask for it from then on.
//!
//! A counter goes up by writes, or by the clock, and a read takes it all, or one; or once, by the end of a
//! process, and stays.

use crate::calls::{self, Calls};
use crate::clock::{is_of_day, moved, Clock, Due, Moved};
use crate::descs::{Desc, Object};
use crate::effects::Effects;
use crate::otherspaces::InTimes;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, Outcome, Tried, Waiters};
use crate::watches::Source;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use piecewise::Table;
use unixproto::files::*;
use unixproto::ops::Timer;
use unixproto::{op, Errno};

/// Most that a counter counts to.
const MAX: u64 = u64::MAX - 1;
/// Bytes that a read or a write moves.
const VALUE_BYTES: usize = 8;
const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// What makes a counter go up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Writes. `semaphore`: reads take one at a time.
    Writes {
        /// Reads take one at a time.
        semaphore: bool,
    },
    /// The clock with this number.
    Clock(u32),
    /// Calls about which somebody decides who has it.
    Calls,
    /// The end of this process; `None`: it has been waited for, and others may have its id.
    End(Option<Pid>),
}

/// A counter.
struct Counter {
    origin: Origin,
    /// What writes have added and no read has taken; of a timer, how often it had expired when the clock was set.
    count: u64,
    /// When the timer expires next, or did first since the last read, nanoseconds since boot; 0: it is off.
    deadline: u64,
    /// Its period; 0 for none.
    interval: u64,
    /// The deadline is a time of day, and moves when that is set.
    moves: bool,
    /// That the clock is set is told by `ECANCELED`: `Some(true)` if it was set.
    cancel: Option<bool>,
    waiters: Waiters,
}

impl Counter {
    /// What a read would find.
    fn value(&self, now: u64) -> u64 {
        match self.origin {
            Origin::Writes { .. } | Origin::End(_) | Origin::Calls => self.count,
            Origin::Clock(_) if self.deadline == 0 || now < self.deadline => self.count,
            Origin::Clock(_) => {
                let more = (now - self.deadline).checked_div(self.interval).unwrap_or(0);
                self.count.saturating_add(1).saturating_add(more)
            }
        }
    }

    /// The deadline behind those that have passed; 0 for none.
    fn next_deadline(&self, now: u64) -> u64 {
        match (self.deadline, self.interval) {
            (deadline, _) if deadline == 0 || now < deadline => deadline,
            (_, 0) => 0,
            (deadline, interval) => {
                let passed = 1 + (now - deadline) / interval;
                deadline.saturating_add(passed.saturating_mul(interval))
            }
        }
    }

    /// Until it expires, and its period.
    fn setting(&self, now: u64) -> Timer {
        let value = match self.deadline {
            0 => 0,
            deadline if deadline <= now => match self.interval {
                0 => 0,
                interval => interval - (now - deadline) % interval,
            },
            deadline => deadline - now,
        };
        Timer { value, interval: self.interval }
    }
}

/// All of them.
#[derive(Default)]
pub struct Counters {
    table: Table<Counter>,
    /// Those that go up by the end of a process.
    ends: BTreeMap<Pid, Vec<u32>>,
    /// The calls of those that are for these.
    pub listeners: BTreeMap<u32, Calls>,
}

impl Counters {
    /// Makes a counter with this in it. Returns its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is no memory.
    pub fn make(&mut self, origin: Origin, count: u64) -> Result<u32, Errno> {
        let count = count.min(MAX);
        let waiters = Waiters::default();
        let (moves, cancel) = (false, None);
        let counter = Counter { origin, count, deadline: 0, interval: 0, moves, cancel, waiters };
        self.table.insert(counter).map(|index| index as u32).map_err(|_| Errno::ENOMEM)
    }

    /// Nobody has it any more.
    pub fn remove(&mut self, number: u32, clock: &mut Clock, fx: &mut Effects) {
        let Some(mut counter) = self.table.remove(number as usize) else { return };
        if let Some(calls) = self.listeners.remove(&number) {
            // Whoever waits hears that nobody decides any more.
            calls.waiting().chain(counter.waiters.drain()).for_each(|tid| fx.wake(tid));
        }
        clock.remove(counter.deadline, Due::Counter(number));
        if let Origin::End(Some(pid)) = counter.origin {
            if let Some(of_process) = self.ends.get_mut(&pid) {
                of_process.retain(|one| *one != number);
                if of_process.is_empty() {
                    self.ends.remove(&pid);
                }
            }
        }
    }

    /// Makes a counter that goes up by the end of a process, or is up if that `is_over`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is no memory.
    pub fn of_process(&mut self, pid: Pid, is_over: bool) -> Result<u32, Errno> {
        let number = self.make(Origin::End(Some(pid)), is_over as u64)?;
        self.ends.entry(pid).or_default().push(number);
        Ok(number)
    }

    /// The process whose end a counter tells. `ESRCH`: it has been waited for; `EINVAL`: it tells something else.
    pub fn process(&self, number: u32) -> Result<Pid, Errno> {
        match self.get(number)?.origin {
            Origin::End(pid) => pid.ok_or(Errno::ESRCH),
            _ => Err(Errno::EINVAL),
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, pid: Pid, fx: &mut Effects) {
        for number in self.ends.get(&pid).cloned().unwrap_or_default() {
            if let Ok(counter) = self.get_mut(number) {
                counter.count = 1;
            }
            self.changed(number, true, fx);
        }
        for number in calls::left(&mut self.listeners) {
            self.changed(number, true, fx);
        }
    }

    /// A process that has ended has been waited for.
    pub fn reaped(&mut self, pid: Pid) {
        for number in self.ends.remove(&pid).unwrap_or_default() {
            if let Ok(counter) = self.get_mut(number) {
                counter.origin = Origin::End(None);
            }
        }
    }

    fn get(&self, number: u32) -> Result<&Counter, Errno> {
        self.table.get(number as usize).ok_or(Errno::EBADF)
    }

    fn get_mut(&mut self, number: u32) -> Result<&mut Counter, Errno> {
        self.table.get_mut(number as usize).ok_or(Errno::EBADF)
    }

    /// Takes what is there, or one of it. Returns `None` if nothing is.
    fn take(&mut self, number: u32, clock: &mut Clock) -> Result<Option<u64>, Errno> {
        let now = clock.now();
        let counter = self.get_mut(number)?;
        if let Origin::End(_) | Origin::Calls = counter.origin {
            return Err(Errno::EINVAL);
        }
        let value = counter.value(now);
        if counter.cancel == Some(true) {
            // As on Linux, a timer that has expired stays so without being counted.
            (counter.cancel, counter.count) = (Some(false), 0);
            let before = counter.deadline;
            counter.deadline = counter.next_deadline(now);
            let deadline = counter.deadline;
            clock.remove(before, Due::Counter(number));
            if deadline != 0 {
                clock.add(deadline, Due::Counter(number));
            }
            return Err(Errno::ECANCELED);
        }
        if value == 0 {
            return Ok(None);
        }
        match counter.origin {
            Origin::Writes { semaphore: true } => {
                counter.count -= 1;
                return Ok(Some(1));
            }
            Origin::Writes { .. } | Origin::End(_) | Origin::Calls => counter.count = 0,
            Origin::Clock(_) => {
                let before = counter.deadline;
                (counter.deadline, counter.count) = (counter.next_deadline(now), 0);
                let deadline = counter.deadline;
                clock.remove(before, Due::Counter(number));
                if deadline != 0 {
                    clock.add(deadline, Due::Counter(number));
                }
            }
        }
        Ok(Some(value))
    }

    /// Adds to it. Returns `false` if there is no room.
    ///
    /// # Errors
    ///
    /// `EINVAL`: nobody writes to it, or that is more than any has room for.
    fn add(&mut self, number: u32, value: u64) -> Result<bool, Errno> {
        let counter = self.get_mut(number)?;
        if !matches!(counter.origin, Origin::Writes { .. }) || value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let has_room = counter.count <= MAX - value;
        if has_room {
            counter.count += value;
        }
        Ok(has_room)
    }

    /// Sets a timer to a time since boot (0 turns it off) and a period. Returns what it was.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is none.
    pub fn set(
        &mut self,
        number: u32,
        (deadline, interval): (u64, u64),
        clock: &mut Clock,
    ) -> Result<Timer, Errno> {
        let before = self.setting(number, clock)?;
        let counter = self.get_mut(number)?;
        clock.remove(counter.deadline, Due::Counter(number));
        (counter.deadline, counter.interval, counter.count) = (deadline, interval, 0);
        if deadline != 0 {
            clock.add(deadline, Due::Counter(number));
        }
        Ok(before)
    }

    /// Sets a timer as programs do: to a time of its clock, or from now on.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is none; `ECANCELED`: it is set, but the clock was, too, since it was to be told that.
    pub fn set_on_clock(
        &mut self,
        number: u32,
        op: op::SetAlarm,
        (clock, times): (&mut Clock, &InTimes),
    ) -> Result<Timer, Errno> {
        let Origin::Clock(which) = self.get(number)?.origin else { return Err(Errno::EINVAL) };
        let is_absolute = op.flags & TIMER_ABSOLUTE != 0;
        let deadline = match op.value {
            0 => 0,
            value if is_absolute => clock.deadline_on((which, times), value),
            value => clock.now().saturating_add(value),
        };
        let before = self.set(number, (deadline, op.interval), clock)?;
        let counter = self.get_mut(number)?;
        counter.moves = is_absolute && is_of_day(which);
        let is_told = counter.moves && op.flags & TIMER_CANCEL_ON_SET != 0;
        counter.cancel = is_told.then(|| counter.cancel.unwrap_or(false));
        if deadline != 0 && counter.cancel == Some(true) {
            counter.cancel = Some(false);
            return Err(Errno::ECANCELED);
        }
        Ok(before)
    }

    /// The time of day was set to so much more than it was: timers that are set to one go by it.
    pub fn clock_was_set(&mut self, by: i64, clock: &mut Clock, fx: &mut Effects) {
        let now = clock.now();
        let concerned: Vec<u32> = self
            .table
            .iter()
            .filter(|(_, counter)| counter.moves)
            .map(|(number, _)| number as u32)
            .collect();
        for number in concerned {
            let Ok(counter) = self.get_mut(number) else { continue };
            let before = counter.deadline;
            // What has passed stays so.
            counter.count = counter.value(now);
            counter.deadline = match counter.next_deadline(now) {
                0 => 0,
                next => match moved(next, by, counter.interval, now) {
                    Moved::To(deadline) => deadline,
                    Moved::Passed { times, next } => {
                        counter.count = counter.count.saturating_add(times);
                        next
                    }
                },
            };
            let is_up = counter.count > 0;
            let is_told = counter.cancel.is_some();
            if is_told {
                counter.cancel = Some(true);
            }
            let deadline = counter.deadline;
            clock.remove(before, Due::Counter(number));
            if deadline != 0 {
                clock.add(deadline, Due::Counter(number));
            }
            if is_told || is_up {
                self.changed(number, true, fx);
            }
        }
    }

    /// How a timer is set.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is none.
    pub fn setting(&self, number: u32, clock: &Clock) -> Result<Timer, Errno> {
        let counter = self.get(number)?;
        match counter.origin {
            Origin::Clock(_) => Ok(counter.setting(clock.now())),
            _ => Err(Errno::EINVAL),
        }
    }

    /// What `/proc/PID/fdinfo` tells of one, of which a process is called by a number.
    pub fn facts(&self, number: u32, now: u64, called: impl Fn(Pid) -> i64) -> String {
        const SECOND: u64 = 1_000_000_000;
        let Ok(counter) = self.get(number) else { return String::new() };
        let value = counter.value(now);
        match counter.origin {
            Origin::Writes { semaphore } => format!(
                "eventfd-count: {value:16x}\neventfd-id: {number}\neventfd-semaphore: {}\n",
                u8::from(semaphore)
            ),
            Origin::Clock(clock) => {
                let Timer { value: left, interval } = counter.setting(now);
                let parts = |ns: u64| format!("({}, {})", ns / SECOND, ns % SECOND);
                // Which flags it was set with is known as far as they have an effect.
                let flags = u8::from(counter.moves) | u8::from(counter.cancel.is_some()) << 1;
                format!(
                    "clockid: {clock}\nticks: {value}\nsettime flags: 0{flags:o}\nit_value: {}\nit_interval: {}\n",
                    parts(left),
                    parts(interval)
                )
            }
            Origin::End(pid) => {
                let pid = pid.map_or(-1, called);
                format!("Pid:\t{pid}\nNSpid:\t{pid}\n")
            }
            Origin::Calls => String::new(),
        }
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: u32, now: u64) -> u16 {
        let Ok(counter) = self.get(number) else { return POLLERR };
        if let Some(calls) = self.listeners.get(&number) {
            return calls.ready();
        }
        let is_up = counter.value(now) > 0 || counter.cancel == Some(true);
        let read = if is_up { READABLE } else { 0 };
        let write = match counter.origin {
            Origin::Writes { .. } if counter.count < MAX => WRITABLE,
            _ => 0,
        };
        read | write
    }

    /// A thread waits for something to happen to it.
    pub fn wait(&mut self, number: u32, tid: Tid) {
        if let Ok(counter) = self.get_mut(number) {
            counter.waiters.add(tid);
        }
    }

    /// Reads 8 bytes: what is there.
    pub fn read(
        &mut self,
        number: u32,
        nonblocking: bool,
        (caller, procs, bytes): (Speaker, &Procs, usize),
        clock: &mut Clock,
        fx: &mut Effects,
    ) -> Tried {
        if bytes < VALUE_BYTES {
            return Err(Errno::EINVAL);
        }
        let value = match self.take(number, clock) {
            Ok(Some(value)) => value,
            Ok(None) => return self.block(number, nonblocking, caller),
            Err(error) => {
                self.changed(number, false, fx);
                return Err(error);
            }
        };
        procs.put(caller, &value.to_le_bytes())?;
        self.changed(number, false, fx);
        count(VALUE_BYTES)
    }

    /// Adds what is in 8 bytes.
    pub fn write(
        &mut self,
        number: u32,
        nonblocking: bool,
        (caller, bytes): (Speaker, &[u8]),
        fx: &mut Effects,
    ) -> Tried {
        let value = bytes.first_chunk().ok_or(Errno::EINVAL)?;
        if !self.add(number, u64::from_le_bytes(*value))? {
            return self.block(number, nonblocking, caller);
        }
        self.changed(number, true, fx);
        count(VALUE_BYTES)
    }

    fn block(&mut self, number: u32, nonblocking: bool, caller: Speaker) -> Tried {
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        self.wait(number, caller.tid);
        Ok(Outcome::Block(0))
    }

    /// A timer has expired.
    pub fn expired(&mut self, number: u32, fx: &mut Effects) {
        self.changed(number, true, fx);
    }

    /// Something has happened to it; `data`: it went up.
    pub fn changed(&mut self, number: u32, data: bool, fx: &mut Effects) {
        let Ok(counter) = self.get_mut(number) else { return };
        counter.waiters.drain().for_each(|tid| fx.wake(tid));
        fx.changed(Source::Counter(number), data);
    }
}

/// The counter that a description refers to. `EINVAL`: it is something else.
pub fn number(desc: &Desc) -> Result<u32, Errno> {
    match desc.object {
        Object::Counter(_, number) => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}
