//! Interval timers, `alarm`.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::server::{self, op};
use linuxabi::time::{from_timeval, to_timeval, SECOND, TIME_BYTES};

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
