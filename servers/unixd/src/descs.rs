//! Open file descriptions: who holds them, what they are.

use crate::nodes::Node;
use crate::procs::{Pid, HELD_MAX};
use crate::server::Unixd;
use crate::wait::{done, Call, Tried};
use alloc::rc::Rc;
use alloc::vec::Vec;
use memfs::Ino;
use piecewise::{Limits, Shares, Table};
use unixproto::files::*;
use unixproto::ops::{Flags, Offset, Opened};
use unixproto::{op, Errno};

/// Descriptions that there may be in all.
const DESCS_MAX: usize = 32768;

/// Bytes of texts that may be open in all.
const TEXTS_MAX: usize = 4 << 20;

/// What a description refers to.
#[derive(Clone)]
pub enum Object {
    /// A regular file.
    File(Ino),
    /// A directory.
    Dir(Node),
    /// A pipe or fifo, by its number, and the inode of a fifo.
    Pipe(u32, Option<Ino>),
    /// The terminal.
    Tty(Option<Ino>),
    /// The console as a stream of bytes.
    Stream,
    /// A device that the library does alone.
    Device(Kind, Ino),
    /// Text made when it was opened.
    Text(Node, Rc<[u8]>),
    /// A place in the tree (`O_PATH`).
    Path(Node),
}

impl Object {
    /// How the library treats it.
    pub fn kind(&self) -> Kind {
        match self {
            Object::File(_) => Kind::Regular,
            Object::Dir(_) => Kind::Directory,
            Object::Pipe(..) => Kind::Pipe,
            Object::Tty(_) => Kind::Tty,
            Object::Stream => Kind::Stream,
            Object::Device(kind, _) => *kind,
            Object::Text(..) => Kind::Text,
            Object::Path(_) => Kind::Path,
        }
    }
    /// Its place in the tree.
    pub fn node(&self) -> Option<Node> {
        match self {
            Object::File(ino) | Object::Device(_, ino) => Some(Node::Mem(*ino)),
            Object::Pipe(_, ino) | Object::Tty(ino) => ino.map(Node::Mem),
            Object::Dir(node) | Object::Path(node) | Object::Text(node, _) => Some(*node),
            Object::Stream => None,
        }
    }
}

/// A name that a description was opened by, for `/proc/PID/fd`.
pub struct Place {
    /// The directory, held.
    pub dir: Node,
    /// The name there.
    pub name: Vec<u8>,
}

/// What a description of a regular file keeps others from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Nothing.
    None,
    /// It is writable: nobody executes the file.
    Writes,
    /// The file is executed: nobody opens it for writing.
    Executes,
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

/// All of them; the id is the index plus one.
pub struct Descs {
    /// Bytes of the texts among them.
    texts: usize,
    table: Table<Desc>,
    /// How many were opened by each user.
    users: Shares,
}

impl Default for Descs {
    fn default() -> Self {
        let users = Shares::new(Limits::of(DESCS_MAX));
        Descs { texts: 0, table: Table::default(), users }
    }
}

impl Descs {
    /// The description with this id.
    pub fn get(&self, id: u32) -> Result<&Desc, Errno> {
        let index = (id as usize).wrapping_sub(1);
        self.table.get(index).ok_or(Errno::EBADF)
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u32) -> Result<&mut Desc, Errno> {
        let index = (id as usize).wrapping_sub(1);
        self.table.get_mut(index).ok_or(Errno::EBADF)
    }
    /// May a user have `count` more?
    pub fn room(&self, uid: u32, count: usize) -> Result<(), Errno> {
        match self.users.has_room(uid, count) && self.texts <= TEXTS_MAX {
            true => Ok(()),
            false => Err(Errno::ENFILE),
        }
    }
    /// Adds one. Gives it back if there is no memory: then what it refers to is to be let go.
    #[allow(clippy::result_large_err)]
    fn add(&mut self, desc: Desc) -> Result<u32, Desc> {
        let text = desc.text_bytes();
        let uid = desc.uid;
        let index = self.table.insert(desc)?;
        self.texts += text;
        self.users.take(uid, 1);
        Ok(index as u32 + 1)
    }
    /// One process more holds it.
    pub fn hold(&mut self, id: u32) {
        if let Ok(desc) = self.get_mut(id) {
            desc.refs += 1;
        }
    }
    /// One less; the last one gets it back to be closed.
    fn let_go(&mut self, id: u32) -> Option<Desc> {
        let desc = self.get_mut(id).ok()?;
        desc.refs -= 1;
        if desc.refs > 0 {
            return None;
        }
        let desc = self.table.remove(id as usize - 1)?;
        self.texts -= desc.text_bytes();
        self.users.give_back(desc.uid, 1);
        Some(desc)
    }
}

impl Unixd {
    /// A description that a process holds.
    pub fn desc(&self, pid: Pid, id: u32) -> Result<&Desc, Errno> {
        if !self.procs.get(pid)?.holds(id) {
            return Err(Errno::EBADF);
        }
        self.descs.get(id)
    }

    /// The same, to be changed.
    pub fn desc_mut(&mut self, pid: Pid, id: u32) -> Result<&mut Desc, Errno> {
        if !self.procs.get(pid)?.holds(id) {
            return Err(Errno::EBADF);
        }
        self.descs.get_mut(id)
    }

    /// May a process open `count` more?
    pub fn room(&self, pid: Pid, count: usize) -> Result<(), Errno> {
        let proc = self.procs.get(pid)?;
        if proc.held.len() + count > HELD_MAX {
            return Err(Errno::EMFILE);
        }
        self.descs.room(proc.cred().uid, count)
    }

    /// Gives a process a new description. What it refers to is held already, and so is its place; if
    /// there is no memory for it (`ENFILE`), neither is any more.
    pub fn open_desc(
        &mut self,
        pid: Pid,
        object: Object,
        flags: u32,
        place: Option<Place>,
    ) -> Result<u32, Errno> {
        self.open_claiming(pid, object, flags, place, Claim::None)
    }

    /// The same, of a regular file that nobody else may write, or execute.
    pub fn open_claiming(
        &mut self,
        pid: Pid,
        object: Object,
        flags: u32,
        place: Option<Place>,
        claim: Claim,
    ) -> Result<u32, Errno> {
        let status = O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH | O_DIRECTORY;
        let uid = self.procs.get(pid)?.who.users.file;
        let flags = flags & status;
        let inode = match object {
            Object::File(ino) => Some(ino),
            _ => None,
        };
        let desc = Desc { object, flags, offset: 0, place, claim, refs: 1, uid };
        if let Some(ino) = inode {
            self.claim(ino, claim, 1);
        }
        let id = match self.descs.add(desc) {
            Ok(id) => id,
            Err(desc) => {
                self.drop_desc(desc);
                return Err(Errno::ENFILE);
            }
        };
        let proc = self.procs.get_mut(pid)?;
        if let Err(at) = proc.held.binary_search(&id) {
            proc.held.insert(at, id);
        }
        Ok(id)
    }

    /// A process does not hold a description any more.
    pub fn let_go(&mut self, pid: Pid, id: u32) {
        self.pipe_let_go(pid, id);
        self.unwatch(pid, id);
        let is_last = self.descs.get(id).is_ok_and(|desc| desc.refs == 1);
        self.drop_locks(pid, id, is_last);
        if let Some(desc) = self.descs.let_go(id) {
            self.drop_desc(desc);
        }
    }

    /// Lets go what a description refers to that nobody has.
    fn drop_desc(&mut self, desc: Desc) {
        match desc.object {
            Object::Pipe(pipe, _) => self.pipe_closed(pipe, desc.flags),
            Object::File(ino) => self.claim(ino, desc.claim, -1),
            _ => {}
        }
        if let Some(node) = desc.object.node() {
            self.release_node(node);
        }
        if let Some(place) = desc.place {
            self.release_node(place.dir);
        }
    }

    /// Counts a claim to a file, or ends it.
    fn claim(&mut self, ino: Ino, claim: Claim, change: i32) {
        let Ok((_, file)) = self.file(ino) else { return };
        let count = match claim {
            Claim::None => return,
            Claim::Writes => &mut file.writers,
            Claim::Executes => &mut file.texts,
        };
        *count = count.saturating_add_signed(change);
    }

    /// A process closes descriptions.
    pub fn close(&mut self, pid: Pid, call: &Call) -> Tried {
        let ids = self.a(pid, call)?;
        for bytes in ids.chunks_exact(4) {
            let id = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let proc = self.procs.get_mut(pid)?;
            if let Ok(at) = proc.held.binary_search(&id) {
                proc.held.remove(at);
                self.let_go(pid, id);
            }
        }
        done(())
    }

    /// What a description is.
    pub fn describe(&mut self, pid: Pid, id: u32) -> Tried {
        let object = &self.desc(pid, id)?.object;
        let inode = match object.node() {
            Some(Node::Mem(ino)) => ino.0 as u64,
            _ => 0,
        };
        done(Opened { desc: id, kind: object.kind() as u8, inode })
    }

    /// `F_GETFL`.
    pub fn get_flags(&mut self, pid: Pid, id: u32) -> Tried {
        done(Flags { flags: self.desc(pid, id)?.flags })
    }

    /// `F_SETFL`.
    pub fn set_flags(&mut self, pid: Pid, id: u32, flags: u32) -> Tried {
        let changeable = O_APPEND | O_NONBLOCK;
        let desc = self.desc_mut(pid, id)?;
        desc.flags = desc.flags & !changeable | flags & changeable;
        done(())
    }

    /// Moves the offset.
    pub fn seek(&mut self, pid: Pid, op: op::Seek) -> Tried {
        let desc = self.desc(pid, op.desc)?;
        let size = match &desc.object {
            Object::File(ino) => self.fs.get(*ino)?.size(),
            Object::Text(_, text) => text.len() as u64,
            Object::Dir(_) | Object::Device(..) => i64::MAX as u64,
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
            SEEK_DATA => Some(offset),
            SEEK_HOLE => Some(size),
            _ => return Err(Errno::EINVAL),
        };
        let new = new.ok_or(Errno::EINVAL)?;
        if new < 0 {
            return Err(Errno::EINVAL);
        }
        self.desc_mut(pid, op.desc)?.offset = new as u64;
        done(Offset { offset: new as u64 })
    }
}
