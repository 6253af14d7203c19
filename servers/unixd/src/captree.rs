//! `/proc/tessera/capabilities`: the capabilities to memory of the core as a tree.

use crate::owners::{Listed, Owners};
use crate::procs::Procs;
use abi::slots::KERNEL;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use libos::captypes::invocations::Identity;
use libos::{invoke, op};

/// Nobody reads more; and the kernel counts from the first for each.
const MOST: u32 = 4096;
/// Of as many copies of a capability it is said whose they are.
const MOST_COPIES: u32 = 32;

/// A line `DEPTH TYPE BASE BYTES COPIES OWNERS` for each distinct capability, in the order of the mapping
/// database: what a capability was made into follows it, one deeper. COPIES is 1 if it has copies, else 0;
/// OWNERS are those in whose slots it and its copies are, with commas between: `PID:NAME` or the name of
/// a server, `kernel` for what is in none of anybody's slots, and `+` for more than were looked at.
pub fn text(procs: &Procs) -> String {
    let all: Vec<Listed> = (0..MOST).map_while(listed).collect();
    let owners = Owners::find(&all, procs);
    let mut text = String::new();
    let mut ancestors: Vec<Identity> = Vec::new();
    for one in &all {
        let cap = one.cap;
        while ancestors.last().is_some_and(|last| !is_ancestor(last, &cap)) {
            ancestors.pop();
        }
        let copies = cap.relations & Identity::COPIES;
        let (depth, kind) = (ancestors.len(), cap.ty.name());
        let whose = owners.of(one);
        put_line!(text, "{depth} {kind} {:#x} {} {copies} {whose}", cap.base, cap.bytes);
        ancestors.push(cap);
    }
    text
}

/// The capability with this number, and where it and its copies are.
fn listed(number: u32) -> Option<Listed> {
    let cap = invoke(KERNEL, op::CapabilityAt { number }).ok()?;
    let copies = if cap.relations & Identity::COPIES == 0 { 0 } else { MOST_COPIES };
    let mut one = Listed { cap, held_in: Vec::new(), more: false };
    for copy in 0..=copies {
        let Ok(holder) = invoke(KERNEL, op::HolderAt { number, copy }) else { break };
        // Somebody else may have run, and the number be another's now.
        if (holder.ty, holder.base) == (cap.ty, cap.base) {
            one.more = copy == MOST_COPIES;
            one.held_in.push(holder.container);
        }
    }
    Some(one)
}

/// Was `cap` made of `other`, which comes before it in the order?
fn is_ancestor(other: &Identity, cap: &Identity) -> bool {
    let inside = cap.base >= other.base && cap.base + cap.bytes <= other.base + other.bytes;
    inside && (other.ty.rank() < cap.ty.rank() || other.bytes > cap.bytes)
}
