//! Files that are lent to who writes to them ([decision 265](../../../docs/decisions/0265-a-file-is-lent-to-who-writes-to-it.md)).
//!
//! The one process that has a file lent changes its bytes without asking, and says in its session frame when it has. That is asked for
//! before anybody is told of the times of the file and before anything else is done to it, and is believed between the request that
//! the loan began with and now. A process that says nothing or something else could as well have mapped the file and changed it there.

use crate::clock::Clock;
use crate::frames::Files;
use crate::procs::{Pid, Proc, Procs};
use memfs::Ino;

/// Ends the loan of a file, if there is one.
#[inline(always)]
pub fn end(files: &mut Files, procs: &Procs, clock: &Clock, ino: Ino) {
    if let Some(pid) = files.names().lent_to(ino) {
        end_with(files, procs, clock, (ino, pid));
    }
}

/// Ends the loan of a file to a process.
#[cold]
#[inline(never)]
pub fn end_with(files: &mut Files, procs: &Procs, clock: &Clock, (ino, pid): (Ino, Pid)) {
    settle(files, procs, clock);
    let session = procs.get(pid).and_then(Proc::session);
    let inode = ino.0.into();
    let changed = session.ok().and_then(|session| session.files().loan(inode).take(inode));
    files.names_mut().returned(ino, pid, changed.map(time), clock.wall_now());
}

/// Notes when files were changed of which loans have ended.
pub fn settle(files: &mut Files, procs: &Procs, clock: &Clock) {
    while let Some((pid, inode, changed)) = procs.take_returned() {
        let ino = Ino(inode as u32);
        files.names_mut().returned(ino, pid, Some(time(changed)), clock.wall_now());
    }
}

/// What a process says, of which the highest bit is none of the time's.
fn time(said: u64) -> i64 {
    said as i64
}
