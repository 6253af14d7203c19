//! `clone` of a thread.

use super::{area, company, lock, Thread};
use crate::beside::{self, Shares};
use crate::errno::{Errno, Result};
use crate::fork::{self, bases, set_bases, Chosen};
use crate::mm::{usage, user};
use crate::process::{Own, Process, Task};
use crate::server::{self, op, Caps};
use crate::sys::scheduling::{own_cores, set_affinity};
use crate::upcall;
use abi::dispatcher::Regs;
use captypes::{op as kop, CapType, Status};
use core::sync::atomic::Ordering;
use libos::ram::Ram;
use libos::{invoke, Cap};
use linuxdomain::{first_frame, own};

/// How a thread starts.
#[derive(Clone, Copy)]
pub struct Start {
    pub regs: Regs,
    pub fs: u64,
    pub gs: u64,
    /// Where it stores its id, or 0.
    pub set_tid: u64,
}

impl Start {
    /// Not at all.
    pub const NONE: Start = Start { regs: first_frame(0), fs: 0, gs: 0, set_tid: 0 };
}

/// What the program asks for.
pub struct Request {
    /// Stack pointer, or 0 for the caller's.
    pub stack: u64,
    /// FS base.
    pub tls: Option<u64>,
    /// Its id.
    pub ids: Ids,
    /// It is traced as the caller is.
    pub traced: bool,
    /// It is a process of its own.
    pub process: Option<NewProcess>,
}

/// Which id a thread is to have, and who finds it where.
pub struct Ids {
    /// Where the caller and the new thread find it, or 0.
    pub parent_tid: u64,
    pub child_tid: u64,
    /// Where the thread's end is shown, or 0.
    pub clear_tid: u64,
    /// What it is to be.
    pub chosen: Chosen,
}

/// A process in the same memory.
pub struct NewProcess {
    /// What it has in common with the caller.
    pub shares: Shares,
    /// Name spaces that it has of its own (`CLONE_NEW*`).
    pub spaces: u32,
    /// Where the caller finds a descriptor for it, if it wants one.
    pub pidfd: Option<u64>,
    /// The caller waits until it executes a program or ends.
    pub wait: bool,
}

/// Makes a thread. Answers its id.
pub fn create(p: &mut Process, regs: &Regs, request: &Request) -> Result<u64> {
    if request.process.is_none() && company::is_guest() {
        // One thread is all that a process in the memory of another one has.
        return Err(Errno::EAGAIN);
    }
    if p.parent.is_some() {
        // This process acts as its own child, which is to have a domain first.
        return Err(Errno::EAGAIN);
    }
    lock::share();
    p.mm.space.serve_threads(true);
    let task: &mut Task = p;
    let Task { threads, mm, .. } = task;
    let index = threads.areas.take(&mut mm.caps.arena).map_err(errno)?;
    let made = make(&mut p.own(), regs, request, index);
    if made.is_err() {
        area::clear(index);
        p.threads.remove(index);
        beside::abandon(p, index);
    }
    if let (Ok(pid), true) = (&made, request.process.as_ref().is_some_and(|new| new.wait)) {
        // Nothing ends this early but the end of this process.
        let _ = server::wait(p, op::ForkWait { pid: *pid as u32 });
    }
    made
}

fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory => Errno::ENOMEM,
        _ => Errno::EAGAIN,
    }
}

fn make(own: &mut Own<'_>, regs: &Regs, request: &Request, index: u32) -> Result<u64> {
    area::clear(index);
    let new = own::SCRATCH;
    own.io
        .mm
        .caps
        .arena
        .make(CapType::Dispatcher, abi::layout::PAGE, 1, new.into())
        .map_err(errno)?;
    let made = ask(request, index);
    // Empty, unless `unixd` was not even asked.
    new.discard();
    let tid = made?;
    let started = settle(own, regs, request, (index, tid));
    if started.is_err() && request.process.is_some() {
        // The error before is the one to tell.
        let _ = server::call(op::ForkAbort { pid: tid });
    }
    started?;
    own.io.threads.running += 1;
    Ok(tid as u64)
}

/// Makes the dispatcher that is in `own::SCRATCH` one of a new thread, or a new process. Answers its id.
fn ask(request: &Request, index: u32) -> Result<u32> {
    let frame = area::frame(index);
    // SAFETY: mapped, and of a dispatcher that is not started.
    unsafe {
        // It starts in the library.
        (*frame).disabled.store(1, Ordering::Relaxed);
        (*frame).notifications.store(0, Ordering::Relaxed);
        (*frame).save = start_regs(index);
    }
    upcall::install(frame, area::stack(index));
    area::configure(own::SCRATCH, index).map_err(errno)?;
    // `unixd` alone can stop it; what comes back cannot.
    let caps = Caps { recv: area::voice(index).into(), ..Caps::give(own::SCRATCH, 1) };
    let (traced, chosen) = (request.traced, &request.ids.chosen);
    let (made, received) = match &request.process {
        None => server::call_caps(op::Thread { traced }, chosen.put(), 0, caps)?,
        Some(new) => {
            let shares = new.shares.flags();
            let request = op::ForkBeside { shares, wait: new.wait, spaces: new.spaces };
            server::call_caps(request, chosen.put(), 0, caps)?
        }
    };
    match received {
        3 => Ok(made.pid),
        _ => Err(Errno::EAGAIN),
    }
}

/// Everything else that a thread needs, and its start.
fn settle(
    own: &mut Own<'_>,
    regs: &Regs,
    request: &Request,
    (index, tid): (u32, u32),
) -> Result<()> {
    area::map_session(index).map_err(errno)?;
    match &request.process {
        None => company::set(index, company::own()),
        Some(new) => {
            beside::begin(own, index, tid, new.shares)?;
            // It has not inherited it, unless its descriptors are the caller's.
            fork::open_child(own.io, tid, new.pidfd)?;
        }
    }
    let p = &mut *own.io;
    let (fs, gs) = bases(&p.me);
    let mut start =
        Start { regs: *regs, fs: request.tls.unwrap_or(fs), gs, set_tid: request.ids.child_tid };
    start.regs.rax = 0;
    if request.stack != 0 {
        start.regs.rsp = request.stack;
    }
    let thread = Thread {
        index,
        tid,
        signals: p.me.signals.of_new_thread(),
        filter: p.me.filter.clone(),
        policy: p.me.policy,
        clear_tid: request.ids.clear_tid,
        start,
        ..Thread::first()
    };
    let cores = own_cores();
    if cores != u64::MAX {
        set_affinity(area::dispatcher(index), cores)?;
    }
    area::header(index)
        .affinity
        .store(if cores == u64::MAX { 0 } else { cores }, Ordering::Relaxed);
    p.threads.add(thread);
    if request.ids.parent_tid != 0 {
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut p.mm, request.ids.parent_tid, &tid);
    }
    invoke(area::dispatcher(index), kop::Start {}).map_err(errno)
}

fn start_regs(index: u32) -> Regs {
    let entry = upcall::thread as *const () as u64;
    Regs { rdi: area::frame(index) as u64, rsp: area::stack(index), ..first_frame(entry) }
}

/// The first thing that a thread does.
pub fn started(task: &mut Task, regs: &mut Regs) {
    let start = core::mem::replace(&mut task.me.start, Start::NONE);
    *regs = start.regs;
    set_bases(&mut task.me, start.fs, start.gs);
    if company::is_guest() {
        usage::begin_child(&mut task.mm);
    }
    let blocked = task.me.signals.mask();
    task.me.signals.set_blocked(blocked);
    if start.set_tid != 0 {
        let tid = task.me.tid;
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut task.mm, start.set_tid, &tid);
    }
}
