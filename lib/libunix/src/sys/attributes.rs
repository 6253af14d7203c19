//! What is known of files, and changing it.

use super::paths::{self, open_file, path, path_or_empty, Path, AT_FDCWD};
use crate::errno::{Errno, Result};
use crate::fd::kinds::{with_kind, AnyFile};
use crate::fd::ops::FileOps;
use crate::fd::{glance, known, Fds};
use crate::mm::{self, user, Mm};
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use libos::guarded::Memory;
use linuxabi::bytes::{get_u64, Bytes};
use linuxabi::stat::{statx as to_statx, STATFS_BYTES, STAT_BYTES};
use linuxabi::time::{set_time, SetTime, TIME_BYTES};
use unixproto::files::{
    AT_EACCESS, AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, FILE_SYSTEMS, TIME_NOW,
    TIME_OMIT,
};

const AT_STATX_SYNC_TYPE: u32 = 0x6000;
const STAT_FLAGS: u32 = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT;

/// Leaves `struct stat` of an open file in the data area.
fn stat_open(fds: &Fds, fd: i32) -> Result<Memory> {
    let (index, file) = fds.find(fd)?;
    if let AnyFile::Regular(regular) = &file.kind {
        let inode = regular.inode();
        let place = server::shown_files().stat(inode);
        match place.get(inode) {
            Some(words) => {
                // As `unixd` would, which is not asked: the frame is there.
                let _ = server::data(STAT_BYTES).store(&words);
            }
            None => regular.stat()?,
        }
        if place.is_of(inode) {
            glance::note(regular, fd, index, file);
        }
        return Ok(server::data(STAT_BYTES));
    }
    with_kind!(&file.kind, kind => kind.stat())?;
    Ok(server::data(STAT_BYTES))
}

fn stat_path(path: &Path, flags: u32) -> Result<Memory> {
    let flags = paths::effective(flags, path) & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
    let known = paths::call(op::Stat { dir: path.dir, flags }, path)?;
    known::note((path.dir, &path.text), flags & AT_SYMLINK_NOFOLLOW == 0, known);
    Ok(server::data(STAT_BYTES))
}

/// `struct stat` of what the arguments of a call with `AT_` flags name.
fn stat_any(files: &mut Files, dirfd: i32, name: u64, flags: u32) -> Result<Memory> {
    if flags & AT_EMPTY_PATH != 0 && dirfd >= 0 {
        let empty = name == 0 || user::copy_in::<u8>(files.mm, name)? == 0;
        if empty {
            return stat_open(files.fds, dirfd);
        }
    }
    let path = path_or_empty(files, dirfd, name, flags)?;
    stat_path(&path, flags)
}

pub fn newfstatat(mut files: Files, dirfd: i32, name: u64, buf: u64, flags: u32) -> Result<u64> {
    if flags & !STAT_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let stat = stat_any(&mut files, dirfd, name, flags)?;
    user::memory_out(files.mm, buf, stat)?;
    Ok(0)
}

pub fn stat(files: Files, name: u64, buf: u64) -> Result<u64> {
    newfstatat(files, AT_FDCWD, name, buf, 0)
}

pub fn lstat(files: Files, name: u64, buf: u64) -> Result<u64> {
    newfstatat(files, AT_FDCWD, name, buf, AT_SYMLINK_NOFOLLOW)
}

pub fn fstat(files: Files, fd: i32, buf: u64) -> Result<u64> {
    let stat = stat_open(files.fds, fd)?;
    user::memory_out(files.mm, buf, stat)?;
    Ok(0)
}

pub fn statx(
    mut files: Files,
    dirfd: i32,
    name: u64,
    flags: u32,
    mask: u32,
    buf: u64,
) -> Result<u64> {
    const RESERVED: u32 = 1 << 31;
    if mask & RESERVED != 0
        || flags & !(STAT_FLAGS | AT_STATX_SYNC_TYPE) != 0
        || flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE
    {
        return Err(Errno::EINVAL);
    }
    let stat = stat_any(&mut files, dirfd, name, flags)?;
    let stat: [u8; STAT_BYTES] = stat.load().map_err(|_| Errno::EIO)?;
    user::bytes_out(files.mm, buf, &to_statx(&stat))?;
    Ok(0)
}

pub fn faccessat2(mut files: Files, dirfd: i32, name: u64, mode: u32, flags: u32) -> Result<u64> {
    if mode & !7 != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = path_or_empty(&mut files, dirfd, name, flags)?;
    let flags = paths::effective(flags, &path);
    paths::call(op::Access { dir: path.dir, mode, flags }, &path).map(|()| 0)
}

pub fn faccessat(files: Files, dirfd: i32, name: u64, mode: u32) -> Result<u64> {
    faccessat2(files, dirfd, name, mode, 0)
}

pub fn access(files: Files, name: u64, mode: u32) -> Result<u64> {
    faccessat2(files, AT_FDCWD, name, mode, 0)
}

fn chmod_flags(files: &mut Files, dirfd: i32, name: u64, mode: u32, flags: u32) -> Result<u64> {
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = path_or_empty(files, dirfd, name, flags)?;
    let flags = paths::effective(flags, &path);
    paths::call(op::Chmod { dir: path.dir, mode: mode & 0o7777, flags }, &path).map(|()| 0)
}

pub fn fchmodat2(mut files: Files, dirfd: i32, name: u64, mode: u32, flags: u32) -> Result<u64> {
    chmod_flags(&mut files, dirfd, name, mode, flags)
}

pub fn fchmodat(mut files: Files, dirfd: i32, name: u64, mode: u32) -> Result<u64> {
    chmod_flags(&mut files, dirfd, name, mode, 0)
}

pub fn chmod(mut files: Files, name: u64, mode: u32) -> Result<u64> {
    chmod_flags(&mut files, AT_FDCWD, name, mode, 0)
}

/// The description of `fd` for a call that changes the file behind it.
fn changeable(fds: &Fds, fd: i32) -> Result<u32> {
    fds.get_open(fd)?.description(Errno::EINVAL)
}

pub fn fchmod(fds: &mut Fds, fd: i32, mode: u32) -> Result<u64> {
    let dir = changeable(fds, fd)?;
    server::call(op::Chmod { dir, mode: mode & 0o7777, flags: AT_EMPTY_PATH }).map(|()| 0)
}

pub fn fchownat(
    mut files: Files,
    dirfd: i32,
    name: u64,
    uid: u32,
    gid: u32,
    flags: u32,
) -> Result<u64> {
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = path_or_empty(&mut files, dirfd, name, flags)?;
    let flags = paths::effective(flags, &path);
    paths::call(op::Chown { dir: path.dir, uid, gid, flags }, &path).map(|()| 0)
}

pub fn chown(files: Files, name: u64, uid: u32, gid: u32) -> Result<u64> {
    fchownat(files, AT_FDCWD, name, uid, gid, 0)
}

pub fn lchown(files: Files, name: u64, uid: u32, gid: u32) -> Result<u64> {
    fchownat(files, AT_FDCWD, name, uid, gid, AT_SYMLINK_NOFOLLOW)
}

pub fn fchown(fds: &mut Fds, fd: i32, uid: u32, gid: u32) -> Result<u64> {
    let dir = changeable(fds, fd)?;
    server::call(op::Chown { dir, uid, gid, flags: AT_EMPTY_PATH }).map(|()| 0)
}

fn time_word(time: SetTime) -> i64 {
    match time {
        SetTime::Omit => TIME_OMIT,
        SetTime::Now => TIME_NOW,
        SetTime::At(ns) => ns,
    }
}

fn set_times(
    files: &mut Files,
    dirfd: i32,
    name: u64,
    times: [SetTime; 2],
    flags: u32,
) -> Result<u64> {
    let [atime, mtime] = times.map(time_word);
    if name == 0 && dirfd != AT_FDCWD {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let dir = changeable(files.fds, dirfd)?;
        let request = op::SetTimes { dir, atime, mtime, flags: AT_EMPTY_PATH };
        return server::call(request).map(|()| 0);
    }
    let path = path_or_empty(files, dirfd, name, flags)?;
    let flags = paths::effective(flags, &path);
    paths::call(op::SetTimes { dir: path.dir, atime, mtime, flags }, &path).map(|()| 0)
}

pub fn utimensat(mut files: Files, dirfd: i32, name: u64, times: u64, flags: u32) -> Result<u64> {
    let mut set = [SetTime::Now; 2];
    if times != 0 {
        let raw: [[u8; TIME_BYTES]; 2] = user::copy_in(files.mm, times)?;
        set = [set_time(&raw[0])?, set_time(&raw[1])?];
        if set == [SetTime::Omit; 2] {
            return Ok(0);
        }
    }
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    set_times(&mut files, dirfd, name, set, flags)
}

pub fn futimesat(mut files: Files, dirfd: i32, name: u64, times: u64) -> Result<u64> {
    let mut set = [SetTime::Now; 2];
    if times != 0 {
        let raw: [[i64; 2]; 2] = user::copy_in(files.mm, times)?;
        for (time, [sec, usec]) in set.iter_mut().zip(raw) {
            if !(0..1_000_000).contains(&usec) {
                return Err(Errno::EINVAL);
            }
            *time = SetTime::At(sec.saturating_mul(1_000_000_000).saturating_add(usec * 1000));
        }
    }
    set_times(&mut files, dirfd, name, set, 0)
}

pub fn utimes(files: Files, name: u64, times: u64) -> Result<u64> {
    futimesat(files, AT_FDCWD, name, times)
}

pub fn utime(mut files: Files, name: u64, times: u64) -> Result<u64> {
    let mut set = [SetTime::Now; 2];
    if times != 0 {
        let raw: [i64; 2] = user::copy_in(files.mm, times)?;
        set = raw.map(|sec| SetTime::At(sec.saturating_mul(1_000_000_000)));
    }
    set_times(&mut files, AT_FDCWD, name, set, 0)
}

pub fn truncate(io: &mut Io, name: u64, size: i64) -> Result<u64> {
    if size < 0 {
        return Err(Errno::EINVAL);
    }
    let path = path(&mut io.files(), AT_FDCWD, name)?;
    let request = op::Truncate { dir: path.dir, size: size as u64, flags: 0 };
    // Somebody may have a lease on the file.
    let file = server::wait_filled(io, request, server::put_a(&path.text)).map_err(restart)?;
    mm::truncated(&mut io.mm, file.inode, size as u64);
    Ok(0)
}

pub fn ftruncate(files: Files, fd: i32, size: i64) -> Result<u64> {
    if size < 0 {
        return Err(Errno::EINVAL);
    }
    let file = files.fds.get_open(fd)?;
    if !file.writable() {
        return Err(Errno::EINVAL);
    }
    let truncated = with_kind!(&file.kind, kind => {
        let kind = kind.handle();
        kind.truncate(files.mm, size as u64)
    });
    match truncated {
        // What has no size may be truncated all the same, as its server says.
        Err(Errno::EINVAL) => {
            let dir = file.description(Errno::EINVAL)?;
            let request = op::Truncate { dir, size: size as u64, flags: AT_EMPTY_PATH };
            server::call(request).map(|_| 0)
        }
        truncated => truncated,
    }
}

/// Modes of `fallocate` that some file system has.
use unixproto::files::{FALLOC_FL_KEEP_SIZE as KEEP_SIZE, FALLOC_FL_ZERO_RANGE as ZERO_RANGE};
const PUNCH_HOLE: u32 = unixproto::files::FALLOC_FL_PUNCH_HOLE | KEEP_SIZE;

/// `fallocate`.
pub fn fallocate(fds: &mut Fds, fd: i32, mode: u32, offset: i64, len: i64) -> Result<u64> {
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    let file = fds.get(fd)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    if !matches!(mode, 0 | KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) {
        return Err(Errno::EOPNOTSUPP);
    }
    with_kind!(&file.kind, kind => kind.allocate(mode, offset as u64, len as u64))
}

pub fn statfs(mut files: Files, name: u64, buf: u64) -> Result<u64> {
    let path = path(&mut files, AT_FDCWD, name)?;
    paths::call(op::StatFs { dir: path.dir, flags: 0 }, &path)?;
    user::memory_out(files.mm, buf, server::data(STATFS_BYTES))?;
    Ok(0)
}

/// `ustat`: how much room there is on a device. Only 32 bits of it fit in `f_tfree`, as on Linux.
pub fn ustat(mm: &mut Mm, device: u32, buf: u64) -> Result<u64> {
    const FREE_BLOCKS: usize = 3;
    const FREE_FILES: usize = 6;
    server::call(op::StatDevice { device: device.into() })?;
    let all = server::taken(STATFS_BYTES)?;
    let word = |n: usize| get_u64(&all, 8 * n);
    let shown: [u8; 32] =
        Bytes::default().u32(word(FREE_BLOCKS) as u32).skip(4).u64(word(FREE_FILES)).done();
    user::bytes_out(mm, buf, &shown)?;
    Ok(0)
}

/// Longest name of anything.
const PATH_MOST: usize = 4096;

/// `sysfs`: which kinds of file systems there are, by number and name.
pub fn sysfs(mm: &mut Mm, what: u32, a: u64, b: u64) -> Result<u64> {
    const NUMBER: u32 = 1;
    const NAME: u32 = 2;
    const COUNT: u32 = 3;
    match what {
        NUMBER => {
            let name = user::cstr(mm, a, PATH_MOST, Errno::EINVAL)?;
            let number = FILE_SYSTEMS.iter().position(|(known, _)| known.as_bytes() == &name[..]);
            number.map(|number| number as u64).ok_or(Errno::EINVAL)
        }
        NAME => {
            let (name, _) = FILE_SYSTEMS.get(a as u32 as usize).ok_or(Errno::EINVAL)?;
            user::bytes_out(mm, b, name.as_bytes())?;
            user::copy_out(mm, b.wrapping_add(name.len() as u64), &0u8)?;
            Ok(0)
        }
        COUNT => Ok(FILE_SYSTEMS.len() as u64),
        _ => Err(Errno::EINVAL),
    }
}

pub fn fstatfs(files: Files, fd: i32, buf: u64) -> Result<u64> {
    let dir = open_file(files.fds, fd)?;
    server::call(op::StatFs { dir, flags: AT_EMPTY_PATH })?;
    user::memory_out(files.mm, buf, server::data(STATFS_BYTES))?;
    Ok(0)
}
