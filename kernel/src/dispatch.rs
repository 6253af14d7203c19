//! Placeholder: the events of the machine arrive here.

use crate::arch::Core;

/// What the dispatch code keeps for each core.
pub struct Local {}

impl Local {
    pub const fn new() -> Self {
        Local {}
    }
}

/// User mode executed `syscall`; its registers are in `core.current_ctx`.
pub extern "C" fn on_syscall(_core: &mut Core) {
    panic!("no system calls yet");
}

/// User mode raised exception `vector`.
pub extern "C" fn on_trap(core: &mut Core, vector: u64, error: u64, cr2: u64) {
    let _ = core;
    panic!("exception {vector} in user mode, error {error:#x}, cr2 {cr2:#x}");
}

/// An interrupt arrived in user mode or in the idle loop.
pub extern "C" fn on_irq(_core: &mut Core, vector: u64) {
    panic!("interrupt {vector}");
}
