//! Time: dispatchers that never give the processor away, timers, suspension.

use crate::setup::Lab;
use crate::threads::{self, dispatcher};
use crate::Test;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots::DISPATCHER;
use libos::abi::DispatcherFrame;
use libos::captypes::invocations::NOTIFY_TIMER;
use libos::{invoke, op};
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[
    ("timer", timer),
    ("timer_disarmed", timer_disarmed),
    ("preemption", preemption),
    ("preemption_keeps_registers", keeps_registers),
    ("suspend", suspend),
    ("usage", usage),
];

static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

pub fn now() -> u64 {
    // SAFETY: reads the time-stamp counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks of a millisecond.
pub fn ms() -> u64 {
    // SAFETY: every program's frame is mapped there, for good.
    let frame = unsafe { &*(NATIVE_FRAME as *const DispatcherFrame) };
    frame.tsc_hz / 1000
}

pub fn sleep(ticks: u64) -> Result<u64, libos::Status> {
    invoke(DISPATCHER, op::SetTimer { deadline: now() + ticks })?;
    Ok(invoke(DISPATCHER, op::Wait {})?.value)
}

fn timer(_: &mut Lab) -> Outcome {
    check!(ms() > 1000);
    for length in [1, 5, 20] {
        let start = now();
        check!(good!(sleep(length * ms())) == NOTIFY_TIMER);
        check!(now() - start >= length * ms());
    }
    // A moment that has passed.
    good!(invoke(DISPATCHER, op::SetTimer { deadline: 1 }));
    check!(good!(invoke(DISPATCHER, op::Wait {})).value == NOTIFY_TIMER);
    Ok(())
}

fn timer_disarmed(_: &mut Lab) -> Outcome {
    good!(invoke(DISPATCHER, op::SetTimer { deadline: now() + 5 * ms() }));
    good!(invoke(DISPATCHER, op::SetTimer { deadline: 0 }));
    let start = now();
    while now() - start < 10 * ms() {}
    good!(libos::Cap::notify(DISPATCHER, 1));
    check!(good!(invoke(DISPATCHER, op::Wait {})).value == 1);
    Ok(())
}

extern "C" fn count(which: u64, _: u64, _: u64) -> ! {
    loop {
        COUNTS[which as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn counts() -> [u64; 3] {
    [0, 1, 2].map(|n: usize| COUNTS[n].load(Ordering::Relaxed))
}

fn preemption(lab: &mut Lab) -> Outcome {
    let before = counts();
    for n in 0..3 {
        good!(threads::start(lab, n, count, [n as u64, 0, 0]));
    }
    let is_fair = |progress: [u64; 3]| {
        let (least, most) = (progress.iter().min(), progress.iter().max());
        least.is_some_and(|&least| least > 0 && most.is_some_and(|&most| most < 4 * least))
    };
    // A busy host gives the machine its time in pieces. In the long run they are equal.
    let mut fair = false;
    for _ in 0..20 {
        check!(good!(sleep(200 * ms())) == NOTIFY_TIMER);
        let after = counts();
        fair = is_fair([0, 1, 2].map(|n| after[n] - before[n]));
        if fair {
            break;
        }
    }
    check!(fair);
    for n in 0..3 {
        good!(threads::kill(n));
    }
    let end = counts();
    check!(good!(sleep(5 * ms())) == NOTIFY_TIMER);
    check!(counts() == end);
    Ok(())
}

/// Counts in every register that a compiler would use, and checks them all the time.
extern "C" fn spin(seed: u64, which: u64, _: u64) -> ! {
    loop {
        let wrong: u64;
        // SAFETY: touches registers only.
        unsafe {
            core::arch::asm!(
                "mov {a}, {s}", "mov {b}, {s}", "mov {c}, {s}", "mov {d}, {s}",
                "not {b}", "rol {c}, 13", "neg {d}",
                "mov ecx, 20000",
                "2:",
                "add {a}, 1", "sub {b}, 1",
                "dec ecx", "jnz 2b",
                "sub {a}, 20000", "add {b}, 20000",
                "not {b}", "ror {c}, 13", "neg {d}",
                "xor {b}, {a}", "xor {c}, {a}", "xor {d}, {a}", "xor {a}, {s}",
                "or {a}, {b}", "or {a}, {c}", "or {a}, {d}",
                s = in(reg) seed, a = out(reg) wrong, b = out(reg) _, c = out(reg) _,
                d = out(reg) _, out("ecx") _,
            );
        }
        if wrong != 0 {
            COUNTS[which as usize].store(u64::MAX / 2, Ordering::Relaxed);
            threads::idle()
        }
        COUNTS[which as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn keeps_registers(lab: &mut Lab) -> Outcome {
    for n in 0..3 {
        COUNTS[n as usize].store(0, Ordering::Relaxed);
        good!(threads::start(lab, n, spin, [0x1234_5678_9abc_def0 * (n as u64 + 1), n as u64, 0]));
    }
    check!(good!(sleep(300 * ms())) == NOTIFY_TIMER);
    check!(counts().iter().all(|&count| count > 0 && count < u64::MAX / 4));
    for n in 0..3 {
        good!(threads::kill(n));
    }
    Ok(())
}

fn suspend(lab: &mut Lab) -> Outcome {
    good!(threads::start(lab, 0, count, [0, 0, 0]));
    good!(sleep(30 * ms()));
    good!(invoke(dispatcher(0), op::Suspend {}));
    let stopped = counts()[0];
    good!(sleep(30 * ms()));
    check!(counts()[0] == stopped);
    good!(invoke(dispatcher(0), op::Continue {}));
    good!(sleep(60 * ms()));
    check!(counts()[0] > stopped);
    good!(threads::kill(0));
    Ok(())
}

fn usage(lab: &mut Lab) -> Outcome {
    good!(threads::start(lab, 0, count, [0, 0, 0]));
    let used = || invoke(dispatcher(0), op::Usage {}).map(|reply| reply.ticks);
    good!(sleep(50 * ms()));
    let first = good!(used());
    check!(first > 10 * ms());
    good!(sleep(50 * ms()));
    let second = good!(used());
    check!(second > first + 10 * ms() && second < 1000 * ms());
    good!(threads::kill(0));
    Ok(())
}
