//! Opening and creating files.

use crate::content::{refused, writer};
use crate::counters::Origin;
use crate::descs::{Handles, Heirs, Object, Place};
use crate::homes;
use crate::lines::LineId;
use crate::load::Load;
use crate::loans;
use crate::messages::Messages;
use crate::names::{Found, View};
use crate::nodes::Node;
use crate::notify::FileEvent;
use crate::pathops::{inode_stat, show_at_once, show_stat};
use crate::pipes;
use crate::procs::{NextHome, Procs, State, INIT};
use crate::registers;
use crate::semaphores::Semaphores;
use crate::server::setid::set_ids;
use crate::share::OpenFile;
use crate::signals::UNSTOPPABLE;
use crate::stock::Stock;
use crate::system::System;
use crate::voices::Speaker;
use crate::volumes::flag;
use crate::wait::{done, Call, Outcome, Tried};
use abi::layout::PAGE;
use files::{Allocation, Claim, Refusal, Writer};
use memfs::{Attr, Cred, Ino, Resolve};
use notices::mask;
use unixproto::files::*;
use unixproto::ops::{Opened, PipeEnds};
use unixproto::{op, Errno};

/// Bytes of a large page.
pub const LARGE_PAGE: u64 = 2 << 20;

/// Device numbers of what is in `/dev`.
pub mod device {
    /// `makedev` for small numbers.
    pub const fn number(major: u64, minor: u64) -> u64 {
        major << 8 | minor
    }
    pub const NULL: u64 = number(1, 3);
    pub const ZERO: u64 = number(1, 5);
    pub const FULL: u64 = number(1, 7);
    pub const RANDOM: u64 = number(1, 8);
    pub const URANDOM: u64 = number(1, 9);
    pub const TTY: u64 = number(5, 0);
    pub const CONSOLE: u64 = number(5, 1);
    pub const SERIAL: u64 = number(4, 64);
    pub const PTMX: u64 = number(5, 2);
    /// The registers of the timer, as Linux has it.
    pub const HPET: u64 = number(10, 228);
    /// Pseudoterminals, by their minor numbers.
    pub const PTS_MAJOR: u64 = 136;
    /// The memory disk, which is a block device.
    pub const RAM_DISK: u64 = number(1, 0);
    /// The disk for pages.
    pub const SWAP: u64 = number(254, 240);
    /// Major number of disks with a server, as Debian has it mostly.
    pub const VIRTIO_DISKS: u64 = 254;
}

/// What requests to open something work on.
pub struct Opening<'a> {
    pub handles: Handles<'a>,
    pub procs: &'a Procs,
    pub stock: &'a mut Stock,
    pub system: &'a System,
    pub load: &'a Load,
    pub messages: &'a mut Messages,
    pub semaphores: &'a mut Semaphores,
    pub caller: Speaker,
}

impl Opening<'_> {
    /// Is the program of this file, which the caller is about to execute, to have its home at another core than the caller? It is the same for
    /// each file that is opened on the way: scripts, and once more before the program takes over.
    fn goes_elsewhere(&self, file: Ino) -> bool {
        let Ok(proc) = self.procs.get(self.caller.pid) else { return false };
        // The library of one that runs in another's memory makes its domain where it is itself.
        let stays = proc.native || proc.guest.is_some();
        if stays || self.procs.tracees.has_thread_of(self.caller.pid) {
            return false;
        }
        let home = self.procs.core_of(self.caller.pid);
        let now = self.handles.clock.now();
        let next = proc.next_home.get().filter(|next| next.holds(now)).or_else(|| {
            let file = file.0.into();
            let core = homes::choose(self.procs, self.caller.tid, home, file, now)?;
            Some(NextHome { core, chosen: now, file })
        });
        proc.next_home.set(next);
        next.is_some_and(|next| next.core != home)
    }

    /// The tree as the process sees it.
    pub fn view(&self) -> Result<View<'_>, Errno> {
        View::new(self.handles.tree, self.procs, self.handles.descs, self.caller)
    }
    /// On whose behalf the process opens files.
    pub fn cred(&self) -> Cred {
        self.procs.cred(self.caller.pid)
    }
    pub(crate) fn names(&self) -> &memfs::Fs<crate::frames::Contents> {
        self.handles.tree.files().names()
    }
    /// May the process open `count` more?
    pub(crate) fn room(&self, count: usize) -> Result<(), Errno> {
        self.handles.descs.room(self.caller.pid, self.cred().uid, count)
    }

    /// Opens, creates if wanted.
    pub fn open(&mut self, call: &mut Call, op: op::Open) -> Tried {
        if call.kept != 0 {
            return self.open_fifo(call);
        }
        self.handles.leases.leave(self.caller.tid);
        check_exec(op)?;
        self.room(1)?;
        let path = self.procs.path(self.caller, call)?;
        if op.flags & O_TMPFILE == O_TMPFILE {
            return self.open_unnamed(op, &path);
        }
        let exclusive = op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        let follow = op.flags & O_NOFOLLOW == 0 && !exclusive;
        let resolve = resolve_of(op.extra);
        let found = match op.flags & O_CREAT == 0 && resolve == Resolve::default() {
            true => self.view()?.walk_again(op.dir, &path, follow)?,
            false => self.view()?.walk_as(op.dir, &path, follow, resolve)?,
        };
        let op = op::Open { extra: op.extra & (OPEN_EXEC | OPEN_KEEP), ..op };
        match found.node {
            Some(_) if exclusive => Err(Errno::EEXIST),
            Some(_) if op.flags & O_CREAT != 0 && found.slash => Err(Errno::EISDIR),
            Some(node) => self.open_node(call, op, found, node, false),
            None if op.flags & O_CREAT == 0 => Err(Errno::ENOENT),
            None => self.create(call, op, found),
        }
    }

    fn create(&mut self, call: &mut Call, op: op::Open, found: Found) -> Tried {
        if found.slash {
            return Err(Errno::EISDIR);
        }
        if op.flags & O_DIRECTORY != 0 {
            return Err(Errno::EINVAL);
        }
        if !matches!(found.parent, Node::Proc(_)) {
            self.handles.tree.may_write(found.above)?;
        }
        let dir = match found.parent {
            Node::Mem(dir) => dir,
            Node::Proc(_) => return Err(Errno::ENOENT),
            Node::Share(dir) => {
                let file = self.view()?.visit(dir)?.create(dir, &found.name, op)?;
                return self.open_shared(op, found, file);
            }
        };
        // A link that leads nowhere was followed to its end already.
        let ino = match self.names().has_queues(dir) {
            true => self.new_queue(dir, &found.name, op.mode)?,
            false => self.new_file(dir, &found.name, op.mode)?,
        };
        let Handles { fx, .. } = &mut self.handles;
        fx.observe(|| FileEvent::of_name(mask::CREATE, dir, &found.name, false));
        self.open_node(call, op, found, Node::Mem(ino), true)
    }

    /// Makes a regular file.
    fn new_file(&mut self, dir: Ino, name: &[u8], mode: u32) -> Result<Ino, Errno> {
        if self.stock.has_no_names(self.cred().uid) {
            return Err(Errno::ENOSPC);
        }
        let attr = self.attr(mode);
        self.handles.tree.files_mut().create(dir, name, attr)
    }

    /// Attributes of what the process makes.
    fn attr(&self, mode: u32) -> Attr {
        Attr { mode: mode & 0o7777, cred: self.cred(), now: self.handles.clock.wall() }
    }

    fn open_unnamed(&mut self, op: op::Open, path: &[u8]) -> Tried {
        if op.flags & O_ACCMODE == O_RDONLY {
            return Err(Errno::EINVAL);
        }
        let found = self.view()?.walk_as(op.dir, path, true, resolve_of(op.extra))?;
        let Node::Mem(dir) = found.existing()? else {
            // Neither processes nor the host have a place for it.
            return Err(Errno::EOPNOTSUPP);
        };
        self.handles.tree.may_write(found.mount)?;
        let inode = self.names().get(dir)?;
        inode.dir()?;
        inode.permits(&self.cred(), memfs::WRITE | memfs::EXEC)?;
        if self.stock.has_no_names(self.cred().uid) {
            return Err(Errno::ENOSPC);
        }
        let attr = self.names().inherited(dir, self.attr(op.mode), false)?;
        let ino = self.handles.tree.files_mut().create_unnamed_in(dir, attr)?;
        self.opened(Object::File(ino), op.flags, None, Claim::Writes)
    }

    pub(crate) fn open_node(
        &mut self,
        call: &mut Call,
        op: op::Open,
        found: Found,
        node: Node,
        new: bool,
    ) -> Tried {
        let flags = self.handles.tree.flags(found.mount);
        if op.extra & OPEN_EXEC != 0 && flags & flag::NOEXEC != 0 {
            return Err(Errno::EACCES);
        }
        let object = match node {
            Node::Proc(node) => self.open_proc(node, op)?,
            Node::Share(node) => return self.open_share(node, op, found),
            Node::Mem(ino) => {
                if !new {
                    self.may_open(ino, op)?;
                    self.may_by_mount(ino, op, flags)?;
                }
                if let (Some(device), 0) = (self.disk_of(ino)?, op.flags & O_PATH) {
                    return self.open_disk(device, op, found);
                }
                self.object(ino, op)?
            }
        };
        let claim = match object {
            Object::File(ino) => self.claimed(ino, op)?,
            _ => Claim::None,
        };
        if let Object::File(ino) = object {
            let Handles { leases, clock, tree, fx, .. } = &mut self.handles;
            let on = (&**clock, tree.made());
            if let Some(until) = leases.pass((ino, op.flags), self.caller.tid, on, fx)? {
                return Ok(Outcome::Block(until));
            }
        }
        if let (Object::File(ino), true) = (&object, op.flags & O_TRUNC != 0 && !new) {
            self.handles.seals.permit_size(*ino, self.names().get(*ino)?.size(), 0)?;
            let writer = writer(self.procs, self.caller, self.handles.clock.wall())?;
            let resized = self.handles.tree.files_mut().resize(*ino, 0, writer);
            resized.map_err(|refusal| refused(refusal, self.caller, self.handles.fx))?;
        }
        if let Some(node) = object.node() {
            self.handles.tree.hold(node);
        }
        // Whoever opens it again in such a way need not ask.
        let led = found.known.filter(|_| op.extra == OPEN_KEEP && op.dir == CWD);
        let place = self.place(found);
        if let Object::Pipe(pipe, fifo) = object {
            self.handles.pipes.opened(pipe, op.flags, self.handles.fx);
            if fifo.is_some() {
                call.kept = self.open_desc(object, op.flags, Some(place), claim)?;
                return self.open_fifo(call);
            }
        }
        let runs_as_other = match object {
            Object::File(ino) if op.extra & OPEN_EXEC != 0 => {
                let who = &self.procs.get(self.caller.pid)?.who;
                let may_change = flags & flag::NOSUID == 0;
                let changes = may_change && who.would_change(set_ids(self.handles.tree, ino, who));
                changes || self.goes_elsewhere(ino)
            }
            _ => false,
        };
        if runs_as_other {
            let (kind, inode) = (Kind::SetId as u8, object.inode());
            let desc = self.open_desc(object, op.flags, Some(place), claim)?;
            return done(Opened { desc, kind, inode, is_stored: false, is_large: false });
        }
        let truncated = match object {
            Object::File(ino) if op.flags & O_TRUNC != 0 && !new && self.handles.fx.observed() => {
                let place = Some((place.dir, place.name.clone()));
                Some(FileEvent { place, ..FileEvent::of_file(mask::MODIFY, ino) })
            }
            _ => None,
        };
        if let (Some(at), Node::Mem(ino)) = (led, node) {
            if self.let_keep(ino, at).is_some() {
                return self.opened_as(object, op.flags, Some(place), claim, LED);
            }
        }
        if let (Object::File(ino), OPEN_KEEP) = (&object, op.extra) {
            self.look_ahead(*ino);
        }
        let opened = self.opened(object, op.flags, Some(place), claim)?;
        if let Some(event) = truncated {
            self.handles.fx.observe(|| event);
        }
        Ok(opened)
    }

    /// Lets a process keep a file that it opens in a plain way by a path which is kept at a place, unless that could be noticed: then the
    /// data says since when paths lead where they lead. `None`: it may not.
    fn let_keep(&mut self, ino: Ino, at: usize) -> Option<()> {
        let pid = self.caller.pid;
        let proc = self.procs.get(pid).ok()?;
        let session = proc.session().ok()?;
        let Handles { tree, fx, leases, descs, clock, .. } = &mut self.handles;
        let inode = tree.files().names().get(ino).ok()?;
        let is_plain = matches!(inode.node, memfs::Node::File { .. });
        let is_seen = fx.observed() || !leases.is_empty() || descs.is_beside(pid);
        let is_other = !proc.may_keep.get() || proc.who.space.is_some();
        if !is_plain || tree.files().grain(ino) != PAGE || is_seen || is_other {
            return None;
        }
        loans::end(tree.files_mut(), self.procs, clock, ino);
        let stat = inode_stat(tree, ino).ok()?;
        let known = show_stat(tree, self.procs, (pid, ino), Some(at), &stat);
        if known.ways == 0 {
            return None;
        }
        session.files().stat(known.inode).let_keep(known.inode);
        self.procs.put(self.caller, &known.ways.to_le_bytes()).ok()
    }

    /// A process that has asked for the attributes of what it has opened before is shown those of a file that it opens.
    #[inline]
    fn look_ahead(&mut self, ino: Ino) {
        let pid = self.caller.pid;
        let session = self.procs.get(pid).and_then(|proc| proc.session());
        if session.is_ok_and(|session| session.files().open(ino.0.into())) {
            self.show_opened(ino);
        }
    }

    #[inline(never)]
    fn show_opened(&mut self, ino: Ino) {
        let pid = self.caller.pid;
        if self.procs.get(pid).is_ok_and(|proc| proc.who.space.is_none()) {
            let Handles { tree, clock, .. } = &mut self.handles;
            loans::end(tree.files_mut(), self.procs, clock, ino);
            if let Ok(stat) = inode_stat(self.handles.tree, ino) {
                show_at_once(self.handles.tree, self.procs, (pid, ino), &stat);
            }
        }
    }

    /// Where something was found, held.
    fn place(&mut self, found: Found) -> Place {
        let Found { parent: dir, name, above, mount, .. } = found;
        let tree = &mut self.handles.tree;
        tree.hold(dir);
        tree.hold_mount(mount);
        if above != mount {
            tree.hold_mount(above);
        }
        Place { dir, name, above, mount, dissolves: false }
    }

    /// `EROFS`, `EACCES`: by a mount with these flags it is not opened so.
    fn may_by_mount(&self, ino: Ino, op: op::Open, flags: u32) -> Result<(), Errno> {
        if op.flags & O_PATH != 0 {
            return Ok(());
        }
        let writes = op.flags & O_ACCMODE != O_RDONLY || op.flags & O_TRUNC != 0;
        match self.names().get(ino)?.node {
            memfs::Node::File { .. } if writes && flags & flag::RDONLY != 0 => Err(Errno::EROFS),
            memfs::Node::Device(_) | memfs::Node::Block(_) if flags & flag::NODEV != 0 => {
                Err(Errno::EACCES)
            }
            _ => Ok(()),
        }
    }

    /// The device number of an inode that is a disk with a server.
    fn disk_of(&self, ino: Ino) -> Result<Option<u64>, Errno> {
        Ok(match self.names().get(ino)?.node {
            memfs::Node::Block(number) => {
                self.handles.tree.device(number).is_some().then_some(number)
            }
            _ => None,
        })
    }

    /// Opens a disk.
    fn open_disk(&mut self, device: u64, op: op::Open, found: Found) -> Tried {
        let share = self.handles.tree.device(device).ok_or(Errno::ENXIO)?;
        let file = share.visit(self.caller.tid, self.cred()).open_disk(op)?;
        self.open_shared(op, found, file)
    }

    /// Opens what is in the folder of the host.
    fn open_share(&mut self, node: u32, op: op::Open, found: Found) -> Tried {
        let visit = self.view()?.visit(node)?;
        if op.flags & O_PATH == 0 {
            if op.flags & O_ACCMODE != O_RDONLY || op.flags & O_TRUNC != 0 {
                self.handles.tree.may_write(found.mount)?;
            }
            let file = visit.open(node, op)?;
            return self.open_shared(op, found, file);
        }
        let kind = visit.stat(node)?.mode & S_IFMT;
        let object = match kind {
            S_IFDIR => Object::Dir(Node::Share(node)),
            _ if op.flags & O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
            _ => Object::Path(Node::Share(node)),
        };
        self.opened_at(op, found, Node::Share(node), object)
    }

    /// Gives the process a description of an open file of the host.
    fn open_shared(&mut self, op: op::Open, found: Found, file: OpenFile) -> Tried {
        self.opened_at(op, found, Node::Share(file.node), Object::Shared(file))
    }

    fn opened_at(&mut self, op: op::Open, found: Found, node: Node, object: Object) -> Tried {
        self.handles.tree.hold(node);
        let place = self.place(found);
        self.opened(object, op.flags, Some(place), Claim::None)
    }

    /// What an open of a regular file claims. `ETXTBSY`: somebody else's claim is in the way.
    fn claimed(&mut self, ino: Ino, op: op::Open) -> Result<Claim, Errno> {
        let file = self.handles.tree.files().content(ino)?;
        let writes = matches!(op.flags & O_ACCMODE, O_WRONLY | O_RDWR);
        if op.extra & OPEN_EXEC != 0 {
            return match file.writers() {
                0 => Ok(Claim::Executes),
                _ => Err(Errno::ETXTBSY),
            };
        }
        match file.texts() {
            0 if writes => Ok(Claim::Writes),
            1.. if writes || op.flags & O_TRUNC != 0 => Err(Errno::ETXTBSY),
            _ => Ok(Claim::None),
        }
    }

    /// Gives the process a description of what is held already.
    pub(crate) fn open_desc(
        &mut self,
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
    ) -> Result<u32, Errno> {
        let uid = self.procs.get(self.caller.pid)?.who.users.file;
        self.handles.open((self.caller.pid, uid), object, flags, place, claim)
    }

    /// An unnamed file of so many zeros.
    pub fn mem_file(&mut self, op: op::MemFile) -> Tried {
        let (desc, ino) = self.unnamed(op.size, op.large)?;
        Self::memory(desc, ino, op.large, Kind::Regular)
    }

    /// Private memory of the caller.
    pub fn own_memory(&mut self, op: op::OwnMemory) -> Tried {
        let (desc, ino) = self.unnamed(op.size, false)?;
        let user = self.cred().uid;
        if let Err(error) = self.handles.tree.files_mut().advise(ino, op.large, user) {
            self.handles.close(self.caller.pid, desc);
            return Err(error);
        }
        self.handles.descs.set_heirs(desc, Heirs::Parent);
        Self::memory(desc, ino, false, Kind::Regular)
    }

    /// More of private memory of the caller. It is no file to the program: `RLIMIT_FSIZE` does not concern it.
    pub fn own_more(&mut self, op: op::OwnMore) -> Tried {
        let desc = self.handles.descs.of(self.caller.pid, op.desc)?;
        let (&Object::File(ino), Heirs::Parent) = (&desc.object, desc.heirs) else {
            return Err(Errno::EINVAL);
        };
        if op.size > memfs::SIZE_MAX {
            return Err(Errno::ENOMEM);
        }
        let writer = Writer { cred: self.cred(), limit: u64::MAX, now: self.handles.clock.wall() };
        let files = self.handles.tree.files_mut();
        let most = files.enlarge(ino, (op.size, op.ahead), writer);
        let most = most.map_err(|refusal| refused(refusal, self.caller, self.handles.fx))?;
        done(unixproto::ops::Count { count: most })
    }

    /// A copy of private memory of the caller, for its next child.
    pub fn heir(&mut self, desc: u32) -> Tried {
        let pid = self.caller.pid;
        let parent = self.handles.descs.of(pid, desc)?;
        let (&Object::File(from), Heirs::Parent) = (&parent.object, parent.heirs) else {
            return Err(Errno::EINVAL);
        };
        let (desc, ino) = self.unnamed(0, false)?;
        let writer = Writer { cred: self.cred(), limit: u64::MAX, now: self.handles.clock.wall() };
        let cloned = self.handles.tree.files_mut().clone_contents(from, ino, writer);
        if let Err(refusal) = cloned {
            self.handles.close(pid, desc);
            return Err(refused(refusal, self.caller, self.handles.fx));
        }
        self.handles.descs.set_heirs(desc, Heirs::Child);
        Self::memory(desc, ino, false, Kind::Regular)
    }

    /// Memory on its way from process to process.
    pub fn pass_memory(&mut self, op: op::PassMemory) -> Tried {
        let pid = self.caller.pid;
        let source = self.handles.descs.of(pid, op.desc)?;
        let &Object::File(from) = &source.object else { return Err(Errno::EINVAL) };
        match (source.heirs, op.takes) {
            (Heirs::Parent, false) => {}
            (Heirs::Both, false) => source.readable()?,
            (Heirs::Both, true) => source.readable().and_then(|()| source.writable())?,
            _ => return Err(Errno::EINVAL),
        }
        if !(op.offset | op.bytes).is_multiple_of(PAGE) || op.bytes == 0 {
            return Err(Errno::EINVAL);
        }
        let size = self.names().get(from)?.size();
        let end = op.offset.checked_add(op.bytes).ok_or(Errno::EINVAL)?;
        if end > size.next_multiple_of(PAGE) {
            return Err(Errno::ENODATA);
        }
        let cut = if end >= size { Some(op.offset) } else { None };
        if op.takes {
            self.handles.seals.permit_clone(from)?;
        }
        let (desc, ino) = self.unnamed(0, false)?;
        let passed = self.pass_contents((from, ino), (op.offset, end));
        let taken = passed.and_then(|()| match (op.takes, cut) {
            (false, _) => Ok(()),
            (true, Some(size)) => {
                let writer = self.unlimited();
                self.handles.tree.files_mut().resize(from, size, writer)
            }
            (true, None) => self.punch(from, (op.offset, op.bytes)),
        });
        if let Err(refusal) = taken {
            self.handles.close(pid, desc);
            return Err(refused(refusal, self.caller, self.handles.fx));
        }
        if op.own {
            self.handles.descs.set_heirs(desc, Heirs::Parent);
        }
        Self::memory(desc, ino, false, Kind::Regular)
    }

    /// A new file gets a part of the contents of another one, and nothing else.
    fn pass_contents(
        &mut self,
        (from, to): (Ino, Ino),
        (start, end): (u64, u64),
    ) -> Result<(), Refusal> {
        let (clones, cuts) = (self.unlimited(), self.unlimited());
        let files = self.handles.tree.files_mut();
        files.clone_contents(from, to, clones)?;
        files.resize(to, end, cuts)?;
        match start {
            0 => Ok(()),
            _ => self.punch(to, (0, start)),
        }
    }

    fn punch(&mut self, ino: Ino, range: (u64, u64)) -> Result<(), Refusal> {
        let writer = self.unlimited();
        self.handles.tree.files_mut().allocate_range(ino, Allocation::Punch, range, writer)
    }

    /// Memory is no file to the program: `RLIMIT_FSIZE` does not concern it.
    fn unlimited(&self) -> Writer {
        Writer { cred: self.cred(), limit: u64::MAX, now: self.handles.clock.wall() }
    }

    pub(crate) fn unnamed(&mut self, size: u64, is_large: bool) -> Result<(u32, Ino), Errno> {
        let Speaker { pid, .. } = self.caller;
        let cred = self.cred();
        let uid = cred.uid;
        self.handles.descs.room(pid, uid, 1)?;
        if size > memfs::SIZE_MAX {
            return Err(Errno::ENOMEM);
        }
        let attr = Attr { mode: 0o777, cred, now: self.handles.clock.wall() };
        let files = self.handles.tree.files_mut();
        let ino = files.create_unnamed(size, attr)?;
        if is_large {
            files.set_grain(ino, LARGE_PAGE)?;
        }
        let object = Object::File(ino);
        let desc = self.handles.open((pid, uid), object, O_RDWR, None, Claim::None)?;
        Ok((desc, ino))
    }

    pub(crate) fn memory(desc: u32, ino: Ino, is_large: bool, kind: Kind) -> Tried {
        let (kind, inode) = (kind as u8, ino.0.into());
        done(Opened { desc, kind, inode, is_stored: false, is_large })
    }

    /// For whom a pipe is made.
    fn pipe_user(&self) -> Result<pipes::User, Errno> {
        let proc = self.procs.get(self.caller.pid)?;
        Ok(pipes::User { id: proc.who.users.real, is_exempt: pipes::is_exempt(proc) })
    }

    /// Makes a pipe.
    pub fn pipe(&mut self, flags: u32) -> Tried {
        self.room(2)?;
        let (cred, user) = (self.cred(), self.pipe_user()?);
        let Handles { pipes, fx, .. } = &mut self.handles;
        let pipe = pipes.add(user, None, (cred.uid, cred.gid))?;
        let status = flags & O_NONBLOCK;
        pipes.opened(pipe, O_RDONLY, fx);
        pipes.opened(pipe, O_WRONLY, fx);
        let object = || Object::Pipe(pipe, None);
        let read = self.open_desc(object(), O_RDONLY | status, None, Claim::None)?;
        let write = self.open_desc(object(), O_WRONLY | status, None, Claim::None)?;
        done(PipeEnds { read, write })
    }

    /// Makes a counter for an `eventfd`.
    pub fn event(&mut self, op: op::Event) -> Tried {
        self.room(1)?;
        let origin = Origin::Writes { semaphore: op.semaphore };
        let number = self.handles.counters.make(origin, op.count)?;
        let flags = O_RDWR | op.flags & O_NONBLOCK;
        self.opened(Object::Counter(Kind::Event, number), flags, None, Claim::None)
    }

    /// Makes a timer for a `timerfd`.
    pub fn alarm(&mut self, op: op::Alarm) -> Tried {
        self.room(1)?;
        let Handles { counters, clock, .. } = &mut self.handles;
        let number = counters.make(Origin::Clock(op.clock), 0)?;
        counters.set(number, (op.deadline, op.interval), clock)?;
        let flags = O_RDWR | op.flags & O_NONBLOCK;
        self.opened(Object::Counter(Kind::Timer, number), flags, None, Claim::None)
    }

    /// Makes a set of `epoll`.
    pub fn set(&mut self) -> Tried {
        self.room(1)?;
        let number = self.handles.sets.make()?;
        self.opened(Object::Set(number), O_RDWR, None, Claim::None)
    }

    /// Makes a `signalfd`.
    pub fn signals(&mut self, op: op::Signals) -> Tried {
        self.room(1)?;
        let flags = O_RDWR | op.flags & O_NONBLOCK;
        self.opened(Object::Signals(op.set & !UNSTOPPABLE), flags, None, Claim::None)
    }

    /// Opens a process.
    pub fn process(&mut self, op: op::OpenProcess) -> Tried {
        self.room(1)?;
        // The first one ends with the machine.
        let is_over = op.pid != INIT && self.procs.get(op.pid)?.state == State::Zombie;
        let number = self.handles.counters.of_process(op.pid, is_over)?;
        let flags = O_RDWR | op.flags & O_NONBLOCK;
        self.opened(Object::Counter(Kind::Process, number), flags, None, Claim::None)
    }

    pub(crate) fn opened(
        &mut self,
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
    ) -> Tried {
        self.opened_as(object, flags, place, claim, 0)
    }

    #[inline(always)]
    fn opened_as(
        &mut self,
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
        more: u8,
    ) -> Tried {
        let kind = self.handles.seals.kind(&object, flags) as u8 | more;
        let inode = object.inode();
        let (is_stored, is_large) =
            (self.handles.tree.stores(&object), self.handles.tree.is_large(&object));
        let desc = self.open_desc(object, flags, place, claim)?;
        done(Opened { desc, kind, inode, is_stored, is_large })
    }

    /// A fifo is open when its other end is.
    pub(crate) fn open_fifo(&mut self, call: &mut Call) -> Tried {
        let desc = self.handles.descs.of(self.caller.pid, call.kept)?;
        let Object::Pipe(pipe, Some(ino)) = desc.object else { return Err(Errno::EBADF) };
        let flags = desc.flags;
        if !self.handles.pipes.is_joined(pipe, flags, self.caller) {
            let writer = flags & O_ACCMODE == O_WRONLY;
            if flags & O_NONBLOCK == 0 {
                return Ok(Outcome::Block(0));
            }
            if writer {
                self.handles.close(self.caller.pid, call.kept);
                return Err(Errno::ENXIO);
            }
        }
        let (kind, inode) = (Kind::Pipe as u8, ino.0.into());
        done(Opened { desc: call.kept, kind, inode, is_stored: false, is_large: false })
    }

    fn may_open(&self, ino: Ino, op: op::Open) -> Result<(), Errno> {
        let inode = self.names().get(ino)?;
        if matches!(inode.node, memfs::Node::Symlink(_)) && op.flags & O_PATH == 0 {
            return Err(Errno::ELOOP);
        }
        if op.flags & O_DIRECTORY != 0 {
            inode.dir()?;
        }
        if op.flags & O_PATH != 0 {
            return Ok(());
        }
        let writes = op.flags & O_ACCMODE != O_RDONLY || op.flags & O_TRUNC != 0;
        if inode.is_dir() && (writes || op.flags & O_CREAT != 0) {
            return Err(Errno::EISDIR);
        }
        let mut wanted = match op.flags & O_ACCMODE {
            O_RDONLY => memfs::READ,
            O_WRONLY => memfs::WRITE,
            _ => memfs::READ | memfs::WRITE,
        };
        if op.extra & OPEN_EXEC != 0 {
            if !matches!(inode.node, memfs::Node::File { .. }) {
                return Err(Errno::EACCES);
            }
            wanted = memfs::EXEC;
        }
        if op.flags & O_TRUNC != 0 {
            wanted |= memfs::WRITE;
        }
        let cred = self.cred();
        inode.permits(&cred, wanted)?;
        match op.flags & O_NOATIME {
            0 => Ok(()),
            _ => inode.owned_by(&cred),
        }
    }

    fn object(&mut self, ino: Ino, op: op::Open) -> Result<Object, Errno> {
        let node = Node::Mem(ino);
        if op.flags & O_PATH == O_PATH {
            return Ok(match self.names().get(ino)?.is_dir() {
                true => Object::Dir(node),
                false => Object::Path(node),
            });
        }
        match self.names().get(ino)?.node {
            memfs::Node::File { .. } => Ok(Object::File(ino)),
            memfs::Node::Dir(_) => Ok(Object::Dir(node)),
            memfs::Node::Queue => Ok(Object::Messages(ino)),
            memfs::Node::Fifo => {
                let user = self.pipe_user()?;
                Ok(Object::Pipe(self.handles.pipes.fifo(user, ino)?, Some(ino)))
            }
            memfs::Node::Device(number) => self.open_device(ino, number, op.flags),
            memfs::Node::Block(number) => {
                let content = self.handles.tree.disk(number).ok_or(Errno::ENXIO)?;
                Ok(Object::Disk { node: ino, content })
            }
            _ => Err(Errno::ENXIO),
        }
    }

    fn open_device(&mut self, ino: Ino, number: u64, flags: u32) -> Result<Object, Errno> {
        Ok(match number {
            device::NULL => Object::Device(Kind::Null, ino),
            device::ZERO => Object::Device(Kind::Zero, ino),
            device::FULL => Object::Device(Kind::Full, ino),
            device::RANDOM | device::URANDOM => Object::Device(Kind::Random, ino),
            device::HPET if !registers::are_there() => return Err(Errno::ENXIO),
            device::HPET if flags & O_ACCMODE != O_RDONLY => return Err(Errno::EINVAL),
            device::HPET => Object::Device(Kind::Registers, ino),
            device::TTY => {
                let session = self.procs.get(self.caller.pid)?.sid;
                let Handles { terminal, fx, .. } = &mut self.handles;
                let line = terminal.controls.of(session).ok_or(Errno::ENXIO)?;
                terminal.opened(line, fx)?;
                Object::Tty(line, Some(ino))
            }
            device::CONSOLE | device::SERIAL => {
                if flags & O_NOCTTY == 0 {
                    self.handles.terminal.adopt(LineId::Console, self.procs, self.caller.pid);
                }
                Object::Tty(LineId::Console, Some(ino))
            }
            device::PTMX => Object::Master(self.open_master()?, Some(ino)),
            _ => {
                let line = LineId::of_device(number).ok_or(Errno::ENXIO)?;
                let Handles { terminal, fx, .. } = &mut self.handles;
                terminal.opened(line, fx)?;
                if flags & O_NOCTTY == 0 {
                    terminal.adopt(line, self.procs, self.caller.pid);
                }
                Object::Tty(line, Some(ino))
            }
        })
    }
}

/// Where `openat2` is not to be led.
fn resolve_of(extra: u32) -> Resolve {
    let has = |bit: u32| extra >> RESOLVE_SHIFT & bit != 0;
    Resolve {
        no_other_mount: has(RESOLVE_NO_XDEV),
        no_jumps: has(RESOLVE_NO_MAGICLINKS),
        no_links: has(RESOLVE_NO_SYMLINKS),
        beneath: has(RESOLVE_BENEATH),
        in_root: has(RESOLVE_IN_ROOT),
    }
}

/// `EINVAL` for a file that is to be executed, or may be kept, and is opened in any other way than that.
fn check_exec(op: op::Open) -> Result<(), Errno> {
    const HARMLESS: u32 = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    match op.extra & !(0xff << RESOLVE_SHIFT) {
        0 => Ok(()),
        OPEN_KEEP if op.flags & !O_CLOEXEC == O_RDONLY => Ok(()),
        OPEN_EXEC if op.flags & !HARMLESS == O_RDONLY => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}
