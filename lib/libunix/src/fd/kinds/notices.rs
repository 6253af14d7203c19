//! `inotify`, `fanotify`: what happens to files, as `unixd` tells it.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server};
use crate::fd::watch::Look;
use crate::fd::{install, stream, Fds, File};
use crate::mm::user;
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use crate::sys::paths;
use unixproto::files::{Kind, CWD, O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_RDWR, PATH_MAX};
use unixproto::ops::Opened;

/// What `inotify_init` makes, or `fanotify_init`.
#[derive(Clone, Copy)]
pub struct Notices {
    desc: u32,
}

impl FileOps for Notices {
    const SERVED: Option<Kind> = Some(Kind::Notices);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Notices> {
        Some(Notices { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    /// Whoever has no room is told so, even if that is none at all.
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() > 0 {
            return stream::read(io, self.desc, to);
        }
        let request = op::Read { desc: self.desc, bytes: 0 };
        Ok(server::wait(io, request).map_err(restart)?.count)
    }
    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }
    fn stat(&self) -> Result<()> {
        unnamed_stat(0o600);
        Ok(())
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        stream::available(io, self.desc, command, arg)
    }
    fn more_flags(&self) -> u32 {
        0
    }
    fn is_watched(&self) -> bool {
        true
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
}

pub fn inotify_init1(io: &mut Io, flags: u32) -> Result<u64> {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::call(op::Notify { flags: flags & O_NONBLOCK })?;
    let file = File::opened(opened, O_RDONLY | flags & O_NONBLOCK);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn inotify_init(io: &mut Io) -> Result<u64> {
    inotify_init1(io, 0)
}

/// The description of what `inotify_init` has made.
fn desc_of(files: &Files, fd: i32) -> Result<u32> {
    files.fds.get_open(fd)?;
    let Notices { desc } = files.fds.of_kind(fd)?;
    Ok(desc)
}

pub fn inotify_add_watch(files: Files, fd: i32, path: u64, mask: u32) -> Result<u64> {
    let is_nothing = mask & GIVEN == 0;
    let desc = if is_nothing { Err(Errno::EINVAL) } else { desc_of(&files, fd) };
    let both = ADD | CREATE;
    match desc {
        Err(error) if is_nothing || error == Errno::EBADF => return Err(error),
        _ if mask & both == both => return Err(Errno::EINVAL),
        _ => {}
    }
    let desc = desc?;
    let path = user::cstr(files.mm, path, PATH_MAX as usize, Errno::ENAMETOOLONG)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    Ok(server::call_a(op::AddWatch { desc, mask }, &path)?.count)
}

/// Bits of a mask that mean something.
const GIVEN: u32 = 0xf700_ffff & !0x1000;
/// `IN_MASK_ADD`.
const ADD: u32 = 0x2000_0000;
/// `IN_MASK_CREATE`.
const CREATE: u32 = 0x1000_0000;

pub fn inotify_rm_watch(files: Files, fd: i32, watch: i32) -> Result<u64> {
    let desc = desc_of(&files, fd)?;
    server::call(op::RemoveWatch { desc, watch })?;
    Ok(0)
}

/// `FAN_CLOEXEC`.
const FAN_CLOEXEC: u32 = 1;
/// `FAN_NONBLOCK`.
const FAN_NONBLOCK: u32 = 2;

pub fn fanotify_init(io: &mut Io, flags: u32, event_flags: u32) -> Result<u64> {
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::call(op::Fanotify { flags, event_flags })?;
    let nonblocking = if flags & FAN_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
    let file = File::opened(opened, O_RDWR | nonblocking);
    Ok(install(io, file, flags & FAN_CLOEXEC != 0)? as u64)
}

pub fn fanotify_mark(
    mut files: Files,
    fd: i32,
    flags: u32,
    mask: u64,
    dirfd: i32,
    path: u64,
) -> Result<u64> {
    // What is wrong with the request itself is said first, whatever the descriptor is.
    let (desc, error) = match files.fds.get_open(fd).and_then(|_| desc_of(&files, fd)) {
        Ok(desc) => (desc, Errno::EBADF),
        Err(error) => (0, error),
    };
    let mut request = op::MarkFile { desc, flags, mask, dir: CWD, is_open: path == 0 };
    let marked = match path {
        _ if desc == 0 || flags & FAN_MARK_FLUSH != 0 => server::call(request),
        0 => {
            request.dir = match files.fds.get_open(dirfd) {
                Ok(file) => file.description(Errno::EOPNOTSUPP)?,
                // The server says what else is wrong.
                Err(_) => CWD,
            };
            server::call(request)
        }
        _ => {
            let path = paths::path(&mut files, dirfd, path)?;
            request.dir = path.dir;
            paths::call(request, &path)
        }
    };
    match marked {
        Err(Errno::EBADF) if desc == 0 => Err(error),
        marked => marked.map(|()| 0),
    }
}

/// `FAN_MARK_FLUSH`.
const FAN_MARK_FLUSH: u32 = 0x80;
