//! What is asked.

use crate::kind;
use crate::wire::Writer;
use crate::{NO_FID, VERSION};

/// A message does not fit into its buffer, or a name is longer than names can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

/// Attributes to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub accessed: Option<Moment>,
    /// Time of the last change of contents.
    pub modified: Option<Moment>,
}

/// A time that is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// The server's.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// A request. Fids are the client's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Request<'a> {
    /// The first of all: messages of at most so many bytes.
    Version {
        message: u32,
    },
    /// `fid` is the root of what is shared under a name from now on, for this user.
    Attach {
        fid: u32,
        user: u32,
        name: &'a [u8],
    },
    /// `new` is what has this name in the directory `fid`; without a name, the same as `fid`.
    Walk {
        fid: u32,
        new: u32,
        name: Option<&'a [u8]>,
    },
    /// Opens, with Linux's flags.
    Open {
        fid: u32,
        flags: u32,
    },
    /// Makes a regular file in the directory `fid`, which is the open file from now on.
    Create {
        fid: u32,
        name: &'a [u8],
        flags: u32,
        mode: u32,
        gid: u32,
    },
    Read {
        fid: u32,
        offset: u64,
        bytes: u32,
    },
    Write {
        fid: u32,
        offset: u64,
        data: &'a [u8],
    },
    /// Forgets a fid, whatever comes of it.
    Clunk {
        fid: u32,
    },
    GetAttributes {
        fid: u32,
    },
    SetAttributes {
        fid: u32,
        changes: Changes,
    },
    /// Entries from a cookie on, which is 0 or comes with an entry.
    ReadDirectory {
        fid: u32,
        offset: u64,
        bytes: u32,
    },
    Sync {
        fid: u32,
        data_only: bool,
    },
    MakeDirectory {
        fid: u32,
        name: &'a [u8],
        mode: u32,
        gid: u32,
    },
    MakeNode {
        fid: u32,
        name: &'a [u8],
        mode: u32,
        major: u32,
        minor: u32,
        gid: u32,
    },
    Symlink {
        fid: u32,
        name: &'a [u8],
        text: &'a [u8],
        gid: u32,
    },
    /// `name` in the directory `dir` is one more name of `fid`.
    Link {
        dir: u32,
        fid: u32,
        name: &'a [u8],
    },
    Rename {
        from: u32,
        old: &'a [u8],
        to: u32,
        new: &'a [u8],
    },
    Unlink {
        fid: u32,
        name: &'a [u8],
        directory: bool,
    },
    ReadLink {
        fid: u32,
    },
    /// Of the file system.
    Space {
        fid: u32,
    },
}

/// All that `struct stat` has.
const BASIC: u64 = 0x7ff;
pub(crate) const AT_REMOVEDIR: u32 = 0x200;

pub(crate) mod valid {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 2;
    pub const GID: u32 = 4;
    pub const SIZE: u32 = 8;
    pub const ACCESSED: u32 = 0x10;
    pub const MODIFIED: u32 = 0x20;
    pub const ACCESSED_SET: u32 = 0x80;
    pub const MODIFIED_SET: u32 = 0x100;
}

impl Request<'_> {
    /// The number of the message; [`kind`].
    pub fn kind(&self) -> u8 {
        match self {
            Request::Version { .. } => kind::VERSION,
            Request::Attach { .. } => kind::ATTACH,
            Request::Walk { .. } => kind::WALK,
            Request::Open { .. } => kind::LOPEN,
            Request::Create { .. } => kind::LCREATE,
            Request::Read { .. } => kind::READ,
            Request::Write { .. } => kind::WRITE,
            Request::Clunk { .. } => kind::CLUNK,
            Request::GetAttributes { .. } => kind::GETATTR,
            Request::SetAttributes { .. } => kind::SETATTR,
            Request::ReadDirectory { .. } => kind::READDIR,
            Request::Sync { .. } => kind::FSYNC,
            Request::MakeDirectory { .. } => kind::MKDIR,
            Request::MakeNode { .. } => kind::MKNOD,
            Request::Symlink { .. } => kind::SYMLINK,
            Request::Link { .. } => kind::LINK,
            Request::Rename { .. } => kind::RENAMEAT,
            Request::Unlink { .. } => kind::UNLINKAT,
            Request::ReadLink { .. } => kind::READLINK,
            Request::Space { .. } => kind::STATFS,
        }
    }

    /// The fid that it makes, if it does.
    pub fn makes(&self) -> Option<u32> {
        match *self {
            Request::Walk { new, .. } => Some(new),
            _ => None,
        }
    }

    /// Puts the message into a buffer. Returns its bytes.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, tag: u16, to: &mut [u8]) -> Result<usize, TooLong> {
        let mut writer = Writer::new(to);
        writer.u32(0)?.u8(self.kind())?.u16(tag)?;
        self.body(&mut writer)?;
        writer.finish()
    }

    fn body(&self, to: &mut Writer) -> Result<(), TooLong> {
        match *self {
            Request::Version { message } => to.u32(message)?.string(VERSION)?,
            Request::Attach { fid, user, name } => {
                to.u32(fid)?.u32(NO_FID)?.string(b"")?.string(name)?.u32(user)?
            }
            Request::Walk { fid, new, name } => {
                to.u32(fid)?.u32(new)?;
                match name {
                    None => to.u16(0)?,
                    Some(name) => to.u16(1)?.string(name)?,
                }
            }
            Request::Open { fid, flags } => to.u32(fid)?.u32(flags)?,
            Request::Create { fid, name, flags, mode, gid } => {
                to.u32(fid)?.string(name)?.u32(flags)?.u32(mode)?.u32(gid)?
            }
            Request::Read { fid, offset, bytes }
            | Request::ReadDirectory { fid, offset, bytes } => {
                to.u32(fid)?.u64(offset)?.u32(bytes)?
            }
            Request::Write { fid, offset, data } => {
                let count = u32::try_from(data.len()).map_err(|_| TooLong)?;
                to.u32(fid)?.u64(offset)?.u32(count)?.bytes(data)?
            }
            Request::Clunk { fid } | Request::ReadLink { fid } | Request::Space { fid } => {
                to.u32(fid)?
            }
            Request::GetAttributes { fid } => to.u32(fid)?.u64(BASIC)?,
            Request::SetAttributes { fid, changes } => changes.encode(to.u32(fid)?)?,
            Request::Sync { fid, data_only } => to.u32(fid)?.u32(data_only.into())?,
            Request::MakeDirectory { fid, name, mode, gid } => {
                to.u32(fid)?.string(name)?.u32(mode)?.u32(gid)?
            }
            Request::MakeNode { fid, name, mode, major, minor, gid } => {
                to.u32(fid)?.string(name)?.u32(mode)?.u32(major)?.u32(minor)?.u32(gid)?
            }
            Request::Symlink { fid, name, text, gid } => {
                to.u32(fid)?.string(name)?.string(text)?.u32(gid)?
            }
            Request::Link { dir, fid, name } => to.u32(dir)?.u32(fid)?.string(name)?,
            Request::Rename { from, old, to: target, new } => {
                to.u32(from)?.string(old)?.u32(target)?.string(new)?
            }
            Request::Unlink { fid, name, directory } => {
                to.u32(fid)?.string(name)?.u32(if directory { AT_REMOVEDIR } else { 0 })?
            }
        };
        Ok(())
    }
}

impl Changes {
    fn encode<'w, 'a>(&self, to: &'w mut Writer<'a>) -> Result<&'w mut Writer<'a>, TooLong> {
        let set = |field: bool, bit: u32| if field { bit } else { 0 };
        let time = |moment: Option<Moment>, bit: u32, exact: u32| match moment {
            None => (0, 0),
            Some(Moment::Now) => (bit, 0),
            Some(Moment::At(time)) => (bit | exact, time),
        };
        let (accessed, at) = time(self.accessed, valid::ACCESSED, valid::ACCESSED_SET);
        let (modified, mt) = time(self.modified, valid::MODIFIED, valid::MODIFIED_SET);
        let valid = set(self.mode.is_some(), valid::MODE)
            | set(self.uid.is_some(), valid::UID)
            | set(self.gid.is_some(), valid::GID)
            | set(self.size.is_some(), valid::SIZE)
            | accessed
            | modified;
        to.u32(valid)?.u32(self.mode.unwrap_or(0))?;
        to.u32(self.uid.unwrap_or(0))?.u32(self.gid.unwrap_or(0))?.u64(self.size.unwrap_or(0))?;
        for time in [at, mt] {
            // Before 1970 too, the part of a second counts upwards.
            to.u64(time.div_euclid(SECOND) as u64)?.u64(time.rem_euclid(SECOND) as u64)?;
        }
        Ok(to)
    }
}

pub(crate) const SECOND: i64 = 1_000_000_000;
