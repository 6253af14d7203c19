//! Which core a dispatcher runs on.
//!
//! It is decided each time that somebody becomes ready: started by `fork` or for a new thread, woken, or
//! done with what it came home for. At home, invocations cost least: who is ready there stays if nobody
//! else is. Otherwise it goes to an idle core at once, the one where it ran last or one of the node of
//! its memory before others. If there is none it waits, and a core that runs out of work asks for it
//! (`ask_for_work`). So nobody waits for longer than a message takes while a core is idle that it may
//! run on; `docs/cores.md` says what that was measured to bring.

use super::classes::{core_for, have_ranks, preempts};
use super::Scheduler;
use crate::arch;
use crate::cores::CoreId;
use crate::object::dcb::{flag, Errand};
use crate::object::DcbRef;
use crate::occupancy::Report;
use captypes::invocations::Counter;
use captypes::Status;
use core::sync::atomic::Ordering;

/// How often those that wait are offered to idle cores even if none has asked, as a fraction of a second:
/// one may have looked just before they began to wait, or have asked the wrong core.
const OFFERS_PER_SECOND: u64 = 1000;

/// What the other cores are told about the work here.
pub(super) struct Balance {
    /// The others may have been told that this core is idle.
    pub(super) shows_idle: bool,
    /// Since when somebody waits here who may run elsewhere.
    pub(super) waits_since: Option<u64>,
    /// When dispatchers that wait here are offered to idle cores.
    pub(super) offer_at: u64,
}

impl Balance {
    /// Nobody waits.
    pub(super) const fn new() -> Balance {
        Balance { shows_idle: false, waits_since: None, offer_at: u64::MAX }
    }
}

impl Scheduler {
    /// Chooses a core for a dispatcher that is at home, ready, and not current. `visited`: it has just
    /// come from where it runs.
    pub(super) fn place(&mut self, dcb: DcbRef, visited: bool) {
        let allowed = self.allowed(dcb);
        let here = allowed & self.core.id.bit() != 0;
        let free = self.current.is_none() && self.queue.is_empty();
        if here && free {
            return self.keep(dcb);
        }
        let last = dcb.runs_on.get();
        let back = last != self.core.id && allowed & last.bit() != 0;
        let idle = match back && self.core.cores.claim(last) {
            true => Some(last),
            false => self.idle_core(dcb),
        };
        if visited && here && idle == Some(last) {
            // Its core is idle without it. If somebody from elsewhere runs here, they change places: each of two
            // could run at the home of the other, and come back for each invocation.
            let guest = self
                .queue
                .find(|guest| self.is_visiting(guest) && self.allowed(guest) & last.bit() != 0);
            if let Some(guest) = guest {
                self.queue.remove(guest);
                self.core.add(Counter::Migrations, 1);
                self.send_to_run(guest, last);
                return self.keep(dcb);
            }
        }
        // One with a priority goes on here, if it may. Home has work for all; where it ran there is only its own.
        let preempts = |current| here && preempts(&self.queue, dcb, current);
        let other = || match self.current.is_some_and(preempts) {
            true => None,
            false => core_for(self, dcb).or((back && visited).then_some(last)),
        };
        match idle.or_else(other) {
            Some(to) => {
                self.core.add(Counter::Placements, u64::from(!visited));
                self.send_to_run(dcb, to);
            }
            None if here => self.keep(dcb),
            None => self.send_to_run(dcb, CoreId(allowed.trailing_zeros() as u8)),
        }
    }

    /// A server has answered and waits: does the caller go on here in its place? If it ran here before,
    /// or if nobody else wants to.
    #[inline]
    pub(super) fn goes_on_here(&self, dcb: DcbRef) -> bool {
        (dcb.runs_on.get() == self.core.id || self.queue.is_empty()) && self.may_stay(dcb)
    }

    /// May it run on this core?
    #[inline]
    fn may_stay(&self, dcb: DcbRef) -> bool {
        dcb.allowed.load(Ordering::Relaxed) & self.core.id.bit() != 0
            || self.allowed(dcb) & self.core.id.bit() != 0
    }

    fn send_to_run(&mut self, dcb: DcbRef, to: CoreId) {
        dcb.trip.errand.set(Errand::Run);
        self.send(dcb, to);
    }

    /// It runs here, or waits here until a core is idle.
    fn keep(&mut self, dcb: DcbRef) {
        dcb.runs_on.set(self.core.id);
        self.enqueue(dcb);
        if self.current.is_some() {
            self.look_at_queue(arch::tsc());
        }
    }

    /// The cores that a dispatcher may run on: all if it may run on none that there is.
    pub(super) fn allowed(&self, dcb: DcbRef) -> u64 {
        let all = self.core.cores.mask();
        match dcb.allowed.load(Ordering::Relaxed) & all {
            0 => all,
            some => some,
        }
    }

    /// May it run on another core than this one?
    fn may_move(&self, dcb: DcbRef) -> bool {
        self.allowed(dcb) & !self.core.id.bit() != 0
    }

    /// An idle core that a dispatcher may run on, but for this one; nobody else sends it work now. One
    /// of the node of its memory if there is one.
    fn idle_core(&self, dcb: DcbRef) -> Option<CoreId> {
        let mut set = self.allowed(dcb) & !self.core.id.bit();
        let near = self.core.cores.get(dcb.home.get()).place.near.load(Ordering::Relaxed);
        loop {
            let idle = self.core.cores.idle() & set;
            let best = if idle & near != 0 { idle & near } else { idle };
            if best == 0 {
                return None;
            }
            let core = CoreId(best.trailing_zeros() as u8);
            if self.core.cores.claim(core) {
                return Some(core);
            }
            set &= !core.bit();
        }
    }

    /// Hands those that wait here to idle cores.
    pub(super) fn share_out(&mut self) {
        while self.core.cores.idle() != 0 && migrate(self, Self::idle_core) {}
        // One at a time: the other core does not show yet that it is coming.
        if have_ranks(self) {
            migrate(self, core_for);
        }
    }

    /// Whoever waits here still goes to idle cores, if it is time to look again.
    pub(super) fn offer(&mut self, now: u64) {
        if now >= self.balance.offer_at {
            self.balance.offer_at = u64::MAX;
            self.share_out();
        }
    }

    /// Somebody waits here who may run elsewhere, or nobody does any more: the other cores see that.
    pub(super) fn look_at_queue(&mut self, now: u64) {
        let waits = self.queue.find(|dcb| self.may_move(dcb)).is_some();
        if self.show_waiting(waits, now) && waits {
            self.share_out();
        }
        if !waits {
            self.balance.offer_at = u64::MAX;
            return;
        }
        if self.balance.offer_at == u64::MAX {
            self.balance.offer_at = now + self.facts.tsc_hz / OFFERS_PER_SECOND;
        }
        self.alarm.want(self.balance.offer_at);
    }

    /// Shows whether somebody waits here who may run elsewhere. Is that new?
    pub(super) fn show_waiting(&mut self, waits: bool, now: u64) -> bool {
        match (self.balance.waits_since, waits) {
            (None, true) => self.balance.waits_since = Some(now),
            (Some(since), false) => {
                self.balance.waits_since = None;
                self.core.add(Counter::WaitTicks, now.saturating_sub(since));
            }
            _ => return false,
        }
        self.core.cores.set_waiting(self.core.id, waits);
        self.meter.report(self.core.id, Report::Waits(waits), now, &mut self.alarm);
        true
    }

    /// This core has nothing to do, and says so where somebody waits.
    pub(super) fn ask_for_work(&mut self) {
        let waiting = self.core.cores.waiting() & !self.core.id.bit();
        if waiting != 0 {
            self.core.interrupt(CoreId(waiting.trailing_zeros() as u8));
        }
    }

    /// Says where a dispatcher may run; see [`captypes::op::SetAffinity`].
    pub fn set_affinity(&mut self, dcb: DcbRef, mask: u64) -> Result<(), Status> {
        if mask != 0 && mask & self.core.cores.mask() == 0 {
            return Err(Status::OutOfRange);
        }
        dcb.allowed.store(mask, Ordering::Relaxed);
        let allowed = self.allowed(dcb);
        if self.current == Some(dcb) {
            // If it came for this, it is placed anew anyway.
            self.resched |= allowed & self.core.id.bit() == 0;
        } else if dcb.trip.abroad.get() {
            // It is placed anew when it comes back.
        } else if dcb.away.get() {
            self.bring_home(dcb);
        } else if dcb.has(flag::QUEUED) && allowed & self.core.id.bit() == 0 {
            self.queue.remove(dcb);
            self.place(dcb, false);
        }
        Ok(())
    }
}

/// Sends the first of those that wait here to the core that is found for it. Is there one?
fn migrate(sched: &mut Scheduler, find: fn(&Scheduler, DcbRef) -> Option<CoreId>) -> bool {
    let mut to = None;
    let found = sched.queue.find(|dcb| {
        to = find(sched, dcb);
        to.is_some()
    });
    let Some((dcb, to)) = found.zip(to) else { return false };
    sched.queue.remove(dcb);
    sched.core.add(Counter::Migrations, 1);
    sched.send_to_run(dcb, to);
    true
}
