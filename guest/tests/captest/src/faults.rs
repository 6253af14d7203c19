//! Faults of dispatchers that cannot handle them themselves: what is reported, and what can be done
//! about it.

use crate::probe::{make_tables, probe, Access, Seen, PT, VA};
use crate::setup::{slot, Lab};
use crate::threads::{self, dispatcher, EP};
use crate::Test;
use libos::ipc::{self, Caps};
use libos::vspace::RW;
use libos::{invoke, op, Cap, CapType, Place, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("fault_addresses", addresses),
    ("fault_exceptions", exceptions),
    ("fault_repaired", repaired),
    ("fault_of_nobody", of_nobody),
];

fn addresses(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    for va in [VA + 5 * PAGE + 8, VA + (7 << 21), VA + (3 << 30), 8 << 39, 0x10] {
        for access in [Access::Read, Access::Write] {
            check!(good!(probe(lab, va, access)).is_absent(va, access));
        }
    }
    // The kernel's half is present, and forbidden.
    for va in [0xffff_8000_0000_0000, 0xffff_ffff_8020_0000] {
        let seen = good!(probe(lab, va, Access::Read));
        check!(matches!(seen, Seen::Fault { vector: 14, address, .. } if address == va));
    }
    // No address at all.
    let seen = good!(probe(lab, 0x8000_0000_0000_0000, Access::Read));
    check!(matches!(seen, Seen::Fault { vector: 13, .. }));
    Ok(())
}

extern "C" fn raise(which: u64, _: u64, _: u64) -> ! {
    // SAFETY: each ends this thread by an exception.
    unsafe {
        match which {
            0 => core::arch::asm!("xor edx, edx", "div edx", out("eax") _, out("edx") _),
            6 => core::arch::asm!("ud2"),
            3 => core::arch::asm!("int3"),
            _ => core::arch::asm!("hlt"),
        }
    }
    let _ = threads::tell([u64::MAX, 0, 0, 0, 0, 0]);
    threads::idle()
}

fn exceptions(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    for vector in [0, 6, 3, 13] {
        good!(threads::start(lab, 0, raise, [vector, 0, 0]));
        let message = good!(threads::hear());
        check!(message.is_fault() && message.words[0] == vector);
        check!(message.caps() == 0);
        good!(threads::kill(0));
    }
    Ok(())
}

extern "C" fn read_and_tell(va: u64, _: u64, _: u64) -> ! {
    // SAFETY: absent at first; the main thread maps a page there before this thread goes on.
    let value = unsafe { core::ptr::read_volatile(va as *const u64) };
    let _ = threads::tell([value, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// Answered, the dispatcher repeats the instruction: paging from outside.
fn repaired(lab: &mut Lab) -> Outcome {
    good!(make_tables(lab));
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(good!(lab.window.open(slot(0), 0, PAGE, RW)).write(0, &77u64.to_le_bytes()));
    good!(threads::start(lab, 0, read_and_tell, [VA, 0, 0]));
    let fault = good!(threads::hear());
    check!(fault.is_fault() && fault.words[0] == 14 && fault.words[2] == VA);
    good!(PT.map(0, 1, slot(0), 0, RW, slot(1)));
    let message = good!(ipc::reply_recv(EP, Place::CALLER, [0; 6], Caps::NONE, Place::NULL));
    check!(!message.is_fault() && message.words[0] == 77);
    good!(threads::kill(0));
    Ok(())
}

/// Without anybody to tell, the dispatcher stops and the others go on.
fn of_nobody(lab: &mut Lab) -> Outcome {
    good!(threads::start(lab, 1, raise, [6, 0, 0]));
    for _ in 0..20 {
        good!(invoke(libos::abi::slots::DISPATCHER, op::Yield {}));
    }
    fails!(WrongState, invoke(dispatcher(1), op::Suspend {}));
    good!(threads::kill(1));
    Ok(())
}
