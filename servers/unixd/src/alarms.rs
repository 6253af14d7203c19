//! Timers that a process makes (`timer_create`), beside the three interval timers that it has.

use crate::clock::{is_of_day, moved, Due, Moved, PERIOD_MIN};
use crate::cpuclocks::{CpuClock, Stands};
use crate::life::Life;
use crate::procs::{Pid, Timer};
use crate::queues::{info_of_timer, Ticket, Waiting};
use crate::signals::next_deadline;
use crate::threads::Tid;
use crate::wait::{count, done, Tried};
use alloc::rc::Rc;
use alloc::vec::Vec;
use sigqueue::Owner;
use unixproto::clocks::OWN_VALUE;
use unixproto::{op, Errno};

/// Timers of a process, at most.
const MOST: usize = 4096;
/// The clock of a timer is in its number for the program, which has room for it.
const CLOCK_SHIFT: u32 = 16;
const INDEX: u32 = (1 << CLOCK_SHIFT) - 1;
/// Their numbers begin behind those of the interval timers.
pub const FIRST: u32 = 3;

/// One of them. It has a place among the signals of its user that wait, which its signal takes: there is one at a time.
struct Alarm {
    timer: Timer,
    /// The number of its clock.
    clock: u32,
    /// If that is one of processor time.
    cpu: Option<CpuClock>,
    /// It is set to a time of day, and moves when that is set.
    moves: bool,
    /// The signal that it posts; 0: none.
    signal: u32,
    /// To this thread; 0: to the process.
    thread: Tid,
    /// What comes with the signal.
    value: u64,
    /// Of its last signal: how often more it had expired by the time at which that was taken.
    ticket: Rc<Ticket>,
    /// Of the one before.
    overrun: u32,
    /// Whose place it has.
    user: u32,
}

impl Alarm {
    /// The number of that with an index.
    fn id(&self, index: u32) -> u32 {
        index | self.clock << CLOCK_SHIFT
    }

    fn owner(&self, pid: Pid) -> Owner {
        match self.thread {
            0 => Owner::Process(pid),
            tid => Owner::Thread(tid),
        }
    }
}

/// Those of a process.
#[derive(Default)]
pub struct Alarms(Vec<Option<Alarm>>);

impl Alarms {
    /// That with this index.
    fn at(&mut self, index: u32) -> Result<&mut Alarm, Errno> {
        self.0.get_mut(index as usize).and_then(Option::as_mut).ok_or(Errno::EINVAL)
    }

    /// The index of that with this number.
    fn find(&mut self, id: u32) -> Result<u32, Errno> {
        let index = id & INDEX;
        match self.at(index)?.id(index) == id {
            true => Ok(index),
            false => Err(Errno::EINVAL),
        }
    }

    /// That with this number.
    fn get(&mut self, id: u32) -> Result<&mut Alarm, Errno> {
        let index = self.find(id)?;
        self.at(index)
    }

    /// Deadlines, and the numbers of what is due.
    fn due(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let all = (FIRST..).zip(&self.0);
        all.filter_map(|(which, alarm)| Some((alarm.as_ref()?.timer.deadline, which)))
    }
}

impl Life<'_> {
    /// `timer_create`.
    pub fn make_alarm(&mut self, pid: Pid, op: op::MakeTimer) -> Tried {
        let signal = op.signal & !OWN_VALUE;
        if signal > 64 || op.clock > INDEX {
            return Err(Errno::EINVAL);
        }
        if op.thread != 0 && self.procs.leader(op.thread) != pid {
            return Err(Errno::EINVAL);
        }
        let cpu = CpuClock::find(self.procs, (pid, self.caller.tid), (op.clock, op.of))?;
        let user = self.procs.real_user(pid);
        if !self.procs.has_room_for_signal(pid, user) {
            return Err(Errno::EAGAIN);
        }
        let alarms = &mut self.procs.get_mut(pid)?.alarms.0;
        let free = alarms.iter().position(Option::is_none).unwrap_or(alarms.len());
        if free >= MOST {
            return Err(Errno::EAGAIN);
        }
        if free == alarms.len() {
            alarms.try_reserve(1).map_err(|_| Errno::EAGAIN)?;
            alarms.push(None);
        }
        // Who asks for none is told the timer's own number.
        let id = free as u32 | op.clock << CLOCK_SHIFT;
        let value = if op.signal & OWN_VALUE != 0 { id.into() } else { op.value };
        let (timer, ticket, overrun) = (Timer::default(), Rc::default(), 0);
        let (clock, thread, moves) = (op.clock, op.thread, false);
        let alarm =
            Alarm { timer, clock, cpu, moves, signal, thread, value, ticket, overrun, user };
        alarms[free] = Some(alarm);
        self.procs.queues.reserve(user);
        count(id as usize)
    }

    /// `timer_settime`.
    pub fn set_alarm(&mut self, pid: Pid, op: op::SetPosixTimer) -> Tried {
        let alarms = &mut self.procs.get_mut(pid)?.alarms;
        let index = alarms.find(op.id)?;
        let &mut Alarm { cpu, clock, timer: old, .. } = alarms.at(index)?;
        let told = self.told(old);
        let (value, interval) = (op.value, op.interval);
        let times = self.procs.get(pid)?.times.clone();
        let new = match cpu {
            Some(cpu) => self.timer_by(cpu, (value, op.absolute), interval)?,
            None => {
                let deadline = match value {
                    0 => 0,
                    value if op.absolute => self.clock.deadline_on((clock, &times), value),
                    value => self.clock.now().saturating_add(value),
                };
                Timer { deadline, interval, wanted: None }
            }
        };
        let alarm = self.procs.get_mut(pid)?.alarms.at(index)?;
        alarm.moves = op.absolute && is_of_day(alarm.clock);
        alarm.timer = new;
        alarm.overrun = 0;
        self.void_alarm(pid, index);
        self.clock.remove(old.deadline, Due::Timer(pid, FIRST + index));
        if new.deadline != 0 {
            self.clock.add(new.deadline, Due::Timer(pid, FIRST + index));
        }
        done(told)
    }

    /// `timer_gettime`.
    pub fn get_alarm(&mut self, pid: Pid, id: u32) -> Tried {
        let timer = self.procs.get_mut(pid)?.alarms.get(id)?.timer;
        done(self.told(timer))
    }

    /// `timer_getoverrun`.
    pub fn alarm_overrun(&mut self, pid: Pid, id: u32) -> Tried {
        let index = self.procs.get_mut(pid)?.alarms.find(id)?;
        let waits = self.alarm_waits(pid, index);
        let alarm = self.procs.get_mut(pid)?.alarms.at(index)?;
        count(if waits { alarm.overrun } else { alarm.ticket.overrun.get() } as usize)
    }

    /// Has the last signal of a timer not been taken yet?
    fn alarm_waits(&mut self, pid: Pid, index: u32) -> bool {
        let Ok(proc) = self.procs.get_mut(pid) else { return false };
        let Ok(alarm) = proc.alarms.at(index) else { return false };
        let id = alarm.id(index);
        // Whatever waits in a queue has the ticket, too.
        let (is_queued, overrun) =
            (Rc::strong_count(&alarm.ticket) > 1, alarm.ticket.overrun.get());
        let (owner, signal) = (alarm.owner(pid), alarm.signal);
        is_queued || self.procs.renew_timer(owner, signal, id, overrun)
    }

    /// The signal of a timer that was not taken yet is not to come.
    fn void_alarm(&mut self, pid: Pid, index: u32) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(alarm) = proc.alarms.at(index) else { return };
        let id = alarm.id(index);
        let (owner, signal) = (alarm.owner(pid), alarm.signal);
        core::mem::take(&mut alarm.ticket).is_void.set(true);
        self.procs.void_timer(owner, signal, id);
    }

    /// `timer_delete`.
    pub fn delete_alarm(&mut self, pid: Pid, id: u32) -> Tried {
        let index = self.procs.get_mut(pid)?.alarms.find(id)?;
        self.void_alarm(pid, index);
        let alarms = &mut self.procs.get_mut(pid)?.alarms;
        let Alarm { timer: Timer { deadline, .. }, user, .. } = *alarms.at(index)?;
        alarms.0[index as usize] = None;
        self.procs.queues.release(user);
        self.clock.remove(deadline, Due::Timer(pid, FIRST + index));
        done(())
    }

    /// The time of day was set to so much more than it was: timers that are set to one go by it.
    pub fn move_alarms(&mut self, by: i64) {
        for pid in self.procs.select(|proc| !proc.alarms.0.is_empty()) {
            let count = self.procs.get_mut(pid).map_or(0, |proc| proc.alarms.0.len());
            (FIRST..).take(count).for_each(|which| self.move_alarm((pid, which), by));
        }
    }

    fn move_alarm(&mut self, (pid, which): (Pid, u32), by: i64) {
        let now = self.clock.now();
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(alarm) = proc.alarms.at(which - FIRST) else { return };
        let Timer { deadline: before, interval, .. } = alarm.timer;
        if !alarm.moves || before == 0 {
            return;
        }
        self.clock.remove(before, Due::Timer(pid, which));
        match moved(before, by, interval, now) {
            Moved::To(deadline) => {
                alarm.timer.deadline = deadline;
                self.clock.add(deadline, Due::Timer(pid, which));
            }
            Moved::Passed { times, next } => {
                let next = if next == 0 { 0 } else { next.max(now + PERIOD_MIN) };
                self.expire_alarm((pid, which), times - 1, next);
            }
        }
    }

    /// A process executes another program, or has ended: it has none any more.
    pub fn delete_alarms(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        for index in 0..proc.alarms.0.len() {
            self.void_alarm(pid, index as u32);
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let alarms = core::mem::take(&mut proc.alarms);
        alarms.0.iter().flatten().for_each(|alarm| self.procs.queues.release(alarm.user));
        for (deadline, which) in alarms.due().filter(|(deadline, _)| *deadline != 0) {
            self.clock.remove(deadline, Due::Timer(pid, which));
        }
    }

    /// The deadline of one has come.
    pub fn alarm_expired(&mut self, pid: Pid, which: u32) {
        let now = self.clock.now();
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(&mut Alarm { mut timer, .. }) = proc.alarms.at(which - FIRST) else { return };
        let Some(wanted) = timer.wanted else {
            let late = now.saturating_sub(timer.deadline).checked_div(timer.interval).unwrap_or(0);
            return self.expire_alarm((pid, which), late, next_deadline(&timer, now));
        };
        let stands = self.stands(&mut timer, wanted);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(alarm) = proc.alarms.at(which - FIRST) else { return };
        alarm.timer = timer;
        match stands {
            Stands::Passed(times) => self.expire_alarm((pid, which), times, timer.deadline),
            Stands::Waits(look) => self.clock.add(look, Due::Timer(pid, which)),
            Stands::Never => alarm.timer.deadline = 0,
        }
    }

    /// One has expired, and so often more; next it does so at a time, or never, which is 0.
    fn expire_alarm(&mut self, (pid, which): (Pid, u32), late: u64, next: u64) {
        let index = which - FIRST;
        let waits = self.alarm_waits(pid, index);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(alarm) = proc.alarms.at(index) else { return };
        let id = alarm.id(index);
        let before = if waits { u64::from(alarm.ticket.overrun.get()) + 1 } else { 0 };
        let overrun = (before + late).min(i32::MAX as u64) as u32;
        alarm.timer.deadline = next;
        let (owner, signal, thread, value) =
            (alarm.owner(pid), alarm.signal, alarm.thread, alarm.value);
        if waits {
            alarm.ticket.overrun.set(overrun);
        } else {
            let (new, is_void) = (overrun.into(), false.into());
            let old =
                core::mem::replace(&mut alarm.ticket, Rc::new(Ticket { overrun: new, is_void }));
            alarm.overrun = old.overrun.get();
        }
        let ticket = alarm.ticket.clone();
        if next != 0 {
            self.clock.add(next, Due::Timer(pid, which));
        }
        if waits {
            self.procs.renew_timer(owner, signal, id, overrun);
        } else if signal != 0 {
            let what = Waiting::of_timer(info_of_timer(id, overrun, value), ticket);
            // There is room for it.
            let _ = self.post_waiting(pid, (thread != 0).then_some(thread), signal, what);
        }
    }
}
