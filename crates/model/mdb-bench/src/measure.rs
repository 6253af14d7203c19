//! Measures operations as G18 §4.5.5 does, between two readings of the time-stamp counter, on
//! capabilities picked at random; but eight at a time, since the counter of some processors goes on in
//! steps that are longer than the fastest operation. Each waits until the one before has ended.

use crate::database::{Database, Place};
use crate::workload::{memory_bytes, Operation};
use fastrand::Rng;
use mdb::RawCap;
use paging::PAGE;
use std::collections::VecDeque;
use std::hint::black_box;

/// Measurements of each operation on one filling of a database.
pub const MEASUREMENTS: usize = 40;
/// Operations in a measurement.
const TOGETHER: usize = 8;
/// After so many ticks, as a list needs to be searched, less measurements of an operation have to do.
const LONG_ENOUGH: f64 = 3e6;
/// So many capabilities are out of the database while it is measured: what was just removed, whose
/// neighbourhood is still in the cache, is not what is inserted next.
const OUT: usize = 32;

/// Measurements of each operation.
pub struct Samples([Vec<f64>; Operation::ALL.len()]);

impl Samples {
    pub fn of(&self, operation: Operation) -> &[f64] {
        &self.0[operation as usize]
    }

    /// Has an operation taken so long that it need not be measured any more? The shortest measurement
    /// counts: the machine may have done something else during others.
    fn are_enough(&self, operation: Operation) -> bool {
        let taken = self.of(operation);
        let least = taken.iter().copied().reduce(f64::min).unwrap_or(0.0);
        least * taken.len() as f64 >= LONG_ENOUGH
    }
}

/// The middle one.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Fills a database of kind `D` with capabilities and measures every operation.
pub fn measure<'a, D: Database<'a>>(
    slots: &'a [D::Slot],
    caps: &[RawCap],
    numbers: &mut Rng,
) -> Samples {
    slots.iter().zip(caps).for_each(|(slot, cap)| slot.fill(*cap));
    let mut bench = Bench::<'a, '_, D> {
        database: D::default(),
        members: slots.iter().collect(),
        out: VecDeque::new(),
        numbers,
        pages: memory_bytes(caps.len()) / PAGE,
        idle: 0.0,
    };
    bench.database.prepare(memory_bytes(caps.len()));
    bench.database.fill(&bench.members);
    bench.idle = median(&(0..1000).map(|_| ticks(&[(); TOGETHER], |_| ())).collect::<Vec<_>>());
    for _ in 0..OUT / TOGETHER {
        bench.remove();
    }
    let mut samples = Samples(Default::default());
    for _ in 0..MEASUREMENTS {
        let exchanged =
            samples.are_enough(Operation::Insert) || samples.are_enough(Operation::Remove);
        for operation in Operation::ALL {
            // Only what was removed can be inserted, so neither is measured less often.
            let enough = match operation {
                Operation::Insert | Operation::Remove => exchanged,
                _ => samples.are_enough(operation),
            };
            if !enough {
                let taken = (bench.run(operation) - bench.idle).max(0.0) / TOGETHER as f64;
                samples.0[operation as usize].push(taken);
            }
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
    out: VecDeque<(&'a D::Slot, RawCap)>,
    numbers: &'n mut Rng,
    /// Of how many pages of memory the capabilities are.
    pages: u64,
    /// What measuring itself takes.
    idle: f64,
}

impl<'a, D: Database<'a>> Bench<'a, '_, D> {
    fn pick(&mut self) -> usize {
        self.numbers.usize(..self.members.len())
    }

    fn remove(&mut self) -> f64 {
        let slots: [_; TOGETHER] = std::array::from_fn(|_| {
            let index = self.pick();
            self.members.swap_remove(index)
        });
        self.out.extend(slots.map(|slot| (slot, slot.cap())));
        ticks(&slots, |slot| self.database.remove(slot))
    }

    fn insert(&mut self) -> f64 {
        let fill = |(slot, cap): (&'a D::Slot, RawCap)| {
            slot.fill(cap);
            slot
        };
        let slots: Vec<_> = self.out.drain(..TOGETHER).map(fill).collect();
        self.members.extend(&slots);
        ticks(&slots, |slot| self.database.insert(slot))
    }

    fn run(&mut self, operation: Operation) -> f64 {
        let slots: [_; TOGETHER] = std::array::from_fn(|_| {
            let index = self.pick();
            self.members[index]
        });
        let bases: [_; TOGETHER] = std::array::from_fn(|_| self.numbers.u64(..self.pages) * PAGE);
        let database = &self.database;
        match operation {
            Operation::Insert => self.insert(),
            Operation::Remove => self.remove(),
            Operation::Next => ticks(&slots, |slot| walk(database, slot, 1)),
            Operation::Next10 => ticks(&slots, |slot| walk(database, slot, 10)),
            Operation::Next100 => ticks(&slots, |slot| walk(database, slot, 100)),
            Operation::Copies => ticks(&slots, |slot| database.has_copies(slot)),
            Operation::Ancestors => ticks(&slots, |slot| database.has_ancestors(slot)),
            Operation::Descendants => ticks(&slots, |slot| database.has_descendants(slot)),
            Operation::Range => ticks(&bases, |base| database.overlapping(*base, PAGE)),
        }
    }
}

#[inline]
fn walk<'a, D: Database<'a>>(database: &D, slot: &'a D::Slot, steps: usize) -> &'a D::Slot {
    (0..steps).try_fold(slot, |at, _| database.next(at).ok_or(at)).unwrap_or_else(|last| last)
}

/// Ticks of the time-stamp counter that `work` takes on all of `items`, one after the other, and
/// those that reading it takes.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn ticks<I, T>(items: &[I], mut work: impl FnMut(&I) -> T) -> f64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: the instructions only wait for others and read a counter; here and below.
    let now = || unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    };
    let before = now();
    for item in items {
        black_box(work(item));
        // SAFETY: as above.
        unsafe { _mm_lfence() };
    }
    now().wrapping_sub(before) as f64
}

/// Nanoseconds, where there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn ticks<I, T>(items: &[I], mut work: impl FnMut(&I) -> T) -> f64 {
    let before = std::time::Instant::now();
    items.iter().for_each(|item| _ = black_box(work(item)));
    before.elapsed().as_nanos() as f64
}
