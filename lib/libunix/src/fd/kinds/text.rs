//! Text that `unixd` makes when it is opened: `/proc`.

use crate::errno::Result;
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::{stream, Fds};
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{Kind, SEEK_CUR, SEEK_SET};
use unixproto::ops::Opened;

/// An open text.
#[derive(Clone, Copy)]
pub struct Text {
    desc: u32,
}

impl FileOps for Text {
    const SERVED: Option<Kind> = Some(Kind::Text);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Text> {
        Some(Text { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    /// At an offset: without moving the description's own.
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        let desc = self.desc;
        let Some(at) = at else { return stream::read(io, desc, to) };
        if to.left() == 0 {
            return Ok(0);
        }
        let before = server::call(op::Seek { desc, offset: 0, whence: SEEK_CUR })?.offset;
        server::call(op::Seek { desc, offset: at as i64, whence: SEEK_SET })?;
        let result = stream::read(io, desc, to);
        server::call(op::Seek { desc, offset: before as i64, whence: SEEK_SET })?;
        result
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
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Ok(0)
    }
}
