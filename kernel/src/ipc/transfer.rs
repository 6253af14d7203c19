//! What goes along with a message: words from registers to registers, capabilities from slots to
//! slots.

use super::redirected;
use crate::cap::lookup;
use crate::cap::mapping::is_mapping;
use crate::cap::CapSpace;
use crate::object::dcb::flag;
use crate::object::DcbRef;
use captypes::invocations::{received, Counter, MOVE_CAPS};
use captypes::Place;

/// Capabilities that a message may carry.
const MOST_CAPS: u64 = 4;

/// The message of a caller, to a receiver.
#[inline]
pub(super) fn call(caps: &mut CapSpace, from: DcbRef, to: DcbRef) {
    caps.count(Counter::Messages, 1);
    to.ctx.rdi.set(u64::from(from.badge.get()));
    to.ctx.rax.set(0);
    if from.has(flag::FAULT) {
        let [vector, error, address, rip] = [0, 1, 2, 3].map(|n: usize| from.fault[n].get());
        to.ctx.set_words(&[vector, error, address, rip, 0, 0]);
        to.ctx.r13.set(received::FAULT);
        return;
    }
    if from.has(flag::REDIRECTED) {
        to.ctx.set_words(&redirected::message(from));
        to.ctx.r13.set(received::REDIRECTED);
        return;
    }
    let count = transfer_caps(caps, from, to);
    to.ctx.set_words(&from.ctx.words());
    to.ctx.r13.set(count);
}

/// The answer of a server, to a caller. One that faulted goes on with its own registers.
#[inline]
pub(super) fn answer(caps: &mut CapSpace, from: DcbRef, to: DcbRef) {
    if to.has(flag::FAULT) {
        return to.clear(flag::FAULT);
    }
    if to.has(flag::REDIRECTED) {
        // The monitor answers as everybody: the first word is the status.
        to.clear(flag::REDIRECTED);
        return to.ctx.rax.set(from.ctx.words()[0]);
    }
    let count = transfer_caps(caps, from, to);
    to.ctx.set_words(&from.ctx.words());
    to.ctx.rdi.set(0);
    to.ctx.rax.set(0);
    to.ctx.r13.set(count);
}

/// Copies or moves what the sender names to the slots that the receiver has named; returns how
/// many arrived. It ends at the first that cannot be sent or has no place to go.
#[inline]
fn transfer_caps(caps: &mut CapSpace, from: DcbRef, to: DcbRef) -> u64 {
    let count = from.ctx.rax.get() >> 16 & 0xff;
    if count == 0 {
        return 0;
    }
    copy_caps(caps, from, to, count.min(MOST_CAPS))
}

#[inline(never)]
fn copy_caps(caps: &mut CapSpace, from: DcbRef, to: DcbRef, count: u64) -> u64 {
    let (source, target) = (Place(from.ctx.r13.get()), Place(to.ctx.r14.get()));
    // What another core has is not this one's to change.
    if target.is_null() || (from.flags.get() | to.flags.get()) & flag::ABROAD != 0 {
        return 0;
    }
    let (moved, count) = (from.ctx.rax.get() & MOVE_CAPS != 0, count as u32);
    let source = match moved {
        true => lookup::slots_to_change(caps, from, source, count),
        false => lookup::slots(from, source, count),
    };
    let target = lookup::slots_to_change(caps, to, target, count);
    let (Ok(source), Ok(target)) = (source, target) else { return 0 };
    for n in 0..count {
        let (src, dst) = (source.get(n), target.get(n));
        let mapping = is_mapping(&src.cap());
        if src.is_empty() || mapping || !dst.is_empty() {
            return u64::from(n);
        }
        if moved {
            caps.move_cap(src, dst);
        } else if caps.copy_unlocked(src, dst).is_err() {
            return u64::from(n);
        }
    }
    u64::from(count)
}
