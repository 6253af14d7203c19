//! What only the kernel may load or execute: descriptor tables, control registers, model-specific
//! registers, debug registers, ports, and the ways from one privilege level to another.
//!
//! Each attempt is made by a thread of its own; the kernel reports the exception that it raises. These
//! run on processors without SMAP, SMEP, FSGSBASE, XSAVE and UMIP as well (`./x test processors/`),
//! where the processor is of less help.

use crate::setup::Lab;
use crate::sharing::{child, in_child};
use crate::threads::{self, dispatcher, Entry, Spaces};
use crate::Test;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::slots::VSPACE;
use libos::domain;
use libos::vspace::{root, RW, RWX};
use libos::{invoke, log, op, Status, PAGE};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("hostile_call_gate", call_gate),
    ("hostile_local_descriptors", local_descriptors),
    ("hostile_instructions", instructions),
    ("hostile_interrupts", interrupts),
    ("hostile_far_transfers", far_transfers),
    ("hostile_tables_are_hidden", tables_are_hidden),
    ("hostile_flags_and_syscall", flags_and_syscall),
    ("hostile_last_address", last_address),
    ("hostile_bases", bases),
    ("hostile_breakpoints", breakpoints),
];

const DEBUG: u64 = 1;
const INVALID_OPCODE: u64 = 6;
const PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;

/// What a thread says that was not stopped.
const WENT_ON: u64 = 0x60_0e_04;

/// The exception that a thread raises, or `None` if it goes on, with the words that it tells.
#[derive(Debug, PartialEq)]
enum End {
    Exception { vector: u64, error: u64 },
    WentOn(u64),
}

fn run_in(lab: &mut Lab, spaces: Spaces, entry: Entry, args: [u64; 3]) -> Result<End, Status> {
    threads::prepare(lab, 0, entry, args, spaces)?;
    end()
}

/// Starts what is prepared, and waits until it tells something or is told of.
fn end() -> Result<End, Status> {
    invoke(dispatcher(0), op::Start {})?;
    let message = threads::hear()?;
    threads::kill(0)?;
    let [first, second, ..] = message.words;
    Ok(match message.is_fault() {
        true => End::Exception { vector: first, error: second },
        false => End::WentOn(second),
    })
}

fn run(lab: &mut Lab, entry: Entry) -> Result<End, Status> {
    run_in(lab, Spaces::default(), entry, [0; 3])
}

/// The end of every attempt: only a thread that was not stopped comes here.
fn went_on(value: u64) -> ! {
    let _ = threads::tell([WENT_ON, value, 0, 0, 0, 0]);
    threads::idle()
}

/// A processor has the features that CPUID says, all of which are also what the kernel switches on.
fn structured_features() -> (u32, u32) {
    #[allow(unused_unsafe)]
    // SAFETY: every 64-bit processor has the instruction.
    unsafe {
        if __cpuid(0).eax < 7 {
            return (0, 0);
        }
        let features = __cpuid_count(7, 0);
        (features.ebx, features.ecx)
    }
}

fn has_umip() -> bool {
    structured_features().1 >> 2 & 1 != 0
}

fn has_fsgsbase() -> bool {
    structured_features().0 & 1 != 0
}

/// A descriptor of the local table, had it any.
const LOCAL_SELECTOR: u16 = 0x7;
/// The error code of its refusal: the selector without its privilege level.
const LOCAL_ERROR: u64 = 0x4;
const KERNEL_CODE: u64 = 0x08;

/// Executed at level 0 if the gate works, and only there: level 3 may not read CR0. Switches
/// nothing, so that whoever called hears of it.
#[unsafe(naked)]
extern "C" fn behind_the_gate() -> ! {
    core::arch::naked_asm!("mov rax, cr0", "mov eax, 0x600d", "retfq")
}

/// Where a processor whose local descriptor table begins at address 0 looks.
const GATE_ADDRESS: u64 = 0;

extern "C" fn call_through_gate(_: u64, _: u64, _: u64) -> ! {
    let handler = behind_the_gate as *const () as u64;
    let gate = [
        handler & 0xffff | KERNEL_CODE << 16 | 0xec << 40 | (handler >> 16 & 0xffff) << 48,
        handler >> 32,
    ];
    let target: [u16; 5] = [0, 0, 0, 0, LOCAL_SELECTOR];
    let value: u64;
    // SAFETY: writes the page at address 0, which is mapped for this, and calls a function that
    // changes nothing but RAX; if there is no gate it faults.
    unsafe {
        asm!(
            "mov [{at}], {low}", "mov [{at} + 8], {high}",
            "rex64 call fword ptr [{target}]",
            at = in(reg) GATE_ADDRESS, low = in(reg) gate[0], high = in(reg) gate[1],
            target = in(reg) &target, out("rax") value,
        );
    }
    went_on(value)
}

/// Runs a thread in an address space that has a page at address 0.
fn run_with_page_zero(lab: &mut Lab, entry: Entry) -> Result<End, testkit::Failure> {
    good!(threads::make_endpoint(lab));
    let mut child = child(lab)?;
    good!(domain::with(|domain| {
        let page = child.frame(PAGE, &mut domain.arena)?;
        child.map(0, PAGE, page, 0, RW, &mut domain.arena)
    }));
    let end = good!(run_in(lab, in_child(&child), entry, [0; 3]));
    good!(child.destroy());
    Ok(end)
}

/// A gate to level 0 at address 0: the processor must not look for descriptors there.
fn call_gate(lab: &mut Lab) -> Outcome {
    let end = run_with_page_zero(lab, call_through_gate)?;
    log!("hostile: call gate at address 0: {end:?}");
    check!(end == End::Exception { vector: PROTECTION, error: LOCAL_ERROR });
    Ok(())
}

extern "C" fn load_local_segment(_: u64, _: u64, _: u64) -> ! {
    const USER_DATA: u64 = 0x00cf_f300_0000_ffff;
    // SAFETY: writes the page at address 0, which is mapped for this; 64-bit code does not use ES.
    unsafe {
        asm!("mov [{at}], {data}", "mov es, {selector:x}",
            at = in(reg) GATE_ADDRESS, data = in(reg) USER_DATA,
            selector = in(reg) LOCAL_SELECTOR);
    }
    went_on(0)
}

fn local_descriptors(lab: &mut Lab) -> Outcome {
    let end = run_with_page_zero(lab, load_local_segment)?;
    check!(end == End::Exception { vector: PROTECTION, error: LOCAL_ERROR });
    Ok(())
}

/// A thread for each attempt: instructions, and what they need in registers.
macro_rules! attempts {
    ($($what:literal)*) => {
        &[$(($what, {
            extern "C" fn attempt(_: u64, _: u64, _: u64) -> ! {
                // SAFETY: raises an exception, which ends the thread, unless the kernel has
                // forgotten something; then the test fails, and the machine is not used any more.
                unsafe {
                    asm!(
                        "sub rsp, 256", "mov rdi, rsp", "xor eax, eax", "xor ecx, ecx",
                        "xor edx, edx", $what, "add rsp, 256",
                        out("rax") _, out("rcx") _, out("rdx") _, out("rdi") _, out("rsi") _,
                        out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                    );
                }
                went_on(0)
            }
            attempt as Entry
        })),*]
    };
}

type Attempt = (&'static str, Entry);

/// What raises #GP at level 3, whatever the processor.
const PRIVILEGED: &[Attempt] = attempts![
    "cli"
    "sti"
    "hlt"
    "clts"
    "invd"
    "wbinvd"
    "swapgs"
    "sysretq"
    "in al, 0x60"
    "out 0x80, al"
    "in al, dx"
    "mov edx, 0xcf8\n out dx, eax"
    "insb"
    "outsb"
    "mov rax, cr0"
    "mov rax, cr2"
    "mov rax, cr3"
    "mov rax, cr4"
    "mov cr0, rax"
    "mov cr3, rax"
    "mov cr4, rax"
    "mov rax, cr8"
    "mov cr8, rax"
    "mov rax, dr0"
    "mov rax, dr7"
    "mov dr0, rax"
    "mov eax, 0x402\n mov dr7, rax"
    "lgdt [rdi]"
    "lidt [rdi]"
    "lldt ax"
    "ltr ax"
    "lmsw ax"
    "invlpg [rdi]"
    // SYSENTER_CS, _ESP, _EIP; STAR, LSTAR, SFMASK; EFER; APIC base; KERNEL_GS_BASE.
    "mov ecx, 0x174\n rdmsr"
    "mov ecx, 0x174\n wrmsr"
    "mov ecx, 0x175\n wrmsr"
    "mov ecx, 0x176\n wrmsr"
    "mov ecx, 0xc0000080\n rdmsr"
    "mov ecx, 0xc0000080\n wrmsr"
    "mov ecx, 0xc0000081\n wrmsr"
    "mov ecx, 0xc0000082\n rdmsr"
    "mov ecx, 0xc0000082\n wrmsr"
    "mov ecx, 0xc0000084\n wrmsr"
    "mov ecx, 0xc0000102\n rdmsr"
    "mov ecx, 0xc0000102\n wrmsr"
    "mov ecx, 0x1b\n wrmsr"
    "mov ecx, 0x6e0\n wrmsr"
    "rdpmc"
    // Segments of the kernel, of the task, and beyond the table.
    "mov ax, 0x08\n mov ds, ax"
    "mov ax, 0x10\n mov ds, ax"
    "mov ax, 0x10\n mov ss, ax"
    "mov ax, 0x28\n mov es, ax"
    "mov ax, 0x2b\n mov fs, ax"
    "mov ax, 0x3b\n mov gs, ax"
    "mov ax, 0xfffb\n mov gs, ax"
    "mov ax, 0\n mov ss, ax"
];

/// What raises #GP or #UD, as the processor pleases.
const REFUSED: &[Attempt] = attempts![
    "sysenter"
    "sysexit"
    "monitor"
    "mwait"
    "vmcall"
    "vmmcall"
    "vmrun"
    "stgi"
    "invlpga"
    "xor ecx, ecx\n xsetbv"
    "rsm"
    "mov rax, dr4"
    "mov rax, cr1"
    "xsaves [rdi]"
    "invpcid rax, [rdi]"
];

fn all_raise(lab: &mut Lab, attempts: &[Attempt], vectors: &[u64]) -> Outcome {
    good!(threads::make_endpoint(lab));
    let mut failed = 0;
    for &(what, entry) in attempts {
        let end = good!(run(lab, entry));
        let raised = matches!(end, End::Exception { vector, .. } if vectors.contains(&vector));
        if !raised {
            failed += 1;
            log!("hostile: {end:?} by {what}");
        }
    }
    check!(failed == 0);
    Ok(())
}

fn instructions(lab: &mut Lab) -> Outcome {
    all_raise(lab, PRIVILEGED, &[PROTECTION])?;
    good!(lab.clean());
    all_raise(lab, REFUSED, &[PROTECTION, INVALID_OPCODE])
}

/// Vectors of exceptions, of interrupts and of nothing: only two may be raised by instructions.
const INTERRUPTS: &[Attempt] = attempts![
    "int 0" "int 1" "int 2" "int 5" "int 8" "int 13" "int 14" "int 18" "int 30" "int 32" "int 36"
    "int 0x80" "int 0xe0" "int 0xe1" "int 0xff"
];

fn interrupts(lab: &mut Lab) -> Outcome {
    all_raise(lab, INTERRUPTS, &[PROTECTION])?;
    good!(lab.clean());
    // A vector of its own each, and nobody is led to believe in another one.
    for (attempts, vector) in [
        (attempts!["int3"], 3),
        (attempts!["int 4"], 4),
        (attempts!["ud2"], INVALID_OPCODE),
        (attempts!["div ecx"], 0),
    ] {
        all_raise(lab, attempts, &[vector])?;
        good!(lab.clean());
    }
    Ok(())
}

/// Returns to the kernel's code segment, and into code of 32 bits, of which there is none.
const RETURNS: &[Attempt] = attempts![
    "push 0x08\n lea rax, [rip]\n push rax\n retfq"
    "push 0x2b\n lea rax, [rip]\n push rax\n retfq"
    "push 0x1b\n lea rax, [rip]\n push rax\n retfq"
    "push 0x3b\n lea rax, [rip]\n push rax\n retfq"
    "push 0x1b\n push rdi\n push 0x202\n push 0x08\n push rdi\n iretq"
];

/// The same by calls and jumps, and through a descriptor of the local table.
const TRANSFERS: &[Attempt] = attempts![
    "mov word ptr [rdi + 8], 0x08\n rex64 call fword ptr [rdi]"
    "mov word ptr [rdi + 8], 0x28\n rex64 call fword ptr [rdi]"
    "mov word ptr [rdi + 8], 0x2b\n rex64 jmp fword ptr [rdi]"
    "mov word ptr [rdi + 8], 0xf\n rex64 jmp fword ptr [rdi]"
];

fn far_transfers(lab: &mut Lab) -> Outcome {
    all_raise(lab, TRANSFERS, &[PROTECTION])?;
    good!(lab.clean());
    // QEMU 7 reads the stack as the kernel would, which SMAP forbids.
    all_raise(lab, RETURNS, &[PROTECTION, PAGE_FAULT])
}

/// Where the kernel's tables are.
const TABLES: &[Attempt] = attempts!["sgdt [rdi]" "sidt [rdi]" "sldt rax" "str rax" "smsw rax"];

/// With UMIP nobody learns the kernel's addresses. Without it everybody does, but nothing more.
fn tables_are_hidden(lab: &mut Lab) -> Outcome {
    if has_umip() {
        return all_raise(lab, TABLES, &[PROTECTION]);
    }
    good!(threads::make_endpoint(lab));
    for &(_, entry) in TABLES {
        check!(good!(run(lab, entry)) == End::WentOn(0));
    }
    // The local table is none.
    check!(good!(run(lab, tell_local_table)) == End::WentOn(0));
    Ok(())
}

extern "C" fn tell_local_table(_: u64, _: u64, _: u64) -> ! {
    let selector: u64;
    // SAFETY: reads a register, as it may without UMIP.
    unsafe { asm!("sldt {:x}", "movzx {0:e}, {0:x}", inout(reg) 0u64 => selector) };
    went_on(selector)
}

/// Sets flags that a program may set, and enters the kernel in each way.
extern "C" fn enter_with_flags(flags: u64, way: u64, _: u64) -> ! {
    // SAFETY: changes flags only, of which the compiler relies on one: it is clear again before
    // anything else happens. What is invoked does nothing.
    unsafe {
        match way {
            0 => asm!(
                "push {flags}", "popfq", "syscall", "push 2", "popfq",
                flags = in(reg) flags, inout("rax") 0u64 => _, inout("rdi") 0u64 => _,
                out("rcx") _, out("r11") _, out("rsi") _, out("rdx") _, out("r10") _,
                out("r8") _, out("r9") _, out("r12") _, out("r13") _,
            ),
            1 => asm!("push {}", "popfq", "ud2", in(reg) flags),
            2 => asm!("push {0}", "popfq", "mov {0}, [{1}]", in(reg) flags, in(reg) 8u64 << 39),
            _ => asm!("push {}", "popfq", "int3", in(reg) flags),
        }
    }
    went_on(0)
}

/// Trap, direction, nested task, resume, alignment check, identification; all of them.
const FLAGS: [u64; 7] = [1 << 8, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 21, 0x25_4500];

/// The kernel does what it does, whatever the flags with which it is entered.
fn flags_and_syscall(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    for flags in FLAGS {
        for (way, expected) in [(0, None), (1, Some(6)), (2, Some(14)), (3, Some(3))] {
            let args = [flags | 0x202, way, 0];
            let end = good!(run_in(lab, Spaces::default(), enter_with_flags, args));
            let stepped = flags & 1 << 8 != 0;
            let right = match (&end, expected) {
                // The trap flag may end the thread before or behind the instruction.
                (End::Exception { vector: 1, .. }, _) => stepped,
                (End::Exception { vector, .. }, Some(expected)) => *vector == expected,
                (End::WentOn(_), None) => true,
                _ => false,
            };
            if !right {
                log!("hostile: flags {flags:#x}, way {way}: {end:?}");
            }
            check!(right);
        }
    }
    Ok(())
}

/// A system call in the last two bytes that are user addresses returns to what is none.
fn last_address(lab: &mut Lab) -> Outcome {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    good!(threads::make_endpoint(lab));
    let five = root() != VSPACE;
    let mut child = child(lab)?;
    let last = 0x7fff_ffff_f000;
    good!(domain::with(|domain| {
        let page = child.frame(PAGE, &mut domain.arena)?;
        lab.window.open(page, 0, PAGE, RW)?.write(PAGE as usize - 2, &SYSCALL)?;
        child.map(last, PAGE, page, 0, RWX, &mut domain.arena)
    }));
    let spaces = in_child(&child);
    let end = good!(run_in(lab, spaces, jump, [last + PAGE - 2, 0, 0]));
    // With five levels the next address is a user address where nothing is mapped.
    let vectors: &[u64] = if five { &[PAGE_FAULT] } else { &[PROTECTION, PAGE_FAULT] };
    check!(matches!(end, End::Exception { vector, .. } if vectors.contains(&vector)));
    for address in [1u64 << 47, 1 << 56, !0 << 47, !0 << 56, 0x8000_0000_0000_0000, u64::MAX - 1] {
        let end = good!(run_in(lab, spaces, jump, [address, 0, 0]));
        check!(matches!(end, End::Exception { vector: PROTECTION | PAGE_FAULT, .. }));
    }
    good!(child.destroy());
    Ok(())
}

extern "C" fn jump(to: u64, _: u64, _: u64) -> ! {
    // SAFETY: nothing that follows depends on this thread: it faults there, or here.
    unsafe { asm!("xor eax, eax", "xor edi, edi", "jmp {}", in(reg) to, options(noreturn)) }
}

/// Bases that are addresses of the kernel are of no use, and stay this thread's own.
fn bases(lab: &mut Lab) -> Outcome {
    if !has_fsgsbase() {
        return all_raise(lab, attempts!["wrgsbase rax" "rdfsbase rax"], &[INVALID_OPCODE]);
    }
    good!(threads::make_endpoint(lab));
    for base in [0, 0x1000, 0xffff_8000_0000_0000, 0xffff_ffff_8020_0000] {
        check!(good!(run_in(lab, Spaces::default(), keep_bases, [base, 0, 0])) == End::WentOn(1));
        let end = good!(run_in(lab, Spaces::default(), use_base, [base, 0, 0]));
        check!(matches!(end, End::Exception { vector: PAGE_FAULT, .. }));
    }
    Ok(())
}

extern "C" fn keep_bases(base: u64, _: u64, _: u64) -> ! {
    let (fs, gs): (u64, u64);
    // SAFETY: this program uses neither FS nor GS in a thread without a frame of its own.
    unsafe {
        asm!("wrfsbase {0}", "wrgsbase {0}", in(reg) base);
        // Through the kernel, and to another dispatcher and back.
        let _ = invoke(dispatcher(0), op::Yield {});
        asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs);
    }
    went_on(u64::from(fs == base && gs == base))
}

extern "C" fn use_base(base: u64, _: u64, _: u64) -> ! {
    let value: u64;
    // SAFETY: as above; nothing is mapped there for user mode.
    unsafe { asm!("wrgsbase {1}", "mov {0}, gs:[0x18]", out(reg) value, in(reg) base) };
    went_on(value)
}

/// What is watched.
static WATCHED: AtomicU64 = AtomicU64::new(0);

extern "C" fn writes_it(value: u64, _: u64, _: u64) -> ! {
    WATCHED.store(value, Ordering::Relaxed);
    went_on(value)
}

/// Emulators report this as two exceptions, the second before the first has been looked at.
extern "C" fn writes_it_in_a_step(_: u64, _: u64, _: u64) -> ! {
    // SAFETY: the flag ends with the thread.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "mov qword ptr [{}], 1", "nop", in(reg) WATCHED.as_ptr());
    }
    went_on(0)
}

/// Loading SS holds the exception back until behind the next instruction, which is in the kernel.
extern "C" fn holds_it_back(_: u64, _: u64, _: u64) -> ! {
    // SAFETY: reads and writes a word of its own, and looks up a capability.
    unsafe {
        asm!(
            "mov [{at}], ss", "mov ss, [{at}]", "syscall",
            at = in(reg) WATCHED.as_ptr(), inout("rax") 0u64 => _, in("rdi") 0, lateout("rcx") _, lateout("r11") _,
        );
    }
    went_on(1)
}

fn watched(lab: &mut Lab, entry: Entry, address: u64, control: u64) -> Result<End, Status> {
    threads::prepare(lab, 0, entry, [7, 0, 0], Spaces::default())?;
    let set =
        op::SetBreakpoints { address0: address, address1: 0, address2: 0, address3: 0, control };
    invoke(dispatcher(0), set)?;
    end()
}

/// Breakpoints of a dispatcher stop it where they say, and nobody else: not the kernel, and not whoever runs after it.
fn breakpoints(lab: &mut Lab) -> Outcome {
    const WRITTEN: u64 = 0x9_0001;
    const TOUCHED: u64 = 0xb_0001;
    const EXECUTED: u64 = 1;
    good!(threads::make_endpoint(lab));
    let address = WATCHED.as_ptr() as u64;
    let hit = End::Exception { vector: DEBUG, error: 1 };
    check!(good!(watched(lab, writes_it, address, WRITTEN)) == hit);
    check!(WATCHED.load(Ordering::Relaxed) == 7);
    check!(good!(watched(lab, writes_it, address, 0)) == End::WentOn(7));
    check!(good!(watched(lab, writes_it, address + 8, WRITTEN)) == End::WentOn(7));
    check!(good!(watched(lab, writes_it, writes_it as *const () as u64, EXECUTED)) == hit);
    for _ in 0..20 {
        let stepped = good!(watched(lab, writes_it_in_a_step, address, WRITTEN));
        check!(matches!(stepped, End::Exception { vector: DEBUG, .. }));
        // It is told of what it touched before it enters, or goes on.
        let held = good!(watched(lab, holds_it_back, address, TOUCHED));
        check!(held == hit || held == End::WentOn(1));
        WATCHED.store(1, Ordering::Relaxed);
    }
    for (address0, control, error) in [
        (u64::MAX, WRITTEN, Status::OutOfRange),
        (1 << 63, 0, Status::OutOfRange),
        (address, 1 << 13 | WRITTEN, Status::Invalid),
        (0x80, 0x2_0001, Status::Invalid),
        (address, 1 << 32, Status::Invalid),
    ] {
        good!(threads::prepare(lab, 0, writes_it, [0; 3], Spaces::default()));
        let set = op::SetBreakpoints { address0, address1: 0, address2: 0, address3: 0, control };
        check!(invoke(dispatcher(0), set) == Err(error));
        good!(threads::kill(0));
    }
    Ok(())
}
