//! Pipes and fifos. Bytes pass through the data area of the session; large transfers are copied
//! straight from and to the pipe's ring.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::windows::{self, ring_key};
use crate::fd::{install_two, stream, File};
use crate::mm::user::{self, Moved, Short};
use crate::process::{Io, Task};
use crate::server::{self, op, restart};
use unixproto::files::{Kind, O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_WRONLY, PIPE_BYTES};
use unixproto::ops::Opened;

/// From this many bytes on the ring is faster than the data area.
const RING_FROM: u64 = 4096;

/// One end.
#[derive(Clone, Copy)]
pub struct Pipe {
    desc: u32,
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
    fn windows(&self) -> [Option<u64>; 2] {
        [Some(ring_key(self.desc)), None]
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
    fn ioctl(&self, task: &mut Task, _: Handle, command: u32, arg: u64) -> Result<u64> {
        stream::available(task, self.desc, command, arg)
    }
    fn allocate(&self, _end: Option<u64>) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    fn advise(&self) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    fn pipe_bytes(&self) -> Result<u64> {
        Ok(PIPE_BYTES)
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

/// Reads from a pipe.
pub fn read(io: &mut Io, desc: u32, to: &mut Cursor) -> Result<u64> {
    if to.left() < RING_FROM {
        return stream::read(io, desc, to);
    }
    to.probe_out(&mut io.mm)?;
    let taken = loop {
        match windows::ring(io, desc, false) {
            Err(Errno::EBUSY) => return stream::read(io, desc, to),
            result => result.map(|_| ())?,
        }
        match server::wait(io, op::PipeTake { desc, done: 0, bytes: to.left() }) {
            Err(Errno::EBUSY) => io.fds.forget_rings(&[desc]),
            result => break result.map_err(restart)?,
        }
    };
    // Another thread may have opened windows meanwhile.
    let ring = match windows::ring(io, desc, false) {
        Ok(ring) => ring,
        Err(error) => {
            // The error before is the one to tell.
            let _ = server::call(op::PipeTake { desc, done: 0, bytes: 0 });
            return Err(error);
        }
    };
    let offset = taken.offset % PIPE_BYTES;
    let bytes = taken.bytes.min(PIPE_BYTES);
    let first = bytes.min(PIPE_BYTES - offset);
    let mut moved = to.scatter_from(&mut io.mm, ring.part(offset, first));
    if moved.bytes as u64 == first && first < bytes {
        let rest = to.scatter_from(&mut io.mm, ring.part(0, bytes - first));
        moved = Moved { bytes: moved.bytes + rest.bytes, ..rest };
    }
    if moved.short == Some(Short::Window) {
        io.fds.forget_rings(&[desc]);
    }
    let result = moved.some().map(|bytes| bytes as u64);
    let done = moved.bytes as u64;
    if bytes > 0 {
        server::call(op::PipeTake { desc, done, bytes: 0 })?;
    }
    result
}

/// Writes everything to a pipe.
pub fn write(io: &mut Io, desc: u32, from: &mut impl Source) -> Result<u64> {
    if from.left() <= RING_FROM {
        return stream::write(io, desc, from);
    }
    let (mut total, mut copied) = (0, 0);
    let error = loop {
        if from.left() == 0 {
            break None;
        }
        match windows::ring(io, desc, true) {
            Ok(_) => {}
            // The rest goes the other way; what was copied is committed already.
            Err(Errno::EBUSY) => match stream::write(io, desc, from) {
                Ok(rest) => return Ok(total + rest),
                Err(error) => break Some(error),
            },
            Err(error) => break Some(error),
        }
        let put = match server::wait(io, op::PipePut { desc, done: copied, bytes: from.left() }) {
            Ok(put) => put,
            Err(Errno::EBUSY) => {
                copied = 0;
                io.fds.forget_rings(&[desc]);
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
        let ring = match windows::ring(io, desc, true) {
            Ok(ring) => ring,
            Err(error) => break Some(error),
        };
        let mut moved = from.gather_to(io, ring.part(offset, first));
        if moved.bytes as u64 == first && first < bytes {
            let rest = from.gather_to(io, ring.part(0, bytes - first));
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
        // The error before is the one to tell.
        let _ = server::call(op::PipePut { desc, done: copied, bytes: 0 });
    }
    match error {
        None => Ok(total),
        Some(error) => stream::partial(total, error),
    }
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
