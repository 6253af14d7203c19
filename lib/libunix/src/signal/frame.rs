//! Handler frames on the program's stack.

use super::actions::Action;
use super::deliver::{check_rip, Info};
use super::vectors;
use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::{Process, NO_CALL};
use abi::Regs;
use core::mem::offset_of;
use linuxabi::general::{SA_ONSTACK, SA_RESTORER, SA_SIGINFO, SS_AUTODISARM};
use linuxabi::sigframe::{
    place, Context, Frame, Machine, Placement, CLEARED_FLAGS, LINUX_SELECTORS, RED_ZONE,
    RESTORED_FLAGS, UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS,
};
use linuxabi::sigstack::AltStack;
use unixproto::signals::{SIGSEGV, SI_KERNEL};

/// Lets the program go on in a handler, with everything that `rt_sigreturn` needs on the stack.
#[inline(always)]
pub fn push(p: &mut Process, regs: &mut Regs, action: &Action, info: &Info) -> Result<()> {
    if !action.has(SA_RESTORER) {
        return Err(Errno::EFAULT);
    }
    let place = choose(p, regs.rsp, action)?;
    let signals = &mut p.me.signals;
    let mut frame = Frame { restorer: action.restorer, ..Frame::default() };
    let mut bytes = offset_of!(Frame, info);
    if action.has(SA_SIGINFO) {
        frame.info = info.words();
        bytes = size_of::<Frame>();
    }
    let context = &mut frame.context;
    let xsave = if signals.vectors.extended() { UC_FP_XSTATE } else { 0 };
    context.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | xsave;
    context.link = 0;
    context.stack = signals.stack.saved();
    context.mask = signals.saved.unwrap_or(signals.blocked);
    let machine = &mut context.machine;
    save_registers(machine, regs);
    machine.error = signals.last.error;
    machine.vector = signals.last.vector;
    machine.cr2 = signals.last.cr2;
    machine.old_mask = context.mask;
    machine.vectors = place.vectors;
    user::bytes_out(p, place.frame, &as_bytes(&frame)[..bytes])?;
    vectors::save(p, place.vectors)?;
    let signals = &mut p.me.signals;
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

/// The bytes of a frame.
fn as_bytes(frame: &Frame) -> &[u8] {
    // SAFETY: words, without padding between or behind them.
    unsafe { core::slice::from_raw_parts((&raw const *frame).cast(), size_of::<Frame>()) }
}

/// Where the frame goes. A frame that begins on the alternate stack must fit there.
fn choose(p: &mut Process, rsp: u64, action: &Action) -> Result<Placement> {
    let bytes = p.me.signals.vectors.bytes();
    let stack = p.me.signals.stack;
    let below = rsp.wrapping_sub(RED_ZONE);
    let used = stack.size != 0 && stack.is_used(below);
    let enters = action.has(SA_ONSTACK) && stack.size != 0 && !used;
    let place = place(if enters { stack.top() } else { below }, bytes);
    if (enters || used) && !stack.covers(place.frame) {
        return Err(Errno::EFAULT);
    }
    Ok(place)
}

#[inline(always)]
fn save_registers(to: &mut Machine, regs: &Regs) {
    to.r8 = regs.r8;
    to.r9 = regs.r9;
    to.r10 = regs.r10;
    to.r11 = regs.r11;
    to.r12 = regs.r12;
    to.r13 = regs.r13;
    to.r14 = regs.r14;
    to.r15 = regs.r15;
    to.rdi = regs.rdi;
    to.rsi = regs.rsi;
    to.rbp = regs.rbp;
    to.rbx = regs.rbx;
    to.rdx = regs.rdx;
    to.rax = regs.rax;
    to.rcx = regs.rcx;
    to.rsp = regs.rsp;
    to.rip = regs.rip;
    to.rflags = regs.rflags;
    to.selectors = LINUX_SELECTORS;
}

#[inline(always)]
fn load_registers(from: &Machine, regs: &mut Regs) {
    regs.r8 = from.r8;
    regs.r9 = from.r9;
    regs.r10 = from.r10;
    regs.r11 = from.r11;
    regs.r12 = from.r12;
    regs.r13 = from.r13;
    regs.r14 = from.r14;
    regs.r15 = from.r15;
    regs.rdi = from.rdi;
    regs.rsi = from.rsi;
    regs.rbp = from.rbp;
    regs.rbx = from.rbx;
    regs.rdx = from.rdx;
    regs.rax = from.rax;
    regs.rcx = from.rcx;
    regs.rsp = from.rsp;
    regs.rip = from.rip;
    regs.rflags = regs.rflags & !RESTORED_FLAGS | from.rflags & RESTORED_FLAGS;
}

/// `rt_sigreturn`: goes on where a handler interrupted. Its result is the `rax` from then.
pub fn rt_sigreturn(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    p.me.call = NO_CALL;
    if pop(p, regs).is_err() {
        super::force(p, SIGSEGV, SI_KERNEL, 0);
        return Ok(0);
    }
    check_rip(p, regs);
    Ok(regs.rax)
}

/// The context at `at`, in the program's memory.
fn read_context(p: &mut Process, at: u64) -> Result<Context> {
    let mut context = Context::default();
    let bytes = size_of::<Context>();
    // SAFETY: words, without padding between or behind them; any bytes are such words.
    let words = unsafe { core::slice::from_raw_parts_mut((&raw mut context).cast(), bytes) };
    user::bytes_in(p, at, words)?;
    Ok(context)
}

/// Takes a frame from the stack; the handler has popped the return address.
fn pop(p: &mut Process, regs: &mut Regs) -> Result<()> {
    const ADDRESS_BYTES: u64 = 8;
    let at = regs.rsp.wrapping_sub(ADDRESS_BYTES);
    if at & 7 != 0 {
        return Err(Errno::EFAULT);
    }
    let context = read_context(p, at + offset_of!(Frame, context) as u64)?;
    let (stack, vectors) = (context.stack, context.machine.vectors);
    p.me.signals.set_blocked(context.mask);
    load_registers(&context.machine, regs);
    vectors::restore(p, vectors)?;
    if stack != p.me.signals.stack.saved() {
        // As on Linux, an alternate stack that cannot be set stays as it is.
        if let Ok(changed) = p.me.signals.stack.changed(&stack, regs.rsp) {
            p.me.signals.stack = changed;
        }
    }
    Ok(())
}
