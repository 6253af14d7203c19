//! Random operations against a list that answers every question by looking at all of it.

mod common;

use fastrand::Rng;
use std::collections::BTreeSet;
use std::ptr::NonNull;

use common::*;
use mdb::{Class, Mdb, Policy, RawCap, Slot};
use proptest::prelude::*;

const SLOTS: usize = 40;
const PAGES: u64 = 24;

/// The order, with everything but the slot address.
type Position = (u8, u64, std::cmp::Reverse<u64>, u8, u8, u64);

fn position(c: &RawCap) -> Position {
    let (base, len) = Types::range(c);
    let (tree, rank) = (Types::tree(c.ty), Types::rank_of(c));
    (tree, base, std::cmp::Reverse(len), rank, c.ty, Types::identity(c))
}

fn is_leaf(c: &RawCap) -> bool {
    c.ty == MAPPING || c.ty == LOAN
}

/// There is one capability to it, and nothing is made of it.
fn is_record(c: &RawCap) -> bool {
    c.ty == MAPPING
}

/// Of objects everything is made that is inside; of Loans, the Mappings with their number.
fn derives(a: &RawCap, b: &RawCap) -> bool {
    match a.ty {
        MAPPING => false,
        LOAN => b.ty == MAPPING && loan_of(b) == a.aux,
        _ => true,
    }
}

/// First and end; what has no memory counts as one byte.
fn span(c: &RawCap) -> (u64, u64) {
    let (base, len) = Types::range(c);
    (base, base + len.max(1))
}

fn overlaps(c: &RawCap, (base, end): (u64, u64)) -> bool {
    let (first, past) = span(c);
    first < end && base < past
}

fn contains((base, end): (u64, u64), (first, past): (u64, u64)) -> bool {
    base <= first && past <= end
}

fn is_ancestor(a: &RawCap, b: &RawCap) -> bool {
    let ((_, a_len), (_, b_len)) = (Types::range(a), Types::range(b));
    Types::tree(a.ty) == Types::tree(b.ty)
        && derives(a, b)
        && contains(span(a), span(b))
        && (a_len > b_len || a_len == b_len && Types::rank_of(a) < Types::rank_of(b))
}

fn are_siblings(a: &RawCap, b: &RawCap) -> bool {
    coarse(&position(a)) == coarse(&position(b)) && Types::identity(a) != Types::identity(b)
}

fn in_class(c: &RawCap, class: Class) -> bool {
    class == Class::All || is_leaf(c) == (class == Class::Leaves)
}

#[derive(Clone, Debug)]
enum Op {
    Insert(usize, RawCap),
    InsertNear(usize, RawCap, usize),
    /// Takes an object apart from its beginning into objects of one page, in a given order.
    Split(usize, u8, Run),
    Copy(usize, usize, u8),
    Remove(usize),
    /// Takes objects out in their order, from one on, as whoever deletes pages does.
    Sweep(usize, usize),
    Move(usize, usize),
}

#[derive(Clone, Copy, Debug)]
enum Run {
    Ascending,
    Descending,
    /// The second half before the first.
    Broken,
    /// Each part twice.
    Doubled,
}

/// The database, and what must be in each slot.
struct Pair {
    mdb: Mdb<Types>,
    arena: Arena,
    slots: Vec<RawCap>,
}

impl Pair {
    fn new(division: Option<(usize, u64)>) -> Self {
        Self { mdb: database(division), arena: Arena::new(SLOTS), slots: vec![RawCap::NULL; SLOTS] }
    }

    fn full(&self) -> Vec<usize> {
        (0..SLOTS).filter(|&i| !self.slots[i].is_null()).collect()
    }

    fn caps(&self) -> impl Iterator<Item = RawCap> + '_ {
        self.slots.iter().copied().filter(|c| !c.is_null())
    }

    /// Whether `c` may stand beside what is there.
    fn fits(&self, c: &RawCap) -> bool {
        let mapped = |o: &RawCap, c: &RawCap| o.ty == PORTAL && is_leaf(c) && overlaps(o, span(c));
        if self.caps().any(|o| mapped(&o, c) || mapped(c, &o)) {
            return false;
        }
        is_leaf(c)
            || self.caps().filter(|o| !is_leaf(o) && Types::tree(o.ty) == Types::tree(c.ty)).all(
                |o| {
                    !overlaps(&o, span(c))
                        || is_ancestor(&o, c)
                        || is_ancestor(c, &o)
                        || position(&o) == position(c)
                        || are_siblings(&o, c)
                },
            )
    }

    fn insert(&mut self, i: usize, c: RawCap, near: Option<usize>) {
        if !self.slots[i].is_null() || !self.fits(&c) {
            return;
        }
        let known = self.caps().any(|o| position(&o) == position(&c));
        if known && is_record(&c) {
            return;
        }
        let slot = self.arena.put(i, c);
        // SAFETY: the slots of the arena stay in place, `near` is in the database.
        let copy = unsafe {
            match near {
                None => self.mdb.insert(slot),
                Some(near) => self.mdb.insert_near(slot, self.arena.at(near)),
            }
        };
        assert_eq!(copy, known);
        self.slots[i] = c;
    }

    fn split(&mut self, i: usize, ty: u8, run: Run) {
        let c = self.slots[i];
        if is_leaf(&c) || Types::tree(c.ty) != 0 {
            return;
        }
        let parts = (0..c.word / PAGE).map(|n| object(ty, c.base + n * PAGE, PAGE));
        let mut parts: Vec<_> = parts.filter(|p| self.fits(p)).collect();
        let half = parts.len() / 2;
        match run {
            Run::Ascending => {}
            Run::Descending => parts.reverse(),
            Run::Broken => parts.rotate_left(half),
            Run::Doubled => parts = parts.into_iter().flat_map(|p| [p, p]).collect(),
        }
        let free = (0..SLOTS).filter(|&i| self.slots[i].is_null());
        let parts: Vec<_> = free.zip(parts).collect();
        let mut known: BTreeSet<_> = self.caps().map(|o| position(&o)).collect();
        let copies = parts.iter().filter(|(_, p)| !known.insert(position(p))).count();
        let slots: Vec<_> = parts.iter().map(|&(i, part)| self.arena.put(i, part)).collect();
        // SAFETY: the slots of the arena stay in place, the one at `i` is in the database.
        let found = unsafe { self.mdb.insert_run(slots.len(), |n| slots[n], self.arena.at(i)) };
        assert_eq!(found, copies);
        for (i, part) in parts {
            self.slots[i] = part;
        }
    }

    fn apply(&mut self, op: &Op) {
        let full = self.full();
        let pick = |n: usize| (!full.is_empty()).then(|| full[n % full.len()]);
        match *op {
            Op::Insert(i, c) => self.insert(i, c, None),
            Op::InsertNear(i, c, near) => {
                let near = pick(near);
                self.insert(i, c, near);
            }
            Op::Split(i, ty, run) => {
                if let Some(i) = pick(i) {
                    self.split(i, ty, run);
                }
            }
            Op::Copy(src, dst, rights) => {
                let Some(src) = pick(src).filter(|_| self.slots[dst].is_null()) else { return };
                let c = RawCap { rights, ..self.slots[src] };
                if is_record(&c) {
                    return;
                }
                let slot = self.arena.put(dst, c);
                // SAFETY: `src` is in the database, `dst` is free and holds a copy.
                unsafe { self.mdb.insert_copy(self.arena.at(src), slot) };
                self.slots[dst] = c;
            }
            Op::Remove(i) => {
                let Some(i) = pick(i) else { return };
                // SAFETY: the slot is in the database.
                assert_eq!(unsafe { self.mdb.remove(self.arena.at(i)) }, self.slots[i]);
                self.slots[i] = RawCap::NULL;
            }
            Op::Sweep(first, count) => {
                let Some(first) = pick(first) else { return };
                let from = position(&self.slots[first]);
                for _ in 0..count {
                    let rest = full.iter().copied().filter(|&i| !self.slots[i].is_null());
                    let rest = rest.filter(|&i| position(&self.slots[i]) >= from);
                    let rest = rest.filter(|&i| !is_leaf(&self.slots[i]));
                    let Some(i) = rest.min_by_key(|&i| position(&self.slots[i])) else { return };
                    self.verify_childless(i);
                    // SAFETY: the slot is in the database.
                    assert_eq!(unsafe { self.mdb.remove(self.arena.at(i)) }, self.slots[i]);
                    self.slots[i] = RawCap::NULL;
                }
            }
            Op::Move(src, dst) => {
                let Some(src) = pick(src).filter(|_| self.slots[dst].is_null()) else { return };
                // SAFETY: `src` is in the database, `dst` is free.
                unsafe { self.mdb.relocate(self.arena.at(src), self.arena.at(dst)) };
                self.slots.swap(src, dst);
            }
        }
    }

    /// The distinct capabilities of a tree for which `test` holds, in order.
    fn select(&self, tree: u8, test: impl Fn(&RawCap) -> bool) -> Vec<Position> {
        let chosen = self.caps().filter(|c| Types::tree(c.ty) == tree && test(c));
        chosen.map(|c| position(&c)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn verify(&self) {
        assert_eq!(self.mdb.check(), Ok(()));
        for (i, &c) in self.slots.iter().enumerate() {
            assert_eq!(self.arena.slot(i).cap(), c);
            assert_eq!(self.arena.slot(i).is_linked(), !c.is_null());
        }
        assert_eq!(self.mdb.len(), self.full().len());
        for tree in 0..4 {
            assert_same(self.mdb.iter(tree), &self.select(tree, |_| true));
        }
    }

    fn verify_slot(&self, i: usize) {
        let (mdb, at, c) = (&self.mdb, self.arena.at(i), self.slots[i]);
        let tree = Types::tree(c.ty);
        let copies: BTreeSet<_> = (0..SLOTS)
            .filter(|&o| o != i && !self.slots[o].is_null())
            .filter(|&o| position(&self.slots[o]) == position(&c))
            .map(|o| self.arena.at(o))
            .collect();
        let below = self.select(tree, |o| is_ancestor(&c, o));
        let above = self.select(tree, |o| is_ancestor(o, &c) && !is_leaf(o));
        let after = self.select(tree, |o| position(o) > position(&c));
        // SAFETY: the slot is in the database.
        unsafe {
            assert_eq!(mdb.has_copies(at), !copies.is_empty());
            assert_eq!(mdb.is_last_copy(at), copies.is_empty());
            assert_eq!(mdb.copies(at).collect::<BTreeSet<_>>(), copies);
            assert_eq!(mdb.copies(at).count(), copies.len());
            let beside = self.caps().any(|o| !is_record(&c) && are_siblings(&o, &c));
            assert_eq!(!is_record(&c) && mdb.has_siblings(at), beside);
            assert_eq!(mdb.has_descendants(at), !below.is_empty());
            assert_first(mdb.first_descendant(at), below.first());
            let (first, passed) = mdb.first_descendant_behind(at);
            assert_eq!(first, mdb.first_descendant(at));
            // Each address at which something begins that is no descendant counts once.
            let (base, end) = span(&c);
            let others = self.select(tree, |o| o.base >= base && span(o).1 > end && o.base < end);
            let addresses: BTreeSet<_> = others.iter().map(|other| other.1).collect();
            // What differs only in what makes it distinct is looked at one by one.
            let siblings = self.caps().filter(|o| are_siblings(o, &c)).count();
            // What was not made of a Loan is passed over; most of it has other numbers, or none.
            let strangers = self.select(tree, |o| c.ty == LOAN && overlaps(o, span(&c)));
            let most = addresses.len() + copies.len() + siblings + strangers.len();
            assert!(passed as usize <= most);
            let own = self.select(tree, |o| is_leaf(o) && span(o) == span(&c));
            assert!(mdb.hanging_leaves(at) as u64 <= Types::MOST_LEAVES);
            assert!(!own.is_empty() || mdb.hanging_leaves(at) == 0);
            assert_same(mdb.descendants(at), &below);
            assert_first(mdb.nearest_ancestor(at), above.last());
            if !is_leaf(&c) {
                assert_first(mdb.next(at), after.first());
            }
        }
        assert_eq!(mdb.find(&c).map(|s| position(&cap(s))), Some(position(&c)));
    }

    /// What is answered of the ancestor of what is about to go.
    fn verify_childless(&self, i: usize) {
        let c = self.slots[i];
        let tree = Types::tree(c.ty);
        let copies = self.caps().filter(|o| position(o) == position(&c)).count();
        let inside = |o: &RawCap| o.base < span(&c).1 && position(o) > position(&c);
        // Leaves of its range hang from it, but for some that are in the tree.
        let behind = self.select(tree, |o| inside(o) && !(is_record(o) && span(o) == span(&c)));
        let above = self.select(tree, |o| is_ancestor(o, &c) && !is_leaf(o));
        // SAFETY: the slot is in the database.
        let found = unsafe { self.mdb.ancestor_of_childless(self.arena.at(i)) };
        if let Some(found) = found {
            assert!(copies == 1 && behind.is_empty());
            assert_first(Some(found), above.last());
        }
        let own = self.select(tree, |o| inside(o));
        if copies == 1 && own.is_empty() && !is_leaf(&c) {
            assert_first(found, above.last());
        }
    }

    fn verify_range(&self, tree: u8, base: u64, len: u64, max_rank: u8) {
        let mdb = &self.mdb;
        let range = (base, base + len);
        let around = self.select(tree, |c| {
            !is_leaf(c) && Types::rank_of(c) <= max_rank && contains(span(c), range)
        });
        assert_first(mdb.surrounding(tree, base, len, max_rank), around.last());
        let objects = self.select(tree, |c| !is_leaf(c) && c.base >= base);
        assert_same(mdb.objects_from(tree, base, None), &objects);
        let here =
            self.caps().filter(|c| Types::tree(c.ty) == tree && !is_leaf(c) && c.base == base);
        for from in here {
            // One that begins there, and what is behind it.
            let own = position(&from);
            let at = objects.iter().position(|object| *object == own).unwrap_or(objects.len());
            let found = positions(mdb.objects_from(tree, base, Some(&from)));
            assert!(found.contains(&own));
            let behind = |object: &&Position| place(object) > place(&own);
            assert_eq!(found.iter().filter(behind).count(), objects.iter().filter(behind).count());
            assert!(found.len() <= objects.len() && at < objects.len());
        }
        let inside = self.select(tree, |c| contains(range, span(c)));
        assert_same(mdb.inner(tree, base, len), &inside);
        for class in [Class::Objects, Class::Leaves, Class::All] {
            let any = self.select(tree, |c| in_class(c, class) && overlaps(c, range));
            assert_same(mdb.overlapping(tree, base, len, class), &any);
            let partial = self.select(tree, |c| {
                let nested = contains(range, span(c)) || contains(span(c), range);
                in_class(c, class) && overlaps(c, range) && !nested
            });
            assert_same(mdb.partial(tree, base, len, class), &partial);
        }
        for i in self.full() {
            let c = self.slots[i];
            if Types::tree(c.ty) == tree {
                let below = self.select(tree, |o| is_ancestor(&c, o) && overlaps(o, range));
                // SAFETY: the slot is in the database.
                let found = unsafe { mdb.descendant_overlapping(self.arena.at(i), base, len) };
                assert_first(found, below.first());
                let part = (base.max(span(&c).0), (base + len).min(span(&c).1));
                if part.0 < part.1 && !is_leaf(&c) {
                    let inside = self
                        .select(tree, |o| is_ancestor(&c, o) && !is_leaf(o) && overlaps(o, part));
                    // SAFETY: the slot is in the database.
                    let found =
                        unsafe { mdb.object_inside(self.arena.at(i), part.0, part.1 - part.0) };
                    assert_first(found, inside.first());
                    let leaves = self.select(tree, |o| {
                        is_record(o) && overlaps(o, part) && position(o) > position(&c)
                    });
                    // SAFETY: the slot is in the database.
                    let found =
                        unsafe { mdb.record_inside(self.arena.at(i), part.0, part.1 - part.0) };
                    assert_first(found, leaves.first());
                }
            }
        }
    }

    /// Rights 0 mark what is ignored, so that copies in one group can differ.
    fn verify_gaps(&self, base: u64, pages: u64) {
        let mut expected = Vec::<(u64, u64)>::new();
        for page in (0..pages).map(|n| base + n * PAGE) {
            let covers = |c: &RawCap| {
                c.rights != 0
                    && !is_leaf(c)
                    && Types::tree(c.ty) == 0
                    && overlaps(c, (page, page + PAGE))
            };
            if self.caps().any(|c| covers(&c)) {
                continue;
            }
            match expected.last_mut() {
                Some((first, len)) if *first + *len == page => *len += PAGE,
                _ => expected.push((page, PAGE)),
            }
        }
        let mut gaps = Vec::new();
        self.mdb.for_each_gap(0, base, pages * PAGE, |c| c.rights == 0, |b, l| gaps.push((b, l)));
        assert_eq!(gaps, expected);
    }
}

fn positions(found: impl IntoIterator<Item = NonNull<Slot>>) -> Vec<Position> {
    found.into_iter().map(|s| position(&cap(s))).collect()
}

/// A position without identity.
fn coarse(p: &Position) -> (u8, u64, std::cmp::Reverse<u64>, u8, u8) {
    (p.0, p.1, p.2, p.3, p.4)
}

/// What of a position is sure: leaves of one range have no order.
fn place(p: &Position) -> (u8, u64, std::cmp::Reverse<u64>, u8, u8) {
    match p.3 >= Types::LEAF_RANK {
        true => (p.0, p.1, p.2, Types::LEAF_RANK, 0),
        false => coarse(p),
    }
}

/// The same capabilities, in the same order but for leaves of one range.
fn assert_same(found: impl IntoIterator<Item = NonNull<Slot>>, expected: &[Position]) {
    let mut found = positions(found);
    let order: Vec<_> = found.iter().map(place).collect();
    assert_eq!(order, expected.iter().map(place).collect::<Vec<_>>());
    found.sort();
    assert_eq!(found, expected);
}

fn assert_first(found: Option<NonNull<Slot>>, expected: Option<&Position>) {
    assert_eq!(positions(found).first().map(place), expected.map(place));
}

fn any_cap() -> impl Strategy<Value = RawCap> {
    let range = (0..PAGES, prop_oneof![3 => 1..=4u64, 1 => 1..=PAGES]);
    let memory = (prop_oneof![Just(PHYS), Just(RAM), Just(FRAME), Just(VNODE)], range.clone())
        .prop_map(|(ty, (base, pages))| object(ty, base * PAGE, pages.min(PAGES - base) * PAGE));
    // Often the same few pages.
    let pages = prop_oneof![1 => range, 1 => (0..2u64, 1..=2u64)];
    let map = (pages, 0..3u64, 0..8u16)
        .prop_map(|((base, pages), table, entry)| mapping(base * PAGE, pages, table << 12, entry));
    let io = (0..16u64, 1..8u64).prop_map(|(base, len)| object(IO, base, len));
    let bare = (prop_oneof![Just(IRQ), Just(ENDPOINT)], 0..4u64, 0..2u32)
        .prop_map(|(ty, base, aux)| RawCap { aux, ..object(ty, base, 0) });
    let portal = (0..3u64, 0..4u32)
        .prop_map(|(base, aux)| RawCap { aux, ..object(PORTAL, base * PAGE, PAGE) });
    let spans = prop_oneof![
        (0..PAGES * PAGE, 1..=6 * PAGE),
        (0..PAGES, 1..=4u64).prop_map(|(base, pages)| (base * PAGE, pages * PAGE)),
        (0..2u64, 1..=2u64).prop_map(|(base, pages)| (base * PAGE, pages * PAGE)),
    ];
    let loan =
        (spans, 1..4u32).prop_map(|((base, len), aux)| RawCap { aux, ..object(LOAN, base, len) });
    let places = (prop_oneof![0..PAGES, 0..2u64], 1..=2u64, 0..3u64, 0..8u16, 1..4u32);
    let lent = places.prop_map(|(base, pages, table, entry, loan)| {
        mapping_of_loan(base * PAGE, pages, table << 12, entry, loan)
    });
    let cap =
        prop_oneof![6 => memory, 4 => map, 1 => io, 1 => bare, 2 => portal, 2 => loan, 2 => lent];
    (cap, 0..3u8).prop_map(|(cap, rights)| RawCap { rights, ..cap })
}

fn any_run() -> impl Strategy<Value = Run> {
    let others = prop_oneof![Just(Run::Descending), Just(Run::Broken), Just(Run::Doubled)];
    prop_oneof![Just(Run::Ascending), others]
}

fn any_op() -> impl Strategy<Value = Op> {
    let pick = any::<usize>();
    prop_oneof![
        4 => (0..SLOTS, any_cap()).prop_map(|(i, c)| Op::Insert(i, c)),
        4 => (0..SLOTS, any_cap(), pick).prop_map(|(i, c, near)| Op::InsertNear(i, c, near)),
        1 => (pick, prop_oneof![Just(RAM), Just(FRAME)], any_run())
            .prop_map(|(i, ty, run)| Op::Split(i, ty, run)),
        2 => (pick, 0..SLOTS, 0..3u8).prop_map(|(s, d, rights)| Op::Copy(s, d, rights)),
        5 => pick.prop_map(Op::Remove),
        3 => (pick, 1..6usize).prop_map(|(first, count)| Op::Sweep(first, count)),
        1 => (pick, 0..SLOTS).prop_map(|(s, d)| Op::Move(s, d)),
    ]
}

/// Pieces of the memory, and pages in each; with three levels of groups, and for less than the memory.
fn any_division() -> impl Strategy<Value = Option<(usize, u64)>> {
    let some = prop_oneof![Just((24, 1)), Just((300, 1)), Just((9, 2)), Just((6, 4)), Just((1, 1))];
    prop_oneof![1 => Just(None), 3 => some.prop_map(Some)]
}

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 8 } else { 4000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_as_the_list_does(
        ops in prop::collection::vec(any_op(), 1..if cfg!(miri) { 60 } else { 120 }),
        range in (0..PAGES, 1..8u64),
        max_rank in prop_oneof![0..4u8, Just(255)],
        division in any_division(),
    ) {
        let mut pair = Pair::new(division);
        for op in &ops {
            pair.apply(op);
            pair.verify();
        }
        let (base, pages) = range;
        for i in pair.full() {
            pair.verify_slot(i);
        }
        pair.verify_range(0, base * PAGE, pages * PAGE, max_rank);
        pair.verify_range(0, base * PAGE + 100, pages * PAGE - 200, max_rank);
        pair.verify_range(2, base, pages, max_rank);
        pair.verify_gaps(base * PAGE, pages);
    }
}

/// One page mapped thousands of times, by entries of many tables: each Mapping is found among all of them,
/// and the page passes from copy to copy, and to a Frame around it, with all that hangs from it.
#[test]
fn a_page_is_mapped_very_often() {
    let (leaves, steps) = if cfg!(miri) { (40, 400) } else { (3000, 60_000) };
    let arena = Arena::new(leaves + 4);
    let mut mdb = database(Some((8, 4)));
    let mut numbers = Rng::with_seed(0x1234_5678_9abc_def1);
    let [ram, first, second] = [leaves, leaves + 1, leaves + 2];
    let page = object(FRAME, 5 * PAGE, PAGE);
    let leaf = |n: usize| mapping(5 * PAGE, 1, (n as u64 / 512) << 12, n as u16 % 512);
    // SAFETY: the slots of the arena stay in place and outlive the database.
    unsafe { mdb.insert(arena.put(ram, object(RAM, 0, 16 * PAGE))) };
    let mut held = None;
    for step in 0..steps {
        let n = numbers.usize(..leaves);
        // SAFETY: as above; linked slots only are removed, moved, copied or near.
        unsafe {
            match (held, numbers.usize(..100)) {
                (None, _) => {
                    mdb.insert_near(arena.put(first, page), arena.at(ram));
                    held = Some(first);
                }
                (Some(own), 0) => {
                    // Only rarely while it is mapped.
                    if numbers.usize(..8) == 0 {
                        mdb.remove(arena.at(own));
                        held = None;
                    }
                }
                (Some(own), 1) => {
                    let other = first + second - own;
                    mdb.insert_copy(arena.at(own), arena.put(other, page));
                    mdb.remove(arena.at(own));
                    held = Some(other);
                }
                (Some(own), 2) => {
                    let other = first + second - own;
                    mdb.relocate(arena.at(own), arena.at(other));
                    held = Some(other);
                }
                (Some(own), _) if !arena.slot(n).is_linked() => {
                    mdb.insert_near(arena.put(n, leaf(n)), arena.at(own));
                    assert_eq!(mdb.nearest_ancestor(arena.at(n)), Some(arena.at(own)));
                    assert!(mdb.first_descendant(arena.at(own)).is_some());
                }
                (Some(own), number) if number % 2 == 0 => {
                    assert_eq!(mdb.find(&leaf(n)), Some(arena.at(n)));
                    assert_eq!(mdb.nearest_ancestor(arena.at(n)), Some(arena.at(own)));
                }
                (Some(_), _) => {
                    mdb.remove(arena.at(n));
                    assert_eq!(mdb.find(&leaf(n)), None);
                }
            }
        }
        if step % (steps / 40) == 0 {
            assert_eq!(mdb.check(), Ok(()));
            let linked = (0..leaves).filter(|&n| arena.slot(n).is_linked());
            let all: BTreeSet<_> = linked.map(|n| position(&leaf(n))).collect();
            let found = mdb.overlapping(0, 5 * PAGE, PAGE, Class::Leaves);
            assert_eq!(found.map(|s| position(&cap(s))).collect::<BTreeSet<_>>(), all);
        }
    }
    assert_eq!(mdb.check(), Ok(()));
}

/// Deep trees: thousands of Frames and Mappings come and go, with full checks now and then.
#[test]
fn large_trees_stay_balanced() {
    come_and_go(None);
}

/// The same with a search tree for each eight pages.
#[test]
fn many_trees_stay_balanced() {
    come_and_go(Some((if cfg!(miri) { 8 } else { 512 }, 8)));
}

fn come_and_go(division: Option<(usize, u64)>) {
    let (frames, steps) = if cfg!(miri) { (64, 400) } else { (4096, 200_000) };
    let arena = Arena::new(2 * frames + 1);
    let mut mdb = database(division);
    let mut numbers = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let ram = arena.put(2 * frames, object(RAM, 0, frames as u64 * PAGE));
    // SAFETY: the slots of the arena stay in place and outlive the database.
    unsafe { mdb.insert(ram) };
    for step in 0..steps {
        let frame = numbers.usize(..frames);
        let (low, high) = (arena.at(frame), arena.at(frames + frame));
        let base = frame as u64 * PAGE;
        // SAFETY: the slots of the arena stay in place; linked ones only are removed or near.
        unsafe {
            if !arena.slot(frame).is_linked() {
                mdb.insert_near(arena.put(frame, object(FRAME, base, PAGE)), ram);
            } else if !arena.slot(frames + frame).is_linked() {
                let table = numbers.usize(..8) as u64 * PAGE;
                mdb.insert_near(arena.put(frames + frame, mapping(base, 1, table, 0)), low);
                assert_eq!(mdb.nearest_ancestor(high), Some(low));
                assert_eq!(mdb.first_descendant(low), Some(high));
            } else {
                mdb.remove(high);
                mdb.remove(low);
            }
        }
        if step % (steps / 50) == 0 {
            assert_eq!(mdb.check(), Ok(()));
        }
    }
    for i in 0..2 * frames + 1 {
        if arena.slot(i).is_linked() {
            // SAFETY: it is in the database.
            unsafe { mdb.remove(arena.at(i)) };
            assert!(i % 64 != 0 || mdb.check().is_ok());
        }
    }
    assert_eq!(mdb.check(), Ok(()));
    assert!(mdb.is_empty());
}
