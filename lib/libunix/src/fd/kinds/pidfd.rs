//! `pidfd`: a process, as a file that is readable once the process has ended. Nobody else's id can be mistaken
//! for it, however long it is kept.

use crate::errno::{Errno, Result};
use crate::fd::ops::{unnamed_stat, FileOps, Server};
use crate::fd::watch::Look;
use crate::fd::{install, Fds, File};
use crate::mm::user;
use crate::process::{Files, Io};
use crate::server::{self, op};
use crate::sys::processes::sent_info;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{Kind, O_NONBLOCK, O_RDWR};
use unixproto::ops::Opened;
use unixproto::signals::SI_USER;

/// An open process.
#[derive(Clone, Copy)]
pub struct PidFd {
    desc: u32,
}

impl FileOps for PidFd {
    const SERVED: Option<Kind> = Some(Kind::Process);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<PidFd> {
        Some(PidFd { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn stat(&self) -> Result<()> {
        unnamed_stat(0o700);
        Ok(())
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

pub fn pidfd_open(io: &mut Io, pid: i32, flags: u32) -> Result<u64> {
    if flags & !O_NONBLOCK != 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::call(op::OpenProcess { pid: pid as u32, flags })?;
    Ok(install(io, File::opened(opened, O_RDWR | flags), true)? as u64)
}

pub fn pidfd_send_signal(files: Files, fd: i32, signal: u32, info: u64, flags: u32) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let desc = find(files.fds, fd)?;
    let mut code_and_value = (SI_USER, 0);
    if info != 0 {
        let pid = server::call(op::ProcessOf { desc })?.pid;
        let raw: [u64; 4] = user::copy_in(files.mm, info)?;
        if raw[0] as u32 != signal {
            return Err(Errno::EINVAL);
        }
        code_and_value = sent_info(&raw, pid)?;
    }
    let (code, value) = code_and_value;
    server::call(op::KillOpened { desc, signal, code, value }).map(|()| 0)
}

/// The id of the process that `fd` names, and whether who waits for it is not to wait: for `waitid`.
pub fn process(fds: &Fds, fd: i32) -> Result<(i32, bool)> {
    let desc = find(fds, fd)?;
    let flags = server::call(op::GetFlags { desc })?.flags;
    match server::call(op::ProcessOf { desc }) {
        Ok(process) => Ok((process.pid as i32, flags & O_NONBLOCK != 0)),
        Err(Errno::ESRCH) => Err(Errno::ECHILD),
        Err(error) => Err(error),
    }
}

/// The id of the process that `fd` names, or that a number names that stands for the caller's.
pub fn id(fds: &Fds, fd: i32) -> Result<u32> {
    const SELF_THREAD: i32 = -10000;
    const SELF_PROCESS: i32 = -10001;
    if matches!(fd, SELF_THREAD | SELF_PROCESS) {
        return Ok(own_id());
    }
    Ok(server::call(op::ProcessOf { desc: find(fds, fd)? })?.pid)
}

/// The id of the caller's process.
pub fn own_id() -> u32 {
    server::header().pid.load(Relaxed)
}

/// Its description; `EBADF`: it is something else.
fn find(fds: &Fds, fd: i32) -> Result<u32> {
    fds.get(fd)?;
    let file: PidFd = fds.of_kind(fd).map_err(|_| Errno::EBADF)?;
    Ok(file.desc)
}
