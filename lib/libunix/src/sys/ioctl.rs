//! `ioctl`.

use super::descriptors;
use crate::errno::Result;
use crate::fd::kinds::{with_kind, AnyFile};
use crate::fd::ops::{FileOps, Handle};
use crate::mm::user;
use crate::process::Io;

const FIONBIO: u32 = 0x5421;
const FIOASYNC: u32 = 0x5452;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const FIOGETOWN: u32 = 0x8903;
const SIOCGPGRP: u32 = 0x8904;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;

pub fn ioctl(io: &mut Io, fd: i32, command: u32, arg: u64) -> Result<u64> {
    io.fds.never_keep(fd);
    let file = io.fds.get_open(fd)?;
    match command {
        FIOCLEX => return io.fds.set_cloexec(fd, true).map(|()| 0),
        FIONCLEX => return io.fds.set_cloexec(fd, false).map(|()| 0),
        FIONBIO => {
            let on = user::copy_in::<i32>(&mut io.mm, arg)? != 0;
            return descriptors::set_nonblocking(&mut io.fds, fd, on);
        }
        // As `O_ASYNC`, which files of these kinds can have.
        FIOASYNC => {
            let can = matches!(
                file.kind,
                AnyFile::Socket(_) | AnyFile::Pipe(_) | AnyFile::Terminal(_) | AnyFile::Notices(_)
            );
            let on = user::copy_in::<i32>(&mut io.mm, arg)? != 0;
            return descriptors::set_async(&mut io.fds, fd, on, can);
        }
        // As `F_SETOWN` and `F_GETOWN`, of sockets.
        FIOSETOWN | SIOCSPGRP if matches!(file.kind, AnyFile::Socket(_)) => {
            let who = user::copy_in::<i32>(&mut io.mm, arg)?;
            return descriptors::set_owner(io, fd, who);
        }
        FIOGETOWN | SIOCGPGRP if matches!(file.kind, AnyFile::Socket(_)) => {
            let who = descriptors::owner_number(descriptors::owner(io, fd)?) as i32;
            user::copy_out(&mut io.mm, arg, &who)?;
            return Ok(0);
        }
        _ => {}
    }
    let handle = Handle { index: io.fds.index(fd)?, flags: file.flags };
    with_kind!(&file.kind, kind => {
        let kind = kind.handle();
        kind.ioctl(io, handle, command, arg)
    })
}
