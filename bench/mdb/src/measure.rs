//! Measures one operation at a time, as G18 §4.5.5 does: each between two readings of the time-stamp
//! counter, on a capability picked at random.

use crate::database::{Database, Place};
use crate::workload::{memory_bytes, Numbers, Operation};
use mdb::RawCap;
use std::collections::VecDeque;
use std::hint::black_box;

/// Measurements of each operation on one filling of a database.
pub const MEASUREMENTS: usize = 50;
/// So many capabilities are out of the database while it is measured: what was just removed, whose
/// neighbourhood is still in the cache, is not what is inserted next.
const OUT: usize = 16;

/// Measurements of each operation.
pub struct Samples([Vec<u64>; Operation::ALL.len()]);

impl Samples {
    pub fn of(&self, operation: Operation) -> &[u64] {
        &self.0[operation as usize]
    }
}

/// The middle one.
pub fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Fills a database of kind `D` with capabilities and measures every operation.
pub fn measure<'a, D: Database<'a>>(
    slots: &'a [D::Slot],
    caps: &[RawCap],
    numbers: &mut Numbers,
) -> Samples {
    slots.iter().zip(caps).for_each(|(slot, cap)| slot.fill(*cap));
    let mut bench = Bench::<'a, '_, D> {
        database: D::default(),
        members: slots.iter().collect(),
        out: VecDeque::new(),
        numbers,
        bytes: memory_bytes(caps.len()),
        idle: 0,
    };
    bench.database.fill(&bench.members);
    bench.idle = median(&(0..1000).map(|_| ticks(|| ())).collect::<Vec<_>>());
    for _ in 0..OUT {
        bench.remove();
    }
    let mut samples = Samples(Default::default());
    for _ in 0..MEASUREMENTS {
        for operation in Operation::ALL {
            let taken = bench.run(operation);
            samples.0[operation as usize].push(taken.saturating_sub(bench.idle));
        }
    }
    assert!(bench.database.is_sound(), "{} is damaged", D::NAME);
    samples
}

struct Bench<'a, 'n, D: Database<'a>> {
    database: D,
    /// Slots in the database.
    members: Vec<&'a D::Slot>,
    /// Slots out of it, the longest-removed one first.
    out: VecDeque<&'a D::Slot>,
    numbers: &'n mut Numbers,
    /// Of how much memory the capabilities are.
    bytes: u64,
    /// What measuring itself takes.
    idle: u64,
}

impl<'a, D: Database<'a>> Bench<'a, '_, D> {
    fn pick(&mut self) -> usize {
        self.numbers.below(self.members.len() as u64) as usize
    }

    fn remove(&mut self) -> u64 {
        let index = self.pick();
        let slot = self.members.swap_remove(index);
        let taken = ticks(|| self.database.remove(slot));
        self.out.push_back(slot);
        taken
    }

    fn insert(&mut self) -> u64 {
        let Some(slot) = self.out.pop_front() else { return 0 };
        let taken = ticks(|| self.database.insert(slot));
        self.members.push(slot);
        taken
    }

    fn run(&mut self, operation: Operation) -> u64 {
        let index = self.pick();
        let slot = self.members[index];
        let base = self.numbers.below(self.bytes >> 12) << 12;
        let database = &self.database;
        match operation {
            Operation::Insert => self.insert(),
            Operation::Remove => self.remove(),
            Operation::Next => ticks(|| walk(database, slot, 1)),
            Operation::Next10 => ticks(|| walk(database, slot, 10)),
            Operation::Next100 => ticks(|| walk(database, slot, 100)),
            Operation::Copies => ticks(|| database.has_copies(slot)),
            Operation::Ancestors => ticks(|| database.has_ancestors(slot)),
            Operation::Descendants => ticks(|| database.has_descendants(slot)),
            Operation::Range => ticks(|| database.overlapping(base, 4096)),
        }
    }
}

#[inline]
fn walk<'a, D: Database<'a>>(database: &D, slot: &'a D::Slot, steps: usize) -> &'a D::Slot {
    (0..steps).try_fold(slot, |at, _| database.next(at).ok_or(at)).unwrap_or_else(|last| last)
}

/// Ticks of the time-stamp counter that `work` takes, and those that reading it takes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks<T>(work: impl FnOnce() -> T) -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
    let mut core = 0;
    // SAFETY: the instructions only wait for others and read a counter.
    let before = unsafe {
        _mm_lfence();
        let before = _rdtsc();
        _mm_lfence();
        before
    };
    black_box(work());
    // SAFETY: as above.
    let after = unsafe {
        let after = __rdtscp(&mut core);
        _mm_lfence();
        after
    };
    after.wrapping_sub(before)
}

/// Nanoseconds, where there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks<T>(work: impl FnOnce() -> T) -> u64 {
    let before = std::time::Instant::now();
    black_box(work());
    before.elapsed().as_nanos() as u64
}
