//! Interval timers, `alarm`, and timers that a program makes.

use super::time;
use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::server::{self, op};
use linuxabi::time::{from_timespec, from_timeval, to_timespec, to_timeval, SECOND, TIME_BYTES};
use unixproto::clocks::OWN_VALUE;

const REAL: u32 = 0;
const WHICH_END: u32 = 3;

pub fn alarm(_: (), seconds: u32) -> Result<u64> {
    let value = seconds as u64 * SECOND;
    let before = server::call(op::SetTimer { which: REAL, value, interval: 0 })?.value;
    // Half seconds count as one, but an alarm that is set is never told as none.
    Ok(match before {
        0 => 0,
        ns => ((ns + SECOND / 2) / SECOND).max(1),
    })
}

fn itimerval(timer: unixproto::ops::Timer) -> [[u8; TIME_BYTES]; 2] {
    [to_timeval(timer.interval), to_timeval(timer.value)]
}

pub fn setitimer(mm: &mut Mm, which: u32, new: u64, old: u64) -> Result<u64> {
    let mut set = [[0; TIME_BYTES]; 2];
    if new != 0 {
        set = user::copy_in(mm, new)?;
    }
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = (from_timeval(&set[0])?, from_timeval(&set[1])?);
    let before = server::call(op::SetTimer { which, value, interval })?;
    if old != 0 {
        user::copy_out(mm, old, &itimerval(before))?;
    }
    Ok(0)
}

pub fn getitimer(mm: &mut Mm, which: u32, out: u64) -> Result<u64> {
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    let timer = server::call(op::GetTimer { which })?;
    user::copy_out(mm, out, &itimerval(timer))?;
    Ok(0)
}

/// Of `struct sigevent`: value, signal, how, thread.
const EVENT_BYTES: usize = 24;
/// Who is told, of `struct sigevent`.
const SIGEV_SIGNAL: u32 = 0;
const SIGEV_NONE: u32 = 1;
const SIGEV_THREAD: u32 = 2;
const SIGEV_THREAD_ID: u32 = 4;
const SIGALRM: u32 = 14;

pub fn timer_create(mm: &mut Mm, clock: u32, event: u64, id: u64) -> Result<u64> {
    /// Of a device's descriptor: it has no timers.
    const OF_DEVICE: i32 = 3;
    if (clock as i32) < 0 && clock as i32 & 7 == OF_DEVICE {
        return Err(Errno::EOPNOTSUPP);
    }
    let (clock, of) = match time::cpu_clock(clock)? {
        Some(named) => named,
        None if matches!(clock, 0 | 1 | 7 | 8 | 9 | 11) => (clock, 0),
        None => return Err(Errno::EINVAL),
    };
    let mut request = op::MakeTimer { signal: SIGALRM | OWN_VALUE, thread: 0, value: 0, clock, of };
    if event != 0 {
        let bytes: [u8; EVENT_BYTES] = user::copy_in(mm, event)?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (signal, how) = (word(8), word(12));
        if how != SIGEV_NONE && !(1..=64).contains(&signal) {
            return Err(Errno::EINVAL);
        }
        request.value = u64::from(word(0)) | u64::from(word(4)) << 32;
        (request.signal, request.thread) = match how {
            SIGEV_SIGNAL | SIGEV_THREAD => (signal, 0),
            SIGEV_THREAD_ID => (signal, word(16)),
            SIGEV_NONE => (0, 0),
            _ => return Err(Errno::EINVAL),
        };
    }
    user::check_writable(mm, id, 4)?;
    let made = server::call(request)?.count as u32;
    user::copy_out(mm, id, &made)?;
    Ok(0)
}

fn itimerspec(timer: unixproto::ops::Timer) -> [[u8; TIME_BYTES]; 2] {
    [to_timespec(timer.interval), to_timespec(timer.value)]
}

pub fn timer_settime(mm: &mut Mm, id: u32, flags: u32, new: u64, old: u64) -> Result<u64> {
    const ABSOLUTE: u32 = 1;
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let set: [[u8; TIME_BYTES]; 2] = user::copy_in(mm, new)?;
    let (interval, value) = (from_timespec(&set[0])?, from_timespec(&set[1])?);
    let absolute = flags & ABSOLUTE != 0;
    let before = server::call(op::SetPosixTimer { id, value, interval, absolute })?;
    if old != 0 {
        user::copy_out(mm, old, &itimerspec(before))?;
    }
    Ok(0)
}

pub fn timer_gettime(mm: &mut Mm, id: u32, out: u64) -> Result<u64> {
    let timer = server::call(op::GetPosixTimer { id })?;
    user::copy_out(mm, out, &itimerspec(timer))?;
    Ok(0)
}

pub fn timer_getoverrun(_: (), id: u32) -> Result<u64> {
    Ok(server::call(op::TimerOverrun { id })?.count)
}

pub fn timer_delete(_: (), id: u32) -> Result<u64> {
    server::call(op::DeleteTimer { id })?;
    Ok(0)
}
