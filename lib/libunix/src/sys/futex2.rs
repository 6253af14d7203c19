//! Futexes by calls of their own: `futex_wait` and its relatives, and `futex_waitv`, which waits for any of several.

use super::futex::{self, Place};
use super::time::{monotonic, realtime, without_space, MONOTONIC};
use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::restart;
use crate::thread::park;
use alloc::vec::Vec;
use linuxabi::time::{from_timespec, TIME_BYTES};

/// The only size of a futex that there is: 32 bits.
const SIZE_32: u32 = 2;
const PRIVATE: u32 = 128;
/// Futexes that `futex_waitv` waits for.
const WAITERS_MOST: u32 = 128;
/// Bytes of `struct futex_waitv`.
const WAITER_BYTES: u64 = 24;
const REALTIME: u32 = 0;

/// Answers whether the futex is private.
fn flags_of(flags: u32) -> Result<bool> {
    match flags & !PRIVATE {
        SIZE_32 => Ok(flags & PRIVATE != 0),
        _ => Err(Errno::EINVAL),
    }
}

/// Until when, on the monotonic clock.
fn deadline(mm: &mut Mm, timeout: u64, clock: u32) -> Result<Option<u64>> {
    if timeout == 0 {
        return Ok(None);
    }
    if clock != REALTIME && clock != MONOTONIC {
        return Err(Errno::EINVAL);
    }
    let time = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(mm, timeout)?)?;
    Ok(Some(match clock {
        REALTIME => monotonic().saturating_add(time.saturating_sub(realtime())),
        _ => without_space(MONOTONIC, time),
    }))
}

/// A futex to wait for, of `struct futex_waitv`.
#[derive(Clone, Copy)]
struct Wanted {
    value: u32,
    address: u64,
    private: bool,
}

fn wanted(mm: &mut Mm, at: u64, count: u32) -> Result<Vec<Wanted>> {
    let mut all = Vec::new();
    for n in 0..u64::from(count) {
        let words: [u64; 3] = user::copy_in(mm, at.wrapping_add(WAITER_BYTES * n))?;
        let [value, address, last] = words;
        let (flags, reserved) = (last as u32, last >> 32);
        if reserved != 0 {
            return Err(Errno::EINVAL);
        }
        let private = flags_of(flags)?;
        let value = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
        all.push(Wanted { value, address, private });
    }
    Ok(all)
}

pub fn futex_waitv(
    task: &mut Task,
    waiters: u64,
    count: u32,
    flags: u32,
    timeout: u64,
    clock: u32,
) -> Result<u64> {
    if flags != 0 || count == 0 || count > WAITERS_MOST || waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = deadline(&mut task.mm, timeout, clock)?;
    let all = wanted(&mut task.mm, waiters, count)?;
    all.iter().try_for_each(|one| futex::check(one.address))?;
    if let [Wanted { value, address, private }] = all[..] {
        return futex::wait(task, (address, private), value, futex::ALL_BITS, deadline);
    }
    let is_shared = |one: &Wanted| {
        matches!(futex::place(&task.mm, one.address, one.private), Place::Shared { .. })
    };
    if all.iter().any(is_shared) {
        // Who wakes them does not know of those that wait here.
        return Err(Errno::ENOSYS);
    }
    let addresses: Vec<u64> = all.iter().map(|one| one.address).collect();
    let _arrivals: Vec<_> = addresses.iter().map(|at| park::Arrival::at(*at)).collect();
    for one in &all {
        if user::copy_in::<u32>(&mut task.mm, one.address)? != one.value {
            return Err(Errno::EAGAIN);
        }
    }
    park::wait_any(task, &addresses, deadline).map(|at| at as u64).map_err(restart)
}

pub fn futex_wake(task: &mut Task, address: u64, mask: u64, count: i32, flags: u32) -> Result<u64> {
    let private = flags_of(flags)?;
    let bits = u32::try_from(mask).map_err(|_| Errno::EINVAL)?;
    futex::check(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let place = futex::place(&task.mm, address, private);
    match count {
        ..=0 => Ok(0),
        _ => Ok(futex::wake(task, place, count as u32, bits)),
    }
}

pub fn futex_wait(
    task: &mut Task,
    address: u64,
    value: u64,
    mask: u64,
    flags: u32,
    timeout: u64,
    clock: u32,
) -> Result<u64> {
    let private = flags_of(flags)?;
    let bits = u32::try_from(mask).map_err(|_| Errno::EINVAL)?;
    let value = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
    let deadline = deadline(&mut task.mm, timeout, clock)?;
    futex::check(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    futex::wait(task, (address, private), value, bits, deadline)
}

pub fn futex_requeue(
    task: &mut Task,
    waiters: u64,
    flags: u32,
    wakes: i32,
    moves: i32,
) -> Result<u64> {
    if flags != 0 || waiters == 0 {
        return Err(Errno::EINVAL);
    }
    let both = wanted(&mut task.mm, waiters, 2)?;
    if wakes < 0 || moves < 0 {
        return Err(Errno::EINVAL);
    }
    let addresses = [both[0].address, both[1].address];
    addresses.into_iter().try_for_each(futex::check)?;
    let private = both[0].private && both[1].private;
    futex::requeue(task, addresses, private, [wakes as u32, moves as u32], Some(both[0].value))
}
