//! From one open file to another: `sendfile` and `copy_file_range`, which copy here, and `splice`, `tee` and `vmsplice`, of
//! which the bytes are moved by `unixd`, who has the pipes and the files.

use super::descriptors::get_flags;
use super::readwrite::{lseek, vector};
use crate::errno::{Errno, Result};
use crate::fd::alone;
use crate::fd::buffers::Cursor;
use crate::fd::kinds::{pipe, with_kind};
use crate::fd::ops::{size_of, FileOps, Flow};
use crate::fd::{stream, transfer};
use crate::mm::{user, Mm};
use crate::process::Io;
use crate::server::{self, op, restart};
use linuxabi::iovec::MAX_RW;
use unixproto::files::{splice as flag, AT_OFFSET, O_APPEND, SEEK_CUR, SEEK_SET};
use unixproto::session::DATA_BYTES;
use unixproto::sockets::MSG_DONTWAIT;

/// `SPLICE_F_*`.
const ALL_FLAGS: u32 = 15;

/// One side of a move.
struct Side {
    index: u32,
    flow: Flow,
    readable: bool,
    writable: bool,
}

impl Side {
    fn of(io: &Io, fd: i32) -> Result<Side> {
        let (index, file) = (io.fds.index(fd)?, io.fds.get_open(fd)?);
        let flow = with_kind!(&file.kind, kind => kind.flow());
        Ok(Side { index, flow, readable: file.readable(), writable: file.writable() })
    }

    fn is_pipe(&self) -> bool {
        matches!(self.flow, Flow::Pipe(_))
    }

    /// The file's offset is about to be used or moved by the server, unless another place is named.
    fn place(&self, io: &mut Io, at: Option<u64>) -> u64 {
        if let (Flow::Contents(desc), None) = (self.flow, at) {
            alone::give_back(&mut io.fds, self.index, desc);
        }
        at.unwrap_or(AT_OFFSET)
    }
}

/// Both sides, if one may be read and the other be written.
fn sides(io: &Io, input: i32, output: i32) -> Result<(Side, Side)> {
    Ok((Side::of(io, input)?, Side::of(io, output)?))
}

/// An offset in the program's memory, if there is to be one.
fn offset_in(mm: &mut Mm, address: u64) -> Result<Option<u64>> {
    match address {
        0 => Ok(None),
        _ => user::copy_in(mm, address).map(Some),
    }
}

fn offset_out(mm: &mut Mm, address: u64, before: Option<u64>, moved: u64) -> Result<()> {
    match before {
        Some(offset) => user::copy_out(mm, address, &(offset + moved)),
        None => Ok(()),
    }
}

/// The same of a side of a move: a pipe has none.
fn offset_of(io: &mut Io, side: &Side, address: u64) -> Result<Option<u64>> {
    if side.is_pipe() && address != 0 {
        return Err(Errno::ESPIPE);
    }
    offset_in(&mut io.mm, address)
}

/// `EINVAL` unless so many bytes at an offset end where files do.
fn check_end(at: Option<u64>, bytes: u64) -> Result<()> {
    match at.map(|at| at.checked_add(bytes)) {
        None => Ok(()),
        Some(Some(end)) if end <= i64::MAX as u64 => Ok(()),
        Some(_) => Err(Errno::EINVAL),
    }
}

/// Does an open file append whatever is written to it?
fn appends(io: &mut Io, fd: i32) -> Result<bool> {
    Ok(get_flags(&mut io.fds, fd)? & u64::from(O_APPEND) != 0)
}

pub fn sendfile(io: &mut Io, output: i32, input: i32, offset: u64, len: u64) -> Result<u64> {
    fn is_positioned<K: FileOps>(_: &K) -> bool {
        K::POSITIONED
    }
    let at = offset_in(&mut io.mm, offset)?;
    let len = len.min(MAX_RW);
    let from = Side::of(io, input)?;
    if !from.readable {
        return Err(Errno::EBADF);
    }
    let positioned = with_kind!(&io.fds.get(input)?.kind, kind => is_positioned(kind));
    if at.is_some() && !positioned {
        return Err(Errno::ESPIPE);
    }
    check_end(at, len)?;
    let to = Side::of(io, output)?;
    if !to.writable {
        return Err(Errno::EBADF);
    }
    if io.fds.get(output)?.contents().is_ok() && appends(io, output)? {
        return Err(Errno::EINVAL);
    }
    if len == 0 && (positioned || to.is_pipe()) {
        return Ok(0);
    }
    if from.flow == Flow::Zeroes {
        // Its position stays.
        return transfer::write(io, output, None, &mut transfer::Zeroes(len));
    }
    let Flow::Contents(source) = from.flow else { return Err(Errno::EINVAL) };
    let done = match to.flow {
        Flow::Pipe(pipe) => {
            let place = from.place(io, at);
            send(io, source, place, pipe, len)?
        }
        // To its own place: both sides have the same offset, which moves once.
        same if same == from.flow && at.is_none() => {
            let start = lseek(&mut io.fds, input, 0, SEEK_CUR)?;
            let done = transfer::copy(io, input, Some(start), output, Some(start), len)?;
            lseek(&mut io.fds, input, (start + done) as i64, SEEK_SET)?;
            done
        }
        _ => copy(io, input, at, output, len)?,
    };
    offset_out(&mut io.mm, offset, at, done)?;
    Ok(done)
}

/// Copies from file to file. One that is sent to itself may grow meanwhile, and what it grew by is sent, too.
fn copy(io: &mut Io, input: i32, at: Option<u64>, output: i32, len: u64) -> Result<u64> {
    let inode = |fd| io.fds.get(fd)?.contents().map(|contents| contents.inode);
    let is_same = inode(output).is_ok_and(|to| inode(input) == Ok(to));
    let mut total = 0;
    loop {
        let at = at.map(|at| at + total);
        match transfer::copy(io, input, at, output, None, len - total) {
            Ok(done) => {
                total += done;
                if done == 0 || total == len || !is_same {
                    return Ok(total);
                }
            }
            Err(error) => return stream::partial(total, error),
        }
    }
}

/// Sends a part of a file through a pipe: all of it, unless that never waits.
fn send(io: &mut Io, from: u32, start: u64, pipe: u32, len: u64) -> Result<u64> {
    let mut total = 0;
    while total < len {
        let place = if start == AT_OFFSET { start } else { start + total };
        let request = op::Splice { from, to: pipe, at: place, bytes: len - total, flags: 0 };
        match server::wait(io, request) {
            Ok(reply) if reply.count == 0 => break,
            Ok(reply) => total += reply.count,
            Err(error) => return stream::partial(total, error),
        }
    }
    Ok(total)
}

pub fn copy_file_range(
    io: &mut Io,
    input: i32,
    in_offset: u64,
    output: i32,
    out_offset: u64,
    len: u64,
    flags: u32,
) -> Result<u64> {
    io.fds.get_open(input)?;
    io.fds.get_open(output)?;
    let (in_at, out_at) = (offset_in(&mut io.mm, in_offset)?, offset_in(&mut io.mm, out_offset)?);
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (io.fds.get(input)?.contents(), io.fds.get(output)?.contents());
    if [&from, &to].into_iter().any(|side| side.as_ref().err() == Some(&Errno::EISDIR)) {
        return Err(Errno::EISDIR);
    }
    let (from, to) = (from?, to?);
    if !io.fds.get(input)?.readable() || !io.fds.get(output)?.writable() || appends(io, output)? {
        return Err(Errno::EBADF);
    }
    let offsets = || [in_at, out_at].into_iter().flatten();
    if offsets().any(|at| at.checked_add(len).is_none()) {
        return Err(Errno::EOVERFLOW);
    }
    if offsets().any(|at| at > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    let len = len.min(MAX_RW);
    if from.inode == to.inode {
        check_apart(io, (input, in_at), (output, out_at), len)?;
    }
    let done = transfer::copy(io, input, in_at, output, out_at, len)?;
    offset_out(&mut io.mm, in_offset, in_at, done)?;
    offset_out(&mut io.mm, out_offset, out_at, done)?;
    Ok(done)
}

/// `EINVAL` if what is copied inside a file, as far as that goes, and its place meet.
fn check_apart(
    io: &mut Io,
    from: (i32, Option<u64>),
    to: (i32, Option<u64>),
    len: u64,
) -> Result<()> {
    let mut place = |(fd, at): (i32, Option<u64>)| match at {
        Some(at) => Ok(at),
        None => lseek(&mut io.fds, fd, 0, SEEK_CUR),
    };
    let (start, target) = (place(from)?, place(to)?);
    let size = with_kind!(&io.fds.get(from.0)?.kind, kind => size_of(kind))?;
    let bytes = len.min(size.saturating_sub(start));
    match start < target + bytes && target < start + bytes {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

pub fn splice(
    io: &mut Io,
    input: i32,
    in_offset: u64,
    output: i32,
    out_offset: u64,
    len: u64,
    flags: u32,
) -> Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    if flags & !ALL_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (from, to) = sides(io, input, output)?;
    let in_at = offset_of(io, &from, in_offset)?;
    let out_at = offset_of(io, &to, out_offset)?;
    if !from.readable || !to.writable {
        return Err(Errno::EBADF);
    }
    if !from.is_pipe() && !to.is_pipe() {
        return Err(Errno::EINVAL);
    }
    check_end(in_at, len)?;
    check_end(out_at, len)?;
    let at = match from.is_pipe() {
        true => to.place(io, out_at),
        false => from.place(io, in_at),
    };
    let request = op::Splice { from: 0, to: 0, at, bytes: len, flags: flags & flag::NONBLOCK };
    let moved = match (from.flow, to.flow) {
        (Flow::None | Flow::Nowhere, _) | (_, Flow::None) => return Err(Errno::EINVAL),
        (Flow::Zeroes, target) => zeroes(io, target, request)?,
        (Flow::Stream(_) | Flow::Socket(_), _) => from_stream(io, from.flow, to.flow, request)?,
        (_, Flow::Stream(desc) | Flow::Socket(desc)) => to_stream(io, from.flow, desc, request)?,
        (Flow::Pipe(from) | Flow::Contents(from), target) => {
            let to = target_of(target);
            server::wait(io, op::Splice { from, to, ..request }).map_err(restart)?.count
        }
    };
    for (side, address, at) in [(from, in_offset, in_at), (to, out_offset, out_at)] {
        // What has no contents has offsets that stay.
        let by = if matches!(side.flow, Flow::Contents(_)) { moved } else { 0 };
        offset_out(&mut io.mm, address, at, by)?;
    }
    Ok(moved)
}

/// The description of something; 0: it has none.
fn target_of(flow: Flow) -> u32 {
    match flow {
        Flow::Pipe(desc) | Flow::Contents(desc) | Flow::Stream(desc) | Flow::Socket(desc) => desc,
        Flow::None | Flow::Nowhere | Flow::Zeroes => 0,
    }
}

/// From something that the server has no bytes of before it is read.
fn from_stream(io: &mut Io, from: Flow, to: Flow, request: op::Splice) -> Result<u64> {
    let (bytes, desc) = (request.bytes.min(DATA_BYTES as u64) as u32, target_of(from));
    let count = match from {
        Flow::Socket(_) if request.flags & flag::NONBLOCK != 0 => {
            let receive = op::Receive { desc, bytes, flags: MSG_DONTWAIT, rights: 0 };
            server::wait(io, receive).map(|received| received.count)
        }
        _ => server::wait(io, op::Read { desc, bytes }).map(|read| read.count),
    };
    let count = count.map_err(restart)? as usize;
    // What was read is not lost for lack of room: it waits, whatever the flags say.
    let data = server::taken(count)?;
    let mut done = 0;
    while done < data.len() {
        let filled = server::put_a(&data[done..]);
        let request = op::Splice { to: target_of(to), bytes: filled as u64, flags: 0, ..request };
        match server::wait_filled(io, request, filled) {
            Ok(reply) => done += reply.count as usize,
            Err(error) => return stream::partial(done as u64, error),
        }
    }
    Ok(done as u64)
}

/// Zeros, until there is no more place.
fn zeroes(io: &mut Io, to: Flow, request: op::Splice) -> Result<u64> {
    let (to, mut flags, mut total) = (target_of(to), request.flags, 0);
    while total < request.bytes {
        let bytes = (request.bytes - total).min(DATA_BYTES as u64);
        if server::data(bytes as usize).zero().fault.is_some() {
            return Err(Errno::EIO);
        }
        let request = op::Splice { to, bytes, flags, ..request };
        match server::wait_filled(io, request, bytes as usize) {
            Ok(reply) if reply.count < bytes => return Ok(total + reply.count),
            Ok(reply) => total += reply.count,
            Err(error) => return stream::partial(total, error),
        }
        flags |= flag::NONBLOCK;
    }
    Ok(total)
}

/// To something that is written through the data area. What it does not take stays in the pipe.
fn to_stream(io: &mut Io, from: Flow, desc: u32, request: op::Splice) -> Result<u64> {
    let Flow::Pipe(pipe) = from else { return Err(Errno::EINVAL) };
    let flags = request.flags | flag::KEEP | flag::DATA;
    let bytes = request.bytes.min(DATA_BYTES as u64);
    let kept = op::Splice { from: pipe, to: 0, bytes, flags, ..request };
    let count = server::wait(io, kept).map_err(restart)?.count;
    if count == 0 {
        return Ok(0);
    }
    let done = server::wait_filled(io, op::Write { desc }, count as usize).map_err(restart)?.count;
    let taken = op::Splice { from: pipe, to: 0, bytes: done, flags: flag::NONBLOCK, ..request };
    // Another reader may have taken them meanwhile: they were written all the same.
    let _ = server::call(taken);
    Ok(done)
}

pub fn tee(io: &mut Io, input: i32, output: i32, len: u64, flags: u32) -> Result<u64> {
    if flags & !ALL_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let (from, to) = sides(io, input, output)?;
    if !from.readable || !to.writable {
        return Err(Errno::EBADF);
    }
    let (Flow::Pipe(from), Flow::Pipe(to)) = (from.flow, to.flow) else {
        return Err(Errno::EINVAL);
    };
    let flags = flags & flag::NONBLOCK | flag::KEEP;
    let request = op::Splice { from, to, at: AT_OFFSET, bytes: len, flags };
    Ok(server::wait(io, request).map_err(restart)?.count)
}

/// Puts memory of the program into a pipe, or the other way: the bytes are copied (once, by the kernel), of gifts
/// too, since taking a page away costs more than a copy of it (docs/decisions/0181-memory-passes-as-a-file.md).
pub fn vmsplice(io: &mut Io, fd: i32, vectors: u64, count: u64, flags: u32) -> Result<u64> {
    if flags & !ALL_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let side = Side::of(io, fd)?;
    let buffers = vector(&mut io.mm, vectors, count)?;
    let mut cursor = Cursor::new(&buffers);
    if cursor.left() == 0 {
        return Ok(0);
    }
    let Flow::Pipe(desc) = side.flow else { return Err(Errno::EBADF) };
    let flags = flags & flag::NONBLOCK;
    match side.writable {
        true => pipe::write_some(io, desc, &mut cursor, flags != 0),
        false => empty(io, desc, &mut cursor, flags),
    }
}

/// As much as there is, but what the program has no place for.
fn empty(io: &mut Io, pipe: u32, to: &mut Cursor, flags: u32) -> Result<u64> {
    let mut total = 0;
    let mut flags = flags | flag::DATA;
    while to.left() > 0 {
        let bytes = match to.writable(&mut io.mm, to.left().min(DATA_BYTES as u64)) {
            Ok(bytes) => bytes,
            Err(error) => return stream::partial(total, error),
        };
        let request = op::Splice { from: pipe, to: 0, at: AT_OFFSET, bytes, flags };
        match server::wait(io, request) {
            Ok(reply) if reply.count == 0 => break,
            Ok(reply) => {
                let data = server::data(reply.count as usize);
                total += to.scatter_from(&mut io.mm, data).some()? as u64;
            }
            Err(error) => return stream::partial(total, error),
        }
        flags |= flag::NONBLOCK;
    }
    Ok(total)
}
