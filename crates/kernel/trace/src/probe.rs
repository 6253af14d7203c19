//! Recording: the code that every probe calls, and marks.
//!
//! A traced build (`--cfg tessera_trace`, made by `./x run --trace`) keeps 11 bytes free at the entry
//! and at each exit of every function; the tool patches a load of the event's constant into `r10` and
//! a call of [`trace_probe`](self) there (a jump at an exit, where the probe returns for the
//! function). The probe reads the time and the number of the core with one instruction, `rdtscp`,
//! takes the next 8 bytes of that core's buffer with one more, `lock xadd`, and stores the event. So
//! kernel and user mode write to the same buffer in the order of time, and an interrupt at any
//! instruction loses nothing. A thread that moves to another core between the two instructions puts
//! one event in the buffer of the core that it came from; readers bear with that.
//!
//! A buffer begins with a [`Header`]. The kernel's probes find core *n*'s at `trace_base + n *
//! trace_stride`, in the direct map, once it has set these variables; those of user mode in a window
//! that the kernel maps in every address space, [`USER_WINDOW`], which the tool writes into the
//! variables of each image. This lets every program overwrite the trace: a traced system is for those
//! who measure it, not for untrusted programs.
//!
//! All registers but `r10` and the flags are kept; where probes stand, neither holds anything.

use crate::event::Mark;

/// Does this build have probes?
pub const ENABLED: bool = cfg!(tessera_trace);

/// Where user mode finds the buffer of core 0.
pub const USER_WINDOW: u64 = 0xffff_fe00_0000_0000;
/// Address space from one core's buffer to the next in that window.
pub const USER_STRIDE: u64 = 1 << 32;
/// Cores that the window has room for.
pub const MOST_CORES: u64 = 64;
/// Bytes of a core's buffer unless the kernel's command line says `trace=BYTES`.
pub const DEFAULT_BYTES: u64 = 16 << 20;
/// Buffers are aligned to this, and a whole number of it long.
pub const ALIGNMENT: u64 = 2 << 20;
/// Marks that the kernel sets in a row when tracing starts.
pub const CALIBRATIONS: usize = 16;

/// What a buffer begins with, all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Offset of the next event; goes on beyond the end when the buffer is full.
    pub cursor: u64,
    /// Bytes of the buffer, this header included.
    pub bytes: u64,
    unused: [u64; 6],
}

/// Bytes of the header.
pub const HEADER_BYTES: u64 = size_of::<Header>() as u64;

impl Header {
    /// Of an empty buffer.
    pub const fn new(bytes: u64) -> Header {
        Header { cursor: HEADER_BYTES, bytes, unused: [0; 6] }
    }
}

/// Records a mark. No code at all in a build without probes.
#[inline(always)]
pub fn mark(mark: Mark) {
    #[cfg(all(tessera_trace, target_os = "none"))]
    machine::call(mark.word());
    #[cfg(not(all(tessera_trace, target_os = "none")))]
    // Used in traced builds only.
    let _ = mark;
}

#[cfg(all(tessera_trace, target_os = "none"))]
pub use machine::{calibrate, start};

#[cfg(all(tessera_trace, target_os = "none"))]
mod machine {
    use super::{Mark, CALIBRATIONS};
    use core::arch::{asm, global_asm};
    use core::mem::offset_of;

    global_asm!(
        ".section .data.trace, \"aw\"",
        ".balign 8",
        ".global trace_base",
        "trace_base: .quad 0",
        ".global trace_stride",
        "trace_stride: .quad 0",
        ".section .text.trace, \"ax\"",
        ".balign 16",
        ".global trace_probe",
        "trace_probe:",
        "push rdx",
        "push rcx",
        "push rax",
        "mov rax, [rip + trace_base]",
        "test rax, rax",
        "jz 1f",
        "rdtscp",
        "shl rdx, 32",
        "or rdx, rax",
        "shl rdx, {word_bits}",
        "or rdx, r10",
        "imul rcx, [rip + trace_stride]",
        "add rcx, [rip + trace_base]",
        "mov eax, 8",
        "lock xadd [rcx + {cursor}], rax",
        "cmp rax, [rcx + {bytes}]",
        "jae 1f",
        "mov [rcx + rax], rdx",
        "1:",
        "pop rax",
        "pop rcx",
        "pop rdx",
        "ret",
        ".text",
        word_bits = const super::super::event::WORD_BITS,
        cursor = const offset_of!(super::Header, cursor),
        bytes = const offset_of!(super::Header, bytes),
    );

    extern "C" {
        fn trace_probe();
        static mut trace_base: u64;
        static mut trace_stride: u64;
    }

    #[inline(always)]
    pub fn call(word: u32) {
        // SAFETY: the probe keeps everything but r10 and the flags.
        unsafe {
            asm!("call {probe}", probe = sym trace_probe, inout("r10") u64::from(word) => _);
        }
    }

    /// Makes the probes of this image record, in buffers at `base`, `stride` bytes apart.
    ///
    /// # Safety
    /// For every core that executes probes, a buffer with a [`Header`](super::Header) is mapped there
    /// from now on, and `IA32_TSC_AUX` of the core is its number.
    pub unsafe fn start(base: u64, stride: u64) {
        // SAFETY: nobody else writes these, and probes on this core read them only after this.
        unsafe {
            (&raw mut trace_stride).write_volatile(stride);
            (&raw mut trace_base).write_volatile(base);
        }
    }

    /// Sets marks in a row, with nothing between them but what a probe costs.
    pub fn calibrate() {
        // SAFETY: as in `call`.
        unsafe {
            asm!(
                ".rept {count}",
                "mov r10d, {word}",
                "call {probe}",
                ".endr",
                count = const CALIBRATIONS,
                word = const Mark::Calibrate.word(),
                probe = sym trace_probe,
                out("r10") _,
            );
        }
    }
}
