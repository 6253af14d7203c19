//! A memory disk: a block device of the size that it was made with.
//!
//! Its bytes are copied as those of a regular file, from and to windows on its pages: `with` of
//! [`windows`](crate::fd::windows) is where a page of it is looked at, for both.

use super::regular::{self, Target};
use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{Contents, FileOps, Handle, Mapped, Server};
use crate::fd::transfer::Source;
use crate::fd::glance::Start;
use crate::fd::{alone, Fds};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use crate::sys::processes;
use credentials::Capability;
use unixproto::block as raw;
use unixproto::files::FALLOC_FL_KEEP_SIZE;
use unixproto::files::{Kind, AT_OFFSET, O_ACCMODE, O_DIRECT, O_WRONLY, SEEK_CUR};
use unixproto::ops::Opened;

/// Bytes of a sector, in which sizes are told and what goes past caches is counted.
const SECTOR: u64 = 512;
/// Bytes of what is read and written at once.
const BLOCK: u64 = 4096;

/// An open memory disk.
#[derive(Clone, Copy)]
pub struct Disk {
    desc: u32,
    inode: u64,
}

impl FileOps for Disk {
    const SERVED: Option<Kind> = Some(Kind::Disk);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Disk> {
        Some(Disk { desc: opened.desc, inode: opened.inode })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn windows(&self) -> [Option<u64>; 2] {
        [Some(self.inode), None]
    }
    fn read(&self, io: &mut Io, file: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() == 0 {
            return Ok(0);
        }
        self.check_direct(io, file, at, to.left())?;
        let kept = if at.is_none() { io.fds.kept_offset(file.index).map(Start::offset) } else { None };
        let offset = at.or(kept).unwrap_or(AT_OFFSET);
        let done = match regular::read(io, self.desc, self.inode, offset, to) {
            Err(Errno::EFAULT) if self.is_at_end(io, file, at)? => 0,
            done => done?,
        };
        if let Some(offset) = kept {
            io.fds.keep_offset(file.index, offset + done);
        }
        Ok(done)
    }
    fn write(
        &self,
        io: &mut Io,
        file: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        if from.left() > 0 {
            self.check_direct(io, file, at, from.left())?;
        }
        if at.is_none() {
            alone::give_back(&mut io.fds, file.index, self.desc);
        }
        let write_only = file.flags & O_ACCMODE == O_WRONLY;
        let to = Target { desc: self.desc, inode: self.inode, write_only, is_kept: false };
        match regular::write(io, to, at.unwrap_or(AT_OFFSET), from) {
            Err(Errno::EFAULT) if self.is_at_end(io, file, at)? => Err(Errno::ENOSPC),
            done => done,
        }
    }
    /// The server alone knows where it ends, and nobody goes behind that.
    fn seek(&self, fds: &mut Fds, file: Handle, offset: i64, whence: u32) -> Result<u64> {
        alone::give_back(fds, file.index, self.desc);
        let new = server::call(op::Seek { desc: self.desc, offset, whence })?.offset;
        fds.keep_offset(file.index, new);
        Ok(new)
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        ioctl(io, self.desc, command, arg)
    }
    fn map(&self) -> Result<Mapped> {
        self.source().map(Mapped::Contents)
    }
    fn source(&self) -> Result<Contents> {
        Ok(Contents { desc: self.desc, inode: self.inode, is_stored: false, is_large: false, is_sealable: false })
    }
    /// It can be punched and zeroed on Linux, and nothing else.
    fn allocate(&self, mode: u32, offset: u64, bytes: u64) -> Result<u64> {
        match offset + bytes {
            end if mode & FALLOC_FL_KEEP_SIZE == 0
                && (end % SECTOR != 0 || end > self.size()?) =>
            {
                Err(Errno::EINVAL)
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
    /// Nothing is ever behind.
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Ok(0)
    }
    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        alone::give_back(&mut io.fds, file.index, self.desc);
        Ok(())
    }
}

/// What is asked of a disk by its description, whoever has it.
pub fn ioctl(io: &mut Io, desc: u32, command: u32, arg: u64) -> Result<u64> {
    match command {
        raw::BLKGETSIZE => user::copy_out(&mut io.mm, arg, &(size(desc)? / SECTOR))?,
        raw::BLKGETSIZE64 => user::copy_out(&mut io.mm, arg, &size(desc)?)?,
        raw::BLKSSZGET => user::copy_out(&mut io.mm, arg, &(SECTOR as u32))?,
        raw::BLKPBSZGET | raw::BLKBSZGET | raw::BLKIOMIN => {
            user::copy_out(&mut io.mm, arg, &(BLOCK as u32))?
        }
        // It can be written; nothing is lost by an unaligned start, or said of what is best.
        raw::BLKROGET | raw::BLKALIGNOFF | raw::BLKIOOPT | raw::BLKDISCARDZEROES => {
            user::copy_out(&mut io.mm, arg, &0u32)?
        }
        raw::BLKROTATIONAL => user::copy_out(&mut io.mm, arg, &0u16)?,
        raw::BLKFLSBUF if processes::has(Capability::SysAdmin) => {}
        raw::BLKFLSBUF => return Err(Errno::EACCES),
        raw::BLKDISCARD | raw::BLKSECDISCARD => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

/// Bytes of a disk. `ENOTTY`: it is none.
pub fn size(desc: u32) -> Result<u64> {
    Ok(server::call(op::DiskSize { desc })?.count)
}

impl Disk {
    /// Bytes that it has.
    fn size(&self) -> Result<u64> {
        size(self.desc)
    }

    /// Where is read or written next.
    fn position(&self, io: &mut Io, file: Handle, at: Option<u64>) -> Result<u64> {
        match at {
            Some(at) => Ok(at),
            None => self.seek(&mut io.fds, file, 0, SEEK_CUR),
        }
    }

    /// Is there nothing there? Then nobody looks at the address that was given.
    #[cold]
    fn is_at_end(&self, io: &mut Io, file: Handle, at: Option<u64>) -> Result<bool> {
        Ok(self.position(io, file, at)? >= self.size()?)
    }

    /// `EINVAL` unless what goes past caches is whole sectors.
    fn check_direct(&self, io: &mut Io, file: Handle, at: Option<u64>, bytes: u64) -> Result<()> {
        if file.flags & O_DIRECT == 0 {
            return Ok(());
        }
        match (self.position(io, file, at)? | bytes) % SECTOR {
            0 => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }
}
