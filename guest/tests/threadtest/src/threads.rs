//! Threads: who runs when, and what they find when they go on.

use crate::Test;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use libos::abi::slots::DISPATCHER;
use libos::thread::{self, sync::Mutex};
use libos::upcall::{self, Fault};
use libos::vspace::RW;
use libos::{domain, Cap, CapType, Status, PAGE};
use testkit::{check, good, Machine, Outcome};

pub const TESTS: &[Test] = &[
    ("thread_results", results),
    ("thread_order", order),
    ("thread_preemption", preemption),
    ("thread_registers", registers),
    ("thread_vectors", vectors),
    ("thread_park", park),
    ("thread_sleep", sleep),
    ("thread_notifications", notifications),
    ("thread_faults", faults),
    ("thread_stacks_come_back", stacks),
];

fn results(_: &Machine) -> Outcome {
    let text = alloc::string::String::from("moved");
    let a = good!(thread::spawn(move || text.len()));
    let b = good!(thread::spawn(|| thread::current().id()));
    let id = b.thread().id();
    check!(a.thread().id() != id && thread::current().id() == 0);
    check!(a.join() == 5);
    check!(b.join() == id);
    let nested = good!(thread::spawn(|| {
        let inner = thread::spawn(|| 7).map(thread::JoinHandle::join);
        inner == Ok(7)
    }));
    check!(nested.join());
    Ok(())
}

/// Without interruptions, threads that yield take turns.
fn order(_: &Machine) -> Outcome {
    let log = Arc::new(Mutex::new(Vec::new()));
    thread::set_slice(u64::MAX >> 1);
    let mut threads = Vec::new();
    for name in 0..3u64 {
        let log = log.clone();
        threads.push(good!(thread::spawn(move || {
            for turn in 0..3 {
                log.lock().push((turn, name));
                thread::yield_now();
            }
        })));
    }
    threads.into_iter().for_each(thread::JoinHandle::join);
    thread::set_slice(0);
    let turns: Vec<_> = (0..3).flat_map(|turn| (0..3).map(move |name| (turn, name))).collect();
    check!(*log.lock() == turns);
    Ok(())
}

/// Threads that never give way run side by side.
fn preemption(_: &Machine) -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    let mut threads = Vec::new();
    for count in &COUNTS {
        threads.push(good!(thread::spawn(move || {
            while !STOP.load(Relaxed) {
                count.fetch_add(1, Relaxed);
            }
        })));
    }
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(10));
    }
    let counts = COUNTS.each_ref().map(|count| count.load(Relaxed));
    STOP.store(true, Relaxed);
    threads.into_iter().for_each(thread::JoinHandle::join);
    check!(counts.iter().all(|&count| count > 1000));
    Ok(())
}

/// All registers are what they were after an interruption at any instruction.
fn registers(machine: &Machine) -> Outcome {
    thread::set_slice(1);
    let seed = machine.boot.seed();
    let mut threads = Vec::new();
    for number in 1..5u64 {
        threads.push(good!(thread::spawn(move || (0..60).all(|round| {
            let base = seed.wrapping_mul(number).wrapping_add(round);
            let sum = spin_with_registers(base);
            sum == expected(base)
        }))));
    }
    for thread in threads {
        check!(thread.join());
    }
    thread::set_slice(0);
    Ok(())
}

const SPINS: u64 = 100_000;

/// Fills registers with functions of `base`, counts down, and adds them up.
fn spin_with_registers(base: u64) -> u64 {
    let sum;
    // SAFETY: changes the registers that it names, and the flags.
    unsafe {
        asm!(
            "lea rdx, [rax + 1]", "lea rsi, [rax + 2]", "lea rdi, [rax + 3]", "lea r8, [rax + 4]",
            "lea r9, [rax + 5]", "lea r10, [rax + 6]", "lea r11, [rax + 7]", "lea r12, [rax + 8]",
            "lea r13, [rax + 9]", "lea r14, [rax + 10]", "lea r15, [rax + 11]",
            "stc",
            // `dec` keeps the carry flag, which an interruption must keep, too.
            "2:", "dec rcx", "jnz 2b",
            "adc rax, rdx", "add rax, rsi", "add rax, rdi", "add rax, r8", "add rax, r9",
            "add rax, r10", "add rax, r11", "add rax, r12", "add rax, r13", "add rax, r14",
            "add rax, r15",
            inout("rax") base => sum, inout("rcx") SPINS => _,
            out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _,
            out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            options(nostack, nomem)
        );
    }
    sum
}

fn expected(base: u64) -> u64 {
    const CARRY: u64 = 1;
    base.wrapping_mul(12).wrapping_add((1..=11).sum::<u64>()).wrapping_add(CARRY)
}

/// Vector registers belong to the thread.
fn vectors(_: &Machine) -> Outcome {
    thread::set_slice(1);
    let mut threads = Vec::new();
    for number in 1..5u64 {
        let number = number.wrapping_mul(0x0101_0101_0101_0101);
        threads.push(good!(thread::spawn(move || {
            (0..60).all(|_| spin_with_vectors(number) == [number, !number])
        })));
    }
    for thread in threads {
        check!(thread.join());
    }
    thread::set_slice(0);
    // SAFETY: mapped in every domain.
    check!(unsafe { (*upcall::frame()).vectors.load(Relaxed) } == 1);
    Ok(())
}

/// What is left in two vector registers after a while.
fn spin_with_vectors(number: u64) -> [u64; 2] {
    let (low, high);
    // SAFETY: every 64-bit processor has these registers, and the compiler uses none of them here.
    unsafe {
        asm!(
            "movq xmm0, {0}", "movq xmm15, {1}",
            "2:", "dec rcx", "jnz 2b",
            "movq {0}, xmm0", "movq {1}, xmm15",
            inout(reg) number => low, inout(reg) !number => high, inout("rcx") SPINS => _,
            options(nostack, nomem)
        );
    }
    [low, high]
}

/// A permit is kept, one of them, and waited for.
fn park(_: &Machine) -> Outcome {
    let me = thread::current();
    me.unpark();
    me.unpark();
    thread::park();
    let other = good!(thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        me.unpark();
        3
    }));
    thread::park();
    check!(other.join() == 3);
    Ok(())
}

/// Sleepers wake in the order of their deadlines, and not before.
fn sleep(_: &Machine) -> Outcome {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for millis in [30u64, 10, 20] {
        let order = order.clone();
        threads.push(good!(thread::spawn(move || {
            let before = thread::now_ns();
            thread::sleep(Duration::from_millis(millis));
            order.lock().push(millis);
            thread::now_ns() - before >= millis * 1_000_000
        })));
    }
    for thread in threads {
        check!(thread.join());
    }
    check!(*order.lock() == [10, 20, 30]);
    Ok(())
}

/// A thread that waits for a notification keeps nobody from running, and gets its own bits.
fn notifications(_: &Machine) -> Outcome {
    let (a, b) = (good!(thread::new_bit()), good!(thread::new_bit()));
    check!(a != b && a & b == 0 && a.count_ones() == 1);
    let first = good!(thread::spawn(move || thread::wait_for(a)));
    let second = good!(thread::spawn(move || thread::wait_for(b)));
    thread::yield_now();
    good!(DISPATCHER.notify(b));
    check!(second.join() == b);
    check!(!first.is_finished());
    good!(DISPATCHER.notify(a));
    check!(first.join() == a);
    // Bits that come before somebody waits are kept.
    good!(DISPATCHER.notify(a | b));
    check!(thread::wait_for(a) == a);
    check!(thread::wait_for(a | b) == b);
    Ok(())
}

const FAULT_VA: u64 = 0x1c0_0000_0000;
static FAULTS: Mutex<Vec<Fault>> = Mutex::new(Vec::new());

/// A thread pages itself: the handler maps what is touched, as a part of the thread.
fn faults(_: &Machine) -> Outcome {
    fn handler(fault: &Fault) -> bool {
        // Others may run in the middle of it.
        thread::yield_now();
        let page = fault.address & !0xfff;
        let mapped = domain::with(|domain| {
            let frame = domain.make(CapType::Frame, PAGE)?;
            domain.map_at(page, PAGE, frame.into(), 0, RW)
        });
        FAULTS.lock().push(*fault);
        mapped == Ok(())
    }
    let old = upcall::set_fault_handler(handler);
    check!(old.is_none());
    let mut threads = Vec::new();
    for number in 0..4u64 {
        threads.push(good!(thread::spawn(move || {
            let cell = (FAULT_VA + number * 0x20_0000 + 8) as *mut u64;
            // SAFETY: the handler maps a page of zeros there before the instruction is over.
            unsafe {
                let before = cell.read_volatile();
                cell.write_volatile(number + before);
                cell.read_volatile()
            }
        })));
    }
    for (number, thread) in threads.into_iter().enumerate() {
        check!(thread.join() == number as u64);
    }
    let mut seen = core::mem::take(&mut *FAULTS.lock());
    seen.sort_by_key(|fault| fault.address);
    let addresses: Vec<u64> = seen.iter().map(|fault| fault.address).collect();
    check!(addresses == (0..4).map(|n| FAULT_VA + n * 0x20_0000 + 8).collect::<Vec<_>>());
    check!(seen.iter().all(|f| f.vector == 14 && f.error == 4 && !f.is_write()));
    check!(seen.iter().all(|f| (0x20_0000..0x100_0000).contains(&f.rip)));
    Ok(())
}

/// Threads that have ended leave nothing behind.
fn stacks(_: &Machine) -> Outcome {
    let round = || -> Result<(), Status> {
        let threads: Result<Vec<_>, _> = (0..8).map(|n| thread::spawn(move || n)).collect();
        let sum: u64 = threads?.into_iter().map(thread::JoinHandle::join).sum();
        (sum == 28).then_some(()).ok_or(Status::Invalid)
    };
    for _ in 0..50 {
        good!(round());
    }
    let left = good!(domain::with(|domain| Ok(domain.arena.left())));
    for _ in 0..100 {
        good!(round());
    }
    check!(domain::with(|domain| Ok(domain.arena.left())) == Ok(left));
    Ok(())
}
