//! The end of processes.
//!
//! A process that ends is first emptied: its descriptions are closed, its children get another
//! parent. Its domain is then taken apart in slices, between which requests of others are served.
//! Only when all its memory is free its parent is told: whoever waits for a process finds no trace
//! of it.

use crate::caps::Slots;
use crate::clock::Due;
use crate::procs::*;
use crate::server::Unixd;
use crate::signals::from_kernel;
use crate::wait::{done, Outcome, Tried};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use libos::{invoke, op, CapAddr, Status};
use unixproto::session::CHLD_NOWAIT;
use unixproto::signals::*;

/// Invocations of one slice of the work.
const SLICE: usize = 32;

/// A domain that is being taken apart.
pub struct Ending {
    whose: Whose,
    step: usize,
}

enum Whose {
    /// That of a process which ends with it.
    Process(Pid),
    /// One that a process had before another; its capabilities.
    Former(Slots),
}

impl Ending {
    /// Of a process's domain that another one has replaced.
    pub fn of_domain(caps: Slots) -> Ending {
        Ending { whose: Whose::Former(caps), step: 0 }
    }
}

/// What is deleted, in order: the dispatcher first, so that nothing runs any more.
const STEPS: [u32; 3] = [DISPATCHER, CSPACE, SESSION];
/// How many of them make up the domain itself.
const FORMER: usize = 2;
/// The step at which nobody but this server has the session frame.
const SESSION_STEP: usize = 4;

impl Unixd {
    /// A process asks for its end.
    pub fn exit(&mut self, pid: Pid, status: u32) -> Tried {
        let acted = !self.procs.get(pid)?.has_domain;
        self.suspend_others(pid);
        self.terminate(pid, status & 0xffff);
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
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        if !proc.is_live() {
            return;
        }
        proc.status = status;
        proc.state = State::Ending;
        proc.stopped = false;
        let faults = proc.session.as_ref().map_or(0, |s| s.header().faults.load(Relaxed));
        proc.children_faults += faults;
        // From here on nobody looks at what the process writes; the frame goes with the domain.
        proc.last_session = proc.session.take();
        self.remove_threads(pid);
        if pid == FIRST {
            self.ended = Some(status);
        }
        if let Some(blocked) = self.unblock(pid) {
            self.drop_kept(pid, &blocked.call);
        }
        self.end_vfork(pid);
        self.drop_all(pid);
        let groups = self.groups_anchored_by(pid);
        self.orphan_children(pid);
        self.leave_groups(pid, groups);
        self.ending.push_back(Ending { whose: Whose::Process(pid), step: 0 });
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
        if let Ok(proc) = self.procs.get_mut(pid) {
            proc.parent = INIT;
        }
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
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let held = core::mem::take(&mut proc.held);
        let (cwd, timers) = (proc.cwd, core::mem::take(&mut proc.timers));
        for desc in held {
            self.let_go(pid, desc);
        }
        self.release_node(cwd);
        for (which, timer) in (0..).zip(timers).filter(|(_, timer)| timer.deadline != 0) {
            self.clock.remove(timer.deadline, Due::Timer(pid, which));
        }
    }

    fn orphan_children(&mut self, pid: Pid) {
        for child in self.procs.select(|proc| proc.parent == pid) {
            let Ok(proc) = self.procs.get_mut(child) else { continue };
            proc.parent = INIT;
            let (state, has_domain) = (proc.state, proc.has_domain);
            self.publish(child);
            match state {
                State::Zombie => self.reap(child),
                State::Building => self.terminate(child, killed(SIGKILL)),
                State::Live if !has_domain => self.terminate(child, killed(SIGKILL)),
                _ => {}
            }
        }
    }

    /// One invocation after the other, until the slice is used up or nothing is left.
    pub fn work_off_endings(&mut self) {
        for _ in 0..SLICE {
            let Some(mut ending) = self.ending.pop_front() else { return };
            let (step, steps, done) = match &ending.whose {
                Whose::Process(pid) => {
                    (ending.step, STEPS.len(), self.take_apart(*pid, ending.step))
                }
                Whose::Former(caps) => (ending.step, FORMER, take_part(caps, ending.step)),
            };
            ending.step = if done == Err(Status::Again) { step } else { step + 1 };
            match ending.whose {
                _ if ending.step < 2 * steps => self.ending.push_front(ending),
                Whose::Process(pid) => self.ended(pid),
                Whose::Former(_) => {}
            }
        }
    }

    /// One step: all copies of a capability that others have, then the last one.
    fn take_apart(&mut self, pid: Pid, step: usize) -> Result<(), Status> {
        let Ok(proc) = self.procs.get_mut(pid) else { return Ok(()) };
        let slot: CapAddr = proc.caps.at(STEPS[step / 2]);
        if step == SESSION_STEP {
            let session = proc.last_session.take();
            // What cannot be kept is deleted.
            let _ = self.recycle(slot, session);
            return invoke(slot, op::Revoke {});
        }
        if step == 0 && proc.has_domain {
            let ticks = invoke(slot, op::Usage {}).map_or(0, |usage| usage.value);
            proc.cpu_ns += self.clock.ns(ticks);
        }
        take_part(&proc.caps, step)
    }

    /// Nothing of a process is left: its parent is told.
    fn ended(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.caps = crate::caps::Slots::none();
        proc.state = State::Zombie;
        let (parent, status, uid) = (proc.parent, proc.status, proc.ids[0]);
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
    }

    /// Has everything ended?
    pub fn is_over(&self) -> bool {
        self.ended.is_some() && self.ending.is_empty()
    }

    /// The groups that a process keeps from being orphaned: its own, by having a parent in another
    /// group of the session, and those of its children, by being that parent.
    fn groups_anchored_by(&self, pid: Pid) -> Vec<Pid> {
        let Ok(proc) = self.procs.get(pid) else { return Vec::new() };
        let other = |p: &Proc| p.pgid != proc.pgid && p.sid == proc.sid;
        let children = self.procs.iter().filter(|p| p.parent == pid && p.is_live() && other(p));
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
        if sid == pid && self.terminal.session == Some(sid) {
            let foreground = self.terminal.foreground.take();
            self.terminal.session = None;
            if let Some(group) = foreground {
                self.post_group(group, SIGHUP, from_kernel());
                self.post_group(group, SIGCONT, from_kernel());
            }
        }
        for group in groups {
            let stopped = self.procs.iter().any(|p| p.pgid == group && p.stopped);
            if stopped && self.is_group_orphaned(group) {
                self.post_group(group, SIGHUP, from_kernel());
                self.post_group(group, SIGCONT, from_kernel());
            }
        }
    }
}

/// One step: all copies of a capability that others have, then the last one.
fn take_part(caps: &Slots, step: usize) -> Result<(), Status> {
    let slot = caps.at(STEPS[step / 2]);
    match step % 2 {
        0 => invoke(slot, op::Revoke {}),
        _ => invoke(slot, op::Delete {}),
    }
}
