//! Places in the tree: what `O_PATH` opens. Neither read nor written.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::fd::Fds;
use crate::process::Io;
use unixproto::files::{Kind, POLLNVAL};
use unixproto::ops::Opened;

/// A place in the tree.
#[derive(Clone, Copy)]
pub struct Location {
    pub desc: u32,
}

impl FileOps for Location {
    const SERVED: Option<Kind> = Some(Kind::Path);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Location> {
        Some(Location { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, _io: &mut Io, _: Handle, _at: Option<u64>, _to: &mut Cursor) -> Result<u64> {
        Err(Errno::EBADF)
    }
    fn write(
        &self,
        _io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        _from: &mut impl Source,
    ) -> Result<u64> {
        Err(Errno::EBADF)
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Err(Errno::EBADF)
    }
    fn ready(&self, _: &Look) -> Option<u16> {
        Some(POLLNVAL)
    }
}
