//! Descriptors of other processes: taking one, and comparing.

use crate::counters;
use crate::descs::Heirs;
use crate::morefds::ShownFd;
use crate::open::Opening;
use crate::procs::{Pid, Proc, INIT};
use crate::wait::{count, Call, Tried};
use core::cmp::Ordering;
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

    /// The same, where `None` is the first one, into which only who may look into all may look, and which has nothing open.
    fn seen(&self, tid: Pid) -> Result<Option<&Proc>, Errno> {
        if tid == INIT {
            let own = self.procs.get(self.caller.pid)?;
            let may = credentials::may_trace(&own.who, &credentials::Credentials::ROOT, true);
            return if may { Ok(None) } else { Err(Errno::EPERM) };
        }
        self.looked_into(self.procs.leader(tid)).map(Some)
    }

    /// The description of a descriptor of a process, as its library shows it.
    fn shown(&self, proc: &Proc, fd: u32) -> Result<u32, Errno> {
        match self.procs.shown_fd(proc, fd) {
            Some(ShownFd::Desc(id)) if self.handles.descs.holds(proc.pid, id) => Ok(id),
            _ => Err(Errno::EBADF),
        }
    }

    /// What says who has something in common with a process, in the order of [`COMMON`](crate::procs::COMMON).
    fn common(&self, pid: Pid, which: usize) -> Pid {
        match self.procs.get(pid).map(|proc| proc.common[which]) {
            Ok(with) if with != 0 => with,
            _ => pid,
        }
    }

    /// `pidfd_getfd`.
    pub fn take_fd(&mut self, op: op::TakeFd) -> Tried {
        let pid = self.caller.pid;
        let number = counters::number(self.handles.descs.of(pid, op.desc)?);
        let number = number.map_err(|_| Errno::EBADF)?;
        let target = self.handles.counters.process(number)?;
        if target == INIT {
            self.seen(INIT)?;
            return Err(Errno::EBADF);
        }
        let id = self.shown(self.looked_into(target)?, op.fd)?;
        // Private memory stays that.
        if self.handles.descs.of(target, id)?.heirs != Heirs::Both {
            return Err(Errno::EBADF);
        }
        self.room(1)?;
        // Its library does not know that it is not alone with it.
        self.procs.get(target)?.may_keep.set(false);
        self.procs.hide_attributes(target);
        self.handles.descs.pass(id);
        self.handles.descs.receive(pid, id, false);
        count(id as usize)
    }

    /// `kcmp`.
    pub fn compare(&mut self, call: &Call, op: op::Compare) -> Tried {
        // Who is not there comes before who may not be looked into.
        for tid in [op.first, op.second] {
            if tid != INIT && !self.procs.is_thread(tid) {
                return Err(Errno::ESRCH);
            }
        }
        let (first, second) = (self.seen(op.first)?, self.seen(op.second)?);
        let [first_pid, second_pid] = [first, second].map(|one| one.map_or(INIT, |proc| proc.pid));
        let order = match op.what {
            kcmp::FILE => {
                let (one, other) = (op.fds as u32, (op.fds >> 32) as u32);
                let shown = |of: Option<&Proc>, fd| self.shown(of.ok_or(Errno::EBADF)?, fd);
                shown(first, one)?.cmp(&shown(second, other)?)
            }
            kcmp::VM => self.procs.host_of(first_pid).cmp(&self.procs.host_of(second_pid)),
            kcmp::FS => self.common(first_pid, 0).cmp(&self.common(second_pid, 0)),
            kcmp::FILES => self.common(first_pid, 1).cmp(&self.common(second_pid, 1)),
            kcmp::SIGHAND => self.common(first_pid, 2).cmp(&self.common(second_pid, 2)),
            // Nobody has any that others could share.
            kcmp::IO | kcmp::SYSVSEM => Ordering::Equal,
            kcmp::EPOLL_TFD => {
                let (one, set) = (op.fds as u32, (op.fds >> 32) as u32);
                let one = self.shown(first.ok_or(Errno::EBADF)?, one)?;
                let set = self.shown(second.ok_or(Errno::EBADF)?, set)?;
                let slot = self.procs.a(self.caller, call)?;
                let (&[fd, nth], []) = slot.as_chunks() else { return Err(Errno::EINVAL) };
                let (fd, nth) = (i32::from_le_bytes(fd), u32::from_le_bytes(nth));
                let set = self.handles.descs.get(set)?;
                one.cmp(&self.handles.sets.member(set, fd, nth as usize)?)
            }
            _ => return Err(Errno::EINVAL),
        };
        count(match order {
            Ordering::Equal => 0,
            Ordering::Less => 1,
            Ordering::Greater => 2,
        })
    }
}
