//! Vector registers of an interrupted thread.
//!
//! The library is compiled without them, and a thread that switches by itself has nothing in them
//! that a caller may rely on. But one that is interrupted may: it leaves them on its stack.

use crate::upcall::frame;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Room for all that the kernel lets a program use: x87, SSE, AVX, AVX-512.
const ROOM: usize = 2816;

/// Bytes of an `xsave` area here; 1: there is only `fxsave`; 0: nobody has asked yet.
static KIND: AtomicUsize = AtomicUsize::new(0);

/// A save area. Of its header the processor writes a part and expects zeros in the rest.
#[repr(C, align(64))]
struct Area([u8; ROOM]);
/// Where the header is.
const HEADER: usize = 512;
const HEADER_BYTES: usize = 64;

fn has_xsave() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    if KIND.load(Relaxed) == 0 {
        let bytes = match __cpuid_count(1, 0).ecx & OSXSAVE != 0 {
            true => __cpuid_count(0xd, 0).ebx as usize,
            false => 1,
        };
        assert!(bytes <= ROOM, "more vector state than there is room for");
        KIND.store(bytes, Relaxed);
    }
    KIND.load(Relaxed) != 1
}

/// Calls `f`, after which the vector registers are what they were.
pub fn keeping<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the frame is mapped, the field atomic.
    if unsafe { (*frame()).vectors.load(Relaxed) } == 0 {
        return f();
    }
    save_around(f)
}

#[inline(never)]
fn save_around<T>(f: impl FnOnce() -> T) -> T {
    let mut area = MaybeUninit::<Area>::uninit();
    let area = area.as_mut_ptr().cast::<u8>();
    // SAFETY: the header lies in the area.
    unsafe { area.add(HEADER).write_bytes(0, HEADER_BYTES) };
    if !has_xsave() {
        // SAFETY: the area is large enough and aligned.
        unsafe { asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags)) };
        let result = f();
        // SAFETY: the area is what was stored there.
        unsafe { asm!("fxrstor64 [{}]", in(reg) area, options(nostack, preserves_flags)) };
        return result;
    }
    // SAFETY: the kernel has switched `xsave` on; the area is large enough (`has_xsave`) and aligned.
    unsafe {
        asm!("xsave64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX,
            options(nostack, preserves_flags));
    }
    let result = f();
    // SAFETY: the area is what was stored there.
    unsafe {
        asm!("xrstor64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX,
            options(nostack, preserves_flags));
    }
    result
}
