//! Handler frames on the program's stack.

use super::actions::Action;
use super::deliver::{check_rip, Info};
use super::{memory, vectors, Fault};
use crate::errno::{Errno, Result};
use crate::process::{Process, Task, NO_CALL};
use crate::thread::Me;
use abi::Regs;
use core::mem::offset_of;
use linuxabi::general::{SA_ONSTACK, SA_RESTORER, SA_SIGINFO, SS_AUTODISARM};
use linuxabi::sigframe::{
    place, Frame, Placement, Stack, CLEARED_FLAGS, LINUX_SELECTORS, RED_ZONE, RESTORED_FLAGS,
    UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS,
};
use linuxabi::sigstack::AltStack;
use unixproto::signals::{SIGSEGV, SI_KERNEL};

/// Lets the program go on in a handler, with everything that `rt_sigreturn` needs on the stack.
#[inline(always)]
pub fn push(task: &mut Task, regs: &mut Regs, action: &Action, info: &Info) -> Result<()> {
    if !action.has(SA_RESTORER) {
        return Err(Errno::EFAULT);
    }
    let place = choose(&mut task.me, regs.rsp, action)?;
    let signals = &mut task.me.signals;
    let xsave = if signals.vectors.extended() { UC_FP_XSTATE } else { 0 };
    let mask = signals.saved.unwrap_or(signals.blocked);
    let Stack { sp, flags, size, .. } = signals.stack.saved();
    let words = memory::Words {
        restorer: action.restorer,
        flags: UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | xsave,
        link: 0,
        stack: [sp, flags.into(), size],
        selectors: LINUX_SELECTORS,
        error: signals.last.error,
        vector: signals.last.vector,
        old_mask: mask,
        cr2: signals.last.cr2,
        vectors: place.vectors,
        mask,
        info: info.first_words(),
    };
    memory::put_frame(&mut task.mm, place.frame, &words, regs, action.has(SA_SIGINFO))?;
    vectors::save(task, place.vectors)?;
    let signals = &mut task.me.signals;
    signals.vectors.reset();
    if signals.stack.flags & SS_AUTODISARM != 0 {
        signals.stack = AltStack::NONE;
    }
    regs.rdi = info.signal as u64;
    regs.rsi = place.frame + offset_of!(Frame, info) as u64;
    regs.rdx = place.frame + offset_of!(Frame, context) as u64;
    regs.rax = 0;
    regs.rsp = place.frame;
    regs.rip = action.handler;
    regs.rflags &= !CLEARED_FLAGS;
    Ok(())
}

/// Where the frame goes. A frame that begins on the alternate stack must fit there.
fn choose(me: &mut Me, rsp: u64, action: &Action) -> Result<Placement> {
    let bytes = me.signals.vectors.bytes();
    let stack = me.signals.stack;
    let below = rsp.wrapping_sub(RED_ZONE);
    let used = stack.size != 0 && stack.is_used(below);
    let enters = action.has(SA_ONSTACK) && stack.size != 0 && !used;
    let place = place(if enters { stack.top() } else { below }, bytes);
    if (enters || used) && !stack.covers(place.frame) {
        return Err(Errno::EFAULT);
    }
    Ok(place)
}

/// `rt_sigreturn`: goes on where a handler interrupted. Its result is the `rax` from then.
#[inline(never)]
pub fn rt_sigreturn(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    p.me.call = NO_CALL;
    if pop(p, regs).is_err() {
        super::force(p, Fault::at(SIGSEGV, SI_KERNEL, 0));
        return Ok(0);
    }
    check_rip(p, regs);
    Ok(regs.rax)
}

/// Takes a frame from the stack; the handler has popped the return address.
fn pop(task: &mut Task, regs: &mut Regs) -> Result<()> {
    const ADDRESS_BYTES: u64 = 8;
    let at = regs.rsp.wrapping_sub(ADDRESS_BYTES);
    if at & 7 != 0 {
        return Err(Errno::EFAULT);
    }
    let context = at.wrapping_add(offset_of!(Frame, context) as u64);
    let kept = regs.rflags & !RESTORED_FLAGS;
    let taken = memory::take_registers(&mut task.mm, context, regs)?;
    regs.rflags = kept | taken.rflags & RESTORED_FLAGS;
    task.me.signals.set_blocked(taken.mask);
    let [sp, flags, size] = taken.stack;
    let stack = Stack { sp, flags: flags as u32, padding: (flags >> 32) as u32, size };
    vectors::restore(task, taken.vectors)?;
    if stack != task.me.signals.stack.saved() {
        // As on Linux, an alternate stack that cannot be set stays as it is.
        if let Ok(changed) = task.me.signals.stack.changed(&stack, regs.rsp) {
            task.me.signals.stack = changed;
        }
    }
    Ok(())
}
