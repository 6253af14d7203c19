//! What user mode looks like while it is not running, and what a core keeps.
//!
//! The entry code (`x86_64/entry.rs`) knows both layouts: it stores the registers of user mode
//! straight into the [`Context`] that [`CoreHead::current_ctx`] points to, and finds the
//! [`CoreHead`] through GS. The assertions at the end keep both sides together.

use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

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
pub struct Core<L> {
    /// What the entry code and the hardware need.
    pub head: CoreHead,
    /// What the layer above keeps.
    pub local: L,
}

/// What the entry code and the hardware need of a core, whatever else is kept for it.
#[repr(C)]
pub struct CoreHead {
    /// Its own address, so that one GS-relative load finds it.
    this: *mut CoreHead,
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
    /// Where system calls are counted that the entry code hands to a library.
    library_calls: &'static AtomicU64,
    /// How it sees the memory of programs.
    pub(super) maps: *const super::imp::CoreMaps,
    /// Number of the core, counted from 0 in the order of `BootInfo::cores`.
    pub id: u32,
    /// Its address for interrupts between cores.
    pub apic_id: u32,
    /// What the hardware needs in memory: descriptor tables, timer calibration.
    pub(super) hw: super::imp::Hw,
}

/// For cores that do not tell anybody what they count.
static NOBODYS: AtomicU64 = AtomicU64::new(0);

impl<L> Core<L> {
    /// A core with nothing to run. The caller calls [`Core::place`] once it is where it stays.
    pub fn new(id: u32, apic_id: u32, stack_top: u64, local: L) -> Self {
        let head = CoreHead {
            this: core::ptr::null_mut(),
            scratch: 0,
            current_ctx: core::ptr::null_mut(),
            stack_top,
            user_end: super::user_end(),
            direct_map: super::phys_to_virt(0) as u64,
            library_calls: &NOBODYS,
            maps: core::ptr::null(),
            id,
            apic_id,
            hw: super::imp::Hw::new(),
        };
        Core { head, local }
    }

    /// Records its own address. From now on it must not move.
    pub fn place(&mut self) {
        self.head.this = (&raw mut *self).cast();
    }
}

impl CoreHead {
    /// From now on the entry code counts here.
    pub fn set_library_calls(&mut self, counter: &'static AtomicU64) {
        self.library_calls = counter;
    }
}

/// Whether vector instructions may be executed on a core. Reading that from the processor is slow,
/// so it is remembered.
pub struct VectorUnit {
    is_off: bool,
}

impl VectorUnit {
    /// They may: as the processor is set up.
    pub const fn new() -> VectorUnit {
        VectorUnit { is_off: false }
    }

    /// Lets them be executed.
    #[inline]
    pub fn allow(&mut self) {
        if self.is_off {
            self.is_off = false;
            super::vectors_allow();
        }
    }

    /// Makes them raise an exception.
    #[inline]
    pub fn forbid(&mut self) {
        if !self.is_off {
            self.is_off = true;
            super::vectors_forbid();
        }
    }

    /// Lets the kernel execute them as long as the result lives.
    #[inline(always)]
    pub fn borrow(&self) -> VectorsAllowed<'_> {
        if self.is_off {
            super::vectors_allow();
        }
        VectorsAllowed(self)
    }

    /// Does something that executes them.
    #[inline(always)]
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let _allowed = self.borrow();
        work()
    }
}

/// The kernel may execute vector instructions.
pub struct VectorsAllowed<'a>(&'a VectorUnit);

impl Drop for VectorsAllowed<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_off {
            super::vectors_forbid();
        }
    }
}

impl Default for VectorUnit {
    fn default() -> Self {
        Self::new()
    }
}

/// Offsets from GS that the entry code uses.
pub const CORE_SELF: usize = 0;
pub const CORE_SCRATCH: usize = 8;
pub const CORE_CTX: usize = 16;
pub const CORE_STACK: usize = 24;
pub const CORE_USER_END: usize = 32;
pub const CORE_DIRECT_MAP: usize = 40;
pub const CORE_LIBRARY_CALLS: usize = 48;
#[cfg(tessera_map_cache)]
pub const CORE_MAPS: usize = 56;

const _: () = {
    assert!(offset_of!(CoreHead, this) == CORE_SELF);
    assert!(offset_of!(CoreHead, scratch) == CORE_SCRATCH);
    assert!(offset_of!(CoreHead, current_ctx) == CORE_CTX);
    assert!(offset_of!(CoreHead, stack_top) == CORE_STACK);
    assert!(offset_of!(CoreHead, user_end) == CORE_USER_END);
    assert!(offset_of!(CoreHead, direct_map) == CORE_DIRECT_MAP);
    assert!(offset_of!(CoreHead, library_calls) == CORE_LIBRARY_CALLS);
    #[cfg(tessera_map_cache)]
    assert!(offset_of!(CoreHead, maps) == CORE_MAPS);
    assert!(offset_of!(Core<u64>, head) == 0);
    assert!(size_of::<Context>() == 20 * 8);
    assert!(offset_of!(Context, r8) == 56);
    assert!(offset_of!(Context, rip) == 120);
    assert!(offset_of!(Context, rflags) == 136);
    assert!(offset_of!(Context, rsp) == 144);
};
