//! What flows: pipes, terminals, text that `unixd` makes. Bytes pass through the data area of the
//! session; large transfers of pipes are copied straight from and to the pipe's ring.

use super::buffers::Cursor;
use super::transfer::Source;
use super::windows;
use crate::errno::{Errno, Result};
use crate::mm::user::{Moved, Short};
use crate::process::Process;
use crate::server::{self, op, restart};
use unixproto::files::{PIPE_BYTES, SEEK_CUR, SEEK_SET};
use unixproto::session::DATA_BYTES;

/// From this many bytes on the ring is faster than the data area.
const RING_FROM: u64 = 4096;

/// Reads what is there, or waits.
pub fn read(p: &mut Process, desc: u32, to: &mut Cursor) -> Result<u64> {
    let bytes = to.writable(p, to.left().min(DATA_BYTES as u64))? as u32;
    let count = server::wait(p, op::Read { desc, bytes }).map_err(restart)?.count;
    Ok(to.scatter_from(p, server::data(count as usize)).some()? as u64)
}

/// Reads text at an offset, without moving the description's own.
pub fn read_text(p: &mut Process, desc: u32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let Some(at) = at else { return read(p, desc, to) };
    let before = server::call(op::Seek { desc, offset: 0, whence: SEEK_CUR })?.offset;
    server::call(op::Seek { desc, offset: at as i64, whence: SEEK_SET })?;
    let result = read(p, desc, to);
    server::call(op::Seek { desc, offset: before as i64, whence: SEEK_SET })?;
    result
}

/// Writes everything, waiting as often as needed.
pub fn write(p: &mut Process, desc: u32, from: &mut impl Source) -> Result<u64> {
    let mut total = 0;
    while from.left() > 0 {
        match write_some(p, desc, from) {
            Ok((done, wanted)) => {
                total += done;
                if done < wanted {
                    break;
                }
            }
            Err(error) => return partial(total, error),
        }
    }
    Ok(total)
}

/// One request's worth. Answers how much was done and how much was wanted.
fn write_some(p: &mut Process, desc: u32, from: &mut impl Source) -> Result<(u64, u64)> {
    let room = server::data(from.left().min(DATA_BYTES as u64) as usize);
    let wanted = from.gather_to(p, room).some()?;
    let mut done = 0;
    while done < wanted {
        if done > 0 {
            // To lower addresses, from the lowest one on.
            let _ = room.copy_from(room.first(wanted).skip(done));
        }
        match server::wait_filled(p, op::Write { desc }, wanted - done) {
            Ok(reply) if reply.count == 0 => break,
            Ok(reply) => done += (reply.count as usize).min(wanted - done),
            Err(error) if done == 0 => return Err(error),
            // The next request meets the same error and reports it, unless it is over.
            Err(_) => break,
        }
    }
    Ok((done as u64, wanted as u64))
}

/// What a write that ends with an error answers: the bytes written before, if any. The signal of a
/// broken pipe has come from `unixd`.
fn partial(total: u64, error: Errno) -> Result<u64> {
    match total {
        0 => Err(restart(error)),
        _ => Ok(total),
    }
}

/// Reads from a pipe.
pub fn read_pipe(p: &mut Process, desc: u32, to: &mut Cursor) -> Result<u64> {
    if to.left() < RING_FROM {
        return read(p, desc, to);
    }
    to.probe_out(p)?;
    let taken = loop {
        match windows::ring(p, desc, false) {
            Err(Errno::EBUSY) => return read(p, desc, to),
            result => result.map(|_| ())?,
        }
        match server::wait(p, op::PipeTake { desc, done: 0, bytes: to.left() }) {
            Err(Errno::EBUSY) => p.fds.forget_rings(&[desc]),
            result => break result.map_err(restart)?,
        }
    };
    // Another thread may have opened windows meanwhile.
    let ring = match windows::ring(p, desc, false) {
        Ok(ring) => ring,
        Err(error) => {
            let _ = server::call(op::PipeTake { desc, done: 0, bytes: 0 });
            return Err(error);
        }
    };
    let offset = taken.offset % PIPE_BYTES;
    let bytes = taken.bytes.min(PIPE_BYTES);
    let first = bytes.min(PIPE_BYTES - offset);
    let mut moved = to.scatter_from(p, ring.part(offset, first));
    if moved.bytes as u64 == first && first < bytes {
        let rest = to.scatter_from(p, ring.part(0, bytes - first));
        moved = Moved { bytes: moved.bytes + rest.bytes, ..rest };
    }
    if moved.short == Some(Short::Window) {
        p.fds.forget_rings(&[desc]);
    }
    let result = moved.some().map(|bytes| bytes as u64);
    let done = moved.bytes as u64;
    if bytes > 0 {
        server::call(op::PipeTake { desc, done, bytes: 0 })?;
    }
    result
}

/// Writes everything to a pipe.
pub fn write_pipe(p: &mut Process, desc: u32, from: &mut impl Source) -> Result<u64> {
    if from.left() <= RING_FROM {
        return write(p, desc, from);
    }
    let (mut total, mut copied) = (0, 0);
    let error = loop {
        if from.left() == 0 {
            break None;
        }
        match windows::ring(p, desc, true) {
            Ok(_) => {}
            // The rest goes the other way; what was copied is committed already.
            Err(Errno::EBUSY) => match write(p, desc, from) {
                Ok(rest) => return Ok(total + rest),
                Err(error) => break Some(error),
            },
            Err(error) => break Some(error),
        }
        let put = match server::wait(p, op::PipePut { desc, done: copied, bytes: from.left() }) {
            Ok(put) => put,
            Err(Errno::EBUSY) => {
                copied = 0;
                p.fds.forget_rings(&[desc]);
                continue;
            }
            Err(error) => {
                copied = 0;
                break Some(error);
            }
        };
        let offset = put.offset % PIPE_BYTES;
        let bytes = put.bytes.min(PIPE_BYTES);
        let first = bytes.min(PIPE_BYTES - offset);
        copied = 0;
        // Another thread may have opened windows meanwhile.
        let ring = match windows::ring(p, desc, true) {
            Ok(ring) => ring,
            Err(error) => break Some(error),
        };
        let mut moved = from.gather_to(p, ring.part(offset, first));
        if moved.bytes as u64 == first && first < bytes {
            let rest = from.gather_to(p, ring.part(0, bytes - first));
            moved = Moved { bytes: moved.bytes + rest.bytes, ..rest };
        }
        match moved.some() {
            Ok(n) => {
                let n = n as u64;
                copied = n;
                total += n;
                if n < bytes || n == 0 {
                    break None;
                }
            }
            Err(error) => break Some(error),
        }
    };
    // What was copied last is not committed yet (and a reservation has to be given back).
    if !matches!(error, Some(Errno::EPIPE)) {
        let _ = server::call(op::PipePut { desc, done: copied, bytes: 0 });
    }
    match error {
        None => Ok(total),
        Some(error) => partial(total, error),
    }
}
