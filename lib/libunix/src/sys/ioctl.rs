//! `ioctl`.

use super::descriptors;
use crate::errno::Result;
use crate::fd::kinds::with_kind;
use crate::fd::ops::{FileOps, Handle};
use crate::mm::user;
use crate::process::Process;

const FIONBIO: u32 = 0x5421;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;

pub fn ioctl(p: &mut Process, fd: i32, command: u32, arg: u64) -> Result<u64> {
    let file = p.fds.get_open(fd)?;
    match command {
        FIOCLEX => return p.fds.set_cloexec(fd, true).map(|()| 0),
        FIONCLEX => return p.fds.set_cloexec(fd, false).map(|()| 0),
        FIONBIO => {
            let on = user::copy_in::<i32>(&mut p.mm, arg)? != 0;
            return descriptors::set_nonblocking(&mut p.fds, fd, on);
        }
        _ => {}
    }
    let handle = Handle { index: p.fds.index(fd)?, flags: file.flags };
    with_kind!(&file.kind, kind => {
        let kind = kind.handle();
        kind.ioctl(p, handle, command, arg)
    })
}
