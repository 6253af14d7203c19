//! Registers of a device that are mapped, to be read (`/dev/hpet`). No interrupt of it comes to a program, so nothing is read
//! from it otherwise.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Handle, Mapped, Server};
use crate::process::Io;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// An open device.
#[derive(Clone, Copy)]
pub struct Registers {
    desc: u32,
    inode: u64,
}

impl FileOps for Registers {
    const SERVED: Option<Kind> = Some(Kind::Registers);

    fn opened(opened: &Opened) -> Option<Registers> {
        Some(Registers { desc: opened.desc, inode: opened.inode })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    /// As on Linux where no interrupt was asked for.
    fn read(&self, _: &mut Io, _: Handle, _at: Option<u64>, _to: &mut Cursor) -> Result<u64> {
        Err(Errno::EIO)
    }
    fn map(&self) -> Result<Mapped> {
        Ok(Mapped::Registers { desc: self.desc, inode: self.inode })
    }
}
