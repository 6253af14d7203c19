//! Reading and writing, by kind of file.

use super::buffers::Cursor;
use super::regular::{self, FilePieces};
use super::{alone, text};
use super::{event, stream, Object};
use crate::errno::{Errno, Result};
use crate::mm::user::Moved;
use crate::process::Process;
use crate::server::{self, op};
use crate::sys::random;
use libos::guarded::Memory;
use unixproto::files::{Kind, AT_OFFSET};

/// Random bytes that are made at a time.
const RANDOM_PIECE: usize = 512;

/// Bytes to be written, piece by piece.
///
/// A copy is short with [`Short::Program`](crate::mm::user::Short) if the source has no more to give although there is
/// some left, whatever the source is, and with [`Short::Window`](crate::mm::user::Short) if its target is gone.
pub trait Source {
    /// Bytes to go.
    fn left(&self) -> u64;
    /// An error unless the next byte can be had.
    fn probe(&mut self, p: &mut Process) -> Result<()>;
    /// Copies to `to`, as much as both have.
    fn gather(&mut self, p: &mut Process, to: &mut [u8]) -> Moved;
    /// The same to a window, or to memory shared with a server.
    fn gather_to(&mut self, p: &mut Process, to: Memory) -> Moved;
}

impl Source for Cursor<'_> {
    fn left(&self) -> u64 {
        self.left()
    }
    fn probe(&mut self, p: &mut Process) -> Result<()> {
        self.probe_in(p)
    }
    fn gather(&mut self, p: &mut Process, to: &mut [u8]) -> Moved {
        self.gather(p, to)
    }
    #[inline]
    fn gather_to(&mut self, p: &mut Process, to: Memory) -> Moved {
        self.gather_to(p, to)
    }
}

/// Reads from `fd` at `at` (or at its offset, which moves) to the cursor's buffers.
pub fn read(p: &mut Process, fd: i32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let file = p.fds.get(fd)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let (desc, kind, inode) = match file.object {
        Object::Description { desc, kind, inode } => (desc, kind, inode),
        Object::Text(_) => return text::read(p, fd, at, to),
        _ if at.is_some() => return Err(Errno::ESPIPE),
        Object::Pair { read, .. } => return stream::read_pipe(p, read, to),
        _ => return event::read(p, fd, to),
    };
    if to.left() == 0 && kind != Kind::Directory {
        return Ok(0);
    }
    match kind {
        Kind::Regular => read_regular(p, fd, (desc, inode), at, to),
        Kind::Directory => Err(Errno::EISDIR),
        Kind::Null => Ok(0),
        Kind::Zero | Kind::Full => Ok(to.zero(p, u64::MAX).some()? as u64),
        Kind::Random => read_random(p, to),
        Kind::Path => Err(Errno::EBADF),
        Kind::Text => stream::read_text(p, desc, at, to),
        Kind::Pipe | Kind::Tty | Kind::Stream if at.is_some() => Err(Errno::ESPIPE),
        Kind::Pipe => stream::read_pipe(p, desc, to),
        Kind::Tty | Kind::Stream => stream::read(p, desc, to),
    }
}

/// Reads from a regular file.
fn read_regular(
    p: &mut Process,
    fd: i32,
    (desc, inode): (u32, u64),
    at: Option<u64>,
    to: &mut Cursor,
) -> Result<u64> {
    let kept = if at.is_none() { p.fds.kept_offset(fd) } else { None };
    let done = regular::read(p, desc, inode, at.or(kept).unwrap_or(AT_OFFSET), to)?;
    if let Some(offset) = kept {
        p.fds.keep_offset(fd, offset + done);
    }
    Ok(done)
}

/// Writes to `fd` at `at` (or at its offset, which moves) what the source has.
pub fn write(p: &mut Process, fd: i32, at: Option<u64>, from: &mut impl Source) -> Result<u64> {
    let file = p.fds.get(fd)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    let write_only = !file.readable();
    let (desc, kind, inode) = match file.object {
        Object::Description { desc, kind, inode } => (desc, kind, inode),
        _ if at.is_some() => return Err(Errno::ESPIPE),
        Object::Pair { write, .. } => return stream::write_pipe(p, write, from),
        _ => return event::write(p, fd, from),
    };
    match kind {
        Kind::Regular => {
            if at.is_none() {
                alone::give_back(p, fd);
            }
            let to = regular::Target { desc, inode, write_only };
            regular::write(p, to, at.unwrap_or(AT_OFFSET), from)
        }
        Kind::Null | Kind::Zero | Kind::Random => Ok(from.left()),
        Kind::Full => Err(Errno::ENOSPC),
        Kind::Directory | Kind::Path => Err(Errno::EBADF),
        Kind::Pipe | Kind::Tty | Kind::Stream if at.is_some() => Err(Errno::ESPIPE),
        Kind::Pipe => stream::write_pipe(p, desc, from),
        Kind::Text | Kind::Tty | Kind::Stream => stream::write(p, desc, from),
    }
}

/// Copies from one descriptor to another inside the process: `sendfile`, `copy_file_range`.
/// `in_at` as for `read`; a regular file is the only source there is (`EINVAL`).
pub fn copy(
    p: &mut Process,
    input: i32,
    in_at: Option<u64>,
    output: i32,
    out_at: Option<u64>,
    bytes: u64,
) -> Result<u64> {
    let file = p.fds.get(input)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let (desc, kind, inode) = file.description(Errno::EINVAL)?;
    if !p.fds.get(output)?.writable() {
        return Err(Errno::EBADF);
    }
    match kind {
        Kind::Regular => {}
        Kind::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    if in_at.is_none() {
        alone::give_back(p, input);
    }
    let part = server::call(op::ReadBegin { desc, offset: in_at.unwrap_or(AT_OFFSET), bytes })?;
    if part.bytes == 0 {
        return Ok(0);
    }
    let mut pieces = FilePieces::new(desc, inode, part);
    let result = match write(p, output, out_at, &mut pieces) {
        // Others have truncated it meanwhile.
        Err(Errno::ENXIO) => Ok(0),
        result => result,
    };
    let done = *result.as_ref().unwrap_or(&0);
    if done < part.bytes && in_at.is_none() {
        regular::move_back(desc, part.offset + done);
    }
    result
}

/// Fills the buffers with random bytes.
pub fn read_random(p: &mut Process, to: &mut Cursor) -> Result<u64> {
    let mut total = 0;
    while to.left() > 0 {
        let mut bytes = [0; RANDOM_PIECE];
        let piece = &mut bytes[..to.left().min(RANDOM_PIECE as u64) as usize];
        random::fill(p, piece);
        let moved = to.scatter(p, piece);
        total += moved.bytes as u64;
        match moved.short {
            Some(short) if total == 0 => return Err(short.errno()),
            Some(_) => break,
            None => {}
        }
    }
    Ok(total)
}
