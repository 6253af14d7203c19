//! Messages between two dispatchers of one address space, and what switching costs.

use crate::{measure, nothing, now, report, TIMES};
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs, USER_CS, USER_SS};
use libos::abi::slots::{DISPATCHER, ROOT, VSPACE};
use libos::domain;
use libos::ipc::{call, recv, reply_recv, Caps};
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Status};

const PAGE: u64 = 4096;
const STACK: u64 = 16 << 10;

/// A dispatcher in the own address space.
pub struct Thread {
    pub dispatcher: CapAddr,
    /// Its frame, mapped here.
    pub frame: *mut DispatcherFrame,
}

impl Thread {
    /// Makes one that will start at `entry` with two arguments.
    pub fn new(entry: usize, args: [u64; 2], options: u32) -> Result<Self, Status> {
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
    pub fn start(&self) -> Result<(), Status> {
        invoke(self.dispatcher, op::Start {})
    }

    /// Ends it.
    pub fn kill(self) -> Result<(), Status> {
        self.dispatcher.delete()
    }
}

static SENT_AT: AtomicU64 = AtomicU64::new(0);
static ONE_WAY: AtomicU64 = AtomicU64::new(0);

extern "C" fn echo(ep: u64, _: u64) -> ! {
    let mut to = Place::NULL;
    loop {
        let _ = reply_recv(Place(ep), to, [0; 6], Caps::NONE, Place::NULL);
        let arrived = now();
        ONE_WAY.fetch_add(arrived - SENT_AT.load(Ordering::Relaxed), Ordering::Relaxed);
        to = Place::CALLER;
    }
}

extern "C" fn caller(ep: u64, _: u64) -> ! {
    loop {
        let _ = call(Place(ep), [0; 6], Caps::NONE, Place::NULL);
    }
}

pub fn run() -> Result<(), Status> {
    let ep = domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?;
    let place = Place::from(ep);
    let server = Thread::new(echo as *const () as usize, [place.0, 0], 0)?;
    server.start()?;
    let one = || {
        SENT_AT.store(now(), Ordering::Relaxed);
        call(ep, [1, 2, 3, 4, 5, 6], Caps::NONE, Place::NULL).map(|_| ())
    };
    one()?;
    ONE_WAY.store(0, Ordering::Relaxed);
    measure("ipc_round_trip", one, nothing)?;
    report("ipc_one_way", ONE_WAY.load(Ordering::Relaxed), TIMES + 1);
    server.kill()?;

    let ep = domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?;
    let client = Thread::new(caller as *const () as usize, [Place::from(ep).0, 0], 0)?;
    client.start()?;
    recv(ep, Place::NULL)?;
    let one = || reply_recv(ep, Place::CALLER, [0; 6], Caps::NONE, Place::NULL).map(|_| ());
    measure("ipc_reply_recv_call", one, nothing)?;
    client.kill()?;

    let notify = || {
        DISPATCHER.notify(1)?;
        invoke(DISPATCHER, op::Wait {}).map(|_| ())
    };
    measure("notify_and_wait", notify, nothing)?;
    let alone = || invoke(DISPATCHER, op::Yield {});
    measure("yield_alone", alone, nothing)
}
