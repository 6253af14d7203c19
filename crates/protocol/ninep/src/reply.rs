//! What is answered.

use crate::request::SECOND;
use crate::wire::Reader;
use crate::{kind, Qid, HEADER};

/// An answer that none can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Attributes of a file, as its server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// What it is for the server.
    pub qid: Qid,
    /// Its type and permission bits, as Linux has them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub links: u64,
    /// Device number, of a device, as Linux's system calls have it.
    pub device: u64,
    /// Bytes.
    pub size: u64,
    /// What is best read at once, in bytes.
    pub block: u64,
    /// Memory that it takes, in units of 512 bytes.
    pub blocks: u64,
    /// Time of the last access, in nanoseconds since 1970.
    pub accessed: i64,
    /// Time of the last change of contents.
    pub modified: i64,
    /// Time of the last change.
    pub changed: i64,
}

/// Room in a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Bytes of a block.
    pub block: u32,
    /// Blocks.
    pub blocks: u64,
    /// Of which are free.
    pub free: u64,
    /// Of which are free for everybody.
    pub available: u64,
    /// Files that there may be.
    pub files: u64,
    /// Of which may still come.
    pub files_free: u64,
    /// Its identity.
    pub id: u64,
    /// Bytes of a name.
    pub name: u32,
}

/// An answer, to be looked at as long as its buffer stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// It is done.
    Done,
    /// It is not, for this reason: a number of Linux's, 1 to 4095.
    Refused(u16),
    /// Messages have at most so many bytes, and are of this version.
    Version(u32, &'a [u8]),
    /// A file.
    File(Qid),
    /// It is open.
    Opened(Qid),
    /// Attributes.
    Attributes(Attributes),
    /// What was read; the text of a link; entries of a directory, for [`Entries`](crate::Entries).
    Bytes(&'a [u8]),
    /// So many bytes were written.
    Count(u32),
    /// Room in the file system.
    Space(Space),
}

impl<'a> Reply<'a> {
    /// The answer to a request of a kind and tag.
    ///
    /// # Errors
    /// It is none: too short, of another request, or something in it reaches behind its end.
    pub fn decode(request: u8, tag: u16, bytes: &'a [u8]) -> Result<Reply<'a>, Malformed> {
        let mut all = Reader(bytes);
        let size = all.u32()? as usize;
        let mut from = Reader(bytes.get(..size).ok_or(Malformed)?.get(HEADER..).ok_or(Malformed)?);
        let (kind, its_tag) = (all.u8()?, all.u16()?);
        if its_tag != tag {
            return Err(Malformed);
        }
        if kind == kind::ERROR {
            return match from.u32()? {
                error @ 1..=4095 => Ok(Reply::Refused(error as u16)),
                _ => Err(Malformed),
            };
        }
        if Some(kind) != request.checked_add(1) {
            return Err(Malformed);
        }
        Self::body(request, &mut from)
    }

    fn body(request: u8, from: &mut Reader<'a>) -> Result<Reply<'a>, Malformed> {
        Ok(match request {
            kind::VERSION => Reply::Version(from.u32()?, from.string()?),
            kind::ATTACH | kind::MKDIR | kind::SYMLINK | kind::MKNOD => Reply::File(from.qid()?),
            kind::WALK => match from.u16()? {
                0 => Reply::Done,
                1 => Reply::File(from.qid()?),
                _ => return Err(Malformed),
            },
            kind::LOPEN | kind::LCREATE => Reply::Opened(from.qid()?),
            kind::GETATTR => Reply::Attributes(attributes(from)?),
            kind::READ | kind::READDIR => {
                let count = from.u32()? as usize;
                Reply::Bytes(from.bytes(count)?)
            }
            kind::READLINK => Reply::Bytes(from.string()?),
            kind::WRITE => Reply::Count(from.u32()?),
            kind::STATFS => Reply::Space(space(from)?),
            kind::SETATTR | kind::CLUNK | kind::FSYNC => Reply::Done,
            kind::LINK | kind::RENAMEAT | kind::UNLINKAT => Reply::Done,
            _ => return Err(Malformed),
        })
    }
}

fn attributes(from: &mut Reader) -> Result<Attributes, Malformed> {
    let _valid = from.u64()?;
    let mut attributes = Attributes {
        qid: from.qid()?,
        mode: from.u32()?,
        uid: from.u32()?,
        gid: from.u32()?,
        links: from.u64()?,
        device: from.u64()?,
        size: from.u64()?,
        block: from.u64()?,
        blocks: from.u64()?,
        ..Attributes::default()
    };
    for time in [&mut attributes.accessed, &mut attributes.modified, &mut attributes.changed] {
        let (seconds, nanoseconds) = (from.u64()? as i64, from.u64()?);
        // A time that has no such number is the last one that has.
        let nanoseconds = nanoseconds.min(SECOND as u64 - 1) as i64;
        *time = seconds.saturating_mul(SECOND).saturating_add(nanoseconds);
    }
    Ok(attributes)
}

fn space(from: &mut Reader) -> Result<Space, Malformed> {
    let _type = from.u32()?;
    Ok(Space {
        block: from.u32()?,
        blocks: from.u64()?,
        free: from.u64()?,
        available: from.u64()?,
        files: from.u64()?,
        files_free: from.u64()?,
        id: from.u64()?,
        name: from.u32()?,
    })
}
