//! Signals that wait: one of each number in a header, where the library takes it, and more behind it, here.
//!
//! Real-time signals wait each for itself, and so do those of timers, whatever their number; other signals once. How many a user
//! may have is what the limit of the process says to which one more is sent, as on Linux; and, whatever that says, no more than
//! is [his share](piecewise::Shares) of what there is room for.

use crate::procs::{Pid, Proc, Procs};
use crate::threads::Tid;
use alloc::rc::Rc;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use sigqueue::Owner;
use unixproto::session::Pending;
use unixproto::signals::{bit, SigInfo, SI_KERNEL, SI_TIMER, SI_USER};
use unixproto::{limit, Errno};

/// How many may wait here in all: two MiB of memory.
pub const QUEUED_MAX: usize = 32 * 1024;
/// The first signal of which each is kept.
const FIRST_REALTIME: u32 = 32;
/// Most signals in the headers of a process and of one thread.
const IN_HEADER: u64 = 2 * 64;

/// What a timer and its signal have in common.
#[derive(Default)]
pub struct Ticket {
    /// How often more it has expired since the signal was posted.
    pub overrun: Cell<u32>,
    /// The timer was set anew, or is gone: the signal is not to come.
    pub is_void: Cell<bool>,
}

/// A signal that waits.
pub struct Waiting {
    info: SigInfo,
    ticket: Option<Rc<Ticket>>,
}

impl Waiting {
    /// One that somebody sent.
    pub fn of(info: SigInfo) -> Waiting {
        Waiting { info, ticket: None }
    }

    /// That of a timer.
    pub fn of_timer(info: SigInfo, ticket: Rc<Ticket>) -> Waiting {
        Waiting { info, ticket: Some(ticket) }
    }

    /// What is said of who has sent it, to be changed.
    pub fn info_mut(&mut self) -> &mut SigInfo {
        &mut self.info
    }

    /// What comes with it, as it is now; `None`: it is not to come.
    fn info(&self) -> Option<SigInfo> {
        match &self.ticket {
            None => Some(self.info),
            Some(ticket) if ticket.is_void.get() => None,
            Some(ticket) => Some(SigInfo { uid: ticket.overrun.get(), ..self.info }),
        }
    }
}

impl Procs {
    /// Where the signals of an owner wait that its library sees.
    fn pending_of(&self, owner: Owner) -> Option<&Pending> {
        Some(match owner {
            Owner::Process(pid) => &self.get(pid).ok()?.session().ok()?.header().pending,
            Owner::Thread(tid) => &self.session_of(tid).ok()?.header().own,
        })
    }

    /// The signals that wait, with what comes with each: by their numbers, and those of one number in the order in which they came.
    pub fn waiting_signals(&self, owner: Owner) -> impl Iterator<Item = (u32, SigInfo)> + '_ {
        let pending = self.pending_of(owner);
        (1..=64).flat_map(move |signal| {
            let first = pending.and_then(|pending| pending.peek(signal));
            let behind = self.queues.all_of(owner, signal).filter_map(Waiting::info);
            first.into_iter().chain(behind).map(move |info| (signal, info))
        })
    }

    /// Adds a signal to those that wait. `false`: one waits, and it does so only once.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: too many wait, and what comes with this one must not be lost.
    pub fn add_signal(
        &mut self,
        pid: Pid,
        owner: Owner,
        signal: u32,
        what: Waiting,
    ) -> Result<bool, Errno> {
        let Some(pending) = self.pending_of(owner) else { return Ok(false) };
        let is_there = pending.set() & bit(signal) != 0 || self.queues.has(owner, signal);
        let is_queued = signal >= FIRST_REALTIME || what.ticket.is_some();
        if is_there && !is_queued {
            return Ok(false);
        }
        let code = what.info.code;
        // Timers have a place already. Of standard signals it is only what a program says that can be lost.
        let is_counted = what.ticket.is_none() && (signal >= FIRST_REALTIME || code < 0);
        let user = self.real_user(pid);
        if is_counted && !self.has_room_for_signal(pid, user) {
            if signal >= FIRST_REALTIME && !matches!(code, SI_USER | SI_KERNEL) {
                return Err(Errno::EAGAIN);
            }
            // As on Linux, it comes, and nobody knows from where.
            let lost = SigInfo { code: SI_USER, ..SigInfo::default() };
            return Ok(!is_there && pending.post(signal, lost));
        }
        let Some(info) = what.info() else { return Ok(false) };
        if !is_there {
            pending.post(signal, info);
            return Ok(true);
        }
        let user = what.ticket.is_none().then_some(user);
        self.queues.push(owner, signal, user, what);
        let more = self.queues.signals(owner);
        let Some(pending) = self.pending_of(owner) else { return Ok(false) };
        pending.set_more(more);
        if pending.set() & bit(signal) == 0 {
            // It was taken in the meantime, maybe before there was more to be seen.
            self.next_signal(owner, signal);
        }
        Ok(true)
    }

    /// Puts the next signal of a number into the header, unless one is there. Returns `true` if it did.
    pub fn next_signal(&mut self, owner: Owner, signal: u32) -> bool {
        let Some(pending) = self.pending_of(owner) else { return false };
        if pending.set() & bit(signal) != 0 {
            return false;
        }
        let info = loop {
            match self.queues.pop(owner, signal) {
                None => break None,
                Some(waiting) => match waiting.info() {
                    None => {}
                    Some(info) => break Some(info),
                },
            }
        };
        let more = self.queues.signals(owner);
        let Some(pending) = self.pending_of(owner) else { return false };
        pending.set_more(more);
        info.is_some_and(|info| pending.post(signal, info))
    }

    /// None of a set of signals waits behind another any more, for a process and all of its threads.
    pub fn forget_signals(&mut self, pid: Pid, set: u64) {
        self.forget_signals_of(Owner::Process(pid), set);
        for tid in self.threads_of(pid) {
            self.forget_signals_of(Owner::Thread(tid), set);
        }
    }

    fn forget_signals_of(&mut self, owner: Owner, set: u64) {
        if self.queues.signals(owner) & set != 0 {
            self.queues.forget(owner, set);
            let more = self.queues.signals(owner);
            self.pending_of(owner).inspect(|pending| pending.set_more(more));
        }
    }

    /// A set of signals is ignored now: none of them waits for a process.
    pub fn drop_signals(&mut self, pid: Pid, set: u64) {
        self.forget_signals(pid, set);
        let owners = self.threads_of(pid).into_iter().map(Owner::Thread);
        for owner in owners.chain([Owner::Process(pid)]) {
            self.pending_of(owner).inspect(|pending| pending.clear(set));
        }
    }

    /// A thread has ended: nothing waits for it.
    pub fn thread_has_no_signals(&mut self, tid: Tid) {
        self.queues.forget(Owner::Thread(tid), u64::MAX);
    }

    /// A process has ended: nothing waits for it, nor for its first thread.
    pub fn process_has_no_signals(&mut self, pid: Pid) {
        self.queues.forget(Owner::Process(pid), u64::MAX);
        self.queues.forget(Owner::Thread(pid), u64::MAX);
    }

    /// One thread goes on as the first of its process: what waits for it does so there.
    pub fn hand_signals_over(&mut self, tid: Tid, pid: Pid) {
        self.queues.hand_over(Owner::Thread(tid), Owner::Thread(pid));
    }

    /// The same of what is in its header, if that of the first thread stays.
    pub fn keep_own_signals(&mut self, tid: Tid, pid: Pid) {
        let (Some(from), Some(to)) =
            (self.pending_of(Owner::Thread(tid)), self.pending_of(Owner::Thread(pid)))
        else {
            return;
        };
        if tid != pid {
            to.clear(u64::MAX);
            from.hand_on(to);
        }
    }

    /// The first thread of a process has another header, which is to say of what more waits.
    pub fn tell_of_queues(&mut self, pid: Pid) {
        for owner in [Owner::Process(pid), Owner::Thread(pid)] {
            let more = self.queues.signals(owner);
            self.pending_of(owner).inspect(|pending| pending.set_more(more));
        }
    }

    /// May one more signal wait for a process of a user?
    pub fn has_room_for_signal(&self, pid: Pid, user: u32) -> bool {
        let limit = self.get(pid).ok().and_then(Self::signal_limit).unwrap_or(0);
        // Counting looks at all processes: mostly it is clear that there are not so many.
        let most = self.queues.of(user) as u64 + IN_HEADER * self.threads_of_user(user);
        self.queues.has_room(user) && (most < limit || self.signals_of_user(user) < limit)
    }

    fn signal_limit(proc: &Proc) -> Option<u64> {
        let header = proc.session().ok()?.header();
        Some(header.limits[limit::SIGPENDING as usize][0].load(Relaxed))
    }

    /// How many signals wait for the processes of a user, and how many timers they have.
    pub fn signals_of_user(&self, user: u32) -> u64 {
        let of_thread = |tid: Tid| self.pending_of(Owner::Thread(tid)).map_or(0, counted);
        let processes = self.iter().filter(|proc| proc.who.users.real == user && proc.is_live());
        let in_headers = processes.map(|proc| {
            let own = of_thread(proc.pid);
            let all: u64 = proc.threads.iter().map(|&tid| of_thread(tid)).sum();
            self.pending_of(Owner::Process(proc.pid)).map_or(0, counted) + own + all
        });
        in_headers.sum::<u64>() + self.queues.of(user) as u64
    }
}

/// How many signals are in a header: those of timers have been counted with these.
fn counted(pending: &Pending) -> u64 {
    let mut left = pending.set();
    let mut count = 0;
    while left != 0 {
        let signal = left.trailing_zeros() + 1;
        left &= left - 1;
        let is_counted = pending.peek(signal).is_some_and(|info| {
            let is_lost = info.code == SI_USER && info.pid == 0;
            !is_lost && !is_of_timer(&info)
        });
        count += u64::from(is_counted);
    }
    count
}

/// In what no program sees of it, and none can send.
const OF_TIMER: i32 = 1;

/// What comes with the signal of a timer.
pub fn info_of_timer(id: u32, overrun: u32, value: u64) -> SigInfo {
    SigInfo { code: SI_TIMER, pid: id, uid: overrun, status: OF_TIMER, value }
}

/// Is it one of those?
pub fn is_of_timer(info: &SigInfo) -> bool {
    info.code == SI_TIMER && info.status == OF_TIMER
}

impl Procs {
    /// Of the signal of a timer that its library has not taken yet, so many more. Returns `false` if it has.
    pub fn renew_timer(&self, owner: Owner, signal: u32, id: u32, overrun: u32) -> bool {
        let Some(pending) = self.pending_of(owner) else { return false };
        let info = pending.peek(signal).filter(|info| is_of_timer(info) && info.pid == id);
        info.is_some_and(|info| {
            pending.renew(signal, SigInfo { uid: overrun, ..info });
            true
        })
    }

    /// The signal of a timer does not come any more, if the library has not taken it yet.
    pub fn void_timer(&mut self, owner: Owner, signal: u32, id: u32) {
        let Some(pending) = self.pending_of(owner) else { return };
        if pending.peek(signal).is_some_and(|info| is_of_timer(&info) && info.pid == id) {
            pending.clear(bit(signal));
            self.next_signal(owner, signal);
        }
    }
}
