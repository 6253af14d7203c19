//! From a fault or system call of a Linux dispatcher's program to the first instruction of its
//! library.

use crate::{report, ticks, Lab};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs, Upcall, USER_CS, USER_SS};
use libos::abi::slots::{DISPATCHER, ROOT, VSPACE};
use libos::captypes::invocations::options;
use libos::vspace::RW;
use libos::{domain, invoke, op, Cap, CapAddr, CapType, Place, Status};

const PAGE: u64 = 4096;
const STACK: u64 = 16 << 10;
/// Nothing is mapped there.
const ABSENT: u64 = 6 << 39;

/// A dispatcher in the own address space.
struct Thread {
    dispatcher: CapAddr,
    /// Its frame, mapped here.
    frame: *mut DispatcherFrame,
}

impl Thread {
    /// Makes one that will start at `entry` with two arguments.
    fn new(entry: usize, args: [u64; 2], options: u32) -> Result<Self, Status> {
        let (dispatcher, frame, frame_va, stack) = domain::with(|domain| {
            let dispatcher = domain.make(CapType::Dispatcher, PAGE)?;
            let frame = domain.make(CapType::Frame, PAGE)?;
            let frame_va = domain.map(frame.into(), 0, PAGE, RW)?;
            let stack = domain.make(CapType::Frame, STACK)?;
            Ok((dispatcher, frame, frame_va, domain.map(stack.into(), 0, STACK, RW)?))
        })?;
        let frame_ptr = frame_va as *mut DispatcherFrame;
        let regs = Regs {
            rdi: args[0],
            rsi: args[1],
            rip: entry as u64,
            cs: USER_CS,
            rflags: 0x202,
            rsp: stack + STACK / 2 - 8,
            ss: USER_SS,
            ..Regs::default()
        };
        // SAFETY: just mapped, writable, and the thread does not run yet.
        unsafe {
            (&raw mut (*frame_ptr).save).write(regs);
            (&raw mut (*frame_ptr).upcall_stack).write(stack + STACK);
        }
        let settings = op::Configure {
            cspace: ROOT.into(),
            vspace: VSPACE.into(),
            frame: frame.into(),
            frame_va,
            fault_ep: Place::NULL,
            options,
        };
        invoke(dispatcher, settings)?;
        Ok(Thread { dispatcher, frame: frame_ptr })
    }

    /// Starts it.
    fn start(&self) -> Result<(), Status> {
        invoke(self.dispatcher, op::Start {})
    }

    /// Ends it.
    fn kill(self) -> Result<(), Status> {
        self.dispatcher.delete()
    }
}

static START: AtomicU64 = AtomicU64::new(0);
static TOOK: AtomicU64 = AtomicU64::new(0);

/// Where upcalls go: the stack is the library's, `rdi` its frame.
#[unsafe(naked)]
extern "C" fn entered() -> ! {
    naked_asm!("call {}", "ud2", sym taken)
}

extern "C" fn taken() -> ! {
    let took = ticks() - START.load(Ordering::Relaxed);
    TOOK.store(took, Ordering::Relaxed);
    let _ = DISPATCHER.notify(1);
    // Until the main thread ends this one.
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn touch(address: u64, _: u64) -> ! {
    START.store(ticks(), Ordering::Relaxed);
    // SAFETY: faults, which is what is measured; control goes to `entered`.
    unsafe { core::ptr::read_volatile(address as *const u64) };
    panic!("no upcall came");
}

extern "C" fn ask(_: u64, _: u64) -> ! {
    START.store(ticks(), Ordering::Relaxed);
    // SAFETY: the program is enabled, so control goes to `entered`.
    unsafe { core::arch::asm!("syscall", inout("rax") 39u64 => _, out("rcx") _, out("r11") _) };
    panic!("no upcall came");
}

/// Runs `entry` until it comes to `upcall`; what that took.
fn once(entry: usize, upcall: Upcall) -> Result<u64, Status> {
    let thread = Thread::new(entry, [ABSENT, 0], options::LINUX)?;
    // SAFETY: mapped and writable; the thread does not run yet.
    unsafe {
        (&raw mut (*thread.frame).upcall[upcall as usize])
            .write(entered as *const () as usize as u64)
    };
    thread.start()?;
    invoke(DISPATCHER, op::Wait {})?;
    thread.kill()?;
    Ok(TOOK.load(Ordering::Relaxed))
}

/// Measures them.
pub fn measure(_: &mut Lab) {
    let fault = touch as *const () as usize;
    report("upcall_page_fault", 1, || once(fault, Upcall::PageFault));
    let call = ask as *const () as usize;
    report("upcall_syscall", 1, || once(call, Upcall::Syscall));
}
