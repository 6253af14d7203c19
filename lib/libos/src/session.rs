//! What `unixd` tells `init`, at the endpoint in [`abi::slots::REPORT`].
//!
//! `init` measures free memory at both calls: at [`begin`] everything that the servers keep for
//! good should exist, at [`end`] no process should. So that RAM which the caller has asked for and
//! not used yet makes no difference, it goes home before each.

use crate::domain;
use crate::ipc::{call, Caps};
use abi::slots::REPORT;
use captypes::{Place, Status};

/// Word 0: the first process is about to be made.
pub const BEGIN: u64 = 1;
/// Word 0: the last process has gone; word 1 is the exit status of the session.
pub const END: u64 = 2;

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
