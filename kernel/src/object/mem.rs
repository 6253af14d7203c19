//! Objects in physical memory, seen through the direct map; and memory of programs, seen through ephemeral
//! mappings.
//!
//! What makes the references here sound:
//! * The direct map shows the memory of an object as long as it is one, and a dispatcher's frame as long as a
//!   dispatcher has it ([`arch::show`], [`arch::share`]): no address that comes from a capability to an object is
//!   ever unmapped.
//! * Only the kernel reaches a kernel object (invariant 1: it is never mapped writable), and only
//!   this core's: capabilities to it are in this core's database.
//! * All fields of objects are cells or atomics, so shared references may coexist with changes, and
//!   memory full of zeros is a valid object of every type.
//! * An [`Obj`] is not used after its object was deleted. Within one event of the kernel that is the
//!   duty of `delete`; between events the only ones that stay are the links of dispatchers and
//!   endpoints, which are cut when either is deleted.
//! * User memory (frames) is only read and written by volatile and atomic accesses, or as whole
//!   pages by the architecture.

use super::SlotRef;
use crate::arch::{self, phys_to_virt, virt_to_phys, Maps};
use captypes::CapType;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use ephemeral::{Buf, Ephemeral, Flags, RUN};
use paging::PAGE;

/// A kernel object in memory.
///
/// # Safety
/// All fields are cells or atomics; all-zero memory is valid; no larger than the object that a
/// retype to [`Object::TYPE`] makes, and aligned to at most 4 KiB.
pub unsafe trait Object {
    /// Type of the capabilities to it.
    const TYPE: CapType;
}

/// A reference to an object in physical memory.
#[repr(transparent)]
pub struct Obj<T>(NonNull<T>);

impl<T> Clone for Obj<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Obj<T> {}
impl<T> PartialEq for Obj<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Obj<T> {}

impl<T> core::fmt::Debug for Obj<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.pa())
    }
}

impl<T> Deref for Obj<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: see the head of this file.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Obj<T> {
    /// The pointer.
    #[inline]
    pub fn ptr(self) -> NonNull<T> {
        self.0
    }
    /// The physical address.
    #[inline]
    pub fn pa(self) -> u64 {
        virt_to_phys(self.0.as_ptr())
    }
    /// A reference found in the database, or to a field of an object.
    #[inline]
    pub(crate) fn wrap(at: NonNull<T>) -> Obj<T> {
        Obj(at)
    }
    #[inline]
    pub(super) fn at_pa(pa: u64) -> Obj<T> {
        let at: *mut T = phys_to_virt(pa).cast();
        debug_assert!(!at.is_null() && at.is_aligned());
        // SAFETY: the direct map does not begin at address zero.
        Obj(unsafe { NonNull::new_unchecked(at) })
    }
}

impl<T: Object> Obj<T> {
    /// The object at `pa`, which the caller knows to be one.
    #[inline]
    pub(crate) fn at(pa: u64) -> Obj<T> {
        Obj::at_pa(pa)
    }

    /// The object in which `slot`, one of its own slots, lies. Objects are one page.
    #[inline]
    pub fn around(slot: SlotRef) -> Obj<T> {
        Obj::at_pa(slot.pa() & !(paging::PAGE - 1))
    }
}

/// A word of the frame that the kernel and a dispatcher share, which is in the direct map.
#[derive(Clone, Copy)]
pub struct UserWord(NonNull<AtomicU64>);

impl UserWord {
    /// The word at physical address `pa`, a multiple of 8, in a page that a dispatcher has as its frame.
    #[inline]
    pub fn at(pa: u64) -> UserWord {
        UserWord(Obj::at_pa(pa & !7).0)
    }
    #[inline]
    fn cell(self) -> &'static AtomicU64 {
        // SAFETY: memory of the direct map; atomic accesses may meet those of the program.
        unsafe { self.0.as_ref() }
    }
    /// Its value.
    #[inline]
    pub fn get(self) -> u64 {
        self.cell().load(Ordering::Relaxed)
    }
    /// Writes it.
    #[inline]
    pub fn set(self, value: u64) {
        self.cell().store(value, Ordering::Relaxed);
    }
    /// Sets bits.
    #[inline]
    pub fn or(self, bits: u64) {
        self.cell().fetch_or(bits, Ordering::AcqRel);
    }
    /// Takes the value and leaves zero.
    #[inline]
    pub fn take(self) -> u64 {
        self.cell().swap(0, Ordering::AcqRel)
    }
}

/// An address of a page of memory of programs, until it is dropped.
pub type Seen = Buf<'static, Maps>;

/// A word of a pool: of its allocator, of a table of its objects, or of one of their pages. All cores change them.
pub struct PoolWord {
    seen: Seen,
    offset: usize,
}

impl PoolWord {
    /// The word at physical address `pa`, a multiple of 8.
    #[inline(always)]
    pub fn at(pa: u64) -> PoolWord {
        // Where all memory is seen, its words are, too.
        let seen = if arch::SPARSE { pa & !(PAGE - 1) } else { pa & !7 };
        PoolWord { seen: see_at(seen), offset: (pa - seen) as usize & !7 }
    }
    /// The word.
    #[inline(always)]
    pub fn cell(&self) -> &AtomicU64 {
        let at = (self.seen.address() + self.offset) as *const AtomicU64;
        // SAFETY: in the page that is seen as long as this lives; there are only atomic accesses, and those of programs.
        unsafe { &*at }
    }
    /// Begins to write the line with it back.
    pub fn write_back(&self) {
        // SAFETY: memory that is seen.
        unsafe { arch::write_back_line(self.cell().as_ptr().cast_const().cast()) };
    }
}

/// Sees the page at `pa`, a multiple of 4 KiB.
#[inline(always)]
pub fn see(pa: u64) -> Seen {
    debug_assert!(pa.is_multiple_of(PAGE));
    see_at(pa)
}

#[inline(always)]
fn see_at(pa: u64) -> Seen {
    match arch::maps().alloc(pa, Flags::PRIVATE.with(Flags::NO_WAIT)) {
        Ok(seen) => seen,
        Err(_) => unreachable!("nobody sees more pages at once than there are windows"),
    }
}

/// Fills `[base, base + bytes)`, whole pages without owner, with zeros. In line, as each page fault does so.
#[inline(always)]
pub fn zero(base: u64, bytes: u64) {
    let from = if arch::SPARSE { zero_runs(base, bytes) } else { base };
    for page in (from..base + bytes).step_by(PAGE as usize) {
        // SAFETY: memory without descendants in the database: nobody refers to it.
        unsafe { arch::zero_page(see(page).address() as *mut u8) };
    }
}

/// The same for one page.
#[inline(always)]
pub fn zero_page(pa: u64) {
    // SAFETY: memory of a pool that was taken and that nobody leads to yet.
    unsafe { arch::zero_page(see(pa).address() as *mut u8) };
}

/// The same for as many pages as make whole runs. Returns where the others begin.
#[inline(never)]
fn zero_runs(base: u64, bytes: u64) -> u64 {
    const BYTES: u64 = RUN as u64 * PAGE;
    let end = base + bytes / BYTES * BYTES;
    for first in (base..end).step_by(BYTES as usize) {
        let pages: [u64; RUN] = core::array::from_fn(|n| first + n as u64 * PAGE);
        let Ok(run) = arch::maps().alloc_run(&pages, Flags::PRIVATE.with(Flags::NO_WAIT)) else {
            return first;
        };
        for n in 0..RUN {
            // SAFETY: as in `zero`.
            unsafe { arch::zero_page((run.address() + n * PAGE as usize) as *mut u8) };
        }
    }
    end
}

/// Fills `[base, base + bytes)`, whole pages that are those of an object from now on, with zeros.
#[inline(always)]
pub fn zero_object(base: u64, bytes: u64) {
    arch::show(base, bytes);
    for page in (base..base + bytes).step_by(PAGE as usize) {
        // SAFETY: as in `zero`.
        unsafe { arch::zero_page(phys_to_virt(page)) };
    }
}

/// Copies the 4 KiB at `src`, of a Frame, to `dst`, without owner.
pub fn copy_page(dst: u64, src: u64) {
    let (to, from) = (see(dst), see(src));
    // SAFETY: `dst` has no owner, so it differs from `src` and nobody refers to it.
    unsafe {
        arch::copy::<{ PAGE as usize }>(to.address() as *mut u8, from.address() as *const u8)
    };
}

/// Copies `bytes` bytes of one page of programs to another, or the same, from the lowest address on. Programs may be
/// writing to both.
#[inline]
pub fn copy_bytes(dst: u64, src: u64, bytes: u64) {
    let ((to, to_offset), (from, from_offset)) = (see_byte(dst), see_byte(src));
    debug_assert!(to_offset.max(from_offset) + bytes as usize <= PAGE as usize);
    let target = (to.address() + to_offset) as *mut u8;
    let source = (from.address() + from_offset) as *const u8;
    // SAFETY: memory of programs, to which no reference exists.
    unsafe { arch::copy_bytes(target, source, bytes as usize) };
}

/// Fills bytes of one page of a program with zeros.
pub fn zero_bytes(dst: u64, bytes: u64) {
    let (to, offset) = see_byte(dst);
    debug_assert!(offset + bytes as usize <= PAGE as usize);
    let target = (to.address() + offset) as *mut u8;
    // SAFETY: memory of programs, to which no reference exists.
    unsafe { target.write_bytes(0, bytes as usize) };
}

/// Sees the page with a byte, which is so far from its beginning.
#[inline(always)]
fn see_byte(pa: u64) -> (Seen, usize) {
    let offset = pa % PAGE;
    (see(pa - offset), offset as usize)
}

/// Writes `bytes` to the page-aligned address `pa`, in memory without owner that is shown. While the machine starts.
pub fn write_bytes(pa: u64, bytes: &[u8]) {
    // SAFETY: memory of the direct map without owner; the slice is none of it.
    unsafe { phys_to_virt(pa).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Writes a value to the page-aligned address `pa`, likewise.
pub fn write_value<T: Copy>(pa: u64, value: T) {
    // SAFETY: as above; aligned enough for anything.
    unsafe { phys_to_virt(pa).cast::<T>().write(value) };
}

/// `len` bytes at `pa`, which are never written as long as the kernel runs.
///
/// # Safety
/// Nobody writes there during `'a`, all of it is memory, and shown that long.
pub unsafe fn bytes<'a>(pa: u64, len: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(phys_to_virt(pa), len as usize) }
}

/// A slice of what is zeros to begin with, at the page-aligned address `pa`, for as long as the kernel
/// runs.
///
/// # Safety
/// `len` times a `T` at `pa` are zeros without owner, and nobody else ever refers to them; a `T` of
/// zeros is valid and aligned at pages.
pub unsafe fn slice<T>(pa: u64, len: usize) -> &'static mut [T] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(phys_to_virt(pa).cast(), len) }
}
