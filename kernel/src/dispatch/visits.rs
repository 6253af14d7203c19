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

use super::calls::{call_back, is_call};
use super::guests::Guests;
use super::{queue, Scheduler};
use crate::arch;
use crate::cores::CoreId;
use crate::object::dcb::{flag, Errand};
use crate::object::{DcbList, DcbRef, State};
use crate::occupancy::Report;
use captypes::invocations::Counter;
use core::sync::atomic::Ordering;
use paging::PhysAddr;

/// Bit of [`Dcb::at`](super::Dcb::at): it is on the way there.
const MOVING: u8 = 0x80;
/// Bit of a recall: the core is looking.
const SEEN: u64 = 1;
/// Most dispatchers that a core receives in one event, and for how long it does so, as a fraction of a
/// second: 50 µs, and the last one may take as long as any event.
const MOST_VISITS: u32 = 32;
const VISITS_PER_SECOND: u64 = 20_000;

/// Dispatchers on the way between cores.
pub(super) struct Visits {
    /// The current dispatcher goes home.
    pub(super) leaving: Option<DcbRef>,
    /// Those that have come from other cores.
    pub(super) arrived: DcbList,
    /// Those of other cores that wait here.
    pub(super) guests: Guests,
    /// Of those, the one for whom something is being done, which may take waiting for other cores: it goes home at once.
    pub(super) serves: Option<DcbRef>,
    /// When those that are left of them are received, if others have something to do.
    receives_from: u64,
}

impl Visits {
    /// There are none.
    pub(super) const fn new() -> Visits {
        let (arrived, guests) = (DcbList::new(), Guests::new());
        Visits { leaving: None, arrived, guests, serves: None, receives_from: 0 }
    }
}

/// How many are received in an event, and for how long.
pub struct Reception {
    left: u32,
    end: u64,
    /// In ticks.
    pub time: u64,
}

impl Scheduler {
    /// Is its home another core?
    #[inline]
    pub fn is_visiting(&self, dcb: DcbRef) -> bool {
        dcb.home.get() != self.core.id
    }

    /// The current dispatcher, a visitor, goes home as soon as nothing of it is loaded any more.
    pub fn go_home(&mut self, dcb: DcbRef, errand: Errand) {
        dcb.trip.errand.set(errand);
        self.visits.leaving = Some(dcb);
        self.resched = true;
    }

    /// Hands a dispatcher that is in no queue and not loaded to another core.
    pub(super) fn send(&mut self, dcb: DcbRef, to: CoreId) {
        self.registers.settle_vectors(dcb, true);
        queue::leave(&self.queue, dcb);
        if !self.is_visiting(dcb) {
            dcb.away.set(true);
            self.core.goes_away();
        }
        let home = dcb.home.get();
        if to != home {
            self.core.cores.get(home).tlb.goes_to(to.index());
        }
        dcb.at.store(to.0 | MOVING, Ordering::Release);
        let inbox = &self.core.cores.get(to).inbox;
        let mut top = inbox.load(Ordering::Relaxed);
        loop {
            dcb.below.store(top, Ordering::Relaxed);
            match inbox.compare_exchange_weak(top, dcb.pa(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => top = other,
            }
        }
        self.core.interrupt(to);
    }

    /// Takes what came to this core out of the inbox, the oldest first.
    fn collect(&mut self) {
        let inbox = &self.core.shared.inbox;
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
            dcb.at.store(self.core.id.0, Ordering::Release);
            if !self.is_visiting(dcb) {
                dcb.away.set(false);
                if dcb.trip.abroad.replace(false) && dcb.trip.held.replace(false) {
                    dcb.set(flag::SUSPENDED);
                }
                self.core.comes_back();
            }
            queue::arrive(&self.queue, dcb);
            dcb.set(flag::ARRIVED);
            self.visits.arrived.push(dcb);
        }
    }

    /// Takes a dispatcher out of those that have arrived.
    pub fn turn_away(&mut self, dcb: DcbRef) {
        if dcb.has(flag::ARRIVED) {
            dcb.clear(flag::ARRIVED);
            self.visits.arrived.remove(dcb);
        }
    }

    /// Whom this core receives in this event, and until when; `None` if it has other things to do.
    pub fn begin_to_receive(&mut self) -> Option<Reception> {
        self.visits.arrived.first()?;
        let begun = arch::tsc();
        let works = self.current.is_some() || !self.queue.is_empty();
        if works && begun < self.visits.receives_from {
            self.alarm.want(self.visits.receives_from);
            return None;
        }
        let time = self.facts.tsc_hz / VISITS_PER_SECOND;
        Some(Reception { left: MOST_VISITS, end: begun + time, time })
    }

    /// The next one, with what it has come for.
    pub fn next_arrival(&mut self) -> Option<(DcbRef, Errand)> {
        let dcb = self.visits.arrived.first()?;
        self.turn_away(dcb);
        Some((dcb, dcb.trip.errand.get()))
    }

    /// One has been received. May another one be?
    pub fn goes_on_receiving(&mut self, reception: &mut Reception) -> bool {
        self.serve_requests();
        reception.left -= 1;
        reception.left != 0 && self.slice.since <= reception.end
    }

    /// A dispatcher has come home to do something: it is current meanwhile.
    pub fn begin_visit(&mut self, dcb: DcbRef) {
        self.core.add(Counter::Visits, 1);
        self.put_aside();
        self.registers.load(dcb);
        self.current = Some(dcb);
    }

    /// It has done that, and goes on wherever there is room.
    pub fn end_visit(&mut self, dcb: DcbRef) {
        self.resched = true;
        if self.current != Some(dcb) {
            return;
        }
        self.put_aside_current();
        if self.visits.leaving.is_some() {
            self.see_off();
        } else if dcb.state.get() == State::Ready && !dcb.has(flag::SUSPENDED) {
            self.place(dcb, true);
        }
    }

    /// The others may have work for this core if somebody waits here: an idle core may have asked.
    pub fn answer_idle(&mut self) {
        if self.balance.waits_since.is_some() {
            self.share_out();
        }
    }

    /// The rest is received in another event: after so much time if somebody has something to do here.
    pub fn receive_later(&mut self, time: u64) {
        if self.visits.arrived.first().is_none() {
            return;
        }
        let works = self.current.is_some() || self.direct.is_some() || !self.queue.is_empty();
        self.visits.receives_from = self.slice.since + if works { time } else { 0 };
        self.alarm.want(self.visits.receives_from);
    }

    /// Lets other cores go on, for which this one waits.
    pub fn wait_for_others(&mut self) {
        self.meter.relax(self.core.id, &mut self.alarm);
        self.serve_requests();
    }

    /// What others want that does not depend on what this core is doing. Whoever waits for another
    /// core calls this again and again.
    pub fn serve_requests(&mut self) {
        self.core.answer_shootdowns();
        self.collect();
        self.answer_recall();
    }

    /// A dispatcher has come to run here.
    pub fn host(&mut self, dcb: DcbRef) {
        dcb.runs_on.set(self.core.id);
        self.queue.push(dcb);
        self.resched = true;
    }

    /// A dispatcher that was recalled goes on, unless that is why.
    pub fn wake_again(&mut self, dcb: DcbRef) {
        if dcb.state.get() == State::Ready {
            self.wake(dcb);
        }
    }

    /// The current dispatcher, if any, goes to the queue; so does who would have been next.
    fn put_aside(&mut self) {
        if let Some(next) = self.direct.take() {
            self.queue.push(next);
        }
        let Some(last) = self.current else {
            let now = arch::tsc();
            self.core.add(Counter::IdleTicks, now.saturating_sub(self.slice.since));
            self.slice.since = now;
            self.meter.report(self.core.id, Report::Works(true), now, &mut self.alarm);
            return;
        };
        let leaves = self.visits.leaving.is_some();
        self.put_aside_current();
        self.see_off();
        if !leaves && self.may_run(last) {
            self.queue.put_back(last);
        }
    }

    fn put_aside_current(&mut self) {
        let Some(last) = self.current.take() else { return };
        let now = arch::tsc();
        self.charge(last, now);
        self.slice.since = now;
        self.registers.unload();
    }

    /// Before home changes a dispatcher: it is here afterwards.
    #[inline]
    pub fn bring_home(&mut self, dcb: DcbRef) {
        if dcb.away.get() {
            self.recall(dcb);
        }
    }

    #[inline(never)]
    fn recall(&mut self, dcb: DcbRef) {
        self.core.add(Counter::Recalls, 1);
        let request = dcb.pa();
        let mut asked = None;
        while dcb.away.get() {
            let at = dcb.at.load(Ordering::Acquire);
            let core = CoreId(at & !MOVING);
            let slot = &self.core.cores.get(core).recall;
            let free = slot.load(Ordering::Relaxed) == 0;
            if core != self.core.id
                && free
                && slot.compare_exchange(0, request, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                asked = Some(slot);
                self.core.interrupt(core);
            }
            self.wait_for_others();
        }
        // It may have come by itself; nobody must look at it later on our account.
        let Some(slot) = asked else { return };
        // If it is another request already, that one stays.
        let _ = slot.compare_exchange(request, 0, Ordering::AcqRel, Ordering::Relaxed);
        while slot.load(Ordering::Acquire) == request | SEEN {
            self.wait_for_others();
        }
    }

    /// Sends a dispatcher home that another core wants back, if it is here.
    fn answer_recall(&mut self) {
        let slot = &self.core.shared.recall;
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
        if dcb.at.load(Ordering::Relaxed) == self.core.id.0 && self.is_visiting(dcb) {
            self.release(dcb);
        }
        slot.store(0, Ordering::Release);
    }

    /// A visitor that is not about to leave anyway goes home.
    fn release(&mut self, dcb: DcbRef) {
        if self.visits.leaving == Some(dcb) || self.visits.serves == Some(dcb) {
            return;
        }
        if self.current == Some(dcb) {
            return self.go_home(dcb, Errand::Recalled);
        }
        if dcb.has(flag::ABROAD) || dcb.has(flag::ARRIVED) && is_call(dcb.trip.errand.get()) {
            return call_back(self, dcb);
        }
        self.turn_away(dcb);
        self.queue.remove(dcb);
        if self.direct == Some(dcb) {
            self.direct = None;
        }
        // It may be the one that was interrupted.
        if self.current.is_none_or(|current| current.root != dcb.root) {
            self.core.leave_root(PhysAddr(dcb.root.get()));
        }
        dcb.trip.errand.set(Errand::Recalled);
        self.send(dcb, dcb.home.get());
    }

    /// A dispatcher that is away has something to look at.
    #[inline]
    pub(super) fn poke(&mut self, dcb: DcbRef) {
        let core = CoreId(dcb.at.load(Ordering::Acquire) & !MOVING);
        // One that calls looks when it has the answer.
        if core != self.core.id && !dcb.trip.abroad.get() {
            self.core.interrupt(core);
        }
    }
}
