//! Open file descriptions: who holds them, what they are.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::detached;
use crate::disks;
use crate::effects::Effects;
use crate::leases::AllLeases;
use crate::lines::LineId;
use crate::locks::AllLocks;
use crate::mqueues::MessageQueues;
use crate::nodes::{Node, Tree};
use crate::notify::{FileEvent, Instances};
use crate::pipes::Pipes;
use crate::procfs;
use crate::procs::{Pid, HELD_MAX};
use crate::readiness::Readiness;
use crate::seals::Seals;
use crate::segments::Segments;
use crate::server::sets::Sets;
use crate::share::OpenFile;
use crate::signals::UNSTOPPABLE;
use crate::sockets::Sockets;
use crate::spaces::Opened as OpenedSpace;
use crate::streams::Channel;
use crate::terminal::Terminal;
use crate::voices::Speaker;
use crate::volumes::{Standing, Volume};
use crate::wait::{done, Tried};
use crate::watches::{Source, Watches};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use files::{Backing, Claim, Piece};
use memfs::{Ino, Name};
use mounttable::MountId;
use notices::mask;
use piecewise::{Bounds, Holdings, Limits, NoRoom, Shares, Table};
use unixproto::files::*;
use unixproto::ops::{Flags, Offset, Opened};
use unixproto::{op, Errno};

/// Descriptions that there may be in all.
pub const DESCS_MAX: usize = 32768;

/// How often they may be held: what a process holds beyond 1,024, a million of all processes, 4 bytes each.
const HOLDINGS: Bounds = Bounds { few: 1024, most: HELD_MAX, more: Limits::of(1 << 20) };

/// Bytes of texts that may be open in all.
const TEXTS_MAX: usize = 4 << 20;

/// What a description refers to.
#[derive(Clone)]
pub enum Object {
    /// A regular file.
    File(Ino),
    /// A directory.
    Dir(Node),
    /// A file or directory of the host.
    Shared(OpenFile),
    /// A pipe or fifo, by its number, and the inode of a fifo.
    Pipe(u32, Option<Ino>),
    /// A terminal.
    Tty(LineId, Option<Ino>),
    /// The other side of a pseudoterminal, by its number.
    Master(u32, Option<Ino>),
    /// A standard stream that is no terminal.
    Stream(Channel),
    /// A counter that processes share, by its number, and what it is for the library.
    Counter(Kind, u32),
    /// A set of `epoll` that processes share, by its number.
    Set(u32),
    /// A local socket, by its number.
    Socket(u32),
    /// Events of files, by the number of who watches them.
    Notices(u32),
    /// Events of files that were marked, by the number of who has marked them.
    Fanotify(u32),
    /// A POSIX message queue, by its file.
    Messages(Ino),
    /// A socket of the internet, by its number.
    Inet(u32),
    /// Signals that are read, by their mask.
    Signals(u64),
    /// A device that the library does alone.
    Device(Kind, Ino),
    /// A memory disk.
    Disk {
        /// Its place in the tree.
        node: Ino,
        /// The file without a name that holds its bytes.
        content: Ino,
    },
    /// Text made when it was opened.
    Text(Node, Rc<[u8]>),
    /// The memory of a process, and when that started.
    Memory(Node, u64),
    /// A place in the tree (`O_PATH`).
    Path(Node),
    /// A name space.
    Space(OpenedSpace),
    /// A file system that is made or changed.
    Making(detached::Shared),
}

impl Object {
    /// How the library treats it.
    pub fn kind(&self) -> Kind {
        match self {
            Object::File(_) => Kind::Regular,
            Object::Dir(_) => Kind::Directory,
            Object::Shared(file) if file.is_dir => Kind::Directory,
            Object::Shared(_) => Kind::Shared,
            Object::Pipe(..) => Kind::Pipe,
            Object::Tty(..) | Object::Master(..) => Kind::Tty,
            Object::Stream(_) => Kind::Stream,
            Object::Counter(kind, _) => *kind,
            Object::Set(_) => Kind::Set,
            Object::Socket(_) | Object::Inet(_) => Kind::Socket,
            Object::Signals(_) => Kind::Signals,
            Object::Notices(_) | Object::Fanotify(_) => Kind::Notices,
            Object::Messages(_) => Kind::Messages,
            Object::Device(kind, _) => *kind,
            Object::Disk { .. } => Kind::Disk,
            Object::Text(..) | Object::Space(_) | Object::Making(_) => Kind::Text,
            Object::Memory(node, _) => match procfs::told(*node) {
                Some(_) => Kind::Told,
                None => Kind::Memory,
            },
            Object::Path(_) => Kind::Path,
        }
    }
    /// Its place in the tree.
    pub fn node(&self) -> Option<Node> {
        match self {
            Object::File(ino) | Object::Device(_, ino) | Object::Messages(ino) => {
                Some(Node::Mem(*ino))
            }
            Object::Disk { node, .. } => Some(Node::Mem(*node)),
            Object::Shared(file) => Some(Node::Share(file.node)),
            Object::Pipe(_, ino) | Object::Tty(_, ino) | Object::Master(_, ino) => {
                ino.map(Node::Mem)
            }
            Object::Dir(node)
            | Object::Path(node)
            | Object::Text(node, _)
            | Object::Memory(node, _) => Some(*node),
            Object::Stream(_) | Object::Counter(..) | Object::Set(_) | Object::Signals(_) => None,
            Object::Socket(_) | Object::Inet(_) | Object::Notices(_) | Object::Space(_) => None,
            Object::Fanotify(_) | Object::Making(_) => None,
        }
    }
    /// What names its contents for caches of them: of a file, or a disk. Of a memory: whose it is. Of what a process tells: the
    /// same, with the command. 0: there are none.
    pub fn inode(&self) -> u64 {
        match (self, self.node()) {
            (Object::Disk { content, .. }, _) => content.0.into(),
            // As those call it whom it hears.
            (Object::Counter(Kind::Listener, number), _) => u64::from(*number) + 1,
            (_, Some(Node::Mem(ino))) => ino.0.into(),
            // By its number the library knows its own process's.
            (Object::Memory(node, _), _) => procfs::whose(*node),
            _ => 0,
        }
    }
    /// What a process watches, or waits for, that watches it or waits for it.
    pub fn source(&self, pid: Pid) -> Option<Source> {
        match self {
            Object::Pipe(pipe, _) => Some(Source::Pipe(*pipe)),
            Object::Tty(LineId::Console, _) | Object::Stream(_) => Some(Source::Terminal),
            Object::Tty(LineId::Pty(number), _) => Some(Source::Pty(*number)),
            Object::Master(number, _) => Some(Source::Master(*number)),
            Object::Counter(_, number) => Some(Source::Counter(*number)),
            Object::Set(number) => Some(Source::Set(*number)),
            Object::Socket(number) => Some(Source::Socket(*number)),
            Object::Notices(number) => Some(Source::Notices(*number)),
            Object::Fanotify(number) => Some(Source::Fanotify(*number)),
            Object::Messages(ino) => Some(Source::Messages(*ino)),
            Object::Inet(number) => Some(Source::Inet(*number)),
            Object::Signals(_) => Some(Source::Signals(pid)),
            Object::File(_) | Object::Dir(_) | Object::Device(..) | Object::Disk { .. } => None,
            Object::Text(..) | Object::Path(_) | Object::Memory(..) | Object::Shared(_) => None,
            Object::Space(_) | Object::Making(_) => None,
        }
    }
}

/// A name that a description was opened by, for `/proc/PID/fd`.
pub struct Place {
    /// The directory, held.
    pub dir: Node,
    /// The name there.
    pub name: Name,
    /// The mount of the directory, held.
    pub above: MountId,
    /// The mount by which it was opened, held.
    pub mount: MountId,
    /// That goes with the description, if it is at no place.
    pub dissolves: bool,
}

/// Who holds a description after a fork of who holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Heirs {
    /// Both.
    #[default]
    Both,
    /// The parent: it is private memory of one process.
    Parent,
    /// The child, and so it is from then on.
    Child,
}

/// An open file description.
pub struct Desc {
    /// What it refers to.
    pub object: Object,
    /// Access mode and status flags.
    pub flags: u32,
    /// Offset, or the cookie of the next entry of a directory.
    pub offset: u64,
    /// Where it was opened.
    pub place: Option<Place>,
    /// What it keeps others from.
    pub claim: Claim,
    /// Who holds it after a fork.
    pub heirs: Heirs,
    /// How many processes hold it.
    refs: u32,
    /// The user who opened it.
    uid: u32,
}

impl Desc {
    /// Bytes of the text that it keeps.
    fn text_bytes(&self) -> usize {
        match &self.object {
            Object::Text(_, text) => text.len(),
            _ => 0,
        }
    }
    /// May it be read?
    pub fn readable(&self) -> Result<(), Errno> {
        match matches!(self.flags & O_ACCMODE, O_RDONLY | O_RDWR) && !self.is_path() {
            true => Ok(()),
            false => Err(Errno::EBADF),
        }
    }
    /// May it be written?
    pub fn writable(&self) -> Result<(), Errno> {
        match matches!(self.flags & O_ACCMODE, O_WRONLY | O_RDWR) && !self.is_path() {
            true => Ok(()),
            false => Err(Errno::EBADF),
        }
    }
    /// May whoever holds it have Frames with the contents of the file? Whoever could write through one
    /// could read as well, so `EACCES` unless it is readable.
    pub fn shares_contents(&self) -> Result<(), Errno> {
        match self.flags & O_ACCMODE == O_WRONLY {
            true => Err(Errno::EACCES),
            false => self.readable(),
        }
    }
    /// Is it only a place in the tree (`O_PATH`)?
    pub fn is_path(&self) -> bool {
        self.flags & O_PATH != 0
    }
    /// Does it never wait?
    pub fn nonblocking(&self) -> bool {
        self.flags & O_NONBLOCK != 0
    }
}

/// All of them, and which process holds which; the id is the index plus one.
pub struct Descs {
    table: Table<Desc>,
    /// How many were opened by each user.
    users: Shares,
    /// Bytes of the texts among them, of each user.
    texts: Shares,
    /// What each process holds.
    holdings: Holdings,
    /// Who has the memory of another process, and holds what that one holds.
    beside: BTreeMap<Pid, Pid>,
}

impl Default for Descs {
    fn default() -> Self {
        Descs {
            table: Table::default(),
            users: Shares::new(Limits::of(DESCS_MAX)),
            texts: Shares::new(Limits::of(TEXTS_MAX)),
            holdings: Holdings::new(HOLDINGS),
            beside: BTreeMap::new(),
        }
    }
}

impl Descs {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// The description with this id.
    #[inline]
    pub fn get(&self, id: u32) -> Result<&Desc, Errno> {
        let index = (id as usize).wrapping_sub(1);
        self.table.get(index).ok_or(Errno::EBADF)
    }
    fn get_mut(&mut self, id: u32) -> Result<&mut Desc, Errno> {
        let index = (id as usize).wrapping_sub(1);
        self.table.get_mut(index).ok_or(Errno::EBADF)
    }
    /// A description that a process holds.
    #[inline(always)]
    pub fn of(&self, pid: Pid, id: u32) -> Result<&Desc, Errno> {
        self.held_by(pid, id).ok_or(Errno::EBADF)
    }
    fn held_by(&self, pid: Pid, id: u32) -> Option<&Desc> {
        self.holds(pid, id).then(|| self.get(id).ok()).flatten()
    }
    /// The same, to be changed.
    pub fn of_mut(&mut self, pid: Pid, id: u32) -> Result<&mut Desc, Errno> {
        match self.holds(pid, id) {
            true => self.get_mut(id),
            false => Err(Errno::EBADF),
        }
    }
    /// The process under which it is noted what a process holds: all who have the same memory hold the same.
    #[inline]
    pub fn holder(&self, pid: Pid) -> Pid {
        match self.beside.is_empty() {
            true => pid,
            false => self.beside.get(&pid).copied().unwrap_or(pid),
        }
    }
    /// A new process has the memory of one that exists.
    pub fn join(&mut self, child: Pid, with: Pid) {
        self.beside.insert(child, self.holder(with));
    }
    /// It will have memory of its own, with copies of what it holds now.
    /// `false`: it has them already, or holds nothing with anybody.
    pub fn copy(&mut self, pid: Pid, uid: u32) -> bool {
        let is_new = self.is_beside(pid) && !self.has_copies(pid);
        if is_new {
            self.inherit(pid, (pid, uid), false);
        }
        is_new
    }
    /// Has it such copies?
    pub fn has_copies(&self, pid: Pid) -> bool {
        self.holdings.contains(pid)
    }
    /// It has: those copies count from now on.
    pub fn part(&mut self, pid: Pid) {
        self.beside.remove(&pid);
    }
    /// Whether what it holds is noted under another one.
    pub fn is_beside(&self, pid: Pid) -> bool {
        self.beside.contains_key(&pid)
    }
    /// The descriptions that a process holds, in order.
    #[inline]
    pub fn held(&self, pid: Pid) -> &[u32] {
        self.holdings.of(self.holder(pid))
    }
    /// Returns `true` if a process holds a description.
    #[inline]
    pub fn holds(&self, pid: Pid, id: u32) -> bool {
        self.held(pid).binary_search(&id).is_ok()
    }
    /// May a process of a user open, or be given, `count` more?
    ///
    /// # Errors
    /// `EMFILE`: the process may not. `ENFILE`: its user has too many, or there are too many.
    pub fn room(&self, pid: Pid, uid: u32, count: usize) -> Result<(), Errno> {
        self.holdings.room(self.holder(pid), count).map_err(|why| match why {
            NoRoom::Holder => Errno::EMFILE,
            NoRoom::User => Errno::ENFILE,
        })?;
        match self.users.has_room(uid, count) && self.texts.has_room(uid, 1) {
            true => Ok(()),
            false => Err(Errno::ENFILE),
        }
    }
    /// May a user make a process with what this one holds?
    ///
    /// # Errors
    /// `EAGAIN`: that user's processes hold too much.
    pub fn may_inherit(&self, parent: Pid, uid: u32) -> Result<(), Errno> {
        match self.holdings.has_room_for_heir(self.holder(parent), uid) {
            true => Ok(()),
            false => Err(Errno::EAGAIN),
        }
    }
    /// A new process, made by a user, holds what its parent holds, but for private memory; one that acts in its parent's memory
    /// holds that, too.
    pub fn inherit(&mut self, parent: Pid, (child, uid): (Pid, u32), acts: bool) {
        let mut held = self.held(parent).to_vec();
        let mut has_heirs = false;
        held.retain(|&id| match self.get_mut(id) {
            Ok(desc) if desc.heirs == Heirs::Both || acts => {
                desc.refs += 1;
                true
            }
            Ok(desc) if desc.heirs == Heirs::Child => {
                has_heirs = true;
                true
            }
            _ => false,
        });
        if has_heirs {
            self.hand_over(parent, &held);
        }
        self.holdings.begin(child, held, uid);
    }

    /// What is meant for a child, which holds `held`, is its parent's no more.
    #[cold]
    fn hand_over(&mut self, parent: Pid, held: &[u32]) {
        for &id in held {
            let is_heir = |desc: &&mut Desc| desc.heirs == Heirs::Child;
            if let Some(desc) = self.get_mut(id).ok().filter(is_heir) {
                desc.heirs = Heirs::Parent;
                self.forget(parent, id);
            }
        }
    }

    /// How often processes have what this says.
    pub fn refs_of(&self, is_it: impl Fn(&Object) -> bool) -> u64 {
        let all = self.table.iter().filter(|(_, desc)| is_it(&desc.object));
        all.map(|(_, desc)| u64::from(desc.refs)).sum()
    }

    /// Is there a description by which a file is open, and not only found, of which this holds?
    pub fn any_of(&self, ino: Ino, is_it: impl Fn(u32, &Desc) -> bool) -> bool {
        self.table.iter().any(|(index, desc)| match desc.object {
            Object::File(of) => of == ino && is_it(index as u32 + 1, desc),
            _ => false,
        })
    }

    /// Pages that are there of private memory that a process holds as files. A page that its parent or a child has, too, counts for each.
    pub fn private_pages(&self, tree: &Tree, pid: Pid) -> u64 {
        let private = self.held(pid).iter().filter_map(|&id| match self.get(id) {
            Ok(Desc { object: Object::File(ino), heirs: Heirs::Parent, .. }) => Some(*ino),
            _ => None,
        });
        private.map(|ino| tree.files().allocated(ino).unwrap_or(0) / abi::layout::PAGE).sum()
    }

    /// A file that has moved: those who have opened it by its old name have it by the new one. Answers how many.
    pub fn moved(&mut self, ino: Ino, from: (Ino, &[u8]), to: (Ino, &[u8])) -> usize {
        let is_it = |desc: &Desc| {
            let is_there =
                |place: &Place| (place.dir, &place.name[..]) == (Node::Mem(from.0), from.1);
            desc.object.node() == Some(Node::Mem(ino)) && desc.place.as_ref().is_some_and(is_there)
        };
        let found = self.table.iter().filter(|(_, desc)| is_it(desc)).map(|(index, _)| index);
        let found: Vec<usize> = found.collect();
        for &index in &found {
            if let Some(place) = self.table.get_mut(index).and_then(|desc| desc.place.as_mut()) {
                (place.dir, place.name) = (Node::Mem(to.0), to.1.into());
            }
        }
        found.len()
    }

    /// Those of them that have left memory.
    pub fn private_out(&self, tree: &Tree, pid: Pid) -> u64 {
        if !crate::swap::is_there() {
            return 0;
        }
        let private = self.held(pid).iter().filter_map(|&id| match self.get(id) {
            Ok(Desc { object: Object::File(ino), heirs: Heirs::Parent, .. }) => Some(*ino),
            _ => None,
        });
        let out = |ino| match tree.files().present(ino, 0, false) {
            Ok(Some(Piece { backing: Backing::Object(object), size, .. })) => {
                object.out(size.div_ceil(abi::layout::PAGE))
            }
            _ => 0,
        };
        private.map(out).sum()
    }

    /// Says who holds a description after a fork.
    pub fn set_heirs(&mut self, id: u32, heirs: Heirs) {
        if let Ok(desc) = self.get_mut(id) {
            desc.heirs = heirs;
        }
    }
    /// Adds one that a process holds. Gives it back if there is no memory: then what it refers to is
    /// to be let go.
    #[allow(clippy::result_large_err)]
    fn add(&mut self, pid: Pid, desc: Desc) -> Result<u32, Desc> {
        let text = desc.text_bytes();
        let uid = desc.uid;
        let id = self.table.insert(desc)? as u32 + 1;
        if text > 0 {
            self.texts.take(uid, text);
        }
        self.users.take(uid, 1);
        self.holdings.add(self.holder(pid), id);
        Ok(id)
    }
    /// One is on its way to another process.
    pub fn pass(&mut self, id: u32) {
        if let Ok(desc) = self.get_mut(id) {
            desc.refs += 1;
        }
    }
    /// One that was on its way is a process's now. `stays`: it is still on its way, too.
    pub fn receive(&mut self, pid: Pid, id: u32, stays: bool) {
        let holder = self.holder(pid);
        let Ok(desc) = self.table.get_mut((id as usize).wrapping_sub(1)).ok_or(()) else { return };
        match self.holdings.add(holder, id) {
            true => desc.refs += u32::from(stays),
            // It has it already: a process is counted once.
            false if !stays => desc.refs -= 1,
            false => {}
        }
    }
    /// A process does not hold one any more. Returns `true` if it did.
    fn forget(&mut self, pid: Pid, id: u32) -> bool {
        self.holdings.remove(self.holder(pid), id)
    }
    /// One process less holds it; the last one gets it back to be closed.
    fn let_go(&mut self, id: u32) -> Option<Desc> {
        let desc = self.get_mut(id).ok()?;
        desc.refs -= 1;
        if desc.refs > 0 {
            return None;
        }
        let desc = self.table.remove(id as usize - 1)?;
        if let text @ 1.. = desc.text_bytes() {
            self.texts.give_back(desc.uid, text);
        }
        self.users.give_back(desc.uid, 1);
        Some(desc)
    }

    /// What a description is.
    pub fn describe(&self, (tree, seals): (&Tree, &Seals), pid: Pid, id: u32) -> Tried {
        let Desc { object, flags, .. } = self.of(pid, id)?;
        let (kind, inode) = (seals.kind(object, *flags) as u8, object.inode());
        let (is_stored, is_large) = (tree.stores(object), tree.is_large(object));
        done(Opened { desc: id, kind, inode, is_stored, is_large })
    }

    /// The signals that are read by a description. `EINVAL`: it is something else.
    pub fn signals(&self, pid: Pid, id: u32) -> Result<u64, Errno> {
        match self.of(pid, id)?.object {
            Object::Signals(set) => Ok(set),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Other signals are read from now on.
    pub fn set_signals(&mut self, pid: Pid, id: u32, set: u64) -> Result<(), Errno> {
        match &mut self.of_mut(pid, id)?.object {
            Object::Signals(now) => *now = set & !UNSTOPPABLE,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// `F_GETFL`.
    pub fn get_flags(&self, pid: Pid, id: u32) -> Tried {
        done(Flags { flags: self.of(pid, id)?.flags })
    }

    /// `F_SETFL`.
    pub fn set_flags(&mut self, pid: Pid, id: u32, flags: u32) -> Tried {
        let changeable = O_APPEND | O_NONBLOCK | O_ASYNC;
        let desc = self.of_mut(pid, id)?;
        desc.flags = desc.flags & !changeable | flags & changeable;
        done(())
    }
}

/// What opening and closing works on: the descriptions and what they refer to.
pub struct Handles<'a> {
    pub descs: &'a mut Descs,
    pub pipes: &'a mut Pipes,
    pub counters: &'a mut Counters,
    pub sets: &'a mut Sets,
    pub sockets: &'a mut Sockets,
    pub notify: &'a mut Instances,
    pub segments: &'a mut Segments,
    pub seals: &'a mut Seals,
    pub mqueues: &'a mut MessageQueues,
    pub terminal: &'a mut Terminal,
    pub clock: &'a mut Clock,
    pub locks: &'a mut AllLocks,
    pub leases: &'a mut AllLeases,
    pub watches: &'a mut Watches,
    pub readiness: &'a mut Readiness,
    pub tree: &'a mut Tree,
    pub fx: &'a mut Effects,
}

impl Handles<'_> {
    /// Gives a process a new description, opened by a user. What it refers to is held already, and
    /// so is its place; if there is no memory for it (`ENFILE`), neither is any more.
    pub fn open(
        &mut self,
        (pid, uid): (Pid, u32),
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
    ) -> Result<u32, Errno> {
        let direct = if matches!(object, Object::Disk { .. }) { O_DIRECT } else { 0 };
        let status = O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH | O_DIRECTORY | direct;
        let flags = flags & status;
        if let Object::File(ino) = object {
            self.tree.files_mut().claim(ino, claim);
        }
        let heirs = Heirs::Both;
        let desc = Desc { object, flags, offset: 0, place, claim, heirs, refs: 1, uid };
        if !desc.is_path() {
            let opened = match claim {
                Claim::Executes => mask::OPEN | mask::OPEN_EXEC,
                _ => mask::OPEN,
            };
            self.fx.observe(|| FileEvent::of_desc(opened, &desc));
        }
        self.descs.add(pid, desc).map_err(|desc| {
            self.drop_desc(desc);
            Errno::ENFILE
        })
    }

    /// A process closes a description, if it holds it.
    pub fn close(&mut self, pid: Pid, id: u32) {
        if self.descs.forget(pid, id) {
            self.let_go(pid, id);
            self.let_go_lost();
        }
    }

    /// A process closes everything. What it holds with others stays theirs.
    pub fn close_all(&mut self, pid: Pid) {
        if self.descs.is_beside(pid) {
            self.leave_others(pid);
        }
        let held = self.descs.holdings.end(pid);
        for id in held {
            self.let_go(pid, id);
        }
        self.let_go_lost();
        self.watches.forget(pid);
        self.seals.forget(pid);
    }

    /// A process does not hold any more what it has held with others: its record locks and the like go, as if it had closed all.
    #[cold]
    fn leave_others(&mut self, pid: Pid) {
        for id in self.descs.held(pid).to_vec() {
            let Ok(desc) = self.descs.get(id) else { continue };
            if let Object::Messages(ino) = desc.object {
                let word = self.mqueues.closed(ino, pid);
                self.sockets.inet.say(word, self.fx);
            }
            self.locks.drop(pid, id, desc, false, self.fx);
            if !self.notify.notes.is_empty() {
                self.notify.forget(pid, id, desc, self.fx);
            }
        }
        self.descs.part(pid);
    }

    /// A process does not hold a description any more.
    pub(crate) fn let_go(&mut self, pid: Pid, id: u32) {
        let Ok(desc) = self.descs.get(id) else { return };
        if let Some(source) = desc.object.source(pid) {
            self.watches.unwatch(source, pid, id);
        }
        if let Object::Messages(ino) = desc.object {
            let word = self.mqueues.closed(ino, pid);
            self.sockets.inet.say(word, self.fx);
        }
        match desc.object {
            Object::Pipe(pipe, _) => self.pipes.let_go(pipe, self.descs),
            Object::Socket(number) => self.sockets.let_go(number, self.descs),
            _ => {}
        }
        self.locks.drop(pid, id, desc, desc.refs == 1, self.fx);
        if !self.notify.notes.is_empty() {
            self.notify.forget(pid, id, desc, self.fx);
        }
        if let Some(desc) = self.descs.let_go(id) {
            self.readiness.forget(id);
            self.leases.closed(id, &desc, self.fx);
            if let Some(source) = desc.object.source(pid) {
                self.sets.forget(id, source);
            }
            self.drop_desc(desc);
        }
    }

    /// Lets go what a description refers to that nobody has.
    fn drop_desc(&mut self, desc: Desc) {
        if !desc.is_path() {
            let closed = match desc.writable() {
                Ok(()) => mask::CLOSE_WRITE,
                Err(_) => mask::CLOSE_NOWRITE,
            };
            let tree = &*self.tree;
            self.fx.observe(|| FileEvent::of_desc(closed, &desc).known(tree));
        }
        match desc.object {
            Object::Pipe(pipe, _) => self.pipes.closed(pipe, desc.flags, self.fx),
            Object::File(ino) => self.tree.files_mut().unclaim(ino, desc.claim),
            Object::Counter(_, number) => self.counters.remove(number, self.clock, self.fx),
            Object::Set(number) => self.sets.remove(number),
            Object::Socket(number) => self.sockets.closed(number, self.fx),
            Object::Notices(number) => self.notify.remove(number, self.fx),
            Object::Fanotify(number) => self.notify.remove_fan(number, self.fx),
            Object::Inet(number) => {
                self.mqueues.socket_gone(number);
                self.sockets.inet.closed(number, self.fx);
            }
            Object::Dir(_) | Object::Device(..) | Object::Text(..) | Object::Path(_) => {}
            Object::Disk { .. } | Object::Memory(..) | Object::Messages(_) => {}
            Object::Space(OpenedSpace::Mounts(space, _)) => self.tree.leave_space(space),
            Object::Space(_) => {}
            Object::Making(ref making) => {
                let held = making.borrow_mut().take();
                self.let_making_go(held);
            }
            Object::Shared(file) => self.tree.close_shared(file),
            Object::Tty(line, _) => self.terminal.closed_line(line, self.fx),
            Object::Master(number, _) => self.close_master(number),
            Object::Stream(_) | Object::Signals(_) => {}
        }
        if let Some(node) = desc.object.node() {
            self.release(node);
        }
        if let Some(place) = desc.place {
            if place.dissolves {
                self.tree.dissolve(place.mount);
            }
            self.release(place.dir);
            self.tree.release_mount(place.mount);
            if place.above != place.mount {
                self.tree.release_mount(place.above);
            }
        }
    }

    /// What was made to be mounted is not held by who has made it any more.
    pub fn let_making_go(&mut self, held: Option<(Node, Rc<Volume>)>) {
        if let Some((root, volume)) = held {
            self.release(root);
            self.tree.drop_volume(volume);
        }
    }

    /// A process stands nowhere any more.
    pub fn leave(&mut self, standing: &Standing) {
        for spot in [standing.cwd, standing.root] {
            self.release(spot.node);
            self.tree.release_mount(spot.mount);
        }
        self.tree.leave_space(standing.space);
    }

    /// Ends a [`Tree::hold`].
    pub fn release(&mut self, node: Node) {
        if let Some(gone) = self.tree.release(node) {
            self.fx.observe(|| FileEvent::of_file(mask::DELETE_SELF, gone));
            self.pipes.forget_fifo(gone);
            self.segments.gone(gone);
            self.seals.gone(gone);
            self.mqueues.gone(gone);
        }
    }
}

/// Where the next data or the next hole of a file is, from an offset before its end on. There is a hole at the end.
fn sought(tree: &mut Tree, ino: Ino, op: op::Seek) -> Result<i64, Errno> {
    let found = tree.files_mut().next_data(ino, op.offset as u64)?;
    match (op.whence, found) {
        (SEEK_DATA, Some((from, _))) => Ok(from as i64),
        (SEEK_DATA, None) => Err(Errno::ENXIO),
        (_, Some((from, to))) if from as i64 == op.offset => Ok(to as i64),
        _ => Ok(op.offset),
    }
}

/// What a request to move an offset works on.
pub fn seek(descs: &mut Descs, tree: &mut Tree, caller: Speaker, op: op::Seek) -> Tried {
    let desc = descs.of(caller.pid, op.desc)?;
    let size = match &desc.object {
        Object::File(ino) => tree.files().names().get(*ino)?.size(),
        Object::Disk { content, .. } => {
            let new = disks::seek(tree.files().names().get(*content)?.size(), desc.offset, op)?;
            descs.of_mut(caller.pid, op.desc)?.offset = new;
            return done(Offset { offset: new });
        }
        Object::Text(_, text) => text.len() as u64,
        Object::Messages(ino) => tree.files().names().get(*ino)?.size(),
        Object::Dir(_) | Object::Device(..) | Object::Memory(..) => i64::MAX as u64,
        Object::Path(_) => return Err(Errno::EBADF),
        _ => return Err(Errno::ESPIPE),
    } as i64;
    let offset = op.offset;
    let new = match op.whence {
        SEEK_SET => Some(offset),
        SEEK_CUR => (desc.offset as i64).checked_add(offset),
        SEEK_END if !matches!(desc.object, Object::Dir(_) | Object::Device(..)) => {
            size.checked_add(offset)
        }
        SEEK_END => Some(0),
        SEEK_DATA | SEEK_HOLE if !(0..size).contains(&offset) => return Err(Errno::ENXIO),
        SEEK_DATA | SEEK_HOLE => Some(match desc.object {
            Object::File(ino) => sought(tree, ino, op)?,
            _ if op.whence == SEEK_DATA => offset,
            _ => size,
        }),
        _ => return Err(Errno::EINVAL),
    };
    let new = new.ok_or(Errno::EINVAL)?;
    if new < 0 {
        return Err(Errno::EINVAL);
    }
    descs.of_mut(caller.pid, op.desc)?.offset = new as u64;
    done(Offset { offset: new as u64 })
}
