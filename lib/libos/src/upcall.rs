//! Upcalls: the kernel enters the domain's own library.
//!
//! The kernel stores the registers of the domain in the frame that both share, sets `disabled`, and
//! jumps to one of the entry points here. A *disabled* dispatcher is never upcalled; so these few
//! instructions move the registers to the stack of whoever was interrupted, clear `disabled`, and
//! call a handler as if that thread had called it itself:
//!
//! ```text
//!   thread's stack   … what it had | rip, flags, 15 registers | the handler's frames
//! ```
//!
//! From there on the handler is ordinary code of that thread: it may fault, wait, and let other
//! threads run. When it returns, the registers are popped and the thread goes on. A thread that is
//! not running is therefore nothing but a stack pointer ([`crate::thread`]).
//!
//! Sources: G18 §2.3 (dispatchers), §3.5 (self-paging); the idea is scheduler activations'.

use crate::abi::dispatcher::{DispatcherFrame, Regs, Upcall};
use crate::abi::layout::NATIVE_FRAME;
use crate::preempt;
use crate::thread;
use abi::slots;
use captypes::CapAddr;
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// What went wrong in a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address that it touched; 0 if that is not why.
    pub address: u64,
    /// The error code of the processor.
    pub error: u64,
    /// The vector of the exception; 14 is a page fault.
    pub vector: u64,
    /// The instruction.
    pub rip: u64,
}

impl Fault {
    /// Did the thread write (or else read or execute)?
    pub const fn is_write(&self) -> bool {
        self.error & 2 != 0
    }
    /// Was there a page, but without the right (or else none)?
    pub const fn is_protection(&self) -> bool {
        self.error & 1 != 0
    }
}

/// Registers that a thread has left on its stack, from the lowest address on.
#[repr(C)]
pub struct Context {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15.
    pub general: [u64; 15],
    /// Flags.
    pub rflags: u64,
    /// Where it goes on.
    pub rip: u64,
}

/// Handles a fault: `true` if the instruction is to be tried again. Runs as a part of the thread
/// that faulted.
pub type FaultHandler = fn(&Fault) -> bool;

static FAULT_HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the handler of page faults and other exceptions; the one before it, if any. Regions of
/// [`crate::memory`] have one of their own, which this replaces.
pub fn set_fault_handler(handler: FaultHandler) -> Option<FaultHandler> {
    set_entry(Upcall::PageFault, upcall_fault);
    set_entry(Upcall::Exception, upcall_fault);
    let old = FAULT_HANDLER.swap(handler as *mut (), Relaxed);
    // SAFETY: null, or what this function has stored.
    (!old.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), FaultHandler>(old) })
}

/// The frame that the kernel shares with the dispatcher that runs this.
#[inline]
pub fn frame() -> *mut DispatcherFrame {
    let frame;
    // SAFETY: GS is the base of the frame, which has its own address.
    unsafe {
        asm!("mov {}, gs:[{field}]", out(reg) frame, field = const offset_of!(DispatcherFrame, address),
            options(nostack, readonly, pure, preserves_flags));
    }
    frame
}

/// Does this run on the dispatcher with which the domain began?
#[inline]
pub(crate) fn is_first() -> bool {
    frame() as u64 == NATIVE_FRAME
}

/// Slot of the dispatcher that runs this.
pub(crate) fn dispatcher() -> CapAddr {
    match own_word(word::OWN_SLOT).load(Relaxed) {
        0 => slots::DISPATCHER,
        slot => CapAddr(slot as u32),
    }
}

/// What the library's words in a frame are for.
pub(crate) mod word {
    /// Sections of [`preempt`](crate::preempt) that the dispatcher is in.
    pub const DEPTH: usize = 0;
    /// Non-zero: something was put off until the end of the outermost.
    pub const MISSED: usize = 1;
    /// The dispatcher's slot; 0: the usual one.
    pub const OWN_SLOT: usize = 2;
    /// Non-zero: the dispatcher was a [worker's](crate::worker), which has ended.
    pub const ENDED: usize = 3;
}

/// The library's words in a frame, by the numbers of [`word`].
pub(crate) type Words = [AtomicU64; 4];

/// Those of the dispatcher that runs this. A thread stays on its dispatcher, so they stay the right
/// ones.
#[inline(always)]
pub(crate) fn own_words() -> &'static Words {
    // SAFETY: the frame of a dispatcher that runs is mapped; the words are atomic.
    unsafe { &(*frame()).library }
}

/// One of them.
#[inline(always)]
pub(crate) fn own_word(number: usize) -> &'static AtomicU64 {
    &own_words()[number]
}

/// The core that this runs on at the moment, counted from 0.
pub fn core() -> u64 {
    // SAFETY: every native domain has its frame there.
    unsafe { (*frame()).core.load(Relaxed) }
}

/// How many cores there are.
pub fn cores() -> u64 {
    // SAFETY: as above; the kernel wrote it before the domain began.
    unsafe { (*frame()).cores }
}

/// The same, for what the kernel tells in it.
pub fn own_frame() -> &'static DispatcherFrame {
    // SAFETY: mapped in every native domain for good; what the kernel changes is atomic.
    unsafe { &*frame() }
}

/// Makes the kernel enter this library when notification bits are set.
pub fn install() {
    preempt::set_catch_up(thread::take_events);
    set_entry(Upcall::Message, upcall_event);
    set_entry(Upcall::Timer, upcall_event);
}

fn set_entry(reason: Upcall, entry: unsafe extern "C" fn()) {
    let first = NATIVE_FRAME as *mut DispatcherFrame;
    // SAFETY: the frame is mapped in every native domain, and the kernel alone reads the field.
    unsafe { (&raw mut (*first).upcall[reason as usize]).write(entry as *const () as u64) };
}

// From the frame at `rdi` (`SAVE` is its save area) to a context on the interrupted stack.
global_asm!(
    ".section .text.upcall, \"ax\"",
    ".macro push_context",
    "mov rsp, [rdi + {save} + {rsp}]",
    "push [rdi + {save} + {rip}]",
    "push [rdi + {save} + {rflags}]",
    "push [rdi + {save} + {r15}]",
    "push [rdi + {save} + {r15} - 8]",
    "push [rdi + {save} + {r15} - 16]",
    "push [rdi + {save} + {r15} - 24]",
    "push [rdi + {save} + {r15} - 32]",
    "push [rdi + {save} + {r15} - 40]",
    "push [rdi + {save} + {r15} - 48]",
    "push [rdi + {save} + {r15} - 56]",
    "push [rdi + {save} + {rbp}]",
    "push [rdi + {save} + {rbp} - 8]",
    "push [rdi + {save} + {rbp} - 16]",
    "push [rdi + {save} + {rbp} - 24]",
    "push [rdi + {save} + {rbp} - 32]",
    "push [rdi + {save} + {rbp} - 40]",
    "push [rdi + {save}]",
    "mov rbx, rsp",
    "and rsp, -16",
    ".endm",
    // A fault: the handler gets its address, error code and vector, and the context.
    ".global upcall_fault",
    "upcall_fault:",
    "push_context",
    "mov rsi, [rdi + {error}]",
    "mov rdx, [rdi + {vector}]",
    "mov rcx, rbx",
    "mov r8, rdi",
    "mov rdi, [rdi + {address}]",
    "mov dword ptr [r8 + {disabled}], 0",
    "call {on_fault}",
    "mov rsp, rbx",
    "test al, al",
    "jnz resume_checked",
    // Nobody handles it. Tried again while disabled, the instruction faults for whoever watches over
    // the domain.
    "mov dword ptr gs:[{disabled}], 1",
    "jmp 1f",
    // Notification bits were set.
    ".global upcall_event",
    "upcall_event:",
    "push_context",
    "mov dword ptr [rdi + {disabled}], 0",
    "call {on_event}",
    "mov rsp, rbx",
    "jmp resume_checked",
    // switch_thread(rdi: where to leave the stack pointer, rsi: whose stack to go on with). Both are
    // in a section of `preempt`.
    ".global switch_thread",
    "switch_thread:",
    "pushfq",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rbp",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push rbx",
    "push rax",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "jmp 1f",
    // Something may have come while the dispatcher was disabled.
    "resume_checked:",
    "cmp qword ptr gs:[{notifications}], 0",
    "jne 2f",
    "1:",
    abi::pop_registers!(),
    "popfq",
    "ret",
    "2:",
    "mov rbx, rsp",
    "and rsp, -16",
    "call {on_event}",
    "mov rsp, rbx",
    "jmp 1b",
    // Where a new thread begins: `rdi` is what its main function gets.
    ".global begin_thread",
    "begin_thread:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {thread_main}",
    "ud2",
    ".text",
    save = const offset_of!(DispatcherFrame, save),
    rsp = const offset_of!(Regs, rsp),
    rip = const offset_of!(Regs, rip),
    rflags = const offset_of!(Regs, rflags),
    r15 = const offset_of!(Regs, r15),
    rbp = const offset_of!(Regs, rbp),
    disabled = const offset_of!(DispatcherFrame, disabled),
    notifications = const offset_of!(DispatcherFrame, notifications),
    address = const offset_of!(DispatcherFrame, fault_address),
    error = const offset_of!(DispatcherFrame, fault_error),
    vector = const offset_of!(DispatcherFrame, fault_vector),
    on_fault = sym on_fault,
    on_event = sym on_event,
    thread_main = sym thread::thread_main,
);

extern "C" {
    fn upcall_fault();
    fn upcall_event();
    /// Goes on with another thread: leaves the present stack pointer at `from`. Returns when some
    /// thread switches back.
    pub(crate) fn switch_thread(from: *mut u64, to: u64);
    /// See [`crate::thread`].
    pub(crate) fn begin_thread();
}

/// Notification bits have come, or were put off until now.
extern "C" fn on_event() {
    thread::take_events();
}

/// Is the instruction to be tried again?
extern "C" fn on_fault(address: u64, error: u64, vector: u64, context: &Context) -> bool {
    let fault = Fault { address, error, vector, rip: context.rip };
    let handler = FAULT_HANDLER.load(Relaxed);
    // SAFETY: null, or what `set_fault_handler` has stored.
    let handler = unsafe { core::mem::transmute::<*mut (), Option<FaultHandler>>(handler) };
    handler.is_some_and(|handler| thread::keeping_vectors(|| handler(&fault)))
}
