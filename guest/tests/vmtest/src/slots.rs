//! More slots than the first root has places for.

use crate::setup::Lab;
use crate::Test;
use libos::abi::slots::{DISPATCHER, ROOT};
use libos::{domain, Cap, CapAddr};

extern crate alloc;
use alloc::vec::Vec;
use testkit::{check, good, Outcome};

pub const TESTS: &[Test] = &[("slots_beyond_the_root", beyond)];

/// Takes slots until the root CNode had to be made larger, uses the first and the last, and gives
/// all of them back. The root stays large.
fn beyond(_: &mut Lab) -> Outcome {
    let before = good!(ROOT.identify());
    let mut slots: Vec<CapAddr> = Vec::new();
    let enough = (before.bytes / 64 + 8) as usize * 256;
    slots.reserve(enough);
    for _ in 0..enough {
        slots.push(good!(domain::with(|domain| domain.slot())));
    }
    let after = good!(ROOT.identify());
    check!(after.bytes == 2 * before.bytes && after.base != before.base);
    let last = slots[enough - 1];
    check!(u64::from(last.l1()) >= before.bytes / 64);
    check!(slots.windows(2).all(|pair| pair[0] != pair[1]));
    for slot in [slots[0], slots[enough / 2], last] {
        good!(DISPATCHER.copy_to(slot));
        check!(good!(slot.is_same(DISPATCHER)));
        good!(slot.delete());
    }
    for slot in slots {
        good!(domain::free_slot(slot));
    }
    Ok(())
}
