//! Address space layout, from the bottom:
//!
//! ```text
//! 0x0000_0001_0000 … 0x7fff_dfff_f000   the program (a Linux process, a native domain)
//! 0x7fff_e000_0000 … 0x7fff_ffff_f000   the library of a Linux process
//! 0xffff_8000_0000_0000 …               the kernel's direct map of physical memory
//! 0xffff_ffff_8000_0000 …               the kernel image
//! ```

pub use paging::PAGE;

/// Lowest address that a program may map (Linux: `vm.mmap_min_addr`).
pub const PROGRAM_START: u64 = 0x1_0000;
/// First address above what a program may use; also the top of its stack area.
pub const PROGRAM_END: u64 = LIBRARY_START - PAGE;
/// Start of the part of the address space that belongs to the personality's library: the last
/// 512 MiB. The program's stack is in the same GiB, so that both need one table of each upper level.
pub const LIBRARY_START: u64 = 0x7fff_e000_0000;
/// The frame shared with the kernel.
pub const DISPATCHER_FRAME: u64 = LIBRARY_START + 0x1000;
/// The frame shared with `unixd`, 16 KiB.
pub const SESSION_FRAME: u64 = LIBRARY_START + 0x2000;
/// One page, where the library looks at pages of files.
pub const LIBRARY_PEEK: u64 = LIBRARY_START + 0xb000;
/// Where the library's ELF is linked. Its stack is part of its data; its heap begins behind it. All
/// of that and the two frames usually lie in one 2 MiB region, so that a new process needs one
/// last-level table for them.
pub const LIBRARY_IMAGE: u64 = LIBRARY_START + 0x1_0000;
/// Windows: file contents, pipe buffers. The heap ends here at the latest.
pub const LIBRARY_WINDOWS: u64 = LIBRARY_START + 0x1000_0000;
/// Areas of the threads of a Linux process but the first, up to the end of the library's part.
pub const LIBRARY_THREADS: u64 = LIBRARY_START + 0x1400_0000;
/// Bytes of each, and its alignment.
pub const THREAD_BYTES: u64 = 0x2_0000;
/// First address that is no user address.
pub const USER_END: u64 = 0x8000_0000_0000;
/// Where native programs and servers are linked.
pub const NATIVE_IMAGE: u64 = 0x20_0000;
/// Kernel half: all physical memory.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Where a native program finds the frame that it shares with the kernel.
pub const NATIVE_FRAME: u64 = 0x1f_0000;
/// Top of a native program's stack.
pub const NATIVE_STACK_TOP: u64 = 0x1e_0000;
/// Bytes of that stack; the page below is never mapped.
pub const NATIVE_STACK_BYTES: u64 = 0x2_0000;
/// Where a native process finds the session frame that it shares with `unixd`.
pub const NATIVE_SESSION: u64 = 0x12_0000;
/// Where a native process finds its arguments ([`crate::native`]).
pub const NATIVE_ARGUMENTS: u64 = 0x13_0000;
/// Most bytes of them, whole pages.
pub const NATIVE_ARGUMENTS_MAX: u64 = 0x8_0000;
/// Heap of a native program, in an upper-level entry of its own.
pub const NATIVE_HEAP: u64 = 0x100_0000_0000;
/// Stacks of its threads.
pub const NATIVE_STACKS: u64 = 0x140_0000_0000;
/// Frames and stacks of its workers.
pub const NATIVE_WORKERS: u64 = 0x170_0000_0000;
/// Whatever else the runtime of a native program maps.
pub const NATIVE_WINDOWS: u64 = 0x180_0000_0000;
/// Regions of a native program (`libos::memory`), up to [`NATIVE_REGIONS_END`].
pub const NATIVE_REGIONS: u64 = 0x200_0000_0000;
/// First address behind them.
pub const NATIVE_REGIONS_END: u64 = 0x7000_0000_0000;
