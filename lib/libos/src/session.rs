//! What servers tell `init`, at the endpoint in [`abi::slots::REPORT`].
//!
//! `init` measures free memory at [`begin`] and [`end`], which are `unixd`'s: at the first everything
//! that the servers keep for good must exist, at the second no process. So it starts `unixd` only when
//! `spawnd` is [`ready`]. RAM which the caller has asked for and not used yet makes no difference: it
//! goes home before each.

use crate::domain;
use crate::ipc::{call, Caps};
use abi::slots::REPORT;
use captypes::{Place, Status};

/// Badges of the servers at that endpoint, where their faults are reported, too: `init` gives them, and nobody
/// else has the endpoint without a badge.
pub const MEMD_BADGE: u32 = 1;
/// Of `unixd`.
pub const UNIXD_BADGE: u32 = 2;
/// Of the monitor of the boot core.
pub const MONITOR_BADGE: u32 = 3;
/// Of `spawnd` on the boot core.
pub const SPAWND_BADGE: u32 = 4;

/// The name of the server with a badge.
pub fn server_name(badge: u32) -> Option<&'static str> {
    match badge {
        MEMD_BADGE => Some("memd"),
        UNIXD_BADGE => Some("unixd"),
        MONITOR_BADGE => Some("monitor"),
        SPAWND_BADGE => Some("spawnd"),
        _ => None,
    }
}

/// Word 0: the first process is about to be made.
pub const BEGIN: u64 = 1;
/// Word 0: the last process has gone; word 1 is the exit status of the session.
pub const END: u64 = 2;

/// Word 0: a server has all that it needs to serve; word 1 is the status word of its start.
pub const READY: u64 = 3;

/// Reports that this server has started, or that it cannot.
pub fn ready(result: Result<(), Status>) -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    let status = result.err().map_or(0, Status::to_word);
    call(REPORT, [READY, status, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}

/// Reports that the first process is about to be made.
pub fn begin() -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    call(REPORT, [BEGIN, 0, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}

/// Reports the end of the session; the machine ends.
pub fn end(status: u32) -> Result<(), Status> {
    domain::with(|domain| domain.arena.release())?;
    call(REPORT, [END, status as u64, 0, 0, 0, 0], Caps::NONE, Place::NULL).map(|_| ())
}
