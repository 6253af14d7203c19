//! All measurements of a run, as lines for people and for `xtask`.

use crate::aa::{WithParents, WithoutParents};
use crate::database::Database;
use crate::list::List;
use crate::measure::{measure, median};
use crate::ours::Ours;
use crate::workload::{capabilities, Mix, Operation, Shares, BOOT, PROCESSES, SEED};
use fastrand::Rng;
use mdb::RawCap;
use std::fmt::Write;

/// So often each database is filled anew: 25 × 40 are the paper's 1,000 measurements.
pub const FILLINGS: usize = 25;

/// For each operation the median of each filling.
type Medians = [Vec<f64>; Operation::ALL.len()];

/// What one database takes.
#[derive(Default)]
pub struct Column {
    name: &'static str,
    medians: Medians,
}

impl Column {
    fn add<'a, D: Database<'a>>(
        &mut self,
        slots: &'a [D::Slot],
        caps: &[RawCap],
        numbers: &mut Rng,
    ) {
        self.name = D::NAME;
        let samples = measure::<D>(slots, caps, numbers);
        for operation in Operation::ALL {
            self.medians[operation as usize].push(median(samples.of(operation)));
        }
    }

    /// Of the medians of the fillings.
    fn median(&self, operation: Operation) -> f64 {
        median(&self.medians[operation as usize])
    }

    fn score(&self, mix: &Mix) -> f64 {
        mix.score(|operation| self.median(operation))
    }
}

/// The four databases with the same number of capabilities.
pub struct Table {
    count: usize,
    shares: Shares,
    columns: [Column; 4],
}

impl Table {
    /// Measures all of them on the same capabilities, in turns.
    pub fn measure(count: usize) -> Table {
        let mut numbers = Rng::with_seed(SEED);
        let mut table = Table { count, shares: Shares::default(), columns: Default::default() };
        for _ in 0..FILLINGS {
            let caps = capabilities(count, &mut numbers);
            table.shares.add(&Shares::of(&caps), 1.0 / FILLINGS as f64);
            let [list, with, without, ours] = &mut table.columns;
            list.add::<List>(&slots(count), &caps, &mut numbers);
            with.add::<WithParents>(&slots(count), &caps, &mut numbers);
            without.add::<WithoutParents>(&slots(count), &caps, &mut numbers);
            ours.add::<Ours>(&slots(count), &caps, &mut numbers);
        }
        table
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{} capabilities", self.count);
        let Shares { copies, ancestors, descendants } = self.shares;
        let _ = writeln!(
            text,
            " ({copies:.0}% have copies, {ancestors:.0}% ancestors, {descendants:.0}% descendants)\n"
        );
        let _ = write!(text, "{:<20}", "");
        self.columns.iter().for_each(|column| _ = write!(text, "{:>22}", column.name));
        let _ = writeln!(text, "{:>10}", "factor");
        for operation in Operation::ALL {
            self.row(&mut text, operation.title(), |column| column.median(operation));
        }
        for mix in [&BOOT, &PROCESSES] {
            self.row(&mut text, mix.title, |column| column.score(mix));
        }
        text
    }

    fn row(&self, text: &mut String, title: &str, value: impl Fn(&Column) -> f64) {
        let _ = write!(text, "{title:<20}");
        self.columns.iter().for_each(|column| _ = write!(text, "{:>22.1}", value(column)));
        let _ = writeln!(text, "{:>10.2}", value(&self.columns[1]) / value(&self.columns[3]));
    }

    /// For `xtask`: `bench CASE SAMPLE… at=COUNT:capabilities unit=ticks`, a sample for each filling.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        for column in &self.columns {
            let mut line = |case: &str, samples: &[f64]| {
                let case = format!("{}, {case}", column.name).replace(' ', "_");
                let samples: String = samples.iter().map(|s| format!(" {s:.1}")).collect();
                let _ = writeln!(
                    lines,
                    "bench {case}{samples} at={}:capabilities unit=ticks",
                    self.count
                );
            };
            for operation in Operation::ALL {
                line(operation.title(), &column.medians[operation as usize]);
            }
            for mix in [&BOOT, &PROCESSES] {
                line(mix.title, &[column.score(mix)]);
            }
        }
        lines
    }
}

fn slots<S: Default>(count: usize) -> Vec<S> {
    (0..count).map(|_| S::default()).collect()
}
