//! Further dispatchers in the address space and the CSpace of the test program.
//!
//! A thread gets its dispatcher and frame from fixed places in the laboratory's RAM and slots, by
//! its number, and its stack from this image. It may use its arguments and the system calls, but
//! nothing that the main thread may be using.

use crate::setup::{slot, Lab};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use libos::abi::dispatcher::{DispatcherFrame, Regs, USER_CS, USER_SS};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::ipc::{call, recv, Caps, Message};
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status, PAGE};

/// Most threads.
pub const THREADS: u32 = 7;
/// Where their objects are in the laboratory's RAM.
const RAM_OFFSET: u64 = 15 << 20;
const FIRST_SLOT: u32 = 240;
const STACK: usize = 16 << 10;

/// The endpoint at which the main thread hears of threads and of their faults.
pub const EP: CapAddr = slot(FIRST_SLOT + 2 * THREADS);
const EP_OFFSET: u64 = RAM_OFFSET + 2 * THREADS as u64 * PAGE;

#[repr(C, align(16))]
struct Stacks([UnsafeCell<[u8; STACK]>; THREADS as usize]);

// SAFETY: each stack is used by the thread with its number only; nobody makes references to them.
unsafe impl Sync for Stacks {}

static STACKS: Stacks = Stacks([const { UnsafeCell::new([0; STACK]) }; THREADS as usize]);

/// Where a thread runs, if not where the main thread does.
#[derive(Clone, Copy)]
pub struct Spaces {
    pub cspace: Place,
    pub vspace: Place,
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces { cspace: slots::ROOT.into(), vspace: libos::vspace::root().into() }
    }
}

/// The dispatcher of thread `n`.
pub const fn dispatcher(n: u32) -> CapAddr {
    slot(FIRST_SLOT + 2 * n)
}

/// Its frame.
pub const fn frame(n: u32) -> CapAddr {
    slot(FIRST_SLOT + 2 * n + 1)
}

/// What a thread executes.
pub type Entry = extern "C" fn(u64, u64, u64) -> !;

/// Makes the endpoint [`EP`].
pub fn make_endpoint(lab: &Lab) -> Result<(), Status> {
    lab.make(CapType::Endpoint, EP_OFFSET, PAGE, EP)
}

/// Makes the objects of thread `n`.
pub fn make(lab: &Lab, n: u32) -> Result<(), Status> {
    let at = RAM_OFFSET + 2 * n as u64 * PAGE;
    lab.make(CapType::Dispatcher, at, PAGE, dispatcher(n))?;
    lab.make(CapType::Frame, at + PAGE, PAGE, frame(n))
}

/// Makes thread `n` and gives it everything but the start.
pub fn prepare(
    lab: &mut Lab,
    n: u32,
    entry: Entry,
    args: [u64; 3],
    spaces: Spaces,
) -> Result<(), Status> {
    make(lab, n)?;
    set_registers(lab, n, &first_registers(n, entry, args))?;
    configure(n, spaces, NATIVE_FRAME, 0)
}

/// Gives thread `n` its spaces and its frame.
pub fn configure(n: u32, spaces: Spaces, frame_va: u64, options: u32) -> Result<(), Status> {
    let fault_ep = if EP.identify().is_ok() { EP.into() } else { Place::NULL };
    let configuration = op::Configure {
        cspace: spaces.cspace,
        vspace: spaces.vspace,
        frame: frame(n).into(),
        frame_va,
        fault_ep,
        options,
    };
    invoke(dispatcher(n), configuration)
}

/// The registers with which thread `n` begins to execute `entry`.
pub fn first_registers(n: u32, entry: Entry, args: [u64; 3]) -> Regs {
    let [rdi, rsi, rdx] = args;
    Regs {
        rdi,
        rsi,
        rdx,
        rip: entry as usize as u64,
        cs: USER_CS,
        rflags: 0x202,
        // As after a call, with room for upcalls above.
        rsp: stack_top(n) - STACK as u64 / 2 - 8,
        ss: USER_SS,
        ..Regs::default()
    }
}

/// The end of the stack of thread `n`.
pub fn stack_top(n: u32) -> u64 {
    STACKS.0[n as usize].get() as u64 + STACK as u64
}

/// Writes the save area of thread `n`.
pub fn set_registers(lab: &mut Lab, n: u32, regs: &Regs) -> Result<(), Status> {
    let mut view = lab.window.open(frame(n), 0, PAGE, RW)?;
    for (i, register) in words_of(regs).iter().enumerate() {
        view.write(offset_of!(DispatcherFrame, save) + 8 * i, &register.to_le_bytes())?;
    }
    Ok(())
}

fn words_of(regs: &Regs) -> [u64; 20] {
    let r = regs;
    [
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15, r.rip, r.cs, r.rflags, r.rsp, r.ss,
    ]
}

/// Makes and starts thread `n` in the main thread's spaces.
pub fn start(lab: &mut Lab, n: u32, entry: Entry, args: [u64; 3]) -> Result<(), Status> {
    prepare(lab, n, entry, args, Spaces::default())?;
    invoke(dispatcher(n), op::Start {})
}

/// Ends thread `n`, whatever it is doing.
pub fn kill(n: u32) -> Result<(), Status> {
    dispatcher(n).revoke()?;
    dispatcher(n).delete()?;
    frame(n).delete()
}

/// Waits for a message or a fault of a thread.
pub fn hear() -> Result<Message, Status> {
    recv(EP, Place::NULL)
}

/// For threads: sends words to the main thread and waits for its answer.
pub fn tell(words: [u64; 6]) -> Result<Message, Status> {
    call(EP, words, Caps::NONE, Place::NULL)
}

/// For threads: nothing is left to do.
pub fn idle() -> ! {
    loop {
        let _ = invoke(slots::KERNEL, op::ReadCounter { counter: u32::MAX, core: 0 });
        core::hint::spin_loop();
    }
}
