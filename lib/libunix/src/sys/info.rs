//! What the system says of itself, and calls that change nothing.

use crate::beside;
use crate::errno::{Errno, Result};
use crate::fd::Fds;
use crate::mm::{user, Mm};
use crate::process::Own;
use crate::server::{self, op};
use crate::sys::time;
use linuxabi::bytes::Bytes;
use linuxabi::general::{CLONE_FILES, CLONE_FS, CLONE_NEWNS};
use linuxabi::uname::utsname;

pub fn uname(mm: &mut Mm, out: u64) -> Result<u64> {
    const NAMES: usize = 2 * 65;
    let mut names = [0; NAMES];
    let bytes = server::call(op::HostNames {})?.count as usize;
    let names = &mut names[..bytes.min(NAMES)];
    server::take(names);
    let mut both = names.split(|&byte| byte == 0);
    let mut next = || both.next().unwrap_or_default();
    user::bytes_out(mm, out, &utsname(next(), next()))?;
    Ok(0)
}

/// `sethostname` and `setdomainname`.
fn set_name(mm: &mut Mm, addr: u64, bytes: i32, domain: bool) -> Result<u64> {
    const MOST: usize = 64;
    // Who may set none is told so first.
    let bytes = usize::try_from(bytes).unwrap_or(MOST + 1).min(MOST + 1);
    let mut name = [0; MOST + 1];
    if bytes <= MOST {
        user::bytes_in(mm, addr, &mut name[..bytes])?;
    }
    server::call_a(op::SetHostName { domain }, &name[..bytes]).map(|()| 0)
}

pub fn sethostname(mm: &mut Mm, addr: u64, bytes: i32) -> Result<u64> {
    set_name(mm, addr, bytes, false)
}

pub fn setdomainname(mm: &mut Mm, addr: u64, bytes: i32) -> Result<u64> {
    set_name(mm, addr, bytes, true)
}

/// Bytes of `struct sysinfo`.
const SYSINFO_BYTES: usize = 112;

pub fn sysinfo(mm: &mut Mm, out: u64) -> Result<u64> {
    // Up to the number of processes, which has 2 bytes here.
    let mut words = [0; 88];
    server::call(op::SystemInfo {})?;
    server::take(&mut words);
    let (words, processes) = words.split_at(80);
    let processes = u64::from_le_bytes(processes.try_into().unwrap_or_default());
    let info: [u8; SYSINFO_BYTES] = Bytes::default()
        .raw(words)
        .u16(processes.min(u64::from(u16::MAX)) as u16)
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

/// `unshare`: name spaces of its own.
pub fn unshare(mut own: Own<'_>, flags: u32) -> Result<u64> {
    server::call(op::Unshare { flags })?;
    beside::part(&mut own, flags & CLONE_FILES != 0, flags & (CLONE_FS | CLONE_NEWNS) != 0)
        .map(|()| 0)
}

/// `setns`: name spaces of others.
pub fn setns(fds: &mut Fds, fd: i32, kinds: u32) -> Result<u64> {
    let desc = fds.get(fd)?.description(Errno::EINVAL)?;
    server::call(op::EnterSpace { desc, kinds })?;
    time::look_at_space();
    Ok(0)
}

/// Numbers of calls that Linux has no more, or never had.
pub fn never(_: ()) -> Result<u64> {
    Err(Errno::ENOSYS)
}
