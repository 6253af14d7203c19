//! `mount`, `umount`, `chroot`, `pivot_root`.

use super::paths::{self, path, AT_FDCWD};
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Files;
use crate::server::{self, op};
use alloc::vec::Vec;
use unixproto::Request;

/// Bytes of a type's name, a source or options, with a NUL at the end.
const TEXT_BYTES: usize = 4096;
/// Bytes of options that are looked at, so that all texts and a path fit behind each other.
const OPTION_BYTES: usize = 4000;

/// A text that may be missing. `EINVAL`: it is too long.
fn text(files: &mut Files, addr: u64) -> Result<Vec<u8>> {
    match addr {
        0 => Ok(Vec::new()),
        addr => Ok(user::cstr(files.mm, addr, TEXT_BYTES, Errno::EINVAL)?.to_vec()),
    }
}

/// Options: as much of a page as can be read and is no NUL.
fn options(files: &mut Files, addr: u64) -> Result<Vec<u8>> {
    if addr == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = alloc::vec![0; OPTION_BYTES];
    let had = user::read(files.mm, addr, &mut bytes).bytes;
    if had == 0 {
        return Err(Errno::EFAULT);
    }
    let end = bytes[..had].iter().position(|&byte| byte == 0).unwrap_or(had);
    bytes.truncate(end);
    Ok(bytes)
}

pub fn mount(
    mut files: Files,
    source: u64,
    target: u64,
    kind: u64,
    flags: u64,
    data: u64,
) -> Result<u64> {
    let has_kind = kind != 0;
    let kind = text(&mut files, kind)?;
    let source = text(&mut files, source)?;
    let options = options(&mut files, data)?;
    let target = path(&mut files, AT_FDCWD, target)?;
    let a = server::put_a(&[&kind[..], &source[..], &options[..]].join(&0));
    paths::call_second(op::Mount { flags, has_kind }, a, &target).map(|()| 0)
}

pub fn umount(mut files: Files, target: u64, flags: u32) -> Result<u64> {
    let target = path(&mut files, AT_FDCWD, target)?;
    paths::call(op::Unmount { flags }, &target).map(|()| 0)
}

pub fn chroot(mut files: Files, name: u64) -> Result<u64> {
    let path = path(&mut files, AT_FDCWD, name)?;
    paths::call(op::Chroot {}, &path).map(|()| 0)
}

pub fn pivot_root(mut files: Files, new: u64, old: u64) -> Result<u64> {
    let new = path(&mut files, AT_FDCWD, new)?;
    let old = path(&mut files, AT_FDCWD, old)?;
    let a = server::put_a(&new.text);
    paths::call_second(op::PivotRoot {}, a, &old).map(|()| 0)
}

pub fn swapon(files: Files, name: u64, flags: u32) -> Result<u64> {
    about_swap(files, name, op::SwapOn { flags }, &[Errno::EPERM, Errno::EINVAL])
}

pub fn swapoff(files: Files, name: u64) -> Result<u64> {
    about_swap(files, name, op::SwapOff {}, &[Errno::EPERM])
}

/// Asks for something about a disk for pages. `first`: errors that are said before the name is looked at.
fn about_swap<R>(mut files: Files, name: u64, request: R, first: &[Errno]) -> Result<u64>
where
    R: Request<Reply = ()>,
{
    match path(&mut files, AT_FDCWD, name) {
        Ok(path) => paths::call(request, &path).map(|()| 0),
        Err(wrong) => Err(match server::call_a(request, b"") {
            Err(errno) if first.contains(&errno) => errno,
            _ => wrong,
        }),
    }
}
