//! The cases of the protocol one by one.

use super::node::{Node, RAM};
use super::rehoming::{slot_of, UNIT};
use super::{Cluster, Random};
use crate::cap::{attr, CapExt};
use captypes::invocations::MapFlags;
use captypes::{op, CapAddr, CapType, Label, Place, RamAttrs, Rights, Status};

const A: CapAddr = CapAddr(10);
const B: CapAddr = CapAddr(11);
const C: CapAddr = CapAddr(12);

pub struct Test {
    pub cluster: Cluster,
    random: Random,
}

impl Test {
    pub fn new(cores: usize) -> Test {
        let mut cluster = Cluster::new(cores);
        cluster.checking = true;
        Test { cluster, random: Random(7) }
    }

    /// Of cores that wait for each other, where messages take such times.
    pub fn apart(cores: usize, seed: u64) -> Test {
        Test { cluster: Cluster::apart(cores), random: Random(seed) }
    }

    pub fn node(&self, core: usize) -> &Node {
        &self.cluster.sites[core].node
    }

    /// One object of core `core`'s RAM.
    fn make(&mut self, core: usize, ty: CapType, bytes: u64, dst: CapAddr) {
        let dst = dst.into();
        let args = op::Retype { ty: ty.into(), offset: 0, bytes, count: 1, dst };
        assert_eq!(self.call(core, RAM, args), 0);
    }

    pub fn settle(&mut self) {
        self.cluster.settle(&mut self.random);
        self.cluster.check_at_rest();
    }

    /// Lets the monitors work, while some invocation has not come to its end.
    pub fn settle_loosely(&mut self) {
        self.pump(100);
    }

    /// So many steps of monitors.
    pub fn pump(&mut self, steps: usize) {
        for _ in 0..steps {
            self.cluster.pump(&mut self.random);
        }
    }

    pub fn send(&mut self, from: usize, slot: CapAddr, to: usize, dst: CapAddr) {
        self.cluster.send(from, slot, to, dst);
        self.settle();
        assert!(!self.is_empty(to, dst));
    }

    /// The status in the end, of an invocation that may wait for the monitor.
    pub fn call<I: captypes::Invocation>(&mut self, core: usize, target: CapAddr, args: I) -> u64 {
        self.cluster.call(core, target, args);
        self.settle();
        self.node(core).clients[0].ctx.rax.get()
    }

    pub fn redirected<I: captypes::Invocation>(&mut self, core: usize, target: CapAddr, args: I) {
        assert_eq!(self.cluster.call(core, target, args), None, "it does not wait");
        self.settle();
        assert_eq!(self.node(core).clients[0].ctx.rax.get(), 0);
    }

    pub fn is_empty(&self, core: usize, slot: CapAddr) -> bool {
        self.node(core).slot(slot).is_empty()
    }

    pub fn is_foreign(&self, core: usize, slot: CapAddr) -> bool {
        self.node(core).slot(slot).cap().is_foreign()
    }
}

#[test]
fn a_copy_on_another_core_is_foreign_and_goes_alone() {
    let mut t = Test::new(2);
    t.make(0, CapType::Frame, 0x4000, A);
    t.send(0, A, 1, B);
    assert!(t.is_foreign(1, B) && !t.is_foreign(0, A));
    // Copies of it, and their deletes, stay on the core.
    assert_eq!(t.cluster.call(1, B, op::Copy { dst: C.into() }), Some(0));
    assert!(t.is_foreign(1, C));
    assert_eq!(t.cluster.call(1, B, op::Delete {}), Some(0));
    assert_eq!(t.cluster.call(1, C, op::Delete {}), Some(0));
    t.settle();
    // The owner does not know that, and asks.
    t.redirected(0, A, op::Delete {});
    assert!(t.is_empty(0, A));
}

#[test]
fn the_last_copy_of_the_owner_makes_another_core_the_owner() {
    let mut t = Test::new(3);
    t.make(0, CapType::Frame, 0x4000, A);
    t.send(0, A, 1, A);
    t.send(0, A, 2, A);
    t.redirected(0, A, op::Delete {});
    assert!(t.is_empty(0, A) && !t.is_empty(1, A) && !t.is_empty(2, A));
    assert!(t.is_foreign(1, A) != t.is_foreign(2, A));
    for core in [1, 2] {
        assert_eq!(t.call(core, A, op::Delete {}), 0);
    }
    // `settle` has found that its memory is free again, on its home.
}

#[test]
fn a_kernel_object_goes_with_the_last_copy_of_its_owner() {
    let mut t = Test::new(2);
    t.make(0, CapType::L2CNode, 16384, A);
    t.send(0, A, 1, A);
    t.redirected(0, A, op::Delete {});
    assert!(t.is_empty(0, A) && t.is_empty(1, A));
}

#[test]
fn what_belongs_to_another_core_cannot_be_used_here() {
    let mut t = Test::new(2);
    let objects = [
        (CapType::L1CNode, 16384),
        (CapType::L2CNode, 16384),
        (CapType::Pt, 4096),
        (CapType::Endpoint, 4096),
        (CapType::Dispatcher, 4096),
    ];
    for (ty, bytes) in objects {
        t.make(0, ty, bytes, A);
        t.send(0, A, 1, A);
        let unsupported = Some(Status::Unsupported as u64);
        match ty {
            CapType::L1CNode => {
                let dst = Place::l1(A, 1);
                assert_eq!(t.cluster.call(1, RAM, op::Copy { dst }), Some(Status::NoSlot as u64));
            }
            CapType::L2CNode => {
                let dst = Place::l1(CapAddr(1), 5);
                assert_eq!(t.cluster.call(1, A, op::Move { dst }), Some(0));
                let dst = Place::own(CapAddr::new(5, 1));
                let no_slot = Some(Status::NoSlot as u64);
                assert_eq!(t.cluster.call(1, RAM, op::Copy { dst }), no_slot);
            }
            CapType::Pt => {
                assert_eq!(t.cluster.call(1, A, op::ReadEntry { entry: 0 }), unsupported);
            }
            CapType::Endpoint => {
                assert_eq!(t.cluster.call(1, A, op::Listen { bits: 1 }), unsupported);
            }
            _ => assert_eq!(t.cluster.call(1, A, op::Start {}), unsupported),
        }
        t.redirected(0, A, op::Delete {});
    }
}

#[test]
fn retypes_of_shared_ram_never_overlap() {
    let mut t = Test::new(2);
    t.make(0, CapType::Ram, 0x10000, A);
    t.send(0, A, 1, A);
    let part = |offset, dst: CapAddr| op::Retype {
        ty: CapType::Frame.into(),
        offset,
        bytes: 0x4000,
        count: 1,
        dst: dst.into(),
    };
    t.redirected(1, A, part(0, B));
    assert!(!t.is_foreign(1, B), "what is made here belongs here");
    assert_eq!(t.call(0, A, part(0x3000, B)), Status::HasDescendants as u64);
    t.redirected(0, A, part(0x4000, B));
    t.redirected(0, A, op::Delete {});
    assert!(!t.is_foreign(1, A), "the only one left");
    assert_eq!(t.call(1, B, op::Delete {}), 0);
}

#[test]
fn a_large_retype_of_foreign_ram_asks_once_and_can_be_given_up() {
    let mut t = Test::new(2);
    t.make(0, CapType::Ram, 4 << 20, A);
    t.send(0, A, 1, A);
    let frame = op::Retype {
        ty: CapType::Frame.into(),
        offset: 1 << 20,
        bytes: 3 << 20,
        count: 1,
        dst: B.into(),
    };
    let again = Status::Again as u64;
    assert_eq!(t.call(1, A, frame), again);
    assert!(t.node(1).slot(B).cap().is(CapType::Blank));
    assert_eq!(t.cluster.call(1, A, frame), Some(again), "it has the memory already");
    assert_eq!(t.cluster.call(1, A, frame), Some(0));
    assert_eq!(t.call(1, B, op::Delete {}), 0);
    assert_eq!(t.call(1, A, frame), again);
    t.redirected(0, A, op::Delete {});
    let ram =
        op::Retype { ty: CapType::Ram.into(), offset: 0, bytes: 4096, count: 1, dst: C.into() };
    assert_eq!(t.call(0, RAM, ram), Status::HasDescendants as u64, "core 1 has it");
    // The Blank is all that is left of it, once the new owner has deleted the RAM.
    assert_eq!(t.call(1, A, op::Delete {}), 0);
    t.redirected(1, B, op::Delete {});
}

/// A copy that takes the place of its original, in RAM of which core 1 may have made something.
fn copy_in_place(t: &mut Test) -> op::RetypeCopy {
    t.make(0, CapType::Ram, 0x1_0000, A);
    t.send(0, A, 1, A);
    let place = B.into();
    let ty = CapType::Frame.into();
    let original = op::Retype { ty, offset: 0x1_0000, bytes: 0x1000, count: 1, dst: place };
    assert_eq!(t.call(0, RAM, original), 0);
    op::RetypeCopy { offset: 0, src: place, src_offset: 0, dst: place, bytes: 0x1000, alone: false }
}

#[test]
fn a_copy_takes_the_place_of_what_other_cores_have_too() {
    let mut t = Test::new(2);
    let copy = copy_in_place(&mut t);
    t.send(0, B, 1, B);
    let (original, ram) = (t.node(1).slot(B).cap().base, t.node(0).slot(A).cap().base);
    assert_eq!(t.cluster.call(0, A, copy), None);
    // If it never came to an end, `settle` would see that late.
    t.pump(5_000);
    assert!(!t.node(0).waits(0));
    t.settle();
    assert_eq!(t.node(0).slot(B).cap().base, ram);
    assert!(!t.is_foreign(0, B));
    assert_eq!(t.node(1).slot(B).cap().base, original);
    assert!(!t.is_foreign(1, B), "the only one left");
    assert_eq!(t.call(1, B, op::Delete {}), 0);
}

#[test]
fn who_waits_for_a_lock_hears_others() {
    let mut t = Test::new(3);
    let copy = copy_in_place(&mut t);
    t.send(0, B, 1, B);
    t.send(0, B, 2, B);
    assert_eq!(t.cluster.call(2, B, op::Revoke {}), None);
    while t.node(0).core.local.caps.db.locks.is_empty() {
        t.pump(1);
    }
    assert_eq!(t.cluster.call(0, A, copy), None);
    t.cluster.go_on_without(2, 1_000);
    t.settle();
    assert_eq!(t.node(0).clients[0].ctx.rax.get(), Status::Empty as u64, "it was revoked");
}

#[test]
fn what_every_core_has_of_its_own_is_not_sent() {
    let mut t = Test::new(2);
    for slot in [super::node::KERNEL, RAM] {
        t.cluster.send(0, slot, 1, A);
        t.settle();
        assert!(t.is_empty(1, A));
    }
}

#[test]
fn a_revoke_reaches_everything_on_all_cores() {
    for by in [0, 1] {
        let mut t = Test::new(3);
        t.make(0, CapType::Ram, 0x10000, A);
        t.send(0, A, 1, A);
        t.send(1, A, 2, A);
        let part = op::Retype {
            ty: CapType::Frame.into(),
            offset: 0x1000,
            bytes: 0x1000,
            count: 2,
            dst: B.into(),
        };
        t.redirected(2, A, part);
        t.send(2, B, 0, B);
        t.redirected(by, A, op::Revoke {});
        for core in 0..3 {
            assert_eq!(t.is_empty(core, A), core != by);
            assert!(t.is_empty(core, B) && t.is_empty(core, C));
        }
        assert!(!t.is_foreign(by, A));
        assert_eq!(t.node(by).slot(A).cap().attrs & attr::COPIES_OR_DESCENDANTS, 0);
    }
}

#[test]
fn a_revoke_takes_mappings_behind_which_something_larger_stands() {
    let mut t = Test::new(3);
    t.make(0, CapType::Frame, 0x4000, A);
    let dst = B.into();
    let ty = CapType::Frame.into();
    let part = op::Retype { ty, offset: 0x1000, bytes: 0x1000, count: 1, dst };
    assert_eq!(t.call(0, A, part), 0);
    for core in [1, 2] {
        t.send(0, A, core, A);
        t.send(0, B, core, B);
        t.make(core, CapType::Pt, 4096, C);
        let map = |src: CapAddr, offset, mapping: u32| {
            let (src, mapping) = (src.into(), CapAddr(mapping).into());
            op::Map { entry: mapping_entry(mapping), count: 1, src, offset, flags: R, mapping }
        };
        assert_eq!(t.call(core, C, map(B, 0, 14)), 0);
        assert_eq!(t.call(core, C, map(A, 0x2000, 15)), 0);
    }
    t.redirected(0, B, op::Revoke {});
    for core in [1, 2] {
        assert!(t.is_empty(core, B) && !t.is_empty(core, A));
        assert!(t.is_empty(core, CapAddr(14)) && !t.is_empty(core, CapAddr(15)));
    }
}

fn mapping_entry(mapping: Place) -> u32 {
    mapping.0 as u32 & 255
}

const R: MapFlags = MapFlags::READ;

#[test]
fn a_container_leaves_what_it_cannot_delete_to_the_monitor() {
    let mut t = Test::new(2);
    t.make(0, CapType::L2CNode, 16384, A);
    let args = op::Retype {
        ty: CapType::Frame.into(),
        offset: 0x8000,
        bytes: 0x4000,
        count: 1,
        dst: B.into(),
    };
    assert_eq!(t.cluster.call(0, RAM, args), Some(0));
    t.send(0, B, 1, B);
    // Into the CNode with the owner's last copy, and away with it.
    assert_eq!(t.cluster.call(0, A, op::Move { dst: Place::l1(CapAddr(1), 5) }), Some(0));
    let inside = Place::own(CapAddr::new(5, 9));
    assert_eq!(t.cluster.call(0, B, op::Move { dst: inside }), Some(0));
    let root = Place::l1(CapAddr(1), 5);
    assert_eq!(t.cluster.invoke(0, 0, Label::Delete, root, [0; 9]), Some(0));
    t.settle();
    assert!(!t.is_empty(1, B) && !t.is_foreign(1, B), "it has a new owner");
}

#[test]
fn cnodes_of_two_cores_that_hold_each_other_do_not_leak() {
    let mut t = Test::new(2);
    for core in [0, 1] {
        t.make(core, CapType::L2CNode, 16384, A);
        t.send(core, A, 1 - core, B);
    }
    for core in [0, 1] {
        // The CNode holds itself, and the other core's; nobody else has it any more.
        assert_eq!(t.call(core, A, op::Copy { dst: Place::l1(CapAddr(1), 5) }), 0);
        let inside = |n| Place::own(CapAddr::new(5, n));
        assert_eq!(t.call(core, A, op::Move { dst: inside(1) }), 0);
        assert_eq!(t.call(core, B, op::Move { dst: inside(2) }), 0);
        let root = Place::l1(CapAddr(1), 5);
        assert_eq!(t.cluster.invoke(core, 0, Label::Delete, root, [0; 9]), Some(0));
    }
    t.settle();
    for core in [0, 1] {
        assert_eq!(t.cluster.node(core).kernel(op::CollectCycles {}).unwrap().count, 1);
        t.cluster.after(core);
        t.settle();
        let objects = t.node(core).objects().filter(super::world::home_of_cap);
        assert!(objects.filter(|cap| !cap.is_foreign()).count() == 0, "core {core}");
    }
}

#[test]
fn memory_that_only_a_part_on_another_core_covers_stays_there() {
    let mut t = Test::new(2);
    t.make(0, CapType::Ram, 0x10000, A);
    let part = op::Retype {
        ty: CapType::Frame.into(),
        offset: 0x4000,
        bytes: 0x2000,
        count: 1,
        dst: B.into(),
    };
    assert_eq!(t.cluster.call(0, A, part), Some(0));
    t.send(0, B, 1, B);
    t.redirected(0, B, op::Delete {});
    assert!(t.is_empty(0, B) && !t.is_foreign(1, B), "it belongs to the other core");
    // `settle` has found that all but that part is free, and that part is not.
    t.redirected(0, A, op::Delete {});
    assert!(t.is_empty(0, A) && !t.is_empty(1, B));
    let again =
        op::Retype { ty: CapType::Frame.into(), offset: 0, bytes: 0x1000, count: 1, dst: C.into() };
    assert_eq!(t.call(1, B, op::Copy { dst: C.into() }), 0);
    assert_eq!(t.call(1, C, op::Delete {}), 0);
    assert_eq!(t.call(1, B, again), 0);
    assert_eq!(t.call(1, B, op::Delete {}), 0);
}

#[test]
fn what_is_lent_stays_when_another_core_deletes_the_frame() {
    let mut t = Test::new(2);
    let lend = op::Lend {
        count: 1,
        offset: 100,
        bytes: 0x1000,
        rights: Rights::READ,
        lower: false,
        dst: B.into(),
        copies: Place::NULL,
    };
    t.make(0, CapType::Frame, 0x3000, A);
    assert_eq!(t.cluster.call(0, A, lend), Some(0));
    t.send(0, A, 1, A);
    // What belongs to another core is not lent, and a Loan is not sent.
    assert_eq!(t.cluster.call(1, A, lend), Some(Status::Unsupported as u64));
    t.cluster.send(0, B, 1, C);
    t.settle();
    assert!(t.is_empty(1, C));
    t.redirected(0, A, op::Delete {});
    assert_eq!(t.call(1, A, op::Delete {}), 0);
    // `settle` has found that two pages are somebody's, and one is free.
    assert!(t.is_empty(1, A) && !t.is_empty(0, B));
    let free = |t: &Test| {
        let base = t.node(0).slot(RAM).cap().base;
        [0, 1, 2]
            .map(|n| t.node(0).core.local.caps.first_cover(base + n * 0x1000, 0x1000).is_none())
    };
    assert_eq!(free(&t), [false, false, true]);
    assert_eq!(t.call(0, B, op::Delete {}), 0);
    assert_eq!(free(&t), [true; 3]);
    // Revoked on another core, it ends there and here.
    t.make(0, CapType::Frame, 0x3000, A);
    assert_eq!(t.cluster.call(0, A, lend), Some(0));
    t.send(0, A, 1, A);
    t.redirected(1, A, op::Revoke {});
    assert!(t.is_empty(0, A) && t.is_empty(0, B) && !t.is_empty(1, A));
    assert_eq!(t.call(1, A, op::Delete {}), 0);
}

#[test]
fn whoever_waits_may_vanish() {
    let mut t = Test::new(2);
    t.make(0, CapType::Frame, 0x4000, A);
    t.send(0, A, 1, A);
    let delete =
        |t: &mut Test, client, target| t.cluster.invoke(0, client, Label::Delete, target, [0; 9]);
    assert_eq!(delete(&mut t, 0, A.into()), None);
    assert_eq!(delete(&mut t, 1, super::client_at(0).into()), Some(0));
    t.cluster.node(0).revive(0);
    t.settle();
    // Somebody else does it.
    t.redirected(0, A, op::Delete {});
}

/// Badges of one Endpoint on several cores: each goes alone, all of them with the Endpoint.
#[test]
fn badges_are_revoked_on_all_cores() {
    let mut t = Test::new(3);
    t.make(0, CapType::Endpoint, 4096, A);
    for (badge, dst) in [(5, B), (9, C)] {
        let mint = op::Mint { dst: dst.into(), rights: captypes::Rights::ALL, badge };
        assert_eq!(t.cluster.call(0, A, mint), Some(0));
        t.send(0, dst, 1, dst);
        t.send(0, dst, 2, dst);
    }
    // Which badges there are is the business of the Endpoint's own core.
    t.send(0, A, 1, A);
    let dst = CapAddr(20).into();
    let mint = op::Mint { dst, rights: captypes::Rights::ALL, badge: 7 };
    assert_eq!(t.cluster.call(1, A, mint), Some(Status::Unsupported as u64));
    t.redirected(0, B, op::Revoke {});
    assert!(!t.is_empty(0, B) && t.is_empty(1, B) && t.is_empty(2, B));
    assert!(!t.is_empty(0, C) && !t.is_empty(1, C) && !t.is_empty(2, C));
    t.redirected(0, A, op::Revoke {});
    assert!([1, 2].iter().all(|&core| t.is_empty(core, A) && t.is_empty(core, C)));
    assert!(t.is_empty(0, B) && t.is_empty(0, C) && !t.is_empty(0, A));
}

#[test]
fn memory_that_has_moved_comes_back_to_its_new_home() {
    let mut t = Test::new(3);
    // The second unit of core 0.
    t.cluster.rehome_all(1, 1);
    let ty = CapType::Frame.into();
    let page =
        |offset, dst: CapAddr| op::Retype { ty, offset, bytes: 4096, count: 1, dst: dst.into() };
    assert_eq!(
        t.call(0, RAM, page(UNIT, A)),
        Status::HasDescendants.to_word(),
        "it is not core 0's"
    );
    assert_eq!(t.call(1, slot_of(1), page(0, A)), 0);
    // The core that had it before becomes the owner, and a third one.
    t.send(1, A, 0, A);
    t.redirected(1, A, op::Delete {});
    assert!(t.is_empty(1, A) && !t.is_foreign(0, A));
    t.send(0, A, 2, A);
    t.redirected(0, A, op::Delete {});
    t.send(2, A, 0, B);
    t.redirected(2, A, op::Delete {});
    assert!(!t.is_foreign(0, B));
    // Nobody else has a copy, and still it does not come home to core 0: `Cluster::after` sees to whom it comes back.
    t.redirected(0, B, op::Revoke {});
    t.redirected(0, B, op::Delete {});
    assert!(t.cluster.is_free(1));
    // It goes on to the third core, and home from there.
    t.cluster.rehome_all(1, 2);
    assert!(t.is_empty(1, slot_of(1)) && !t.is_empty(0, slot_of(1)));
    assert_eq!(t.call(2, slot_of(1), page(0, A)), 0);
    t.call(2, A, op::Delete {});
    t.cluster.rehome_all(1, 0);
    assert!(t.is_empty(0, slot_of(1)) && t.is_empty(2, slot_of(1)));
    assert_eq!(t.call(0, RAM, page(UNIT, A)), 0);
    assert_eq!(t.call(0, A, op::Delete {}), 0);
}

#[test]
fn what_is_left_of_a_home_is_used_while_parts_of_it_are_elsewhere() {
    let mut t = Test::new(2);
    t.make(0, CapType::Frame, 0x4000, A);
    t.send(0, A, 1, A);
    t.cluster.rehome_all(1, 1);
    let ty = CapType::Ram.into();
    let make =
        |offset, dst: CapAddr| op::Retype { ty, offset, bytes: 0x4000, count: 1, dst: dst.into() };
    assert_eq!(t.cluster.call(0, RAM, make(2 * UNIT, B)), Some(0), "nothing of it is elsewhere");
    assert!(!t.is_empty(0, B));
    assert_eq!(t.call(0, RAM, make(UNIT, C)), Status::HasDescendants.to_word());
    // Nor is what has moved and was shared.
    assert_eq!(t.call(1, slot_of(1), make(0, B)), 0);
    t.send(1, B, 0, C);
    assert_eq!(
        t.cluster.call(1, slot_of(1), make(0x4000, C)),
        Some(0),
        "nothing of it is elsewhere"
    );
}

#[test]
fn only_what_is_away_is_asked_for() {
    let mut t = Test::new(2);
    let ty = CapType::Ram.into();
    let make =
        |offset, dst: CapAddr| op::Retype { ty, offset, bytes: 0x1000, count: 1, dst: dst.into() };
    assert_eq!(t.call(0, RAM, op::Retype { bytes: 0x8000, ..make(0, A) }), 0);
    assert_eq!(t.call(0, A, op::Retype { bytes: 0x2000, ..make(0x2000, B) }), 0);
    t.send(0, B, 1, B);
    // The other core alone has that part of it now.
    t.call(0, B, op::Delete {});
    for offset in [0, 0x1000, 0x4000, 0x7000] {
        assert_eq!(t.cluster.call(0, A, make(offset, C)), Some(0), "{offset:#x} is not elsewhere");
        t.call(0, C, op::Delete {});
    }
    for (offset, bytes) in [(0x2000, 0x1000), (0x3000, 0x1000), (0x1000, 0x2000), (0, 0x8000)] {
        let asks = t.cluster.call(0, A, op::Retype { bytes, ..make(offset, C) });
        assert_eq!(asks, None, "{offset:#x} is elsewhere");
        t.settle();
        assert!(t.is_empty(0, C), "made of what another core has");
    }
    // Once nobody has it, and what is around it, it is as it was before it was sent.
    t.call(1, B, op::Delete {});
    t.call(0, A, op::Delete {});
    t.settle();
    assert_eq!(t.cluster.call(0, RAM, make(0x2000, A)), Some(0), "it has come home");
}

#[test]
fn only_what_is_free_changes_its_home() {
    let mut t = Test::new(2);
    let home = |slot: CapAddr| Place::own(slot);
    let cede = |offset, bytes, dst: CapAddr| op::CedeHome {
        home: home(RAM),
        offset,
        bytes,
        dst: dst.into(),
    };
    t.make(0, CapType::Frame, 0x4000, A);
    let kernel =
        |t: &mut Test, core: usize, args: op::CedeHome| t.cluster.sites[core].node.kernel(args);
    assert_eq!(kernel(&mut t, 0, cede(0, UNIT, B)), Err(Status::HasDescendants));
    assert_eq!(kernel(&mut t, 0, cede(UNIT + 1, UNIT, B)), Err(Status::OutOfRange));
    assert_eq!(kernel(&mut t, 0, cede(UNIT, 0, B)), Err(Status::OutOfRange));
    assert_eq!(kernel(&mut t, 0, cede(UNIT, u64::MAX - 0xfff, B)), Err(Status::OutOfRange));
    assert_eq!(kernel(&mut t, 0, cede(0, 1 << 40, B)), Err(Status::OutOfRange));
    assert_eq!(kernel(&mut t, 0, cede(UNIT, UNIT, A)), Err(Status::Occupied));
    let frame = op::CedeHome { home: home(A), ..cede(0, 4096, B) };
    assert_eq!(kernel(&mut t, 0, frame), Err(Status::WrongType));
    assert_eq!(kernel(&mut t, 0, cede(UNIT, UNIT, B)), Ok(()));
    assert_eq!(kernel(&mut t, 0, cede(UNIT, UNIT, C)), Err(Status::HasDescendants), "twice");
    let mark = op::CedeHome { home: home(B), ..cede(0, 4096, C) };
    assert_eq!(kernel(&mut t, 0, mark), Err(Status::WrongState), "a mark is no home");
    let base = t.node(0).slot(B).cap().base;
    let adopt = |base, bytes, dst: CapAddr| op::AdoptHome {
        base,
        bytes,
        attrs: RamAttrs(0),
        dst: dst.into(),
    };
    let back = |t: &mut Test, args: op::AdoptHome| t.cluster.sites[0].node.kernel(args);
    assert_eq!(back(&mut t, adopt(base, 4096, B)), Err(Status::Occupied), "a part of it");
    assert_eq!(
        back(&mut t, adopt(base, UNIT, C)),
        Err(Status::HasDescendants),
        "not where the mark is"
    );
    assert_eq!(back(&mut t, adopt(base, UNIT, A)), Err(Status::Occupied));
    assert_eq!(back(&mut t, adopt(base + 1, UNIT, C)), Err(Status::OutOfRange));
    assert_eq!(back(&mut t, adopt(u64::MAX - 0xfff, UNIT, C)), Err(Status::OutOfRange));
    assert_eq!(
        back(&mut t, adopt(base + 4 * UNIT, UNIT, C)),
        Err(Status::HasDescendants),
        "its own"
    );
    assert_eq!(back(&mut t, adopt(base, UNIT, B)), Ok(()));
    assert!(t.is_empty(0, B));
}
