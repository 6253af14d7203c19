//! The common format of measurements: what every benchmark leaves, and every table, comparison and
//! report reads.
//!
//! A file of results is JSON lines, one [`Measurement`] a line. What makes two measurements of
//! different runs or systems comparable is their [`Question`]; `docs/benchmarks.md` describes the
//! format for people. Programs say what they measured in a shorter text; see [`mod@line`].

pub mod change;
pub mod line;
mod provenance;

pub use provenance::Provenance;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

/// Which values are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Costs: instructions, nanoseconds, bytes.
    Lower,
    /// Rates: operations or bytes per second.
    Higher,
}

impl Direction {
    /// The best of some values.
    pub fn best(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Direction::Lower => values.min_by(f64::total_cmp),
            Direction::Higher => values.max_by(f64::total_cmp),
        }
    }

    /// In words, with the arrow that stands for it in tables.
    pub fn words(self) -> &'static str {
        match self {
            Direction::Lower => "↓ lower is better",
            Direction::Higher => "↑ higher is better",
        }
    }

    /// Only the arrow.
    pub fn arrow(self) -> &'static str {
        match self {
            Direction::Lower => "↓",
            Direction::Higher => "↑",
        }
    }

    /// What `own` costs in units of `other`: below 1 is better, of rates, too. Nothing if one of them
    /// is zero or no number.
    pub fn cost(self, own: f64, other: f64) -> Option<f64> {
        let ratio = match self {
            Direction::Lower => own / other,
            Direction::Higher => other / own,
        };
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }

    /// Is a value as good as the goal?
    pub fn is_reached(self, value: f64, goal: f64) -> bool {
        match self {
            Direction::Lower => value <= goal,
            Direction::Higher => value >= goal,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    Tessera,
    /// Linux without transparent huge pages: its pages are Tessera's.
    Linux,
    /// Linux that may use transparent huge pages wherever it likes.
    LinuxThp,
    /// What a paper prints, measured on its authors' machine.
    Paper,
    /// The machine that runs the emulator, for parts that are tested on it.
    Host,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Instructions that the emulated processor executed (`-icount shift=0`): repeatable.
    Instructions,
    /// Time that passed on the machine that runs the emulator: differs from run to run.
    Wall,
}

/// The size at which something was measured, such as 128 pages: the x-axis of its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    pub value: f64,
    pub unit: String,
}

/// What two systems, or two runs, are asked alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The program that asks, such as `mprotect`.
    pub benchmark: String,
    /// One of the things that it measures; the same for all sizes.
    pub case: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Size>,
    pub clock: Clock,
    /// Of the samples, such as `instructions` or `ns`.
    pub unit: String,
    pub better: Direction,
}

/// What came of it on one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    #[serde(flatten)]
    pub question: Question,
    pub system: System,
    /// In the order in which they were taken. None means that the system does not support it.
    pub samples: Vec<f64>,
    #[serde(flatten)]
    pub provenance: Provenance,
}

impl Measurement {
    pub fn is_supported(&self) -> bool {
        !self.samples.is_empty()
    }

    pub fn median(&self) -> Option<f64> {
        median(&self.samples)
    }

    pub fn range(&self) -> Option<(f64, f64)> {
        range(&self.samples)
    }

    /// Between which times the middle half of the samples is: a single one that something else held
    /// up does not count. Nothing of counts: they repeat, but for the first of them.
    pub fn spread(&self) -> Option<(f64, f64)> {
        quartiles(&self.samples).filter(|_| self.question.clock == Clock::Wall)
    }
}

/// The middle sample; of an even number the mean of the two in the middle.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The first and the third quartile; between two samples what is in proportion.
pub fn quartiles(samples: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Some((at(0.25), at(0.75)))
}

/// Least and greatest sample.
pub fn range(samples: &[f64]) -> Option<(f64, f64)> {
    let least = samples.iter().copied().min_by(f64::total_cmp)?;
    Some((least, samples.iter().copied().max_by(f64::total_cmp)?))
}

impl Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.benchmark, self.case)?;
        match &self.at {
            Some(Size { value: 1.0, unit }) => write!(f, ", 1 {}", unit.trim_end_matches('s')),
            Some(Size { value, unit }) => write!(f, ", {} {unit}", grouped(*value)),
            None => Ok(()),
        }
    }
}

impl System {
    /// The heading of its column.
    pub fn title(self) -> &'static str {
        match self {
            System::Tessera => "Tessera",
            System::Linux => "Linux",
            System::LinuxThp => "Linux, THP",
            System::Paper => "paper",
            System::Host => "host",
        }
    }
}

/// Writes a file of results; the folder is made if it is missing.
pub fn write(file: &Path, measurements: &[Measurement]) -> Result<()> {
    let mut text = String::new();
    for measurement in measurements {
        text += &serde_json::to_string(measurement)?;
        text.push('\n');
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Reads a file of results.
pub fn read(file: &Path) -> Result<Vec<Measurement>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}, line {}", file.display(), number + 1))
        })
        .collect()
}

/// A number as people write it: whole ones with a comma between thousands, small ones with decimals.
pub fn grouped(value: f64) -> String {
    let decimals = match value.abs() {
        size if value.fract() == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn measured(case: &str, samples: &[f64]) -> Measurement {
        let question = Question {
            benchmark: "mprotect".into(),
            case: case.into(),
            at: Some(Size { value: 1024.0, unit: "pages".into() }),
            clock: Clock::Instructions,
            unit: "instructions".into(),
            better: Direction::Lower,
        };
        let provenance = Provenance { machine: "q35".into(), commit: "1234567".into() };
        Measurement { question, system: System::LinuxThp, samples: samples.to_vec(), provenance }
    }

    #[test]
    fn files_come_back_as_they_were() {
        let file = std::env::temp_dir().join(format!("tessera-results.{}", std::process::id()));
        let all = [measured("one", &[3.0, 1.5]), measured("none", &[])];
        write(&file, &all).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let back = read(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(back.unwrap(), all);
        assert!(text.lines().next().unwrap().contains(r#""system":"linux-thp""#), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn statistics() {
        assert_eq!(measured("odd", &[5.0, 1.0, 3.0]).median(), Some(3.0));
        assert_eq!(measured("even", &[5.0, 1.0, 3.0, 4.0]).median(), Some(3.5));
        assert_eq!(measured("none", &[]).median(), None);
        assert_eq!(measured("odd", &[5.0, 1.0, 3.0]).range(), Some((1.0, 5.0)));
        assert_eq!(quartiles(&[900.0, 1.0, 3.0, 2.0, 4.0]), Some((2.0, 4.0)));
        assert_eq!(
            [quartiles(&[1.0, 2.0]), quartiles(&[7.0])],
            [Some((1.25, 1.75)), Some((7.0, 7.0))]
        );
        assert_eq!(quartiles(&[]), None);
    }

    #[test]
    fn costs() {
        assert_eq!(Direction::Lower.cost(50.0, 100.0), Some(0.5));
        assert_eq!(Direction::Higher.cost(50.0, 100.0), Some(2.0));
        assert_eq!([Direction::Lower.cost(1.0, 0.0), Direction::Higher.cost(0.0, 1.0)], [None; 2]);
        assert_eq!(Direction::Lower.cost(0.0, 0.0), None);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(1234567.0), "1,234,567");
        assert_eq!(grouped(-123.0), "-123");
        assert_eq!(grouped(999.96), "1,000");
        assert_eq!(grouped(12.34), "12.3");
        assert_eq!(grouped(0.5), "0.50");
        assert_eq!(measured("rw to r", &[]).question.to_string(), "mprotect: rw to r, 1,024 pages");
    }
}
