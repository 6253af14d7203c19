//! Dispatchers that run on another core than their home.
//!
//! A dispatcher's *home* is the core in whose database its capabilities are. It may run on any core:
//! user mode, upcalls and faults that its own library handles need nothing from home. For an
//! invocation it is carried home, in its control block with its registers in it; the CPU driver
//! there does what it would have done had the dispatcher trapped there, and sends it back, or keeps
//! it if it has nothing else to run. So a capability, a page table or a database is only ever
//! touched by one core, and none of them needs a lock.
//!
//! ```text
//!   core r                              home
//!   runs ── invokes ──► [inbox] ─────► on_behalf ── waits ──► endpoint, notification, …
//!    ▲                                    │                        │
//!    └────────────────── [inbox] ◄────── place ◄────── wake ◄──────╯
//! ```
//!
//! A control block belongs to the core that has it; ownership goes with it through the inbox, a
//! stack that anybody may push on and only its owner empties. A dispatcher that waits is at home.
//! Home alone changes what is not about running: state, slots, suspension. When the dispatcher is
//! away, home *recalls* it first. Home waits for that, and other cores may wait for this one at the
//! same time; so whoever waits serves the others meanwhile (`serve_requests`).

use super::dcb::{flag, Errand};
use super::{DcbRef, Local, State};
use crate::arch;
use crate::cores::CoreId;
use crate::occupancy::Report;
use captypes::invocations::Counter;
use core::sync::atomic::Ordering;

/// Bit of [`Dcb::at`](super::Dcb::at): it is on the way there.
const MOVING: u8 = 0x80;
/// Bit of a recall: the core is looking.
const SEEN: u64 = 1;
/// Most dispatchers that a core receives in one event, and for how long it does so, as a fraction of a
/// second: 50 µs, and the last one may take as long as any event.
const MOST_VISITS: u32 = 32;
const VISITS_PER_SECOND: u64 = 20_000;

impl Local {
    /// Is its home another core?
    #[inline]
    pub(super) fn is_visiting(&self, dcb: DcbRef) -> bool {
        dcb.home.get() != self.id
    }

    /// Makes a core look at what was left for it.
    #[inline]
    pub(crate) fn interrupt(&mut self, core: CoreId) {
        self.add(Counter::Interrupts, 1);
        arch::send_ipi(core.index());
    }

    /// The current dispatcher, a visitor, goes home as soon as nothing of it is loaded any more.
    pub(super) fn go_home(&mut self, dcb: DcbRef, errand: Errand) {
        dcb.errand.set(errand);
        self.leaving = Some(dcb);
        self.resched = true;
    }

    /// Hands a dispatcher that is in no queue and not loaded to another core.
    pub(super) fn send(&mut self, dcb: DcbRef, to: CoreId) {
        self.settle_vectors(dcb, true);
        if !self.is_visiting(dcb) {
            dcb.away.set(true);
            self.tlb.goes_away();
        }
        let home = dcb.home.get();
        if to != home {
            self.cores.get(home).tlb.goes_to(to.index());
        }
        dcb.at.store(to.0 | MOVING, Ordering::Release);
        let inbox = &self.cores.get(to).inbox;
        let mut top = inbox.load(Ordering::Relaxed);
        loop {
            dcb.below.store(top, Ordering::Relaxed);
            match inbox.compare_exchange_weak(top, dcb.pa(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => top = other,
            }
        }
        self.interrupt(to);
    }

    /// Takes what came to this core out of the inbox, the oldest first.
    fn collect(&mut self) {
        let inbox = &self.shared.inbox;
        if inbox.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (mut top, mut oldest) = (inbox.swap(0, Ordering::Acquire), 0);
        while top != 0 {
            let below = DcbRef::at(top).below.swap(oldest, Ordering::Relaxed);
            (oldest, top) = (top, below);
        }
        while oldest != 0 {
            let dcb = DcbRef::at(oldest);
            oldest = dcb.below.load(Ordering::Relaxed);
            dcb.at.store(self.id.0, Ordering::Release);
            if !self.is_visiting(dcb) {
                dcb.away.set(false);
                self.tlb.comes_back();
                if !self.tlb.are_some_away() {
                    self.shared.tlb.all_are_home();
                }
            }
            dcb.set(flag::ARRIVED);
            self.arrived.push(dcb);
        }
    }

    /// Takes a dispatcher out of those that have arrived.
    pub(super) fn turn_away(&mut self, dcb: DcbRef) {
        if dcb.has(flag::ARRIVED) {
            dcb.clear(flag::ARRIVED);
            self.arrived.remove(dcb);
        }
    }

    /// Another core has left something here.
    pub(super) fn attend(&mut self) {
        self.serve_requests();
        self.answer_door();
        self.receive();
        if self.waits_since.is_some() {
            // An idle core may have asked.
            self.share_out();
        }
    }

    /// Does what dispatchers have come for, as many as there is time for in one event: others may send
    /// more of them all the time. While somebody has something to do here, the rest waits for as long
    /// again.
    pub(super) fn receive(&mut self) {
        if self.arrived.first().is_none() {
            return;
        }
        let begun = arch::tsc();
        let works = self.current.is_some() || !self.queue.is_empty();
        if works && begun < self.receives_from {
            return self.want_timer(self.receives_from);
        }
        let time = self.facts.tsc_hz / VISITS_PER_SECOND;
        let mut left = MOST_VISITS;
        while let Some(dcb) = self.arrived.first() {
            self.turn_away(dcb);
            match dcb.errand.get() {
                Errand::Run => self.host(dcb),
                Errand::Recalled => self.wake_again(dcb),
                Errand::Invoke => self.on_behalf(dcb, crate::invoke::invoke),
                Errand::Fault => self.on_behalf(dcb, Local::deliver_fault),
            }
            self.serve_requests();
            left -= 1;
            if left == 0 || self.since > begun + time {
                break;
            }
        }
        self.receive_later(time);
    }

    /// The rest is received in another event: after so much time if somebody has something to do here.
    pub(super) fn receive_later(&mut self, time: u64) {
        if self.arrived.first().is_none() {
            return;
        }
        let works = self.current.is_some() || self.direct.is_some() || !self.queue.is_empty();
        self.receives_from = self.since + if works { time } else { 0 };
        self.want_timer(self.receives_from);
    }

    /// What others want that does not depend on what this core is doing. Whoever waits for another
    /// core calls this again and again.
    pub(crate) fn serve_requests(&mut self) {
        self.answer_flushes();
        self.collect();
        self.answer_recall();
    }

    /// A dispatcher has come to run here.
    fn host(&mut self, dcb: DcbRef) {
        dcb.runs_on.set(self.id);
        // Its runtime was measured against that of others.
        dcb.runtime.set(self.queue.present());
        self.queue.push(dcb);
        self.resched = true;
    }

    /// A dispatcher that was recalled goes on, unless that is why.
    fn wake_again(&mut self, dcb: DcbRef) {
        if dcb.state.get() == State::Ready {
            self.wake(dcb);
        }
    }

    /// Does what a dispatcher has come home for: it is current meanwhile.
    fn on_behalf(&mut self, dcb: DcbRef, work: impl FnOnce(&mut Local, DcbRef)) {
        self.add(Counter::Visits, 1);
        self.put_aside();
        arch::write_fs_base(dcb.fs_base.get());
        arch::write_gs_base(dcb.gs_base.get());
        (self.current, self.loaded) = (Some(dcb), Some(dcb));
        work(self, dcb);
        // Before it can run anywhere.
        if self.tlb.is_pending() {
            self.flush_tlb();
        }
        self.resched = true;
        if self.current != Some(dcb) {
            return;
        }
        self.put_aside_current();
        if dcb.state.get() == State::Ready && !dcb.has(flag::SUSPENDED) {
            self.place(dcb, true);
        }
    }

    /// The current dispatcher, if any, goes to the queue; so does who would have been next.
    fn put_aside(&mut self) {
        if let Some(next) = self.direct.take() {
            self.queue.push(next);
        }
        let Some(last) = self.current else {
            let now = arch::tsc();
            self.add(Counter::IdleTicks, now.saturating_sub(self.since));
            self.since = now;
            self.report(Report::Works(true), now);
            return;
        };
        let leaves = self.leaving.is_some();
        self.put_aside_current();
        self.see_off();
        if !leaves && self.may_run(last) {
            self.queue.push(last);
        }
    }

    fn put_aside_current(&mut self) {
        let Some(last) = self.current.take() else { return };
        let now = arch::tsc();
        self.charge(last, now);
        self.since = now;
        self.unload();
    }

    /// Before home changes a dispatcher: it is here afterwards.
    #[inline]
    pub(crate) fn bring_home(&mut self, dcb: DcbRef) {
        if dcb.away.get() {
            self.recall(dcb);
        }
    }

    #[inline(never)]
    fn recall(&mut self, dcb: DcbRef) {
        self.add(Counter::Recalls, 1);
        let request = dcb.pa();
        let mut asked = None;
        while dcb.away.get() {
            let at = dcb.at.load(Ordering::Acquire);
            let core = CoreId(at & !MOVING);
            let slot = &self.cores.get(core).recall;
            let free = slot.load(Ordering::Relaxed) == 0;
            if core != self.id
                && free
                && slot.compare_exchange(0, request, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                asked = Some(slot);
                self.interrupt(core);
            }
            self.relax();
            self.serve_requests();
        }
        // It may have come by itself; nobody must look at it later on our account.
        let Some(slot) = asked else { return };
        // If it is another request already, that one stays.
        let _ = slot.compare_exchange(request, 0, Ordering::AcqRel, Ordering::Relaxed);
        while slot.load(Ordering::Acquire) == request | SEEN {
            self.relax();
            self.serve_requests();
        }
    }

    /// Sends a dispatcher home that another core wants back, if it is here.
    fn answer_recall(&mut self) {
        let slot = &self.shared.recall;
        let request = slot.load(Ordering::Acquire);
        if request == 0 || request & SEEN != 0 {
            return;
        }
        let seen = request | SEEN;
        if slot.compare_exchange(request, seen, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        self.collect();
        let dcb = DcbRef::at(request);
        if dcb.at.load(Ordering::Relaxed) == self.id.0 && self.is_visiting(dcb) {
            self.release(dcb);
        }
        slot.store(0, Ordering::Release);
    }

    /// A visitor that is not about to leave anyway goes home.
    fn release(&mut self, dcb: DcbRef) {
        if self.leaving == Some(dcb) {
            return;
        }
        if self.current == Some(dcb) {
            return self.go_home(dcb, Errand::Recalled);
        }
        self.turn_away(dcb);
        self.queue.remove(dcb);
        if self.direct == Some(dcb) {
            self.direct = None;
        }
        // It may be the one that was interrupted.
        if self.current.is_none_or(|current| current.root != dcb.root) {
            self.leave_root(dcb.root.get());
        }
        dcb.errand.set(Errand::Recalled);
        self.send(dcb, dcb.home.get());
    }

    /// A dispatcher that is away has something to look at.
    #[inline]
    pub(super) fn poke(&mut self, dcb: DcbRef) {
        let core = CoreId(dcb.at.load(Ordering::Acquire) & !MOVING);
        if core != self.id {
            self.interrupt(core);
        }
    }
}
