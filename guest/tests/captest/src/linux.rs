//! Dispatchers with the Linux ABI: what of a program reaches its library, when, and with what.
//!
//! The program and its library are functions of this image. The library tells the main thread what
//! it was entered for, and does what the answer says: [`RESUME`] the program, or [`SPIN`].

use crate::probe::{make_tables, PT, VA};
use crate::setup::{slot, Lab};
use crate::threads::{self, dispatcher, frame, stack_top, Spaces, EP};
use crate::Test;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs, Upcall, UPCALLS};
use libos::abi::slots::DISPATCHER;
use libos::captypes::invocations::{options, MapFlags, NOTIFY_TIMER};
use libos::ipc::{self, Caps, Message};
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapType, Place, Status, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("upcall_page_fault", page_fault),
    ("upcall_exception", exception),
    ("upcall_syscall", syscall),
    ("upcall_message", message),
    ("upcall_timer", timer),
    ("upcall_not_while_disabled", disabled),
    ("upcall_not_in_critical_range", critical),
    ("upcall_fault_of_library", library_faults),
    ("upcall_guarded_faults", guarded),
    ("upcall_guarded_nowhere", guarded_nowhere),
];

/// What the library is told to do: go on with the program, …
pub const RESUME: u64 = 1;
/// … stay in the library, without ever ending, …
const SPIN: u64 = 2;
/// … touch an address that is not mapped, …
const FAULT: u64 = 3;
/// … or access the address in the second word, guarded, as the third word says ([`READ`], [`WRITE`]), and tell how that
/// went.
const GUARDED: u64 = 4;

const READ: u64 = 0;
const WRITE: u64 = 1;

/// First word of what the library tells after a guarded access.
const ACCESSED: u64 = 100;

/// Where the frame of thread 0 is mapped.
const FRAME_VA: u64 = VA + 20 * PAGE;

/// Counts while the program or the library spins.
static SPINS: AtomicU64 = AtomicU64::new(0);

fn frame_here() -> &'static DispatcherFrame {
    // SAFETY: `start` has mapped it there; it stays as long as anybody looks.
    unsafe { &*(FRAME_VA as *const DispatcherFrame) }
}

macro_rules! upcall_entries {
    ($($name:ident $number:literal)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() -> ! {
            naked_asm!("mov esi, {n}", "call {f}", "ud2", n = const $number, f = sym library)
        }
    )* };
}
upcall_entries!(entry0 0 entry1 1 entry2 2 entry3 3 entry4 4 entry5 5);

/// The library: reports an upcall, and does what the answer says.
extern "C" fn library(frame: &'static DispatcherFrame, reason: u64) -> ! {
    let bits = frame.notifications.swap(0, Ordering::Relaxed);
    let disabled = frame.disabled.load(Ordering::Relaxed) as u64;
    let rip = frame.save.rip;
    let told = threads::tell([reason, bits, disabled, frame.fault_address, frame.fault_error, rip]);
    let mut answer = told.map(|answer| answer.words);
    while let Ok([GUARDED, address, how, ..]) = answer {
        let [done, value, fault] = access(address, how);
        let told = threads::tell([ACCESSED, done, value, fault, frame.fault_address, 0]);
        answer = told.map(|answer| answer.words);
    }
    match answer.map(|words| words[0]) {
        Ok(RESUME) => resume(frame),
        Ok(FAULT) => {
            // SAFETY: faults, while the dispatcher is disabled.
            unsafe { core::ptr::read_volatile((VA + 30 * PAGE) as *const u64) };
            threads::idle()
        }
        _ => spin(0, 0, 0),
    }
}

/// A guarded access. Returns 1 if it was done and else 0, the word that was read or `rax` at the fixup, and
/// `rdx` there.
fn access(address: u64, how: u64) -> [u64; 3] {
    let (done, value, fault): (u64, u64, u64);
    // SAFETY: reads or writes a word of this test, or faults and goes on at the fixup.
    unsafe {
        core::arch::asm!(
            "call {accesses}",
            accesses = sym accesses,
            in("rdi") address,
            inout("rcx") how => done,
            out("rax") value,
            out("rdx") fault,
        );
    }
    [done, value, fault]
}

/// The guarded range is from the second instruction to the first `ret`; the fixup is behind it.
#[unsafe(naked)]
extern "C" fn accesses() {
    naked_asm!(
        "jrcxz 2f",
        ".global captest_guarded_low",
        "captest_guarded_low:",
        "mov qword ptr [rdi], 5",
        "mov eax, 5",
        "3: mov ecx, 1",
        "xor edx, edx",
        "ret",
        "2: mov rax, [rdi]",
        "jmp 3b",
        ".global captest_guarded_fixup",
        "captest_guarded_fixup:",
        "xor ecx, ecx",
        "ret",
    )
}

extern "C" {
    fn captest_guarded_low();
    fn captest_guarded_fixup();
}

/// Where the program goes on, for the last instruction of [`resume`].
static PROGRAM_RIP: AtomicU64 = AtomicU64::new(0);

/// Back to the program. From the second instruction on this is the critical range. Not by `iretq`:
/// QEMU 7 lets it read the stack as the kernel would, which SMAP forbids.
fn resume(frame: &DispatcherFrame) -> ! {
    PROGRAM_RIP.store(frame.save.rip, Ordering::Relaxed);
    load(frame)
}

#[unsafe(naked)]
extern "C" fn load(frame: &DispatcherFrame) -> ! {
    naked_asm!(
        "mov dword ptr [rdi], 0",
        "push qword ptr [rdi + {rflags}]", "popfq",
        "lea rsp, [rdi + {save}]",
        "pop rax", "pop rbx", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rbp",
        "pop r8", "pop r9", "pop r10", "pop r11", "pop r12", "pop r13", "pop r14", "pop r15",
        "mov rsp, [rsp + {rsp}]",
        "jmp qword ptr [rip + {rip}]",
        rflags = const offset_of!(DispatcherFrame, save) + offset_of!(Regs, rflags),
        save = const offset_of!(DispatcherFrame, save),
        rsp = const offset_of!(Regs, rsp) - offset_of!(Regs, rip),
        rip = sym PROGRAM_RIP,
    )
}

/// Counts for ever.
extern "C" fn spin(_: u64, _: u64, _: u64) -> ! {
    loop {
        SPINS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts thread 0 as a Linux dispatcher whose program is `entry`.
fn start(lab: &mut Lab, entry: threads::Entry, args: [u64; 3]) -> Result<(), Status> {
    let regs = threads::first_registers(0, entry, args);
    start_with(lab, &regs, |_| {})
}

/// The same with any registers, and changes to the frame.
pub fn start_with(
    lab: &mut Lab,
    regs: &Regs,
    change: impl FnOnce(&mut DispatcherFrame),
) -> Result<(), Status> {
    threads::make(lab, 0)?;
    threads::set_registers(lab, 0, regs)?;
    PT.map(20, 1, frame(0), 0, RW, slot(150))?;
    // SAFETY: just mapped, and the thread does not run yet.
    let own = unsafe { &mut *(FRAME_VA as *mut DispatcherFrame) };
    let entries: [extern "C" fn() -> !; UPCALLS] = [entry0, entry1, entry2, entry3, entry4, entry5];
    own.upcall = entries.map(|entry| entry as usize as u64);
    own.upcall_stack = stack_top(0);
    own.critical_low = load as *const () as u64 + 1;
    own.critical_high = own.critical_low + 70;
    change(own);
    threads::configure(0, Spaces::default(), FRAME_VA, options::LINUX)?;
    invoke(dispatcher(0), op::Start {})
}

fn is(message: &Message, reason: Upcall) -> bool {
    !message.is_fault() && message.words[0] == reason as u64 && message.words[2] == 1
}

fn answer_and_hear(what: u64) -> Result<Message, Status> {
    ipc::reply_recv(EP, Place::CALLER, [what, 0, 0, 0, 0, 0], Caps::NONE, Place::NULL)
}

fn answer(what: u64) -> Result<(), Status> {
    ipc::reply(Place::CALLER, [what, 0, 0, 0, 0, 0], Caps::NONE)
}

/// Reads, then asks the system call whose number it has read.
extern "C" fn read_and_ask(address: u64, _: u64, _: u64) -> ! {
    loop {
        // SAFETY: what is there, if anything, is a word for this test. The system call goes to the
        // library above.
        unsafe {
            let number = core::ptr::read_volatile(address as *const u64);
            core::arch::asm!("syscall", inout("rax") number => _, out("rcx") _, out("r11") _);
        }
    }
}

fn page_fault(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(8, &77u64.to_le_bytes()));
    good!(start(lab, read_and_ask, [VA + 8, 0, 0]));
    let fault = good!(threads::hear());
    check!(is(&fault, Upcall::PageFault));
    check!(fault.words[3] == VA + 8 && fault.words[4] == 4);
    check!(frame_here().save.rip == fault.words[5] && frame_here().fault_vector == 14);
    // Repaired by the domain itself: the program never notices.
    good!(PT.map(0, 1, slot(0), 0, RW, slot(1)));
    let ask = good!(answer_and_hear(RESUME));
    check!(is(&ask, Upcall::Syscall) && frame_here().save.rax == 77);
    good!(threads::kill(0));
    Ok(())
}

extern "C" fn divide(_: u64, _: u64, _: u64) -> ! {
    // SAFETY: raises an exception.
    unsafe { core::arch::asm!("xor edx, edx", "div edx", out("eax") _, out("edx") _) };
    threads::idle()
}

fn exception(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(start(lab, divide, [0; 3]));
    check!(is(&good!(threads::hear()), Upcall::Exception));
    check!(frame_here().fault_vector == 0);
    good!(threads::kill(0));
    Ok(())
}

/// Loads every register with its number times `rdi`, and asks.
#[unsafe(naked)]
extern "C" fn ask_with_all(_: u64, _: u64, _: u64) -> ! {
    naked_asm!(
        "imul rax, rdi, 1",
        "imul rbx, rdi, 2",
        "imul rdx, rdi, 4",
        "imul rsi, rdi, 5",
        "imul rbp, rdi, 7",
        "imul r8, rdi, 8",
        "imul r9, rdi, 9",
        "imul r10, rdi, 10",
        "imul r12, rdi, 12",
        "imul r13, rdi, 13",
        "imul r14, rdi, 14",
        "imul r15, rdi, 15",
        "imul rdi, rdi, 6",
        "2:",
        "syscall",
        // Again with what came back: nothing but rax, rcx and r11 may have changed.
        "jmp 2b",
    )
}

fn syscall(lab: &mut Lab) -> Outcome {
    const UNIT: u64 = 0x0101_0101_0101;
    good!(make_tables(lab));
    good!(start(lab, ask_with_all, [UNIT, 0, 0]));
    check!(is(&good!(threads::hear()), Upcall::Syscall));
    let rsp = frame_here().save.rsp;
    for _ in 0..100 {
        let save = frame_here().save;
        let kept = [
            save.rax, save.rbx, save.rdx, save.rsi, save.rdi, save.rbp, save.r8, save.r9, save.r10,
            save.r12, save.r13, save.r14, save.r15,
        ];
        let numbers = [1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15];
        check!(kept == numbers.map(|n| n * UNIT) && save.rsp == rsp);
        check!(is(&good!(answer_and_hear(RESUME)), Upcall::Syscall));
    }
    good!(threads::kill(0));
    Ok(())
}

fn message(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(start(lab, spin, [0; 3]));
    for round in 1..20 {
        let before = SPINS.load(Ordering::Relaxed);
        good!(crate::scheduling::sleep(3 * crate::scheduling::ms()));
        good!(dispatcher(0).notify(round));
        let upcall = good!(threads::hear());
        check!(is(&upcall, Upcall::Message) && upcall.words[1] == round);
        check!(SPINS.load(Ordering::Relaxed) > before);
        good!(answer(RESUME));
    }
    good!(threads::kill(0));
    Ok(())
}

fn timer(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(start(lab, spin, [0; 3]));
    for _ in 0..5 {
        let deadline = crate::scheduling::now() + 2 * crate::scheduling::ms();
        good!(invoke(dispatcher(0), op::SetTimer { deadline }));
        let upcall = good!(threads::hear());
        check!(is(&upcall, Upcall::Timer) && upcall.words[1] == NOTIFY_TIMER);
        check!(crate::scheduling::now() >= deadline);
        good!(answer(RESUME));
    }
    good!(threads::kill(0));
    Ok(())
}

/// Nothing from `EP` in a while.
fn silence() -> Result<bool, Status> {
    crate::scheduling::sleep(10 * crate::scheduling::ms())?;
    Ok(invoke(EP, op::Poll { recv: Place::NULL }) == Err(Status::Empty))
}

fn disabled(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(start(lab, spin, [0; 3]));
    good!(dispatcher(0).notify(1));
    check!(is(&good!(threads::hear()), Upcall::Message));
    // Now the library spins: it is preempted, but not entered again.
    good!(answer(SPIN));
    let before = SPINS.load(Ordering::Relaxed);
    good!(dispatcher(0).notify(2));
    check!(good!(silence()));
    check!(SPINS.load(Ordering::Relaxed) > before);
    check!(frame_here().notifications.load(Ordering::Relaxed) == 2);
    good!(threads::kill(0));
    Ok(())
}

fn critical(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    let regs = threads::first_registers(0, spin, [0; 3]);
    good!(start_with(lab, &regs, |frame| {
        frame.critical_low = spin as *const () as u64;
        frame.critical_high = frame.critical_low + 256;
    }));
    good!(dispatcher(0).notify(2));
    check!(good!(silence()));
    // The range is looked up each time.
    // SAFETY: the frame is mapped writable, and the kernel reads it whenever it likes.
    unsafe { (&raw mut (*(FRAME_VA as *mut DispatcherFrame)).critical_high).write_volatile(0) };
    check!(is(&good!(threads::hear()), Upcall::Message));
    good!(threads::kill(0));
    Ok(())
}

/// A fault of the library is nobody's upcall: it is reported like that of a native program.
fn library_faults(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(start(lab, spin, [0; 3]));
    good!(dispatcher(0).notify(1));
    check!(is(&good!(threads::hear()), Upcall::Message));
    let fault = good!(answer_and_hear(FAULT));
    check!(fault.is_fault() && fault.words[0] == 14 && fault.words[2] == VA + 30 * PAGE);
    good!(threads::kill(0));
    fails!(WrongState, ipc::reply(Place::CALLER, [0; 6], Caps::NONE));
    let _ = DISPATCHER;
    Ok(())
}

/// Has the library access an address, guarded. Returns what it tells.
fn have_accessed(address: u64, how: u64) -> Result<[u64; 6], Status> {
    let words = [GUARDED, address, how, 0, 0, 0];
    Ok(ipc::reply_recv(EP, Place::CALLER, words, Caps::NONE, Place::NULL)?.words)
}

/// Starts a program with a library that has a guarded range, and enters it.
fn start_guarded(lab: &mut Lab, fixup: u64) -> Outcome {
    good!(make_tables(lab));
    let regs = threads::first_registers(0, spin, [0; 3]);
    good!(start_with(lab, &regs, |frame| {
        frame.guarded_low = captest_guarded_low as *const () as u64;
        frame.guarded_high = captest_guarded_fixup as *const () as u64;
        frame.guarded_fixup = fixup;
    }));
    good!(dispatcher(0).notify(1));
    check!(is(&good!(threads::hear()), Upcall::Message));
    Ok(())
}

/// A fault of a guarded instruction continues at the fixup, which is told address and code, and the same access
/// succeeds once the page is there.
fn guarded(lab: &mut Lab) -> Outcome {
    const AT: u64 = VA + 8;
    const NON_CANONICAL: u64 = 1 << 63;
    start_guarded(lab, captest_guarded_fixup as *const () as u64)?;
    // Not present: user mode, read or write.
    check!(good!(have_accessed(AT, READ)) == [ACCESSED, 0, AT, 14 << 32 | 4, 0, 0]);
    check!(good!(have_accessed(AT, WRITE)) == [ACCESSED, 0, AT, 14 << 32 | 6, 0, 0]);
    check!(good!(have_accessed(NON_CANONICAL, READ)) == [ACCESSED, 0, 0, 13 << 32, 0, 0]);
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(8, &77u64.to_le_bytes()));
    good!(PT.map(0, 1, slot(0), 0, MapFlags::READ, slot(1)));
    check!(good!(have_accessed(AT, READ)) == [ACCESSED, 1, 77, 0, 0, 0]);
    // Present, and not to be written to.
    check!(good!(have_accessed(AT, WRITE)) == [ACCESSED, 0, AT, 14 << 32 | 7, 0, 0]);
    good!(slot(1).protect(0, 1, RW));
    check!(good!(have_accessed(AT, WRITE)) == [ACCESSED, 1, 5, 0, 0, 0]);
    check!(good!(have_accessed(AT, READ)) == [ACCESSED, 1, 5, 0, 0, 0]);
    // Taken away from behind.
    good!(slot(0).revoke());
    check!(good!(have_accessed(AT, READ)) == [ACCESSED, 0, AT, 14 << 32 | 4, 0, 0]);
    good!(threads::kill(0));
    Ok(())
}

/// Where there is no place to continue, it is a fault like any other of the library.
fn guarded_nowhere(lab: &mut Lab) -> Outcome {
    for fixup in [1 << 47, 1 << 63, u64::MAX] {
        start_guarded(lab, fixup)?;
        let words = [GUARDED, VA + 8, WRITE, 0, 0, 0];
        let heard = ipc::reply_recv(EP, Place::CALLER, words, Caps::NONE, Place::NULL);
        let fault = good!(heard);
        check!(fault.is_fault() && fault.words[0] == 14 && fault.words[2] == VA + 8);
        good!(threads::kill(0));
        good!(lab.clean());
    }
    Ok(())
}
