//! From a pending signal to its effect.

use super::actions::{Action, SIG_DFL, SIG_IGN};
use super::calls::retarget;
use super::{dequeue, force, frame, mask, pending, restart_wish, Fault, Own, SYNCHRONOUS};
use crate::errno::Errno;
use crate::process::{self, Process, Task, NO_CALL};
use crate::server::{self, header, op};
use crate::thread::{restart, Me};
use crate::upcall::die;
use crate::{trace, vfork};
use abi::layout::USER_END;
use abi::Regs;
use core::sync::atomic::Ordering;
use linuxabi::general::{SA_NODEFER, SA_RESETHAND, SA_RESTART};
use linuxabi::sigframe::INFO_WORDS;
use unixproto::session::NOTE_SIGNAL;
use unixproto::signals::*;

/// A signal on its way to its handler: its `siginfo_t`.
#[derive(Clone, Copy)]
pub struct Info {
    pub signal: u32,
    pub code: i32,
    /// `si_errno`.
    pub errno: u32,
    /// What depends on signal and code, from byte 16 on.
    pub details: [u64; 2],
}

impl Info {
    /// Of a signal that was sent.
    pub fn sent(signal: u32, info: SigInfo) -> Info {
        let who = info.pid as u64 | (info.uid as u64) << 32;
        let of_child = signal == SIGCHLD && info.code > 0;
        let what = if of_child { info.status as u32 as u64 } else { info.value };
        Info { signal, code: info.code, errno: 0, details: [who, what] }
    }

    /// Does it come from a fault, or is it one that nothing holds off?
    fn is_forced(&self) -> bool {
        self.code > 0 && bit(self.signal) & SYNCHRONOUS != 0
            || matches!(self.signal, SIGKILL | SIGSTOP)
    }

    /// As the program sees it.
    pub fn words(&self) -> [u64; INFO_WORDS] {
        let mut words = [0; INFO_WORDS];
        words[..4].copy_from_slice(&self.first_words());
        words
    }

    /// The words of that which are not zero.
    pub fn first_words(&self) -> [u64; 4] {
        let [first, second] = self.details;
        let start = self.signal as u64 | (self.errno as u64) << 32;
        [start, self.code as u32 as u64, first, second]
    }
}

/// The first signal of a set, if there is any.
pub fn first(set: u64) -> Option<u32> {
    let set = if set & SYNCHRONOUS != 0 { set & SYNCHRONOUS } else { set };
    (set != 0).then(|| set.trailing_zeros() + 1)
}

/// Takes the next signal that has to be delivered.
fn next(signals: &mut Own) -> Option<Info> {
    if let Some(fault) = signals.fault.take() {
        let Fault { signal, code, errno, address, more } = fault;
        return Some(Info { signal, code, errno, details: [address, more] });
    }
    loop {
        if pending() & !signals.blocked == 0 {
            return None;
        }
        if let Some((signal, info)) = dequeue(!signals.blocked) {
            return Some(Info::sent(signal, info));
        }
    }
}

/// Delivers everything, then lets an interrupted call go on and its mask end.
#[inline(never)]
pub fn settle(p: &mut Process, regs: &mut Regs) {
    p.me.signals.attention = false;
    // SAFETY: the frame is always mapped; the field is atomic.
    let notifications = unsafe { &(*process::frame()).notifications };
    if notifications.load(Ordering::Relaxed) & NOTE_SIGNAL != 0 {
        notifications.fetch_and(!NOTE_SIGNAL, Ordering::AcqRel);
    }
    loop {
        if trace::is_concerned() {
            // As on Linux, what a tracer wants comes before signals.
            trace::work_all(p, regs);
        }
        let Some(mut info) = next(&mut p.me.signals) else { break };
        if trace::is_concerned() {
            match trace::on_signal(p, regs, &info) {
                Some(chosen) => info = chosen,
                None => continue,
            }
        }
        act(p, regs, &info);
    }
    if restart_wish(&p.me, regs).is_some() {
        repeat(&mut p.me, regs);
    }
    mask::restore(&mut p.me);
}

fn act(p: &mut Process, regs: &mut Regs, info: &Info) {
    let action = *p.signals.action(info.signal);
    match action.handler {
        SIG_IGN => {}
        // The first process of a name space does nothing that it has no handler for, unless it is a fault of its own.
        SIG_DFL if header().keeps.load(Ordering::Relaxed) != 0 && !info.is_forced() => {}
        SIG_DFL => default(p, regs, info.signal),
        _ => handle(p, regs, &action, info),
    }
}

fn default(p: &mut Task, regs: &mut Regs, signal: u32) {
    match default_action(signal) {
        DefaultAction::Ignore | DefaultAction::Continue => {}
        // It stops, and goes on when this is answered. Nothing is lost if it cannot.
        DefaultAction::Stop => drop(server::wait(p, op::Stop { signal })),
        DefaultAction::Terminate => {
            trace::tell(p, regs, trace::event::EXIT, killed(signal).into());
            vfork::exit(killed(signal))
        }
    }
}

/// Enters a handler.
fn handle(p: &mut Process, regs: &mut Regs, action: &Action, info: &Info) {
    let signal = info.signal;
    if action.has(SA_RESETHAND) {
        p.signals.set_action(signal, Action { handler: SIG_DFL, ..*action });
    }
    match restart_wish(&p.me, regs) {
        None => {}
        Some(Errno::ERESTARTNOHAND) => regs.rax = Errno::EINTR.to_rax(),
        Some(Errno::ERESTARTSYS) if !action.has(SA_RESTART) => regs.rax = Errno::EINTR.to_rax(),
        Some(_) => repeat(&mut p.me, regs),
    }
    p.me.call = NO_CALL;
    if restart::interrupted(p, regs).is_err() {
        force(p, Fault::at(SIGSEGV, SI_KERNEL, 0));
    }
    if frame::push(p, regs, action, info).is_err() {
        // That is a fault of its own.
        return match signal {
            SIGSEGV => die(SIGSEGV, "no stack for the handler of SIGSEGV"),
            _ => force(p, Fault::at(SIGSEGV, SI_KERNEL, 0)),
        };
    }
    p.me.signals.saved = None;
    let own = if action.has(SA_NODEFER) { 0 } else { bit(signal) };
    let before = p.me.signals.blocked;
    p.me.signals.set_blocked(before | action.mask | own);
    // Of those that wait behind this one others may take the next.
    retarget(&p.me.signals, before);
    check_rip(p, regs);
}

/// Executes the interrupted call again, as soon as the program goes on.
fn repeat(me: &mut Me, regs: &mut Regs) {
    const SYSCALL_BYTES: u64 = 2;
    regs.rax = me.call;
    regs.rip = regs.rip.wrapping_sub(SYSCALL_BYTES);
    me.call = NO_CALL;
}

/// An address of the program that is no address would fault on the way there.
#[inline(always)]
pub fn check_rip(p: &mut Process, regs: &Regs) {
    if regs.rip >= USER_END {
        no_such_place(p);
    }
}

#[cold]
fn no_such_place(p: &mut Process) {
    const GENERAL_PROTECTION: u64 = 13;
    super::fault(p, SIGSEGV, SI_KERNEL, 0, GENERAL_PROTECTION, 0);
}
