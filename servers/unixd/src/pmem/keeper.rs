//! Changes of names and attributes, made where they survive.

use super::area::MetaArea;
use super::PoolHandle;
use crate::morsels::{destroy, errno_of, Morsel};
use alloc::vec::Vec;
use core::num::NonZeroU32;
use libos::morsel::MorselCap;
use memfs::{Attributes, Keeper, Kept, KeptCopy, KeptName, SetXattr, What};
use pmfs::{Error, How, Ino};
use unixproto::Errno;

/// The file system in the pool, and the pool.
pub struct PoolKeeper {
    fs: pmfs::Fs<MetaArea>,
    pool: PoolHandle,
}

impl PoolKeeper {
    /// Keeps what the tree has of this file system.
    pub fn new(fs: pmfs::Fs<MetaArea>, pool: PoolHandle) -> PoolKeeper {
        PoolKeeper { fs, pool }
    }
    fn contents(&self) -> PoolContents {
        PoolContents { pool: self.pool, error: Errno::ENOSPC }
    }
}

/// Flag of a directory with snapshots.
pub const SNAPSHOTS: u64 = 1;

/// Contents of a pool, for copies of whole trees.
struct PoolContents {
    pool: PoolHandle,
    /// Why the last one could not be copied.
    error: Errno,
}

impl PoolContents {
    /// A copy of contents as they are, which is in the memory when this returns, and its number.
    fn snapshot(&self, content: u32) -> Result<u32, Errno> {
        let (number, copy) = Morsel::open(self.pool.pool, content)?.snapshot()?;
        let facts = copy.cap().morsel_info().map_err(errno_of);
        let written_back = facts.and_then(|facts| match self.pool.caches_persist {
            true => Ok(()),
            false => copy.write_back(0, facts.limit),
        });
        match written_back {
            Ok(()) => Ok(number),
            Err(error) => {
                drop(copy);
                self.destroy_one(number);
                Err(error)
            }
        }
    }
    fn destroy_one(&self, number: u32) {
        if let Err(status) = destroy(self.pool.pool, number) {
            // The next start finds that it belongs to no file.
            libos::log!("unixd: contents {number} of a removed file stay: {status:?}");
        }
    }
}

impl pmfs::Contents for PoolContents {
    fn copy(&mut self, content: u32) -> Result<u32, Error> {
        self.snapshot(content).map_err(|error| {
            self.error = error;
            Error::NoSpace
        })
    }
    fn destroy(&mut self, content: u32) {
        self.destroy_one(content);
    }
}

/// What an error means to a process.
pub fn errno(error: Error) -> Errno {
    match error {
        Error::NoSpace => Errno::ENOSPC,
        Error::Exists => Errno::EEXIST,
        Error::NotFound => Errno::ENOENT,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::Loop | Error::Invalid => Errno::EINVAL,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::TooBig => Errno::E2BIG,
    }
}

/// The same, where something about an attribute was asked that is there or is not.
fn xattr_errno(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENODATA,
        Error::NameTooLong => Errno::ERANGE,
        error => errno(error),
    }
}

/// The number of an inode in the tree.
pub fn kept(ino: Ino) -> Result<Kept, Errno> {
    NonZeroU32::new(ino.0).map(Kept).ok_or(Errno::EIO)
}

fn ino(kept: Kept) -> Ino {
    Ino(kept.0.get())
}

/// Attributes as they are kept, of a new inode or one that there is.
pub fn attr_of(attributes: Option<Attributes>, now: i64) -> pmfs::Attr {
    let none = Attributes { mode: 0, uid: 0, gid: 0, atime: now, mtime: now, ctime: now };
    let Attributes { mode, uid, gid, atime, mtime, ctime } = attributes.unwrap_or(none);
    pmfs::Attr { mode: mode as u16, uid, gid, atime, mtime, ctime, btime: now, flags: 0 }
}

fn what_of(what: What) -> pmfs::What {
    match what {
        What::File => pmfs::What::File(None),
        What::Dir | What::Snapshots => pmfs::What::Dir,
        What::Symlink(text) => pmfs::What::Symlink(text),
        What::Device(number) => pmfs::What::Char(number),
        What::Block(number) => pmfs::What::Block(number),
        What::Fifo => pmfs::What::Fifo,
        What::Socket => pmfs::What::Socket,
    }
}

impl Keeper for PoolKeeper {
    fn create(
        &mut self,
        at: Option<KeptName>,
        what: What,
        attributes: Attributes,
    ) -> Result<Kept, Errno> {
        let now = attributes.ctime;
        let flags = if what == What::Snapshots { SNAPSHOTS } else { 0 };
        let (what, attr) = (what_of(what), attr_of(Some(attributes), now));
        let attr = pmfs::Attr { flags, ..attr };
        let made = match at {
            Some(KeptName { dir, name }) => {
                let made = self.fs.create(ino(dir), name, what, attr, now).map_err(errno)?;
                // It stays until the tree has let it go.
                self.fs.hold(made);
                made
            }
            None => self.fs.create_unnamed(what, attr).map_err(errno)?,
        };
        kept(made)
    }

    fn link(&mut self, inode: Kept, at: KeptName, now: i64) -> Result<(), Errno> {
        self.fs.link(ino(inode), ino(at.dir), at.name, now).map_err(errno)
    }

    fn remove(&mut self, at: KeptName, is_dir: bool, now: i64) -> Result<(), Errno> {
        let removed = match is_dir {
            true => self.fs.rmdir(ino(at.dir), at.name, now),
            false => self.fs.unlink(ino(at.dir), at.name, now),
        };
        // Everything that the tree has is held, so that nothing is gone yet.
        removed.map(|_| ()).map_err(errno)
    }

    fn rename(
        &mut self,
        from: KeptName,
        to: KeptName,
        exchange: bool,
        now: i64,
    ) -> Result<(), Errno> {
        let how = if exchange { How::Exchange } else { How::Replace };
        let renamed = self.fs.rename((ino(from.dir), from.name), (ino(to.dir), to.name), how, now);
        renamed.map(|_| ()).map_err(errno)
    }

    fn set_attributes(&mut self, inode: Kept, attributes: Attributes) -> Result<(), Errno> {
        let inode = ino(inode);
        let old = self.fs.stat(inode).map_err(errno)?.attr;
        let new = attr_of(Some(attributes), old.btime);
        let new = pmfs::Attr { flags: old.flags, ..new };
        match new == old {
            true => Ok(()),
            false => self.fs.set_attr(inode, new).map_err(errno),
        }
    }

    fn set_content(&mut self, inode: Kept, content: u32) -> Result<(), Errno> {
        self.fs.set_content(ino(inode), Some(content)).map(|_| ()).map_err(errno)
    }

    fn release(&mut self, inode: Kept) {
        let Some(gone) = self.fs.release(ino(inode)) else { return };
        if let Some(number) = gone.content {
            self.contents().destroy_one(number);
        }
    }

    fn xattr(&mut self, inode: Kept, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.fs.xattr(ino(inode), name).map_err(errno)?.ok_or(Errno::ENODATA)
    }

    fn xattrs(&mut self, inode: Kept) -> Result<Vec<u8>, Errno> {
        let mut all = Vec::new();
        for name in self.fs.xattrs(ino(inode)).map_err(errno)? {
            all.extend_from_slice(&name);
            all.push(0);
        }
        Ok(all)
    }

    fn set_xattr(
        &mut self,
        inode: Kept,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: i64,
    ) -> Result<(), Errno> {
        let how = match how {
            SetXattr::Any => pmfs::SetXattr::Any,
            SetXattr::Create => pmfs::SetXattr::Create,
            SetXattr::Replace => pmfs::SetXattr::Replace,
        };
        self.fs.set_xattr(ino(inode), name, value, how, now).map_err(xattr_errno)
    }

    fn remove_xattr(&mut self, inode: Kept, name: &[u8], now: i64) -> Result<(), Errno> {
        self.fs.remove_xattr(ino(inode), name, now).map_err(xattr_errno)
    }

    fn snapshot(&mut self, of: Kept, at: KeptName, now: i64) -> Result<Vec<KeptCopy>, Errno> {
        let mut contents = self.contents();
        let made = self.fs.snapshot(ino(of), (ino(at.dir), at.name), &mut contents, now);
        let made = made.map_err(|error| match error {
            Error::NoSpace => contents.error,
            error => errno(error),
        })?;
        let copied = |copied: pmfs::Copied| {
            self.fs.hold(copied.to);
            let (from, to) = (kept(copied.from)?, kept(copied.to)?);
            Ok(KeptCopy { from, to, content: copied.content })
        };
        made.into_iter().map(copied).collect()
    }

    fn remove_snapshot(&mut self, at: KeptName, now: i64) -> Result<(), Errno> {
        let mut contents = self.contents();
        // Everything that the tree has is held, so that contents go when it has let them go.
        self.fs.remove_tree(ino(at.dir), at.name, &mut contents, now).map_err(errno)
    }
}
