//! Descriptors as such: duplicating, closing, flags, locks, pipes.

use super::locks;
use crate::errno::{Errno, Result};
use crate::fd::windows::ring_key;
use crate::fd::{self, event, File, Object};
use crate::mm::user;
use crate::process::Process;
use crate::server::{self, op};
use linuxabi::general as raw;
use unixproto::files::{
    lock, Kind, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY, PIPE_BYTES,
};

pub fn close(p: &mut Process, fd: i32) -> Result<u64> {
    fd::close(p, fd).map(|()| 0)
}

pub fn close_range(p: &mut Process, first: u32, last: u32, flags: u32) -> Result<u64> {
    const UNSHARE: u32 = 2;
    const CLOEXEC: u32 = 4;
    if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    let Ok(first) = i32::try_from(first) else { return Ok(0) };
    let last = last.min(i32::MAX as u32) as i32;
    if flags & CLOEXEC == 0 {
        fd::close_where(p, first, last, |_, _| true);
        return Ok(0);
    }
    for fd in first..last.saturating_add(1).min(p.fds.end()) {
        let _ = p.fds.set_cloexec(fd, true);
    }
    Ok(0)
}

pub fn dup(p: &mut Process, fd: i32) -> Result<u64> {
    fd::duplicate(p, fd, 0, false).map(|fd| fd as u64)
}

pub fn dup2(p: &mut Process, old: i32, new: i32) -> Result<u64> {
    p.fds.get(old)?;
    if old == new {
        return Ok(new as u64);
    }
    fd::duplicate_to(p, old, new, false).map(|fd| fd as u64)
}

pub fn dup3(p: &mut Process, old: i32, new: i32, flags: u32) -> Result<u64> {
    if flags & !O_CLOEXEC != 0 || old == new {
        return Err(Errno::EINVAL);
    }
    fd::duplicate_to(p, old, new, flags & O_CLOEXEC != 0).map(|fd| fd as u64)
}

pub fn fcntl(p: &mut Process, fd: i32, command: u32, arg: u64) -> Result<u64> {
    let file = p.fds.get(fd)?;
    let allowed_on_path = matches!(
        command,
        raw::F_DUPFD | raw::F_DUPFD_CLOEXEC | raw::F_GETFD | raw::F_SETFD | raw::F_GETFL
    );
    if file.flags & O_PATH != 0 && !allowed_on_path {
        return Err(Errno::EBADF);
    }
    match command {
        raw::F_DUPFD => duplicate(p, fd, arg, false),
        raw::F_DUPFD_CLOEXEC => duplicate(p, fd, arg, true),
        raw::F_GETFD => Ok(p.fds.cloexec(fd)? as u64),
        raw::F_SETFD => p.fds.set_cloexec(fd, arg & 1 != 0).map(|()| 0),
        raw::F_GETFL => get_flags(p, fd),
        raw::F_SETFL => set_flags(p, fd, arg as u32),
        raw::F_GETLK => locks::get(p, fd, arg, 0),
        raw::F_SETLK => locks::set(p, fd, arg, 0),
        raw::F_SETLKW => locks::set(p, fd, arg, lock::WAIT),
        F_OFD_GETLK => locks::get(p, fd, arg, lock::DESCRIPTION),
        F_OFD_SETLK => locks::set(p, fd, arg, lock::DESCRIPTION),
        F_OFD_SETLKW => locks::set(p, fd, arg, lock::DESCRIPTION | lock::WAIT),
        raw::F_GETOWN | raw::F_GETSIG => Ok(0),
        raw::F_SETOWN | raw::F_SETSIG => Ok(0),
        F_GETPIPE_SZ | F_SETPIPE_SZ => match file.description(Errno::EBADF)? {
            (_, Kind::Pipe, _) => Ok(PIPE_BYTES),
            _ => Err(Errno::EBADF),
        },
        _ => Err(Errno::EINVAL),
    }
}

const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;

fn duplicate(p: &mut Process, fd: i32, min: u64, cloexec: bool) -> Result<u64> {
    if min >= p.sys.max_files() as u64 {
        return Err(Errno::EINVAL);
    }
    fd::duplicate(p, fd, min as u32, cloexec).map(|fd| fd as u64)
}

fn get_flags(p: &mut Process, fd: i32) -> Result<u64> {
    const LARGEFILE: u64 = 0o100000;
    if let Some(flags) = p.fds.known_flags(fd) {
        return Ok(flags as u64 | LARGEFILE);
    }
    let file = p.fds.get(fd)?;
    match file.object {
        Object::Description { desc, .. } => {
            let flags = server::call(op::GetFlags { desc })?.flags;
            p.fds.keep_flags(fd, Some(flags));
            Ok(flags as u64 | LARGEFILE)
        }
        _ => Ok(file.flags as u64),
    }
}

fn set_flags(p: &mut Process, fd: i32, flags: u32) -> Result<u64> {
    const SETTABLE: u32 = O_APPEND | O_NONBLOCK;
    p.fds.keep_flags(fd, None);
    let file = p.fds.get_mut(fd)?;
    match file.object {
        Object::Description { desc, .. } => {
            server::call(op::SetFlags { desc, flags: flags & SETTABLE })?;
        }
        Object::Pair { read, write } => {
            server::call(op::SetFlags { desc: read, flags: flags & SETTABLE })?;
            server::call(op::SetFlags { desc: write, flags: flags & SETTABLE })?;
            file.flags = file.flags & !O_NONBLOCK | flags & O_NONBLOCK;
        }
        _ => file.flags = file.flags & !O_NONBLOCK | flags & O_NONBLOCK,
    }
    Ok(0)
}

/// Sets `O_NONBLOCK` (`FIONBIO`).
pub fn set_nonblocking(p: &mut Process, fd: i32, on: bool) -> Result<u64> {
    let flags = get_flags(p, fd)? as u32 & !O_NONBLOCK;
    set_flags(p, fd, if on { flags | O_NONBLOCK } else { flags })
}

pub fn pipe2(p: &mut Process, fds: u64, flags: u32) -> Result<u64> {
    const DIRECT: u32 = 0o40000;
    if flags & !(O_CLOEXEC | O_NONBLOCK | DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    user::check_writable(p, fds, 8)?;
    let cloexec = flags & O_CLOEXEC != 0;
    let (read, write) = make_pipe(flags & O_NONBLOCK)?;
    install_two(p, (read, write), cloexec, fds)
}

/// Gives two files descriptors and tells them to the program: both or none.
fn install_two(p: &mut Process, files: (File, File), cloexec: bool, fds: u64) -> Result<u64> {
    let first = fd::install(p, files.0, cloexec);
    let second = fd::install(p, files.1, cloexec);
    match (first, second) {
        (Ok(first), Ok(second)) => {
            user::copy_out(p, fds, &[first, second])?;
            Ok(0)
        }
        (first, second) => {
            for fd in [first, second].into_iter().flatten() {
                let _ = fd::close(p, fd);
            }
            Err(Errno::EMFILE)
        }
    }
}

pub fn pipe(p: &mut Process, fds: u64) -> Result<u64> {
    pipe2(p, fds, 0)
}

fn make_pipe(flags: u32) -> Result<(File, File)> {
    let ends = server::call(op::Pipe { flags })?;
    let end = |desc: u32, flags| {
        File::new(Object::Description { desc, kind: Kind::Pipe, inode: ring_key(desc) }, flags)
    };
    Ok((end(ends.read, O_RDONLY), end(ends.write, O_WRONLY)))
}

/// Stream sockets that are connected to each other are two pipes.
pub fn socketpair(p: &mut Process, domain: u32, ty: u32, protocol: u32, fds: u64) -> Result<u64> {
    const UNIX: u32 = 1;
    const STREAM: u32 = 1;
    if domain != UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    let flags = ty & (O_CLOEXEC | O_NONBLOCK);
    if ty & !flags != STREAM || protocol > 1 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    user::check_writable(p, fds, 8)?;
    let there = server::call(op::Pipe { flags: flags & O_NONBLOCK })?;
    let back = server::call(op::Pipe { flags: flags & O_NONBLOCK })?;
    let end = |read, write| File::new(Object::Pair { read, write }, O_RDWR | flags & O_NONBLOCK);
    let ends = (end(back.read, there.write), end(there.read, back.write));
    install_two(p, ends, flags & O_CLOEXEC != 0, fds)
}

pub fn eventfd2(p: &mut Process, count: u32, flags: u32) -> Result<u64> {
    const SEMAPHORE: u32 = 1;
    if flags & !(SEMAPHORE | O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let event = event::Event { count: count as u64, semaphore: flags & SEMAPHORE != 0 };
    let file = File::new(Object::Event(event), O_RDWR | flags & O_NONBLOCK);
    Ok(fd::install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn eventfd(p: &mut Process, count: u32) -> Result<u64> {
    eventfd2(p, count, 0)
}
