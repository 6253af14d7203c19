//! Program memory as system calls see it.
//!
//! Every function makes the bytes resident first, through the process's own fault code, and answers
//! `EFAULT` where the program itself would get a signal. So the library never faults.
//!
//! Slices are good until the next call that changes the address space (mmap and relatives, fork,
//! exec, brk) or that makes other memory resident: use them at once. Bound the length by what will
//! really be moved *before* asking for a slice, since all of it becomes resident.

use super::Mm;
use crate::errno::{Errno, Result};
use crate::process::Process;
use abi::layout::PAGE;
use uvm::{Access, FaultError};

/// Types that any bytes are a value of, without padding.
///
/// # Safety
///
/// All bit patterns are valid, and no byte is padding.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty)*) => { $(
        // SAFETY: an integer.
        unsafe impl Plain for $ty {}
    )* };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 usize isize);
// SAFETY: an array has no padding beyond its elements'.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value from the program.
pub fn copy_in<T: Plain>(p: &mut Process, addr: u64) -> Result<T> {
    let bytes = slice_in(p, addr, size_of::<T>())?;
    // SAFETY: the slice has the size of a `T`, for which any bytes will do.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Writes a value to the program.
pub fn copy_out<T: Plain>(p: &mut Process, addr: u64, value: &T) -> Result<()> {
    let bytes = slice_out(p, addr, size_of::<T>())?;
    // SAFETY: the slice has the size of a `T`.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(*value) };
    Ok(())
}

/// Reads bytes from the program.
pub fn bytes_in(p: &mut Process, addr: u64, to: &mut [u8]) -> Result<()> {
    to.copy_from_slice(slice_in(p, addr, to.len())?);
    Ok(())
}

/// Writes bytes to the program.
pub fn bytes_out(p: &mut Process, addr: u64, from: &[u8]) -> Result<()> {
    slice_out(p, addr, from.len())?.copy_from_slice(from);
    Ok(())
}

/// What a system call answers when memory that it was given cannot be used.
fn errno(error: FaultError) -> Errno {
    match error {
        FaultError::NoMemory => Errno::ENOMEM,
        _ => Errno::EFAULT,
    }
}

/// Makes bytes usable; answers how many are.
#[inline]
fn resident(p: &mut Process, addr: u64, len: usize, access: Access) -> Result<usize> {
    if len == 0 {
        return Ok(0);
    }
    if addr % PAGE + len as u64 <= PAGE && p.mm.space.is_resident(addr, access) {
        return Ok(len);
    }
    make_resident(p, addr, len, access)
}

#[cold]
#[inline(never)]
fn make_resident(p: &mut Process, addr: u64, len: usize, access: Access) -> Result<usize> {
    let Mm { space, caps, .. } = &mut p.mm;
    space.make_resident(caps, addr, len as u64, access).map(|done| done as usize).map_err(errno)
}

/// Bytes of the program that are resident.
fn slice(addr: u64, len: usize) -> &'static [u8] {
    match len {
        0 => &[],
        // SAFETY: the pages are mapped, and stay so until the address space changes (see the
        // module's documentation); the program itself does not run meanwhile.
        _ => unsafe { core::slice::from_raw_parts(addr as *const u8, len) },
    }
}

/// The same, writable.
fn slice_mut(addr: u64, len: usize) -> &'static mut [u8] {
    match len {
        0 => &mut [],
        // SAFETY: as in `slice`; the pages are mapped writable, and a system call uses one slice
        // for writing at a time.
        _ => unsafe { core::slice::from_raw_parts_mut(addr as *mut u8, len) },
    }
}

/// `len` readable bytes of the program.
#[inline]
pub fn slice_in(p: &mut Process, addr: u64, len: usize) -> Result<&'static [u8]> {
    match resident(p, addr, len, Access::Read)? {
        done if done == len => Ok(slice(addr, len)),
        _ => Err(Errno::EFAULT),
    }
}

/// `len` writable bytes of the program.
#[inline]
pub fn slice_out(p: &mut Process, addr: u64, len: usize) -> Result<&'static mut [u8]> {
    match resident(p, addr, len, Access::Write)? {
        done if done == len => Ok(slice_mut(addr, len)),
        _ => Err(Errno::EFAULT),
    }
}

/// As many of `len` bytes as are readable, at least one (unless `len` is 0).
pub fn prefix_in(p: &mut Process, addr: u64, len: usize) -> Result<&'static [u8]> {
    Ok(slice(addr, resident(p, addr, len, Access::Read)?))
}

/// As many of `len` bytes as are writable, at least one (unless `len` is 0).
#[inline]
pub fn prefix_out(p: &mut Process, addr: u64, len: usize) -> Result<&'static mut [u8]> {
    Ok(slice_mut(addr, resident(p, addr, len, Access::Write)?))
}

/// The bytes of a string before its zero byte. `too_long` when there is none in the first `max`.
pub fn cstr(p: &mut Process, addr: u64, max: usize, too_long: Errno) -> Result<&'static [u8]> {
    let mut len = 0;
    while len < max {
        let at = addr.checked_add(len as u64).ok_or(Errno::EFAULT)?;
        let here = ((PAGE - at % PAGE) as usize).min(max - len);
        let bytes = slice_in(p, at, here)?;
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            return Ok(slice(addr, len + end));
        }
        len += here;
    }
    Err(too_long)
}
