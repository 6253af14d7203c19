//! Directories of which nobody knows yet what is in them: it lies elsewhere, and is read when somebody looks.
//!
//! Such a directory has its attributes and its link count; it is not empty, and can be moved, but whoever looks for a name in it is
//! answered [`UNREAD`], and [`Fs::wanted`] says which one is to be read. The owner of the tree does so ([`Fs::read_in`]), and
//! asks again. From then on it is like any other: what is removed there is gone, and what is changed is changed in the tree alone.

use crate::dir::{Dir, Unread};
use crate::fs::{place, Attr, Ino, Node};
use crate::keep::Attributes;
use crate::perm::Cred;
use crate::Fs;
use alloc::vec::Vec;
use unixproto::Errno;

/// What is answered instead of what is in a directory that is still to be read. No program sees it.
pub const UNREAD: Errno = Errno(u16::MAX - 1);

/// What is read into a directory.
pub struct Lower<C> {
    /// Its name there.
    pub name: Vec<u8>,
    /// What it is; of a directory, an empty one.
    pub node: Node<C>,
    /// Mode, owner and times.
    pub attributes: Attributes,
    /// How many names lead to it.
    pub nlink: u32,
    /// Where what is in it is, of a directory.
    pub unread: Option<Unread>,
    /// Is it another name of an inode that was read already? That counts all of them.
    pub known: Known,
}

/// Whether an inode was read already, by another of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It was not.
    No,
    /// It is this one.
    As(Ino),
    /// It is that of an entry before it, by its place among all that are read.
    Before(usize),
}

impl<C: Default> Fs<C> {
    /// What is in a directory lies there, and is still to be read. It has no names but those.
    pub fn set_unread(&mut self, dir: Ino, unread: Unread) -> Result<(), Errno> {
        self.get_mut(dir)?.dir_mut()?.set_unread(Some(unread));
        Ok(())
    }

    /// [`UNREAD`] unless it is known what is in a directory.
    #[inline]
    pub(crate) fn is_read(&self, ino: Ino, dir: &Dir) -> Result<(), Errno> {
        match dir.unread() {
            None => Ok(()),
            Some(_) => Err(self.want(ino)),
        }
    }

    #[cold]
    fn want(&self, ino: Ino) -> Errno {
        self.wanted.set(Some(ino));
        UNREAD
    }

    /// Has somebody look at all names of a directory; [`UNREAD`] if they are still to be read.
    pub fn look_in(&self, ino: Ino) -> Result<&Dir, Errno> {
        let dir = self.get(ino)?.dir()?;
        self.is_read(ino, dir)?;
        Ok(dir)
    }

    /// The directory that is to be read, once.
    pub fn wanted(&self) -> Option<Ino> {
        self.wanted.take()
    }

    /// A directory has these names. Returns the inodes, in their order. After an error there is nothing in it, and it is still to
    /// be read.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there is no memory, or there are too many inodes.
    pub fn read_in(&mut self, dir: Ino, all: Vec<Lower<C>>) -> Result<Vec<Ino>, Errno> {
        let unread = self.get(dir)?.dir()?.unread();
        let mut made = Vec::new();
        made.try_reserve(all.len()).map_err(|_| Errno::ENOSPC)?;
        let mut result = Ok(());
        for lower in all {
            let known = match lower.known {
                Known::No => None,
                Known::As(ino) => Some(ino),
                Known::Before(place) => made.get(place).map(|&(ino, _)| ino),
            };
            match self.read_one(dir, lower, known) {
                Ok(ino) => made.push(ino),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let (names, is_whole) = (self.get_mut(dir)?.dir_mut()?, result.is_ok());
        if is_whole {
            names.set_unread(None);
            return Ok(made.into_iter().map(|(ino, _)| ino).collect());
        }
        *names = Dir::new(names.parent);
        names.set_unread(unread);
        for (ino, is_new) in made {
            if is_new {
                self.get_mut(ino)?.nlink = 0;
                self.reap(ino);
            }
        }
        result.map(|()| Vec::new())
    }

    /// The inode, and whether it is new.
    fn read_one(
        &mut self,
        dir: Ino,
        lower: Lower<C>,
        known: Option<Ino>,
    ) -> Result<(Ino, bool), Errno> {
        let Lower { name, mut node, attributes, nlink, unread, .. } = lower;
        self.get_mut(dir)?.dir_mut()?.prepare(&name)?;
        let (ino, is_new) = match known {
            Some(ino) => (ino, false),
            None => {
                if matches!(node, Node::Dir(_)) {
                    let mut below = Dir::new(dir);
                    below.set_unread(unread);
                    node = Node::Dir(below);
                }
                let Attributes { mode, uid, gid, ctime, .. } = attributes;
                // What was there before anybody came is on nobody's account but root's, until it gets another owner.
                let attr = Attr { mode, cred: Cred::user(Cred::ROOT.uid, gid), now: ctime };
                let ino = self.allocate(node, attr)?;
                self.give(ino, uid)?;
                let inode = self.inodes.get_mut(place(ino)).ok_or(Errno::ENOENT)?;
                inode.set_attributes(attributes);
                inode.nlink = nlink;
                (ino, true)
            }
        };
        self.get_mut(dir)?.dir_mut()?.set(&name, ino);
        Ok((ino, is_new))
    }
}
