//! Doorbells: a domain of one core makes another core notify a domain of its own.
//!
//! What the one has to say is in memory that both see; the doorbell only ends a sleep. It is a flag in
//! [`Shared`](crate::cores::Shared) and an interrupt; the flag is cleared before anybody is notified,
//! so that a ring that comes later interrupts again.

use super::Local;
use crate::cores::CoreId;
use crate::object::DcbRef;
use captypes::Status;
use core::sync::atomic::Ordering;

/// Who is notified when this core is rung.
pub(crate) struct Doorbell {
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
}

impl Local {
    /// Rings; see [`captypes::op::RingCore`].
    pub(crate) fn ring_core(&mut self, core: u32) -> Result<(), Status> {
        if core as usize >= self.cores.len() {
            return Err(Status::OutOfRange);
        }
        let core = CoreId(core as u8);
        if core == self.id {
            self.hear();
        } else if !self.cores.get(core).rung.swap(true, Ordering::AcqRel) {
            self.interrupt(core);
        }
        Ok(())
    }

    /// Has somebody rung?
    pub(super) fn answer_door(&mut self) {
        let rung = &self.cores.get(self.id).rung;
        if rung.load(Ordering::Relaxed) && rung.swap(false, Ordering::AcqRel) {
            self.hear();
        }
    }

    fn hear(&mut self) {
        if let Some(dcb) = self.doorbell.to {
            self.notify(dcb, self.doorbell.bits);
            self.yield_to_woken();
        }
    }
}
