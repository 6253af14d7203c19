//! The papers' numbers beside ours.

use crate::papers::facts::Facts;
use crate::project::Project;
use crate::results::{self, Clock, Measurement, Question, System};
use anyhow::{Context, Result};
use std::fs;

/// Adds what the papers print for the same questions, and Linux's counts for those of the papers'
/// figures that it was asked too.
pub fn add(project: &Project, all: &mut Vec<Measurement>) -> Result<()> {
    let text = fs::read_to_string(project.path("guest/bench/papers.tsv"))?;
    let facts = Facts::parse(&text).context("guest/bench/papers.tsv")?;
    let linux = results::read(&project.path("guest/bench/linux.json"))?;
    let more = beside(&facts, &linux, all);
    all.extend(more);
    Ok(())
}

fn beside(facts: &Facts, linux: &[Measurement], all: &[Measurement]) -> Vec<Measurement> {
    let counted = |one: &&Measurement| {
        one.system == System::Tessera && one.question.clock == Clock::Instructions
    };
    let mut more = Vec::new();
    for own in all.iter().filter(counted) {
        let paper = facts.paper_of(&own.question);
        if let Some((value, unit)) = paper.filter(|(_, unit)| is_like(&own.question, unit)) {
            let provenance = results::Provenance {
                machine: format!("the paper's: {unit} on its authors' machine"),
                commit: "-".into(),
            };
            let (question, samples) = (own.question.clone(), vec![value]);
            more.push(Measurement { question, system: System::Paper, samples, provenance });
        }
        let key = facts.key_of(&own.question);
        if let Some(value) = facts.linux(&key, linux) {
            let (question, samples) = (own.question.clone(), vec![value]);
            let provenance = own.provenance.clone();
            more.push(Measurement { question, system: System::Linux, samples, provenance });
        }
    }
    more
}

/// Can the paper's number stand in the same figure? Cycles and instructions are both what an operation
/// costs; other units must be the same.
fn is_like(question: &Question, unit: &str) -> bool {
    let first = unit.split(',').next().unwrap_or_default();
    first == question.unit || (first == "cycles" && question.unit == "instructions")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Direction, Provenance, Size};

    fn measured(benchmark: &str, case: &str, at: Option<f64>, unit: &str) -> Measurement {
        Measurement {
            question: Question {
                benchmark: benchmark.into(),
                case: case.into(),
                at: at.map(|value| Size { value, unit: "pages".into() }),
                clock: Clock::Instructions,
                unit: unit.into(),
                better: Direction::Lower,
            },
            system: System::Tessera,
            samples: vec![1.0],
            provenance: Provenance { machine: "q35".into(), commit: "1234567".into() },
        }
    }

    #[test]
    fn what_stands_beside_ours() {
        let facts = Facts::parse(include_str!("../../../../guest/bench/papers.tsv")).unwrap();
        let linux = results::read(std::path::Path::new("../../guest/bench/linux.json")).unwrap();
        let of = |one: Measurement| -> Vec<(System, Option<f64>)> {
            let more = beside(&facts, &linux, &[one]);
            more.iter().map(|one| (one.system, one.median())).collect()
        };
        let map = of(measured("G12-table-4.2", "map", Some(32.0), "instructions"));
        assert_eq!(map, [(System::Paper, Some(1339.0))]);
        // The standard set asks what the paper calls no-op.
        let null = of(measured("null_call", "getppid", None, "instructions"));
        assert_eq!(null, [(System::Paper, Some(186.0))]);
        let noop = of(measured("G12-table-4.2", "no-op", None, "instructions"));
        assert_eq!(noop.len(), 2);
        assert_eq!(noop[1].0, System::Linux);
        assert_eq!(of(measured("G18-table-3.3", "4k pages", None, "instructions")), []);
        assert_eq!(of(measured("pipe", "round trip of a byte", None, "instructions")), []);
    }
}
