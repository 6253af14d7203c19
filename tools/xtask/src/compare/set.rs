//! A set of programs, each on every system, results checked and timed.

use super::readme;
use super::session::Session;
use super::table::{ratio, Table};
use super::CompareOptions;
use crate::interrupt::OnInterrupt;
use crate::micro::{Answer, Program};
use crate::progress::Progress;
use crate::results::{self, grouped, Clock, Measurement, Question, System};
use anyhow::Result;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A boot of the set and what came of it.
struct Part<'a> {
    program: &'a Program,
    clock: Clock,
    system: System,
    answer: Answer,
}

/// Counts are the same however busy the machine is; times must have it for themselves.
const COUNTED_AT_A_TIME: usize = 2;

pub fn compare(
    session: &Session,
    options: &CompareOptions,
    clocks: &[Clock],
    programs: &[Program],
) -> Result<i32> {
    let file = options.json.clone().unwrap_or_else(|| default_file(session));
    let boots = clocks.len() * programs.len() * options.systems().len();
    let so_far = Arc::new(SoFar { file: file.with_extension("partial"), ..SoFar::default() });
    let (told, clocks_told, systems) = (so_far.clone(), clocks.to_vec(), options.systems());
    let on_interrupt = OnInterrupt::new(move || told.tell(&clocks_told, systems, boots))?;
    let progress = Progress::new("comparing", boots as u64);
    let mut parts = Vec::new();
    for &clock in clocks {
        parts.extend(run_all(session, clock, programs, options.systems(), &so_far, &progress)?);
    }
    drop((progress, on_interrupt));
    let all: Vec<Measurement> =
        parts.iter().flat_map(|part| part.answer.measurements.iter().cloned()).collect();
    for &clock in clocks {
        println!("{}", table(&all, clock, options.systems()).render());
    }
    let complaints = complaints(&parts);
    for complaint in &complaints {
        eprintln!("x: {complaint}");
    }
    results::write(&file, &all)?;
    so_far.remove();
    if options.record {
        record(session, &all)?;
    }
    if options.readme {
        readme::renew(&session.project, &table(&all, Clock::Instructions, options.systems()))?;
    }
    println!("{} results in {}; ./x report draws them", all.len(), file.display());
    Ok(i32::from(!complaints.is_empty()))
}

/// What has been measured so far, which is written down as it comes.
#[derive(Default)]
struct SoFar {
    file: PathBuf,
    measured: Mutex<(usize, Vec<Measurement>)>,
}

impl SoFar {
    /// A boot is done.
    fn add(&self, measurements: &[Measurement]) -> Result<()> {
        let Ok(mut measured) = self.measured.lock() else { return Ok(()) };
        measured.0 += 1;
        measured.1.extend_from_slice(measurements);
        results::write(&self.file, &measured.1)
    }

    /// Somebody has had enough: what there is, in the order in which it came.
    fn tell(&self, clocks: &[Clock], systems: &[System], boots: usize) {
        let Ok(measured) = self.measured.lock() else { return };
        let (done, all) = &*measured;
        eprintln!();
        for &clock in clocks.iter().filter(|_| !all.is_empty()) {
            println!("{}", table(all, clock, systems).render());
        }
        let file = self.file.display();
        eprintln!("x: interrupted after {done} of {boots} boots; {} results in {file}", all.len());
    }

    /// Everything is where it belongs.
    fn remove(&self) {
        // There is none if nothing was measured.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Where the results are, unless `--json` says otherwise.
fn default_file(session: &Session) -> PathBuf {
    session.project.state().join("compare.json")
}

/// Keeps the medians of Linux's counts, which are the same on every host. What other programs have
/// left stays.
fn record(session: &Session, all: &[Measurement]) -> Result<()> {
    let counts = all
        .iter()
        .filter(|one| one.question.clock == Clock::Instructions && one.system != System::Tessera);
    let medians = counts
        .map(|one| Measurement { samples: one.median().into_iter().collect(), ..one.clone() });
    let file = session.project.path("guest/bench/linux.json");
    results::write(&file, &renewed(results::read(&file)?, medians.collect()))
}

/// `old` with everything of the benchmarks in `new` replaced.
fn renewed(old: Vec<Measurement>, new: Vec<Measurement>) -> Vec<Measurement> {
    let again = |one: &Measurement| {
        new.iter().any(|other| other.question.benchmark == one.question.benchmark)
    };
    let mut all: Vec<Measurement> = old.into_iter().filter(|one| !again(one)).collect();
    all.extend(new);
    // Programs in the order of their names, questions as they were asked.
    all.sort_by(|left, right| left.question.benchmark.cmp(&right.question.benchmark));
    all
}

fn run_all<'a>(
    session: &Session,
    clock: Clock,
    programs: &'a [Program],
    systems: &[System],
    so_far: &SoFar,
    progress: &Progress,
) -> Result<Vec<Part<'a>>> {
    let boots: Vec<(&Program, System)> = programs
        .iter()
        .flat_map(|program| systems.iter().map(move |&system| (program, system)))
        .collect();
    let at_a_time = if clock == Clock::Instructions { COUNTED_AT_A_TIME } else { 1 };
    let queue = Mutex::new(boots.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| loop {
                let next = queue.lock().ok().and_then(|mut queue| queue.next());
                let Some((number, (program, system))) = next else { return };
                progress.at(&format!("{} on {}", program.name, system.title()));
                let answer = program.run(session, system, clock).and_then(|answer| {
                    so_far.add(&answer.measurements)?;
                    Ok(answer)
                });
                progress.advance();
                if let Ok(mut done) = done.lock() {
                    done.push((number, program, system, answer));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, ..)| *number);
    let part = |(_, program, system, answer)| Ok(Part { program, clock, system, answer: answer? });
    done.into_iter().map(part).collect()
}

/// What is wrong: programs that failed, and results that are not Linux's.
fn complaints(parts: &[Part]) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    for part in parts {
        let place = format!("{} on {}", part.program.name, part.system.title());
        let own = &part.answer;
        let complaint = match (&own.failure, oracle(parts, part)) {
            (Some(why), _) => Some(format!("{place}: {why}")),
            (None, Some(linux)) if own.checks != linux.checks => {
                Some(format!("{place}: results {:?}, on Linux {:?}", own.checks, linux.checks))
            }
            _ => None,
        };
        complaints.extend(complaint.filter(|complaint| !complaints.contains(complaint)));
    }
    complaints
}

/// What Linux answered to the same.
fn oracle<'a>(parts: &'a [Part], part: &Part) -> Option<&'a Answer> {
    let same = |other: &&Part| {
        other.system == System::Linux
            && other.clock == part.clock
            && other.program.name == part.program.name
    };
    parts.iter().find(same).map(|part| &part.answer).filter(|answer| answer.failure.is_none())
}

/// A row for every question, in the order in which they were asked.
fn table(all: &[Measurement], clock: Clock, systems: &[System]) -> Table {
    let mut heading = vec![match clock {
        Clock::Instructions => "instructions".to_owned(),
        Clock::Wall => "wall time".to_owned(),
    }];
    heading.extend(systems.iter().map(|system| system.title().to_owned()));
    heading.push("ratio to the better".to_owned());
    let mut table = Table::new(heading);
    for question in questions(all, clock) {
        let answer = |system: System| {
            all.iter().find(|one| one.question == *question && one.system == system)
        };
        let median = |system| answer(system).and_then(Measurement::median);
        let mut row = vec![question.to_string()];
        row.extend(systems.iter().map(|&system| match (answer(system), median(system)) {
            (_, Some(median)) if question.unit == clock.unit() => grouped(median),
            (_, Some(median)) => format!("{} {}", grouped(median), question.unit),
            (Some(_), None) => "not supported".to_owned(),
            (None, None) => "-".to_owned(),
        }));
        let others = systems.iter().filter(|&&system| system != System::Tessera);
        let better = question.better.best(others.filter_map(|&system| median(system)));
        row.push(ratio(median(System::Tessera), better));
        table.row(row);
    }
    table
}

/// The different questions in some measurements, in their order.
pub fn questions(all: &[Measurement], clock: Clock) -> Vec<&Question> {
    let mut questions: Vec<&Question> = Vec::new();
    for one in all.iter().filter(|one| one.question.clock == clock) {
        if !questions.contains(&&one.question) {
            questions.push(&one.question);
        }
    }
    questions
}

#[cfg(test)]
mod tests {
    use super::renewed;
    use crate::results::tests::measured;
    use crate::results::Measurement;

    #[test]
    fn records_of_other_programs_stay() {
        let of = |benchmark: &str, case: &str| {
            let mut one = measured(case, &[1.0]);
            one.question.benchmark = benchmark.to_owned();
            one
        };
        let old = vec![of("a", "1"), of("b", "1"), of("b", "2"), of("c", "1")];
        let new = vec![of("b", "3"), of("b", "1")];
        let name = |one: &Measurement| format!("{}{}", one.question.benchmark, one.question.case);
        let all: Vec<String> = renewed(old, new).iter().map(name).collect();
        assert_eq!(all, ["a1", "b3", "b1", "c1"]);
    }
}
