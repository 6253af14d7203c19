//! Requests that cannot be answered yet.
//!
//! Such a request is kept as it came. Whatever it waits for knows the process as one of its
//! [`Waiters`]; when something happens there the request is tried again from the start. A process
//! may be woken for nothing, which costs a little and changes nothing.

use crate::clock::Due;
use crate::procs::Pid;
use crate::server::Unixd;
use alloc::vec::Vec;
use libos::ipc::Caps;
use libos::{Place, Status};
use unixproto::ops::error_words;
use unixproto::signals::bit;
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
    /// An id that it keeps between tries (a fifo's description).
    pub kept: u32,
}

impl Call {
    /// One that just came.
    pub fn new(any: Any, lengths: (usize, usize)) -> Call {
        Call { any, lengths, done: 0, late: false, kept: 0 }
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

/// Processes that wait for something.
#[derive(Default)]
pub struct Waiters(Vec<Pid>);

impl Waiters {
    /// One more.
    pub fn add(&mut self, pid: Pid) {
        if !self.0.contains(&pid) {
            self.0.push(pid);
        }
    }
    /// All of them, no longer waiting.
    pub fn take(&mut self) -> Vec<Pid> {
        core::mem::take(&mut self.0)
    }
}

impl Unixd {
    /// Has those tried again who waited for something.
    pub fn wake(&mut self, waiters: Vec<Pid>) {
        for pid in waiters {
            self.wake_one(pid);
        }
    }

    /// Has a process's request tried again.
    pub fn wake_one(&mut self, pid: Pid) {
        if self.procs.get(pid).is_ok_and(|proc| proc.blocked.is_some()) {
            self.retry.push_back(pid);
        }
    }

    /// Keeps a request for later, unless a signal keeps the process from waiting.
    pub fn block(&mut self, pid: Pid, call: Call, deadline: u64) -> Tried {
        if is_interruptible(&call.any) && self.has_signal(pid) {
            return interrupted(&call);
        }
        self.unblock(pid);
        let proc = self.procs.get_mut(pid)?;
        proc.blocked = Some(Blocked { call, deadline });
        if deadline != 0 {
            self.clock.add(deadline, Due::Wait(pid));
        }
        Ok(Outcome::Never)
    }

    /// The process does not wait any more.
    pub fn unblock(&mut self, pid: Pid) -> Option<Blocked> {
        let blocked = self.procs.get_mut(pid).ok()?.blocked.take()?;
        if blocked.deadline != 0 {
            self.clock.remove(blocked.deadline, Due::Wait(pid));
        }
        Some(blocked)
    }

    /// Tries everything again that was woken.
    pub fn run_retries(&mut self) {
        while let Some(pid) = self.retry.pop_front() {
            self.try_again(pid);
        }
    }

    fn try_again(&mut self, pid: Pid) {
        let Some(blocked) = self.unblock(pid) else { return };
        let mut call = blocked.call;
        let outcome = self.attempt(pid, &mut call);
        let outcome = match outcome {
            // The time runs from the first try, unless it began to run only now.
            Ok(Outcome::Block(new)) if blocked.deadline == 0 => self.block(pid, call, new),
            Ok(Outcome::Block(_)) => self.block(pid, call, blocked.deadline),
            other => other,
        };
        self.answer_later(pid, outcome);
    }

    /// The time of what a process waits for is over.
    pub fn wait_is_over(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        let Some(blocked) = &mut proc.blocked else { return };
        blocked.deadline = 0;
        blocked.call.late = true;
        self.retry.push_back(pid);
    }

    /// Ends what a process waits for, because of a signal.
    pub fn interrupt(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get(pid) else { return };
        let Some(blocked) = &proc.blocked else { return };
        if !is_interruptible(&blocked.call.any) {
            return;
        }
        let call = blocked.call;
        self.unblock(pid);
        self.drop_kept(pid, &call);
        self.answer_later(pid, interrupted(&call));
    }

    /// Answers a process that waits in a call, other than the caller of the moment.
    pub fn answer_later(&mut self, pid: Pid, outcome: Tried) {
        let (words, caps) = match outcome {
            Ok(Outcome::Done(words)) => (words, Caps::NONE),
            Ok(Outcome::WithCaps(words, caps)) => (words, caps),
            Ok(Outcome::Block(_) | Outcome::Never) => return,
            Err(error) => (error_words(error), Caps::NONE),
        };
        let Some(to) = self.voice(pid) else { return };
        // A process that is not waiting here has itself to blame.
        if let Err(Status::Again) = libos::ipc::reply(Place::own(to), words, caps) {
            libos::log!("unixd: answer to {pid} not taken");
        }
    }

    /// The dispatcher on which a process's calls come: its own, or that of the parent that acts
    /// as it.
    pub fn voice(&self, pid: Pid) -> Option<libos::CapAddr> {
        let proc = self.procs.get(pid).ok()?;
        match proc.has_domain {
            true => proc.dispatcher(),
            false => self.procs.get(proc.parent).ok()?.dispatcher(),
        }
    }

    /// Is a signal pending that interrupts waiting?
    pub fn has_signal(&self, pid: Pid) -> bool {
        let Ok(session) = self.procs.get(pid).and_then(|proc| proc.session()) else { return false };
        use core::sync::atomic::Ordering::{Acquire, Relaxed};
        let header = session.header();
        header.pending.load(Acquire) & !header.blocked.load(Relaxed) != 0
    }
}

fn interrupted(call: &Call) -> Tried {
    match call.done {
        0 => Err(Errno::EINTR),
        bytes => count(bytes),
    }
}

/// May a signal end this request?
fn is_interruptible(any: &Any) -> bool {
    !matches!(any, Any::ForkCommit(_) | Any::Stop(_))
}

/// Is one of the signals of `set` among those pending?
pub fn first_of(set: u64) -> u32 {
    let signal = set.trailing_zeros() + 1;
    debug_assert!(set == 0 || bit(signal) & set != 0);
    signal
}
