//! Work is counted: every event has a budget, and whoever has used it up stops and goes on when the
//! invocation is repeated.

use captypes::Status;

/// Steps of destruction in one event: some 300 instructions each, 600 at worst. What takes longer spends
/// more of them.
pub const BUDGET: u32 = 160;
/// Why destruction stops before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// The work of this event is used up: the invocation is to be repeated.
    Again,
    /// This core alone cannot go on; the monitor is told with what.
    Remote,
}

/// Whether destruction came to its end.
pub type Progress = Result<(), Pause>;

impl From<Pause> for Status {
    fn from(pause: Pause) -> Status {
        match pause {
            Pause::Again => Status::Again,
            Pause::Remote => Status::RetryThroughMonitor,
        }
    }
}

/// The work of one event, in steps of destruction.
pub struct Budget {
    /// Left in this event.
    left: u32,
    /// Of every event.
    steps: u32,
}

impl Budget {
    /// That of every event is [`BUDGET`].
    pub const fn new() -> Budget {
        Budget { left: BUDGET, steps: BUDGET }
    }

    /// An event begins.
    #[inline]
    pub fn begin(&mut self) {
        self.left = self.steps;
    }

    /// From now on events have so many steps.
    #[cfg(test)]
    pub fn set(&mut self, steps: u32) {
        self.steps = steps;
    }

    /// What is left in this event.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Spends `steps`; `false` if the budget of this event is used up.
    #[inline]
    pub fn spend(&mut self, steps: u32) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(steps);
        true
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}
