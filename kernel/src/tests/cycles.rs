//! CNodes and dispatchers that only hold each other are found, and nothing else is.

use super::deletion::{collect, total};
use super::machine::*;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

const NODE: u64 = 16384;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

fn other(root: CapAddr, l1: u32, l2: u32) -> Place {
    Place::within(root, CapAddr::new(l1, l2))
}

#[test]
fn a_cnode_that_holds_itself_is_found() {
    for slot in [0, 1, 255] {
        let mut m = Machine::new();
        let node = m.make(CapType::L2CNode, 0, NODE, 16);
        m.call(node, op::Copy { dst: Place::l1(ROOT, 1) }).unwrap();
        m.call(node, op::Move { dst: CapAddr::new(1, slot).into() }).unwrap();
        assert_eq!(m.collect_cycles(), 0, "it can be reached");
        m.delete(Place::l1(ROOT, 1)).unwrap();
        assert_eq!(collect(&mut m), []);
        assert_eq!(m.collect_cycles(), 1);
        assert_eq!(total(&collect(&mut m)), NODE);
        assert_eq!(m.collect_cycles(), 0);
    }
}

/// Moving the last capability to a CNode into the CNode: nothing is deleted, and it is lost.
#[test]
fn a_cnode_moved_into_itself_is_found() {
    let mut m = Machine::new();
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    m.retype(RAM, CapType::Frame, NODE, 0x1000, 5, CapAddr::new(1, 10)).unwrap();
    m.call(Place::l1(ROOT, 1), op::Move { dst: CapAddr::new(1, 3).into() }).unwrap();
    assert_eq!(m.collect_cycles(), 1);
    assert_eq!(total(&collect(&mut m)), NODE + 5 * 4096);
}

/// Taking the first one apart moves the capability to the second, from its slot 0 to another of its
/// slots: that must not look as if somebody in use had got it.
#[test]
fn what_lies_in_slot_0_of_a_lost_cnode_is_lost_with_it() {
    let mut m = Machine::new();
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.make(CapType::L2CNode, NODE, NODE, 17);
    for n in [1, 2] {
        let dst = Place::l1(ROOT, n);
        m.call(at(15 + n), op::Move { dst }).unwrap();
    }
    // The second holds itself too, or it would go with the first.
    m.call(Place::l1(ROOT, 2), op::Copy { dst: CapAddr::new(2, 7).into() }).unwrap();
    m.call(Place::l1(ROOT, 2), op::Move { dst: Place::l1(CapAddr::NULL, 3) }).unwrap();
    m.call(Place::l1(ROOT, 3), op::Move { dst: CapAddr::new(1, 0).into() }).unwrap();
    m.call(Place::l1(ROOT, 1), op::Move { dst: CapAddr::new(1, 21).into() }).unwrap();
    assert_eq!(m.collect_cycles(), 2);
    assert_eq!(total(&collect(&mut m)), 2 * NODE);
    assert_eq!(m.collect_cycles(), 0);
}

/// A ring of roots and nodes, hundreds of them, larger than the collector's stack; built in an order
/// of addresses that makes it look at them again and again. Garbage in the middle of what is in use.
#[test]
fn long_rings_are_found_and_long_chains_are_kept() {
    let mut m = Machine::new();
    m.checking = false;
    let count = 300u64;
    let chain = |m: &mut Machine, first: u64, stays: bool| {
        // Each node holds the one at the next lower address, in slot 5.
        for n in 0..count {
            m.make(CapType::L2CNode, NODE * (first + n), NODE, 16);
            m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
            if n > 0 {
                m.call(at(17), op::Move { dst: CapAddr::new(1, 5).into() }).unwrap();
            } else {
                m.call(Place::l1(ROOT, 1), op::Copy { dst: at(18).into() }).unwrap();
            }
            m.call(Place::l1(ROOT, 1), op::Move { dst: at(17).into() }).unwrap();
        }
        if stays {
            m.call(at(17), op::Move { dst: at(30).into() }).unwrap();
            m.delete(at(18)).unwrap();
        } else {
            // The first one holds the last one.
            m.call(at(18), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
            m.call(at(17), op::Move { dst: CapAddr::new(1, 7).into() }).unwrap();
            m.delete(Place::l1(ROOT, 1)).unwrap();
        }
    };
    chain(&mut m, 0, true);
    chain(&mut m, count, false);
    assert_eq!(collect(&mut m), []);
    let first = m.call(KERNEL, op::CollectCycles {});
    assert_eq!(first, Err(Status::Again), "the work of one invocation is bounded");
    m.check();
    assert_ne!(m.collect_cycles(), 0);
    m.check();
    assert_eq!(total(&collect(&mut m)), count * NODE);
    m.delete(at(30)).unwrap();
    assert_eq!(total(&collect(&mut m)), count * NODE);
}

/// A domain that nobody can reach any more keeps running, but not for ever.
#[test]
fn a_dispatcher_that_holds_itself_is_stopped() {
    let mut m = Machine::new();
    let root = m.make(CapType::L1CNode, 0, NODE, 16);
    m.retype(RAM, CapType::L2CNode, NODE, NODE, 1, at(17)).unwrap();
    m.call(at(17), op::Move { dst: Place::l1(root, 0) }).unwrap();
    let frame = m.make(CapType::Frame, 0x9000, 4096, 18);
    let dispatcher = m.make(CapType::Dispatcher, 0xa000, 4096, 19);
    let args = op::Configure {
        cspace: root.into(),
        vspace: VSPACE.into(),
        frame: frame.into(),
        frame_va: 0x5000,
        fault_ep: Place::NULL,
        options: 0,
    };
    m.call(dispatcher, args).unwrap();
    m.call(dispatcher, op::Start {}).unwrap();
    m.call(dispatcher, op::Copy { dst: other(root, 0, 2) }).unwrap();
    assert_eq!(m.collect_cycles(), 0);
    for slot in [root, frame, dispatcher] {
        m.delete(slot).unwrap();
    }
    assert_eq!(collect(&mut m), []);
    assert_ne!(m.collect_cycles(), 0);
    assert_eq!(total(&collect(&mut m)), 2 * NODE + 2 * 4096);
}

/// While the collector works, somebody moves capabilities from where it has not been to where it has.
#[test]
fn what_moves_during_a_collection_stays() {
    let mut m = Machine::new();
    m.checking = false;
    m.core.local.caps.budget.set(40);
    // Two hundred nodes in the domain's own node, of which each holds one more.
    for n in 0..200u32 {
        let base = NODE * u64::from(2 * n);
        m.make(CapType::L2CNode, base, NODE, 20 + n);
        m.call(at(20 + n), op::Copy { dst: Place::l1(ROOT, 1) }).unwrap();
        m.retype(RAM, CapType::L2CNode, base + NODE, NODE, 1, CapAddr::new(1, 9)).unwrap();
        m.delete(Place::l1(ROOT, 1)).unwrap();
    }
    let mut steps = 0;
    let mut moved = 0;
    loop {
        match m.call(KERNEL, op::CollectCycles {}) {
            Err(Status::Again) => steps += 1,
            Ok(done) => {
                assert_eq!(done.count, 0);
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
        for _ in 0..20 {
            if moved == 200 {
                break;
            }
            // From the last node to the domain's own, and its holder goes.
            let holder = 219 - moved;
            m.call(at(holder), op::Copy { dst: Place::l1(ROOT, 1) }).unwrap();
            m.call(CapAddr::new(1, 9), op::Move { dst: at(17).into() }).unwrap();
            m.delete(Place::l1(ROOT, 1)).unwrap();
            m.delete(at(holder)).unwrap();
            m.call(at(17), op::Move { dst: at(holder).into() }).unwrap();
            moved += 1;
        }
    }
    assert!(steps >= 10, "{steps} steps");
    m.check();
    assert_eq!(total(&collect(&mut m)), u64::from(moved) * NODE);
    for n in 0..200 {
        assert_eq!(m.call(at(20 + n), op::Identify {}).unwrap().ty, CapType::L2CNode);
    }
}

/// Makes node `n` in slot `20 + n`, and a copy of that capability, which is deleted.
fn make_suspect(m: &mut Machine, n: u32) {
    m.make(CapType::L2CNode, NODE * u64::from(n), NODE, 20 + n);
    m.call(at(20 + n), op::Copy { dst: at(17).into() }).unwrap();
    m.delete(at(17)).unwrap();
}

/// Whether anything was lost is known without a look at all containers.
#[test]
fn while_all_are_in_use_nothing_is_searched() {
    let mut m = Machine::new();
    m.checking = false;
    for n in 0..100 {
        make_suspect(&mut m, n);
    }
    m.core.local.caps.budget.set(160);
    let mut events = 1;
    while m.call(KERNEL, op::CollectCycles {}) == Err(Status::Again) {
        events += 1;
    }
    assert!(events <= 3, "{events} events");
    assert_eq!(m.call(KERNEL, op::CollectCycles {}).unwrap().count, 0);
    // One that holds itself, the first of many again.
    m.make(CapType::L2CNode, NODE * 200, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    m.call(Place::l1(ROOT, 1), op::Copy { dst: CapAddr::new(1, 9).into() }).unwrap();
    m.delete(Place::l1(ROOT, 1)).unwrap();
    for n in 100..120 {
        make_suspect(&mut m, n);
    }
    assert_eq!(m.collect_cycles(), 1);
    assert_eq!(total(&collect(&mut m)), NODE);
}

/// More containers lose a capability than are noted, and one that is lost is not among those.
#[test]
fn what_is_lost_after_many_others_is_found() {
    for (before, after) in [(200, 0), (0, 200), (127, 1), (128, 0)] {
        let mut m = Machine::new();
        m.checking = false;
        (0..before).for_each(|n| make_suspect(&mut m, n));
        m.make(CapType::L2CNode, NODE * 200, NODE, 16);
        m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
        m.call(Place::l1(ROOT, 1), op::Move { dst: CapAddr::new(1, 9).into() }).unwrap();
        (before..before + after).for_each(|n| make_suspect(&mut m, n));
        assert_eq!(m.collect_cycles(), 1, "{before} before, {after} after");
        assert_eq!(total(&collect(&mut m)), NODE);
        assert_eq!(m.collect_cycles(), 0);
    }
}

/// Each process of a core has an endpoint of its own to the server, with another badge: at one address there may be more than one event
/// looks at.
#[test]
fn many_badges_of_an_endpoint_are_passed_in_steps() {
    let mut m = Machine::new();
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    m.make(CapType::Endpoint, 2 * NODE, 4096, 17);
    for n in 0..200 {
        let dst = CapAddr::new(1, n).into();
        m.call(at(17), op::Mint { dst, rights: Rights::SEND, badge: n + 1 }).unwrap();
    }
    // Behind it is what is to be found.
    let lost = m.make(CapType::L2CNode, 4 * NODE, NODE, 18);
    m.call(lost, op::Copy { dst: Place::l1(ROOT, 2) }).unwrap();
    m.call(lost, op::Move { dst: CapAddr::new(2, 3).into() }).unwrap();
    m.delete(Place::l1(ROOT, 2)).unwrap();
    m.core.local.caps.budget.set(8);
    let found = (0..2000).find_map(|_| match m.call(KERNEL, op::CollectCycles {}) {
        Err(Status::Again) => None,
        count => Some(count.unwrap().count),
    });
    assert_eq!(found, Some(1), "it comes to no end");
}
