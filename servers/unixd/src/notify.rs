//! `inotify`: processes are told what happens to files.
//!
//! Whatever does something to a file adds a [`FileEvent`] to its effects, if anybody watches any file at all; who wants to know of it
//! is found out when that is performed. Who watches what, and what each is still to be told, is kept by the crate `notices`.
//!
//! A library that knows the size of a file reads it without a request. It is not shown sizes of files that are watched, nor of those
//! in a directory that is watched, and with a new watch all of them are hidden.

use crate::descs::{Desc, Handles, Object};
use crate::dnotify::Notes;
use crate::effects::Effects;
use crate::fanotify::Groups;
use crate::names::View;
use crate::nodes::{Node, Tree};
use crate::open::Opening;
use crate::procfs;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::volumes::Spot;
use crate::wait::{count, done, Call, Outcome, Tried, Waiters};
use crate::watches::Source;
use alloc::vec::Vec;
use files::Claim;
use memfs::{Ino, Name};
use notices::{mask, Change, Happening, Notices, Refusal};
use piecewise::{Limits, Shares, Table};
use unixproto::files::*;
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// Instances of a user, at most.
pub const INSTANCES_MOST: usize = 128;
/// Instances that there may be in all.
const INSTANCES_ALL: usize = 1024;
/// Watches that there may be in all.
const WATCHES_ALL: usize = 65536;
/// Memory for events that nobody has read yet.
const EVENT_BYTES: usize = 16 << 20;
/// All bits that a program may give.
const GIVEN: u32 = mask::KEPT
    | mask::Q_OVERFLOW
    | mask::IGNORED
    | UNMOUNT
    | mask::ONLYDIR
    | mask::DONT_FOLLOW
    | mask::MASK_CREATE
    | mask::MASK_ADD
    | mask::ISDIR;
const UNMOUNT: u32 = 0x2000;

/// Something that was done to a file.
#[derive(Clone, Debug)]
pub struct FileEvent {
    /// Bits of [`mask`].
    pub mask: u32,
    /// The same for both sides of a rename.
    pub cookie: u32,
    /// To this file. `None`: only to a name.
    pub file: Option<Node>,
    /// Where it is, or the name that came or went.
    pub place: Option<(Node, Name)>,
    /// With its generation, the file that may be gone when this is told, or had the name that has gone.
    pub target: Option<(Ino, u32)>,
    /// The new name, if that was the old one.
    pub to: Option<(Ino, Name)>,
}

impl FileEvent {
    /// To what is open.
    pub fn of_desc(mask: u32, desc: &Desc) -> FileEvent {
        let place = desc.place.as_ref().map(|place| (place.dir, place.name.clone()));
        FileEvent { file: desc.object.node(), place, ..FileEvent::SWEPT }.with(mask)
    }

    /// To a file, wherever it is.
    pub fn of_file(mask: u32, ino: Ino) -> FileEvent {
        FileEvent { file: Some(Node::Mem(ino)), ..FileEvent::SWEPT }.with(mask)
    }

    /// To many files, of which those who watch them are to find out that they are gone.
    pub const SWEPT: FileEvent =
        FileEvent { mask: 0, cookie: 0, file: None, place: None, target: None, to: None };

    fn with(self, mask: u32) -> FileEvent {
        FileEvent { mask, ..self }
    }

    /// The same, of a file that may be gone when it is told.
    pub fn known(self, tree: &Tree) -> FileEvent {
        let target = match self.file {
            Some(Node::Mem(ino)) => generation(tree, ino),
            _ => None,
        };
        FileEvent { target, ..self }
    }

    /// To a name in a directory.
    pub fn of_name(mask: u32, dir: Ino, name: &[u8], is_dir: bool) -> FileEvent {
        let mask = if is_dir { mask | notices::mask::ISDIR } else { mask };
        FileEvent { place: Some((Node::Mem(dir), name.into())), ..FileEvent::SWEPT }.with(mask)
    }
}

/// A file with its generation.
pub fn generation(tree: &Tree, ino: Ino) -> Option<(Ino, u32)> {
    tree.files().names().get(ino).ok().map(|inode| (ino, inode.generation))
}

/// What a reader is answered who finds no event: it waits, if it wants to.
pub fn nothing(nonblocking: bool, wait: impl FnOnce()) -> Tried {
    if nonblocking {
        return Err(Errno::EAGAIN);
    }
    wait();
    Ok(Outcome::Block(0))
}

/// The number of a file for those who watch it. `None`: it cannot be watched.
pub fn key(node: Node) -> Option<u64> {
    const PROC: u64 = 1 << 40;
    match node {
        Node::Mem(ino) => Some(ino.0.into()),
        Node::Proc(node) => Some(PROC + procfs::inode(node)),
        Node::Share(_) => None,
    }
}

/// What `inotify_init` has made.
struct Instance {
    uid: u32,
    waiters: Waiters,
}

/// All of them.
pub struct Instances {
    table: Table<Instance>,
    notices: Notices,
    /// Those who have marked files.
    pub fans: Groups,
    /// Those who are told by signals.
    pub notes: Notes,
    instances: Shares,
    watches: Shares,
    bytes: Shares,
}

impl Default for Instances {
    fn default() -> Instances {
        let shares = |all| Shares::new(Limits::of(all));
        Instances {
            table: Table::default(),
            notices: Notices::default(),
            fans: Groups::default(),
            notes: Notes::default(),
            instances: shares(INSTANCES_ALL),
            watches: shares(WATCHES_ALL),
            bytes: shares(EVENT_BYTES),
        }
    }
}

impl Instances {
    fn make(&mut self, uid: u32) -> Result<u32, Errno> {
        if self.instances.of(uid) >= INSTANCES_MOST || !self.instances.has_room(uid, 1) {
            return Err(Errno::EMFILE);
        }
        let instance = Instance { uid, waiters: Waiters::default() };
        let number = self.table.insert(instance).map_err(|_| Errno::ENOMEM)? as u32;
        self.notices.add_group(number);
        self.instances.take(uid, 1);
        Ok(number)
    }

    /// Nobody has one any more.
    pub fn remove(&mut self, number: u32, fx: &mut Effects) {
        let Some(Instance { uid, .. }) = self.table.remove(number as usize) else { return };
        let (bytes, watches) = self.notices.remove_group(number);
        self.instances.give_back(uid, 1);
        self.watches.give_back(uid, watches);
        self.bytes.give_back(uid, bytes);
        fx.set_observed(!self.is_idle());
    }

    /// Nobody has a group any more.
    pub fn remove_fan(&mut self, number: u32, fx: &mut Effects) {
        self.fans.remove(number);
        fx.set_observed(!self.is_idle());
    }

    /// Does nobody watch anything?
    pub fn is_idle(&self) -> bool {
        self.notices.is_empty() && self.notes.is_empty() && self.fans.is_empty()
    }

    /// A process is not told of a directory any more.
    pub fn forget(&mut self, pid: Pid, id: u32, desc: &Desc, fx: &mut Effects) {
        self.notes.forget(pid, id, desc);
        fx.set_observed(!self.is_idle());
    }

    fn uid(&self, number: u32) -> u32 {
        self.table.get(number as usize).map_or(0, |instance| instance.uid)
    }

    fn watch(&mut self, number: u32, file: u64, wanted: u32) -> Result<i32, Errno> {
        let uid = self.uid(number);
        let is_new = self.notices.watch_of(number, file).is_none();
        if is_new && !self.watches.has_room(uid, 1) {
            return Err(Errno::ENOSPC);
        }
        let (wd, _) =
            self.notices.watch(number, file, wanted).map_err(|refusal| match refusal {
                Refusal::Exists => Errno::EEXIST,
                Refusal::NoGroup => Errno::EINVAL,
            })?;
        if is_new {
            self.watches.take(uid, 1);
        }
        Ok(wd)
    }

    /// The watches of an instance: number, [key] of the file, and what it wants to be told.
    pub fn watches(&self, number: u32) -> impl Iterator<Item = (i32, u64, u32)> + '_ {
        self.notices.watches(number)
    }

    /// `POLL*` bits.
    pub fn ready(&self, number: u32) -> u16 {
        if self.notices.readable(number) > 0 {
            POLLIN | POLLRDNORM
        } else {
            0
        }
    }

    /// Bytes that there are to be read.
    pub fn unread(&self, number: u32) -> usize {
        self.notices.readable(number)
    }

    /// A thread waits for events.
    pub fn wait(&mut self, number: u32, tid: Tid) {
        if let Some(instance) = self.table.get_mut(number as usize) {
            instance.waiters.add(tid);
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
        if self.notices.readable(number) == 0 {
            return nothing(nonblocking, || self.wait(number, caller.tid));
        }
        let taken = self.notices.take(number, bytes.min(DATA_BYTES));
        let (events, cost) = taken.map_err(|_| Errno::EINVAL)?;
        self.bytes.give_back(self.uid(number), cost);
        fx.changed(Source::Notices(number), false);
        procs.put(caller, &events)?;
        count(events.len())
    }

    /// Does somebody want to know what is done to what is open?
    pub fn is_watched(&self, desc: &Desc) -> bool {
        let keys = [desc.object.node(), desc.place.as_ref().map(|place| place.dir)];
        keys.into_iter().flatten().filter_map(key).any(|file| {
            self.notices.is_watched(file) || self.notes.has(file) || self.fans.has(file)
        })
    }

    /// Tells those who watch a file what was done to it.
    pub fn tell(&mut self, (event, by): (&FileEvent, Pid), tree: &Tree, fx: &mut Effects) {
        if event.mask == 0 {
            return self.sweep(tree, fx);
        }
        if !self.fans.is_empty() {
            self.fans.tell((event, by), tree, fx);
        }
        let names = tree.files().names();
        let mut mask = event.mask;
        let mut place = event.place.as_ref().map(|(dir, name)| (*dir, &name[..]));
        let mut is_unlinked = false;
        if let Some(Node::Mem(ino)) = event.file {
            // A directory has one place, which is known.
            if let Ok(dir) = names.get(ino).and_then(|inode| inode.dir()) {
                mask |= mask::ISDIR;
                let parent = names.get(dir.parent).and_then(|inode| inode.dir());
                let name = parent.ok().and_then(|parent| parent.name_of(ino));
                place = place.and(name).map(|name| (Node::Mem(dir.parent), name));
            }
            is_unlinked = place.is_some_and(|(dir, name)| match dir {
                Node::Mem(dir) => {
                    !matches!(names.lookup(dir, name), Ok(Some(found)) if found == ino)
                }
                _ => false,
            });
        }
        let file = event.file.and_then(key);
        let name = place.and_then(|(dir, name)| Some((key(dir)?, name)));
        let dirs = [name.map(|(dir, _)| dir), file.filter(|_| mask & mask::ISDIR != 0)];
        let moves = |(to, _): &(Ino, Name)| name.map(|(dir, _)| dir) != key(Node::Mem(*to));
        if !event.to.as_ref().is_some_and(moves) {
            dirs.into_iter().flatten().for_each(|dir| self.notes.tell(dir, mask, fx));
        }
        let it = Happening { mask, cookie: event.cookie, file, name, is_unlinked };
        let Instances { notices, bytes, table, .. } = self;
        let room = |group: u32| {
            let uid = table.get(group as usize).map_or(0, |instance| instance.uid);
            room_of(bytes, uid)
        };
        let mut changes = notices.tell(&it, room);
        if let (Some(file), true) = (file, mask & mask::DELETE_SELF != 0) {
            changes.extend(notices.gone(file, room));
        }
        self.told(&changes, fx);
    }

    /// Tells of all files that are not there any more. Their numbers may be others' soon.
    #[cold]
    fn sweep(&mut self, tree: &Tree, fx: &mut Effects) {
        let inode = |file: u64| u32::try_from(file).ok().map(Ino);
        let is_gone = |ino: &Ino| tree.files().names().get(*ino).is_err();
        let gone: Vec<Ino> = self.notices.files().filter_map(inode).filter(is_gone).collect();
        for ino in gone {
            self.tell((&FileEvent::of_file(mask::DELETE_SELF, ino), 0), tree, fx);
        }
        self.fans.sweep(tree, fx);
        fx.set_observed(!self.is_idle());
    }

    /// Counts what was told, and wakes who waits for it.
    fn told(&mut self, changes: &[Change], fx: &mut Effects) {
        for change in changes {
            let Some(instance) = self.table.get_mut(change.group as usize) else { continue };
            self.bytes.take(instance.uid, change.bytes);
            self.watches.give_back(instance.uid, change.watches);
            instance.waiters.drain().for_each(|tid| fx.wake(tid));
            fx.changed(Source::Notices(change.group), true);
        }
        fx.set_observed(!self.is_idle());
    }

    fn unwatch(&mut self, number: u32, wd: i32, fx: &mut Effects) -> Result<(), Errno> {
        let room = room_of(&self.bytes, self.uid(number));
        let change = self.notices.unwatch(number, wd, room).ok_or(Errno::EINVAL)?;
        self.told(&[change], fx);
        Ok(())
    }
}

/// Bytes that the events of a user may have more.
pub fn room_of(bytes: &Shares, uid: u32) -> usize {
    let Limits { all, root, user } = bytes.limits();
    let (all, most) = if uid == 0 { (all, all) } else { (all - root, user) };
    all.saturating_sub(bytes.taken()).min(most.saturating_sub(bytes.of(uid)))
}

/// The instance that a description is.
fn number(desc: &Desc) -> Result<u32, Errno> {
    match desc.object {
        Object::Notices(number) => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}

impl Opening<'_> {
    /// `inotify_init1`.
    pub fn notify(&mut self, op: op::Notify) -> Tried {
        self.room(1)?;
        let uid = self.cred().uid;
        let number = self.handles.notify.make(uid)?;
        let flags = O_RDONLY | op.flags & O_NONBLOCK;
        self.opened(Object::Notices(number), flags, None, Claim::None)
    }

    /// `inotify_add_watch`.
    pub fn add_watch(&mut self, call: &Call, op: op::AddWatch) -> Tried {
        if op.mask & GIVEN == 0 {
            return Err(Errno::EINVAL);
        }
        let desc = self.handles.descs.of(self.caller.pid, op.desc)?;
        let both = mask::MASK_ADD | mask::MASK_CREATE;
        if op.mask & both == both {
            return Err(Errno::EINVAL);
        }
        let number = number(desc)?;
        let path = self.procs.path(self.caller, call)?;
        let view = self.view()?;
        let spot = view.walk(CWD, &path, op.mask & mask::DONT_FOLLOW == 0)?.spot()?;
        let node = spot.node;
        self.may_watch(view, spot, op.mask)?;
        // What a folder of the host has is changed by the host, too.
        let file = key(node).ok_or(Errno::EOPNOTSUPP)?;
        let Handles { notify, fx, .. } = &mut self.handles;
        let wd = notify.watch(number, file, op.mask)?;
        fx.set_observed(true);
        self.procs.hide_all();
        count(wd as usize)
    }

    fn may_watch(&self, view: View<'_>, spot: Spot, wanted: u32) -> Result<(), Errno> {
        let only_dir = wanted & mask::ONLYDIR != 0;
        match spot.node {
            Node::Mem(ino) => {
                let inode = self.names().get(ino)?;
                if only_dir {
                    inode.dir()?;
                }
                inode.permits(&self.cred(), memfs::READ)
            }
            _ if only_dir && !matches!(memfs::Names::step(&view, spot)?, memfs::Step::Dir) => {
                Err(Errno::ENOTDIR)
            }
            _ => Ok(()),
        }
    }

    /// `inotify_rm_watch`.
    pub fn remove_watch(&mut self, op: op::RemoveWatch) -> Tried {
        let number = number(self.handles.descs.of(self.caller.pid, op.desc)?)?;
        let Handles { notify, fx, .. } = &mut self.handles;
        notify.unwatch(number, op.watch, fx)?;
        done(())
    }
}
