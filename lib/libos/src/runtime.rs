//! Entry, end and panic of native programs: what [`crate::program`] expands to.

use crate::{cmdline, invoke, log, Cap};
use abi::boot::{BootInfo, BOOT_INFO};
use abi::layout::{NATIVE_STACK_BYTES, NATIVE_STACK_TOP, PAGE};
use abi::{slots, DispatcherFrame};
use captypes::{op, CapAddr};
use core::panic::PanicInfo;

/// Status with which the machine ends after a panic of a program that may end it.
pub const PANIC_STATUS: u32 = 101;
/// Longest backtrace.
const FRAMES: usize = 24;

/// What a program is started with.
pub struct Start {
    /// The frame shared with the kernel.
    pub frame: &'static DispatcherFrame,
    /// Words from whoever started it.
    pub args: [u64; 5],
}

/// Defines the entry point, the panic handler and the heap of a native program, whose main
/// function takes a [`Start`]. When it returns, the program's dispatcher stops.
///
/// For servers and for what the kernel boots; a program that is run as a process uses the crate
/// `tessera` instead.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        $crate::entry!($main);

        #[panic_handler]
        fn panic(info: &::core::panic::PanicInfo) -> ! {
            $crate::runtime::panicked(info)
        }
    };
}

/// What [`program`] defines, but for the panic handler.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        ::core::arch::global_asm!(
            ".section .text.entry,\"ax\"",
            ".globl _start",
            "_start:",
            "xor ebp, ebp",
            "and rsp, -16",
            "call {start}",
            "ud2",
            start = sym __tessera_start
        );

        /// Tells loaders that this is a native program.
        #[used]
        #[link_section = ".note.tessera"]
        static NOTE: $crate::abi::native::Note = $crate::abi::native::NOTE;

        extern "C" fn __tessera_start(
            frame: *const $crate::abi::DispatcherFrame,
            a: u64,
            b: u64,
            c: u64,
            d: u64,
            e: u64,
        ) -> ! {
            // SAFETY: whoever starts a program passes the address of its mapped frame, for good.
            let frame = unsafe { &*frame };
            $main($crate::runtime::Start { frame, args: [a, b, c, d, e] });
            $crate::runtime::stop()
        }

        #[global_allocator]
        static HEAP: $crate::heap::Heap = $crate::heap::Heap;
    };
}

/// Stops the program's own dispatcher.
pub fn stop() -> ! {
    loop {
        // Again, should it fail.
        let _ = invoke(slots::DISPATCHER, op::Suspend {});
    }
}

/// Ends the machine; the log line tells the host the status.
pub fn shutdown(status: u32) -> ! {
    log!("@exit {status}");
    // Whoever may not simply stops.
    let _ = invoke(slots::KERNEL, op::Shutdown { status });
    stop()
}

/// Writes where and why to the kernel log and ends the machine, or else the program by a fault.
pub fn panicked(info: &PanicInfo) -> ! {
    log!("{info}");
    backtrace();
    if slots::KERNEL.identify().is_ok() {
        shutdown(PANIC_STATUS);
    }
    // SAFETY: raises an exception, which whoever watches over this program is told of.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// Bytes at the lower end of the first thread's stack that nothing was ever written to: what is left of it at its fullest. (The page below is never mapped:
/// what does not fit ends the program.)
pub fn stack_unused() -> u64 {
    const WORD: u64 = 8;
    let words = (0..NATIVE_STACK_BYTES / WORD).map(|word| {
        let address = NATIVE_STACK_TOP - NATIVE_STACK_BYTES + word * WORD;
        // SAFETY: the stack is mapped from its lower end to its top for as long as the program runs, and was zero when it began.
        unsafe { (address as *const u64).read_volatile() }
    });
    WORD * words.take_while(|&word| word == 0).count() as u64
}

/// Writes the return addresses on the stack to the log.
fn backtrace() {
    return_addresses(|address| log!("  at {address:#x}"));
}

/// Calls `each` with the return addresses on the stack, innermost first.
pub fn return_addresses(mut each: impl FnMut(u64)) {
    let mut frame: *const u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack)) };
    for _ in 0..FRAMES {
        if frame.is_null() || !frame.is_aligned() {
            return;
        }
        // SAFETY: programs are compiled with frame pointers: `rbp` points to the caller's `rbp`
        // and the return address, and the entry point has put a zero at the end of the chain.
        let (next, address) = unsafe { (*frame as *const u64, *frame.add(1)) };
        each(address);
        if next <= frame {
            return;
        }
        frame = next;
    }
}

/// Memory that keeps its contents without power, at the same physical address in every boot. It has no home: the
/// memory server neither counts it nor hands it out, and whoever deletes its last capability leaves it to the next boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PersistentMemory {
    /// Ram with the attribute `PERSISTENT`, of which Frames can be made with the contents that are there.
    pub cap: CapAddr,
    /// Physical address.
    pub base: u64,
    /// Bytes, a multiple of 2 MiB.
    pub bytes: u64,
    /// Does a store survive a power failure as soon as others can see it? Else only once it was written back from the
    /// caches.
    pub caches_persist: bool,
}

/// What the kernel told the first program, and that program those that it passed it on to.
pub struct Boot {
    /// The page that the kernel wrote.
    pub info: &'static BootInfo,
}

impl Boot {
    /// For the program that the kernel itself started, and for `unixd`.
    ///
    /// # Safety
    /// The boot page and the archive must be mapped, for good; they are in no other program.
    pub unsafe fn new() -> Self {
        // SAFETY: by the caller's promise; the kernel wrote a `BootInfo` there.
        Boot { info: unsafe { &*(BOOT_INFO as *const BootInfo) } }
    }

    /// The page as bytes.
    pub fn page(&self) -> &'static [u8] {
        // SAFETY: a whole page is mapped there, for good, and nobody writes it.
        unsafe { core::slice::from_raw_parts(BOOT_INFO as *const u8, PAGE as usize) }
    }

    /// The persistent memory of the machine, if this program has it.
    pub fn persistent_memory(&self) -> Option<PersistentMemory> {
        let what = slots::PERSISTENT.identify().ok()?;
        Some(PersistentMemory {
            cap: slots::PERSISTENT,
            base: what.base,
            bytes: what.bytes,
            caches_persist: self.info.caches_persist != 0,
        })
    }

    /// The kernel command line.
    pub fn cmdline(&self) -> &'static str {
        let bytes = self.info.cmdline.get(..self.info.cmdline_len as usize).unwrap_or(&[]);
        core::str::from_utf8(bytes).unwrap_or("")
    }

    /// Is the word there?
    pub fn flag(&self, name: &str) -> bool {
        cmdline::flag(self.cmdline(), name)
    }

    /// The seed of everything random in a test: `seed=N`, or the same every time.
    pub fn seed(&self) -> u64 {
        cmdline::number(self.cmdline(), "seed").unwrap_or(0x7e55_e7a5_eed0_0001).max(1)
    }

    /// The boot archive.
    pub fn archive(&self) -> &'static [u8] {
        let bytes = self.info.archive_bytes as usize;
        if bytes == 0 {
            return &[];
        }
        // SAFETY: the kernel has mapped that many bytes there, read-only and for good.
        unsafe { core::slice::from_raw_parts(abi::boot::ARCHIVE_VA as *const u8, bytes) }
    }
}
