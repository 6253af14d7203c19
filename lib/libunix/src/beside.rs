//! Processes in one memory: what each of them has of its own, and how one begins and ends.
//!
//! What is a process's, of a process that shares its memory with others, is in [`Process`] while one of its threads has the lock,
//! and in [`Others`] while it is another's turn: [`settle`] exchanges them. Open files are common to all, as mappings name them;
//! who shares no descriptors has a table of its own, in which each is counted.
//!
//! ```text
//! clone   ForkBeside[dispatcher] → a voice; a thread that belongs to the new process      (thread::create)
//! exit    the table's files are closed, the thread leaves → Exit
//! execve  a domain without program memory; CopyHeld; as for exit → Become                 (it executes by itself)
//! ```
//!
//! Nobody ends a guest from outside while it may have the lock: `unixd` tells it to, and ends all that share the memory if it does
//! not ([decision](../../../docs/decisions/0222-processes-in-one-memory.md)).

use crate::errno::{Errno, Result};
use crate::fd::{self, Table};
use crate::fork;
use crate::mm::usage;
use crate::process::{self, Io, Own, Process};
use crate::server::{self, op, Caps};
use crate::signal::Signals;
use crate::sys;
use crate::thread::company::{self, Membership};
use crate::thread::{self, area, end, lock};
use abi::dispatcher::Regs;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{replace, swap};
use libos::Cap;
use linuxabi::general::{CLONE_FILES, CLONE_FS, CLONE_SIGHAND};
use linuxdomain::own::{CHILD_DISPATCHER, CHILD_ROOT};
use unixproto::signals::{killed, SIGKILL};

/// What every process has of its own, whatever it shares.
struct Rest {
    pid: u32,
    sys: sys::State,
}

/// Things of a kind, each with a number: one is where it is used, the others are here.
struct Pool<T> {
    used: u32,
    others: Vec<(u32, Box<T>)>,
}

impl<T> Pool<T> {
    const fn new() -> Pool<T> {
        Pool { used: 0, others: Vec::new() }
    }

    /// The one with a number, to be exchanged for the one that is used, unless it is that.
    fn turn(&mut self, to: u32) -> Option<&mut T> {
        if self.used == to {
            return None;
        }
        let (number, it) = self.others.iter_mut().find(|(number, _)| *number == to)?;
        *number = replace(&mut self.used, to);
        Some(it)
    }

    fn add(&mut self, number: u32, it: T) -> Result<()> {
        self.others.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.others.push((number, Box::new(it)));
        Ok(())
    }

    /// Nobody has it any more.
    fn remove(&mut self, number: u32) -> Option<Box<T>> {
        let at = self.others.iter().position(|(other, _)| *other == number)?;
        Some(self.others.swap_remove(at).1)
    }
}

/// What is of the processes whose turn it is not.
pub struct Others {
    tables: Pool<Table>,
    hands: Pool<Signals>,
    rest: Pool<Rest>,
    /// The number that was given last.
    last: u32,
}

impl Others {
    /// There are none.
    pub const fn new() -> Others {
        Others { tables: Pool::new(), hands: Pool::new(), rest: Pool::new(), last: 0 }
    }

    /// A number that nothing has.
    fn number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }
}

/// What a new process is to have in common with the caller's.
#[derive(Clone, Copy)]
pub struct Shares {
    pub files: bool,
    pub hands: bool,
    pub stands: bool,
}

impl Shares {
    /// As `unixd` is told.
    pub fn flags(self) -> u32 {
        let flag = |shared, flag| if shared { flag } else { 0 };
        flag(self.stands, CLONE_FS)
            | flag(self.files, CLONE_FILES)
            | flag(self.hands, CLONE_SIGHAND)
    }
}

/// Whoever has the lock finds what is its process's.
///
/// # Safety
///
/// The caller has just taken the lock, and uses no reference to anything of the process.
#[inline]
pub unsafe fn settle() {
    if company::is_there() {
        // SAFETY: the caller's promise.
        become_turn(&mut unsafe { process::current() }.own(), company::own());
    }
}

#[cold]
fn become_turn(own: &mut Own<'_>, to: Membership) {
    let Own { io, pid, signals, sys } = own;
    let mut others = replace(&mut io.others, Others::new());
    if let Some(table) = others.tables.turn(to.files) {
        io.fds.exchange(table);
    }
    if let Some(hands) = others.hands.turn(to.hands) {
        swap(*signals, hands);
    }
    if let Some(rest) = others.rest.turn(to.process) {
        swap(*pid, &mut rest.pid);
        swap(*sys, &mut rest.sys);
        // What is attached is so in the memory.
        swap(&mut sys.attached, &mut rest.sys.attached);
        // What is ready is told each of them by itself.
        io.fds.forget_knowledge();
    }
    io.others = others;
}

/// A process begins in the area `index`, as a copy of the caller's but for its id and what it shares.
pub fn begin(p: &mut Own<'_>, index: u32, pid: u32, shares: Shares) -> Result<()> {
    let own = company::own();
    let number = p.io.others.number();
    let either = |shared, own| if shared { own } else { number };
    let new = Membership {
        process: number,
        files: either(shares.files, own.files),
        hands: either(shares.hands, own.hands),
        stands: either(shares.stands, own.stands),
    };
    if !company::is_there() {
        // Reads without the lock know descriptors of one table only.
        fd::alone::share_all(p.io)?;
    }
    let mut sys = p.sys.clone();
    sys.child();
    p.io.others.rest.add(number, Rest { pid, sys })?;
    if !shares.hands {
        p.io.others.hands.add(number, p.signals.clone())?;
    }
    if !shares.files {
        let table = p.io.fds.copy_table();
        p.io.others.tables.add(number, table)?;
    }
    company::set(index, new);
    fd::glance::stop();
    Ok(())
}

/// It did not come to that: what [`begin`] has made goes.
pub fn abandon(p: &mut Io, index: u32) {
    let new = company::of(index);
    if new.process != 0 {
        forget(p, index, new);
    }
}

/// Forgets the process of an area, and closes the descriptors that are its alone. It is somebody else's turn.
fn forget(p: &mut Io, index: u32, what: Membership) {
    company::set(index, Membership::HOST);
    let is_used = |which: fn(Membership) -> u32| {
        let mut others =
            (0..=area::AREAS).filter(|other| *other != index && thread::is_there(*other));
        others.any(|other| which(company::of(other)) == which(what))
    };
    p.others.rest.remove(what.process);
    if !is_used(|of| of.hands) {
        p.others.hands.remove(what.hands);
    }
    if !is_used(|of| of.files) {
        if let Some(table) = p.others.tables.remove(what.files) {
            p.fds.close_table(*table);
        }
    }
}

/// Who has shared descriptors, or where it stands, has a copy from now on (`unshare`).
pub fn part(own: &mut Own<'_>, files: bool, stands: bool) -> Result<()> {
    let is_shared = |which: fn(Membership) -> u32| {
        let mut found = false;
        company::each_sharing(which, |_| found = true);
        found
    };
    let (files, stands) = (files && is_shared(|of| of.files), stands && is_shared(|of| of.stands));
    let mut new = company::own();
    let number = own.io.others.number();
    if files {
        let table = own.io.fds.copy_table();
        own.io.others.tables.add(number, table)?;
        new.files = number;
    }
    if stands {
        new.stands = number;
    }
    if files || stands {
        company::set(area::own_index(), new);
        become_turn(own, new);
    }
    Ok(())
}

/// The guest that runs here leaves the library: with the lock, to which it does not come back.
fn leave(own: &mut Own<'_>) {
    let (index, what) = (area::own_index(), company::own());
    end::show_end(own.io);
    // Its last words are those of its voice, but its turn is over.
    become_turn(own, Membership::HOST);
    forget(own.io, index, what);
    usage::tell(&own.io.mm);
    own.io.threads.gone(index);
    lock::leave();
}

/// Ends the guest that runs here with a wait status.
pub fn exit(status: u32) -> ! {
    // SAFETY: this never returns: whoever has a reference does not use it any more.
    leave(&mut unsafe { process::current() }.own());
    loop {
        // There is no answer.
        let _ = server::call(op::Exit { status });
    }
}

/// The guest that runs here executes a program: in a domain of its own, and nothing of it is left here. An error leaves
/// everything as it was.
pub fn spawn(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    fork::make_executor(p, regs)?;
    let domain = area::domain(area::own_index());
    let moved = CHILD_DISPATCHER.move_to(domain).and_then(|()| CHILD_ROOT.move_to(domain.plus(1)));
    let ready = moved.map_err(|_| Errno::EAGAIN).and_then(|()| server::call(op::CopyHeld {}));
    if let Err(error) = ready {
        for slot in [domain, domain.plus(1), CHILD_DISPATCHER, CHILD_ROOT] {
            slot.discard();
        }
        return Err(error);
    }
    p.fork.execute = None;
    leave(&mut p.own());
    // There is an answer only if the domain was refused.
    let _ = server::call_caps(op::Become {}, 0, 0, Caps::give(domain, 2));
    loop {
        let _ = server::call(op::Exit { status: killed(SIGKILL) });
    }
}

/// A forked child: nobody else is in its memory.
pub fn after_fork(p: &mut Io) {
    company::after_fork();
    let Others { tables, .. } = replace(&mut p.others, Others::new());
    for (_, table) in tables.others {
        p.fds.close_table(*table);
    }
}
