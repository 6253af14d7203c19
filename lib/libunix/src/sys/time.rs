//! Clocks, read from the time-stamp counter, and sleeping.

use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::mm::{user, Mm};
use crate::process::{frame, Task};
use crate::server::{self, op};
use crate::thread::area;
use crate::vdso::CLOCK;
use linuxabi::time::{from_timespec, scale, ticks_to_ns, to_timespec, TIME_BYTES};

const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
const PROCESS_CPU: u32 = 2;
const THREAD_CPU: u32 = 3;
const BOOTTIME: u32 = 7;
const TAI: u32 = 11;

/// Frequency of the counter, and nanoseconds since 1970 at its zero.
fn facts() -> (u64, u64) {
    let frame = frame();
    // SAFETY: the frame is mapped as long as the library runs; the kernel wrote these fields
    // before the dispatcher was started and does not change them.
    unsafe { ((*frame).tsc_hz, (*frame).epoch_ns) }
}

fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The multiplier of the counter, and nanoseconds since 1970 at its zero.
#[inline]
fn clock() -> (u64, u64) {
    match CLOCK.get() {
        (0, _) => read_clock(),
        known => known,
    }
}

#[cold]
fn read_clock() -> (u64, u64) {
    let (hz, epoch) = facts();
    CLOCK.set(hz, epoch);
    CLOCK.get()
}

/// The program may read clocks by itself from now on.
pub fn prepare() {
    // Only so that it is ready.
    let _ = clock();
}

/// Nanoseconds since the counter was zero.
#[inline]
pub fn monotonic() -> u64 {
    scale(ticks(), clock().0)
}

/// The counter when the monotonic clock will show `ns`.
pub fn ticks_at(ns: u64) -> u64 {
    const SECOND: u128 = 1_000_000_000;
    let ticks = (ns as u128 * facts().0 as u128).div_ceil(SECOND);
    (ticks.min(u64::MAX as u128) as u64).max(1)
}

/// Nanoseconds since 1970.
pub fn realtime() -> u64 {
    clock().1.saturating_add(monotonic())
}

/// Processor time of this thread, in nanoseconds.
pub fn processor() -> u64 {
    of_thread()[0]
}

/// Processor time of this thread, and how much of that is the system's.
pub fn of_thread() -> [u64; 2] {
    let used = invoke(area::own_dispatcher(), captypes::op::Usage {});
    let ticks = used.map_or([0; 2], |used| [used.ticks, used.system]);
    ticks.map(|ticks| ticks_to_ns(ticks, facts().0))
}

/// The same of all threads of the process.
pub fn of_process() -> Result<[u64; 2]> {
    let usage = server::call(op::CpuUsage { who: 0 })?;
    Ok([usage.cpu_ns, usage.system_ns])
}

fn read(clock: u32) -> Result<u64> {
    match clock {
        REALTIME | 5 | 8 | TAI => Ok(realtime()),
        MONOTONIC | 4 | 6 | BOOTTIME | 9 => Ok(monotonic()),
        PROCESS_CPU | THREAD_CPU => Ok(processor()),
        // Clocks of processes: negative numbers, of which only the own one is known.
        own if own >= 0xffff_fff8 => Ok(processor()),
        _ => Err(Errno::EINVAL),
    }
}

pub fn clock_gettime(mm: &mut Mm, clock: u32, out: u64) -> Result<u64> {
    let now = read(clock)?;
    user::copy_out(mm, out, &to_timespec(now))?;
    Ok(0)
}

pub fn clock_getres(mm: &mut Mm, clock: u32, out: u64) -> Result<u64> {
    read(clock)?;
    if out != 0 {
        user::copy_out(mm, out, &to_timespec(1))?;
    }
    Ok(0)
}

pub fn gettimeofday(mm: &mut Mm, out: u64, zone: u64) -> Result<u64> {
    if out != 0 {
        user::copy_out(mm, out, &linuxabi::time::to_timeval(realtime()))?;
    }
    if zone != 0 {
        user::copy_out(mm, zone, &[0u32; 2])?;
    }
    Ok(0)
}

pub fn time(mm: &mut Mm, out: u64) -> Result<u64> {
    let now = realtime() / 1_000_000_000;
    if out != 0 {
        user::copy_out(mm, out, &now)?;
    }
    Ok(now)
}

/// Setting clocks: nobody may.
pub fn clock_settime(_: (), clock: u32) -> Result<u64> {
    read(clock)?;
    Err(Errno::EPERM)
}

pub fn clock_nanosleep(
    task: &mut Task,
    clock: u32,
    flags: u32,
    request: u64,
    left: u64,
) -> Result<u64> {
    const ABSOLUTE: u32 = 1;
    if clock == THREAD_CPU {
        return Err(Errno::EINVAL);
    }
    read(clock)?;
    let ns = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, request)?)?;
    if flags & ABSOLUTE == 0 {
        return sleep(task, ns, left);
    }
    // To the end whatever the reason of waking up early: the deadline is absolute.
    match ns.saturating_sub(read(clock)?) {
        0 => Ok(0),
        ns => server::wait(task, op::Sleep { ns }).map(|()| 0).map_err(server::restart_no_handler),
    }
}

pub fn nanosleep(task: &mut Task, request: u64, left: u64) -> Result<u64> {
    let ns = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, request)?)?;
    sleep(task, ns, left)
}

fn sleep(task: &mut Task, ns: u64, left: u64) -> Result<u64> {
    let end = monotonic().saturating_add(ns);
    match server::wait(task, op::Sleep { ns }) {
        Ok(()) => Ok(0),
        Err(error) => {
            if left != 0 {
                user::copy_out(&mut task.mm, left, &to_timespec(end.saturating_sub(monotonic())))?;
            }
            Err(server::restart_no_handler(error))
        }
    }
}

/// `times`: clock ticks of 10 ms.
pub fn times(mm: &mut Mm, out: u64) -> Result<u64> {
    const TICK: u64 = 10_000_000;
    if out != 0 {
        let children = server::call(op::CpuUsage { who: 1 })?;
        let parts = [of_process()?, [children.cpu_ns, children.system_ns]];
        let [own, children] =
            parts.map(|[all, system]| [(all.saturating_sub(system)) / TICK, system / TICK]);
        user::copy_out(mm, out, &[own, children])?;
    }
    Ok(monotonic() / TICK)
}

/// `adjtimex`: nobody adjusts the clock, and nobody is known to keep it right.
pub fn adjtimex(mm: &mut Mm, at: u64) -> Result<u64> {
    const BYTES: usize = 208;
    const UNSYNCHRONIZED: u32 = 64;
    const ERROR: u64 = 5;
    let mut timex: [u8; BYTES] = user::copy_in(mm, at)?;
    let modes = u32::from_le_bytes([timex[0], timex[1], timex[2], timex[3]]);
    // What only asks, of the old interface, too.
    if modes & 0x7fff != 0 && modes != 0xa001 {
        return Err(Errno::EPERM);
    }
    let now = realtime();
    let words: [(usize, u64); 9] = [
        (24, 16_000_000),
        (32, 16_000_000),
        (48, 2),
        (56, 1),
        (64, 32_768_000),
        (72, now / 1_000_000_000),
        (80, now % 1_000_000_000 / 1000),
        (88, 10_000),
        (40, UNSYNCHRONIZED.into()),
    ];
    timex[8..].fill(0);
    for (place, value) in words {
        timex[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    user::copy_out(mm, at, &timex)?;
    Ok(ERROR)
}

/// `clock_adjtime`.
pub fn clock_adjtime(mm: &mut Mm, clock: u32, at: u64) -> Result<u64> {
    match clock {
        REALTIME => adjtimex(mm, at),
        MONOTONIC | BOOTTIME | TAI | PROCESS_CPU | THREAD_CPU => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}
