//! What was begun for domains of this core.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::Status;

/// What it leads to.
pub type Outcome = Result<u64, Status>;

/// Tickets that there may be at a time.
const MOST: usize = 1024;

struct Ticket {
    client: u32,
    /// It waits, and is told by this bit.
    bit: Option<u64>,
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
    pub fn new_ticket(&mut self, client: u32) -> Result<u32, Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        self.last = self.last.wrapping_add(1);
        self.all.insert(self.last, Ticket { client, bit: None, outcome: None });
        Ok(self.last)
    }

    /// It was for nothing.
    pub fn cancel(&mut self, number: u32) {
        self.all.remove(&number);
    }

    /// This is the outcome. Who is to be told, and by which bit, if somebody waits.
    pub fn settle(&mut self, number: u32, outcome: Outcome) -> Option<(u32, u64)> {
        let ticket = self.all.get_mut(&number)?;
        ticket.outcome = Some(outcome);
        Some((ticket.client, ticket.bit?))
    }

    /// The outcome, once. `Again`: there is none yet, and the client is to be told by this bit.
    /// `Empty`: it has no such ticket.
    pub fn take(&mut self, client: u32, number: u32, bit: u64) -> Outcome {
        let ticket = self.of_client(client, number)?;
        let Some(outcome) = ticket.outcome else {
            ticket.bit = Some(bit);
            return Err(Status::Again);
        };
        self.cancel(number);
        outcome
    }

    /// Is it this client's, and without outcome yet?
    pub fn is_open(&mut self, client: u32, number: u32) -> Result<bool, Status> {
        Ok(self.of_client(client, number)?.outcome.is_none())
    }

    fn of_client(&mut self, client: u32, number: u32) -> Result<&mut Ticket, Status> {
        self.all.get_mut(&number).filter(|ticket| ticket.client == client).ok_or(Status::Empty)
    }

    /// A client has gone: its tickets.
    pub fn take_all(&mut self, client: u32) -> Vec<u32> {
        let own = self.all.iter().filter(|(_, ticket)| ticket.client == client);
        let numbers: Vec<u32> = own.map(|(&number, _)| number).collect();
        numbers.iter().for_each(|&number| self.cancel(number));
        numbers
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}
