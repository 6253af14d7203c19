//! Dispatchers of other cores that wait here at an endpoint, by their addresses.
//!
//! A server that answers later names its caller by a capability to it, which is foreign here if the caller is. What such
//! a capability says of an address is the monitors' word, and what is there is another core's, unless it has come
//! here. So an object is looked at only if this core knows by itself that it has it: whoever arrives is put in a chain
//! by its address, through its own control block, and whoever leaves is taken out.

use super::Scheduler;
use crate::object::dcb::flag;
use crate::object::DcbRef;
use core::cell::Cell;

/// Chains, a power of two: of a thousand guests, each has four.
const CHAINS: usize = 256;

/// See the head of this file.
pub(super) struct Guests {
    chains: [Cell<Option<DcbRef>>; CHAINS],
}

impl Guests {
    /// There are none.
    pub(super) const fn new() -> Guests {
        Guests { chains: [const { Cell::new(None) }; CHAINS] }
    }

    /// Control blocks are made side by side.
    #[inline]
    fn chain(&self, pa: u64) -> &Cell<Option<DcbRef>> {
        let page = pa / paging::PAGE;
        &self.chains[(page ^ page >> 8) as usize % CHAINS]
    }

    fn find(&self, pa: u64) -> Option<DcbRef> {
        let mut next = self.chain(pa).get();
        while let Some(dcb) = next.filter(|dcb| dcb.pa() != pa) {
            next = dcb.trip.guests.next.get();
        }
        next
    }

    fn add(&self, dcb: DcbRef) {
        let first = self.chain(dcb.pa()).replace(Some(dcb));
        first.inspect(|first| first.trip.guests.prev.set(Some(dcb)));
        dcb.trip.guests.next.set(first);
        dcb.trip.guests.prev.set(None);
    }

    fn remove(&self, dcb: DcbRef) {
        let (prev, next) = (dcb.trip.guests.prev.take(), dcb.trip.guests.next.take());
        match prev {
            Some(prev) => prev.trip.guests.next.set(next),
            None => self.chain(dcb.pa()).set(next),
        }
        next.inspect(|next| next.trip.guests.prev.set(prev));
    }
}

/// A dispatcher of another core has come to wait here, or for something that is done at once.
pub fn welcome(sched: &mut Scheduler, dcb: DcbRef) {
    dcb.set(flag::ABROAD);
    sched.visits.guests.add(dcb);
}

/// Something is done for one of them, or for nobody any more: meanwhile it stays, whoever wants it back.
pub fn serve_guest(sched: &mut Scheduler, dcb: Option<DcbRef>) {
    sched.visits.serves = dcb;
}

/// It is about to go.
pub(super) fn take_leave(sched: &mut Scheduler, dcb: DcbRef) {
    if dcb.has(flag::ABROAD) {
        dcb.clear(flag::ABROAD);
        sched.visits.guests.remove(dcb);
    }
}

/// The dispatcher of another core whose control block is at `pa`, if it waits here.
#[inline]
pub fn guest(sched: &Scheduler, pa: u64) -> Option<DcbRef> {
    sched.visits.guests.find(pa)
}
