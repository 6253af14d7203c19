//! `/dev/zero`.

use crate::errno::Result;
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Mapped, Server};
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open `/dev/zero`.
#[derive(Clone, Copy)]
pub struct Zero {
    desc: u32,
}

impl FileOps for Zero {
    const SERVED: Option<Kind> = Some(Kind::Zero);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Zero> {
        Some(Zero { desc: opened.desc })
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
        from: &mut impl Source,
    ) -> Result<u64> {
        Ok(from.left())
    }
    fn flow(&self) -> Flow {
        Flow::Zeroes
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
    fn map(&self) -> Result<Mapped> {
        Ok(Mapped::Zeroes)
    }
}
