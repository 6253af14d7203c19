//! Requests about names and attributes.

use crate::clock::Clock;
use crate::content::{refused, writer};
use crate::descs::{Desc, Descs, Object};
use crate::effects::Effects;
use crate::leases::AllLeases;
use crate::loans;
use crate::lower::UNREAD;
use crate::morefds::ShownFd;
use crate::names::{Found, Parent, View};
use crate::nodes::{Node, Tree};
use crate::notify::{generation, FileEvent};
use crate::pipes::Pipes;
use crate::procfs::ProcNode;
use crate::procs::{cred_of, Pid, Proc, Procs};
use crate::seals::Seals;
use crate::share::{folder_of, Visit};
use crate::stock::Stock;
use crate::voices::Speaker;
use crate::volumes::{device_of_volume, flag, Spot};
use crate::wait::{count, done, Call, Outcome, Tried};
use credentials::Capability;
use files::Refusal;
use memfs::{Attr, Cred, Fs, Ino, Kept, Name, Names, Part, Step, PATH_MAX};
use notices::mask;
use unixproto::files::*;
use unixproto::ops::{Inode, Known};
use unixproto::{op, Errno};

/// Device number of the file system.
pub const DEVICE: u64 = 1;
/// That of persistent files.
pub const PMEM_DEVICE: u64 = 4;
/// Bytes of a block, for `st_blocks`.
const BLOCK: u64 = 512;

/// What requests about names and attributes work on.
pub struct PathOps<'a> {
    pub tree: &'a mut Tree,
    pub descs: &'a mut Descs,
    pub procs: &'a mut Procs,
    pub pipes: &'a mut Pipes,
    pub seals: &'a Seals,
    pub leases: &'a mut AllLeases,
    pub stock: &'a mut Stock,
    pub clock: &'a Clock,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
}

impl PathOps<'_> {
    pub(crate) fn view(&self) -> Result<View<'_>, Errno> {
        View::new(self.tree, self.procs, self.descs, self.caller)
    }
    fn names(&mut self) -> &mut Fs<crate::frames::Contents> {
        self.tree.files_mut().names_mut()
    }
    pub(crate) fn cred(&self) -> Cred {
        self.procs.cred(self.caller.pid)
    }
    /// Attributes of what the process makes.
    fn attr(&self, mode: u32) -> Attr {
        Attr { mode: mode & 0o7777, cred: self.cred(), now: self.clock.wall() }
    }
    fn last(&self, dir: u32, path: &[u8]) -> Result<(Parent, Found), Errno> {
        self.view()?.last(dir, path)
    }
    /// What others have and a node is in.
    pub(crate) fn visit(&self, node: u32) -> Result<Visit<'_>, Errno> {
        self.view()?.visit(node)
    }
    pub(crate) fn has(&self, capability: Capability) -> Result<bool, Errno> {
        Ok(self.procs.get(self.caller.pid)?.has(capability))
    }

    /// Something was done to a file.
    fn changed(&mut self, mask: u32, ino: Ino, place: Option<(Node, Name)>) {
        self.fx.observe(|| FileEvent { place, ..FileEvent::of_file(mask, ino) });
    }

    /// A name has come or gone.
    fn named(&mut self, mask: u32, dir: Ino, name: &[u8], is_dir: bool) {
        self.fx.observe(|| FileEvent::of_name(mask, dir, name, is_dir));
    }

    /// A name of a file is gone; perhaps that was all of it.
    fn perhaps_gone(&mut self, ino: Ino) {
        if self.tree.files().names().get(ino).is_err() {
            self.fx.observe(|| FileEvent::of_file(mask::DELETE_SELF, ino));
        }
    }

    /// A file has another name now, which was that of another one.
    fn moved(&mut self, ino: Ino, from: (Ino, &[u8]), to: (Ino, &[u8]), target: Option<Ino>) {
        if self.tree.files().names().is_held(ino) {
            for _ in 0..self.descs.moved(ino, from, to) {
                self.tree.hold(Node::Mem(to.0));
                self.tree.release(Node::Mem(from.0));
            }
        }
        if !self.fx.observed() {
            return;
        }
        let is_dir = self.tree.files().names().get(ino).is_ok_and(|inode| inode.is_dir());
        let moved = generation(self.tree, ino);
        let cookie = self.fx.cookie();
        for (mask, (dir, name)) in
            [(mask::RENAME, from), (mask::MOVED_FROM, from), (mask::MOVED_TO, to)]
        {
            let event = FileEvent::of_name(mask, dir, name, is_dir);
            let is_rename = mask == mask::RENAME;
            let to = is_rename.then(|| (to.0, to.1.into()));
            self.fx.observe(|| FileEvent { cookie, target: moved, to, ..event });
        }
        if let Some(target) = target {
            self.fx.observe(|| FileEvent::of_file(mask::ATTRIB, target));
        }
        self.fx.observe(|| FileEvent::of_file(mask::MOVE_SELF, ino));
        if let Some(target) = target {
            self.perhaps_gone(target);
        }
    }

    /// `stat`.
    pub fn stat(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let empty = call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 && dir != CWD;
        let view = self.view()?;
        let (found, known) = match call.lengths.0 {
            _ if empty => (self.descs.of(self.caller.pid, dir)?.object.node(), None),
            0 => (Some(view.target(call, dir, flags, follow)?), None),
            _ => {
                let path = self.procs.path(self.caller, call)?;
                let found = view.walk_again(dir, &path, follow)?;
                // What it is relative to is not what others change.
                (Some(found.existing()?), found.known.filter(|_| dir == CWD))
            }
        };
        let mut stat = match found {
            None => self.nameless_stat(&self.descs.of(self.caller.pid, dir)?.object)?,
            Some(Node::Mem(ino)) if self.tree.files().names().lent_to(ino).is_some() => {
                loans::end(self.tree.files_mut(), self.procs, self.clock, ino);
                return self.stat(call, dir, flags);
            }
            Some(Node::Mem(ino)) => inode_stat(self.tree, ino)?,
            Some(Node::Proc(ProcNode::Space(pid, name))) if follow => {
                view.space_stat(&view.space(pid, name)?)
            }
            Some(Node::Proc(ProcNode::Bound(number))) => {
                view.space_stat(self.tree.bound(number).ok_or(Errno::ENOENT)?)
            }
            // What has a place is stood for by that.
            Some(Node::Proc(ProcNode::Fd(pid, fd))) if follow => match view.any_fd(pid, fd)? {
                ShownFd::Desc(desc) => self.nameless_stat(&self.descs.get(desc)?.object)?,
                ShownFd::Own(_) => Stat {
                    dev: DEVICE + 1,
                    ino: 1,
                    nlink: 1,
                    mode: 0o600,
                    blksize: 4096,
                    ..Stat::default()
                },
            },
            Some(Node::Proc(node)) => view.proc_stat(node, self.clock.boot_wall())?,
            Some(Node::Share(node)) => self.shared_stat(empty, dir, node)?,
        };
        stat.uid = view.who.shown(false, stat.uid);
        stat.gid = view.who.shown(true, stat.gid);
        let is_known = view.who.space.is_none();
        self.procs.put(self.caller, &stat.to_bytes())?;
        match found {
            Some(Node::Mem(ino)) if is_known => {
                if empty {
                    self.procs.look(self.caller.pid, ino);
                }
                done(show_stat(self.tree, self.procs, (self.caller.pid, ino), known, &stat))
            }
            _ => done(NOT_KNOWN),
        }
    }

    /// Of a file of the host: of one that is open, by that, if that is meant.
    fn shared_stat(&self, empty: bool, dir: u32, node: u32) -> Result<Stat, Errno> {
        match self.descs.of(self.caller.pid, dir) {
            Ok(Desc { object: Object::Shared(file), .. }) if empty => {
                self.visit(node)?.stat_open(file.fid, file.node)
            }
            _ => self.visit(node)?.stat(node),
        }
    }

    /// Pipes, and the console when it is opened by nobody.
    fn nameless_stat(&self, object: &Object) -> Result<Stat, Errno> {
        if let Object::Space(space) = object {
            return Ok(self.view()?.space_stat(space));
        }
        let (kind, rdev, ino) = match object {
            Object::Tty(line, _) => (S_IFCHR, line.device(), 1),
            Object::Master(..) => (S_IFCHR, crate::open::device::PTMX, 1),
            Object::Pipe(pipe, _) => (S_IFIFO, 0, 1 + *pipe as u64),
            Object::Socket(number) => (S_IFSOCK, 0, crate::sockdiag::local_inode(*number).into()),
            Object::Inet(number) => (S_IFSOCK, 0, crate::inet::inode(*number)),
            _ => (S_IFIFO, 0, 1),
        };
        let memfs::Guard { uid, gid, mode, .. } = nameless(self.pipes, object);
        let now = self.clock.boot_wall() as i64;
        let times = Stat { atime: now, mtime: now, ctime: now, ..Stat::default() };
        let mode = kind | mode;
        Ok(Stat { dev: DEVICE + 1, ino, nlink: 1, mode, uid, gid, rdev, blksize: 4096, ..times })
    }

    /// `access`, `faccessat`.
    pub fn access(&mut self, call: &Call, op: op::Access) -> Tried {
        if op.mode & !7 != 0 {
            return Err(Errno::EINVAL);
        }
        // The real ids count, on the way to the file too, unless the effective ones are asked for.
        let mut who = self.procs.get(self.caller.pid)?.who.clone();
        if op.flags & AT_EACCESS == 0 {
            who = who.as_real();
        }
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let view = View { who: &who, ..self.view()? };
        let spot = view.target_spot(call, op.dir, op.flags, follow)?;
        match spot.node {
            Node::Mem(ino) => {
                let inode = self.tree.files().names().get(ino)?;
                inode.permits(&cred_of(&who), op.mode)?;
                if op.mode & memfs::WRITE != 0 && inode.has_bytes() {
                    self.tree.may_write(spot.mount)?;
                }
                let runs = op.mode & memfs::EXEC != 0 && !inode.is_dir();
                if runs && self.tree.flags(spot.mount) & flag::NOEXEC != 0 {
                    return Err(Errno::EACCES);
                }
            }
            Node::Proc(_) if op.mode & memfs::WRITE != 0 => return Err(Errno::EACCES),
            Node::Proc(_) => {}
            Node::Share(node) => view.visit(node)?.access(node, op.mode)?,
        }
        done(())
    }

    /// How `/proc/PID/fd` names a description of the caller's.
    pub fn path_of(&mut self, desc: u32) -> Tried {
        self.descs.of(self.caller.pid, desc)?;
        let path = self.view()?.desc_path(desc)?;
        self.procs.put(self.caller, &path)?;
        count(path.len())
    }

    /// `mkdir`.
    pub fn mkdir(&mut self, call: &Call, dir: u32, mode: u32) -> Tried {
        let path = self.procs.path(self.caller, call)?;
        let (parent, found) = self.last(dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        self.tree.may_write(found.above)?;
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => {
                return done(self.visit(dir)?.mkdir(dir, &found.name, mode & 0o1777)?)
            }
        };
        let attr = self.attr(mode & 0o1777);
        if self.names().get(parent)?.part() == Part::Snapshots {
            return self.snapshot(parent, &found.name, attr);
        }
        self.names().mkdir(parent, &found.name, attr)?;
        self.named(mask::CREATE, parent, &found.name, true);
        done(())
    }

    /// `mkdir` in a directory with snapshots.
    #[inline(never)]
    fn snapshot(&mut self, dir: Ino, name: &[u8], attr: Attr) -> Tried {
        let mut names = self.names().snapshot_size(dir, name, &attr.cred);
        if names == Err(UNREAD) {
            // One directory after the other would take a look at all names for each.
            self.tree.read_all()?;
            names = self.names().snapshot_size(dir, name, &attr.cred);
        }
        let names = names?;
        if !self.stock.has_names(names, attr.cred.uid) {
            return Err(Errno::ENOSPC);
        }
        self.tree.files_mut().snapshot(dir, name, &attr.cred, attr.now)?;
        self.named(mask::CREATE, dir, name, true);
        done(())
    }

    /// `mknod`.
    pub fn mknod(&mut self, call: &Call, op: op::Mknod) -> Tried {
        let path = self.procs.path(self.caller, call)?;
        let (parent, found) = self.last(op.dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        self.tree.may_write(found.above)?;
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => {
                return done(self.visit(dir)?.mknod(dir, &found.name, op.mode)?)
            }
        };
        let node = match op.mode & S_IFMT {
            0 | S_IFREG => {
                if self.stock.has_no_names(self.cred().uid) {
                    return Err(Errno::ENOSPC);
                }
                let attr = self.attr(op.mode);
                self.tree.files_mut().create(parent, &found.name, attr)?;
                self.named(mask::CREATE, parent, &found.name, false);
                return done(());
            }
            S_IFIFO => memfs::Node::Fifo,
            S_IFSOCK => memfs::Node::Socket,
            S_IFCHR if self.has(Capability::Mknod)? => memfs::Node::Device(op.dev),
            S_IFBLK if self.has(Capability::Mknod)? => memfs::Node::Block(op.dev),
            S_IFCHR | S_IFBLK => return Err(Errno::EPERM),
            S_IFDIR => return Err(Errno::EPERM),
            _ => return Err(Errno::EINVAL),
        };
        let attr = self.attr(op.mode);
        self.names().create(parent, &found.name, node, attr)?;
        self.named(mask::CREATE, parent, &found.name, false);
        done(())
    }

    /// Is something mounted on what was found, here or where the caller's name space shows it elsewhere?
    fn is_mounted(&self, found: &Found) -> Result<bool, Errno> {
        let Some(node) = found.node else { return Ok(false) };
        let space = self.procs.get(self.caller.pid)?.stands.space;
        Ok(found.is_mounted() || self.tree.mounts().is_covered(space, node))
    }

    /// `unlink`, `rmdir`.
    pub fn unlink(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let path = self.procs.path(self.caller, call)?;
        let (parent, found) = self.last(dir, &path)?;
        let (cred, now) = (self.cred(), self.clock.wall());
        let remove_dir = flags & AT_REMOVEDIR != 0;
        if matches!(&found.name[..], b"." | b"..") {
            return Err(match (remove_dir, &found.name[..]) {
                (false, _) => Errno::EISDIR,
                (true, _) if parent == Parent::Mem(self.tree.files().names().root()) => {
                    Errno::EBUSY
                }
                (true, b".") => Errno::EINVAL,
                _ => Errno::ENOTEMPTY,
            });
        }
        self.tree.may_write(found.above)?;
        let node = found.existing()?;
        if self.is_mounted(&found)? {
            let spot = found.spot()?;
            let is_dir = matches!(self.view()?.step(spot)?, Step::Dir);
            return Err(if is_dir && !remove_dir { Errno::EISDIR } else { Errno::EBUSY });
        }
        let (parent, ino) = match (parent, node) {
            (Parent::Mem(parent), Node::Mem(ino)) => (parent, ino),
            (Parent::Share(dir), Node::Share(node)) if folder_of(dir) == folder_of(node) => {
                return done(self.visit(dir)?.unlink((dir, &found.name), node, remove_dir)?)
            }
            // Something else is shown there.
            _ => return Err(Errno::EBUSY),
        };
        let target = generation(self.tree, ino);
        match remove_dir {
            true if self.names().get(parent)?.part() == Part::Snapshots => {
                self.names().remove_snapshot(parent, &found.name, &cred, now)?;
                self.fx.observe(|| FileEvent::SWEPT);
            }
            true => self.names().rmdir(parent, &found.name, &cred, now)?,
            false => {
                self.names().unlink(parent, &found.name, &cred, now)?;
                if self.names().has_queues(parent) {
                    self.fx.queue_gone(ino);
                }
            }
        }
        if self.fx.observed() {
            if !remove_dir {
                self.fx.observe(|| FileEvent::of_file(mask::ATTRIB, ino));
            }
            self.perhaps_gone(ino);
            let gone = FileEvent::of_name(mask::DELETE, parent, &found.name, remove_dir);
            self.fx.observe(|| FileEvent { target, ..gone });
        }
        done(())
    }

    /// `rename`.
    pub fn rename(&mut self, call: &Call, op: op::Rename) -> Tried {
        let (old, new) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        let (from, old) = self.last(op.old_dir, &old)?;
        let (to, new) = self.last(op.new_dir, &new)?;
        if old.above != new.above {
            return Err(Errno::EXDEV);
        }
        let is_dots = |name: &[u8]| name == b"." || name == b"..";
        if is_dots(&old.name) || is_dots(&new.name) {
            return Err(Errno::EBUSY);
        }
        self.tree.may_write(old.above)?;
        if self.is_mounted(&old)? || self.is_mounted(&new)? {
            return self.rename_mounted(&old, &new, op.flags);
        }
        let (from, to, source) = match (from, to, old.existing()?) {
            (Parent::Share(from), Parent::Share(to), Node::Share(source))
                if folder_of(from) == folder_of(to) =>
            {
                return self.rename_shared((from, &old, source), (to, &new), op.flags)
            }
            (Parent::Mem(from), Parent::Mem(to), Node::Mem(source)) => (from, to, source),
            (Parent::Mem(_), Parent::Mem(_), _) => return Err(Errno::EBUSY),
            _ => return Err(Errno::EXDEV),
        };
        if !matches!(new.node, None | Some(Node::Mem(_))) {
            return Err(Errno::EBUSY);
        }
        if new.slash && !self.tree.files().names().get(source)?.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let (cred, now) = (self.cred(), self.clock.wall());
        let target = match new.node {
            Some(Node::Mem(target)) => Some(target),
            _ => None,
        };
        self.names().rename(from, &old.name, to, &new.name, op.flags, &cred, now)?;
        let is_swap = op.flags & RENAME_EXCHANGE != 0;
        if target != Some(source) {
            let (old, new) = ((from, &old.name[..]), (to, &new.name[..]));
            self.moved(source, old, new, target.filter(|_| !is_swap));
            if let Some(target) = target.filter(|_| is_swap) {
                self.moved(target, new, old, None);
            }
        }
        done(())
    }

    /// The same where something is mounted on one of them: nothing happens, and what Linux says depends on more.
    #[cold]
    fn rename_mounted(&self, old: &Found, new: &Found, flags: u32) -> Tried {
        let view = self.view()?;
        let is_dir = |spot| view.step(spot).map(|step| matches!(step, Step::Dir));
        let from = old.spot()?;
        let Some(node) = new.node else {
            let swaps = flags & RENAME_EXCHANGE != 0;
            return Err(if swaps { Errno::ENOENT } else { Errno::EBUSY });
        };
        let to = Spot { mount: new.mount, node };
        match (flags, is_dir(from)?, is_dir(to)?) {
            // To itself it is renamed wherever it is.
            (RENAME_NOREPLACE, ..) => Err(Errno::EEXIST),
            (0 | RENAME_EXCHANGE, ..) if from == to => done(()),
            (0, true, false) => Err(Errno::ENOTDIR),
            (0, false, true) => Err(Errno::EISDIR),
            _ => Err(Errno::EBUSY),
        }
    }

    /// The same in the folder of the host.
    fn rename_shared(
        &self,
        (from, old, node): (u32, &Found, u32),
        (to, new): (u32, &Found),
        flags: u32,
    ) -> Tried {
        let visit = self.visit(from)?;
        let target = match new.node {
            None => None,
            Some(Node::Share(target)) => Some(target),
            Some(_) => return Err(Errno::EBUSY),
        };
        if new.slash && visit.stat(node)?.mode & S_IFMT != S_IFDIR {
            return Err(Errno::ENOTDIR);
        }
        done(visit.rename((from, &old.name, node), (to, &new.name, target), flags)?)
    }

    /// `link`.
    pub fn link(&mut self, call: &Call, op: op::Link) -> Tried {
        let (old, new) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        let by_desc = op.flags & AT_EMPTY_PATH != 0;
        // A description that somebody was given may be of a file that he could not find.
        if by_desc && !self.has(Capability::DacReadSearch)? {
            return Err(Errno::ENOENT);
        }
        let source = if old.is_empty() && by_desc {
            let desc = self.descs.of(self.caller.pid, op.old_dir)?;
            self.view()?.spot_of(desc)?.ok_or(Errno::ENOENT)?
        } else {
            self.view()?.walk(op.old_dir, &old, op.flags & AT_SYMLINK_FOLLOW != 0)?.spot()?
        };
        let (parent, found) = self.last(op.new_dir, &new).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        self.tree.may_write(found.above)?;
        // What was opened without a name may get one wherever it could have been made.
        let names = self.tree.files().names();
        let is_nameless = matches!(source.node, Node::Mem(ino)
            if names.get(ino).is_ok_and(|inode| inode.nlink == 0));
        let is_elsewhere = match (source.node, &parent) {
            (Node::Mem(ino), Parent::Mem(dir)) => names.volume_of(ino) != names.volume_of(*dir),
            _ => false,
        };
        if source.mount != found.above && !is_nameless || is_elsewhere {
            return Err(Errno::EXDEV);
        }
        let (ino, parent) = match (source.node, parent) {
            (Node::Mem(ino), Parent::Mem(parent)) => (ino, parent),
            (Node::Share(node), Parent::Share(dir)) if folder_of(node) == folder_of(dir) => {
                return done(self.visit(node)?.link(node, dir, &found.name)?)
            }
            _ => return Err(Errno::EXDEV),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        self.names().link(ino, parent, &found.name, &cred, now)?;
        self.fx.observe(|| FileEvent::of_file(mask::ATTRIB, ino));
        self.named(mask::CREATE, parent, &found.name, false);
        done(())
    }

    /// `symlink`.
    pub fn symlink(&mut self, call: &Call, dir: u32) -> Tried {
        let (text, path) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let (parent, found) = self.last(dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        self.tree.may_write(found.above)?;
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => {
                return done(self.visit(dir)?.symlink(dir, &found.name, &text)?)
            }
        };
        let attr = self.attr(0o777);
        self.names().create(parent, &found.name, memfs::Node::Symlink(text), attr)?;
        self.named(mask::CREATE, parent, &found.name, false);
        done(())
    }

    /// `readlink`.
    pub fn read_link(&mut self, call: &Call, dir: u32) -> Tried {
        let node = self.view()?.target(call, dir, AT_EMPTY_PATH, false)?;
        let text = match node {
            Node::Proc(node) => self.view()?.proc_link(node)?,
            Node::Share(node) => self.visit(node)?.text(node)?,
            Node::Mem(ino) => match self.tree.files().names().step(ino)? {
                Step::Link(text) => text,
                _ => return Err(Errno::EINVAL),
            },
        };
        self.procs.put(self.caller, &text)?;
        count(text.len())
    }

    /// `chmod`.
    pub fn chmod(&mut self, call: &Call, op: op::Chmod) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let (node, place) = self.view()?.placed(call, op.dir, op.flags, follow)?;
        let ino = match node {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit(node)?.chmod(node, op.mode)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        let before = self.tree.files().names().get(ino)?.mode;
        self.seals.permit_mode(ino, before, op.mode)?;
        self.names().set_mode(ino, op.mode, &cred, now)?;
        self.changed(mask::ATTRIB, ino, place);
        done(())
    }

    /// `chown`.
    pub fn chown(&mut self, call: &Call, op: op::Chown) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let (node, place) = self.view()?.placed(call, op.dir, op.flags, follow)?;
        let ino = match node {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit(node)?.chown(node, op)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        let who = &self.procs.get(self.caller.pid)?.who;
        let op =
            op::Chown { uid: who.global(false, op.uid)?, gid: who.global(true, op.gid)?, ..op };
        let given = |id: u32| (id != KEEP_ID).then_some(id);
        self.names().set_owner(ino, given(op.uid), given(op.gid), &cred, now)?;
        if (op.uid, op.gid) != (KEEP_ID, KEEP_ID) {
            self.changed(mask::ATTRIB, ino, place);
        }
        done(())
    }

    /// `utimensat`.
    pub fn set_times(&mut self, call: &Call, op: op::SetTimes) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let (node, place) = self.view()?.placed(call, op.dir, op.flags, follow)?;
        let ino = match node {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit(node)?.set_times(node, op)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        // What was written before is older than that.
        loans::end(self.tree.files_mut(), self.procs, self.clock, ino);
        let inode = self.tree.files_mut().names_mut().get_mut(ino)?;
        let both_now = op.atime == TIME_NOW && op.mtime == TIME_NOW;
        if op.atime == TIME_OMIT && op.mtime == TIME_OMIT {
            return done(());
        }
        inode.changeable()?;
        if inode.owned_by(&cred).is_err() {
            match both_now {
                true => inode.permits(&cred, memfs::WRITE)?,
                false => return Err(Errno::EPERM),
            }
        }
        for (field, new) in [(&mut inode.atime, op.atime), (&mut inode.mtime, op.mtime)] {
            match new {
                TIME_OMIT => {}
                TIME_NOW => *field = now,
                time => *field = time,
            }
        }
        inode.ctime = now;
        // One alone is what reading or writing does.
        let mask = match (op.atime, op.mtime) {
            (TIME_OMIT, _) => mask::MODIFY,
            (_, TIME_OMIT) => mask::ACCESS,
            _ => mask::ATTRIB,
        };
        self.changed(mask, ino, place);
        done(())
    }

    /// What a description is about, which must be writable, and have a size that can be set, unlike devices, pipes and the like.
    fn resized(&self, desc: u32) -> Result<Node, Errno> {
        let desc = self.descs.of(self.caller.pid, desc)?;
        desc.writable().map_err(|_| Errno::EINVAL)?;
        match desc.object {
            Object::File(_) | Object::Shared(_) | Object::Text(..) | Object::Memory(..) => {
                desc.object.node().ok_or(Errno::EINVAL)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn truncate_shared(&mut self, by_desc: bool, node: u32, op: op::Truncate) -> Result<(), Errno> {
        let limit = writer(self.procs, self.caller, self.clock.wall())?.limit;
        if op.size > limit {
            return Err(refused(Refusal::Limit, self.caller, self.fx));
        }
        match self.descs.of(self.caller.pid, op.dir) {
            Ok(Desc { object: Object::Shared(file), .. }) if by_desc => {
                self.visit(node)?.truncate_open(file.fid, op.size)
            }
            _ => self.visit(node)?.truncate(node, op.size),
        }
    }

    /// `truncate`, `ftruncate`.
    pub fn truncate(&mut self, call: &Call, op: op::Truncate) -> Tried {
        self.leases.leave(self.caller.tid);
        let by_desc = call.lengths.0 == 0 && op.flags & AT_EMPTY_PATH != 0 && op.dir != CWD;
        let target = match by_desc {
            true => self.resized(op.dir)?,
            false => self.view()?.placed(call, op.dir, op.flags, true)?.0,
        };
        let place = match self.fx.observed() {
            true => self.view()?.placed(call, op.dir, op.flags, true)?.1,
            false => None,
        };
        let ino = match target {
            Node::Mem(ino) => ino,
            // What is written there takes the place of what was there anyway.
            Node::Proc(_) if by_desc => return done(Inode { inode: 0 }),
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => {
                self.truncate_shared(by_desc, node, op)?;
                return done(Inode { inode: 0 });
            }
        };
        let inode = self.tree.files().names().get(ino)?;
        if inode.is_dir() {
            return Err(Errno::EISDIR);
        }
        if !by_desc {
            inode.permits(&self.cred(), memfs::WRITE)?;
        }
        if !by_desc && self.tree.files().content(ino)?.texts() > 0 {
            return Err(Errno::ETXTBSY);
        }
        if !by_desc {
            let on = (self.clock, self.tree.made());
            if let Some(until) = self.leases.pass((ino, O_WRONLY), self.caller.tid, on, self.fx)? {
                return Ok(Outcome::Block(until));
            }
        }
        let size = self.tree.files().names().get(ino)?.size();
        self.seals.permit_size(ino, size, op.size)?;
        let writer = writer(self.procs, self.caller, self.clock.wall())?;
        let resized = self.tree.files_mut().resize(ino, op.size, writer);
        resized.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        self.changed(mask::MODIFY, ino, place);
        done(Inode { inode: ino.0 as u64 })
    }
}

/// Device and number of an inode, by which programs know it.
pub fn identity(tree: &Tree, ino: Ino) -> Result<(u64, u32), Errno> {
    let inode = tree.files().names().get(ino)?;
    Ok(match inode.kept() {
        Some(Kept(number)) => (PMEM_DEVICE, number.get()),
        None => match inode.volume() {
            0 => (DEVICE, ino.0),
            number => (device_of_volume(number), ino.0),
        },
    })
}

/// Attributes of an inode that is lent to nobody, with the ids of the first name space of users.
pub fn inode_stat(tree: &Tree, ino: Ino) -> Result<Stat, Errno> {
    let inode = tree.files().names().get(ino)?;
    let allocated = match &inode.node {
        memfs::Node::File { .. } => tree.files().allocated(ino)?,
        memfs::Node::Dir(_) => inode.size(),
        _ => 0,
    };
    let rdev = match inode.node {
        memfs::Node::Device(number) | memfs::Node::Block(number) => number,
        _ => 0,
    };
    let (dev, number) = identity(tree, ino)?;
    Ok(Stat {
        dev,
        ino: number as u64,
        nlink: inode.nlink as u64,
        mode: inode.node.type_bits() | inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        rdev,
        size: inode.size() as i64,
        blksize: tree.files().grain(ino) as _,
        blocks: (allocated / BLOCK) as i64,
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
    })
}

/// Nothing need be known.
pub const NOT_KNOWN: Known = Known { inode: 0, ways: 0 };

/// Lets a process know the attributes of a file for which it has asked before, and where the path leads by which it was found, if
/// that is kept at a place. The ids are those of the first name space of users, in which it is.
pub fn show_stat(
    tree: &mut Tree,
    procs: &Procs,
    (pid, ino): (Pid, Ino),
    at: Option<usize>,
    stat: &Stat,
) -> Known {
    let inode = ino.0.into();
    // One that acts as its child has no more than the child has.
    let Ok(session) = procs.get(pid).and_then(Proc::session) else { return NOT_KNOWN };
    if !session.files().stat(inode).ask(inode) || !show_at_once(tree, procs, (pid, ino), stat) {
        return NOT_KNOWN;
    }
    let ways = at.map_or(0, |at| {
        tree.show_way(at, pid);
        procs.ways(pid)
    });
    Known { inode, ways }
}

/// The same of the attributes alone, whether it has asked for them or not. `false`: they may change unseen.
pub fn show_at_once(tree: &mut Tree, procs: &Procs, (pid, ino): (Pid, Ino), stat: &Stat) -> bool {
    let Ok(session) = procs.get(pid).and_then(Proc::session) else { return false };
    let (inode, files) = (ino.0.into(), tree.files_mut());
    let is_kept = files.names().get(ino).is_ok_and(|inode| inode.kept().is_some());
    if is_kept || !files.is_steady(ino) {
        return false;
    }
    files.names_mut().show(ino, pid);
    let place = session.files().stat(inode);
    if !place.is_of(inode) {
        place.take_away(&mut |desc| procs.close_later((pid, desc)));
        place.show(inode, &stat.to_words());
    }
    true
}

/// Nothing can be made in `/proc`; what is there exists.
fn exists_in_proc(error: Errno) -> Errno {
    if error == Errno::EPERM {
        Errno::EEXIST
    } else {
        error
    }
}

/// Who may open what has no name: pipes belong to whoever made them, the console to the administrator.
pub fn nameless(pipes: &Pipes, object: &Object) -> memfs::Guard {
    let (mode, (uid, gid)) = match object {
        Object::Tty(..) | Object::Master(..) => (0o620, (0, 0)),
        Object::Pipe(pipe, _) => (0o600, pipes.owner(*pipe)),
        Object::Socket(_) | Object::Inet(_) => (0o777, (0, 0)),
        _ => (0o600, (0, 0)),
    };
    memfs::Guard { uid, gid, mode, is_dir: false }
}
