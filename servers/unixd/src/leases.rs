//! Leases (`F_SETLEASE`): who has a regular file open is told by a signal before somebody else opens it in a way that conflicts, or
//! truncates it. That one waits until the lease is given up, or its time is over; the rules for one file are in [`filelock::lease`].
//!
//! All opens come here, so whoever reads and writes a file in his own memory need not know of leases. Whoever waits is woken when nothing is
//! in his way any more, or when the time of a lease is over; time itself changes nothing. A description has one lease at most.

use crate::clock::{Clock, SECOND};
use crate::descs::{Desc, Descs, Handles, Object};
use crate::effects::Effects;
use crate::made::{Made, Setting};
use crate::nodes::Node;
use crate::open::Opening;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Tried};
use alloc::collections::BTreeMap;
use credentials::Capability;
use filelock::lease::{Lease, Leases, NEVER};
use filelock::Kind;
use memfs::Ino;
use piecewise::{Limits, Shares};
use unixproto::files::{lock, O_ACCMODE, O_NONBLOCK, O_RDONLY};
use unixproto::{op, Errno};

/// Leases that there may be in all.
const LEASES_ALL: usize = 8192;
/// For one user other than root; all of them may be on one file, of which he opens another description.
const LEASES_USER: usize = 2048;

/// The leases of a file, and who waits for their end.
#[derive(Default)]
pub struct FileLeases {
    pub leases: Leases,
    /// Threads that want to open it, and whether to write.
    pub waiters: BTreeMap<Tid, bool>,
}

/// The leases of all files that have any.
pub struct AllLeases {
    files: BTreeMap<Ino, FileLeases>,
    /// What each thread waits for.
    waits: BTreeMap<Tid, Ino>,
    /// How many users have.
    users: Shares,
}

impl Default for AllLeases {
    fn default() -> AllLeases {
        let limits = Limits { user: LEASES_USER, ..Limits::of(LEASES_ALL) };
        AllLeases { files: BTreeMap::new(), waits: BTreeMap::new(), users: Shares::new(limits) }
    }
}

/// Does an open with these flags break leases as a writer? What it truncates besides does not count, as on Linux.
fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != O_RDONLY
}

impl AllLeases {
    /// Has no file any?
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
    /// Those of all files that have any.
    pub fn iter(&self) -> impl Iterator<Item = (Ino, &FileLeases)> {
        self.files.iter().map(|(ino, file)| (*ino, file))
    }

    /// A thread is about to open a file, or to truncate it by its name, with these `O_*` flags. If leases are in the way their
    /// holders are told, and the thread waits until a time (0: for ever).
    ///
    /// # Errors
    /// `EAGAIN`: it does not wait.
    #[inline]
    pub fn pass(
        &mut self,
        (ino, flags): (Ino, u32),
        tid: Tid,
        (clock, made): (&Clock, &Made),
        fx: &mut Effects,
    ) -> Result<Option<u64>, Errno> {
        match self.files.is_empty() {
            true => Ok(None),
            false => self.pass_leases((ino, flags), tid, (clock, made), fx),
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_leases(
        &mut self,
        (ino, flags): (Ino, u32),
        tid: Tid,
        (clock, made): (&Clock, &Made),
        fx: &mut Effects,
    ) -> Result<Option<u64>, Errno> {
        self.expire(ino, clock, fx);
        let writes = writes(flags);
        let Some(file) = self.files.get_mut(&ino) else { return Ok(None) };
        if !file.leases.conflict(writes) {
            return Ok(None);
        }
        let by = match u64::try_from(made.setting(Setting::LeaseBreakTime)) {
            Ok(seconds @ 1..) => clock.now().saturating_add(seconds * SECOND),
            // 0, or less: it takes as long as its holder likes.
            _ => NEVER,
        };
        file.leases.break_for(writes, by, |lease| fx.message(lease.description, lease.fd));
        if flags & O_NONBLOCK != 0 {
            return Err(Errno::EAGAIN);
        }
        file.waiters.insert(tid, writes);
        self.waits.insert(tid, ino);
        let until = file.leases.until(writes);
        Ok(Some(if until == NEVER { 0 } else { until.max(1) }))
    }

    /// A thread does not wait any more.
    #[inline]
    pub fn leave(&mut self, tid: Tid) {
        if self.waits.is_empty() {
            return;
        }
        let Some(ino) = self.waits.remove(&tid) else { return };
        if let Some(file) = self.files.get_mut(&ino) {
            file.waiters.remove(&tid);
        }
    }

    /// Ends leases on a file whose time is over. Who had one has said nothing of its description any more.
    fn expire(&mut self, ino: Ino, clock: &Clock, fx: &mut Effects) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let users = &mut self.users;
        let ended = |lease: &Lease| {
            users.give_back(lease.user, 1);
            fx.disown(lease.description);
        };
        if file.leases.expire(clock.now(), ended) {
            self.changed(ino, fx);
        }
    }

    /// Leases on a file are fewer, or less: whoever waited for that goes on.
    fn changed(&mut self, ino: Ino, fx: &mut Effects) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let in_the_way = [false, true].map(|writes| file.leases.conflict(writes));
        let waits = &mut self.waits;
        file.waiters.retain(|&tid, &mut writes| {
            let stays = in_the_way[usize::from(writes)];
            if !stays {
                waits.remove(&tid);
                fx.wake(tid);
            }
            stays
        });
        if file.leases.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Nobody has a description any more.
    pub fn closed(&mut self, id: u32, desc: &Desc, fx: &mut Effects) {
        if self.files.is_empty() {
            return;
        }
        if let Object::File(ino) = desc.object {
            self.remove(id, ino, fx);
        }
    }

    /// Takes the lease of a description away. `false`: it has none.
    fn remove(&mut self, id: u32, ino: Ino, fx: &mut Effects) -> bool {
        let Some(file) = self.files.get_mut(&ino) else { return false };
        let Some(lease) = file.leases.remove(id) else { return false };
        self.users.give_back(lease.user, 1);
        self.changed(ino, fx);
        true
    }

    /// `EAGAIN`: a file is open in a way that keeps a description of it from having such a lease. Whoever waits for the end of
    /// a lease has it open, too.
    fn check_opened(&self, descs: &Descs, (id, ino): (u32, Ino), kind: Kind) -> Result<(), Errno> {
        let mut waiters = self.files.get(&ino).into_iter().flat_map(|file| file.waiters.values());
        let is_taken = match kind {
            Kind::Shared => {
                waiters.any(|writes| *writes)
                    || descs.any_of(ino, |_, desc| desc.writable().is_ok())
            }
            Kind::Exclusive => {
                waiters.next().is_some() || descs.any_of(ino, |other, _| other != id)
            }
        };
        if is_taken {
            Err(Errno::EAGAIN)
        } else {
            Ok(())
        }
    }

    /// Gives a description a lease, or changes that which it has; `is_open`: new ones are given.
    fn set(&mut self, ino: Ino, new: Lease, is_open: bool, fx: &mut Effects) -> Result<(), Errno> {
        let file = self.files.get(&ino);
        let is_new = file.is_none_or(|file| file.leases.of(new.description).is_none());
        if is_new && !is_open {
            return Err(Errno::EINVAL);
        }
        if is_new && !self.users.has_room(new.user, 1) {
            return Err(Errno::ENOMEM);
        }
        self.files.entry(ino).or_default().leases.set(new).map_err(|_| Errno::EAGAIN)?;
        if is_new {
            self.users.take(new.user, 1);
        }
        self.changed(ino, fx);
        Ok(())
    }
}

impl Opening<'_> {
    /// `F_SETLEASE`.
    pub fn set_lease(&mut self, op: op::SetLease) -> Tried {
        let kind = match op.kind {
            lock::SHARED => Some(Kind::Shared),
            lock::EXCLUSIVE => Some(Kind::Exclusive),
            lock::UNLOCK => None,
            _ => return Err(Errno::EINVAL),
        };
        let ino = self.leasable(op.desc)?;
        let Speaker { pid, .. } = self.caller;
        self.handles.leases.expire(ino, self.handles.clock, self.handles.fx);
        let is_open = self.handles.tree.made().setting(Setting::LeasesEnable) != 0;
        let user = self.cred().uid;
        let Handles { leases, descs, fx, .. } = &mut self.handles;
        let Some(kind) = kind else {
            return match leases.remove(op.desc, ino, fx) {
                true => {
                    fx.disown(op.desc);
                    done(())
                }
                false => Err(Errno::EAGAIN),
            };
        };
        leases.check_opened(descs, (op.desc, ino), kind)?;
        leases.set(ino, Lease::new(op.desc, (pid, op.fd), user, kind), is_open, fx)?;
        fx.own(op.desc, pid);
        done(())
    }

    /// The regular file that a description is, if the process may have leases on it.
    fn leasable(&self, id: u32) -> Result<Ino, Errno> {
        let desc = self.handles.descs.of(self.caller.pid, id)?;
        if desc.is_path() {
            return Err(Errno::EBADF);
        }
        if let Some(Node::Mem(ino)) = desc.object.node() {
            let is_owner = self.names().get(ino)?.uid == self.cred().uid;
            if !is_owner && !self.procs.get(self.caller.pid)?.has(Capability::Lease) {
                return Err(Errno::EACCES);
            }
        }
        // What others serve is changed by others, too.
        match desc.object {
            Object::File(ino) => Ok(ino),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `F_GETLEASE`.
    pub fn get_lease(&mut self, id: u32) -> Tried {
        let desc = self.handles.descs.of(self.caller.pid, id)?;
        if desc.is_path() {
            return Err(Errno::EBADF);
        }
        let Object::File(ino) = desc.object else { return count(lock::UNLOCK as usize) };
        self.handles.leases.expire(ino, self.handles.clock, self.handles.fx);
        let file = self.handles.leases.files.get(&ino);
        let target = file.and_then(|file| file.leases.of(id)?.target());
        count(number(target) as usize)
    }
}

/// A kind as requests have it.
pub fn number(kind: Option<Kind>) -> u32 {
    match kind {
        Some(Kind::Shared) => lock::SHARED,
        Some(Kind::Exclusive) => lock::EXCLUSIVE,
        None => lock::UNLOCK,
    }
}
