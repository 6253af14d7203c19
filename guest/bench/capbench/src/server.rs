//! Messages between two dispatchers of one address space.

use crate::{report, slot, time, Lab};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use libos::abi::dispatcher::{DispatcherFrame, Regs};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::ipc::{call, reply_recv, Caps};
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapType, Place, Status, PAGE};

const STACK: usize = 16 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: used by the second dispatcher only; nobody makes references to it.
unsafe impl Sync for Stack {}

static THREAD_STACK: Stack = Stack(UnsafeCell::new([0; STACK]));

/// Slots of the endpoint, the second dispatcher and its frame.
const EP: u32 = 250;
pub const DISPATCHER: u32 = 251;
pub const FRAME: u32 = 252;

/// Makes the second dispatcher and its frame.
pub fn objects(lab: &Lab) -> Result<(), Status> {
    lab.ram.retype(CapType::Dispatcher, 12 << 20, PAGE, 1, slot(DISPATCHER))?;
    lab.ram.retype(CapType::Frame, (12 << 20) + PAGE, PAGE, 1, slot(FRAME))
}

/// Gives the second dispatcher the spaces of this one.
pub fn configure(frame_va: u64, options: u32) -> Result<(), Status> {
    let configuration = op::Configure {
        cspace: slots::ROOT.into(),
        vspace: libos::vspace::root().into(),
        frame: slot(FRAME).into(),
        frame_va,
        fault_ep: Place::NULL,
        options,
    };
    invoke(slot(DISPATCHER), configuration)
}

/// Starts the second dispatcher with `entry(argument)`.
fn prepare(lab: &mut Lab, entry: extern "C" fn(u64) -> !, argument: u64) -> Result<(), Status> {
    objects(lab)?;
    let save = offset_of!(DispatcherFrame, save);
    let fields = [
        (offset_of!(Regs, rdi), argument),
        (offset_of!(Regs, rip), entry as usize as u64),
        (offset_of!(Regs, rflags), 0x202),
        (offset_of!(Regs, rsp), THREAD_STACK.0.get() as u64 + STACK as u64 - 8),
    ];
    let mut view = lab.window.open(slot(FRAME), 0, PAGE, RW)?;
    for (at, value) in fields {
        view.write(save + at, &value.to_le_bytes())?;
    }
    drop(view);
    configure(NATIVE_FRAME, 0)?;
    invoke(slot(DISPATCHER), op::Start {})
}

extern "C" fn echo(ep: u64) -> ! {
    let mut to = Place::NULL;
    loop {
        let words = match reply_recv(Place(ep), to, [1; 6], Caps::NONE, Place::NULL) {
            Ok(message) => message.words,
            Err(_) => [0; 6],
        };
        to = if words[0] == 0 { Place::NULL } else { Place::CALLER };
    }
}

/// Measures a call with its answer.
pub fn measure(lab: &mut Lab) {
    if let Err(error) = start(lab) {
        return libos::log!("capbench: no server: {error:?}");
    }
    let ep = slot(EP);
    report("call_and_answer", 100, || {
        time(|| (0..100).try_for_each(|_| call(ep, [7; 6], Caps::NONE, Place::NULL).map(drop)))
    });
    report("call_with_capability", 1, || {
        time(|| call(ep, [7; 6], Caps::one(lab.ram), Place::NULL).map(drop))
    });
    let _ = slot(DISPATCHER).delete();
    let _ = lab.clean();
}

fn start(lab: &mut Lab) -> Result<(), Status> {
    lab.ram.retype(CapType::Endpoint, 11 << 20, PAGE, 1, slot(EP))?;
    prepare(lab, echo, Place::from(slot(EP)).0)
}
