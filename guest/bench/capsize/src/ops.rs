//! The operations, each as the paper sets it up.

use crate::{slot, Lab, PAGE};
use libos::captypes::place::L2_BYTES;
use libos::captypes::Rights;
use libos::vspace::RW;
use libos::{invoke, log, op, Cap, CapAddr, CapType, Place, Status};

/// Repetitions of each.
const ROUNDS: usize = 64;
/// Slots for a table, a Frame and a Mapping.
const TABLE: u32 = 16;
/// Root index of a CNode that is deleted.
const NODE_L1: u32 = crate::LAB_L1 + 1;

fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The cost of `work` alone.
fn time(work: impl FnOnce() -> Result<(), Status>) -> Result<u64, Status> {
    let before = ticks();
    work()?;
    Ok(ticks() - before)
}

/// Writes the median of what `work` returns for the rounds.
fn report(
    case: &str,
    (size, unit): (u32, &str),
    mut work: impl FnMut(u64) -> Result<u64, Status>,
) -> Result<(), Status> {
    let mut costs = [0; ROUNDS];
    for (round, cost) in costs.iter_mut().enumerate() {
        *cost = work(round as u64)?;
    }
    costs.sort_unstable();
    log!("@bench {case} {} at={size}:{unit}", costs[ROUNDS / 2]);
    Ok(())
}

/// Every figure whose axis is the number of capabilities, with `size` of them more than usual.
pub fn all(lab: &Lab, size: u32) -> Result<(), Status> {
    let at = (size, "capabilities");
    report("no_op", at, |_| time(|| invoke(lab.play, op::NoOp {}).map(drop)))?;
    report("identify", at, |_| time(|| lab.play.identify().map(drop)))?;
    copies(lab, at)?;
    deletes(lab, at)?;
    retypes(lab, at)?;
    maps(lab, at)
}

fn copies(lab: &Lab, at: (u32, &str)) -> Result<(), Status> {
    let copy = slot(0);
    report("copy", at, |_| {
        let cost = time(|| lab.whole.copy_to(copy))?;
        copy.delete()?;
        Ok(cost)
    })?;
    report("mint", at, |_| {
        let cost = time(|| lab.whole.mint(copy, Rights::READ))?;
        copy.delete()?;
        Ok(cost)
    })?;
    report("delete_a_copy", at, |_| {
        lab.whole.copy_to(copy)?;
        time(|| copy.delete())
    })?;
    report("revoke_10_copies", at, |_| {
        (0..10).try_for_each(|n| lab.whole.copy_to(slot(n)))?;
        time(|| lab.whole.revoke())
    })
}

/// Of what nobody else has: the memory goes home.
fn deletes(lab: &Lab, at: (u32, &str)) -> Result<(), Status> {
    report("delete_the_last_copy", at, |round| {
        lab.home.retype(CapType::Ram, lab.free + round * PAGE, PAGE, 1, slot(0))?;
        time(|| slot(0).delete())
    })?;
    report("delete_a_CNode_with_4_in_use", at, |_| delete_node(lab, 4))
}

/// Figure 4.19, whose axis is how many slots of a CNode are in use.
pub fn occupied_nodes(lab: &Lab) -> Result<(), Status> {
    for used in [1, 4, 16, 64, 256] {
        report("delete_a_CNode", (used, "slots"), |_| delete_node(lab, used))?;
    }
    Ok(())
}

/// Fills slots of a CNode with RAM of which there is nothing else, and deletes it.
fn delete_node(lab: &Lab, used: u32) -> Result<u64, Status> {
    let node = Place::l1(CapAddr::NULL, NODE_L1);
    lab.home.retype(CapType::L2CNode, lab.free, L2_BYTES, 1, node)?;
    // Every other page, so that they come home one by one.
    for n in 0..used {
        let offset = lab.free + L2_BYTES + u64::from(n) * 2 * PAGE;
        lab.home.retype(CapType::Ram, offset, PAGE, 1, CapAddr::new(NODE_L1, n))?;
    }
    time(|| node.delete())
}

fn retypes(lab: &Lab, at: (u32, &str)) -> Result<(), Status> {
    let cases = [("retype", lab.whole), ("retype_beside_descendants", lab.halved)];
    for (case, ram) in cases {
        report(case, at, |round| {
            let offset = round * PAGE % (2 << 20);
            let cost = time(|| ram.retype(CapType::Frame, offset, PAGE, 1, slot(0)))?;
            slot(0).delete()?;
            Ok(cost)
        })?;
    }
    Ok(())
}

fn maps(lab: &Lab, at: (u32, &str)) -> Result<(), Status> {
    let (table, frame, mapping) = (slot(TABLE), slot(TABLE + 1), slot(TABLE + 2));
    lab.play.retype(CapType::Pt, 0, PAGE, 1, table)?;
    lab.play.retype(CapType::Frame, PAGE, PAGE, 1, frame)?;
    report("map_a_page", at, |_| {
        let cost = time(|| table.map(7, 1, frame, 0, RW, mapping))?;
        mapping.delete()?;
        Ok(cost)
    })?;
    report("unmap_a_page", at, |_| {
        table.map(7, 1, frame, 0, RW, mapping)?;
        time(|| mapping.delete())
    })?;
    frame.delete()?;
    table.delete()
}
