//! The end of processes.
//!
//! A process that ends is first emptied: its descriptions are closed, its children get another
//! parent. Its domain is then taken apart in slices, between which requests of others are served.
//! Only when all its memory is free its parent is told: whoever waits for a process finds no trace
//! of it.

use crate::clock::Due;
use crate::life::Life;
use crate::procs::*;
use crate::procsystem::usage;
use crate::queues::Waiting;
use crate::unclaimed::Answer;
use crate::voices::Gone;
use crate::wait::{done, Outcome, Tried};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::session::CHLD_NOWAIT;
use unixproto::signals::*;

/// Invocations of one slice of the work.
const SLICE: usize = 32;

impl Life<'_> {
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
        if let Some(acted) = self.procs.acted(pid) {
            self.terminate(acted, killed(SIGKILL));
        }
        let Ok(proc) = self.procs.get(pid) else { return };
        if !proc.is_live() {
            return;
        }
        self.strike_guests(pid);
        let Ok(proc) = self.procs.get(pid) else { return };
        let cpu = self.procs.cpu(self.clock, proc);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let acted = proc.is_acted().then_some((proc.scheduling, proc.parent));
        proc.status = status;
        proc.state = State::Ending;
        proc.stopped = false;
        if !proc.heard_by.is_empty() {
            proc.heard_by.clear();
            self.procs.threads_of(pid).into_iter().for_each(|tid| self.fx.leave_notices(tid));
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let usage = usage(proc);
        proc.children_faults += usage.faults;
        proc.children_peak = proc.children_peak.max(usage.most_resident);
        if let Some((scheduling, parent)) = acted {
            self.procs.acts_otherwise(scheduling, parent);
        }
        self.remove_threads(pid);
        self.end_apart(pid, pid);
        if let Ok(proc) = self.procs.get(pid) {
            self.procs.return_loans(proc);
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.cpu = cpu;
        // How long one would have run that is killed is not known.
        if status & 0x7f == 0 {
            proc.change_run(cpu.ns);
        }
        // From here on nobody looks at what the process writes, and nothing is its request.
        let (voice, domain) = (proc.voice.take(), proc.domain.take());
        let coming = proc.coming.take();
        let parts = (voice, domain, self.procs.take_guest(pid));
        let ending = self.voices.end_process(pid, parts);
        if let Some(coming) = coming {
            self.voices.end_former(coming.voice, Some(coming.domain));
        }
        self.procs.parcels.forget(pid);
        self.procs.drop_bequest(pid);
        self.give_up(pid);
        for other in self.procs.close_space(pid) {
            self.kill_at_once(other);
        }
        self.trace_gone(pid, status);
        self.tracer_gone(pid);
        self.end_vfork(pid);
        // Who ends itself has counted what it had.
        let counts = status & 0x7f != 0;
        self.drop_all(pid, counts.then_some(usage.resident));
        let groups = self.groups_anchored_by(pid);
        self.orphan_children(pid);
        self.leave_groups(pid, groups);
        self.voices.take_back(ending);
        if pid == FIRST {
            self.fx.session_over(status);
            self.end_all();
        }
    }

    /// Ends a process by a signal, wherever it is: it runs no further, however long it takes to
    /// take it apart.
    ///
    /// One that runs in the memory of another ends by itself, as those that go on there need what it may have in its hands.
    pub fn strike_down(&mut self, pid: Pid, signal: u32) {
        if self.procs.get(pid).is_ok_and(|proc| proc.guest.is_some()) {
            return self.kill_at_once(pid);
        }
        if let Some(domain) = self.procs.live(pid).ok().and_then(|proc| proc.domain.as_ref()) {
            // One that was never started, or waits in a call, does not run anyway.
            domain.runner().suspend();
        }
        self.terminate(pid, killed(signal));
    }

    /// The memory of a process goes, and with it those that run there.
    pub fn strike_guests(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get(pid) else { return };
        for guest in proc.guests.clone() {
            self.procs.suspend([guest]);
            self.terminate(guest, killed(SIGKILL));
        }
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

    /// Descriptions, working directory, timers. Who has not counted its large private memory had so many private pages besides.
    fn drop_all(&mut self, pid: Pid, resident: Option<u64>) {
        self.forget_cpu_look(pid);
        self.fx.release(pid, resident);
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let timers = core::mem::take(&mut proc.timers);
        for (which, timer) in (0..).zip(timers).filter(|(_, timer)| timer.deadline != 0) {
            self.clock.remove(timer.deadline, Due::Timer(pid, which));
        }
        self.delete_alarms(pid);
        self.procs.process_has_no_signals(pid);
    }

    fn orphan_children(&mut self, pid: Pid) {
        let children: Vec<Pid> = self.procs.children(pid).map(|proc| proc.pid).collect();
        let reaper = self.procs.reaper_of(pid);
        for child in children {
            self.procs.set_parent(child, reaper);
            let Ok(proc) = self.procs.get(child) else { continue };
            let (state, acted) = (proc.state, proc.is_acted());
            self.procs.publish(child);
            match state {
                State::Zombie if reaper == INIT => self.reap(child),
                // Its new parent is told as the first one was.
                State::Zombie => self.tell_end(child),
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
            match self.voices.go_on() {
                None => return,
                Some(Gone::Part) => {}
                Some(Gone::Process(pid)) => self.ended(pid),
                Some(Gone::Sent(answer)) => self.answer_late(answer),
            }
        }
    }

    /// What came with a request and was not taken is gone: its sender is answered, if it still waits.
    fn answer_late(&self, answer: Answer) {
        if self.voices.who(answer.badge).is_some_and(|there| there.tid == answer.tid) {
            self.procs.answer(answer.tid, Ok(Outcome::Done(answer.words)));
        }
    }

    /// Nothing of a process is left: its parent is told.
    fn ended(&mut self, pid: Pid) {
        if self.procs.awaits_others(pid) {
            return;
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.state = State::Zombie;
        let init = self.procs.has_ended(pid);
        self.tell_end(pid);
        if let Some(init) = init {
            self.ended(init);
        }
    }

    fn tell_end(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get(pid) else { return };
        self.fx.process_ended(pid);
        let (parent, status, uid) = (proc.parent, proc.status, proc.who.users.real);
        self.procs.tell(pid, true);
        let Ok(parent_proc) = self.procs.live(parent) else { return self.reap(pid) };
        let Ok(session) = parent_proc.session() else { return self.reap(pid) };
        let header = session.header();
        let forgets = header.child_flags.load(Relaxed) & CHLD_NOWAIT != 0
            || header.ignored.load(Relaxed) & bit(SIGCHLD) != 0;
        self.tell_parent(parent, pid, uid, status);
        if forgets {
            self.reap(pid);
        }
    }

    /// The entry of a zombie goes.
    fn reap(&mut self, pid: Pid) {
        self.procs.remove(pid);
        self.fx.reaped(pid);
    }

    /// `SIGCHLD` for the end of a child, and its waits.
    fn tell_parent(&mut self, parent: Pid, pid: Pid, uid: u32, status: u32) {
        let (code, value) = end_of_child(status);
        let info = SigInfo { code, pid, uid, status: value as i32, value: 0 };
        self.tell_of_child(parent, info);
    }

    /// `SIGCHLD`, and waits. Once a wait is answered the parent may go on at once, on another core, and
    /// must find the signal; but it is told of it afterwards, as a handler's `EINTR` would end the wait.
    pub fn tell_of_child(&mut self, parent: Pid, info: SigInfo) {
        // It is a standard signal.
        let taker = self.post_quietly(parent, None, SIGCHLD, Waiting::of(info)).unwrap_or(None);
        self.wake_process(parent);
        self.fx.retry();
        if let Some(tid) = taker {
            self.fx.nudge(tid, bit(SIGCHLD));
        }
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
        if sid == pid {
            self.fx.leader_gone(sid);
        }
        for group in groups {
            let stopped = self.procs.members(group).any(|p| p.stopped);
            if stopped && self.procs.is_group_orphaned(group) {
                self.fx.post_group(group, SIGHUP);
                self.fx.post_group(group, SIGCONT);
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
