//! What a part of the server has others do.
//!
//! A part changes nothing but itself and what it is handed. What must happen elsewhere because of
//! that it adds to the [`Effects`] of the request, and the loop performs them in order, in one place
//! ([`Unixd::perform`]): before the request is answered or begins to wait, and before another one
//! is looked at.

use crate::procs::Pid;
use crate::server::Unixd;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::watches::{Source, Sources};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use unixproto::signals::SigInfo;

/// Something that others must do.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// The request of a thread is tried again, if one waits.
    Wake(Tid),
    /// Those who watch something are told what is ready there; `true`: data have come.
    Changed(Source, bool),
    /// The next signal is posted.
    Post,
}

/// A signal to be posted.
#[derive(Clone, Copy, Debug)]
struct Post {
    pid: Pid,
    /// To which thread; whichever takes it.
    thread: Option<Tid>,
    signal: u32,
    info: SigInfo,
}

/// Effects in the order in which they are performed.
#[derive(Default)]
pub struct Effects {
    list: Vec<Effect>,
    /// How many at the front are being performed.
    taken: usize,
    /// The signals among them, of which those that are being performed are not there any more.
    posts: VecDeque<Post>,
    /// Somebody watches something: else nobody need be told of changes.
    watched: bool,
}

impl Effects {
    /// The request of a thread is tried again, if one waits.
    #[inline]
    pub fn wake(&mut self, tid: Tid) {
        self.list.push(Effect::Wake(tid));
    }

    /// Those who watch something are told what is ready there; `data`: data have come.
    #[inline]
    pub fn changed(&mut self, source: Source, data: bool) {
        if self.watched {
            self.list.push(Effect::Changed(source, data));
        }
    }

    /// From now on somebody watches something.
    pub fn begin_watching(&mut self) {
        self.watched = true;
    }

    /// Posts a signal to the thread that made the request.
    pub fn post_to(&mut self, to: Speaker, signal: u32, info: SigInfo) {
        self.list.push(Effect::Post);
        self.posts.push_back(Post { pid: to.pid, thread: Some(to.tid), signal, info });
    }

    /// Returns `true` if there is nothing to be performed.
    #[inline]
    fn is_empty(&self) -> bool {
        self.list.len() == self.taken
    }
}

impl Unixd {
    /// Performs all effects. Whatever those have as effects comes right behind each.
    ///
    /// Returns `true` if a signal was posted.
    #[inline(always)]
    pub fn perform(&mut self) -> bool {
        !self.fx.is_empty() && self.perform_all()
    }

    #[inline(never)]
    fn perform_all(&mut self) -> bool {
        let posts = !self.fx.posts.is_empty();
        let (start, end) = (self.fx.taken, self.fx.list.len());
        self.fx.taken = end;
        for index in start..end {
            let Some(&effect) = self.fx.list.get(index) else { break };
            match effect {
                Effect::Wake(tid) => self.wake_one(tid),
                Effect::Changed(source, data) => self.tell_watchers(source, data),
                Effect::Post => self.perform_post(),
            }
            if !self.fx.is_empty() {
                self.perform_all();
            }
        }
        self.fx.list.truncate(start);
        self.fx.taken = start;
        posts
    }

    #[cold]
    fn tell_watchers(&mut self, source: Source, data: bool) {
        self.tell_sets(source, data);
        let Unixd { descs, pipes, counters, sets, clock, terminal, procs, watches, fx, .. } = self;
        fx.watched = !watches.is_empty() || !sets.is_empty();
        let sources = Sources { descs, pipes, counters, sets, clock, terminal };
        watches.note((source, data), sources, procs, fx);
    }

    #[cold]
    fn perform_post(&mut self) {
        // The first is the one whose turn it is: those that it has as effects come after it, and the
        // effects that they belong to are performed before the next one.
        let Some(post) = self.fx.posts.pop_front() else { return };
        let rest = core::mem::take(&mut self.fx.posts);
        self.post_to(post.pid, post.thread, post.signal, post.info);
        self.perform();
        self.fx.posts = rest;
    }
}
