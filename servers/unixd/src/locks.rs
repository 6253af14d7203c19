//! Advisory locks: `fcntl` and `flock`.

use crate::descs::{Desc, Descs, Object};
use crate::effects::Effects;
use crate::frames::Files;
use crate::nodes::Node;
use crate::procs::{Pid, Procs};
use crate::voices::Speaker;
use crate::wait::{done, Outcome, Tried, Waiters};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use filelock::{Kind, Lock, Locks, Owner};
use memfs::Ino;
use piecewise::{Limits, Shares};
use unixproto::files::{lock, SEEK_CUR, SEEK_END, SEEK_SET};
use unixproto::{op, ops, Any, Errno};

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
    const SHARED: u64 = 1 << 63;
    match (object.node(), object) {
        (Some(Node::Mem(ino)), _) => ino.0 as u64,
        (_, Object::Shared(file)) => SHARED | file.number,
        (_, Object::Pipe(number, _)) => PIPES | *number as u64,
        _ => OTHERS,
    }
}

/// What locks are about.
#[derive(Clone, Copy)]
pub struct Locked<'a> {
    pub procs: &'a Procs,
    pub descs: &'a Descs,
    pub files: &'a Files,
}

impl Locked<'_> {
    /// The file and the lock that a request means.
    fn lock_of(&self, pid: Pid, op: op::SetLock) -> Result<(u64, Lock), Errno> {
        let description = self.descs.of(pid, op.desc)?;
        let owner = match op.how & (lock::DESCRIPTION | lock::WHOLE) {
            0 => Owner::Process(pid),
            _ => Owner::Description(op.desc),
        };
        let kind = match op.how & lock::KIND {
            lock::SHARED => Kind::Shared,
            _ => Kind::Exclusive,
        };
        let base = match op.how >> lock::WHENCE {
            SEEK_SET => 0,
            SEEK_CUR => description.offset as i64,
            SEEK_END => match &description.object {
                Object::File(ino) => self.files.names().get(*ino)?.size() as i64,
                _ => 0,
            },
            _ => return Err(Errno::EINVAL),
        };
        let (start, last) = range(base, op.start, op.len)?;
        let user = self.procs.get(pid)?.cred().uid;
        Ok((key(&description.object), Lock { owner, kind, start, last, user, process: pid }))
    }

    /// The request for a lock that waits, of a process.
    fn waiting(&self, pid: Pid) -> Option<op::SetLock> {
        let waited = |tid| match self.procs.blocked(tid)?.call.any {
            Any::SetLock(op) => Some(op),
            _ => None,
        };
        self.procs.threads_of(pid).into_iter().find_map(waited)
    }
}

/// A lock as it is listed.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    pub file: Option<Ino>,
    pub lock: &'a Lock,
    /// It is one of `flock`.
    pub is_whole: bool,
    /// It is what somebody waits for.
    pub waits: bool,
}

impl AllLocks {
    /// `F_SETLK`, `F_SETLKW`, `flock`.
    pub fn set(&mut self, on: Locked, caller: Speaker, op: op::SetLock, fx: &mut Effects) -> Tried {
        let (file, wanted) = on.lock_of(caller.pid, op)?;
        if op.how & lock::KIND == lock::UNLOCK {
            self.unlock(file, op.how, &wanted, fx)?;
            return done(());
        }
        // One becomes up to three.
        if !self.users.has_room(wanted.user, 2) {
            return Err(Errno::ENOLCK);
        }
        if op.how & lock::WHOLE != 0 {
            // One kind does not become the other: it is given up first.
            self.unlock(file, op.how, &wanted, fx)?;
        }
        let locks = self.files.entry(file).or_default();
        let Some(other) = locks.table(op.how).conflict(&wanted) else {
            let table = locks.table(op.how);
            if !table.prepare() {
                return Err(Errno::ENOLCK);
            }
            counted(&mut self.users, table, wanted.owner, |table| table.set(wanted));
            // A part may have become shared.
            locks.waiters.drain().for_each(|tid| fx.wake(tid));
            return done(());
        };
        let other = other.owner;
        if op.how & lock::WAIT == 0 {
            return Err(Errno::EAGAIN);
        }
        if self.waits_for(on, other, caller.pid) {
            return Err(Errno::EDEADLK);
        }
        if let Some(locks) = self.files.get_mut(&file) {
            locks.waiters.add(caller.tid);
        }
        Ok(Outcome::Block(0))
    }

    fn unlock(&mut self, file: u64, how: u32, range: &Lock, fx: &mut Effects) -> Result<(), Errno> {
        let Some(locks) = self.files.get_mut(&file) else { return Ok(()) };
        let table = locks.table(how);
        if !table.prepare() {
            return Err(Errno::ENOLCK);
        }
        let unset = |table: &mut Locks| table.unset(range.owner, range.start, range.last);
        if counted(&mut self.users, table, range.owner, unset) {
            locks.waiters.drain().for_each(|tid| fx.wake(tid));
        }
        Ok(())
    }

    /// Does the owner of a lock wait, directly or not, for a lock of `pid`?
    fn waits_for(&mut self, on: Locked, owner: Owner, pid: Pid) -> bool {
        let mut owner = owner;
        // Processes wait for one at a time: longer than this there are circles only.
        for _ in 0..on.procs.len() {
            match owner {
                Owner::Process(other) if other == pid => return true,
                Owner::Process(other) => match self.waited_for(on, other) {
                    Some(next) => owner = next,
                    None => return false,
                },
                Owner::Description(_) => return false,
            }
        }
        false
    }

    /// Whose lock a process waits for.
    fn waited_for(&mut self, on: Locked, pid: Pid) -> Option<Owner> {
        let op = on.waiting(pid)?;
        let (file, wanted) = on.lock_of(pid, op).ok()?;
        let other = self.files.get_mut(&file)?.table(op.how).conflict(&wanted)?;
        Some(other.owner)
    }

    /// `F_GETLK`.
    pub fn get(&self, on: Locked, pid: Pid, op: op::GetLock) -> Tried {
        let op::GetLock { desc, how, start, len } = op;
        let (file, wanted) = on.lock_of(pid, op::SetLock { desc, how, start, len })?;
        let other = self.files.get(&file).and_then(|locks| locks.ranges.conflict(&wanted));
        let Some(other) = other else {
            return done(ops::Locked { kind: lock::UNLOCK, start: 0, len: 0, pid: 0 });
        };
        done(ops::Locked {
            kind: if other.kind == Kind::Shared { lock::SHARED } else { lock::EXCLUSIVE },
            start: other.start as i64,
            len: if other.last == LAST { 0 } else { (other.last - other.start + 1) as i64 },
            pid: match other.owner {
                Owner::Process(pid) => pid as i32,
                Owner::Description(_) => -1,
            },
        })
    }

    /// Tells all locks, and behind each those that wait for it.
    pub fn list(&self, on: Locked, mut tell: impl FnMut(Listed)) {
        for (&key, file) in &self.files {
            let mut waiting: BTreeMap<(bool, Owner, u64), Vec<Lock>> = BTreeMap::new();
            for tid in file.waiters.iter() {
                let Some(Any::SetLock(op)) = on.procs.blocked(tid).map(|it| it.call.any) else {
                    continue;
                };
                let Ok((of, wanted)) = on.lock_of(on.procs.leader(tid), op) else { continue };
                let is_whole = op.how & lock::WHOLE != 0;
                let table = if is_whole { &file.whole } else { &file.ranges };
                let found = table.conflict(&wanted).filter(|_| of == key);
                if let Some(Lock { owner, start, .. }) = found {
                    waiting.entry((is_whole, *owner, *start)).or_default().push(wanted);
                }
            }
            // Other files are none of those that have a name here.
            let ino = u32::try_from(key).ok().map(Ino);
            for (is_whole, table) in [(false, &file.ranges), (true, &file.whole)] {
                for lock in table.iter() {
                    let listed = Listed { file: ino, lock, is_whole, waits: false };
                    tell(listed);
                    let waiters = waiting.get(&(is_whole, lock.owner, lock.start));
                    for lock in waiters.into_iter().flatten() {
                        tell(Listed { lock, waits: true, ..listed });
                    }
                }
            }
        }
    }

    /// A process closes a description: it loses its locks on that file, whatever descriptor they
    /// were set by. With the last process the description loses its own.
    pub fn drop(&mut self, pid: Pid, id: u32, desc: &Desc, is_last: bool, fx: &mut Effects) {
        if self.files.is_empty() {
            return;
        }
        let file = key(&desc.object);
        let AllLocks { files, users } = self;
        let Some(locks) = files.get_mut(&file) else { return };
        let mut drop_all = |table: &mut Locks, owner| {
            counted(users, table, owner, |table| table.unset(owner, 0, LAST))
        };
        drop_all(&mut locks.ranges, Owner::Process(pid));
        if is_last {
            drop_all(&mut locks.ranges, Owner::Description(id));
            drop_all(&mut locks.whole, Owner::Description(id));
        }
        locks.waiters.drain().for_each(|tid| fx.wake(tid));
        // Who still waits comes back.
        if locks.ranges.is_empty() && locks.whole.is_empty() {
            files.remove(&file);
        }
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
