//! What a path leads to: a file of the file system, something in `/proc`, or something in the folder of the host.

use crate::descs::Object;
use crate::frames::Files;
use crate::open::device;
use crate::procfs::ProcNode;
use crate::share::{self, OpenFile, Share};
use memfs::{Attr, Cred, Ino};
use unixproto::Errno;

/// A node of the joined tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// In the file system.
    Mem(Ino),
    /// In `/proc`.
    Proc(ProcNode),
    /// In the folder of the host.
    Share(u32),
}

/// The joined tree: the files, and where `/proc` and the folder of the host cover one of their directories each.
pub struct Tree {
    files: Files,
    /// Where `/proc` is.
    proc_dir: Ino,
    /// What holds the bytes of the memory disk.
    disk: Option<Ino>,
    /// The folder of the host, and where it is.
    share: Option<(Ino, Share)>,
}

impl Tree {
    /// Of these files; nothing is covered.
    pub fn new(files: Files) -> Tree {
        Tree { proc_dir: files.names().root(), files, disk: None, share: None }
    }
    /// This holds the bytes of the memory disk.
    pub fn set_disk(&mut self, content: Ino) {
        self.disk = Some(content);
    }
    /// What holds the bytes of the block device with this number, if there is one.
    pub fn disk(&self, number: u64) -> Option<Ino> {
        self.disk.filter(|_| number == device::RAM_DISK)
    }
    /// Has `/proc` cover a directory.
    pub fn cover(&mut self, dir: Ino) {
        self.proc_dir = dir;
    }
    /// Has the folder of the host cover a directory of its own.
    ///
    /// # Errors
    /// There is something of this name already.
    pub fn add_share(&mut self, share: Share, now: i64) -> Result<(), Errno> {
        let names = self.files.names_mut();
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let dir = names.mkdir(names.root(), share::NAME, attr)?;
        self.share = Some((dir, share));
        Ok(())
    }
    /// The folder of the host, if there is one.
    #[inline]
    pub fn share(&self) -> Option<&Share> {
        self.share.as_ref().map(|(_, share)| share)
    }
    /// Closes an open file of the host.
    pub fn close_shared(&self, file: OpenFile) {
        if let Some(share) = self.share() {
            share.close(file.fid);
        }
    }
    /// The files.
    #[inline]
    pub fn files(&self) -> &Files {
        &self.files
    }
    /// The same, to be changed.
    #[inline]
    pub fn files_mut(&mut self) -> &mut Files {
        &mut self.files
    }
    /// Are the contents of something that is open a Morsel?
    pub fn stores(&self, object: &Object) -> bool {
        match object {
            Object::File(ino) => {
                self.files.names().get(*ino).is_ok_and(|inode| inode.kept().is_some())
            }
            _ => false,
        }
    }
    /// Are the contents of an object in pages of 2 MiB only?
    pub fn is_large(&self, object: &Object) -> bool {
        match object {
            Object::File(ino) => self.files.grain(*ino) > abi::layout::PAGE,
            _ => false,
        }
    }
    /// The root directory.
    #[inline]
    pub fn root(&self) -> Node {
        Node::Mem(self.files.names().root())
    }
    /// The node of an inode: `/proc` covers a directory.
    #[inline]
    pub fn node(&self, ino: Ino) -> Node {
        match &self.share {
            _ if ino == self.proc_dir => Node::Proc(ProcNode::Root),
            Some((dir, _)) if *dir == ino => Node::Share(share::ROOT),
            _ => Node::Mem(ino),
        }
    }
    /// Keeps what a node stands for alive.
    #[inline]
    pub fn hold(&mut self, node: Node) {
        match node {
            Node::Mem(ino) => self.files.names_mut().hold(ino),
            Node::Proc(_) => {}
            Node::Share(node) => {
                if let Some(share) = self.share() {
                    share.hold(node);
                }
            }
        }
    }
    /// Ends a `hold`. Returns the inode if it is gone with that.
    pub fn release(&mut self, node: Node) -> Option<Ino> {
        match node {
            Node::Mem(ino) => self.files.release(ino).then_some(ino),
            Node::Proc(_) => None,
            Node::Share(node) => {
                if let Some(share) = self.share() {
                    share.release(node);
                }
                None
            }
        }
    }
}
