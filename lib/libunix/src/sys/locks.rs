//! Advisory locks. `unixd` keeps them; here arguments are checked as Linux checks them.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use linuxabi::lock::{Flock, FLOCK_BYTES, UNLOCKED};
use unixproto::files::lock;

fn read(mm: &mut Mm, addr: u64) -> Result<Flock> {
    Flock::decode(&user::copy_in::<[u8; FLOCK_BYTES]>(mm, addr)?)
}

/// The word for `unixd`. Kinds have the numbers of `F_RDLCK`, `F_WRLCK` and `F_UNLCK`.
fn how(request: &Flock, more: u32) -> u32 {
    request.ty as u32 | (request.whence as u32) << lock::WHENCE | more
}

/// Locks of descriptions name no process.
fn check_pid(request: &Flock, more: u32) -> Result<()> {
    match more & lock::DESCRIPTION != 0 && request.pid != 0 {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// `F_GETLK`.
pub fn get(files: &mut Files, fd: i32, addr: u64, more: u32) -> Result<u64> {
    let request = read(files.mm, addr)?;
    if request.ty == UNLOCKED {
        return Err(Errno::EINVAL);
    }
    check_pid(&request, more)?;
    let desc = files.fds.get(fd)?.description(Errno::EINVAL)?;
    let Flock { start, len, .. } = request;
    let found = server::call(op::GetLock { desc, how: how(&request, more), start, len })?;
    let answer = match found.kind {
        lock::UNLOCK => Flock { ty: UNLOCKED, ..request },
        kind => {
            Flock { ty: kind as u16, whence: 0, start: found.start, len: found.len, pid: found.pid }
        }
    };
    user::copy_out(files.mm, addr, &answer.encode())?;
    Ok(0)
}

/// `F_SETLK` and `F_SETLKW`.
pub fn set(io: &mut Io, fd: i32, addr: u64, more: u32) -> Result<u64> {
    const READ_LOCK: u16 = 0;
    let request = read(&mut io.mm, addr)?;
    check_pid(&request, more)?;
    let file = io.fds.get(fd)?;
    let allowed = match request.ty {
        UNLOCKED => true,
        READ_LOCK => file.readable(),
        _ => file.writable(),
    };
    if !allowed {
        return Err(Errno::EBADF);
    }
    let desc = file.description(Errno::EINVAL)?;
    let Flock { start, len, .. } = request;
    server::wait(io, op::SetLock { desc, how: how(&request, more), start, len })
        .map_err(restart)?;
    io.fds.has_locks |= more & lock::DESCRIPTION == 0;
    Ok(0)
}

/// `flock`.
pub fn flock(io: &mut Io, fd: i32, operation: u32) -> Result<u64> {
    const NONBLOCK: u32 = 4;
    const MANDATORY: u32 = 32; // ignored, with everything that goes along
    let kind = match operation & !NONBLOCK {
        any if any & MANDATORY != 0 => return Ok(0),
        1 => lock::SHARED,
        2 => lock::EXCLUSIVE,
        8 => lock::UNLOCK,
        _ => return Err(Errno::EINVAL),
    };
    let desc = io.fds.get_open(fd)?.description(Errno::EINVAL)?;
    io.fds.never_keep(fd);
    let wait = if operation & NONBLOCK == 0 { lock::WAIT } else { 0 };
    let request = op::SetLock { desc, how: kind | wait | lock::WHOLE, start: 0, len: 0 };
    server::wait(io, request).map(|()| 0).map_err(restart)
}
