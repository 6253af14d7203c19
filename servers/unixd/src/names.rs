//! From the paths in requests to nodes.

use crate::descs::{Descs, Object};
use crate::nodes::{Node, Tree};
use crate::procs::{cred_of, Procs};
use crate::share::{Visit, Way};
use crate::voices::Speaker;
use crate::wait::Call;
use alloc::vec::Vec;
use credentials::Credentials;
use memfs::{walk, Cred, Found, Ino, Names, Step, Walk};
use unixproto::files::{AT_EMPTY_PATH, CWD};
use unixproto::Errno;

/// A directory in which names are made and removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// Of the file system.
    Mem(Ino),
    /// Of the folder of the host.
    Share(u32),
}

/// The tree as one process sees it, with `/proc`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub tree: &'a Tree,
    pub procs: &'a Procs,
    pub descs: &'a Descs,
    pub caller: Speaker,
    /// Who looks: the process, or who it would be by its real ids.
    pub who: &'a Credentials,
}

impl<'a> View<'a> {
    /// As the caller's process sees it.
    pub fn new(
        tree: &'a Tree,
        procs: &'a Procs,
        descs: &'a Descs,
        caller: Speaker,
    ) -> Result<View<'a>, Errno> {
        Ok(View { tree, procs, descs, caller, who: &procs.get(caller.pid)?.who })
    }

    /// On whose behalf files are looked for.
    fn cred(&self) -> Cred {
        cred_of(self.who)
    }

    /// The directory that a request names.
    fn start(&self, dir: u32) -> Result<Node, Errno> {
        if dir == CWD {
            return Ok(self.procs.get(self.caller.pid)?.cwd);
        }
        match self.descs.of(self.caller.pid, dir)?.object {
            Object::Dir(node) | Object::Path(node) => Ok(node),
            Object::Shared(file) if file.is_dir => Ok(Node::Share(file.node)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Walks a path.
    pub fn walk(&self, dir: u32, path: &[u8], follow: bool) -> Result<Found<Node>, Errno> {
        let root = self.tree.root();
        // An absolute path does not look at the directory.
        let start = if path.first() == Some(&b'/') { root } else { self.start(dir)? };
        walk(self, Walk { root, start, cred: self.cred(), follow }, path)
    }

    /// The node that a request is about: by path, or the description itself.
    pub fn target(&self, call: &Call, dir: u32, flags: u32, follow: bool) -> Result<Node, Errno> {
        if call.lengths.0 == 0 && flags & AT_EMPTY_PATH != 0 {
            if dir == CWD {
                return Ok(self.procs.get(self.caller.pid)?.cwd);
            }
            return self.descs.of(self.caller.pid, dir)?.object.node().ok_or(Errno::EINVAL);
        }
        let path = self.procs.path(self.caller, call)?;
        self.walk(dir, &path, follow)?.existing()
    }

    /// The folder of the host, for this request.
    pub fn visit(&self) -> Result<Visit<'a>, Errno> {
        let share = self.tree.share().ok_or(Errno::EIO)?;
        Ok(share.visit(self.caller.tid, self.cred()))
    }

    /// Directory and name of a path whose last component is to be made or removed.
    pub fn last(&self, dir: u32, path: &[u8]) -> Result<(Parent, Found<Node>), Errno> {
        let found = self.walk(dir, path, false)?;
        match found.parent {
            Node::Mem(ino) => Ok((Parent::Mem(ino), found)),
            Node::Share(node) => Ok((Parent::Share(node), found)),
            Node::Proc(_) if found.node.is_some() => Err(Errno::EPERM),
            Node::Proc(_) => Err(Errno::ENOENT),
        }
    }

    /// The path of the file that a path of the process leads to, links followed.
    pub fn absolute(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let found = self.walk(CWD, path, true)?;
        self.tree.path_in(found.parent, &found.name)
    }
}

impl Names for View<'_> {
    type Node = Node;

    fn step(&self, node: Node) -> Result<Step<Node>, Errno> {
        match node {
            Node::Proc(node) => self.proc_step(node),
            Node::Share(node) => self.visit()?.step(node),
            Node::Mem(ino) => Ok(match self.tree.files().names().step(ino)? {
                Step::Dir => Step::Dir,
                Step::Link(text) => Step::Link(text),
                Step::Jump(ino) => Step::Jump(Node::Mem(ino)),
                Step::Other => Step::Other,
            }),
        }
    }

    fn enter(&self, dir: Node, cred: Cred) -> Result<(), Errno> {
        match dir {
            Node::Mem(ino) => self.tree.files().names().enter(ino, cred),
            Node::Proc(dir) => self.proc_enter(dir),
            Node::Share(dir) => self.visit()?.enter(dir),
        }
    }

    fn may_follow(&self, dir: Node, link: Node, cred: Cred) -> Result<(), Errno> {
        match (dir, link) {
            (Node::Mem(dir), Node::Mem(link)) => {
                self.tree.files().names().may_follow(dir, link, cred)
            }
            (Node::Share(dir), Node::Share(link)) => self.visit()?.may_follow(dir, link),
            _ => Ok(()),
        }
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> Result<Option<Node>, Errno> {
        match dir {
            Node::Proc(dir) => self.proc_lookup(dir, name),
            Node::Share(dir) => Ok(match self.visit()?.lookup(dir, name)? {
                Some(Way::Node(node)) => Some(Node::Share(node)),
                Some(Way::Out) => Some(self.tree.root()),
                None => None,
            }),
            Node::Mem(ino) => {
                let found = self.tree.files().names().lookup(ino, name)?;
                Ok(found.map(|ino| self.tree.node(ino)))
            }
        }
    }
}

impl Tree {
    /// The absolute path of a directory.
    pub fn path_of(&self, node: Node) -> Result<Vec<u8>, Errno> {
        match node {
            Node::Mem(ino) => self.files().names().path_of(ino),
            Node::Proc(node) => Ok(crate::procfs::path_of(node)),
            Node::Share(node) => self.share().ok_or(Errno::EIO)?.path(node),
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
}
