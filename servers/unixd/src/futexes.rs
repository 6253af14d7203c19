//! Futexes in memory that processes share.
//!
//! This server does not look at them. Whoever is about to wait asks for the number of wakes so far,
//! then looks at the futex, then waits with that number: a wake that came in between is seen by it.
//!
//! Who has the file open, as those have that map it, may wait for its futexes and wake those who do; nobody
//! else, since a wake that goes to the wrong one is lost.

use crate::descs::Object;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::threads::Tid;
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::vec::Vec;
use unixproto::ops::Process;
use unixproto::{op, Any, Errno};

/// States of a request that waits, in [`Call::kept`].
const WAITS: u32 = 1;
const WOKEN: u32 = 2;

impl Unixd {
    /// `EACCES` unless a process has the file open.
    fn may_use_futexes(&self, pid: Pid, inode: u64) -> Result<(), Errno> {
        let is = |&desc: &u32| match self.descs.get(desc).map(|desc| &desc.object) {
            Ok(Object::File(ino)) => ino.0 as u64 == inode,
            _ => false,
        };
        match self.procs.get(pid)?.held.iter().any(is) {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// Waits.
    pub fn futex_wait(&mut self, pid: Pid, call: &mut Call, op: op::FutexWait) -> Tried {
        if call.kept == 0 {
            self.may_use_futexes(pid, op.inode)?;
        }
        let tid = self.speaker;
        let result = match call.kept {
            WOKEN => done(()),
            _ if call.late || op.ns == 0 => Err(Errno::ETIMEDOUT),
            0 if op.seen != self.futex_wakes => Err(Errno::EAGAIN),
            _ => Ok(Outcome::Block(self.deadline(op.ns))),
        };
        self.futex_waiters.retain(|waiter| *waiter != tid || call.kept == WAITS);
        match result {
            Ok(Outcome::Block(_)) if call.kept == 0 => {
                call.kept = WAITS;
                self.futex_waiters.push(tid);
            }
            Ok(Outcome::Block(_)) => {}
            _ => self.futex_waiters.retain(|waiter| *waiter != tid),
        }
        result
    }

    /// What a thread waits for, and has not been woken from.
    fn futex_waited(&self, tid: Tid) -> Option<op::FutexWait> {
        match self.procs.blocked(tid)?.call {
            Call { any: Any::FutexWait(op), kept: WAITS, .. } => Some(op),
            _ => None,
        }
    }

    /// The threads that wait for a futex, first come first.
    fn futex_queue(
        &self,
        (inode, offset): (u64, u64),
        bits: u32,
    ) -> impl Iterator<Item = Tid> + '_ {
        let is = move |wait: op::FutexWait| {
            (wait.inode, wait.offset) == (inode, offset) && wait.bits & bits != 0
        };
        let all = self.futex_waiters.iter().copied();
        all.filter(move |tid| self.futex_waited(*tid).is_some_and(is))
    }

    /// The first that waits.
    pub fn futex_first(&mut self, pid: Pid, op: op::FutexFirst) -> Tried {
        self.may_use_futexes(pid, op.inode)?;
        let first = self.futex_queue((op.inode, op.offset), u32::MAX).next();
        done(Process { pid: first.unwrap_or(0) })
    }

    /// Wakes.
    pub fn futex_wake(&mut self, pid: Pid, op: op::FutexWake) -> Tried {
        self.may_use_futexes(pid, op.inode)?;
        self.futex_wakes += 1;
        // Those that were interrupted have left nothing else behind.
        let mut waiters = core::mem::take(&mut self.futex_waiters);
        waiters.retain(|tid| self.futex_waited(*tid).is_some());
        self.futex_waiters = waiters;
        let all = self.futex_queue((op.inode, op.offset), op.bits);
        let woken: Vec<Tid> = all.take(op.count as usize).collect();
        for &tid in &woken {
            if let Some(Some(blocked)) = self.procs.blocked_mut(tid) {
                blocked.call.kept = WOKEN;
            }
            self.wake_one(tid);
        }
        count(woken.len())
    }
}
