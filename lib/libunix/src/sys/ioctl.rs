//! `ioctl`.

use super::descriptors;
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Process;
use crate::server::{self, op, restart};
use unixproto::files::Kind;
use unixproto::session::DATA_BYTES;
use unixproto::tty;

const FIONBIO: u32 = 0x5421;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;

pub fn ioctl(p: &mut Process, fd: i32, command: u32, arg: u64) -> Result<u64> {
    let file = p.fds.get_open(fd)?;
    match command {
        FIOCLEX => return p.fds.set_cloexec(fd, true).map(|()| 0),
        FIONCLEX => return p.fds.set_cloexec(fd, false).map(|()| 0),
        FIONBIO => {
            let on = user::copy_in::<i32>(p, arg)? != 0;
            return descriptors::set_nonblocking(p, fd, on);
        }
        _ => {}
    }
    let (desc, kind, _) = file.description(Errno::ENOTTY)?;
    let talks = match kind {
        Kind::Tty => true,
        Kind::Pipe | Kind::Stream | Kind::Regular => command == tty::FIONREAD,
        _ => false,
    };
    let shape = tty::shape(command).filter(|_| talks).ok_or(Errno::ENOTTY)?;
    if shape.output > 0 {
        user::check_writable(p, arg, shape.output)?;
    }
    let mut a = 0;
    if shape.input > 0 {
        a = shape.input.min(DATA_BYTES);
        user::read_to(p, arg, server::data(a)).all()?;
    }
    let request = op::Ioctl { desc, command, value: arg };
    server::wait_filled(p, request, a).map_err(restart)?;
    if shape.output > 0 {
        user::memory_out(p, arg, server::data(shape.output))?;
    }
    Ok(0)
}
