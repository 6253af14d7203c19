//! Names: making, removing, renaming, opening.

use super::paths::{self, path, path_or_empty, AT_FDCWD};
use crate::errno::{Errno, Result};
use crate::fd::kinds::own_text;
use crate::fd::known::Short;
use crate::fd::{self, kept, known, Fds, File};
use crate::mm::{self, user, Mm};
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use crate::thread::company;
use core::sync::atomic::Ordering;
use linuxabi::bytes::get_u64;
use unixproto::files as abi;
use unixproto::files::LED;
use unixproto::ops::Known;

/// Flags that `open` knows.
const OPEN_FLAGS: u32 = abi::O_ACCMODE
    | abi::O_CREAT
    | abi::O_EXCL
    | abi::O_NOCTTY
    | abi::O_TRUNC
    | abi::O_APPEND
    | abi::O_NONBLOCK
    | abi::O_DIRECTORY
    | abi::O_NOFOLLOW
    | abi::O_CLOEXEC
    | abi::O_PATH
    | abi::O_DIRECT
    | abi::O_NOATIME
    | abi::O_TMPFILE;

/// The mode of what the process makes.
pub fn masked(mode: u32) -> u32 {
    mode & 0o7777 & !server::umask()
}

pub fn openat(io: &mut Io, dirfd: i32, name: u64, flags: u32, mode: u32) -> Result<u64> {
    open_resolved(io, dirfd, name, (flags & OPEN_FLAGS, mode), 0)
}

fn open_resolved(
    io: &mut Io,
    dirfd: i32,
    name: u64,
    (flags, mode): (u32, u32),
    resolve: u32,
) -> Result<u64> {
    let mut path = path(&mut io.files(), dirfd, name)?;
    if resolve & abi::RESOLVE_IN_ROOT != 0 {
        // Absolute paths begin there, too.
        path.dir = paths::directory(&io.fds, dirfd)?;
    }
    io.fds.check_room(0, io.limits.max_files())?;
    if let Some(text) = own_text::named(io, &path.text, flags).filter(|_| resolve == 0) {
        return own_text::open(io, text, flags);
    }
    let is_plain = kept::is_plain(flags) && resolve == 0 && path.dir == abi::CWD;
    if is_plain && io.fds.kept.is_used() {
        let short = Short::of_bytes(&path.text);
        if let Some(opened) = short.and_then(|short| io.fds.kept.again(&short)) {
            let file = File::opened(opened, flags);
            return Ok(fd::install(io, file, flags & abi::O_CLOEXEC != 0)? as u64);
        }
    }
    let keep = if is_plain { abi::OPEN_KEEP } else { 0 };
    let extra = resolve << abi::RESOLVE_SHIFT | keep;
    let request = op::Open { dir: path.dir, flags, mode: masked(mode), extra };
    // A fifo may wait for its other end.
    let a = server::put_a(&path.text);
    let mut opened = server::wait_filled(io, request, a).map_err(restart)?;
    if opened.kind & LED != 0 {
        opened.kind &= !LED;
        if let Some(short) = Short::of_bytes(&path.text) {
            let mut ways = [0; 8];
            server::take(&mut ways);
            let (inode, ways) = (opened.inode, u64::from_le_bytes(ways));
            known::note_short(&short, true, Known { inode, ways });
            io.fds.kept.opened(&opened, short);
        }
    }
    if flags & abi::O_TRUNC != 0 && opened.kind == abi::Kind::Regular as u8 {
        mm::truncated(&mut io.mm, opened.inode, 0);
    }
    let file = File::opened(opened, flags);
    Ok(fd::install(io, file, flags & abi::O_CLOEXEC != 0)? as u64)
}

pub fn open(io: &mut Io, name: u64, flags: u32, mode: u32) -> Result<u64> {
    openat(io, AT_FDCWD, name, flags, mode)
}

pub fn creat(io: &mut Io, name: u64, mode: u32) -> Result<u64> {
    openat(io, AT_FDCWD, name, abi::O_CREAT | abi::O_WRONLY | abi::O_TRUNC, mode)
}

/// Bytes of `struct open_how`.
const HOW_BYTES: u64 = 24;
/// `RESOLVE_*` that there are.
const RESOLVE: u64 = (abi::RESOLVE_NO_XDEV
    | abi::RESOLVE_NO_MAGICLINKS
    | abi::RESOLVE_NO_SYMLINKS
    | abi::RESOLVE_BENEATH
    | abi::RESOLVE_IN_ROOT
    | abi::RESOLVE_CACHED) as u64;

pub fn openat2(io: &mut Io, dirfd: i32, name: u64, how: u64, size: u64) -> Result<u64> {
    const PAGE: u64 = 4096;
    if size < HOW_BYTES {
        return Err(Errno::EINVAL);
    }
    if size > PAGE {
        return Err(Errno::E2BIG);
    }
    let mut raw = [0; HOW_BYTES as usize];
    user::bytes_in(&mut io.mm, how, &mut raw)?;
    for at in HOW_BYTES..size {
        // What a newer kernel may know.
        if user::copy_in::<u8>(&mut io.mm, how + at)? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    let (flags, mode, resolve) = (get_u64(&raw, 0), get_u64(&raw, 8), get_u64(&raw, 16));
    check_how(flags, mode, resolve)?;
    open_resolved(io, dirfd, name, (flags as u32 & OPEN_FLAGS, mode as u32), resolve as u32)
}

/// What `openat` does not mind is an error of `openat2`.
fn check_how(flags: u64, mode: u64, resolve: u64) -> Result<()> {
    /// `O_LARGEFILE`, `FASYNC`, `O_DSYNC`, `O_SYNC`: known, and nothing here.
    const IGNORED: u64 = 0o100_000 | 0o20_000 | 0o10_000 | 0o4_010_000;
    let has = |bits: u32| flags & u64::from(bits) != 0;
    let unknown = flags & !(u64::from(OPEN_FLAGS) | IGNORED) != 0 || resolve & !RESOLVE != 0;
    let both = u64::from(abi::RESOLVE_BENEATH | abi::RESOLVE_IN_ROOT);
    let makes = has(abi::O_CREAT) || flags & u64::from(abi::O_TMPFILE) == u64::from(abi::O_TMPFILE);
    let path_alone = u64::from(abi::O_DIRECTORY | abi::O_NOFOLLOW | abi::O_PATH | abi::O_CLOEXEC);
    let bad = unknown
        || resolve & both == both
        || mode & !0o7777 != 0
        || mode != 0 && !makes
        || has(abi::O_PATH) && flags & !path_alone != 0
        || has(abi::O_CREAT) && has(abi::O_DIRECTORY);
    if bad {
        return Err(Errno::EINVAL);
    }
    let changes = has(abi::O_TRUNC | abi::O_CREAT)
        || flags & u64::from(abi::O_TMPFILE) == u64::from(abi::O_TMPFILE);
    match resolve & u64::from(abi::RESOLVE_CACHED) != 0 && changes {
        true => Err(Errno::EAGAIN),
        false => Ok(()),
    }
}

pub fn mkdirat(mut files: Files, dirfd: i32, name: u64, mode: u32) -> Result<u64> {
    let path = path(&mut files, dirfd, name)?;
    paths::call(op::Mkdir { dir: path.dir, mode: masked(mode & 0o1777) }, &path).map(|()| 0)
}

pub fn mkdir(files: Files, name: u64, mode: u32) -> Result<u64> {
    mkdirat(files, AT_FDCWD, name, mode)
}

pub fn mknodat(mut files: Files, dirfd: i32, name: u64, mode: u32, dev: u64) -> Result<u64> {
    let ty = match mode & abi::S_IFMT {
        0 => abi::S_IFREG,
        abi::S_IFDIR => return Err(Errno::EPERM),
        ty @ (abi::S_IFREG | abi::S_IFIFO | abi::S_IFCHR | abi::S_IFBLK | abi::S_IFSOCK) => ty,
        _ => return Err(Errno::EINVAL),
    };
    let path = path(&mut files, dirfd, name)?;
    let request = op::Mknod { dir: path.dir, mode: ty | masked(mode), dev };
    paths::call(request, &path).map(|()| 0)
}

pub fn mknod(files: Files, name: u64, mode: u32, dev: u64) -> Result<u64> {
    mknodat(files, AT_FDCWD, name, mode, dev)
}

pub fn unlinkat(mut files: Files, dirfd: i32, name: u64, flags: u32) -> Result<u64> {
    if flags & !abi::AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL);
    }
    let path = path(&mut files, dirfd, name)?;
    paths::call(op::Unlink { dir: path.dir, flags }, &path).map(|()| 0)
}

pub fn unlink(files: Files, name: u64) -> Result<u64> {
    unlinkat(files, AT_FDCWD, name, 0)
}

pub fn rmdir(files: Files, name: u64) -> Result<u64> {
    unlinkat(files, AT_FDCWD, name, abi::AT_REMOVEDIR)
}

pub fn renameat2(
    mut files: Files,
    old_dir: i32,
    old: u64,
    new_dir: i32,
    new: u64,
    flags: u32,
) -> Result<u64> {
    const BOTH: u32 = abi::RENAME_NOREPLACE | abi::RENAME_EXCHANGE;
    if flags & !BOTH != 0 || flags & BOTH == BOTH {
        return Err(Errno::EINVAL);
    }
    let from = path(&mut files, old_dir, old)?;
    let a = server::put_a(&from.text);
    let to = path(&mut files, new_dir, new)?;
    let request = op::Rename { old_dir: from.dir, new_dir: to.dir, flags };
    paths::call_second(request, a, &to).map(|()| 0)
}

pub fn renameat(files: Files, old_dir: i32, old: u64, new_dir: i32, new: u64) -> Result<u64> {
    renameat2(files, old_dir, old, new_dir, new, 0)
}

pub fn rename(files: Files, old: u64, new: u64) -> Result<u64> {
    renameat2(files, AT_FDCWD, old, AT_FDCWD, new, 0)
}

pub fn linkat(
    mut files: Files,
    old_dir: i32,
    old: u64,
    new_dir: i32,
    new: u64,
    flags: u32,
) -> Result<u64> {
    if flags & !(abi::AT_SYMLINK_FOLLOW | abi::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let from = path_or_empty(&mut files, old_dir, old, flags)?;
    let flags = paths::effective(flags, &from);
    let a = server::put_a(&from.text);
    let to = path(&mut files, new_dir, new)?;
    let request = op::Link { old_dir: from.dir, new_dir: to.dir, flags };
    paths::call_second(request, a, &to).map(|()| 0)
}

pub fn link(files: Files, old: u64, new: u64) -> Result<u64> {
    linkat(files, AT_FDCWD, old, AT_FDCWD, new, 0)
}

pub fn symlinkat(mut files: Files, text: u64, dirfd: i32, name: u64) -> Result<u64> {
    let text = path(&mut files, AT_FDCWD, text)?;
    let a = server::put_a(&text.text);
    let to = path(&mut files, dirfd, name)?;
    paths::call_second(op::Symlink { dir: to.dir }, a, &to).map(|()| 0)
}

pub fn symlink(files: Files, text: u64, name: u64) -> Result<u64> {
    symlinkat(files, text, AT_FDCWD, name)
}

pub fn readlinkat(mut files: Files, dirfd: i32, name: u64, buf: u64, size: i32) -> Result<u64> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    let path = path_or_empty(&mut files, dirfd, name, abi::AT_EMPTY_PATH)?;
    let count = paths::call(op::ReadLink { dir: path.dir }, &path)?.count;
    let text = server::data((count as usize).min(size as usize));
    user::memory_out(files.mm, buf, text)?;
    Ok(text.len() as u64)
}

pub fn readlink(files: Files, name: u64, buf: u64, size: i32) -> Result<u64> {
    readlinkat(files, AT_FDCWD, name, buf, size)
}

pub fn chdir(mut files: Files, name: u64) -> Result<u64> {
    let path = path(&mut files, AT_FDCWD, name)?;
    paths::call(op::Chdir { dir: path.dir, flags: 0 }, &path).map(|()| 0)
}

pub fn fchdir(fds: &mut Fds, fd: i32) -> Result<u64> {
    let dir = fds.get(fd)?.description(Errno::ENOTDIR)?;
    server::call(op::Chdir { dir, flags: abi::AT_EMPTY_PATH }).map(|()| 0)
}

pub fn getcwd(mm: &mut Mm, buf: u64, size: u64) -> Result<u64> {
    let count = server::call(op::GetCwd {})?.count as usize;
    let text = server::data(count);
    let with_nul = text.len() as u64 + 1;
    if size < with_nul {
        return Err(Errno::ERANGE);
    }
    user::memory_out(mm, buf, text)?;
    user::copy_out(mm, buf.wrapping_add(text.len() as u64), &0u8)?;
    Ok(with_nul)
}

pub fn umask(_: (), mask: u32) -> u64 {
    let mask = mask & 0o777;
    let (before, is_own) = server::set_umask(mask);
    if !is_own {
        company::each_sharing(|of| of.stands, |header| header.umask.store(mask, Ordering::Relaxed));
    }
    before.into()
}

pub fn memfd_create(io: &mut Io, name: u64, flags: u32) -> Result<u64> {
    const CLOEXEC: u32 = 1;
    const ALLOW_SEALING: u32 = 2;
    const HUGETLB: u32 = 4;
    const NOEXEC_SEAL: u32 = 8;
    const EXEC: u32 = 0x10;
    /// Logarithms of the sizes that Linux has on this processor, and 0 for the usual one.
    const SIZES: [u32; 3] = [0, 21, 30];
    const NAME_MAX: usize = 250;
    let size = flags >> 26;
    let large = flags & HUGETLB != 0;
    let known =
        CLOEXEC | ALLOW_SEALING | NOEXEC_SEAL | EXEC | if large { HUGETLB | 63 << 26 } else { 0 };
    if flags & !known != 0 || flags & (NOEXEC_SEAL | EXEC) == NOEXEC_SEAL | EXEC {
        return Err(Errno::EINVAL);
    }
    let name = user::cstr(&mut io.mm, name, NAME_MAX, Errno::EINVAL)?;
    io.fds.check_room(0, io.limits.max_files())?;
    if large && !SIZES.contains(&size) {
        return Err(Errno::ENODEV);
    }
    let executable = flags & NOEXEC_SEAL == 0;
    let sealable = flags & ALLOW_SEALING != 0 || !executable;
    let opened = server::call_a(op::MemFd { large, sealable, executable }, &name)?;
    Ok(fd::install(io, File::opened(opened, abi::O_RDWR), flags & CLOEXEC != 0)? as u64)
}
