//! What the kernel remembers of an invocation that it hands on to the monitor. It is in the cells for
//! reports of faults: a dispatcher that invokes has none.

use crate::cap::asks::Ask;
use crate::object::DcbRef;
use captypes::invocations::{ReplyWords, Word};

/// `fault[0]`: the need, and from this bit on the number of the request.
const TICKET: u32 = 8;

/// Notes what the invocation of `dcb` needs.
pub fn note(dcb: DcbRef, ticket: u64, ask: &Ask) {
    let words = [ask.need.to_word() | ticket << TICKET, ask.slot.pa(), ask.base, ask.bytes];
    for (cell, word) in dcb.fault.iter().zip(words) {
        cell.set(word);
    }
}

/// The number of the request of a dispatcher that waits for the monitor.
pub fn ticket(dcb: DcbRef) -> u64 {
    dcb.fault[0].get() >> TICKET
}

/// The range that the request is about: its address and length.
pub fn range(dcb: DcbRef) -> (u64, u64) {
    (dcb.fault[2].get(), dcb.fault[3].get())
}

/// What the monitor receives.
pub fn message(dcb: DcbRef) -> ReplyWords {
    let [first, slot, base, bytes] = [0, 1, 2, 3].map(|n: usize| dcb.fault[n].get());
    [first & ((1 << TICKET) - 1), dcb.pa(), first >> TICKET, slot, base, bytes]
}
