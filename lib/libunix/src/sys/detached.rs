//! Mounts by descriptors: `fsopen`, `fsconfig`, `fsmount`, `fspick`, `open_tree`, `move_mount`, `mount_setattr`.

use super::paths::{self, path, Path};
use crate::errno::{Errno, Result};
use crate::fd::{self, File};
use crate::mm::user;
use crate::process::{Files, Io};
use crate::server::{self, op};
use alloc::vec::Vec;
use unixproto::files::*;
use unixproto::ops::Opened;

/// Bytes of a key or a value with the NUL behind.
const TEXT_BYTES: usize = 256;
/// Most bytes of a value that is no text.
const BINARY_BYTES: i32 = 1 << 20;
/// Bytes of the first `struct mount_attr`, and the most of any.
const ATTR_BYTES: usize = 32;
const ATTR_BYTES_MAX: usize = 4096;

fn installed(io: &mut Io, opened: Opened, flags: u32, cloexec: bool) -> Result<u64> {
    Ok(fd::install(io, File::opened(opened, flags), cloexec)? as u64)
}

/// A path that may be empty.
fn perhaps_empty(files: &mut Files, dirfd: i32, name: u64, may_be: bool) -> Result<Path> {
    paths::path_or_empty(files, dirfd, name, if may_be { AT_EMPTY_PATH } else { 0 })
}

/// The description of a descriptor of a file system that is made.
fn making(files: &Files, fd: i32) -> Result<u32> {
    let file = files.fds.get_open(fd)?;
    file.description(Errno::EINVAL)
}

pub fn fsopen(io: &mut Io, name: u64, flags: u32) -> Result<u64> {
    io.fds.check_room(0, io.limits.max_files())?;
    // Who may not mount is told so whatever else is wrong.
    let kind = match flags & !FSOPEN_CLOEXEC {
        0 => user::cstr(&mut io.mm, name, ATTR_BYTES_MAX, Errno::EINVAL),
        _ => Err(Errno::EINVAL),
    };
    let opened = match kind {
        Ok(kind) => server::call_a(op::OpenFs {}, &kind)?,
        Err(wrong) => return Err(refused_first(wrong)),
    };
    installed(io, opened, O_RDWR, flags & FSOPEN_CLOEXEC != 0)
}

/// `EPERM` for who may not mount, or else what is wrong.
fn refused_first(wrong: Errno) -> Errno {
    match server::call_a(op::OpenFs {}, b"") {
        Err(Errno::EPERM) => Errno::EPERM,
        _ => wrong,
    }
}

pub fn fspick(io: &mut Io, dirfd: i32, name: u64, flags: u32) -> Result<u64> {
    let known = FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT | FSPICK_EMPTY_PATH;
    io.fds.check_room(0, io.limits.max_files())?;
    if flags & !known != 0 {
        return Err(refused_first(Errno::EINVAL));
    }
    let may_be = flags & FSPICK_EMPTY_PATH != 0;
    let path = perhaps_empty(&mut io.files(), dirfd, name, may_be).map_err(refused_first)?;
    let mut passed = 0;
    if flags & FSPICK_SYMLINK_NOFOLLOW != 0 {
        passed |= AT_SYMLINK_NOFOLLOW;
    }
    if may_be {
        passed |= AT_EMPTY_PATH;
    }
    let opened = paths::call(op::PickFs { dir: path.dir, flags: passed }, &path)?;
    installed(io, opened, O_RDWR, flags & FSPICK_CLOEXEC != 0)
}

pub fn fsconfig(
    mut files: Files,
    fd: i32,
    command: u32,
    key: u64,
    value: u64,
    aux: i32,
) -> Result<u64> {
    use fsconfig::*;
    let is_well = fd >= 0
        && match command {
            SET_FLAG => key != 0 && value == 0 && aux == 0,
            SET_STRING => key != 0 && value != 0 && aux == 0,
            SET_BINARY => key != 0 && value != 0 && (1..=BINARY_BYTES).contains(&aux),
            SET_PATH | SET_PATH_EMPTY => {
                key != 0 && value != 0 && (aux == paths::AT_FDCWD || aux >= 0)
            }
            SET_FD => key != 0 && value == 0 && aux >= 0,
            CREATE | RECONFIGURE => key == 0 && value == 0 && aux == 0,
            _ => return Err(Errno::EOPNOTSUPP),
        };
    if !is_well {
        return Err(Errno::EINVAL);
    }
    let desc = making(&files, fd)?;
    let key = match key {
        0 => Vec::new(),
        key => user::cstr(files.mm, key, TEXT_BYTES, Errno::EINVAL)?.to_vec(),
    };
    let mut text = Vec::new();
    match command {
        SET_STRING => text = user::cstr(files.mm, value, TEXT_BYTES, Errno::EINVAL)?.to_vec(),
        SET_BINARY => {
            // No option takes one; it is only looked at whether it is there.
            for at in [value, value.saturating_add(aux as u64 - 1)] {
                let _: u8 = user::copy_in(files.mm, at)?;
            }
        }
        SET_PATH => drop(path(&mut files, aux, value)?),
        SET_PATH_EMPTY => drop(perhaps_empty(&mut files, aux, value, true)?),
        SET_FD => drop(files.fds.get_open(aux)?.description(Errno::EINVAL)),
        _ => {}
    }
    server::call_ab(op::ConfigureFs { desc, command }, &key, &text).map(|()| 0)
}

pub fn fsmount(io: &mut Io, fd: i32, flags: u32, attributes: u32) -> Result<u64> {
    io.fds.check_room(0, io.limits.max_files())?;
    if flags & !FSMOUNT_CLOEXEC != 0 {
        return Err(refused_first(Errno::EINVAL));
    }
    // A description that nobody has lets the server say what is wrong besides.
    let desc = making(&io.files(), fd);
    let request = op::MountFs { desc: desc.unwrap_or(u32::MAX), attributes };
    let opened = match (server::call(request), desc) {
        (Err(Errno::EBADF), Err(wrong)) => return Err(wrong),
        (opened, _) => opened?,
    };
    installed(io, opened, O_PATH, flags & FSMOUNT_CLOEXEC != 0)
}

pub fn open_tree(io: &mut Io, dirfd: i32, name: u64, flags: u32) -> Result<u64> {
    let own = OPEN_TREE_CLONE | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    if flags & !(own | AT_NO_AUTOMOUNT | OPEN_TREE_CLOEXEC) != 0
        || flags & (AT_RECURSIVE | OPEN_TREE_CLONE) == AT_RECURSIVE
    {
        return Err(Errno::EINVAL);
    }
    io.fds.check_room(0, io.limits.max_files())?;
    let may_be = flags & AT_EMPTY_PATH != 0;
    let path = perhaps_empty(&mut io.files(), dirfd, name, may_be);
    let path = match (path, flags & OPEN_TREE_CLONE) {
        (Err(wrong), OPEN_TREE_CLONE) => return Err(refused_first(wrong)),
        (path, _) => path?,
    };
    let opened = paths::call(op::OpenTree { dir: path.dir, flags: flags & own }, &path)?;
    installed(io, opened, O_PATH, flags & OPEN_TREE_CLOEXEC != 0)
}

pub fn move_mount(
    mut files: Files,
    from_dir: i32,
    from: u64,
    to_dir: i32,
    to: u64,
    flags: u32,
) -> Result<u64> {
    if flags & (!MOVE_MOUNT__MASK | MOVE_MOUNT_SET_GROUP) != 0 {
        return Err(refused_first(Errno::EINVAL));
    }
    let may_be = |flag| flags & flag != 0;
    let from = perhaps_empty(&mut files, from_dir, from, may_be(MOVE_MOUNT_F_EMPTY_PATH))
        .map_err(refused_first)?;
    let to = perhaps_empty(&mut files, to_dir, to, may_be(MOVE_MOUNT_T_EMPTY_PATH))
        .map_err(refused_first)?;
    let a = server::put_a(&from.text);
    let request = op::MoveMount { from: from.dir, to: to.dir, flags };
    paths::call_second(request, a, &to).map(|()| 0)
}

pub fn mount_setattr(
    mut files: Files,
    dirfd: i32,
    name: u64,
    flags: u32,
    attr: u64,
    bytes: usize,
) -> Result<u64> {
    let known = AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    if flags & !known != 0 || bytes < ATTR_BYTES {
        return Err(Errno::EINVAL);
    }
    if bytes > ATTR_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    let mut raw = alloc::vec![0; bytes];
    if user::read(files.mm, attr, &mut raw).bytes < bytes {
        return Err(refused_first(Errno::EFAULT));
    }
    if raw[ATTR_BYTES..].iter().any(|&byte| byte != 0) {
        return Err(refused_first(Errno::E2BIG));
    }
    let word = |at: usize| {
        raw.get(at..at + 8)
            .map_or(0, |bytes| bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
    };
    let (set, clear, propagation) = (word(0), word(8), word(16));
    // Those whose ids are mapped need a file system that does that, and there is none.
    let narrow = |bits: u64| u32::try_from(bits).map_err(|_| Errno::EINVAL);
    if set == 0 && clear == 0 && propagation == 0 {
        return match refused_first(Errno::EINVAL) {
            Errno::EPERM => Err(Errno::EPERM),
            _ => Ok(0),
        };
    }
    let narrowed = (|| Ok((narrow(set)?, narrow(clear)?, narrow(propagation)?)))();
    let (set, clear, propagation) = narrowed.map_err(refused_first)?;
    let path = perhaps_empty(&mut files, dirfd, name, flags & AT_EMPTY_PATH != 0);
    let path = path.map_err(refused_first)?;
    let flags = flags & !AT_NO_AUTOMOUNT;
    let request = op::SetMount { dir: path.dir, flags, set, clear, propagation };
    paths::call(request, &path).map(|()| 0)
}
