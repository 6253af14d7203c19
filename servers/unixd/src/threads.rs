//! Threads.
//!
//! A thread has an id of the same space as processes, a voice and a dispatcher; everything else is its process's. The first thread of a process has the
//! process's id, and its parts are those of the process. Each request comes from a thread, the
//! *caller*: its data is in that one's session frame, and that one waits if somebody has to.

use crate::caps::Slots;
use crate::cputime::CpuTime;
use crate::homes::{Runner, Unit};
use crate::life::Life;
use crate::procs::*;
use crate::scheduling::Scheduling;
use crate::signals::UNSTOPPABLE;
use crate::voices::{Speaker, Voice};
use crate::wait::{done, Blocked, Call, Outcome, Tried};
use crate::window::Session;
use alloc::vec::Vec;
use core::sync::atomic::fence;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use memfs::{Hidden, Ino, Shown};
use smallvec::SmallVec;
use unixproto::ops::Process;
use unixproto::session::{Header, ShownFiles, DATA_BYTES, NOTE_PEER, NOTE_SIGNAL};
use unixproto::signals::bit;
use unixproto::trace::flag;
use unixproto::{Any, Errno};

/// The id of a thread, which is a process id for the first one.
pub type Tid = Pid;

/// A thread other than the first of its process.
pub struct Thread {
    /// Its process.
    pub leader: Pid,
    /// What it speaks with.
    pub voice: Voice,
    /// Its dispatcher, or a copy of one of another core.
    pub dispatcher: Slots,
    /// What the stand-in there knows that by.
    pub unit: Option<Unit>,
    /// What it waits for.
    pub blocked: Option<Blocked>,
    /// Its name, for `/proc`.
    pub name: Vec<u8>,
    /// How it is scheduled.
    pub scheduling: Scheduling,
}

impl Thread {
    /// What runs it.
    #[inline]
    pub fn runner(&self) -> Runner {
        Runner { dispatcher: self.dispatcher.first(), unit: self.unit }
    }
}

/// A path. Most are so short that they need no memory of their own.
pub type PathText = SmallVec<[u8; 64]>;

impl Procs {
    /// The process of a thread.
    #[inline]
    pub fn leader(&self, tid: Tid) -> Pid {
        self.thread(tid).map_or(tid, |thread| thread.leader)
    }
    /// Has a process never had another thread than the first, or none that is left?
    pub fn has_one_thread(&self, pid: Pid) -> bool {
        self.get(pid).is_ok_and(|proc| proc.threads.is_empty())
    }
    /// The threads of a process that have not ended, the first of all at the front.
    pub fn threads_of(&self, pid: Pid) -> Vec<Tid> {
        let Ok(proc) = self.get(pid) else { return Vec::new() };
        let first = (!proc.first_ended).then_some(pid);
        first.into_iter().chain(proc.threads.iter().copied()).collect()
    }
    /// Is this a thread of a live process?
    pub fn is_thread(&self, tid: Tid) -> bool {
        match self.thread(tid) {
            Some(_) => true,
            None => self.live(tid).is_ok_and(|proc| !proc.first_ended),
        }
    }
    /// Has a thread of process `pid` requests? Then whether one of them waits already.
    #[inline]
    pub fn admit(&self, tid: Tid, pid: Pid) -> Option<bool> {
        let proc = self.live(pid).ok()?;
        if tid == pid {
            return (!proc.first_ended).then_some(proc.blocked.is_some());
        }
        Some(self.thread(tid)?.blocked.is_some())
    }
    /// The session frame of a thread.
    #[inline]
    pub fn session_of(&self, tid: Tid) -> Result<&Session, Errno> {
        match self.thread(tid) {
            Some(thread) => Ok(&thread.voice.session),
            None => self.get(tid)?.session(),
        }
    }
    /// What a thread waits for.
    #[inline]
    pub fn blocked(&self, tid: Tid) -> Option<&Blocked> {
        match self.thread(tid) {
            Some(thread) => thread.blocked.as_ref(),
            None => self.get(tid).ok()?.blocked.as_ref(),
        }
    }
    /// Byte string `a` of a request.
    #[inline]
    pub fn a(&self, caller: Speaker, call: &Call) -> Result<Vec<u8>, Errno> {
        Ok(self.session_of(caller.tid)?.data(0, call.lengths.0))
    }
    /// Byte string `a`, which is a path.
    pub fn path(&self, caller: Speaker, call: &Call) -> Result<PathText, Errno> {
        let session = self.session_of(caller.tid)?;
        let mut path = PathText::from_elem(0, call.lengths.0.min(DATA_BYTES));
        session.read(0, &mut path);
        Ok(path)
    }
    /// Byte string `b` of a request.
    pub fn b(&self, caller: Speaker, call: &Call) -> Result<Vec<u8>, Errno> {
        Ok(self.session_of(caller.tid)?.data(call.lengths.0, call.lengths.1))
    }
    /// Puts bytes into the data area of a caller.
    #[inline]
    pub fn put(&self, caller: Speaker, bytes: &[u8]) -> Result<(), Errno> {
        self.session_of(caller.tid)?.put(bytes);
        Ok(())
    }
    /// Whoever knows what was shown is to ask again.
    pub fn hide(&self, hidden: Hidden) {
        match hidden {
            Hidden::Inode(Ino(inode), from) => {
                self.hide_from(from, |files, left| files.hide(inode.into(), left));
            }
            Hidden::Ways(from) => self.hide_from(from, |files, _| files.set_ways(0)),
        }
    }
    fn hide_from(&self, from: Shown, hide: impl Fn(&ShownFiles, &mut dyn FnMut(u32))) {
        let hide = |proc: &Proc| {
            if let Ok(session) = proc.session() {
                hide(session.files(), &mut |desc| self.close_later((proc.pid, desc)));
            }
        };
        match from {
            // A loan is ended where it can be noted what the process has done.
            Shown::Nobody | Shown::Lent(_) | Shown::LentToMany => {}
            Shown::To(pid) => _ = self.get(pid).map(hide),
            Shown::Many => self.iter().for_each(hide),
        }
    }
    /// A process is somebody else now, or descriptions of it are given to others: it is to ask for attributes, and where paths lead, and
    /// keeps nothing.
    pub fn hide_attributes(&self, pid: Pid) {
        self.hide_from(Shown::To(pid), ShownFiles::hide_attributes);
    }
    /// Nobody knows anything of files without asking.
    pub fn hide_all(&self) {
        self.iter().for_each(|proc| self.return_loans(proc));
        self.hide_from(Shown::Many, ShownFiles::clear);
    }
    /// A description that a process has kept, and is to be closed.
    pub fn take_left(&self) -> Option<(Pid, u32)> {
        let next = self.left.borrow_mut().pop();
        self.has_left.set(next.is_some());
        next
    }
    /// A process does not keep a description any more.
    pub fn close_later(&self, left: (Pid, u32)) {
        self.left.borrow_mut().push(left);
        self.has_left.set(true);
    }
    /// A process asks for the attributes of an open file.
    #[inline]
    pub fn look(&self, pid: Pid, Ino(inode): Ino) {
        if let Ok(session) = self.get(pid).and_then(Proc::session) {
            session.files().look(inode.into());
        }
    }
    /// Since when paths of a process have led where they lead: from now on, if it has not been told before.
    pub fn ways(&self, pid: Pid) -> u64 {
        let Ok(session) = self.get(pid).and_then(Proc::session) else { return 0 };
        let files = session.files();
        // Its threads share what it is told.
        if !self.apart.is_empty() && self.has_standing_apart(pid) {
            return 0;
        }
        if files.ways() == 0 {
            self.ways.set(self.ways.get() + 1);
            files.set_ways(self.ways.get());
        }
        files.ways()
    }
    /// The process of a thread.
    pub fn thread_of(&self, tid: Tid) -> Tried {
        match self.is_thread(tid) {
            true => done(Process { pid: self.leader(tid) }),
            false if tid == INIT => done(Process { pid: INIT }),
            false => Err(Errno::ESRCH),
        }
    }
    fn header_of(&self, tid: Tid) -> Option<&Header> {
        Some(self.session_of(tid).ok()?.header())
    }
    /// Does a thread wait for another, as its library says?
    pub fn sleeps(&self, tid: Tid) -> bool {
        self.header_of(tid).is_some_and(|header| header.sleeps.load(Relaxed) != 0)
    }
    /// Notifies a thread of a process, if it sleeps in its library. `false`: there is no such thread any more.
    pub fn rouse(&self, pid: Pid, tid: Tid) -> bool {
        if self.leader(tid) != pid {
            return false;
        }
        // Whoever says that it sleeps looks then whether anything has changed.
        fence(SeqCst);
        if let Some(runner) = self.runner_of(tid).filter(|_| self.sleeps(tid)) {
            runner.notify(NOTE_PEER);
        }
        true
    }
    /// The signals that a thread blocks.
    pub fn mask_of(&self, tid: Tid) -> u64 {
        mask(self.header_of(tid))
    }
    /// The header of a thread, and that of the first thread of its process.
    fn headers_of(&self, tid: Tid) -> (Option<&Header>, Option<&Header>) {
        match self.thread(tid) {
            Some(thread) => (Some(thread.voice.session.header()), self.header_of(thread.leader)),
            None => {
                let own = self.get(tid).and_then(Proc::session).ok().map(Session::header);
                (own, own)
            }
        }
    }
    /// The signals that wait for a thread, or for any of its process.
    pub fn pending_for(&self, tid: Tid) -> u64 {
        pending(self.headers_of(tid))
    }
    /// Is a signal pending that a thread does not block?
    #[inline]
    pub fn has_signal(&self, tid: Tid) -> bool {
        let (own, first) = self.headers_of(tid);
        pending((own, first)) & !mask(own) != 0
    }
    /// Is a thread to look at its header for a tracer?
    #[inline]
    pub fn is_to_stop(&self, tid: Tid) -> bool {
        let wanted = |header: &Header| header.trace.load(Relaxed) & (flag::WANTED | flag::SERVE);
        self.header_of(tid).is_some_and(|header| wanted(header) != 0)
    }
    /// Does a thread wait for one of these signals in `SigWait`?
    pub fn awaits(&self, tid: Tid, signals: u64) -> bool {
        let call = self.blocked(tid).map(|blocked| blocked.call.any);
        matches!(call, Some(Any::SigWait(op)) if op.set & signals != 0)
    }
}

/// The signals that the thread with this header blocks.
fn mask(header: Option<&Header>) -> u64 {
    header.map_or(0, |header| header.blocked.load(Relaxed)) & !UNSTOPPABLE
}

/// The signals that wait for a thread, with its header, or for any of its process, with that of the first.
fn pending((own, first): (Option<&Header>, Option<&Header>)) -> u64 {
    first.map_or(0, |header| header.pending.set()) | own.map_or(0, |header| header.own.set())
}

impl Life<'_> {
    /// The caller ends, with its process if it is the last thread.
    pub fn thread_exit(&mut self, pid: Pid, status: u32) -> Tried {
        let tid = self.caller.tid;
        if tid == pid {
            self.procs.get_mut(pid)?.first_ended = true;
            self.procs.thread_has_no_signals(tid);
            self.end_apart(pid, tid);
        } else {
            self.trace_gone(tid, status);
            self.remove_thread(tid);
        }
        let proc = self.procs.get(pid)?;
        if proc.first_ended && proc.threads.is_empty() {
            // As on Linux, the last one's status is that of the process.
            self.terminate(pid, crate::exits::honest(status));
        } else {
            // Somebody else has to take the signals that this thread was meant to.
            self.retarget(pid);
        }
        Ok(Outcome::Never)
    }

    /// Ends another thread of the caller's process.
    pub fn thread_end(&mut self, pid: Pid, tid: Tid) -> Tried {
        if tid == self.caller.tid || self.procs.thread(tid).is_none_or(|it| it.leader != pid) {
            return Err(Errno::ESRCH);
        }
        self.remove_thread(tid);
        self.retarget(pid);
        done(())
    }

    /// Takes a thread apart, and with it what it was doing.
    fn remove_thread(&mut self, tid: Tid) {
        self.give_up(tid);
        self.trace_gone(tid, self.procs.get(self.procs.leader(tid)).map_or(0, |proc| proc.status));
        let Some(thread) = self.procs.remove_thread(tid) else { return };
        let runner = thread.runner();
        // It does not run any more from here on.
        runner.suspend();
        let used = CpuTime::of(runner.dispatcher, self.clock);
        if let Ok(proc) = self.procs.get_mut(thread.leader) {
            if !proc.heard_by.is_empty() {
                self.fx.leave_notices(tid);
            }
            proc.threads.retain(|&other| other != tid);
            proc.cpu += used;
        }
        self.end_apart(thread.leader, tid);
        let Thread { voice, dispatcher, unit, .. } = *thread;
        self.voices.end_thread(voice, dispatcher, unit);
    }

    /// A thread is over, and stands nowhere if it has not stood with its process.
    pub fn end_apart(&mut self, pid: Pid, tid: Tid) {
        if !self.procs.apart.is_empty() {
            self.procs.end_apart(pid, tid).into_iter().for_each(|it| self.fx.stands_nowhere(it));
        }
    }

    /// Of all threads of its process the caller goes on alone, with what it has.
    pub fn take_over_apart(&mut self) {
        if !self.procs.apart.is_empty() {
            let left = self.procs.take_over_apart(self.caller);
            left.into_iter().for_each(|standing| self.fx.stands_nowhere(standing));
        }
    }

    /// Takes all threads of a process apart but the first.
    pub fn remove_threads(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get(pid) else { return };
        for tid in proc.threads.clone() {
            self.remove_thread(tid);
        }
    }

    /// All threads of a process but the one whose request is being worked on.
    pub fn other_threads(&self, pid: Pid) -> Vec<Tid> {
        if pid == self.caller.tid && self.procs.has_one_thread(pid) {
            return Vec::new();
        }
        let mut all = self.procs.threads_of(pid);
        all.retain(|tid| *tid != self.caller.tid);
        all
    }

    /// Ends a `Poll` of a thread, the present one or the next.
    pub fn stir(&mut self, stirred: &mut Vec<Tid>, tid: Tid) -> Tried {
        if self.procs.leader(tid) != self.caller.pid {
            return Err(Errno::ESRCH);
        }
        match self.procs.blocked(tid).map(|blocked| blocked.call.any) {
            Some(Any::Poll(_)) => self.interrupt(tid),
            _ if !stirred.contains(&tid) => stirred.push(tid),
            _ => {}
        }
        done(())
    }

    /// Has those threads look at the process's signals that can take them.
    pub fn retarget(&mut self, pid: Pid) {
        let Ok(Ok(session)) = self.procs.get(pid).map(|proc| proc.session()) else { return };
        let pending = session.header().pending.set();
        for signal in (1..=64).filter(|&signal| pending & bit(signal) != 0) {
            if let Some(tid) = self.taker(pid, bit(signal)) {
                self.nudge(tid, bit(signal));
            }
        }
    }

    /// The thread that takes a signal of the process: the first that does not block it.
    pub fn taker(&self, pid: Pid, signal: u64) -> Option<Tid> {
        let takes =
            |&tid: &Tid| self.procs.mask_of(tid) & signal == 0 || self.procs.awaits(tid, signal);
        match self.procs.get(pid) {
            Ok(proc) if proc.threads.is_empty() => Some(pid).filter(takes),
            _ => self.procs.threads_of(pid).into_iter().find(takes),
        }
    }

    /// Makes a thread look at its signals.
    pub fn nudge(&mut self, tid: Tid, signal: u64) {
        if self.procs.blocked(tid).is_some() {
            return match self.procs.awaits(tid, signal) {
                true => self.fx.wake(tid),
                false => self.interrupt(tid),
            };
        }
        if let Some(runner) = self.procs.runner_of(tid) {
            runner.notify(NOTE_SIGNAL);
        }
    }
}
