//! `/proc/tessera/capabilities`: the capabilities to memory of the core as a tree.

use abi::slots::KERNEL;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use libos::captypes::invocations::Identity;
use libos::{invoke, op};

/// Nobody reads more; and the kernel counts from the first for each.
const MOST: u32 = 4096;

/// A line `DEPTH TYPE BASE BYTES COPIES` for each distinct capability, in the order of the mapping
/// database: what a capability was made into follows it, one deeper. The last number is 1 if it has
/// copies, else 0.
pub fn text() -> String {
    let mut text = String::new();
    let mut ancestors: Vec<Identity> = Vec::new();
    for number in 0..MOST {
        let Ok(cap) = invoke(KERNEL, op::CapabilityAt { number }) else { break };
        while ancestors.last().is_some_and(|last| !is_ancestor(last, &cap)) {
            ancestors.pop();
        }
        let copies = cap.relations & Identity::COPIES;
        let (depth, kind) = (ancestors.len(), cap.ty.name());
        put_line!(text, "{depth} {kind} {:#x} {} {copies}", cap.base, cap.bytes);
        ancestors.push(cap);
    }
    text
}

/// Was `cap` made of `other`, which comes before it in the order?
fn is_ancestor(other: &Identity, cap: &Identity) -> bool {
    let inside = cap.base >= other.base && cap.base + cap.bytes <= other.base + other.bytes;
    inside && (other.ty.rank() < cap.ty.rank() || other.bytes > cap.bytes)
}
