//! `vfork`: the process acts as its child until that executes a program or ends.
//!
//! Parent and child of a vfork share one memory, and only the child runs. So no domain is made for
//! it: this one becomes the child for `unixd`, by exchanging its endpoint and session frame, and
//! keeps the parent's private state, its registers among it, until it is needed again. What the
//! child writes, the parent sees, as programs expect that report errors this way (`posix_spawn`).
//!
//! ```text
//! begin    Fork[] → the child's endpoint and session     descriptors, signals, limits: copies
//! spawn    a domain without program memory → Become      it executes by itself (exec::spawned)
//! resume   the parent's endpoint and session are back    as is its state
//! ```

use crate::beside;
use crate::errno::{Errno, Result};
use crate::fd::{self, Fds};
use crate::fork::{self, bases, set_bases, How};
use crate::mm::user;
use crate::process::{self, Process, NO_CALL};
use crate::server::{self, op, Caps};
use crate::signal::Signals;
use crate::sys::{self, userdispatch};
use crate::thread::{company, Thread};
use crate::trace::breakpoints;
use abi::dispatcher::Regs;
use abi::layout::SESSION_FRAME;
use abi::slots::{SESSION, UNIXD};
use alloc::boxed::Box;
use captypes::invocations::MapFlags;
use captypes::CapAddr;
use core::sync::atomic::Ordering::Relaxed;
use libos::Cap;
use linuxdomain::{entry_of, own, SESSION_PAGES};

/// The parent, while its domain acts as the child.
pub struct Parent {
    regs: Regs,
    fs: u64,
    gs: u64,
    pid: u32,
    signals: Signals,
    me: Thread,
    sys: sys::State,
    fds: Fds,
}

/// Takes endpoint and session frame at `from` for those of this process. Those that it has had
/// are not in their slots any more.
fn identify(from: CapAddr) {
    let identify = || {
        from.move_to(UNIXD)?;
        from.plus(1).move_to(SESSION)?;
        // It may be gone with the session frame.
        own::SESSION_MAPPING.discard();
        let rights = MapFlags::READ.or(MapFlags::WRITE);
        let entry = entry_of(SESSION_FRAME);
        own::PT.map(entry, SESSION_PAGES, SESSION, 0, rights, own::SESSION_MAPPING)
    };
    // All slots are the library's own, and the table is there: nothing can be in the way but the
    // program itself, which has only itself to lose.
    if identify().is_err() {
        // What it has lost may include this.
        let _ = libos::invoke(abi::slots::DISPATCHER, captypes::op::Suspend {});
    }
}

/// Goes on as a new child. `EAGAIN`: that is not possible now.
pub fn begin(p: &mut Process, regs: &mut Regs, how: &How) -> Result<u64> {
    if p.parent.is_some() {
        return Err(Errno::EAGAIN);
    }
    fd::alone::share_all(p)?;
    p.fds.rings.give_back_all();
    let (child, received) = server::call_caps(
        op::Fork { act: true, traced: false, spaces: 0 },
        how.chosen.put(),
        0,
        Caps::receive(own::SCRATCH),
    )?;
    if received != 2 {
        return Err(Errno::EIO);
    }
    let opened = fork::open_child(p, child.pid, how.pidfd).inspect_err(|_| {
        // The error before is the one to tell.
        let _ = server::call(op::ForkAbort { pid: child.pid });
        for slot in [own::SCRATCH, own::SCRATCH.plus(1)] {
            slot.discard();
        }
    })?;
    let (fs, gs) = bases(&p.me);
    if how.parent_tid != 0 {
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut p.mm, how.parent_tid, &child.pid);
    }
    p.random.forget();
    let parent = Parent {
        regs: Regs { rax: child.pid as u64, ..*regs },
        fs,
        gs,
        pid: p.pid,
        signals: p.signals.clone(),
        me: Thread::clone(&p.me),
        sys: p.sys.clone(),
        fds: p.fds.copy(),
    };
    let moved = UNIXD.move_to(own::PARENT).and(SESSION.move_to(own::PARENT.plus(1)));
    moved.map_err(|_| Errno::EIO)?;
    let cores = server::header().affinity.load(Relaxed);
    identify(own::SCRATCH);
    server::header().affinity.store(cores, Relaxed);
    p.parent = Some(Box::new(parent));
    p.mm.caps.objects.may_own = false;
    p.fds.forget_knowledge();
    if let Some(fd) = opened {
        // The child has not inherited it: it is its parent's alone.
        let _ = fd::close(&mut p.fds, fd);
    }
    p.pid = child.pid;
    p.me.tid = child.pid;
    p.me.signals.child();
    p.sys.child();
    breakpoints::forget(&mut p.me);
    (p.me.clear_tid, p.me.robust_list, p.me.dispatch) = (how.clear_tid, 0, None);
    if how.stack != 0 {
        regs.rsp = how.stack;
    }
    if let Some(tls) = how.tls {
        set_bases(&mut p.me, tls, gs);
    }
    if how.child_tid != 0 {
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut p.mm, how.child_tid, &child.pid);
    }
    Ok(0)
}

/// The child's program runs in a domain of its own from now on, or the child has ended: the parent
/// returns from its `vfork`.
pub fn resume(p: &mut Process, regs: &mut Regs) {
    let Some(parent) = p.parent.take() else { return };
    p.mm.caps.objects.may_own = true;
    // These are the child's, who has copies if it still runs.
    for slot in [UNIXD, SESSION] {
        slot.discard();
    }
    identify(own::PARENT);
    p.pid = parent.pid;
    // Each from where it is to where it belongs: some are large.
    p.signals = parent.signals;
    *p.me = parent.me;
    userdispatch::adopt(p);
    breakpoints::restore(&p.me);
    p.sys = parent.sys;
    // The child has a copy of what it has drawn from.
    p.random.forget();
    p.fds.restore(parent.fds);
    p.me.call = NO_CALL;
    set_bases(&mut p.me, parent.fs, parent.gs);
    *regs = parent.regs;
}

/// Ends the process with a wait status. There is no answer unless it was its parent that acted.
pub fn exit(status: u32) -> ! {
    if company::is_guest() {
        beside::exit(status)
    }
    loop {
        let answer = server::call(op::Exit { status });
        // SAFETY: this never returns: whoever has a reference does not use it any more.
        let p = unsafe { process::current() };
        if answer.is_ok() && p.parent.is_some() {
            crate::upcall::go_on(resume);
        }
    }
}

/// Gives the child that this process acts as a domain in which it executes a program; then the
/// parent goes on. An error leaves everything as it was.
pub fn spawn(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    fork::make_executor(p, regs)?;
    fork::give_domain(op::Become {})?;
    resume(p, regs);
    Ok(regs.rax)
}
