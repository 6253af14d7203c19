//! The ways into the kernel and out again.
//!
//! In: `syscall`, exceptions and interrupts store the user's registers where
//! [`CoreHead::current_ctx`] points and call one function of the layer above ([`Handlers`]).
//! Out: whatever `current_ctx` points to *then* is loaded; nothing to run leads to the idle loop.
//!
//! A system call of a Linux program does not even get that far: it goes to the program's own library
//! ([`Upcall::Syscall`]), and all that takes is to store the registers in the frame that both share
//! instead. `entry_syscall` does so itself, with the same checks as `on_syscall`, which still gets
//! what is unusual: a library whose entry point is no user address. (With the function trace it gets
//! all, because there is a mark to be made.)
//!
//! The kernel runs with interrupts off on one stack per core and keeps nothing on it between
//! events: each entry starts at the top. An exception of the kernel itself is a bug and ends in a
//! panic, but for what the program's breakpoints watch; the one interrupt that arrives in kernel mode is the one that the idle loop waits for.
//!
//! The way out trusts no context, because a program can write those in frames that it shares:
//! * flags are masked to those that a program may choose, and interrupts are always on;
//! * `sysretq` is taken only if it restores everything (`rcx == rip`, `r11 == rflags`, no trap
//!   flag) and `rip` is in the lower half: with a non-canonical one it would fault in kernel mode;
//! * before `iretq`, `rip` beyond the lower half is made a canonical kernel address, which faults
//!   in user mode.

#![expect(named_asm_labels, reason = "other code comes here too, and it is made only once")]

use super::super::context::{
    CORE_CTX, CORE_DIRECT_MAP, CORE_LIBRARY_CALLS, CORE_SCRATCH, CORE_SELF, CORE_STACK,
    CORE_USER_END,
};
use super::super::{Core, CoreHead, Handlers};
use super::{apic, cpu, trap};
use crate::arch::boot_info::BootInfo;
use abi::dispatcher::{DispatcherFrame, Upcall, USER_CS, USER_SS};
use abi::Regs;
use core::arch::{asm, naked_asm};
use core::mem::offset_of;

/// Bytes between the entry points of adjacent vectors.
const STUB_BYTES: u64 = 16;

/// Flags that a program may choose: arithmetic, direction, alignment check, identification.
const PLAIN_FLAGS: u64 = 0xcd5 | 1 << 18 | 1 << 21;
/// Those that `iretq` may load besides: trap and resume.
const DEBUG_FLAGS: u64 = 1 << 8 | 1 << 16;
/// Interrupts on, and the bit that is always set.
const FORCED_FLAGS: u64 = 0x202;
/// What `syscall` clears: everything but the bit that is always set.
const CLEARED_FLAGS: u64 = 0x0024_7fd5;

/// All of the ways in, and the one out. System calls enter at its beginning, everything else at the
/// labels behind.
///
/// # Safety
/// The processor comes here, in the state that `syscall` leaves; nobody else does.
#[unsafe(naked)]
unsafe extern "C" fn entry_syscall<H: Handlers>() {
    naked_asm!(
        r#"
        // Stores the user registers that all entries store alike. \ctx: the register that holds the
        // address of the context, \at bytes before it; its own value, and that of rax, the caller stores.
        .macro save_common ctx, at=0
        mov [\ctx + \at + {rbx}], rbx
        mov [\ctx + \at + {rdx}], rdx
        mov [\ctx + \at + {rsi}], rsi
        mov [\ctx + \at + {rdi}], rdi
        mov [\ctx + \at + {rbp}], rbp
        mov [\ctx + \at + {r8}], r8
        mov [\ctx + \at + {r9}], r9
        mov [\ctx + \at + {r10}], r10
        mov [\ctx + \at + {r11}], r11
        mov [\ctx + \at + {r12}], r12
        mov [\ctx + \at + {r13}], r13
        mov [\ctx + \at + {r14}], r14
        mov [\ctx + \at + {r15}], r15
        mov [\ctx + \at + {rcx}], rcx
        .endm

        // Loads all but rax, rcx, r11, rsp from the context that rax points to.
        .macro load_common
        mov rbx, [rax + {rbx}]
        mov rdx, [rax + {rdx}]
        mov rsi, [rax + {rsi}]
        mov rdi, [rax + {rdi}]
        mov rbp, [rax + {rbp}]
        mov r8, [rax + {r8}]
        mov r9, [rax + {r9}]
        mov r10, [rax + {r10}]
        mov r12, [rax + {r12}]
        mov r13, [rax + {r13}]
        mov r14, [rax + {r14}]
        mov r15, [rax + {r15}]
        .endm

        // Stores all user registers after `syscall`, and prepares a call with the core and the control
        // block, which begins with its context.
        .macro save_syscall
        mov rsp, gs:[{CTX}]
        mov [rsp + {rax}], rax
        save_common rsp
        mov [rsp + {rip}], rcx
        mov [rsp + {rflags}], r11
        mov rax, gs:[{SCRATCH}]
        mov [rsp + {rsp_}], rax
        mov rsi, rsp
        mov rsp, gs:[{STACK}]
        mov rdi, gs:[{SELF}]
        .endm

        swapgs
        mov gs:[{SCRATCH}], rsp
        .if {TRACED}
        jmp unusual
        .endif
        mov rsp, gs:[{CTX}]
        test byte ptr [rsp + {DCB_FLAGS}], {LINUX}
        jz invocation
        // From here on rsp points to the frame, of which nothing is believed.
        mov rsp, [rsp + {DCB_FRAME}]
        add rsp, gs:[{DIRECT_MAP}]
        cmp dword ptr [rsp + {disabled}], 0
        jne invocation
        cmp rcx, [rsp + {critical_low}]
        jb 3f
        cmp rcx, [rsp + {critical_high}]
        jb invocation
    3:  mov [rsp + {save} + {rax}], rax
        mov rax, [rsp + {upcall}]
        cmp rax, gs:[{USER_END}]
        jae 2f
        save_common rsp, {save}
        mov [rsp + {save} + {rip}], rcx
        mov [rsp + {save} + {rflags}], r11
        mov rdx, gs:[{SCRATCH}]
        mov [rsp + {save} + {rsp_}], rdx
        mov qword ptr [rsp + {disabled}], 1
        mov rdx, gs:[{LIBRARY_CALLS}]
        inc qword ptr [rdx]
        mov rdi, gs:[{CTX}]
        mov rdi, [rdi + {DCB_FRAME_VA}]
        mov rsp, [rsp + {upcall_stack}]
        mov rcx, rax
        mov r11d, {FORCED}
        xor edx, edx                    // no address of the kernel leaves it
        swapgs
        sysretq

    2:  mov rax, [rsp + {save} + {rax}]
    unusual:
        save_syscall
        call {on_syscall}
        jmp leave_kernel

        .balign 16
    invocation:
        save_syscall
        call {on_invocation}

        .global leave_kernel
    leave_kernel:
        mov rax, gs:[{CTX}]
        test rax, rax
        jz idle_loop
        mov rcx, [rax + {rip}]
        mov r11, [rax + {rflags}]
        cmp rcx, [rax + {rcx}]
        jne leave_by_iret
        cmp r11, [rax + {r11}]
        jne leave_by_iret
        cmp rcx, gs:[{USER_END}]
        jae leave_by_iret
        or r11d, {FORCED}
        test r11d, {NOT_PLAIN}
        jnz leave_by_iret
        load_common
        mov rsp, [rax + {rsp_}]
        mov rax, [rax + {rax}]
        swapgs
        sysretq

    leave_by_iret:
        cmp rcx, gs:[{USER_END}]
        jb 3f
        movabs rdx, 0xffff800000000000
        or rcx, rdx
    3:  and r11d, {IRET_FLAGS}
        or r11d, {FORCED}
        push {USER_SS}
        push [rax + {rsp_}]
        push r11
        push {USER_CS}
        push rcx
        load_common
        mov rcx, [rax + {rcx}]
        mov r11, [rax + {r11}]
        mov rax, [rax + {rax}]
        swapgs
        .global leave_iret
    leave_iret:
        iretq

        // Nothing to run. Interrupts are on only between these two instructions.
        .global idle_loop
    idle_loop:
        mov rsp, gs:[{STACK}]
    3:  sti
        hlt
        cli
        jmp 3b

        // One entry for each vector; those of exceptions without an error code push a zero for it.
        .balign 16
        .global entry_stubs
    entry_stubs:
        .set number, 0
        .rept 256
        .balign 16
        .if (number == 8) || ((number >= 10) && (number <= 14)) || (number == 17) || (number == 21) || (number == 29) || (number == 30)
        .else
        push 0
        .endif
        push number
        jmp entry_trap
        .set number, number + 1
        .endr

        // On the stack: vector, error code, rip, cs, rflags, rsp, ss.
        .balign 64
    entry_trap:
        test byte ptr [rsp + 24], 3
        jz trap_from_kernel
        cmp qword ptr [rsp], {NMI}
        je trap_emergency
        cmp qword ptr [rsp], {MACHINE_CHECK}
        je trap_emergency
        swapgs
        mov gs:[{SCRATCH}], rax
        mov rax, gs:[{CTX}]
        save_common rax
        mov rbx, gs:[{SCRATCH}]
        mov [rax + {rax}], rbx
        mov rsi, [rsp]
        mov rdx, [rsp + 8]
        mov rbx, [rsp + 16]
        mov [rax + {rip}], rbx
        mov rbx, [rsp + 32]
        mov [rax + {rflags}], rbx
        mov rbx, [rsp + 40]
        mov [rax + {rsp_}], rbx
        mov rcx, cr2
        push 2
        popfq                           // clears the direction and alignment-check flags
        mov rsp, gs:[{STACK}]
        mov rdi, gs:[{SELF}]
        cmp esi, 32
        jae 3f
        call {on_trap}
        jmp leave_kernel
    3:  call {on_irq}
        jmp leave_kernel

    trap_from_kernel:
        cmp qword ptr [rsp], 32
        jb 4f
        // Only the idle loop can be interrupted; it has nothing to save.
        mov rsi, [rsp]
        mov rsp, gs:[{STACK}]
        mov rdi, gs:[{SELF}]
        call {on_irq}
        jmp leave_kernel

        // The kernel itself has touched memory that the program watches, or enters for it behind an instruction
        // that held the exception back. On a stack of its own, since that may be the program's yet.
    4:  cmp qword ptr [rsp], {DEBUG}
        jne trap_emergency
        mov [rsp], rax
        lea rax, [rip + entry_stubs + {STUB_BYTES} * {DEBUG}]
        cmp [rsp + 16], rax
        je twice
        mov eax, {NO_STATUS}
        mov dr6, rax
        pop rax
        add rsp, 8
        iretq

        // Before the first instruction of this very exception: an emulator that reports a single step and what it
        // touches as two. The second has taken the place of what the first has pushed, so where the program was is
        // not known; its library has been told not to do both (trace/breakpoints.rs).
    twice:
        mov rax, [rsp]
        mov qword ptr [rsp], {DEBUG}
        mov qword ptr [rsp + 16], 0
        mov qword ptr [rsp + 24], {USER_CS}
        mov qword ptr [rsp + 32], {FORCED}
        mov qword ptr [rsp + 40], 0
        jmp entry_trap

        // An exception of the kernel, or one that may come between two instructions of this file:
        // never returns, so GS matters to nobody.
    trap_emergency:
        cld
        push rax
        push rbx
        push rcx
        push rdx
        push rsi
        push rdi
        push rbp
        push r8
        push r9
        push r10
        push r11
        push r12
        push r13
        push r14
        push r15
        mov rdi, rsp
        and rsp, -16
        call {on_emergency}
        ud2
        "#,
        rax = const offset_of!(Regs, rax),
        rbx = const offset_of!(Regs, rbx),
        rcx = const offset_of!(Regs, rcx),
        rdx = const offset_of!(Regs, rdx),
        rsi = const offset_of!(Regs, rsi),
        rdi = const offset_of!(Regs, rdi),
        rbp = const offset_of!(Regs, rbp),
        r8 = const offset_of!(Regs, r8),
        r9 = const offset_of!(Regs, r9),
        r10 = const offset_of!(Regs, r10),
        r11 = const offset_of!(Regs, r11),
        r12 = const offset_of!(Regs, r12),
        r13 = const offset_of!(Regs, r13),
        r14 = const offset_of!(Regs, r14),
        r15 = const offset_of!(Regs, r15),
        rip = const offset_of!(Regs, rip),
        rflags = const offset_of!(Regs, rflags),
        rsp_ = const offset_of!(Regs, rsp),
        disabled = const offset_of!(DispatcherFrame, disabled),
        critical_low = const offset_of!(DispatcherFrame, critical_low),
        critical_high = const offset_of!(DispatcherFrame, critical_high),
        upcall_stack = const offset_of!(DispatcherFrame, upcall_stack),
        upcall = const offset_of!(DispatcherFrame, upcall) + 8 * Upcall::Syscall as usize,
        save = const offset_of!(DispatcherFrame, save),
        DCB_FLAGS = const H::CONTROL_BLOCK.flags,
        DCB_FRAME = const H::CONTROL_BLOCK.frame,
        DCB_FRAME_VA = const H::CONTROL_BLOCK.frame_va,
        LINUX = const H::CONTROL_BLOCK.upcalls,
        LIBRARY_CALLS = const CORE_LIBRARY_CALLS,
        TRACED = const cfg!(tessera_trace) as u8,
        SELF = const CORE_SELF,
        DIRECT_MAP = const CORE_DIRECT_MAP,
        SCRATCH = const CORE_SCRATCH,
        CTX = const CORE_CTX,
        STACK = const CORE_STACK,
        USER_END = const CORE_USER_END,
        NOT_PLAIN = const !((PLAIN_FLAGS | FORCED_FLAGS) as i32),
        IRET_FLAGS = const PLAIN_FLAGS | DEBUG_FLAGS,
        FORCED = const FORCED_FLAGS,
        USER_CS = const USER_CS,
        USER_SS = const USER_SS,
        STUB_BYTES = const STUB_BYTES,
        DEBUG = const super::tables::vector::DEBUG,
        NO_STATUS = const cpu::NO_STATUS,
        NMI = const super::tables::vector::NMI,
        MACHINE_CHECK = const super::tables::vector::MACHINE_CHECK,
        on_syscall = sym H::on_syscall,
        on_invocation = sym H::on_invocation,
        on_trap = sym H::on_trap,
        on_irq = sym apic::on_interrupt::<H>,
        on_emergency = sym trap::on_emergency,
    );
}

extern "C" {
    // Of `entry_syscall`, which is made for one `Handlers` only.
    static entry_stubs: u8;
    fn leave_kernel() -> !;
}

/// Address of the entry point of `vector`.
pub fn stub(vector: u8) -> u64 {
    &raw const entry_stubs as u64 + u64::from(vector) * STUB_BYTES
}

/// Tells the processor where system calls enter, and which core this is.
///
/// # Safety
/// `core` is placed, this core's own, and stays for ever.
pub unsafe fn init<H: Handlers>(core: &mut Core<H::Local>) {
    #[cfg(tessera_trace)]
    super::trace::init_core(core.head.id);
    use super::tables::{KERNEL_CS, KERNEL_SS};
    use cpu::msr;
    // `syscall` takes CS from bits 32 to 47 (SS is 8 more); `sysretq` takes SS 8 and CS 16 above
    // what is in bits 48 to 63.
    let selectors = u64::from(KERNEL_CS) << 32 | u64::from(KERNEL_SS | 3) << 48;
    // SAFETY: every 64-bit processor has these registers; the values are those of this file.
    unsafe {
        cpu::write_msr(msr::STAR, selectors);
        cpu::write_msr(msr::LSTAR, entry_syscall::<H> as *const () as u64);
        cpu::write_msr(msr::CSTAR, 0);
        cpu::write_msr(msr::SFMASK, CLEARED_FLAGS);
        cpu::write_msr(msr::GS_BASE, &raw mut *core as u64);
        cpu::write_msr(msr::KERNEL_GS_BASE, 0);
    }
}

/// Leaves the boot stack for good: calls `then` at the top of the core's own.
pub fn call_on_stack<L>(
    core: &'static mut Core<L>,
    info: &'static mut BootInfo,
    then: extern "C" fn(&'static mut Core<L>, &'static mut BootInfo) -> !,
) -> ! {
    // SAFETY: the stack is mapped and empty; nothing on the present one is used again.
    unsafe {
        asm!("mov rsp, gs:[{stack}]", "call {then}", "ud2",
            stack = const CORE_STACK, then = in(reg) then as *const (),
            in("rdi") core, in("rsi") info, options(noreturn));
    }
}

/// Runs the dispatcher that `core.current_ctx` belongs to, or idles if that is null. What is on
/// the kernel's stack is abandoned.
pub fn resume(core: &mut CoreHead) -> ! {
    debug_assert!(core::ptr::eq(core, this_core()));
    // SAFETY: leaves as an entry would; `current_ctx` is valid by the rule of that field.
    unsafe {
        asm!("mov rsp, gs:[{stack}]", "jmp {leave}",
            stack = const CORE_STACK, leave = sym leave_kernel, options(noreturn));
    }
}

/// Waits for interrupts, with nothing to run.
pub fn idle(core: &mut CoreHead) -> ! {
    core.current_ctx = core::ptr::null_mut();
    resume(core)
}

/// The core that executes this, unless it is too early for that. For reports of panics: whoever
/// handles an event has a reference to the core already.
pub fn core_if_set_up() -> Option<&'static CoreHead> {
    // SAFETY: every 64-bit processor has the register. The core stays for ever.
    unsafe {
        let is_set_up = cpu::read_msr(cpu::msr::GS_BASE) != 0;
        is_set_up.then(|| &*this_core())
    }
}

/// The core that executes this.
fn this_core() -> *mut CoreHead {
    let core: *mut CoreHead;
    // SAFETY: in the kernel GS points to the core's own structure, which begins with its address.
    unsafe {
        asm!("mov {}, gs:[{offset}]", out(reg) core, offset = const CORE_SELF,
            options(nostack, readonly, preserves_flags));
    }
    core
}
