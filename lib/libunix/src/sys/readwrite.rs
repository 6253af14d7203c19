//! Reading, writing, seeking.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::kinds::with_kind;
use crate::fd::ops::{FileOps, Handle};
use crate::fd::{glance, transfer, Fds};
use crate::mm::{user, Mm};
use crate::process::{Files, Io};
use crate::server;
use abi::layout::USER_END;
use alloc::vec;
use alloc::vec::Vec;
use linuxabi::bytes::get_u64;
use linuxabi::iovec::{decode, Buffer, IOVEC_BYTES, MAX_RW, MAX_VECTORS};
use unixproto::files::SEEK_HOLE;
use unixproto::session::DATA_BYTES;

fn one(base: u64, len: u64) -> [Buffer; 1] {
    [Buffer { base, len: len.min(MAX_RW) }]
}

/// The buffers of a `struct iovec` array, cut to what one call moves.
///
/// # Errors
///
/// `EINVAL`: there are too many, or one has a negative length; `EFAULT`: the array is not there, or one of several
/// reaches beyond the program's half of addresses before it is cut.
pub fn vector(mm: &mut Mm, addr: u64, count: u64) -> Result<Vec<Buffer>> {
    if count > MAX_VECTORS as u64 {
        return Err(Errno::EINVAL);
    }
    let mut buffers = vec![Buffer::default(); count as usize];
    let mut raw = vec![0; count as usize * IOVEC_BYTES];
    user::bytes_in(mm, addr, &mut raw)?;
    decode(&raw, &mut buffers)?;
    let is_user = |(buffer, raw): (&Buffer, &[u8])| {
        // As on Linux, one alone is cut first.
        let len = if count == 1 { buffer.len } else { get_u64(raw, 8) };
        buffer.base.checked_add(len).is_some_and(|end| end <= USER_END)
    };
    let all_are = buffers.iter().zip(raw.chunks_exact(IOVEC_BYTES)).all(is_user);
    all_are.then_some(buffers).ok_or(Errno::EFAULT)
}

fn position(offset: i64) -> Result<Option<u64>> {
    u64::try_from(offset).map(Some).map_err(|_| Errno::EINVAL)
}

pub fn read(io: &mut Io, fd: i32, buf: u64, len: u64) -> Result<u64> {
    transfer::read(io, fd, None, &mut Cursor::new(&one(buf, len)))
}

pub fn write(io: &mut Io, fd: i32, buf: u64, len: u64) -> Result<u64> {
    transfer::write(io, fd, None, &mut Cursor::new(&one(buf, len)))
}

pub fn pread64(io: &mut Io, fd: i32, buf: u64, len: u64, offset: i64) -> Result<u64> {
    transfer::read(io, fd, position(offset)?, &mut Cursor::new(&one(buf, len)))
}

pub fn pwrite64(io: &mut Io, fd: i32, buf: u64, len: u64, offset: i64) -> Result<u64> {
    transfer::write(io, fd, position(offset)?, &mut Cursor::new(&one(buf, len)))
}

pub fn readv(io: &mut Io, fd: i32, vec: u64, count: u64) -> Result<u64> {
    io.fds.get(fd)?;
    let buffers = vector(&mut io.mm, vec, count)?;
    transfer::read(io, fd, None, &mut Cursor::new(&buffers))
}

pub fn writev(io: &mut Io, fd: i32, vec: u64, count: u64) -> Result<u64> {
    io.fds.get(fd)?;
    let buffers = vector(&mut io.mm, vec, count)?;
    transfer::write(io, fd, None, &mut Cursor::new(&buffers))
}

pub fn preadv(io: &mut Io, fd: i32, vec: u64, count: u64, offset: i64) -> Result<u64> {
    let at = position(offset)?;
    io.fds.get(fd)?;
    let buffers = vector(&mut io.mm, vec, count)?;
    transfer::read(io, fd, at, &mut Cursor::new(&buffers))
}

pub fn pwritev(io: &mut Io, fd: i32, vec: u64, count: u64, offset: i64) -> Result<u64> {
    let at = position(offset)?;
    io.fds.get(fd)?;
    let buffers = vector(&mut io.mm, vec, count)?;
    transfer::write(io, fd, at, &mut Cursor::new(&buffers))
}

/// `preadv2` and `pwritev2` without flags; offset -1 is the file's own.
pub fn preadv2(
    io: &mut Io,
    fd: i32,
    vec: u64,
    count: u64,
    offset: i64,
    _high: u64,
    flags: u32,
) -> Result<u64> {
    match (flags, offset) {
        (0, -1) => readv(io, fd, vec, count),
        (0, _) => preadv(io, fd, vec, count, offset),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

pub fn pwritev2(
    io: &mut Io,
    fd: i32,
    vec: u64,
    count: u64,
    offset: i64,
    _high: u64,
    flags: u32,
) -> Result<u64> {
    match (flags, offset) {
        (0, -1) => writev(io, fd, vec, count),
        (0, _) => pwritev(io, fd, vec, count, offset),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

pub fn lseek(fds: &mut Fds, fd: i32, offset: i64, whence: u32) -> Result<u64> {
    let index = fds.index(fd)?;
    let file = fds.get_open(fd)?;
    let handle = Handle { index, flags: file.flags };
    if whence > SEEK_HOLE {
        return Err(Errno::EINVAL);
    }
    with_kind!(&file.kind, kind => {
        glance::note(kind, fd, index, file);
        let kind = kind.handle();
        kind.seek(fds, handle, offset, whence)
    })
}

/// A listing, `DATA_BYTES` at a time. `old`: records of `getdents`.
fn listing(files: &mut Files, fd: i32, buf: u64, len: u32, old: bool) -> Result<u64> {
    user::check_writable(files.mm, buf, (len as usize).min(1))?;
    let file = files.fds.get_open(fd)?;
    let bytes = len.min(DATA_BYTES as u32);
    let count = with_kind!(&file.kind, kind => kind.list(bytes))?;
    if old {
        let mut listing = server::taken(count)?;
        let mut records = &mut listing[..];
        while records.len() > 18 {
            let len = linuxabi::bytes::get_u16(records, 16) as usize;
            if len < 19 || len > records.len() {
                break;
            }
            let (record, rest) = core::mem::take(&mut records).split_at_mut(len);
            linuxabi::dirent::to_old(record);
            records = rest;
        }
        user::bytes_out(files.mm, buf, &listing)?;
    } else {
        user::memory_out(files.mm, buf, server::data(count))?;
    }
    Ok(count as u64)
}

pub fn getdents64(mut files: Files, fd: i32, buf: u64, len: u32) -> Result<u64> {
    listing(&mut files, fd, buf, len, false)
}

pub fn getdents(mut files: Files, fd: i32, buf: u64, len: u32) -> Result<u64> {
    listing(&mut files, fd, buf, len, true)
}

/// `fsync` and its relatives.
pub fn fsync(fds: &mut Fds, fd: i32) -> Result<u64> {
    let file = fds.get_open(fd)?;
    with_kind!(&file.kind, kind => kind.sync(0, u64::MAX))
}

pub fn sync_file_range(fds: &mut Fds, fd: i32, offset: i64, bytes: i64, flags: u32) -> Result<u64> {
    const FLAGS: u32 = 7;
    let file = fds.get_open(fd)?;
    let end = offset.checked_add(bytes);
    if flags & !FLAGS != 0 || offset < 0 || bytes < 0 || end.is_none() {
        return Err(Errno::EINVAL);
    }
    // All behind it, if no length is named.
    let bytes = if bytes == 0 { u64::MAX } else { bytes as u64 };
    match with_kind!(&file.kind, kind => kind.sync(offset as u64, bytes)) {
        Err(Errno::EINVAL) => Err(Errno::ESPIPE),
        done => done,
    }
}

pub fn fadvise64(fds: &mut Fds, fd: i32, _offset: i64, len: i64, advice: u32) -> Result<u64> {
    let file = fds.get_open(fd)?;
    let answer = with_kind!(&file.kind, kind => kind.advise())?;
    if len < 0 || advice > 5 {
        return Err(Errno::EINVAL);
    }
    Ok(answer)
}

pub fn readahead(fds: &mut Fds, fd: i32) -> Result<u64> {
    match fds.get_open(fd)?.source() {
        Ok(_) => Ok(0),
        Err(_) => Err(Errno::EINVAL),
    }
}

pub fn sync(_: ()) -> u64 {
    // It tells of no errors.
    let _ = server::call(server::op::SyncDisks {});
    0
}
