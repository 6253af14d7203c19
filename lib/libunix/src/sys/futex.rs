//! Futexes.
//!
//! One that lies in private memory, or that the program says is private, is a matter of this
//! process: `thread::park`. One in shared memory is known by its file and its place there, and
//! those that wait for it wait with `unixd`, which counts the wakes: whoever is about to wait asks
//! for the count, then looks at the futex, then waits unless the count is another.
//!
//! Those that have an owner (`FUTEX_LOCK_PI` and relatives) are in [`pi`].

use super::pi;
use super::time::{monotonic, realtime, without_space, MONOTONIC};
use crate::errno::{to_rax, Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, op, restart, restart_no_handler};
use crate::signal::Own;
use crate::thread::park::{self, Arrival, Kind};
use abi::Regs;
use linuxabi::time::{from_timespec, TIME_BYTES};
use unixproto::files::FOREVER;
use uvm::{Flags, PAGE};

const PRIVATE: u32 = 128;
const REALTIME: u32 = 256;

const WAIT: u32 = 0;
const WAKE: u32 = 1;
const REQUEUE: u32 = 3;
const CMP_REQUEUE: u32 = 4;
const WAKE_OP: u32 = 5;
const LOCK_PI: u32 = 6;
const UNLOCK_PI: u32 = 7;
const TRYLOCK_PI: u32 = 8;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;
const WAIT_REQUEUE_PI: u32 = 11;
const CMP_REQUEUE_PI: u32 = 12;
const LOCK_PI2: u32 = 13;
/// Whoever waits is woken by any wake.
pub const ALL_BITS: u32 = u32::MAX;

/// Where a futex is.
#[derive(Clone, Copy)]
pub enum Place {
    /// In memory of this process.
    Private(u64),
    /// In a file.
    Shared { inode: u64, offset: u64 },
}

/// Where the futex at `addr` is, of which the program may have said that it is private.
pub fn place(mm: &Mm, addr: u64, private: bool) -> Place {
    let entry = if private { None } else { mm.space.map().at(addr / PAGE) };
    let entry = entry.filter(|entry| entry.flags.has(Flags::SHARED));
    let object = entry.and_then(|entry| Some((entry, mm.caps.objects.get(entry.object?)?)));
    match object {
        Some((entry, object)) => {
            let offset = entry.object_page(addr / PAGE) * PAGE + addr % PAGE;
            Place::Shared { inode: object.inode, offset }
        }
        None => Place::Private(addr),
    }
}

pub fn futex(
    task: &mut Task,
    addr: u64,
    operation: u32,
    value: u32,
    fourth: u64,
    second: u64,
    third: u32,
) -> Result<u64> {
    let command = operation & !(PRIVATE | REALTIME);
    let real = operation & REALTIME != 0;
    let has_clock = matches!(command, WAIT | WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI2);
    if !matches!(command, WAIT | WAKE | REQUEUE..=LOCK_PI2) || real && !has_clock {
        return Err(Errno::ENOSYS);
    }
    let mut deadline = None;
    if (has_clock || command == LOCK_PI) && fourth != 0 {
        deadline = Some(deadline_of(&mut task.mm, command, real || command == LOCK_PI, fourth)?);
    }
    check(addr)?;
    let private = operation & PRIVATE != 0;
    let bits = if matches!(command, WAIT_BITSET | WAKE_BITSET) { third } else { ALL_BITS };
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        WAIT | WAIT_BITSET => wait(task, (addr, private), value, bits, deadline),
        WAKE | WAKE_BITSET => {
            let place = place(&task.mm, addr, private);
            if matches!(place, Place::Private(_))
                && park::has_others(&task.futexes, addr, Kind::Plain)
            {
                return Err(Errno::EINVAL);
            }
            Ok(wake(task, place, at_least_one(value), bits))
        }
        LOCK_PI | LOCK_PI2 => pi::lock(task, addr, private, deadline, false),
        TRYLOCK_PI => pi::lock(task, addr, private, None, true),
        UNLOCK_PI => pi::unlock(task, addr, private),
        WAKE_OP => {
            check(second)?;
            wake_op(task, [addr, second], private, [value, fourth as u32], third)
        }
        WAIT_REQUEUE_PI => {
            check(second)?;
            pi::wait_requeue(task, [addr, second], private, value, deadline)
        }
        CMP_REQUEUE_PI => {
            check(second)?;
            pi::requeue(task, [addr, second], private, [value, fourth as u32], third)
        }
        _ => {
            check(second)?;
            let compared = (command == CMP_REQUEUE).then_some(third);
            requeue(task, [addr, second], private, [value, fourth as u32], compared)
        }
    }
}

/// What needs no lock: to wake where nobody waits, and to find that there is nothing to wait for.
pub fn own_futex(_: &mut Own, regs: &Regs) -> Option<u64> {
    let (addr, operation, fourth) = (regs.rdi, regs.rsi as u32, regs.r10);
    if operation & PRIVATE == 0 || check(addr).is_err() {
        return None;
    }
    match operation & !PRIVATE {
        WAKE if park::is_deserted(addr) => Some(0),
        WAIT | WAIT_BITSET if fourth != 0 => {
            // An error in it comes first.
            from_timespec(&user::load::<[u8; TIME_BYTES]>(fourth)?).ok()?;
            is_changed(addr, regs)
        }
        WAIT | WAIT_BITSET => is_changed(addr, regs),
        _ => None,
    }
}

fn is_changed(addr: u64, regs: &Regs) -> Option<u64> {
    let has_bits = regs.rsi as u32 & !PRIVATE == WAIT || regs.r9 as u32 != 0;
    let changed = has_bits && user::load::<u32>(addr)? != regs.rdx as u32;
    changed.then_some(to_rax(Err(Errno::EAGAIN)))
}

pub fn check(addr: u64) -> Result<()> {
    match addr {
        _ if addr & 3 != 0 => Err(Errno::EINVAL),
        _ if addr >= abi::layout::USER_END => Err(Errno::EFAULT),
        _ => Ok(()),
    }
}

/// Linux wakes one before it looks at the number.
fn at_least_one(count: u32) -> u32 {
    if count as i32 <= 0 {
        1
    } else {
        count
    }
}

fn deadline_of(mm: &mut Mm, command: u32, real: bool, addr: u64) -> Result<u64> {
    let time = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(mm, addr)?)?;
    Ok(match (command, real) {
        (WAIT, _) => monotonic().saturating_add(time),
        (_, false) => without_space(MONOTONIC, time),
        (_, true) => monotonic().saturating_add(time.saturating_sub(realtime())),
    })
}

pub fn wait(
    task: &mut Task,
    (addr, private): (u64, bool),
    value: u32,
    bits: u32,
    deadline: Option<u64>,
) -> Result<u64> {
    // Who changes the futex from now on finds somebody there.
    let _arrival = Arrival::at(addr);
    let place = place(&task.mm, addr, private);
    let waited = loop {
        let seen = count(place)?;
        if user::copy_in::<u32>(&mut task.mm, addr)? != value {
            return Err(Errno::EAGAIN);
        }
        let waited = match place {
            Place::Private(addr) => park::wait(task, addr, bits, deadline),
            Place::Shared { inode, offset } => {
                wait_shared(task, (inode, offset), seen, bits, deadline)
            }
        };
        if !matches!((waited, place), (Err(Errno::EAGAIN), Place::Shared { .. })) {
            break waited;
        }
    };
    match (waited, deadline) {
        (Ok(()), _) => Ok(0),
        (Err(error), None) => Err(restart(error)),
        (Err(error), Some(_)) => Err(restart_no_handler(error)),
    }
}

/// Wakes so far, by which a wait in shared memory knows what it has missed.
pub fn count(place: Place) -> Result<u64> {
    match place {
        Place::Private(_) => Ok(0),
        Place::Shared { .. } => Ok(server::call(op::FutexCount {})?.count),
    }
}

/// Waits in shared memory. `EAGAIN`: there was a wake since `seen`.
pub fn wait_shared(
    task: &mut Task,
    (inode, offset): (u64, u64),
    seen: u64,
    bits: u32,
    deadline: Option<u64>,
) -> Result<()> {
    let ns = deadline.map_or(FOREVER, |end| end.saturating_sub(monotonic()));
    server::wait(task, op::FutexWait { inode, offset, seen, ns, bits })
}

/// Wakes up to `count` of those that wait there. Answers how many.
pub fn wake(task: &mut Task, place: Place, count: u32, bits: u32) -> u64 {
    match place {
        Place::Private(addr) => park::wake(task, addr, count, bits) as u64,
        Place::Shared { inode, offset } => {
            let woken = server::call(op::FutexWake { inode, offset, count, bits });
            woken.map_or(0, |woken| woken.count)
        }
    }
}

/// Wakes those that wait for a futex, whichever way.
pub fn wake_at(task: &mut Task, addr: u64, count: u32) {
    let place = place(&task.mm, addr, false);
    wake(task, place, count, ALL_BITS);
    if let Place::Shared { .. } = place {
        park::wake(task, addr, count, ALL_BITS);
    }
}

pub fn requeue(
    task: &mut Task,
    addrs: [u64; 2],
    private: bool,
    [wakes, moves]: [u32; 2],
    compared: Option<u32>,
) -> Result<u64> {
    if (wakes as i32) < 0 || (moves as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    // Who wakes at the second one from now on finds those that are moved there.
    let _arrival = Arrival::at(addrs[1]);
    if let Some(value) = compared {
        if user::copy_in::<u32>(&mut task.mm, addrs[0])? != value {
            return Err(Errno::EAGAIN);
        }
    }
    match addrs.map(|addr| place(&task.mm, addr, private)) {
        [Place::Private(from), Place::Private(_)]
            if park::has_others(&task.futexes, from, Kind::Plain) =>
        {
            Err(Errno::EINVAL)
        }
        [Place::Private(from), Place::Private(to)] => {
            let woken = park::wake(task, from, wakes, ALL_BITS);
            Ok((woken + park::requeue(&mut task.futexes, from, to, moves)) as u64)
        }
        // Those that would be moved wake up: they must be ready for that at any time.
        [from, _] => Ok(wake(task, from, wakes.saturating_add(moves), ALL_BITS)),
    }
}

/// Changes the futex at `addr`, a multiple of four, to what `change` makes of it, if anything. Programs change it at the
/// same time. Returns what it was, and whether it was changed.
pub fn update(
    mm: &mut Mm,
    addr: u64,
    mut change: impl FnMut(u32) -> Option<u32>,
) -> Result<(u32, bool)> {
    let mut old = user::copy_in::<u32>(mm, addr)?;
    while let Some(new) = change(old) {
        let before = user::compare_exchange(mm, addr, old, new)?;
        if before == old {
            return Ok((old, true));
        }
        old = before;
    }
    Ok((old, false))
}

/// Changes the second futex as `how` says, wakes the first, and the second if it was as `how` says.
fn wake_op(
    task: &mut Task,
    addrs: [u64; 2],
    private: bool,
    counts: [u32; 2],
    how: u32,
) -> Result<u64> {
    const SHIFT: u32 = 8;
    let (op, compare) = (how >> 28, how >> 24 & 15);
    let signed = |field: u32| ((field << 20) as i32 >> 20) as u32;
    let (mut arg, against) = (signed(how >> 12 & 0xfff), signed(how & 0xfff) as i32);
    if op & SHIFT != 0 {
        arg = 1u32.wrapping_shl(arg & 31);
    }
    let change: fn(u32, u32) -> u32 = match op & !SHIFT {
        0 => |_, arg| arg,
        1 => |old, arg| old.wrapping_add(arg),
        2 => |old, arg| old | arg,
        3 => |old, arg| old & !arg,
        4 => |old, arg| old ^ arg,
        _ => return Err(Errno::ENOSYS),
    };
    if compare > 5 {
        return Err(Errno::ENOSYS);
    }
    let old = update(&mut task.mm, addrs[1], |old| Some(change(old, arg)))?.0 as i32;
    let first = place(&task.mm, addrs[0], private);
    let mut woken = wake(task, first, at_least_one(counts[0]), ALL_BITS);
    let matches = match compare {
        0 => old == against,
        1 => old != against,
        2 => old < against,
        3 => old <= against,
        4 => old > against,
        _ => old >= against,
    };
    if matches {
        let second = place(&task.mm, addrs[1], private);
        woken += wake(task, second, at_least_one(counts[1]), ALL_BITS);
    }
    Ok(woken)
}
