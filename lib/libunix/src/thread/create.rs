//! `clone` of a thread.

use super::{area, lock, Thread};
use crate::errno::{Errno, Result};
use crate::fork::{bases, set_bases};
use crate::mm::user;
use crate::process::{Process, Task};
use crate::server::{self, op, Caps};
use crate::sys::scheduling::set_affinity;
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
    /// Where the caller and the new thread find the id, or 0.
    pub parent_tid: u64,
    pub child_tid: u64,
    /// Where the thread's end is shown, or 0.
    pub clear_tid: u64,
    /// It is traced as the caller is.
    pub traced: bool,
}

/// Makes a thread. Answers its id.
pub fn create(p: &mut Process, regs: &Regs, request: &Request) -> Result<u64> {
    if p.parent.is_some() {
        // This process acts as its own child, which is to have a domain first.
        return Err(Errno::EAGAIN);
    }
    lock::share();
    p.mm.space.serve_threads(true);
    let task: &mut Task = p;
    let Task { threads, mm, .. } = task;
    let index = threads.areas.take(&mut mm.caps.arena).map_err(errno)?;
    let made = make(p, regs, request, index);
    if made.is_err() {
        area::clear(index);
        p.threads.remove(index);
    }
    made
}

fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory => Errno::ENOMEM,
        _ => Errno::EAGAIN,
    }
}

fn make(task: &mut Task, regs: &Regs, request: &Request, index: u32) -> Result<u64> {
    area::clear(index);
    let new = own::SCRATCH;
    task.mm
        .caps
        .arena
        .make(CapType::Dispatcher, abi::layout::PAGE, 1, new.into())
        .map_err(errno)?;
    let made = settle(task, regs, request, index);
    // Empty, unless `unixd` was not even asked.
    new.discard();
    let tid = made?;
    if request.parent_tid != 0 {
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut task.mm, request.parent_tid, &tid);
    }
    invoke(area::dispatcher(index), kop::Start {}).map_err(errno)?;
    task.threads.running += 1;
    Ok(tid as u64)
}

fn settle(task: &mut Task, regs: &Regs, request: &Request, index: u32) -> Result<u32> {
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
    let (thread, received) = server::call_caps(op::Thread { traced: request.traced }, 0, 0, caps)?;
    if received != 3 {
        return Err(Errno::EAGAIN);
    }
    let tid = thread.pid;
    area::map_session(index).map_err(errno)?;
    let (fs, gs) = bases(&task.me);
    let mut start =
        Start { regs: *regs, fs: request.tls.unwrap_or(fs), gs, set_tid: request.child_tid };
    start.regs.rax = 0;
    if request.stack != 0 {
        start.regs.rsp = request.stack;
    }
    let thread = Thread {
        index,
        tid,
        signals: task.me.signals.of_new_thread(),
        affinity: task.me.affinity,
        filter: task.me.filter.clone(),
        policy: task.me.policy,
        clear_tid: request.clear_tid,
        start,
        ..Thread::first()
    };
    if thread.affinity != u64::MAX {
        set_affinity(area::dispatcher(index), thread.affinity)?;
    }
    task.threads.add(thread);
    Ok(tid)
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
    let blocked = task.me.signals.mask();
    task.me.signals.set_blocked(blocked);
    if start.set_tid != 0 {
        let tid = task.me.tid;
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut task.mm, start.set_tid, &tid);
    }
}
