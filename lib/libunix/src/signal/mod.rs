//! Signals.

use crate::process::Process;

/// Signal actions and masks.
pub struct Signals {}

impl Signals {
    /// All default, nothing blocked.
    pub const fn new() -> Self {
        Signals {}
    }
}

/// Makes `signal` pending for this process itself (`SIGPIPE`, for example). It is delivered when
/// the current system call returns to the program.
pub fn post_self(_p: &mut Process, _signal: u32) {}
