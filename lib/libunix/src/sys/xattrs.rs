//! Extended attributes.

use super::paths::{self, open_file, Path, AT_FDCWD};
use crate::errno::{Errno, Result};
use crate::mm::user::{self, Text};
use crate::process::Files;
use crate::server::{self, op, Caps};
use alloc::vec::Vec;
use linuxabi::bytes::{get_u32, get_u64};
use unixproto::files::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use unixproto::session::DATA_BYTES;
use unixproto::Request;

/// Bytes of a name with its NUL.
const NAME_BYTES: usize = 256;
/// Bytes of a value.
const VALUE_MAX: u64 = 65536;
/// How often others may be in the way of a long value.
const TRIES: u32 = 100;

/// A file that a request is about, and how it is named.
struct Target {
    path: Path,
    flags: u32,
}

impl Target {
    fn path(files: &mut Files, name: u64) -> Result<Target> {
        Ok(Target { path: paths::path(files, AT_FDCWD, name)?, flags: 0 })
    }
    fn link(files: &mut Files, name: u64) -> Result<Target> {
        Ok(Target { path: paths::path(files, AT_FDCWD, name)?, flags: AT_SYMLINK_NOFOLLOW })
    }
    fn open(files: &mut Files, fd: i32) -> Result<Target> {
        files.fds.get_open(fd)?;
        let dir = open_file(files.fds, fd).map_err(|_| Errno::EOPNOTSUPP)?;
        Ok(Target { path: Path { dir, text: Text::EMPTY }, flags: AT_EMPTY_PATH })
    }

    /// Relative to a directory, or that itself.
    fn at(files: &mut Files, dir: i32, name: u64, flags: u32) -> Result<Target> {
        if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        let path = paths::path_or_empty(files, dir, name, flags)?;
        match path.text.is_empty() && dir != AT_FDCWD {
            true => Target::open(files, dir),
            false => Ok(Target { flags: paths::effective(flags, &path), path }),
        }
    }

    /// Sends a request about it, with the path and another byte string.
    fn call<R: Request>(&self, request: R, b: &[u8]) -> Result<R::Reply> {
        let a = server::put_a(&self.path.text);
        let put = server::put_b(a, b);
        if put < b.len() {
            return Err(Errno::E2BIG);
        }
        Ok(server::call_caps(request, a, put, Caps::NONE)?.0)
    }
}

fn name_at(files: &mut Files, addr: u64) -> Result<Text> {
    let name = user::cstr(files.mm, addr, NAME_BYTES, Errno::ERANGE)?;
    match name.is_empty() {
        true => Err(Errno::ERANGE),
        false => Ok(name),
    }
}

/// Gives the program what an answer has left in the data area, and what it has more; with a size of 0, only its length.
fn hand_out(files: &mut Files, bytes: u64, to: u64, size: u64) -> Result<u64> {
    if size == 0 {
        return Ok(bytes);
    }
    if size < bytes {
        return Err(Errno::ERANGE);
    }
    let (mut done, mut there) = (0, bytes.min(DATA_BYTES as u64));
    loop {
        user::memory_out(files.mm, to + done, server::data(there as usize))?;
        done += there;
        if done >= bytes || there == 0 {
            return Ok(done);
        }
        there = server::call(op::Rest { offset: done as u32 })?.count.min(bytes - done);
    }
}

/// Does something until nobody else's long value is in its way.
fn undisturbed<R>(mut work: impl FnMut() -> Result<R>) -> Result<R> {
    for _ in 0..TRIES {
        match work() {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::ENOMEM)
}

fn get(mut files: Files, target: Target, name: u64, to: u64, size: u64) -> Result<u64> {
    let name = name_at(&mut files, name)?;
    let Target { path: Path { dir, .. }, flags } = target;
    undisturbed(|| {
        let found = target.call(op::GetXattr { dir, flags }, &name)?;
        hand_out(&mut files, found.count, to, size)
    })
}

fn list(mut files: Files, target: Target, to: u64, size: u64) -> Result<u64> {
    let Target { path: Path { dir, .. }, flags } = target;
    undisturbed(|| {
        let found = target.call(op::ListXattrs { dir, flags }, &[])?;
        hand_out(&mut files, found.count, to, size)
    })
}

fn set(
    mut files: Files,
    target: Target,
    name: u64,
    (value, size): (u64, u64),
    how: u32,
) -> Result<u64> {
    if how & !3 != 0 {
        return Err(Errno::EINVAL);
    }
    let name = name_at(&mut files, name)?;
    if size > VALUE_MAX {
        return Err(Errno::E2BIG);
    }
    let mut both: Vec<u8> = Vec::new();
    let start = name.len() + 1;
    both.try_reserve_exact(start + size as usize).map_err(|_| Errno::ENOMEM)?;
    both.extend_from_slice(&name);
    both.resize(start + size as usize, 0);
    user::bytes_in(files.mm, value, &mut both[start..])?;
    let Target { path: Path { dir, .. }, flags } = target;
    let parts = target.path.text.len() + both.len() > DATA_BYTES;
    undisturbed(|| {
        if parts {
            give(&both[start..])?;
        }
        let b = if parts { &both[..start] } else { &both[..] };
        target.call(op::SetXattr { dir, flags, how, parts }, b)
    })?;
    Ok(0)
}

/// Gives the server a long value in parts.
fn give(value: &[u8]) -> Result<()> {
    let mut offset = 0;
    for part in value.chunks(DATA_BYTES) {
        let a = server::put_a(part);
        server::call_caps(op::Give { offset }, a, 0, Caps::NONE)?;
        offset += part.len() as u32;
    }
    Ok(())
}

fn remove(mut files: Files, target: Target, name: u64) -> Result<u64> {
    let name = name_at(&mut files, name)?;
    let Target { path: Path { dir, .. }, flags } = target;
    target.call(op::RemoveXattr { dir, flags }, &name)?;
    Ok(0)
}

pub fn getxattr(mut files: Files, path: u64, name: u64, to: u64, size: u64) -> Result<u64> {
    let target = Target::path(&mut files, path)?;
    get(files, target, name, to, size)
}

pub fn lgetxattr(mut files: Files, path: u64, name: u64, to: u64, size: u64) -> Result<u64> {
    let target = Target::link(&mut files, path)?;
    get(files, target, name, to, size)
}

pub fn fgetxattr(mut files: Files, fd: i32, name: u64, to: u64, size: u64) -> Result<u64> {
    let target = Target::open(&mut files, fd)?;
    get(files, target, name, to, size)
}

pub fn listxattr(mut files: Files, path: u64, to: u64, size: u64) -> Result<u64> {
    let target = Target::path(&mut files, path)?;
    list(files, target, to, size)
}

pub fn llistxattr(mut files: Files, path: u64, to: u64, size: u64) -> Result<u64> {
    let target = Target::link(&mut files, path)?;
    list(files, target, to, size)
}

pub fn flistxattr(mut files: Files, fd: i32, to: u64, size: u64) -> Result<u64> {
    let target = Target::open(&mut files, fd)?;
    list(files, target, to, size)
}

pub fn setxattr(
    mut files: Files,
    path: u64,
    name: u64,
    value: u64,
    size: u64,
    how: u32,
) -> Result<u64> {
    let target = Target::path(&mut files, path)?;
    set(files, target, name, (value, size), how)
}

pub fn lsetxattr(
    mut files: Files,
    path: u64,
    name: u64,
    value: u64,
    size: u64,
    how: u32,
) -> Result<u64> {
    let target = Target::link(&mut files, path)?;
    set(files, target, name, (value, size), how)
}

pub fn fsetxattr(
    mut files: Files,
    fd: i32,
    name: u64,
    value: u64,
    size: u64,
    how: u32,
) -> Result<u64> {
    let target = Target::open(&mut files, fd)?;
    set(files, target, name, (value, size), how)
}

pub fn removexattr(mut files: Files, path: u64, name: u64) -> Result<u64> {
    let target = Target::path(&mut files, path)?;
    remove(files, target, name)
}

pub fn lremovexattr(mut files: Files, path: u64, name: u64) -> Result<u64> {
    let target = Target::link(&mut files, path)?;
    remove(files, target, name)
}

pub fn fremovexattr(mut files: Files, fd: i32, name: u64) -> Result<u64> {
    let target = Target::open(&mut files, fd)?;
    remove(files, target, name)
}

/// Bytes of `struct xattr_args`, and most that a program may say it has.
const ARGUMENT_BYTES: usize = 16;
const ARGUMENT_MOST: u64 = 4096;

/// Of `struct xattr_args`: where the value is, how many bytes that has, and how it is set.
fn arguments(files: &mut Files, addr: u64, size: u64) -> Result<(u64, u64, u32)> {
    if size < ARGUMENT_BYTES as u64 {
        return Err(Errno::EINVAL);
    }
    if size > ARGUMENT_MOST {
        return Err(Errno::E2BIG);
    }
    let mut bytes = alloc::vec![0; size as usize];
    user::bytes_in(files.mm, addr, &mut bytes)?;
    if bytes[ARGUMENT_BYTES..].iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    Ok((get_u64(&bytes, 0), get_u32(&bytes, 8).into(), get_u32(&bytes, 12)))
}

pub fn setxattrat(
    mut files: Files,
    dir: i32,
    path: u64,
    flags: u32,
    name: u64,
    args: u64,
    size: u64,
) -> Result<u64> {
    let (value, bytes, how) = arguments(&mut files, args, size)?;
    let target = Target::at(&mut files, dir, path, flags)?;
    set(files, target, name, (value, bytes), how)
}

pub fn getxattrat(
    mut files: Files,
    dir: i32,
    path: u64,
    flags: u32,
    name: u64,
    args: u64,
    size: u64,
) -> Result<u64> {
    let (value, bytes, how) = arguments(&mut files, args, size)?;
    if how != 0 {
        return Err(Errno::EINVAL);
    }
    let target = Target::at(&mut files, dir, path, flags)?;
    get(files, target, name, value, bytes)
}

pub fn listxattrat(
    mut files: Files,
    dir: i32,
    path: u64,
    flags: u32,
    to: u64,
    size: u64,
) -> Result<u64> {
    let target = Target::at(&mut files, dir, path, flags)?;
    list(files, target, to, size)
}

pub fn removexattrat(mut files: Files, dir: i32, path: u64, flags: u32, name: u64) -> Result<u64> {
    let target = Target::at(&mut files, dir, path, flags)?;
    remove(files, target, name)
}
