//! Requests about names and attributes.

use crate::descs::Object;
use crate::nodes::Node;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{count, done, Call, Tried};
use memfs::{Ino, Step, PATH_MAX};
use unixproto::files::*;
use unixproto::ops::Inode;
use unixproto::{op, Errno};

/// Device number of the file system.
const DEVICE: u64 = 1;
/// Bytes of a block, for `st_blocks`.
const BLOCK: u64 = 512;

impl Unixd {
    /// `stat`.
    pub fn stat(&mut self, pid: Pid, call: &Call, dir: u32, flags: u32) -> Tried {
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        let empty = call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 && dir != CWD;
        let nameless = match empty {
            true => self.desc(pid, dir)?.object.node().is_none(),
            false => false,
        };
        let stat = if nameless {
            self.nameless_stat(pid, dir)?
        } else {
            match self.target(pid, call, dir, flags, follow)? {
                Node::Mem(ino) => self.inode_stat(ino)?,
                Node::Proc(node) => self.proc_stat(pid, node)?,
            }
        };
        self.put(pid, &stat.to_bytes())?;
        done(())
    }

    fn inode_stat(&self, ino: Ino) -> Result<Stat, Errno> {
        let inode = self.fs.get(ino)?;
        let allocated = match &inode.node {
            memfs::Node::File { content, .. } => match content.boot {
                Some((_, bytes)) => bytes.next_multiple_of(4096),
                None => content.extents.allocated().min(inode.size().next_multiple_of(4096)),
            },
            memfs::Node::Dir(_) => inode.size(),
            _ => 0,
        };
        let rdev = match inode.node {
            memfs::Node::Device(number) => number,
            _ => 0,
        };
        Ok(Stat {
            dev: DEVICE,
            ino: ino.0 as u64,
            nlink: inode.nlink as u64,
            mode: inode.node.type_bits() | inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            rdev,
            size: inode.size() as i64,
            blksize: 4096,
            blocks: (allocated / BLOCK) as i64,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
        })
    }

    /// Pipes, and the console when it is opened by nobody.
    fn nameless_stat(&self, pid: Pid, desc: u32) -> Result<Stat, Errno> {
        let (mode, rdev, ino) = match self.desc(pid, desc)?.object {
            Object::Tty(_) => (S_IFCHR | 0o620, crate::open::device::CONSOLE, 1),
            Object::Pipe(pipe, _) => (S_IFIFO | 0o600, 0, 1 + pipe as u64),
            _ => (S_IFIFO | 0o600, 0, 1),
        };
        let now = self.clock.boot_wall() as i64;
        let times = Stat { atime: now, mtime: now, ctime: now, ..Stat::default() };
        Ok(Stat { dev: DEVICE + 1, ino, nlink: 1, mode, rdev, blksize: 4096, ..times })
    }

    /// `access`, `faccessat`.
    pub fn access(&mut self, pid: Pid, call: &Call, op: op::Access) -> Tried {
        if op.mode & !7 != 0 {
            return Err(Errno::EINVAL);
        }
        // The real ids count, on the way to the file too, unless the effective ones are asked for.
        let ids = self.procs.get(pid)?.ids;
        if op.flags & AT_EACCESS == 0 {
            let proc = self.procs.get_mut(pid)?;
            (proc.ids[1], proc.ids[4]) = (ids[0], ids[3]);
        }
        let result = self.access_as_effective(pid, call, op);
        self.procs.get_mut(pid)?.ids = ids;
        result
    }

    fn access_as_effective(&mut self, pid: Pid, call: &Call, op: op::Access) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let Node::Mem(ino) = self.target(pid, call, op.dir, op.flags, follow)? else {
            return if op.mode & memfs::WRITE != 0 { Err(Errno::EACCES) } else { done(()) };
        };
        self.fs.get(ino)?.permits(self.cred(pid), op.mode)?;
        done(())
    }

    /// `mkdir`.
    pub fn mkdir(&mut self, pid: Pid, call: &Call, dir: u32, mode: u32) -> Tried {
        let path = self.a(pid, call)?;
        let (parent, found) = self.last(pid, dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        let attr = self.attr(pid, mode & 0o1777);
        self.fs.mkdir(parent, &found.name, attr)?;
        done(())
    }

    /// `mknod`.
    pub fn mknod(&mut self, pid: Pid, call: &Call, op: op::Mknod) -> Tried {
        let path = self.a(pid, call)?;
        let (parent, found) = self.last(pid, op.dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        let node = match op.mode & S_IFMT {
            0 | S_IFREG => {
                self.new_file(pid, parent, &found.name, op.mode)?;
                return done(());
            }
            S_IFIFO => memfs::Node::Fifo,
            S_IFSOCK => memfs::Node::Socket,
            S_IFCHR if self.cred(pid).uid == 0 => memfs::Node::Device(op.dev),
            S_IFCHR | S_IFBLK => return Err(Errno::EPERM),
            S_IFDIR => return Err(Errno::EPERM),
            _ => return Err(Errno::EINVAL),
        };
        let attr = self.attr(pid, op.mode);
        self.fs.create(parent, &found.name, node, attr)?;
        done(())
    }

    /// `unlink`, `rmdir`.
    pub fn unlink(&mut self, pid: Pid, call: &Call, dir: u32, flags: u32) -> Tried {
        let path = self.a(pid, call)?;
        let (parent, found) = self.last(pid, dir, &path)?;
        let (cred, now) = (self.cred(pid), self.clock.wall());
        let remove_dir = flags & AT_REMOVEDIR != 0;
        if found.name == b"." || found.name == b".." {
            return Err(match (remove_dir, &found.name[..]) {
                (false, _) => Errno::EISDIR,
                (true, _) if parent == self.fs.root() => Errno::EBUSY,
                (true, b".") => Errno::EINVAL,
                _ => Errno::ENOTEMPTY,
            });
        }
        let node = found.existing()?;
        if matches!(node, Node::Proc(_)) {
            return Err(Errno::EBUSY);
        }
        match remove_dir {
            true => self.fs.rmdir(parent, &found.name, cred, now)?,
            false => self.fs.unlink(parent, &found.name, cred, now)?,
        }
        done(())
    }

    /// `rename`.
    pub fn rename(&mut self, pid: Pid, call: &Call, op: op::Rename) -> Tried {
        let (old, new) = (self.a(pid, call)?, self.b(pid, call)?);
        let (from, old) = self.last(pid, op.old_dir, &old)?;
        let (to, new) = self.last(pid, op.new_dir, &new)?;
        let Node::Mem(source) = old.existing()? else { return Err(Errno::EBUSY) };
        if matches!(new.node, Some(Node::Proc(_))) {
            return Err(Errno::EBUSY);
        }
        if new.slash && !self.fs.get(source)?.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let (cred, now) = (self.cred(pid), self.clock.wall());
        self.fs.rename(from, &old.name, to, &new.name, op.flags, cred, now)?;
        done(())
    }

    /// `link`.
    pub fn link(&mut self, pid: Pid, call: &Call, op: op::Link) -> Tried {
        let (old, new) = (self.a(pid, call)?, self.b(pid, call)?);
        let source = if old.is_empty() && op.flags & AT_EMPTY_PATH != 0 {
            self.desc(pid, op.old_dir)?.object.node().ok_or(Errno::ENOENT)?
        } else {
            self.walk(pid, op.old_dir, &old, op.flags & AT_SYMLINK_FOLLOW != 0)?.existing()?
        };
        let (parent, found) = self.last(pid, op.new_dir, &new).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        let Node::Mem(ino) = source else { return Err(Errno::EXDEV) };
        let (cred, now) = (self.cred(pid), self.clock.wall());
        self.fs.link(ino, parent, &found.name, cred, now)?;
        done(())
    }

    /// `symlink`.
    pub fn symlink(&mut self, pid: Pid, call: &Call, dir: u32) -> Tried {
        let (text, path) = (self.a(pid, call)?, self.b(pid, call)?);
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let (parent, found) = self.last(pid, dir, &path).map_err(exists_in_proc)?;
        if found.node.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.slash {
            return Err(Errno::ENOENT);
        }
        let attr = self.attr(pid, 0o777);
        self.fs.create(parent, &found.name, memfs::Node::Symlink(text), attr)?;
        done(())
    }

    /// `readlink`.
    pub fn read_link(&mut self, pid: Pid, call: &Call, dir: u32) -> Tried {
        let node = self.target(pid, call, dir, AT_EMPTY_PATH, false)?;
        let text = match node {
            Node::Proc(node) => self.proc_link(pid, node)?,
            Node::Mem(ino) => match memfs::Names::step(&self.fs, ino)? {
                Step::Link(text) => text,
                _ => return Err(Errno::EINVAL),
            },
        };
        self.put(pid, &text)?;
        count(text.len())
    }

    /// `chmod`.
    pub fn chmod(&mut self, pid: Pid, call: &Call, op: op::Chmod) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let ino = self.target_ino(pid, call, op.dir, op.flags, follow)?;
        let (cred, now) = (self.cred(pid), self.clock.wall());
        let inode = self.fs.get_mut(ino)?;
        if matches!(inode.node, memfs::Node::Symlink(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        inode.owned_by(cred)?;
        inode.mode = op.mode & 0o7777;
        inode.ctime = now;
        done(())
    }

    /// `chown`.
    pub fn chown(&mut self, pid: Pid, call: &Call, op: op::Chown) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let ino = self.target_ino(pid, call, op.dir, op.flags, follow)?;
        let (cred, now) = (self.cred(pid), self.clock.wall());
        let inode = self.fs.get_mut(ino)?;
        let moves = op.uid != KEEP_ID && op.uid != inode.uid;
        let regroups = op.gid != KEEP_ID && op.gid != inode.gid && op.gid != cred.gid;
        if cred.uid != 0 && (moves || regroups || inode.uid != cred.uid) {
            return Err(Errno::EPERM);
        }
        if op.gid != KEEP_ID {
            inode.gid = op.gid;
        }
        if !inode.is_dir() && inode.mode & 0o111 != 0 {
            inode.mode &= !(S_ISUID | S_ISGID);
        }
        inode.ctime = now;
        if op.uid != KEEP_ID {
            self.fs.set_owner(ino, op.uid)?;
        }
        done(())
    }

    /// `utimensat`.
    pub fn set_times(&mut self, pid: Pid, call: &Call, op: op::SetTimes) -> Tried {
        let follow = op.flags & AT_SYMLINK_NOFOLLOW == 0;
        let ino = self.target_ino(pid, call, op.dir, op.flags, follow)?;
        let (cred, now) = (self.cred(pid), self.clock.wall());
        let inode = self.fs.get_mut(ino)?;
        let both_now = op.atime == TIME_NOW && op.mtime == TIME_NOW;
        if op.atime == TIME_OMIT && op.mtime == TIME_OMIT {
            return done(());
        }
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

    /// `truncate`, `ftruncate`.
    pub fn truncate(&mut self, pid: Pid, call: &Call, op: op::Truncate) -> Tried {
        let by_desc = call.lengths.0 == 0 && op.flags & AT_EMPTY_PATH != 0 && op.dir != CWD;
        if by_desc && self.desc(pid, op.dir)?.writable().is_err() {
            return Err(Errno::EINVAL);
        }
        let ino = self.target_ino(pid, call, op.dir, op.flags, true)?;
        let inode = self.fs.get(ino)?;
        if inode.is_dir() {
            return Err(Errno::EISDIR);
        }
        if !by_desc {
            inode.permits(self.cred(pid), memfs::WRITE)?;
        }
        self.resize(ino, op.size)?;
        done(Inode { inode: ino.0 as u64 })
    }

    /// `chdir`, `fchdir`.
    pub fn chdir(&mut self, pid: Pid, call: &Call, dir: u32, flags: u32) -> Tried {
        let node = self.target(pid, call, dir, flags, true)?;
        if let Node::Mem(ino) = node {
            let inode = self.fs.get(ino)?;
            inode.dir()?;
            inode.permits(self.cred(pid), memfs::EXEC)?;
        } else if self.view_is_dir(pid, node)? {
        } else {
            return Err(Errno::ENOTDIR);
        }
        self.hold_node(node);
        let old = core::mem::replace(&mut self.procs.get_mut(pid)?.cwd, node);
        self.release_node(old);
        done(())
    }

    fn view_is_dir(&self, pid: Pid, node: Node) -> Result<bool, Errno> {
        let view = crate::nodes::View { unixd: self, pid };
        Ok(matches!(memfs::Names::step(&view, node)?, Step::Dir))
    }

    /// `getcwd`.
    pub fn get_cwd(&mut self, pid: Pid) -> Tried {
        let path = self.path_of(self.procs.get(pid)?.cwd)?;
        if path.len() >= unixproto::session::DATA_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.put(pid, &path)?;
        count(path.len())
    }

    /// `statfs`.
    pub fn stat_fs(&mut self, pid: Pid, call: &Call, dir: u32, flags: u32) -> Tried {
        const TMPFS: u64 = 0x0102_1994;
        const PROC: u64 = 0x9fa0;
        let nameless =
            call.lengths.0 == 0 && dir != CWD && self.desc(pid, dir)?.object.node().is_none();
        let magic = match nameless {
            true => TMPFS,
            false => match self.target(pid, call, dir, flags, true)? {
                Node::Mem(_) => TMPFS,
                Node::Proc(_) => PROC,
            },
        };
        let (free, total) = self.memory();
        let (used, limit) = (self.fs.used() as u64, self.fs.limit() as u64);
        let words = match magic {
            TMPFS => [
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
                0,
                0,
                0,
                0,
                0,
            ],
            _ => [magic, 4096, 0, 0, 0, 0, 0, 0, 255, 4096, 0, 0, 0, 0, 0],
        };
        let mut bytes = [0; 120];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.put(pid, &bytes)?;
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
