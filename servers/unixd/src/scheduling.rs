//! How processes say they are to be scheduled: nice values, policies and priorities, also of input and output. They are kept, told to
//! whoever asks, and inherited, and who may change them is as on Linux. The kernel gives all the same share, whatever they say.

use crate::procs::{Pid, Proc, Procs, INIT};
use crate::wait::{count, Tried};
use alloc::vec::Vec;
use credentials::{Capability, Credentials, Ids};
use unixproto::scheduling::*;
use unixproto::{op, Errno};

/// Of a process.
#[derive(Clone, Copy, Default)]
pub struct Scheduling {
    /// From -20 on, which is the most, to 19.
    pub nice: i32,
    /// `SCHED_*`.
    pub policy: u32,
    /// Of a policy that has priorities.
    pub priority: u32,
    /// Children have the usual one.
    resets: bool,
    /// Class and level of input and output.
    io: u32,
}

impl Scheduling {
    /// Of a child.
    pub fn inherited(self) -> Scheduling {
        if !self.resets {
            return self;
        }
        let is_timed = has_priorities(self.policy);
        let nice = if is_timed { 0 } else { self.nice.max(0) };
        let policy = if is_timed { NORMAL } else { self.policy };
        Scheduling { nice, policy, priority: 0, resets: false, io: self.io }
    }

    /// Its priority, as `/proc` has it.
    pub fn shown_priority(self) -> i32 {
        match has_priorities(self.policy) {
            true => -1 - self.priority as i32,
            false => 20 + self.nice,
        }
    }

    fn word(self) -> u64 {
        let resets = if self.resets { RESET_ON_FORK } else { 0 };
        u64::from(self.policy | resets) | u64::from(self.priority) << 32
    }
}

fn has_priorities(policy: u32) -> bool {
    matches!(policy, FIFO | ROUND_ROBIN)
}

/// Whom a call is about: how it is scheduled, and whose it is.
#[derive(Clone, Copy)]
struct Target {
    scheduling: Scheduling,
    users: Ids,
}

/// May one process change how another is scheduled?
fn owns(from: &Proc, to: &Target) -> bool {
    let user = from.who.users.effective;
    user == to.users.effective || user == to.users.real || from.has(Capability::SysNice)
}

/// What `ioprio_set` may set. The highest class takes a privilege.
fn check_io(from: &Proc, value: u32) -> Result<(), Errno> {
    let level = value & 7;
    match value >> IO_CLASS_SHIFT {
        IO_NONE if level == 0 => Ok(()),
        IO_TIMED if !from.has(Capability::SysNice) && !from.has(Capability::SysAdmin) => {
            Err(Errno::EPERM)
        }
        IO_TIMED | IO_USUAL | IO_IDLE => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

impl Procs {
    /// Whom a call is about: a process, those of a group, or those of a user.
    fn meant(&self, pid: Pid, which: u32, who: u32) -> Result<Vec<Pid>, Errno> {
        let caller = self.get(pid)?;
        let found = match which {
            PROCESS if who == 0 => alloc::vec![pid],
            PROCESS if who == INIT => alloc::vec![INIT],
            PROCESS if self.is_thread(who) => alloc::vec![self.leader(who)],
            PROCESS => self.get(who).map(|proc| alloc::vec![proc.pid])?,
            GROUP => {
                let group = if who == 0 { caller.pgid } else { who };
                let init = (group == INIT).then_some(INIT);
                init.into_iter().chain(self.members(group).map(|proc| proc.pid)).collect()
            }
            USER => {
                let user = if who == 0 { caller.who.users.real } else { who };
                let mut found = self.select(|proc| proc.who.users.real == user);
                if user == Credentials::ROOT.users.real {
                    found.push(INIT);
                }
                found
            }
            _ => return Err(Errno::EINVAL),
        };
        match found.is_empty() {
            true => Err(Errno::ESRCH),
            false => Ok(found),
        }
    }

    /// A process, or the first one, which is no process of this server's.
    fn target(&self, pid: Pid) -> Result<Target, Errno> {
        if pid == INIT {
            return Ok(Target { scheduling: self.init, users: Credentials::ROOT.users });
        }
        let proc = self.get(pid)?;
        Ok(Target { scheduling: proc.scheduling, users: proc.who.users })
    }

    /// What a process is asked for, or told, about how it or others are scheduled.
    pub fn schedule(&mut self, pid: Pid, op: op::Schedule) -> Tried {
        let op::Schedule { what, which, who, value } = op;
        let meant = self.meant(pid, which, who)?;
        let each = meant.iter().filter_map(|one| self.target(*one).ok());
        let first = meant[0];
        match what {
            GET_NICE => {
                let least = each.map(|one| one.scheduling.nice).min().ok_or(Errno::ESRCH)?;
                count((20 - least) as usize)
            }
            GET_IO => {
                let best = |one: Target| match one.scheduling.io {
                    0 => u32::MAX,
                    io => io,
                };
                let found = each.map(best).min().ok_or(Errno::ESRCH)?;
                count(if found == u32::MAX { 0 } else { found as usize })
            }
            GET_POLICY => count(self.target(first)?.scheduling.word() as usize),
            SET_NICE => {
                let nice = (value as i64).clamp(-20, 19) as i32;
                self.change_each(pid, meant, |from, to| to.set_nice(from, nice))
            }
            SET_IO => {
                let io = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
                check_io(self.get(pid)?, io)?;
                self.change_each(pid, meant, |from, to| to.set_io(from, io))
            }
            SET_POLICY => {
                let (policy, priority) = (value as u32, (value >> 32) as u32);
                self.change_each(pid, alloc::vec![first], |from, to| {
                    to.set_policy(from, policy, priority)
                })
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Changes all of them that may be changed. Answers the last error.
    fn change_each(
        &mut self,
        pid: Pid,
        meant: Vec<Pid>,
        change: impl Fn(&Proc, &Target) -> Result<Scheduling, Errno>,
    ) -> Tried {
        let mut result = Ok(());
        for one in meant {
            let changed = change(self.get(pid)?, &self.target(one)?);
            match changed {
                Ok(new) if one == INIT => self.init = new,
                Ok(new) => self.get_mut(one)?.scheduling = new,
                Err(error) => result = Err(error),
            }
        }
        result?;
        count(0)
    }
}

impl Target {
    fn set_nice(&self, from: &Proc, nice: i32) -> Result<Scheduling, Errno> {
        match () {
            () if !owns(from, self) => Err(Errno::EPERM),
            () if nice < self.scheduling.nice && !from.has(Capability::SysNice) => {
                Err(Errno::EACCES)
            }
            () => Ok(Scheduling { nice, ..self.scheduling }),
        }
    }

    fn set_io(&self, from: &Proc, io: u32) -> Result<Scheduling, Errno> {
        let (users, target) = (from.who.users, self.users.real);
        let is_own = users.effective == target || users.real == target;
        match is_own || from.has(Capability::SysNice) {
            true => Ok(Scheduling { io, ..self.scheduling }),
            false => Err(Errno::EPERM),
        }
    }

    fn set_policy(&self, from: &Proc, policy: u32, priority: u32) -> Result<Scheduling, Errno> {
        let resets = policy & RESET_ON_FORK != 0;
        let policy = policy & !RESET_ON_FORK;
        let fits = match policy {
            FIFO | ROUND_ROBIN => (1..=PRIORITY_MOST).contains(&priority),
            NORMAL | BATCH | IDLE | DEADLINE => priority == 0,
            _ => false,
        };
        if !fits {
            return Err(Errno::EINVAL);
        }
        let now = self.scheduling;
        if !from.has(Capability::SysNice) {
            let is_more = has_priorities(policy)
                && (policy != now.policy || priority > now.priority)
                || policy == DEADLINE
                || now.policy == IDLE && policy != IDLE
                || now.resets && !resets;
            if is_more || !owns(from, self) {
                return Err(Errno::EPERM);
            }
        }
        match policy {
            // Nobody is promised time by a date.
            DEADLINE => Err(Errno::EBUSY),
            _ => Ok(Scheduling { policy, priority, resets, ..now }),
        }
    }
}
