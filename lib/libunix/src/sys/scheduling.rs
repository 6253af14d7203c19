//! The scheduler's interface. Policies and weights are kept by `unixd`, who tells the kernel.

use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::mm::{user, Mm};
use crate::process::{frame, Task};
use crate::server::{self, op};
use crate::signal::Own;
use crate::sys::unlocked;
use crate::thread::area;
use abi::Regs;
use captypes::CapAddr;
use core::sync::atomic::Ordering;
use linuxabi::bytes::{get_u32, get_u64, Bytes};
use unixproto::scheduling::*;

pub fn sched_yield(_: ()) -> u64 {
    // It cannot fail on Linux either.
    let _ = invoke(area::own_dispatcher(), captypes::op::Yield {});
    0
}

/// The cores that there are, at most 64.
pub fn all_cores() -> u64 {
    // SAFETY: the frame is mapped; the kernel wrote the field before the dispatcher was started.
    let cores = unsafe { (*frame()).cores };
    u64::MAX >> (64 - cores.clamp(1, 64))
}

/// The cores on which the caller may run: those that it has set, or that somebody else has set since.
pub fn own_cores() -> u64 {
    match server::header().affinity.load(Ordering::Relaxed) {
        0 => u64::MAX,
        cores => cores,
    }
}

fn is_own(task: &Task, tid: i32) -> bool {
    tid == 0 || tid as u32 == task.me.tid
}

pub fn sched_getaffinity(task: &mut Task, tid: i32, len: u32, mask: u64) -> Result<u64> {
    if len < 8 || len & 7 != 0 {
        return Err(Errno::EINVAL);
    }
    let cores = match is_own(task, tid) {
        true => own_cores(),
        false => match schedule(GET_CORES, PROCESS, tid, 0)? {
            0 => u64::MAX,
            cores => cores,
        },
    } & all_cores();
    user::copy_out(&mut task.mm, mask, &cores)?;
    Ok(8)
}

pub fn sched_setaffinity(task: &mut Task, tid: i32, len: u32, mask: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    let len = (len as usize).min(bytes.len());
    user::bytes_in(&mut task.mm, mask, &mut bytes[..len])?;
    let cores = u64::from_le_bytes(bytes) & all_cores();
    if !is_own(task, tid) {
        return schedule(SET_CORES, PROCESS, tid, cores);
    }
    if cores == 0 {
        return Err(Errno::EINVAL);
    }
    set_affinity(area::own_dispatcher(), cores)?;
    server::header().affinity.store(cores, Ordering::Relaxed);
    Ok(0)
}

/// The core on which the caller runs.
pub fn core() -> u32 {
    // SAFETY: the frame is mapped; the field is atomic.
    unsafe { (*frame()).core.load(Ordering::Relaxed) as u32 }
}

/// Lets a thread run on these cores only.
pub fn set_affinity(dispatcher: CapAddr, cores: u64) -> Result<()> {
    // All cores, whichever there are, need no set.
    let mask = if cores & all_cores() == all_cores() { 0 } else { cores };
    invoke(dispatcher, captypes::op::SetAffinity { mask }).map_err(|_| Errno::EINVAL)
}

/// The only thread of a child, or of a program, runs where its parent did, or who executed it, unless somebody has said since where
/// it shall.
pub fn take_affinity(cores: u64) {
    if cores == u64::MAX {
        return;
    }
    let own = &server::header().affinity;
    // Said before it runs at all: the kernel knows of it already, or is told again.
    let _ = own.compare_exchange(0, cores, Ordering::SeqCst, Ordering::SeqCst);
    let mut said = own.load(Ordering::SeqCst);
    loop {
        // That was right there; if it is not here, it runs anywhere.
        let _ = set_affinity(area::own_dispatcher(), said);
        // Who says something meanwhile writes it there first, and tells the kernel then.
        match own.load(Ordering::SeqCst) {
            same if same == said => return,
            other => said = other,
        }
    }
}

/// Asks `unixd` for how a process or thread is scheduled, or changes that.
fn schedule(what: u32, which: u32, who: i32, value: u64) -> Result<u64> {
    Ok(server::call(op::Schedule { what, which, who: who as u32, value })?.count)
}

/// Policy, with a flag, and priority of a thread.
fn policy_of(tid: i32) -> Result<(u32, u32)> {
    if tid < 0 {
        return Err(Errno::EINVAL);
    }
    let Policy { policy, priority, .. } = Policy::of(schedule(GET_POLICY, PROCESS, tid, 0)?);
    Ok((policy, priority.into()))
}

/// What a thread was promised.
fn budget_of(tid: i32) -> Result<Option<Budget>> {
    let bytes = schedule(GET_BUDGET, PROCESS, tid, 0)?;
    Ok(Budget::of(&server::taken(bytes as usize)?))
}

fn set_policy(
    tid: i32,
    (policy, priority, nice): (u32, u32, Option<i32>),
    budget: Option<Budget>,
) -> Result<u64> {
    // None is so high.
    let priority = priority.min(u8::MAX.into()) as u8;
    let nice = nice.map(|nice| nice.clamp(-20, 19) as i8);
    let value = Policy { policy, priority, nice }.word();
    let bytes = budget.map(Budget::bytes);
    let bytes = bytes.as_ref().map_or(&[][..], |bytes| bytes);
    let request = op::Schedule { what: SET_POLICY, which: PROCESS, who: tid as u32, value };
    Ok(server::call_a(request, bytes)?.count)
}

pub fn sched_getparam(mm: &mut Mm, pid: i32, param: u64) -> Result<u64> {
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    let (_, priority) = policy_of(pid)?;
    user::copy_out(mm, param, &priority)?;
    Ok(0)
}

pub fn sched_setparam(mm: &mut Mm, pid: i32, param: u64) -> Result<u64> {
    if param == 0 || pid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = user::copy_in::<u32>(mm, param)?;
    let (policy, _) = policy_of(pid)?;
    set_policy(pid, (policy, priority, None), budget_of(pid)?)
}

pub fn sched_getscheduler(_: (), pid: i32) -> Result<u64> {
    Ok(policy_of(pid)?.0.into())
}

pub fn sched_setscheduler(mm: &mut Mm, pid: i32, policy: u32, param: u64) -> Result<u64> {
    if param == 0 || pid < 0 || (policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = user::copy_in::<u32>(mm, param)?;
    policy_of(pid)?;
    if policy & !RESET_ON_FORK == DEADLINE {
        // It has parameters that cannot be said here.
        return Err(Errno::EINVAL);
    }
    set_policy(pid, (policy, priority, None), None)
}

/// Bytes of `struct sched_attr`, of its first version, and most that a program may say it has.
const ATTRIBUTE_BYTES: usize = 56;
const LEAST_BYTES: u32 = 48;
const MOST_BYTES: u32 = 4096;
/// `SCHED_FLAG_*`.
const FLAG_RESET: u64 = 1;
const FLAG_KEEP_POLICY: u64 = 8;
const FLAG_KEEP_PARAMS: u64 = 16;
const FLAG_CLAMPS: u64 = 0x60;
const FLAGS: u64 = 0x7f;

pub fn sched_setattr(mm: &mut Mm, pid: i32, attributes: u64, flags: u32) -> Result<u64> {
    if attributes == 0 || pid < 0 || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let size = match user::copy_in::<u32>(mm, attributes)? {
        0 => LEAST_BYTES,
        size => size,
    };
    let mut bytes = alloc::vec![0; size.clamp(LEAST_BYTES, MOST_BYTES) as usize];
    let is_known = (LEAST_BYTES..=MOST_BYTES).contains(&size) && {
        user::bytes_in(mm, attributes, &mut bytes)?;
        bytes.iter().skip(ATTRIBUTE_BYTES).all(|&byte| byte == 0)
    };
    if !is_known {
        user::copy_out(mm, attributes, &(ATTRIBUTE_BYTES as u32))?;
        return Err(Errno::E2BIG);
    }
    let mut policy = get_u32(&bytes, 4);
    let wanted = get_u64(&bytes, 8);
    let (nice, mut priority) = (get_u32(&bytes, 16) as i32, get_u32(&bytes, 20));
    if (policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let (now, now_priority) = policy_of(pid)?;
    if wanted & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if wanted & FLAG_CLAMPS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if wanted & FLAG_KEEP_POLICY != 0 {
        policy = now & !RESET_ON_FORK;
    }
    let mut budget = None;
    if wanted & FLAG_KEEP_PARAMS != 0 {
        priority = now_priority;
        budget = budget_of(pid)?;
    } else if policy == DEADLINE {
        let [runtime, deadline, period] = [24, 32, 40].map(|at| get_u64(&bytes, at));
        budget = Budget::new(runtime, deadline, period, wanted);
    }
    let resets = if wanted & FLAG_RESET != 0 { RESET_ON_FORK } else { 0 };
    let nice = (wanted & FLAG_KEEP_PARAMS == 0).then_some(nice);
    set_policy(pid, (policy | resets, priority, nice), budget)
}

fn now_nice(pid: i32) -> Result<i32> {
    Ok(20 - schedule(GET_NICE, PROCESS, pid, 0)? as i32)
}

pub fn sched_getattr(mm: &mut Mm, pid: i32, to: u64, size: u32, flags: u32) -> Result<u64> {
    let has_room = (LEAST_BYTES..=MOST_BYTES).contains(&size);
    if to == 0 || pid < 0 || !has_room || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (word, priority) = policy_of(pid)?;
    let (policy, resets) = (word & !RESET_ON_FORK, word & RESET_ON_FORK != 0);
    let is_nice = matches!(policy, NORMAL | BATCH);
    let nice = if is_nice { now_nice(pid)? } else { 0 };
    let budget = match policy {
        DEADLINE => budget_of(pid)?,
        _ => None,
    };
    let [runtime, deadline, period, more] =
        budget.map_or([0; 4], |it| [it.runtime, it.deadline, it.period, it.flags]);
    let told = (size as usize).min(ATTRIBUTE_BYTES);
    let bytes: [u8; ATTRIBUTE_BYTES] = Bytes::default()
        .u32(told as u32)
        .u32(policy)
        .u64(u64::from(resets) | more)
        .u32(nice as u32)
        .u32(priority)
        .u64(runtime)
        .u64(deadline)
        .u64(period)
        .done();
    user::bytes_out(mm, to, &bytes[..told])?;
    Ok(0)
}

pub fn sched_get_priority_max(_: (), policy: u32) -> Result<u64> {
    match policy {
        0 | 3 | 5..=7 => Ok(0),
        1 | 2 => Ok(99),
        _ => Err(Errno::EINVAL),
    }
}

pub fn sched_get_priority_min(_: (), policy: u32) -> Result<u64> {
    match policy {
        0 | 3 | 5..=7 => Ok(0),
        1 | 2 => Ok(1),
        _ => Err(Errno::EINVAL),
    }
}

pub fn sched_rr_get_interval(mm: &mut Mm, pid: i32, out: u64) -> Result<u64> {
    const SLICE: u64 = 4_000_000;
    const TURN: u64 = 100_000_000;
    let slice = match policy_of(pid)?.0 & !RESET_ON_FORK {
        FIFO | DEADLINE => 0,
        ROUND_ROBIN => TURN,
        _ => SLICE,
    };
    user::copy_out(mm, out, &linuxabi::time::to_timespec(slice))?;
    Ok(0)
}

pub fn getcpu(mm: &mut Mm, cpu: u64, node: u64) -> Result<u64> {
    // SAFETY: the frame is mapped; the fields are atomic.
    let (core, of_node) = unsafe { (&(*frame()).core, &(*frame()).node) };
    for (addr, number) in [(cpu, core), (node, of_node)] {
        if addr != 0 {
            user::copy_out(mm, addr, &(number.load(Ordering::Relaxed) as u32))?;
        }
    }
    Ok(0)
}

/// The same without the lock.
pub fn own_getcpu(_: &mut Own, regs: &Regs) -> Option<u64> {
    // SAFETY: as in `getcpu`.
    let (core, of_node) = unsafe { (&(*frame()).core, &(*frame()).node) };
    unlocked::put(regs.rdi, || core.load(Ordering::Relaxed) as u32)?;
    unlocked::put(regs.rsi, || of_node.load(Ordering::Relaxed) as u32)?;
    Some(0)
}

/// Answers 20 minus the nice value.
pub fn getpriority(_: (), which: u32, who: i32) -> Result<u64> {
    schedule(GET_NICE, which, who, 0)
}

pub fn setpriority(_: (), which: u32, who: i32, nice: i32) -> Result<u64> {
    schedule(SET_NICE, which, who, nice as i64 as u64)
}

/// Whom `ioprio_get` names, as `getpriority` numbers them.
fn io_which(which: u32) -> Result<u32> {
    which.checked_sub(1).filter(|which| *which <= USER).ok_or(Errno::EINVAL)
}

pub fn ioprio_get(_: (), which: u32, who: i32) -> Result<u64> {
    schedule(GET_IO, io_which(which)?, who, 0)
}

pub fn ioprio_set(_: (), which: u32, who: i32, value: u32) -> Result<u64> {
    schedule(SET_IO, io_which(which)?, who, value.into())
}
