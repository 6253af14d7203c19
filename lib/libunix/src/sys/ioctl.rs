//! `ioctl`.

use super::descriptors;
use crate::errno::{Errno, Result};
use crate::fd::kinds::{with_kind, AnyFile};
use crate::fd::ops::{FileOps, Handle};
use crate::mm::user;
use crate::process::Io;

const FIONBIO: u32 = 0x5421;
const FIOASYNC: u32 = 0x5452;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;

pub fn ioctl(io: &mut Io, fd: i32, command: u32, arg: u64) -> Result<u64> {
    let file = io.fds.get_open(fd)?;
    match command {
        FIOCLEX => return io.fds.set_cloexec(fd, true).map(|()| 0),
        FIONCLEX => return io.fds.set_cloexec(fd, false).map(|()| 0),
        FIONBIO => {
            let on = user::copy_in::<i32>(&mut io.mm, arg)? != 0;
            return descriptors::set_nonblocking(&mut io.fds, fd, on);
        }
        // As `O_ASYNC`, which files of these kinds can have: nobody is told by signals.
        FIOASYNC => {
            let can = matches!(
                file.kind,
                AnyFile::Socket(_) | AnyFile::Pipe(_) | AnyFile::Terminal(_) | AnyFile::Notices(_)
            );
            user::copy_in::<i32>(&mut io.mm, arg)?;
            return if can { Ok(0) } else { Err(Errno::ENOTTY) };
        }
        _ => {}
    }
    let handle = Handle { index: io.fds.index(fd)?, flags: file.flags };
    with_kind!(&file.kind, kind => {
        let kind = kind.handle();
        kind.ioctl(io, handle, command, arg)
    })
}
