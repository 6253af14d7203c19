//! Files that `memfd_create` makes to be sealed. They are regular files, but for stores: `unixd` does all of them, so that it can
//! refuse them, and is told who maps such a file to store to it.

use super::regular::{self, Regular, Target};
use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{Contents, FileOps, Handle, Mapped, Server};
use crate::fd::transfer::Source;
use crate::fd::{alone, Fds};
use crate::mm::Mm;
use crate::process::Io;
use crate::server::{self, op};
use unixproto::files::{seal, Kind, AT_OFFSET};
use unixproto::ops::Opened;

/// An open file that can be sealed.
#[derive(Clone, Copy)]
pub struct Sealable {
    file: Regular,
    desc: u32,
    inode: u64,
}

impl Sealable {
    #[cold]
    fn is_sealed(&self) -> Result<bool> {
        let seals = server::call(op::Seal { desc: self.desc, seals: 0, add: false })?.count;
        Ok(seals & u64::from(seal::WRITE | seal::FUTURE_WRITE) != 0)
    }
}

impl FileOps for Sealable {
    const SERVED: Option<Kind> = Some(Kind::Sealable);
    const POSITIONED: bool = true;

    fn opened(opened: &Opened) -> Option<Sealable> {
        let &Opened { desc, inode, .. } = opened;
        Some(Sealable { file: Regular::opened(opened)?, desc, inode })
    }
    fn server(&self) -> Server {
        self.file.server()
    }
    fn windows(&self) -> [Option<u64>; 2] {
        self.file.windows()
    }
    fn read(&self, io: &mut Io, file: Handle, at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        self.file.read(io, file, at, to)
    }
    fn write(
        &self,
        io: &mut Io,
        file: Handle,
        at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        if at.is_none() {
            alone::give_back(&mut io.fds, file.index, self.desc);
        }
        let to = Target { desc: self.desc, inode: self.inode, write_only: true, is_kept: false };
        let written = regular::write(io, to, at.unwrap_or(AT_OFFSET), from);
        // Nobody looks at the memory for what is not written anyway.
        match written {
            Err(Errno::EFAULT) if self.is_sealed()? => Err(Errno::EPERM),
            written => written,
        }
    }
    fn seek(&self, fds: &mut Fds, file: Handle, offset: i64, whence: u32) -> Result<u64> {
        self.file.seek(fds, file, offset, whence)
    }
    fn ioctl(&self, io: &mut Io, file: Handle, command: u32, arg: u64) -> Result<u64> {
        self.file.ioctl(io, file, command, arg)
    }
    fn map(&self) -> Result<Mapped> {
        self.contents().map(Mapped::Contents)
    }
    fn contents(&self) -> Result<Contents> {
        Ok(Contents { is_sealable: true, ..self.file.contents()? })
    }
    fn truncate(&self, mm: &mut Mm, size: u64) -> Result<u64> {
        self.file.truncate(mm, size)
    }
    fn allocate(&self, mode: u32, offset: u64, bytes: u64) -> Result<u64> {
        self.file.allocate(mode, offset, bytes)
    }
    fn sync(&self, offset: u64, bytes: u64) -> Result<u64> {
        self.file.sync(offset, bytes)
    }
    fn share(&self, io: &mut Io, file: Handle) -> Result<()> {
        self.file.share(io, file)
    }
}
