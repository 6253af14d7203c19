//! Where the kernel enters the library, and how the library returns to the program.
//!
//! The kernel has saved the program's registers in the frame and set `disabled` when it enters at
//! an upcall, with `rdi` = frame and `rsp` = top of the upcall stack. So the upcalls are ordinary
//! functions that never return.
//!
//! The way back is `resume_program`: it clears `disabled` and loads the registers, the last two
//! straight from the frame, whose address is fixed. (`iretq` would do it in one, but emulators of
//! our time let it read the stack as the kernel would, and fail.) Its code is the *critical range*:
//! there the dispatcher counts as disabled although the flag is clear. It begins with a look whether the program is to be told that
//! somebody else ran ([restartable sequences](crate::thread::restart)); who is preempted in it begins it anew.

use abi::dispatcher::{DispatcherFrame, Regs, Upcall, WANTS_SWITCHES};
use core::arch::{asm, global_asm};
use core::mem::offset_of;

const _: () = {
    assert!(offset_of!(Regs, rflags) == 136);
    // See link.ld.
    assert!(abi::layout::DISPATCHER_FRAME == 0x7fff_e000_1000);
};

global_asm!(
    ".section .text.entry, \"ax\"",
    ".global upcall_run",
    "upcall_run:",
    "lea rsp, [rip + __stack_top - 8]",
    "xor ebp, ebp",
    "jmp {first}",
    ".global resume_program",
    "resume_program:",
    "mov dword ptr [rdi + {disabled}], 0",
    ".global critical_low",
    "critical_low:",
    "cmp qword ptr [rdi + {switched}], {WANTS_SWITCHES}",
    "ja 2f",
    "lea rsp, [rdi + {save}]",
    abi::pop_registers!(),
    "lea rsp, [rsp + 16]",
    "popfq",
    "mov rsp, [rip + dispatcher_frame + {rsp}]",
    "jmp qword ptr [rip + dispatcher_frame + {rip}]",
    // As if the program had been interrupted before its next instruction.
    "2: mov dword ptr [rdi + {disabled}], 1",
    "mov rsp, [rdi + {upcall_stack}]",
    "jmp qword ptr [rdi + {message}]",
    ".global critical_high",
    "critical_high:",
    "ud2",
    ".text",
    first = sym crate::upcall::run,
    save = const offset_of!(DispatcherFrame, save),
    rsp = const offset_of!(DispatcherFrame, save) + offset_of!(Regs, rsp),
    rip = const offset_of!(DispatcherFrame, save) + offset_of!(Regs, rip),
    disabled = const offset_of!(DispatcherFrame, disabled),
    switched = const offset_of!(DispatcherFrame, switched),
    WANTS_SWITCHES = const WANTS_SWITCHES,
    upcall_stack = const offset_of!(DispatcherFrame, upcall_stack),
    message = const offset_of!(DispatcherFrame, upcall) + 8 * Upcall::Message as usize,
);

extern "C" {
    /// First entry of a domain that `unixd` has made.
    fn upcall_run();
    fn resume_program(frame: *mut DispatcherFrame) -> !;
    static __stack_top: u8;
    fn critical_low();
    fn critical_high();
}

/// Where the stack pointer is at the start of an upcall: as if it had been called.
pub fn stack() -> u64 {
    &raw const __stack_top as u64 - 8
}

/// How far the code of the way back to the program that is for `frame` is from the first thread's.
fn distance(frame: *mut DispatcherFrame) -> u64 {
    frame as u64 - abi::layout::DISPATCHER_FRAME
}

/// The page of that code.
pub fn way_back(frame: *mut DispatcherFrame) -> u64 {
    (upcall_run as *const () as u64 + distance(frame)) & !(abi::layout::PAGE - 1)
}

/// The critical range of the dispatcher with this frame.
pub fn critical(frame: *mut DispatcherFrame) -> (u64, u64) {
    let range = [critical_low as *const () as u64, critical_high as *const () as u64];
    let [low, high] = range.map(|address| address + distance(frame));
    (low, high)
}

/// Goes on with the program as the frame's save area says.
///
/// # Safety
///
/// `frame` is the frame of the running dispatcher, and its save area is good.
#[inline(always)]
pub unsafe fn resume(frame: *mut DispatcherFrame) -> ! {
    if distance(frame) == 0 {
        // SAFETY: the caller's promise.
        unsafe { resume_program(frame) }
    }
    let code = resume_program as *const () as u64 + distance(frame);
    // SAFETY: the code of the frame's area is the same (`thread::area`).
    unsafe { asm!("jmp {}", in(reg) code, in("rdi") frame, options(noreturn)) }
}

/// The entry point in the ELF header, kept by naming it.
pub fn first_entry() -> u64 {
    upcall_run as *const () as u64
}
