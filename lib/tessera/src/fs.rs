//! Files: those of the Linux processes, with the same names.
//!
//! `unixd` keeps names, sizes and offsets. The contents of a regular file are Frames, which are
//! mapped here for the time of a copy; everything else passes through the session's data area.

use crate::io::{self, Result};
use crate::unix;
use libos::abi::layout::PAGE;
use libos::vspace::{R, RW};
use libos::{domain, Cap, CapAddr};
use unixproto::files::*;
use unixproto::ops::Part;
use unixproto::session::DATA_BYTES;
use unixproto::{op, Errno};

/// An open file.
pub struct File {
    desc: u32,
    kind: Kind,
    /// Closed when it is dropped: not one of the standard descriptors.
    own: bool,
}

impl Drop for File {
    fn drop(&mut self) {
        if self.own {
            // Dropped in any case: nobody could do anything about it.
            let _ = unix::call(op::Close {}, &self.desc.to_le_bytes());
        }
    }
}

impl File {
    /// Opens a file to be read.
    pub fn open(path: &str) -> Result<File> {
        File::open_with(path, O_RDONLY)
    }

    /// Opens a file to be written, which is made, or emptied if it is there.
    pub fn create(path: &str) -> Result<File> {
        File::open_with(path, O_RDWR | O_CREAT | O_TRUNC)
    }

    /// Opens a file with flags of `open(2)`.
    pub fn open_with(path: &str, flags: u32) -> Result<File> {
        const MODE: u32 = 0o644;
        let request = op::Open { dir: CWD, flags: flags | O_CLOEXEC, mode: MODE, extra: 0 };
        let opened = unix::call(request, path.as_bytes())?;
        let kind = Kind::from_u8(opened.kind).ok_or(Errno::EIO)?;
        Ok(File { desc: opened.desc, kind, own: true })
    }

    /// The file behind standard input (0), output (1) or error (2).
    pub(crate) fn of_descriptor(descriptor: usize) -> Result<File> {
        let desc = io::description(descriptor)?;
        let kind = unix::call(op::Describe { desc }, &[])?.kind;
        let kind = Kind::from_u8(kind).ok_or(Errno::EIO)?;
        Ok(File { desc, kind, own: false })
    }

    /// Is it a terminal?
    pub fn is_terminal(&self) -> bool {
        self.kind == Kind::Tty
    }

    /// Bytes of a regular file.
    pub fn size(&self) -> Result<u64> {
        let request = op::Stat { dir: self.desc, flags: AT_EMPTY_PATH };
        let (_, bytes) = unix::call_data(request, &[], |_| STAT_BYTES)?;
        let bytes = bytes.as_slice().try_into().map_err(|_| Errno::EIO)?;
        Ok(Stat::from_bytes(bytes).size as u64)
    }

    /// Reads on: how many bytes, 0 at the end.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        self.read_from(AT_OFFSET, bytes)
    }

    /// Reads from `offset` of a regular file: how many bytes, 0 at the end.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        match self.kind {
            Kind::Regular => self.read_from(offset, bytes),
            _ => Err(Errno::ESPIPE),
        }
    }

    /// Writes on: how many bytes, at least one.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        self.write_from(AT_OFFSET, bytes)
    }

    /// Writes to `offset` of a regular file: how many bytes, at least one.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        match self.kind {
            Kind::Regular => self.write_from(offset, bytes),
            _ => Err(Errno::ESPIPE),
        }
    }

    /// Writes on until all is written.
    pub fn write_all(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    fn read_from(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let desc = self.desc;
        match self.kind {
            Kind::Regular => {
                let request = op::ReadBegin { desc, offset, bytes: bytes.len() as u64 };
                let part = unix::call(request, &[])?;
                self.copy(&part, Direction::Read(bytes))
            }
            Kind::Null => Ok(0),
            Kind::Zero | Kind::Full => {
                bytes.fill(0);
                Ok(bytes.len())
            }
            Kind::Random | Kind::Directory | Kind::Path => Err(Errno::EINVAL),
            // All others flow through `unixd`.
            _ => unix::with(|session| {
                let limit = bytes.len().min(DATA_BYTES) as u32;
                let read = session.call(op::Read { desc, bytes: limit }, &[], &[])?.count as usize;
                let read = read.min(bytes.len());
                bytes[..read].copy_from_slice(session.data(read));
                Ok(read)
            }),
        }
    }

    fn write_from(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let desc = self.desc;
        match self.kind {
            Kind::Regular => {
                let request = op::WriteBegin { desc, offset, bytes: bytes.len() as u64 };
                let part = unix::call(request, &[])?;
                match self.copy(&part, Direction::Write(bytes)) {
                    // It is not readable: `unixd` copies.
                    Err(Errno::EACCES) => self.write_through(&part, bytes),
                    result => result,
                }
            }
            Kind::Null | Kind::Zero | Kind::Random => Ok(bytes.len()),
            Kind::Full => Err(Errno::ENOSPC),
            Kind::Directory | Kind::Path => Err(Errno::EBADF),
            // All others flow through `unixd`.
            _ => {
                let part = &bytes[..bytes.len().min(DATA_BYTES)];
                Ok(unix::call(op::Write { desc }, part)?.count as usize)
            }
        }
    }

    /// Has `unixd` copy to what it has granted.
    fn write_through(&self, part: &Part, bytes: &[u8]) -> Result<usize> {
        let bytes = bytes.get(..part.bytes as usize).unwrap_or(bytes);
        let (mut offset, mut done) = (part.offset, 0);
        for piece in bytes.chunks(DATA_BYTES) {
            let written = unix::call(op::WriteAt { desc: self.desc, offset }, piece)?.count;
            (offset, done) = (offset + written, done + written as usize);
        }
        Ok(done)
    }

    /// Copies what `unixd` has granted, one extent after the other.
    fn copy(&self, part: &Part, mut direction: Direction) -> Result<usize> {
        let bytes = (part.bytes as usize).min(direction.len());
        let mut done = 0;
        while done < bytes {
            done += self.copy_piece(part.offset, done, bytes, &mut direction)?;
        }
        Ok(done)
    }

    /// Copies as much as one look at an extent allows.
    fn copy_piece(
        &self,
        start: u64,
        done: usize,
        end: usize,
        direction: &mut Direction,
    ) -> Result<usize> {
        const LOOK: u64 = 256 << 10;
        let offset = start + done as u64;
        let write = matches!(direction, Direction::Write(_));
        let request = op::FileExtent { desc: self.desc, offset, write, until: NOT_BEHIND };
        let slot = Slot::new()?;
        let (extent, has_frame) = unix::with(|session| session.receive(request, slot.0))?;
        let inside = offset.checked_sub(extent.start).ok_or(Errno::EIO)?;
        let skip = inside % PAGE;
        let left = extent.bytes.checked_sub(inside).filter(|&left| left > 0).ok_or(Errno::EIO)?;
        let bytes = left.min(LOOK - skip).min((end - done) as u64);
        let range = done..done + bytes as usize;
        if !has_frame {
            direction.zero(range)?;
            return Ok(bytes as usize);
        }
        let mapped = (skip + bytes).next_multiple_of(PAGE);
        let rights = if write { RW } else { R };
        with_window(|window| {
            let mut view = window.open(slot.0, inside - skip, mapped, rights)?;
            match direction {
                Direction::Read(to) => view.read(skip as usize, &mut to[range]),
                Direction::Write(from) => view.write(skip as usize, &from[range]),
            }
        })?;
        Ok(bytes as usize)
    }
}

/// Which way bytes go.
enum Direction<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl Direction<'_> {
    fn len(&self) -> usize {
        match self {
            Direction::Read(bytes) => bytes.len(),
            Direction::Write(bytes) => bytes.len(),
        }
    }

    /// A hole of the file.
    fn zero(&mut self, range: core::ops::Range<usize>) -> Result<()> {
        match self {
            Direction::Read(bytes) => {
                bytes[range].fill(0);
                Ok(())
            }
            Direction::Write(_) => Err(Errno::EIO),
        }
    }
}

/// A slot for one capability, emptied and given back when dropped.
struct Slot(CapAddr);

impl Slot {
    fn new() -> Result<Slot> {
        domain::with(|domain| domain.slot()).map(Slot).map_err(|_| Errno::ENOMEM)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // It may be empty already.
        self.0.discard();
        let _ = domain::with(|domain| {
            domain.slots.free(self.0);
            Ok(())
        });
    }
}

/// Calls `f` with the window through which contents are copied.
fn with_window(
    f: impl FnOnce(&mut libos::ephemeral::Window) -> core::result::Result<(), libos::Status>,
) -> Result<()> {
    static WINDOW: libos::local::Local<Option<libos::ephemeral::Window>> =
        libos::local::Local::new(None);
    let used = WINDOW.try_with(|window| {
        if window.is_none() {
            *window = Some(domain::with(|domain| domain.window()).map_err(|_| Errno::ENOMEM)?);
        }
        window.as_mut().ok_or(Errno::ENOMEM).and_then(|window| f(window).map_err(|_| Errno::EIO))
    });
    used.unwrap_or(Err(Errno::EAGAIN))
}
