//! Placeholder: logs what was found and ends.

use crate::boot_info::BootInfo;

/// Starts the first domain.
pub fn start_init(info: &BootInfo) -> ! {
    for region in info.memory.as_slice() {
        crate::log!("memory {:#014x}..{:#014x} {:?} node {}", region.start, region.end, region.kind, region.node);
    }
    crate::log!("command line: {:?}", info.cmdline());
    crate::arch::shutdown()
}
