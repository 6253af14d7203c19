//! Reading and writing, by kind of file.

use super::buffers::Cursor;
use super::regular::{self, FilePieces};
use super::{alone, text};
use super::{event, stream, Object};
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::server::{self, op};
use crate::sys::random;
use unixproto::files::{Kind, AT_OFFSET};

/// Bytes to be written, piece by piece.
pub trait Source {
    /// Bytes to go.
    fn left(&self) -> u64;
    /// The next piece, at most `max` bytes; empty at the end.
    fn next(&mut self, p: &mut Process, max: u64) -> Result<&'static [u8]>;
    /// Fills `to` as far as the source goes. An error only if nothing could be had.
    fn gather(&mut self, p: &mut Process, to: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.next(p, (to.len() - done) as u64) {
                Ok([]) => break,
                Ok(piece) => {
                    to[done..done + piece.len()].copy_from_slice(piece);
                    done += piece.len();
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

impl Source for Cursor<'_> {
    fn left(&self) -> u64 {
        self.left()
    }
    fn next(&mut self, p: &mut Process, max: u64) -> Result<&'static [u8]> {
        self.next_in(p, max)
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
        Kind::Zero | Kind::Full => fill(p, to, |_, piece| piece.fill(0)),
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
    let result = write(p, output, out_at, &mut pieces);
    let done = *result.as_ref().unwrap_or(&0);
    if done < part.bytes && in_at.is_none() {
        regular::move_back(desc, part.offset + done);
    }
    result
}

/// Fills the buffers with random bytes.
pub fn read_random(p: &mut Process, to: &mut Cursor) -> Result<u64> {
    fill(p, to, random::fill)
}

fn fill(p: &mut Process, to: &mut Cursor, make: impl Fn(&mut Process, &mut [u8])) -> Result<u64> {
    let mut done = 0;
    while to.left() > 0 {
        match to.next_out(p, u64::MAX) {
            Ok([]) => break,
            Ok(piece) => {
                make(p, piece);
                done += piece.len() as u64;
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
