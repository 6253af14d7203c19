//! Signal masks that hold for one system call.

use crate::thread::Me;

/// Blocks the signals of `mask` instead of the present ones, until the call ends.
pub fn set_temporary(me: &mut Me, mask: u64) {
    me.signals.saved = Some(me.signals.blocked);
    me.signals.attention = true;
    me.signals.set_blocked(mask);
}

/// The call ends. When it was interrupted, the mask before it comes back after the handler.
pub fn end_temporary(me: &mut Me, interrupted: bool) {
    if !interrupted {
        restore(me);
    }
}

/// The mask before the call comes back.
pub fn restore(me: &mut Me) {
    if let Some(mask) = me.signals.saved.take() {
        me.signals.set_blocked(mask);
    }
}
