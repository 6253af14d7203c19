//! Which dispatcher runs: ready ones wait in the run queue, the current one is in no queue.

use super::Local;
use crate::arch;
use crate::cap::delete::Progress;
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbRef, Listener, State};
use crate::occupancy::Report;
use captypes::invocations::Counter;
use core::sync::atomic::Ordering;
use trace::Mark;

impl Local {
    /// Makes a dispatcher ready.
    #[inline]
    pub(crate) fn wake(&mut self, dcb: DcbRef) {
        dcb.state.set(State::Ready);
        if dcb.has(flag::SUSPENDED | flag::ARRIVED) || self.current == Some(dcb) {
            return;
        }
        if self.cores.are_many() {
            return self.place(dcb, false);
        }
        self.enqueue(dcb);
    }

    /// A ready dispatcher waits here for its turn.
    #[inline]
    pub(super) fn enqueue(&mut self, dcb: DcbRef) {
        self.queue.push(dcb);
        if self.current.is_none() {
            self.resched = true;
        }
    }

    /// Lets somebody else run: the current dispatcher was put elsewhere, or goes to the queue.
    #[inline]
    pub(crate) fn block(&mut self) {
        self.resched = true;
    }

    /// The current dispatcher waits for `next`, which runs at once, in the rest of the time slice.
    #[inline]
    pub(crate) fn switch_directly(&mut self, next: DcbRef) {
        next.state.set(State::Ready);
        if !next.has(flag::SUSPENDED) {
            if self.cores.are_many() && !self.goes_on_here(next) {
                self.place(next, false);
            } else {
                self.direct = Some(next);
            }
        }
        self.resched = true;
    }

    /// Loads the dispatcher that runs next, or none.
    pub(super) fn pick_next(&mut self) {
        self.resched = false;
        let now = arch::tsc();
        let last = self.current;
        match last {
            Some(last) => self.charge(last, now),
            None => self.add(Counter::IdleTicks, now.saturating_sub(self.since)),
        }
        self.since = now;
        let direct = self.direct.take();
        if let Some(last) = last.filter(|&l| Some(l) != direct) {
            self.give_way(last);
        }
        self.see_off();
        let next = match direct.filter(|&d| self.may_run(d)) {
            Some(next) => next,
            None => match self.next_runnable() {
                Some(next) => {
                    self.slice_end = now + self.slice;
                    next
                }
                None => return self.go_idle(),
            },
        };
        self.want_timer(self.slice_end);
        if self.loaded != Some(next) {
            self.switch(next);
        }
        self.current = Some(next);
        if last.is_none() {
            self.report(Report::Works(true), now);
        }
        if self.cores.are_many() {
            if core::mem::take(&mut self.shows_idle) {
                self.cores.set_idle(self.id, false);
            }
            if !self.queue.is_empty() || self.waits_since.is_some() {
                self.look_at_queue(now);
            }
        }
        trace::mark(Mark::Switch(next.trace_number()));
        next.runs_on.set(self.id);
        self.consider_upcall();
    }

    /// Who gave way but is ready goes back to the queue, unless it goes elsewhere.
    #[inline]
    fn give_way(&mut self, last: DcbRef) {
        if self.leaving.is_some() || !self.may_run(last) {
            return;
        }
        if self.cores.are_many() && self.allowed(last) & self.id.bit() == 0 {
            return self.give_away(last);
        }
        self.queue.push(last);
    }

    /// The current dispatcher may not run here any more.
    fn give_away(&mut self, last: DcbRef) {
        if self.is_visiting(last) {
            return self.go_home(last, Errand::Recalled);
        }
        self.unload();
        self.current = None;
        self.place(last, false);
    }

    /// Whoever leaves this core does so with nothing of it loaded any more: home may take its
    /// address space apart.
    #[inline]
    pub(super) fn see_off(&mut self) {
        if let Some(dcb) = self.leaving.take() {
            self.unload();
            self.load_kernel_root();
            self.send(dcb, dcb.home.get());
        }
    }

    /// Is it the one to switch to without a look at the queue?
    #[cfg(test)]
    pub(crate) fn is_next(&self, dcb: DcbRef) -> bool {
        self.direct == Some(dcb)
    }

    /// The first of the queue that has all that it needs; others are stopped.
    fn next_runnable(&mut self) -> Option<DcbRef> {
        /// How many are stopped in one event.
        const MOST_STOPPED: u32 = 128;
        for _ in 0..MOST_STOPPED {
            let next = self.queue.pop()?;
            if self.may_run(next) {
                return Some(next);
            }
        }
        // There may be others behind.
        self.want_timer(self.since);
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
        let used = now.saturating_sub(self.since);
        dcb.usage.store(dcb.usage.load(Ordering::Relaxed) + used, Ordering::Relaxed);
        dcb.runtime.set(dcb.runtime.get() + used);
    }

    /// Processor time that a dispatcher has used.
    pub(crate) fn usage(&self, dcb: DcbRef) -> u64 {
        let running = if self.current == Some(dcb) { arch::tsc() - self.since } else { 0 };
        dcb.usage.load(Ordering::Relaxed) + running
    }

    fn go_idle(&mut self) {
        self.unload();
        self.current = None;
        trace::mark(Mark::Idle);
        self.show_waiting(false, self.since);
        self.report(Report::Works(false), self.since);
        // The others cannot ask the database.
        self.shared.set_counter(Counter::Capabilities, self.db.len() as u64);
        self.shared.idle_since.store(self.since, Ordering::Relaxed);
        self.show_idle();
        // Whoever ran last may be gone by the time of the next event, with its tables.
        self.load_kernel_root();
        self.ask_for_work();
    }

    /// The others may send something. Whoever claimed this core may have called it back meanwhile.
    fn show_idle(&mut self) {
        if self.cores.are_many() {
            self.shows_idle = true;
            if self.cores.idle() & self.id.bit() == 0 {
                self.cores.set_idle(self.id, true);
            }
        }
    }

    fn switch(&mut self, next: DcbRef) {
        self.add(Counter::Switches, 1);
        self.unload();
        self.loaded = Some(next);
        if self.cores.are_many() {
            next.frame.get().set_core(self.id.0, self.node);
        }
        arch::write_fs_base(next.fs_base.get());
        arch::write_gs_base(next.gs_base.get());
        // SAFETY: the root of a dispatcher that may run is a root table with the kernel's half; `tear_down`
        // and `refresh_dispatcher` clear the field before the table goes.
        unsafe { self.load_root(next.root.get()) };
        self.load_vectors(next);
    }

    /// The current dispatcher offers the rest of its slice.
    pub(crate) fn yield_now(&mut self, dcb: DcbRef) {
        const BUCKET: u64 = 1 << 20;
        dcb.runtime.set(dcb.runtime.get().max(self.queue.present() + BUCKET));
        self.resched = true;
    }

    /// After an interrupt has woken somebody who may have run less than the current one.
    pub(super) fn yield_to_woken(&mut self) {
        if !self.queue.is_empty() {
            self.resched = true;
        }
    }

    /// The timer of the core has expired.
    pub(super) fn on_timer(&mut self) {
        let now = arch::tsc();
        (self.armed, self.wanted) = (u64::MAX, u64::MAX);
        if now >= self.turn_end && now < self.slice_end {
            return self.next_turn();
        }
        self.want_timer(self.turn_end);
        self.expire_timers(now);
        self.offer(now);
        self.receive();
        // The slice may not be over, but who runs is decided anew: by the runtimes, not by that.
        self.resched = true;
    }

    /// Somebody wants an event at `deadline`.
    #[inline]
    pub(super) fn want_timer(&mut self, deadline: u64) {
        if deadline < self.wanted {
            self.wanted = deadline;
            self.rearm |= deadline < self.armed;
        }
    }

    /// A dispatcher that is to be taken apart leaves everything that it is in.
    pub(crate) fn retire(&mut self, dcb: DcbRef) -> Progress {
        self.abandon_callers(dcb)?;
        self.stop(dcb);
        self.cancel_timer(dcb);
        if self.current == Some(dcb) {
            // Its memory may be somebody else's before this event ends.
            self.current = None;
        }
        if self.loaded == Some(dcb) {
            self.loaded = None;
        }
        if self.remote.client == Some(dcb) {
            self.remote.client = None;
        }
        if self.vectors == Some(dcb) {
            self.vectors = None;
        }
        if self.first == Some(dcb) {
            self.first = None;
        }
        if self.reclaim.notify == Some(dcb) {
            self.reclaim.notify = None;
        }
        self.doorbell.forget(dcb);
        self.silence_irqs(Listener::Dispatcher(dcb));
        Ok(())
    }

    /// Takes a dispatcher out of every queue.
    pub(crate) fn stop(&mut self, dcb: DcbRef) {
        self.bring_home(dcb);
        self.turn_away(dcb);
        dcb.leave_endpoint();
        self.queue.remove(dcb);
        dcb.state.set(State::Stopped);
        if self.direct == Some(dcb) {
            self.direct = None;
        }
        if self.current == Some(dcb) {
            self.resched = true;
        }
    }

    /// Keeps what is in registers that the entry code does not store.
    #[inline]
    pub(super) fn unload(&mut self) {
        if let Some(last) = self.loaded.take() {
            last.fs_base.set(arch::read_fs_base());
            last.gs_base.set(arch::read_gs_base());
        }
    }
}
