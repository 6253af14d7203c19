//! CNodes in CNodes, thousands deep, and CNodes with hardly anything in a million slots.

use super::{collect_cycles, to_the_end, Load, PAGE, RAM};
use crate::setup::{slot, Lab};
use crate::Test;
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::{invoke, op, Cap, CapAddr, Place, Status};
use testkit::{check, fails, good, Outcome};

pub const TESTS: &[Test] = &[
    ("load_deep_nodes", deep_nodes),
    ("load_empty_roots", empty_roots),
    ("load_resize", resize),
    ("load_many_objects", many_objects),
];

/// A root through which others' slots are reached.
const ROOT: CapAddr = slot(10);
/// What is reached: the chain, and the node that will be in front of it.
const CHAIN: Place = Place::l1(ROOT, 2);
const NEXT: Place = Place::l1(ROOT, 1);

/// Makes a chain of CNodes, each of which holds the last capability to the next in slot `at`.
fn chain(load: &mut Load, length: u32, at: u32) -> Result<(), Status> {
    load.make(L1CNode, L2_BYTES, 1, ROOT)?;
    load.make(L2CNode, L2_BYTES, 1, CHAIN)?;
    for _ in 1..length {
        load.make(L2CNode, L2_BYTES, 1, NEXT)?;
        CHAIN.move_to(Place::within(ROOT, CapAddr::new(1, at)))?;
        NEXT.move_to(CHAIN)?;
    }
    Ok(())
}

fn deep_nodes(lab: &mut Lab) -> Outcome {
    for at in [0, 7, 255] {
        let mut load = good!(Load::new(lab));
        let length = 500 * load.scale;
        good!(chain(&mut load, length, at));
        good!(CHAIN.delete());
        good!(load.end());
        good!(lab.clean());
    }
    // The first holds itself: nobody can reach any of them.
    let mut load = good!(Load::new(lab));
    let length = 500 * load.scale;
    good!(chain(&mut load, length, 9));
    good!(CHAIN.move_to(Place::within(ROOT, CapAddr::new(2, 200))));
    good!(collect_cycles());
    good!(load.end());
    Ok(())
}

/// A root of a million slots with something in its first, its last, and nothing in between.
fn empty_roots(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let slots = (1 << 16) * load.scale;
    let bytes = u64::from(slots) * 64;
    let frame = good!(load.object(Frame, PAGE));
    for last in [slots - 1, slots / 2] {
        let from = load.next;
        good!(load.make(L1CNode, bytes, 1, ROOT));
        good!(frame.copy_to(Place::l1(ROOT, last)));
        good!(load.make(L2CNode, L2_BYTES, 1, Place::l1(ROOT, 0)));
        // In use, and looked through by the collector.
        good!(Place::l1(ROOT, 0).copy_to(slot(11)));
        good!(slot(11).delete());
        good!(collect_cycles());
        let (low, high) = (Place::l1(ROOT, 1), Place::l1(ROOT, slots / 4));
        check!(good!(low.copy_range(high, 256, Null)) == 0);
        fails!(OutOfRange, low.copy_range(high, 257, Null));
        fails!(OutOfRange, invoke(low, op::DeleteRange { count: 257 }));
        good!(low.delete_range(slots / 8));
        // Unreachable but for itself.
        good!(ROOT.copy_to(Place::l1(ROOT, 5)));
        good!(ROOT.delete());
        good!(collect_cycles());
        fails!(Empty, ROOT.identify());
        load.next = from;
        // Nothing in it at all.
        good!(load.make(L1CNode, bytes, 1, ROOT));
        good!(ROOT.delete());
        load.next = from;
    }
    good!(load.end());
    Ok(())
}

/// A CSpace moves to a larger root, and back.
fn resize(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    // The most that one may have, and a quarter of it.
    let slots = 4096;
    let (small, large) = (slot(10), slot(11));
    good!(load.make(L1CNode, u64::from(slots) * 64, 1, small));
    good!(load.make(L1CNode, 4 * u64::from(slots) * 64, 1, large));
    let frame = good!(load.object(Frame, PAGE));
    let endpoint = good!(load.object(Endpoint, PAGE));
    for n in (0..slots).filter(|n| n % 3 == 0 || n % 1000 < 100) {
        let what = if n % 2 == 0 { frame } else { endpoint };
        good!(what.copy_to(Place::l1(small, n)));
    }
    good!(to_the_end(|| invoke(small, op::Resize { root: large.into() }).map(drop)));
    let both = [small, large].map(|root| root.identify().map(|what| what.bytes));
    check!(both.iter().flatten().count() > 0);
    let _ = small.delete();
    let _ = large.delete();
    good!(load.end());
    Ok(())
}

/// Very many objects, which the collector passes over, beside containers that hold each other.
fn many_objects(lab: &mut Lab) -> Outcome {
    let mut load = good!(Load::new(lab));
    let count = 2000 * load.scale;
    let offset = good!(load.take(u64::from(count) * PAGE));
    for n in 0..u64::from(count) / 250 {
        let dst = good!(load.slots(250));
        good!(RAM.retype(Frame, offset + n * 250 * PAGE, PAGE, 250, dst));
    }
    for _ in 0..50 * load.scale {
        good!(load.make(L2CNode, L2_BYTES, 1, NODE));
        let at = good!(load.slot());
        good!(NODE.copy_to(at));
        good!(NODE.delete());
    }
    good!(collect_cycles());
    good!(load.end());
    Ok(())
}

const NODE: CapAddr = slot(12);
