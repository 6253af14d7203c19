//! Limits of processes: how large they make files, and how much processor time they get.
//!
//! The library keeps all limits and tells this server of these two, which it could not be trusted with.

use crate::clock::{Due, SECOND};
use crate::procs::{Pid, Proc};
use crate::server::Unixd;
use crate::signals::from_kernel;
use crate::wait::{done, Tried};
use credentials::Capability;
use unixproto::signals::{SIGKILL, SIGXCPU, SIGXFSZ};
use unixproto::{limit, op, Errno};

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
    of: [Limit; limit::COUNT],
    /// Processor time at which it is told next that it has used too much.
    warn_ns: u64,
    /// When its processor time is looked at; 0: never.
    look: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let none = Limit { soft: limit::NONE, hard: limit::NONE };
        Limits { of: [none; limit::COUNT], warn_ns: u64::MAX, look: 0 }
    }
}

impl Limits {
    /// Those of a child, whose time begins anew.
    pub fn inherited(&self) -> Limits {
        Limits { warn_ns: first_warning(self.of[limit::CPU as usize]), look: 0, ..*self }
    }
    /// Largest size to which files are made larger.
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.of[limit::FSIZE as usize].soft
    }
    fn hard_cpu_ns(&self) -> u64 {
        self.of[limit::CPU as usize].hard.saturating_mul(SECOND)
    }
}

/// As on Linux, no time at all counts as a second.
fn first_warning(cpu: Limit) -> u64 {
    cpu.soft.max(1).saturating_mul(SECOND)
}

impl Unixd {
    /// `setrlimit`.
    pub fn set_limit(&mut self, pid: Pid, op: op::SetLimit) -> Tried {
        let proc = self.procs.get_mut(pid)?;
        let may_raise = proc.has(Capability::SysResource);
        let limit = proc.limits.of.get_mut(op.which as usize).ok_or(Errno::EINVAL)?;
        if op.soft > op.hard {
            return Err(Errno::EINVAL);
        }
        if op.hard > limit.hard && !may_raise {
            return Err(Errno::EPERM);
        }
        *limit = Limit { soft: op.soft, hard: op.hard };
        if op.which == limit::CPU {
            proc.limits.warn_ns = first_warning(*limit);
            self.look_at_cpu_later(pid);
        }
        done(())
    }

    /// A file cannot grow for its writer's limit: the signal, and `EFBIG`.
    #[cold]
    pub fn file_too_large(&mut self, pid: Pid) -> Errno {
        self.post_to(pid, Some(self.speaker), SIGXFSZ, from_kernel());
        Errno::EFBIG
    }

    /// Looks at the processor time of a process when it may have used up what it has, at the earliest.
    pub fn look_at_cpu_later(&mut self, pid: Pid) {
        self.forget_cpu_look(pid);
        let Ok(proc) = self.procs.live(pid) else { return };
        let next = proc.limits.warn_ns.min(proc.limits.hard_cpu_ns());
        if next == u64::MAX {
            return;
        }
        let left = next.saturating_sub(self.cpu_ns(proc)) / (1 + proc.threads.len() as u64);
        let look = self.clock.now().saturating_add(left.max(LOOK_MIN_NS));
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
        let Ok(proc) = self.procs.live(pid) else { return };
        let (used, limits) = (self.cpu_ns(proc), proc.limits);
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
