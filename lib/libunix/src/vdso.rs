//! The vDSO: a shared object, part of this library's text, by which programs read clocks without a
//! system call.
//!
//! Programs find it by `AT_SYSINFO_EHDR`, as on Linux, and in it the functions of version `LINUX_2.6`. It
//! costs a process nothing: the page is shared by all, as the rest of the text, and what the clocks need
//! to know ([`CLOCK`]) is data that the library has anyway. A call that it cannot answer becomes the
//! system call.
//!
//! The image consists of headers, tables and code that refer to each other by their distances, so that
//! it could be anywhere; only [`CLOCK`] has a fixed place.

use abi::layout::PAGE;
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use linuxabi::time::multiplier;
use uvm::Span;

/// What the clocks are made of. The same for all processes from boot on, but in name spaces of times.
#[repr(C)]
pub struct Clock {
    /// Nanoseconds of a tick of the time-stamp counter, in units of 2^-32.
    multiplier: AtomicU64,
    /// Nanoseconds since 1970 when the counter was zero.
    epoch: AtomicU64,
    /// Clocks that say as many nanoseconds as the counter: in a name space of times where they say more, none.
    since_boot: AtomicU32,
}

/// Read by the functions below.
pub static CLOCK: Clock = Clock {
    multiplier: AtomicU64::new(0),
    epoch: AtomicU64::new(0),
    since_boot: AtomicU32::new(SINCE_BOOT),
};

impl Clock {
    /// The multiplier and the epoch.
    #[inline]
    pub fn get(&self) -> (u64, u64) {
        (self.multiplier.load(Relaxed), self.epoch.load(Relaxed))
    }
    /// The clock was set.
    pub fn set_epoch(&self, epoch_ns: u64) {
        self.epoch.store(epoch_ns, Relaxed);
    }
    /// Do clocks say as many nanoseconds as the counter?
    pub fn set_plain(&self, is_plain: bool) {
        let all = if is_plain { SINCE_BOOT } else { 0 };
        if self.since_boot.load(Relaxed) != all {
            self.since_boot.store(all, Relaxed);
        }
    }
    /// The kernel says so.
    pub fn set(&self, hz: u64, epoch_ns: u64) {
        self.multiplier.store(multiplier(hz), Relaxed);
        self.epoch.store(epoch_ns, Relaxed);
    }
}

/// Clocks that count from 1970: `REALTIME`, `REALTIME_COARSE`, `TAI`.
const SINCE_1970: u32 = 1 | 1 << 5 | 1 << 11;
/// Clocks that count from boot: `MONOTONIC`, `MONOTONIC_RAW`, `MONOTONIC_COARSE`, `BOOTTIME`.
const SINCE_BOOT: u32 = 1 << 1 | 1 << 4 | 1 << 6 | 1 << 7;
const KNOWN: u32 = SINCE_1970 | SINCE_BOOT;

global_asm!(
    ".section .vdso, \"ax\"",
    ".balign 4096",
    "vdso_start:",
    // The ELF header: a shared object for x86-64.
    ".byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0",
    ".quad 0",
    ".short 3, 62",
    ".long 1",
    ".quad 0, vdso_headers - vdso_start, 0",
    ".long 0",
    ".short 64, 56, 2, 64, 0, 0",
    "vdso_headers:",
    // PT_LOAD of the whole, to be read and executed.
    ".long 1, 5",
    ".quad 0, 0, 0, vdso_end - vdso_start, vdso_end - vdso_start, 4096",
    // PT_DYNAMIC.
    ".long 2, 4",
    ".quad vdso_dynamic - vdso_start, vdso_dynamic - vdso_start, vdso_dynamic - vdso_start",
    ".quad vdso_dynamic_end - vdso_dynamic, vdso_dynamic_end - vdso_dynamic, 8",
    "vdso_dynamic:",
    ".quad 14, vdso_name - vdso_strings",                  // DT_SONAME
    ".quad 4, vdso_hash - vdso_start",                     // DT_HASH
    ".quad 0x6ffffef5, vdso_gnu_hash - vdso_start",        // DT_GNU_HASH
    ".quad 5, vdso_strings - vdso_start",                  // DT_STRTAB
    ".quad 6, vdso_symbols - vdso_start",                  // DT_SYMTAB
    ".quad 10, vdso_strings_end - vdso_strings",           // DT_STRSZ
    ".quad 11, 24",                                        // DT_SYMENT
    ".quad 0x6ffffff0, vdso_versions - vdso_start",        // DT_VERSYM
    ".quad 0x6ffffffc, vdso_definitions - vdso_start",     // DT_VERDEF
    ".quad 0x6ffffffd, 2",                                 // DT_VERDEFNUM
    ".quad 0, 0",
    "vdso_dynamic_end:",
    // Each function by two names, as on Linux: the second, weak, is a part of the first.
    ".macro vdso_symbol label, prefix, bind",
    "  .long vdso_n_\\label - vdso_strings + \\prefix",
    "  .byte \\bind << 4 | 2, 0",
    "  .short 1",
    "  .quad vdso_\\label - vdso_start, vdso_\\label\\()_end - vdso_\\label",
    ".endm",
    ".macro vdso_symbol_pair label",
    "  vdso_symbol \\label, 0, 1",
    "  vdso_symbol \\label, 7, 2",
    ".endm",
    ".balign 8",
    "vdso_symbols:",
    ".quad 0, 0, 0",
    "vdso_symbol_pair clock_gettime",
    "vdso_symbol_pair gettimeofday",
    "vdso_symbol_pair time",
    "vdso_symbol_pair clock_getres",
    "vdso_symbol_pair getcpu",
    // Buckets in which each symbol is first or second, then the chains.
    "vdso_hash:",
    ".long 13, 11",
    ".long 9, 4, 0, 8, 0, 0, 5, 6, 1, 0, 3, 0, 2",
    ".long 0, 0, 10, 7, 0, 0, 0, 0, 0, 0, 0",
    // The same as glibc prefers it, whose start looks for five symbols: one bucket of all from the first
    // one on, with the hash values, and a filter that lets all pass.
    ".balign 8",
    "vdso_gnu_hash:",
    ".long 1, 1, 1, 0",
    ".quad -1",
    ".long 1",
    ".long 0x6e43a318, 0x71dd557e, 0xb01bca00, 0xe6854b86, 0x821e8e0c",
    ".long 0x7c9e7894, 0x68308f52, 0x9e9a10da, 0x6562b026, 0xff87586d",
    "vdso_versions:",
    ".short 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2",
    ".balign 8",
    "vdso_definitions:",
    // The object itself, and LINUX_2.6, with their hash values.
    ".short 1, 1, 1, 1",
    ".long 0x0deebfa1, 20, 28",
    ".long vdso_name - vdso_strings, 0",
    ".short 1, 0, 2, 1",
    ".long 0x03ae75f6, 20, 0",
    ".long vdso_version - vdso_strings, 0",
    "vdso_strings:",
    ".byte 0",
    "vdso_name: .asciz \"linux-vdso.so.1\"",
    "vdso_version: .asciz \"LINUX_2.6\"",
    "vdso_n_clock_gettime: .asciz \"__vdso_clock_gettime\"",
    "vdso_n_gettimeofday: .asciz \"__vdso_gettimeofday\"",
    "vdso_n_time: .asciz \"__vdso_time\"",
    "vdso_n_clock_getres: .asciz \"__vdso_clock_getres\"",
    "vdso_n_getcpu: .asciz \"__vdso_getcpu\"",
    "vdso_strings_end:",
    // Seconds in rax and nanoseconds in rdx, counted from r8 before boot. Uses rcx.
    ".macro vdso_now",
    "  lfence",
    "  rdtsc",
    "  shl rdx, 32",
    "  or rax, rdx",
    "  mul qword ptr [rip + {clock} + {multiplier}]",
    "  shrd rax, rdx, 32",
    "  add rax, r8",
    "  xor edx, edx",
    "  mov ecx, 1000000000",
    "  div rcx",
    ".endm",
    ".balign 16",
    "vdso_clock_gettime:",
    "  cmp edi, 12",
    "  jae 3f",
    "  xor r8d, r8d",
    "  mov eax, [rip + {clock} + {since_boot}]",
    "  bt eax, edi",
    "  jc 2f",
    "  mov eax, {since_1970}",
    "  bt eax, edi",
    "  jnc 3f",
    "  mov r8, [rip + {clock} + {epoch}]",
    "2: vdso_now",
    "  mov [rsi], rax",
    "  mov [rsi + 8], rdx",
    "  xor eax, eax",
    "  ret",
    "3: mov eax, 228",
    "  syscall",
    "  ret",
    "vdso_clock_gettime_end:",
    ".balign 16",
    "vdso_gettimeofday:",
    "  test rdi, rdi",
    "  jz 2f",
    "  mov r8, [rip + {clock} + {epoch}]",
    "  vdso_now",
    "  mov [rdi], rax",
    "  mov eax, edx",
    "  xor edx, edx",
    "  mov ecx, 1000",
    "  div ecx",
    "  mov [rdi + 8], rax",
    "2: test rsi, rsi",
    "  jz 3f",
    "  mov qword ptr [rsi], 0",
    "3: xor eax, eax",
    "  ret",
    "vdso_gettimeofday_end:",
    ".balign 16",
    "vdso_time:",
    "  mov r8, [rip + {clock} + {epoch}]",
    "  vdso_now",
    "  test rdi, rdi",
    "  jz 2f",
    "  mov [rdi], rax",
    "2: ret",
    "vdso_time_end:",
    ".balign 16",
    "vdso_clock_getres:",
    "  cmp edi, 12",
    "  jae 3f",
    "  mov eax, {known}",
    "  bt eax, edi",
    "  jnc 3f",
    "  test rsi, rsi",
    "  jz 2f",
    "  mov qword ptr [rsi], 0",
    "  mov qword ptr [rsi + 8], 1",
    "2: xor eax, eax",
    "  ret",
    "3: mov eax, 229",
    "  syscall",
    "  ret",
    "vdso_clock_getres_end:",
    ".balign 16",
    "vdso_getcpu:",
    "  mov eax, 309",
    "  syscall",
    "  ret",
    "vdso_getcpu_end:",
    "vdso_end:",
    ".balign 4096",
    ".global vdso_start",
    ".text",
    clock = sym CLOCK,
    multiplier = const offset_of!(Clock, multiplier),
    epoch = const offset_of!(Clock, epoch),
    since_boot = const offset_of!(Clock, since_boot),
    since_1970 = const SINCE_1970,
    known = const KNOWN,
);

extern "C" {
    static vdso_start: u8;
}

/// Where the image starts.
pub fn image() -> u64 {
    &raw const vdso_start as u64
}

/// The image from an address in it to its end.
pub fn rest_of_image(address: u64) -> Option<&'static [u8]> {
    let skipped = address.checked_sub(image()).filter(|at| *at < PAGE)?;
    // SAFETY: the page is part of the library's text, which never changes.
    let image = unsafe { core::slice::from_raw_parts(&raw const vdso_start, PAGE as usize) };
    image.get(skipped as usize..)
}

/// What `/proc/self/maps` says of it: the page of the image, and that with what it reads.
pub fn spans() -> [Span; 2] {
    let data = &raw const CLOCK as u64 & !(PAGE - 1);
    [
        Span { start: image(), end: image() + PAGE, rights: "r-xp", name: "[vdso]" },
        Span { start: data, end: data + PAGE, rights: "r--p", name: "[vvar]" },
    ]
}
