//! `/dev/null`.

use crate::errno::Result;
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open `/dev/null`.
#[derive(Clone, Copy)]
pub struct Null {
    desc: u32,
}

impl FileOps for Null {
    const SERVED: Option<Kind> = Some(Kind::Null);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Null> {
        Some(Null { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, _io: &mut Io, _: Handle, _at: Option<u64>, _to: &mut Cursor) -> Result<u64> {
        Ok(0)
    }
    fn write(
        &self,
        _io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        Ok(from.left())
    }
    fn flow(&self) -> Flow {
        Flow::Nowhere
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
}
