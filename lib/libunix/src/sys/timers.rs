//! Interval timers, `alarm`, `timerfd`.

use super::time::{monotonic, realtime};
use crate::errno::{Errno, Result};
use crate::fd::event::Timer;
use crate::fd::{self, File, Object};
use crate::mm::user;
use crate::process::Process;
use crate::server::{self, op};
use crate::thread::park::tell_watchers;
use linuxabi::time::{from_timespec, from_timeval, to_timespec, to_timeval, SECOND, TIME_BYTES};
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, O_RDWR};

const REAL: u32 = 0;
const WHICH_END: u32 = 3;

pub fn alarm(_p: &mut Process, seconds: u32) -> Result<u64> {
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

pub fn setitimer(p: &mut Process, which: u32, new: u64, old: u64) -> Result<u64> {
    let mut set = [[0; TIME_BYTES]; 2];
    if new != 0 {
        set = user::copy_in(p, new)?;
    }
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = (from_timeval(&set[0])?, from_timeval(&set[1])?);
    let before = server::call(op::SetTimer { which, value, interval })?;
    if old != 0 {
        user::copy_out(p, old, &itimerval(before))?;
    }
    Ok(0)
}

pub fn getitimer(p: &mut Process, which: u32, out: u64) -> Result<u64> {
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    let timer = server::call(op::GetTimer { which })?;
    user::copy_out(p, out, &itimerval(timer))?;
    Ok(0)
}

pub fn timerfd_create(p: &mut Process, clock: u32, flags: u32) -> Result<u64> {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 || !matches!(clock, 0 | 1 | 7 | 8 | 9) {
        return Err(Errno::EINVAL);
    }
    let timer = Timer { clock, ..Timer::default() };
    let file = File::new(Object::Timer(timer), O_RDWR | flags & O_NONBLOCK);
    Ok(fd::install(p, file, flags & O_CLOEXEC != 0)? as u64)
}

fn timer(p: &mut Process, fd: i32) -> Result<&mut Timer> {
    match &mut p.fds.get_mut(fd)?.object {
        Object::Timer(timer) => Ok(timer),
        _ => Err(Errno::EINVAL),
    }
}

fn state(timer: &Timer) -> [[u8; TIME_BYTES]; 2] {
    let now = monotonic();
    let value = match timer.deadline {
        0 => 0,
        deadline if timer.interval > 0 && deadline <= now => {
            timer.interval - (now - deadline) % timer.interval
        }
        deadline => deadline.saturating_sub(now),
    };
    [to_timespec(timer.interval), to_timespec(value)]
}

pub fn timerfd_settime(p: &mut Process, fd: i32, flags: u32, new: u64, old: u64) -> Result<u64> {
    const ABSOLUTE: u32 = 1;
    const CANCEL_ON_SET: u32 = 2;
    let set: [[u8; TIME_BYTES]; 2] = user::copy_in(p, new)?;
    if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let (interval, value) = (from_timespec(&set[0])?, from_timespec(&set[1])?);
    let timer = timer(p, fd)?;
    let before = state(timer);
    let now = if matches!(timer.clock, 0 | 8) { realtime() } else { monotonic() };
    let from_now = if flags & ABSOLUTE != 0 { value.saturating_sub(now) } else { value };
    timer.interval = interval;
    timer.deadline = if value == 0 { 0 } else { monotonic().saturating_add(from_now).max(1) };
    let deadline = timer.deadline;
    let index = p.fds.index(fd)?;
    p.fds.timer_set(index, deadline);
    // Who waits for it does not know when it expires now.
    tell_watchers(p);
    if old != 0 {
        user::copy_out(p, old, &before)?;
    }
    Ok(0)
}

pub fn timerfd_gettime(p: &mut Process, fd: i32, out: u64) -> Result<u64> {
    let state = state(timer(p, fd)?);
    user::copy_out(p, out, &state)?;
    Ok(0)
}
