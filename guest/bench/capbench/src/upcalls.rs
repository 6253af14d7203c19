//! Upcalls of a dispatcher with the Linux ABI: a system call and a page fault of its program, to its
//! library and straight back.

use crate::server::{configure, objects, DISPATCHER, FRAME};
use crate::{report_cost, slot, wanted, Lab};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::dispatcher::{DispatcherFrame, Regs, Upcall};
use libos::abi::slots;
use libos::captypes::invocations::options;
use libos::captypes::Label;
use libos::vspace::RW;
use libos::PAGE;
use libos::{invoke, log, op, Cap, Place, Status};

/// Events that are measured in one go.
const EVENTS: u64 = 1000;
static CALL_TICKS: AtomicU64 = AtomicU64::new(0);
static FAULT_TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" {
    fn upcall_bench_program();
    fn upcall_bench_syscall();
    fn upcall_bench_fault();
}

const SAVE: usize = offset_of!(DispatcherFrame, save);

global_asm!(
    "upcall_bench_program:",
    "mov r12, rdi",
    // System calls.
    "rdtsc",
    "shl rdx, 32",
    "lea rbx, [rax + rdx]",
    "mov ebp, {events}",
    "2: syscall",
    "dec ebp",
    "jnz 2b",
    "rdtsc",
    "shl rdx, 32",
    "add rax, rdx",
    "sub rax, rbx",
    "mov [{calls}], rax",
    // Page faults: reads of an address where nothing is.
    "xor esi, esi",
    "rdtsc",
    "shl rdx, 32",
    "lea rbx, [rax + rdx]",
    "mov ebp, {events}",
    "3: mov al, [rsi]",
    "dec ebp",
    "jnz 3b",
    "rdtsc",
    "shl rdx, 32",
    "add rax, rdx",
    "sub rax, rbx",
    "mov [{faults}], rax",
    // Notifies the first dispatcher, as the library, and waits for what nobody sends.
    "mov dword ptr [r12], 1",
    "mov eax, {notify}",
    "mov edi, {first}",
    "mov esi, 1",
    "syscall",
    "4: mov eax, {wait}",
    "mov rdi, r13",
    "syscall",
    "jmp 4b",
    "upcall_bench_syscall:",
    "mov rcx, [rdi + {rip}]",
    "mov rsp, [rdi + {rsp}]",
    "mov dword ptr [rdi], 0",
    "jmp rcx",
    "upcall_bench_fault:",
    "mov rcx, [rdi + {rip}]",
    "add rcx, 2",
    "mov rsp, [rdi + {rsp}]",
    "mov rsi, [rdi + {rsi}]",
    "mov dword ptr [rdi], 0",
    "jmp rcx",
    events = const EVENTS,
    calls = sym CALL_TICKS,
    faults = sym FAULT_TICKS,
    notify = const Label::Notify as u32,
    wait = const Label::Wait as u32,
    first = const slots::DISPATCHER.0,
    rip = const SAVE + offset_of!(Regs, rip),
    rsp = const SAVE + offset_of!(Regs, rsp),
    rsi = const SAVE + offset_of!(Regs, rsi),
);

/// Measures them.
pub fn measure(lab: &mut Lab) {
    if let Err(error) = run(lab) {
        return log!("capbench: no program: {error:?}");
    }
    let upcalls = [("upcall_of_syscall", &CALL_TICKS), ("upcall_of_page_fault", &FAULT_TICKS)];
    for (name, ticks) in upcalls.into_iter().filter(|(name, _)| wanted(name)) {
        report_cost(name, EVENTS, || Ok(ticks.load(Ordering::Relaxed)));
    }
    let _ = slot(DISPATCHER).delete();
}

fn run(lab: &mut Lab) -> Result<(), Status> {
    objects(lab)?;
    let entry = |f: unsafe extern "C" fn()| f as usize as u64;
    let upcall = offset_of!(DispatcherFrame, upcall);
    let fields = [
        (SAVE + offset_of!(Regs, rip), entry(upcall_bench_program)),
        (SAVE + offset_of!(Regs, rflags), 0x202),
        (upcall + 8 * Upcall::Syscall as usize, entry(upcall_bench_syscall)),
        (upcall + 8 * Upcall::PageFault as usize, entry(upcall_bench_fault)),
    ];
    // Mapped as long as the program runs: it is where the program's library finds the frame.
    let mut view = lab.window.open(slot(FRAME), 0, PAGE, RW)?;
    let frame_va = view.as_ptr() as u64;
    for (at, value) in fields {
        view.write(at, &value.to_le_bytes())?;
    }
    view.write(SAVE + offset_of!(Regs, rdi), &frame_va.to_le_bytes())?;
    view.write(SAVE + offset_of!(Regs, r13), &Place::own(slot(DISPATCHER)).0.to_le_bytes())?;
    configure(frame_va, options::LINUX)?;
    invoke(slot(DISPATCHER), op::Start {})?;
    invoke(slots::DISPATCHER, op::Wait {})?;
    drop(view);
    Ok(())
}
