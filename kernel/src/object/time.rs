//! The processor time of a dispatcher, and which part of it is the system's.

use captypes::invocations::ProcessorTime;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The time from one look at it to the next is what it was found at in the first of them. So neither part ever
/// becomes less. Other cores read it at any time. In ticks.
#[derive(Default)]
pub struct Time {
    /// All of it, until it began to run last.
    used: AtomicU64,
    /// In the system, up to the last look.
    system: AtomicU64,
    /// All of it then.
    at: AtomicU64,
    /// It was in the system then.
    in_system: AtomicBool,
    /// With a priority: since it waited for anything, until it began to run last.
    unbroken: AtomicU64,
}

impl Time {
    /// It has run for `ticks`.
    #[inline]
    pub fn charge(&self, ticks: u64) {
        self.used.store(self.used.load(Relaxed) + ticks, Relaxed);
    }

    /// So much of that without a wait, as it has a priority.
    pub fn goes_on(&self, ticks: u64) {
        self.unbroken.store(self.unbroken.load(Relaxed) + ticks, Relaxed);
    }

    /// It has waited for something.
    pub fn has_waited(&self) {
        self.unbroken.store(0, Relaxed);
    }

    /// It has been running for `running` ticks, and is in the system or not.
    pub fn look(&self, running: u64, in_system: bool) {
        let ProcessorTime { ticks, system, .. } = self.with(running);
        self.system.store(system, Relaxed);
        self.at.store(ticks, Relaxed);
        self.in_system.store(in_system, Relaxed);
    }

    /// What it has used, if it has been running for `running` ticks now.
    pub fn with(&self, running: u64) -> ProcessorTime {
        let at = self.at.load(Relaxed);
        // Who reads on another core does not see since when it is running.
        let ticks = at.max(self.used.load(Relaxed) + running);
        let since = if self.in_system.load(Relaxed) { ticks - at } else { 0 };
        let unbroken = match self.unbroken.load(Relaxed) {
            0 => 0,
            before => before + running,
        };
        ProcessorTime { ticks, system: ticks.min(self.system.load(Relaxed) + since), unbroken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(time: &Time, running: u64) -> (u64, u64) {
        let ProcessorTime { ticks, system, .. } = time.with(running);
        (ticks, system)
    }

    #[test]
    fn it_is_what_it_was_found_at() {
        let time = Time::default();
        assert_eq!(parts(&time, 7), (7, 0), "nothing seen: the program's");
        time.look(10, true);
        assert_eq!(parts(&time, 10), (10, 0));
        assert_eq!(parts(&time, 15), (15, 5));
        time.charge(18);
        assert_eq!(parts(&time, 0), (18, 8));
        time.look(2, false);
        assert_eq!(parts(&time, 12), (30, 10));
        assert_eq!(parts(&time, 0), (20, 10), "read by who does not know that it runs");
        time.look(12, true);
        time.look(22, true);
        assert_eq!(parts(&time, 23), (41, 21));
    }

    #[test]
    fn no_part_ever_becomes_less() {
        let time = Time::default();
        let (mut state, mut all, mut running, mut last) = (1u64, 0, 0, (0, 0));
        for _ in 0..10_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let ticks = state >> 60;
            (all, running) = (all + ticks, running + ticks);
            match state >> 33 & 7 {
                0 | 1 => time.look(running, state >> 40 & 1 == 0),
                2 => time.charge(core::mem::take(&mut running)),
                _ => {}
            }
            let (ticks, system) = parts(&time, running);
            assert!(ticks - system >= last.0 && system >= last.1 && ticks == all);
            last = (ticks - system, system);
        }
    }
}
