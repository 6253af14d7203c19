//! The scheduler's interface. There is one policy, and every process has the same weight.

use super::processes;
use crate::errno::{Errno, Result};
use crate::invoke::invoke;
use crate::mm::{user, Mm};
use crate::process::{frame, Task};
use crate::server::{self, header, op};
use crate::sys::State;
use crate::thread::{area, Thread};
use captypes::CapAddr;
use core::sync::atomic::Ordering;
use credentials::Capability;

pub fn sched_yield(_: ()) -> u64 {
    // It cannot fail on Linux either.
    let _ = invoke(area::own_dispatcher(), captypes::op::Yield {});
    0
}

/// `ESRCH` unless there is such a process.
fn check(pid: i32) -> Result<()> {
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    if pid == 0 || pid as u32 == header().pid.load(Ordering::Relaxed) {
        return Ok(());
    }
    server::call(op::GetPgid { pid: pid as u32 }).map(|_| ())
}

/// The same for a thread of any process.
fn check_thread(tid: i32) -> Result<()> {
    server::call(op::ThreadOf { tid: tid as u32 }).map(|_| ())
}

/// The cores that there are, at most 64.
fn all_cores() -> u64 {
    // SAFETY: the frame is mapped; the kernel wrote the field before the dispatcher was started.
    let cores = unsafe { (*frame()).cores };
    u64::MAX >> (64 - cores.clamp(1, 64))
}

/// The thread of this process with an id, 0 for the caller.
fn thread(task: &mut Task, tid: i32) -> Option<&mut Thread> {
    match tid as u32 {
        0 => Some(&mut task.me),
        tid => task.threads.by_tid(tid),
    }
}

pub fn sched_getaffinity(task: &mut Task, tid: i32, len: u32, mask: u64) -> Result<u64> {
    if len < 8 || len & 7 != 0 {
        return Err(Errno::EINVAL);
    }
    let cores = match thread(task, tid) {
        Some(thread) => thread.affinity & all_cores(),
        None => check_thread(tid).map(|()| all_cores())?,
    };
    user::copy_out(&mut task.mm, mask, &cores)?;
    Ok(8)
}

pub fn sched_setaffinity(task: &mut Task, tid: i32, len: u32, mask: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    let len = (len as usize).min(bytes.len());
    user::bytes_in(&mut task.mm, mask, &mut bytes[..len])?;
    let cores = u64::from_le_bytes(bytes) & all_cores();
    let Some(thread) = thread(task, tid) else {
        check_thread(tid)?;
        // Other processes go where the kernel finds it best.
        return Err(Errno::EPERM);
    };
    if cores == 0 {
        return Err(Errno::EINVAL);
    }
    thread.affinity = cores;
    let index = thread.index;
    set_affinity(area::dispatcher(index), cores)?;
    Ok(0)
}

/// Lets a thread run on these cores only.
pub fn set_affinity(dispatcher: CapAddr, cores: u64) -> Result<()> {
    // All cores, whichever there are, need no set.
    let mask = if cores & all_cores() == all_cores() { 0 } else { cores };
    invoke(dispatcher, captypes::op::SetAffinity { mask }).map_err(|_| Errno::EINVAL)
}

pub fn sched_getparam(mm: &mut Mm, pid: i32, param: u64) -> Result<u64> {
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    check(pid)?;
    user::copy_out(mm, param, &0u32)?;
    Ok(0)
}

pub fn sched_setparam(mm: &mut Mm, pid: i32, param: u64) -> Result<u64> {
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = user::copy_in::<u32>(mm, param)?;
    check(pid)?;
    if priority == 0 {
        Ok(0)
    } else {
        Err(Errno::EINVAL)
    }
}

/// Is this the calling process?
fn is_own(pid: i32) -> bool {
    pid == 0 || pid as u32 == header().pid.load(Ordering::Relaxed)
}

pub fn sched_getscheduler(state: &mut State, pid: i32) -> Result<u64> {
    check(pid)?;
    Ok(if is_own(pid) { state.policy.into() } else { 0 })
}

/// The policies for who can wait differ from the usual one in their names only.
pub fn sched_setscheduler(
    (mm, state): (&mut Mm, &mut State),
    pid: i32,
    policy: u32,
    param: u64,
) -> Result<u64> {
    const RESET_ON_FORK: u32 = 0x4000_0000;
    match policy & !RESET_ON_FORK {
        0 | 3 | 5 => {
            sched_setparam(mm, pid, param)?;
            if is_own(pid) {
                state.policy = policy;
            }
            Ok(0)
        }
        1 | 2 | 6 => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

pub fn sched_get_priority_max(_: (), policy: u32) -> Result<u64> {
    match policy {
        0 | 3 | 5 | 6 => Ok(0),
        1 | 2 => Ok(99),
        _ => Err(Errno::EINVAL),
    }
}

pub fn sched_get_priority_min(_: (), policy: u32) -> Result<u64> {
    match policy {
        0 | 3 | 5 | 6 => Ok(0),
        1 | 2 => Ok(1),
        _ => Err(Errno::EINVAL),
    }
}

pub fn sched_rr_get_interval(mm: &mut Mm, pid: i32, out: u64) -> Result<u64> {
    const SLICE: u64 = 4_000_000;
    check(pid)?;
    user::copy_out(mm, out, &linuxabi::time::to_timespec(SLICE))?;
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

const WHICH_END: u32 = 3;

/// Answers 20 minus the nice value.
pub fn getpriority(sys: &mut State, which: u32, who: i32) -> Result<u64> {
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    if which == 0 {
        check(who).map_err(|_| Errno::ESRCH)?;
    }
    Ok((20 - sys.nice) as u64)
}

pub fn setpriority(sys: &mut State, which: u32, who: i32, nice: i32) -> Result<u64> {
    if which >= WHICH_END {
        return Err(Errno::EINVAL);
    }
    if which == 0 {
        check(who).map_err(|_| Errno::ESRCH)?;
    }
    let nice = nice.clamp(-20, 19);
    if nice < sys.nice && !processes::has(Capability::SysNice) {
        return Err(Errno::EACCES);
    }
    sys.nice = nice;
    Ok(0)
}

pub fn ioprio(_: ()) -> u64 {
    0
}
