//! Copy, mint, move, delete, revoke, identify, and the operations on ranges of slots.

use crate::setup::{capabilities, slot, Lab, BENCH_L1};
use crate::Test;
use libos::abi::slots::{DISPATCHER, KERNEL, ROOT};
use libos::captypes::invocations::Identity;
use libos::captypes::place::L2_BYTES;
use libos::captypes::types::Tree;
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, PAGE};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("copy", copy),
    ("copy_errors", copy_errors),
    ("mint_rights", mint_rights),
    ("mint_badge", mint_badge),
    ("move", move_slots),
    ("places", places),
    ("other_cspace", other_cspace),
    ("identify", identify),
    ("delete", delete),
    ("revoke", revoke),
    ("copy_range", copy_range),
    ("delete_range", delete_range),
    ("delete_cnode", delete_cnode),
    ("cnode_holds_itself", cnode_holds_itself),
    ("wrong_labels", wrong_labels),
];

fn has(slot: CapAddr, relation: u64) -> bool {
    slot.identify().is_ok_and(|what| what.relations & relation != 0)
}

fn copy(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    check!(!has(slot(0), Identity::COPIES));
    good!(slot(0).copy_to(slot(1)));
    check!(has(slot(0), Identity::COPIES) && has(slot(1), Identity::COPIES));
    good!(slot(1).copy_to(slot(2)));
    let (a, b) = (good!(slot(0).identify()), good!(slot(2).identify()));
    check!((a.ty, a.base, a.bytes, a.rights) == (b.ty, b.base, b.bytes, b.rights));
    good!(slot(0).delete());
    good!(slot(1).delete());
    check!(!has(slot(2), Identity::COPIES));
    Ok(())
}

fn copy_errors(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, 2 * PAGE, slot(0)));
    fails!(Empty, slot(9).copy_to(slot(1)));
    fails!(Occupied, slot(0).copy_to(slot(0)));
    fails!(NoSlot, slot(0).copy_to(Place::NULL));
    fails!(NoSlot, slot(0).copy_to(CapAddr::new(BENCH_L1 + 1, 0)));
    fails!(NoSlot, slot(0).copy_to(CapAddr::new(0xff_ffff, 0)));
    fails!(NoSlot, CapAddr::new(BENCH_L1 + 1, 0).copy_to(slot(1)));
    // A CSpace must be named by its root.
    fails!(WrongType, slot(0).copy_to(Place::within(slot(0), slot(1))));
    Ok(())
}

fn mint_rights(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    good!(slot(0).mint(slot(1), Rights::READ.or(Rights::WRITE)));
    check!(good!(slot(1).identify()).rights == Rights::READ.or(Rights::WRITE));
    // Rights never grow again.
    good!(slot(1).mint(slot(2), Rights::ALL));
    check!(good!(slot(2).identify()).rights == Rights::READ.or(Rights::WRITE));
    good!(slot(2).mint(slot(3), Rights::READ));
    good!(slot(3).copy_to(slot(4)));
    check!(good!(slot(4).identify()).rights == Rights::READ);
    fails!(WrongType, slot(0).mint_badged(slot(5), Rights::ALL, 1));
    Ok(())
}

fn mint_badge(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Endpoint, 0, PAGE, slot(0)));
    good!(slot(0).mint_badged(slot(1), Rights::SEND, 77));
    check!(good!(slot(1).identify()).relations >> 32 == 77);
    good!(slot(1).copy_to(slot(2)));
    check!(good!(slot(2).identify()).relations >> 32 == 77);
    // A badge is for good.
    check!(slot(1).mint_badged(slot(3), Rights::SEND, 78).is_err());
    Ok(())
}

fn move_slots(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, PAGE, PAGE, slot(0)));
    good!(slot(0).copy_to(slot(5)));
    good!(slot(0).move_to(slot(1)));
    fails!(Empty, slot(0).identify());
    let what = good!(slot(1).identify());
    check!((what.ty, what.base, what.bytes) == (CapType::Frame, lab.ram_base + PAGE, PAGE));
    check!(what.relations & Identity::COPIES != 0);
    fails!(Occupied, slot(1).move_to(slot(5)));
    fails!(Empty, slot(0).move_to(slot(6)));
    Ok(())
}

fn places(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::L2CNode, 0, L2_BYTES, slot(0)));
    let l1 = BENCH_L1 + 1;
    good!(slot(0).move_to(Place::l1(CapAddr::NULL, l1)));
    good!(lab.make(CapType::Frame, 1 << 20, PAGE, CapAddr::new(l1, 255)));
    check!(good!(CapAddr::new(l1, 255).identify()).base == lab.ram_base + (1 << 20));
    // The same through the own root, named.
    let named = Place::within(ROOT, CapAddr::new(l1, 255));
    check!(good!(named.identify()).base == lab.ram_base + (1 << 20));
    check!(good!(Place::l1(CapAddr::NULL, l1).identify()).ty == CapType::L2CNode);
    fails!(NoSlot, Place::l1(CapAddr::NULL, 1 << 24).identify());
    good!(Place::l1(CapAddr::NULL, l1).delete());
    fails!(NoSlot, CapAddr::new(l1, 255).identify());
    Ok(())
}

fn other_cspace(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::L1CNode, 0, L2_BYTES, slot(0)));
    fails!(NoSlot, lab.make(CapType::L2CNode, 1 << 20, L2_BYTES, CapAddr::new(BENCH_L1 + 2, 0)));
    good!(lab.ram.retype(CapType::L2CNode, L2_BYTES, L2_BYTES, 2, Place::l1(slot(0), 7)));
    let there = |l1, n| Place::within(slot(0), CapAddr::new(l1, n));
    good!(lab.ram.retype(CapType::Frame, 1 << 20, PAGE, 3, there(7, 3)));
    good!(there(7, 4).copy_to(there(8, 200)));
    good!(there(7, 5).copy_to(slot(1)));
    check!(good!(slot(1).identify()).base == lab.ram_base + (1 << 20) + 2 * PAGE);
    fails!(NoSlot, slot(1).copy_to(there(9, 0)));
    fails!(NoSlot, slot(1).copy_to(Place::l1(slot(0), 256)));
    // Capabilities in it die with it, others live.
    good!(slot(0).delete());
    fails!(WrongType, there(7, 3).identify());
    check!(!has(slot(1), Identity::COPIES));
    good!(lab.make(CapType::Frame, 1 << 20, 2 * PAGE, slot(2)));
    Ok(())
}

fn identify(lab: &mut Lab) -> Outcome {
    let what = good!(lab.ram.identify());
    check!(what.ty == CapType::Ram && what.base == lab.ram_base);
    check!(what.relations & 3 == 0);
    good!(lab.make(CapType::Ram, 2 * PAGE, 3 * PAGE, slot(0)));
    check!(has(lab.ram, Identity::DESCENDANTS));
    let what = good!(slot(0).identify());
    check!((what.base, what.bytes) == (lab.ram_base + 2 * PAGE, 3 * PAGE));
    check!(!what.attrs.has(libos::RamAttrs::HOME));
    check!(good!(KERNEL.identify()).ty == CapType::Kernel);
    check!(good!(DISPATCHER.identify()).ty == CapType::Dispatcher);
    check!(good!(ROOT.identify()).ty == CapType::L1CNode);
    fails!(Empty, slot(40).identify());
    Ok(())
}

fn delete(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    let count = capabilities();
    good!(slot(0).copy_to(slot(1)));
    check!(capabilities() == count + 1);
    good!(slot(0).delete());
    fails!(Empty, slot(0).delete());
    // The memory is free for another object only when the last one has gone.
    fails!(HasDescendants, lab.make(CapType::Frame, 0, PAGE, slot(2)));
    good!(slot(1).delete());
    good!(lab.make(CapType::Pt, 0, PAGE, slot(2)));
    Ok(())
}

fn revoke(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Ram, 0, 64 * PAGE, slot(0)));
    good!(slot(0).copy_to(slot(1)));
    good!(slot(1).retype(CapType::Ram, 0, 8 * PAGE, 2, slot(2)));
    good!(slot(2).retype(CapType::Frame, 0, PAGE, 4, slot(4)));
    good!(slot(4).copy_to(slot(8)));
    good!(slot(4).revoke());
    fails!(Empty, slot(8).identify());
    check!(good!(slot(5).identify()).ty == CapType::Frame);
    good!(slot(0).revoke());
    for n in 1..9 {
        fails!(Empty, slot(n).identify());
    }
    check!(good!(slot(0).identify()).relations & 3 == 0);
    good!(slot(0).retype(CapType::Frame, 0, 64 * PAGE, 1, slot(1)));
    Ok(())
}

fn copy_range(lab: &mut Lab) -> Outcome {
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 10, slot(0)));
    good!(lab.ram.retype(CapType::Pt, 16 * PAGE, PAGE, 2, slot(12)));
    good!(slot(3).delete());
    check!(good!(slot(0).copy_range(slot(100), 14, CapType::Null)) == 11);
    fails!(Empty, slot(103).identify());
    check!(good!(slot(104).identify()).base == good!(slot(4).identify()).base);
    check!(good!(slot(0).copy_range(slot(120), 14, CapType::Pt)) == 2);
    check!(good!(slot(133).identify()).ty == CapType::Pt);
    fails!(Occupied, slot(0).copy_range(slot(100), 14, CapType::Null));
    fails!(NoSlot, slot(250).copy_range(slot(0), 7, CapType::Null));
    fails!(NoSlot, slot(0).copy_range(slot(250), 7, CapType::Null));
    check!(good!(slot(60).copy_range(slot(100), 30, CapType::Null)) == 0);
    Ok(())
}

fn delete_range(lab: &mut Lab) -> Outcome {
    good!(lab.ram.retype(CapType::Frame, 0, PAGE, 200, slot(10)));
    let count = capabilities();
    good!(slot(0).delete_range(110));
    check!(capabilities() == count - 100);
    fails!(Empty, slot(109).identify());
    check!(good!(slot(110).identify()).ty == CapType::Frame);
    fails!(NoSlot, slot(200).delete_range(57));
    Ok(())
}

fn delete_cnode(lab: &mut Lab) -> Outcome {
    let count = capabilities();
    let node = Place::l1(CapAddr::NULL, BENCH_L1 + 1);
    good!(lab.ram.retype(CapType::L2CNode, 0, L2_BYTES, 1, node));
    let inner = CapAddr::new(BENCH_L1 + 1, 0);
    good!(lab.ram.retype(CapType::Frame, 1 << 20, PAGE, 250, inner));
    good!(inner.copy_to(slot(0)));
    good!(node.delete());
    check!(capabilities() == count + 1);
    good!(lab.make(CapType::Frame, (1 << 20) + PAGE, 249 * PAGE, slot(1)));
    Ok(())
}

/// A root CNode that holds a capability to itself still goes when it is revoked and deleted.
fn cnode_holds_itself(lab: &mut Lab) -> Outcome {
    let count = capabilities();
    good!(lab.make(CapType::L1CNode, 0, L2_BYTES, slot(0)));
    good!(lab.ram.retype(CapType::L2CNode, L2_BYTES, L2_BYTES, 1, Place::l1(slot(0), 0)));
    good!(slot(0).copy_to(Place::within(slot(0), CapAddr::new(0, 1))));
    good!(slot(0).revoke());
    good!(slot(0).delete());
    check!(capabilities() == count);
    good!(lab.make(CapType::Frame, 0, 2 * L2_BYTES, slot(0)));
    Ok(())
}

fn wrong_labels(lab: &mut Lab) -> Outcome {
    good!(lab.make(CapType::Frame, 0, PAGE, slot(0)));
    let frame = slot(0);
    fails!(WrongType, frame.map(0, 1, slot(0), 0, libos::vspace::R, slot(1)));
    fails!(WrongType, frame.protect(0, 1, libos::vspace::R));
    fails!(WrongType, frame.unmap(0, 1, Place::NULL));
    fails!(WrongType, frame.read_entry(0));
    fails!(WrongType, frame.notify(1));
    fails!(WrongType, invoke(frame, op::Start {}));
    fails!(WrongType, invoke(frame, op::Shutdown { status: 0 }));
    fails!(WrongType, invoke(frame, op::CheckInvariants {}));
    fails!(WrongType, invoke(frame, op::PortIn { port: 0x3f8, width: 1 }));
    fails!(WrongType, frame.retype(CapType::Pt, 0, PAGE, 1, slot(1)));
    for ty in CapType::ALL.iter().copied().filter(|ty| ty.tree() != Tree::Memory) {
        check!(lab.ram.retype(ty, PAGE, PAGE, 1, slot(1)).is_err());
    }
    Ok(())
}
