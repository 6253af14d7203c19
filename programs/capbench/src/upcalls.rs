//! From a fault or system call of a Linux dispatcher's program to the first instruction of its
//! library.

use crate::messages::Thread;
use crate::{now, report};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::slots::DISPATCHER;
use libos::abi::Upcall;
use libos::captypes::invocations::options;
use libos::{invoke, op, Cap, Status};

const TIMES: u64 = 20;
/// Nothing is mapped there.
const ABSENT: u64 = 6 << 39;

static START: AtomicU64 = AtomicU64::new(0);
static TOOK: AtomicU64 = AtomicU64::new(0);

/// Where upcalls go: the stack is the library's, `rdi` its frame.
#[unsafe(naked)]
extern "C" fn entered() -> ! {
    naked_asm!("call {}", "ud2", sym taken)
}

extern "C" fn taken() -> ! {
    let took = now() - START.load(Ordering::Relaxed);
    TOOK.store(took, Ordering::Relaxed);
    let _ = DISPATCHER.notify(1);
    // Until the main thread ends this one.
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn touch(address: u64, _: u64) -> ! {
    START.store(now(), Ordering::Relaxed);
    // SAFETY: faults, which is what is measured; control goes to `entered`.
    unsafe { core::ptr::read_volatile(address as *const u64) };
    loop {}
}

extern "C" fn ask(_: u64, _: u64) -> ! {
    START.store(now(), Ordering::Relaxed);
    // SAFETY: the program is enabled, so control goes to `entered`.
    unsafe { core::arch::asm!("syscall", inout("rax") 39u64 => _, out("rcx") _, out("r11") _) };
    loop {}
}

fn once(entry: usize, upcall: Upcall) -> Result<u64, Status> {
    let thread = Thread::new(entry, [ABSENT, 0], options::LINUX)?;
    // SAFETY: mapped and writable; the thread does not run yet.
    unsafe { (&raw mut (*thread.frame).upcall[upcall as usize]).write(entered as usize as u64) };
    thread.start()?;
    invoke(DISPATCHER, op::Wait {})?;
    thread.kill()?;
    Ok(TOOK.load(Ordering::Relaxed))
}

pub fn run() -> Result<(), Status> {
    let cases = [
        ("upcall_page_fault", touch as *const () as usize, Upcall::PageFault),
        ("upcall_syscall", ask as *const () as usize, Upcall::Syscall),
    ];
    for (name, entry, upcall) in cases {
        let mut total = 0;
        for _ in 0..TIMES {
            total += once(entry, upcall)?;
        }
        report(name, total, TIMES);
    }
    Ok(())
}
