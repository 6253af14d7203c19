//! Local sockets.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Server};
use crate::fd::stream;
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// A socket, by its description.
#[derive(Clone, Copy)]
pub struct Socket {
    pub desc: u32,
}

impl FileOps for Socket {
    const SERVED: Option<Kind> = Some(Kind::Socket);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Self> {
        Some(Socket { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        stream::read(io, self.desc, to)
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        stream::write(io, self.desc, from)
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        stream::available(io, self.desc, command, arg)
    }
    fn flow(&self) -> Flow {
        Flow::Socket(self.desc)
    }
    fn more_flags(&self) -> u32 {
        0
    }
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::EINVAL)
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
    fn is_watched(&self) -> bool {
        true
    }
}
