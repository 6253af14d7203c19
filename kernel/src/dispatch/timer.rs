//! Timers of dispatchers: a list ordered by deadline, through the dispatchers themselves.
//!
//! Few have one armed at a time (a server keeps those of its clients), so a list will do.

use super::dcb::{flag, DcbRef};
use super::Local;
use captypes::invocations::NOTIFY_TIMER;

impl Local {
    /// Arms a dispatcher's timer; a deadline of 0 disarms it.
    pub fn set_timer(&mut self, dcb: DcbRef, deadline: u64) {
        self.cancel_timer(dcb);
        if deadline == 0 {
            return;
        }
        dcb.deadline.set(deadline);
        dcb.set(flag::TIMER);
        let (mut before, mut after) = (None, self.timers);
        while let Some(at) = after.filter(|at: &DcbRef| at.deadline.get() <= deadline) {
            (before, after) = (after, at.timer_links.next.get());
        }
        self.join(before, Some(dcb));
        self.join(Some(dcb), after);
        self.want_timer(deadline);
    }

    /// Disarms a dispatcher's timer.
    pub fn cancel_timer(&mut self, dcb: DcbRef) {
        if dcb.has(flag::TIMER) {
            dcb.clear(flag::TIMER);
            self.join(dcb.timer_links.prev.get(), dcb.timer_links.next.get());
        }
    }

    /// Makes two members neighbours.
    fn join(&mut self, before: Option<DcbRef>, after: Option<DcbRef>) {
        match before {
            Some(before) => before.timer_links.next.set(after),
            None => self.timers = after,
        }
        if let Some(after) = after {
            after.timer_links.prev.set(before);
        }
    }

    /// Notifies everybody whose deadline has passed at `now`.
    pub(super) fn expire_timers(&mut self, now: u64) {
        while let Some(first) = self.timers.filter(|first| first.deadline.get() <= now) {
            self.cancel_timer(first);
            self.notify(first, NOTIFY_TIMER);
        }
        if let Some(first) = self.timers {
            self.want_timer(first.deadline.get());
        }
    }
}
