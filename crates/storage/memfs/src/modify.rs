//! Making and removing names.

use crate::dir::Dir;
use crate::fs::{Attr, Ino, Node};
use crate::perm::Cred;
use crate::{Fs, NAME_MAX};
use unixproto::Errno;

/// More names than Linux's file systems commonly allow are an error.
const LINKS_MAX: u32 = 65000;

/// Longest path that is made of names, in bytes.
const PATH_BYTES_MAX: usize = 4 * crate::PATH_MAX;

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"." | b".." | b"" => Err(Errno::EEXIST),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

impl<C: Default> Fs<C> {
    /// A live directory in which a name can be made, by who may.
    pub(crate) fn check_new(&self, dir: Ino, name: &[u8]) -> Result<(), Errno> {
        let inode = self.get(dir)?;
        if inode.dir()?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        check_name(name)?;
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    /// Makes an inode with a name.
    pub fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: Node<C>,
        attr: Attr,
    ) -> Result<Ino, Errno> {
        self.check_new(dir, name)?;
        self.may_change(dir, &attr.cred)?;
        if self.has_queues(dir) != matches!(node, Node::Queue) {
            return Err(Errno::EPERM);
        }
        let is_dir = matches!(node, Node::Dir(_));
        let part = self.part_of_new(dir, name, is_dir.then_some(&attr.cred))?;
        let attr = self.inherited(dir, attr, is_dir)?;
        if is_dir && self.get(dir)?.nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        self.get_to_add(dir)?.dir_mut()?.prepare(name)?;
        let now = attr.now;
        self.room_in(dir)?;
        let ino = self.allocate(node, attr)?;
        self.get_mut(ino)?.part = part;
        self.join_volume(ino, dir)?;
        self.keep_new(dir, Some(name), ino).inspect_err(|_| self.reap(ino))?;
        self.get_mut(ino)?.nlink = if is_dir { 2 } else { 1 };
        let parent = self.get_to_add(dir)?;
        if is_dir {
            parent.nlink += 1;
        }
        parent.dir_mut()?.add(name.into(), ino);
        parent.modified(now);
        Ok(ino)
    }
    /// Makes an empty directory.
    pub fn mkdir(&mut self, dir: Ino, name: &[u8], attr: Attr) -> Result<Ino, Errno> {
        self.create(dir, name, Node::Dir(Dir::new(dir)), attr)
    }
    /// Gives a file that is no directory one more name.
    pub fn link(
        &mut self,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        cred: &Cred,
        now: i64,
    ) -> Result<(), Errno> {
        self.check_new(dir, name)?;
        self.same_part(dir, ino)?;
        self.may_link(ino, cred)?;
        self.may_change(dir, cred)?;
        if self.has_queues(dir) {
            return Err(Errno::EPERM);
        }
        self.part_of_new(dir, name, None)?;
        let inode = self.get_mut(ino)?;
        if inode.is_dir() {
            return Err(Errno::EPERM);
        }
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if inode.nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        self.get_to_add(dir)?.dir_mut()?.prepare(name)?;
        let kept = self.get(ino)?.kept();
        if let (Some((keeper, at)), Some(kept)) = (self.keeper_of(dir, name)?, kept) {
            keeper.link(kept, at, now)?;
        }
        let inode = self.get_mut(ino)?;
        inode.nlink += 1;
        inode.ctime = now;
        let parent = self.get_to_add(dir)?;
        parent.dir_mut()?.set(name, ino);
        parent.modified(now);
        Ok(())
    }
    /// Removes a name of a file that is no directory.
    pub fn unlink(&mut self, dir: Ino, name: &[u8], cred: &Cred, now: i64) -> Result<(), Errno> {
        let victim = self.get(dir)?.dir()?.get(name).ok_or(Errno::ENOENT)?;
        self.may_remove(dir, victim, cred)?;
        if self.get(victim)?.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.not_mounted(dir, victim)?;
        self.forget((dir, name), victim, now)
    }
    /// Removes an empty directory.
    pub fn rmdir(&mut self, dir: Ino, name: &[u8], cred: &Cred, now: i64) -> Result<(), Errno> {
        let victim = self.get(dir)?.dir()?.get(name).ok_or(Errno::ENOENT)?;
        self.may_remove(dir, victim, cred)?;
        self.not_mounted(dir, victim)?;
        if !self.get(victim)?.dir()?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.forget((dir, name), victim, now)
    }
    /// Takes the name of an inode away, and what hangs on it: link counts, and the inode if it was the last.
    fn forget(&mut self, (dir, name): (Ino, &[u8]), victim: Ino, now: i64) -> Result<(), Errno> {
        let is_dir = self.get(victim)?.is_dir();
        if let Some((keeper, at)) = self.keeper_of(dir, name)? {
            keeper.remove(at, is_dir, now)?;
        }
        let parent = self.get_mut(dir)?;
        parent.dir_mut()?.remove(name);
        parent.modified(now);
        self.drop_name(dir, victim, now)
    }
    /// One name of `victim`, in `dir`, is gone.
    pub(crate) fn drop_name(&mut self, dir: Ino, victim: Ino, now: i64) -> Result<(), Errno> {
        let inode = self.get_mut(victim)?;
        inode.ctime = now;
        if inode.is_dir() {
            inode.nlink = 0;
            self.get_mut(dir)?.nlink -= 1;
        } else {
            inode.nlink -= 1;
        }
        self.reap(victim);
        Ok(())
    }
    /// The inode of a symbolic link, file, or whatever has this name.
    pub fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Option<Ino>, Errno> {
        let dir_node = self.get(dir)?.dir()?;
        Ok(match name {
            b"." => Some(dir),
            b".." => Some(dir_node.parent),
            _ => {
                self.is_read(dir, dir_node)?;
                dir_node.get(name)
            }
        })
    }
    /// The absolute path of a directory; `ENOENT` if it was removed, `ENAMETOOLONG` if it is far below
    /// the root.
    pub fn path_of(&self, dir: Ino) -> Result<alloc::vec::Vec<u8>, Errno> {
        let mut names = alloc::vec::Vec::new();
        let mut at = dir;
        let mut bytes = 0;
        while at != self.root() {
            if self.get(at)?.nlink == 0 {
                return Err(Errno::ENOENT);
            }
            let parent = self.get(at)?.dir()?.parent;
            if parent == at {
                break;
            }
            let name = self.get(parent)?.dir()?.name_of(at).ok_or(Errno::ENOENT)?;
            bytes += 1 + name.len();
            if bytes > PATH_BYTES_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            names.push(name);
            at = parent;
        }
        let mut path = alloc::vec::Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }
}
