//! `/dev/full`.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open `/dev/full`.
#[derive(Clone, Copy)]
pub struct Full {
    desc: u32,
}

impl FileOps for Full {
    const SERVED: Option<Kind> = Some(Kind::Full);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Full> {
        Some(Full { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        Ok(to.zero(&mut io.mm, u64::MAX).some()? as u64)
    }
    fn write(
        &self,
        _io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        _from: &mut impl Source,
    ) -> Result<u64> {
        Err(Errno::ENOSPC)
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
}
