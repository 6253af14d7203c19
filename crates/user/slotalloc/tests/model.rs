//! Random operations against a set of the slots in use.

use captypes::{CapAddr, Status};
use proptest::prelude::*;
use slotalloc::{Grow, NodeSlots, TwoLevel};
use std::collections::BTreeSet;

const FIRST: u32 = 20;
const FIRST_L1: u32 = 5;
const MAX: usize = 12;

/// A root that grows twice, and refuses to make a node now and then.
struct Root {
    slots: u32,
    nodes: BTreeSet<u32>,
    limit: u32,
    refuse: u32,
}

impl Grow for Root {
    fn make_node(&mut self, l1: u32) -> Result<(), Status> {
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err(Status::NoMemory);
        }
        assert!(l1 < self.slots && self.nodes.insert(l1), "a free slot of the root");
        Ok(())
    }
    fn drop_node(&mut self, l1: u32) -> Result<(), Status> {
        assert!(self.nodes.remove(&l1), "a node that is there");
        Ok(())
    }
    fn root_slots(&mut self) -> Result<u32, Status> {
        Ok(self.slots)
    }
    fn grow_root(&mut self, spare: CapAddr) -> Result<(), Status> {
        assert!(self.nodes.contains(&spare.l1()));
        if self.slots * 2 > self.limit {
            return Err(Status::NoMemory);
        }
        self.slots *= 2;
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(u32),
    Range(u32),
    Free(prop::sample::Index),
    FreeMany(u32),
    Refuse,
    Release(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1..200u32).prop_map(Op::Alloc),
        3 => (0..260u32).prop_map(Op::Range),
        4 => any::<prop::sample::Index>().prop_map(Op::Free),
        1 => (1..500u32).prop_map(Op::FreeMany),
        1 => Just(Op::Refuse),
        2 => (0..4usize).prop_map(Op::Release),
    ];
    prop::collection::vec(op, 1..80)
}

struct Bench {
    slots: TwoLevel<MAX>,
    root: Root,
    used: BTreeSet<CapAddr>,
}

impl Bench {
    fn check_new(&mut self, slot: CapAddr) {
        assert!(self.used.insert(slot), "given twice");
        assert!(slot.l1() == 0 && slot.l2() >= FIRST || self.root.nodes.contains(&slot.l1()));
    }

    /// Free slots in the nodes that exist.
    fn free_now(&self) -> usize {
        (256 - FIRST as usize) + 256 * self.root.nodes.len() - self.used.len()
    }

    /// Only empty nodes go, and all but one if so many may.
    fn release(&mut self, most: usize) {
        let in_use: BTreeSet<u32> = self.used.iter().map(|slot| slot.l1()).collect();
        let empty = |nodes: &BTreeSet<u32>| nodes.difference(&in_use).count();
        let before = empty(&self.root.nodes);
        let more = self.slots.release(most, &mut self.root).unwrap();
        let going = before.saturating_sub(1).min(most);
        assert_eq!(empty(&self.root.nodes), before - going);
        assert_eq!(more, before.saturating_sub(1) > most);
        assert!(in_use.iter().all(|l1| *l1 == 0 || self.root.nodes.contains(l1)));
    }

    fn may_fail(&self, error: Status) {
        // Everything is used up, or the next node was refused.
        let missing = |l1: &u32| !self.root.nodes.contains(l1);
        let l1 = (FIRST_L1..).find(missing).unwrap_or(0);
        match error {
            Status::NoSlot => assert!(l1 >= self.root.slots || self.root.nodes.len() == MAX - 1),
            Status::NoMemory => {}
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Alloc(count) => (0..*count).for_each(|_| self.alloc()),
            Op::Range(count) => self.range(*count),
            Op::Free(index) if !self.used.is_empty() => {
                let slot = *index.get(&self.used.iter().copied().collect::<Vec<_>>());
                self.slots.free(slot);
                self.used.remove(&slot);
            }
            Op::Free(_) => {}
            Op::FreeMany(count) => {
                for slot in self.used.iter().copied().take(*count as usize).collect::<Vec<_>>() {
                    self.slots.free(slot);
                    self.used.remove(&slot);
                }
            }
            Op::Refuse => self.root.refuse = 1,
            Op::Release(most) => self.release(*most),
        }
        assert_eq!(self.slots.made() as usize, self.root.nodes.len());
    }

    fn alloc(&mut self) {
        let free = self.free_now();
        match self.slots.alloc(&mut self.root) {
            Ok(slot) => self.check_new(slot),
            Err(error) => {
                assert_eq!(free, 0);
                self.may_fail(error);
            }
        }
    }

    fn range(&mut self, count: u32) {
        match self.slots.alloc_range(count, &mut self.root) {
            Ok(first) => {
                assert!((1..=256).contains(&count) && first.l2() + count <= 256);
                (0..count).for_each(|n| self.check_new(first.plus(n)));
            }
            Err(Status::OutOfRange) => assert!(count == 0 || count > 256),
            Err(error) => self.may_fail(error),
        }
    }
}

proptest! {
    #[test]
    fn two_levels(ops in ops(), limit in prop::sample::select(vec![7u32, 14, 28])) {
        let root = Root { slots: 7, nodes: BTreeSet::new(), limit, refuse: 0 };
        let mut bench = Bench { slots: TwoLevel::new(FIRST, FIRST_L1), root, used: BTreeSet::new() };
        ops.iter().for_each(|op| bench.step(op));
        // What is free can be had.
        bench.root.refuse = 0;
        let free = bench.free_now();
        (0..free).for_each(|_| bench.alloc());
        assert_eq!(bench.used.len() % 256, 256 - FIRST as usize);
    }

    #[test]
    fn one_node(ops in prop::collection::vec((any::<bool>(), 0..256u32), 1..600)) {
        let mut node = NodeSlots::new(9, FIRST);
        let mut used: BTreeSet<u32> = (0..FIRST).collect();
        for (alloc, n) in ops {
            if alloc && n % 8 == 0 {
                let free = |first: &u32| (*first..first + n / 8).all(|slot| !used.contains(&slot));
                let expected = (0..=256 - n / 8).find(free).filter(|_| n > 0);
                assert_eq!(node.alloc_range(n / 8), expected.map(|slot| CapAddr::new(9, slot)));
                used.extend(expected.into_iter().flat_map(|first| first..first + n / 8));
            } else if alloc {
                let expected = (0..256).find(|slot| !used.contains(slot));
                assert_eq!(node.alloc(), expected.map(|slot| CapAddr::new(9, slot)));
                used.extend(expected);
            } else if n >= FIRST {
                node.free(CapAddr::new(9, n));
                node.free(CapAddr::new(8, n / 2));
                used.remove(&n);
            }
            assert_eq!(node.in_use() as usize, used.len());
        }
    }
}

#[test]
fn the_root_grows_and_ends() {
    let root = Root { slots: 7, nodes: BTreeSet::new(), limit: 14, refuse: 0 };
    let mut bench = Bench { slots: TwoLevel::new(FIRST, FIRST_L1), root, used: BTreeSet::new() };
    while bench.slots.made() < 9 {
        bench.alloc();
    }
    assert_eq!(bench.root.slots, 14);
    (0..256).for_each(|_| bench.alloc());
    assert_eq!(bench.slots.alloc(&mut bench.root), Err(Status::NoSlot));
    assert_eq!(bench.used.len(), 256 - FIRST as usize + 9 * 256);
}
