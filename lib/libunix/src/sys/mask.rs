//! Signal masks that hold for one system call.

use crate::process::Process;

/// Blocks the signals of `mask` instead of the present ones, until the call ends.
pub fn set_temporary(_p: &mut Process, _mask: u64) {}

/// The call ends. When it was interrupted, the mask before it comes back after the handler.
pub fn end_temporary(_p: &mut Process, _interrupted: bool) {}
