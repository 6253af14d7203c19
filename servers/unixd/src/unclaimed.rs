//! Capabilities that came with a request and that nobody took.
//!
//! One may be the last to a CNode that is full of others, so that deleting it takes any number of events. It
//! is deleted in pieces, between which requests of others are served, and whoever sent it is answered
//! when it is gone: so nobody can send a second one before.

use crate::caps::Slots;
use crate::server::{RECEIVED, RECEIVED_MAX};
use crate::threads::Tid;
use alloc::vec::Vec;
use libos::{invoke, op, Cap, CapAddr, Status};
use unixproto::Words;

/// The answer to a request, and the thread that waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// On whose dispatcher the request came: the thread's that it is about, or that of the parent that acts
    /// as its process.
    pub tid: Tid,
    /// The badge of that one, by which it is known whether it is still there.
    pub badge: u64,
    /// What it is answered.
    pub words: Words,
}

/// See the head of this file.
pub struct Unclaimed {
    left: Vec<Held>,
    /// Who is answered in the end, if anybody.
    pub answer: Option<Answer>,
}

/// A slot with a capability that goes.
struct Held {
    slot: CapAddr,
    /// What the slot is, if it is none of those in which capabilities arrive.
    room: Option<Slots>,
}

impl Held {
    /// What arrived in a slot. Where there is no room for it, it stays: as long as that slot is full, no
    /// capability arrives there.
    fn arrived(slot: CapAddr) -> Held {
        let room = Slots::new(1).ok().filter(|room| slot.move_to(room.first()).is_ok());
        Held { slot: room.as_ref().map_or(slot, Slots::first), room }
    }
}

impl Unclaimed {
    /// One step for each of the first `count` capabilities that arrived. Returns what is not gone with
    /// that, if anything.
    #[inline(always)]
    pub fn of(count: u32) -> Option<Unclaimed> {
        let mut rest = None;
        for index in 0..count.min(RECEIVED_MAX) {
            let slot = RECEIVED.plus(index);
            // An empty slot is as good as an emptied one.
            if invoke(slot, op::Delete {}) == Err(Status::Again) {
                let rest = rest.get_or_insert_with(|| Unclaimed { left: Vec::new(), answer: None });
                rest.left.push(Held::arrived(slot));
            }
        }
        rest
    }

    /// One step. Returns `true` if the same one has to be done again, which may take long: others come
    /// first.
    pub fn go_on(&mut self) -> bool {
        let Some(held) = self.left.last() else { return false };
        // Of what another error keeps from going there is nothing more to be done.
        if invoke(held.slot, op::Delete {}) == Err(Status::Again) {
            return true;
        }
        if let Some(Held { room: Some(room), .. }) = self.left.pop() {
            room.emptied();
        }
        false
    }

    /// Returns `true` if nothing is left to be done.
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }
}
