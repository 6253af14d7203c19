//! New processes and new programs.
//!
//! ```text
//! fork    Fork → the child's voice → ForkCommit[domain]     the parent makes the child's domain
//! vfork   Fork(act) → (the parent acts as the child) → Become[domain] or Exit
//! native  Exec → Replace[domain]                            the process goes on as another domain
//! ```

use crate::caps::{mint, Slots};
use crate::descs::Descs;
use crate::domains::{receive_dispatcher, Domain, Guest, OWN};
use crate::ending::Ending;
use crate::homes::{self, Arrival};
use crate::life::Life;
use crate::limits::Limits;
use crate::lines::Controls;
use crate::logins::Login;
use crate::lower::UNREAD;
use crate::names::View;
use crate::nodes::Tree;
use crate::otherspaces::offsets;
use crate::pids::is_same;
use crate::procs::*;
use crate::seals::Seals;
use crate::server::SCRATCH;
use crate::share::UNANSWERED;
use crate::spaces::{flag, InSpaces};
use crate::stock::Stock;
use crate::system::System;
use crate::threads::Thread;
use crate::voices::{show, Speaker, Voice};
use crate::wait::{count, done, Call, Outcome, Tried};
use abi::slots::MONITOR;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use captypes::invocations::options;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{CapSet, Capability, Credentials, SetIds};
use libos::ipc::Caps;
use libos::{Cap, Place};
use unixproto::ops::Process;
use unixproto::session::{Header, NOTE_CLOCK, NOTE_SIGNAL};
use unixproto::signals::{killed, SIGKILL};
use unixproto::{op, Errno, Reply};

/// Longest argument block that is kept for `/proc`.
const CMDLINE_MAX: usize = 4096;
/// File mode creation mask of the first process.
const FIRST_UMASK: u32 = 0o022;

/// What new processes, threads and programs need beside [`Life`].
pub struct Births<'a> {
    pub life: Life<'a>,
    pub descs: &'a mut Descs,
    pub tree: &'a mut Tree,
    pub seals: &'a mut Seals,
    pub stock: &'a mut Stock,
    pub system: &'a System,
    pub nets: &'a mut crate::inet::Sockets,
    /// Which groups are in the foreground of terminals: their ids are not given again.
    pub controls: &'a Controls,
}

/// How a child comes to its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It gets some of its own.
    Forks,
    /// Its parent acts as it.
    Acts,
    /// It runs in its parent's.
    Beside,
}

impl Births<'_> {
    /// A child of the caller.
    pub fn fork(&mut self, pid: Pid, call: &Call, op: op::Fork) -> Tried {
        let op::Fork { act, traced, spaces } = op;
        let parent = self.life.procs.get(pid)?;
        // Who acts as its child has its numbers' name space in common with it.
        let is_elsewhere = !is_same(&parent.pids, &parent.spaces.pids_of_children);
        if act && (is_elsewhere || parent.domain.is_none() || self.life.procs.acted(pid).is_some())
        {
            return Err(Errno::EAGAIN);
        }
        let how = if act { How::Acts } else { How::Forks };
        let child = self.bear(pid, call, how, spaces)?;
        if traced {
            self.life.trace_child(child, child);
        }
        Ok(Outcome::WithCaps(Process { pid: child }.encode(), Caps::moved(SCRATCH, 2)))
    }

    /// A child of the caller that has the caller's memory, and is run by the dispatcher that has come with the request.
    pub fn fork_beside(
        &mut self,
        (pid, call): (Pid, &Call),
        arrival: &mut Arrival,
        op: op::ForkBeside,
    ) -> Tried {
        let host = self.life.procs.host_of(pid);
        let (owner, parent) = (self.life.procs.get(host)?, self.life.procs.get(pid)?);
        if op.shares & COMMON[STANDS] != 0 && op.spaces & (flag::NEWNS | flag::NEWUSER) != 0 {
            return Err(Errno::EINVAL);
        }
        // Nobody acts as somebody else meanwhile, and who ends makes nobody any more.
        let may = owner.domain.is_some() && !owner.native && !parent.killed;
        if arrival.count() != 1 || !may || self.life.procs.acted(host).is_some() {
            return Err(Errno::EAGAIN);
        }
        let child = self.bear(pid, call, How::Beside, op.spaces)?;
        if let Err(error) = self.receive_guest(child, host, arrival) {
            // Nobody will have them.
            SCRATCH.discard();
            SCRATCH.plus(1).discard();
            self.life.end_quietly(child);
            return Err(error);
        }
        self.life.procs.get_mut(child)?.vfork = op.wait;
        // Who does not stand with its process has a place that no other process can have in common with it.
        let stands_apart = self.life.procs.stands_apart(pid, self.life.caller.tid);
        let shares = |n: usize| op.shares & COMMON[n] != 0 && !(n == STANDS && stands_apart);
        for n in (0..COMMON.len()).filter(|&n| shares(n)) {
            let with = match self.life.procs.get(pid)?.common[n] {
                0 => pid,
                with => with,
            };
            for one in [pid, child] {
                self.life.procs.get_mut(one)?.common[n] = with;
            }
        }
        let there = if self.life.procs.get(child)?.guest.as_ref().is_some_and(Guest::is_elsewhere) {
            2
        } else {
            3
        };
        Ok(Outcome::WithCaps(Process { pid: child }.encode(), Caps::moved(SCRATCH, there)))
    }

    /// What runs a child in the memory of `host`.
    fn receive_guest(&mut self, child: Pid, host: Pid, arrival: &mut Arrival) -> Result<(), Errno> {
        let endpoint = self.life.procs.get(child)?.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let (dispatcher, unit) = receive_dispatcher(arrival, endpoint, options::LINUX)?;
        match unit {
            // Its stand-in does so.
            Some(unit) => homes::note(unit, child),
            None => {
                if let Err(error) = mint(dispatcher.first(), SCRATCH.plus(2), OWN) {
                    let guest = Guest { host, dispatcher, unit };
                    self.life.voices.take_back(Ending::of_guest(guest));
                    return Err(error);
                }
            }
        }
        let proc = self.life.procs.get_mut(child)?;
        proc.scheduling.begin(dispatcher.first());
        (proc.guest, proc.state) = (Some(Guest { host, dispatcher, unit }), State::Live);
        self.life.procs.get_mut(host)?.guests.push(child);
        Ok(())
    }

    /// The caller will execute a program, and holds by itself then what it holds with others now.
    pub fn copy_held(&mut self, pid: Pid) -> Tried {
        let is_guest = self.life.procs.get(pid)?.guest.is_some();
        let uid = self.life.procs.real_user(pid);
        self.descs.may_inherit(pid, uid)?;
        if !is_guest || !self.descs.copy(pid, uid) {
            return Err(Errno::EINVAL);
        }
        done(())
    }

    /// An id for a new process or thread of the caller, and the numbers that were chosen for it: `a` says which.
    fn new_id(&mut self, pid: Pid, call: &Call, is_new: bool) -> Result<(Pid, Vec<Pid>), Errno> {
        let procs = &mut *self.life.procs;
        let uid = procs.real_user(pid);
        if call.lengths.0 == 0 {
            return Ok((procs.new_pid(self.controls, uid, None)?, Vec::new()));
        }
        let chosen = procs.a(self.life.caller, call)?;
        let (words, []) = chosen.as_chunks() else { return Err(Errno::EINVAL) };
        let chosen: Vec<Pid> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let space = procs.get(pid)?.spaces.pids_of_children.clone();
        procs.may_choose(pid, (&space, is_new), &chosen)?;
        let wanted = procs.chosen_id((&space, is_new), &chosen)?;
        if wanted.is_some_and(|wanted| self.controls.has_in_foreground(wanted)) {
            return Err(Errno::EEXIST);
        }
        Ok((procs.new_pid(self.controls, uid, wanted)?, chosen))
    }

    /// Makes a child of the caller, with what it speaks with in the scratch slots.
    fn bear(&mut self, pid: Pid, call: &Call, how: How, spaces: u32) -> Result<Pid, Errno> {
        let act = how == How::Acts;
        self.life.procs.may_make_thread(pid)?;
        if how != How::Beside {
            self.descs.may_inherit(pid, self.life.procs.real_user(pid))?;
        }
        let scheduling = self.life.procs.scheduling(self.life.caller.tid)?.inherited()?;
        let is_new = spaces & flag::NEWPID != 0;
        let (child, chosen) = self.new_id(pid, call, is_new)?;
        let voice = self.equip(Speaker { pid: child, tid: child })?;
        let parent = self.life.procs.get(pid)?;
        copy_header(parent.session()?.header(), voice.session.header());
        let (header, parent_tid) = (voice.session.header(), self.life.caller.tid);
        header.umask.store(self.life.procs.umask_of(parent_tid), Relaxed);
        header.blocked.store(self.life.procs.mask_of(parent_tid), Relaxed);
        let proc = Proc {
            state: if act { State::Live } else { State::Building },
            parent: pid,
            voice: Some(voice),
            name: self.life.procs.name_of(self.life.caller.tid).to_vec(),
            program: parent.program.clone(),
            dumpable: parent.dumpable,
            may_keep: Cell::new(true),
            login: parent.login,
            oom_adjust: parent.oom_adjust,
            oom_least: parent.oom_least,
            gives_from: 0,
            heard_by: parent.heard_by.clone(),
            limits: parent.limits.inherited(),
            scheduling,
            spaces: parent.spaces.clone(),
            times: parent.times.clone(),
            pids: parent.pids.clone(),
            ..Proc::new(
                child,
                parent.pgid,
                parent.sid,
                parent.stands,
                parent.who.clone(),
                self.life.clock.now(),
            )
        };
        self.life.procs.add(proc);
        if act {
            self.life.procs.get_mut(pid)?.acts_as = Some(child);
        }
        self.inherit(pid, child, how);
        self.life.procs.inherit_fds(pid, child);
        if spaces != 0 {
            let nets = &mut *self.nets;
            let all = (&mut *self.life.procs, &mut *self.tree, nets, self.system.numbers());
            if let Err(error) = crate::spaces::unshare(all, child, spaces) {
                self.life.end_quietly(child);
                return Err(error);
            }
        }
        let proc = self.life.procs.get_mut(child)?;
        proc.pids = proc.spaces.pids_of_children.clone();
        // Who has memory in common with others has their clocks, until it executes a program.
        if how == How::Forks {
            proc.enter_times();
        }
        if let Err(error) = self.life.procs.give_numbers(child, child, &chosen) {
            self.life.end_quietly(child);
            return Err(error);
        }
        self.life.look_at_cpu_later(child);
        self.life.procs.publish(child);
        let shown = self.life.procs.get(child)?.voice.as_ref().ok_or(Errno::ESRCH);
        if let Err(error) = shown.and_then(show) {
            self.life.end_quietly(child);
            return Err(error);
        }
        if act {
            self.life.procs.acts_otherwise(self.life.procs.scheduling(pid)?, child);
        }
        Ok(child)
    }

    /// Counts what a child holds like its parent.
    fn inherit(&mut self, parent: Pid, child: Pid, how: How) {
        match how {
            How::Beside => self.descs.join(child, parent),
            How::Forks | How::Acts => {
                let uid = self.life.procs.real_user(child);
                self.descs.inherit(parent, (child, uid), how == How::Acts);
                self.seals.inherit(self.descs.holder(parent), child);
            }
        }
        if let Ok(proc) = self.life.procs.get(child) {
            self.tree.hold_standing(&proc.stands);
        }
    }

    /// Starts a child that `fork` made, in the domain that has come with the request.
    pub fn fork_commit(
        &mut self,
        pid: Pid,
        (child, wait): (u32, bool),
        arrival: &mut Arrival,
    ) -> Tried {
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
        let scheduling = proc.scheduling;
        let domain = Domain::receive(arrival, endpoint, options::LINUX)?.start(scheduling)?;
        note_unit(&domain, child);
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
        let is_made = proc.state == State::Building || proc.guest.is_some();
        if proc.parent != pid || !is_made && !proc.is_acted() {
            return Err(Errno::ESRCH);
        }
        let scheduling = proc.scheduling;
        self.life.end_quietly(child);
        self.life.procs.acts_otherwise(scheduling, pid);
        done(())
    }

    /// A child that its parent acted as gets a domain.
    pub fn become_domain(&mut self, pid: Pid, arrival: &mut Arrival) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if proc.domain.is_some() {
            return Err(Errno::EINVAL);
        }
        if proc.guest.is_some() {
            return self.part(pid, arrival);
        }
        if proc.killed {
            // What its parent did not do by itself. The parent goes on.
            self.life.terminate(pid, killed(SIGKILL));
            return done(());
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let (scheduling, parent) = (proc.scheduling, proc.parent);
        let domain = Domain::receive(arrival, endpoint, options::LINUX)?.start(scheduling)?;
        note_unit(&domain, pid);
        self.life.procs.get_mut(pid)?.domain = Some(domain);
        self.life.procs.acts_otherwise(scheduling, parent);
        self.life.procs.tell_of_signals(pid);
        done(())
    }

    /// A process that runs in the memory of another one gets a domain, in which it goes on.
    fn part(&mut self, pid: Pid, arrival: &mut Arrival) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if proc.killed || !self.descs.has_copies(pid) {
            return Err(Errno::EAGAIN);
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let scheduling = proc.scheduling;
        let domain = Domain::receive(arrival, endpoint, options::LINUX)?.start(scheduling)?;
        note_unit(&domain, pid);
        let cpu = self.life.procs.cpu(self.life.clock, self.life.procs.get(pid)?);
        self.descs.part(pid);
        if let Some(guest) = self.life.procs.take_guest(pid) {
            // It waits for the answer, unless it is a forged request of somebody who does something else.
            guest.runner().suspend();
            self.life.voices.take_back(Ending::of_guest(guest));
        }
        let proc = self.life.procs.get_mut(pid)?;
        (proc.domain, proc.cpu) = (Some(domain), cpu);
        self.life.procs.tell_of_signals(pid);
        Ok(Outcome::Never)
    }

    /// The caller goes on as the domain that it has made, a native one or one for a Linux program.
    pub fn replace(&mut self, pid: Pid, arrival: &mut Arrival, linux: bool) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if proc.domain.is_none() {
            return Err(Errno::EINVAL);
        }
        let endpoint = proc.voice.as_ref().ok_or(Errno::ESRCH)?.endpoint();
        let domain = Domain::receive(arrival, endpoint, if linux { options::LINUX } else { 0 })?;
        note_unit(&domain, pid);
        if may_use_cores(proc, linux) && domain.unit.is_none() {
            // Programs of the administrator may use other cores. Empty where there is one core.
            let _ = MONITOR.copy_to(Place::within(domain.cspace(), MONITOR));
        }
        // The first thread may be waiting for something; no other thread runs any further.
        self.life.give_up(pid);
        self.life.trace_takes_over(self.life.caller.tid, pid);
        self.life.procs.suspend(self.life.other_threads(pid));
        self.life.strike_guests(pid);
        self.life.take_over_apart();
        self.life.procs.hand_signals_over(self.life.caller.tid, pid);
        self.life.procs.keep_own_signals(self.life.caller.tid, pid);
        let scheduling = self.life.procs.scheduling(self.life.caller.tid)?;
        self.life.remove_threads(pid);
        let domain = domain.start(scheduling)?;
        let cpu = self.life.procs.cpu(self.life.clock, self.life.procs.get(pid)?);
        let proc = self.life.procs.get_mut(pid)?;
        let old = proc.domain.replace(domain);
        (proc.native, proc.cpu, proc.scheduling) = (!linux, cpu, scheduling);
        proc.first_ended = false;
        self.life.procs.tell_of_queues(pid);
        if let Some(old) = old {
            self.life.voices.take_back(Ending::of_domain(old));
        }
        Ok(Outcome::Never)
    }

    /// A new thread of the caller's process.
    pub fn new_thread(
        &mut self,
        (pid, call): (Pid, &Call),
        arrival: &mut Arrival,
        traced: bool,
    ) -> Tried {
        let proc = self.life.procs.get(pid)?;
        if arrival.count() != 1 || proc.domain.is_none() {
            return Err(Errno::EINVAL);
        }
        if !is_same(&proc.pids, &proc.spaces.pids_of_children) {
            return Err(Errno::EINVAL);
        }
        let options = if proc.native { 0 } else { options::LINUX };
        self.life.procs.may_make_thread(pid)?;
        let scheduling = self.life.procs.scheduling(self.life.caller.tid)?.inherited()?;
        let (tid, chosen) = self.new_id(pid, call, false)?;
        let voice = self.equip(Speaker { pid, tid })?;
        let made = receive_dispatcher(arrival, voice.endpoint(), options);
        let (dispatcher, unit, shown) = match made {
            Ok((dispatcher, unit)) => {
                let minted = match unit {
                    None => mint(dispatcher.first(), SCRATCH.plus(2), OWN),
                    // Its stand-in does so.
                    Some(unit) => {
                        homes::note(unit, pid);
                        Ok(())
                    }
                };
                (dispatcher, unit, minted.and_then(|()| show(&voice)))
            }
            Err(error) => (Slots::none(), None, Err(error)),
        };
        if let Err(error) = shown {
            self.life.voices.end_thread(voice, dispatcher, unit);
            return Err(error);
        }
        if let Err(error) = self.life.procs.give_numbers(pid, tid, &chosen) {
            self.life.voices.end_thread(voice, dispatcher, unit);
            return Err(error);
        }
        let blocked = self.life.procs.mask_of(self.life.caller.tid);
        voice.session.header().blocked.store(blocked, Relaxed);
        let name = self.life.procs.name_of(self.life.caller.tid).to_vec();
        scheduling.begin(dispatcher.first());
        let thread =
            Thread { leader: pid, voice, dispatcher, unit, blocked: None, name, scheduling };
        self.life.procs.add_thread(tid, Box::new(thread));
        self.life.procs.get_mut(pid)?.threads.push(tid);
        self.life.procs.inherit_apart(self.life.caller, tid);
        self.life.look_at_cpu_later(pid);
        self.life.procs.publish(pid);
        if self.life.procs.get(pid)?.stopped {
            self.life.procs.suspend([tid]);
        }
        if traced {
            self.life.trace_child(tid, pid);
        }
        let caps = if unit.is_some() { 2 } else { 3 };
        Ok(Outcome::WithCaps(Process { pid: tid }.encode(), Caps::moved(SCRATCH, caps)))
    }

    /// What a thread that is not there yet will speak with.
    pub fn equip(&mut self, speaker: Speaker) -> Result<Voice, Errno> {
        let others = self.life.procs.len();
        self.life.voices.equip(self.stock, others, speaker)
    }

    /// Name and program of who executes what a request says.
    pub fn program(
        &self,
        caller: Speaker,
        call: &Call,
    ) -> Result<(Vec<u8>, Option<Rc<Program>>), Errno> {
        let (path, mut args) = (self.life.procs.a(caller, call)?, self.life.procs.b(caller, call)?);
        args.truncate(CMDLINE_MAX);
        // Of a script there are two: it gives the name, its interpreter is what is executed.
        let mut names = path.splitn(2, |&byte| byte == 0);
        let path = names.next().unwrap_or_default();
        let executed = names.next().unwrap_or(path);
        let view = View::new(self.tree, self.life.procs, self.descs, caller)?;
        let exe = match view.absolute(executed) {
            Err(again @ (UNANSWERED | UNREAD)) => return Err(again),
            exe => exe.unwrap_or_else(|_| executed.to_vec()),
        };
        Ok((name_of(path), Some(Rc::new(Program { exe, cmdline: args }))))
    }

    /// A new program takes over.
    pub fn exec(&mut self, pid: Pid, call: &Call) -> Tried {
        let caller = self.life.caller;
        let program = self.program(caller, call)?;
        let is_watched = self.life.procs.is_watched(pid);
        let proc = self.life.procs.get(pid)?;
        let is_noted = proc.next_home.get().is_some() || proc.run.is_some();
        let used = is_noted.then(|| self.life.procs.cpu(self.life.clock, proc).ns);
        let proc = self.life.procs.get_mut(pid)?;
        (proc.name, proc.program) = program;
        proc.execed = true;
        if let Some(used) = used {
            proc.change_run(used);
        }
        proc.memories += 1;
        proc.enter_times();
        let before = proc.who.clone();
        let secure = proc.who.exec_as(SetIds::default(), is_watched);
        // Where what it acts as is not what it belongs to, its memory is for neither to see.
        proc.dumpable = proc.who.acts_as_itself() && !proc.who.hides_from(&before);
        self.life.procs.hide_attributes(pid);
        self.life.procs.publish(pid);
        self.life.procs.drop_bequest(pid);
        self.life.delete_alarms(pid);
        self.life.end_vfork(pid);
        count(secure.into())
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

/// Whose a domain is, if a stand-in has it.
fn note_unit(domain: &Domain, pid: Pid) {
    if let Some(unit) = domain.unit {
        homes::note(unit, pid);
    }
}

/// May the program that a process goes on with use other cores? Native ones of the administrator.
pub fn may_use_cores(proc: &Proc, linux: bool) -> bool {
    !linux && proc.has(Capability::SysAdmin)
}

impl Procs {
    /// Writes a process's ids into its header.
    pub fn publish(&self, pid: Pid) {
        let Ok(proc) = self.get(pid) else { return };
        for tid in core::iter::once(pid).chain(proc.threads.iter().copied()) {
            let Ok(session) = self.session_of(tid) else { continue };
            self.publish_to(session.header(), proc, tid);
            session.header().epoch.store(self.epoch, Relaxed);
            session.header().randomizes.store(self.randomizes, Relaxed);
        }
    }

    /// Writes a process's ids into the header of one of its threads.
    fn publish_to(&self, header: &Header, proc: &Proc, tid: Pid) {
        let shown = |id: Pid| self.number_in(&proc.pids, id);
        header.tid.store(shown(tid), Relaxed);
        header.pid.store(shown(proc.pid), Relaxed);
        header.ppid.store(shown(proc.parent), Relaxed);
        header.pgid.store(shown(proc.pgid), Relaxed);
        header.sid.store(shown(proc.sid), Relaxed);
        header.key.store(proc.pid, Relaxed);
        header.thread_key.store(tid, Relaxed);
        header.keeps.store(self.is_space_init(proc).into(), Relaxed);
        for (cell, ns) in header.clocks.iter().zip(offsets(&proc.times)) {
            cell.store(ns, Relaxed);
        }
        publish_who(header, proc);
    }

    /// The clock was set: all are told.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        for proc in self.iter() {
            for tid in core::iter::once(proc.pid).chain(proc.threads.iter().copied()) {
                let Ok(session) = self.session_of(tid) else { continue };
                session.header().epoch.store(epoch, Relaxed);
                if let Some(runner) = self.runner_of(tid) {
                    runner.notify(NOTE_CLOCK);
                }
            }
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
        if let Some(runner) = self.runner_of(pid).filter(|_| self.has_signal(pid)) {
            runner.notify(NOTE_SIGNAL);
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

/// Writes who a process is into a header.
fn publish_who(header: &Header, proc: &Proc) {
    let Credentials { users, groups, effective, .. } = &proc.who;
    let users = users.triple().map(|id| proc.who.shown(false, id));
    let groups = groups.triple().map(|id| proc.who.shown(true, id));
    let ids = users.into_iter().chain(groups);
    for (cell, id) in header.ids.iter().zip(ids) {
        cell.store(id, Relaxed);
    }
    // What the library asks for belongs to the first user name space, but for ids.
    let own = 1 << Capability::Setuid as u64 | 1 << Capability::Setgid as u64;
    let all = if proc.who.space.is_none() { CapSet::ALL } else { CapSet::new(own) };
    header.caps.store(effective.and(all).bits(), Relaxed);
}

/// What a child's header has in common with its parent's.
pub fn copy_header(from: &Header, to: &Header) {
    to.umask.store(from.umask.load(Relaxed) & 0o777, Relaxed);
    to.child_flags.store(from.child_flags.load(Relaxed), Relaxed);
    to.ignored.store(from.ignored.load(Relaxed), Relaxed);
    to.caught.store(from.caught.load(Relaxed), Relaxed);
    let most = from.most_fds.load(Relaxed);
    to.most_fds.store(most, Relaxed);
    for (to, from) in to.fds.iter().zip(&from.fds).take(most as usize) {
        to.store(from.load(Relaxed), Relaxed);
    }
    // Before anybody asks: a signal may come before the child has run, and counts against its limit.
    for (to, from) in to.limits.as_flattened().iter().zip(from.limits.as_flattened()) {
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
        stands: crate::volumes::Standing,
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
            guest: None,
            guests: Vec::new(),
            common: [0; 3],
            heard_by: Vec::new(),
            native: false,
            stands,
            more_fds: Default::default(),
            spaces: InSpaces::first(),
            times: None,
            pids: None,
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
            bequest: None,
            memories: 0,
            coming_groups: Vec::new(),
            dumpable: true,
            may_keep: Cell::new(true),
            login: Login::NONE,
            oom_adjust: 0,
            oom_least: 0,
            gives_from: 0,
            reaps: false,
            execed: false,
            threads: Vec::new(),
            first_ended: false,
            next_home: Default::default(),
            run: None,
            coming: None,
            lent: Default::default(),
            scheduling: Default::default(),
        }
    }
}
