//! The page-fault upcall: the kernel enters here when the program touches what is not mapped.
//!
//! The kernel has saved the program's registers in the dispatcher's frame and has set `disabled`:
//! until the program goes on, nothing else is upcalled. The handler runs on a stack of its own, in
//! the same address space, and touches only memory that is always mapped: the image, the heap, this
//! stack. It asks the region's object for the page and loads the program's registers again, without
//! the kernel. A fault of the handler itself is reported to the dispatcher's fault endpoint.

use super::object::{Access, Fault};
use super::{space, Error};
use crate::log;
use abi::dispatcher::{DispatcherFrame, Regs, Upcall};
use abi::layout::NATIVE_FRAME;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the handler's stack.
const STACK_BYTES: usize = 64 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: nobody makes references to it; the kernel points the stack pointer there, and does not
// upcall a disabled dispatcher, so one handler at a time uses it.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));

const SAVE: usize = offset_of!(DispatcherFrame, save);

const _: () = assert!(offset_of!(Regs, rflags) == offset_of!(Regs, rip) + 16);

global_asm!(
    ".section .text.libos_resume, \"ax\"",
    ".global libos_resume",
    "libos_resume:",
    "lea rsp, [rdi + {save}]",
    "mov dword ptr [rdi + {disabled}], 0",
    ".global libos_critical_low",
    "libos_critical_low:",
    abi::pop_registers!(),
    "lea rsp, [rsp + 16]",
    "popfq",
    "mov rsp, gs:[{rsp}]",
    "jmp qword ptr gs:[{rip}]",
    ".global libos_critical_high",
    "libos_critical_high:",
    "ud2",
    ".text",
    save = const SAVE,
    disabled = const offset_of!(DispatcherFrame, disabled),
    rsp = const SAVE + offset_of!(Regs, rsp),
    rip = const SAVE + offset_of!(Regs, rip),
);

extern "C" {
    fn libos_resume(frame: *mut DispatcherFrame) -> !;
    fn libos_critical_low();
    fn libos_critical_high();
}

/// Tells the kernel where to enter for page faults of the domain's first dispatcher.
pub(super) fn install() {
    let frame = NATIVE_FRAME as *mut DispatcherFrame;
    // SAFETY: the frame is mapped there in every native program, for good, and these fields are
    // read by the kernel only.
    unsafe {
        (*frame).critical_low = libos_critical_low as *const () as u64;
        (*frame).critical_high = libos_critical_high as *const () as u64;
        // As if the kernel had called.
        (*frame).upcall_stack = STACK.0.get() as u64 + STACK_BYTES as u64 - 8;
        (*frame).upcall[Upcall::PageFault as usize] = page_fault as *const () as u64;
    }
}

/// What happens to a program whose fault nobody resolved.
pub type Hook = fn(&Fault, Error, &mut Regs) -> bool;

static HOOK: AtomicUsize = AtomicUsize::new(0);

/// From now on, faults that no region and no object resolves are told to `hook`, on the handler's
/// stack. It may change the registers with which the program goes on, and returns whether it does;
/// otherwise the program ends. The hook must not fault.
pub fn on_unresolved(hook: Option<Hook>) {
    HOOK.store(hook.map_or(0, |hook| hook as usize), Ordering::Relaxed);
}

fn hook() -> Option<Hook> {
    match HOOK.load(Ordering::Relaxed) {
        0 => None,
        // SAFETY: only `on_unresolved` stores here, and what it stores is such a function.
        hook => Some(unsafe { core::mem::transmute::<usize, Hook>(hook) }),
    }
}

/// Bits of the processor's error code.
mod error_code {
    pub const PRESENT: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const FETCH: u64 = 16;
}

fn describe(frame: &DispatcherFrame) -> Fault {
    let error = frame.fault_error;
    let access = match error {
        _ if error & error_code::WRITE != 0 => Access::Write,
        _ if error & error_code::FETCH != 0 => Access::Execute,
        _ => Access::Read,
    };
    let present = error & error_code::PRESENT != 0;
    Fault { address: frame.fault_address, access, present, rip: frame.save.rip }
}

/// Entered by the kernel.
extern "C" fn page_fault(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: the kernel passes the frame's address and writes it only while the dispatcher is
    // enabled; no other reference exists while it is not.
    let shared = unsafe { &mut *frame };
    let fault = describe(shared);
    if let Err(error) = space::with(|space| space.fault(&fault)) {
        let goes_on = hook().is_some_and(|hook| hook(&fault, error, &mut shared.save));
        if !goes_on {
            end(&fault, error);
        }
    }
    resume(shared)
}

/// Goes on with the program; first with what it is told by notifications that have come meanwhile.
fn resume(frame: &mut DispatcherFrame) -> ! {
    let entry = frame.upcall[Upcall::Message as usize];
    if entry != 0 && frame.notifications.load(Ordering::Relaxed) != 0 {
        type Entry = unsafe extern "C" fn(*mut DispatcherFrame) -> !;
        // SAFETY: what the library has put there is such an entry point. The dispatcher is disabled
        // and the save area holds the program's registers, as when the kernel enters it.
        unsafe { core::mem::transmute::<u64, Entry>(entry)(frame) }
    }
    // SAFETY: the save area holds the program's registers.
    unsafe { libos_resume(frame) }
}

/// Says what happened and raises an exception, which whoever watches over this program is told of.
fn end(fault: &Fault, error: Error) -> ! {
    let Fault { address, access, rip, .. } = fault;
    log!("page fault: {access:?} of {address:#x} at {rip:#x}: {error}");
    // SAFETY: an exception while disabled ends the program.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
