//! `./x bench uvm/load`: programs with twice the memory that there is, on Tessera and on Linux, in the same machine with a disk of the
//! same kind and size for pages.

use crate::bench_group::Lab;
use crate::compare::session::{locate, Ended, Outcome, Session};
use crate::compare::{harness, table};
use crate::linux::{Linux, NEWEST};
use crate::machine::{parse_size, MachineOptions};
use crate::program::Invocation;
use crate::results::{grouped, Clock, Direction, Measurement, Question, System};
use crate::swap;
use anyhow::{anyhow, ensure, Result};
use std::time::Duration;

/// How the program uses its memory: as it names it, and in words.
const PATTERNS: [(&str, &str); 5] = [
    ("sweeps", "from the first page to the last"),
    ("zipf", "random pages, by Zipf's law"),
    ("sort", "quicksort of records"),
    ("collector", "mark and sweep"),
    ("compile", "eight processes, four at a time"),
];
const SYSTEMS: [System; 2] = [System::Tessera, System::Linux];
/// The machine's memory and its disk.
const MACHINE: (&str, &str) = ("128M", "512M");
/// MiB that a program uses.
const LOAD: u32 = 256;
const SMALL: u32 = 96;

/// What came of a program on a system.
struct Row {
    name: &'static str,
    system: System,
    instructions: Option<f64>,
    wall: Option<f64>,
    paged: Option<(u64, u64)>,
}

pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let project = &lab.context.project;
    let machine = MachineOptions {
        mem: parse_size(MACHINE.0)?,
        swap: Some(swap::parse(MACHINE.1)?),
        ..MachineOptions::default()
    };
    let mut session =
        Session::prepare(project, &machine, lab.timeout.max(Duration::from_secs(300)), None)?;
    session.linux = Linux::find(project, NEWEST).map_err(|error| format!("{error:#}"));
    let program = harness(project, "load")?.display().to_string();
    let mib = if lab.small { SMALL } else { LOAD };
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for (name, _) in PATTERNS {
        let arguments = vec![program.clone(), name.to_owned(), mib.to_string()];
        let environment: Vec<String> = session.base.environment().into_iter().collect();
        let invocation = Invocation::new(arguments, &environment)?;
        let task = locate(&session, invocation, Vec::new())?;
        let mut said: Option<Vec<u8>> = None;
        for system in SYSTEMS {
            let mut row = Row { name, system, instructions: None, wall: None, paged: None };
            for clock in [Clock::Instructions, Clock::Wall] {
                let ended: Ended = match session.run(system, clock, &task)? {
                    Outcome::Ended(ended) => ended,
                    Outcome::Failed { long, .. }
                        if system == System::Linux && session.linux.is_err() =>
                    {
                        eprintln!("x: {long}");
                        continue;
                    }
                    Outcome::Failed { long, .. } => return Err(anyhow!("{name}: {long}")),
                };
                let output = String::from_utf8_lossy(&ended.output).into_owned();
                ensure!(
                    ended.status == 0,
                    "{name}, {}: status {}: {output}",
                    system.title(),
                    ended.status
                );
                let first = said.get_or_insert_with(|| ended.output.clone());
                ensure!(
                    *first == ended.output,
                    "{name}: the systems computed different things: {output}"
                );
                let reading = ended.reading(clock);
                match clock {
                    Clock::Instructions => (row.instructions, row.paged) = (reading, ended.paged),
                    Clock::Wall => row.wall = reading,
                }
                let question = Question {
                    benchmark: "uvm".into(),
                    case: format!("load, {name}"),
                    at: None,
                    clock,
                    unit: clock.unit().into(),
                    better: Direction::Lower,
                };
                let provenance = session.provenance(clock, &task);
                let samples = reading.into_iter().collect();
                all.push(Measurement { question, system, samples, provenance });
            }
            rows.push(row);
        }
    }
    println!(
        "uvm/load: {mib} MiB of memory in a machine with {}, and a disk of {}\n",
        MACHINE.0, MACHINE.1
    );
    println!("{}", render(&rows));
    Ok(all)
}

/// Two lines for each pattern, and how much less Tessera needs: above 1 it is better.
fn render(rows: &[Row]) -> String {
    let heading = ["", "system", "instructions", "ms", "pages in", "pages out"];
    let mut table = table::Table::new(heading.map(str::to_owned).to_vec());
    let mut ratios = [Vec::new(), Vec::new()];
    let number = |value: Option<f64>| value.map_or("-".to_owned(), grouped);
    for pair in rows.chunks(SYSTEMS.len()) {
        for row in pair {
            let paged =
                |pages: fn((u64, u64)) -> u64| number(row.paged.map(|both| pages(both) as f64));
            let name = PATTERNS
                .iter()
                .find(|(name, _)| *name == row.name && row.system == System::Tessera);
            table.row(vec![
                name.map_or(String::new(), |(name, words)| format!("{name}: {words}")),
                row.system.title().to_owned(),
                number(row.instructions),
                number(row.wall.map(|ns| ns / 1e6)),
                paged(|both| both.0),
                paged(|both| both.1),
            ]);
        }
        let [own, linux] = pair else { continue };
        let mut cells = vec![String::new(), "Linux / Tessera".to_owned()];
        let both = [(own.instructions, linux.instructions), (own.wall, linux.wall)];
        for (ratios, (own, linux)) in ratios.iter_mut().zip(both) {
            let ratio =
                own.zip(linux).filter(|(own, _)| *own > 0.0).map(|(own, linux)| linux / own);
            ratios.extend(ratio);
            cells.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        cells.extend([String::new(), String::new()]);
        table.row(cells);
    }
    let mut cells = vec![String::new(), "geometric mean".to_owned()];
    cells.extend(ratios.iter().map(|ratios| match mean(ratios) {
        Some(mean) => format!("{mean:.2}"),
        None => "-".to_owned(),
    }));
    cells.extend([String::new(), String::new()]);
    table.row(cells);
    table.render()
}

/// The geometric mean.
fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_linux_by_tessera() {
        let row = |system, instructions, wall| Row {
            name: "sort",
            system,
            instructions: Some(instructions),
            wall: Some(wall),
            paged: Some((1000, 2)),
        };
        let text = render(&[row(System::Tessera, 100.0, 2e6), row(System::Linux, 400.0, 1e6)]);
        let last = text.lines().find(|line| line.contains("geometric")).unwrap();
        assert!(last.contains("4.00") && last.contains("0.50"), "{text}");
        assert!(text.contains("1,000"), "{text}");
        assert_eq!(mean(&[]), None);
        assert!((mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-9);
    }
}
