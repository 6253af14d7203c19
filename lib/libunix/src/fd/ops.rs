//! What can be done with an open file, whatever kind it is of.
//!
//! A kind of file is one file in [`kinds`](super::kinds): a type that is a cheap handle (numbers of a
//! server's, or a counted reference to what the library keeps), and its [`FileOps`]. What an operation
//! answers when a kind does not have it is said here, once, as Linux answers it.
//!
//! Operations are given the parts of the process that they need, the handle's place among the open files, and addresses of the
//! program's memory as they came (a [`Cursor`], or the argument of `ioctl`): never references into it.

use super::buffers::Cursor;
use super::kinds::AnyFile;
use super::transfer::Source;
use super::watch::Look;
use crate::errno::{Errno, Result};
use crate::fd::Fds;
use crate::mm::Mm;
use crate::process::Io;
use crate::server::{self, op};
use alloc::rc::Rc;
use core::cell::RefCell;
use interest::Set;
use unixproto::files::{
    Kind, Stat, AT_EMPTY_PATH, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM, STAT_BYTES,
};
use unixproto::ops::Opened;

/// A set of `epoll`, and whoever uses it.
pub type SharedSet = Rc<RefCell<Set>>;

/// State of what never makes anybody wait.
pub const ALWAYS_READY: u16 = READABLE | WRITABLE;
/// There is something to be read.
pub const READABLE: u16 = POLLIN | POLLRDNORM;
/// There is room to write.
pub const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// The open file that an operation is about: its place in the table, and the flags that it had when
/// the call began.
#[derive(Clone, Copy)]
pub struct Handle {
    pub index: u32,
    /// Access mode and status flags, as far as the library keeps them.
    pub flags: u32,
}

/// Who keeps what a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// The library alone: no other process knows of it.
    Library,
    /// `unixd`, by these descriptions; 0 is none.
    Unixd([u32; 2]),
}

impl Server {
    /// Of something that the library keeps until it is shared, and then `unixd` by a description; 0 is none.
    pub fn of_shared(desc: u32) -> Server {
        match desc {
            0 => Server::Library,
            desc => Server::Unixd([desc, 0]),
        }
    }

    /// The descriptions; 0 is none.
    pub fn descriptions(self) -> [u32; 2] {
        match self {
            Server::Library => [0; 2],
            Server::Unixd(descriptions) => descriptions,
        }
    }
}

/// What a mapping of a file shows.
#[derive(Clone, Copy)]
pub enum Mapped {
    /// Zeroes: anonymous memory.
    Zeroes,
    /// The contents of a file.
    Contents(Contents),
    /// What a file of the host has now, by its description.
    Copy(u32),
    /// A page with registers of a device, by its description, which nobody writes to.
    Registers {
        desc: u32,
        /// Key for its mappings.
        inode: u64,
    },
}

/// The contents of a regular file, which the library copies and maps by itself.
#[derive(Clone, Copy)]
pub struct Contents {
    pub desc: u32,
    /// Key for caches of contents.
    pub inode: u64,
    /// They are a Morsel, and survive.
    pub is_stored: bool,
    /// They are in pages of 2 MiB only.
    pub is_large: bool,
    /// `unixd` is told who maps them to store to them.
    pub is_sealable: bool,
}

/// What `splice` moves bytes from and to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Nothing: `EINVAL`.
    None,
    /// A pipe, by its description.
    Pipe(u32),
    /// A socket, by its description.
    Socket(u32),
    /// A file with positions, by its description.
    Contents(u32),
    /// Something that is read and written through the data area, by its description.
    Stream(u32),
    /// All is taken and forgotten.
    Nowhere,
    /// The same; and there are as many zeros as are asked for.
    Zeroes,
}

/// The operations of a kind of file. The access mode has been checked where the caller of the system
/// call may lack it (`EBADF`).
pub trait FileOps: Clone + Into<AnyFile> {
    /// How `unixd` calls this kind in its answers, if it opens such files.
    const SERVED: Option<Kind> = None;
    /// There are positions in it: `pread` and `pwrite` can name one (else `ESPIPE`).
    const POSITIONED: bool = false;
    /// It may make a reader or writer wait: `epoll` takes it (else `EPERM`).
    const POLLABLE: bool = false;

    /// The file that `unixd` has opened. Only for kinds with [`SERVED`](Self::SERVED).
    fn opened(_opened: &Opened) -> Option<Self> {
        None
    }

    /// Who keeps it.
    fn server(&self) -> Server;

    /// A handle of its own, for an operation that is given all files.
    #[inline(always)]
    fn handle(&self) -> Self {
        self.clone()
    }

    /// Keys of the windows that it may have.
    fn windows(&self) -> [Option<u64>; 2] {
        [None; 2]
    }

    /// Reads at `at`, or at its offset, which moves.
    fn read(&self, _io: &mut Io, _: Handle, _at: Option<u64>, _to: &mut Cursor) -> Result<u64> {
        Err(Errno::EINVAL)
    }

    /// Writes at `at`, or at its offset, which moves.
    fn write(
        &self,
        _io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        _from: &mut impl Source,
    ) -> Result<u64> {
        Err(Errno::EINVAL)
    }

    /// Moves the offset. `whence` is one that there is.
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Err(Errno::ESPIPE)
    }

    /// Leaves `struct stat` in the data area: of its description, or that of a file without a name.
    fn stat(&self) -> Result<()> {
        match self.server() {
            Server::Unixd([dir, 0]) => {
                server::call(op::Stat { dir, flags: AT_EMPTY_PATH }).map(|_| ())
            }
            _ => {
                unnamed_stat(0o600);
                Ok(())
            }
        }
    }

    /// `ioctl`. `arg` is a number or an address of the program's.
    fn ioctl(&self, _io: &mut Io, _: Handle, _command: u32, _arg: u64) -> Result<u64> {
        Err(Errno::ENOTTY)
    }

    /// What a mapping of it shows.
    fn map(&self) -> Result<Mapped> {
        Err(Errno::ENODEV)
    }

    /// Its contents, if it is a regular file: to be copied from one file to another.
    fn contents(&self) -> Result<Contents> {
        Err(Errno::EINVAL)
    }

    /// What `splice` does with it.
    fn flow(&self) -> Flow {
        match self.source() {
            Ok(Contents { desc, .. }) => Flow::Contents(desc),
            Err(_) => Flow::None,
        }
    }

    /// What of it can be sent to another file.
    fn source(&self) -> Result<Contents> {
        self.contents()
    }

    /// Sets its size.
    fn truncate(&self, _mm: &mut Mm, _size: u64) -> Result<u64> {
        Err(Errno::EINVAL)
    }

    /// Has memory made for a part of it, or taken away: `fallocate` with a mode (`FALLOC_FL_*`).
    fn allocate(&self, _mode: u32, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::ENODEV)
    }

    /// Leaves entries of a directory in the data area, at most `bytes`. Returns how many bytes.
    fn list(&self, _bytes: u32) -> Result<usize> {
        Err(Errno::ENOTDIR)
    }

    /// Waits until it is stored (`fsync`), or a part of it.
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::EINVAL)
    }

    /// Takes advice on how it will be used (`fadvise64`).
    fn advise(&self) -> Result<u64> {
        Ok(0)
    }

    /// Bytes that a pipe holds; sets that first unless it is 0.
    fn pipe_bytes(&self, _bytes: u64) -> Result<u64> {
        Err(Errno::EBADF)
    }

    /// Flags that `F_GETFL` tells besides those that it has.
    fn more_flags(&self) -> u32 {
        const LARGEFILE: u32 = 0o100000;
        match self.server() {
            Server::Unixd([_, 0]) => LARGEFILE,
            _ => 0,
        }
    }

    /// What is ready (`POLL*`). `None`: its server has to be asked.
    fn ready(&self, _: &Look) -> Option<u16> {
        Some(ALWAYS_READY)
    }

    /// Its server knows what is ready, and tells what changes.
    fn is_watched(&self) -> bool {
        false
    }

    /// What of the state of its description number `which` (0 or 1) is the file's.
    fn shown(&self, _which: usize, state: u16) -> u16 {
        state
    }

    /// When it becomes ready by itself, on the monotonic clock.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// The files on which it depends whether it is ready.
    fn set(&self) -> Option<&SharedSet> {
        None
    }

    /// The same for a copy of all files that others do not see.
    fn copied(&self) -> Self {
        self.clone()
    }

    /// Another process may hold it from now on: what the library keeps of it goes to the server that both
    /// will ask.
    ///
    /// # Errors
    ///
    /// The server has no room; nobody can be given a share.
    fn share(&self, _io: &mut Io, _: Handle) -> Result<()> {
        Ok(())
    }
}

/// The size of a file.
pub fn size_of<K: FileOps>(kind: &K) -> Result<u64> {
    kind.stat()?;
    let stat: [u8; STAT_BYTES] = server::data(STAT_BYTES).load().map_err(|_| Errno::EIO)?;
    Ok(Stat::from_bytes(&stat).size as u64)
}

/// Leaves `struct stat` of a file without a name in the data area.
pub fn unnamed_stat(mode: u32) {
    let attributes = Stat { mode, nlink: 1, blksize: 4096, ..Default::default() };
    server::put_a(&attributes.to_bytes());
}
