//! `pidfd`: a process, as a file that is readable once the process has ended. Nobody else's id can be mistaken
//! for it, however long it is kept.

use crate::errno::{Errno, Result};
use crate::fd::kinds::directory::Directory;
use crate::fd::ops::{unnamed_stat, FileOps, Server};
use crate::fd::watch::Look;
use crate::fd::{install, install_given, Fds, File};
use crate::mm::user;
use crate::process::{Files, Io};
use crate::server::{self, op};
use crate::sys::processes::sent_info;
use core::cmp::Ordering;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::{kcmp, Kind, O_NONBLOCK, O_RDWR};
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
    // `PIDFD_SIGNAL_THREAD`, `THREAD_GROUP` or `PROCESS_GROUP`.
    if !matches!(flags, 0 | 1 | 2 | 4) {
        return Err(Errno::EINVAL);
    }
    let desc = find_or_folder(files.fds, fd)?;
    let (mut code_and_value, mut sender) = ((SI_USER, 0), None);
    if info != 0 {
        let pid = server::call(op::ProcessOf { desc })?.pid;
        let raw: [u64; 4] = user::copy_in(files.mm, info)?;
        if raw[0] as u32 != signal {
            return Err(Errno::EINVAL);
        }
        code_and_value = sent_info(&raw, pid)?;
        sender = Some(raw[2].to_le_bytes());
    }
    let (code, value) = code_and_value;
    let sender = sender.as_ref().map_or(&[][..], |sender| sender);
    let to = flags as u8;
    server::call_a(op::KillOpened { desc, signal, code, value, to }, sender).map(|()| 0)
}

pub fn pidfd_getfd(io: &mut Io, fd: i32, theirs: i32, flags: u32) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let desc = find(&io.fds, fd)?;
    let theirs = u32::try_from(theirs).map_err(|_| Errno::EBADF)?;
    io.fds.check_room(0, io.limits.max_files())?;
    let taken = server::call(op::TakeFd { desc, fd: theirs })?.count;
    Ok(install_given(io, taken as u32, None, true)? as u64)
}

/// Memory of a process that ends is given back without being asked for: it has none any more as soon as it is seen to have ended.
pub fn process_mrelease(fds: &mut Fds, fd: i32, flags: u32) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let pid = server::call(op::ProcessOf { desc: find(fds, fd)? })?.pid;
    match server::call(op::Compare { first: pid, second: pid, what: kcmp::VM, fds: 0 }) {
        Err(Errno::ESRCH) => Err(Errno::ESRCH),
        // It goes on.
        _ => Err(Errno::EINVAL),
    }
}

pub fn kcmp(
    io: &mut Io,
    first: i32,
    second: i32,
    what: u32,
    one: u64,
    other: u64,
) -> Result<u64> {
    let is_own = |pid| pid == own_id() as i32;
    let (one_own, other_own) = (is_own(first), is_own(second));
    let (first, second) = (first as u32, second as u32);
    if what == kcmp::FILE && one_own && other_own {
        // Of some files only this process knows.
        return Ok(order(io.fds.index(one as i32)?, io.fds.index(other as i32)?));
    }
    if what == kcmp::EPOLL_TFD {
        let [set, fd, nth]: [u32; 3] = user::copy_in(&mut io.mm, other)?;
        if one_own {
            let file = io.fds.index(one as i32)?;
            if let (true, Some(member)) = (other_own, io.fds.own_member(set as i32, fd as i32, nth)?) {
                return Ok(order(file, member));
            }
            // What a set has that others know, they know as well.
            Fds::share(io, file)?;
        }
        let slot = [fd, nth].map(u32::to_le_bytes);
        let fds = one & u64::from(u32::MAX) | u64::from(set) << 32;
        let request = op::Compare { first, second, what, fds };
        return Ok(server::call_a(request, slot.as_flattened())?.count);
    }
    let fds = one & u64::from(u32::MAX) | other << 32;
    Ok(server::call(op::Compare { first, second, what, fds })?.count)
}

/// What `kcmp` says of two things that have an order.
fn order(one: u32, other: u32) -> u64 {
    match one.cmp(&other) {
        Ordering::Equal => 0,
        Ordering::Less => 1,
        Ordering::Greater => 2,
    }
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

/// The description of a process, or of a folder, which may be one of `/proc`.
fn find_or_folder(fds: &Fds, fd: i32) -> Result<u32> {
    let file = fds.get_open(fd)?;
    match fds.of_kind::<Directory>(fd) {
        Ok(_) => file.description(Errno::EBADF),
        Err(_) => find(fds, fd),
    }
}

/// Its description; `EBADF`: it is something else.
fn find(fds: &Fds, fd: i32) -> Result<u32> {
    fds.get(fd)?;
    let file: PidFd = fds.of_kind(fd).map_err(|_| Errno::EBADF)?;
    Ok(file.desc)
}
