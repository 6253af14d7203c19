//! Files that are lent to who writes to them ([decision 265](../../../docs/decisions/0265-a-file-is-lent-to-who-writes-to-it.md)).
//!
//! A process that has a file lent changes its bytes without asking, and says in its session frame when it has. That is asked for
//! before anybody is told of the times of the file and before anything else is done to it, and is believed between the last change that
//! is known and now. A process that says nothing or something else could as well have mapped the file and changed it there. Who has
//! which file lent is known here, by the inode and by the process. Who alone has a file lent says of reads as well.

use crate::clock::Clock;
use crate::frames::Files;
use crate::procs::{Pid, Proc, Procs};
use core::cell::Cell;
use memfs::{Ino, Shown};
use unixproto::session::{Uses, SHOWN_FILES};

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

/// Ends the loan of a file, which is or was lent so.
#[cold]
#[inline(never)]
pub fn end_with(files: &mut Files, procs: &Procs, clock: &Clock, (ino, was): (Ino, Shown)) {
    // Since then others may have it, too; of a file that is gone there is only what was.
    let shown = files.names().lent_to(ino).unwrap_or(was);
    settle(files, procs, clock);
    let end = |proc: &Proc| {
        if proc.lent.has(ino) {
            if let Some(uses) = take(proc, ino) {
                note(files, (ino, uses), clock.wall_now());
            }
        }
    };
    match shown {
        Shown::Lent(pid) => _ = procs.get(pid).map(end),
        _ => procs.iter().for_each(end),
    }
    files.names_mut().returned(ino);
}

/// A process has it no more. Answers when it was used last, as the process says.
fn take(proc: &Proc, ino: Ino) -> Option<Uses> {
    proc.lent.place(ino).set(0);
    proc.session().ok().map(|session| session.files().loan(ino.0.into()).take())
}

/// Notes when a file was used, as far as that is believed.
fn note(files: &mut Files, (ino, uses): (Ino, Uses), now: i64) {
    let time = |said: u64| i64::try_from(said).unwrap_or(i64::MAX);
    files.names_mut().changed(ino, time(uses.written), now);
    if uses.read != 0 {
        files.names_mut().accessed(ino, time(uses.read), now);
    }
}

/// Somebody else has a file lent as well: the one who had it alone asks from now on before it reads.
#[cold]
fn end_reads(files: &mut Files, procs: &Procs, (other, ino): (Pid, Ino), now: i64) {
    let Ok(proc) = procs.get(other) else { return };
    if let (true, Ok(session)) = (proc.lent.has(ino), proc.session()) {
        let read = session.files().loan(ino.0.into()).end_reads();
        note(files, (ino, Uses { written: 0, read }), now);
    }
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
        if let Some(uses) = take(proc, before) {
            note(files, (before, uses), clock.wall_now());
        }
    }
    let had = files.names().lent_to(ino);
    if files.names_mut().lend(ino, pid) {
        proc.lent.place(ino).set(ino.0);
        let (number, now) = (ino.0.into(), clock.wall_now());
        match had {
            Some(Shown::Lent(other)) if other != pid => end_reads(files, procs, (other, ino), now),
            _ => {}
        }
        let is_alone = files.names().lent_to(ino) == Some(Shown::Lent(pid));
        let read = files.names().get(ino).ok().filter(|_| is_alone).map(|inode| inode.atime);
        let read = read.map(|read| read.max(0) as u64);
        session.files().loan(number).lend((number, desc), (layout, size), now as u64, read);
    }
}

impl Procs {
    /// Nothing is lent to a process any more.
    pub fn return_loans(&self, proc: &Proc) {
        for ino in proc.lent.0.iter().map(|place| Ino(place.get())).filter(|ino| ino.0 != 0) {
            if let Some(uses) = take(proc, ino) {
                self.returned.borrow_mut().push((ino, uses));
                self.has_left.set(true);
            }
        }
    }
}

/// Notes when files were used that processes have no more.
pub fn settle(files: &mut Files, procs: &Procs, clock: &Clock) {
    loop {
        let next = procs.returned.borrow_mut().pop();
        let Some(returned) = next else { break };
        note(files, returned, clock.wall_now());
    }
}
