//! Futexes that have an owner: `FUTEX_LOCK_PI` and relatives.
//!
//! The word says who the owner is: the id of a thread, or 0. Programs take what is free and give up
//! what nobody waits for without a call. [`WAITERS`] says that somebody waits: then it is given up by
//! a call, and the thread that has waited longest owns it before it even runs. [`OWNER_DIED`] says that
//! an owner ended, and stays until the owner after that clears it.
//!
//! There is one priority for all here, and so none to inherit.
//!
//! In shared memory those who wait do so with `unixd`, as for other futexes, which says whose turn it
//! is. Whoever comes back from there looks whether the word names it: it may have been given the futex
//! just when its time was over.

use super::futex::{count, place, wait_shared, wake, Place, ALL_BITS};
use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, op};
use crate::thread::park::{self, Kind, Queues};
use crate::thread::Threads;
use alloc::vec::Vec;

/// Somebody waits.
pub const WAITERS: u32 = 1 << 31;
/// The owner ended.
pub const OWNER_DIED: u32 = 1 << 30;
/// Who the owner is.
pub const TID_MASK: u32 = OWNER_DIED - 1;

/// Who owns the futex at `addr`.
fn owner(mm: &mut Mm, addr: u64) -> Result<u32> {
    Ok(user::copy_in::<u32>(mm, addr)? & TID_MASK)
}

fn is_thread(threads: &mut Threads, tid: u32) -> bool {
    threads.by_tid(tid).is_some() || server::call(op::ThreadOf { tid }).is_ok()
}

/// Makes `who` the owner if there is none, and otherwise says that somebody waits. Answers whether it
/// is the owner now.
fn claim(task: &mut Task, addr: u64, place: Place, who: u32, waits: bool) -> Result<bool> {
    loop {
        let old = user::copy_in::<u32>(&mut task.mm, addr)?;
        let owner = old & TID_MASK;
        if owner == who {
            return Err(Errno::EDEADLK);
        }
        let new = if owner == 0 {
            // In shared memory somebody may be about to wait.
            let waited = match place {
                Place::Private(addr) => waits || park::first_owner(task, addr).is_some(),
                Place::Shared { .. } => waits || old & WAITERS != 0,
            };
            who | old & OWNER_DIED | if waited { WAITERS } else { 0 }
        } else {
            if !is_thread(&mut task.threads, owner) {
                return Err(Errno::ESRCH);
            }
            old | WAITERS
        };
        if user::compare_exchange(&mut task.mm, addr, old, new)? == old {
            return Ok(owner == 0);
        }
    }
}

/// Those that wait in another way cannot be given the futex.
fn check_waiters(futexes: &Queues, place: Place) -> Result<()> {
    match place {
        Place::Private(addr) if park::has_others(futexes, addr, Kind::Owner) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// `FUTEX_LOCK_PI`, and with `only_try` `FUTEX_TRYLOCK_PI`.
pub fn lock(
    task: &mut Task,
    addr: u64,
    private: bool,
    deadline: Option<u64>,
    only_try: bool,
) -> Result<u64> {
    let me = task.me.tid;
    loop {
        let place = place(&task.mm, addr, private);
        let seen = count(place)?;
        check_waiters(&task.futexes, place)?;
        if claim(task, addr, place, me, false)? {
            return Ok(0);
        }
        if only_try {
            return Err(Errno::EAGAIN);
        }
        let waited = match place {
            Place::Private(addr) => {
                park::wait_as(task, addr, ALL_BITS, Kind::Owner, deadline).map_err(|left| left.why)
            }
            Place::Shared { inode, offset } => {
                wait_shared(task, (inode, offset), seen, ALL_BITS, deadline)
            }
        };
        if owner(&mut task.mm, addr)? == me {
            return Ok(0);
        }
        match waited {
            Ok(()) | Err(Errno::EAGAIN) => {}
            Err(Errno::EINTR) => return Err(Errno::ERESTARTNOINTR),
            Err(error) => return Err(error),
        }
    }
}

/// `FUTEX_UNLOCK_PI`.
pub fn unlock(task: &mut Task, addr: u64, private: bool) -> Result<u64> {
    if owner(&mut task.mm, addr)? != task.me.tid {
        return Err(Errno::EPERM);
    }
    let place = place(&task.mm, addr, private);
    check_waiters(&task.futexes, place)?;
    let owner = task.me.tid;
    pass_on(task, addr, place, owner, 0)
}

/// Who owns it from now on is the first that waits, or nobody. `dead` is 0 or [`OWNER_DIED`].
fn pass_on(task: &mut Task, addr: u64, place: Place, owner: u32, dead: u32) -> Result<u64> {
    loop {
        let old = user::copy_in::<u32>(&mut task.mm, addr)?;
        if old & TID_MASK != owner {
            return Ok(0);
        }
        let next = match place {
            Place::Private(addr) => park::first_owner(task, addr).unwrap_or(0),
            Place::Shared { inode, offset } => server::call(op::FutexFirst { inode, offset })?.pid,
        };
        let new = if next == 0 { dead } else { next | WAITERS | dead };
        if user::compare_exchange(&mut task.mm, addr, old, new)? == old {
            match place {
                Place::Private(addr) => park::wake_owner(task, addr),
                // Also if nobody waits: somebody may be about to.
                Place::Shared { .. } => drop(wake(task, place, 1, ALL_BITS)),
            }
            return Ok(0);
        }
    }
}

/// The owner of a futex in a robust list has ended.
pub fn owner_died(task: &mut Task, addr: u64, owner: u32) -> Result<()> {
    let place = place(&task.mm, addr, false);
    pass_on(task, addr, place, owner, OWNER_DIED).map(|_| ())
}

/// A thread ends: what others of the process wait for and it owns is theirs, whether or not it is in
/// its robust list.
pub fn thread_ends(task: &mut Task, tid: u32) {
    let mut waited: Vec<u64> = park::owned(&task.futexes).collect();
    waited.dedup();
    for addr in waited {
        // musl goes through the list itself, and leaves what others wait for without an owner.
        for owner in [tid, 0] {
            // What is not there any more is nobody's.
            let _ = pass_on(task, addr, Place::Private(addr), owner, OWNER_DIED);
        }
    }
}

/// Only memory of the process itself: a wait that ends with another futex than it began with is not
/// known to `unixd`.
fn private_place(mm: &Mm, addr: u64, private: bool) -> Result<()> {
    match place(mm, addr, private) {
        Place::Private(_) => Ok(()),
        Place::Shared { .. } => Err(Errno::ENOSYS),
    }
}

/// `FUTEX_WAIT_REQUEUE_PI`: waits for the first futex, to be made to wait for the second, which it
/// owns when it returns.
pub fn wait_requeue(
    task: &mut Task,
    [addr, target]: [u64; 2],
    private: bool,
    value: u32,
    deadline: Option<u64>,
) -> Result<u64> {
    if addr == target {
        return Err(Errno::EINVAL);
    }
    private_place(&task.mm, addr, private)?;
    private_place(&task.mm, target, private)?;
    if user::copy_in::<u32>(&mut task.mm, addr)? != value {
        return Err(Errno::EAGAIN);
    }
    match park::wait_as(task, addr, ALL_BITS, Kind::Requeue(target), deadline) {
        Ok(()) => Ok(0),
        Err(left) => Err(match (left.why, left.kind) {
            // It would begin with a futex that has changed.
            (Errno::EINTR, Kind::Owner) => Errno::EAGAIN,
            (Errno::EINTR, _) => Errno::ERESTARTNOINTR,
            (error, _) => error,
        }),
    }
}

/// `FUTEX_CMP_REQUEUE_PI`: has the first that waits take the second futex or wait for it, and up to
/// `moves` others wait for it. Answers how many.
pub fn requeue(
    task: &mut Task,
    [addr, target]: [u64; 2],
    private: bool,
    [wakes, moves]: [u32; 2],
    value: u32,
) -> Result<u64> {
    if addr == target || wakes != 1 || (moves as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    private_place(&task.mm, addr, private)?;
    private_place(&task.mm, target, private)?;
    if user::copy_in::<u32>(&mut task.mm, addr)? != value {
        return Err(Errno::EAGAIN);
    }
    if park::has_others(&task.futexes, addr, Kind::Requeue(target)) {
        return Err(Errno::EINVAL);
    }
    let Some(first) = park::first(task, addr) else { return Ok(0) };
    let place = Place::Private(target);
    check_waiters(&task.futexes, place)?;
    let mut done = 0;
    let mut moves = moves as u64 + 1;
    if claim(task, target, place, first, moves > 1)? {
        park::wake_first(task, addr);
        (done, moves) = (1, moves - 1);
    }
    Ok(done + park::make_owners(&mut task.futexes, addr, target, moves))
}
