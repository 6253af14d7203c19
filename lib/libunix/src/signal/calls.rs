//! The system calls about signals.

pub use super::frame::rt_sigreturn;

use super::actions::{Action, KNOWN_FLAGS};
use super::deliver::Info;
use super::{dequeue, mask, Own, Signals, UNBLOCKABLE};
use crate::errno::{to_rax, Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, header, main_header, op, restart_no_handler};
use crate::sys::unlocked;
use crate::thread::lock;
use abi::Regs;
use core::sync::atomic::Ordering;
use linuxabi::sigframe::Stack;
use linuxabi::time::{from_timespec, TIME_BYTES};
use unixproto::files::FOREVER;
use unixproto::signals::{bit, SI_TKILL};

/// Bytes of a signal set.
const SET_BYTES: u64 = 8;

/// `EINVAL` unless a signal set has its size.
pub fn check_size(size: u64) -> Result<()> {
    if size == SET_BYTES {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

// Inline: two parts and four arguments are more than there are registers for.
#[inline(always)]
pub fn rt_sigaction(
    (mm, signals): (&mut Mm, &mut Signals),
    signal: u32,
    new: u64,
    old: u64,
    size: u64,
) -> Result<u64> {
    check_size(size)?;
    let mut action = None;
    if new != 0 {
        action = Some(Action::from_words(user::copy_in(mm, new)?));
    }
    let mask = bit(signal);
    if mask == 0 || action.is_some() && mask & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let before = *signals.action(signal);
    if let Some(mut action) = action {
        action.flags &= KNOWN_FLAGS;
        action.mask &= !UNBLOCKABLE;
        signals.set_action(signal, action);
    }
    if old != 0 {
        user::copy_out(mm, old, &before.to_words())?;
    }
    Ok(0)
}

pub fn rt_sigprocmask(task: &mut Task, how: u32, new: u64, old: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    let before = task.me.signals.blocked;
    if new != 0 {
        let set: u64 = user::copy_in(&mut task.mm, new)?;
        task.me.signals.set_blocked(changed(before, how, set)?);
        retarget(&task.me.signals, before);
    }
    if old != 0 {
        user::copy_out(&mut task.mm, old, &before)?;
    }
    Ok(0)
}

/// What `how` and a set make of a mask.
fn changed(before: u64, how: u32, set: u64) -> Result<u64> {
    const BLOCK: u32 = 0;
    const UNBLOCK: u32 = 1;
    const SET: u32 = 2;
    match how {
        BLOCK => Ok(before | set),
        UNBLOCK => Ok(before & !set),
        SET => Ok(set),
        _ => Err(Errno::EINVAL),
    }
}

/// The same without the lock.
pub fn own_sigprocmask(own: &mut Own, regs: &Regs) -> Option<u64> {
    let (how, new, old) = (regs.rdi as u32, regs.rsi, regs.rdx);
    if let Err(error) = check_size(regs.r10) {
        return Some(to_rax(Err(error)));
    }
    let before = own.blocked;
    let mut after = None;
    if new != 0 {
        match changed(before, how, user::load(new)?) {
            Ok(mask) => after = Some(mask),
            Err(error) => return Some(to_rax(Err(error))),
        }
    }
    // Before anything is changed that could not be done again.
    unlocked::put(old, || before)?;
    if let Some(mask) = after {
        own.set_blocked(mask);
        retarget(own, before);
    }
    Some(0)
}

/// Signals of the process that this thread was to take, and now blocks, are for another one.
pub fn retarget(own: &Own, before: u64) {
    let newly = own.blocked & !before;
    if lock::is_shared() && main_header().pending.set() & newly != 0 {
        // Without an answer the process has ended.
        let _ = server::call(op::Retarget {});
    }
}

pub fn rt_sigpending(task: &mut Task, out: u64, size: u64) -> Result<u64> {
    if size > SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let pending = super::pending() & task.me.signals.blocked;
    user::bytes_out(&mut task.mm, out, &pending.to_le_bytes()[..size as usize])?;
    Ok(0)
}

/// The same without the lock.
pub fn own_sigpending(own: &mut Own, regs: &Regs) -> Option<u64> {
    if regs.rsi != SET_BYTES {
        return None;
    }
    user::store(regs.rdi, &(super::pending() & own.blocked)).map(|()| 0)
}

pub fn rt_sigsuspend(task: &mut Task, set: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    let set: u64 = user::copy_in(&mut task.mm, set)?;
    mask::set_temporary(&mut task.me, set);
    pause(task)
}

pub fn pause(task: &mut Task) -> Result<u64> {
    server::wait(task, op::Pause {}).map_err(restart_no_handler)?;
    Err(Errno::ERESTARTNOHAND)
}

/// The restart of calls that go on with what is left of their time: there are none, those begin
/// again.
pub fn restart_syscall(_: ()) -> Result<u64> {
    Err(Errno::EINTR)
}

pub fn rt_sigtimedwait(
    task: &mut Task,
    set: u64,
    info: u64,
    timeout: u64,
    size: u64,
) -> Result<u64> {
    check_size(size)?;
    let set = user::copy_in::<u64>(&mut task.mm, set)? & !UNBLOCKABLE;
    let mut ns = FOREVER;
    if timeout != 0 {
        ns = from_timespec(&user::copy_in::<[u8; TIME_BYTES]>(&mut task.mm, timeout)?)?;
    }
    let taken = loop {
        if let Some((signal, info)) = dequeue(set) {
            break Info::sent(signal, info);
        }
        if ns == 0 {
            return Err(Errno::EAGAIN);
        }
        server::wait(task, op::SigWait { desc: 0, set, ns })?;
    };
    if info != 0 {
        user::copy_out(&mut task.mm, info, &taken.words())?;
    }
    Ok(taken.signal as u64)
}

pub fn rt_tgsigqueueinfo(mm: &mut Mm, pid: i32, tid: i32, signal: u32, info: u64) -> Result<u64> {
    let raw: [u64; 4] = user::copy_in(mm, info)?;
    let (code, own) = (raw[1] as i32, header().tid.load(Ordering::Relaxed) as i32);
    if pid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    if tid != own && (code >= 0 || code == SI_TKILL) {
        return Err(Errno::EPERM);
    }
    let (pid, tid) = (pid as u32, tid as u32);
    let request = op::KillThread { pid, tid, signal, code, value: raw[3] };
    server::call_a(request, &raw[2].to_le_bytes()).map(|()| 0)
}

/// `sigaltstack`, which must know the stack pointer.
pub fn sigaltstack(task: &mut Task, regs: &mut Regs) -> Result<u64> {
    let (new, old) = (regs.rdi, regs.rsi);
    let told = task.me.signals.stack.told(regs.rsp);
    if new != 0 {
        let [sp, flags, size]: [u64; 3] = user::copy_in(&mut task.mm, new)?;
        let wanted = Stack { sp, flags: flags as u32, padding: 0, size };
        task.me.signals.stack = task.me.signals.stack.changed(&wanted, regs.rsp)?;
    }
    if old != 0 {
        user::copy_out(&mut task.mm, old, &[told.sp, told.flags as u64, told.size])?;
    }
    Ok(0)
}

/// The same without the lock.
pub fn own_sigaltstack(own: &mut Own, regs: &Regs) -> Option<u64> {
    let (new, old) = (regs.rdi, regs.rsi);
    let told = own.stack.told(regs.rsp);
    let mut stack = own.stack;
    if new != 0 {
        let [sp, flags, size]: [u64; 3] = user::load(new)?;
        let wanted = Stack { sp, flags: flags as u32, padding: 0, size };
        match stack.changed(&wanted, regs.rsp) {
            Ok(changed) => stack = changed,
            Err(error) => return Some(to_rax(Err(error))),
        }
    }
    // Before anything is changed that could not be done again.
    unlocked::put(old, || [told.sp, told.flags as u64, told.size])?;
    own.stack = stack;
    Some(0)
}
