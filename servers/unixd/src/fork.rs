//! New processes and new programs.
//!
//! ```text
//! fork    Fork → the child's voice → ForkCommit[domain]     the parent makes the child's domain
//! vfork   Fork(act) → (the parent acts as the child) → Become[domain] or Exit
//! native  Exec → Replace[domain]                            the process goes on as another domain
//! ```

use crate::caps::{mint, Slots};
use crate::descs::Descs;
use crate::domains::{receive_dispatcher, Domain, OWN};
use crate::ending::Ending;
use crate::life::Life;
use crate::limits::Limits;
use crate::lines::Controls;
use crate::names::View;
use crate::nodes::Tree;
use crate::procs::*;
use crate::server::SCRATCH;
use crate::share::UNANSWERED;
use crate::stock::Stock;
use crate::system::System;
use crate::threads::Thread;
use crate::voices::{show, Speaker, Voice};
use crate::wait::{done, Call, Outcome, Tried};
use abi::slots::MONITOR;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use captypes::invocations::options;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Capability, Credentials};
use libos::ipc::Caps;
use libos::{Cap, Place};
use unixproto::ops::Process;
use unixproto::session::{Header, NOTE_SIGNAL};
use unixproto::signals::{killed, SIGKILL};
use unixproto::{Errno, Reply};

/// Longest argument block that is kept for `/proc`.
const CMDLINE_MAX: usize = 4096;
/// File mode creation mask of the first process.
const FIRST_UMASK: u32 = 0o022;

/// What new processes, threads and programs need beside [`Life`].
pub struct Births<'a> {
    pub life: Life<'a>,
    pub descs: &'a mut Descs,
    pub tree: &'a mut Tree,
    pub stock: &'a mut Stock,
    pub system: &'a System,
    /// Which groups are in the foreground of terminals: their ids are not given again.
    pub controls: &'a Controls,
}

impl Births<'_> {
    /// A child of the caller.
    pub fn fork(&mut self, pid: Pid, act: bool, traced: bool) -> Tried {
        if act
            && (self.life.procs.get(pid)?.domain.is_none() || self.life.procs.acted(pid).is_some())
        {
            return Err(Errno::EAGAIN);
        }
        self.life.procs.may_make_thread(pid)?;
        let uid = self.life.procs.real_user(pid);
        let child = self.life.procs.new_pid(self.controls, uid)?;
        let voice = self.equip(Speaker { pid: child, tid: child })?;
        let parent = self.life.procs.get(pid)?;
        copy_header(parent.session()?.header(), voice.session.header());
        voice
            .session
            .header()
            .blocked
            .store(self.life.procs.mask_of(self.life.caller.tid), Relaxed);
        let proc = Proc {
            state: if act { State::Live } else { State::Building },
            parent: pid,
            voice: Some(voice),
            name: self.life.procs.name_of(self.life.caller.tid).to_vec(),
            program: parent.program.clone(),
            dumpable: parent.dumpable,
            limits: parent.limits.inherited(),
            ..Proc::new(
                child,
                parent.pgid,
                parent.sid,
                parent.cwd,
                parent.who,
                self.life.clock.now(),
            )
        };
        self.life.procs.add(proc);
        if act {
            self.life.procs.get_mut(pid)?.acts_as = Some(child);
        }
        self.inherit(pid, child, act);
        self.life.look_at_cpu_later(child);
        self.life.procs.publish(child);
        let shown = self.life.procs.get(child)?.voice.as_ref().ok_or(Errno::ESRCH);
        if let Err(error) = shown.and_then(show) {
            self.life.end_quietly(child);
            return Err(error);
        }
        if traced {
            self.life.trace_child(child, child);
        }
        Ok(Outcome::WithCaps(Process { pid: child }.encode(), Caps::moved(SCRATCH, 2)))
    }

    /// Counts what a child holds like its parent.
    fn inherit(&mut self, parent: Pid, child: Pid, acts: bool) {
        self.descs.inherit(parent, child, acts);
        if let Ok(proc) = self.life.procs.get(child) {
            self.tree.hold(proc.cwd);
        }
    }

    /// Starts a child that `fork` made, in the domain that has come with the request.
    pub fn fork_commit(&mut self, pid: Pid, child: u32, wait: bool, received: u32) -> Tried {
        let proc = self.life.procs.get(child)?;
        if proc.parent != pid {
            return Err(Errno::ESRCH);
        }
        match proc.state {
            State::Building => {}
            // A signal was faster.
            State::Ending | State::Zombie if proc.killed => return done(()),
            _ => return Err(Errno::ESRCH),
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let domain = Domain::receive(received, endpoint, options::LINUX)?.start()?;
        let proc = self.life.procs.get_mut(child)?;
        proc.domain = Some(domain);
        proc.state = State::Live;
        proc.vfork = wait;
        if proc.stopped {
            self.life.procs.suspend([child]);
        }
        self.life.procs.tell_of_signals(child);
        done(())
    }

    /// Waits for what a child does that has been started.
    pub fn fork_wait(&mut self, pid: Pid, child: u32) -> Tried {
        match self.life.procs.get(child) {
            Ok(proc) if proc.vfork && proc.parent == pid => Ok(Outcome::Block(0)),
            _ => done(()),
        }
    }

    /// Gives up a child that was not started, or as which its parent acts. Nobody hears of it.
    pub fn fork_abort(&mut self, pid: Pid, child: u32) -> Tried {
        let proc = self.life.procs.get(child)?;
        if proc.parent != pid || proc.state != State::Building && !proc.is_acted() {
            return Err(Errno::ESRCH);
        }
        self.life.end_quietly(child);
        done(())
    }

    /// A child that its parent acted as gets a domain.
    pub fn become_domain(&mut self, pid: Pid, received: u32) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if proc.domain.is_some() {
            return Err(Errno::EINVAL);
        }
        if proc.killed {
            // What its parent did not do by itself. The parent goes on.
            self.life.terminate(pid, killed(SIGKILL));
            return done(());
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let domain = Domain::receive(received, endpoint, options::LINUX)?.start()?;
        self.life.procs.get_mut(pid)?.domain = Some(domain);
        self.life.procs.tell_of_signals(pid);
        done(())
    }

    /// The caller goes on as the domain that it has made, a native one or one for a Linux program.
    pub fn replace(&mut self, pid: Pid, received: u32, linux: bool) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if proc.domain.is_none() {
            return Err(Errno::EINVAL);
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let domain = Domain::receive(received, endpoint, if linux { options::LINUX } else { 0 })?;
        if !linux && proc.has(Capability::SysAdmin) {
            // Programs of the administrator may use other cores. Empty where there is one core.
            let _ = MONITOR.copy_to(Place::within(domain.cspace(), MONITOR));
        }
        // The first thread may be waiting for something; no other thread runs any further.
        self.life.give_up(pid);
        self.life.trace_takes_over(self.life.caller.tid, pid);
        self.life.procs.suspend(self.life.other_threads(pid));
        self.life.remove_threads(pid);
        let domain = domain.start()?;
        let cpu = self.life.procs.cpu(self.life.clock, self.life.procs.get(pid)?);
        let proc = self.life.procs.get_mut(pid)?;
        let old = proc.domain.replace(domain);
        (proc.native, proc.cpu) = (!linux, cpu);
        proc.first_ended = false;
        if let Some(old) = old {
            self.life.voices.take_back(Ending::of_domain(old));
        }
        Ok(Outcome::Never)
    }

    /// A new thread of the caller's process.
    pub fn new_thread(&mut self, pid: Pid, received: u32, traced: bool) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if received != 1 || proc.domain.is_none() {
            return Err(Errno::EINVAL);
        }
        let options = if proc.native { 0 } else { options::LINUX };
        self.life.procs.may_make_thread(pid)?;
        let tid = self.life.procs.new_pid(self.controls, self.life.procs.real_user(pid))?;
        let voice = self.equip(Speaker { pid, tid })?;
        let made = receive_dispatcher(voice.endpoint(), options);
        let (dispatcher, shown) = match made {
            Ok(dispatcher) => {
                let minted = mint(dispatcher.first(), SCRATCH.plus(2), OWN);
                (dispatcher, minted.and_then(|()| show(&voice)))
            }
            Err(error) => (Slots::none(), Err(error)),
        };
        if let Err(error) = shown {
            self.life.voices.end_thread(voice, dispatcher);
            return Err(error);
        }
        let blocked = self.life.procs.mask_of(self.life.caller.tid);
        voice.session.header().blocked.store(blocked, Relaxed);
        let name = self.life.procs.name_of(self.life.caller.tid).to_vec();
        let thread = Thread { leader: pid, voice, dispatcher, blocked: None, name };
        self.life.procs.add_thread(tid, Box::new(thread));
        self.life.procs.get_mut(pid)?.threads.push(tid);
        self.life.look_at_cpu_later(pid);
        self.life.procs.publish(pid);
        if self.life.procs.get(pid)?.stopped {
            self.life.procs.suspend([tid]);
        }
        if traced {
            self.life.trace_child(tid, pid);
        }
        Ok(Outcome::WithCaps(Process { pid: tid }.encode(), Caps::moved(SCRATCH, 3)))
    }

    /// What a thread that is not there yet will speak with.
    fn equip(&mut self, speaker: Speaker) -> Result<Voice, Errno> {
        let others = self.life.procs.len();
        self.life.voices.equip(self.stock, others, speaker)
    }

    /// A new program takes over.
    pub fn exec(&mut self, pid: Pid, call: &Call) -> Tried {
        let caller = self.life.caller;
        let (path, mut args) = (self.life.procs.a(caller, call)?, self.life.procs.b(caller, call)?);
        args.truncate(CMDLINE_MAX);
        let exe = match View::new(self.tree, self.life.procs, self.descs, caller)?.absolute(&path) {
            Err(UNANSWERED) => return Err(UNANSWERED),
            exe => exe.unwrap_or_else(|_| path.clone()),
        };
        let proc = self.life.procs.get_mut(pid)?;
        proc.name = name_of(&path);
        proc.program = Some(Rc::new(Program { exe, cmdline: args }));
        proc.execed = true;
        let before = proc.who;
        proc.who.exec();
        // Where what it acts as is not what it belongs to, its memory is for neither to see.
        let Credentials { users, groups, .. } = &proc.who;
        let as_itself = users.effective == users.real && groups.effective == groups.real;
        proc.dumpable = as_itself && !proc.who.hides_from(&before);
        self.life.procs.publish(pid);
        self.life.delete_alarms(pid);
        self.life.end_vfork(pid);
        done(())
    }

    /// The first request of the first process: its arguments and descriptions.
    pub fn attach(&mut self, pid: Pid, from: u32) -> Tried {
        let [stdin, stdout, stderr] = self.system.stdio();
        self.life.procs.live(pid)?.session()?.header().umask.store(FIRST_UMASK, Relaxed);
        let rest = self.system.args().get(from as usize..).unwrap_or_default();
        let part = rest.get(..unixproto::session::DATA_BYTES).unwrap_or(rest);
        self.life.procs.put(self.life.caller, part)?;
        done(unixproto::ops::Attached { pid, bytes: part.len() as u32, stdin, stdout, stderr })
    }
}

impl Procs {
    /// Writes a process's ids into its header.
    pub fn publish(&self, pid: Pid) {
        let Ok(proc) = self.get(pid) else { return };
        for tid in core::iter::once(pid).chain(proc.threads.iter().copied()) {
            let Ok(session) = self.session_of(tid) else { continue };
            publish_to(session.header(), proc, tid);
        }
    }

    /// The child of the caller that it acts as.
    pub fn acted(&self, pid: Pid) -> Option<Pid> {
        let child = self.get(pid).ok()?.acts_as?;
        let is = |proc: &Proc| proc.parent == pid && proc.is_acted();
        self.get(child).is_ok_and(is).then_some(child)
    }

    /// A process that has just got a domain looks at the signals that came before.
    pub fn tell_of_signals(&self, pid: Pid) {
        if let Some(dispatcher) = self.dispatcher_of(pid).filter(|_| self.has_signal(pid)) {
            // One that has just ended needs no notification.
            let _ = dispatcher.notify(NOTE_SIGNAL);
        }
    }
}

impl Life<'_> {
    /// The parent of a vfork goes on.
    pub fn end_vfork(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        if core::mem::take(&mut proc.vfork) {
            let parent = proc.parent;
            self.wake_process(parent);
        }
    }
}

/// Writes a process's ids into the header of one of its threads.
fn publish_to(header: &Header, proc: &Proc, tid: Pid) {
    header.tid.store(tid, Relaxed);
    header.pid.store(proc.pid, Relaxed);
    header.ppid.store(proc.parent, Relaxed);
    header.pgid.store(proc.pgid, Relaxed);
    header.sid.store(proc.sid, Relaxed);
    let Credentials { users, groups, effective, .. } = &proc.who;
    let ids = users.triple().into_iter().chain(groups.triple());
    for (cell, id) in header.ids.iter().zip(ids) {
        cell.store(id, Relaxed);
    }
    header.caps.store(effective.bits(), Relaxed);
}

/// What a child's header has in common with its parent's.
fn copy_header(from: &Header, to: &Header) {
    to.umask.store(from.umask.load(Relaxed), Relaxed);
    to.child_flags.store(from.child_flags.load(Relaxed), Relaxed);
    to.ignored.store(from.ignored.load(Relaxed), Relaxed);
    to.caught.store(from.caught.load(Relaxed), Relaxed);
    let most = from.most_fds.load(Relaxed);
    to.most_fds.store(most, Relaxed);
    for (to, from) in to.fds.iter().zip(&from.fds).take(most as usize) {
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
        who: Credentials,
        now: u64,
    ) -> Proc {
        Proc {
            pid,
            parent: INIT,
            pgid,
            sid,
            state: State::Live,
            status: 0,
            voice: None,
            domain: None,
            native: false,
            cwd,
            name: Vec::new(),
            program: None,
            blocked: None,
            stopped: false,
            stop_signal: 0,
            killed: false,
            news: None,
            vfork: false,
            told: Vec::new(),
            children: Default::default(),
            acts_as: None,
            timers: Default::default(),
            alarms: Default::default(),
            started: now,
            cpu: Default::default(),
            children_cpu: Default::default(),
            children_faults: 0,
            children_peak: 0,
            limits: Limits::default(),
            who,
            dumpable: true,
            execed: false,
            threads: Vec::new(),
            first_ended: false,
        }
    }
}
