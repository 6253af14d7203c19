//! What was begun for domains of this core.

use alloc::collections::BTreeMap;
use libos::interface::OwnedCap;
use libos::{Cap, Status};

/// What it leads to.
pub type Outcome = Result<u64, Status>;

/// Tickets that there may be at a time.
const MOST: usize = 1024;

struct Ticket {
    bell: OwnedCap,
    bit: u64,
    outcome: Option<Outcome>,
}

/// All of them, by their numbers.
#[derive(Default)]
pub struct Tickets {
    all: BTreeMap<u32, Ticket>,
    last: u32,
}

impl Tickets {
    /// A new one, whose owner is told by a bell. `NoMemory`: there are too many.
    pub fn new_ticket(&mut self, bell: OwnedCap, bit: u64) -> Result<u32, Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        self.last = self.last.wrapping_add(1);
        self.all.insert(self.last, Ticket { bell, bit, outcome: None });
        Ok(self.last)
    }

    /// It was for nothing.
    pub fn cancel(&mut self, number: u32) {
        self.all.remove(&number);
    }

    /// This is the outcome.
    pub fn settle(&mut self, number: u32, outcome: Outcome) {
        if let Some(ticket) = self.all.get_mut(&number) {
            ticket.outcome = Some(outcome);
            // Its owner may have gone.
            let _ = ticket.bell.cap().notify(ticket.bit);
        }
    }

    /// The outcome, once. `Again`: there is none yet. `Empty`: there is no such ticket.
    pub fn take(&mut self, number: u32) -> Outcome {
        match self.all.get(&number) {
            None => Err(Status::Empty),
            Some(Ticket { outcome: None, .. }) => Err(Status::Again),
            Some(Ticket { outcome: Some(outcome), .. }) => {
                let outcome = *outcome;
                self.cancel(number);
                outcome
            }
        }
    }
}
