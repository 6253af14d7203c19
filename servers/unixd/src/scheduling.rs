//! How threads are scheduled: nice values, policies and priorities, also of input and output. Who may change them is as on Linux.
//! The kernel is told what it comes to: a priority or a weight. What is said of input and output is only kept.

use crate::limits::Limits;
use crate::procs::{Pid, Proc, Procs, INIT};
use crate::procsystem::idle_ticks;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, Call, Tried};
use abi::slots::KERNEL;
use alloc::vec::Vec;
use captypes::op as invocation;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use credentials::{Capability, Credentials};
use libos::{invoke, CapAddr};
use unixproto::scheduling::*;
use unixproto::{op, Errno};

/// Weights of nice values, from -20 on, as on Linux: a step is a tenth of the processor between two.
const WEIGHTS: [u32; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620,
    6_100, 4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272,
    215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// That of [`IDLE`].
const WEIGHT_IDLE: u32 = 3;
/// Of [`captypes::op::SetSchedule`].
const TAKES_TURNS: u32 = 1;

/// Of a thread.
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
    /// Of [`DEADLINE`].
    budget: Option<Budget>,
}

impl Scheduling {
    /// Of a child, or another thread. `EAGAIN`: what it was promised nobody else has.
    pub fn inherited(self) -> Result<Scheduling, Errno> {
        match self.policy {
            _ if self.resets => Ok(self.reset()),
            DEADLINE => Err(Errno::EAGAIN),
            _ => Ok(self),
        }
    }

    fn reset(self) -> Scheduling {
        let is_timed = has_priorities(self.policy) || self.policy == DEADLINE;
        let nice = if is_timed { 0 } else { self.nice.max(0) };
        let policy = if is_timed { NORMAL } else { self.policy };
        Scheduling { nice, policy, priority: 0, resets: false, io: self.io, budget: None }
    }

    /// Its priority, as `/proc` has it.
    pub fn shown_priority(self) -> i32 {
        match self.policy {
            DEADLINE => -2 - PRIORITY_MOST as i32,
            FIFO | ROUND_ROBIN => -1 - self.priority as i32,
            _ => 20 + self.nice,
        }
    }

    fn word(self) -> u64 {
        let resets = if self.resets { RESET_ON_FORK } else { 0 };
        Policy { policy: self.policy | resets, priority: self.priority as u8, nice: None }.word()
    }

    /// What that is for the kernel: priority, options, weight.
    fn of_kernel(self) -> (u32, u32, u32) {
        match self.policy {
            FIFO => (self.priority, 0, 0),
            // Before all others that have one as far as there is room in the list: who came first goes first.
            DEADLINE => (PRIORITY_MOST, 0, 0),
            ROUND_ROBIN => (self.priority, TAKES_TURNS, 0),
            IDLE => (0, 0, WEIGHT_IDLE),
            _ => (0, 0, WEIGHTS[(self.nice + 20).clamp(0, 39) as usize]),
        }
    }

    /// A dispatcher that was not told anything is to be scheduled so.
    pub fn begin(self, dispatcher: CapAddr) {
        if self.of_kernel() != Scheduling::default().of_kernel() {
            self.apply(dispatcher);
        }
    }

    /// A dispatcher is to be scheduled so from now on.
    fn apply(self, dispatcher: CapAddr) {
        let (priority, options, weight) = self.of_kernel();
        let kernel = KERNEL.into();
        // One that has just ended needs it no more, and one that is not there yet is told before it begins.
        let _ = invoke(dispatcher, invocation::SetSchedule { kernel, priority, options, weight });
    }
}

fn has_priorities(policy: u32) -> bool {
    matches!(policy, FIFO | ROUND_ROBIN)
}

/// Whom a call is about: how it is scheduled, whose it is, and its limits.
struct Target<'a> {
    scheduling: Scheduling,
    who: &'a Credentials,
    limits: Option<&'a Limits>,
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
    /// Whom a call is about: a thread, those of a group, or those of a user.
    fn meant(&self, caller: Tid, which: u32, who: u32) -> Result<Vec<Tid>, Errno> {
        let pid = self.leader(caller);
        let threads = |all: Vec<Pid>| all.into_iter().flat_map(|pid| self.threads_of(pid));
        let found: Vec<Tid> = match which {
            PROCESS if who == 0 => alloc::vec![caller],
            PROCESS if who == INIT || self.is_thread(who) => alloc::vec![who],
            PROCESS => self.get(who).map(|proc| alloc::vec![proc.pid])?,
            GROUP => {
                let group = if who == 0 { self.get(pid)?.pgid } else { who };
                let init = (group == INIT).then_some(INIT);
                let members = self.members(group).map(|proc| proc.pid).collect();
                init.into_iter().chain(threads(members)).collect()
            }
            USER => {
                let user = if who == 0 { self.get(pid)?.who.users.real } else { who };
                let init = (user == Credentials::ROOT.users.real).then_some(INIT);
                let procs = self.select(|proc| proc.who.users.real == user);
                init.into_iter().chain(threads(procs)).collect()
            }
            _ => return Err(Errno::EINVAL),
        };
        match found.is_empty() {
            true => Err(Errno::ESRCH),
            false => Ok(found),
        }
    }

    /// How a thread is scheduled. The first process is none of this server's.
    pub fn scheduling(&self, tid: Tid) -> Result<Scheduling, Errno> {
        match self.thread(tid) {
            Some(thread) => Ok(thread.scheduling),
            None if tid == INIT => Ok(self.init),
            None => Ok(self.get(tid)?.scheduling),
        }
    }

    fn target(&self, tid: Tid) -> Result<Target<'_>, Errno> {
        let scheduling = self.scheduling(tid)?;
        if tid == INIT {
            return Ok(Target { scheduling, who: &Credentials::ROOT, limits: None });
        }
        let proc = self.get(self.leader(tid))?;
        Ok(Target { scheduling, who: &proc.who, limits: Some(&proc.limits) })
    }

    fn set_scheduling(&mut self, tid: Tid, new: Scheduling) -> Result<(), Errno> {
        match self.thread_mut(tid) {
            Some(thread) => thread.scheduling = new,
            None if tid == INIT => self.init = new,
            None => self.get_mut(tid)?.scheduling = new,
        }
        // Its dispatcher may run its child at present.
        if self.acted(tid).is_none() {
            self.reschedule(tid);
        }
        Ok(())
    }

    /// What runs a thread is to be scheduled as that is.
    fn reschedule(&self, tid: Tid) {
        if let (Some(runner), Ok(scheduling)) = (self.runner_of(tid), self.scheduling(tid)) {
            scheduling.apply(runner.dispatcher);
        }
    }

    /// A thread begins to act as a child, or ceases to.
    pub fn acts_otherwise(&self, from: Scheduling, to: Tid) {
        if self.scheduling(to).is_ok_and(|to| to.of_kernel() != from.of_kernel()) {
            self.reschedule(to);
        }
    }

    /// What a thread is asked for, or told, about how it or others are scheduled.
    pub fn schedule(&mut self, by: Speaker, call: &Call, op: op::Schedule) -> Tried {
        let op::Schedule { what, which, who, value } = op;
        let caller = by.tid;
        let meant = self.meant(caller, which, who)?;
        let each = meant.iter().filter_map(|one| self.scheduling(*one).ok());
        let pid = self.leader(caller);
        match what {
            GET_NICE => {
                let least = each.map(|one| one.nice).min().ok_or(Errno::ESRCH)?;
                count((20 - least) as usize)
            }
            GET_IO => {
                let best = |one: Scheduling| match one.io {
                    0 => u32::MAX,
                    io => io,
                };
                let found = each.map(best).min().ok_or(Errno::ESRCH)?;
                count(if found == u32::MAX { 0 } else { found as usize })
            }
            GET_POLICY => count(self.scheduling(meant[0])?.word() as usize),
            SET_NICE => {
                let nice = (value as i64).clamp(-20, 19) as i32;
                self.change_each(pid, &meant, |from, to| to.set_nice(from, nice))
            }
            SET_IO => {
                let io = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
                check_io(self.get(pid)?, io)?;
                self.change_each(pid, &meant, |from, to| to.set_io(from, io))
            }
            SET_POLICY => {
                let policy = Policy::of(value);
                let budget = match policy.policy & !RESET_ON_FORK {
                    DEADLINE => Budget::of(&self.a(by, call)?),
                    _ => None,
                };
                let is_free = budget.map_or(Ok(()), |budget| self.may_promise(meant[0], budget));
                self.change_each(pid, &meant[..1], |from, to| {
                    let new = to.set_policy(from, policy, budget)?;
                    is_free.map(|()| new)
                })
            }
            GET_BUDGET => {
                let budget = self.scheduling(meant[0])?.budget.map(Budget::bytes);
                let bytes = budget.as_ref().map_or(&[][..], |bytes| bytes);
                self.put(by, bytes)?;
                count(bytes.len())
            }
            GET_CORES => {
                let header = self.session_of(meant[0]).map(|session| session.header());
                count(header.map_or(0, |header| header.affinity.load(Relaxed)) as usize)
            }
            SET_CORES => self.set_cores(pid, meant[0], value),
            _ => Err(Errno::EINVAL),
        }
    }

    /// May a thread be promised this besides what others are? As on Linux 19 of 20 parts of all cores are given away, and only who may run on
    /// all of them has any. `EPERM`: it may not; `EBUSY`: there is not so much.
    fn may_promise(&self, tid: Tid, budget: Budget) -> Result<(), Errno> {
        let cores = idle_ticks().count() as u64;
        if let Ok(session) = self.session_of(tid) {
            let all = u64::MAX >> (64 - cores.clamp(1, 64));
            let own = session.header().affinity.load(Relaxed);
            if own != 0 && own & all != all {
                return Err(Errno::EPERM);
            }
        }
        let everybody = self.select(Proc::is_live).into_iter().flat_map(|pid| self.threads_of(pid));
        let of_others = everybody.filter(|&other| other != tid);
        let budgets = of_others.filter_map(|other| self.scheduling(other).ok()?.budget);
        let promised: u64 = budgets.map(Budget::share).sum();
        match promised + budget.share() > cores * (19 << 20) / 20 {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }

    /// Lets a thread run on these cores only; its library looks at them when it needs to know.
    fn set_cores(&self, from: Pid, tid: Tid, cores: u64) -> Tried {
        let (from, target) = (self.get(from)?, self.target(tid)?);
        if !target.is_of(from) && !from.who.has_over(target.who.space.as_ref(), Capability::SysNice)
        {
            return Err(Errno::EPERM);
        }
        if cores == 0 {
            return Err(Errno::EINVAL);
        }
        if target.scheduling.policy == DEADLINE {
            // It was promised time of all of them.
            return Err(Errno::EBUSY);
        }
        // The first process runs nothing, and who has just ended runs nowhere.
        if let (Some(runner), Ok(session)) = (self.runner_of(tid), self.session_of(tid)) {
            let set = invocation::SetAffinity { mask: cores };
            // Before the kernel is told: a child that begins takes its parent's only if nobody has said anything.
            let before = session.header().affinity.swap(cores, SeqCst);
            if invoke(runner.dispatcher, set).is_err() {
                session.header().affinity.store(before, SeqCst);
                return Err(Errno::EINVAL);
            }
        }
        count(0)
    }

    /// Changes all of them that may be changed. Answers the last error.
    fn change_each(
        &mut self,
        pid: Pid,
        meant: &[Tid],
        change: impl Fn(&Proc, &Target) -> Result<Scheduling, Errno>,
    ) -> Tried {
        let mut result = Ok(());
        for &one in meant {
            match change(self.get(pid)?, &self.target(one)?) {
                Ok(new) => self.set_scheduling(one, new)?,
                Err(error) => result = Err(error),
            }
        }
        result?;
        count(0)
    }
}

impl Target<'_> {
    /// May one process change how this one is scheduled at all?
    fn is_of(&self, from: &Proc) -> bool {
        let user = from.who.users.effective;
        user == self.who.users.effective || user == self.who.users.real
    }

    /// May its nice value be this without privilege? Its own limit says so.
    fn is_within(&self, nice: i32) -> bool {
        self.limits.is_some_and(|limits| (20 - nice) as u64 <= limits.nice())
    }

    fn set_nice(&self, from: &Proc, nice: i32) -> Result<Scheduling, Errno> {
        let may =
            self.is_of(from) || from.who.has_over(self.who.space.as_ref(), Capability::SysNice);
        let is_more = nice < self.scheduling.nice && !self.is_within(nice);
        match () {
            () if !may => Err(Errno::EPERM),
            () if is_more && !from.has(Capability::SysNice) => Err(Errno::EACCES),
            () => Ok(Scheduling { nice, ..self.scheduling }),
        }
    }

    fn set_io(&self, from: &Proc, io: u32) -> Result<Scheduling, Errno> {
        let (users, target) = (from.who.users, self.who.users.real);
        let is_own = users.effective == target || users.real == target;
        match is_own || from.has(Capability::SysNice) {
            true => Ok(Scheduling { io, ..self.scheduling }),
            false => Err(Errno::EPERM),
        }
    }

    fn set_policy(
        &self,
        from: &Proc,
        new: Policy,
        budget: Option<Budget>,
    ) -> Result<Scheduling, Errno> {
        let resets = new.policy & RESET_ON_FORK != 0;
        let (policy, priority) = (new.policy & !RESET_ON_FORK, u32::from(new.priority));
        let fits = match policy {
            FIFO | ROUND_ROBIN => (1..=PRIORITY_MOST).contains(&priority),
            NORMAL | BATCH | IDLE => priority == 0,
            DEADLINE => priority == 0 && budget.is_some(),
            _ => false,
        };
        if !fits {
            return Err(Errno::EINVAL);
        }
        let now = self.scheduling;
        let nice = match new.nice {
            Some(nice) if matches!(policy, NORMAL | BATCH) => i32::from(nice).clamp(-20, 19),
            _ => now.nice,
        };
        if !from.has(Capability::SysNice) {
            let most = self.limits.map_or(0, Limits::priority);
            let is_more = match policy {
                FIFO | ROUND_ROBIN => {
                    policy != now.policy && most == 0
                        || priority > now.priority && u64::from(priority) > most
                }
                DEADLINE => true,
                _ => nice < now.nice && !self.is_within(nice),
            };
            let is_no_longer_idle =
                now.policy == IDLE && policy != IDLE && !self.is_within(now.nice);
            let no_longer_resets = now.resets && !resets;
            if is_more || is_no_longer_idle || no_longer_resets || !self.is_of(from) {
                return Err(Errno::EPERM);
            }
        }
        Ok(Scheduling { policy, priority, resets, nice, budget, ..now })
    }
}
