//! Sleeping, and being woken by a doorbell.
//!
//! | who sleeps | who sends |
//! |---|---|
//! | [`Sleeper::announce`] | puts the message into the ring |
//! | looks at all its rings once more | [`Sleeper::must_wake`]: if it says so, rings the doorbell |
//! | finds something: [`Sleeper::cancel`] | |
//! | finds nothing: waits for the doorbell | |
//!
//! The announcement and the look are kept in order by a fence, and so are the message and the
//! question; so either the sleeper sees the message, or the sender the announcement. The doorbell
//! itself must be sticky: one that rings before the sleeper waits ends its wait at once.

use crate::sync::{fence, spin_loop, Lone, Ordering};

/// A cache line in which somebody says that it sleeps. All who send to it share it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Sleeper(Lone);

impl Sleeper {
    /// Awake.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Sleeper {
        Sleeper(Lone::new(0))
    }

    /// Says that the doorbell is needed from now on. Then everything must be looked at once more.
    pub fn announce(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Awake, by itself or by the doorbell.
    pub fn cancel(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// After a message has been sent: is it up to the caller to ring the doorbell? Of several senders,
    /// one is told.
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// What somebody who receives on several rings shows to all who send to it: that it sleeps, and which of
/// the rings have something new. So it looks at those only, however many there are.
#[repr(C)]
#[derive(Debug)]
pub struct Board {
    sleeper: Sleeper,
    senders: Lone,
}

impl Board {
    /// Awake, and nobody has sent anything.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Board {
        Board { sleeper: Sleeper::new(), senders: Lone::new(0) }
    }

    /// Where it says that it sleeps.
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// After sender `number` (below 64) has put messages into its ring, or taken some that the other
    /// waits to have taken: is it up to the caller to ring the doorbell?
    pub fn tell(&self, number: u32) -> bool {
        self.senders.fetch_or(1 << number, Ordering::Release);
        self.sleeper.must_wake()
    }

    /// The set of those who have told something since the last time.
    pub fn take(&self) -> u64 {
        match self.senders.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.senders.swap(0, Ordering::Acquire),
        }
    }

    /// Has anybody? To be asked after the announcement that this sleeps.
    pub fn is_told(&self) -> bool {
        self.senders.load(Ordering::Relaxed) != 0
    }
}

/// Polling with longer and longer pauses, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    round: u32,
    limit: u32,
}

impl Patience {
    /// As many rounds, the n-th with a pause of 2^n processor hints, of 64 at most.
    pub const fn new(limit: u32) -> Patience {
        Patience { round: 0, limit }
    }

    /// Pauses. `false`: that was enough, and it is time to sleep.
    pub fn pause(&mut self) -> bool {
        if self.round >= self.limit {
            return false;
        }
        (0..1 << self.round.min(6)).for_each(|_| spin_loop());
        self.round += 1;
        true
    }

    /// Something came.
    pub fn reset(&mut self) {
        self.round = 0;
    }
}
