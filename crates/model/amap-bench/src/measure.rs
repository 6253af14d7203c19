//! What an operation takes in each layout, by the host's clock, and how much memory.

use crate::{Anon, Anons, Array, Chunks, Hybrid, Layout, List};
use fastrand::Rng;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// Seed of where anons are.
const SEED: u64 = 0x7e55_e7a5;
/// The median of so many rounds counts.
const ROUNDS: usize = 9;
/// Lookups of a round.
const LOOKUPS: usize = 256;

/// Where anons are in a range.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Slots of the amap, each a page.
    pub slots: u32,
    /// How many have anons.
    pub used: u32,
    /// They are the first ones, as of a heap; otherwise anywhere.
    pub together: bool,
}

/// Amaps of the sizes that processes have: from a stack to a large heap.
pub const SHAPES: [Shape; 7] = [
    Shape { slots: 64, used: 8, together: true },
    Shape { slots: 2048, used: 16, together: true },
    Shape { slots: 2048, used: 16, together: false },
    Shape { slots: 4096, used: 1024, together: true },
    Shape { slots: 4096, used: 4096, together: true },
    Shape { slots: 262_144, used: 256, together: false },
    Shape { slots: 262_144, used: 16_384, together: true },
];

impl Shape {
    /// The slots with anons, in a random order.
    fn filled(&self, numbers: &mut Rng) -> Vec<u32> {
        let mut slots: Vec<u32> = match self.together {
            true => (0..self.used).collect(),
            false => {
                let mut all: Vec<u32> = (0..self.slots).collect();
                numbers.shuffle(&mut all);
                all.truncate(self.used as usize);
                all
            }
        };
        numbers.shuffle(&mut slots);
        slots
    }

    fn title(&self) -> String {
        let kind = if self.together { "together" } else { "anywhere" };
        format!("{} of {} pages, {kind}", self.used, self.slots)
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Lookup,
    AddAndUnadd,
    Copy,
    CopyDeeply,
    Bytes,
}

impl Operation {
    pub const ALL: [Operation; 5] = [
        Operation::Lookup,
        Operation::AddAndUnadd,
        Operation::Copy,
        Operation::CopyDeeply,
        Operation::Bytes,
    ];

    fn title(self) -> &'static str {
        match self {
            Operation::Lookup => "lookup of a page that is there",
            Operation::AddAndUnadd => "unadd and add",
            Operation::Copy => "copy and free (copy-on-write)",
            Operation::CopyDeeply => "copy all anons and free (eager)",
            Operation::Bytes => "memory",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Operation::Bytes => "bytes",
            _ => "ns",
        }
    }
}

/// What one layout takes, an entry for each operation.
type Column = [f64; Operation::ALL.len()];

/// All layouts with the same anons.
pub struct Table {
    shape: Shape,
    columns: [(&'static str, Column); 4],
}

impl Table {
    /// Measures all of them.
    pub fn measure(shape: Shape) -> Table {
        let columns = [
            (List::NAME, column::<List>(&shape)),
            (Array::NAME, column::<Array>(&shape)),
            (Hybrid::NAME, column::<Hybrid>(&shape)),
            (Chunks::NAME, column::<Chunks>(&shape)),
        ];
        Table { shape, columns }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{:<40}", self.shape.title());
        self.columns.iter().for_each(|(name, _)| _ = write!(text, "{name:>12}"));
        text.push('\n');
        for operation in Operation::ALL {
            let title = format!("  {}, {}", operation.title(), operation.unit());
            let _ = write!(text, "{title:<40}");
            for (_, column) in &self.columns {
                let _ = write!(text, "{:>12.0}", column[operation as usize]);
            }
            text.push('\n');
        }
        text
    }

    /// For `xtask`: `bench CASE SAMPLE at=USED:pages unit=UNIT`.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        let Shape { slots, used, together } = self.shape;
        for (name, column) in &self.columns {
            for operation in Operation::ALL {
                let kind = if together { "together" } else { "anywhere" };
                let title = operation.title();
                let case = format!("{name}, {title}, {kind} in {slots}").replace(' ', "_");
                let (value, unit) = (column[operation as usize], operation.unit());
                let _ = writeln!(lines, "bench {case} {value:.1} at={used}:pages unit={unit}");
            }
        }
        lines
    }
}

fn column<L: Layout>(shape: &Shape) -> Column {
    let mut numbers = Rng::with_seed(SEED);
    let mut anons = Anons::default();
    let mut amap = L::new(shape.slots);
    let slots = shape.filled(&mut numbers);
    for &slot in &slots {
        amap.add(slot, anons.make()).expect("each slot comes once");
    }
    let picked: Vec<u32> = (0..LOOKUPS).map(|_| slots[numbers.usize(..slots.len())]).collect();
    let each = |all: f64| all / LOOKUPS as f64;
    let lookup = median(|| {
        let before = Instant::now();
        picked.iter().for_each(|slot| _ = black_box(black_box(&amap).lookup(*slot)));
        each(nanoseconds(before))
    });
    let exchange = median(|| {
        let before = Instant::now();
        for &slot in &picked {
            let anon: Anon = amap.unadd(slot).expect("it has one");
            amap.add(slot, anon).expect("it was taken out");
        }
        each(nanoseconds(before))
    });
    let mut copied = |copy: fn(&L, &mut Anons) -> L| {
        median(|| {
            let before = Instant::now();
            black_box(copy(&amap, &mut anons)).free(&mut anons);
            nanoseconds(before)
        })
    };
    let (copy, deep) = (copied(L::copy), copied(L::copy_deeply));
    assert_eq!(anons.alive(), slots.len(), "{}: anons were lost", L::NAME);
    [lookup, exchange, copy, deep, amap.bytes() as f64]
}

fn nanoseconds(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

fn median(round: impl FnMut() -> f64) -> f64 {
    let mut rounds: Vec<f64> = std::iter::repeat_with(round).take(ROUNDS).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
