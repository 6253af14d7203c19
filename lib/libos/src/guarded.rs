//! Memory that others write, or take away, at any time: program memory as a library sees it, windows on files,
//! frames shared with other domains.
//!
//! No reference to such memory exists: it is named by a [`Memory`], an address and a length, and read and written by
//! the routines at the end of this file, and others in the same section. They are *guarded*: the dispatcher frame names their instructions
//! ([`guard`]), and when one of them faults while the dispatcher is disabled, the kernel lets it go on behind them,
//! with the address and the kind of the fault. So a copy returns how many bytes it has done, and what stopped it.
//! While all is well this costs nothing.
//!
//! What is read twice may differ: whoever checks a value reads it once, and uses what was checked.

use abi::DispatcherFrame;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;

/// Why a guarded access was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address, or 0 if it was no canonical one.
    pub address: u64,
    /// [`abi::dispatcher::guarded_fault`].
    pub code: u64,
}

/// How far a copy has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Progress {
    /// Bytes that were copied.
    pub done: usize,
    /// What stopped it. `None`: everything was copied.
    pub fault: Option<Fault>,
}

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

/// The bytes of a value.
#[inline(always)]
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: all of a `Plain` are bytes without padding.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// The bytes of a value, to be changed.
#[inline(always)]
pub fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: all of a `Plain` are bytes without padding, and any bytes are a value.
    unsafe { core::slice::from_raw_parts_mut((&raw mut *value).cast(), size_of::<T>()) }
}

/// A range of memory that others write, or take away.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    address: u64,
    len: usize,
}

impl Memory {
    /// Nothing.
    pub const EMPTY: Memory = Memory { address: 0, len: 0 };

    /// The range of `len` bytes at `address`.
    ///
    /// # Safety
    ///
    /// For as long as the result or a part of it is used, no reference to anything in the range is, and nothing in
    /// it is relied upon to stay as it is: it is not part of the stack, the heap or the statics of this image.
    #[inline(always)]
    pub const unsafe fn new(address: u64, len: usize) -> Memory {
        Memory { address, len }
    }

    /// The first address.
    #[inline(always)]
    pub const fn address(self) -> u64 {
        self.address
    }
    /// Number of bytes.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len
    }
    /// Returns `true` if there are none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
    /// Returns `true` if the address is one of the range.
    #[inline(always)]
    pub const fn contains(self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.len as u64
    }
    /// The first `len` bytes, or as many as there are.
    #[inline(always)]
    pub fn first(self, len: usize) -> Memory {
        Memory { len: self.len.min(len), ..self }
    }
    /// All but the first `bytes` bytes, or nothing.
    #[inline(always)]
    pub fn skip(self, bytes: usize) -> Memory {
        let bytes = bytes.min(self.len);
        Memory { address: self.address + bytes as u64, len: self.len - bytes }
    }

    /// Copies to the end of `to`, as much as there is.
    ///
    /// # Errors
    ///
    /// There is no memory for the vector.
    pub fn append_to(self, to: &mut Vec<u8>) -> Result<Progress, TryReserveError> {
        to.try_reserve(self.len)?;
        let (old, room) = (to.len(), to.spare_capacity_mut());
        // SAFETY: there is room for as many bytes; the source is guarded.
        let progress = unsafe { copy(room.as_mut_ptr() as u64, self.address, self.len) };
        // SAFETY: so many have been written.
        unsafe { to.set_len(old + progress.done) };
        Ok(progress)
    }

    /// Copies to `to`, as much as both have.
    #[inline]
    pub fn read(self, to: &mut [u8]) -> Progress {
        let len = self.len.min(to.len());
        // SAFETY: the target is a slice of that length; the source is guarded.
        unsafe { copy(to.as_mut_ptr() as u64, self.address, len) }
    }

    /// Copies from `from`, as much as both have.
    #[inline]
    pub fn write(self, from: &[u8]) -> Progress {
        let len = self.len.min(from.len());
        // SAFETY: the source is a slice of that length; the target is guarded, and nobody's by the promise
        // to `new`.
        unsafe { copy(self.address, from.as_ptr() as u64, len) }
    }

    /// Copies from `from`, as much as both have, from the lowest address on. A fault may be of either.
    #[inline]
    pub fn copy_from(self, from: Memory) -> Progress {
        let len = self.len.min(from.len);
        // SAFETY: both are guarded, and the target is nobody's by the promise to `new`.
        unsafe { copy(self.address, from.address, len) }
    }

    /// Fills the range with zeros.
    #[inline]
    pub fn zero(self) -> Progress {
        let (end, address, code): (u64, u64, u64);
        // SAFETY: the range is guarded, and nobody's by the promise to `new`.
        unsafe {
            asm!("call {}", sym libos_guarded_zero, inout("rdi") self.address => end,
                inout("rdx") self.len as u64 => code, out("rax") address, out("rcx") _);
        }
        if code == 0 {
            return Progress { done: self.len, fault: None };
        }
        let done = end.wrapping_sub(self.address) as usize;
        Progress { done, fault: Some(Fault { address, code }) }
    }

    /// Reads a value from the start of the range. What is behind its end is zero.
    #[inline(always)]
    pub fn load<T: Plain>(self) -> Result<T, Fault> {
        if size_of::<T>() == 8 && self.len >= 8 {
            let word = self.load_word()?;
            // SAFETY: a `T` has as many bytes, and any will do.
            return Ok(unsafe { (&raw const word).cast::<T>().read_unaligned() });
        }
        if size_of::<T>() == 4 && self.len >= 4 {
            let word = self.load_half()?;
            // SAFETY: as above.
            return Ok(unsafe { (&raw const word).cast::<T>().read_unaligned() });
        }
        let mut value = MaybeUninit::<T>::uninit();
        if self.len < size_of::<T>() {
            value = MaybeUninit::zeroed();
        }
        // SAFETY: the target has room for as much; the source is guarded.
        let progress =
            unsafe { copy(value.as_mut_ptr() as u64, self.address, self.len.min(size_of::<T>())) };
        match progress.fault {
            // SAFETY: any bytes are a `T`, and all are written.
            None => Ok(unsafe { value.assume_init() }),
            Some(fault) => Err(fault),
        }
    }

    #[inline(always)]
    fn load_word(self) -> Result<u64, Fault> {
        let (word, code): (u64, u64);
        // SAFETY: reads 8 bytes, guarded.
        unsafe {
            asm!("call {}", sym libos_guarded_load_64, in("rdi") self.address, out("rax") word,
                out("rdx") code);
        }
        or_fault(word, word, code)
    }

    #[inline(always)]
    fn load_half(self) -> Result<u32, Fault> {
        let (word, code): (u64, u64);
        // SAFETY: reads 4 bytes, guarded.
        unsafe {
            asm!("call {}", sym libos_guarded_load_32, in("rdi") self.address, out("rax") word,
                out("rdx") code);
        }
        or_fault(word as u32, word, code)
    }

    /// Writes a value to the start of the range, as much of it as there is room for.
    #[inline(always)]
    pub fn store<T: Plain>(self, value: &T) -> Result<(), Fault> {
        if size_of::<T>() == 8 && self.len >= 8 {
            let mut word = 0;
            bytes_of_mut(&mut word).copy_from_slice(bytes_of(value));
            return self.store_word(word);
        }
        self.write(bytes_of(value)).fault.map_or(Ok(()), Err)
    }

    #[inline(always)]
    fn store_word(self, word: u64) -> Result<(), Fault> {
        let (address, code): (u64, u64);
        // SAFETY: changes 8 bytes, guarded, that are nobody's by the promise to `new`.
        unsafe {
            asm!("call {}", sym libos_guarded_store_64, in("rdi") self.address,
                inout("rax") word => address, out("rdx") code);
        }
        or_fault((), address, code)
    }

    /// Replaces the word at the start of the range by `new` if it is `old`. Returns what it was.
    ///
    /// The range has four bytes, and the address is a multiple of that.
    #[inline]
    pub fn compare_exchange(self, old: u32, new: u32) -> Result<u32, Fault> {
        debug_assert!(self.len >= 4 && self.address.is_multiple_of(4));
        let (word, code): (u64, u64);
        // SAFETY: changes 4 bytes, guarded, that are nobody's by the promise to `new`.
        unsafe {
            asm!("call {}", sym libos_guarded_compare_exchange, in("rdi") self.address,
                in("rsi") u64::from(new), inout("rax") u64::from(old) => word, out("rdx") code);
        }
        or_fault(word as u32, word, code)
    }
}

#[inline(always)]
fn or_fault<T>(value: T, address: u64, code: u64) -> Result<T, Fault> {
    match code {
        0 => Ok(value),
        _ => Err(Fault { address, code }),
    }
}

/// Copies bytes, from the lowest address on.
///
/// # Safety
///
/// Both ranges are slices of the caller, or guarded memory.
#[inline(always)]
unsafe fn copy(to: u64, from: u64, len: usize) -> Progress {
    let (end, address, code): (u64, u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("call {}", sym libos_guarded_copy, inout("rdi") to => end, inout("rsi") from => _,
            inout("rdx") len as u64 => code, out("rax") address, out("rcx") _);
    }
    if code == 0 {
        return Progress { done: len, fault: None };
    }
    let done = end.wrapping_sub(to) as usize;
    // SAFETY: what is left of the same ranges.
    unsafe { finish(to, from, done, len, Fault { address, code }) }
}

/// Goes on byte by byte where a copy by words has stopped in the middle of one, up to the byte that cannot be copied.
///
/// # Safety
///
/// As of [`copy`].
#[cold]
unsafe fn finish(to: u64, from: u64, done: usize, len: usize, fault: Fault) -> Progress {
    const WORD: usize = 8;
    let is_exact = [to, from].iter().any(|part| part.wrapping_add(done as u64) == fault.address);
    if is_exact {
        return Progress { done, fault: Some(fault) };
    }
    let bytes = (len - done).min(WORD);
    let (start, end, address, code): (u64, u64, u64, u64);
    start = to.wrapping_add(done as u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("call {}", sym libos_guarded_copy_bytes, inout("rdi") start => end,
            inout("rsi") from.wrapping_add(done as u64) => _, inout("rcx") bytes => _,
            out("rax") address, out("rdx") code);
    }
    let done = done + end.wrapping_sub(start) as usize;
    // If these bytes are there now, whoever goes on will see what about the rest.
    let fault = if code == 0 { fault } else { Fault { address, code } };
    Progress { done, fault: (done < len).then_some(fault) }
}

/// Loads the parts of the vector state that `parts` says from an area of `xsave`. One that the processor refuses is a
/// fault, too.
#[inline(always)]
pub fn load_vectors(from: Memory, parts: u64) -> Result<(), Fault> {
    let (address, code): (u64, u64);
    // SAFETY: reads guarded memory; this image does not use vector registers.
    unsafe {
        asm!("call {}", sym libos_guarded_xrstor, in("rdi") from.address,
            inout("rax") parts & 0xffff_ffff => address, inout("rdx") parts >> 32 => code);
    }
    or_fault((), address, code)
}

/// Loads the vector state from an area of `fxsave`.
#[inline(always)]
pub fn load_legacy_vectors(from: Memory) -> Result<(), Fault> {
    let (address, code): (u64, u64);
    // SAFETY: as above.
    unsafe {
        asm!("call {}", sym libos_guarded_fxrstor, in("rdi") from.address, out("rax") address,
            out("rdx") code);
    }
    or_fault((), address, code)
}

/// Saves the vector state by `fxsave`.
#[inline(always)]
pub fn save_legacy_vectors(to: Memory) -> Result<(), Fault> {
    let (address, code): (u64, u64);
    // SAFETY: writes to guarded memory, as much as the processor has state.
    unsafe {
        asm!("call {}", sym libos_guarded_fxsave, in("rdi") to.address, out("rax") address,
            out("rdx") code);
    }
    or_fault((), address, code)
}

/// Has the kernel guard the code in the section `guarded`, for the dispatcher with this frame.
///
/// # Safety
///
/// `frame` is mapped, and its dispatcher does not run yet, or is the caller.
pub unsafe fn guard(frame: *mut DispatcherFrame) {
    // SAFETY: the caller's promise.
    unsafe {
        (*frame).guarded_low = __start_guarded as *const () as u64;
        (*frame).guarded_high = __stop_guarded as *const () as u64;
        (*frame).guarded_fixup = libos_guarded_fixup as *const () as u64;
    }
}

extern "C" {
    // By the linker: the section.
    fn __start_guarded();
    fn __stop_guarded();
    fn libos_guarded_fixup();
    fn libos_guarded_copy();
    fn libos_guarded_copy_bytes();
    fn libos_guarded_zero();
    fn libos_guarded_load_32();
    fn libos_guarded_load_64();
    fn libos_guarded_store_64();
    fn libos_guarded_compare_exchange();
    fn libos_guarded_fxsave();
    fn libos_guarded_xrstor();
    fn libos_guarded_fxrstor();
}

// All guarded code is in the section `guarded`. Each routine returns `rdx` = 0 when all is done. None pushes anything, so the fixup, which is entered with the fault in
// `rax` and `rdx` (never 0), only returns. How far a copy has come is seen by `rdi`: the processor keeps it up to date.
global_asm!(
    ".section guarded, \"ax\"",
    ".global libos_guarded_fixup, libos_guarded_copy, libos_guarded_copy_bytes",
    ".global libos_guarded_zero, libos_guarded_load_32, libos_guarded_load_64",
    ".global libos_guarded_store_64, libos_guarded_compare_exchange",
    ".global libos_guarded_fxsave",
    ".global libos_guarded_xrstor, libos_guarded_fxrstor",
    ".balign 16",
    // rdi: to, rsi: from, rdx: bytes.
    "libos_guarded_copy:",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "mov ecx, edx",
    "and ecx, 7",
    // rdi: to, rsi: from, rcx: bytes.
    "libos_guarded_copy_bytes:",
    "rep movsb",
    "xor edx, edx",
    "ret",
    // rdi: to, rdx: bytes.
    "libos_guarded_zero:",
    "xor eax, eax",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep stosq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep stosb",
    "xor edx, edx",
    "ret",
    "libos_guarded_load_32:",
    "mov eax, [rdi]",
    "xor edx, edx",
    "ret",
    "libos_guarded_load_64:",
    "mov rax, [rdi]",
    "xor edx, edx",
    "ret",
    "libos_guarded_store_64:",
    "mov [rdi], rax",
    "xor edx, edx",
    "ret",
    // rdi: to, esi: new, eax: old.
    "libos_guarded_compare_exchange:",
    "lock cmpxchg [rdi], esi",
    "xor edx, edx",
    "ret",
    // rdi: area, edx:eax: parts.
    "libos_guarded_fxsave:",
    "fxsave64 [rdi]",
    "xor edx, edx",
    "ret",
    "libos_guarded_xrstor:",
    "xrstor64 [rdi]",
    "xor edx, edx",
    "ret",
    "libos_guarded_fxrstor:",
    "fxrstor64 [rdi]",
    "xor edx, edx",
    "ret",
    ".section .text.guarded_fixup, \"ax\"",
    "libos_guarded_fixup:",
    "ret",
    ".text",
);
