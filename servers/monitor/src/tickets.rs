//! What was begun for domains of this core.

use alloc::collections::BTreeMap;
use libos::interface::OwnedCap;
use libos::{Cap, Status};

/// What it leads to.
pub type Outcome = Result<u64, Status>;

/// Tickets that there may be at a time.
const MOST: usize = 1024;

#[derive(Default)]
struct Ticket {
    /// Who waits for it is told by this bell.
    bell: Option<(OwnedCap, u64)>,
    outcome: Option<Outcome>,
}

/// All of them, by their numbers.
#[derive(Default)]
pub struct Tickets {
    all: BTreeMap<u32, Ticket>,
    last: u32,
}

impl Tickets {
    /// A new one. `NoMemory`: there are too many.
    pub fn new_ticket(&mut self) -> Result<u32, Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        self.last = self.last.wrapping_add(1);
        self.all.insert(self.last, Ticket::default());
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
            if let Some((bell, bit)) = &ticket.bell {
                // Who waits may have gone.
                let _ = bell.cap().notify(*bit);
            }
        }
    }

    /// The outcome, once. `Again`: there is none yet, and the bell will ring when there is. `Empty`:
    /// there is no such ticket.
    pub fn take(&mut self, number: u32, bell: OwnedCap, bit: u64) -> Outcome {
        let ticket = self.all.get_mut(&number).ok_or(Status::Empty)?;
        let Some(outcome) = ticket.outcome else {
            ticket.bell = Some((bell, bit));
            return Err(Status::Again);
        };
        self.cancel(number);
        outcome
    }
}
