//! Parents and children, groups and sessions: waiting, stopping, ids.

use crate::clock::Clock;
use crate::cputime::CpuTime;
use crate::effects::Effects;
use crate::life::Life;
use crate::procs::*;
use crate::procsystem;
use crate::threads::Tid;
use crate::tracees::{Phase, Tracee};
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::*;
use unixproto::ops::{Process, Usage, Waited};
use unixproto::session::CHLD_NOSTOP;
use unixproto::signals::*;
use unixproto::trace::TRAPPED;
use unixproto::Errno;

/// None of those that are waited for is ready.
const NOBODY: Waited = Waited { pid: 0, status: 0, cpu_ns: 0, system_ns: 0, memory: 0 };

impl Procs {
    /// Waits for a child.
    pub fn wait_child(
        &mut self,
        pid: Pid,
        (which, options): (i32, u32),
        fx: &mut Effects,
    ) -> Tried {
        let known = WNOHANG | WSTOPPED | WEXITED | WCONTINUED | WNOWAIT;
        if options & !known != 0 || options & (WSTOPPED | WEXITED | WCONTINUED) == 0 {
            return Err(Errno::EINVAL);
        }
        let group = self.get(pid)?.pgid;
        let meant = |proc: &Proc| match which {
            -1 => true,
            0 => proc.pgid == group,
            child if child > 0 => proc.pid == child as Pid,
            group => proc.pgid as i64 == -(group as i64),
        };
        let counts = |proc: &&Proc| proc.state != State::Building && meant(proc);
        if !self.tracees.is_empty() {
            if let Some(waited) = self.wait_tracee(pid, which, options) {
                return done(waited);
            }
        }
        let ready = |proc: &Proc| Some((proc.pid, ready_status(proc, options)?));
        let found = self.with_news(pid).filter(counts).find_map(ready);
        match found {
            Some((child, status)) => self.collect(pid, (child, status), options, fx),
            None if !self.has_child(pid, which, counts) && !self.traces(pid, which) => {
                Err(Errno::ECHILD)
            }
            None if options & WNOHANG != 0 => done(NOBODY),
            None => Ok(Outcome::Block(0)),
        }
    }

    /// Does a wait mean a traced thread?
    fn means_tracee(&self, pid: Pid, which: i32, tid: Tid) -> bool {
        let group = |tid: Tid| self.get(self.leader(tid)).map_or(0, |proc| proc.pgid);
        match which {
            -1 => true,
            0 => group(tid) == group(pid),
            other if other > 0 => tid == other as Tid,
            other => group(tid) == other.unsigned_abs(),
        }
    }

    /// Does a process trace a thread that a wait means?
    fn traces(&self, pid: Pid, which: i32) -> bool {
        self.tracees.of(pid).any(|(tid, _)| self.means_tracee(pid, which, tid))
    }

    /// What a tracer learns by a wait: of stops in any case.
    fn wait_tracee(&mut self, pid: Pid, which: i32, options: u32) -> Option<Waited> {
        let ready = |(tid, tracee): (Tid, &Tracee)| {
            let ended = tracee.phase == Phase::Ended;
            let status = tracee.news.filter(|_| !ended || options & WEXITED != 0)?;
            self.means_tracee(pid, which, tid).then_some((tid, status, ended))
        };
        let (tid, status, ended) = self.tracees.of(pid).find_map(ready)?;
        let shown = self.number_for(pid, tid);
        if options & WNOWAIT == 0 {
            match (ended, self.tracees.get_mut(tid)) {
                (false, Some(tracee)) => tracee.news = None,
                // Nothing is left of it.
                _ => drop(self.tracees.remove(tid)),
            }
        }
        let uid = self.real_user(self.leader(tid));
        let trapped = if ended { 0 } else { TRAPPED };
        let status = u64::from(uid) << 32 | u64::from(status | trapped);
        Some(Waited { pid: shown, status, ..NOBODY })
    }

    /// Has a process a child, by the id or the group that a wait names, that counts?
    fn has_child(&self, pid: Pid, which: i32, counts: impl Fn(&&Proc) -> bool) -> bool {
        if which > 0 {
            let child = self.get(which as Pid);
            return child.is_ok_and(|child| child.parent == pid && counts(&child));
        }
        self.children(pid).any(|child| counts(&child))
    }

    fn collect(
        &mut self,
        pid: Pid,
        (child, status): (Pid, u32),
        options: u32,
        fx: &mut Effects,
    ) -> Tried {
        // As the caller sees it: with the last of the child its numbers go.
        let shown = self.number_for(pid, child);
        let proc = self.get_mut(child)?;
        let cpu = proc.cpu + proc.children_cpu;
        let (faults, peak_pages) = (proc.children_faults, proc.children_peak);
        let status = u64::from(proc.who.users.real) << 32 | u64::from(status);
        let half = |value: u64| value.min(u32::MAX as u64);
        let memory = half(peak_pages) << 32 | half(faults);
        let CpuTime { ns: cpu_ns, system: system_ns } = cpu;
        let answer = Waited { pid: shown, status, cpu_ns, system_ns, memory };
        if options & WNOWAIT != 0 {
            return done(answer);
        }
        if proc.state != State::Zombie {
            proc.news = None;
            self.tell(child, false);
            return done(answer);
        }
        self.remove(child);
        fx.reaped(child);
        let parent = self.get_mut(pid)?;
        parent.children_cpu += cpu;
        parent.children_faults += faults;
        parent.children_peak = parent.children_peak.max(peak_pages);
        done(answer)
    }

    /// Is the process group of a process orphaned?
    pub fn is_orphaned(&self, pid: Pid) -> bool {
        self.get(pid).is_ok_and(|proc| self.is_group_orphaned(proc.pgid))
    }

    /// A group is orphaned if no member has a parent in another group of the same session.
    pub fn is_group_orphaned(&self, pgid: Pid) -> bool {
        let anchors = |proc: &Proc| {
            proc.is_live()
                && self.live(proc.parent).is_ok_and(|p| p.pgid != pgid && p.sid == proc.sid)
        };
        !self.members(pgid).any(anchors)
    }

    /// `setpgid`.
    pub fn set_pgid(&mut self, pid: Pid, target: u32, pgid: u32) -> Tried {
        if pgid > i32::MAX as u32 {
            return Err(Errno::EINVAL);
        }
        let target = if target == 0 { pid } else { target };
        let pgid = if pgid == 0 { target } else { pgid };
        let own = self.get(pid)?.sid;
        let proc = self.live(target)?;
        if target != pid && proc.parent != pid {
            return Err(Errno::ESRCH);
        }
        if target != pid && proc.execed {
            return Err(Errno::EACCES);
        }
        if proc.sid != own || proc.sid == target {
            return Err(Errno::EPERM);
        }
        let exists = self.members(pgid).any(|p| p.sid == own);
        if pgid != target && !exists {
            return Err(Errno::EPERM);
        }
        self.set_family(target, pgid, own)?;
        self.publish(target);
        done(())
    }

    /// `getpgid`.
    pub fn get_pgid(&mut self, pid: Pid, target: u32) -> Tried {
        let target = if target == 0 { pid } else { target };
        // The first process has nothing of a process but its names.
        done(Process { pid: if target == INIT { INIT } else { self.get(target)?.pgid } })
    }

    /// `getsid`.
    pub fn get_sid(&mut self, pid: Pid, target: u32) -> Tried {
        let target = if target == 0 { pid } else { target };
        done(Process { pid: if target == INIT { INIT } else { self.get(target)?.sid } })
    }

    /// `setsid`.
    pub fn set_sid(&mut self, pid: Pid) -> Tried {
        if self.members(pid).next().is_some() {
            return Err(Errno::EPERM);
        }
        self.set_family(pid, pid, pid)?;
        self.publish(pid);
        done(Process { pid })
    }

    /// Processor time of any process, as its clock shows it. The first one uses none that it could be told of.
    pub fn processor_time(&self, clock: &Clock, pid: Pid) -> Tried {
        let used = match pid {
            INIT => CpuTime::default(),
            _ => self.cpu(clock, self.get(pid)?),
        };
        done(Usage { cpu_ns: used.ns, system_ns: used.system, faults: 0, peak_pages: 0 })
    }

    /// Processor time and faults.
    pub fn usage(&self, clock: &Clock, pid: Pid, who: u32) -> Tried {
        let proc = self.get(pid)?;
        if who == 1 {
            let CpuTime { ns: cpu_ns, system: system_ns } = proc.children_cpu;
            let (faults, peak_pages) = (proc.children_faults, proc.children_peak);
            return done(Usage { cpu_ns, system_ns, faults, peak_pages });
        }
        let procsystem::Usage { faults, most_resident: peak_pages, .. } = procsystem::usage(proc);
        let CpuTime { ns: cpu_ns, system: system_ns } = self.cpu(clock, proc);
        done(Usage { cpu_ns, system_ns, faults, peak_pages })
    }

    /// Names the calling thread.
    pub fn set_name_from(&mut self, caller: Speaker, call: &Call) -> Tried {
        let name = self.a(caller, call)?;
        self.set_name(caller.tid, name);
        done(())
    }

    /// Its name.
    pub fn get_name(&self, caller: Speaker) -> Tried {
        let name = self.name_of(caller.tid).to_vec();
        self.put(caller, &name)?;
        count(name.len())
    }
}

impl Life<'_> {
    /// The library stops the process because of a signal that had to wait.
    pub fn stop(&mut self, pid: Pid, signal: u32) -> Tried {
        if default_action(signal) != DefaultAction::Stop {
            return Err(Errno::EINVAL);
        }
        if signal != SIGSTOP && (self.procs.is_orphaned(pid) || self.procs.get(pid)?.is_acted()) {
            return done(());
        }
        match self.procs.tracees.has_thread_of(pid) {
            true => self.stop_traced(pid, signal),
            false => self.stop_process(pid, signal),
        }
        // The caller hears of it when it goes on.
        done(())
    }

    /// Stops a process with all its threads, wherever they are and whatever they do. What they wait
    /// for is given up, so that they take nothing while they are stopped.
    pub fn stop_process(&mut self, pid: Pid, signal: u32) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        if proc.stopped {
            return;
        }
        proc.stopped = true;
        proc.stop_signal = signal;
        let native = proc.native;
        let threads = self.procs.threads_of(pid);
        // First, or they would wait anew at once.
        self.procs.suspend(threads.iter().copied());
        // A native program does not know that a wait may end early.
        if !native {
            threads.into_iter().for_each(|tid| self.interrupt(tid));
        }
        self.stop_is_news(pid, signal);
    }

    /// The parent of a process is told that it has stopped.
    pub fn stop_is_news(&mut self, pid: Pid, signal: u32) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.news = Some(News::Stopped(signal));
        self.procs.tell(pid, true);
        self.news_for_parent(pid, CLD_STOPPED, signal);
    }

    /// A stopped process goes on, unless a signal that came meanwhile ends it.
    pub fn resume(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.stopped = false;
        proc.news = Some(News::Continued);
        self.procs.tell(pid, true);
        let traced = self.procs.tracees.has_thread_of(pid);
        let spared = traced || self.is_acting_or_acted(pid);
        if let Some(signal) = self.deadly_signal(pid).filter(|_| !spared) {
            return self.strike_down(pid, signal);
        }
        let threads = self.procs.threads_of(pid);
        if !self.shares_a_stop(pid) {
            self.procs.unsuspend(threads.iter().copied());
        }
        for tid in threads {
            if self.procs.has_signal(tid) {
                self.nudge(tid, 0);
            }
        }
        self.news_for_parent(pid, CLD_CONTINUED, SIGCONT);
    }

    /// Has the process no dispatcher of its own, or is that its child's at the moment?
    fn is_acting_or_acted(&self, pid: Pid) -> bool {
        let has_none = |proc: &Proc| proc.is_acted() || proc.guest.is_some();
        self.procs.get(pid).is_ok_and(has_none) || self.procs.acted(pid).is_some()
    }

    /// Is another process stopped on the same dispatcher: the parent that acts as this one, or the
    /// child as which this one acts?
    fn shares_a_stop(&self, pid: Pid) -> bool {
        let stopped = |pid: Pid| self.procs.live(pid).is_ok_and(|proc| proc.stopped);
        let Ok(proc) = self.procs.get(pid) else { return false };
        proc.is_acted() && stopped(proc.parent) || self.procs.acted(pid).is_some_and(stopped)
    }

    fn news_for_parent(&mut self, pid: Pid, code: i32, signal: u32) {
        let Ok(proc) = self.procs.get(pid) else { return };
        let (parent, uid) = (proc.parent, proc.who.users.real);
        self.wake_process(parent);
        self.fx.retry();
        if !self.hears_of_stops(parent) {
            return;
        }
        let info = SigInfo { code, pid, uid, status: signal as i32, value: 0 };
        self.fx.post(parent, SIGCHLD, info);
    }

    /// Does a process want `SIGCHLD` also when a child stops or goes on?
    pub fn hears_of_stops(&self, pid: Pid) -> bool {
        let session = self.procs.live(pid).and_then(|proc| proc.session());
        session.is_ok_and(|session| session.header().child_flags.load(Relaxed) & CHLD_NOSTOP == 0)
    }
}

/// The wait status of a child that is as the options want it.
fn ready_status(proc: &Proc, options: u32) -> Option<u32> {
    match proc.state {
        State::Zombie if options & WEXITED != 0 => Some(proc.status),
        State::Live => match proc.news {
            Some(News::Stopped(signal)) if options & WSTOPPED != 0 => Some(stopped(signal)),
            Some(News::Continued) if options & WCONTINUED != 0 => Some(CONTINUED),
            _ => None,
        },
        _ => None,
    }
}
