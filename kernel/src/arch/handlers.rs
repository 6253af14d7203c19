//! What the architecture is handed: where events lead to, and what is kept for each core.

use super::boot_info::BootInfo;
use super::{Context, Core};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

/// Where the entry code finds what it must know of the running dispatcher: offsets in its control
/// block, which begins with its [`Context`].
#[derive(Clone, Copy)]
pub struct ControlBlock {
    /// A word of 32 bits.
    pub flags: usize,
    /// In the lowest byte of that: system calls go to the dispatcher's own library.
    pub upcalls: u32,
    /// Physical address of the frame that it shares with the kernel.
    pub frame: usize,
    /// Where its domain maps that frame.
    pub frame_va: usize,
}

/// The layer above the architecture. There is one for a kernel; it is bound when the kernel is
/// compiled, so that the entry code calls it directly.
pub trait Handlers: Sized + 'static {
    /// What is kept for one core.
    type Local: 'static;
    /// What the cores see of each other.
    type Shared: 'static;

    /// Layout of what the entry code stores to.
    const CONTROL_BLOCK: ControlBlock;

    /// A core on which nothing runs.
    fn local() -> Self::Local;

    /// What others see of a core that is not running yet.
    fn shared() -> Self::Shared;

    /// Makes `local` core number `id` of all.
    fn connect(local: &mut Self::Local, id: u8, all: &'static [Self::Shared]);

    /// Where the entry code counts the system calls that it hands to libraries itself.
    fn library_calls(local: &Self::Local) -> &'static AtomicU64;

    /// User mode executed `syscall`; its registers are in the current context.
    extern "C" fn on_syscall(core: &mut Core<Self::Local>);

    /// The same where that is known to be an invocation; `context` is the current one.
    extern "C" fn on_invocation(core: &mut Core<Self::Local>, context: NonNull<Context>);

    /// User mode raised exception `vector`. `address`: the one of the last page fault.
    extern "C" fn on_trap(core: &mut Core<Self::Local>, vector: u64, error: u64, address: u64);

    /// An interrupt arrived in user mode or in the idle loop.
    fn on_interrupt(core: &mut Core<Self::Local>, vector: u64);

    /// Where the boot core begins, when the machine is set up.
    extern "C" fn start(core: &'static mut Core<Self::Local>, info: &'static mut BootInfo) -> !;

    /// Where every other core begins.
    fn start_other(core: &'static mut Core<Self::Local>, info: &'static BootInfo) -> !;
}
