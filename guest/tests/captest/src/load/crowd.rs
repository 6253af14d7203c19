//! Many dispatchers and endpoints: calls that wait, servers that go, timers that are due at once.

use super::{failure, Load, PAGE};
use crate::scheduling::{ms, now, sleep};
use crate::setup::{slot, Lab};
use crate::threads::{self, stack_top};
use crate::Test;
use core::arch::naked_asm;
use core::mem::offset_of;
use libos::abi::dispatcher::{DispatcherFrame, Regs, USER_CS, USER_SS};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::captypes::CapType::*;
use libos::captypes::Label;
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapAddr, Place, Status};
use testkit::{check, fails, good, Failure, Outcome};

pub const TESTS: &[Test] = &[
    ("load_endpoints", endpoints),
    ("load_callers", callers),
    ("load_served", served),
    ("load_timers", timers),
    ("load_roots", roots),
    ("load_faults", faults),
];

/// The frame that all dispatchers of a crowd share.
const FRAME: CapAddr = slot(5);

/// Calls the endpoint at RDI, then stops the dispatcher at RBX, which is its own.
#[unsafe(naked)]
extern "C" fn call_once() -> ! {
    naked_asm!(
        "mov eax, {call}", "xor r13d, r13d", "xor r14d, r14d", "syscall",
        "2:", "mov rdi, rbx", "mov eax, {suspend}", "syscall", "jmp 2b",
        call = const Label::Call as u64, suspend = const Label::Suspend as u64,
    )
}

/// Waits for notifications, for ever.
#[unsafe(naked)]
extern "C" fn wait_for_ever() -> ! {
    naked_asm!("2:", "mov rdi, rbx", "mov eax, {wait}", "syscall", "jmp 2b",
        wait = const Label::Wait as u64)
}

/// Raises an exception that nobody hears of.
#[unsafe(naked)]
extern "C" fn fail() -> ! {
    naked_asm!("ud2")
}

/// Makes dispatchers, which execute `entry` with what `target` says in RDI; the places of all.
fn start(
    lab: &mut Lab,
    load: &mut Load,
    count: u32,
    entry: unsafe extern "C" fn() -> !,
    vspace: Place,
    mut target: impl FnMut(u32) -> Place,
) -> Result<u32, Status> {
    load.make(Frame, PAGE, 1, FRAME)?;
    load.used = load.used.next_multiple_of(256);
    let first = load.used;
    let mut view = lab.window.open(FRAME, 0, PAGE, RW)?;
    let save = offset_of!(DispatcherFrame, save);
    let mut set = |at, value: u64| view.write(save + at, &value.to_le_bytes());
    set(offset_of!(Regs, rip), entry as usize as u64)?;
    set(offset_of!(Regs, cs), USER_CS)?;
    set(offset_of!(Regs, ss), USER_SS)?;
    set(offset_of!(Regs, rflags), 0x202)?;
    set(offset_of!(Regs, rsp), stack_top(0))?;
    for n in 0..count {
        let own = load.object(Dispatcher, PAGE)?;
        let configuration = op::Configure {
            cspace: slots::ROOT.into(),
            vspace,
            frame: FRAME.into(),
            frame_va: NATIVE_FRAME,
            fault_ep: Place::NULL,
            options: 0,
        };
        invoke(own, configuration)?;
        set(offset_of!(Regs, rbx), own.0)?;
        set(offset_of!(Regs, rdi), target(n).0)?;
        invoke(own, op::Start {})?;
    }
    Ok(first)
}

fn own_root() -> Place {
    libos::vspace::root().into()
}

/// Receives from every second endpoint, the oldest first, and says so.
extern "C" fn take_over(first: u64, count: u64, _: u64) -> ! {
    for n in (0..count as u32).step_by(2) {
        let _ = invoke(Load::at(first as u32 + n), op::Poll { recv: Place::NULL });
    }
    let _ = threads::tell([count, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// One dispatcher serves very many endpoints; another one takes over some; some go; both go.
fn endpoints(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    good!(threads::make_endpoint(lab));
    let count = 1000 * load.scale;
    load.used = load.used.next_multiple_of(256);
    let first = load.used;
    for _ in 0..count {
        let endpoint = good!(load.object(Endpoint, PAGE));
        fails!(Empty, invoke(endpoint, op::Poll { recv: Place::NULL }));
    }
    good!(threads::start(lab, 0, take_over, [u64::from(first), u64::from(count), 0]));
    check!(good!(threads::hear()).words[0] == u64::from(count));
    for n in (0..count).step_by(8) {
        good!(invoke(Load::at(first + n), op::Listen { bits: 1 }));
    }
    for n in (0..count).step_by(3) {
        good!(Load::at(first + n).delete());
    }
    // With all that it serves.
    good!(threads::kill(0));
    good!(load.end());
    Ok(())
}

/// Everybody calls one endpoint, which goes.
fn callers(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let endpoint = good!(load.object(Endpoint, PAGE));
    let count = 50 * load.scale;
    let first = good!(start(lab, &mut load, count, call_once, own_root(), |_| endpoint));
    wait_until(lab, || Ok(invoke(Load::at(first + count - 1), op::Usage {})?.ticks > 0))?;
    good!(endpoint.delete());
    good!(sleep(ms()));
    for n in (0..count).rev() {
        good!(Load::at(first + n).delete());
    }
    good!(load.end());
    Ok(())
}

fn wait_until(
    _: &mut Lab,
    mut condition: impl FnMut() -> Result<bool, Status>,
) -> Result<(), Failure> {
    for _ in 0..2000 {
        good!(sleep(ms()));
        if good!(condition()) {
            return Ok(());
        }
    }
    Err(failure("it never comes"))
}

/// Receives from all endpoints, one call each, and answers none.
extern "C" fn receive_all(first: u64, count: u64, _: u64) -> ! {
    for n in 0..count as u32 {
        let at = Load::at(first as u32 + n);
        while invoke(at, op::Poll { recv: Place::NULL }).is_err() {
            let _ = invoke(threads::dispatcher(0), op::Yield {});
        }
    }
    let _ = threads::tell([count, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// A server with one call on each of many endpoints goes, and so do those who called.
fn served(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    good!(threads::make_endpoint(lab));
    let count = 50 * load.scale;
    load.used = load.used.next_multiple_of(256);
    let endpoints = load.used;
    for _ in 0..count {
        good!(load.object(Endpoint, PAGE));
    }
    let at = |n| Load::at(endpoints + n);
    let first = good!(start(lab, &mut load, count, call_once, own_root(), at));
    good!(threads::start(lab, 0, receive_all, [u64::from(endpoints), u64::from(count), 0]));
    check!(good!(threads::hear()).words[0] == u64::from(count));
    good!(threads::kill(0));
    good!(sleep(ms()));
    good!(load.end());
    check!(Load::at(first).identify().is_err());
    Ok(())
}

/// Very many timers, due at once, in the past, far away; set anew and taken back.
fn timers(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let count = 50 * load.scale;
    let first = good!(start(lab, &mut load, count, wait_for_ever, own_root(), |_| Place::NULL));
    good!(sleep(5 * ms()));
    let all = || (0..count).map(|n| Load::at(first + n));
    let soon = now() + 10 * ms();
    for (n, timer) in all().enumerate() {
        good!(invoke(timer, op::SetTimer { deadline: soon - n as u64 }));
    }
    good!(sleep(20 * ms()));
    for deadline in [1, now() + 1, u64::MAX, u64::MAX - 1] {
        for timer in all() {
            good!(invoke(timer, op::SetTimer { deadline }));
        }
    }
    for timer in all().step_by(2) {
        good!(invoke(timer, op::SetTimer { deadline: 0 }));
    }
    for timer in all().step_by(3) {
        good!(timer.delete());
    }
    // Those that are armed go with the rest.
    good!(load.end());
    Ok(())
}

/// Dispatchers that are ready lose their address space at once.
fn roots(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let count = 50 * load.scale;
    let root = slot(6);
    good!(load.make(
        if libos::vspace::root() == slots::VSPACE { Pml4 } else { Pml5 },
        PAGE,
        1,
        root
    ));
    let first = good!(start(lab, &mut load, count, wait_for_ever, root.into(), |_| Place::NULL));
    good!(root.revoke());
    good!(root.delete());
    good!(sleep(2 * ms()));
    for n in 0..count {
        good!(Load::at(first + n).delete());
    }
    good!(load.end());
    Ok(())
}

/// Dispatchers whose faults nobody hears of, but the log.
fn faults(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let endpoint = good!(load.object(Endpoint, PAGE));
    good!(start(lab, &mut load, 8, fail, own_root(), |_| endpoint));
    good!(sleep(20 * ms()));
    good!(load.end());
    Ok(())
}
