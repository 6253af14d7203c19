//! Clearing and copying whole pages, with few instructions.
//!
//! The widest vector register is used, unrolled over the whole page: clearing takes 64, 128 or 256
//! stores. (`rep stosb` would be one instruction on real processors; where it is not microcoded
//! well, and in emulators, it is one per byte.) The program's vector state is live in the registers
//! at this time, so the one that is used is put back. A vector instruction clears the part of its
//! register beyond its own width: that is why only the widest will do.

use super::fpu::Width;
use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};
use paging::PAGE;

static WIDTH: AtomicU8 = AtomicU8::new(Width::Bytes16 as u8);
const BYTES_32: u8 = Width::Bytes32 as u8;
const BYTES_64: u8 = Width::Bytes64 as u8;

/// Says which registers there are. Equal on all cores.
pub fn init(width: Width) {
    WIDTH.store(width as u8, Ordering::Relaxed);
}

/// Where a vector register waits.
#[repr(C, align(64))]
struct Saved([u8; 64]);

/// Fills the page at `to` using register `$register`, whose width is `$bytes`.
macro_rules! zero_with {
    ($to:expr, $move:literal, $store:literal, $clear:literal, $register:literal, $bytes:literal) => {{
        let mut saved = core::mem::MaybeUninit::<Saved>::uninit();
        asm!(
            concat!($move, " [{saved}], ", $register),
            $clear,
            ".set page_at, 0",
            concat!(".rept 4096 / ", $bytes),
            concat!($store, " [{to} + page_at], ", $register),
            concat!(".set page_at, page_at + ", $bytes),
            ".endr",
            concat!($move, " ", $register, ", [{saved}]"),
            saved = in(reg) saved.as_mut_ptr(),
            to = in(reg) $to,
            options(nostack, preserves_flags),
        );
    }};
}

/// Copies the `$total` bytes at `from` over those at `to`, likewise.
macro_rules! copy_with {
    ($to:expr, $from:expr, $total:expr, $move:literal, $register:literal, $bytes:literal) => {{
        let mut saved = core::mem::MaybeUninit::<Saved>::uninit();
        asm!(
            concat!($move, " [{saved}], ", $register),
            ".set page_at, 0",
            concat!(".rept {total} / ", $bytes),
            concat!($move, " ", $register, ", [{from} + page_at]"),
            concat!($move, " [{to} + page_at], ", $register),
            concat!(".set page_at, page_at + ", $bytes),
            ".endr",
            concat!($move, " ", $register, ", [{saved}]"),
            saved = in(reg) saved.as_mut_ptr(),
            to = in(reg) $to,
            from = in(reg) $from,
            total = const $total,
            options(nostack, preserves_flags),
        );
    }};
}

/// The union of the `$total` bytes at `at`, in the first bytes of what it returns.
macro_rules! union_with {
    ($at:expr, $total:expr, $move:literal, $load:literal, $or:literal, $register:literal, $bytes:literal) => {{
        let mut saved = core::mem::MaybeUninit::<Saved>::uninit();
        let mut union = Saved([0; 64]);
        asm!(
            concat!($move, " [{saved}], ", $register),
            $load,
            concat!(".set page_at, ", $bytes),
            concat!(".rept {total} / ", $bytes, " - 1"),
            concat!($or, " [{at} + page_at]"),
            concat!(".set page_at, page_at + ", $bytes),
            ".endr",
            concat!($move, " [{union}], ", $register),
            concat!($move, " ", $register, ", [{saved}]"),
            saved = in(reg) saved.as_mut_ptr(),
            union = in(reg) &raw mut union,
            at = in(reg) $at,
            total = const $total,
            options(nostack, preserves_flags),
        );
        union
    }};
}

/// Whether there are only zeros in the `BYTES` bytes at `at`: a page, or half of one.
///
/// # Safety
/// They are memory, and aligned to 64 bytes.
#[inline(never)]
pub unsafe fn is_zero<const BYTES: usize>(at: *const u8) -> bool {
    // SAFETY: the caller's promise; the register is as before afterwards, and exists by `init`.
    let union = unsafe {
        match WIDTH.load(Ordering::Relaxed) {
            BYTES_64 => union_with!(
                at,
                BYTES,
                "vmovdqa64",
                "vmovdqa64 zmm0, [{at}]",
                "vporq zmm0, zmm0,",
                "zmm0",
                "64"
            ),
            BYTES_32 => union_with!(
                at,
                BYTES,
                "vmovdqa",
                "vmovdqa ymm0, [{at}]",
                "vpor ymm0, ymm0,",
                "ymm0",
                "32"
            ),
            _ => union_with!(at, BYTES, "movdqa", "movdqa xmm0, [{at}]", "por xmm0,", "xmm0", "16"),
        }
    };
    let words: [u64; 8] = bytes_as_words(union);
    words.into_iter().fold(0, |all, word| all | word) == 0
}

#[inline(always)]
fn bytes_as_words(Saved(bytes): Saved) -> [u64; 8] {
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
    }
    words
}

/// Fills the page at `to` with zeros.
///
/// # Safety
/// The page is memory, and nobody holds a reference into it.
#[inline]
pub unsafe fn zero_page(to: *mut u8) {
    // SAFETY: the caller's promise; the register is as before afterwards, and exists by `init`.
    unsafe {
        match WIDTH.load(Ordering::Relaxed) {
            BYTES_64 => {
                zero_with!(to, "vmovdqa64", "vmovdqa64", "vpxorq zmm0, zmm0, zmm0", "zmm0", "64")
            }
            BYTES_32 => {
                zero_with!(to, "vmovdqa", "vmovdqa", "vpxor xmm0, xmm0, xmm0", "ymm0", "32")
            }
            _ => zero_with!(to, "movdqa", "movdqa", "pxor xmm0, xmm0", "xmm0", "16"),
        }
    }
}

/// Copies the `BYTES` bytes at `from` over those at `to`: a page, or half of one.
///
/// # Safety
/// Both are memory, aligned to 64 bytes, differ, and nobody holds a reference into what is at `to`.
#[inline]
pub unsafe fn copy<const BYTES: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: as in `zero_page`.
    unsafe {
        match WIDTH.load(Ordering::Relaxed) {
            BYTES_64 => copy_with!(to, from, BYTES, "vmovdqa64", "zmm0", "64"),
            BYTES_32 => copy_with!(to, from, BYTES, "vmovdqa", "ymm0", "32"),
            _ => copy_with!(to, from, BYTES, "movdqa", "xmm0", "16"),
        }
    }
}

/// Bytes of a block that is copied by one instruction sequence, where a page is not aligned.
const BLOCK: usize = 512;

/// Copies `bytes` bytes at `from` to `to`, however they are aligned, from the lowest address on.
///
/// # Safety
/// Both are memory, and nobody holds a reference into either.
#[inline]
pub unsafe fn copy_bytes(mut to: *mut u8, mut from: *const u8, bytes: usize) {
    const WHOLE: usize = PAGE as usize;
    let aligned = (to.addr() | from.addr()).is_multiple_of(WHOLE);
    // SAFETY: the caller's promise.
    unsafe {
        if bytes == WHOLE && aligned && to.cast_const() != from {
            return copy::<WHOLE>(to, from);
        }
        let mut left = bytes;
        while left >= BLOCK {
            copy_block::<BLOCK>(to, from);
            (to, from, left) = (to.add(BLOCK), from.add(BLOCK), left - BLOCK);
        }
        while left >= 64 {
            copy_block::<64>(to, from);
            (to, from, left) = (to.add(64), from.add(64), left - 64);
        }
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") left => _,
            options(nostack, preserves_flags));
    }
}

/// Copies `BYTES` bytes, a multiple of 64.
///
/// # Safety
/// As [`copy_bytes`].
#[inline(always)]
unsafe fn copy_block<const BYTES: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise; the register is as before afterwards, and exists by `init`.
    unsafe {
        match WIDTH.load(Ordering::Relaxed) {
            BYTES_64 => copy_with!(to, from, BYTES, "vmovdqu64", "zmm0", "64"),
            BYTES_32 => copy_with!(to, from, BYTES, "vmovdqu", "ymm0", "32"),
            _ => copy_with!(to, from, BYTES, "movdqu", "xmm0", "16"),
        }
    }
}
