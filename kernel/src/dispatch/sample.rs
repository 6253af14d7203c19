//! Which part of the processor time is the system's.
//!
//! That costs nothing where calls come and go: whenever the timer expires it is looked at what it has
//! interrupted, as Linux does with its tick. A dispatcher that is enabled executes its program. One that is
//! disabled is in its library, that is, in what a program calls the system; so is one that was in the kernel, for
//! that is left before an interrupt arrives. Who does not run on somebody's behalf, a server, is all system.

use super::Scheduler;
use crate::arch;
use crate::object::dcb::flag;
use crate::object::DcbRef;
use captypes::invocations::{Counter, ProcessorTime};

/// The timer has expired at `now`: looks at who runs.
#[cold]
#[inline(never)]
pub(super) fn look(sched: &mut Scheduler, now: u64) {
    let Some(dcb) = sched.current else { return };
    let in_system = dcb.frame.get().is_disabled(dcb.ctx.rip.get());
    dcb.time.look(now.saturating_sub(sched.slice.since), in_system);
    let shared = &sched.core.shared;
    let busy = now.saturating_sub(shared.counter(Counter::IdleTicks));
    // Together they are how long it had been busy at the last look.
    let parts = [Counter::UserTicks, Counter::SystemTicks];
    let before: u64 = parts.map(|part| shared.counter(part)).iter().sum();
    let for_somebody = !in_system && dcb.has(flag::SUPERVISED);
    sched.core.add(parts[usize::from(!for_somebody)], busy.saturating_sub(before));
}

impl Scheduler {
    /// Processor time that a dispatcher has used.
    #[inline(never)]
    pub fn usage(&self, dcb: DcbRef) -> ProcessorTime {
        let is_current = self.current == Some(dcb);
        dcb.time.with(if is_current { arch::tsc() - self.slice.since } else { 0 })
    }
}
