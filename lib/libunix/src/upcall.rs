//! What the upcalls do: each is entered by the kernel and ends in `resume_program`.

use crate::entry::{self, resume};
use crate::mm::{self, leases, relief, usage, userfault, Mm};
use crate::process::{self, current, enter, Process, NO_CALL};
use crate::server::{self, header, op};
use crate::signal::{self, Cause};
use crate::sys::unlocked::{self, Outcome};
use crate::sys::{seccomp, time};
use crate::thread::{company, create, lock, restart};
use crate::trace::breakpoints;
use crate::{exec, fork, home, sys, trace as trace_library, vfork};
use abi::dispatcher::{processor_error, slot_in, DispatcherFrame, Regs, Upcall};
use core::panic::PanicInfo;
use core::sync::atomic::Ordering::Relaxed;
use libos::guarded;
use trace::Mark;
use unixproto::session::NOTE_LIBRARY;
use unixproto::signals::{killed, SIGKILL};
use uvm::{Access, FaultError};

/// Vector of general protection faults.
const GENERAL_PROTECTION: u64 = 13;

/// What every upcall starts with: the process and the program's registers.
///
/// # Safety
///
/// Called once by each upcall, with the frame that the kernel handed over.
#[inline(always)]
unsafe fn begin(frame: *mut DispatcherFrame) -> (&'static mut Process, &'static mut Regs) {
    // SAFETY: the caller's promise.
    let (p, regs) = unsafe { begin_beside(frame) };
    leases::end_all(&mut p.mm);
    (p, regs)
}

/// The same of one that may leave [addresses lent](leases) that it does not look at.
///
/// # Safety
///
/// As of [`begin`].
#[inline(always)]
unsafe fn begin_beside(frame: *mut DispatcherFrame) -> (&'static mut Process, &'static mut Regs) {
    // SAFETY: upcalls never return, so no reference from an earlier one is alive; the kernel
    // writes to the save area only when it enters the next upcall.
    unsafe { (enter(), &mut (*frame).save) }
}

/// Goes back to the program. Signals that have become deliverable are delivered first.
#[inline(always)]
fn finish(p: &mut Process, regs: &mut Regs, frame: *mut DispatcherFrame) -> ! {
    if signal::needs_attention(&p.me, regs) {
        settle(p, regs, frame)
    }
    go(p.pid, frame)
}

/// The same if there are signals, or a tracer wants something.
#[inline(never)]
fn settle(p: &mut Process, regs: &mut Regs, frame: *mut DispatcherFrame) -> ! {
    signal::settle(p, regs);
    if trace_library::is_traced() {
        // Its tracer sets registers to what it likes.
        signal::check_rip(p, regs);
        while signal::needs_attention(&p.me, regs) {
            signal::settle(p, regs);
            signal::check_rip(p, regs);
        }
        // In the middle of the way back the kernel sees to it that nothing traps.
        let step = if trace_library::steps() { trace_library::TRAP_FLAG } else { 0 };
        regs.rflags = regs.rflags & !trace_library::TRAP_FLAG | step;
        if p.me.debug.watch() {
            breakpoints::before(p, step != 0);
        }
    }
    go(p.pid, frame)
}

#[inline(always)]
fn go(pid: u32, frame: *mut DispatcherFrame) -> ! {
    lock::leave();
    trace::mark(Mark::Program(pid));
    // SAFETY: the upcall ends here; the save area holds the program's registers.
    unsafe { resume(frame) }
}

/// The program executed `syscall`.
extern "C" fn syscall(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: the kernel writes to the save area only when it enters the next upcall, and `begin` comes later.
    let regs = unsafe { &mut (*frame).save };
    trace::mark(Mark::LinuxCall(regs.rax as u32));
    // SAFETY: `begin` comes later.
    match unsafe { unlocked::dispatch(regs) } {
        Outcome::Done => go_unlocked(frame),
        Outcome::Wanted => settle_unlocked(frame),
        Outcome::Locked => {}
    }
    // SAFETY: first in this upcall but for that.
    let (p, regs) = unsafe { begin_beside(frame) };
    if leases::are_given() && leases::minds(regs.rax) {
        leases::end_all(&mut p.mm);
    }
    p.me.call = regs.rax;
    sys::dispatch(p, regs);
    finish(p, regs, frame)
}

/// Goes back to the program after a call without the lock.
#[inline(always)]
fn go_unlocked(frame: *mut DispatcherFrame) -> ! {
    trace::mark(Mark::Program(header().pid.load(Relaxed)));
    // SAFETY: the upcall ends here; the save area holds the program's registers.
    unsafe { resume(frame) }
}

/// The same if there are signals, or a tracer wants something.
#[cold]
#[inline(never)]
fn settle_unlocked(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall: what was used without the lock is not used any more.
    let (p, regs) = unsafe { begin(frame) };
    // The call is over, and is not one that is repeated.
    p.me.call = NO_CALL;
    settle(p, regs, frame)
}

/// The same of a program that is traced, or of which calls are filtered.
extern "C" fn watched_syscall(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin(frame) };
    p.me.call = regs.rax;
    trace::mark(Mark::LinuxCall(regs.rax as u32));
    trace_library::syscall(p, regs);
    settle(p, regs, frame)
}

/// Has system calls enter where a tracer may hear of them and filters are asked, or not any more.
pub fn show_calls(frame: *mut DispatcherFrame, shown: bool) {
    let entry = if shown { watched_syscall } else { syscall };
    // SAFETY: the frame is mapped, and the kernel reads this only when the program makes a call.
    unsafe { (*frame).upcall[Upcall::Syscall as usize] = entry as *const () as u64 };
}

/// A page fault of the program: it pages itself.
extern "C" fn page_fault(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin_beside(frame) };
    // SAFETY: the kernel has written these fields and does not change them now.
    let (address, error) = unsafe { ((*frame).fault_address, (*frame).fault_error) };
    leases::end_around(&mut p.mm, address);
    let (slot, error) = (slot_in(error), processor_error(error));
    let cause = match access(error) {
        Some(access) => match fault(&mut p.mm, address, (access, slot), regs.rsp) {
            Ok(()) => {
                usage::faulted(&mut p.mm);
                let pid = p.pid;
                lock::leave();
                trace::mark(Mark::Program(pid));
                // SAFETY: the upcall ends here; the program's registers are as the kernel saved
                // them.
                unsafe { resume(frame) }
            }
            Err(FaultError::NoAccess) if p.mm.userfaults.serve(address, access) => {
                p.me.call = NO_CALL;
                match userfault::ask(p, address, access) {
                    Ok(userfault::Outcome::Signal) => {
                        Cause::page_fault(FaultError::NoPage, address, error)
                    }
                    _ => finish(p, regs, frame),
                }
            }
            Err(problem) => Cause::page_fault(problem, address, error),
        },
        None => Cause::exception(GENERAL_PROTECTION, 0, regs),
    };
    p.me.call = NO_CALL;
    signal::raise(p, regs, cause);
    finish(p, regs, frame)
}

/// Makes the page usable that the program, with its stack pointer at `sp`, cannot use. It may have left memory for a slot.
#[inline(always)]
fn fault(
    mm: &mut Mm,
    address: u64,
    (access, slot): (Access, Option<u64>),
    sp: u64,
) -> Result<(), FaultError> {
    let access = mm.space.foreseen(address, access, sp);
    (mm.caps.tries_again, mm.caps.slot) = (true, slot);
    let result = relief::fault(mm, address, access);
    (mm.caps.tries_again, mm.caps.slot) = (false, None);
    result
}

/// What a page fault's error code says of the program's wish. `None`: the program has made the CPU
/// look there as the kernel would, which no page that it could get would satisfy. (Emulators of our
/// time read the stack like this for `lret`.)
#[inline(always)]
fn access(error: u64) -> Option<Access> {
    const WRITE: u64 = 2;
    const USER: u64 = 4;
    const FETCH: u64 = 16;
    const WRITE_BY_USER: u64 = WRITE | USER;
    const FETCH_BY_USER: u64 = FETCH | USER;
    match error & (WRITE | USER | FETCH) {
        WRITE_BY_USER => Some(Access::Write),
        USER => Some(Access::Read),
        FETCH_BY_USER => Some(Access::Exec),
        _ => None,
    }
}

/// Another exception of the program.
extern "C" fn exception(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin(frame) };
    // SAFETY: as in `page_fault`.
    let (vector, error) = unsafe { ((*frame).fault_vector, (*frame).fault_error) };
    p.me.call = NO_CALL;
    if vector == breakpoints::DEBUG {
        breakpoints::happened(p, error, regs);
    }
    let cause = Cause::exception(vector, error, regs);
    signal::raise(p, regs, cause);
    finish(p, regs, frame)
}

/// Somebody has set notification bits: a signal has come. Or somebody else ran, and the program wants to know.
extern "C" fn message(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: `begin` comes later.
    if unsafe { restart::is_settled(frame) } {
        go_unlocked(frame)
    }
    noted(frame)
}

/// The same if there is more.
#[inline(never)]
fn noted(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin_beside(frame) };
    // SAFETY: the frame is mapped; the field is atomic.
    let bits = unsafe { (*frame).notifications.swap(0, Relaxed) };
    // Who has come late for the lock, or is on another core now, looks at nothing that may be lent.
    let is_about_others = bits & !NOTE_LIBRARY != 0;
    if is_about_others || trace_library::is_traced() || signal::needs_attention(&p.me, regs) {
        leases::end_all(&mut p.mm);
    }
    time::look();
    let (memory, limits) = p.memory();
    mm::take_limits(memory, limits);
    p.me.call = NO_CALL;
    if restart::settle(p, regs).is_err() {
        leases::end_all(&mut p.mm);
        let cause = Cause::exception(GENERAL_PROTECTION, 0, regs);
        signal::raise(p, regs, cause);
    }
    if trace_library::is_traced() {
        settle(p, regs, frame)
    }
    finish(p, regs, frame)
}

/// Makes the kernel enter this library's upcalls.
pub fn install(frame: *mut DispatcherFrame, stack: u64) {
    let entries: [(Upcall, extern "C" fn(*mut DispatcherFrame) -> !); 5] = [
        (Upcall::PageFault, page_fault),
        (Upcall::Exception, exception),
        (Upcall::Message, message),
        (Upcall::Timer, message),
        (Upcall::Syscall, syscall),
    ];
    let (low, high) = entry::critical(frame);
    // SAFETY: the frame is mapped, and the kernel reads these fields only when the dispatcher is
    // enabled, which it is not yet.
    unsafe {
        for (reason, entry) in entries {
            (*frame).upcall[reason as usize] = entry as *const () as u64;
        }
        (*frame).switched.store(0, Relaxed);
        (*frame).upcall[Upcall::Run as usize] = entry::first_entry();
        (*frame).upcall_stack = stack;
        (*frame).critical_low = low;
        (*frame).critical_high = high;
        guarded::guard(frame);
    }
}

/// The first process: executes what `unixd` says.
pub extern "C" fn run(frame: *mut DispatcherFrame) -> ! {
    install(frame, entry::stack());
    home::find();
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin(frame) };
    exec::first(p, regs);
    finish(p, regs, frame)
}

/// A forked child.
pub extern "C" fn child(frame: *mut DispatcherFrame) -> ! {
    // The frame may be a copy of that of another thread than the first.
    install(frame, entry::stack());
    // Whoever held the lock in the parent is not here.
    lock::reset();
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin(frame) };
    fork::child(p, regs);
    // It may be traced and filtered from its beginning.
    trace_library::adopt();
    seccomp::adopt(p);
    seccomp::child(p);
    finish(p, regs, frame)
}

/// A new thread.
pub extern "C" fn thread(frame: *mut DispatcherFrame) -> ! {
    // SAFETY: first in this upcall.
    let (p, regs) = unsafe { begin(frame) };
    create::started(p, regs);
    // The same.
    trace_library::adopt();
    seccomp::adopt(p);
    if company::is_guest() {
        seccomp::child(p);
    }
    finish(p, regs, frame)
}

/// Ends the process as by a signal, for a reason that the log tells.
pub fn die(signal: u32, reason: &str) -> ! {
    let pid = header().pid.load(Relaxed);
    let mut line = Line::default();
    // What does not fit is left out.
    let _ = core::fmt::write(&mut line, format_args!("libunix: process {pid} ends: {reason}"));
    line.log();
    vfork::exit(killed(signal))
}

/// A line for the log, made without a heap.
struct Line([u8; 200], usize);

impl Default for Line {
    fn default() -> Line {
        Line([0; 200], 0)
    }
}

impl Line {
    fn log(&self) {
        // There is nobody else to be told that it did not work.
        let _ = server::call_a(op::Log {}, &self.0[..self.1]);
    }
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.0.len() - self.1;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.0[self.1..self.1 + part.len()].copy_from_slice(part);
        self.1 += part.len();
        Ok(())
    }
}

/// Leaves what is being done, and goes back to the program after `change`.
pub fn go_on(change: impl FnOnce(&mut Process, &mut Regs)) -> ! {
    let frame = process::frame();
    // SAFETY: first in what is the rest of this upcall: whatever came before is left.
    let (p, regs) = unsafe { (current(), &mut (*frame).save) };
    change(p, regs);
    finish(p, regs, frame)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    let mut line = Line::default();
    let pid = header().pid.load(Relaxed);
    // SAFETY: a panic never returns: whoever had a reference does not use it any more.
    let call = sys::name(unsafe { current() }.me.call);
    // What does not fit is left out.
    let _ = core::fmt::write(&mut line, format_args!("libunix: process {pid}: {call}: {info}"));
    line.log();
    vfork::exit(killed(SIGKILL))
}
