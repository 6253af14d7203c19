//! The frame that a dispatcher shares with the kernel.
//!
//! The kernel believes nothing in it: an entry point that is no user address, or a save area with
//! wild contents, harms only the domain itself.
//!
//! A dispatcher is *disabled* while its own library code runs. The kernel upcalls an enabled
//! dispatcher only; a disabled one that is preempted goes on where it was. While `rip` is in
//! `[critical_low, critical_high)` the dispatcher counts as disabled whatever the flag says: that
//! is the code which has already cleared the flag and still has registers to load. It begins by looking at `switched`: who was
//! preempted in it begins it anew, at `critical_low` with `rdi` = the frame.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Why the kernel enters a dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Upcall {
    /// First entry, after `Start`.
    Run = 0,
    /// A page fault of the program: `fault_*` say where and how.
    PageFault = 1,
    /// Any other exception of the program.
    Exception = 2,
    /// Notification bits were set.
    Message = 3,
    /// [`captypes::invocations::NOTIFY_TIMER`] was set.
    Timer = 4,
    /// The program executed `syscall`.
    Syscall = 5,
}

/// [`DispatcherFrame::switched`]: the library wants to know.
pub const WANTS_SWITCHES: u64 = 1;
/// [`DispatcherFrame::switched`]: it has happened. The program goes on when the library has cleared this.
pub const SWITCHED: u64 = 2;

/// Upcall entry points in a frame.
pub const UPCALLS: usize = 6;

/// General registers, in the order in which they lie in memory, ending in what `iretq` pops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Regs {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Assembly: loads all registers before `rip` from the [`Regs`] that `rsp` points to, which points to `rip`
/// then.
#[macro_export]
macro_rules! pop_registers {
    () => {
        "pop rax; pop rbx; pop rcx; pop rdx; pop rsi; pop rdi; pop rbp; pop r8; pop r9; pop r10; pop r11; \
         pop r12; pop r13; pop r14; pop r15"
    };
}

const _: () = {
    // In the order of the pops.
    assert!(offset_of!(Regs, rax) == 0 && offset_of!(Regs, rbx) == 8);
    assert!(offset_of!(Regs, rcx) == 16 && offset_of!(Regs, rdx) == 24);
    assert!(offset_of!(Regs, rsi) == 32 && offset_of!(Regs, rdi) == 40);
    assert!(offset_of!(Regs, rbp) == 48 && offset_of!(Regs, r8) == 56);
    assert!(offset_of!(Regs, r15) == 112 && offset_of!(Regs, rip) == 120);
};

/// User code segment selector.
pub const USER_CS: u64 = 0x23;
/// User data segment selector.
pub const USER_SS: u64 = 0x1b;

/// Shared by a dispatcher's library and the kernel; 4 KiB, of which this is the start.
///
/// On an upcall the kernel stores the program's registers in `save`, sets `disabled`, and enters
/// `upcall[reason]` with `rdi` = the user address of this frame, `rsp` = `upcall_stack`.
/// `Start` loads `save` as it is, with `disabled` as the domain set it.
#[repr(C)]
pub struct DispatcherFrame {
    /// Non-zero while library code runs.
    pub disabled: AtomicU32,
    /// Not used.
    pub reserved: u32,
    /// Notification bits: set by the kernel, taken by the library with an exchange.
    pub notifications: AtomicU64,
    /// Entry points, by [`Upcall`]. A native dispatcher is entered only where it has put an address;
    /// without one, its faults are reported to its fault endpoint, and notifications wait.
    pub upcall: [u64; UPCALLS],
    /// Stack pointer for upcalls.
    pub upcall_stack: u64,
    /// First address of the code that finishes a return to the program.
    pub critical_low: u64,
    /// First address behind it.
    pub critical_high: u64,
    /// Faulting address (page fault), else zero.
    pub fault_address: u64,
    /// Error code that the CPU pushed; above it the [slot](slot_in) of a page that is in a store.
    pub fault_error: u64,
    /// Vector of the exception.
    pub fault_vector: u64,
    /// Frequency of the time-stamp counter. Set by the kernel at `Configure`.
    pub tsc_hz: u64,
    /// Nanoseconds since 1970 when the time-stamp counter was zero. Set by the kernel.
    pub epoch_ns: u64,
    /// Non-zero if user mode may use `wrfsbase`. Set by the kernel.
    pub fsgsbase: u64,
    /// Non-zero once the domain uses vector registers. Set by the kernel.
    pub vectors: AtomicU64,
    /// Number of the core that it runs on. Set by the kernel when it begins to.
    pub core: AtomicU64,
    /// How many cores there are. Set by the kernel at `Configure`.
    pub cores: u64,
    /// The NUMA node of that core.
    pub node: AtomicU64,
    /// Its own address in the domain. Set by the kernel at `Configure`, when it also makes it the GS
    /// base of a dispatcher that is not marked with the Linux ABI.
    pub address: u64,
    /// First address of the code whose faults, while the dispatcher is disabled, continue at `guarded_fixup`.
    pub guarded_low: u64,
    /// First address behind it.
    pub guarded_high: u64,
    /// Where it continues, with `rax` = the address of a page fault (else zero) and `rdx` = a [`guarded_fault`].
    /// All other registers but the flags are as they were.
    pub guarded_fixup: u64,
    /// Address of an instruction that is executed in spite of a breakpoint on it, once. For the library, which returns
    /// to the program without the flag that says so to the processor.
    pub passes: AtomicU64,
    /// Is the library to be entered when another dispatcher, or nobody, ran between two of its program's instructions? It sets 1 (or 0);
    /// the kernel sets 2 when that has happened, before the program goes on.
    pub switched: AtomicU64,
    /// Room for more facts.
    pub reserved2: [u64; 3],
    /// Registers of the program.
    pub save: Regs,
    /// For the library.
    pub library: [AtomicU64; 4],
}

const _: () = assert!(core::mem::size_of::<DispatcherFrame>() <= 512);

/// How a fault is described at `guarded_fixup`: the vector in the upper half, which is never zero, and the error
/// code that the CPU pushed in the lower.
pub const fn guarded_fault(vector: u64, error: u64) -> u64 {
    vector << 32 | error & 0xffff_ffff
}

/// Where in `fault_error` the number of a slot is, one more than it.
const SLOT: u32 = 32;

/// An error code, with the number of the slot of its pool that the page is in: a hint, since it may come in at any time. A slot with a number
/// that has no room is not said.
#[inline]
pub const fn with_slot(error: u64, slot: u64) -> u64 {
    match slot < u32::MAX as u64 {
        true => processor_error(error) | (slot + 1) << SLOT,
        false => error,
    }
}

/// The slot that is said with an error code.
#[inline]
pub const fn slot_in(error: u64) -> Option<u64> {
    (error >> SLOT).checked_sub(1)
}

/// An error code as the processor has pushed it.
#[inline]
pub const fn processor_error(error: u64) -> u64 {
    error & ((1 << SLOT) - 1)
}
