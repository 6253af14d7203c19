//! File descriptors, and what they name.
//!
//! Three layers: a *descriptor* (`linuxabi::fdtable`) names an open *file* of this library, and a
//! file stands for an open file *description* of `unixd`, which holds offset and flags, or for an
//! object that the library keeps alone (`event`, `epoll`). Duplicated descriptors and mappings
//! share one file, which counts them; with the last the description is closed. Fork copies the
//! whole, and `unixd` copies what the parent holds.
//!
//! Contents of regular files are copied here, in the process, from windows on their extents
//! (`windows`). Everything else passes through the data area of the session or a pipe's ring.

pub mod buffers;
pub mod epoll;
pub mod event;
mod place;
pub mod regular;
pub mod stream;
pub mod text;
pub mod transfer;
pub mod windows;

use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::server::{self, op};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linuxabi::fdtable::{Entry, FdTable};
use unixproto::files::{lock, Kind, O_ACCMODE, O_PATH, O_RDWR, O_WRONLY};
use unixproto::session::SHOWN_FDS;

/// What a file is.
#[derive(Clone)]
pub enum Object {
    /// A description of `unixd`.
    Description {
        /// Its id.
        desc: u32,
        kind: Kind,
        /// Key for caches of contents.
        inode: u64,
    },
    /// One end of a socket pair: two pipes.
    Pair {
        /// Description to read from.
        read: u32,
        /// Description to write to.
        write: u32,
    },
    /// `eventfd`.
    Event(event::Event),
    /// `timerfd`.
    Timer(event::Timer),
    /// `epoll`.
    Epoll(epoll::Epoll),
}

/// An open file.
#[derive(Clone)]
pub struct File {
    pub object: Object,
    /// Flags with which it was opened: access mode and `O_PATH`.
    pub flags: u32,
    /// Descriptors and mappings that name it.
    users: u32,
}

impl File {
    /// A file that nobody names yet.
    pub fn new(object: Object, flags: u32) -> File {
        File { object, flags, users: 0 }
    }
    /// A file for what `unixd` has opened.
    pub fn opened(opened: unixproto::ops::Opened, flags: u32) -> File {
        let kind = Kind::from_u8(opened.kind).unwrap_or(Kind::Path);
        File::new(Object::Description { desc: opened.desc, kind, inode: opened.inode }, flags)
    }
    /// May it be read?
    pub fn readable(&self) -> bool {
        self.flags & O_PATH == 0 && self.flags & O_ACCMODE != O_WRONLY
    }
    /// May it be written?
    pub fn writable(&self) -> bool {
        self.flags & O_PATH == 0 && matches!(self.flags & O_ACCMODE, O_WRONLY | O_RDWR)
    }
    /// Its description, or `error` for an object of the library.
    pub fn description(&self, error: Errno) -> Result<(u32, Kind, u64)> {
        match self.object {
            Object::Description { desc, kind, inode } => Ok((desc, kind, inode)),
            _ => Err(error),
        }
    }
}

/// All descriptors and files of the process.
pub struct Fds {
    table: FdTable,
    files: Vec<Option<File>>,
    /// The process has set record locks.
    pub has_locks: bool,
    /// Windows on the contents of regular files and rings of pipes.
    pub windows: windows::Windows,
}

impl Fds {
    /// None.
    pub const fn new() -> Self {
        Fds {
            table: FdTable::new(),
            files: Vec::new(),
            has_locks: false,
            windows: windows::Windows::new(),
        }
    }

    /// The same descriptors, without any window.
    pub fn copy(&self) -> Fds {
        Fds {
            table: self.table.clone(),
            files: self.files.clone(),
            has_locks: self.has_locks,
            ..Fds::new()
        }
    }

    /// Has the descriptors of `other` from now on. Windows on files that it names stay.
    pub fn restore(&mut self, other: Fds) {
        (self.table, self.files, self.has_locks) = (other.table, other.files, other.has_locks);
        let mut keys = Vec::new();
        for file in self.files.iter().flatten() {
            match file.object {
                Object::Description { desc, kind: Kind::Pipe, .. } => {
                    keys.push(windows::ring_key(desc));
                }
                Object::Description { inode, .. } => keys.push(inode),
                Object::Pair { read, write } => {
                    keys.extend([read, write].map(windows::ring_key));
                }
                _ => {}
            }
        }
        self.windows.keep(&keys);
    }

    /// The file that `fd` names.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<&File> {
        let entry = self.table.get(fd).ok_or(Errno::EBADF)?;
        self.files[entry.file as usize].as_ref().ok_or(Errno::EBADF)
    }
    /// The file that `fd` names, for a call that `O_PATH` does not allow.
    pub fn get_open(&self, fd: i32) -> Result<&File> {
        match self.get(fd)? {
            file if file.flags & O_PATH != 0 => Err(Errno::EBADF),
            file => Ok(file),
        }
    }
    /// The file that `fd` names, to be changed.
    pub fn get_mut(&mut self, fd: i32) -> Result<&mut File> {
        let entry = self.table.get(fd).ok_or(Errno::EBADF)?;
        self.files[entry.file as usize].as_mut().ok_or(Errno::EBADF)
    }
    /// Whether `fd` is closed by `execve`.
    pub fn cloexec(&self, fd: i32) -> Result<bool> {
        Ok(self.table.get(fd).ok_or(Errno::EBADF)?.cloexec)
    }
    /// Changes that.
    pub fn set_cloexec(&mut self, fd: i32, cloexec: bool) -> Result<()> {
        if self.table.set_cloexec(fd, cloexec) {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }
    /// Index of the file that `fd` names: it stays the same as long as anybody names the file.
    pub fn index(&self, fd: i32) -> Result<u32> {
        Ok(self.table.get(fd).ok_or(Errno::EBADF)?.file)
    }
    /// The file at an index.
    pub fn at(&self, index: u32) -> Result<&File> {
        self.files.get(index as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }
    /// `EMFILE` unless there is room for one more descriptor from `min` on.
    pub fn check_room(&self, min: usize, limit: usize) -> Result<()> {
        self.table.lowest_free(min, limit).map(|_| ()).ok_or(Errno::EMFILE)
    }
    /// Every descriptor with its file's index.
    pub fn descriptors(&self) -> impl Iterator<Item = (i32, Entry)> + '_ {
        self.table.iter()
    }

    fn add_file(&mut self, file: File) -> u32 {
        let index = match self.files.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.files.push(None);
                self.files.len() - 1
            }
        };
        self.files[index] = Some(file);
        index as u32
    }

    /// One more user of a file.
    pub fn hold(&mut self, index: u32) {
        if let Some(Some(file)) = self.files.get_mut(index as usize) {
            file.users += 1;
        }
    }

    /// One user less. With the last the file is taken out and answered: the caller closes it.
    fn unhold(&mut self, index: u32) -> Option<File> {
        let place = self.files.get_mut(index as usize)?;
        let file = place.as_mut()?;
        file.users -= 1;
        if file.users > 0 {
            return None;
        }
        let file = place.take()?;
        let same =
            |f: &File, key| matches!(f.object, Object::Description { inode, .. } if inode == key);
        match file.object {
            Object::Description { inode, kind: Kind::Regular, .. }
                if !self.files.iter().flatten().any(|f| same(f, inode)) =>
            {
                self.windows.forget(inode);
            }
            Object::Description { desc, kind: Kind::Pipe, .. } => self.forget_rings(&[desc]),
            Object::Pair { read, write } => self.forget_rings(&[read, write]),
            _ => {}
        }
        Some(file)
    }

    /// A descriptor of a file has been closed, maybe not the last: record locks end with the first.
    fn closed(&mut self, index: u32) {
        self.release(index);
        // With the last, `unixd` has ended them already.
        if self.has_locks {
            if let Ok(Object::Description { desc, .. }) = self.at(index).map(|file| &file.object) {
                let request = op::SetLock { desc: *desc, how: lock::UNLOCK, start: 0, len: 0 };
                let _ = server::call(request);
            }
        }
    }

    /// The rings of these pipes are to be asked for again.
    fn forget_rings(&mut self, descriptions: &[u32]) {
        for desc in descriptions {
            self.windows.forget(windows::ring_key(*desc));
        }
    }

    /// One user less of a file; the last one closes its descriptions.
    pub fn release(&mut self, index: u32) {
        let _ = match self.unhold(index).map(|file| file.object) {
            Some(Object::Description { desc, .. }) => {
                server::call_a(op::Close {}, &desc.to_le_bytes())
            }
            Some(Object::Pair { read, write }) => {
                let both = read as u64 | (write as u64) << 32;
                server::call_a(op::Close {}, &both.to_le_bytes())
            }
            _ => Ok(()),
        };
    }

    /// Shows `/proc` what `fd` names.
    fn show(&self, fd: i32) {
        if let Some(cell) = server::main_header().fds.get(fd as usize) {
            let desc = match self.get(fd).map(|f| &f.object) {
                Ok(Object::Description { desc, .. }) => *desc,
                _ => 0,
            };
            cell.store(desc, Ordering::Relaxed);
        }
    }
}

/// Gives `file` the lowest free descriptor. If there is none, the file is closed: `EMFILE`.
pub fn install(p: &mut Process, file: File, cloexec: bool) -> Result<i32> {
    let limit = p.sys.max_files();
    let index = p.fds.add_file(file);
    p.fds.hold(index);
    match p.fds.table.insert(Entry { file: index, cloexec }, 0, limit) {
        Some(fd) => {
            p.fds.show(fd);
            Ok(fd)
        }
        None => {
            p.fds.release(index);
            Err(Errno::EMFILE)
        }
    }
}

/// Another descriptor, the lowest from `min` on, for the file of `fd`.
pub fn duplicate(p: &mut Process, fd: i32, min: usize, cloexec: bool) -> Result<i32> {
    let limit = p.sys.max_files();
    let file = p.fds.index(fd)?;
    let new = p.fds.table.insert(Entry { file, cloexec }, min, limit).ok_or(Errno::EMFILE)?;
    p.fds.hold(file);
    p.fds.show(new);
    Ok(new)
}

/// Makes `new` name the file of `old`; what `new` named before is closed.
pub fn duplicate_to(p: &mut Process, old: i32, new: i32, cloexec: bool) -> Result<i32> {
    let file = p.fds.index(old)?;
    if new < 0 || new as usize >= p.sys.max_files() {
        return Err(Errno::EBADF);
    }
    p.fds.hold(file);
    let before = p.fds.table.put(new, Entry { file, cloexec });
    p.fds.show(new);
    if let Some(entry) = before {
        p.fds.closed(entry.file);
    }
    Ok(new)
}

/// Closes a descriptor.
pub fn close(p: &mut Process, fd: i32) -> Result<()> {
    let entry = p.fds.table.remove(fd).ok_or(Errno::EBADF)?;
    if (fd as usize) < SHOWN_FDS {
        server::main_header().fds[fd as usize].store(0, Ordering::Relaxed);
    }
    p.fds.closed(entry.file);
    Ok(())
}

/// One user less of a file; the last one closes its descriptions.
pub fn release(p: &mut Process, index: u32) {
    p.fds.release(index);
}

/// Closes all descriptors for which `which` says so.
pub fn close_where(p: &mut Process, which: impl Fn(i32, Entry) -> bool) {
    let doomed: Vec<i32> =
        p.fds.table.iter().filter(|&(fd, entry)| which(fd, entry)).map(|(fd, _)| fd).collect();
    for fd in doomed {
        let _ = close(p, fd);
    }
}

/// Closes what `execve` closes.
pub fn close_on_exec(p: &mut Process) {
    close_where(p, |_, entry| entry.cloexec);
}

/// The descriptors of the first process: 0, 1 and 2.
pub fn attach(p: &mut Process, descriptions: [u32; 3]) -> Result<()> {
    let mut files: [Option<(u32, u32)>; 3] = [None; 3];
    for (n, desc) in descriptions.into_iter().enumerate() {
        let known = files.iter().flatten().find(|(d, _)| *d == desc).map(|(_, index)| *index);
        let index = match known {
            Some(index) => index,
            None => {
                let opened = server::call(op::Describe { desc })?;
                let flags = server::call(op::GetFlags { desc })?.flags;
                p.fds.add_file(File::opened(opened, flags))
            }
        };
        files[n] = Some((desc, index));
        p.fds.hold(index);
        p.fds.table.insert(Entry { file: index, cloexec: false }, 0, 3);
        p.fds.show(n as i32);
    }
    Ok(())
}

/// What a forked child does first: it has its parent's descriptors but none of its windows.
pub fn after_fork(p: &mut Process) {
    p.fds.windows.abandon();
    p.fds.has_locks = false;
}
