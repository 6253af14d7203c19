//! A program that handles its own page faults: G18's self-paging (§3.5), without a library around it.
//!
//! The measured part runs in a second dispatcher with the address space and capabilities of the
//! first. Its page faults come to its own handler as upcalls; to invoke capabilities it *disables*
//! itself, as a library does.

use crate::lab::Lab;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs, Upcall};
use libos::abi::slots;
use libos::vspace::RW;
use libos::PAGE;
use libos::{domain, invoke, op, Cap, CapType, Place, Status};

const STACK: usize = 64 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: used by the second dispatcher only; nobody makes references to it.
unsafe impl Sync for Stack {}

static PROGRAM_STACK: Stack = Stack(UnsafeCell::new([0; STACK]));
static UPCALL_STACK: Stack = Stack(UnsafeCell::new([0; STACK]));

/// The running program: a closure's address and how to call it, and the handler likewise.
static BODY: AtomicUsize = AtomicUsize::new(0);
static CALL_BODY: AtomicUsize = AtomicUsize::new(0);
static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// A [`fault`] for the type of the handler.
static CALL_HANDLER: AtomicUsize = AtomicUsize::new(0);
static FRAME: AtomicUsize = AtomicUsize::new(0);
/// Where the program goes on after a fault.
static RESUME_RIP: AtomicU64 = AtomicU64::new(0);
static RESUME_RSP: AtomicU64 = AtomicU64::new(0);

const SAVE: usize = offset_of!(DispatcherFrame, save);

extern "C" {
    fn self_paging_fault();
    fn self_paging_critical_low();
    fn self_paging_critical_high();
}

global_asm!(
    // rdi: the frame, rsp: the upcall stack. All registers are saved.
    "self_paging_fault:",
    "push rdi",
    "call [rip + {fault}]",
    "pop rdi",
    "mov rax, [rdi + {rip}]",
    "mov [rip + {resume_rip}], rax",
    "mov rax, [rdi + {rsp}]",
    "mov [rip + {resume_rsp}], rax",
    "lea rsp, [rdi + {save}]",
    "mov dword ptr [rdi], 0",
    // From here on it counts as disabled although the flag is clear.
    "self_paging_critical_low:",
    libos::abi::pop_registers!(),
    "lea rsp, [rsp + 16]",
    "popfq",
    "mov rsp, [rip + {resume_rsp}]",
    "jmp qword ptr [rip + {resume_rip}]",
    "self_paging_critical_high:",
    "ud2",
    fault = sym CALL_HANDLER,
    resume_rip = sym RESUME_RIP,
    resume_rsp = sym RESUME_RSP,
    rip = const SAVE + offset_of!(Regs, rip),
    rsp = const SAVE + offset_of!(Regs, rsp),
    save = const SAVE,
);

const _: () = {
    assert!(offset_of!(DispatcherFrame, disabled) == 0);
    assert!(offset_of!(Regs, rflags) == 136);
};

/// A fault of the program; the handler may change where it goes on.
pub struct Fault<'a> {
    pub address: u64,
    frame: &'a mut DispatcherFrame,
}

impl Fault<'_> {
    /// Goes on `bytes` behind the instruction that faulted.
    #[inline(always)]
    pub fn skip(&mut self, bytes: u64) {
        self.frame.save.rip += bytes;
    }
}

extern "C" fn fault<H: Fn(&mut Fault)>(frame: *mut DispatcherFrame) {
    // SAFETY: `run` has put the address of a handler of this type there, and waits; the program that
    // uses the frame does not run meanwhile.
    let (handler, frame) =
        unsafe { (&*(HANDLER.load(Ordering::Relaxed) as *const H), &mut *frame) };
    handler(&mut Fault { address: frame.fault_address, frame });
}

extern "C" fn call_body<B: FnMut()>(body: usize) {
    // SAFETY: `run` has stored the address of a body of this type, and waits.
    unsafe { (*(body as *mut B))() }
}

extern "C" fn start() -> ! {
    // SAFETY: `run` has put the address of a function of this type there.
    let call: extern "C" fn(usize) =
        unsafe { core::mem::transmute(CALL_BODY.load(Ordering::Relaxed)) };
    call(BODY.load(Ordering::Relaxed));
    set_disabled(1);
    let _ = slots::DISPATCHER.notify(1);
    loop {
        let _ = invoke(slots::DISPATCHER, op::Yield {});
    }
}

#[inline(always)]
fn set_disabled(value: u32) {
    let frame = FRAME.load(Ordering::Relaxed) as *const DispatcherFrame;
    // SAFETY: `run` has mapped the frame.
    unsafe { (*frame).disabled.store(value, Ordering::Relaxed) }
}

/// Performs invocations from the program: disabled, so that the kernel takes them for a library's.
#[inline(always)]
pub fn invoking<T>(work: impl FnOnce() -> T) -> T {
    set_disabled(1);
    let result = work();
    set_disabled(0);
    result
}

/// Runs `body` to its end, with its page faults handled by `handler`, which runs disabled.
pub fn run<H: Fn(&mut Fault), B: FnMut()>(
    lab: &mut Lab,
    handler: &H,
    body: &mut B,
) -> Result<(), Status> {
    let dispatcher = lab.make(CapType::Dispatcher, PAGE, 1, PAGE)?;
    let frame = domain::with(|domain| domain.make(CapType::Frame, PAGE))?;
    let va = domain::with(|domain| domain.map(frame.into(), 0, PAGE, RW))?;
    HANDLER.store(handler as *const H as usize, Ordering::Relaxed);
    CALL_HANDLER.store(fault::<H> as *const () as usize, Ordering::Relaxed);
    BODY.store(body as *mut B as usize, Ordering::Relaxed);
    CALL_BODY.store(call_body::<B> as *const () as usize, Ordering::Relaxed);
    FRAME.store(va as usize, Ordering::Relaxed);
    // SAFETY: just mapped; the dispatcher that shares it has not been started.
    let shared = unsafe { &mut *(va as *mut DispatcherFrame) };
    let top = |stack: &Stack| stack.0.get() as u64 + STACK as u64;
    shared.save.rip = start as *const () as u64;
    shared.save.rsp = top(&PROGRAM_STACK) - 8;
    shared.save.rflags = 0x202;
    shared.upcall[Upcall::PageFault as usize] = self_paging_fault as *const () as u64;
    shared.upcall_stack = top(&UPCALL_STACK);
    shared.critical_low = self_paging_critical_low as *const () as u64;
    shared.critical_high = self_paging_critical_high as *const () as u64;
    let configuration = op::Configure {
        cspace: slots::ROOT.into(),
        vspace: libos::vspace::root().into(),
        frame: frame.into(),
        frame_va: va,
        fault_ep: Place::NULL,
        // Upcalled as its frame says; and with a GS base, by which the library finds that frame.
        options: 0,
    };
    invoke(dispatcher, configuration)?;
    invoke(dispatcher, op::Start {})?;
    invoke(slots::DISPATCHER, op::Wait {})?;
    dispatcher.delete()
}

/// Reads where nothing is mapped, and nobody is told of it.
#[inline(never)]
fn fail_here() {
    // SAFETY: raises an exception; this program does not go on.
    unsafe { core::ptr::read_volatile(core::hint::black_box(0x18) as *const u64) };
}

/// A second dispatcher that fails while the first waits for it.
pub fn fail(lab: &mut Lab) -> Result<(), Status> {
    run(lab, &|_: &mut Fault| {}, &mut || {
        set_entry(0);
        fail_here();
    })
}

/// Changes where page faults go: 0 for nowhere.
fn set_entry(entry: u64) {
    let frame = FRAME.load(Ordering::Relaxed) as *mut DispatcherFrame;
    // SAFETY: `run` has mapped the frame, and only the kernel reads the field.
    unsafe { (&raw mut (*frame).upcall[Upcall::PageFault as usize]).write_volatile(entry) };
}
