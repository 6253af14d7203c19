//! Requests about names and attributes.

use crate::clock::Clock;
use crate::content::{refused, writer};
use crate::descs::{Desc, Descs, Object};
use crate::effects::Effects;
use crate::names::{Parent, View};
use crate::nodes::{Node, Tree};
use crate::open::LARGE_PAGE;
use crate::pipes::Pipes;
use crate::procs::{cred_of, Procs};
use crate::share::Visit;
use crate::stock::Stock;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Tried};
use credentials::Capability;
use files::Refusal;
use memfs::{Attr, Cred, Found, Fs, Ino, Kept, Names, Part, Step, PATH_MAX};
use unixproto::files::*;
use unixproto::ops::Inode;
use unixproto::{op, Errno};

/// Device number of the file system.
const DEVICE: u64 = 1;
/// That of persistent files.
const PMEM_DEVICE: u64 = 4;
/// Bytes of a block, for `st_blocks`.
const BLOCK: u64 = 512;

/// What requests about names and attributes work on.
pub struct PathOps<'a> {
    pub tree: &'a mut Tree,
    pub descs: &'a Descs,
    pub procs: &'a mut Procs,
    pub pipes: &'a mut Pipes,
    pub stock: &'a mut Stock,
    pub clock: &'a Clock,
    pub fx: &'a mut Effects,
    pub caller: Speaker,
}

impl PathOps<'_> {
    fn view(&self) -> Result<View<'_>, Errno> {
        View::new(self.tree, self.procs, self.descs, self.caller)
    }
    fn names(&mut self) -> &mut Fs<crate::frames::Contents> {
        self.tree.files_mut().names_mut()
    }
    fn cred(&self) -> Cred {
        self.procs.cred(self.caller.pid)
    }
    /// Attributes of what the process makes.
    fn attr(&self, mode: u32) -> Attr {
        Attr { mode: mode & 0o7777, cred: self.cred(), now: self.clock.wall() }
    }
    fn last(&self, dir: u32, path: &[u8]) -> Result<(Parent, Found<Node>), Errno> {
        self.view()?.last(dir, path)
    }
    /// The folder of the host.
    fn visit(&self) -> Result<Visit<'_>, Errno> {
        self.view()?.visit()
    }
    fn has(&self, capability: Capability) -> Result<bool, Errno> {
        Ok(self.procs.get(self.caller.pid)?.has(capability))
    }

    /// `stat`.
    pub fn stat(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let empty = call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 && dir != CWD;
        let nameless = match empty {
            true => self.descs.of(self.caller.pid, dir)?.object.node().is_none(),
            false => false,
        };
        let stat = if nameless {
            self.nameless_stat(dir)?
        } else {
            match self.view()?.target(call, dir, flags, follow)? {
                Node::Mem(ino) => self.inode_stat(ino)?,
                Node::Proc(node) => self.view()?.proc_stat(node, self.clock.boot_wall())?,
                Node::Share(node) => self.shared_stat(empty, dir, node)?,
            }
        };
        self.procs.put(self.caller, &stat.to_bytes())?;
        done(())
    }

    /// Of a file of the host: of one that is open, by that, if that is meant.
    fn shared_stat(&self, empty: bool, dir: u32, node: u32) -> Result<Stat, Errno> {
        match self.descs.of(self.caller.pid, dir) {
            Ok(Desc { object: Object::Shared(file), .. }) if empty => {
                self.visit()?.stat_open(file.fid, file.node)
            }
            _ => self.visit()?.stat(node),
        }
    }

    fn inode_stat(&self, ino: Ino) -> Result<Stat, Errno> {
        let inode = self.tree.files().names().get(ino)?;
        let allocated = match &inode.node {
            memfs::Node::File { .. } => self.tree.files().allocated(ino)?,
            memfs::Node::Dir(_) => inode.size(),
            _ => 0,
        };
        let rdev = match inode.node {
            memfs::Node::Device(number) | memfs::Node::Block(number) => number,
            _ => 0,
        };
        let (dev, number) = match inode.kept() {
            Some(Kept(number)) => (PMEM_DEVICE, number.get()),
            None => (DEVICE, ino.0),
        };
        Ok(Stat {
            dev,
            ino: number as u64,
            nlink: inode.nlink as u64,
            mode: inode.node.type_bits() | inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            rdev,
            size: inode.size() as i64,
            blksize: self.tree.files().grain(ino) as _,
            blocks: (allocated / BLOCK) as i64,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
        })
    }

    /// Pipes, and the console when it is opened by nobody.
    fn nameless_stat(&self, desc: u32) -> Result<Stat, Errno> {
        let object = &self.descs.of(self.caller.pid, desc)?.object;
        let (kind, rdev, ino) = match object {
            Object::Tty(line, _) => (S_IFCHR, line.device(), 1),
            Object::Master(..) => (S_IFCHR, crate::open::device::PTMX, 1),
            Object::Pipe(pipe, _) => (S_IFIFO, 0, 1 + *pipe as u64),
            Object::Socket(number) => (S_IFSOCK, 0, 1 + *number as u64),
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
        let mut who = self.procs.get(self.caller.pid)?.who;
        if op.flags & AT_EACCESS == 0 {
            who = who.as_real();
        }
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let view = View { who: &who, ..self.view()? };
        match view.target(call, op.dir, op.flags, follow)? {
            Node::Mem(ino) => {
                self.tree.files().names().get(ino)?.permits(cred_of(&who), op.mode)?;
            }
            Node::Proc(_) if op.mode & memfs::WRITE != 0 => return Err(Errno::EACCES),
            Node::Proc(_) => {}
            Node::Share(node) => view.visit()?.access(node, op.mode)?,
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
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => {
                return done(self.visit()?.mkdir(dir, &found.name, mode & 0o1777)?)
            }
        };
        let attr = self.attr(mode & 0o1777);
        if self.names().get(parent)?.part() == Part::Snapshots {
            return self.snapshot(parent, &found.name, attr);
        }
        self.names().mkdir(parent, &found.name, attr)?;
        done(())
    }

    /// `mkdir` in a directory with snapshots.
    #[inline(never)]
    fn snapshot(&mut self, dir: Ino, name: &[u8], attr: Attr) -> Tried {
        let names = self.names().snapshot_size(dir, name, attr.cred)?;
        if !self.stock.has_names(names, attr.cred.uid) {
            return Err(Errno::ENOSPC);
        }
        self.tree.files_mut().snapshot(dir, name, attr.cred, attr.now)?;
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
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => return done(self.visit()?.mknod(dir, &found.name, op.mode)?),
        };
        let node = match op.mode & S_IFMT {
            0 | S_IFREG => {
                if self.stock.has_no_names(self.cred().uid) {
                    return Err(Errno::ENOSPC);
                }
                let attr = self.attr(op.mode);
                self.tree.files_mut().create(parent, &found.name, attr)?;
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
        done(())
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
        let node = found.existing()?;
        let parent = match (parent, node) {
            (Parent::Mem(parent), Node::Mem(_)) => parent,
            (Parent::Share(dir), Node::Share(node)) => {
                return done(self.visit()?.unlink((dir, &found.name), node, remove_dir)?)
            }
            // Something else is shown there.
            _ => return Err(Errno::EBUSY),
        };
        match remove_dir {
            true if self.names().get(parent)?.part() == Part::Snapshots => {
                self.names().remove_snapshot(parent, &found.name, cred, now)?;
            }
            true => self.names().rmdir(parent, &found.name, cred, now)?,
            false => self.names().unlink(parent, &found.name, cred, now)?,
        }
        done(())
    }

    /// `rename`.
    pub fn rename(&mut self, call: &Call, op: op::Rename) -> Tried {
        let (old, new) = (self.procs.a(self.caller, call)?, self.procs.b(self.caller, call)?);
        let (from, old) = self.last(op.old_dir, &old)?;
        let (to, new) = self.last(op.new_dir, &new)?;
        let (from, to, source) = match (from, to, old.existing()?) {
            (Parent::Share(from), Parent::Share(to), Node::Share(source)) => {
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
        self.names().rename(from, &old.name, to, &new.name, op.flags, cred, now)?;
        done(())
    }

    /// The same in the folder of the host.
    fn rename_shared(
        &self,
        (from, old, node): (u32, &Found<Node>, u32),
        (to, new): (u32, &Found<Node>),
        flags: u32,
    ) -> Tried {
        let visit = self.visit()?;
        let target = match new.node {
            None => None,
            Some(Node::Share(target)) => Some(target),
            Some(_) => return Err(Errno::EBUSY),
        };
        let is_dots = |name: &[u8]| name == b"." || name == b"..";
        if is_dots(&old.name) || is_dots(&new.name) {
            return Err(Errno::EBUSY);
        }
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
            self.descs.of(self.caller.pid, op.old_dir)?.object.node().ok_or(Errno::ENOENT)?
        } else {
            self.view()?.walk(op.old_dir, &old, op.flags & AT_SYMLINK_FOLLOW != 0)?.existing()?
        };
        let (parent, found) = self.last(op.new_dir, &new).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        let (ino, parent) = match (source, parent) {
            (Node::Mem(ino), Parent::Mem(parent)) => (ino, parent),
            (Node::Share(node), Parent::Share(dir)) => {
                return done(self.visit()?.link(node, dir, &found.name)?)
            }
            _ => return Err(Errno::EXDEV),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        self.names().link(ino, parent, &found.name, cred, now)?;
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
        let parent = match parent {
            Parent::Mem(parent) => parent,
            Parent::Share(dir) => return done(self.visit()?.symlink(dir, &found.name, &text)?),
        };
        let attr = self.attr(0o777);
        self.names().create(parent, &found.name, memfs::Node::Symlink(text), attr)?;
        done(())
    }

    /// `readlink`.
    pub fn read_link(&mut self, call: &Call, dir: u32) -> Tried {
        let node = self.view()?.target(call, dir, AT_EMPTY_PATH, false)?;
        let text = match node {
            Node::Proc(node) => self.view()?.proc_link(node)?,
            Node::Share(node) => self.visit()?.text(node)?,
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
        let ino = match self.view()?.target(call, op.dir, op.flags, follow)? {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit()?.chmod(node, op.mode)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        self.names().set_mode(ino, op.mode, cred, now)?;
        done(())
    }

    /// `chown`.
    pub fn chown(&mut self, call: &Call, op: op::Chown) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let ino = match self.view()?.target(call, op.dir, op.flags, follow)? {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit()?.chown(node, op)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        let given = |id: u32| (id != KEEP_ID).then_some(id);
        self.names().set_owner(ino, given(op.uid), given(op.gid), cred, now)?;
        done(())
    }

    /// `utimensat`.
    pub fn set_times(&mut self, call: &Call, op: op::SetTimes) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let ino = match self.view()?.target(call, op.dir, op.flags, follow)? {
            Node::Mem(ino) => ino,
            Node::Proc(_) => return Err(Errno::EPERM),
            Node::Share(node) => return done(self.visit()?.set_times(node, op)?),
        };
        let (cred, now) = (self.cred(), self.clock.wall());
        let inode = self.tree.files_mut().names_mut().get_mut(ino)?;
        let both_now = op.atime == TIME_NOW && op.mtime == TIME_NOW;
        if op.atime == TIME_OMIT && op.mtime == TIME_OMIT {
            return done(());
        }
        inode.changeable()?;
        if inode.owned_by(cred).is_err() {
            match both_now {
                true => inode.permits(cred, memfs::WRITE)?,
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
        done(())
    }

    /// The file that a description is about, which must be writable.
    fn written(&self, desc: u32) -> Result<Node, Errno> {
        let desc = self.descs.of(self.caller.pid, desc)?;
        desc.writable().map_err(|_| Errno::EINVAL)?;
        desc.object.node().ok_or(Errno::EINVAL)
    }

    fn truncate_shared(&mut self, by_desc: bool, node: u32, op: op::Truncate) -> Result<(), Errno> {
        let limit = writer(self.procs, self.caller, self.clock.wall())?.limit;
        if op.size > limit {
            return Err(refused(Refusal::Limit, self.caller, self.fx));
        }
        match self.descs.of(self.caller.pid, op.dir) {
            Ok(Desc { object: Object::Shared(file), .. }) if by_desc => {
                self.visit()?.truncate_open(file.fid, op.size)
            }
            _ => self.visit()?.truncate(node, op.size),
        }
    }

    /// `truncate`, `ftruncate`.
    pub fn truncate(&mut self, call: &Call, op: op::Truncate) -> Tried {
        let by_desc = call.lengths.0 == 0 && op.flags & AT_EMPTY_PATH != 0 && op.dir != CWD;
        let target = match by_desc {
            true => self.written(op.dir)?,
            false => self.view()?.target(call, op.dir, op.flags, true)?,
        };
        let ino = match target {
            Node::Mem(ino) => ino,
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
            inode.permits(self.cred(), memfs::WRITE)?;
        }
        if !by_desc && self.tree.files().content(ino)?.texts() > 0 {
            return Err(Errno::ETXTBSY);
        }
        let writer = writer(self.procs, self.caller, self.clock.wall())?;
        let resized = self.tree.files_mut().resize(ino, op.size, writer);
        resized.map_err(|refusal| refused(refusal, self.caller, self.fx))?;
        done(Inode { inode: ino.0 as u64 })
    }

    /// `chdir`, `fchdir`.
    pub fn chdir(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        let node = self.view()?.target(call, dir, flags, true)?;
        match node {
            Node::Mem(ino) => {
                let inode = self.tree.files().names().get(ino)?;
                inode.dir()?;
                inode.permits(self.cred(), memfs::EXEC)?;
            }
            Node::Proc(_) if matches!(self.view()?.step(node)?, Step::Dir) => {}
            Node::Proc(_) => return Err(Errno::ENOTDIR),
            Node::Share(dir) => self.visit()?.check_dir(dir, memfs::EXEC)?,
        }
        self.tree.hold(node);
        let proc = self.procs.get_mut(self.caller.pid)?;
        let old = core::mem::replace(&mut proc.cwd, node);
        if let Some(gone) = self.tree.release(old) {
            self.pipes.forget_fifo(gone);
        }
        done(())
    }

    /// `getcwd`.
    pub fn get_cwd(&mut self) -> Tried {
        let path = self.tree.path_of(self.procs.get(self.caller.pid)?.cwd)?;
        if path.len() >= unixproto::session::DATA_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.procs.put(self.caller, &path)?;
        count(path.len())
    }

    /// `statfs`.
    pub fn stat_fs(&mut self, call: &Call, dir: u32, flags: u32) -> Tried {
        const TMPFS: u64 = 0x0102_1994;
        const PROC: u64 = 0x9fa0;
        const HUGETLBFS: u64 = 0x9584_58f6;
        /// "tess".
        const PMEM: u64 = 0x7373_6574;
        /// `ST_VALID`, `ST_RDONLY`.
        const READ_ONLY: u64 = 0x21;
        let nameless = call.lengths.0 == 0
            && dir != CWD
            && self.descs.of(self.caller.pid, dir)?.object.node().is_none();
        let (magic, shown) = match nameless {
            true => (TMPFS, 0),
            false => match self.view()?.target(call, dir, flags, true)? {
                Node::Mem(ino) => {
                    let inode = self.tree.files().names().get(ino)?;
                    let magic = match inode.kept().is_some() {
                        true => PMEM,
                        false if self.tree.files().grain(ino) > 4096 => HUGETLBFS,
                        false => TMPFS,
                    };
                    (magic, if inode.changeable().is_err() { READ_ONLY } else { 0 })
                }
                Node::Proc(_) => (PROC, 0),
                Node::Share(node) => {
                    let words = self.visit()?.space(node)?;
                    return self.put_words(&words);
                }
            },
        };
        let (free, total) = crate::caps::memory();
        let (used, limit) =
            (self.tree.files().names().used() as u64, self.tree.files().names().limit() as u64);
        let words = match (magic, self.tree.files_mut().memory().pool) {
            (PMEM, Some(handle)) => {
                let (total, free) = crate::pmem::space(handle.pool)?;
                [
                    magic,
                    4096,
                    total,
                    free,
                    free,
                    limit,
                    limit - used,
                    0,
                    255,
                    4096,
                    shown,
                    0,
                    0,
                    0,
                    0,
                ]
            }
            (TMPFS, _) => [
                magic,
                4096,
                total / 4096,
                free / 4096,
                free / 4096,
                limit,
                limit - used,
                0,
                255,
                4096,
                shown,
                0,
                0,
                0,
                0,
            ],
            (HUGETLBFS, _) => [magic, LARGE_PAGE, 0, 0, 0, 0, 0, 0, 255, LARGE_PAGE, 0, 0, 0, 0, 0],
            _ => [magic, 4096, 0, 0, 0, 0, 0, 0, 255, 4096, 0, 0, 0, 0, 0],
        };
        self.put_words(&words)
    }

    /// Answers with `struct statfs`.
    fn put_words(&self, words: &[u64; 15]) -> Tried {
        let mut bytes = [0; 120];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.procs.put(self.caller, &bytes)?;
        done(())
    }
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
        Object::Socket(_) => (0o777, (0, 0)),
        _ => (0o600, (0, 0)),
    };
    memfs::Guard { uid, gid, mode, is_dir: false }
}
