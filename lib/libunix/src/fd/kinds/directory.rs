//! Directories.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{Contents, FileOps, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open directory.
#[derive(Clone, Copy)]
pub struct Directory {
    desc: u32,
}

impl FileOps for Directory {
    const SERVED: Option<Kind> = Some(Kind::Directory);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Directory> {
        Some(Directory { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, _io: &mut Io, _: Handle, _at: Option<u64>, _to: &mut Cursor) -> Result<u64> {
        Err(Errno::EISDIR)
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
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
    fn contents(&self) -> Result<Contents> {
        Err(Errno::EISDIR)
    }
    fn allocate(&self, _mode: u32, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::EISDIR)
    }
    fn list(&self, bytes: u32) -> Result<usize> {
        Ok(server::call(op::GetDents { desc: self.desc, bytes })?.count as usize)
    }
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Ok(0)
    }
}
