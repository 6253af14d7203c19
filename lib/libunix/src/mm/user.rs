//! Program memory as system calls see it.
//!
//! Every function makes the bytes resident first, through the process's own fault code, and answers
//! `EFAULT` where the program itself would get a signal. So the library never faults.
//!
//! Slices are good until the next call that changes the address space (mmap and relatives, fork,
//! exec, brk) or that makes other memory resident: use them at once. Bound the length by what will
//! really be moved *before* asking for a slice, since all of it becomes resident.

use crate::errno::{Errno, Result};
use crate::process::Process;

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

/// `len` readable bytes of the program.
pub fn slice_in(_p: &mut Process, _addr: u64, _len: usize) -> Result<&'static [u8]> {
    Err(Errno::EFAULT)
}

/// `len` writable bytes of the program.
pub fn slice_out(_p: &mut Process, _addr: u64, _len: usize) -> Result<&'static mut [u8]> {
    Err(Errno::EFAULT)
}

/// As many of `len` bytes as are readable, at least one (unless `len` is 0).
pub fn prefix_in(_p: &mut Process, _addr: u64, _len: usize) -> Result<&'static [u8]> {
    Err(Errno::EFAULT)
}

/// As many of `len` bytes as are writable, at least one (unless `len` is 0).
pub fn prefix_out(_p: &mut Process, _addr: u64, _len: usize) -> Result<&'static mut [u8]> {
    Err(Errno::EFAULT)
}

/// The bytes of a string before its zero byte. `too_long` when there is none in the first `max`.
pub fn cstr(_p: &mut Process, _addr: u64, _max: usize, too_long: Errno) -> Result<&'static [u8]> {
    Err(too_long)
}
