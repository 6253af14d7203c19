//! Robust mutexes: what happens to those that a thread holds when it ends.

use super::futex;
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Process;
use core::sync::atomic::{AtomicU32, Ordering};

const HEAD_BYTES: u64 = 24;
/// Bits of a mutex's futex.
const WAITERS: u32 = 1 << 31;
const OWNER_DIED: u32 = 1 << 30;
const TID_MASK: u32 = OWNER_DIED - 1;
/// Longest list that is believed.
const LONGEST: usize = 2048;
/// The lowest bit of a link marks a mutex that hands on priorities.
const LINK: u64 = !1;

pub fn set_robust_list(p: &mut Process, head: u64, len: u64) -> Result<u64> {
    if len != HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    p.me.robust_list = head;
    Ok(0)
}

pub fn get_robust_list(p: &mut Process, tid: i32, head: u64, len: u64) -> Result<u64> {
    let list = match tid {
        0 => p.me.robust_list,
        tid if tid as u32 == p.me.tid => p.me.robust_list,
        tid => p.threads.by_tid(tid as u32).ok_or(Errno::ESRCH)?.robust_list,
    };
    user::copy_out(p, len, &HEAD_BYTES)?;
    user::copy_out(p, head, &list)?;
    Ok(0)
}

/// Marks the mutexes that thread `tid` holds, whose list is at `head`.
pub fn release(p: &mut Process, tid: u32, head: u64) {
    if head != 0 {
        // A list that cannot be read ends there.
        let _ = walk(p, tid, head);
    }
}

fn walk(p: &mut Process, tid: u32, head: u64) -> Result<()> {
    let [first, offset, pending]: [u64; 3] = user::copy_in(p, head)?;
    let mut link = first & LINK;
    for _ in 0..LONGEST {
        if link == head {
            break;
        }
        // Read before the mutex is free and with it the memory that it is in.
        let next = user::copy_in::<u64>(p, link);
        if link != pending & LINK {
            owner_died(p, tid, link.wrapping_add(offset), false)?;
        }
        link = next? & LINK;
    }
    match pending & LINK {
        0 => Ok(()),
        pending => owner_died(p, tid, pending.wrapping_add(offset), true),
    }
}

fn owner_died(p: &mut Process, tid: u32, addr: u64, pending: bool) -> Result<()> {
    if addr & 3 != 0 {
        return Err(Errno::EINVAL);
    }
    let word = user::slice_out(p, addr, 4)?.as_ptr().cast::<AtomicU32>();
    // SAFETY: aligned and writable; programs change it at the same time.
    let word = unsafe { &*word };
    let died = |old: u32| (old & TID_MASK == tid).then_some(old & WAITERS | OWNER_DIED);
    match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, died) {
        Ok(old) if old & WAITERS != 0 => futex::wake_at(p, addr, 1),
        // It was just unlocked, and somebody may not have been woken.
        Err(0) if pending => futex::wake_at(p, addr, 1),
        _ => {}
    }
    Ok(())
}
