//! Exceptions that end the kernel: its own, and those that report broken hardware.

use super::super::CoreHead;
use super::port::{self, LogLock};
use super::smp::{self, Ender};
use super::tables::vector;
use super::{entry, memory};
use crate::arch::log;
use core::arch::asm;

/// What the entry code has on the stack when it calls [`on_emergency`].
#[repr(C)]
pub struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Names of the exceptions, by vector.
const NAMES: [&str; 22] = [
    "division error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid instruction",
    "no coprocessor",
    "double fault",
    "coprocessor segment overrun",
    "invalid task state",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "page fault",
    "reserved",
    "x87 error",
    "alignment check",
    "machine check",
    "SIMD error",
    "virtualisation exception",
    "control protection exception",
];

/// Reports an exception that the kernel cannot go on after, and ends the machine. A non-maskable
/// interrupt may also be another core's word that it does so.
pub extern "C" fn on_emergency(frame: &Frame) -> ! {
    if frame.vector == u64::from(vector::NMI) && smp::must_stop() {
        smp::stop()
    }
    enter_panic();
    let name = NAMES.get(frame.vector as usize).copied().unwrap_or("unknown exception");
    let cr2 = cr2();
    log!("kernel panic: {name} (vector {}, error {:#x})", frame.vector, frame.error);
    if frame.vector == u64::from(vector::PAGE_FAULT) {
        log!("  at address {cr2:#x}");
    }
    if frame.vector == u64::from(vector::DOUBLE_FAULT) && memory::is_stack_guard(cr2) {
        log!("  the kernel's stack is full (address {cr2:#x})");
    }
    frame.print();
    print_backtrace(frame.rip, frame.rsp);
    port::shutdown_after_panic()
}

impl Frame {
    fn print(&self) {
        let Frame { rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, .. } = self;
        let Frame { r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags, cs, ss, .. } = self;
        log!("  rip {rip:016x}  rsp {rsp:016x}  rflags {rflags:x}  cs {cs:x}  ss {ss:x}");
        log!("  rax {rax:016x}  rbx {rbx:016x}  rcx {rcx:016x}  rdx {rdx:016x}");
        log!("  rsi {rsi:016x}  rdi {rdi:016x}  rbp {rbp:016x}  r8  {r8:016x}");
        log!("  r9  {r9:016x}  r10 {r10:016x}  r11 {r11:016x}  r12 {r12:016x}");
        log!("  r13 {r13:016x}  r14 {r14:016x}  r15 {r15:016x}");
        log!("  cr2 {:016x}  cr3 {:016x}", cr2(), memory::root().0);
    }
}

/// The address of the last page fault.
fn cr2() -> u64 {
    let value: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Notes that the kernel is ending, and stops the other cores. A second failure on the way ends the
/// machine at once; if another core was first, this one just stops.
pub fn enter_panic() {
    match smp::claim_end() {
        Ender::Other => smp::halt(),
        Ender::Me => {
            smp::stop_others();
            break_log_lock();
        }
        Ender::MeAgain => {
            break_log_lock();
            log!("kernel panic: another failure while reporting the first");
            port::shutdown_after_panic()
        }
    }
}

/// The report begins on a line of its own, whoever was writing one.
fn break_log_lock() {
    if LogLock::break_open() {
        log!("");
    }
}

/// Prints where the caller was called from, and the registers that mean something there.
pub fn report_panic() {
    let rsp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
    log!("  rsp {rsp:016x}  cr2 {:016x}  cr3 {:016x}", cr2(), memory::root().0);
    if let Some(core) = entry::core_if_set_up() {
        print_user(core);
    }
    print_backtrace(report_panic as *const () as u64, rsp);
}

/// Prints what user mode was doing when it entered the kernel.
fn print_user(core: &CoreHead) {
    // SAFETY: null or valid by the rule of the field; the machine does nothing else any more.
    match unsafe { core.current_ctx.as_ref() } {
        None => log!("  core {}, idle", core.id),
        Some(user) => {
            log!("  core {}, user mode at rip {:016x}  rsp {:016x}", core.id, user.rip, user.rsp);
            log!("  rax {:016x}  rdi {:016x}  rsi {:016x}", user.rax, user.rdi, user.rsi);
        }
    }
}

/// Prints return addresses, innermost first, for the host's tool to put names to: a line
/// `@backtrace`, then one line `  #N 0xADDRESS` for each.
///
/// The kernel keeps no frame pointers, which would cost each function three instructions. So this is
/// everything on the stack that looks like a return address; an old one may be among them.
fn print_backtrace(rip: u64, rsp: u64) {
    const MOST: usize = 64;
    log!("@backtrace");
    log!("  #0 {rip:#x}");
    let stack =
        (rsp.next_multiple_of(8)..).step_by(8).take_while(|&at| memory::is_kernel_stack(at));
    // SAFETY: a word of a mapped kernel stack, or of the image.
    let words = stack.map(|at| unsafe { (at as *const u64).read() });
    for (address, number) in words.filter(|&word| follows_call(word)).zip(1..MOST) {
        log!("  #{number} {address:#x}");
    }
}

/// Is the instruction in front of this address a call in the kernel's text?
fn follows_call(address: u64) -> bool {
    const RELATIVE: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    const LONGEST: u64 = 7;
    if !memory::is_text(address.wrapping_sub(LONGEST)) || !memory::is_text(address) {
        return false;
    }
    // SAFETY: the bytes are text, which is mapped and never changes.
    let before = |bytes: u64| unsafe { ((address - bytes) as *const u8).read() };
    // Bits 3 to 5 of the byte behind the opcode say that it is a call.
    let indirect = |bytes| before(bytes) == INDIRECT && before(bytes - 1) >> 3 & 7 == 2;
    before(5) == RELATIVE || [2, 3, 4, 6, 7].into_iter().any(indirect)
}
