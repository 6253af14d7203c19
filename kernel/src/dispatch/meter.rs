//! Saying when this core works and when somebody waits, if that is measured, and taking turns with the
//! other cores, if they do.

use super::alarm::Alarm;
use crate::arch;
use crate::cores::CoreId;
use crate::occupancy::{Occupancy, Report, TURN};
use captypes::invocations::Counter;

/// To whom a core reports.
pub struct Meter {
    occupancy: Option<&'static Occupancy>,
    /// When its turn is over, if cores take turns.
    turn_end: u64,
}

impl Meter {
    /// Nothing is measured.
    pub const fn new() -> Meter {
        Meter { occupancy: None, turn_end: u64::MAX }
    }

    /// Says from now on when core `id` works and when somebody waits.
    pub fn watch(&mut self, id: CoreId, occupancy: &'static Occupancy, turns: bool) {
        occupancy.watch(id, turns, arch::tsc());
        self.occupancy = Some(occupancy);
    }

    /// Something has changed at `now`.
    #[inline]
    pub fn report(&mut self, id: CoreId, report: Report, now: u64, alarm: &mut Alarm) {
        if let Some(occupancy) = self.occupancy {
            occupancy.report(id, report, now);
            match report {
                Report::Works(true) => self.take_turn(id, alarm),
                Report::Works(false) => {
                    self.turn_end = u64::MAX;
                    occupancy.end_turn(id);
                }
                Report::Waits(_) => {}
            }
        }
    }

    /// When the turn of this core is over; never if it has none.
    pub fn turn_end(&self) -> u64 {
        self.turn_end
    }

    /// Waits for the turn of this core, if they take turns.
    fn take_turn(&mut self, id: CoreId, alarm: &mut Alarm) {
        if let Some(occupancy) = self.occupancy.filter(|occupancy| occupancy.has_turns()) {
            occupancy.await_turn(id, || arch::answer_maps(id.index()));
            self.turn_end = arch::tsc() + TURN;
            alarm.want(self.turn_end);
        }
    }

    /// The turn of this core is over: waits for the next one.
    pub fn next_turn(&mut self, id: CoreId, alarm: &mut Alarm) {
        if let Some(occupancy) = self.occupancy {
            occupancy.end_turn(id);
            self.take_turn(id, alarm);
        }
    }

    /// Lets other cores go on, for which this one waits.
    pub fn relax(&mut self, id: CoreId, alarm: &mut Alarm) {
        arch::relax();
        if self.occupancy.is_some_and(|all| all.is_turn_of(id)) {
            self.next_turn(id, alarm);
        }
    }

    /// What is measured of a core, if it is.
    pub fn read(&self, counter: Counter, core: CoreId) -> Option<u64> {
        self.occupancy?.read(counter, core, arch::tsc())
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}
