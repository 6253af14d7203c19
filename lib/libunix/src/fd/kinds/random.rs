//! `/dev/random` and `/dev/urandom`.

use crate::errno::Result;
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::transfer::{read_random, Source};
use crate::fd::Fds;
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open source of random bytes.
#[derive(Clone, Copy)]
pub struct Random {
    desc: u32,
}

impl FileOps for Random {
    const SERVED: Option<Kind> = Some(Kind::Random);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Random> {
        Some(Random { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        read_random(io, to)
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
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
}
