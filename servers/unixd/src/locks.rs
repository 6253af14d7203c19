//! Advisory locks: `fcntl` and `flock`.

use crate::descs::Object;
use crate::nodes::Node;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{done, Outcome, Tried, Waiters};
use alloc::collections::BTreeMap;
use filelock::{Kind, Lock, Locks, Owner};
use piecewise::{Limits, Shares};
use unixproto::files::{lock, SEEK_CUR, SEEK_END, SEEK_SET};
use unixproto::ops::Locked;
use unixproto::{op, Any, Errno};

/// Locks that there may be in all.
const LOCKS_MAX: usize = 8192;
/// For one user other than root: so few that others have what they need.
const USER_MAX: usize = 2048;
/// The last byte of every file.
const LAST: u64 = i64::MAX as u64;

/// The locks of a file.
#[derive(Default)]
pub struct FileLocks {
    /// Those of `fcntl`.
    ranges: Locks,
    /// Those of `flock`.
    whole: Locks,
    waiters: Waiters,
}

/// The locks of all files that have any or had them since they were opened.
pub struct AllLocks {
    files: BTreeMap<u64, FileLocks>,
    /// How many users have.
    users: Shares,
}

impl Default for AllLocks {
    fn default() -> Self {
        let limits = Limits { user: USER_MAX, ..Limits::of(LOCKS_MAX) };
        AllLocks { files: BTreeMap::new(), users: Shares::new(limits) }
    }
}

/// Changes the locks of an owner, and notes how many users have then.
fn counted<R>(
    users: &mut Shares,
    locks: &mut Locks,
    owner: Owner,
    change: impl FnOnce(&mut Locks) -> R,
) -> R {
    locks.users_of(owner).for_each(|user| users.give_back(user, 1));
    let result = change(locks);
    locks.users_of(owner).for_each(|user| users.take(user, 1));
    result
}

impl FileLocks {
    fn table(&mut self, how: u32) -> &mut Locks {
        match how & lock::WHOLE {
            0 => &mut self.ranges,
            _ => &mut self.whole,
        }
    }
}

/// What a file's locks are found by.
fn key(object: &Object) -> u64 {
    const PIPES: u64 = 1 << 32;
    const OTHERS: u64 = 2 << 32;
    match (object.node(), object) {
        (Some(Node::Mem(ino)), _) => ino.0 as u64,
        (_, Object::Pipe(number, _)) => PIPES | *number as u64,
        _ => OTHERS,
    }
}

impl Unixd {
    /// The file and the lock that a request means.
    fn lock_of(
        &self,
        pid: Pid,
        desc: u32,
        how: u32,
        start: i64,
        len: i64,
    ) -> Result<(u64, Lock), Errno> {
        let description = self.desc(pid, desc)?;
        let owner = match how & (lock::DESCRIPTION | lock::WHOLE) {
            0 => Owner::Process(pid),
            _ => Owner::Description(desc),
        };
        let kind = match how & lock::KIND {
            lock::SHARED => Kind::Shared,
            _ => Kind::Exclusive,
        };
        let base = match how >> lock::WHENCE {
            SEEK_SET => 0,
            SEEK_CUR => description.offset as i64,
            SEEK_END => match &description.object {
                Object::File(ino) => self.fs.get(*ino)?.size() as i64,
                _ => 0,
            },
            _ => return Err(Errno::EINVAL),
        };
        let (start, last) = range(base, start, len)?;
        let user = self.procs.get(pid)?.cred().uid;
        Ok((key(&description.object), Lock { owner, kind, start, last, user }))
    }

    /// `F_SETLK`, `F_SETLKW`, `flock`.
    pub fn set_lock(&mut self, pid: Pid, op: op::SetLock) -> Tried {
        let (file, wanted) = self.lock_of(pid, op.desc, op.how, op.start, op.len)?;
        if op.how & lock::KIND == lock::UNLOCK {
            self.unlock(file, op.how, &wanted)?;
            return done(());
        }
        // One becomes up to three.
        if !self.locks.users.has_room(wanted.user, 2) {
            return Err(Errno::ENOLCK);
        }
        if op.how & lock::WHOLE != 0 {
            // One kind does not become the other: it is given up first.
            self.unlock(file, op.how, &wanted)?;
        }
        let AllLocks { files, users } = &mut self.locks;
        let locks = files.entry(file).or_default();
        let Some(other) = locks.table(op.how).conflict(&wanted) else {
            let table = locks.table(op.how);
            if !table.prepare() {
                return Err(Errno::ENOLCK);
            }
            counted(users, table, wanted.owner, |table| table.set(wanted));
            // A part may have become shared.
            let waiters = locks.waiters.take();
            self.wake(waiters);
            return done(());
        };
        let other = other.owner;
        if op.how & lock::WAIT == 0 {
            return Err(Errno::EAGAIN);
        }
        if self.waits_for(other, pid) {
            return Err(Errno::EDEADLK);
        }
        if let Some(locks) = self.locks.files.get_mut(&file) {
            locks.waiters.add(self.speaker);
        }
        Ok(Outcome::Block(0))
    }

    fn unlock(&mut self, file: u64, how: u32, range: &Lock) -> Result<(), Errno> {
        let AllLocks { files, users } = &mut self.locks;
        let Some(locks) = files.get_mut(&file) else { return Ok(()) };
        let table = locks.table(how);
        if !table.prepare() {
            return Err(Errno::ENOLCK);
        }
        let unset = |table: &mut Locks| table.unset(range.owner, range.start, range.last);
        if counted(users, table, range.owner, unset) {
            let waiters = locks.waiters.take();
            self.wake(waiters);
        }
        Ok(())
    }

    /// Does the owner of a lock wait, directly or not, for a lock of `pid`?
    fn waits_for(&mut self, owner: Owner, pid: Pid) -> bool {
        let mut owner = owner;
        // Processes wait for one at a time: longer than this there are circles only.
        for _ in 0..self.procs.len() {
            match owner {
                Owner::Process(other) if other == pid => return true,
                Owner::Process(other) => match self.lock_waited_for(other) {
                    Some(next) => owner = next,
                    None => return false,
                },
                Owner::Description(_) => return false,
            }
        }
        false
    }

    /// Whose lock a process waits for.
    fn lock_waited_for(&mut self, pid: Pid) -> Option<Owner> {
        let waited = |tid| match self.procs.blocked(tid)?.call.any {
            Any::SetLock(op) => Some(op),
            _ => None,
        };
        let op = self.procs.threads_of(pid).into_iter().find_map(waited)?;
        let (file, wanted) = self.lock_of(pid, op.desc, op.how, op.start, op.len).ok()?;
        let other = self.locks.files.get_mut(&file)?.table(op.how).conflict(&wanted)?;
        Some(other.owner)
    }

    /// `F_GETLK`.
    pub fn get_lock(&mut self, pid: Pid, op: op::GetLock) -> Tried {
        let (file, wanted) = self.lock_of(pid, op.desc, op.how, op.start, op.len)?;
        let other = self.locks.files.get(&file).and_then(|locks| locks.ranges.conflict(&wanted));
        let Some(other) = other else {
            return done(Locked { kind: lock::UNLOCK, start: 0, len: 0, pid: 0 });
        };
        done(Locked {
            kind: if other.kind == Kind::Shared { lock::SHARED } else { lock::EXCLUSIVE },
            start: other.start as i64,
            len: if other.last == LAST { 0 } else { (other.last - other.start + 1) as i64 },
            pid: match other.owner {
                Owner::Process(pid) => pid as i32,
                Owner::Description(_) => -1,
            },
        })
    }

    /// A process closes a description: it loses its locks on that file, whatever descriptor they
    /// were set by. With the last process the description loses its own.
    pub fn drop_locks(&mut self, pid: Pid, desc: u32, is_last: bool) {
        if self.locks.files.is_empty() {
            return;
        }
        let Ok(description) = self.descs.get(desc) else { return };
        let file = key(&description.object);
        let AllLocks { files, users } = &mut self.locks;
        let Some(locks) = files.get_mut(&file) else { return };
        let mut drop_all = |table: &mut Locks, owner| {
            counted(users, table, owner, |table| table.unset(owner, 0, LAST))
        };
        drop_all(&mut locks.ranges, Owner::Process(pid));
        if is_last {
            drop_all(&mut locks.ranges, Owner::Description(desc));
            drop_all(&mut locks.whole, Owner::Description(desc));
        }
        let waiters = locks.waiters.take();
        // Who still waits comes back.
        if locks.ranges.is_empty() && locks.whole.is_empty() {
            files.remove(&file);
        }
        self.wake(waiters);
    }
}

/// First and last byte.
fn range(base: i64, start: i64, len: i64) -> Result<(u64, u64), Errno> {
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match len {
        0 => (start, LAST as i64),
        1.. => (start, start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?),
        _ => (start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1),
    };
    if first < 0 {
        return Err(Errno::EINVAL);
    }
    Ok((first as u64, last as u64))
}
