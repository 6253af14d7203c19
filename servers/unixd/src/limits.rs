//! Limits of processes: how large they make files, how much processor time they get, how they may be scheduled, and how many
//! threads their user may have.
//!
//! The library keeps all limits and tells this server of these, which it could not be trusted with.

use crate::clock::{Due, SECOND};
use crate::cputime::CpuTime;
use crate::life::Life;
use crate::procs::{Pid, Proc, Procs, INIT};
use crate::signals::from_kernel;
use crate::wait::{done, Tried};
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Capability, Credentials};
use unixproto::ops::LimitPair;
use unixproto::scheduling::SET_POLICY;
use unixproto::session::NOTE_CLOCK;
use unixproto::signals::{SIGKILL, SIGXCPU};
use unixproto::{limit, op, Errno};

/// User id of the administrator.
const ROOT: u32 = 0;
/// Of `RLIMIT_RTTIME`, in nanoseconds.
const MICROSECOND: u64 = 1000;
/// Processor time is looked at no more often than this.
const LOOK_MIN_NS: u64 = 10_000_000;

/// A limit: what counts, and how far it may be raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// The limits of a process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    cpu: Limit,
    file_size: Limit,
    threads: Limit,
    nice: Limit,
    priority: Limit,
    /// Microseconds.
    unbroken: Limit,
    /// Processor time at which it is told next that it has used too much.
    warn_ns: u64,
    /// When its processor time is looked at; 0: never.
    look: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let first = |which: u32| {
            let [soft, hard] = limit::FIRST[which as usize];
            Limit { soft, hard }
        };
        Limits {
            cpu: first(limit::CPU),
            file_size: first(limit::FSIZE),
            threads: first(limit::NPROC),
            nice: first(limit::NICE),
            priority: first(limit::RTPRIO),
            unbroken: first(limit::RTTIME),
            warn_ns: u64::MAX,
            look: 0,
        }
    }
}

impl Limits {
    /// Those of a child, whose time begins anew.
    pub fn inherited(&self) -> Limits {
        Limits { warn_ns: first_warning(self.cpu), look: 0, ..*self }
    }
    /// Largest size to which files are made larger.
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.file_size.soft
    }
    /// 20 less the lowest nice value that its threads may be given without privilege.
    pub fn nice(&self) -> u64 {
        self.nice.soft
    }
    /// The highest priority.
    pub fn priority(&self) -> u64 {
        self.priority.soft
    }
    /// Soft and hard limit, of those that this server keeps.
    pub fn kept(&self, which: u32) -> Option<[u64; 2]> {
        let Limit { soft, hard } = match which {
            limit::CPU => self.cpu,
            limit::FSIZE => self.file_size,
            limit::NPROC => self.threads,
            limit::NICE => self.nice,
            limit::RTPRIO => self.priority,
            limit::RTTIME => self.unbroken,
            _ => return None,
        };
        Some([soft, hard])
    }
    fn named(&mut self, which: u32) -> Result<&mut Limit, Errno> {
        match which {
            limit::CPU => Ok(&mut self.cpu),
            limit::FSIZE => Ok(&mut self.file_size),
            limit::NPROC => Ok(&mut self.threads),
            limit::NICE => Ok(&mut self.nice),
            limit::RTPRIO => Ok(&mut self.priority),
            limit::RTTIME => Ok(&mut self.unbroken),
            _ => Err(Errno::EINVAL),
        }
    }
    fn hard_cpu_ns(&self) -> u64 {
        self.cpu.hard.saturating_mul(SECOND)
    }
}

/// As on Linux, no time at all counts as a second.
fn first_warning(cpu: Limit) -> u64 {
    cpu.soft.max(1).saturating_mul(SECOND)
}

impl Procs {
    /// A user that has as many threads as a process may see is denied another by it, unless that is
    /// privileged.
    ///
    /// # Errors
    ///
    /// `EAGAIN`.
    pub fn may_make_thread(&self, pid: Pid) -> Result<(), Errno> {
        let proc = self.get(pid)?;
        let exempt = || proc.has(Capability::SysResource) || proc.has(Capability::SysAdmin);
        let user = proc.who.users.real;
        match self.threads_of_user(user) < proc.limits.threads.soft || user == ROOT || exempt() {
            true => Ok(()),
            false => Err(Errno::EAGAIN),
        }
    }
}

impl Procs {
    /// The process of which somebody else sees and sets limits; `None`: the first one.
    fn limited(&self, pid: Pid, target: Pid) -> Result<Option<&Proc>, Errno> {
        let caller = self.get(pid)?;
        let of = match target {
            INIT => None,
            tid if self.is_thread(tid) => Some(self.get(self.leader(tid))?),
            pid => Some(self.get(pid)?),
        };
        let who = of.map_or(&Credentials::ROOT, |proc| &proc.who);
        let is_own = of.is_some_and(|proc| proc.pid == pid);
        match is_own || credentials::may_limit(&caller.who, who) {
            true => Ok(of),
            false => Err(Errno::EPERM),
        }
    }

    /// A limit of any process (`prlimit`). The first one has those that everything begins with.
    pub fn limit_of(&self, pid: Pid, op: op::LimitOf) -> Tried {
        done(self.limit_pair(self.limited(pid, op.pid)?, op.which)?)
    }

    fn limit_pair(&self, of: Option<&Proc>, which: u32) -> Result<LimitPair, Errno> {
        let first = *limit::FIRST.get(which as usize).ok_or(Errno::EINVAL)?;
        let Some(proc) = of else { return Ok(LimitPair { soft: first[0], hard: first[1] }) };
        let [soft, hard] = match (proc.limits.kept(which), proc.session()) {
            (Some(kept), _) => kept,
            (None, Ok(session)) => {
                session.header().limits[which as usize].each_ref().map(|word| word.load(Relaxed))
            }
            // Who has ended has said nothing that is still there.
            (None, Err(_)) => return Err(Errno::ESRCH),
        };
        Ok(LimitPair { soft, hard })
    }
}

impl Life<'_> {
    /// `prlimit` of another process: its library finds it in the header.
    pub fn set_limit_of(&mut self, pid: Pid, op: op::SetLimitOf) -> Tried {
        let of = self.procs.limited(pid, op.pid)?;
        let before = self.procs.limit_pair(of, op.which)?;
        // The first one has no program that it could hold against.
        let target = of.ok_or(Errno::EPERM)?;
        if op.soft > op.hard {
            return Err(Errno::EINVAL);
        }
        let may_raise = {
            let who = &self.procs.get(pid)?.who;
            who.has_over(target.who.space.as_ref(), Capability::SysResource)
        };
        let is_too_much = op.which == limit::FILES && op.hard > limit::FILES_MOST;
        if op.hard > before.hard && !may_raise || is_too_much {
            return Err(Errno::EPERM);
        }
        let target = target.pid;
        let header = self.procs.live(target)?.session()?.header();
        let [soft, hard] = &header.limits[op.which as usize];
        soft.store(op.soft, Relaxed);
        hard.store(op.hard, Relaxed);
        if limit::ENFORCED.contains(&op.which) {
            self.keep_limit(target, op.which, Limit { soft: op.soft, hard: op.hard })?;
        }
        if let Some(runner) = self.procs.runner_of(target) {
            // What the kernel and the library's memory know of it is brought up to date.
            runner.notify(NOTE_CLOCK);
        }
        done(before)
    }

    /// `setrlimit`.
    pub fn set_limit(&mut self, pid: Pid, op: op::SetLimit) -> Tried {
        let proc = self.procs.get_mut(pid)?;
        let may_raise = proc.has(Capability::SysResource);
        let limit = *proc.limits.named(op.which)?;
        if op.soft > op.hard {
            return Err(Errno::EINVAL);
        }
        if op.hard > limit.hard && !may_raise {
            return Err(Errno::EPERM);
        }
        self.keep_limit(pid, op.which, Limit { soft: op.soft, hard: op.hard })?;
        done(())
    }

    /// A limit that this server keeps is this from now on.
    fn keep_limit(&mut self, pid: Pid, which: u32, limit: Limit) -> Result<(), Errno> {
        if which == limit::FSIZE {
            // What it writes is looked at from now on.
            self.procs.return_loans(self.procs.get(pid)?);
        }
        let limits = &mut self.procs.get_mut(pid)?.limits;
        *limits.named(which)? = limit;
        if which == limit::CPU {
            limits.warn_ns = first_warning(limit);
        }
        if matches!(which, limit::CPU | limit::RTTIME) {
            self.look_at_cpu_later(pid);
        }
        Ok(())
    }

    /// How a thread is scheduled has perhaps changed: of those with a priority it is looked at how long they have run.
    pub fn look_at_priority(&mut self, op: op::Schedule) {
        let tid = if op.who == 0 { self.caller.tid } else { op.who };
        if op.what == SET_POLICY {
            self.look_at_cpu_later(self.procs.leader(tid));
        }
    }

    /// The longest that any thread of a process with a priority has run without a wait, in microseconds, if that is limited.
    fn unbroken(&self, proc: &Proc) -> Option<u64> {
        if proc.limits.unbroken.soft == limit::NONE {
            return None;
        }
        let threads = self.procs.threads_of(proc.pid).into_iter();
        let timed = threads.filter(|&tid| {
            self.procs.scheduling(tid).is_ok_and(|scheduling| scheduling.priority != 0)
        });
        let dispatchers = timed.filter_map(|tid| self.procs.dispatcher_of(tid));
        dispatchers.map(|dispatcher| CpuTime::unbroken(dispatcher, self.clock) / MICROSECOND).max()
    }

    /// One that runs too long without a wait is told each second, and ends at the hard limit. Has it ended?
    fn look_at_unbroken(&mut self, pid: Pid) -> bool {
        let Ok(proc) = self.procs.live(pid) else { return true };
        let Limit { soft, hard } = proc.limits.unbroken;
        let Some(used) = self.unbroken(proc) else { return false };
        if used >= hard {
            self.strike_down(pid, SIGKILL);
            return true;
        }
        if used >= soft {
            if let Ok(proc) = self.procs.get_mut(pid) {
                proc.limits.unbroken.soft = soft.saturating_add(SECOND / MICROSECOND);
            }
            self.post(pid, SIGXCPU, from_kernel());
        }
        false
    }

    /// Looks at the processor time of a process when it may have used up what it has, at the earliest. Who asks for that again and
    /// again does not put it off.
    pub fn look_at_cpu_later(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.live(pid) else { return };
        let next = proc.limits.warn_ns.min(proc.limits.hard_cpu_ns());
        let of_cpu = (next != u64::MAX).then(|| {
            next.saturating_sub(self.procs.cpu(self.clock, proc).ns)
                / (1 + proc.threads.len() as u64)
        });
        let Limit { soft, hard } = proc.limits.unbroken;
        let of_unbroken = self
            .unbroken(proc)
            .map(|used| soft.min(hard).saturating_sub(used).saturating_mul(MICROSECOND));
        let Some(left) = of_cpu.into_iter().chain(of_unbroken).min() else {
            return self.forget_cpu_look(pid);
        };
        let look = self.clock.now().saturating_add(left.max(LOOK_MIN_NS));
        if (1..=look).contains(&proc.limits.look) {
            return;
        }
        self.forget_cpu_look(pid);
        self.clock.add(look, Due::Cpu(pid));
        if let Ok(proc) = self.procs.get_mut(pid) {
            proc.limits.look = look;
        }
    }

    /// It is not looked at any more.
    pub fn forget_cpu_look(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let look = core::mem::take(&mut proc.limits.look);
        if look != 0 {
            self.clock.remove(look, Due::Cpu(pid));
        }
    }

    /// It is time to look.
    pub fn look_at_cpu(&mut self, pid: Pid) {
        if let Ok(proc) = self.procs.get_mut(pid) {
            proc.limits.look = 0;
        }
        if self.look_at_unbroken(pid) {
            return;
        }
        let Ok(proc) = self.procs.live(pid) else { return };
        let (used, limits) = (self.procs.cpu(self.clock, proc).ns, proc.limits);
        if used >= limits.hard_cpu_ns() {
            log_end(proc, used);
            return self.strike_down(pid, SIGKILL);
        }
        if used >= limits.warn_ns {
            if let Ok(proc) = self.procs.get_mut(pid) {
                proc.limits.warn_ns = (used / SECOND + 1) * SECOND;
            }
            self.post(pid, SIGXCPU, from_kernel());
        }
        self.look_at_cpu_later(pid);
    }
}

fn log_end(proc: &Proc, used: u64) {
    libos::log!(
        "unixd: process {} ends: it has used {} s of the processor",
        proc.pid,
        used / SECOND
    );
}
