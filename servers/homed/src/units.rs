//! What runs processes of this core.

use crate::MOST_CAPS;
use alloc::collections::{BTreeMap, VecDeque};
use captypes::invocations::options;
use libos::abi::slots::{MONITOR, STANDIN};
use libos::ephemeral::Window;
use libos::interface::OwnedCap;
use libos::{domain, invoke, op, Cap, CapAddr, CapType, Place, Rights, Status};
use linuxdomain::{at, fresh, owner};
use unixproto::home::{Said, MADE_TO_ORDER};

/// Steps that are taken before requests are looked at again.
const SLICE: usize = 32;

/// A dispatcher, and the root of its CSpace if it is the first of a domain.
pub struct Unit {
    pub dispatcher: CapAddr,
    pub root: Option<CapAddr>,
    /// Of the dispatchers of its domain: [`options::LINUX`], or none of a native one.
    pub options: u32,
}

/// Something that goes bit by bit: slots that are revoked and deleted, the last one first.
struct Going {
    unit: Option<u32>,
    slots: [Option<CapAddr>; MOST_CAPS as usize],
    /// Only deleted: others may have it.
    shared: bool,
}

/// All of them.
pub struct Units {
    endpoint: CapAddr,
    library_bytes: u64,
    window: Window,
    all: BTreeMap<u32, Unit>,
    last: u32,
    going: VecDeque<Going>,
}

impl Units {
    /// None. Their faults are reported at the endpoint.
    pub fn new(endpoint: CapAddr, library_bytes: u64, window: Window) -> Units {
        let (all, going) = Default::default();
        Units { endpoint, library_bytes, window, all, last: 0, going }
    }

    /// The root of a domain. `Empty`: there is none with this number.
    pub fn root(&self, unit: u32) -> Result<CapAddr, Status> {
        self.all.get(&unit).and_then(|unit| unit.root).ok_or(Status::Empty)
    }

    /// A number that was never given. `NoSlot`: there is none any more.
    pub fn number(&mut self) -> Result<u32, Status> {
        if self.last + 1 == MADE_TO_ORDER {
            return Err(Status::NoSlot);
        }
        self.last += 1;
        Ok(self.last)
    }

    /// Makes a domain that was never anybody's. A capability to its dispatcher for `unixd`.
    pub fn make(
        &mut self,
        number: u32,
        endpoint: CapAddr,
        session: CapAddr,
    ) -> Result<OwnedCap, Status> {
        let (dispatcher, root) = domain::with(|domain| Ok((domain.slot()?, domain.slot()?)))?;
        let own = (dispatcher, root);
        let voice = (endpoint, session);
        let made = fresh::make_fresh(&mut self.window, own, voice, self.library_bytes);
        let settled = made.and_then(|()| self.settle(number, own, options::LINUX));
        // What was asked for and not used goes home.
        let released = domain::with(|domain| domain.arena.release());
        match settled.and(released).and_then(|()| shown(dispatcher)) {
            Ok(copy) => {
                let options = options::LINUX;
                self.add(number, Unit { dispatcher, root: Some(root), options });
                Ok(copy)
            }
            Err(error) => {
                self.forget([Some(dispatcher), Some(root)]);
                Err(error)
            }
        }
    }

    /// Gives a domain what this program has for it.
    pub fn settle(&self, number: u32, own: (CapAddr, CapAddr), options: u32) -> Result<(), Status> {
        let slot = at(own.1, STANDIN);
        // What a parent has put there is the parent's.
        slot.discard();
        self.endpoint.mint_badged(slot, Rights::SEND, number)?;
        let faults = OwnedCap::own(domain::with(|domain| domain.slot())?);
        self.endpoint.mint_badged(faults.cap(), Rights::SEND, number)?;
        owner::settle(own, faults.cap(), options)
    }

    /// Has the kernel report the faults of a thread of a domain.
    pub fn watch(&self, domain: u32, dispatcher: CapAddr) -> Result<(), Status> {
        let faults = OwnedCap::own(domain::with(|domain| domain.slot())?);
        self.endpoint.mint_badged(faults.cap(), Rights::SEND, domain)?;
        let options = self.all.get(&domain).map_or(0, |unit| unit.options);
        owner::watch(dispatcher, Place::NULL, faults.cap(), options)
    }

    pub fn add(&mut self, number: u32, unit: Unit) {
        self.all.insert(number, unit);
    }

    /// Starts a unit. What is to be said.
    pub fn start(&self, number: u32) -> Said {
        let dispatcher = self.all.get(&number).map(|unit| unit.dispatcher);
        match dispatcher.map(|it| invoke(it, op::Start {})) {
            Some(Ok(())) => Said::Next,
            _ => failed(number),
        }
    }

    /// A unit runs no further, and is taken apart from now on.
    pub fn end(&mut self, number: u32) {
        let Some(unit) = self.all.remove(&number) else {
            // It was never made.
            let slots = Default::default();
            let none = Going { unit: Some(number), slots, shared: false };
            return self.going.push_back(none);
        };
        // One that waits in a call does not run anyway.
        let _ = invoke(unit.dispatcher, op::Suspend {});
        let slots = [unit.root, Some(unit.dispatcher), None, None];
        self.going.push_back(Going { unit: Some(number), slots, shared: false });
    }

    /// Takes apart what nobody has taken: slots that are not used for anything else.
    pub fn forget(&mut self, slots: [Option<CapAddr>; 2]) {
        let [dispatcher, root] = slots;
        let slots = [root, dispatcher, None, None];
        self.going.push_back(Going { unit: None, slots, shared: false });
    }

    /// Deletes what is left in slots of the inbox. What takes long goes elsewhere before.
    pub fn discard(&mut self, first: CapAddr, count: u32) {
        for slot in (0..count).map(|index| first.plus(index)) {
            if invoke(slot, op::Delete {}) != Err(Status::Again) {
                continue;
            }
            let room = domain::with(|domain| domain.slot());
            let moved = room.and_then(|room| slot.move_to(room).map(|()| room));
            match moved {
                Ok(room) => {
                    let slots = [Some(room), None, None, None];
                    self.going.push_back(Going { unit: None, slots, shared: true });
                }
                // Where there is no room, it has to be done here.
                Err(_) => slot.discard(),
            }
        }
    }

    /// Is nothing being taken apart?
    pub fn is_idle(&self) -> bool {
        self.going.is_empty()
    }

    /// Takes some steps. What is to be said, if one is gone.
    pub fn end_a_bit(&mut self) -> Option<Said> {
        for _ in 0..SLICE {
            let mut going = self.going.pop_front()?;
            let Some(place) = going.slots.iter_mut().rfind(|slot| slot.is_some()) else {
                match going.unit {
                    Some(unit) => return Some(Said::Ended { unit }),
                    None => continue,
                }
            };
            let slot = place.unwrap_or(CapAddr::NULL);
            let revoked = if going.shared { Ok(()) } else { invoke(slot, op::Revoke {}) };
            let gone = match revoked {
                Err(Status::Again) => Err(Status::Again),
                // It may be gone already, with the memory that it was made of.
                _ => invoke(slot, op::Delete {}),
            };
            if gone == Err(Status::Again) {
                // Others come first.
                self.going.push_back(going);
                continue;
            }
            *place = None;
            domain::free_or_lose_slot(slot);
            self.going.push_front(going);
        }
        None
    }
}

/// Gives a domain the monitor: programs of the administrator may use other cores.
pub fn give_monitor(root: CapAddr) -> Result<(), Status> {
    MONITOR.copy_to(at(root, MONITOR))
}

/// A unit cannot go on.
pub fn failed(unit: u32) -> Said {
    Said::Failed { unit, vector: 0, error: 0, address: 0, rip: 0 }
}

/// A capability to a dispatcher for `unixd`. It stops it by that, and lets it go on: for which the right to revoke is needed.
pub fn shown(dispatcher: CapAddr) -> Result<OwnedCap, Status> {
    let slot = domain::with(|domain| domain.slot())?;
    dispatcher.copy_to(slot).map(|()| OwnedCap::own(slot))
}

/// Slots for a domain that has come, which is there: dispatcher and root.
pub fn take(first: CapAddr) -> Result<(CapAddr, CapAddr), Status> {
    owner::check_sole(first, CapType::Dispatcher)?;
    owner::check_sole(first.plus(1), CapType::L1CNode)?;
    let own = domain::with(|domain| Ok((domain.slot()?, domain.slot()?)))?;
    first.move_to(own.0)?;
    first.plus(1).move_to(own.1)?;
    Ok(own)
}
