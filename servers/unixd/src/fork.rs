//! New processes and new programs.
//!
//! ```text
//! fork    Fork[Dispatcher, L1CNode] → ForkCommit        the child's domain was made before
//! vfork   Fork[] → (the parent acts as the child) → Become[Dispatcher, L1CNode] or Exit
//! native  Exec → Replace[Dispatcher, L1CNode]           the process goes on as another domain
//! ```

use crate::caps::{errno, mint, Slots};
use crate::exits::Ending;
use crate::procs::*;
use crate::server::{Unixd, RECEIVED, SCRATCH};
use crate::wait::{done, Call, Outcome, Tried};
use crate::window::{Session, Shared};
use abi::slots::{MEMD, MONITOR, SELF_EP};
use alloc::vec::Vec;
use captypes::invocations::{options, Identity};
use core::sync::atomic::Ordering::Relaxed;
use libos::ipc::Caps;
use libos::{domain, invoke, memd, op, Cap, CapAddr, CapType, Place, Rights};
use unixproto::ops::Process;
use unixproto::session::{Header, NOTE_SIGNAL, SESSION_BYTES};
use unixproto::{Errno, Reply};

/// Longest argument block that is kept for `/proc`.
const CMDLINE_MAX: usize = 4096;
/// Free memory below which there are no new processes, beyond the memory server's own reserve.
const FREE_MIN: u64 = 256 << 10;
/// File mode creation mask of the first process.
const FIRST_UMASK: u32 = 0o022;
/// Session frames that are kept for new processes.
const KEPT: usize = 8;
/// Below this many processes free memory is not asked for: the reserve is enough for them.
const FEW: usize = 16;

impl Unixd {
    /// Makes the slots and the session frame of a process: everything but its domain.
    pub fn equip(&mut self, pid: Pid) -> Result<(Slots, Session), Errno> {
        if self.procs.len() > FEW {
            let stats = memd::stats(MEMD).map_err(errno)?;
            if stats.free < stats.reserve + FREE_MIN {
                return Err(Errno::EAGAIN);
            }
        }
        let caps = Slots::new(PROCESS_SLOTS)?;
        SELF_EP.mint_badged(caps.at(ENDPOINT), Rights::SEND, pid).map_err(errno)?;
        let frame = Place::own(caps.at(SESSION));
        if let Some((kept, session)) = self.sessions.pop() {
            kept.first().move_to(frame).map_err(errno)?;
            return Ok((caps, session));
        }
        domain::with(|domain| {
            use libos::ram::Ram;
            domain.arena.make(CapType::Frame, SESSION_BYTES, 1, frame)
        })
        .map_err(errno)?;
        let shared = Shared::map(frame, SESSION_BYTES)?;
        Ok((caps, Session::new(shared)))
    }

    /// Keeps the session frame of a process that has ended for the next one, if nobody else has a
    /// capability to it any more. Otherwise it is deleted with all its copies.
    pub fn recycle(&mut self, frame: CapAddr, session: Option<Session>) -> Result<(), Errno> {
        let copied = |what: Identity| what.relations & Identity::COPIES != 0;
        let Some(session) = session else { return Ok(()) };
        if self.sessions.len() < KEPT && !frame.identify().map_or(true, copied) {
            let kept = Slots::new(1)?;
            frame.move_to(kept.first()).map_err(errno)?;
            session.clear();
            self.sessions.push((kept, session));
        }
        Ok(())
    }

    /// A child of the caller.
    pub fn fork(&mut self, pid: Pid, received: u32) -> Tried {
        if received != 0 && received != 2 {
            return Err(Errno::EINVAL);
        }
        let has_domain = received == 2;
        if !has_domain && (!self.procs.get(pid)?.has_domain || self.acted(pid).is_some()) {
            return Err(Errno::EAGAIN);
        }
        let child = self.procs.new_pid()?;
        let (caps, session) = self.equip(child)?;
        if has_domain {
            self.take_domain(&caps, options::LINUX)?;
        }
        let parent = self.procs.get(pid)?;
        let proc = Proc {
            pid: child,
            parent: pid,
            caps,
            has_domain,
            state: if has_domain { State::Building } else { State::Live },
            session: None,
            last_session: None,
            held: parent.held.clone(),
            name: self.procs.name_of(self.speaker).to_vec(),
            exe: parent.exe.clone(),
            cmdline: parent.cmdline.clone(),
            ..Proc::new(child, parent.pgid, parent.sid, parent.cwd, parent.ids, self.clock.now())
        };
        copy_header(parent.session()?.header(), session.header());
        session.header().blocked.store(self.procs.mask_of(self.speaker), Relaxed);
        self.procs.add(Proc { session: Some(session), ..proc });
        self.inherit(child);
        self.publish(child);
        let caps = &self.procs.get(child)?.caps;
        mint(caps.at(ENDPOINT), SCRATCH, Rights::SEND)?;
        mint(caps.at(SESSION), SCRATCH.plus(1), Rights::READ.or(Rights::WRITE))?;
        Ok(Outcome::WithCaps(Process { pid: child }.encode(), Caps::moved(SCRATCH, 2)))
    }

    /// Moves the received dispatcher and CSpace to a process's slots, and has its faults reported.
    fn take_domain(&mut self, caps: &Slots, options: u32) -> Result<(), Errno> {
        RECEIVED.move_to(caps.at(DISPATCHER)).map_err(errno)?;
        RECEIVED.plus(1).move_to(caps.at(CSPACE)).map_err(errno)?;
        let right = |at, ty| caps.at(at).identify().is_ok_and(|what| what.ty == ty);
        if !right(DISPATCHER, CapType::Dispatcher) || !right(CSPACE, CapType::L1CNode) {
            return Err(Errno::EINVAL);
        }
        watch_faults(caps, options)
    }

    /// Counts what a child holds like its parent.
    fn inherit(&mut self, child: Pid) {
        let Ok(proc) = self.procs.get(child) else { return };
        for &desc in &proc.held {
            self.descs.hold(desc);
        }
        let cwd = proc.cwd;
        self.hold_node(cwd);
    }

    /// Writes a process's ids into its header.
    pub fn publish(&self, pid: Pid) {
        let Ok(proc) = self.procs.get(pid) else { return };
        for tid in core::iter::once(pid).chain(proc.threads.iter().copied()) {
            let Ok(session) = self.procs.session_of(tid) else { continue };
            publish_to(session.header(), proc, tid);
        }
    }

    /// Starts a child that `fork` made.
    pub fn fork_commit(&mut self, pid: Pid, call: &mut Call, child: u32, wait: bool) -> Tried {
        if call.kept == 0 {
            self.begin_child(pid, child)?;
            call.kept = child;
            if !wait {
                return done(());
            }
            self.procs.get_mut(child)?.vfork = true;
        }
        match self.procs.get(child) {
            Ok(proc) if proc.vfork && proc.parent == pid => Ok(Outcome::Block(0)),
            _ => done(()),
        }
    }

    fn begin_child(&mut self, pid: Pid, child: Pid) -> Result<(), Errno> {
        let proc = self.procs.get_mut(child)?;
        if proc.parent != pid || proc.state != State::Building {
            return Err(Errno::ESRCH);
        }
        let dispatcher = proc.dispatcher().ok_or(Errno::EINVAL)?;
        invoke(dispatcher, op::Start {}).map_err(errno)?;
        self.procs.get_mut(child)?.state = State::Live;
        if self.has_signal(child) {
            let _ = dispatcher.notify(NOTE_SIGNAL);
        }
        Ok(())
    }

    /// Gives up a child that was not started.
    pub fn fork_abort(&mut self, pid: Pid, child: u32) -> Tried {
        let proc = self.procs.get(child)?;
        if proc.parent != pid || proc.state != State::Building {
            return Err(Errno::ESRCH);
        }
        self.end_quietly(child);
        done(())
    }

    /// The child of the caller that it acts as.
    pub fn acted(&self, pid: Pid) -> Option<Pid> {
        self.procs.iter().find(|p| p.parent == pid && !p.has_domain && p.is_live()).map(|p| p.pid)
    }

    /// A child that its parent acted as gets a domain.
    pub fn become_domain(&mut self, pid: Pid, received: u32) -> Tried {
        let proc = self.procs.get(pid)?;
        if proc.has_domain || received != 2 {
            return Err(Errno::EINVAL);
        }
        let caps = Slots::new(PROCESS_SLOTS)?;
        for index in [ENDPOINT, SESSION] {
            proc.caps.at(index).copy_to(caps.at(index)).map_err(errno)?;
        }
        self.take_domain(&caps, options::LINUX)?;
        invoke(caps.at(DISPATCHER), op::Start {}).map_err(errno)?;
        let proc = self.procs.get_mut(pid)?;
        proc.caps = caps;
        proc.has_domain = true;
        if self.has_signal(pid) {
            let _ = self.procs.get(pid)?.caps.at(DISPATCHER).notify(NOTE_SIGNAL);
        }
        done(())
    }

    /// The caller goes on as the domain that it has made, a native one or one for a Linux program.
    pub fn replace(&mut self, pid: Pid, received: u32, linux: bool) -> Tried {
        let proc = self.procs.get(pid)?;
        if !proc.has_domain || received != 2 {
            return Err(Errno::EINVAL);
        }
        let caps = Slots::new(PROCESS_SLOTS)?;
        for index in [ENDPOINT, SESSION] {
            proc.caps.at(index).copy_to(caps.at(index)).map_err(errno)?;
        }
        self.take_domain(&caps, if linux { options::LINUX } else { 0 })?;
        if !linux {
            // Empty where there is one core.
            let _ = MONITOR.copy_to(Place::within(caps.at(CSPACE), MONITOR));
        }
        // The first thread may be waiting for something; no other thread runs any further.
        self.unblock(pid);
        self.suspend_others(pid);
        self.remove_threads(pid);
        invoke(caps.at(DISPATCHER), op::Start {}).map_err(errno)?;
        let cpu_ns = self.cpu_ns(self.procs.get(pid)?);
        let proc = self.procs.get_mut(pid)?;
        let old = core::mem::replace(&mut proc.caps, caps);
        (proc.native, proc.cpu_ns) = (!linux, cpu_ns);
        proc.first_ended = false;
        self.ending.push_back(Ending::of_domain(old));
        Ok(Outcome::Never)
    }

    /// A new program takes over.
    pub fn exec(&mut self, pid: Pid, call: &Call) -> Tried {
        let (path, mut args) = (self.a(pid, call)?, self.b(pid, call)?);
        args.truncate(CMDLINE_MAX);
        let exe = self.absolute(pid, &path).unwrap_or_else(|_| path.clone());
        let proc = self.procs.get_mut(pid)?;
        proc.name = name_of(&path);
        proc.exe = exe;
        proc.cmdline = args;
        proc.execed = true;
        self.end_vfork(pid);
        done(())
    }

    /// The parent of a vfork goes on.
    pub fn end_vfork(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        if core::mem::take(&mut proc.vfork) {
            let parent = proc.parent;
            self.wake_process(parent);
        }
    }

    /// The first request of the first process: its arguments and descriptions.
    pub fn attach(&mut self, pid: Pid) -> Tried {
        let [stdin, stdout, stderr] = self.stdio;
        self.procs.live(pid)?.session()?.header().umask.store(FIRST_UMASK, Relaxed);
        let bytes = self.args.len().min(unixproto::session::DATA_BYTES);
        self.put(pid, &self.args[..bytes])?;
        done(unixproto::ops::Attached { pid, bytes: bytes as u32, stdin, stdout, stderr })
    }
}

/// The kernel reports faults of the process on its own endpoint, so with its badge. `options` are
/// those of the dispatcher.
pub fn watch_faults(caps: &Slots, options: u32) -> Result<(), Errno> {
    let configure = op::Configure {
        cspace: Place::NULL,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::own(caps.at(ENDPOINT)),
        options,
    };
    invoke(caps.at(DISPATCHER), configure).map_err(errno)
}

/// Writes a process's ids into the header of one of its threads.
fn publish_to(header: &Header, proc: &Proc, tid: Pid) {
    header.tid.store(tid, Relaxed);
    header.pid.store(proc.pid, Relaxed);
    header.ppid.store(proc.parent, Relaxed);
    header.pgid.store(proc.pgid, Relaxed);
    header.sid.store(proc.sid, Relaxed);
    for (cell, id) in header.ids.iter().zip(proc.ids) {
        cell.store(id, Relaxed);
    }
}

/// What a child's header has in common with its parent's.
fn copy_header(from: &Header, to: &Header) {
    to.umask.store(from.umask.load(Relaxed), Relaxed);
    to.child_flags.store(from.child_flags.load(Relaxed), Relaxed);
    to.ignored.store(from.ignored.load(Relaxed), Relaxed);
    to.caught.store(from.caught.load(Relaxed), Relaxed);
    for (to, from) in to.fds.iter().zip(&from.fds) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// The name of a process that executes a path: its last component, 15 bytes.
pub fn name_of(path: &[u8]) -> Vec<u8> {
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    last[..last.len().min(15)].to_vec()
}

impl Proc {
    /// A process that holds nothing, yet to be equipped.
    pub fn new(
        pid: Pid,
        pgid: Pid,
        sid: Pid,
        cwd: crate::nodes::Node,
        ids: [u32; 6],
        now: u64,
    ) -> Proc {
        Proc {
            pid,
            parent: INIT,
            pgid,
            sid,
            state: State::Live,
            status: 0,
            caps: Slots::none(),
            has_domain: false,
            native: false,
            session: None,
            last_session: None,
            held: Vec::new(),
            cwd,
            name: Vec::new(),
            exe: Vec::new(),
            cmdline: Vec::new(),
            blocked: None,
            stopped: false,
            news: None,
            watching: Default::default(),
            vfork: false,
            timers: Default::default(),
            started: now,
            cpu_ns: 0,
            children_ns: 0,
            children_faults: 0,
            ids,
            execed: false,
            threads: Vec::new(),
            first_ended: false,
        }
    }
}
