//! What signals do: the table of actions.

use super::{Own, Signals};
use crate::server::{self, header, main_header, op, Header};
use crate::thread::{self, company};
use core::sync::atomic::Ordering;
use linuxabi::general as raw;
use unixproto::session::{CHLD_NOSTOP, CHLD_NOWAIT};
use unixproto::signals::{bit, default_action, DefaultAction, SIGCHLD};

/// Handler that stands for the default action.
pub const SIG_DFL: u64 = 0;
/// Handler that stands for nothing.
pub const SIG_IGN: u64 = 1;

/// Flags that Linux keeps; programs find out by reading them back which there are.
pub const KNOWN_FLAGS: u64 = raw::SA_NOCLDSTOP as u64
    | raw::SA_NOCLDWAIT as u64
    | raw::SA_SIGINFO as u64
    | raw::SA_ONSTACK as u64
    | raw::SA_RESTART as u64
    | raw::SA_NODEFER as u64
    | raw::SA_RESETHAND as u64
    | raw::SA_EXPOSE_TAGBITS as u64
    | raw::SA_RESTORER as u64;

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl Action {
    pub const DEFAULT: Action = Action { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    pub const IGNORE: Action = Action { handler: SIG_IGN, ..Action::DEFAULT };

    /// From the program's memory.
    pub const fn from_words([handler, flags, restorer, mask]: [u64; 4]) -> Action {
        Action { handler, flags, restorer, mask }
    }
    /// To the program's memory.
    pub const fn to_words(self) -> [u64; 4] {
        [self.handler, self.flags, self.restorer, self.mask]
    }
    /// Is this flag set?
    #[inline(always)]
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag as u64 != 0
    }
}

impl Signals {
    /// The action of a signal.
    #[inline(always)]
    pub fn action(&self, signal: u32) -> &Action {
        &self.actions[(signal as usize).wrapping_sub(1) % 64]
    }

    /// Sets the action of a signal. What is ignored now is no longer pending.
    #[inline]
    pub fn set_action(&mut self, signal: u32, action: Action) {
        let mask = bit(signal);
        self.actions[(signal as usize).wrapping_sub(1) % 64] = action;
        self.touched |= mask;
        self.ignored &= !mask;
        self.caught &= !mask;
        match action.handler {
            SIG_DFL => {}
            SIG_IGN => self.ignored |= mask,
            _ => self.caught |= mask,
        }
        self.publish();
        let by_default = action.handler == SIG_DFL
            && matches!(default_action(signal), DefaultAction::Ignore | DefaultAction::Continue);
        if action.handler == SIG_IGN || by_default {
            main_header().pending.clear(mask);
            let mut more = main_header().pending.more();
            thread::each_header(|header| {
                header.own.clear(mask);
                more |= header.own.more();
            });
            if more & mask != 0 {
                // Without an answer the process has ended.
                let _ = server::call(op::DropSignals { set: mask });
            }
        }
    }

    /// Lets `unixd` know.
    pub fn publish(&self) {
        let child = self.action(SIGCHLD);
        let flag = |flag, shown| if child.has(flag) { shown } else { 0 };
        let flags = flag(raw::SA_NOCLDWAIT, CHLD_NOWAIT) | flag(raw::SA_NOCLDSTOP, CHLD_NOSTOP);
        let show = |header: &Header| {
            header.ignored.store(self.ignored, Ordering::Relaxed);
            header.caught.store(self.caught, Ordering::Relaxed);
            header.child_flags.store(flags, Ordering::Relaxed);
        };
        show(main_header());
        company::each_sharing(|of| of.hands, show);
    }
}

impl Own {
    /// Sets the mask of blocked signals.
    #[inline(always)]
    pub fn set_blocked(&mut self, mask: u64) {
        self.blocked = mask & !super::UNBLOCKABLE;
        header().blocked.store(self.blocked, Ordering::Relaxed);
    }
}
