//! G18 figures 4.8 to 4.28, as far as they concern one core: operations on capabilities while many
//! others exist.

use crate::interface::no_op;
use crate::lab::Lab;
use crate::report::{sample, time, Case};
use libos::abi::slots::KERNEL;
use libos::captypes::place::{L2_BYTES, L2_SLOTS};
use libos::{invoke, log, op, Cap, CapAddr, CapType, Place, Status, PAGE};

const FIGURES: &str = "G18-figures-4.8-4.28";
const CNODE: &str = "G18-figure-4.19";
/// Samples of each number.
const ROUNDS: usize = 5;
/// Other capabilities, beyond those that the program has anyway.
const OTHERS: [u32; 5] = [256, 1024, 4096, 16384, 65024];
/// Occupied slots of a CNode that is deleted.
const OCCUPIED: [u32; 5] = [1, 4, 16, 64, 256];
/// Copies that a revoke finds.
const COPIES: u32 = 10;
/// Root index of the CNode that is deleted.
const DELETED_NODE: u32 = 90;

/// Measures everything here.
pub fn measure(lab: &mut Lab) -> Result<(), Status> {
    for others in OTHERS {
        fill(lab, others)?;
        let report = |name: &str, samples: &[u64], each: u64| {
            Case::new(FIGURES, name).at(others.into(), "capabilities").each(samples, each);
        };
        let (samples, each) = no_op(lab, ROUNDS)?;
        report("4.8_no-op", &samples, each);
        report("4.9_delete,_copies", &delete_copy(lab)?, 1);
        report("4.15_delete,_last", &delete_last(lab)?, 1);
        report("4.17_delete,_CNode_of_4", &delete_cnode(lab, 4)?, 1);
        report("4.20_revoke,_10_copies", &revoke(lab)?, 1);
        report("4.26_retype", &retype(lab, false)?, 1);
        report("4.28_retype,_descendants", &retype(lab, true)?, 1);
        lab.clean()?;
    }
    for occupied in OCCUPIED {
        let samples = delete_cnode(lab, occupied)?;
        Case::new(CNODE, "delete").at(occupied.into(), "slots").samples(&samples);
        lab.clean()?;
    }
    Ok(())
}

/// Makes `count` capabilities to RAM, in a CSpace of their own.
fn fill(lab: &mut Lab, count: u32) -> Result<(), Status> {
    let nodes = count.div_ceil(L2_SLOTS);
    let root = lab.make(CapType::L1CNode, L2_BYTES, 1, L2_BYTES)?;
    let offset = lab.reserve(u64::from(nodes) * L2_BYTES, L2_BYTES)?;
    lab.ram.retype(CapType::L2CNode, offset, L2_BYTES, nodes, Place::l1(root, 1))?;
    for node in 0..nodes {
        let here = (count - node * L2_SLOTS).min(L2_SLOTS);
        let offset = lab.reserve(u64::from(here) * PAGE, PAGE)?;
        let first = Place::within(root, CapAddr::new(node + 1, 0));
        lab.ram.retype(CapType::Ram, offset, PAGE, here, first)?;
    }
    Ok(())
}

fn delete_copy(lab: &mut Lab) -> Result<alloc::vec::Vec<u64>, Status> {
    let original = lab.make(CapType::Ram, PAGE, 1, PAGE)?;
    let copy = lab.slots(1)?;
    sample(ROUNDS, || {
        original.copy_to(copy)?;
        time(|| copy.delete())
    })
}

/// The last capability but a home: the kernel gives the memory back.
fn delete_last(lab: &mut Lab) -> Result<alloc::vec::Vec<u64>, Status> {
    let slot = lab.slots(1)?;
    sample(ROUNDS, || {
        lab.make_of_home(CapType::Ram, PAGE, 1, slot)?;
        let cost = time(|| slot.delete())?;
        collect(PAGE)?;
        Ok(cost)
    })
}

/// A CNode with `occupied` capabilities, each the last to its memory.
fn delete_cnode(lab: &mut Lab, occupied: u32) -> Result<alloc::vec::Vec<u64>, Status> {
    let node = Place::l1(CapAddr::NULL, DELETED_NODE);
    sample(ROUNDS, || {
        lab.make_of_home(CapType::L2CNode, L2_BYTES, 1, node)?;
        lab.make_of_home(CapType::Ram, PAGE, occupied, CapAddr::new(DELETED_NODE, 0))?;
        let cost = time(|| node.delete())?;
        collect(L2_BYTES + u64::from(occupied) * PAGE)?;
        Ok(cost)
    })
}

fn revoke(lab: &mut Lab) -> Result<alloc::vec::Vec<u64>, Status> {
    let original = lab.make(CapType::Ram, PAGE, 1, PAGE)?;
    let copies = lab.slots(COPIES)?;
    sample(ROUNDS, || {
        (0..COPIES).try_for_each(|n| original.copy_to(copies.plus(n)))?;
        time(|| original.revoke())
    })
}

/// A Frame of a page from RAM of 2 MiB; or from RAM of 4 MiB, the rest of which was retyped before.
fn retype(lab: &mut Lab, descendants: bool) -> Result<alloc::vec::Vec<u64>, Status> {
    let half = 2 << 20;
    let bytes = if descendants { 2 * half } else { half };
    let ram = lab.make(CapType::Ram, bytes, 1, PAGE)?;
    if descendants {
        ram.retype(CapType::Ram, half, half, 1, lab.slots(1)?)?;
    }
    let (slot, mut offset) = (lab.slots(1)?, 0);
    sample(ROUNDS, || {
        let cost = time(|| ram.retype(CapType::Frame, offset, PAGE, 1, slot))?;
        offset += PAGE;
        slot.delete()?;
        Ok(cost)
    })
}

/// Takes back what the kernel gives, which must be so many bytes.
fn collect(expected: u64) -> Result<(), Status> {
    let mut got = 0;
    loop {
        let back = match invoke(KERNEL, op::CollectReclaimed {}) {
            Ok(back) => back.bytes0 + back.bytes1 + back.bytes2,
            Err(Status::Empty) => 0,
            Err(error) => return Err(error),
        };
        if back == 0 {
            break;
        }
        got += back;
    }
    if got != expected {
        log!("papers: {got} bytes came back of {expected}");
        return Err(Status::Invalid);
    }
    Ok(())
}
