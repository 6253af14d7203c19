//! The other side: requests are decoded, answers are encoded.
//!
//! Client and server are two domains of one machine here, and share a Frame instead of a device ([`PLACES`]). The server knows users: behind each
//! request is the id of the one on whose behalf it is made, to whom belongs what is made.

use crate::reply::{Attributes, Malformed, Reply, Space};
use crate::request::{valid, Changes, Moment, Request, TooLong, AT_REMOVEDIR, SECOND};
use crate::wire::{Reader, Writer};
use crate::{kind, Qid, HEADER};

/// Requests that the server has at once, at most. Each has a place in the Frame.
pub const PLACES: usize = 8;
/// Bytes of a request, or an answer, at most.
pub const MESSAGE: usize = 16 * 1024;
/// Bytes in front, with a word for each place: [`FREE`], [`ANSWERED`], or a request, with a number that is larger than those of
/// the requests before it.
pub const WORDS: usize = 4096;
/// A place has nothing.
pub const FREE: u64 = 0;
/// A place has an answer.
pub const ANSWERED: u64 = 1;
/// Bytes of the Frame.
pub const FRAME: usize = WORDS + 2 * PLACES * MESSAGE;
/// The fid that is the disk from the start.
pub const WHOLE_FID: u32 = 1;
/// Attached to: the file system.
pub const FILES: &[u8] = b"files";
/// The same, of which nothing is changed.
pub const FILES_READ_ONLY: &[u8] = b"files,ro";
/// Bytes behind a request, with the user.
pub const USER: usize = 4;

/// Where in the Frame a request is, and where its answer.
pub const fn place(number: usize) -> (usize, usize) {
    let request = WORDS + 2 * number * MESSAGE;
    (request, request + MESSAGE)
}

/// A request as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// Of the message.
    pub tag: u16,
    /// What is asked.
    pub request: Request<'a>,
    /// On whose behalf.
    pub user: u32,
}

impl<'a> Asked<'a> {
    /// Takes a request apart.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Asked<'a>, Malformed> {
        let mut all = Reader(bytes);
        let size = all.u32()? as usize;
        let (kind, tag) = (all.u8()?, all.u16()?);
        let mut from = Reader(bytes.get(HEADER..size).ok_or(Malformed)?);
        let request = request(kind, &mut from)?;
        let user = Reader(bytes.get(size..).ok_or(Malformed)?).u32()?;
        Ok(Asked { tag, request, user })
    }
}

impl Request<'_> {
    /// Puts the message into a buffer, and the user behind it. Returns the bytes.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode_for(&self, user: u32, tag: u16, to: &mut [u8]) -> Result<usize, TooLong> {
        let bytes = self.encode(tag, to)?;
        let end = bytes + USER;
        to.get_mut(bytes..end).ok_or(TooLong)?.copy_from_slice(&user.to_le_bytes());
        Ok(end)
    }
}

fn request<'a>(kind: u8, from: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match kind {
        kind::VERSION => {
            let message = from.u32()?;
            match from.string()? {
                crate::VERSION => Request::Version { message },
                _ => return Err(Malformed),
            }
        }
        kind::ATTACH => {
            let (fid, _auth, _user_name) = (from.u32()?, from.u32()?, from.string()?);
            let (name, user) = (from.string()?, from.u32()?);
            Request::Attach { fid, user, name }
        }
        kind::WALK => {
            let (fid, new) = (from.u32()?, from.u32()?);
            let name = match from.u16()? {
                0 => None,
                1 => Some(from.string()?),
                _ => return Err(Malformed),
            };
            Request::Walk { fid, new, name }
        }
        kind::LOPEN => Request::Open { fid: from.u32()?, flags: from.u32()? },
        kind::LCREATE => Request::Create {
            fid: from.u32()?,
            name: from.string()?,
            flags: from.u32()?,
            mode: from.u32()?,
            gid: from.u32()?,
        },
        kind::READ => Request::Read { fid: from.u32()?, offset: from.u64()?, bytes: from.u32()? },
        kind::READDIR => {
            Request::ReadDirectory { fid: from.u32()?, offset: from.u64()?, bytes: from.u32()? }
        }
        kind::WRITE => {
            let (fid, offset, count) = (from.u32()?, from.u64()?, from.u32()?);
            Request::Write { fid, offset, data: from.bytes(count as usize)? }
        }
        kind::CLUNK => Request::Clunk { fid: from.u32()? },
        kind::READLINK => Request::ReadLink { fid: from.u32()? },
        kind::STATFS => Request::Space { fid: from.u32()? },
        kind::GETATTR => {
            let (fid, _wanted) = (from.u32()?, from.u64()?);
            Request::GetAttributes { fid }
        }
        kind::SETATTR => Request::SetAttributes { fid: from.u32()?, changes: changes(from)? },
        kind::FSYNC => Request::Sync { fid: from.u32()?, data_only: from.u32()? != 0 },
        kind::MKDIR => Request::MakeDirectory {
            fid: from.u32()?,
            name: from.string()?,
            mode: from.u32()?,
            gid: from.u32()?,
        },
        kind::MKNOD => Request::MakeNode {
            fid: from.u32()?,
            name: from.string()?,
            mode: from.u32()?,
            major: from.u32()?,
            minor: from.u32()?,
            gid: from.u32()?,
        },
        kind::SYMLINK => Request::Symlink {
            fid: from.u32()?,
            name: from.string()?,
            text: from.string()?,
            gid: from.u32()?,
        },
        kind::LINK => Request::Link { dir: from.u32()?, fid: from.u32()?, name: from.string()? },
        kind::RENAMEAT => Request::Rename {
            from: from.u32()?,
            old: from.string()?,
            to: from.u32()?,
            new: from.string()?,
        },
        kind::UNLINKAT => {
            let (fid, name) = (from.u32()?, from.string()?);
            Request::Unlink { fid, name, directory: from.u32()? & AT_REMOVEDIR != 0 }
        }
        _ => return Err(Malformed),
    })
}

fn changes(from: &mut Reader) -> Result<Changes, Malformed> {
    let valid = from.u32()?;
    let given = |bit: u32| valid & bit != 0;
    let (mode, uid, gid, size) = (from.u32()?, from.u32()?, from.u32()?, from.u64()?);
    let mut moment = |bit: u32, exact: u32| -> Result<Option<Moment>, Malformed> {
        let (seconds, part) = (from.u64()? as i64, from.u64()? as i64);
        let at = seconds.checked_mul(SECOND).and_then(|time| time.checked_add(part));
        Ok(match (given(bit), given(exact)) {
            (false, _) => None,
            (true, false) => Some(Moment::Now),
            (true, true) => Some(Moment::At(at.ok_or(Malformed)?)),
        })
    };
    Ok(Changes {
        accessed: moment(valid::ACCESSED, valid::ACCESSED_SET)?,
        modified: moment(valid::MODIFIED, valid::MODIFIED_SET)?,
        mode: given(valid::MODE).then_some(mode),
        uid: given(valid::UID).then_some(uid),
        gid: given(valid::GID).then_some(gid),
        size: given(valid::SIZE).then_some(size),
    })
}

impl Reply<'_> {
    /// Puts the answer to a request of a kind and tag into a buffer. Returns its bytes.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, request: u8, tag: u16, to: &mut [u8]) -> Result<usize, TooLong> {
        let kind = match self {
            Reply::Refused(_) => kind::ERROR,
            _ => request.wrapping_add(1),
        };
        let mut writer = Writer::new(to);
        let to = writer.u32(0)?.u8(kind)?.u16(tag)?;
        match *self {
            Reply::Refused(error) => to.u32(error.into())?,
            Reply::Version(message, version) => to.u32(message)?.string(version)?,
            // A walk may have been one to the same file, which has no name.
            Reply::Done if request == kind::WALK => to.u16(0)?,
            Reply::Done => to,
            Reply::File(qid) if request == kind::WALK => to.u16(1)?.qid(qid)?,
            Reply::File(qid) => to.qid(qid)?,
            Reply::Opened(qid) => to.qid(qid)?.u32(0)?,
            Reply::Attributes(attributes) => self::attributes(to, &attributes)?,
            Reply::Bytes(bytes) if request == kind::READLINK => to.string(bytes)?,
            Reply::Bytes(bytes) => {
                let count = u32::try_from(bytes.len()).map_err(|_| TooLong)?;
                to.u32(count)?.bytes(bytes)?
            }
            Reply::Count(count) => to.u32(count)?,
            Reply::Space(space) => self::space(to, &space)?,
        };
        writer.finish()
    }
}

fn attributes<'w, 'a>(
    to: &'w mut Writer<'a>,
    of: &Attributes,
) -> Result<&'w mut Writer<'a>, TooLong> {
    const BASIC: u64 = 0x7ff;
    to.u64(BASIC)?.qid(of.qid)?.u32(of.mode)?.u32(of.uid)?.u32(of.gid)?.u64(of.links)?;
    to.u64(of.device)?.u64(of.size)?.u64(of.block)?.u64(of.blocks)?;
    for time in [of.accessed, of.modified, of.changed, 0] {
        to.u64(time.div_euclid(SECOND) as u64)?.u64(time.rem_euclid(SECOND) as u64)?;
    }
    // Generation and version of the data: not known.
    to.u64(0)?.u64(0)
}

fn space<'w, 'a>(to: &'w mut Writer<'a>, of: &Space) -> Result<&'w mut Writer<'a>, TooLong> {
    to.u32(0)?.u32(of.block)?.u64(of.blocks)?.u64(of.free)?.u64(of.available)?;
    to.u64(of.files)?.u64(of.files_free)?.u64(of.id)?.u32(of.name)
}

/// Entries of a directory, for [`Reply::Bytes`].
pub struct EntryWriter<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl<'a> EntryWriter<'a> {
    /// Into a buffer.
    pub fn new(to: &'a mut [u8]) -> EntryWriter<'a> {
        EntryWriter { to, at: 0 }
    }

    /// Adds an entry, behind which `next` is. `false`: it does not fit.
    pub fn add(&mut self, qid: Qid, next: u64, kind: u8, name: &[u8]) -> bool {
        let mut put = || -> Result<(), TooLong> {
            let mut writer = Writer::new(self.to.get_mut(self.at..).ok_or(TooLong)?);
            writer.qid(qid)?.u64(next)?.u8(kind)?.string(name)?;
            Ok(())
        };
        let fits = put().is_ok();
        if fits {
            self.at += 13 + 8 + 1 + 2 + name.len();
        }
        fits
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.at
    }
}
