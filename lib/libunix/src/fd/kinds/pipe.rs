//! Pipes and fifos. Bytes pass through the data area of the session; for large transfers the program's own buffer is
//! lent to the server with the request, and the kernel copies. What is not there then is made resident when the answer says
//! so.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::{install_two, rings, stream, File};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op, restart, Loan};
use unixproto::files::{splice, Kind, O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_WRONLY, PIPE_BYTES_MOST};
use unixproto::ops::Opened;

/// From this many bytes on lending a buffer is cheaper than the data area.
const LEND_FROM: u64 = 4096;
/// How often a request that does not come forward is made again: others may take away what is made resident.
const TRIES: u32 = 1000;

/// One end.
#[derive(Clone, Copy)]
pub struct Pipe {
    desc: u32,
}

impl Pipe {
    /// Its description.
    pub fn desc(&self) -> u32 {
        self.desc
    }
}

impl FileOps for Pipe {
    const SERVED: Option<Kind> = Some(Kind::Pipe);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Pipe> {
        Some(Pipe { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        read(io, self.desc, to)
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        write(io, self.desc, from)
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        stream::available(io, self.desc, command, arg)
    }
    fn allocate(&self, _mode: u32, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    fn advise(&self) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    fn pipe_bytes(&self, bytes: u64) -> Result<u64> {
        Ok(server::call(op::PipeSize { desc: self.desc, bytes })?.count)
    }
    fn flow(&self) -> Flow {
        Flow::Pipe(self.desc)
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
    fn is_watched(&self) -> bool {
        true
    }
}

/// Reads from a pipe: what is there, or what comes first.
pub fn read(io: &mut Io, desc: u32, to: &mut Cursor) -> Result<u64> {
    if to.left() == 0 {
        return Ok(0);
    }
    if let Some(done) = rings::read(io, desc, to, false) {
        return done;
    }
    if to.left() < LEND_FROM {
        rings::note(io, desc, false);
        return stream::read(io, desc, to);
    }
    let (mut total, mut tries) = (0, TRIES);
    while total < PIPE_BYTES_MOST {
        let Some((address, bytes)) = to.piece() else { break };
        let bytes = bytes.min(PIPE_BYTES_MOST - total);
        let result = to.probe_out(&mut io.mm).and_then(|()| {
            let request = op::PipeRead { desc, bytes, had: total };
            server::wait_lending(io, request, Loan { address, bytes, write: true })
        });
        let done = match result {
            Ok(done) => done,
            Err(_) if total > 0 => break,
            Err(error) => return Err(restart(error)),
        };
        let count = done.count.min(bytes);
        to.skip(count);
        total += count;
        tries = if count > 0 { TRIES } else { tries - 1 };
        let more = match done.again && tries > 0 {
            true => user::writable(&mut io.mm, address + count, (bytes - count) as usize).is_ok(),
            false => count == bytes,
        };
        if done.again && !more && total == 0 {
            return Err(Errno::EFAULT);
        }
        if !more {
            break;
        }
    }
    if total <= LEND_FROM {
        rings::note(io, desc, false);
    }
    Ok(total)
}

/// Writes everything to a pipe.
pub fn write(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<u64> {
    if from.left() <= LEND_FROM {
        return rings::write_few(io, desc, from);
    }
    write_lending(io, desc, from, LEND_FROM, [0; 2])
}

/// Writes to a pipe until it is full. It waits for the first room only, or not at all.
pub fn write_some(io: &mut Io, desc: u32, from: &mut Cursor, now: bool) -> Result<u64> {
    let first = if now { splice::NONBLOCK } else { splice::SOME };
    write_lending(io, desc, from, 1, [first, splice::NONBLOCK])
}

/// Lends pieces of at least so many bytes; others go by the data area. `flags`: of the first request, and of those behind
/// it.
fn write_lending(
    io: &mut Io,
    desc: u32,
    from: &mut impl Source,
    least: u64,
    [mut flags, next_flags]: [u32; 2],
) -> Result<u64> {
    let (mut total, mut tries) = (0, TRIES);
    while from.left() > 0 {
        let loan = match from.lendable(io, least) {
            Ok(loan) => loan,
            Err(error) => return stream::partial(total, error),
        };
        let Some((address, bytes)) = loan else {
            match stream::write_some(io, desc, from) {
                Ok((done, wanted)) => {
                    total += done;
                    if done < wanted {
                        break;
                    }
                }
                Err(error) => return stream::partial(total, error),
            }
            continue;
        };
        let request = op::PipeWrite { desc, bytes, flags };
        let done = match server::wait_lending(io, request, Loan { address, bytes, write: false }) {
            Ok(done) => done,
            Err(error) => return stream::partial(total, error),
        };
        let count = done.count.min(bytes);
        from.passed(count);
        total += count;
        if !done.again && count < bytes {
            break;
        }
        tries = if count > 0 { TRIES } else { tries - 1 };
        if done.again && (tries == 0 || !from.have_ready(io, bytes - count)) {
            return stream::partial(total, Errno::EFAULT);
        }
        flags = next_flags;
    }
    Ok(total)
}

pub fn pipe2(io: &mut Io, fds: u64, flags: u32) -> Result<u64> {
    const DIRECT: u32 = 0o40000;
    if flags & !(O_CLOEXEC | O_NONBLOCK | DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    user::check_writable(&mut io.mm, fds, 8)?;
    let ends = server::call(op::Pipe { flags: flags & O_NONBLOCK })?;
    let end = |desc, flags| File::new(Pipe { desc }, flags);
    let ends = (end(ends.read, O_RDONLY), end(ends.write, O_WRONLY));
    install_two(io, ends, flags & O_CLOEXEC != 0, fds)
}

pub fn pipe(io: &mut Io, fds: u64) -> Result<u64> {
    pipe2(io, fds, 0)
}
