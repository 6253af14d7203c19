//! Socket pairs: two stream sockets that are connected to each other are two pipes.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::kinds::pipe;
use crate::fd::ops::{FileOps, Flow, Handle, Server, WRITABLE};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::{install_two, File};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, O_RDWR};

/// One end.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Description to read from.
    read: u32,
    /// Description to write to.
    write: u32,
}

impl FileOps for Pair {
    const POLLABLE: bool = true;
    const SOCKET: bool = true;

    fn server(&self) -> Server {
        Server::Unixd([self.read, self.write])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        pipe::read(io, self.read, to)
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        pipe::write(io, self.write, from)
    }
    fn flow(&self) -> Flow {
        Flow::Socket(self.read, self.write)
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
    fn is_watched(&self) -> bool {
        true
    }
    /// Only the description to write to knows whether that is possible.
    fn shown(&self, which: usize, state: u16) -> u16 {
        match which {
            0 => state & !WRITABLE,
            _ => state,
        }
    }
}

pub fn socketpair(io: &mut Io, domain: u32, ty: u32, protocol: u32, fds: u64) -> Result<u64> {
    const UNIX: u32 = 1;
    const STREAM: u32 = 1;
    if domain != UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    let flags = ty & (O_CLOEXEC | O_NONBLOCK);
    if ty & !flags != STREAM || protocol > 1 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    user::check_writable(&mut io.mm, fds, 8)?;
    let there = server::call(op::Pipe { flags: flags & O_NONBLOCK })?;
    let back = server::call(op::Pipe { flags: flags & O_NONBLOCK })?;
    let end = |read, write| File::new(Pair { read, write }, O_RDWR | flags & O_NONBLOCK);
    let ends = (end(back.read, there.write), end(there.read, back.write));
    install_two(io, ends, flags & O_CLOEXEC != 0, fds)
}
