//! The bare-metal program around the kernel library.
//!
//! [`arch`](kernel::arch) enters here on the boot core, in long mode, on the boot stack.

#![cfg_attr(target_os = "none", no_std, no_main)]

/// Called once by the entry code, with the physical address of the PVH start information.
#[cfg(target_os = "none")]
#[no_mangle]
extern "C" fn kernel_main(start_info: u64) -> ! {
    // SAFETY: the entry code comes here once, with what the loader passed.
    unsafe { kernel::run(start_info) }
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on the bare machine: build it for x86_64-unknown-none");
    std::process::exit(2);
}
