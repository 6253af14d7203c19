//! Files that are lent to who writes to them ([decision 265](../../../docs/decisions/0265-a-file-is-lent-to-who-writes-to-it.md)).
//!
//! A process that has a file lent changes its bytes without asking, and says in its session frame when it has. That is asked for
//! before anybody is told of the times of the file and before anything else is done to it, and is believed between the last change that
//! is known and now. A process that says nothing or something else could as well have mapped the file and changed it there. Who has
//! which file lent is known here, by the inode and by the process.

use crate::clock::Clock;
use crate::frames::Files;
use crate::procs::{Pid, Proc, Procs};
use core::cell::Cell;
use memfs::{Ino, Shown};
use unixproto::session::SHOWN_FILES;

/// The files that a process has lent, each at the place of its number; 0: none.
#[derive(Default)]
pub struct Lent([Cell<u32>; SHOWN_FILES]);

impl Lent {
    #[inline]
    fn place(&self, ino: Ino) -> &Cell<u32> {
        &self.0[ino.0 as usize % SHOWN_FILES]
    }
    /// Is it this one?
    #[inline]
    pub fn has(&self, ino: Ino) -> bool {
        self.place(ino).get() == ino.0
    }
}

/// Ends the loan of a file, if there is one.
#[inline(always)]
pub fn end(files: &mut Files, procs: &Procs, clock: &Clock, ino: Ino) {
    if let Some(shown) = files.names().lent_to(ino) {
        end_with(files, procs, clock, (ino, shown));
    }
}

/// Ends the loan of a file to whom it is lent.
#[cold]
#[inline(never)]
pub fn end_with(files: &mut Files, procs: &Procs, clock: &Clock, (ino, shown): (Ino, Shown)) {
    settle(files, procs, clock);
    let end = |proc: &Proc| {
        if proc.lent.has(ino) {
            if let Some(time) = take(proc, ino) {
                files.names_mut().changed(ino, time, clock.wall_now());
            }
        }
    };
    match shown {
        Shown::Lent(pid) => _ = procs.get(pid).map(end),
        _ => procs.iter().for_each(end),
    }
    files.names_mut().returned(ino);
}

/// A process has it no more. Answers when it was changed last, as the process says.
fn take(proc: &Proc, ino: Ino) -> Option<i64> {
    proc.lent.place(ino).set(0);
    // The highest bit is none of the time's.
    proc.session().ok().map(|session| session.files().loan(ino.0.into()).take() as i64)
}

/// Lends a file to a process for a description.
pub fn lend(
    (files, procs, clock): (&mut Files, &Procs, &Clock),
    (pid, desc): (Pid, u32),
    (ino, layout, size): (Ino, u32, u64),
) {
    let Ok(proc) = procs.get(pid) else { return };
    let Ok(session) = proc.session() else { return };
    let before = Ino(proc.lent.place(ino).get());
    if before.0 != 0 {
        // It may be lent to others as well, who keep it.
        if let Some(time) = take(proc, before) {
            files.names_mut().changed(before, time, clock.wall_now());
        }
    }
    if files.names_mut().lend(ino, pid) {
        proc.lent.place(ino).set(ino.0);
        let (number, now) = (ino.0.into(), clock.wall_now());
        session.files().loan(number).lend((number, desc), layout, size, now as u64);
    }
}

impl Procs {
    /// Nothing is lent to a process any more.
    pub fn return_loans(&self, proc: &Proc) {
        for ino in proc.lent.0.iter().map(|place| Ino(place.get())).filter(|ino| ino.0 != 0) {
            if let Some(time) = take(proc, ino) {
                self.returned.borrow_mut().push((ino, time));
                self.has_left.set(true);
            }
        }
    }
}

/// Notes when files were changed that processes have no more.
pub fn settle(files: &mut Files, procs: &Procs, clock: &Clock) {
    loop {
        let next = procs.returned.borrow_mut().pop();
        let Some((ino, time)) = next else { break };
        files.names_mut().changed(ino, time, clock.wall_now());
    }
}
