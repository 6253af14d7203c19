//! What flows: pipes, terminals, text that `unixd` makes. Bytes pass through the data area of the
//! session.

use super::buffers::Cursor;
use super::transfer::Source;
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::{Io, Task};
use crate::server::{self, op, restart};
use unixproto::files::{SEEK_CUR, SEEK_SET};
use unixproto::session::DATA_BYTES;
use unixproto::tty;

/// Reads what is there, or waits.
pub fn read(task: &mut Task, desc: u32, to: &mut Cursor) -> Result<u64> {
    if to.left() == 0 {
        return Ok(0);
    }
    let bytes = to.writable(&mut task.mm, to.left().min(DATA_BYTES as u64))? as u32;
    let count = server::wait(task, op::Read { desc, bytes }).map_err(restart)?.count;
    Ok(to.scatter_from(&mut task.mm, server::data(count as usize)).some()? as u64)
}

/// The same at an offset, without moving the description's own.
pub fn read_at(io: &mut Io, desc: u32, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
    let Some(at) = at else { return read(io, desc, to) };
    if to.left() == 0 {
        return Ok(0);
    }
    let before = server::call(op::Seek { desc, offset: 0, whence: SEEK_CUR })?.offset;
    server::call(op::Seek { desc, offset: at as i64, whence: SEEK_SET })?;
    let result = read(io, desc, to);
    server::call(op::Seek { desc, offset: before as i64, whence: SEEK_SET })?;
    result
}

/// Reads the eight bytes of a counter, or waits.
pub fn read_value(task: &mut Task, desc: u32) -> Result<u64> {
    server::wait(task, op::Read { desc, bytes: 8 }).map_err(restart)?;
    let bytes: [u8; 8] = server::data(8).load().map_err(|_| Errno::EIO)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes the eight bytes of a counter, or waits.
pub fn write_value(task: &mut Task, desc: u32, value: u64) -> Result<u64> {
    let bytes = server::put_a(&value.to_le_bytes());
    Ok(server::wait_filled(task, op::Write { desc }, bytes).map_err(restart)?.count)
}

/// Writes everything, waiting as often as needed.
pub fn write(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<u64> {
    in_pieces(from.left(), |_| {
        let (done, wanted) = write_some(io, desc, from)?;
        Ok((done, done < wanted))
    })
}

/// Writes what one request takes, which may be less than there is: what a file of `/proc` is told in one call is one thing.
pub fn write_once(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<u64> {
    let room = server::data(from.left().min(DATA_BYTES as u64) as usize);
    match from.gather_to(io, room).some()? {
        0 => Ok(0),
        bytes => Ok(server::wait_filled(io, op::Write { desc }, bytes)?.count),
    }
}

/// Moves `bytes` bytes, one piece after the other. `piece` is told how many are done, and answers how many more it did, and
/// whether nothing follows; one that did nothing is the last.
///
/// # Errors
///
/// That of the first piece. What is done when a later one fails counts.
#[inline]
pub fn in_pieces(bytes: u64, mut piece: impl FnMut(u64) -> Result<(u64, bool)>) -> Result<u64> {
    let mut total = 0;
    while total < bytes {
        match piece(total) {
            Ok((done, is_last)) => {
                total += done;
                if is_last || done == 0 {
                    break;
                }
            }
            Err(error) => return partial(total, error),
        }
    }
    Ok(total)
}

/// One request's worth. Answers how much was done and how much was wanted.
pub fn write_some(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<(u64, u64)> {
    let room = server::data(from.left().min(DATA_BYTES as u64) as usize);
    let wanted = from.gather_to(io, room).some()?;
    if wanted == 0 {
        return Ok((0, 0));
    }
    Ok((put(io, desc, wanted)?, wanted as u64))
}

/// Writes the first bytes of the data area. Answers how many.
fn put(io: &mut Io, desc: u32, wanted: usize) -> Result<u64> {
    let request = |left| Ok(server::wait_filled(io, op::Write { desc }, left)?.count as usize);
    Ok(taken(wanted, request)? as u64)
}

/// The same, as a whole call.
pub fn write_filled(io: &mut Io, desc: u32, wanted: usize) -> Result<u64> {
    put(io, desc, wanted).map_err(restart)
}

/// Has the first `bytes` bytes of the data area taken, by as many requests as that needs, and by one if there are none. `request`
/// is told how many are left, which are then the first ones there, and answers how many it took. Answers how many were taken:
/// fewer if a request took none, or one behind the first failed.
///
/// # Errors
///
/// That of the first request.
pub fn taken(bytes: usize, mut request: impl FnMut(usize) -> Result<usize>) -> Result<usize> {
    let mut left = bytes;
    loop {
        let done = match request(left) {
            Ok(done) => done.min(left),
            Err(error) if left == bytes => return Err(error),
            // The next request meets the same error and reports it, unless it is over.
            Err(_) => 0,
        };
        let rest = server::data(left).skip(done);
        left -= done;
        if done == 0 || left == 0 {
            return Ok(bytes - left);
        }
        // To lower addresses, from the lowest one on.
        let _ = server::data(left).copy_from(rest);
    }
}

/// What a write that ends with an error answers: the bytes written before, if any. The signal of a
/// broken pipe has come from `unixd`.
pub fn partial(total: u64, error: Errno) -> Result<u64> {
    match total {
        0 => Err(restart(error)),
        _ => Ok(total),
    }
}

/// Input and output control of a terminal.
pub fn control(task: &mut Task, desc: u32, command: u32, arg: u64) -> Result<u64> {
    let shape = tty::shape(command).ok_or(Errno::ENOTTY)?;
    shaped(task, desc, command, arg, shape)
}

/// The same, where it is known which bytes go with it.
pub fn shaped(
    task: &mut Task,
    desc: u32,
    command: u32,
    arg: u64,
    shape: tty::Shape,
) -> Result<u64> {
    if shape.output > 0 {
        user::check_writable(&mut task.mm, arg, shape.output)?;
    }
    let mut a = 0;
    if shape.input > 0 {
        a = shape.input.min(DATA_BYTES);
        user::read_to(&mut task.mm, arg, server::data(a)).all()?;
    }
    let request = op::Ioctl { desc, command, value: arg };
    server::wait_filled(task, request, a).map_err(restart)?;
    if shape.output > 0 {
        user::memory_out(&mut task.mm, arg, server::data(shape.output))?;
    }
    Ok(0)
}

/// The same of what is no terminal: it only tells how many bytes there are.
pub fn available(task: &mut Task, desc: u32, command: u32, arg: u64) -> Result<u64> {
    match command {
        tty::FIONREAD => control(task, desc, command, arg),
        _ => Err(Errno::ENOTTY),
    }
}
