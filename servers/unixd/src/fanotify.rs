//! `fanotify`: processes that have marked files are told by handles what happens to them, as far as anybody may be told: marks are of
//! files, not of mounts, and nobody is asked whether something may happen. What happens is found out as for those who watch files
//! ([`notify`](crate::notify)); who has marked what is kept by the crate `notices`.

use crate::descs::{Handles, Object};
use crate::effects::Effects;
use crate::nodes::{Node, Tree};
use crate::notify::{nothing, room_of, FileEvent};
use crate::open::Opening;
use crate::pathops::identity;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::volumes::Spot;
use crate::wait::{count, done, Call, Tried, Waiters};
use crate::watches::Source;
use alloc::vec::Vec;
use credentials::Capability;
use files::Claim;
use memfs::Ino;
use notices::fan::{bits, report, Fact, Fans, FileId, Refusal, Which, Wish};
use notices::{mask, Change};
use piecewise::{Limits, Shares, Table};
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// Groups of a user other than root, at most.
pub const GROUPS_MOST: usize = 128;
/// Groups that there may be in all.
const GROUPS_ALL: usize = 1024;
/// Marks of a user other than root, at most.
pub const MARKS_MOST: usize = 8192;
/// Marks that there may be in all.
const MARKS_ALL: usize = 65536;
/// Memory for events that nobody has read yet.
const EVENT_BYTES: usize = 16 << 20;

/// Flags of `fanotify_init`.
mod init {
    /// `FAN_CLOEXEC`, which is the library's.
    pub const CLOEXEC: u32 = 1;
    pub const NONBLOCK: u32 = 2;
    /// `FAN_CLASS_CONTENT`, `FAN_CLASS_PRE_CONTENT`.
    pub const PERMISSION: u32 = 0xc;
    /// `FAN_UNLIMITED_QUEUE`, `FAN_UNLIMITED_MARKS`.
    pub const UNLIMITED: u32 = 0x30;
    /// `FAN_ENABLE_AUDIT`.
    pub const AUDIT: u32 = 0x40;
    pub const REPORT_PIDFD: u32 = 0x80;
    pub const REPORT_TID: u32 = 0x100;
    /// Only root may have these.
    pub const ADMIN: u32 = PERMISSION | UNLIMITED | REPORT_PIDFD | REPORT_TID;
    pub const ALL: u32 = CLOEXEC | NONBLOCK | ADMIN | AUDIT | super::report::ALL;
}

/// Flags of `fanotify_mark`.
mod how {
    pub const ADD: u32 = 1;
    pub const REMOVE: u32 = 2;
    pub const DONT_FOLLOW: u32 = 4;
    pub const ONLYDIR: u32 = 8;
    pub const MOUNT: u32 = 0x10;
    pub const IGNORED_MASK: u32 = 0x20;
    pub const SURVIVES: u32 = 0x40;
    pub const FLUSH: u32 = 0x80;
    pub const FILESYSTEM: u32 = 0x100;
    pub const EVICTABLE: u32 = 0x200;
    pub const IGNORE: u32 = 0x400;
    /// What is marked, if it is no file.
    pub const TYPES: u32 = MOUNT | FILESYSTEM;
    pub const ALL: u32 = 0x7ff;
}

/// `FAN_FS_ERROR`.
const FS_ERROR: u32 = 0x8000;
/// `FAN_OPEN_PERM`, `FAN_ACCESS_PERM`, `FAN_OPEN_EXEC_PERM`.
const PERMISSIONS: u32 = 0x7_0000;
/// What may be said of `O_*` for descriptors of events.
const EVENT_FLAGS: u32 =
    O_ACCMODE | O_APPEND | O_NONBLOCK | 0o4010000 | O_CLOEXEC | 0o100000 | 0o1000000;

/// What `fanotify_init` has made.
struct Group {
    uid: u32,
    /// Whoever has made it may know who has done what.
    knows_processes: bool,
    waiters: Waiters,
}

/// All of them.
pub struct Groups {
    table: Table<Group>,
    fans: Fans,
    groups: Shares,
    marks: Shares,
    bytes: Shares,
}

impl Default for Groups {
    fn default() -> Groups {
        let shares = |user, all| Shares::new(Limits { user, ..Limits::of(all) });
        Groups {
            table: Table::default(),
            fans: Fans::default(),
            groups: shares(GROUPS_MOST, GROUPS_ALL),
            marks: shares(MARKS_MOST, MARKS_ALL),
            bytes: Shares::new(Limits::of(EVENT_BYTES)),
        }
    }
}

/// A file as handles name it.
pub fn file_id(tree: &Tree, ino: Ino) -> Option<FileId> {
    let generation = tree.files().names().get(ino).ok()?.generation;
    let (fsid, _) = identity(tree, ino).ok()?;
    Some(FileId { fsid, number: ino.0, generation })
}

impl Groups {
    /// Has nobody marked anything?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fans.is_empty()
    }

    /// Has somebody marked a file, by its [`key`](crate::notify::key)?
    pub fn has(&self, file: u64) -> bool {
        u32::try_from(file).is_ok_and(|number| self.fans.has(number))
    }

    fn make(&mut self, uid: u32, knows_processes: bool, reports: u32) -> Result<u32, Errno> {
        if !self.groups.has_room(uid, 1) {
            return Err(Errno::EMFILE);
        }
        let group = Group { uid, knows_processes, waiters: Waiters::default() };
        let number = self.table.insert(group).map_err(|_| Errno::ENOMEM)? as u32;
        self.fans.add_group(number, reports);
        self.groups.take(uid, 1);
        Ok(number)
    }

    /// Nobody has one any more.
    pub fn remove(&mut self, number: u32) {
        let Some(Group { uid, .. }) = self.table.remove(number as usize) else { return };
        let (bytes, marks) = self.fans.remove_group(number);
        self.groups.give_back(uid, 1);
        self.marks.give_back(uid, marks);
        self.bytes.give_back(uid, bytes);
    }

    fn uid(&self, number: u32) -> u32 {
        self.table.get(number as usize).map_or(0, |group| group.uid)
    }

    fn mark(&mut self, number: u32, file: FileId, wish: Wish) -> Result<(), Errno> {
        let uid = self.uid(number);
        let room = self.marks.has_room(uid, 1);
        let is_new = self.fans.mark(number, file, wish, room).map_err(errno)?;
        if is_new {
            self.marks.take(uid, 1);
        }
        Ok(())
    }

    fn unmark(&mut self, number: u32, file: FileId, wish: Wish) -> Result<(), Errno> {
        if self.fans.unmark(number, file, wish).map_err(errno)? {
            let uid = self.uid(number);
            self.marks.give_back(uid, 1);
        }
        Ok(())
    }

    fn flush(&mut self, number: u32) {
        let uid = self.uid(number);
        let marks = self.fans.unmark_all(number);
        self.marks.give_back(uid, marks);
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: u32) -> u16 {
        match self.fans.unread(number) {
            0 => 0,
            _ => POLLIN | POLLRDNORM,
        }
    }

    /// Bytes that there are to be read, as Linux counts them: without information records.
    pub fn unread(&self, number: u32) -> usize {
        self.fans.unread(number) * notices::fan::HEAD
    }

    /// A thread waits for events.
    pub fn wait(&mut self, number: u32, tid: Tid) {
        if let Some(group) = self.table.get_mut(number as usize) {
            group.waiters.add(tid);
        }
    }

    /// Reads events.
    pub fn read(
        &mut self,
        number: u32,
        nonblocking: bool,
        (caller, procs): (Speaker, &Procs),
        bytes: usize,
        fx: &mut Effects,
    ) -> Tried {
        if self.fans.unread(number) == 0 {
            return nothing(nonblocking, || self.wait(number, caller.tid));
        }
        let group = self.table.get(number as usize).ok_or(Errno::EBADF)?;
        let (uid, knows) = (group.uid, group.knows_processes);
        let seen = |by: u32| match knows || by == caller.pid {
            true if by != 0 => procs.number_for(caller.pid, by) as i32,
            _ => 0,
        };
        let taken = self.fans.take(number, bytes.min(DATA_BYTES), seen);
        let (events, cost) = taken.map_err(|_| Errno::EINVAL)?;
        self.bytes.give_back(uid, cost);
        fx.changed(Source::Fanotify(number), false);
        procs.put(caller, &events)?;
        count(events.len())
    }

    /// Tells those who have marked a file, or its directory, what a process has done to it.
    pub fn tell(&mut self, (event, by): (&FileEvent, Pid), tree: &Tree, fx: &mut Effects) {
        let names = tree.files().names();
        let dir = match &event.place {
            Some((Node::Mem(dir), name)) => file_id(tree, *dir).map(|dir| (dir, &name[..])),
            Some(_) => return,
            None => None,
        };
        let known = |(ino, generation): (Ino, u32)| {
            // What is gone was where its directory is.
            let there = file_id(tree, ino).filter(|file| file.generation == generation);
            let fsid = dir.map(|(dir, _)| dir.fsid);
            let marked = self.fans.marked(ino.0).filter(|file| file.generation == generation);
            there.or(marked).or(Some(FileId { fsid: fsid?, number: ino.0, generation }))
        };
        let file = match (event.file, dir) {
            (Some(Node::Mem(ino)), _) => match event.target {
                Some(target) => known(target),
                None => file_id(tree, ino).or(self.fans.marked(ino.0)),
            },
            (Some(_), _) => return,
            (None, _) if event.target.is_some() => event.target.and_then(known),
            (None, Some((dir, name))) => {
                let found = names.lookup(Ino(dir.number), name).ok().flatten();
                found.and_then(|ino| file_id(tree, ino))
            }
            (None, None) => None,
        };
        let is_dir = file.is_some_and(|file| {
            names
                .get(Ino(file.number))
                .is_ok_and(|inode| inode.generation == file.generation && inode.is_dir())
        });
        let to = event.to.as_ref().and_then(|(dir, name)| Some((file_id(tree, *dir)?, &name[..])));
        let is_dir = if is_dir { mask::ISDIR } else { 0 };
        let fact = Fact { mask: event.mask | is_dir, file, place: dir, to, by };
        let Groups { fans, bytes, table, .. } = self;
        let room =
            |group: u32| room_of(bytes, table.get(group as usize).map_or(0, |group| group.uid));
        let mut changes = fans.tell(&fact, room);
        if let (Some(file), true) = (file, event.mask & mask::DELETE_SELF != 0) {
            changes.extend(fans.gone(file.number));
        }
        self.told(&changes, fx);
    }

    /// Counts what was told, and wakes who waits for it.
    fn told(&mut self, changes: &[Change], fx: &mut Effects) {
        for change in changes {
            let Some(group) = self.table.get_mut(change.group as usize) else { continue };
            self.marks.give_back(group.uid, change.watches);
            if change.bytes > 0 {
                self.bytes.take(group.uid, change.bytes);
                group.waiters.drain().for_each(|tid| fx.wake(tid));
                fx.changed(Source::Fanotify(change.group), true);
            }
        }
    }

    /// Nobody has marked what is not there any more.
    #[cold]
    pub fn sweep(&mut self, tree: &Tree, fx: &mut Effects) {
        let is_gone = |file: &FileId| file_id(tree, Ino(file.number)) != Some(*file);
        let gone: Vec<FileId> = self.fans.files().filter(is_gone).collect();
        for file in gone {
            let changes = self.fans.gone(file.number);
            self.told(&changes, fx);
        }
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::None => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::Full => Errno::ENOSPC,
    }
}

/// Is a request for a group one that can be fulfilled?
fn check_group(op: op::Fanotify, is_admin: bool) -> Result<(), Errno> {
    let op::Fanotify { flags, event_flags } = op;
    let reports = flags & report::ALL;
    if !is_admin && (flags & init::ADMIN != 0 || reports == 0) {
        return Err(Errno::EPERM);
    }
    let has = |bits: u32| reports & bits == bits;
    let is_wrong = flags & !init::ALL != 0
        || event_flags & !EVENT_FLAGS != 0
        || event_flags & O_ACCMODE == O_ACCMODE
        || flags & init::PERMISSION != 0
        || has(report::NAME) && !has(report::DIR_FID)
        || has(report::TARGET_FID) && !has(report::NAME | report::FID)
        // There are no descriptors of events, nothing that goes to an audit, and all is limited.
        || reports == 0
        || flags & (init::REPORT_PIDFD | init::REPORT_TID | init::UNLIMITED | init::AUDIT) != 0;
    if is_wrong {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}

/// What of a request to mark is wrong whatever is marked.
fn check_mark(flags: u32, events: u64) -> Result<u32, Errno> {
    let command = flags & (how::ADD | how::REMOVE | how::FLUSH);
    let ignore = flags & (how::IGNORED_MASK | how::IGNORE);
    let known = bits::EVENTS | bits::FLAGS | FS_ERROR | PERMISSIONS;
    let events = u32::try_from(events).map_err(|_| Errno::EINVAL)?;
    let is_wrong = flags & !how::ALL != 0
        || flags & how::TYPES == how::TYPES
        || match command {
            how::ADD | how::REMOVE => events == 0,
            how::FLUSH => flags & !(how::TYPES | how::FLUSH) != 0,
            _ => true,
        }
        || events & !known != 0
        || ignore == how::IGNORED_MASK | how::IGNORE;
    match is_wrong {
        true => Err(Errno::EINVAL),
        // Flags say nothing of what is ignored the old way.
        false if ignore == how::IGNORED_MASK => Ok(events & !bits::FLAGS),
        false => Ok(events),
    }
}

impl Opening<'_> {
    /// `fanotify_init`.
    pub fn fanotify(&mut self, op: op::Fanotify) -> Tried {
        let is_admin = self.cred().caps.has(Capability::SysAdmin);
        check_group(op, is_admin)?;
        self.room(1)?;
        let uid = self.cred().uid;
        let reports = op.flags & report::ALL;
        let number = self.handles.notify.fans.make(uid, is_admin, reports)?;
        let nonblocking = if op.flags & init::NONBLOCK != 0 { O_NONBLOCK } else { 0 };
        self.opened(Object::Fanotify(number), O_RDWR | nonblocking, None, Claim::None)
    }

    /// `fanotify_mark`.
    pub fn mark_file(&mut self, call: &Call, op: op::MarkFile) -> Tried {
        let op::MarkFile { desc, flags, mask, dir, is_open } = op;
        let events = check_mark(flags, mask)?;
        let Object::Fanotify(number) = self.handles.descs.of(self.caller.pid, desc)?.object else {
            return Err(Errno::EINVAL);
        };
        // Marks of mounts and file systems need descriptors, or are told of what others do anywhere.
        let is_admin = self.cred().caps.has(Capability::SysAdmin);
        if flags & how::TYPES != 0 {
            return Err(if is_admin { Errno::EINVAL } else { Errno::EPERM });
        }
        if events & (PERMISSIONS | FS_ERROR) != 0 {
            return Err(Errno::EINVAL);
        }
        let fans = &mut self.handles.notify.fans;
        let reports = fans.fans.reports(number).ok_or(Errno::EINVAL)?;
        if events & mask::RENAME != 0 && reports & report::NAME == 0 {
            return Err(Errno::EINVAL);
        }
        if flags & how::FLUSH != 0 {
            fans.flush(number);
            let Handles { notify, fx, .. } = &mut self.handles;
            fx.set_observed(!notify.is_idle());
            return done(());
        }
        let spot = self.marked_spot(call, dir, is_open, flags)?;
        let (is_dir, file) = self.may_mark(spot, flags)?;
        let adds = flags & how::ADD != 0;
        let which = match flags & (how::IGNORE | how::IGNORED_MASK) {
            how::IGNORE => Which::Ignore,
            how::IGNORED_MASK => Which::Ignored,
            _ => Which::Wanted,
        };
        let is_strict = reports & report::TARGET_FID != 0
            || events & mask::RENAME != 0
            || which == Which::Ignore;
        if adds && is_strict && !is_dir && events & (bits::NAMES | bits::FLAGS) != 0 {
            return Err(Errno::ENOTDIR);
        }
        let file = file.ok_or(Errno::EOPNOTSUPP)?;
        let survives = flags & how::SURVIVES != 0;
        if adds && which == Which::Ignore && is_dir && !survives {
            return Err(Errno::EISDIR);
        }
        let mut wish = Wish {
            mask: events,
            which,
            survives,
            is_evictable: flags & how::EVICTABLE != 0,
            idle: if which == Which::Ignored { bits::FLAGS } else { 0 },
        };
        if !is_dir {
            wish.mask &= !bits::ON_CHILD;
            wish.idle |= bits::ON_CHILD;
            // Whoever is told of directories is told of that of a file, too.
            if reports & report::DIR_FID != 0 && adds && which == Which::Wanted {
                wish.mask |= bits::ON_CHILD;
            }
        }
        let Handles { notify, fx, tree, .. } = &mut self.handles;
        if !adds {
            notify.fans.unmark(number, file, wish)?;
            fx.set_observed(!notify.is_idle());
            return done(());
        }
        let is_written = || {
            let content = tree.files().content(Ino(file.number));
            content.is_ok_and(|content| content.writers() > 0)
        };
        if which != Which::Wanted && !survives && !is_dir && is_written() {
            // What is ignored until the file changes would not be for long.
            return done(());
        }
        notify.fans.mark(number, file, wish)?;
        fx.set_observed(true);
        self.procs.hide_all();
        done(())
    }

    /// What is to be marked.
    fn marked_spot(&self, call: &Call, dir: u32, is_open: bool, flags: u32) -> Result<Spot, Errno> {
        let view = self.view()?;
        if !is_open {
            let path = self.procs.path(self.caller, call)?;
            return view.walk(dir, &path, flags & how::DONT_FOLLOW == 0)?.spot();
        }
        if dir == CWD {
            return Err(Errno::EBADF);
        }
        let desc = self.handles.descs.of(self.caller.pid, dir)?;
        match desc.is_path() {
            true => Err(Errno::EBADF),
            false => view.spot_of(desc)?.ok_or(Errno::EOPNOTSUPP),
        }
    }

    /// May it be marked, is it a directory, and what is it called?
    fn may_mark(&self, spot: Spot, flags: u32) -> Result<(bool, Option<FileId>), Errno> {
        let (is_dir, file) = match spot.node {
            Node::Mem(ino) => {
                let inode = self.names().get(ino)?;
                if flags & how::ONLYDIR != 0 {
                    inode.dir()?;
                }
                inode.permits(&self.cred(), memfs::READ)?;
                (inode.is_dir(), file_id(self.handles.tree, ino))
            }
            _ => (matches!(memfs::Names::step(&self.view()?, spot)?, memfs::Step::Dir), None),
        };
        match flags & how::ONLYDIR != 0 && !is_dir {
            true => Err(Errno::ENOTDIR),
            false => Ok((is_dir, file)),
        }
    }
}
