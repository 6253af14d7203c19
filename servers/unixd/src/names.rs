//! From the paths in requests to nodes.

use crate::descs::Object;
use crate::nodes::{Node, View};
use crate::procs::{Pid, Proc};
use crate::server::Unixd;
use crate::wait::Call;
use alloc::vec::Vec;
use memfs::{walk, Cred, Found, Ino, Walk};
use unixproto::files::{AT_EMPTY_PATH, CWD};
use unixproto::Errno;

impl Unixd {
    /// Who opens files for a process.
    pub fn cred(&self, pid: Pid) -> Cred {
        self.procs.get(pid).map_or(Cred::user(u32::MAX, u32::MAX), Proc::cred)
    }

    /// The directory that a request names.
    fn start(&self, pid: Pid, dir: u32) -> Result<Node, Errno> {
        if dir == CWD {
            return Ok(self.procs.get(pid)?.cwd);
        }
        match self.desc(pid, dir)?.object {
            Object::Dir(node) | Object::Path(node) => Ok(node),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Walks a path of a process.
    pub fn walk(
        &self,
        pid: Pid,
        dir: u32,
        path: &[u8],
        follow: bool,
    ) -> Result<Found<Node>, Errno> {
        let root = Node::Mem(self.fs.root());
        // An absolute path does not look at the directory.
        let start = if path.first() == Some(&b'/') { root } else { self.start(pid, dir)? };
        let how = Walk { root, start, cred: self.cred(pid), follow };
        walk(&View { unixd: self, pid }, how, path)
    }

    /// The node that a request is about: by path, or the description itself.
    pub fn target(
        &self,
        pid: Pid,
        call: &Call,
        dir: u32,
        flags: u32,
        follow: bool,
    ) -> Result<Node, Errno> {
        let path = self.a(pid, call)?;
        if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
            if dir == CWD {
                return Ok(self.procs.get(pid)?.cwd);
            }
            return self.desc(pid, dir)?.object.node().ok_or(Errno::EINVAL);
        }
        self.walk(pid, dir, &path, follow)?.existing()
    }

    /// The same, for what only the file system has.
    pub fn target_ino(
        &self,
        pid: Pid,
        call: &Call,
        dir: u32,
        flags: u32,
        follow: bool,
    ) -> Result<Ino, Errno> {
        match self.target(pid, call, dir, flags, follow)? {
            Node::Mem(ino) => Ok(ino),
            Node::Proc(_) => Err(Errno::EPERM),
        }
    }

    /// Directory and name of a path whose last component is to be made or removed.
    pub fn last(&self, pid: Pid, dir: u32, path: &[u8]) -> Result<(Ino, Found<Node>), Errno> {
        let found = self.walk(pid, dir, path, false)?;
        match found.parent {
            Node::Mem(ino) => Ok((ino, found)),
            Node::Proc(_) if found.node.is_some() => Err(Errno::EPERM),
            Node::Proc(_) => Err(Errno::ENOENT),
        }
    }

    /// The absolute path of a directory.
    pub fn path_of(&self, node: Node) -> Result<Vec<u8>, Errno> {
        match node {
            Node::Mem(ino) => self.fs.path_of(ino),
            Node::Proc(node) => Ok(crate::procfs::path_of(node)),
        }
    }

    /// The absolute path of a name in a directory.
    pub fn path_in(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut path = self.path_of(dir)?;
        if name != b"." {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Ok(path)
    }

    /// The path of the file that a path of a process leads to, links followed.
    pub fn absolute(&self, pid: Pid, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let found = self.walk(pid, CWD, path, true)?;
        self.path_in(found.parent, &found.name)
    }
}
