//! A dispatcher with the Linux ABI: what enters its library, and what does not.

use super::machine::*;
use crate::arch;
use crate::events::{on_irq, on_syscall, on_trap};
use crate::object::{DcbRef, State, UserWord};
use abi::dispatcher::{DispatcherFrame, Regs, Upcall, SWITCHED, WANTS_SWITCHES};
use captypes::invocations::options;
use captypes::{op, CapAddr, CapType, Label, Place, Status};
use core::mem::offset_of;

const DISPATCHER_OFFSET: u64 = 0;
const FRAME_PA: u64 = FREE + 0x1000;
const FRAME_VA: u64 = 0x7f80_0000_0000;

fn field(offset: usize) -> UserWord {
    UserWord::at(FRAME_PA + offset as u64)
}

fn entry(reason: Upcall) -> u64 {
    0x10_0000 + 0x1000 * reason as u64
}

/// The second dispatcher runs a Linux program, enabled, at 0x40_0000.
fn setup() -> (Machine, DcbRef) {
    let mut m = Machine::new();
    let linux = m.make(CapType::Dispatcher, DISPATCHER_OFFSET, 4096, 16);
    let frame = m.make(CapType::Frame, 0x1000, 4096, 17);
    let args = op::Configure {
        cspace: ROOT.into(),
        vspace: VSPACE.into(),
        frame: frame.into(),
        frame_va: FRAME_VA,
        fault_ep: Place::NULL,
        options: options::LINUX,
    };
    m.call(linux, args).unwrap();
    for n in 0..6 {
        field(offset_of!(DispatcherFrame, upcall) + 8 * n).set(0x10_0000 + 0x1000 * n as u64);
    }
    field(offset_of!(DispatcherFrame, upcall_stack)).set(0x7000);
    field(offset_of!(DispatcherFrame, critical_low)).set(0x20_0000);
    field(offset_of!(DispatcherFrame, critical_high)).set(0x20_0100);
    let save = offset_of!(DispatcherFrame, save);
    field(save + offset_of!(Regs, rip)).set(0x40_0000);
    field(save + offset_of!(Regs, rsp)).set(0x8000);
    m.call(linux, op::Start {}).unwrap();
    let dcb = crate::object::Obj::of(&m.slot(linux).cap()).unwrap();
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    assert_eq!(m.current(), Some(dcb));
    (m, dcb)
}

/// A native domain's library is entered where it says so; its system calls are invocations.
#[test]
fn a_native_domain_is_entered_where_it_says_so() {
    let (mut m, native) = setup();
    native.clear(crate::object::dcb::flag::LINUX);
    // It notifies itself: first the invocation's result, then the upcall.
    native.ctx.rip.set(0x40_0002);
    native.ctx.rax.set(Label::Notify as u64);
    native.ctx.rdi.set(Place::from(captypes::CapAddr(16)).0);
    native.ctx.rsi.set(4);
    on_syscall(&mut m.core);
    assert!(is_in(native, Upcall::Message));
    let save = offset_of!(DispatcherFrame, save);
    assert_eq!(field(save + offset_of!(Regs, rax)).get(), 0);
    assert_eq!(field(save + offset_of!(Regs, rip)).get(), 0x40_0002);
    field(offset_of!(DispatcherFrame, notifications)).take();
    enable(native);
    on_trap(&mut m.core, 14, 6, 0x1234);
    assert!(is_in(native, Upcall::PageFault));
    // Without an entry point, notifications wait and faults stop it.
    enable(native);
    for n in 0..6 {
        field(offset_of!(DispatcherFrame, upcall) + 8 * n).set(0);
    }
    m.core.local.sched.notify(native, 8);
    crate::events::leave(&mut m.core);
    assert_eq!((native.ctx.rip.get(), field(0).get() as u32), (0x40_0000, 0));
    on_trap(&mut m.core, 14, 6, 0x1234);
    assert_eq!(native.state.get(), State::Stopped);
}

fn is_in(dcb: DcbRef, reason: Upcall) -> bool {
    let ctx = &dcb.ctx;
    let entered = ctx.rip.get() == entry(reason);
    assert!(!entered || ctx.rdi.get() == FRAME_VA && ctx.rsp.get() == 0x7000);
    entered && field(0).get() as u32 == 1
}

fn enable(dcb: DcbRef) {
    field(0).set(0);
    dcb.ctx.rip.set(0x40_0000);
    dcb.ctx.rsp.set(0x8000);
}

#[test]
fn a_system_call_of_the_program_enters_the_library() {
    let (mut m, linux) = setup();
    linux.ctx.rax.set(39);
    linux.ctx.r15.set(15);
    linux.ctx.rip.set(0x40_0002);
    on_syscall(&mut m.core);
    assert!(is_in(linux, Upcall::Syscall));
    let save = offset_of!(DispatcherFrame, save);
    assert_eq!(field(save + offset_of!(Regs, rax)).get(), 39);
    assert_eq!(field(save + offset_of!(Regs, r15)).get(), 15);
    assert_eq!(field(save + offset_of!(Regs, rip)).get(), 0x40_0002);
    assert_eq!(field(save + offset_of!(Regs, rsp)).get(), 0x8000);
    // In the library, the same instruction is an invocation.
    linux.ctx.rax.set(Label::Identify as u64);
    linux.ctx.rdi.set(Place::from(ROOT).0);
    on_syscall(&mut m.core);
    assert_eq!((linux.ctx.rax.get(), linux.ctx.rsi.get()), (0, CapType::L1CNode as u64));
    // And so it is in the critical range, whatever the flag says.
    enable(linux);
    linux.ctx.rip.set(0x20_0080);
    linux.ctx.rax.set(Label::Identify as u64);
    linux.ctx.rdi.set(0);
    on_syscall(&mut m.core);
    assert_eq!(linux.ctx.rip.get(), 0x20_0080);
}

#[test]
fn faults_of_the_program_enter_the_library_and_those_of_the_library_stop_it() {
    let (mut m, linux) = setup();
    on_trap(&mut m.core, 14, 6, 0x1234);
    assert!(is_in(linux, Upcall::PageFault));
    assert_eq!(field(offset_of!(DispatcherFrame, fault_address)).get(), 0x1234);
    assert_eq!(field(offset_of!(DispatcherFrame, fault_error)).get(), 6);
    enable(linux);
    on_trap(&mut m.core, 6, 0, 0x9999);
    assert!(is_in(linux, Upcall::Exception));
    assert_eq!(field(offset_of!(DispatcherFrame, fault_address)).get(), 0);
    assert_eq!(field(offset_of!(DispatcherFrame, fault_vector)).get(), 6);
    // Disabled now, and nobody to report to.
    on_trap(&mut m.core, 14, 4, 0x5678);
    assert_eq!(linux.state.get(), State::Stopped);
    assert_eq!(m.current(), None);
}

/// Makes `[0x30_0000, 0x30_0040)` guarded.
fn guard(fixup: u64) {
    field(offset_of!(DispatcherFrame, guarded_low)).set(0x30_0000);
    field(offset_of!(DispatcherFrame, guarded_high)).set(0x30_0040);
    field(offset_of!(DispatcherFrame, guarded_fixup)).set(fixup);
}

/// The library of `dcb` runs at `rip`, with numbers in its registers.
fn disable(dcb: DcbRef, rip: u64) {
    field(0).set(1);
    for (n, register) in dcb.ctx.each().into_iter().enumerate().take(15) {
        register.set(100 + n as u64);
    }
    dcb.ctx.rip.set(rip);
    dcb.ctx.rflags.set(0x602);
}

/// All registers but those that tell of the fault are as they were.
fn has_gone_on(dcb: DcbRef, address: u64, fault: u64) -> bool {
    let others = |&(n, _): &(usize, &core::cell::Cell<u64>)| n != 0 && n != 3;
    let kept = dcb.ctx.each().into_iter().enumerate().take(15).filter(others);
    assert!(kept.into_iter().all(|(n, register)| register.get() == 100 + n as u64));
    assert_eq!(dcb.state.get(), State::Ready);
    let ctx = &dcb.ctx;
    (ctx.rax.get(), ctx.rdx.get(), ctx.rflags.get()) == (address, fault, 0x202)
}

#[test]
fn guarded_faults_of_the_library_continue_at_the_fixup() {
    let (mut m, linux) = setup();
    guard(0x30_0100);
    let words = [0x1111, 0x2222].map(|value| {
        field(offset_of!(DispatcherFrame, fault_address)).set(value);
        field(offset_of!(DispatcherFrame, fault_error)).set(value);
        value
    });
    for rip in [0x30_0000, 0x30_003f] {
        disable(linux, rip);
        on_trap(&mut m.core, 14, 6, 0x1234);
        assert!(has_gone_on(linux, 0x1234, 14 << 32 | 6));
        assert_eq!(linux.ctx.rip.get(), 0x30_0100);
        disable(linux, rip);
        on_trap(&mut m.core, 13, 0, 0x9999);
        assert!(has_gone_on(linux, 0, 13 << 32));
    }
    // What the frame says of the program's last fault stays.
    assert_eq!(field(offset_of!(DispatcherFrame, fault_address)).get(), words[1]);
    assert_eq!(field(offset_of!(DispatcherFrame, fault_error)).get(), words[1]);
}

#[test]
fn what_is_not_guarded_stops_the_library() {
    let cases = [
        // Beside the range; another exception; no user address to continue at.
        (0x2f_ffff, 14, 0x30_0100),
        (0x30_0040, 14, 0x30_0100),
        (0x30_0000, 6, 0x30_0100),
        (0x30_0000, 14, 0x8000_0000_0000),
        (0x30_0000, 13, u64::MAX),
    ];
    for (rip, vector, fixup) in cases {
        let (mut m, linux) = setup();
        guard(fixup);
        disable(linux, rip);
        on_trap(&mut m.core, vector, 4, 0x5678);
        assert_eq!((linux.state.get(), linux.ctx.rip.get()), (State::Stopped, rip));
    }
}

/// The same addresses mean nothing while the program runs: its faults enter its library.
#[test]
fn a_program_has_no_guarded_range() {
    let (mut m, linux) = setup();
    guard(0x30_0100);
    enable(linux);
    linux.ctx.rip.set(0x30_0000);
    on_trap(&mut m.core, 14, 4, 0x5678);
    assert!(is_in(linux, Upcall::PageFault));
    assert_eq!(field(offset_of!(DispatcherFrame, fault_address)).get(), 0x5678);
}

#[test]
fn notifications_enter_the_library_when_the_program_goes_on() {
    let (mut m, linux) = setup();
    m.core.local.sched.notify(linux, 4);
    // Not before the event that has brought it is over.
    assert!(!is_in(linux, Upcall::Message));
    crate::events::leave(&mut m.core);
    assert!(is_in(linux, Upcall::Message));
    // Not a second time, and not while it is disabled.
    m.core.local.sched.notify(linux, 8);
    on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    assert_eq!(linux.ctx.rip.get(), entry(Upcall::Message));
    assert_eq!(field(offset_of!(DispatcherFrame, notifications)).take(), 12);
    enable(linux);
    m.core.local.sched.set_timer(linux, 1000);
    crate::arch::set_tsc(2000);
    on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    assert!(is_in(linux, Upcall::Timer));
}

#[test]
fn preemption_leaves_the_shared_frame_alone() {
    let (mut m, linux) = setup();
    m.core.local.sched.resume(m.dcb).unwrap();
    linux.ctx.rbx.set(77);
    crate::arch::set_tsc(1 << 40);
    on_irq(&mut m.core, crate::arch::VECTOR_TIMER);
    assert_eq!(m.current(), Some(m.dcb));
    let save = offset_of!(DispatcherFrame, save);
    assert_eq!(field(save + offset_of!(Regs, rbx)).get(), 0);
    assert_eq!((linux.ctx.rbx.get(), linux.ctx.rip.get()), (77, 0x40_0000));
}

#[test]
fn vector_state_follows_its_dispatcher() {
    let (mut m, linux) = setup();
    crate::arch::take_counts();
    // The first dispatcher is native: the registers keep the state of the other.
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(linux).unwrap();
    m.run();
    assert_eq!(m.current(), Some(m.dcb));
    m.core.local.sched.resume(linux).unwrap();
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    let counts = crate::arch::take_counts();
    assert_eq!((counts.fpu_saves, counts.fpu_restores), (0, 0));
}

/// Breakpoints are those of whoever runs; what a library does for its program is passed over.
#[test]
fn breakpoints_are_of_a_dispatcher_and_of_its_program() {
    const DEBUG: u64 = 1;
    let control = 0xd_0001;
    let (mut m, linux) = setup();
    let set = |address0, control| op::SetBreakpoints {
        address0,
        address1: 0,
        address2: 0,
        address3: 0,
        control,
    };
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(linux).unwrap();
    m.run();
    assert_eq!(m.call(CapAddr(16), set(0x1000, 1 << 13)), Err(Status::Invalid));
    assert_eq!(m.call(CapAddr(16), set(0x1000, 2 << 16)), Err(Status::Invalid));
    assert_eq!(m.call(CapAddr(16), set(u64::MAX << 47, 1)), Err(Status::OutOfRange));
    m.call(CapAddr(16), set(0x1000, control)).unwrap();
    assert_eq!(arch::breakpoints().control, 0);
    // They come and go with the dispatcher.
    m.core.local.sched.resume(linux).unwrap();
    m.core.local.sched.suspend(m.dcb).unwrap();
    m.run();
    assert_eq!(m.current(), Some(linux));
    assert_eq!(arch::breakpoints().addresses[0], 0x1000);
    assert_eq!(arch::breakpoints().control, control);
    // The library touches what is watched.
    disable(linux, 0x30_0000);
    arch::set_debug_status(1);
    on_trap(&mut m.core, DEBUG, 0, 0);
    assert_eq!((linux.state.get(), linux.ctx.rip.get()), (State::Ready, 0x30_0000));
    assert_eq!(linux.ctx.rflags.get() & 1 << 16, 1 << 16);
    // The program does.
    enable(linux);
    arch::set_debug_status(1);
    on_trap(&mut m.core, DEBUG, 0, 0);
    assert!(is_in(linux, Upcall::Exception));
    assert_eq!(field(offset_of!(DispatcherFrame, fault_error)).get(), 1);
    // It goes on behind a breakpoint that it was told of, once.
    for goes_on in [true, false] {
        enable(linux);
        if goes_on {
            field(offset_of!(DispatcherFrame, passes)).set(0x40_0000);
        }
        arch::set_debug_status(1);
        on_trap(&mut m.core, DEBUG, 0, 0);
        assert_eq!(is_in(linux, Upcall::Exception), !goes_on);
    }
    m.core.local.sched.resume(m.dcb).unwrap();
    m.core.local.sched.suspend(linux).unwrap();
    m.run();
    assert_eq!(arch::breakpoints().control, 0);
}

/// A library that wants to know enters when somebody else ran, also if it was on its way back; one that does not goes on where it was.
#[test]
fn a_library_that_wants_to_is_told_that_somebody_else_ran() {
    let (mut m, linux) = setup();
    let switched = || field(offset_of!(DispatcherFrame, switched));
    let elsewhere = |m: &mut Machine| {
        m.core.local.sched.suspend(linux).unwrap();
        m.run();
        assert_eq!(m.current(), None);
        m.core.local.sched.resume(linux).unwrap();
        m.run();
        assert_eq!(m.current(), Some(linux));
    };
    elsewhere(&mut m);
    assert_eq!((linux.ctx.rip.get(), switched().get()), (0x40_0000, 0));
    // In its program.
    switched().set(WANTS_SWITCHES);
    elsewhere(&mut m);
    assert!(is_in(linux, Upcall::Message));
    assert_eq!(switched().get(), SWITCHED);
    // In itself: it goes on, and sees it on its way back.
    switched().set(WANTS_SWITCHES);
    linux.ctx.rip.set(0x30_0000);
    elsewhere(&mut m);
    assert_eq!((linux.ctx.rip.get(), switched().get()), (0x30_0000, SWITCHED));
    // On its way back, after it has looked: it begins that anew. At its end, and behind it.
    for (rip, then) in [(0x20_0000, 0x20_0000), (0x20_00ff, 0x20_0000)] {
        switched().set(WANTS_SWITCHES);
        enable(linux);
        linux.ctx.rip.set(rip);
        linux.ctx.rflags.set(0x302);
        elsewhere(&mut m);
        assert_eq!((linux.ctx.rip.get(), switched().get()), (then, SWITCHED));
        assert_eq!(linux.ctx.rflags.get(), 0x202);
        assert_eq!(linux.ctx.rdi.get(), FRAME_VA);
    }
    switched().set(WANTS_SWITCHES);
    enable(linux);
    linux.ctx.rip.set(0x20_0100);
    elsewhere(&mut m);
    assert!(is_in(linux, Upcall::Message));
    // What it has written there is not believed.
    field(offset_of!(DispatcherFrame, critical_low)).set(0xffff_8000_0000_0000);
    field(offset_of!(DispatcherFrame, critical_high)).set(u64::MAX);
    switched().set(WANTS_SWITCHES);
    enable(linux);
    linux.ctx.rip.set(0x40_0000);
    elsewhere(&mut m);
    assert!(is_in(linux, Upcall::Message));
}
