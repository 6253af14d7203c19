//! Reading and writing, whatever kind of file it is.

use super::buffers::Cursor;
use super::kinds::regular::{move_back, FilePieces};
use super::kinds::with_kind;
use super::ops::{Contents, FileOps, Handle};
use super::{alone, File};
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::server::{self, op};
use crate::sys::random;
use unixproto::files::AT_OFFSET;

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

/// `ESPIPE` if a kind of file has no positions and one is named.
fn check_position<K: FileOps>(_: &K, at: Option<u64>) -> Result<()> {
    match at {
        Some(_) if !K::POSITIONED => Err(Errno::ESPIPE),
        _ => Ok(()),
    }
}

/// Reads from `fd` at `at` (or at its offset, which moves) to the cursor's buffers.
pub fn read(p: &mut Process, fd: i32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let (index, file) = p.fds.find(fd)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let handle = Handle { index, flags: file.flags };
    with_kind!(&file.kind, kind => {
        check_position(kind, at)?;
        let kind = kind.handle();
        kind.read(p, handle, at, to)
    })
}

/// Writes to `fd` at `at` (or at its offset, which moves) what the source has.
pub fn write(p: &mut Process, fd: i32, at: Option<u64>, from: &mut impl Source) -> Result<u64> {
    let (index, file) = p.fds.find(fd)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    let handle = Handle { index, flags: file.flags };
    with_kind!(&file.kind, kind => {
        check_position(kind, at)?;
        let kind = kind.handle();
        kind.write(p, handle, at, from)
    })
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
    let (index, file) = p.fds.find(input)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let contents = file.contents();
    if !p.fds.get(output)?.writable() {
        return Err(Errno::EBADF);
    }
    let Contents { desc, inode } = contents?;
    if in_at.is_none() {
        alone::give_back(p, index, desc);
    }
    let part = server::call(op::ReadBegin { desc, offset: in_at.unwrap_or(AT_OFFSET), bytes })?;
    if part.bytes == 0 {
        return Ok(0);
    }
    let mut pieces = FilePieces::new(desc, inode, part);
    let result = write(p, output, out_at, &mut pieces);
    let done = *result.as_ref().unwrap_or(&0);
    if done < part.bytes && in_at.is_none() {
        move_back(desc, part.offset + done);
    }
    result
}

impl File {
    /// Its contents, if it is a regular file.
    pub fn contents(&self) -> Result<Contents> {
        with_kind!(&self.kind, kind => kind.contents())
    }
}

/// Fills the buffers with random bytes.
pub fn read_random(p: &mut Process, to: &mut Cursor) -> Result<u64> {
    fill(p, to, random::fill)
}

/// Fills the buffers with what is made for them piece by piece.
pub fn fill(
    p: &mut Process,
    to: &mut Cursor,
    make: impl Fn(&mut Process, &mut [u8]),
) -> Result<u64> {
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
