//! Placeholder: logs what was found and ends.

use crate::arch::Core;
use crate::boot_info::BootInfo;

/// Starts the first domain.
pub extern "C" fn start_init(_core: &'static mut Core, info: &'static BootInfo) -> ! {
    for region in info.memory.as_slice() {
        crate::log!("memory {:#014x}..{:#014x} {:?} node {}", region.start, region.end, region.kind, region.node);
    }
    crate::log!("command line: {:?}", info.cmdline());
    crate::arch::shutdown()
}
