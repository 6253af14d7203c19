//! What the system says of itself, and calls that change nothing.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::server::{self, op};
use linuxabi::bytes::Bytes;
use linuxabi::uname::utsname;

pub fn uname(mm: &mut Mm, out: u64) -> Result<u64> {
    user::bytes_out(mm, out, &utsname(b"tessera"))?;
    Ok(0)
}

/// Bytes of `struct sysinfo`.
const SYSINFO_BYTES: usize = 112;

pub fn sysinfo(mm: &mut Mm, out: u64) -> Result<u64> {
    let system = server::call(op::SystemInfo {})?;
    let info: [u8; SYSINFO_BYTES] = Bytes::default()
        .u64(system.uptime_ns / 1_000_000_000)
        .u64(system.load)
        .u64(system.load)
        .u64(system.load)
        .u64(system.total)
        .u64(system.free)
        .skip(32)
        .u16(system.processes as u16)
        .skip(22)
        .u32(1)
        .done();
    user::bytes_out(mm, out, &info)?;
    Ok(0)
}

/// `syslog`: there is no kernel log to be seen.
pub fn syslog(_: (), action: u32) -> Result<u64> {
    match action {
        0 | 1 | 5..=8 => Ok(0),
        3 | 4 | 9 | 10 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// What only the administrator of a real machine may do.
pub fn not_permitted(_: ()) -> Result<u64> {
    Err(Errno::EPERM)
}

/// Leaving namespaces: there is one of each kind, so only leaving none works.
pub fn unshare(_: (), flags: u32) -> Result<u64> {
    match flags {
        0 => Ok(0),
        _ => Err(Errno::EPERM),
    }
}

/// Optional parts of a kernel that this one is configured without: programs expect this answer
/// and have another way.
pub fn not_there(_: ()) -> Result<u64> {
    Err(Errno::ENOSYS)
}
