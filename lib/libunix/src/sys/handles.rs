//! File handles: `name_to_handle_at`, `open_by_handle_at`.

use super::paths::{self, directory};
use crate::errno::{Errno, Result};
use crate::fd::{self, File};
use crate::mm::{self, user};
use crate::process::{Files, Io};
use crate::server::{self, op, restart};
use unixproto::files::{Kind, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, CWD, O_CLOEXEC, O_TRUNC};

/// `MAX_HANDLE_SZ`.
const MOST: u32 = 128;
/// Bytes of a handle.
const BYTES: u32 = 12;
/// A description that nobody has.
const NO_DESC: u32 = u32::MAX;
/// Its type (`FILEID_INO32_GEN`): generation, inode number, and the upper half of that.
const TYPE: u32 = 1;
/// That of none (`FILEID_INVALID`).
const NO_TYPE: u32 = 0xff;

pub fn name_to_handle_at(
    mut files: Files,
    dirfd: i32,
    name: u64,
    handle: u64,
    mount: u64,
    flags: u32,
) -> Result<u64> {
    if flags & !(AT_EMPTY_PATH | AT_SYMLINK_FOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = paths::path_or_empty(&mut files, dirfd, name, flags)?;
    let found = paths::call(op::HandleOf { dir: path.dir, flags }, &path)?;
    let room: u32 = user::copy_in(files.mm, handle)?;
    if room > MOST {
        return Err(Errno::EINVAL);
    }
    user::copy_out(files.mm, mount, &(found.mount as u32))?;
    if room < BYTES {
        user::copy_out(files.mm, handle, &[BYTES, NO_TYPE])?;
        return Err(Errno::EOVERFLOW);
    }
    user::copy_out(files.mm, handle, &[BYTES, TYPE])?;
    user::copy_out(files.mm, handle + 8, &[found.generation, found.number, 0])?;
    Ok(0)
}

pub fn open_by_handle_at(io: &mut Io, dirfd: i32, handle: u64, flags: u32) -> Result<u64> {
    let [bytes, _]: [u32; 2] = user::copy_in(&mut io.mm, handle)?;
    if !(1..=MOST).contains(&bytes) {
        return Err(Errno::EINVAL);
    }
    let mut request = op::OpenHandle { dir: CWD, flags, number: 0, generation: 0 };
    if bytes >= BYTES {
        // What else there is of a handle says nothing, nor does its type.
        let [generation, number, high]: [u32; 3] = user::copy_in(&mut io.mm, handle + 8)?;
        if high == 0 {
            (request.number, request.generation) = (number, generation);
        }
    }
    request.dir = directory(&io.fds, dirfd).unwrap_or(NO_DESC);
    io.fds.check_room(0, io.limits.max_files())?;
    let opened = server::wait(io, request).map_err(restart)?;
    if flags & O_TRUNC != 0 && opened.kind == Kind::Regular as u8 {
        mm::truncated(&mut io.mm, opened.inode, 0);
    }
    let file = File::opened(opened, flags);
    Ok(fd::install(io, file, flags & O_CLOEXEC != 0)? as u64)
}
