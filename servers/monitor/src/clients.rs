//! The domains of this core that use the monitor, and when they have gone.
//!
//! Each has an endpoint capability of its own to the monitor, whose badge says who calls, and has given
//! the monitor one to itself: by that it is told of results, and its end shows there. What a client has
//! begun or left lying goes with it.

use alloc::collections::BTreeMap;
use libos::abi::slots::{KERNEL, SELF_EP};
use libos::cores::MEMORY_SERVER;
use libos::interface::OwnedCap;
use libos::{domain, invoke, op, Cap, Rights, Status};

/// Clients that there may be at a time.
const MOST: usize = 1024;

struct Client {
    bell: OwnedCap,
    /// The set of cores to which it has sent capabilities.
    sent_to: u64,
}

/// All of them, by the badges of their endpoints.
#[derive(Default)]
pub struct Clients {
    all: BTreeMap<u32, Client>,
    last: u32,
    /// Notification bits: one has gone.
    gone: u64,
}

impl Clients {
    /// None yet. The kernel tells of those that have gone by these bits.
    pub fn new(gone: u64) -> Clients {
        Clients { gone, ..Clients::default() }
    }

    /// A new one, with its endpoint to the monitor. `PeerGone`: nobody receives what the bell says.
    pub fn open(&mut self, bell: OwnedCap) -> Result<OwnedCap, Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        if !self.is_served(&bell)? {
            return Err(Status::PeerGone);
        }
        let number = self.free_number();
        let slot = domain::with(|domain| domain.slot())?;
        let own = SELF_EP.mint_badged(slot, Rights::SEND, number).map(|()| OwnedCap::own(slot))?;
        self.all.insert(number, Client { bell, sent_to: 0 });
        self.last = number;
        Ok(own)
    }

    fn free_number(&self) -> u32 {
        let mut number = self.last;
        loop {
            number = number.wrapping_add(1);
            if number > MEMORY_SERVER && !self.all.contains_key(&number) {
                return number;
            }
        }
    }

    /// Has the domain behind the bell a dispatcher? The kernel tells when it has none any more.
    fn is_served(&self, bell: &OwnedCap) -> Result<bool, Status> {
        let endpoint = bell.cap().into();
        invoke(KERNEL, op::Watch { endpoint, bits: self.gone }).map(|reply| reply.value != 0)
    }

    /// Which one calls, by its badge. `NoRights`: none.
    pub fn known(&self, badge: u64) -> Result<u32, Status> {
        let number = u32::try_from(badge).ok().filter(|number| self.all.contains_key(number));
        number.ok_or(Status::NoRights)
    }

    /// Is it still there?
    pub fn is_here(&self, number: u32) -> bool {
        self.all.contains_key(&number)
    }

    /// Tells it something.
    pub fn ring(&self, number: u32, bit: u64) {
        if let Some(client) = self.all.get(&number) {
            // It may have gone.
            let _ = client.bell.cap().notify(bit);
        }
    }

    /// It sends something to a core.
    pub fn sends_to(&mut self, number: u32, core: u32) {
        if let Some(client) = self.all.get_mut(&number) {
            client.sent_to |= 1 << core;
        }
    }

    /// Forgets one that has gone: its number, and the set of cores to which it had sent something.
    pub fn take_gone(&mut self) -> Option<(u32, u64)> {
        let mut all = self.all.iter();
        let gone = |(_, client): &(&u32, &Client)| self.is_served(&client.bell) != Ok(true);
        let number = *all.find(gone)?.0;
        self.all.remove(&number).map(|client| (number, client.sent_to))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}
