//! Descriptors as such: duplicating, closing, flags, locks, pipes.

use super::locks;
use crate::errno::{Errno, Result};
use crate::fd::kinds::with_kind;
use crate::fd::ops::FileOps;
use crate::fd::{self, Fds};
use crate::mm::{user, userfault};
use crate::process::Io;
use crate::server::{self, op};
use linuxabi::general as raw;
use unixproto::files::{lock, F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID};
use unixproto::files::{DN_MULTISHOT, O_APPEND, O_ASYNC, O_CLOEXEC, O_NONBLOCK, O_PATH};
use unixproto::ops::Owner;

pub fn close(io: &mut Io, fd: i32) -> Result<u64> {
    let result = fd::close(&mut io.fds, fd).map(|()| 0);
    userfault::after_close(io);
    result
}

pub fn close_range(io: &mut Io, first: u32, last: u32, flags: u32) -> Result<u64> {
    const UNSHARE: u32 = 2;
    const CLOEXEC: u32 = 4;
    if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    let Ok(first) = i32::try_from(first) else { return Ok(0) };
    let last = last.min(i32::MAX as u32) as i32;
    if flags & CLOEXEC == 0 {
        fd::close_where(&mut io.fds, first, last, |_, _| true);
        userfault::after_close(io);
        return Ok(0);
    }
    for fd in first..last.saturating_add(1).min(io.fds.end()) {
        // Those that are not open are passed over.
        let _ = io.fds.set_cloexec(fd, true);
    }
    Ok(0)
}

pub fn dup(io: &mut Io, fd: i32) -> Result<u64> {
    fd::duplicate(io, fd, 0, false).map(|fd| fd as u64)
}

pub fn dup2(io: &mut Io, old: i32, new: i32) -> Result<u64> {
    io.fds.get(old)?;
    if old == new {
        return Ok(new as u64);
    }
    replace(io, old, new, false)
}

pub fn dup3(io: &mut Io, old: i32, new: i32, flags: u32) -> Result<u64> {
    if flags & !O_CLOEXEC != 0 || old == new {
        return Err(Errno::EINVAL);
    }
    replace(io, old, new, flags & O_CLOEXEC != 0)
}

/// `new` names the same as `old`, and not what it has named.
fn replace(io: &mut Io, old: i32, new: i32, cloexec: bool) -> Result<u64> {
    let result = fd::duplicate_to(io, old, new, cloexec).map(|fd| fd as u64);
    userfault::after_close(io);
    result
}

pub fn fcntl(io: &mut Io, fd: i32, command: u32, arg: u64) -> Result<u64> {
    let allowed_on_path = matches!(
        command,
        raw::F_DUPFD | raw::F_DUPFD_CLOEXEC | raw::F_GETFD | raw::F_SETFD | raw::F_GETFL
    );
    if !allowed_on_path {
        io.fds.never_keep(fd);
    }
    let file = io.fds.get(fd)?;
    if file.flags & O_PATH != 0 && !allowed_on_path {
        return Err(Errno::EBADF);
    }
    match command {
        raw::F_DUPFD => duplicate(io, fd, arg, false),
        raw::F_DUPFD_CLOEXEC => duplicate(io, fd, arg, true),
        raw::F_GETFD => Ok(io.fds.cloexec(fd)? as u64),
        raw::F_SETFD => io.fds.set_cloexec(fd, arg & 1 != 0).map(|()| 0),
        raw::F_GETFL => get_flags(&mut io.fds, fd),
        raw::F_SETFL => set_flags(&mut io.fds, fd, arg as u32),
        raw::F_GETLK => locks::get(&mut io.files(), fd, arg, 0),
        raw::F_SETLK => locks::set(io, fd, arg, 0),
        raw::F_SETLKW => locks::set(io, fd, arg, lock::WAIT),
        F_OFD_GETLK => locks::get(&mut io.files(), fd, arg, lock::DESCRIPTION),
        F_OFD_SETLK => locks::set(io, fd, arg, lock::DESCRIPTION),
        F_OFD_SETLKW => locks::set(io, fd, arg, lock::DESCRIPTION | lock::WAIT),
        raw::F_GETOWN => Ok(owner_number(owner(io, fd)?)),
        raw::F_SETOWN => set_owner(io, fd, arg as i32),
        F_GETSIG => Ok(owner(io, fd)?.signal.into()),
        F_SETSIG => set_owner_signal(io, fd, arg),
        F_SETOWN_EX => {
            let [kind, id]: [i32; 2] = user::copy_in(&mut io.mm, arg)?;
            let kind = u32::try_from(kind).map_err(|_| Errno::EINVAL)?;
            set_owner_kind(io, fd, kind, id as u32)
        }
        F_GETOWN_EX => {
            let owner = owner(io, fd)?;
            user::copy_out(&mut io.mm, arg, &[owner.kind as i32, owner.id as i32])?;
            Ok(0)
        }
        raw::F_SETLEASE => {
            let kind = (arg as u32).min(lock::UNLOCK + 1);
            let desc = file.description(Errno::EINVAL)?;
            server::call(op::SetLease { desc, kind, fd: fd as u32 }).map(|()| 0)
        }
        raw::F_GETLEASE => match file.description(Errno::EINVAL) {
            Ok(desc) => server::call(op::GetLease { desc }).map(|kind| kind.count),
            Err(_) => Ok(lock::UNLOCK.into()),
        },
        raw::F_NOTIFY => notify(io, fd, arg),
        F_ADD_SEALS => seal(io, fd, Some(arg as u32)).map(|_| 0),
        F_GET_SEALS => seal(io, fd, None),
        F_GETPIPE_SZ => with_kind!(&file.kind, kind => kind.pipe_bytes(0)),
        // The least that there is.
        F_SETPIPE_SZ => with_kind!(&file.kind, kind => kind.pipe_bytes(arg.max(1))),
        _ => Err(Errno::EINVAL),
    }
}

/// `F_NOTIFY`.
fn notify(io: &mut Io, fd: i32, events: u64) -> Result<u64> {
    let is_end = events & !u64::from(DN_MULTISHOT) == 0;
    match io.fds.get(fd)?.server().descriptions() {
        [desc, 0] if desc != 0 => {
            server::call(op::NotifyDir { desc, fd: fd as u32, events })?;
            io.fds.has_notes |= !is_end;
            Ok(0)
        }
        _ if is_end => Ok(0),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Adds seals to a file, and answers those that it has.
fn seal(io: &Io, fd: i32, more: Option<u32>) -> Result<u64> {
    let file = io.fds.get(fd)?;
    let (seals, add) = (more.unwrap_or(0), more.is_some());
    if add && !file.writable() {
        return Err(Errno::EPERM);
    }
    let desc = file.description(Errno::EINVAL)?;
    let sealed = server::call(op::Seal { desc, seals, add });
    // Directories have none either.
    Ok(sealed.map_err(|error| if error == Errno::EISDIR { Errno::EINVAL } else { error })?.count)
}

/// Who is told by signals of a file. Of those that the library keeps alone nobody can be.
pub fn owner(io: &Io, fd: i32) -> Result<Owner> {
    match io.fds.get(fd)?.server().descriptions() {
        [0, 0] => Ok(Owner { kind: F_OWNER_TID, id: 0, signal: 0 }),
        [0, desc] | [desc, _] => server::call(op::GetOwner { desc }),
    }
}

/// As `F_GETOWN` and `FIOGETOWN` tell it: a group by a number below 0.
pub fn owner_number(owner: Owner) -> u64 {
    match owner.kind {
        F_OWNER_PGRP => (-(owner.id as i32)) as i64 as u64,
        _ => owner.id.into(),
    }
}

/// `F_SETOWN`.
pub fn set_owner(io: &mut Io, fd: i32, who: i32) -> Result<u64> {
    match who {
        i32::MIN => Err(Errno::EINVAL),
        _ if who < 0 => set_owner_kind(io, fd, F_OWNER_PGRP, who.unsigned_abs()),
        _ => set_owner_kind(io, fd, F_OWNER_PID, who as u32),
    }
}

fn set_owner_kind(io: &mut Io, fd: i32, kind: u32, id: u32) -> Result<u64> {
    for desc in io.fds.get(fd)?.server().descriptions().into_iter().filter(|desc| *desc != 0) {
        server::call(op::SetOwner { desc, kind, id })?;
    }
    Ok(0)
}

/// `F_SETSIG`.
fn set_owner_signal(io: &mut Io, fd: i32, signal: u64) -> Result<u64> {
    let signal = u32::try_from(signal).ok().filter(|signal| *signal <= 64).ok_or(Errno::EINVAL)?;
    for desc in io.fds.get(fd)?.server().descriptions().into_iter().filter(|desc| *desc != 0) {
        server::call(op::SetOwnerSignal { desc, signal })?;
    }
    Ok(0)
}

const F_SETSIG: u32 = 10;
const F_GETSIG: u32 = 11;
const F_SETOWN_EX: u32 = 15;
const F_GETOWN_EX: u32 = 16;
const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;
const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;

fn duplicate(io: &mut Io, fd: i32, min: u64, cloexec: bool) -> Result<u64> {
    if min >= io.limits.max_files() as u64 {
        return Err(Errno::EINVAL);
    }
    fd::duplicate(io, fd, min as u32, cloexec).map(|fd| fd as u64)
}

/// Flags of an open file, as `F_GETFL` tells them.
pub fn get_flags(fds: &mut Fds, fd: i32) -> Result<u64> {
    let (index, file) = fds.find(fd)?;
    let more = with_kind!(&file.kind, kind => kind.more_flags());
    let (library, desc) = (file.flags, file.description(Errno::EBADF));
    if let Some(flags) = fds.known_flags(index) {
        return Ok((flags | more) as u64);
    }
    let Ok(desc) = desc else { return Ok((library | more) as u64) };
    let flags = server::call(op::GetFlags { desc })?.flags;
    fds.keep_flags(index, Some(flags));
    Ok((flags | more) as u64)
}

fn set_flags(fds: &mut Fds, fd: i32, flags: u32) -> Result<u64> {
    const SETTABLE: u32 = O_APPEND | O_NONBLOCK | O_ASYNC;
    let (index, file) = fds.find(fd)?;
    let descriptions = file.server().descriptions();
    fds.flags_are_set(index, flags);
    for desc in descriptions.into_iter().filter(|desc| *desc != 0) {
        server::call(op::SetFlags { desc, flags: flags & SETTABLE, fd: fd as u32 })?;
    }
    let is_described = matches!(descriptions, [desc, 0] if desc != 0);
    if !is_described {
        let file = fds.get_mut(fd)?;
        file.flags = file.flags & !O_NONBLOCK | flags & O_NONBLOCK;
    }
    Ok(0)
}

/// Sets `O_ASYNC` (`FIOASYNC`), which files of few kinds can have.
pub fn set_async(fds: &mut Fds, fd: i32, on: bool, can: bool) -> Result<u64> {
    let flags = get_flags(fds, fd)? as u32;
    let wanted = if on { flags | O_ASYNC } else { flags & !O_ASYNC };
    match flags == wanted {
        true => Ok(0),
        false if can => set_flags(fds, fd, wanted),
        false => Err(Errno::ENOTTY),
    }
}

/// Sets `O_NONBLOCK` (`FIONBIO`).
pub fn set_nonblocking(fds: &mut Fds, fd: i32, on: bool) -> Result<u64> {
    let flags = get_flags(fds, fd)? as u32 & !O_NONBLOCK;
    set_flags(fds, fd, if on { flags | O_NONBLOCK } else { flags })
}
