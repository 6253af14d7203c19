//! What a part of the server has others do.
//!
//! A part changes nothing but itself and what it is handed. What must happen elsewhere because of
//! that it adds to the [`Effects`] of the request, and the loop performs them in order, in one place
//! (`Unixd::perform`): before the request is answered or begins to wait, and before another one
//! is looked at. Requests that others wait with are tried again behind that, in the order in which
//! those were woken.

use crate::notify::FileEvent;
use crate::procs::Pid;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::volumes::Standing;
use crate::wait::Call;
use crate::watches::Source;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use memfs::Ino;
use unixproto::signals::SigInfo;
use unixproto::{op, Any, Words};

/// Something that others must do.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Those who were woken are answered now.
    Retry,
    /// Those who watch something are told what is ready there; `true`: data have come.
    Changed(Source, bool),
    /// Those are told by signals who want to know that something is urgent.
    Urgent(Source),
    /// Those who watch files are told of the next event.
    Observed,
    /// Signals tell owners of descriptions that something has happened to those.
    Messages,
    /// Nobody stands any more somewhere.
    Leave,
    /// A process is told of a description if nobody is yet.
    Own(u32, Pid),
    /// Nobody is told of a description any more.
    Disown(u32),
    /// The next signal is posted.
    Post,
    /// A signal of this server is posted to all processes of a group.
    PostGroup(Pid, u32),
    /// A thread looks at its signals, of which these are new.
    Nudge(Tid, u64),
    /// A thread does not wait for a pipe any more.
    LeavePipe(Tid, u32),
    /// A thread does not wait for a set of semaphores any more.
    LeaveSemaphores(Tid, u32),
    /// A thread does not wait for leases any more.
    LeaveLeases(Tid),
    /// A thread does not wait for what a listener decides about its call.
    LeaveNotice(Tid, u32),
    /// A thread that a listener hears is over.
    LeaveNotices(Tid),
    /// A thread does not give a file to one whose call a listener decides about.
    Withdraw(Pid, Tid, u32),
    /// A call of a process that was sending to a description is over, and is told of.
    CallOver(Pid, u32, inet::Telling),
    /// A process closes a description, which it does not know of yet.
    Close(Pid, u32),
    /// A message queue has no name any more.
    QueueGone(Ino),
    /// A process lets everything go: its descriptions and its working directory.
    Release(Pid, Option<u64>),
    /// A process has ended: those who have it open are told.
    Ended(Pid),
    /// A process that has ended has been waited for.
    Reaped(Pid),
    /// The leader of a session has ended.
    LeaderGone(Pid),
    /// The first process has ended, with this wait status.
    SessionOver(u32),
}

/// A signal to be posted.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// To which process.
    pub pid: Pid,
    /// To which thread; whichever takes it.
    pub thread: Option<Tid>,
    /// The signal.
    pub signal: u32,
    /// What comes with it.
    pub info: SigInfo,
}

/// Effects in the order in which they are performed.
#[derive(Default)]
pub struct Effects {
    /// Threads whose requests are tried again, once everything else has been performed.
    woken: VecDeque<Tid>,
    list: Vec<Effect>,
    /// How many at the front are being performed.
    taken: usize,
    /// The signals among them, of which those that are being performed are not there any more.
    posts: VecDeque<Post>,
    /// A signal to a group is among them.
    grouped: bool,
    /// Who is answered last of all, and what: the processor goes to that thread.
    last: Option<(Tid, Words)>,
    /// Somebody watches something: else nobody need be told of changes.
    watched: bool,
    /// Somebody watches files.
    observed: bool,
    /// What was done to files, as far as it was not told yet.
    events: VecDeque<FileEvent>,
    /// Descriptions to which something has happened, and what their owners call them.
    messages: Vec<(u32, u32)>,
    /// Where nobody stands any more.
    left: Vec<Standing>,
    /// What both sides of the last rename are known by.
    cookie: u32,
}

impl Effects {
    /// The request of a thread is tried again, if one waits by then.
    #[inline]
    pub fn wake(&mut self, tid: Tid) {
        self.woken.push_back(tid);
    }

    /// A thread that does not wait any more is answered last of all, before the server waits: so it runs next.
    /// `false`: that is another one.
    pub fn answer_last(&mut self, tid: Tid, words: Words) -> bool {
        let is_free = self.last.is_none();
        if is_free {
            self.last = Some((tid, words));
        }
        is_free
    }

    /// Who is answered now, last of all.
    #[inline]
    pub fn last(&self) -> Option<&(Tid, Words)> {
        self.last.as_ref()
    }

    /// It is answered.
    #[inline]
    pub fn forget_last(&mut self) {
        self.last = None;
    }

    /// The next thread whose request is tried again.
    #[inline]
    pub fn next_woken(&mut self) -> Option<Tid> {
        self.woken.pop_front()
    }

    /// Returns `true` if nothing is left to be performed, nor anything to be tried again.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.woken.is_empty() && self.is_empty()
    }

    /// Those who watch something are told what is ready there; `data`: data have come.
    #[inline]
    pub fn changed(&mut self, source: Source, data: bool) {
        if self.watched {
            self.list.push(Effect::Changed(source, data));
        }
    }

    /// Something urgent has come.
    pub fn urgent(&mut self, source: Source) {
        if self.watched {
            self.list.push(Effect::Urgent(source));
        }
    }

    /// Does somebody watch any file?
    #[inline]
    pub fn observed(&self) -> bool {
        self.observed
    }

    /// Somebody watches files, or nobody does.
    pub fn set_observed(&mut self, observed: bool) {
        self.observed = observed;
    }

    /// Those who watch files are told of an event, if there are any.
    #[inline]
    pub fn observe(&mut self, event: impl FnOnce() -> FileEvent) {
        if self.observed {
            self.list.push(Effect::Observed);
            self.events.push_back(event());
        }
    }

    /// What both sides of a rename are known by.
    pub fn cookie(&mut self) -> u32 {
        self.cookie = self.cookie.wrapping_add(1).max(1);
        self.cookie
    }

    /// The event that is told next.
    pub fn next_event(&mut self) -> Option<FileEvent> {
        self.events.pop_front()
    }

    /// A signal tells the owner of a description, who calls it `fd`, that something has happened to it.
    pub fn message(&mut self, desc: u32, fd: u32) {
        if self.messages.is_empty() {
            self.list.push(Effect::Messages);
        }
        self.messages.push((desc, fd));
    }

    /// The descriptions of which owners are told, and what those call them.
    pub fn take_messages(&mut self) -> Vec<(u32, u32)> {
        core::mem::take(&mut self.messages)
    }

    /// A process is told of a description if nobody is yet.
    pub fn own(&mut self, desc: u32, pid: Pid) {
        self.list.push(Effect::Own(desc, pid));
    }

    /// Nobody is told of a description any more, and by no signal.
    pub fn disown(&mut self, desc: u32) {
        self.list.push(Effect::Disown(desc));
    }

    /// Posts a signal to the thread that made the request.
    pub fn post_to(&mut self, to: Speaker, signal: u32, info: SigInfo) {
        self.list.push(Effect::Post);
        self.posts.push_back(Post { pid: to.pid, thread: Some(to.tid), signal, info });
    }

    /// Posts a signal to a process.
    pub fn post(&mut self, pid: Pid, signal: u32, info: SigInfo) {
        self.list.push(Effect::Post);
        self.posts.push_back(Post { pid, thread: None, signal, info });
    }

    /// Posts a signal of this server to all processes of a group.
    pub fn post_group(&mut self, group: Pid, signal: u32) {
        self.grouped = true;
        self.list.push(Effect::PostGroup(group, signal));
    }

    /// Those who were woken are answered before anything else happens.
    pub fn retry(&mut self) {
        self.list.push(Effect::Retry);
    }

    /// A thread looks at its signals, of which these are new.
    pub fn nudge(&mut self, tid: Tid, signals: u64) {
        self.list.push(Effect::Nudge(tid, signals));
    }

    /// A thread that a listener hears is over.
    pub fn leave_notices(&mut self, tid: Tid) {
        self.list.push(Effect::LeaveNotices(tid));
    }

    /// A name is gone that a message queue had.
    pub fn queue_gone(&mut self, ino: Ino) {
        self.list.push(Effect::QueueGone(ino));
    }

    /// A request of a thread is given up that may have opened something already, or is among those who wait for something.
    pub fn drop_kept(&mut self, (pid, tid): (Pid, Tid), call: &Call) {
        match call.any {
            Any::Open(_) | Any::OpenHandle(_) if call.kept != 0 => {
                self.list.push(Effect::Close(pid, call.kept))
            }
            Any::PipeRead(_) | Any::PipeWrite(_) if call.kept != 0 => {
                self.list.push(Effect::LeavePipe(tid, call.kept - 1));
            }
            Any::Open(_) | Any::OpenHandle(_) | Any::Truncate(_) => {
                self.list.push(Effect::LeaveLeases(tid))
            }
            Any::CallNotice(op) => self.list.push(Effect::LeaveNotice(tid, op.listener)),
            Any::NoticeAddFd(op) => self.list.push(Effect::Withdraw(pid, tid, op.desc)),
            Any::SwapOff(_) => crate::swap::stays_on(tid),
            Any::Send(op::Send { desc, .. }) | Any::Write(op::Write { desc }) => {
                if let Some(telling) = crate::inet::told_of(call) {
                    self.list.push(Effect::CallOver(pid, desc, telling));
                }
            }
            Any::SemaphoreOps(op) => self.list.push(Effect::LeaveSemaphores(tid, op.id)),
            _ => {}
        }
    }

    /// Nobody stands there any more.
    pub fn stands_nowhere(&mut self, standing: Standing) {
        self.left.push(standing);
        self.list.push(Effect::Leave);
    }

    /// One of those where nobody does.
    pub fn next_left(&mut self) -> Option<Standing> {
        self.left.pop()
    }

    /// A process lets everything go: its descriptions and its working directory. If it has not counted
    /// those that are files, it had so many private pages besides.
    pub fn release(&mut self, pid: Pid, resident: Option<u64>) {
        self.list.push(Effect::Release(pid, resident));
    }

    /// A process has ended: those who have it open are told.
    pub fn process_ended(&mut self, pid: Pid) {
        self.list.push(Effect::Ended(pid));
    }

    /// A process that has ended has been waited for, or nobody will.
    pub fn reaped(&mut self, pid: Pid) {
        self.list.push(Effect::Reaped(pid));
    }

    /// The leader of a session has ended.
    pub fn leader_gone(&mut self, session: Pid) {
        self.list.push(Effect::LeaderGone(session));
    }

    /// The first process has ended, with a wait status.
    pub fn session_over(&mut self, status: u32) {
        self.list.push(Effect::SessionOver(status));
    }

    /// Returns `true` if there is nothing to be performed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.len() == self.taken
    }

    /// Returns `true` if a signal is to be posted.
    #[inline]
    pub fn posts(&self) -> bool {
        self.grouped || !self.posts.is_empty()
    }

    /// Takes what is to be performed: from where, and up to where.
    pub fn begin(&mut self) -> Range<usize> {
        self.grouped = false;
        let all = self.taken..self.list.len();
        self.taken = all.end;
        all
    }

    /// One of what was taken.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Effect> {
        self.list.get(index).copied()
    }

    /// What was taken has been performed. Its room stays for the next ones.
    pub fn end(&mut self, all: Range<usize>) {
        self.list.truncate(all.start);
        self.taken = all.start;
    }

    /// The signal whose turn it is, and those that come after all that it has as effects.
    pub fn next_post(&mut self) -> Option<(Post, VecDeque<Post>)> {
        let post = self.posts.pop_front()?;
        Some((post, core::mem::take(&mut self.posts)))
    }

    /// The turn of the others has come.
    pub fn resume_posts(&mut self, rest: VecDeque<Post>) {
        self.posts = rest;
    }

    /// Nobody watches anything any more, or somebody does.
    pub fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }
}
