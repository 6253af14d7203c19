//! The network server, at the other end of two rings: what it is told, and what it tells.
//!
//! Neither is waited for. Commands wait in [`inet`] until the ring has room; an event is worked off when it is found. A server that says what cannot
//! be is heard no more: its connections are lost, as if it had failed.

use crate::effects::Effects;
use crate::sockets::Sockets;
use alloc::vec::Vec;
use core::ptr::NonNull;
use inet::Changes;
use libos::abi::slots::{NET, SELF_EP};
use libos::session::{NET_EVENTS, NOTIFY_NET};
use libos::vspace::RW;
use libos::{domain, Cap, Status};
use netproto::{Broken, Event, Ring, BOTH, EACH};

/// Events that are worked off before others have their turn.
const TURN: usize = 128;

/// The rings.
pub struct Wire {
    commands: Ring,
    events: Ring,
    buffer: Vec<u8>,
    is_lost: bool,
}

// SAFETY: the memory of the rings is mapped for good, and accessed by this value alone in this domain.
unsafe impl Send for Wire {}

impl Wire {
    /// Of the Frame that this server was given, if there is a network.
    pub fn open() -> Result<Option<Wire>, Status> {
        if NET.identify().is_err() {
            return Ok(None);
        }
        let va = domain::with(|domain| domain.map(NET.into(), 0, BOTH as u64, RW))?;
        let base = NonNull::new(va as *mut u8).ok_or(Status::NoMemory)?;
        // SAFETY: mapped for good, in whole pages; this domain puts into one and takes from the other.
        let (commands, events) =
            unsafe { (Ring::new(base, EACH), Ring::new(base.add(EACH), EACH)) };
        Ok(Some(Wire { commands, events, buffer: Vec::new(), is_lost: false }))
    }

    /// Tells what there is to tell, as far as there is room.
    pub fn send(&mut self, sockets: &mut Sockets, fx: &mut Effects) {
        let mut has_told = false;
        while let Some(command) = sockets.inet.all.next_command() {
            // What is told to nobody is forgotten.
            match if self.is_lost { Ok(true) } else { self.commands.put_parts(command) } {
                Ok(true) => sockets.inet.all.command_sent(),
                Ok(false) => break,
                Err(Broken) => self.lose(sockets, fx),
            }
            has_told = !self.is_lost;
        }
        if has_told {
            // An error: it is gone, which is told otherwise.
            let _ = NET.plus(1).notify(NOTIFY_NET);
        }
    }

    /// It does not keep to the rules.
    fn lose(&mut self, sockets: &mut Sockets, fx: &mut Effects) {
        libos::log!("unixd: the network server says what cannot be");
        self.is_lost = true;
        let mut changes = Changes::new();
        sockets.inet.all.wire_lost(&mut changes);
        sockets.inet.told(changes, fx);
    }

    /// Works off what it has told; `now` by the clock on the wall.
    pub fn receive(&mut self, now: i64, sockets: &mut Sockets, fx: &mut Effects) {
        sockets.inet.all.set_time(now);
        let mut changes = Changes::new();
        let mut count = 0;
        while count < TURN && !self.is_lost {
            match self.next(sockets, &mut changes) {
                Ok(true) => count += 1,
                Ok(false) => break,
                Err(Broken) => self.lose(sockets, fx),
            }
        }
        sockets.inet.told(changes, fx);
        if count > 0 {
            // As above. It may wait for room.
            let _ = NET.plus(1).notify(NOTIFY_NET);
        }
        if count == TURN {
            // The own endpoint: the rest is for later.
            let _ = SELF_EP.notify(NET_EVENTS);
        }
    }

    fn next(&mut self, sockets: &mut Sockets, changes: &mut Changes) -> Result<bool, Broken> {
        if !self.events.take(&mut self.buffer)? {
            return Ok(false);
        }
        let event = Event::decode(&self.buffer).ok_or(Broken)?;
        match sockets.inet.all.happened(event, changes) {
            true => Ok(true),
            false => Err(Broken),
        }
    }

    /// It is gone. Answers whether there is another one, now that its rings are empty.
    pub fn gone(&mut self, sockets: &mut Sockets, fx: &mut Effects) -> bool {
        let came_up = sockets.inet.all.interface().is_some();
        let mut changes = Changes::new();
        sockets.inet.all.wire_lost(&mut changes);
        sockets.inet.told(changes, fx);
        self.commands.clear();
        self.events.clear();
        self.is_lost = false;
        match libos::session::net_cleared(came_up) {
            Ok(is_another) => is_another,
            Err(error) => {
                libos::log!("unixd: there is no other network server: {error:?}");
                false
            }
        }
    }
}
