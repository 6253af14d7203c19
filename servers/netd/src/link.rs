//! What is shared with `unixd`: a ring of commands, and one of events.

use alloc::vec::Vec;
use core::ptr::NonNull;
use libos::abi::slots::{SESSION, UNIXD};
use libos::session::NET_EVENTS;
use libos::vspace::RW;
use libos::{domain, Cap, Status};
use netproto::{Broken, Command, Event, Ring, BOTH, EACH};

/// The rings, and who is at the other end.
pub struct Link {
    commands: Ring,
    buffer: Vec<u8>,
    pub events: Events,
}

/// The ring of events.
pub struct Events {
    ring: Ring,
    is_broken: bool,
    has_told: bool,
}

impl Link {
    pub fn new() -> Result<Link, Status> {
        let va = domain::with(|domain| domain.map(SESSION.into(), 0, BOTH as u64, RW))?;
        let base = NonNull::new(va as *mut u8).ok_or(Status::NoMemory)?;
        // SAFETY: mapped for good, in whole pages; this domain takes from one and puts into the other.
        let (commands, ring) = unsafe { (Ring::new(base, EACH), Ring::new(base.add(EACH), EACH)) };
        let events = Events { ring, is_broken: false, has_told: false };
        Ok(Link { commands, buffer: Vec::new(), events })
    }

    /// The next command.
    pub fn command(&mut self) -> Result<Option<Command<'_>>, Broken> {
        if !self.commands.take(&mut self.buffer)? {
            return Ok(None);
        }
        self.events.has_told = true;
        Command::decode(&self.buffer).map(Some).ok_or(Broken)
    }
}

impl Events {
    /// Tells the other end that there is something to look at: events, or room.
    pub fn notify(&mut self) -> Result<(), Broken> {
        if core::mem::take(&mut self.has_told) {
            // An error: it is gone, and so is the machine soon.
            let _ = UNIXD.notify(NET_EVENTS);
        }
        if self.is_broken {
            Err(Broken)
        } else {
            Ok(())
        }
    }
}

impl netstack::Events for Events {
    fn tell_spare(&mut self, event: &Event) -> bool {
        let (head, bytes) = event.parts();
        self.ring.has_calm(head.len() + bytes.len()) && self.tell(event)
    }

    fn tell(&mut self, event: &Event) -> bool {
        let (head, bytes) = event.parts();
        match self.ring.put_parts([&head, bytes]) {
            Ok(told) => {
                self.has_told |= told;
                told
            }
            Err(Broken) => {
                self.is_broken = true;
                false
            }
        }
    }
}
