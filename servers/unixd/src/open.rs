//! Opening and creating files.

use crate::content::File;
use crate::descs::{Claim, Object, Place};
use crate::nodes::Node;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{done, Call, Outcome, Tried};
use memfs::{Attr, Found, Ino};
use unixproto::files::*;
use unixproto::ops::Opened;
use unixproto::{op, Errno};

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
}

impl Unixd {
    /// Opens, creates if wanted.
    pub fn open(&mut self, pid: Pid, call: &mut Call, op: op::Open) -> Tried {
        if call.kept != 0 {
            return self.open_fifo(pid, call);
        }
        check_exec(op)?;
        self.room(pid, 1)?;
        let path = self.a(pid, call)?;
        if op.flags & O_TMPFILE == O_TMPFILE {
            return self.open_unnamed(pid, op, &path);
        }
        let exclusive = op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        let follow = op.flags & O_NOFOLLOW == 0 && !exclusive;
        let found = self.walk(pid, op.dir, &path, follow)?;
        match found.node {
            Some(_) if exclusive => Err(Errno::EEXIST),
            Some(_) if op.flags & O_CREAT != 0 && found.slash => Err(Errno::EISDIR),
            Some(node) => self.open_node(pid, call, op, &found, node, false),
            None if op.flags & O_CREAT == 0 => Err(Errno::ENOENT),
            None => self.create(pid, call, op, found),
        }
    }

    fn create(&mut self, pid: Pid, call: &mut Call, op: op::Open, found: Found<Node>) -> Tried {
        if found.slash {
            return Err(Errno::EISDIR);
        }
        if op.flags & O_DIRECTORY != 0 {
            return Err(Errno::EINVAL);
        }
        let Node::Mem(dir) = found.parent else { return Err(Errno::ENOENT) };
        // A link that leads nowhere was followed to its end already.
        let ino = self.new_file(pid, dir, &found.name, op.mode)?;
        self.open_node(pid, call, op, &found, Node::Mem(ino), true)
    }

    /// Makes a regular file.
    pub fn new_file(&mut self, pid: Pid, dir: Ino, name: &[u8], mode: u32) -> Result<Ino, Errno> {
        if self.has_no_names(pid) {
            return Err(Errno::ENOSPC);
        }
        let node = memfs::Node::File { size: 0, content: File::default() };
        let attr = self.attr(pid, mode);
        let ino = self.fs.create(dir, name, node, attr)?;
        self.layout = self.layout.wrapping_add(1);
        let layout = self.layout;
        self.file(ino)?.1.layout = layout;
        Ok(ino)
    }

    /// Attributes of what a process makes.
    pub fn attr(&self, pid: Pid, mode: u32) -> Attr {
        Attr { mode: mode & 0o7777, cred: self.cred(pid), now: self.clock.wall() }
    }

    fn open_unnamed(&mut self, pid: Pid, op: op::Open, path: &[u8]) -> Tried {
        if op.flags & O_ACCMODE == O_RDONLY {
            return Err(Errno::EINVAL);
        }
        let Node::Mem(dir) = self.walk(pid, op.dir, path, true)?.existing()? else {
            return Err(Errno::EOPNOTSUPP);
        };
        let inode = self.fs.get(dir)?;
        inode.dir()?;
        inode.permits(self.cred(pid), memfs::WRITE | memfs::EXEC)?;
        if self.has_no_names(pid) {
            return Err(Errno::ENOSPC);
        }
        let node = memfs::Node::File { size: 0, content: File::default() };
        let attr = self.fs.inherited(dir, self.attr(pid, op.mode), false)?;
        let ino = self.fs.create_unnamed(node, attr)?;
        self.opened(pid, Object::File(ino), op.flags, None, Claim::Writes)
    }

    fn open_node(
        &mut self,
        pid: Pid,
        call: &mut Call,
        op: op::Open,
        found: &Found<Node>,
        node: Node,
        new: bool,
    ) -> Tried {
        let object = match node {
            Node::Proc(node) => self.open_proc(pid, node, op)?,
            Node::Mem(ino) => {
                if !new {
                    self.may_open(pid, ino, op)?;
                }
                self.object(pid, ino, op)?
            }
        };
        let claim = match object {
            Object::File(ino) => self.claimed(ino, op)?,
            _ => Claim::None,
        };
        if let (Object::File(ino), true) = (&object, op.flags & O_TRUNC != 0 && !new) {
            self.resize(pid, *ino, 0)?;
        }
        if let Some(node) = object.node() {
            self.hold_node(node);
        }
        let dir = found.parent;
        self.hold_node(dir);
        let place = Place { dir, name: found.name.clone() };
        if let Object::Pipe(pipe, Some(_)) = object {
            self.pipe_opened(pipe, op.flags);
            call.kept = self.open_desc(pid, object, op.flags, Some(place))?;
            return self.open_fifo(pid, call);
        }
        if let Object::Pipe(pipe, None) = object {
            self.pipe_opened(pipe, op.flags);
        }
        self.opened(pid, object, op.flags, Some(place), claim)
    }

    /// What an open of a regular file claims. `ETXTBSY`: somebody else's claim is in the way.
    fn claimed(&mut self, ino: Ino, op: op::Open) -> Result<Claim, Errno> {
        let (_, file) = self.file(ino)?;
        let writes = matches!(op.flags & O_ACCMODE, O_WRONLY | O_RDWR);
        if op.extra & OPEN_EXEC != 0 {
            return match file.writers {
                0 => Ok(Claim::Executes),
                _ => Err(Errno::ETXTBSY),
            };
        }
        match file.texts {
            0 if writes => Ok(Claim::Writes),
            1.. if writes || op.flags & O_TRUNC != 0 => Err(Errno::ETXTBSY),
            _ => Ok(Claim::None),
        }
    }

    fn opened(
        &mut self,
        pid: Pid,
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
    ) -> Tried {
        let (kind, node) = (object.kind() as u8, object.node());
        let desc = self.open_claiming(pid, object, flags, place, claim)?;
        let inode = match node {
            Some(Node::Mem(ino)) => ino.0 as u64,
            _ => 0,
        };
        done(Opened { desc, kind, inode })
    }

    /// A fifo is open when its other end is.
    fn open_fifo(&mut self, pid: Pid, call: &mut Call) -> Tried {
        let desc = self.desc(pid, call.kept)?;
        let Object::Pipe(pipe, Some(ino)) = desc.object else { return Err(Errno::EBADF) };
        let flags = desc.flags;
        if !self.fifo_is_open(pipe, flags) {
            let writer = flags & O_ACCMODE == O_WRONLY;
            if flags & O_NONBLOCK == 0 {
                return Ok(Outcome::Block(0));
            }
            if writer {
                self.drop_kept(pid, call);
                return Err(Errno::ENXIO);
            }
        }
        done(Opened { desc: call.kept, kind: Kind::Pipe as u8, inode: ino.0 as u64 })
    }

    /// A request is given up that has opened something already.
    pub fn drop_kept(&mut self, pid: Pid, call: &Call) {
        if !matches!(call.any, unixproto::Any::Open(_)) || call.kept == 0 {
            return;
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        if let Ok(at) = proc.held.binary_search(&call.kept) {
            proc.held.remove(at);
            self.let_go(pid, call.kept);
        }
    }

    fn may_open(&self, pid: Pid, ino: Ino, op: op::Open) -> Result<(), Errno> {
        let inode = self.fs.get(ino)?;
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
        inode.permits(self.cred(pid), wanted)
    }

    fn object(&mut self, pid: Pid, ino: Ino, op: op::Open) -> Result<Object, Errno> {
        let node = self.node(ino);
        if op.flags & O_PATH == O_PATH {
            return Ok(match self.fs.get(ino)?.is_dir() {
                true => Object::Dir(node),
                false => Object::Path(node),
            });
        }
        match self.fs.get(ino)?.node {
            memfs::Node::File { .. } => Ok(Object::File(ino)),
            memfs::Node::Dir(_) => Ok(Object::Dir(node)),
            memfs::Node::Fifo => Ok(Object::Pipe(self.pipes.fifo(ino)?, Some(ino))),
            memfs::Node::Device(number) => self.open_device(pid, ino, number, op.flags),
            _ => Err(Errno::ENXIO),
        }
    }

    fn open_device(
        &mut self,
        pid: Pid,
        ino: Ino,
        number: u64,
        flags: u32,
    ) -> Result<Object, Errno> {
        Ok(match number {
            device::NULL => Object::Device(Kind::Null, ino),
            device::ZERO => Object::Device(Kind::Zero, ino),
            device::FULL => Object::Device(Kind::Full, ino),
            device::RANDOM | device::URANDOM => Object::Device(Kind::Random, ino),
            device::TTY => {
                if self.terminal.session != Some(self.procs.get(pid)?.sid) {
                    return Err(Errno::ENXIO);
                }
                Object::Tty(Some(ino))
            }
            device::CONSOLE | device::SERIAL => {
                if flags & O_NOCTTY == 0 {
                    self.adopt_terminal(pid);
                }
                Object::Tty(Some(ino))
            }
            _ => return Err(Errno::ENXIO),
        })
    }
}

/// `EINVAL` for a file that is to be executed and opened in any other way than that.
fn check_exec(op: op::Open) -> Result<(), Errno> {
    const HARMLESS: u32 = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    match op.extra {
        0 => Ok(()),
        OPEN_EXEC if op.flags & !HARMLESS == O_RDONLY => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}
