//! Doorbells: a domain of one core makes another core notify a domain of its own.
//!
//! What the one has to say is in memory that both see; the doorbell only ends a sleep. It is a flag in
//! [`Shared`](crate::cores::Shared) and an interrupt; the flag is cleared before anybody is notified,
//! so that a ring that comes later interrupts again.

use super::Scheduler;
use crate::cores::{CoreId, ThisCore};
use crate::object::DcbRef;
use captypes::Status;
use core::sync::atomic::Ordering;

/// Who is notified when this core is rung.
pub struct Doorbell {
    to: Option<DcbRef>,
    bits: u64,
}

impl Doorbell {
    /// Nobody.
    pub const fn new() -> Doorbell {
        Doorbell { to: None, bits: 0 }
    }

    /// From now on `dcb`, with these bits.
    pub fn listen(&mut self, dcb: DcbRef, bits: u64) {
        (self.to, self.bits) = (Some(dcb), bits);
    }

    /// `dcb` goes.
    pub fn forget(&mut self, dcb: DcbRef) {
        if self.to == Some(dcb) {
            self.to = None;
        }
    }

    /// Rings at core `number`; see [`captypes::op::RingCore`].
    pub fn ring(&self, here: ThisCore, number: u32, sched: &mut Scheduler) -> Result<(), Status> {
        if number as usize >= here.cores.len() {
            return Err(Status::OutOfRange);
        }
        let core = CoreId(number as u8);
        if core == here.id {
            self.hear(sched);
        } else if !here.cores.get(core).rung.swap(true, Ordering::AcqRel) {
            here.interrupt(core);
        }
        Ok(())
    }

    /// Answers if somebody has rung here.
    pub fn answer(&self, here: ThisCore, sched: &mut Scheduler) {
        let rung = &here.shared.rung;
        if rung.load(Ordering::Relaxed) && rung.swap(false, Ordering::AcqRel) {
            self.hear(sched);
        }
    }

    fn hear(&self, sched: &mut Scheduler) {
        if let Some(dcb) = self.to {
            sched.notify(dcb, self.bits);
            sched.yield_to_woken();
        }
    }
}

impl Default for Doorbell {
    fn default() -> Self {
        Self::new()
    }
}
