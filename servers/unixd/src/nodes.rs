//! What a path leads to: a file of the file system, or something in `/proc`.

use crate::procfs::ProcNode;
use crate::procs::Pid;
use crate::server::Unixd;
use memfs::{Cred, Ino, Names, Step};
use unixproto::Errno;

/// A node of the joined tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// In the file system.
    Mem(Ino),
    /// In `/proc`.
    Proc(ProcNode),
}

/// The tree as one process sees it (`/proc/self`).
pub struct View<'a> {
    /// Everything.
    pub unixd: &'a Unixd,
    /// Who looks.
    pub pid: Pid,
}

impl Names for View<'_> {
    type Node = Node;

    fn step(&self, node: Node) -> Result<Step<Node>, Errno> {
        match node {
            Node::Proc(node) => self.unixd.proc_step(self.pid, node),
            Node::Mem(ino) => Ok(match self.unixd.fs.step(ino)? {
                Step::Dir => Step::Dir,
                Step::Link(text) => Step::Link(text),
                Step::Jump(ino) => Step::Jump(Node::Mem(ino)),
                Step::Other => Step::Other,
            }),
        }
    }

    fn enter(&self, dir: Node, cred: Cred) -> Result<(), Errno> {
        match dir {
            Node::Mem(ino) => self.unixd.fs.enter(ino, cred),
            Node::Proc(dir) => self.unixd.proc_enter(self.pid, dir),
        }
    }

    fn may_follow(&self, dir: Node, link: Node, cred: Cred) -> Result<(), Errno> {
        match (dir, link) {
            (Node::Mem(dir), Node::Mem(link)) => self.unixd.fs.may_follow(dir, link, cred),
            _ => Ok(()),
        }
    }

    fn lookup(&self, dir: Node, name: &[u8]) -> Result<Option<Node>, Errno> {
        match dir {
            Node::Proc(dir) => self.unixd.proc_lookup(dir, name),
            Node::Mem(ino) => {
                let found = self.unixd.fs.lookup(ino, name)?;
                Ok(found.map(|ino| self.unixd.node(ino)))
            }
        }
    }
}

impl Unixd {
    /// The node of an inode: `/proc` covers a directory.
    pub fn node(&self, ino: Ino) -> Node {
        match ino == self.proc_dir {
            true => Node::Proc(ProcNode::Root),
            false => Node::Mem(ino),
        }
    }
    /// Keeps what a node stands for alive.
    pub fn hold_node(&mut self, node: Node) {
        if let Node::Mem(ino) = node {
            self.fs.hold(ino);
        }
    }
    /// Ends a `hold_node`.
    pub fn release_node(&mut self, node: Node) {
        if let Node::Mem(ino) = node {
            self.fs.release(ino);
            if self.fs.get(ino).is_err() {
                self.pipes.forget_fifo(ino);
            }
        }
    }
}
