//! `signalfd`: signals that are read instead of handled.
//!
//! A description is a set of signals, and `unixd` has it from the start: what is ready depends on who looks, and
//! processes that share it look for themselves. The signals are in the header of the session, where the library takes
//! them, as it does for handlers.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{unnamed_stat, FileOps, Handle, Server};
use crate::fd::watch::Look;
use crate::fd::{install, Fds, File};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op, restart};
use crate::signal::{calls::check_size, dequeue};
use linuxabi::bytes::Bytes;
use unixproto::files::{Kind, FOREVER, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use unixproto::ops::Opened;
use unixproto::signals::{has_codes, SigInfo, POLL_HUP, POLL_IN, SIGCHLD, SI_SIGIO, SI_TIMER};

/// A `signalfd`.
#[derive(Clone, Copy)]
pub struct Signals {
    desc: u32,
}

/// Bytes of `struct signalfd_siginfo`.
const INFO_BYTES: usize = 128;

/// A signal as it is read. Only what its kind of sender says of it is not zero.
fn to_bytes(signal: u32, info: SigInfo) -> [u8; INFO_BYTES] {
    let SigInfo { code, pid, uid, status, value } = info;
    let status = if signal == SIGCHLD && code > 0 { status } else { 0 };
    // Of a file: the band is where others have who has sent it, and the descriptor where they have a value.
    let is_of_file =
        code == SI_SIGIO || (POLL_IN..=POLL_HUP).contains(&code) && !has_codes(signal);
    // Of a timer: its number, and how often more it had expired.
    let (who, file, timer) = match () {
        () if is_of_file => ([0; 2], [value as u32, pid], [0; 2]),
        () if code == SI_TIMER => ([0; 2], [0; 2], [pid, uid]),
        () => ([pid, uid], [0; 2], [0; 2]),
    };
    let value = if code < 0 && !is_of_file { value } else { 0 };
    let head = Bytes::default().u32(signal).skip(4).u32(code as u32).u32(who[0]).u32(who[1]);
    // Behind them the trap.
    let head = head.u32(file[0]).u32(timer[0]).u32(file[1]).u32(timer[1]).skip(4);
    head.u32(status as u32).u32(value as u32).u64(value).done()
}

impl FileOps for Signals {
    const SERVED: Option<Kind> = Some(Kind::Signals);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Signals> {
        Some(Signals { desc: opened.desc })
    }

    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }

    /// Reads as many as there are and have room. One for which there is no room stays pending.
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        if to.left() < INFO_BYTES as u64 {
            return Err(Errno::EINVAL);
        }
        let mut total = 0;
        while total == 0 {
            let request = op::SigWait { desc: self.desc, set: 0, ns: FOREVER };
            let set = server::wait(io, request).map_err(restart)?.set;
            while to.left() >= INFO_BYTES as u64 {
                let room = to.writable(&mut io.mm, INFO_BYTES as u64).unwrap_or(0);
                if room < INFO_BYTES as u64 {
                    return if total > 0 { Ok(total) } else { Err(Errno::EFAULT) };
                }
                // Another thread may have been faster.
                let Some((signal, info)) = dequeue(set) else { break };
                total += to.scatter(&mut io.mm, &to_bytes(signal, info)).some()? as u64;
            }
        }
        Ok(total)
    }

    fn seek(&self, _fds: &mut Fds, _: Handle, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
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

    /// That a signal has come is told; whether it is there still is asked.
    fn ready(&self, look: &Look) -> Option<u16> {
        look.told()
    }
}

pub fn signalfd4(io: &mut Io, fd: i32, mask: u64, size: u64, flags: u32) -> Result<u64> {
    const NEW: i32 = -1;
    check_size(size)?;
    let set: u64 = user::copy_in(&mut io.mm, mask)?;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if fd != NEW {
        io.fds.get_open(fd)?;
        let Signals { desc } = io.fds.of_kind(fd)?;
        server::call(op::SetSignals { desc, set })?;
        return Ok(fd as u64);
    }
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::call(op::Signals { set, flags: flags & O_NONBLOCK })?;
    let file = File::opened(opened, O_RDWR | flags & O_NONBLOCK);
    Ok(install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

pub fn signalfd(io: &mut Io, fd: i32, mask: u64, size: u64) -> Result<u64> {
    signalfd4(io, fd, mask, size, 0)
}
