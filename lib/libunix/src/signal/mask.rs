//! Signal masks that hold for one system call.

use crate::process::Process;

/// Blocks the signals of `mask` instead of the present ones, until the call ends.
pub fn set_temporary(p: &mut Process, mask: u64) {
    p.me.signals.saved = Some(p.me.signals.blocked);
    p.me.signals.attention = true;
    p.me.signals.set_blocked(mask);
}

/// The call ends. When it was interrupted, the mask before it comes back after the handler.
pub fn end_temporary(p: &mut Process, interrupted: bool) {
    if !interrupted {
        restore(p);
    }
}

/// The mask before the call comes back.
pub fn restore(p: &mut Process) {
    if let Some(mask) = p.me.signals.saved.take() {
        p.me.signals.set_blocked(mask);
    }
}
