//! What the architecture is handed by this kernel.

use crate::arch::boot_info::BootInfo;
use crate::arch::{Context, ControlBlock, Handlers};
use crate::cores::{CoreId, Cores, Shared};
use crate::driver::{Core, CpuDriver};
use crate::events;
use crate::object::dcb::flag;
use crate::object::{Dcb, DcbRef};
use captypes::invocations::Counter;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

/// This kernel, for the architecture.
pub struct Kernel;

impl Handlers for Kernel {
    type Local = CpuDriver;
    type Shared = Shared;

    const CONTROL_BLOCK: ControlBlock = ControlBlock {
        flags: offset_of!(Dcb, flags),
        upcalls: flag::LINUX,
        frame: offset_of!(Dcb, frame),
        frame_va: offset_of!(Dcb, frame_va),
    };

    fn local() -> CpuDriver {
        // Made by the compiler, and copied: the boot stack has no room to put it together.
        const { CpuDriver::new() }
    }

    fn shared() -> Shared {
        Shared::new()
    }

    fn connect(local: &mut CpuDriver, id: u8, all: &'static [Shared]) {
        local.set_core(CoreId(id), Cores::new(all));
    }

    fn library_calls(local: &CpuDriver) -> &'static AtomicU64 {
        local.core.shared.counter_cell(Counter::LinuxCalls)
    }

    extern "C" fn on_syscall(core: &mut Core) {
        events::on_syscall(core);
    }

    extern "C" fn on_invocation(core: &mut Core, context: NonNull<Context>) {
        events::on_invocation(core, DcbRef::of_context(context));
    }

    extern "C" fn on_trap(core: &mut Core, vector: u64, error: u64, address: u64) {
        events::on_trap(core, vector, error, address);
    }

    fn on_interrupt(core: &mut Core, vector: u64) {
        events::on_irq(core, vector);
    }

    extern "C" fn start(core: &'static mut Core, info: &'static mut BootInfo) -> ! {
        super::start_init(core, info)
    }

    fn start_other(core: &'static mut Core, info: &'static BootInfo) -> ! {
        super::start_core(core, info)
    }
}
