//! Destroying objects: bounded, restartable, without recursion, and every page comes home.

use super::machine::*;
use crate::cap::protocol::to_wire;
use captypes::invocations::{MapFlags, Reclaimed};
use captypes::{op, CapAddr, CapType, Place, RamAttrs, Rights, Status};

const RW: MapFlags = MapFlags::READ.or(MapFlags::WRITE);
const NODE: u64 = 16384;

fn at(slot: u32) -> CapAddr {
    CapAddr(slot)
}

pub fn collect(m: &mut Machine) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    loop {
        let Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 } =
            m.call(KERNEL, op::CollectReclaimed {}).unwrap();
        let some = [(base0, bytes0), (base1, bytes1), (base2, bytes2)];
        ranges.extend(some.iter().filter(|r| r.1 > 0));
        if bytes2 == 0 {
            ranges.sort();
            return ranges;
        }
    }
}

pub fn total(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|r| r.1).sum()
}

#[test]
fn pages_come_home_with_their_last_capability() {
    let mut m = Machine::new();
    m.retype(RAM, CapType::Ram, 0, 0x10000, 1, at(16)).unwrap();
    m.retype(at(16), CapType::Frame, 0x1000, 0x1000, 4, at(20)).unwrap();
    m.delete(at(16)).unwrap();
    assert_eq!(collect(&mut m), [(FREE, 0x1000), (FREE + 0x5000, 0xb000)]);
    m.call(at(20), op::Copy { dst: at(30).into() }).unwrap();
    m.delete(at(20)).unwrap();
    assert_eq!(collect(&mut m), []);
    m.delete(at(30)).unwrap();
    m.delete(at(21)).unwrap();
    assert_eq!(total(&collect(&mut m)), 0x2000);
}

#[test]
fn a_home_is_not_kept_alive_by_itself() {
    let mut m = Machine::new();
    let all = BYTES - (FREE - FIRST);
    m.retype(RAM, CapType::Ram, 0, all, 1, at(16)).unwrap();
    m.delete(at(16)).unwrap();
    assert_eq!(collect(&mut m), [(FREE, all)]);
    m.retype(RAM, CapType::Frame, 0, 0x1000, 1, at(16)).unwrap();
}

#[test]
fn the_library_may_drop_the_whole_frame_before_its_parts() {
    let mut m = Machine::new();
    let pt = m.make(CapType::Pt, 0x10000, 4096, 40);
    m.make(CapType::Frame, 0, 0x4000, 16);
    m.map(pt, 0, 4, at(16), RW, at(50)).unwrap();
    m.retype(at(16), CapType::Frame, 0x1000, 0x1000, 1, at(17)).unwrap();
    m.map(pt, 8, 1, at(17), RW, at(51)).unwrap();
    // The part goes, but the whole frame still stands behind its page.
    m.delete(at(17)).unwrap();
    assert!(!m.is_empty(at(51)) && !m.is_empty(at(50)));
    m.retype(at(16), CapType::Frame, 0x1000, 0x1000, 1, at(17)).unwrap();
    m.delete(at(16)).unwrap();
    assert!(m.is_empty(at(50)), "nothing covers all of it");
    assert!(!m.is_empty(at(51)), "the part covers it");
    m.delete(at(17)).unwrap();
    assert!(m.is_empty(at(51)));
    assert_eq!(total(&collect(&mut m)), 0x4000);
}

#[test]
fn a_cnode_takes_its_contents_along() {
    let mut m = Machine::new();
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    m.retype(RAM, CapType::Frame, 0x10000, 0x1000, 200, CapAddr::new(1, 10)).unwrap();
    m.delete(Place::l1(ROOT, 1)).unwrap();
    assert_eq!(total(&collect(&mut m)), NODE + 200 * 4096);
    let place = CapAddr::new(1, 10);
    assert_eq!(m.call(place, op::Identify {}), Err(Status::NoSlot));
}

#[test]
fn cnodes_in_circles_go_too() {
    let mut m = Machine::new();
    let root = m.make(CapType::L1CNode, 0, NODE, 16);
    for n in 0..8u32 {
        let offset = NODE * u64::from(n + 1);
        m.retype(RAM, CapType::L2CNode, offset, NODE, 1, at(20 + n)).unwrap();
        m.call(at(20 + n), op::Copy { dst: Place::l1(root, n) }).unwrap();
    }
    for n in 0..8u32 {
        // Slot 0 of each node: the next node; slot 1: itself; slot 2: the root.
        let slot = |l2| Place::within(root, CapAddr::new(n, l2));
        if n > 0 {
            m.call(at(20 + (n + 1) % 8), op::Copy { dst: slot(0) }).unwrap();
        }
        m.call(at(20 + n), op::Copy { dst: slot(1) }).unwrap();
        m.call(root, op::Copy { dst: slot(2) }).unwrap();
    }
    m.call(at(20), op::DeleteRange { count: 8 }).unwrap();
    // Each hangs on others; revoking the root's copies leaves one, deleting that takes it apart,
    // but the nodes hold each other.
    m.revoke(root).unwrap();
    m.delete(root).unwrap();
    let back = total(&collect(&mut m));
    assert_eq!(back, NODE, "the circle stands: it has capabilities");
    m.revoke(RAM).unwrap();
    assert_eq!(total(&collect(&mut m)), 8 * NODE);
}

#[test]
fn a_chain_of_containers_needs_no_recursion() {
    let mut m = Machine::new();
    m.checking = false;
    // Every node holds the next one in slot 0, where it would be parked itself.
    let count = 700;
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    for n in 1..count {
        m.make(CapType::L2CNode, NODE * n, NODE, 16);
        m.call(Place::l1(ROOT, 1), op::Move { dst: at(17).into() }).unwrap();
        m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
        m.call(at(17), op::Move { dst: Place::own(CapAddr::new(1, 0)) }).unwrap();
    }
    let first = m.call(Place::l1(ROOT, 1), op::Delete {});
    assert_eq!(first, Err(Status::Again), "the work of one invocation is bounded");
    m.check();
    m.delete(Place::l1(ROOT, 1)).unwrap();
    m.check();
    assert_eq!(total(&collect(&mut m)), count * NODE);
    assert_eq!(m.call(at(17), op::Delete {}), Err(Status::Empty));
}

#[test]
fn a_cnode_that_holds_itself_alone() {
    for slot in [0, 1, 255] {
        let mut m = Machine::new();
        let node = m.make(CapType::L2CNode, 0, NODE, 16);
        m.call(node, op::Copy { dst: Place::l1(ROOT, 1) }).unwrap();
        m.call(node, op::Move { dst: CapAddr::new(1, slot).into() }).unwrap();
        // The last capability that reaches it, and then the one inside, by its RAM.
        m.delete(Place::l1(ROOT, 1)).unwrap();
        assert_eq!(collect(&mut m), []);
        m.revoke(RAM).unwrap();
        assert_eq!(total(&collect(&mut m)), NODE);
    }
}

#[test]
fn the_slot_that_revokes_may_go_itself() {
    for slot in [0, 7] {
        let mut m = Machine::new();
        m.retype(RAM, CapType::Ram, 0, 0x10000, 1, at(16)).unwrap();
        m.retype(at(16), CapType::L2CNode, 0, NODE, 1, at(17)).unwrap();
        m.call(at(17), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
        let inside = CapAddr::new(1, slot);
        m.call(at(16), op::Move { dst: inside.into() }).unwrap();
        m.revoke(inside).ok();
        m.check();
        assert_eq!(total(&collect(&mut m)), 0x10000);
    }
}

#[test]
fn a_dispatcher_goes_with_what_it_holds() {
    let mut m = Machine::new();
    let root = m.make(CapType::L1CNode, 0, NODE, 16);
    let table = m.make(CapType::Pml4, 0x8000, 4096, 17);
    let frame = m.make(CapType::Frame, 0x9000, 4096, 18);
    let dispatcher = m.make(CapType::Dispatcher, 0xa000, 4096, 19);
    let args = op::Configure {
        cspace: root.into(),
        vspace: table.into(),
        frame: frame.into(),
        frame_va: 0x5000,
        fault_ep: Place::NULL,
        options: 0,
    };
    m.call(dispatcher, args).unwrap();
    // Its own root holds it, and itself.
    m.call(dispatcher, op::Copy { dst: Place::l1(root, 3) }).unwrap();
    m.call(root, op::Copy { dst: Place::l1(root, 0) }).unwrap();
    for slot in [root, table, frame] {
        m.delete(slot).unwrap();
    }
    m.revoke(dispatcher).unwrap();
    m.delete(dispatcher).unwrap();
    m.check();
    // The root still holds itself in slot 0, as everybody must expect who does not revoke it.
    assert_eq!(total(&collect(&mut m)), 3 * 4096);
    m.revoke(RAM).unwrap();
    assert_eq!(total(&collect(&mut m)), NODE);
}

#[test]
fn a_domain_may_delete_itself() {
    let mut m = Machine::new();
    let second = m.second(0, 16);
    m.revoke(DISPATCHER).unwrap();
    m.raw(DISPATCHER.into(), 0, op::Delete {});
    assert_eq!(m.current(), Some(second));
    // The node that holds everything, the second dispatcher too.
    m.raw(Place::l1(CapAddr::NULL, 0), 0, op::Delete {});
    assert_eq!(m.current(), None);
}

#[test]
fn revoking_the_root_table_in_use_stops_the_domain() {
    let mut m = Machine::new();
    let table = m.make(CapType::Pml4, 0, 4096, 30);
    let second = m.second(0x4000, 16);
    m.core.local.sched.stop(second);
    let args = op::Configure {
        cspace: Place::NULL,
        vspace: table.into(),
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::NULL,
        options: 0,
    };
    m.call(at(16), args).unwrap();
    m.call(at(16), op::Start {}).unwrap();
    while m.current() != Some(second) {
        m.run();
    }
    assert_eq!(crate::arch::root().0, FREE);
    m.raw(RAM.into(), 0, op::Revoke {});
    assert_ne!(crate::arch::root().0, FREE);
    assert_eq!(m.current(), Some(m.dcb));
}

#[test]
fn mint_of_a_home_is_still_a_home() {
    let mut m = Machine::new();
    m.call(RAM, op::Mint { dst: at(16).into(), rights: Rights::ALL, badge: 0 }).unwrap();
    m.delete(at(16)).unwrap();
    assert_eq!(collect(&mut m), []);
}

/// A dispatcher with the last capability to its page table is emptied twice. What is parked behind
/// it the second time must be found although its first neighbour was of another kind.
#[test]
fn a_container_that_comes_twice_finds_its_new_neighbour() {
    let mut m = Machine::new();
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    let inner = |l2| Place::own(CapAddr::new(1, l2));
    m.make(CapType::Dispatcher, 0x8000, 4096, 20);
    m.make(CapType::Dispatcher, 0x9000, 4096, 21);
    m.make(CapType::Pml4, 0xa000, 4096, 22);
    let args = op::Configure {
        cspace: Place::NULL,
        vspace: at(22).into(),
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::NULL,
        options: 0,
    };
    m.call(at(20), args).unwrap();
    m.delete(at(22)).unwrap();
    m.make(CapType::L2CNode, 0x10000, NODE, 23);
    m.make(CapType::L2CNode, 0x20000, NODE, 24);
    // The outer of the two holds the other.
    m.call(at(23), op::Copy { dst: Place::l1(ROOT, 2) }).unwrap();
    m.call(at(24), op::Move { dst: Place::own(CapAddr::new(2, 5)) }).unwrap();
    m.delete(Place::l1(ROOT, 2)).unwrap();
    for n in 0..2 {
        m.call(at(20 + n), op::Move { dst: inner(1 + n) }).unwrap();
    }
    m.call(at(23), op::Move { dst: inner(3) }).unwrap();
    m.delete(Place::l1(ROOT, 1)).unwrap();
    assert_eq!(total(&collect(&mut m)), 3 * NODE + 3 * 4096);
}

/// Gives a dispatcher a root CNode, and nothing else.
fn configure(cspace: CapAddr) -> op::Configure {
    op::Configure {
        cspace: cspace.into(),
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: Place::NULL,
        options: 0,
    }
}

/// What a dispatcher had before is destroyed when it gets something else, not at somebody's next delete.
#[test]
fn configuring_destroys_what_it_replaces() {
    let mut m = Machine::new();
    let dispatcher = m.make(CapType::Dispatcher, 0, 4096, 16);
    let first = m.make(CapType::L1CNode, 0x4000, NODE, 20);
    m.make(CapType::L2CNode, 0x8000, NODE, 21);
    m.call(at(21), op::Move { dst: Place::l1(first, 1) }).unwrap();
    m.call(dispatcher, configure(first)).unwrap();
    m.delete(first).unwrap();
    assert_eq!(collect(&mut m), [], "the dispatcher has it");
    let second = m.make(CapType::L1CNode, 0xc000, NODE, 22);
    m.call(dispatcher, configure(second)).unwrap();
    assert_eq!(total(&collect(&mut m)), 2 * NODE);
}

/// A home is RAM, for whoever copies only that.
#[test]
fn a_range_of_ram_includes_homes() {
    let mut m = Machine::new();
    let copies = m.call(RAM, op::CopyRange { dst: at(16).into(), count: 1, only: CapType::Ram });
    assert_eq!(copies.unwrap().count, 1);
    let what = m.call(at(16), op::Identify {}).unwrap();
    assert!(what.attrs.has(RamAttrs::HOME));
}

/// A CNode that goes on all cores leaves nothing in the slot that it was in, whatever lay in its slot 0.
#[test]
fn what_lies_in_slot_0_of_a_swept_cnode_is_left_to_the_monitor() {
    let mut m = Machine::new();
    let endpoint = m.make(CapType::Endpoint, 0x8000, 4096, 40);
    let left = m.make(CapType::L2CNode, 0xc000, 0x4000, 41).into();
    m.raw(endpoint.into(), 0, op::Listen { bits: 0 });
    m.call(KERNEL, op::SetMonitor { endpoint: endpoint.into(), bits: 1, left }).unwrap();
    let node = m.make(CapType::L2CNode, 0x10000, 0x4000, 42);
    let shared = m.make(CapType::Ram, 0x20000, 4096, 43);
    let cap = to_wire(&m.slot(shared).cap());
    let base = cap.base;
    m.until_done(KERNEL, op::Share { cap }).unwrap();
    m.call(node, op::Copy { dst: Place::l1(ROOT, 1) }).unwrap();
    m.call(shared, op::Move { dst: CapAddr::new(1, 0).into() }).unwrap();
    m.delete(Place::l1(ROOT, 1)).unwrap();
    let cap = to_wire(&m.slot(node).cap());
    m.call(KERNEL, op::Lock { cap }).unwrap();
    let all = op::DeleteEverywhere { cap };
    m.until_done(KERNEL, all).unwrap();
    assert!(m.is_empty(node));
    let slot = m.call(KERNEL, op::NextLeft {}).unwrap().value;
    assert_eq!(m.call(KERNEL, op::HeldAt { slot }).unwrap().cap.base, base);
    assert_eq!(m.call(KERNEL, op::NextLeft {}).unwrap().value, 0);
}

/// A CNode at root index 1 that holds the own root at slot 5 and `count` Frames.
fn node_with_own_root(m: &mut Machine, first: u32, count: u32) -> Place {
    m.make(CapType::L2CNode, 0, NODE, 16);
    m.call(at(16), op::Move { dst: Place::l1(ROOT, 1) }).unwrap();
    let root = CapAddr::new(1, 5);
    m.call(ROOT, op::Copy { dst: root.into() }).unwrap();
    m.retype(RAM, CapType::Frame, 0x10_0000, 0x1000, count, CapAddr::new(1, first)).unwrap();
    Place::l1(root, 1)
}

#[test]
fn a_delete_may_take_away_the_way_to_its_slot() {
    let mut m = Machine::new();
    let place = node_with_own_root(&mut m, 20, 200);
    assert_eq!(m.call(place, op::Delete {}), Err(Status::Again));
    assert_eq!(m.call(place, op::Identify {}), Err(Status::NoSlot));
    m.delete(place).unwrap();
    assert_eq!(total(&collect(&mut m)), NODE + 200 * 4096);
    assert_eq!(m.call(place, op::Delete {}), Err(Status::NoSlot), "no repetition");
}

#[test]
fn what_was_in_slot_0_goes_though_the_way_to_it_went() {
    let mut m = Machine::new();
    m.checking = false;
    let place = node_with_own_root(&mut m, 20, 100);
    // In its slot 0 a chain of CNodes, each in slot 0 of the one before: longer than one event.
    let count = 300;
    for n in 0..count {
        m.make(CapType::L2CNode, 0x20_0000 + NODE * n, NODE, 16);
        if n > 0 {
            m.call(at(16), op::Move { dst: Place::l1(ROOT, 2) }).unwrap();
            m.call(at(17), op::Move { dst: CapAddr::new(2, 0).into() }).unwrap();
            m.call(Place::l1(ROOT, 2), op::Move { dst: at(16).into() }).unwrap();
        }
        m.call(at(16), op::Move { dst: at(17).into() }).unwrap();
    }
    m.call(at(17), op::Move { dst: CapAddr::new(1, 0).into() }).unwrap();
    assert_eq!(m.call(place, op::Delete {}), Err(Status::Again));
    m.check();
    let index = Place::l1(ROOT, 1);
    assert_eq!(m.call(index, op::Identify {}), Err(Status::Empty), "nothing comes to the slot");
    m.delete(place).unwrap();
    m.check();
    assert_eq!(total(&collect(&mut m)), (count + 1) * NODE + 100 * 4096);
}

#[test]
fn a_range_that_loses_its_way_says_so_if_it_is_not_done() {
    for (more, end) in [(0, Ok(())), (200, Err(Status::NoSlot))] {
        let mut m = Machine::new();
        m.checking = false;
        let place = node_with_own_root(&mut m, 20, 200);
        // The CNode at index 1 goes, and with it the way to the others.
        for n in 0..more {
            m.make(CapType::Endpoint, 0x20_0000 + 4096 * n, 4096, 16);
            m.call(at(16), op::Move { dst: Place::l1(ROOT, 2 + n as u32) }).unwrap();
        }
        let result = m.until_done(place, op::DeleteRange { count: 201 });
        assert_eq!(result.map(|_| ()), end);
        m.check();
        // What is parked goes with the next deletion.
        let other = m.make(CapType::Frame, 0x30_0000, 4096, 40);
        m.delete(other).unwrap();
        assert!(total(&collect(&mut m)) >= NODE + 201 * 4096);
    }
}

/// The same of what takes several events.
#[test]
fn configuring_again_destroys_all_of_what_it_replaced() {
    let mut m = Machine::new();
    m.checking = false;
    let dispatcher = m.make(CapType::Dispatcher, 0, 4096, 16);
    let first = m.make(CapType::L1CNode, 0x4000, NODE, 20);
    let second = m.make(CapType::L1CNode, 0xc000, NODE, 22);
    m.retype(RAM, CapType::Endpoint, 0x10_0000, 4096, 200, CapAddr::new(0, 40)).unwrap();
    for n in 0..200 {
        m.call(at(40 + n), op::Move { dst: Place::l1(first, 20 + n) }).unwrap();
    }
    m.call(dispatcher, configure(first)).unwrap();
    m.delete(first).unwrap();
    assert_eq!(m.call(dispatcher, configure(second)), Err(Status::Again));
    m.until_done(dispatcher, configure(second)).unwrap();
    m.check();
    assert_eq!(total(&collect(&mut m)), NODE + 200 * 4096);
}

/// A dispatcher may replace what it lives on itself; nobody hears of it then.
#[test]
fn configuring_may_end_whoever_does_it() {
    let mut m = Machine::new();
    let (dispatcher, other) = (at(17), at(20));
    m.make(CapType::Dispatcher, 0x4000, 4096, 17);
    m.make(CapType::Dispatcher, 0x5000, 4096, 20);
    let old = m.make(CapType::L1CNode, 0x8000, NODE, 18);
    let new = m.make(CapType::L1CNode, 0xc000, NODE, 19);
    // The root of `dispatcher` has the last capability to `other`, which is to run.
    m.call(dispatcher, configure(old)).unwrap();
    let (vspace, frame) = (VSPACE.into(), FRAME.into());
    m.call(other, op::Configure { vspace, frame, frame_va: 0x1000, ..configure(ROOT) }).unwrap();
    m.call(other, op::Start {}).unwrap();
    m.call(other, op::Move { dst: Place::l1(old, 5) }).unwrap();
    m.delete(old).unwrap();
    let first = m.current();
    while m.current() == first {
        m.run();
    }
    let second = m.current();
    m.raw(dispatcher.into(), 0, configure(new));
    m.check();
    assert_ne!(m.current(), second, "it has gone");
}
