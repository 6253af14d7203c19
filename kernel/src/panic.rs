//! A panic is a bug in the kernel: it reports where, and ends the machine.

use crate::arch::{self, log};

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    arch::enter_panic();
    match info.location() {
        Some(at) => log!("kernel panic: {} ({}:{})", info.message(), at.file(), at.line()),
        None => log!("kernel panic: {}", info.message()),
    }
    arch::report_panic();
    arch::shutdown_after_panic()
}
