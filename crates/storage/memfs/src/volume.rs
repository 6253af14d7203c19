//! Volumes: trees of their own beside the one at the root, each with limits of its own (`tmpfs`).
//!
//! What is made in a directory belongs to the volume of that. A file is charged for its size in whole pages, holes included: its
//! pages come by faults that nobody here sees, but never behind its end.

use crate::dir::Dir;
use crate::fs::{Attr, Ino, Node};
use crate::Fs;
use unixproto::Errno;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// How much a volume can have, and has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Volume {
    /// Pages that its files may have; `u64::MAX`: as many as there are.
    pub pages_limit: u64,
    /// Pages that they have.
    pub pages: u64,
    /// Inodes that it may have, its root among them; `u64::MAX`: as many as there are.
    pub inodes_limit: u64,
    /// Inodes that it has.
    pub inodes: u64,
    /// It is one directory, with nothing but message queues.
    pub has_queues: bool,
}

fn pages_of(size: u64) -> u64 {
    size.div_ceil(PAGE)
}

impl<C: Default> Fs<C> {
    /// Makes a volume with an empty root directory, which is held once. Answers its number, from 1 on, and the directory.
    ///
    /// # Errors
    /// `ENOSPC`: too many inodes, or no memory.
    pub fn make_volume(
        &mut self,
        (pages_limit, inodes_limit): (u64, u64),
        attr: Attr,
    ) -> Result<(u32, Ino), Errno> {
        let root = self.allocate(Node::Dir(Dir::new(self.root())), attr)?;
        let volume = Volume { pages_limit, pages: 0, inodes_limit, inodes: 1, has_queues: false };
        let Ok(index) = self.volumes.insert(volume) else {
            self.reap(root);
            return Err(Errno::ENOSPC);
        };
        let number = index as u32 + 1;
        let inode = self.get_mut(root)?;
        inode.volume = number;
        inode.nlink = 2;
        inode.dir_mut()?.parent = root;
        self.hold(root);
        Ok((number, root))
    }

    /// The same of a volume that is one directory with message queues, and nothing else.
    ///
    /// # Errors
    /// As above.
    pub fn make_queues(&mut self, attr: Attr) -> Result<(u32, Ino), Errno> {
        let (number, root) = self.make_volume((0, u64::MAX), attr)?;
        if let Some(volume) = self.volumes.get_mut(number as usize - 1) {
            volume.has_queues = true;
        }
        Ok((number, root))
    }

    /// Is a directory one of message queues?
    #[inline]
    pub fn has_queues(&self, dir: Ino) -> bool {
        match self.volume_of(dir) {
            0 => false,
            number => self.volume(number).is_some_and(|volume| volume.has_queues),
        }
    }

    /// Nobody can get to a volume any more: all names in it are gone. What somebody has open stays until that is closed.
    pub fn drop_volume(&mut self, number: u32, root: Ino) {
        self.release(root);
        self.drop_tree(root);
        if let Some(volume) = self.volumes.get_mut((number as usize).wrapping_sub(1)) {
            volume.inodes_limit = 0;
        }
        self.forget_volume(number);
    }

    /// The volume with a number.
    pub fn volume(&self, number: u32) -> Option<Volume> {
        self.volumes.get((number as usize).wrapping_sub(1)).copied()
    }

    /// Sets what a volume may have. `EINVAL`: it has more.
    pub fn limit_volume(&mut self, number: u32, pages: u64, inodes: u64) -> Result<(), Errno> {
        let volume = self.volumes.get_mut((number as usize).wrapping_sub(1));
        let volume = volume.ok_or(Errno::EINVAL)?;
        if pages < volume.pages || inodes < volume.inodes {
            return Err(Errno::EINVAL);
        }
        (volume.pages_limit, volume.inodes_limit) = (pages, inodes);
        Ok(())
    }

    /// The volume of an inode; 0 for the tree at the root.
    pub fn volume_of(&self, ino: Ino) -> u32 {
        self.get(ino).map_or(0, |inode| inode.volume)
    }

    /// Is there room in the volume of a directory for one more inode?
    pub(crate) fn room_in(&self, dir: Ino) -> Result<(), Errno> {
        match self.volume(self.get(dir)?.volume) {
            Some(volume) if volume.inodes >= volume.inodes_limit => Err(Errno::ENOSPC),
            _ => Ok(()),
        }
    }

    /// A new inode is in the volume of a directory.
    pub(crate) fn join_volume(&mut self, ino: Ino, dir: Ino) -> Result<(), Errno> {
        let number = self.get(dir)?.volume;
        if number != 0 {
            self.get_mut(ino)?.volume = number;
            if let Some(volume) = self.volumes.get_mut(number as usize - 1) {
                volume.inodes += 1;
            }
        }
        Ok(())
    }

    /// An inode with so many pages is gone from its volume.
    pub(crate) fn leave_volume(&mut self, number: u32, charged: u64) {
        let Some(volume) = self.volumes.get_mut((number as usize).wrapping_sub(1)) else { return };
        volume.inodes -= 1;
        volume.pages -= charged;
        self.forget_volume(number);
    }

    /// A volume that nobody can get to is gone with its last inode.
    fn forget_volume(&mut self, number: u32) {
        let is_over = |volume: Volume| volume.inodes == 0 && volume.inodes_limit == 0;
        if self.volume(number).is_some_and(is_over) {
            self.volumes.remove(number as usize - 1);
        }
    }

    /// How large a file may become in its volume.
    #[inline]
    pub fn most_in_volume(&self, ino: Ino) -> u64 {
        match self.get(ino) {
            Ok(inode) if inode.volume != 0 => {
                self.volume(inode.volume).map_or(u64::MAX, |volume| {
                    let others = volume.pages - inode.charged;
                    volume.pages_limit.saturating_sub(others).saturating_mul(PAGE)
                })
            }
            _ => u64::MAX,
        }
    }

    /// The size of a file may have changed: its volume is charged for it.
    #[inline]
    pub fn charge(&mut self, ino: Ino) {
        if self.volume_of(ino) != 0 {
            self.charge_volume(ino);
        }
    }

    fn charge_volume(&mut self, ino: Ino) {
        let Ok(inode) = self.get_mut(ino) else { return };
        let Node::File { size, .. } = inode.node else { return };
        let now = pages_of(size);
        let before = core::mem::replace(&mut inode.charged, now);
        let number = inode.volume as usize;
        if let Some(volume) = self.volumes.get_mut(number - 1) {
            volume.pages = volume.pages + now - before;
        }
    }
}
