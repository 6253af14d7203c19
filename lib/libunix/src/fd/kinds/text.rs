//! Text that `unixd` makes when it is opened: `/proc`.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Server};
use crate::fd::transfer::Source;
use crate::fd::{install, stream, Fds, File};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{Kind, O_RDONLY};
use unixproto::ops::Opened;

const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_PARENT: u32 = 0xb702;
const NS_GET_NSTYPE: u32 = 0xb703;
const NS_GET_OWNER_UID: u32 = 0xb704;

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
        stream::read_at(io, self.desc, at, to)
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        stream::write_once(io, self.desc, from)
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Ok(0)
    }
    /// Of name spaces.
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        let desc = self.desc;
        match command {
            NS_GET_USERNS | NS_GET_PARENT => {
                io.fds.check_room(0, io.limits.max_files())?;
                let is_parent = command == NS_GET_PARENT;
                let opened = server::call(op::OpenSpaceAround { desc, is_parent })?;
                Ok(install(io, File::opened(opened, O_RDONLY), true)? as u64)
            }
            NS_GET_NSTYPE => Ok(server::call(op::SpaceFact { desc, is_owner: false })?.count),
            NS_GET_OWNER_UID => {
                let owner = server::call(op::SpaceFact { desc, is_owner: true })?.count;
                user::copy_out(&mut io.mm, arg, &(owner as u32))?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}
