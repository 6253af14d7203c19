//! Program memory as system calls see it: addresses and lengths, copied from and to, never referred to.
//!
//! Other threads change it meanwhile, and other processes take pages of it away (`ftruncate`). So every access is
//! guarded ([`libos::guarded`]). One that faults makes the page usable through the process's own fault code and
//! goes on where it stopped; what the map of the address space does not allow is `EFAULT`, as is a page behind
//! the end of a mapped file. Nothing is looked up beforehand: the entries of the page tables allow the library
//! what they allow the program.
//!
//! A value is read once, and what was checked of it is what is used.

use super::{leases, relief, Mm};
use crate::errno::{Errno, Result};
use abi::layout::{PAGE, PROGRAM_END};
use alloc::vec::Vec;
use core::ops::Deref;
use libos::guarded::{bytes_of, bytes_of_mut, Fault, Memory, Progress};
use uvm::{Access, FaultError};

pub use libos::guarded::Plain;

/// Most bytes that are made resident at a time.
const PIECE: u64 = 1 << 20;
/// How often a copy that does not come forward is tried again: others may take away what it makes resident.
const TRIES: u32 = 1000;

/// A copy between program memory and something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Moved {
    /// Bytes that were copied.
    pub bytes: usize,
    /// Why it was not all.
    pub short: Option<Short>,
}

/// Why a copy is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// The program's memory cannot be used from there on.
    Program(Errno),
    /// The other side, memory of a window, has been taken away.
    Window,
}

impl Moved {
    /// Nothing, for want of nothing.
    pub const NOTHING: Moved = Moved { bytes: 0, short: None };

    /// The error, if not all was copied.
    pub fn all(self) -> Result<()> {
        match self.short {
            None => Ok(()),
            Some(short) => Err(short.errno()),
        }
    }
    /// The bytes; the error if there are none but should be.
    pub fn some(self) -> Result<usize> {
        match self.short {
            Some(short) if self.bytes == 0 => Err(short.errno()),
            _ => Ok(self.bytes),
        }
    }
}

impl Short {
    /// What a system call answers that has done nothing.
    pub fn errno(self) -> Errno {
        match self {
            Short::Program(errno) => errno,
            Short::Window => Errno::EIO,
        }
    }
}

/// What a system call answers when memory that it was given cannot be used.
fn errno(error: FaultError) -> Errno {
    match error {
        FaultError::NoMemory => Errno::ENOMEM,
        _ => Errno::EFAULT,
    }
}

/// How many bytes of a range a program can have.
#[inline(always)]
pub fn room(addr: u64, len: usize) -> u64 {
    PROGRAM_END.saturating_sub(addr).min(len as u64)
}

/// As much of the range as a program can have, and whether that is all.
#[inline(always)]
fn range(addr: u64, len: usize) -> (Memory, bool) {
    let room = room(addr, len) as usize;
    // SAFETY: below the library's part of the address space, where nothing of it is.
    (unsafe { Memory::new(addr, room) }, room == len)
}

/// Does `copy`, from the program's point of view an access to the range, until all is done or nothing more can be.
/// It is told how many bytes are done, and does the rest.
#[inline(always)]
fn access(
    mm: &mut Mm,
    addr: u64,
    len: usize,
    how: Access,
    mut copy: impl FnMut(Memory, usize) -> Progress,
) -> Moved {
    let (memory, is_whole) = range(addr, len);
    let progress = copy(memory, 0);
    match progress.fault {
        None if is_whole => Moved { bytes: len, short: None },
        None => Moved { bytes: progress.done, short: Some(Short::Program(Errno::EFAULT)) },
        Some(fault) => go_on(mm, memory, how, (progress.done, fault), is_whole, &mut copy),
    }
}

#[cold]
#[inline(never)]
fn go_on(
    mm: &mut Mm,
    memory: Memory,
    how: Access,
    (mut done, mut fault): (usize, Fault),
    is_whole: bool,
    copy: &mut dyn FnMut(Memory, usize) -> Progress,
) -> Moved {
    let stopped = |bytes, short| Moved { bytes, short: Some(short) };
    let mut tries = TRIES;
    loop {
        if !memory.contains(fault.address) {
            return stopped(done, Short::Window);
        }
        if let Err(errno) = fault_in(mm, memory, fault.address, how) {
            return stopped(done, Short::Program(errno));
        }
        let progress = copy(memory.skip(done), done);
        done += progress.done;
        match progress.fault {
            None if is_whole => return Moved { bytes: done, short: None },
            None => return stopped(done, Short::Program(Errno::EFAULT)),
            Some(next) => fault = next,
        }
        tries = if progress.done > 0 { TRIES } else { tries - 1 };
        if tries == 0 {
            return stopped(done, Short::Program(Errno::EFAULT));
        }
    }
}

/// Makes the page at `at` usable, and what follows of the range as far as that is possible.
fn fault_in(mm: &mut Mm, memory: Memory, at: u64, how: Access) -> Result<()> {
    leases::end_around(mm, at);
    leases::end(mm, memory.address(), memory.len() as u64);
    if let Err(error) = relief::fault(mm, at, how) {
        mm.userfaults.hits(at, how);
        return Err(errno(error));
    }
    let Mm { space, caps, .. } = mm;
    let end = memory.address() + memory.len() as u64;
    let next = (at & !(PAGE - 1)) + PAGE;
    if next < end {
        // What cannot be used is found out when the copy comes there.
        let _ = space.make_resident(caps, next, (end - next).min(PIECE), how);
    }
    Ok(())
}

/// Uses a word of the program as it would. `false`: that is a fault.
pub fn touch(addr: u64, how: Access) -> bool {
    let (word, is_whole) = range(addr & !3, size_of::<u32>());
    let Ok(value) = word.load::<u32>() else { return false };
    // What it has been meanwhile does not matter.
    is_whole && (how != Access::Write || word.compare_exchange(value, value).is_ok())
}

/// Reads from the program as much as there is.
#[inline]
pub fn read(mm: &mut Mm, addr: u64, to: &mut [u8]) -> Moved {
    access(mm, addr, to.len(), Access::Read, |memory, done| memory.read(&mut to[done..]))
}

/// Writes to the program as much as there is room for.
#[inline]
pub fn write(mm: &mut Mm, addr: u64, from: &[u8]) -> Moved {
    access(mm, addr, from.len(), Access::Write, |memory, done| memory.write(&from[done..]))
}

/// Reads from the program to a window, or to memory shared with a server.
#[inline]
pub fn read_to(mm: &mut Mm, addr: u64, to: Memory) -> Moved {
    access(mm, addr, to.len(), Access::Read, |memory, done| to.skip(done).copy_from(memory))
}

/// Writes to the program from a window, or from memory shared with a server.
#[inline]
pub fn write_from(mm: &mut Mm, addr: u64, from: Memory) -> Moved {
    access(mm, addr, from.len(), Access::Write, |memory, done| memory.copy_from(from.skip(done)))
}

/// Fills program memory with zeros.
pub fn zero(mm: &mut Mm, addr: u64, len: usize) -> Moved {
    access(mm, addr, len, Access::Write, |memory, _| memory.zero())
}

/// Reads bytes from the program, all or none.
pub fn bytes_in(mm: &mut Mm, addr: u64, to: &mut [u8]) -> Result<()> {
    read(mm, addr, to).all()
}

/// Reads words from the program, all or none.
pub fn words_in(mm: &mut Mm, addr: u64, to: &mut [u64]) -> Result<()> {
    let bytes = size_of_val(to);
    // SAFETY: the same bytes; any are words.
    let to = unsafe { core::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), bytes) };
    bytes_in(mm, addr, to)
}

/// Writes bytes to the program.
pub fn bytes_out(mm: &mut Mm, addr: u64, from: &[u8]) -> Result<()> {
    write(mm, addr, from).all()
}

/// Writes words to the program.
pub fn words_out(mm: &mut Mm, addr: u64, from: &[u64]) -> Result<()> {
    // SAFETY: the same bytes.
    let from = unsafe { core::slice::from_raw_parts(from.as_ptr().cast(), size_of_val(from)) };
    bytes_out(mm, addr, from)
}

/// Writes bytes to the program, from a window or from memory shared with a server.
pub fn memory_out(mm: &mut Mm, addr: u64, from: Memory) -> Result<()> {
    write_from(mm, addr, from).all()
}

/// Reads a value from the program.
#[inline]
pub fn copy_in<T: Plain>(mm: &mut Mm, addr: u64) -> Result<T> {
    let (memory, is_whole) = range(addr, size_of::<T>());
    match memory.load() {
        Ok(value) if is_whole => Ok(value),
        _ => copy_in_slowly(mm, addr),
    }
}

#[cold]
#[inline(never)]
fn copy_in_slowly<T: Plain>(mm: &mut Mm, addr: u64) -> Result<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: zeros are a `T`.
    let value = unsafe { value.assume_init_mut() };
    bytes_in(mm, addr, bytes_of_mut(value))?;
    Ok(*value)
}

/// Writes a value to the program.
#[inline]
pub fn copy_out<T: Plain>(mm: &mut Mm, addr: u64, value: &T) -> Result<()> {
    let (memory, is_whole) = range(addr, size_of::<T>());
    match is_whole.then(|| memory.store(value)) {
        Some(Ok(())) => Ok(()),
        _ => bytes_out(mm, addr, bytes_of(value)),
    }
}

/// Reads a value from the program, if that is possible without making anything usable.
#[inline]
pub fn load<T: Plain>(addr: u64) -> Option<T> {
    let (memory, is_whole) = range(addr, size_of::<T>());
    is_whole.then(|| memory.load().ok())?
}

/// Fills memory of the program from a window, if that is possible without making anything usable.
#[inline]
pub fn fill(addr: u64, from: Memory) -> Option<()> {
    let (memory, is_whole) = range(addr, from.len());
    (is_whole && memory.copy_from(from).fault.is_none()).then_some(())
}

/// Copies memory of the program to a window, if that is possible without making anything usable.
#[inline]
pub fn spill(addr: u64, to: Memory) -> Option<()> {
    let (memory, is_whole) = range(addr, to.len());
    (is_whole && to.copy_from(memory).fault.is_none()).then_some(())
}

/// Writes a value to the program, if that is possible without making anything usable.
#[inline]
pub fn store<T: Plain>(addr: u64, value: &T) -> Option<()> {
    let (memory, is_whole) = range(addr, size_of::<T>());
    is_whole.then(|| memory.store(value).ok())?
}

/// Replaces the word at `addr`, a multiple of four, by `new` if it is `old`. Returns what it was.
pub fn compare_exchange(mm: &mut Mm, addr: u64, old: u32, new: u32) -> Result<u32> {
    let mut before = old;
    whole(mm, addr, size_of::<u32>(), Access::Write, |memory| {
        before = memory.compare_exchange(old, new)?;
        Ok(())
    })?;
    Ok(before)
}

/// Does an access to program memory that is done as a whole or begun anew, such as one by an instruction.
#[inline(always)]
pub fn whole(
    mm: &mut Mm,
    addr: u64,
    len: usize,
    how: Access,
    mut copy: impl FnMut(Memory) -> core::result::Result<(), Fault>,
) -> Result<()> {
    let (memory, is_whole) = range(addr, len);
    if !is_whole {
        return Err(Errno::EFAULT);
    }
    match copy(memory) {
        Ok(()) => Ok(()),
        Err(fault) => whole_again(mm, memory, how, fault, &mut copy),
    }
}

#[cold]
#[inline(never)]
fn whole_again(
    mm: &mut Mm,
    memory: Memory,
    how: Access,
    fault: Fault,
    copy: &mut dyn FnMut(Memory) -> core::result::Result<(), Fault>,
) -> Result<()> {
    let mut again = |_, _| match copy(memory) {
        Ok(()) => Progress { done: memory.len(), fault: None },
        Err(fault) => Progress { done: 0, fault: Some(fault) },
    };
    match go_on(mm, memory, how, (0, fault), true, &mut again).short {
        None => Ok(()),
        Some(Short::Program(errno)) => Err(errno),
        // A fault that is at no address of the range: what is there is refused.
        Some(Short::Window) => Err(Errno::EFAULT),
    }
}

/// Makes bytes writable before something is done that cannot be undone. Returns how many are, at least one unless
/// `len` is 0.
///
/// Others may take them away again: then the copy that follows is short.
#[inline]
pub fn writable(mm: &mut Mm, addr: u64, len: usize) -> Result<usize> {
    resident(mm, addr, len, Access::Write)
}

/// The same for bytes that are to be read.
#[inline]
pub fn readable(mm: &mut Mm, addr: u64, len: usize) -> Result<usize> {
    resident(mm, addr, len, Access::Read)
}

/// `EFAULT` unless all bytes are writable.
pub fn check_writable(mm: &mut Mm, addr: u64, len: usize) -> Result<()> {
    match writable(mm, addr, len)? {
        done if done == len => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

#[inline(always)]
fn resident(mm: &mut Mm, addr: u64, len: usize, access: Access) -> Result<usize> {
    if len == 0 {
        return Ok(0);
    }
    if addr % PAGE + len as u64 <= PAGE && mm.space.is_resident(addr, access) {
        return Ok(len);
    }
    make_resident(mm, addr, len, access)
}

#[cold]
#[inline(never)]
fn make_resident(mm: &mut Mm, addr: u64, len: usize, access: Access) -> Result<usize> {
    leases::end_around(mm, addr);
    leases::end(mm, addr, len as u64);
    let Mm { space, caps, .. } = &mut *mm;
    let result = space.make_resident(caps, addr, len as u64, access);
    let done = result.unwrap_or(0);
    if done < len as u64 {
        mm.userfaults.hits(addr + done, access);
    }
    result.map(|done| done as usize).map_err(errno)
}

/// Bytes that a [`Text`] has room for without the heap.
const SHORT_TEXT: usize = 64;

/// A string that was read from the program. Dereferences to its bytes, without the zero byte.
pub struct Text {
    bytes: [u8; SHORT_TEXT],
    len: usize,
    /// All bytes, if there are more.
    long: Vec<u8>,
}

impl Text {
    /// None.
    pub const EMPTY: Text = Text { bytes: [0; SHORT_TEXT], len: 0, long: Vec::new() };
}

impl Deref for Text {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        if self.long.is_empty() {
            &self.bytes[..self.len]
        } else {
            &self.long
        }
    }
}

/// The bytes in front of the first zero.
fn before_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit that is set is in the first byte that is zero; others may be behind it.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(8 * n + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte == 0).map(|at| 8 * words.len() + at)
}

/// The bytes of a string before its zero byte. `too_long` when there is none in the first `max`.
#[inline]
pub fn cstr(mm: &mut Mm, addr: u64, max: usize, too_long: Errno) -> Result<Text> {
    let mut text = Text { bytes: [0; SHORT_TEXT], len: 0, long: Vec::new() };
    let in_page = (PAGE - addr % PAGE) as usize;
    let here = SHORT_TEXT.min(in_page).min(max);
    read(mm, addr, &mut text.bytes[..here]).all()?;
    if let Some(end) = before_zero(&text.bytes[..here]) {
        text.len = end;
        return Ok(text);
    }
    long_cstr(mm, addr, max, too_long, &text.bytes[..here])
}

#[cold]
fn long_cstr(mm: &mut Mm, addr: u64, max: usize, too_long: Errno, start: &[u8]) -> Result<Text> {
    let mut long = start.to_vec();
    while long.len() < max {
        let at = addr.checked_add(long.len() as u64).ok_or(Errno::EFAULT)?;
        let old = long.len();
        // Twice as much each time.
        let here = ((PAGE - at % PAGE) as usize).min(max - old).min(old);
        long.try_reserve(here).map_err(|_| Errno::ENOMEM)?;
        long.resize(old + here, 0);
        read(mm, at, &mut long[old..]).all()?;
        if let Some(end) = before_zero(&long[old..]) {
            long.truncate(old + end);
            // One that is empty is short.
            return Ok(Text { bytes: [0; SHORT_TEXT], len: 0, long });
        }
    }
    Err(too_long)
}
