//! Every database against a list of capabilities that answers by looking at all of it.

use fastrand::Rng;
use mdb::RawCap;
use mdb_bench::aa::{WithParents, WithoutParents};
use mdb_bench::database::{Database, Place};
use mdb_bench::list::List;
use mdb_bench::order::{compare, is_ancestor, memory, FRAME, PHYS, RAM};
use mdb_bench::ours::Ours;
use mdb_bench::workload::{capabilities, memory_bytes};
use paging::PAGE;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::ptr;

const SLOTS: usize = 48;
/// Of the memory.
const ORDER: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    /// Into a slot that is free.
    Insert(usize, RawCap),
    /// A copy of what another slot holds.
    Copy(usize, usize),
    /// Of a slot that is in use.
    Remove(usize),
}

/// Naturally aligned memory: capabilities lie in one another, or apart.
fn any_cap() -> impl Strategy<Value = RawCap> {
    (0..=ORDER, any::<u64>(), prop_oneof![1 => Just(PHYS), 5 => Just(RAM), 1 => Just(FRAME)])
        .prop_map(|(order, place, ty)| {
            let len = PAGE << order;
            memory(ty, place % (1 << (ORDER - order)) * len, len)
        })
}

fn any_step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        4 => (slot.clone(), any_cap()).prop_map(|(i, cap)| Step::Insert(i, cap)),
        1 => (slot.clone(), slot.clone()).prop_map(|(from, to)| Step::Copy(from, to)),
        3 => slot.prop_map(Step::Remove),
    ]
}

/// A database, and what must be in it.
struct Pair<'a, D: Database<'a>> {
    database: D,
    slots: &'a [D::Slot],
    model: Vec<Option<RawCap>>,
}

impl<'a, D: Database<'a>> Pair<'a, D> {
    fn new(slots: &'a [D::Slot]) -> Self {
        Self { database: D::default(), slots, model: vec![None; slots.len()] }
    }

    fn insert(&mut self, i: usize, cap: RawCap) {
        // No two types stand side by side: one of them would have to be an ancestor.
        let clashes = |other: &RawCap| {
            other.base < cap.base + cap.word
                && cap.base < other.base + other.word
                && compare(other, &cap) != Ordering::Equal
                && !is_ancestor(other, &cap)
                && !is_ancestor(&cap, other)
        };
        if self.model[i].is_none() && !self.model.iter().flatten().any(clashes) {
            self.slots[i].fill(cap);
            self.database.insert(&self.slots[i]);
            self.model[i] = Some(cap);
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Insert(i, cap) => self.insert(i, cap),
            Step::Copy(from, to) => {
                if let Some(cap) = self.model[from] {
                    self.insert(to, cap);
                }
            }
            Step::Remove(i) => {
                if self.model[i].take().is_some() {
                    self.database.remove(&self.slots[i]);
                }
            }
        }
    }

    fn index(&self, slot: &D::Slot) -> usize {
        self.slots.iter().position(|s| ptr::eq(s, slot)).expect("one of the slots")
    }

    /// The distinct capabilities behind `i`, as the model has them and as the database has them.
    fn verify_walk(&self, i: usize, cap: &RawCap) {
        let mut behind: Vec<RawCap> = self.model.iter().flatten().copied().collect();
        behind.retain(|other| compare(other, cap) == Ordering::Greater);
        behind.sort_by(compare);
        behind.dedup();
        let mut found = Vec::new();
        let mut at = &self.slots[i];
        while let Some(next) = self.database.next(at) {
            found.push(self.model[self.index(next)].expect("in the database"));
            at = next;
        }
        assert!(found.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater));
        found.retain(|other| compare(other, cap) == Ordering::Greater);
        found.dedup();
        assert_eq!(found, behind);
    }

    fn verify(&self, base: u64, len: u64) {
        let (database, present) = (&self.database, || self.model.iter().flatten());
        assert!(database.is_sound());
        for (i, cap) in self.model.iter().enumerate() {
            let Some(cap) = cap else { continue };
            let slot = &self.slots[i];
            let copies = present().filter(|other| compare(other, cap) == Ordering::Equal).count();
            assert_eq!(database.has_copies(slot), copies > 1);
            let below = |other: &RawCap| is_ancestor(cap, other) && other.base >= cap.base;
            assert_eq!(database.has_descendants(slot), present().any(below));
            let above = |other: &RawCap| is_ancestor(other, cap);
            assert_eq!(database.has_ancestors(slot), present().any(above));
            self.verify_walk(i, cap);
        }
        let overlaps = |c: &RawCap| c.base < base + len && base < c.base + c.word;
        match database.overlapping(base, len) {
            Some(found) => assert!(overlaps(&self.model[self.index(found)].expect("in it"))),
            None => assert!(!present().any(overlaps)),
        }
    }
}

fn check<'a, D: Database<'a>>(slots: &'a [D::Slot], steps: &[Step], base: u64, len: u64) {
    let mut pair = Pair::<D>::new(slots);
    for step in steps {
        pair.apply(step);
        assert!(pair.database.is_sound());
    }
    pair.verify(base * PAGE, len * PAGE);
}

fn slots<S: Default>(count: usize) -> Vec<S> {
    (0..count).map(|_| S::default()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn answers_as_the_model_does(
        steps in prop::collection::vec(any_step(), 1..150),
        base in 0..1u64 << ORDER,
        len in 1..6u64,
    ) {
        check::<List>(&slots(SLOTS), &steps, base, len);
        check::<WithParents>(&slots(SLOTS), &steps, base, len);
        check::<WithoutParents>(&slots(SLOTS), &steps, base, len);
        check::<Ours>(&slots(SLOTS), &steps, base, len);
    }
}

/// Deep trees, as they are measured: filled at once, then with capabilities that come and go.
fn stays_sound<'a, D: Database<'a>>(slots: &'a [D::Slot]) {
    let mut numbers = Rng::with_seed(7);
    let caps = capabilities(slots.len(), &mut numbers);
    slots.iter().zip(&caps).for_each(|(slot, cap)| slot.fill(*cap));
    let mut database = D::default();
    database.prepare(memory_bytes(slots.len()));
    database.fill(&slots.iter().collect::<Vec<_>>());
    assert!(database.is_sound());
    let mut present = vec![true; slots.len()];
    for step in 0..20_000 {
        let i = numbers.usize(..slots.len());
        match present[i] {
            true => database.remove(&slots[i]),
            false => {
                slots[i].fill(caps[i]);
                database.insert(&slots[i]);
            }
        }
        present[i] = !present[i];
        assert!(step % 100 > 0 || database.is_sound());
    }
    for (slot, present) in slots.iter().zip(present) {
        if present {
            database.remove(slot);
        }
    }
    assert!(database.is_sound() && database.overlapping(0, u64::MAX >> 8).is_none());
}

#[test]
fn large_databases_stay_sound() {
    stays_sound::<List>(&slots(1024));
    stays_sound::<WithParents>(&slots(4096));
    stays_sound::<WithoutParents>(&slots(4096));
    stays_sound::<Ours>(&slots(4096));
}
