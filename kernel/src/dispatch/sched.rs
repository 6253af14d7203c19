//! Which dispatcher runs: ready ones wait in the run queue, the current one is in no queue.

use super::calls::{go_back, send_to_endpoint};
use super::classes::{self, before_prior, preempts};
use super::prior::OVER;
use super::timers::MOST_EXPIRED;
use super::{queue, sample, Scheduler};
use crate::arch;
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbRef, State};
use crate::occupancy::Report;
use captypes::invocations::{Counter, NOTIFY_TIMER};
use core::sync::atomic::Ordering;
use paging::PhysAddr;
use trace::Mark;

impl Scheduler {
    /// Makes a dispatcher ready.
    #[inline]
    pub fn wake(&mut self, dcb: DcbRef) {
        dcb.state.set(State::Ready);
        if dcb.has(flag::SUSPENDED | flag::ARRIVED | flag::ABROAD) || self.current == Some(dcb) {
            return go_back(self, dcb);
        }
        if self.core.cores.are_many() {
            return self.place(dcb, false);
        }
        self.enqueue(dcb);
    }

    /// A ready dispatcher waits here for its turn.
    #[inline]
    pub(super) fn enqueue(&mut self, dcb: DcbRef) {
        self.queue.push(dcb);
        self.resched |= self.current.is_none_or(|current| preempts(&self.queue, dcb, current));
    }

    /// Lets somebody else run: the current dispatcher was put elsewhere, or goes to the queue.
    #[inline]
    pub fn block(&mut self) {
        self.resched = true;
    }

    /// The current dispatcher waits for `next`, which runs at once, in the rest of the time slice.
    #[inline]
    pub fn switch_directly(&mut self, next: DcbRef) {
        next.state.set(State::Ready);
        if next.has(flag::SUSPENDED | flag::ABROAD) {
            go_back(self, next);
        } else {
            if self.core.cores.are_many() && !self.goes_on_here(next) {
                self.place(next, false);
            } else {
                self.direct = Some(next);
            }
        }
        self.resched = true;
    }

    /// Loads the dispatcher that runs next, or none.
    #[inline(always)]
    pub fn pick_next(&mut self) {
        self.resched = false;
        let now = arch::tsc();
        let last = self.current;
        match last {
            Some(last) => self.charge(last, now),
            None => self.core.add(Counter::IdleTicks, now.saturating_sub(self.slice.since)),
        }
        self.slice.since = now;
        let mut direct = self.direct.take();
        if let Some(last) = last.filter(|&l| Some(l) != direct) {
            self.give_way(last);
        }
        self.see_off();
        direct = direct.filter(|&direct| self.may_run(direct));
        if let Some(next) = direct.filter(|_| self.queue.has_special()) {
            direct = before_prior(&mut self.queue, next, now);
        }
        let next = match direct {
            Some(next) => next,
            None => match self.next_runnable() {
                Some(next) => {
                    self.slice.end = now + self.slice.ticks;
                    next
                }
                None => return self.go_idle(),
            },
        };
        self.alarm.want(self.slice.end);
        if !self.registers.are_of(next) {
            self.switch(next);
        }
        self.current = Some(next);
        if last.is_none() {
            self.meter.report(self.core.id, Report::Works(true), now, &mut self.alarm);
        }
        if self.core.cores.are_many() {
            if core::mem::take(&mut self.balance.shows_idle) {
                self.core.cores.set_idle(self.core.id, false);
            }
            classes::show(self, Some(next));
            if !self.queue.is_empty() || self.balance.waits_since.is_some() {
                self.look_at_queue(now);
            }
        }
        trace::mark(Mark::Switch(next.trace_number()));
        next.runs_on.set(self.core.id);
        self.consider_upcall();
    }

    /// Who gave way but is ready goes back to the queue, unless it goes elsewhere.
    #[inline]
    fn give_way(&mut self, last: DcbRef) {
        if self.visits.leaving.is_some() || !self.may_run(last) {
            return;
        }
        if self.core.cores.are_many() && self.allowed(last) & self.core.id.bit() == 0 {
            return self.give_away(last);
        }
        self.queue.put_back(last);
    }

    /// The current dispatcher may not run here any more.
    fn give_away(&mut self, last: DcbRef) {
        if self.is_visiting(last) {
            return self.go_home(last, Errand::Recalled);
        }
        self.registers.unload();
        self.current = None;
        self.place(last, false);
    }

    /// Whoever leaves this core does so with nothing of it loaded any more: home may take its
    /// address space apart.
    #[inline]
    pub(super) fn see_off(&mut self) {
        if let Some(dcb) = self.visits.leaving.take() {
            self.registers.unload();
            if !self.is_visiting(dcb) {
                return send_to_endpoint(self, dcb);
            }
            self.core.load_kernel_root();
            self.send(dcb, dcb.home.get());
        }
    }

    /// Is it the one to switch to without a look at the queue?
    #[cfg(test)]
    pub fn is_next(&self, dcb: DcbRef) -> bool {
        self.direct == Some(dcb)
    }

    /// The first of the queue that has all that it needs; others are stopped.
    #[inline(always)]
    fn next_runnable(&mut self) -> Option<DcbRef> {
        /// How many are stopped in one event.
        const MOST_STOPPED: u32 = 128;
        for _ in 0..MOST_STOPPED {
            let next = self.queue.pop(self.slice.since)?;
            if self.may_run(next) {
                return Some(next);
            }
        }
        // There may be others behind.
        self.alarm.want(self.slice.since);
        None
    }

    pub(super) fn may_run(&self, dcb: DcbRef) -> bool {
        dcb.state.get() == State::Ready
            && !dcb.has(flag::SUSPENDED)
            && dcb.root.get() != 0
            && dcb.frame.get().is_some()
    }

    #[inline]
    pub(super) fn charge(&mut self, dcb: DcbRef, now: u64) {
        let used = now.saturating_sub(self.slice.since);
        dcb.time.charge(used);
        match dcb.share.schedule().is_usual() {
            true => dcb.share.runtime.set(dcb.share.runtime.get() + used),
            false => queue::charge(&mut self.queue, dcb, used, now),
        }
    }

    fn go_idle(&mut self) {
        self.registers.unload();
        self.current = None;
        trace::mark(Mark::Idle);
        self.show_waiting(false, self.slice.since);
        self.meter.report(self.core.id, Report::Works(false), self.slice.since, &mut self.alarm);
        self.core.shared.idle_since.store(self.slice.since, Ordering::Relaxed);
        classes::show(self, None);
        self.show_idle();
        // Whoever ran last may be gone by the time of the next event, with its tables.
        self.core.load_kernel_root();
        self.ask_for_work();
    }

    /// The others may send something. Whoever claimed this core may have called it back meanwhile.
    fn show_idle(&mut self) {
        if self.core.cores.are_many() {
            self.balance.shows_idle = true;
            if self.core.cores.idle() & self.core.id.bit() == 0 {
                self.core.cores.set_idle(self.core.id, true);
            }
        }
    }

    #[inline(always)]
    fn switch(&mut self, next: DcbRef) {
        self.core.add(Counter::Switches, 1);
        self.registers.unload();
        if self.core.cores.are_many() {
            next.frame.get().set_core(self.core.id.0, self.core.node);
        }
        next.frame.get().note_switch(&next.ctx, next.frame_va.get());
        self.registers.load(next);
        // SAFETY: the root of a dispatcher that may run is a root table with the kernel's half; `tear_down`
        // and `refresh_dispatcher` clear the field before the table goes.
        unsafe { self.core.load_root(PhysAddr(next.root.get())) };
        self.registers.load_vectors(next);
    }

    /// The current dispatcher offers the rest of its slice.
    pub fn yield_now(&mut self, dcb: DcbRef) {
        const BUCKET: u64 = 1 << 20;
        dcb.share.runtime.set(dcb.share.runtime.get().max(self.queue.present() + BUCKET));
        dcb.share.turn.set(OVER);
        self.resched = true;
    }

    /// After an interrupt has woken somebody who may have run less than the current one.
    pub fn yield_to_woken(&mut self) {
        if !self.queue.is_empty() {
            self.resched = true;
        }
    }

    /// A dispatcher is taken apart: its memory may be somebody else's before this event ends.
    pub fn forget(&mut self, dcb: DcbRef) {
        self.timers.cancel(dcb);
        if self.current == Some(dcb) {
            self.current = None;
        }
        self.registers.forget(dcb);
    }

    /// Takes a dispatcher out of every queue.
    pub fn stop(&mut self, dcb: DcbRef) {
        self.bring_home(dcb);
        self.turn_away(dcb);
        dcb.leave_endpoint();
        self.queue.remove(dcb);
        dcb.state.set(State::Stopped);
        dcb.clear(flag::SUSPENDED);
        if self.direct == Some(dcb) {
            self.direct = None;
        }
        if self.current == Some(dcb) {
            self.resched = true;
        }
    }

    /// The timer of the core has expired. `false` if that was only the end of a turn: nobody is received.
    pub fn on_timer(&mut self) -> bool {
        let now = arch::tsc();
        self.alarm.expired();
        if now >= self.meter.turn_end() && now < self.slice.end {
            self.next_turn();
            return false;
        }
        sample::look(self, now);
        self.alarm.want(self.meter.turn_end());
        self.expire_timers(now);
        self.offer(now);
        // The slice may not be over, but who runs is decided anew: by the runtimes, not by that.
        self.resched = true;
        true
    }

    /// The turn of this core is over; the other events that it wants come later.
    fn next_turn(&mut self) {
        self.meter.next_turn(self.core.id, &mut self.alarm);
        self.alarm.want(self.slice.end.min(self.balance.offer_at));
        self.want_timers();
        self.receive_later(0);
    }

    /// Arms a dispatcher's timer; a deadline of 0 disarms it. O(log n).
    pub fn set_timer(&mut self, dcb: DcbRef, deadline: u64) {
        self.timers.set(dcb, deadline);
        if deadline != 0 {
            self.want_timers();
        }
    }

    /// Disarms a dispatcher's timer. O(log n).
    pub fn cancel_timer(&mut self, dcb: DcbRef) {
        self.timers.cancel(dcb);
    }

    /// Wants an event for the earliest deadline.
    fn want_timers(&mut self) {
        if let Some(deadline) = self.timers.next_event() {
            self.alarm.want(deadline);
        }
    }

    /// Notifies those whose deadline has passed at `now`.
    fn expire_timers(&mut self, now: u64) {
        let mut left = MOST_EXPIRED;
        while left > 0 {
            let Some(first) = self.timers.take_due(now) else { break };
            self.notify(first, NOTIFY_TIMER);
            left -= 1;
        }
        if left < MOST_EXPIRED {
            self.timers.pause(now, self.facts.tsc_hz);
        }
        self.want_timers();
    }

    /// Panics unless the timers are in order.
    #[cfg(test)]
    pub fn check_timers(&self) {
        self.timers.check();
    }
}
