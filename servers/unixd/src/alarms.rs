//! Timers that a process makes (`timer_create`), beside the three interval timers that it has.

use crate::clock::Due;
use crate::life::Life;
use crate::procs::{Pid, Timer};
use crate::signals::{next_deadline, remaining};
use crate::threads::Tid;
use crate::wait::{count, done, Tried};
use alloc::vec::Vec;
use unixproto::signals::SigInfo;
use unixproto::{op, Errno};

/// Timers of a process, at most.
const MOST: usize = 256;
/// Their numbers begin behind those of the interval timers.
pub const FIRST: u32 = 3;
/// `si_code` of their signals.
const SI_TIMER: i32 = -2;

/// One of them.
#[derive(Clone, Copy)]
struct Alarm {
    timer: Timer,
    /// The signal that it posts; 0: none.
    signal: u32,
    /// To this thread; 0: to the process.
    thread: Tid,
    /// What comes with the signal.
    value: u64,
    /// How often more it had expired when it posted that last.
    overrun: u32,
}

/// Those of a process.
#[derive(Default)]
pub struct Alarms(Vec<Option<Alarm>>);

impl Alarms {
    fn get(&mut self, id: u32) -> Result<&mut Alarm, Errno> {
        self.0.get_mut(id as usize).and_then(Option::as_mut).ok_or(Errno::EINVAL)
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
        if op.signal > 64 {
            return Err(Errno::EINVAL);
        }
        if op.thread != 0 && self.procs.leader(op.thread) != pid {
            return Err(Errno::EINVAL);
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
        let value = if op.own_value { free as u64 } else { op.value };
        let (timer, overrun) = (Timer::default(), 0);
        alarms[free] = Some(Alarm { timer, signal: op.signal, thread: op.thread, value, overrun });
        count(free)
    }

    /// `timer_settime`.
    pub fn set_alarm(&mut self, pid: Pid, op: op::SetPosixTimer) -> Tried {
        let now = self.clock.now();
        let deadline = if op.value == 0 { 0 } else { now.saturating_add(op.value) };
        let alarm = self.procs.get_mut(pid)?.alarms.get(op.id)?;
        let new = Timer { deadline, interval: op.interval };
        let old = core::mem::replace(&mut alarm.timer, new);
        alarm.overrun = 0;
        self.clock.remove(old.deadline, Due::Timer(pid, FIRST + op.id));
        if deadline != 0 {
            self.clock.add(deadline, Due::Timer(pid, FIRST + op.id));
        }
        done(remaining(old, now))
    }

    /// `timer_gettime`.
    pub fn get_alarm(&mut self, pid: Pid, id: u32) -> Tried {
        let now = self.clock.now();
        done(remaining(self.procs.get_mut(pid)?.alarms.get(id)?.timer, now))
    }

    /// `timer_getoverrun`.
    pub fn alarm_overrun(&mut self, pid: Pid, id: u32) -> Tried {
        count(self.procs.get_mut(pid)?.alarms.get(id)?.overrun as usize)
    }

    /// `timer_delete`.
    pub fn delete_alarm(&mut self, pid: Pid, id: u32) -> Tried {
        let alarms = &mut self.procs.get_mut(pid)?.alarms;
        let deadline = alarms.get(id)?.timer.deadline;
        alarms.0[id as usize] = None;
        self.clock.remove(deadline, Due::Timer(pid, FIRST + id));
        done(())
    }

    /// A process executes another program, or has ended: it has none any more.
    pub fn delete_alarms(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let alarms = core::mem::take(&mut proc.alarms);
        for (deadline, which) in alarms.due().filter(|(deadline, _)| *deadline != 0) {
            self.clock.remove(deadline, Due::Timer(pid, which));
        }
    }

    /// The deadline of one has come.
    pub fn alarm_expired(&mut self, pid: Pid, which: u32) {
        let now = self.clock.now();
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Ok(alarm) = proc.alarms.get(which - FIRST) else { return };
        let late = now.saturating_sub(alarm.timer.deadline);
        alarm.overrun =
            late.checked_div(alarm.timer.interval).unwrap_or(0).min(i32::MAX as u64) as u32;
        alarm.timer.deadline = next_deadline(&alarm.timer, now);
        let Alarm { timer, signal, thread, value, overrun } = *alarm;
        if timer.deadline != 0 {
            self.clock.add(timer.deadline, Due::Timer(pid, which));
        }
        if signal != 0 {
            let info =
                SigInfo { code: SI_TIMER, pid: which - FIRST, uid: overrun, status: 0, value };
            self.post_to(pid, (thread != 0).then_some(thread), signal, info);
        }
    }
}
