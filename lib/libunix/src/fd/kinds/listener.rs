//! A listener: a file by which somebody decides about calls of others that a filter leaves to it (`SECCOMP_RET_USER_NOTIF`).

use crate::errno::{Errno, Result};
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server};
use crate::fd::watch::Look;
use crate::fd::{install, install_given, Fds, File};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use linuxabi::bytes::{get_u32, get_u64};
use unixproto::files::{Kind, ADDFD_CLOEXEC, ADDFD_SEND, ADDFD_SETFD, O_CLOEXEC, O_RDWR};
use unixproto::ops::{CallReply, Opened};

/// Bytes of what a listener is told, of what it answers, and of a call (`struct seccomp_notif_sizes`).
pub const SIZES: [u16; 3] = [NOTICE_BYTES as u16, 24, 64];
const NOTICE_BYTES: usize = 80;

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
const SYNC_WAKE_UP: u64 = 1;

/// `SECCOMP_IOCTL_NOTIF_*`
mod request {
    pub const RECV: u32 = 0xc050_2100;
    pub const SEND: u32 = 0xc018_2101;
    pub const ID_VALID: u32 = 0x4008_2102;
    /// As Linux had it at first, with the direction of the other.
    pub const ID_VALID_BEFORE: u32 = 0x8008_2102;
    /// Without its size.
    pub const ADD_FD: u32 = 0x4000_2103;
    /// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`
    pub const SET_FLAGS: u32 = 0x4008_2104;
    /// Where that is.
    pub const SIZE: u32 = 0x3fff_0000;
}

/// One.
#[derive(Clone, Copy)]
pub struct Listener {
    desc: u32,
}

impl FileOps for Listener {
    const SERVED: Option<Kind> = Some(Kind::Listener);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Listener> {
        Some(Listener { desc: opened.desc })
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn stat(&self) -> Result<()> {
        unnamed_stat(0o600);
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

    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        let desc = self.desc;
        match command {
            request::RECV => {
                // As on Linux: so that more may be told there some day.
                if user::copy_in::<[u64; NOTICE_BYTES / 8]>(&mut io.mm, arg)? != [0; NOTICE_BYTES / 8] {
                    return Err(Errno::EINVAL);
                }
                user::check_writable(&mut io.mm, arg, NOTICE_BYTES)?;
                server::wait(io, op::NoticeReceive { desc })?;
                user::memory_out(&mut io.mm, arg, server::data(NOTICE_BYTES))?;
                Ok(0)
            }
            request::SEND => {
                let [id, value, rest]: [u64; 3] = user::copy_in(&mut io.mm, arg)?;
                let (error, flags) = (rest as i32, (rest >> 32) as u32);
                server::call(op::NoticeAnswer { desc, id, value, error, flags }).map(|()| 0)
            }
            request::ID_VALID | request::ID_VALID_BEFORE => {
                let id = user::copy_in(&mut io.mm, arg)?;
                server::call(op::NoticeValid { desc, id }).map(|()| 0)
            }
            // Both go on at the same core: which one that is is decided otherwise here.
            request::SET_FLAGS if arg & !SYNC_WAKE_UP == 0 => Ok(0),
            command if command & !request::SIZE == request::ADD_FD => {
                add_fd(io, desc, arg, (command & request::SIZE) as usize >> 16)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Gives a file to a process whose call was told. `bytes`: of the `struct seccomp_notif_addfd` at `arg`.
fn add_fd(io: &mut Io, desc: u32, arg: u64, bytes: usize) -> Result<u64> {
    /// Of the first one there was.
    const FIRST: usize = 24;
    const PAGE: usize = 4096;
    if !(FIRST..PAGE).contains(&bytes) {
        return Err(Errno::EINVAL);
    }
    let mut raw = alloc::vec![0; bytes];
    user::bytes_in(&mut io.mm, arg, &mut raw)?;
    if raw[FIRST..].iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    let (id, flags, file) = (get_u64(&raw, 0), get_u32(&raw, 8), get_u32(&raw, 12));
    let (fd, fd_flags) = (get_u32(&raw, 16), get_u32(&raw, 20));
    if fd_flags & !O_CLOEXEC != 0
        || flags & !(ADDFD_SETFD | ADDFD_SEND) != 0
        || fd != 0 && flags & ADDFD_SETFD == 0
    {
        return Err(Errno::EINVAL);
    }
    let cloexec = if fd_flags != 0 { ADDFD_CLOEXEC } else { 0 };
    // What only this process has is the server's from now on.
    let index = io.fds.index(file as i32)?;
    Fds::share(io, index)?;
    let file = io.fds.get_open(file as i32)?.description(Errno::EBADF)?;
    let request = op::NoticeAddFd { desc, id, file, fd, flags: flags | cloexec };
    Ok(server::wait(io, request)?.count)
}

/// Has the file that a listener gives (`CALL_ADDS`). Answers its descriptor.
pub fn take(io: &mut Io, reply: &CallReply) -> Result<i32> {
    let desc = reply.value as u32;
    let cloexec = reply.flags & ADDFD_CLOEXEC != 0;
    let at = (reply.flags & ADDFD_SETFD != 0).then_some(reply.error);
    install_given(io, desc, at, cloexec)
}

/// Makes one for the process; `patient`: whose call was told waits. Answers its descriptor, and what `unixd` calls it.
pub fn open(io: &mut Io, patient: bool) -> Result<(i32, u32)> {
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::call(op::HearCalls { patient })?;
    let number = opened.inode as u32;
    Ok((install(io, File::opened(opened, O_RDWR), true)?, number))
}
