//! Requests that cannot be answered yet.
//!
//! Such a request is kept as it came. Whatever it waits for knows the process as one of its
//! [`Waiters`]; when something happens there the request is tried again from the start. A process
//! may be woken for nothing, which costs a little and changes nothing.

use crate::clock::Due;
use crate::effects::Effects;
use crate::life::Life;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::ipc::Caps;
use libos::{Place, Status};
use unixproto::ops::error_words;
use unixproto::{Any, Errno, Words};

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    /// The request.
    pub call: Call,
    /// When it ends in any case; 0: never.
    pub deadline: u64,
}

/// A request, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The request.
    pub any: Any,
    /// Lengths of its byte strings.
    pub lengths: (usize, usize),
    /// Bytes transferred already.
    pub done: usize,
    /// Its time is over.
    pub late: bool,
    /// What it keeps between tries: of `Open` the description of a fifo; the pipe to which it has lent a buffer, and one.
    pub kept: u32,
    /// What it has lent is not there as it must be.
    pub hole: bool,
    /// It waits for an answer of the host, as no signal ends but those that end the process.
    pub unanswered: bool,
}

impl Call {
    /// One that just came.
    pub fn new(any: Any, lengths: (usize, usize)) -> Call {
        Call { any, lengths, done: 0, late: false, kept: 0, hole: false, unanswered: false }
    }
}

/// What came of trying a request.
pub enum Outcome {
    /// The answer.
    Done(Words),
    /// The answer, with capabilities.
    WithCaps(Words, Caps),
    /// It must wait, until this time (0: for ever).
    Block(u64),
    /// There will be no answer, or somebody else gives it.
    Never,
}

/// Result of trying a request.
pub type Tried = Result<Outcome, Errno>;

/// An answer.
pub fn done<R: unixproto::Reply>(reply: R) -> Tried {
    Ok(Outcome::Done(reply.encode()))
}

/// The answer of a request that counts.
pub fn count(count: usize) -> Tried {
    done(unixproto::ops::Count { count: count as u64 })
}

/// Threads that wait for something.
#[derive(Default)]
pub struct Waiters(Vec<Tid>);

impl Waiters {
    /// One more.
    pub fn add(&mut self, tid: Tid) {
        if !self.0.contains(&tid) {
            self.0.push(tid);
        }
    }
    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Tid> + '_ {
        self.0.iter().copied()
    }
    /// All of them, one by one, no longer waiting. Their room stays for the next ones.
    pub fn drain(&mut self) -> impl Iterator<Item = Tid> + '_ {
        self.0.drain(..)
    }
}

/// Threads that wait for one of many things, by what names it.
pub struct WaitersOf<K>(BTreeMap<K, Waiters>);

impl<K> Default for WaitersOf<K> {
    fn default() -> Self {
        WaitersOf(BTreeMap::new())
    }
}

impl<K: Ord> WaitersOf<K> {
    /// One more waits for this.
    pub fn add(&mut self, key: K, tid: Tid) {
        self.0.entry(key).or_default().add(tid);
    }

    /// Does anybody wait for this?
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Wakes all that wait for this.
    pub fn wake(&mut self, key: &K, fx: &mut Effects) {
        if let Some(mut waiters) = self.0.remove(key) {
            waiters.drain().for_each(|tid| fx.wake(tid));
        }
    }
}

impl Life<'_> {
    /// Has the requests of all threads of a process tried again.
    pub fn wake_process(&mut self, pid: Pid) {
        self.fx.wake(pid);
        if let Ok(proc) = self.procs.get(pid) {
            proc.threads.iter().for_each(|&tid| self.fx.wake(tid));
        }
    }

    /// Keeps a request for later, unless a signal keeps the process from waiting.
    #[inline]
    pub fn block(&mut self, tid: Tid, call: &Call, deadline: u64) -> Tried {
        let has_work = self.procs.has_signal(tid) || self.procs.is_to_stop(tid);
        if has_work && is_interruptible(call) {
            self.fx.drop_kept((self.procs.leader(tid), tid), call);
            return interrupted(call);
        }
        let blocked = self.procs.blocked_mut(tid).ok_or(Errno::ESRCH)?;
        let before = blocked.replace(Blocked { call: *call, deadline });
        if let Some(before) = before.filter(|before| before.deadline != 0) {
            self.clock.remove(before.deadline, Due::Wait(tid));
        }
        if deadline != 0 {
            self.clock.add(deadline, Due::Wait(tid));
        }
        Ok(Outcome::Never)
    }

    /// The thread does not wait any more.
    #[inline]
    pub fn unblock(&mut self, tid: Tid) -> Option<Blocked> {
        let blocked = self.procs.blocked_mut(tid)?.take()?;
        if blocked.deadline != 0 {
            self.clock.remove(blocked.deadline, Due::Wait(tid));
        }
        Some(blocked)
    }

    /// Gives up what a thread waits for.
    pub fn give_up(&mut self, tid: Tid) {
        if let Some(blocked) = self.unblock(tid) {
            self.fx.drop_kept((self.procs.leader(tid), tid), &blocked.call);
        }
    }

    /// Ends what a thread waits for, because of a signal.
    pub fn interrupt(&mut self, tid: Tid) {
        let Some(blocked) = self.procs.blocked(tid) else { return };
        if !is_interruptible(&blocked.call) {
            return;
        }
        let call = blocked.call;
        self.give_up(tid);
        self.procs.answer(tid, interrupted(&call));
    }
}

impl Procs {
    /// Answers a thread that waits in a call, other than the caller of the moment.
    pub fn answer(&self, tid: Tid, outcome: Tried) {
        let (words, caps) = match outcome {
            Ok(Outcome::Done(words)) => (words, Caps::NONE),
            Ok(Outcome::WithCaps(words, caps)) => (words, caps),
            Ok(Outcome::Block(_) | Outcome::Never) => return,
            Err(error) => (error_words(error), Caps::NONE),
        };
        let Some(to) = self.dispatcher_of(tid) else { return };
        // A thread that is not waiting here has itself to blame.
        if let Err(Status::Again) = libos::ipc::reply(Place::own(to), words, caps) {
            libos::log!("unixd: answer to {tid} not taken");
        }
    }
}

fn interrupted(call: &Call) -> Tried {
    match call.done {
        0 => Err(Errno::EINTR),
        bytes => count(bytes),
    }
}

/// May a signal end this request?
fn is_interruptible(call: &Call) -> bool {
    let is_patient = matches!(
        call.any,
        Any::ForkWait(_)
            | Any::TraceStop(_)
            | Any::TraceAnswer(_)
            | Any::Trace(_)
            | Any::TraceMemory(_)
            | Any::AdviseOther(_)
            | Any::MemoryFile(_)
            | Any::Succeed(_)
    );
    // One that somebody has been told of who wants that.
    let is_told = matches!(call.any, Any::CallNotice(_)) && call.kept != 0;
    !is_patient && !is_told && !call.unanswered
}
