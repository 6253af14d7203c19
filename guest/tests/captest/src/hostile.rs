//! A domain that writes nonsense into what it shares with the kernel gets nothing by it.

use crate::linux::start_with;
use crate::probe::make_tables;
use crate::setup::Lab;
use crate::threads::{self, first_registers};
use crate::Test;
use libos::abi::dispatcher::DispatcherFrame;
use libos::log;
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("hostile_segments", segments),
    ("hostile_flags", flags),
    ("hostile_addresses", addresses),
    ("hostile_upcalls", upcalls),
    ("hostile_stacks", stacks),
];

const KERNEL_CS: [u64; 4] = [0x08, 0x10, 0x0b, 0xffff_ffff_ffff_ffff];
/// Addresses of the kernel, of nothing, and no addresses.
const BAD: [u64; 7] = [
    0,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_8020_0000,
    0xdead_beef_dead_beef,
    u64::MAX,
];

/// Reports its code segment and its flags, by invocations, as it is disabled.
extern "C" fn tell_state(_: u64, _: u64, _: u64) -> ! {
    let (cs, ss, flags): (u64, u64, u64);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!(
            "mov {0:x}, cs", "movzx {0:e}, {0:x}", "mov {1:x}, ss", "movzx {1:e}, {1:x}",
            "pushfq", "pop {2}", out(reg) cs, out(reg) ss, out(reg) flags,
        );
    }
    let _ = threads::tell([cs, ss, flags, 0, 0, 0]);
    // SAFETY: a privileged instruction faults, unless the kernel was fooled.
    unsafe { core::arch::asm!("cli") };
    let _ = threads::tell([0xbad, 0, 0, 0, 0, 0]);
    threads::idle()
}

fn disable(frame: &mut DispatcherFrame) {
    *frame.disabled.get_mut() = 1;
}

/// The thread either runs as any user program does, or faults.
fn is_harmless(
    lab: &mut Lab,
    change: impl FnOnce(&mut libos::abi::Regs),
) -> Result<bool, libos::Status> {
    let mut regs = first_registers(0, tell_state, [0; 3]);
    change(&mut regs);
    start_with(lab, &regs, disable)?;
    let state = threads::hear()?;
    let mut harmless = state.is_fault();
    if !harmless {
        let [cs, ss, flags, ..] = state.words;
        // Level 3, interrupts on, no I/O privilege, no nested task, no virtual 8086.
        harmless = cs & 3 == 3 && ss & 3 == 3 && flags & 0x200 != 0 && flags & 0x2_7000 == 0;
        if !harmless {
            log!("hostile: cs {cs:#x} ss {ss:#x} flags {flags:#x}");
        }
        let next = libos::ipc::reply_recv(
            threads::EP,
            libos::Place::CALLER,
            [0; 6],
            libos::ipc::Caps::NONE,
            libos::Place::NULL,
        )?;
        harmless &= next.is_fault() && next.words[0] == 13;
    }
    threads::kill(0)?;
    libos::Cap::delete(crate::setup::slot(150)).or(Ok(())).map(|()| harmless)
}

fn segments(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for cs in KERNEL_CS {
        check!(good!(is_harmless(lab, |regs| regs.cs = cs)));
        check!(good!(is_harmless(lab, |regs| regs.ss = cs)));
    }
    Ok(())
}

fn flags(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    // Interrupts off, I/O privilege, nested task, resume, virtual 8086, all of it.
    for rflags in [0, 0x3000, 0x3202, 0x4202, 0x1_0202, 0x2_0202, 0x20_0202, !0x100] {
        check!(good!(is_harmless(lab, |regs| regs.rflags = rflags)));
    }
    Ok(())
}

fn addresses(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for address in BAD {
        check!(good!(is_harmless(lab, |regs| regs.rip = address)));
        check!(good!(is_harmless(lab, |regs| regs.rsp = address)));
    }
    Ok(())
}

extern "C" fn ask(_: u64, _: u64, _: u64) -> ! {
    // SAFETY: enters the library, wherever that is said to be.
    unsafe { core::arch::asm!("syscall", inout("rax") 39u64 => _, out("rcx") _, out("r11") _) };
    threads::idle()
}

fn after_upcall(
    lab: &mut Lab,
    change: impl FnOnce(&mut DispatcherFrame),
) -> Result<bool, libos::Status> {
    start_with(lab, &first_registers(0, ask, [0; 3]), change)?;
    let message = threads::hear()?;
    threads::kill(0)?;
    libos::Cap::delete(crate::setup::slot(150)).or(Ok(())).map(|()| message.is_fault())
}

/// Entry points that are none: a fault of the library, reported.
fn upcalls(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for address in BAD {
        check!(good!(after_upcall(lab, |frame| frame.upcall = [address; 6])));
    }
    Ok(())
}

fn stacks(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for address in BAD {
        check!(good!(after_upcall(lab, |frame| frame.upcall_stack = address)));
    }
    Ok(())
}
