//! Descriptors of other processes: taking one, and comparing.

use crate::counters;
use crate::descs::Heirs;
use crate::open::Opening;
use crate::procs::{Pid, Proc};
use crate::wait::{count, Tried};
use core::cmp::Ordering;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::kcmp;
use unixproto::{op, Errno};

impl Opening<'_> {
    /// A process into which the caller may look.
    fn looked_into(&self, pid: Pid) -> Result<&Proc, Errno> {
        let (from, to) = (self.procs.get(self.caller.pid)?, self.procs.live(pid)?);
        match from.pid == pid || credentials::may_trace(&from.who, &to.who, to.dumpable) {
            true => Ok(to),
            false => Err(Errno::EPERM),
        }
    }

    /// The description of a descriptor of a process, as its library shows it.
    fn shown(&self, proc: &Proc, fd: u32) -> Result<u32, Errno> {
        let cell = proc.session()?.header().fds.get(fd as usize).ok_or(Errno::EBADF)?;
        let id = cell.load(Relaxed);
        match self.handles.descs.holds(proc.pid, id) {
            true => Ok(id),
            false => Err(Errno::EBADF),
        }
    }

    /// `pidfd_getfd`.
    pub fn take_fd(&mut self, op: op::TakeFd) -> Tried {
        let pid = self.caller.pid;
        let number = counters::number(self.handles.descs.of(pid, op.desc)?);
        let number = number.map_err(|_| Errno::EBADF)?;
        let target = self.handles.counters.process(number)?;
        let id = self.shown(self.looked_into(target)?, op.fd)?;
        // Private memory stays that.
        if self.handles.descs.of(target, id)?.heirs != Heirs::Both {
            return Err(Errno::EBADF);
        }
        self.room(1)?;
        self.handles.descs.pass(id);
        self.handles.descs.receive(pid, id, false);
        count(id as usize)
    }

    /// `kcmp`.
    pub fn compare(&mut self, op: op::Compare) -> Tried {
        let leader = |tid| match self.procs.is_thread(tid) {
            true => Ok(self.procs.leader(tid)),
            false => Err(Errno::ESRCH),
        };
        let (first, second) = (leader(op.first)?, leader(op.second)?);
        let (first, second) = (self.looked_into(first)?, self.looked_into(second)?);
        let order = match op.what {
            kcmp::FILE => {
                let (one, other) = (op.fds as u32, (op.fds >> 32) as u32);
                self.shown(first, one)?.cmp(&self.shown(second, other)?)
            }
            kcmp::VM | kcmp::FILES | kcmp::FS | kcmp::SIGHAND => first.pid.cmp(&second.pid),
            // Nobody has any that others could share.
            kcmp::IO | kcmp::SYSVSEM => Ordering::Equal,
            kcmp::EPOLL_TFD => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        count(match order {
            Ordering::Equal => 0,
            Ordering::Less => 1,
            Ordering::Greater => 2,
        })
    }
}
