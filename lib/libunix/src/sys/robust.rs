//! Robust mutexes: what happens to those that a thread holds when it ends.

use super::futex;
use super::pi::{self, OWNER_DIED, TID_MASK, WAITERS};
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Task;
use crate::thread::Me;

const HEAD_BYTES: u64 = 24;
/// Longest list that is believed.
const LONGEST: usize = 2048;
/// The lowest bit of a link marks a mutex that [has an owner](pi) also for the kernel.
const OWNED: u64 = 1;
const LINK: u64 = !OWNED;

pub fn set_robust_list(me: &mut Me, head: u64, len: u64) -> Result<u64> {
    if len != HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    me.robust_list = head;
    Ok(0)
}

pub fn get_robust_list(task: &mut Task, tid: i32, head: u64, len: u64) -> Result<u64> {
    let list = match tid {
        0 => task.me.robust_list,
        tid if tid as u32 == task.me.tid => task.me.robust_list,
        tid => *task.threads.by_tid(tid as u32).ok_or(Errno::ESRCH)?.robust_list,
    };
    user::copy_out(&mut task.mm, len, &HEAD_BYTES)?;
    user::copy_out(&mut task.mm, head, &list)?;
    Ok(0)
}

/// Marks the mutexes that thread `tid` holds, whose list is at `head`.
pub fn release(task: &mut Task, tid: u32, head: u64) {
    if head != 0 {
        // A list that cannot be read ends there.
        let _ = walk(task, tid, head);
    }
}

fn walk(task: &mut Task, tid: u32, head: u64) -> Result<()> {
    let [first, offset, pending]: [u64; 3] = user::copy_in(&mut task.mm, head)?;
    let mut link = first;
    for _ in 0..LONGEST {
        if link & LINK == head {
            break;
        }
        // Read before the mutex is free and with it the memory that it is in.
        let next = user::copy_in::<u64>(&mut task.mm, link & LINK);
        if link & LINK != pending & LINK {
            owner_died(task, tid, link, offset, false)?;
        }
        link = next?;
    }
    match pending & LINK {
        0 => Ok(()),
        _ => owner_died(task, tid, pending, offset, true),
    }
}

fn owner_died(task: &mut Task, tid: u32, link: u64, offset: u64, pending: bool) -> Result<()> {
    let addr = (link & LINK).wrapping_add(offset);
    if addr & 3 != 0 {
        return Err(Errno::EINVAL);
    }
    if link & OWNED != 0 {
        return pi::owner_died(task, addr, tid);
    }
    let died = |old: u32| (old & TID_MASK == tid).then_some(old & WAITERS | OWNER_DIED);
    match futex::update(&mut task.mm, addr, died)? {
        (old, true) if old & WAITERS != 0 => futex::wake_at(task, addr, 1),
        // It was just unlocked, and somebody may not have been woken.
        (0, false) if pending => futex::wake_at(task, addr, 1),
        _ => {}
    }
    Ok(())
}
