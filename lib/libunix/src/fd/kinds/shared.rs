//! Files of the host, and of disks. Nothing of them is kept here or in `unixd`: each read and write is the host's, through the data area.
//!
//! What is mapped of one is a copy of the whole file, of the time when it was mapped: a memory file without a name. As nothing
//! that is stored there could come to the host, a file that can be written cannot be mapped shared.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::kinds::disk;
use crate::fd::ops::{size_of, Contents, FileOps, Handle, Mapped, Server};
use crate::fd::stream::in_pieces;
use crate::fd::transfer::Source;
use crate::fd::Fds;
use crate::mm::Mm;
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{Kind, AT_EMPTY_PATH, AT_OFFSET};
use unixproto::ops::Opened;
use unixproto::session::DATA_BYTES;

/// An open file of the host.
#[derive(Clone, Copy)]
pub struct Shared {
    desc: u32,
}

impl FileOps for Shared {
    const SERVED: Option<Kind> = Some(Kind::Shared);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Shared> {
        Some(Shared { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        in_pieces(to.left(), |done| self.read_piece(io, at.map(|at| at + done), to))
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        in_pieces(from.left(), |done| self.write_piece(io, at.map(|at| at + done), from))
    }
    fn seek(&self, _: &mut Fds, _: Handle, offset: i64, whence: u32) -> Result<u64> {
        Ok(server::call(op::Seek { desc: self.desc, offset, whence })?.offset)
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        // Only of a disk.
        disk::size(self.desc)?;
        disk::ioctl(io, self.desc, command, arg)
    }
    fn map(&self) -> Result<Mapped> {
        Ok(Mapped::Copy(self.desc))
    }
    fn truncate(&self, _: &mut Mm, size: u64) -> Result<u64> {
        server::call(op::Truncate { dir: self.desc, size, flags: AT_EMPTY_PATH })?;
        Ok(0)
    }
    fn allocate(&self, _mode: u32, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::EOPNOTSUPP)
    }
    fn sync(&self, offset: u64, bytes: u64) -> Result<u64> {
        server::call(op::Sync { desc: self.desc, offset, bytes })?;
        Ok(0)
    }
}

impl Shared {
    /// Reads as much as fits into the data area. Whether that is the end.
    fn read_piece(
        &self,
        io: &mut Io,
        at: Option<u64>,
        to: &mut Cursor,
    ) -> Result<(u64, bool)> {
        let bytes = to.writable(&mut io.mm, to.left().min(DATA_BYTES as u64))?;
        let offset = at.unwrap_or(AT_OFFSET);
        let part = server::wait(io, op::ReadAt { desc: self.desc, offset, bytes })?;
        let moved = to.scatter_from(&mut io.mm, server::data(part.bytes as usize)).some()? as u64;
        Ok((moved, moved < bytes || part.bytes < bytes))
    }

    /// Writes as much as fits into the data area. Whether there is nothing more to be written, or no room.
    fn write_piece(
        &self,
        io: &mut Io,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<(u64, bool)> {
        let room = server::data(from.left().min(DATA_BYTES as u64) as usize);
        let wanted = from.gather_to(io, room).some()?;
        let offset = at.unwrap_or(AT_OFFSET);
        let request = op::WriteAt { desc: self.desc, offset };
        let done = server::wait_filled(io, request, wanted)?.count.min(wanted as u64);
        Ok((done, done < wanted as u64))
    }
}

/// Copies all of a file of the host into a memory file, which is the caller's.
pub fn copied(desc: u32) -> Result<Contents> {
    let size = size_of(&Shared { desc })?;
    let to = server::call(op::MemFile { size, large: false })?;
    let mut offset = 0;
    let copied = loop {
        let part = match server::call(op::ReadAt { desc, offset, bytes: DATA_BYTES as u64 }) {
            Ok(part) if part.bytes == 0 || offset >= size => break Ok(()),
            Ok(part) => part,
            Err(error) => break Err(error),
        };
        // The bytes are where they are sent from.
        let bytes = part.bytes.min(size - offset) as usize;
        match server::call_filled(op::WriteAt { desc: to.desc, offset }, bytes) {
            Ok(reply) if reply.count as usize == bytes => offset += bytes as u64,
            Ok(_) => break Err(Errno::ENOMEM),
            Err(error) => break Err(error),
        }
    };
    match copied {
        Ok(()) => Ok(Contents { desc: to.desc, inode: to.inode, is_stored: false, is_large: false, is_sealable: false }),
        Err(error) => {
            server::close(to.desc);
            Err(error)
        }
    }
}
