//! Vector state of programs: saved and restored when another dispatcher gets the core.
//!
//! The kernel itself never uses vector registers (but see `pages`), so between switches a
//! program's state simply stays where it is.

use super::cpu::{self, Features};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of the state that we let programs use: x87, SSE, AVX, AVX-512.
const WANTED: u64 = 0b1110_0111;
const AVX: u64 = 1 << 2;
const AVX512: u64 = 0b1110_0000;

/// Where parts of an area are.
const CONTROL_WORD: usize = 0;
const MXCSR: usize = 24;
const HEADER: usize = 512;
const HEADER_END: usize = 576;
/// Their values in a fresh program.
const INITIAL_CONTROL_WORD: u16 = 0x37f;
const INITIAL_MXCSR: u32 = 0x1f80;
/// Bits of MXCSR that may be set.
const MXCSR_BITS: u32 = 0xffff;
const LEGACY_SIZE: usize = 512;

/// The parts that are saved: the value of XCR0; 0 if there is no `xsave`.
static PARTS: AtomicU64 = AtomicU64::new(0);
static AREA_SIZE: AtomicUsize = AtomicUsize::new(LEGACY_SIZE);

/// The widest registers that may be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Width {
    Bytes16,
    Bytes32,
    Bytes64,
}

/// Switches on this core's vector units.
pub fn init(features: &Features) -> Width {
    if !features.xsave {
        return Width::Bytes16;
    }
    let mut parts = features.vector_parts & WANTED;
    if parts & AVX == 0 || !features.avx {
        parts &= !(AVX | AVX512);
    }
    if parts & AVX512 != AVX512 {
        parts &= !AVX512;
    }
    // SAFETY: `xsave` is switched on, and the parts are supported.
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") parts as u32, in("edx") (parts >> 32) as u32,
            options(nomem, nostack, preserves_flags));
    }
    PARTS.store(parts, Ordering::Relaxed);
    AREA_SIZE.store(cpu::cpuid(0xd, 0).ebx as usize, Ordering::Relaxed);
    match parts {
        _ if parts & AVX512 != 0 => Width::Bytes64,
        _ if parts & AVX != 0 => Width::Bytes32,
        _ => Width::Bytes16,
    }
}

/// Bytes that a save area needs; its alignment is 64.
pub fn fpu_area_size() -> usize {
    AREA_SIZE.load(Ordering::Relaxed)
}

/// Writes the state of a fresh program into a save area.
///
/// # Safety
/// `area` is writable for [`fpu_area_size`] bytes and aligned to 64.
pub unsafe fn fpu_init_image(area: *mut u8) {
    // SAFETY: the caller's promise; both offsets are aligned and inside.
    unsafe {
        area.write_bytes(0, fpu_area_size());
        area.add(CONTROL_WORD).cast::<u16>().write(INITIAL_CONTROL_WORD);
        area.add(MXCSR).cast::<u32>().write(INITIAL_MXCSR);
    }
}

/// Makes an area that a program may have written fit for [`fpu_restore`].
///
/// # Safety
/// As [`fpu_init_image`], and nobody can write to it until it was restored.
pub unsafe fn fpu_sanitize(area: *mut u8) {
    // SAFETY: the caller's promise; all offsets are aligned and inside.
    unsafe {
        let mxcsr: *mut u32 = area.add(MXCSR).cast();
        mxcsr.write(mxcsr.read() & MXCSR_BITS);
        let parts = PARTS.load(Ordering::Relaxed);
        if parts != 0 {
            let present: *mut u64 = area.add(HEADER).cast();
            present.write(present.read() & parts);
            area.add(HEADER + 8).write_bytes(0, HEADER_END - HEADER - 8);
        }
    }
}

/// Lets vector instructions be executed, in user mode and in the kernel.
pub fn vectors_allow() {
    // SAFETY: clears a flag that makes such instructions fault.
    unsafe { asm!("clts", options(nomem, nostack, preserves_flags)) };
}

/// Makes vector instructions raise exception 7, in the kernel too, until [`vectors_allow`].
pub fn vectors_forbid() {
    const TASK_SWITCHED: u64 = 1 << 3;
    // SAFETY: sets that flag; the caller executes no such instruction.
    unsafe {
        asm!("mov {0}, cr0", "or {0}, {1}", "mov cr0, {0}", out(reg) _, const TASK_SWITCHED,
            options(nomem, nostack));
    }
}

/// Saves the vector state.
///
/// # Safety
/// As [`fpu_init_image`].
#[inline]
pub unsafe fn fpu_save(area: *mut u8) {
    let parts = PARTS.load(Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe {
        if parts == 0 {
            asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
        } else {
            asm!("xsave64 [{}]", in(reg) area, in("eax") parts as u32, in("edx") 0,
                options(nostack, preserves_flags));
        }
    }
}

/// Loads the vector state.
///
/// # Safety
/// `area` was filled by [`fpu_save`] or [`fpu_init_image`] and never written by user mode, or
/// passed through [`fpu_sanitize`].
#[inline]
pub unsafe fn fpu_restore(area: *const u8) {
    let parts = PARTS.load(Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe {
        if parts == 0 {
            asm!("fxrstor64 [{}]", in(reg) area, options(nostack, readonly, preserves_flags));
        } else {
            asm!("xrstor64 [{}]", in(reg) area, in("eax") parts as u32, in("edx") 0,
                options(nostack, readonly, preserves_flags));
        }
    }
}
