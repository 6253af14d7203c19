//! Random changes against a sorted list, with every promise of the tree checked after each.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An item, and a word by which it is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    start: u64,
    end: u64,
    word: u32,
}

impl Item for Span {
    fn start(&self) -> u64 {
        self.start
    }
    fn end(&self) -> u64 {
        self.end
    }
}

impl<T: Item> Ranges<T> {
    /// Panics unless the tree is what it promises to be.
    fn validate(&self) {
        let mut leaves = Vec::new();
        if self.root != NONE {
            self.validate_node((self.height == 0, self.root), NONE, self.height, &mut leaves);
        }
        let mut before = NONE;
        for (index, &leaf) in leaves.iter().enumerate() {
            let own = self.leaves.get(leaf).unwrap();
            assert_eq!(own.before, before);
            assert_eq!(own.behind, leaves.get(index + 1).copied().unwrap_or(NONE));
            assert!(leaves.len() == 1 || !own.items.is_empty(), "an empty leaf");
            before = leaf;
        }
        let items: Vec<T> = leaves.iter().flat_map(|&leaf| self.items(leaf).to_vec()).collect();
        assert_eq!(items.len(), self.len);
        assert!(items.iter().all(|item| item.start() < item.end()));
        assert!(items.windows(2).all(|pair| pair[0].end() <= pair[1].start()), "out of order");
    }

    /// The starts of the items below a node (least and greatest) and the largest gap.
    fn validate_node(
        &self,
        (is_leaf, node): (bool, u32),
        parent: u32,
        levels: u32,
        leaves: &mut Vec<u32>,
    ) -> Option<(u64, u64, u64)> {
        assert_eq!(is_leaf, levels == 0);
        if is_leaf {
            let own = self.leaves.get(node).unwrap();
            assert_eq!(own.parent, parent);
            assert!(own.items.len() <= LEAF);
            leaves.push(node);
            let starts = (own.items.first()?.start(), own.items.last()?.start());
            let gap = |index: usize| {
                let place = Place { leaf: node, index: index as u32 };
                own.items[index].start() - self.gap_start(place)
            };
            return Some((starts.0, starts.1, (0..own.items.len()).map(gap).max()?));
        }
        let own = self.inners.get(node).unwrap();
        assert_eq!(own.parent, parent);
        let least = if parent == NONE { 2 } else { 1 };
        assert!((least..=FAN).contains(&own.branches.len()));
        let mut all: Option<(u64, u64, u64)> = None;
        for branch in &own.branches {
            let child = (own.above_leaves, branch.child);
            let here = self.validate_node(child, node, levels - 1, leaves).unwrap();
            assert!(branch.gap >= bounded(here.2), "a bound that is too low");
            assert!(branch.key <= here.0, "a key above its child");
            if let Some(before) = all {
                assert!(before.1 < branch.key, "a key that is not above what is in front");
            }
            let (first, gap) = all.map_or((here.0, 0), |all| (all.0, all.2));
            all = Some((first, here.1, gap.max(here.2)));
        }
        all
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// An item of a length at an offset, if there is room.
    Insert(u64, u64),
    /// So many one behind the other, with gaps between them; downward or upward.
    Run(u64, u64, u64, bool),
    /// Removes what ends behind an offset.
    Remove(u64),
    /// Removes what lies between two offsets.
    RemoveWhile(u64, u64),
    /// Removes so many from an offset on; all, or all but each third.
    RemoveRun(u64, usize, bool),
    /// Moves start and end of the item at an offset inside its room.
    Resize(u64, u64, u64),
    /// Looks for a gap.
    Gap(u64, u64, u64),
}

const SPACE: u64 = 60_000;

fn op() -> impl Strategy<Value = Op> {
    let at = || prop_oneof![0..SPACE, 20_000u64..20_500];
    prop_oneof![
        6 => (at(), 1u64..40).prop_map(|(at, len)| Op::Insert(at, len)),
        2 => (at(), 1u64..3000, 1u64..9, any::<bool>())
            .prop_map(|(at, count, step, down)| Op::Run(at, count, step, down)),
        4 => at().prop_map(Op::Remove),
        1 => (at(), at()).prop_map(|(at, end)| Op::RemoveWhile(at, end)),
        1 => (at(), 1u64..3000).prop_map(|(at, len)| Op::RemoveWhile(at, at + len)),
        2 => (at(), 1usize..3000, any::<bool>()).prop_map(|(at, count, all)| Op::RemoveRun(at, count, all)),
        3 => (at(), any::<u64>(), any::<u64>()).prop_map(|(at, a, b)| Op::Resize(at, a, b)),
        4 => (at(), at(), 1u64..200).prop_map(|(low, high, least)| Op::Gap(low, high, least)),
    ]
}

/// Both, with the same items in them.
#[derive(Default)]
struct Both {
    tree: Ranges<Span>,
    list: BTreeMap<u64, Span>,
    clock: u32,
}

impl Both {
    fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.list.range(..end).next_back();
        before.is_none_or(|(_, before)| before.end <= start)
    }

    fn insert(&mut self, start: u64, end: u64) {
        if !self.is_free(start, end) {
            return;
        }
        self.clock += 1;
        let item = Span { start, end, word: self.clock };
        let place = self.tree.insert(item).unwrap();
        assert_eq!(self.tree.get(place), Some(&item));
        self.list.insert(start, item);
    }

    fn at(&self, at: u64) -> Option<Span> {
        let before = self.list.range(..=at).next_back().filter(|(_, item)| item.end > at);
        before.or_else(|| self.list.range(at..).next()).map(|(_, item)| *item)
    }

    fn remove(&mut self, at: u64) -> Option<u64> {
        let expected = self.at(at);
        let place = self.tree.seek(at);
        assert_eq!(self.tree.get(place).copied(), expected);
        let next = self.tree.remove(place);
        let item = expected?;
        self.list.remove(&item.start);
        assert_eq!(self.tree.get(next).copied(), self.at(item.end));
        Some(item.end)
    }

    fn resize(&mut self, at: u64, a: u64, b: u64) {
        let place = self.tree.seek(at);
        let Some(&old) = self.tree.get(place) else { return };
        let low = self.list.range(..old.start).next_back().map_or(0, |(_, item)| item.end);
        let high = self.list.range(old.end..).next().map_or(SPACE + 50, |(start, _)| *start);
        let start = low + a % (high - low);
        let item = Span { start, end: start + 1 + b % (high - start), ..old };
        self.tree.replace(place, item);
        self.list.remove(&old.start);
        self.list.insert(start, item);
        assert_eq!(self.tree.seek(start), place);
    }

    fn gap(&mut self, low: u64, high: u64, least: u64) {
        // Every other answer is refused, to see that the search goes on.
        let fits = |start: u64, item: &Span| {
            (item.start - start >= least && item.word.is_multiple_of(2)).then_some((start, *item))
        };
        let expected = self.list.range(..high).rev().take_while(|(start, _)| **start > low);
        let expected = expected.into_iter().find_map(|(start, item)| {
            let before = self.list.range(..start).next_back().map_or(0, |(_, item)| item.end);
            fits(before, item)
        });
        let mut place = self.tree.seek(high);
        if self.tree.get(place).is_some_and(|item| item.start < high) {
            place = self.tree.next(place);
        }
        assert_eq!(self.tree.last_gap(place, low, least, fits), expected);
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Insert(at, len) => self.insert(at, at + len),
            Op::Run(at, count, step, down) => {
                for n in 0..count {
                    let n = if down { count - 1 - n } else { n };
                    self.insert(at + n * step, at + n * step + step.div_ceil(2));
                }
            }
            Op::RemoveWhile(at, end) => {
                let (start, end) = (self.at(at).map_or(at, |item| item.start), end.max(at));
                let place = self.tree.seek(at);
                let mut gone = Vec::new();
                let next = self.tree.remove_while(place, |item| {
                    let goes = item.start < end;
                    if goes {
                        gone.push(item.start);
                    }
                    goes
                });
                let expected: Vec<u64> =
                    self.list.range(start..end.max(start)).map(|(start, _)| *start).collect();
                assert_eq!(gone, expected);
                self.list.retain(|start, _| !expected.contains(start));
                assert_eq!(self.tree.get(next).copied(), self.at(end.max(at)));
            }
            Op::Remove(at) => drop(self.remove(at)),
            Op::RemoveRun(at, count, all) => {
                let mut at = Some(at);
                for n in 0..count {
                    let Some(here) = at else { break };
                    at = match all || n % 3 != 0 {
                        true => self.remove(here),
                        false => self.at(here).map(|item| item.end),
                    };
                }
            }
            Op::Resize(at, a, b) => self.resize(at, a, b),
            Op::Gap(low, high, least) => self.gap(low, high, least),
        }
        self.tree.validate();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_a_sorted_list(ops in proptest::collection::vec((op(), 0..SPACE), 1..80)) {
        let mut both = Both::default();
        for (op, probe) in &ops {
            both.step(op);
            let found = both.tree.get(both.tree.seek(*probe)).copied();
            prop_assert_eq!(found, both.at(*probe));
        }
        let items: Vec<Span> = both.tree.iter().copied().collect();
        prop_assert_eq!(&items, &both.list.values().copied().collect::<Vec<_>>());
        let mut back = Vec::new();
        let mut place = both.tree.end();
        while let Some(before) = both.tree.before(place) {
            back.push(*both.tree.get(before).unwrap());
            place = before;
        }
        back.reverse();
        prop_assert_eq!(back, items);
        while both.remove(0).is_some() {}
        both.tree.validate();
    }
}

/// Items for each leaf, on average.
fn fill(tree: &Ranges<Span>) -> usize {
    let mut leaves = 0;
    let mut leaf = tree.first().leaf;
    while let Some(own) = tree.leaves.get(leaf) {
        leaves += 1;
        leaf = own.behind;
    }
    tree.len() / leaves
}

#[test]
fn who_goes_on_in_one_direction_leaves_full_leaves() {
    const COUNT: u64 = 20_000;
    for down in [false, true] {
        let mut both = Both::default();
        // Neighbours on both sides, as a program has them.
        (0..20).for_each(|n| both.insert(n * 10, n * 10 + 1));
        (0..20).for_each(|n| both.insert(1_000_000 + n * 10, 1_000_001 + n * 10));
        for n in 0..COUNT {
            let n = if down { COUNT - n } else { n };
            both.insert(1000 + n * 3, 1001 + n * 3);
        }
        both.tree.validate();
        assert!(fill(&both.tree) >= LEAF - 2, "{} in a leaf, down: {down}", fill(&both.tree));
    }
}

#[test]
fn who_jumps_leaves_half_full_ones() {
    let mut both = Both::default();
    (0..20_000u64).for_each(|n| both.insert(n * 7919 % 20_011 * 4, n * 7919 % 20_011 * 4 + 1));
    both.tree.validate();
    assert!(fill(&both.tree) >= LEAF / 2, "{} in a leaf", fill(&both.tree));
    // What is left in few items does not keep many leaves.
    for n in (0..20_011u64).filter(|n| n % 40 != 0) {
        if both.list.contains_key(&(n * 4)) {
            both.remove(n * 4);
        }
    }
    both.tree.validate();
    assert!(fill(&both.tree) >= FEW / 2, "{} in a leaf", fill(&both.tree));
}

/// An item becomes three, as where a part of it changes, in tables of all sizes up to several leaves: with room, without, and at each place.
#[test]
fn a_leaf_is_divided_for_two() {
    let span = |start, end, word| Span { start, end, word };
    let mut divided = 0;
    for count in 1..3 * LEAF as u64 {
        for which in 0..count {
            let mut table = Ranges::new();
            for n in 0..count {
                table.insert(span(n * 10, n * 10 + 10, n as u32)).unwrap();
            }
            let place = table.seek(which * 10);
            table.replace(place, span(which * 10, which * 10 + 3, 7));
            let two =
                [(3, 6), (6, 10)].map(|(from, to)| span(which * 10 + from, which * 10 + to, 8));
            let mut place = table.next(place);
            if !table.insert_two(place, two) {
                if let Some(half) = table.divide(place).unwrap() {
                    table.validate();
                    (place, divided) = (half, divided + 1);
                }
                if !table.insert_two(place, two) {
                    let first = table.insert_at(place, two[0]).unwrap();
                    table.insert_at(table.next(first), two[1]).unwrap();
                }
            }
            table.validate();
            let starts: Vec<u64> = table.iter().map(|item| item.start).collect();
            let mut expected: Vec<u64> = (0..count).map(|n| n * 10).collect();
            expected.extend([which * 10 + 3, which * 10 + 6]);
            expected.sort_unstable();
            assert_eq!(starts, expected, "item {which} of {count}");
            assert!(starts
                .iter()
                .all(|&start| table.get(table.seek(start)).is_some_and(|it| it.start == start)));
        }
    }
    assert!(divided > 50, "{divided} leaves were divided");
}
