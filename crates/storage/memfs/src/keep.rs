//! A part of the tree whose names and attributes are kept where they survive.
//!
//! A directory can be the root of such a part ([`Fs::mount`]); everything below it has a number there. A change of names is
//! made there first, and here only if it succeeded there. Changes of attributes, which cannot fail there, are made here and
//! told by [`Fs::settle`], before anybody is answered that they were made.

use crate::dir::Dir;
use crate::fs::{place, Attr, Ino, Inode, Node};
use crate::perm::Cred;
use crate::snapshot::Part;
use crate::Fs;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use unixproto::Errno;

/// Number of an inode where it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kept(pub NonZeroU32);

/// Attributes that are kept. Times are nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Permission bits, 12 of them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub atime: i64,
    /// Last change of the contents.
    pub mtime: i64,
    /// Last change of anything.
    pub ctime: i64,
}

/// What an inode is, as far as it is kept with its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// An empty regular file.
    File,
    /// An empty directory.
    Dir,
    /// An empty directory for snapshots.
    Snapshots,
    /// A symbolic link with its text.
    Symlink(&'a [u8]),
    /// A character device with its number.
    Device(u64),
    /// A block device with its number.
    Block(u64),
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
}

/// A name in a directory that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptName<'a> {
    /// The directory.
    pub dir: Kept,
    /// The name.
    pub name: &'a [u8],
}

/// Whether an extended attribute must be there to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    /// It does not matter.
    Any,
    /// It must not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
}

/// A copy of an inode, where it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptCopy {
    /// What it is a copy of.
    pub from: Kept,
    /// Its number.
    pub to: Kept,
    /// Which object has the contents, of a file that has any.
    pub content: Option<u32>,
}

/// Who keeps a part of the tree. Whatever it is asked to do was checked before; it does it or, with an error, nothing.
pub trait Keeper {
    /// Makes an inode, which stays until it is [released](Keeper::release), even if it has no name.
    fn create(
        &mut self,
        at: Option<KeptName>,
        what: What,
        attributes: Attributes,
    ) -> Result<Kept, Errno>;
    /// Gives a file a name more.
    fn link(&mut self, inode: Kept, at: KeptName, now: i64) -> Result<(), Errno>;
    /// Removes a name, that of an empty directory or of anything else.
    fn remove(&mut self, at: KeptName, is_dir: bool, now: i64) -> Result<(), Errno>;
    /// Moves a name, to where another one was perhaps; or exchanges what two names stand for.
    fn rename(
        &mut self,
        from: KeptName,
        to: KeptName,
        exchange: bool,
        now: i64,
    ) -> Result<(), Errno>;
    /// Notes attributes.
    fn set_attributes(&mut self, inode: Kept, attributes: Attributes) -> Result<(), Errno>;
    /// Notes which object has the contents of a file.
    fn set_content(&mut self, inode: Kept, content: u32) -> Result<(), Errno>;
    /// The tree has no such inode any more. It has a name only if the tree is given up with everything.
    fn release(&mut self, inode: Kept);
    /// The value of an extended attribute.
    fn xattr(&mut self, inode: Kept, name: &[u8]) -> Result<Vec<u8>, Errno>;
    /// The names of all extended attributes, each with a NUL behind.
    fn xattrs(&mut self, inode: Kept) -> Result<Vec<u8>, Errno>;
    /// Sets an extended attribute.
    fn set_xattr(
        &mut self,
        inode: Kept,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: i64,
    ) -> Result<(), Errno>;
    /// Removes an extended attribute.
    fn remove_xattr(&mut self, inode: Kept, name: &[u8], now: i64) -> Result<(), Errno>;
    /// Makes a directory with copies of everything that is below another, but for what is below the one in which it is made.
    /// Each copy stays until it is released. All of them are there, also after a power failure, or none.
    fn snapshot(&mut self, of: Kept, at: KeptName, now: i64) -> Result<Vec<KeptCopy>, Errno>;
    /// Removes the names of such a directory and of everything below it, all or none.
    fn remove_snapshot(&mut self, at: KeptName, now: i64) -> Result<(), Errno>;
}

/// The kept part of a tree, and of which inodes in it attributes have changed.
#[derive(Default)]
pub(crate) struct Keeping {
    pub(crate) keeper: Option<Box<dyn Keeper>>,
    changed: Vec<Ino>,
}

/// Inodes of which attributes have changed for which there is room in any case: more than one request changes.
const CHANGED: usize = 32;

impl Keeping {
    /// Notes that attributes of a kept inode may change.
    #[cold]
    pub(crate) fn note(&mut self, ino: Ino) {
        if self.keeper.is_some() && self.changed.last() != Some(&ino) {
            self.changed.push(ino);
        }
    }
}

impl<C> Inode<C> {
    fn what(&self) -> What<'_> {
        match &self.node {
            Node::Dir(_) if self.part == Part::Snapshots => What::Snapshots,
            Node::File { .. } => What::File,
            Node::Dir(_) => What::Dir,
            Node::Symlink(text) => What::Symlink(text),
            Node::Device(number) => What::Device(*number),
            Node::Block(number) => What::Block(*number),
            Node::Fifo => What::Fifo,
            // Queues are kept nowhere.
            Node::Socket | Node::Queue => What::Socket,
        }
    }
}

impl<C> Inode<C> {
    /// Its number where it is kept, if it is.
    pub fn kept(&self) -> Option<Kept> {
        self.kept
    }
    pub(crate) fn attributes(&self) -> Attributes {
        let &Inode { mode, uid, gid, atime, mtime, ctime, .. } = self;
        Attributes { mode, uid, gid, atime, mtime, ctime }
    }
    pub(crate) fn set_attributes(&mut self, attributes: Attributes) {
        let Attributes { mode, gid, atime, mtime, ctime, .. } = attributes;
        (self.mode, self.gid) = (mode & 0o7777, gid);
        (self.atime, self.mtime, self.ctime) = (atime, mtime, ctime);
    }
}

impl<C: Default> Fs<C> {
    /// Has somebody keep what is in a directory from now on. What is there already was [adopted](Fs::adopt).
    pub fn mount(&mut self, keeper: Box<dyn Keeper>) {
        self.keeping = Keeping { keeper: Some(keeper), changed: Vec::with_capacity(CHANGED) };
    }

    /// Makes a directory that of which the contents are kept, before any of these is adopted.
    pub fn adopt_root(
        &mut self,
        dir: Ino,
        kept: Kept,
        attributes: Attributes,
    ) -> Result<(), Errno> {
        self.give(dir, attributes.uid)?;
        let inode = self.get_mut(dir)?;
        inode.kept = Some(kept);
        inode.set_attributes(attributes);
        Ok(())
    }

    /// A directory's contents are kept no more, and nothing is in it.
    pub fn disown(&mut self, dir: Ino) {
        self.drop_below(dir);
        if let Ok(inode) = self.get_mut(dir) {
            inode.kept = None;
        }
    }

    /// Adds an inode that is kept already, by one of its names.
    pub fn adopt(
        &mut self,
        dir: Ino,
        name: &[u8],
        kept: Kept,
        mut node: Node<C>,
        attributes: Attributes,
    ) -> Result<Ino, Errno> {
        let Attributes { mode, uid, gid, ctime, .. } = attributes;
        let is_dir = matches!(node, Node::Dir(_));
        if is_dir {
            node = Node::Dir(Dir::new(dir));
        }
        self.get_mut(dir)?.dir_mut()?.prepare(name)?;
        let part = self.get(dir)?.part.below();
        let account = if part == Part::Frozen { Cred::ROOT.uid } else { uid };
        let attr = Attr { mode, cred: Cred::user(account, gid), now: ctime };
        let ino = self.allocate(node, attr)?;
        let inode = self.get_mut(ino)?;
        (inode.kept, inode.part, inode.uid) = (Some(kept), part, uid);
        inode.set_attributes(attributes);
        inode.nlink = if is_dir { 2 } else { 1 };
        let parent = self.get_mut(dir)?;
        parent.nlink += u32::from(is_dir);
        parent.dir_mut()?.set(name, ino);
        Ok(ino)
    }

    /// Adds another name of an inode that was adopted.
    pub fn adopt_name(&mut self, dir: Ino, name: &[u8], ino: Ino) -> Result<(), Errno> {
        let parent = self.get_mut(dir)?.dir_mut()?;
        parent.prepare(name)?;
        parent.set(name, ino);
        self.get_mut(ino)?.nlink += 1;
        Ok(())
    }

    /// Tells attributes that have changed to whoever keeps them.
    ///
    /// # Errors
    ///
    /// Of the last one that could not be told.
    pub fn settle(&mut self) -> Result<(), Errno> {
        let mut result = Ok(());
        while let Some(ino) = self.keeping.changed.pop() {
            let Ok(inode) = self.get(ino) else { continue };
            let (kept, attributes) = (inode.kept, inode.attributes());
            if let (Some(keeper), Some(kept)) = (&mut self.keeping.keeper, kept) {
                result = keeper.set_attributes(kept, attributes).and(result);
            }
        }
        result
    }

    /// Are there attributes to be told?
    #[inline]
    pub fn is_unsettled(&self) -> bool {
        !self.keeping.changed.is_empty()
    }

    /// Has an inode kept that was made in a directory.
    pub(crate) fn keep_new(
        &mut self,
        dir: Ino,
        name: Option<&[u8]>,
        ino: Ino,
    ) -> Result<(), Errno> {
        let Some(dir) = self.get(dir)?.kept else { return Ok(()) };
        let Some(keeper) = &mut self.keeping.keeper else { return Err(Errno::EROFS) };
        let inode = self.inodes.get_mut(place(ino)).ok_or(Errno::ENOENT)?;
        let at = name.map(|name| KeptName { dir, name });
        inode.kept = Some(keeper.create(at, inode.what(), inode.attributes())?);
        Ok(())
    }

    /// A directory and an inode that are to be in one another: `EXDEV` if only one of them is kept.
    pub(crate) fn same_part(&self, dir: Ino, ino: Ino) -> Result<(), Errno> {
        let (dir, inode) = (self.get(dir)?, self.get(ino)?);
        let is_frozen = |inode: &Inode<C>| inode.part == Part::Frozen;
        let is_same = dir.kept.is_some() == inode.kept.is_some();
        match is_same && is_frozen(dir) == is_frozen(inode) {
            true => Ok(()),
            false => Err(Errno::EXDEV),
        }
    }

    /// `EBUSY` if an inode with a name in a directory is where another part of the tree begins.
    pub(crate) fn not_mounted(&self, dir: Ino, ino: Ino) -> Result<(), Errno> {
        self.same_part(dir, ino).map_err(|_| Errno::EBUSY)
    }

    /// A name in a directory and who keeps it, if anybody does.
    pub(crate) fn keeper_of<'a>(
        &mut self,
        dir: Ino,
        name: &'a [u8],
    ) -> Result<Option<(&mut dyn Keeper, KeptName<'a>)>, Errno> {
        let Some(kept) = self.get(dir)?.kept else { return Ok(None) };
        // A mount that has failed is being undone.
        let Some(keeper) = &mut self.keeping.keeper else { return Ok(None) };
        Ok(Some((&mut **keeper, KeptName { dir: kept, name })))
    }

    /// An inode is gone.
    pub(crate) fn release_kept(&mut self, kept: Option<Kept>) {
        if let (Some(keeper), Some(kept)) = (&mut self.keeping.keeper, kept) {
            keeper.release(kept);
        }
    }

    /// Which object has the contents of a file, if that is kept.
    pub fn set_content(&mut self, ino: Ino, content: u32) -> Result<(), Errno> {
        let kept = self.get(ino)?.kept;
        match (&mut self.keeping.keeper, kept) {
            (Some(keeper), Some(kept)) => keeper.set_content(kept, content),
            _ => Ok(()),
        }
    }

    /// An inode, and who keeps its extended attributes. `EOPNOTSUPP`: it has none, as nobody keeps it.
    pub fn xattrs_of(&mut self, ino: Ino) -> Result<(&mut dyn Keeper, Kept), Errno> {
        let kept = self.get(ino)?.kept.ok_or(Errno::EOPNOTSUPP)?;
        let keeper = self.keeping.keeper.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        Ok((&mut **keeper, kept))
    }
}
