//! Reading and writing, whatever kind of file it is.

use super::buffers::Cursor;
use super::kinds::regular::{move_back, FilePieces};
use super::kinds::with_kind;
use super::ops::{Contents, FileOps, Handle};
use super::{alone, glance, File};
use crate::errno::{Errno, Result};
use crate::mm::user::{self, Moved, Short};
use crate::process::Io;
use crate::server::{self, op};
use crate::sys::random;
use libos::guarded::Memory;
use unixproto::files::AT_OFFSET;

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
    fn probe(&mut self, io: &mut Io) -> Result<()>;
    /// Copies to `to`, as much as both have.
    fn gather(&mut self, io: &mut Io, to: &mut [u8]) -> Moved;
    /// The same to a window, or to memory shared with a server.
    fn gather_to(&mut self, io: &mut Io, to: Memory) -> Moved;
    /// Where the next bytes are that could be lent, and how many there are in one piece, if there are `least`; an error
    /// unless the first of them can be had. What is lent is to be done with [`passed`](Self::passed).
    fn lendable(&mut self, io: &mut Io, least: u64) -> Result<Option<(u64, u64)>>;
    /// So many bytes of what was lent have been copied.
    fn passed(&mut self, bytes: u64);
    /// Has the next bytes made ready, of which there was nothing: `false` if there can be nothing.
    fn have_ready(&mut self, io: &mut Io, bytes: u64) -> bool;
}

impl Source for Cursor<'_> {
    fn left(&self) -> u64 {
        self.left()
    }
    fn probe(&mut self, io: &mut Io) -> Result<()> {
        self.probe_in(&mut io.mm)
    }
    fn gather(&mut self, io: &mut Io, to: &mut [u8]) -> Moved {
        self.gather(&mut io.mm, to)
    }
    #[inline]
    fn gather_to(&mut self, io: &mut Io, to: Memory) -> Moved {
        self.gather_to(&mut io.mm, to)
    }
    fn lendable(&mut self, io: &mut Io, least: u64) -> Result<Option<(u64, u64)>> {
        let Some(piece) = self.piece().filter(|(_, bytes)| *bytes >= least) else {
            return Ok(None);
        };
        self.probe_in(&mut io.mm)?;
        Ok(Some(piece))
    }
    fn passed(&mut self, bytes: u64) {
        self.skip(bytes);
    }
    fn have_ready(&mut self, io: &mut Io, bytes: u64) -> bool {
        let piece = self.piece();
        piece
            .is_none_or(|(addr, n)| user::readable(&mut io.mm, addr, n.min(bytes) as usize).is_ok())
    }
}

/// So many zeros.
pub struct Zeroes(pub u64);

impl Source for Zeroes {
    fn left(&self) -> u64 {
        self.0
    }
    fn probe(&mut self, _io: &mut Io) -> Result<()> {
        Ok(())
    }
    fn gather(&mut self, _io: &mut Io, to: &mut [u8]) -> Moved {
        let bytes = self.0.min(to.len() as u64) as usize;
        to[..bytes].fill(0);
        self.0 -= bytes as u64;
        Moved { bytes, short: None }
    }
    fn gather_to(&mut self, _io: &mut Io, to: Memory) -> Moved {
        let progress = to.first(self.0.min(to.len() as u64) as usize).zero();
        self.0 -= progress.done as u64;
        Moved { bytes: progress.done, short: progress.fault.map(|_| Short::Window) }
    }
    fn lendable(&mut self, _io: &mut Io, _least: u64) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }
    fn passed(&mut self, _bytes: u64) {}
    fn have_ready(&mut self, _io: &mut Io, _bytes: u64) -> bool {
        false
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
pub fn read(io: &mut Io, fd: i32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let (index, file) = io.fds.find(fd)?;
    let handle = Handle { index, flags: file.flags };
    with_kind!(&file.kind, kind => {
        check_position(kind, at)?;
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        glance::note(kind, fd, index, file);
        let kind = kind.handle();
        kind.read(io, handle, at, to)
    })
}

/// Writes to `fd` at `at` (or at its offset, which moves) what the source has.
pub fn write(io: &mut Io, fd: i32, at: Option<u64>, from: &mut impl Source) -> Result<u64> {
    let (index, file) = io.fds.find(fd)?;
    let handle = Handle { index, flags: file.flags };
    with_kind!(&file.kind, kind => {
        check_position(kind, at)?;
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        glance::note(kind, fd, index, file);
        let kind = kind.handle();
        kind.write(io, handle, at, from)
    })
}

/// Copies from one descriptor to another inside the process: `sendfile`, `copy_file_range`.
/// `in_at` as for `read`; sources are regular files and disks (`EINVAL`).
pub fn copy(
    io: &mut Io,
    input: i32,
    in_at: Option<u64>,
    output: i32,
    out_at: Option<u64>,
    bytes: u64,
) -> Result<u64> {
    let (index, file) = io.fds.find(input)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    let contents = file.source();
    if !io.fds.get(output)?.writable() {
        return Err(Errno::EBADF);
    }
    let Contents { desc, inode, .. } = contents?;
    if in_at.is_none() {
        alone::give_back(&mut io.fds, index, desc);
    }
    let part = server::call(op::ReadBegin { desc, offset: in_at.unwrap_or(AT_OFFSET), bytes })?;
    if part.bytes == 0 {
        return Ok(0);
    }
    let mut pieces = FilePieces::new(desc, inode, part);
    let result = match write(io, output, out_at, &mut pieces) {
        // Others have truncated it meanwhile.
        Err(Errno::ENXIO) => Ok(0),
        result => result,
    };
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

    /// What of it can be sent to another file.
    pub fn source(&self) -> Result<Contents> {
        with_kind!(&self.kind, kind => kind.source())
    }
}

/// Fills the buffers with random bytes.
pub fn read_random(io: &mut Io, to: &mut Cursor) -> Result<u64> {
    let mut total = 0;
    while to.left() > 0 {
        let mut bytes = [0; RANDOM_PIECE];
        let piece = &mut bytes[..to.left().min(RANDOM_PIECE as u64) as usize];
        random::fill(&mut io.random, piece);
        let moved = to.scatter(&mut io.mm, piece);
        total += moved.bytes as u64;
        match moved.short {
            Some(short) if total == 0 => return Err(short.errno()),
            Some(_) => break,
            None => {}
        }
    }
    Ok(total)
}
