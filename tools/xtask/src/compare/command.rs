//! A single program of the user's, side by side.

use super::session::{locate, Ended, Outcome, Session, Task};
use super::table::{ratio, Table};
use super::CompareOptions;
use crate::image::Addition;
use crate::interrupt::OnInterrupt;
use crate::program::Invocation;
use crate::progress::Progress;
use crate::results::{self, grouped, Clock, Direction, Measurement, Provenance, Question, System};
use crate::testing::guest::difference;
use anyhow::{anyhow, Result};
use rustix::stdio::stdin;
use rustix::termios::isatty;
use std::io::Read;
use std::sync::{Arc, Mutex};

/// All that came of the program on one system.
struct Column {
    system: System,
    /// In the order of the clocks and runs; ends with the first that failed.
    outcomes: Vec<(Clock, Outcome)>,
}

pub fn compare(
    session: &Session,
    options: &CompareOptions,
    clocks: &[Clock],
    files: Vec<Addition>,
) -> Result<i32> {
    let mut environment = options.env.clone();
    environment.splice(0..0, session.base.environment());
    let invocation = Invocation::new(options.program.clone(), &environment)?;
    let mut task = locate(session, invocation, read_stdin()?)?;
    task.additions.extend(files);
    let with_disk = session.machine.swap.is_some();
    let done = Arc::new(Mutex::new(Vec::new()));
    let on_interrupt = OnInterrupt::new({
        let (done, clocks) = (done.clone(), clocks.to_vec());
        move || {
            eprintln!("\nx: interrupted; so far:");
            if let Ok(columns) = done.lock() {
                print!("{}", table(&columns, &clocks, with_disk).render());
            }
        }
    })?;
    let progress = Progress::new("comparing", options.systems().len() as u64);
    for &system in options.systems() {
        progress.at(system.title());
        let column = column(session, options, clocks, system, &task)?;
        done.lock().map_err(|_| anyhow!("the report of an interrupt failed"))?.push(column);
        progress.advance();
    }
    drop((progress, on_interrupt));
    let columns = done.lock().map(|mut done| std::mem::take(&mut *done)).unwrap_or_default();
    print!("{}", table(&columns, clocks, with_disk).render());
    let agree = tell_what_differs(&columns);
    if let Some(file) = &options.json {
        results::write(file, &measurements(session, &columns, clocks, (&options.program, &task)))?;
    }
    Ok(i32::from(!agree))
}

/// Everything that is piped to us.
fn read_stdin() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !isatty(stdin()) {
        std::io::stdin().read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn column(
    session: &Session,
    options: &CompareOptions,
    clocks: &[Clock],
    system: System,
    task: &Task,
) -> Result<Column> {
    let mut outcomes = Vec::new();
    for &clock in clocks {
        // A count is the same every time, so it is taken again only if that is the question.
        let again = clock == Clock::Wall || clocks == [Clock::Instructions];
        for _ in 0..if again { options.runs } else { 1 } {
            let outcome = session.run(system, clock, task)?;
            let failed = outcome.ended().is_none();
            outcomes.push((clock, outcome));
            if failed {
                return Ok(Column { system, outcomes });
            }
        }
    }
    Ok(Column { system, outcomes })
}

impl Column {
    fn readings(&self, clock: Clock) -> Vec<f64> {
        let outcomes = self.outcomes.iter().filter(|(own, _)| *own == clock);
        outcomes.filter_map(|(_, outcome)| outcome.ended()?.reading(clock)).collect()
    }

    fn measurement(&self, question: Question, provenance: Provenance) -> Measurement {
        let samples = self.readings(question.clock);
        Measurement { question, system: self.system, samples, provenance }
    }

    fn failure(&self) -> Option<(&str, &str)> {
        match self.outcomes.last() {
            Some((_, Outcome::Failed { short, long })) => Some((short, long)),
            _ => None,
        }
    }

    /// The exit status; in words if there is none or if it is not always the same.
    fn status(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for (_, outcome) in &self.outcomes {
            let word = match outcome {
                Outcome::Ended(ended) => ended.status.to_string(),
                Outcome::Failed { short, .. } => short.clone(),
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(", ")
    }

    fn first(&self) -> Option<&Ended> {
        self.outcomes.iter().find_map(|(_, outcome)| outcome.ended())
    }
}

fn table(columns: &[Column], clocks: &[Clock], with_disk: bool) -> Table {
    let named = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(columns.iter().map(cell));
        cells
    };
    let mut heading = named("", &|column| column.system.title().to_owned());
    heading.push("ratio to the better".to_owned());
    let mut table = Table::new(heading);
    table.row(named("exit status", &Column::status));
    for &clock in clocks {
        let (name, unit, scale) = match clock {
            Clock::Instructions => ("instructions", "", 1.0),
            Clock::Wall => ("wall time", " ms", 1e6),
        };
        let median = |column: &Column| results::median(&column.readings(clock));
        let mut row = named(name, &|column| match median(column) {
            None => "-".to_owned(),
            Some(median) => format!("{}{unit}", grouped(median / scale)),
        });
        let better = Direction::Lower.best(columns[1..].iter().filter_map(median));
        row.push(ratio(median(&columns[0]), better));
        table.row(row);
        if columns.iter().any(|column| column.readings(clock).len() > 1) {
            table.row(named("  least to greatest", &|column| match results::range(
                &column.readings(clock),
            ) {
                None => "-".to_owned(),
                Some((low, high)) => {
                    format!("{} to {}{unit}", grouped(low / scale), grouped(high / scale))
                }
            }));
        }
    }
    if with_disk {
        let pages = |pages: fn((u64, u64)) -> u64| {
            move |column: &Column| {
                let paged = column.first().and_then(|ended| ended.paged);
                paged.map_or("-".to_owned(), |paged| grouped(pages(paged) as f64))
            }
        };
        table.row(named("pages in", &pages(|paged| paged.0)));
        table.row(named("pages out", &pages(|paged| paged.1)));
    }
    table
}

/// Says on standard error what went wrong and what is not the same; whether all is well.
fn tell_what_differs(columns: &[Column]) -> bool {
    let mut agree = true;
    let mut said = Vec::new();
    for column in columns {
        if let Some((_, long)) = column.failure() {
            // What is wrong with one Linux is often wrong with the other.
            if !said.contains(&long) {
                eprintln!("x: {}: {long}", column.system.title());
                said.push(long);
            }
            agree = false;
        }
    }
    let Some(linux) = columns.iter().skip(1).find(|column| column.failure().is_none()) else {
        return false;
    };
    let Some(expected) = linux.first() else { return false };
    let expected_status = linux.status();
    for column in columns {
        let title = column.system.title();
        for ended in column.outcomes.iter().filter_map(|(_, outcome)| outcome.ended()) {
            let status = ended.status;
            if status.to_string() != expected_status {
                eprintln!("x: the exit statuses differ: {title} {status}, Linux {expected_status}");
            } else if ended.output != expected.output {
                let lines = difference(&expected.output, &ended.output);
                eprintln!("x: the output on {title} differs from that on Linux\n{lines}");
            } else if ended.errors != expected.errors {
                let lines = difference(&expected.errors, &ended.errors);
                eprintln!("x: the standard error on {title} differs from that on Linux\n{lines}");
            } else {
                continue;
            }
            agree = false;
            break;
        }
    }
    agree
}

fn measurements(
    session: &Session,
    columns: &[Column],
    clocks: &[Clock],
    (program, task): (&[String], &Task),
) -> Vec<Measurement> {
    let mut all = Vec::new();
    for &clock in clocks {
        let provenance = session.provenance(clock, task);
        for column in columns {
            let question = Question {
                benchmark: "compare".into(),
                case: program.join(" "),
                at: None,
                clock,
                unit: clock.unit().into(),
                better: Direction::Lower,
            };
            all.push(column.measurement(question, provenance.clone()));
        }
    }
    all
}
