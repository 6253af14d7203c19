//! What a program that measures says about it, in text.
//!
//! On standard output, or with `@` before it in the kernel's log:
//!
//! ```text
//! bench CASE SAMPLE… [KEY=VALUE…]
//! bench fork 46200 46210 46195 at=16:MiB
//! bench copy 812.5 unit=MiB/s better=higher clock=wall
//! bench threads not-supported at=4:threads
//! check CASE VALUE…
//! ```
//!
//! Keys are `at=NUMBER:UNIT` (the size), `unit` (else that of the clock), `better` (`lower` or
//! `higher`; else `lower`), `clock` (`instructions` or `wall`; else the runner's), `system` (`host`,
//! `paper`, …; else the runner's) and `benchmark` (else the program's name). No word has spaces; `_`
//! in a case stands for one, and `__` for `_`. A line `check` is a result that must be the same on every system.

use super::{Clock, Direction, Measurement, Provenance, Question, Size, System};
use anyhow::{bail, ensure, Context, Result};

/// What a line need not say, because whoever runs the program knows it.
#[derive(Clone, Debug)]
pub struct Defaults {
    pub benchmark: String,
    pub clock: Clock,
    pub system: System,
    pub provenance: Provenance,
}

/// The measurements in a program's output; lines that are none are passed over.
pub fn parse_output(output: &str, defaults: &Defaults) -> Result<Vec<Measurement>> {
    let lines = output.lines().filter_map(|line| Some((line, line.strip_prefix("bench ")?)));
    lines
        .map(|(line, rest)| {
            let words: Vec<&str> = rest.split_whitespace().collect();
            parse(&words, defaults).with_context(|| format!("in {line:?}"))
        })
        .collect()
}

/// The name of a case that is written as one word.
pub fn spaced(word: &str) -> String {
    word.replace("__", "\0").replace('_', " ").replace('\0', "_")
}

/// The measurement that these words (after `bench`) tell.
pub fn parse(words: &[&str], defaults: &Defaults) -> Result<Measurement> {
    let (case, rest) = words.split_first().context("no case is named")?;
    let mut measurement = Measurement {
        question: Question {
            benchmark: defaults.benchmark.clone(),
            case: spaced(case),
            at: None,
            clock: defaults.clock,
            unit: String::new(),
            better: Direction::Lower,
        },
        system: defaults.system,
        samples: Vec::new(),
        provenance: defaults.provenance.clone(),
    };
    let mut supported = true;
    for word in rest {
        match word.split_once('=') {
            Some((key, value)) => set(&mut measurement, key, value)?,
            None if *word == "not-supported" => supported = false,
            None => measurement.samples.push(sample(word)?),
        }
    }
    ensure!(measurement.is_supported() == supported, "samples, or not-supported; not both");
    if measurement.question.unit.is_empty() {
        measurement.question.unit = measurement.question.clock.unit().to_owned();
    }
    Ok(measurement)
}

fn sample(word: &str) -> Result<f64> {
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => bail!("{word:?} is neither a number nor KEY=VALUE"),
    }
}

fn set(measurement: &mut Measurement, key: &str, value: &str) -> Result<()> {
    let question = &mut measurement.question;
    // The same names as in the files.
    let named = || serde_json::Value::from(value);
    match key {
        "benchmark" => question.benchmark = value.to_owned(),
        "unit" => question.unit = value.to_owned(),
        "better" => question.better = serde_json::from_value(named())?,
        "clock" => question.clock = serde_json::from_value(named())?,
        "system" => measurement.system = serde_json::from_value(named())?,
        "at" => {
            let (number, unit) = value.split_once(':').context("a size is at=NUMBER:UNIT")?;
            question.at = Some(Size { value: sample(number)?, unit: unit.to_owned() });
        }
        _ => bail!("there is no key {key}"),
    }
    Ok(())
}

impl Clock {
    /// Of what it counts.
    pub fn unit(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions",
            Clock::Wall => "ns",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        let provenance = Provenance { machine: "q35".into(), commit: "1234567".into() };
        let (clock, system) = (Clock::Instructions, System::Tessera);
        Defaults { benchmark: "fork".into(), clock, system, provenance }
    }

    #[test]
    fn lines() {
        let text = "hello\nbench until__return_of 3 1 2 at=16:MiB\nbench rate 8 unit=MiB/s \
                    better=higher clock=wall system=host\nbench threads not-supported\n";
        let all = parse_output(text, &defaults()).unwrap();
        assert_eq!(all[0].question.to_string(), "fork: until_return of, 16 MiB");
        assert_eq!((all[0].samples.len(), all[0].question.unit.as_str()), (3, "instructions"));
        assert_eq!((all[1].question.better, all[1].system), (Direction::Higher, System::Host));
        assert_eq!(all[1].question.unit, "MiB/s");
        assert!(!all[2].is_supported());
    }

    #[test]
    fn wrong_lines() {
        for wrong in [
            "x",
            "x 1 not-supported",
            "x 1 at=3",
            "x 1 color=red",
            "x one",
            "x nan",
            "x 1 clock=sun",
        ] {
            assert!(parse_output(&format!("bench {wrong}"), &defaults()).is_err(), "{wrong}");
        }
    }
}
