//! Dispatchers whose schedule is not the usual one: with a priority, or with another weight.
//!
//! Whoever has none pays for them with a look at a word here and there. A core says which rank runs on it once somebody on the
//! machine has had a priority: then those with one go where a lower one runs, and those without where none does.

use super::queue::{self, RunQueue, SERVER};
use super::Scheduler;
use crate::cores::CoreId;
use crate::object::dcb::flag;
use crate::object::{DcbRef, Schedule};
use core::sync::atomic::Ordering;

/// Do cores say which rank runs?
#[inline(always)]
pub(super) fn have_ranks(sched: &Scheduler) -> bool {
    sched.core.shared.place.has_ranks.load(Ordering::Relaxed)
}

/// Does one that has just become ready run at once, in the place of the current one?
#[inline(always)]
pub(super) fn preempts(queue: &RunQueue, dcb: DcbRef, current: DcbRef) -> bool {
    let (new, now) = (dcb.share.schedule(), current.share.schedule());
    (new.word() | now.word() != 0) && goes_before(queue, dcb, current)
}

#[cold]
#[inline(never)]
fn goes_before(queue: &RunQueue, dcb: DcbRef, current: DcbRef) -> bool {
    match (queue::rank(queue, dcb), queue::rank(queue, current)) {
        (0, 0) => dcb.share.schedule().outweighs(current.share.schedule()),
        (new, now) => new > now,
    }
}

/// Somebody with a priority may wait: does the one that was to run next do so nevertheless? Otherwise it waits, too.
#[cold]
#[inline(never)]
pub(super) fn before_prior(queue: &mut RunQueue, next: DcbRef, time: u64) -> Option<DcbRef> {
    queue::look(queue, time);
    if queue::rank(queue, next) >= queue::highest(queue) {
        return Some(next);
    }
    queue.push(next);
    None
}

/// Shows the other cores the rank of who runs here, if that matters.
#[inline(always)]
pub(super) fn show(sched: &mut Scheduler, next: Option<DcbRef>) {
    if have_ranks(sched) {
        show_rank(sched, next);
    }
}

#[cold]
#[inline(never)]
fn show_rank(sched: &mut Scheduler, next: Option<DcbRef>) {
    let rank = next.map_or(0, |next| queue::rank(&sched.queue, next));
    sched.core.shared.place.rank.store(rank, Ordering::Relaxed);
}

/// Another core that a dispatcher may run on, at once: where the lowest rank runs, if that is lower than its own, and then the
/// one where it ran last. For one without a priority, where nobody has one, if somebody has here. Servers stay.
pub(super) fn core_for(sched: &Scheduler, dcb: DcbRef) -> Option<CoreId> {
    if !have_ranks(sched) {
        return None;
    }
    let rank_of = |core: CoreId| sched.core.cores.get(core).place.rank.load(Ordering::Relaxed);
    let own = match (queue::rank(&sched.queue, dcb), rank_of(sched.core.id)) {
        (SERVER, _) => return None,
        (0, 1..SERVER) => 1,
        (own, _) => own,
    };
    let last = dcb.runs_on.get();
    let (mut set, mut best) = (sched.allowed(dcb) & !sched.core.id.bit(), None);
    let mut least = (own, false);
    while set != 0 {
        let core = CoreId(set.trailing_zeros() as u8);
        set &= set - 1;
        let found = (rank_of(core), core != last);
        if found.0 < own && (best.is_none() || found < least) {
            (best, least) = (Some(core), found);
        }
    }
    best
}

/// How a dispatcher competes from now on; see [`captypes::op::SetSchedule`].
pub fn set_schedule(sched: &mut Scheduler, dcb: DcbRef, schedule: Schedule) {
    if schedule.priority() != 0 {
        sched
            .core
            .cores
            .iter()
            .for_each(|(_, core)| core.place.has_ranks.store(true, Ordering::Relaxed));
    }
    let before = dcb.share.schedule.swap(schedule.word(), Ordering::Relaxed);
    if before == schedule.word() || dcb.trip.abroad.get() {
        // It is placed anew when it comes back.
        return;
    }
    if dcb.away.get() {
        return sched.bring_home(dcb);
    }
    dcb.share.turn.set(0);
    if sched.current != Some(dcb) && dcb.has(flag::QUEUED) {
        sched.queue.remove(dcb);
        queue::settle(&sched.queue, dcb);
        return sched.wake(dcb);
    }
    queue::settle(&sched.queue, dcb);
    sched.resched |= sched.current == Some(dcb);
}
