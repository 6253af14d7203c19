//! What the database holds while it is measured, and how often each operation is needed: G18 §4.5.5.

use crate::order::{compare, end, memory, RAM};
use fastrand::Rng;
use mdb::RawCap;
use paging::PAGE;

/// Pages of memory for each capability. G18 does not say how much memory its capabilities lie in; this
/// much makes about a tenth of them lie in others, which is what it found in a running system.
const PAGES_EACH: u64 = 64;
/// One in so many is a copy of another, so that a fifth have copies.
const COPIES: u64 = 10;

/// The sizes have a long tail: in one of six sets of 4,096 something covers half of the memory, and then
/// half of the set has an ancestor. Over ten sets the share with ancestors is 7 to 21 of a hundred; with
/// this seed it is what the paper found.
pub const SEED: u64 = 7;

/// Naturally aligned RAM capabilities, of a size of 2ˣ pages with a probability that falls with 2⁻ˣ; a
/// tenth are copies of others. `count` is a power of two.
pub fn capabilities(count: usize, numbers: &mut Rng) -> Vec<RawCap> {
    let mut caps = Vec::<RawCap>::with_capacity(count);
    while caps.len() < count {
        let copied = !caps.is_empty() && numbers.u64(..COPIES) == 0;
        caps.push(match copied {
            true => caps[numbers.usize(..caps.len())],
            false => original(memory_bytes(count), numbers),
        });
    }
    caps
}

/// Of how much memory `count` capabilities are, in bytes.
pub fn memory_bytes(count: usize) -> u64 {
    count as u64 * PAGES_EACH * PAGE
}

fn original(bytes: u64, numbers: &mut Rng) -> RawCap {
    let largest = (bytes / PAGE).ilog2();
    let len = PAGE << numbers.u64(..).trailing_zeros().min(largest);
    memory(RAM, numbers.u64(..bytes / len) * len, len)
}

/// How many of a hundred have copies, ancestors and descendants.
#[derive(Clone, Copy, Default, Debug)]
pub struct Shares {
    pub copies: f64,
    pub ancestors: f64,
    pub descendants: f64,
}

impl Shares {
    /// What G18 found in a booted, idle Barrelfish.
    pub const BARRELFISH: Shares = Shares { copies: 20.0, ancestors: 10.0, descendants: 5.0 };

    /// Adds other shares, weighed.
    pub fn add(&mut self, other: &Shares, weight: f64) {
        self.copies += other.copies * weight;
        self.ancestors += other.ancestors * weight;
        self.descendants += other.descendants * weight;
    }

    pub fn of(caps: &[RawCap]) -> Shares {
        let mut sorted = caps.to_vec();
        sorted.sort_by(compare);
        let (mut copies, mut ancestors, mut descendants) = (0, 0, 0);
        // Ends of the distinct capabilities around the one that is looked at, the innermost last.
        let mut around = Vec::<u64>::new();
        let mut groups = sorted.chunk_by(|a, b| a == b).peekable();
        while let Some(group) = groups.next() {
            let first = &group[0];
            around.retain(|&past| past > first.base);
            copies += if group.len() > 1 { group.len() } else { 0 };
            ancestors += if around.is_empty() { 0 } else { group.len() };
            let inside = |next: &&[RawCap]| next[0].base < end(first);
            descendants += if groups.peek().is_some_and(inside) { group.len() } else { 0 };
            around.push(end(first));
        }
        let share = |n: usize| n as f64 * 100.0 / caps.len() as f64;
        Shares {
            copies: share(copies),
            ancestors: share(ancestors),
            descendants: share(descendants),
        }
    }
}

/// Operations of table 4.1, and longer walks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Insert,
    Remove,
    Next,
    Next10,
    Next100,
    Copies,
    Ancestors,
    Descendants,
    Range,
}

impl Operation {
    pub const ALL: [Operation; 9] = [
        Operation::Insert,
        Operation::Remove,
        Operation::Next,
        Operation::Next10,
        Operation::Next100,
        Operation::Copies,
        Operation::Ancestors,
        Operation::Descendants,
        Operation::Range,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Remove => "remove",
            Operation::Next => "successor",
            Operation::Next10 => "10 successors",
            Operation::Next100 => "100 successors",
            Operation::Copies => "has copies",
            Operation::Ancestors => "has ancestors",
            Operation::Descendants => "has descendants",
            Operation::Range => "range query",
        }
    }
}

/// How often a workload needs each operation.
pub struct Mix {
    pub title: &'static str,
    /// Counts of operations in the order insert, remove, successor, copies, ancestors, descendants,
    /// range.
    counts: [u32; 7],
}

/// Table 4.2.
pub const BOOT: Mix =
    Mix { title: "score, boot", counts: [25524, 16094, 10040, 16493, 6434, 13992, 2469] };
/// Table 4.3.
pub const PROCESSES: Mix =
    Mix { title: "score, processes", counts: [19300, 18779, 7472, 19219, 12063, 17884, 2425] };

impl Mix {
    /// The weighted sum of the medians.
    pub fn score(&self, median: impl Fn(Operation) -> f64) -> f64 {
        use Operation::{Ancestors, Copies, Descendants, Insert, Next, Range, Remove};
        let operations = [Insert, Remove, Next, Copies, Ancestors, Descendants, Range];
        let all: u32 = self.counts.iter().sum();
        let parts = operations.iter().zip(self.counts);
        parts.map(|(op, count)| median(*op) * f64::from(count) / f64::from(all)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_paper() {
        for count in [4096, 65536] {
            let (mut numbers, mut shares) = (Rng::with_seed(SEED), Shares::default());
            for _ in 0..10 {
                let caps = capabilities(count, &mut numbers);
                assert_eq!(caps.len(), count);
                shares.add(&Shares::of(&caps), 0.1);
            }
            let paper = Shares::BARRELFISH;
            assert!((shares.copies - paper.copies).abs() < 3.0, "{shares:?}");
            assert!((shares.ancestors - paper.ancestors).abs() < 5.0, "{shares:?}");
            assert!((shares.descendants - paper.descendants).abs() < 3.0, "{shares:?}");
        }
    }

    #[test]
    fn shares_of_a_family() {
        let caps = [(0, 8), (0, 4), (0, 4), (6, 1), (8, 8)].map(|(b, l)| memory(RAM, b, l));
        let shares = Shares::of(&caps);
        assert_eq!((shares.copies, shares.ancestors, shares.descendants), (40.0, 60.0, 20.0));
    }

    #[test]
    fn scores_are_means() {
        assert!((BOOT.score(|_| 7.0) - 7.0).abs() < 1e-9);
        let inserts = |op| if op == Operation::Insert { 100.0 } else { 0.0 };
        assert!((PROCESSES.score(inserts) - 19.9).abs() < 0.05);
    }
}
