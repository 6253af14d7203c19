//! Making, naming and removing files.

use super::exchange::Answer;
use super::{Origin, Parts, Visit};
use memfs::{EXEC, WRITE};
use ninep::{Attributes, Request};
use unixproto::files::*;
use unixproto::Errno;

const STICKY: u32 = S_ISVTX;

impl Visit<'_> {
    /// May the process make and remove names in a directory?
    pub(super) fn may_change(&self, dir: u32) -> Result<Attributes, Errno> {
        let attributes = self.attributes(dir)?;
        self.writes()?;
        self.permits(&attributes, WRITE | EXEC)?;
        Ok(attributes)
    }

    /// The group of what is made in a directory, as the host or the disk knows it.
    pub(super) fn group_in(&self, dir: &Attributes) -> u32 {
        match (dir.mode & S_ISGID, &self.share.origin) {
            (0, Origin::Host(owner)) => owner.gid,
            (0, Origin::Disk(_)) => self.cred.gid,
            _ => dir.gid,
        }
    }

    fn may_remove(&self, dir: u32, victim: u32) -> Result<(), Errno> {
        let dir = self.may_change(dir)?;
        let victim = self.attributes(victim)?;
        let is_free = dir.mode & STICKY == 0
            || self.cred.caps.has(credentials::Capability::Fowner)
            || [self.owner(&dir).0, self.owner(&victim).0].contains(&self.cred.uid);
        match is_free {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// `mkdir`.
    pub fn mkdir(&self, dir: u32, name: &[u8], mode: u32) -> Result<(), Errno> {
        let gid = self.group_in(&self.may_change(dir)?);
        self.done(&Request::MakeDirectory { fid: self.fid(dir)?, name, mode, gid })
    }

    /// `mknod`: regular files, fifos and sockets. Devices of this machine mean nothing on the host.
    pub fn mknod(&self, dir: u32, name: &[u8], mode: u32) -> Result<(), Errno> {
        let kind = match mode & S_IFMT {
            0 => S_IFREG,
            kind @ (S_IFREG | S_IFIFO | S_IFSOCK) => kind,
            S_IFCHR | S_IFBLK | S_IFDIR => return Err(Errno::EPERM),
            _ => return Err(Errno::EINVAL),
        };
        let gid = self.group_in(&self.may_change(dir)?);
        let (fid, mode) = (self.fid(dir)?, kind | mode & 0o7777);
        self.done(&Request::MakeNode { fid, name, mode, major: 0, minor: 0, gid })
    }

    /// `symlink`.
    pub fn symlink(&self, dir: u32, name: &[u8], text: &[u8]) -> Result<(), Errno> {
        let gid = self.group_in(&self.may_change(dir)?);
        self.done(&Request::Symlink { fid: self.fid(dir)?, name, text, gid })
    }

    /// `link`.
    pub fn link(&self, node: u32, dir: u32, name: &[u8]) -> Result<(), Errno> {
        self.may_change(dir)?;
        if self.attributes(node)?.mode & S_IFMT == S_IFDIR {
            return Err(Errno::EPERM);
        }
        self.done(&Request::Link { dir: self.fid(dir)?, fid: self.fid(node)?, name })
    }

    /// `unlink`, `rmdir`.
    pub fn unlink(
        &self,
        (dir, name): (u32, &[u8]),
        node: u32,
        directory: bool,
    ) -> Result<(), Errno> {
        self.may_remove(dir, node)?;
        match (directory, self.attributes(node)?.mode & S_IFMT == S_IFDIR) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
        self.done(&Request::Unlink { fid: self.fid(dir)?, name, directory })
    }

    /// `rename`. The protocol has no flags for it (`EINVAL`, as on Linux).
    pub fn rename(
        &self,
        (from, old, node): (u32, &[u8], u32),
        (to, new, target): (u32, &[u8], Option<u32>),
        flags: u32,
    ) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        self.may_remove(from, node)?;
        match target {
            Some(target) => self.may_remove(to, target)?,
            None => self.may_change(to).map(|_| ())?,
        }
        let is_dir = |node| self.attributes(node).map(|found| found.mode & S_IFMT == S_IFDIR);
        if let Some(target) = target {
            match (is_dir(node)?, is_dir(target)?) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            }
        }
        let (source, place) = (self.fid(from)?, self.fid(to)?);
        match self.ask(&Request::Rename { from: source, old, to: place, new })?.0 {
            Answer::Done => {}
            _ => return Err(Errno::EIO),
        }
        let mut parts = self.share.parts.borrow_mut();
        let Parts { exchange, nodes } = &mut *parts;
        for left in nodes.renamed((from, old), (to, new)) {
            nodes.release(left, |fid| exchange.forget(fid));
        }
        Ok(())
    }
}
