//! What user mode looks like while it is not running, and what a core keeps.
//!
//! The entry code (`x86_64/entry.rs`) knows both layouts: it stores the registers of user mode
//! straight into the [`Context`] that [`Core::current_ctx`] points to, and finds the [`Core`]
//! through GS. The assertions at the end keep both sides together.

use crate::dispatch::Local;
use core::mem::offset_of;

/// The user registers of a stopped dispatcher: the layout that user mode knows, so that the kernel
/// may save into a frame that both share.
///
/// A context that entered through `syscall` has `rcx == rip` and `r11 == rflags`, as that
/// instruction leaves them, and for such a context the way back is `sysretq`; any other goes back
/// through `iretq`. The way back never trusts a context: it ignores `cs` and `ss`, forces the flags
/// that user mode must not choose, and turns a non-canonical `rip` into one that faults in user
/// mode. The entry code does not write `cs` and `ss` either.
pub use abi::Regs as Context;

/// Everything that belongs to one core. Never shared: a `&mut Core` exists only on its own core,
/// handed to the event handlers by the entry code.
#[repr(C)]
pub struct Core {
    /// Its own address, so that one GS-relative load finds it.
    this: *mut Core,
    /// Where the entry code parks one register.
    scratch: u64,
    /// Where the registers of the running dispatcher are saved to and restored from; null when
    /// there is nothing to run, and the way out of the kernel then leads to the idle loop.
    pub current_ctx: *mut Context,
    /// Top of the kernel's stack of this core.
    stack_top: u64,
    /// First address that is no user address: the way out of the kernel leads to none beyond.
    pub(super) user_end: u64,
    /// Where the direct map begins.
    direct_map: u64,
    /// Number of the core, counted from 0 in the order of `BootInfo::cores`.
    pub id: u32,
    /// Its address for interrupts between cores.
    pub apic_id: u32,
    /// What the scheduler and the dispatch code keep.
    pub local: Local,
    /// What the hardware needs in memory: descriptor tables, timer calibration.
    pub(super) hw: super::imp::Hw,
}

impl Core {
    /// A core with nothing to run. The caller calls [`Core::place`] once it is where it stays.
    pub fn new(id: u32, apic_id: u32, stack_top: u64) -> Self {
        Core {
            this: core::ptr::null_mut(),
            scratch: 0,
            current_ctx: core::ptr::null_mut(),
            stack_top,
            user_end: super::user_end(),
            direct_map: super::phys_to_virt(0) as u64,
            id,
            apic_id,
            local: Local::new(),
            hw: super::imp::Hw::new(),
        }
    }

    /// Records its own address. From now on it must not move.
    pub fn place(&mut self) {
        self.this = self;
    }

    /// The registers of the running dispatcher, `None` if the core is idle.
    pub fn context(&mut self) -> Option<&mut Context> {
        // SAFETY: whoever sets `current_ctx` promises that it is null or points to a context that
        // stays valid, and is not otherwise borrowed, until it is set again.
        unsafe { self.current_ctx.as_mut() }
    }
}

/// Offsets from GS that the entry code uses.
pub const CORE_SELF: usize = 0;
pub const CORE_SCRATCH: usize = 8;
pub const CORE_CTX: usize = 16;
pub const CORE_STACK: usize = 24;
pub const CORE_USER_END: usize = 32;
pub const CORE_DIRECT_MAP: usize = 40;
/// Where the core finds what it counts.
#[cfg(target_os = "none")]
pub const CORE_SHARED: usize = offset_of!(Core, local) + Local::SHARED;

const _: () = {
    assert!(offset_of!(Core, this) == CORE_SELF);
    assert!(offset_of!(Core, scratch) == CORE_SCRATCH);
    assert!(offset_of!(Core, current_ctx) == CORE_CTX);
    assert!(offset_of!(Core, stack_top) == CORE_STACK);
    assert!(offset_of!(Core, user_end) == CORE_USER_END);
    assert!(offset_of!(Core, direct_map) == CORE_DIRECT_MAP);
    assert!(size_of::<Context>() == 20 * 8);
    assert!(offset_of!(Context, r8) == 56);
    assert!(offset_of!(Context, rip) == 120);
    assert!(offset_of!(Context, rflags) == 136);
    assert!(offset_of!(Context, rsp) == 144);
};
