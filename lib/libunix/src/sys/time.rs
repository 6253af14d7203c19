//! Clocks, read from the time-stamp counter, and sleeping.

use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::mm::{user, Mm};
use crate::process::{frame, Task};
use crate::server::{self, op};
use crate::signal::Own;
use crate::sys::processes::{getpid, has};
use crate::sys::thread::gettid;
use crate::sys::unlocked;
use crate::thread::{area, Threads};
use crate::vdso::CLOCK;
use abi::Regs;
use captypes::CapAddr;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use linuxabi::time::{from_timespec, scale, ticks_to_ns, to_timespec, TIME_BYTES};
use unixproto::clocks;

const REALTIME: u32 = 0;
pub const MONOTONIC: u32 = 1;
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
    look();
    look_at_space();
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
    look();
    clock().1.saturating_add(monotonic())
}

/// Has the clock been set? What the program reads by itself follows.
#[inline]
pub fn look() {
    let epoch = server::header().epoch.load(Relaxed);
    if epoch != CLOCK.get().1 && epoch != 0 {
        CLOCK.set_epoch(epoch);
    }
}

/// The process may be in another name space of times.
pub fn look_at_space() {
    let is_plain = server::header().clocks.iter().all(|clock| clock.load(Relaxed) == 0);
    CLOCK.set_plain(is_plain);
}

/// What a clock says more in the process's name space of times than [`monotonic`], if it is one that counts from boot.
fn more(clock: u32) -> i64 {
    clocks::offset_of(clock).map_or(0, |index| server::header().clocks[index].load(Relaxed))
}

/// What [`monotonic`] says when a clock says `ns`, if it is one that counts from boot; of others it is left.
pub fn without_space(clock: u32, ns: u64) -> u64 {
    match more(clock) {
        0 => ns,
        // Before boot is over, and not for ever.
        more => ns.saturating_add_signed(more.saturating_neg()).max(1),
    }
}

/// Processor time of this thread, and how much of that is the system's.
pub fn of_thread() -> [u64; 2] {
    used_by(area::own_dispatcher())
}

/// The same of the thread that has a dispatcher.
fn used_by(dispatcher: CapAddr) -> [u64; 2] {
    let used = invoke(dispatcher, captypes::op::Usage {});
    let ticks = used.map_or([0; 2], |used| [used.ticks, used.system]);
    ticks.map(|ticks| ticks_to_ns(ticks, facts().0))
}

/// The same of all threads of the process.
pub fn of_process() -> Result<[u64; 2]> {
    let usage = server::call(op::CpuUsage { who: 0 })?;
    Ok([usage.cpu_ns, usage.system_ns])
}

fn read(threads: &mut Threads, clock: u32) -> Result<u64> {
    match read_own(clock) {
        Some(now) => Ok(now),
        None if clock == PROCESS_CPU => Ok(of_process()?[0]),
        None => CpuClock::decode(clock)?.read(threads),
    }
}

/// Of the clocks that are the same for all processes, and of this thread's own.
fn read_own(clock: u32) -> Option<u64> {
    match clock {
        REALTIME | 5 | 8 | TAI => Some(realtime()),
        MONOTONIC | 4 | 6 | BOOTTIME | 9 => Some(monotonic().saturating_add_signed(more(clock))),
        THREAD_CPU => Some(of_thread()[0]),
        _ => None,
    }
}

/// What `clock_getcpuclockid` and `pthread_getcpuclockid` make of an id.
struct CpuClock {
    /// Of a process or a thread; 0 is the caller's.
    id: u32,
    is_thread: bool,
    /// The system's share does not count.
    is_virtual: bool,
    /// Counts ticks of the scheduler, as for interval timers.
    is_coarse: bool,
}

impl CpuClock {
    /// The id inverted in the upper bits, then whether it is a thread's, and what is counted.
    fn decode(clock: u32) -> Result<CpuClock> {
        const VIRTUAL: u32 = 1;
        const SCHEDULED: u32 = 2;
        const THREAD: u32 = 4;
        // Others are those of devices' descriptors, which there are not.
        if clock as i32 >= 0 || clock & 3 > SCHEDULED {
            return Err(Errno::EINVAL);
        }
        Ok(CpuClock {
            id: !(clock as i32 >> 3) as u32,
            is_thread: clock & THREAD != 0,
            is_virtual: clock & 3 == VIRTUAL,
            is_coarse: clock & 3 != SCHEDULED,
        })
    }

    /// Its number for `unixd`, and whose it is.
    fn named(&self) -> (u32, u32) {
        let number = if self.is_thread { clocks::THREAD_CPU } else { clocks::PROCESS_CPU };
        (number | if self.is_virtual { clocks::USER_ONLY } else { 0 }, self.id)
    }

    /// `EINVAL`: there is no such process, or no such thread of this one.
    fn read(&self, threads: &mut Threads) -> Result<u64> {
        let [all, system] = match (self.is_thread, self.id) {
            (true, 0) => of_thread(),
            (true, id) if u64::from(id) == gettid(()) => of_thread(),
            (true, id) => {
                let thread = threads.by_tid(id).ok_or(Errno::EINVAL)?;
                used_by(area::dispatcher(thread.index))
            }
            (false, 0) => of_process()?,
            (false, id) if u64::from(id) == getpid(()) => of_process()?,
            (false, pid) => {
                let usage = server::call(op::ProcessorTime { pid }).map_err(|_| Errno::EINVAL)?;
                [usage.cpu_ns, usage.system_ns]
            }
        };
        Ok(if self.is_virtual { all.saturating_sub(system) } else { all })
    }
}

/// The number of a clock of processor time for `unixd`, and whose it is; `None`: it is another one. `EINVAL`: there is none.
pub fn cpu_clock(clock: u32) -> Result<Option<(u32, u32)>> {
    match clock {
        PROCESS_CPU => Ok(Some((clocks::PROCESS_CPU, 0))),
        THREAD_CPU => Ok(Some((clocks::THREAD_CPU, 0))),
        clock if clock as i32 >= 0 => Ok(None),
        clock => CpuClock::decode(clock).map(|clock| Some(clock.named())),
    }
}

pub fn clock_gettime(task: &mut Task, clock: u32, out: u64) -> Result<u64> {
    let now = read(&mut task.threads, clock)?;
    user::copy_out(&mut task.mm, out, &to_timespec(now))?;
    Ok(0)
}

/// The same without the lock, of clocks that need nothing of the process.
pub fn own_clock_gettime(_: &mut Own, regs: &Regs) -> Option<u64> {
    let now = read_own(regs.rdi as u32)?;
    user::store(regs.rsi, &to_timespec(now)).map(|()| 0)
}

/// `clock_getres` without the lock, of the same clocks.
pub fn own_clock_getres(_: &mut Own, regs: &Regs) -> Option<u64> {
    let clock = regs.rdi as u32;
    read_own(clock)?;
    unlocked::put(regs.rsi, || to_timespec(resolution(clock)))?;
    Some(0)
}

/// The time between two of a clock's, in ns.
fn resolution(clock: u32) -> u64 {
    /// 250 in a second.
    const TICK: u64 = 4_000_000;
    let is_coarse = CpuClock::decode(clock).is_ok_and(|clock| clock.is_coarse);
    if is_coarse {
        TICK
    } else {
        1
    }
}

pub fn clock_getres(task: &mut Task, clock: u32, out: u64) -> Result<u64> {
    read(&mut task.threads, clock)?;
    if out != 0 {
        user::copy_out(&mut task.mm, out, &to_timespec(resolution(clock)))?;
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

/// Only the clock that counts from 1970 can be set.
pub fn clock_settime(task: &mut Task, clock: u32, time: u64) -> Result<u64> {
    match clock {
        REALTIME => {}
        MONOTONIC..=TAI if clock != PROCESS_CPU && clock != THREAD_CPU => {
            return Err(Errno::EINVAL)
        }
        _ => read(&mut task.threads, clock).map(|_| ())?,
    }
    let ns = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, time)?)?;
    match clock {
        REALTIME => set(ns),
        // Nobody sets what was used.
        _ => Err(Errno::EPERM),
    }
}

fn set(ns: u64) -> Result<u64> {
    server::call(op::SetClock { ns })?;
    look();
    Ok(0)
}

/// `settimeofday`. What is said of the zone is checked, and no clock depends on it.
pub fn settimeofday(mm: &mut Mm, time: u64, zone: u64) -> Result<u64> {
    const SECOND: u64 = 1_000_000_000;
    const DAY_MINUTES: i32 = 15 * 60;
    let ns = match time {
        0 => None,
        time => {
            let [seconds, micros]: [i64; 2] =
                user::copy_in::<[u64; 2]>(mm, time)?.map(|word| word as i64);
            if !(0..1_000_000).contains(&micros) || seconds < 0 {
                return Err(Errno::EINVAL);
            }
            let ns = (seconds as u64).checked_mul(SECOND).ok_or(Errno::EINVAL)?;
            Some(ns.checked_add(micros as u64 * 1000).ok_or(Errno::EINVAL)?)
        }
    };
    if zone != 0 {
        let [west, _]: [u32; 2] = user::copy_in(mm, zone)?;
        if !is_permitted() {
            return Err(Errno::EPERM);
        }
        if !(-DAY_MINUTES..=DAY_MINUTES).contains(&(west as i32)) {
            return Err(Errno::EINVAL);
        }
    }
    match ns {
        Some(ns) => set(ns),
        None if is_permitted() => Ok(0),
        None => Err(Errno::EPERM),
    }
}

/// May the caller set the clock? `unixd` asks itself.
fn is_permitted() -> bool {
    has(Capability::SysTime)
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
        return Err(Errno::EOPNOTSUPP);
    }
    let now = read(&mut task.threads, clock)?;
    let ns = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, request)?)?;
    if let Some(named) = cpu_clock(clock)? {
        let is_own = named == (named.0, 0) || u64::from(named.1) == gettid(());
        if named.0 & !clocks::USER_ONLY == clocks::THREAD_CPU && is_own {
            return Err(Errno::EINVAL);
        }
        let until = if flags & ABSOLUTE == 0 { now.saturating_add(ns) } else { ns };
        let left = if flags & ABSOLUTE == 0 { left } else { 0 };
        return sleep_by(task, clock, named, until, left);
    }
    if flags & ABSOLUTE == 0 {
        return sleep(task, ns, left);
    }
    // To the end whatever the reason of waking up early: the deadline is absolute.
    match ns.saturating_sub(read(&mut task.threads, clock)?) {
        0 => Ok(0),
        ns => server::wait(task, op::Sleep { ns }).map(|()| 0).map_err(server::restart_no_handler),
    }
}

/// Until a clock of processor time says something.
fn sleep_by(
    task: &mut Task,
    clock: u32,
    (number, of): (u32, u32),
    until: u64,
    left: u64,
) -> Result<u64> {
    match server::wait(task, op::SleepBy { clock: number, of, until }) {
        Ok(()) => Ok(0),
        Err(error) => {
            if left != 0 {
                let rest = until.saturating_sub(read(&mut task.threads, clock)?);
                user::copy_out(&mut task.mm, left, &to_timespec(rest))?;
            }
            Err(server::restart_no_handler(error))
        }
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

/// `adjtimex`: the clock can be set by an offset; nobody has it run faster or slower, and nobody is known to keep it right.
pub fn adjtimex(mm: &mut Mm, at: u64) -> Result<u64> {
    const BYTES: usize = 208;
    const UNSYNCHRONIZED: u32 = 64;
    const ERROR: u64 = 5;
    let mut timex: [u8; BYTES] = user::copy_in(mm, at)?;
    let modes = u32::from_le_bytes([timex[0], timex[1], timex[2], timex[3]]);
    const SET_OFFSET: u32 = 0x100;
    const NANO: u32 = 0x2000;
    // What only asks, of the old interface, too.
    if modes & 0x7fff != 0 && modes != 0xa001 {
        if !is_permitted() || modes & !(SET_OFFSET | NANO) != 0 {
            return Err(Errno::EPERM);
        }
        let word = |at: usize| i64::from_le_bytes(core::array::from_fn(|n| timex[at + n]));
        let (seconds, rest) = (word(72), word(80));
        let unit = if modes & NANO != 0 { 1 } else { 1000 };
        if rest < 0 || rest * unit >= 1_000_000_000 {
            return Err(Errno::EINVAL);
        }
        let by = i128::from(seconds) * 1_000_000_000 + i128::from(rest * unit);
        let ns = u64::try_from(i128::from(realtime()) + by).map_err(|_| Errno::EINVAL)?;
        set(ns)?;
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
