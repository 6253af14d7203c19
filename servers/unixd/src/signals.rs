//! Signals: who gets them and what happens then; timers.
//!
//! A signal that ends a process by default, and that it neither blocks, ignores nor catches, ends
//! it here, and one that stops it does so here, too. Everything else is put into its session header;
//! its library does the rest. A process that waits is answered `EINTR`, one that runs is notified.

use crate::alarms;
use crate::clock::{Due, PERIOD_MIN};
use crate::cpuclocks::{CpuClock, Stands};
use crate::life::Life;
use crate::pids::is_in;
use crate::procs::{Pid, Proc, State, Timer, INIT};
use crate::queues::Waiting;
use crate::threads::Tid;
use crate::wait::{done, Call, Outcome, Tried};
use crate::watches::Source;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Capability, Credentials};
use sigqueue::Owner;
use unixproto::ops::SignalSet;
use unixproto::signals::*;
use unixproto::{op, Errno};

const STOPS: u64 = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// Signals that nobody blocks, ignores, catches or waits for, whatever a header says.
pub const UNSTOPPABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// How long a parent has time to end a child as which it acts.
const GRACE_NS: u64 = 1_000_000_000;
/// How long a process has time to end that runs in the memory of another one: longer than it ever needs, even where many run, as
/// those go with it that share the memory.
const GUEST_GRACE_NS: u64 = 5_000_000_000;

/// Information for a signal that `unixd` itself sends.
pub fn from_kernel() -> SigInfo {
    SigInfo { code: SI_KERNEL, ..SigInfo::default() }
}

/// Does this tell of a file?
pub fn tells_of_file(info: &SigInfo) -> bool {
    info.code == SI_SIGIO || (POLL_IN..=POLL_HUP).contains(&info.code)
}

/// `ITIMER_VIRTUAL` and `ITIMER_PROF`.
const VIRTUAL: u32 = 1;
const PROFILING: u32 = 2;

impl Life<'_> {
    /// Posts a standard signal of this server to a process: there is always room for those.
    pub fn post(&mut self, pid: Pid, signal: u32, info: SigInfo) {
        let _ = self.post_to(pid, None, signal, info);
    }

    /// Posts a signal to one thread of a process, or to whichever takes it.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: it is a real-time signal that a program sent with more than its number, and too many wait.
    pub fn post_to(
        &mut self,
        pid: Pid,
        thread: Option<Tid>,
        signal: u32,
        info: SigInfo,
    ) -> Result<(), Errno> {
        self.post_waiting(pid, thread, signal, Waiting::of(info))
    }

    /// The same for one that may be that of a timer.
    pub fn post_waiting(
        &mut self,
        pid: Pid,
        thread: Option<Tid>,
        signal: u32,
        what: Waiting,
    ) -> Result<(), Errno> {
        if let Some(tid) = self.post_quietly(pid, thread, signal, what)? {
            self.nudge(tid, bit(signal));
        }
        Ok(())
    }

    /// The same, but that nobody is told. Answers who is to be.
    pub fn post_quietly(
        &mut self,
        pid: Pid,
        thread: Option<Tid>,
        signal: u32,
        mut what: Waiting,
    ) -> Result<Option<Tid>, Errno> {
        let mask = bit(signal);
        let Ok(proc) = self.procs.live(pid) else { return Ok(None) };
        // The first process of a name space does not do what others in it could make it do.
        let mut keeps = false;
        if proc.pids.is_some() {
            let is_from_outside = self.procs.show_sender(proc, signal, what.info_mut());
            let is_forced = is_from_outside && mask & UNSTOPPABLE != 0;
            keeps = self.procs.is_space_init(proc) && !is_forced;
        }
        if keeps && signal == SIGKILL {
            return Ok(None);
        }
        if signal == SIGKILL {
            self.kill_at_once(pid);
            return Ok(None);
        }
        let Ok(proc) = self.procs.live(pid) else { return Ok(None) };
        let (has_domain, stopped, acted) = (proc.domain.is_some(), proc.stopped, proc.is_acted());
        let Ok(session) = proc.session() else { return Ok(None) };
        let header = session.header();
        let (caught, ignored) = (header.caught.load(Relaxed), header.ignored.load(Relaxed));
        let caught = caught & !UNSTOPPABLE & mask != 0;
        let ignored = ignored & !UNSTOPPABLE & mask != 0;
        self.cancel_opposite(pid, signal);
        let taker = match thread {
            Some(tid) => Some(tid).filter(|tid| self.procs.mask_of(*tid) & mask == 0),
            None => self.taker(pid, mask),
        };
        // One who waits for it may take it although he blocks it. If he does not, it does what it does.
        let held = taker.is_none_or(|tid| self.procs.mask_of(tid) & mask != 0);
        let blocked = held && mask & UNSTOPPABLE == 0;
        let action = default_action(signal);
        if signal == SIGCONT && stopped {
            self.resume(pid);
        }
        if self.procs.tracees.has_thread_of(pid) {
            if signal == SIGCONT {
                self.continue_traced(pid);
            }
            // Whatever comes of it, its tracer is told before.
            return self.deliver(pid, thread, signal, what, taker);
        }
        let nothing = ignored
            || !caught && keeps
            || !caught && matches!(action, DefaultAction::Ignore | DefaultAction::Continue);
        if nothing && !blocked {
            return Ok(None);
        }
        let by_default = !caught && !blocked;
        if by_default && action == DefaultAction::Terminate && has_domain && !stopped {
            self.strike_down(pid, signal);
            return Ok(None);
        }
        if by_default && mask & STOPS != 0 && signal != SIGSTOP && self.procs.is_orphaned(pid) {
            return Ok(None);
        }
        // What a process does for its child that it acts as is its library's business, but for what
        // cannot be held off.
        // Whoever shares memory with others stops where it has nothing in its hands that they need.
        let stops_itself = acted && signal != SIGSTOP || self.procs.has_company(pid);
        if by_default && mask & STOPS != 0 && !stops_itself {
            self.stop_process(pid, signal);
            return Ok(None);
        }
        self.deliver(pid, thread, signal, what, taker)
    }

    /// `SIGKILL`.
    pub fn kill_at_once(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        match proc.state {
            State::Live if proc.domain.is_some() => self.strike_down(pid, SIGKILL),
            State::Live if proc.killed && proc.guest.is_some() => {}
            // Its parent goes on without it, if it does what it is told; or those that share its memory do.
            State::Live => {
                proc.killed = true;
                let (is_guest, was_stopped) = (proc.guest.is_some(), proc.stopped);
                proc.stopped &= !is_guest;
                let grace = if is_guest { GUEST_GRACE_NS } else { GRACE_NS };
                if let Ok(session) = proc.session() {
                    session.header().pending.post(SIGKILL, from_kernel());
                }
                self.clock.add(self.clock.now() + grace, Due::Kill(pid));
                if is_guest && was_stopped {
                    self.procs.unsuspend([pid]);
                }
                self.nudge(pid, bit(SIGKILL));
            }
            State::Building => {
                proc.killed = true;
                self.terminate(pid, killed(SIGKILL));
            }
            State::Ending | State::Zombie => {}
        }
    }

    /// A parent that acts as its child has had time to end it, and goes with it if it has not.
    pub fn insist(&mut self, pid: Pid) {
        let Ok(proc) = self.procs.live(pid) else { return };
        if proc.killed {
            let acts = if proc.is_acted() { proc.parent } else { self.procs.host_of(pid) };
            libos::log!(
                "unixd: process {acts} ends: process {pid} in its memory was killed, and has not ended"
            );
            self.strike_down(acts, SIGKILL);
        }
    }

    /// A signal that waits and ends the process by default, as its header says.
    pub fn deadly_signal(&self, pid: Pid) -> Option<u32> {
        let header = self.procs.live(pid).ok()?.session().ok()?.header();
        if self.procs.is_space_init(self.procs.get(pid).ok()?) {
            return None;
        }
        let kept = header.caught.load(Relaxed) | header.ignored.load(Relaxed);
        let taken = |tid: Tid| self.procs.pending_for(tid) & !self.procs.mask_of(tid) & !kept;
        let waiting = self.procs.threads_of(pid).into_iter().fold(0, |all, tid| all | taken(tid));
        (1..=64).find(|&signal| {
            waiting & bit(signal) != 0 && default_action(signal) == DefaultAction::Terminate
        })
    }

    /// Signals that stop and the one that continues take each other back.
    fn cancel_opposite(&mut self, pid: Pid, signal: u32) {
        let cancelled = match bit(signal) {
            mask if mask & STOPS != 0 => bit(SIGCONT),
            _ if signal == SIGCONT => STOPS,
            _ => return,
        };
        for tid in self.procs.threads_of(pid) {
            let Ok(session) = self.procs.session_of(tid) else { continue };
            session.header().own.clear(cancelled);
        }
        if let Ok(Ok(session)) = self.procs.get(pid).map(|proc| proc.session()) {
            session.header().pending.clear(cancelled);
        }
        self.procs.forget_signals(pid, cancelled);
    }

    /// Puts a signal into a header, or behind those of its number. Answers which thread takes it.
    fn deliver(
        &mut self,
        pid: Pid,
        thread: Option<Tid>,
        signal: u32,
        what: Waiting,
        taker: Option<Tid>,
    ) -> Result<Option<Tid>, Errno> {
        let owner = thread.map_or(Owner::Process(pid), Owner::Thread);
        if self.procs.add_signal(pid, owner, signal, what)? {
            self.fx.changed(Source::Signals(pid), true);
        }
        // One who waits for just this signal has it blocked.
        let awaits = |tid: &Tid| self.procs.awaits(*tid, bit(signal));
        Ok(taker.or(thread.filter(awaits)))
    }

    /// The caller's library has taken a signal of which more wait.
    pub fn next_signal(&mut self, pid: Pid, op: op::NextSignal) -> Tried {
        let tid = self.caller.tid;
        let owner = if op.own { Owner::Thread(tid) } else { Owner::Process(pid) };
        if self.procs.next_signal(owner, op.signal) {
            self.fx.changed(Source::Signals(pid), true);
            // As long as it was not there, others have not seen it either.
            let taker = if op.own { None } else { self.taker(pid, bit(op.signal)) };
            if let Some(taker) = taker.filter(|&taker| taker != tid) {
                self.nudge(taker, bit(op.signal));
            }
        }
        done(())
    }

    /// The ids of the processes of a group.
    fn members(&self, pgid: Pid) -> Vec<Pid> {
        self.procs.members(pgid).map(|proc| proc.pid).collect()
    }

    /// `kill`, `sigqueue`.
    pub fn kill(&mut self, pid: Pid, call: &Call, op: op::Kill) -> Tried {
        let leader = self.procs.leader(op.pid.max(0) as Tid);
        if !may_claim(op.code, op.value, leader == pid) {
            return Err(Errno::EPERM);
        }
        // With a value, signals are for one process.
        if op.pid <= 0 && op.code != SI_USER {
            return Err(Errno::ESRCH);
        }
        let caller = self.procs.get(pid)?;
        let (uid, pgid, is_init) = (caller.who.users.real, caller.pgid, op.pid == INIT as i32);
        // Whether a process is there is asked often, and nothing need be collected for that.
        if let (1.., 0, Ok(target)) = (op.pid, op.signal, self.procs.get(leader)) {
            return match leader == pid || credentials::may_signal(&caller.who, &target.who) {
                true => done(()),
                false => Err(Errno::EPERM),
            };
        }
        let targets: Vec<Pid> = match op.pid {
            0 => self.members(pgid),
            -1 => {
                let caller = self.procs.get(pid)?;
                // Not to those outside of its name space, nor to the first one there.
                let init = caller.pids.as_ref().and_then(|space| space.init());
                let meant = |proc: &Proc| {
                    proc.pid != pid && Some(proc.pid) != init && is_in(&proc.pids, &caller.pids)
                };
                self.procs.select(meant)
            }
            target if target > 0 => {
                self.procs.get(leader).map(|proc| proc.pid).into_iter().collect()
            }
            group => self.members(group.unsigned_abs()),
        };
        let mut allowed = targets;
        if allowed.is_empty() && !is_init {
            return Err(Errno::ESRCH);
        }
        check_signal(op.signal)?;
        allowed.retain(|&target| self.may_signal(pid, target, op.signal));
        // No signal reaches `init`, but it can be sent. With -1 those are passed over that may not be sent it.
        let init = is_init && self.procs.get(pid)?.has(Capability::Kill);
        if allowed.is_empty() && !init && op.pid != -1 {
            return Err(Errno::EPERM);
        }
        let said = self.said_sender(call, op.code, leader == pid)?;
        let (from, uid) = said.unwrap_or((pid, uid));
        let info = SigInfo { code: op.code, pid: from, uid, status: 0, value: op.value };
        match allowed[..] {
            _ if op.signal == 0 => {}
            [target] => self.post_to(target, None, op.signal, info)?,
            // Each with all that comes of it before the next one.
            _ => allowed.into_iter().for_each(|target| self.fx.post(target, op.signal, info)),
        }
        self.still_there(pid)
    }

    /// `tgkill`.
    pub fn kill_thread(&mut self, pid: Pid, call: &Call, op: op::KillThread) -> Tried {
        let by_tkill = op.code == SI_TKILL && op.value == 0;
        let user = op.code == SI_USER;
        let own = op.tid == self.caller.tid;
        if !by_tkill && (user && !own || !may_claim(op.code, op.value, own)) {
            return Err(Errno::EPERM);
        }
        if op.tid == INIT && matches!(op.pid, 0 | INIT) {
            check_signal(op.signal)?;
            // No signal reaches it.
            return match credentials::may_signal(&self.procs.get(pid)?.who, &Credentials::ROOT) {
                true => done(()),
                false => Err(Errno::EPERM),
            };
        }
        let leader = self.procs.leader(op.tid);
        if !self.procs.is_thread(op.tid) || op.pid != 0 && op.pid != leader {
            return Err(Errno::ESRCH);
        }
        check_signal(op.signal)?;
        if !self.may_signal(pid, leader, op.signal) {
            return Err(Errno::EPERM);
        }
        if op.signal != 0 {
            let uid = self.procs.get(pid)?.who.users.real;
            let said = self.said_sender(call, op.code, own)?;
            let (from, uid) = said.unwrap_or((pid, uid));
            let info = SigInfo { code: op.code, pid: from, uid, status: 0, value: op.value };
            self.post_to(leader, Some(op.tid), op.signal, info)?;
        }
        self.still_there(pid)
    }

    /// Who the caller says that has sent a signal, if it says so and may: `si_pid` and `si_uid`. Of what is only sent to another, the server says it.
    fn said_sender(&self, call: &Call, code: i32, own: bool) -> Result<Option<(u32, u32)>, Errno> {
        if !own && (code >= SI_USER || code == SI_TKILL) {
            return Ok(None);
        }
        let said = self.procs.a(self.caller, call)?;
        let word = |at: usize| Some(u32::from_le_bytes(*said.get(at..)?.first_chunk()?));
        let pids = &self.procs.get(self.caller.pid)?.pids;
        Ok(word(0).map(|number| self.procs.id_in(pids, number)).zip(word(4)))
    }

    /// Whoever has killed itself gets no answer.
    fn still_there(&self, pid: Pid) -> Tried {
        match self.procs.live(pid) {
            Ok(_) => done(()),
            Err(_) => Ok(Outcome::Never),
        }
    }

    /// May a process send a signal to another? `SIGCONT` goes to all of its session.
    fn may_signal(&self, pid: Pid, target: Pid, signal: u32) -> bool {
        let (Ok(from), Ok(to)) = (self.procs.get(pid), self.procs.get(target)) else {
            return false;
        };
        pid == target
            || credentials::may_signal(&from.who, &to.who)
            || signal == SIGCONT && from.sid == to.sid
    }

    /// Waits for a signal of a set.
    pub fn sig_wait(&mut self, call: &Call, set: u64, ns: u64) -> Tried {
        let pending = self.procs.pending_for(self.caller.tid);
        if pending & set != 0 {
            return done(SignalSet { set });
        }
        if call.late || ns == 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(Outcome::Block(self.clock.deadline(ns)))
    }

    /// Sleeps.
    pub fn sleep(&mut self, call: &Call, ns: u64) -> Tried {
        if call.late || ns == 0 {
            return done(());
        }
        Ok(Outcome::Block(self.clock.deadline(ns)))
    }

    /// Sets an interval timer.
    pub fn set_timer(&mut self, pid: Pid, op: op::SetTimer) -> Tried {
        let old = self.timer(pid, op.which)?;
        let told = self.told(old);
        let (value, interval) = (op.value, op.interval);
        let new = match op.which {
            VIRTUAL | PROFILING => {
                let clock = CpuClock::of_process(pid, op.which == VIRTUAL);
                self.timer_by(clock, (value, false), interval)?
            }
            _ => {
                let deadline = if value == 0 { 0 } else { self.clock.now().saturating_add(value) };
                Timer { deadline, interval, wanted: None }
            }
        };
        self.procs.get_mut(pid)?.timers[op.which as usize] = new;
        self.clock.remove(old.deadline, Due::Timer(pid, op.which));
        if new.deadline != 0 {
            self.clock.add(new.deadline, Due::Timer(pid, op.which));
        }
        done(told)
    }

    /// Reads an interval timer.
    pub fn get_timer(&mut self, pid: Pid, which: u32) -> Tried {
        let timer = self.timer(pid, which)?;
        done(self.told(timer))
    }

    fn timer(&self, pid: Pid, which: u32) -> Result<Timer, Errno> {
        self.procs.get(pid)?.timers.get(which as usize).copied().ok_or(Errno::EINVAL)
    }

    /// The deadline of a timer has come.
    pub fn timer_expired(&mut self, pid: Pid, which: u32) {
        if which >= alarms::FIRST {
            return self.alarm_expired(pid, which);
        }
        const SIGNALS: [u32; 3] = [SIGALRM, SIGVTALRM, SIGPROF];
        let Ok(mut timer) = self.timer(pid, which) else { return };
        let stands = match timer.wanted {
            Some(wanted) => self.stands(&mut timer, wanted),
            None => {
                timer.deadline = next_deadline(&timer, self.clock.now());
                Stands::Passed(0)
            }
        };
        if matches!(stands, Stands::Never) {
            timer.deadline = 0;
        }
        let Ok(proc) = self.procs.get_mut(pid) else { return };
        proc.timers[which as usize] = timer;
        if timer.deadline != 0 {
            self.clock.add(timer.deadline, Due::Timer(pid, which));
        }
        if matches!(stands, Stands::Passed(_)) {
            self.post(pid, SIGNALS[which as usize], from_kernel());
        }
    }
}

/// When a timer that has expired does so again: a whole number of periods after it, and long enough
/// after now; 0 for never.
pub fn next_deadline(timer: &Timer, now: u64) -> u64 {
    let late = now.saturating_sub(timer.deadline);
    match timer.interval {
        0 => 0,
        short if short < PERIOD_MIN => now.saturating_add(PERIOD_MIN),
        period => (now - late % period).saturating_add(period),
    }
}

/// `EINVAL` for a number that is no signal, nor 0.
fn check_signal(signal: u32) -> Result<(), Errno> {
    match signal {
        0..=64 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// May a sender say that of a signal? Of those that it does not send to itself only what makes clear that
/// a program has sent it, and how: the rest is what the kernel says.
fn may_claim(code: i32, value: u64, own: bool) -> bool {
    own || match code {
        SI_USER => value == 0,
        SI_TKILL => false,
        code => code < 0,
    }
}
