//! Futexes in memory that processes share.
//!
//! This server does not look at them. Whoever is about to wait asks for the number of wakes so far,
//! then looks at the futex, then waits with that number: a wake that came in between is seen by it.
//!
//! Who has the file open, as those have that map it, may wait for its futexes and wake those who do; nobody
//! else, since a wake that goes to the wrong one is lost.

use crate::descs::{Descs, Object};
use crate::effects::Effects;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use alloc::vec::Vec;
use unixproto::ops::Process;
use unixproto::{op, Any, Errno};

/// States of a request that waits, in [`Call::kept`].
const WAITS: u32 = 1;
const WOKEN: u32 = 2;

/// Who waits for futexes in shared memory.
#[derive(Default)]
pub struct Futexes {
    /// How often any was woken.
    wakes: u64,
    /// Threads that wait for one, first come first.
    waiters: Vec<Tid>,
}

/// `EACCES` unless a process has the file open.
fn may_use(descs: &Descs, pid: Pid, inode: u64) -> Result<(), Errno> {
    let is = |&desc: &u32| match descs.get(desc).map(|desc| &desc.object) {
        Ok(object @ (Object::File(_) | Object::Disk { .. })) => object.inode() == inode,
        _ => false,
    };
    match descs.held(pid).iter().any(is) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// What a thread waits for, and has not been woken from.
fn waited(procs: &Procs, tid: Tid) -> Option<op::FutexWait> {
    match procs.blocked(tid)?.call {
        Call { any: Any::FutexWait(op), kept: WAITS, .. } => Some(op),
        _ => None,
    }
}

impl Futexes {
    /// How often any was woken.
    pub fn count(&self) -> u64 {
        self.wakes
    }

    /// Waits, until `deadline` (0: for ever).
    pub fn wait(
        &mut self,
        descs: &Descs,
        caller: Speaker,
        call: &mut Call,
        op: op::FutexWait,
        deadline: u64,
    ) -> Tried {
        if call.kept == 0 {
            may_use(descs, caller.pid, op.inode)?;
        }
        let tid = caller.tid;
        let result = match call.kept {
            WOKEN => done(()),
            _ if call.late || op.ns == 0 => Err(Errno::ETIMEDOUT),
            0 if op.seen != self.wakes => Err(Errno::EAGAIN),
            _ => Ok(Outcome::Block(deadline)),
        };
        self.waiters.retain(|waiter| *waiter != tid || call.kept == WAITS);
        match result {
            Ok(Outcome::Block(_)) if call.kept == 0 => {
                call.kept = WAITS;
                self.waiters.push(tid);
            }
            Ok(Outcome::Block(_)) => {}
            _ => self.waiters.retain(|waiter| *waiter != tid),
        }
        result
    }

    /// The threads that wait for a futex, first come first.
    fn queue<'a>(
        &'a self,
        procs: &'a Procs,
        (inode, offset): (u64, u64),
        bits: u32,
    ) -> impl Iterator<Item = Tid> + 'a {
        let is = move |wait: op::FutexWait| {
            (wait.inode, wait.offset) == (inode, offset) && wait.bits & bits != 0
        };
        let all = self.waiters.iter().copied();
        all.filter(move |tid| waited(procs, *tid).is_some_and(is))
    }

    /// The first that waits.
    pub fn first(&self, descs: &Descs, procs: &Procs, pid: Pid, op: op::FutexFirst) -> Tried {
        may_use(descs, pid, op.inode)?;
        let first = self.queue(procs, (op.inode, op.offset), u32::MAX).next();
        done(Process { pid: first.unwrap_or(0) })
    }

    /// Wakes.
    pub fn wake(
        &mut self,
        descs: &Descs,
        procs: &mut Procs,
        pid: Pid,
        op: op::FutexWake,
        fx: &mut Effects,
    ) -> Tried {
        may_use(descs, pid, op.inode)?;
        self.wakes += 1;
        // Those that were interrupted have left nothing else behind.
        self.waiters.retain(|tid| waited(procs, *tid).is_some());
        let all = self.queue(procs, (op.inode, op.offset), op.bits);
        let woken: Vec<Tid> = all.take(op.count as usize).collect();
        for &tid in &woken {
            if let Some(Some(blocked)) = procs.blocked_mut(tid) {
                blocked.call.kept = WOKEN;
            }
            fx.wake(tid);
        }
        count(woken.len())
    }
}
