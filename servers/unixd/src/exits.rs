//! The end of processes.
//!
//! A process that ends is first emptied: its descriptions are closed, its children get another
//! parent. Its domain is then taken apart in slices, between which requests of others are served.
//! Only when all its memory is free its parent is told: whoever waits for a process finds no trace
//! of it.

use crate::caps::Slots;
use crate::clock::Due;
use crate::domains::Domain;
use crate::procs::*;
use crate::server::Unixd;
use crate::signals::from_kernel;
use crate::voices::{Speaker, Voice};
use crate::wait::{done, Outcome, Tried};
use crate::window::Session;
use alloc::boxed::Box;
use alloc::vec::Vec;
use authority::{Badges, Part, Parts, Step, Teardown};
use core::sync::atomic::Ordering::Relaxed;
use libos::{invoke, op, CapAddr, Status};
use unixproto::session::CHLD_NOWAIT;
use unixproto::signals::*;

/// Invocations of one slice of the work.
const SLICE: usize = 32;

/// What somebody had that has ended, while it is taken back.
pub struct Ending {
    /// The process that ends with it.
    whose: Option<Pid>,
    teardown: Teardown,
    voice: Option<Voice>,
    domain: Option<Domain>,
    /// The dispatcher of a thread.
    thread: Option<Slots>,
    /// Something went in an unexpected way: slots may not be empty.
    odd: bool,
}

impl Ending {
    /// Of a process: nobody speaks for it from here on.
    fn of_process(
        badges: &mut Badges<Speaker>,
        pid: Pid,
        parts: (Option<Voice>, Option<Domain>),
    ) -> Ending {
        let (voice, domain) = parts;
        let parts = if domain.is_some() { Parts::ALL } else { Parts::VOICE };
        let teardown = voice.as_ref().and_then(|voice| badges.end(voice.badge, parts));
        let teardown = teardown.unwrap_or_else(Teardown::of_domain);
        Ending { whose: Some(pid), teardown, voice, domain, thread: None, odd: false }
    }

    /// Of a thread other than the first.
    pub fn of_thread(badges: &mut Badges<Speaker>, voice: Voice, dispatcher: Slots) -> Ending {
        let teardown = badges.end(voice.badge, Parts::THREAD).unwrap_or_else(Teardown::of_domain);
        Ending {
            whose: None,
            teardown,
            voice: Some(voice),
            domain: None,
            thread: Some(dispatcher),
            odd: false,
        }
    }

    /// Of a domain that another one has replaced.
    pub fn of_domain(domain: Domain) -> Ending {
        let teardown = Teardown::of_domain();
        Ending {
            whose: None,
            teardown,
            voice: None,
            domain: Some(domain),
            thread: None,
            odd: false,
        }
    }

    /// The slot with this server's capability to a part.
    fn slot(&self, part: Part) -> Option<CapAddr> {
        match part {
            Part::Dispatcher => match &self.thread {
                Some(dispatcher) => Some(dispatcher.first()),
                None => self.domain.as_ref().map(Domain::dispatcher),
            },
            Part::CSpace => self.domain.as_ref().map(Domain::cspace),
            Part::Session => self.voice.as_ref().map(|voice| voice.session.frame()),
            Part::Endpoint => self.voice.as_ref().map(Voice::endpoint),
        }
    }

    /// Does the next step. `true` if more of it is left.
    fn take_step(&mut self, step: Step) -> bool {
        let (Step::Revoke(part) | Step::Release(part)) = step;
        let Some(slot) = self.slot(part) else { return false };
        let result = match step {
            Step::Revoke(_) => invoke(slot, op::Revoke {}),
            // What the process had is revoked now, and is kept for the next one.
            Step::Release(Part::Session) => Ok(()),
            Step::Release(_) => invoke(slot, op::Delete {}),
        };
        // It may be gone already, with the memory that it was made of.
        let expected = matches!(result, Ok(()) | Err(Status::Again | Status::Empty));
        self.odd |= !expected;
        result == Err(Status::Again)
    }

    /// Nothing is left: answers the session frame, for the next one.
    fn over(self) -> Option<Session> {
        if self.odd {
            return None;
        }
        if let Some(dispatcher) = self.thread {
            dispatcher.emptied();
        }
        if let Some(domain) = self.domain {
            domain.emptied();
        }
        self.voice.map(Voice::emptied)
    }
}

impl Unixd {
    /// A process asks for its end.
    pub fn exit(&mut self, pid: Pid, status: u32) -> Tried {
        let acted = self.procs.get(pid)?.is_acted();
        self.procs.suspend(self.other_threads(pid));
        self.terminate(pid, honest(status));
        // The parent, which acted as the process, goes on as itself.
        if acted {
            done(())
        } else {
            Ok(Outcome::Never)
        }
    }

    /// Ends a process with a wait status.
    pub fn terminate(&mut self, pid: Pid, status: u32) {
        if let Some(acted) = self.acted(pid) {
            self.terminate(acted, killed(SIGKILL));
        }
        let Ok(proc) = self.procs.get(pid) else { return };
        if !proc.is_live() {
            return;
        }
        let cpu_ns = self.procs.cpu_ns(&self.clock, proc);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.status = status;
        proc.state = State::Ending;
        proc.stopped = false;
        let faults = proc.session().map_or(0, |session| session.header().faults.load(Relaxed));
        proc.children_faults += faults;
        self.remove_threads(pid);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.cpu_ns = cpu_ns;
        // From here on nobody looks at what the process writes, and nothing is its request.
        let parts = (proc.voice.take(), proc.domain.take());
        let ending = Ending::of_process(&mut self.badges, pid, parts);
        if pid == FIRST {
            self.system.end(status);
        }
        if let Some(blocked) = self.unblock(pid) {
            self.handles().drop_kept(pid, &blocked.call);
        }
        self.end_vfork(pid);
        self.drop_all(pid);
        let groups = self.groups_anchored_by(pid);
        self.orphan_children(pid);
        self.leave_groups(pid, groups);
        self.ending.push_back(Box::new(ending));
        if pid == FIRST {
            self.end_all();
        }
    }

    /// Ends a process by a signal, wherever it is: it runs no further, however long it takes to
    /// take it apart.
    pub fn strike_down(&mut self, pid: Pid, signal: u32) {
        if let Some(dispatcher) = self.procs.live(pid).ok().and_then(Proc::dispatcher) {
            // One that was never started, or waits in a call, does not run anyway.
            let _ = invoke(dispatcher, op::Suspend {});
        }
        self.terminate(pid, killed(signal));
    }

    /// Ends a child that never ran; nobody hears of it.
    pub fn end_quietly(&mut self, pid: Pid) {
        self.procs.set_parent(pid, INIT);
        self.terminate(pid, killed(SIGKILL));
    }

    /// The session is over: everybody ends.
    fn end_all(&mut self) {
        for pid in self.procs.select(|proc| proc.is_live()) {
            self.strike_down(pid, SIGKILL);
        }
    }

    /// Descriptions, working directory, timers.
    fn drop_all(&mut self, pid: Pid) {
        self.forget_cpu_look(pid);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let (cwd, timers) = (proc.cwd, core::mem::take(&mut proc.timers));
        let mut handles = self.handles();
        handles.close_all(pid);
        handles.release(cwd);
        for (which, timer) in (0..).zip(timers).filter(|(_, timer)| timer.deadline != 0) {
            self.clock.remove(timer.deadline, Due::Timer(pid, which));
        }
    }

    fn orphan_children(&mut self, pid: Pid) {
        let children: Vec<Pid> = self.procs.children(pid).map(|proc| proc.pid).collect();
        for child in children {
            self.procs.set_parent(child, INIT);
            let Ok(proc) = self.procs.get(child) else { continue };
            let (state, acted) = (proc.state, proc.is_acted());
            self.publish(child);
            match state {
                State::Zombie => self.reap(child),
                State::Building => self.terminate(child, killed(SIGKILL)),
                State::Live if acted => self.terminate(child, killed(SIGKILL)),
                _ => {}
            }
        }
    }

    /// One invocation after the other, until the slice is used up or nothing is left. Whatever takes
    /// long, as it may if accomplices copy what is revoked, gives way to the others.
    pub fn work_off_endings(&mut self) {
        for _ in 0..SLICE {
            let Some(mut ending) = self.ending.pop_front() else { return };
            let more = ending.teardown.step().is_some_and(|step| ending.take_step(step));
            ending.teardown.done(more);
            if !ending.teardown.finish(&mut self.badges) {
                match more {
                    true => self.ending.push_back(ending),
                    false => self.ending.push_front(ending),
                }
                continue;
            }
            let whose = ending.whose;
            if let Some(session) = ending.over() {
                self.sessions.put_back(session);
            }
            if let Some(pid) = whose {
                self.ended(pid);
            }
        }
    }

    /// Nothing of a process is left: its parent is told.
    fn ended(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.state = State::Zombie;
        self.counters.ended(pid, &mut self.fx);
        self.perform();
        let Ok(proc) = self.procs.get(pid) else { return };
        let (parent, status, uid) = (proc.parent, proc.status, proc.who.users.real);
        self.procs.tell(pid, true);
        let Ok(parent_proc) = self.procs.live(parent) else { return self.reap(pid) };
        let Ok(session) = parent_proc.session() else { return self.reap(pid) };
        let header = session.header();
        let forgets = header.child_flags.load(Relaxed) & CHLD_NOWAIT != 0
            || header.ignored.load(Relaxed) & bit(SIGCHLD) != 0;
        if forgets {
            self.reap(pid);
        }
        self.tell_parent(parent, pid, uid, status);
    }

    /// `SIGCHLD` for the end of a child, and its waits.
    fn tell_parent(&mut self, parent: Pid, pid: Pid, uid: u32, status: u32) {
        let (code, value) = match status & 0x7f {
            0 => (CLD_EXITED, status >> 8 & 0xff),
            signal => (CLD_KILLED, signal),
        };
        let info = SigInfo { code, pid, uid, status: value as i32, value: 0 };
        self.tell_of_child(parent, info);
    }

    /// `SIGCHLD`, and waits. Once a wait is answered the parent may go on at once, on another core, and
    /// must find the signal; but it is told of it afterwards, as a handler's `EINTR` would end the wait.
    pub fn tell_of_child(&mut self, parent: Pid, info: SigInfo) {
        let taker = self.post_quietly(parent, None, SIGCHLD, info);
        self.wake_process(parent);
        self.run_retries();
        if let Some(tid) = taker {
            self.nudge(tid, bit(SIGCHLD));
        }
    }

    /// The entry of a zombie goes.
    pub fn reap(&mut self, pid: Pid) {
        self.procs.remove(pid);
        self.counters.reaped(pid);
    }

    /// Has everything ended?
    pub fn is_over(&self) -> bool {
        self.system.ended().is_some() && self.ending.is_empty()
    }

    /// The groups that a process keeps from being orphaned: its own, by having a parent in another
    /// group of the session, and those of its children, by being that parent.
    fn groups_anchored_by(&self, pid: Pid) -> Vec<Pid> {
        let Ok(proc) = self.procs.get(pid) else { return Vec::new() };
        let other = |p: &Proc| p.pgid != proc.pgid && p.sid == proc.sid;
        let children = self.procs.children(pid).filter(|p| p.is_live() && other(p));
        let mut groups: Vec<Pid> = children.map(|p| p.pgid).collect();
        if self.procs.live(proc.parent).is_ok_and(other) {
            groups.push(proc.pgid);
        }
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Signals for those whom the end of a process leaves without a leader or, if they are stopped,
    /// without anybody who could continue them.
    fn leave_groups(&mut self, pid: Pid, groups: Vec<Pid>) {
        let Ok(proc) = self.procs.get(pid) else { return };
        let sid = proc.sid;
        if sid == pid && self.terminal.session() == Some(sid) {
            if let Some(group) = self.terminal.disown() {
                self.post_group(group, SIGHUP, from_kernel());
                self.post_group(group, SIGCONT, from_kernel());
            }
        }
        for group in groups {
            let stopped = self.procs.members(group).any(|p| p.stopped);
            if stopped && self.is_group_orphaned(group) {
                self.post_group(group, SIGHUP, from_kernel());
                self.post_group(group, SIGCONT, from_kernel());
            }
        }
    }
}

/// The wait status of a process that says itself how it has ended: it has exited, or a signal has
/// killed it.
pub fn honest(status: u32) -> u32 {
    match status & 0x7f {
        0 => exited(status >> 8),
        signal => killed(signal),
    }
}
