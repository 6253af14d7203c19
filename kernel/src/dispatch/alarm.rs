//! The timer of the core: the earliest moment at which somebody wants an event.

/// What is wanted of the hardware's timer.
pub struct Alarm {
    /// The earliest deadline that somebody wants, and the one that the hardware has. That may be
    /// an earlier one that nobody wants any more: it costs one needless interrupt.
    wanted: u64,
    armed: u64,
    /// The hardware must be told of an earlier deadline.
    is_stale: bool,
}

impl Alarm {
    /// Nothing is wanted.
    pub const fn new() -> Alarm {
        Alarm { wanted: u64::MAX, armed: u64::MAX, is_stale: false }
    }

    /// Somebody wants an event at `deadline`.
    #[inline]
    pub fn want(&mut self, deadline: u64) {
        if deadline < self.wanted {
            self.wanted = deadline;
            self.is_stale |= deadline < self.armed;
        }
    }

    /// It has gone off; whoever wants another event says so again.
    pub fn expired(&mut self) {
        (self.armed, self.wanted) = (u64::MAX, u64::MAX);
    }

    /// Must the hardware be told?
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// What it is told.
    #[inline]
    pub fn arm(&mut self) -> u64 {
        self.is_stale = false;
        self.armed = self.wanted;
        self.armed
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}
