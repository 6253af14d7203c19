//! Path arguments: a string of the program, and the directory that it is relative to.

use crate::errno::{Errno, Result};
use crate::fd::Fds;
use crate::mm::user::{self, Text};
use crate::process::Files;
use crate::server::{self, Caps};
use unixproto::files::{AT_EMPTY_PATH, CWD};
use unixproto::Request;

/// Bytes of a path with its zero byte.
const PATH_MAX: usize = 4096;
/// `AT_FDCWD`.
pub const AT_FDCWD: i32 = -100;

/// Description of the directory argument `dirfd`. It matters only for relative paths.
pub fn directory(fds: &Fds, dirfd: i32) -> Result<u32> {
    if dirfd == AT_FDCWD {
        return Ok(CWD);
    }
    fds.get(dirfd)?.description(Errno::ENOTDIR)
}

/// A path, with the directory to start from.
pub struct Path {
    pub dir: u32,
    pub text: Text,
}

/// The path at `addr`; `ENOENT` when it is empty.
pub fn path(files: &mut Files, dirfd: i32, addr: u64) -> Result<Path> {
    path_or_empty(files, dirfd, addr, 0)
}

/// The path at `addr`, which may be empty if `flags` have `AT_EMPTY_PATH`.
pub fn path_or_empty(files: &mut Files, dirfd: i32, addr: u64, flags: u32) -> Result<Path> {
    let text = user::cstr(files.mm, addr, PATH_MAX, Errno::ENAMETOOLONG)?;
    if text.is_empty() && flags & AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    let dir = if text.first() == Some(&b'/') { CWD } else { directory(files.fds, dirfd)? };
    Ok(Path { dir, text })
}

/// Flags that are left of `flags` when the path is not empty.
pub fn effective(flags: u32, path: &Path) -> u32 {
    if path.text.is_empty() {
        flags
    } else {
        flags & !AT_EMPTY_PATH
    }
}

/// Sends a request about a path.
pub fn call<R: Request>(request: R, path: &Path) -> Result<R::Reply> {
    server::call_a(request, &path.text)
}

/// Sends a request about two paths, of which the first has been copied to the data area with
/// length `a` already.
pub fn call_second<R: Request>(request: R, a: usize, path: &Path) -> Result<R::Reply> {
    let b = server::put_b(a, &path.text);
    Ok(server::call_caps(request, a, b, Caps::NONE)?.0)
}

/// Takes the description of `fd` for a request about an open file.
pub fn open_file(fds: &Fds, fd: i32) -> Result<u32> {
    fds.get(fd)?.description(Errno::EINVAL)
}
