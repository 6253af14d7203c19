//! Where effects are performed.

use crate::descs::Object;
use crate::effects::Effect;
use crate::nodes::Node;
use crate::readiness::Owner;
use crate::server::Unixd;
use crate::signals::{from_kernel, tells_of_file};
use crate::swap;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{Call, Outcome};
use crate::watches::{sources, Source};
use alloc::vec::Vec;
use unixproto::signals::SIGIO;

impl Unixd {
    /// Performs all effects. Whatever those have as effects comes right behind each.
    #[inline(always)]
    pub(super) fn perform(&mut self) {
        if !self.fx.is_empty() {
            self.perform_all();
        }
    }

    #[inline(never)]
    fn perform_all(&mut self) {
        let all = self.fx.begin();
        for index in all.clone() {
            let Some(effect) = self.fx.get(index) else { break };
            self.perform_one(effect);
            if !self.fx.is_empty() {
                self.perform_all();
            }
        }
        self.fx.end(all);
    }

    fn perform_one(&mut self, effect: Effect) {
        match effect {
            Effect::Retry => self.run_retries(),
            Effect::Changed(source, data) => self.tell_watchers(source, data),
            Effect::Urgent(source) => {
                let on = sources!(self, None);
                self.readiness.urgent(source, on, &mut self.fx);
            }
            Effect::Observed => {
                let Unixd { notify, tree, fx, caller, .. } = self;
                if let Some(event) = fx.next_event() {
                    notify.tell((&event, caller.pid), tree, fx);
                }
            }
            Effect::Messages => {
                let messages = self.fx.take_messages();
                self.readiness.message(&self.procs, &messages, &mut self.fx);
            }
            Effect::Own(desc, pid) => {
                if let Ok(users) = self.users_of(pid) {
                    self.readiness.offer_owner((desc, None), Owner::Process(pid), users);
                }
            }
            Effect::Disown(desc) => self.readiness.forget(desc),
            Effect::Post => self.post_next(),
            Effect::PostGroup(group, signal) => self.post_group(group, signal),
            Effect::Nudge(tid, signals) => self.life().nudge(tid, signals),
            Effect::LeavePipe(tid, pipe) => self.pipes.give_up(pipe, tid, &mut self.fx),
            Effect::LeaveSemaphores(tid, id) => self.semaphores.give_up(tid, id),
            Effect::LeaveLeases(tid) => self.leases.leave(tid),
            Effect::LeaveNotice(tid, listener) => {
                self.leave_calls(tid, listener.wrapping_sub(1));
            }
            Effect::LeaveNotices(tid) => {
                self.leave_all_calls(tid);
            }
            Effect::Withdraw(pid, tid, desc) => self.withdraw(pid, tid, desc),
            Effect::CallOver(pid, desc, telling) => {
                let object = self.descs.of(pid, desc).map(|desc| &desc.object);
                if let Ok(&Object::Inet(number)) = object {
                    let now = self.clock.wall();
                    self.sockets.inet.call_over(number, telling, now, &mut self.fx);
                }
            }
            Effect::Close(pid, desc) => self.handles().close(pid, desc),
            Effect::QueueGone(ino) => self.handles().release(Node::Mem(ino)),
            Effect::Release(pid, resident) => {
                if let Some(resident) = resident {
                    self.raise_peak(pid, resident);
                }
                let standing = self.procs.get(pid).map(|proc| proc.stands);
                let mut handles = self.handles();
                handles.close_all(pid);
                if let Ok(standing) = standing {
                    handles.leave(&standing);
                }
                if let Ok(proc) = self.procs.get_mut(pid) {
                    // A zombie is in none that would have to be kept for it.
                    proc.leave_spaces();
                }
                self.end_spaces();
            }
            Effect::Leave => {
                if let Some(standing) = self.fx.next_left() {
                    self.handles().leave(&standing);
                }
            }
            Effect::Ended(pid) => {
                self.counters.ended(pid, &mut self.fx);
                self.semaphores.ended(pid, &mut self.fx);
                swap::ended(pid);
            }
            Effect::Reaped(pid) => {
                self.counters.reaped(pid);
                self.readiness.reaped(pid);
            }
            Effect::LeaderGone(session) => self.terminal.leader_gone(session, &mut self.fx),
            Effect::SessionOver(status) => self.system.end(status),
        }
    }

    /// A process ends before it has told how much private memory it had.
    fn raise_peak(&mut self, pid: u32, resident: u64) {
        let private = self.descs.private_pages(&self.tree, pid);
        if let (1.., Ok(proc)) = (private, self.procs.get_mut(pid)) {
            proc.children_peak = proc.children_peak.max(resident + private);
        }
    }

    fn tell_watchers(&mut self, source: Source, data: bool) {
        self.tell_sets(source, data);
        let watched =
            !self.watches.is_empty() || !self.sets.is_empty() || !self.readiness.is_empty();
        self.fx.set_watched(watched);
        if !self.readiness.is_empty() {
            self.readiness.note((source, data), sources!(self, None), &mut self.fx);
        }
        self.watches.note((source, data), sources!(self, None), &self.procs, &mut self.fx);
    }

    fn post_next(&mut self) {
        let Some((post, rest)) = self.fx.next_post() else { return };
        let posted = self.life().post_to(post.pid, post.thread, post.signal, post.info);
        if posted.is_err() && tells_of_file(&post.info) {
            // As on Linux, it says that there was something that is not known any more.
            let _ = self.life().post_to(post.pid, post.thread, SIGIO, from_kernel());
        }
        self.perform();
        self.fx.resume_posts(rest);
    }

    /// Posts a signal of this server to all processes of a group.
    fn post_group(&mut self, group: u32, signal: u32) {
        let members = self.procs.members(group).filter(|proc| proc.is_live());
        let members: Vec<u32> = members.map(|proc| proc.pid).collect();
        for pid in members {
            self.life().post(pid, signal, from_kernel());
            self.perform();
        }
    }

    /// Performs the effects of the caller's request. Returns `true` if a signal among them has ended
    /// the caller, so that there is nobody to be answered.
    #[inline(always)]
    pub(super) fn settle(&mut self) -> bool {
        if self.fx.is_empty() {
            return false;
        }
        // Whoever has ended itself is answered what its request says.
        let was_live = self.fx.posts() && self.procs.live(self.caller.pid).is_ok();
        self.perform_all();
        was_live && self.procs.live(self.caller.pid).is_err()
    }

    /// Tries everything again that was woken.
    pub(super) fn run_retries(&mut self) {
        loop {
            self.perform();
            let Some(tid) = self.fx.next_woken() else { break };
            let pid = self.procs.leader(tid);
            let caller = core::mem::replace(&mut self.caller, Speaker { pid, tid });
            self.try_again(tid);
            self.caller = caller;
        }
    }

    fn try_again(&mut self, tid: Tid) {
        let Some(blocked) = self.life().unblock(tid) else { return };
        let mut call: Call = blocked.call;
        let outcome = self.next_attempt(self.caller.pid, &mut call);
        self.hide_changed();
        self.keep_attributes();
        if self.settle() {
            return;
        }
        let outcome = match outcome {
            // The time runs from the first try, unless it began to run only now.
            Ok(Outcome::Block(new)) if blocked.deadline == 0 => self.life().block(tid, &call, new),
            Ok(Outcome::Block(_)) => self.life().block(tid, &call, blocked.deadline),
            other => other,
        };
        self.procs.answer(tid, outcome);
    }

    /// The time of what a thread waits for is over.
    pub(super) fn wait_is_over(&mut self, tid: Tid) {
        let Some(Some(blocked)) = self.procs.blocked_mut(tid) else { return };
        blocked.deadline = 0;
        blocked.call.late = true;
        self.fx.wake(tid);
    }
}
