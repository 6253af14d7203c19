//! `./x bench`: measurements in the emulator, beside Linux's in the same.
//!
//! `mdb` runs on the host, without an emulator; see [`crate::bench_host`]. Any other
//! benchmark is a C program `bench/micro/NAME.c` that prints lines `bench …`; or it is `caps`, the
//! native program `capbench` that takes the place of `init` and writes `@bench …` to the kernel's
//! log, saying what capability invocations cost. The lines are those of [`crate::results::line`].
//! What Linux needs, and what Tessera aims at, is in `bench/linux-baseline.tsv`. `papers` is
//! [`crate::papers`].

use crate::bench_host;
use crate::compile;
use crate::image::{Addition, Base};
use crate::log::Record;
use crate::machine::{MachineOptions, MemorySize};
use crate::papers;
use crate::program::Invocation;
use crate::project::Project;
use crate::results::change::{changes, Change};
use crate::results::line::{self, Defaults};
use crate::results::{self, grouped, Clock, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::GuestRun;
use crate::testing::linux::{compile as compile_c, sources};
use crate::testing::Context;
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure Tessera and print a table with Linux's figures beside it
///
/// The emulator counts instructions, so the numbers are the same on every host and in every run.
#[derive(clap::Args, Debug)]
pub struct BenchOptions {
    /// Which benchmarks: basic (Linux's operations), caps (capability invocations), mdb (the mapping
    /// database and others, on the host), papers (the papers' figures and tables); default: all
    names: Vec<String>,
    /// End a benchmark after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Write the results to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with FILE, which an earlier --json wrote: name what changed, and fail if anything got
    /// worse
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

pub fn bench(project: &Project, options: &BenchOptions) -> Result<i32> {
    let chosen = choose(project, &options.names)?;
    // Read first: a wrong file is found before all the measuring.
    let before = options.baseline.as_deref().map(results::read).transpose()?;
    let linux = fs::read_to_string(project.path("bench/linux-baseline.tsv"))?;
    let mut all = Vec::new();
    let mut context = None;
    for (name, source) in chosen {
        if name == bench_host::MAPPING_DATABASE {
            all.extend(bench_host::measure(project)?);
            continue;
        }
        let context = match &context {
            Some(context) => context,
            None => context.insert(prepare(project)?),
        };
        if name == PAPERS {
            all.extend(papers::measure(context, options.timeout)?);
            continue;
        }
        let measured = match source {
            Some(source) => measure(context, &name, &source, options.timeout)?,
            None => measure_invocations(context, options.timeout)?,
        };
        println!("{name}, in instructions\n\n{}", table(&linux, &measured));
        all.extend(measured);
    }
    if let Some(file) = &options.json {
        results::write(file, &all)?;
    }
    Ok(before.map_or(0, |before| tell(&changes(&before, &all))))
}

/// What is measured in the emulator.
fn prepare(project: &Project) -> Result<Context> {
    setup::qemu()?;
    setup::test_tools()?;
    let built = compile::build(project)?;
    let base = Base::prepare(project, &built)?;
    Ok(Context { project: project.clone(), built, base, verbose: false })
}

/// Prints what changed; the exit status.
fn tell(changes: &[Change]) -> i32 {
    for change in changes {
        println!("{change}");
    }
    let worse = changes.iter().filter(|change| change.worse).count();
    println!("{worse} worse, {} better than the baseline", changes.len() - worse);
    i32::from(worse > 0)
}

/// The benchmark of capability invocations, which has no C source.
const INVOCATIONS: &str = "caps";
/// The figures and tables of the papers.
const PAPERS: &str = "papers";

/// Names, with the source of those that have one.
fn choose(project: &Project, names: &[String]) -> Result<Vec<(String, Option<PathBuf>)>> {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut all: Vec<_> = sources(&project.path("bench/micro"), "c")?
        .into_iter()
        .map(|path| (name(&path), Some(path)))
        .collect();
    all.push((INVOCATIONS.to_owned(), None));
    all.push((PAPERS.to_owned(), None));
    all.push((bench_host::MAPPING_DATABASE.to_owned(), None));
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|(known, _)| known == *name)) {
        let known: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        bail!("there is no benchmark {unknown}; there are: {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name)).collect())
}

fn defaults(project: &Project, benchmark: &str) -> Defaults {
    Defaults {
        benchmark: benchmark.to_owned(),
        clock: Clock::Instructions,
        system: System::Tessera,
        provenance: Provenance::emulated(project, &counting(), false),
    }
}

/// What the benchmark printed.
fn measure(context: &Context, name: &str, source: &Path, timeout: u64) -> Result<Vec<Measurement>> {
    let program = context.folder("bench")?.join(name);
    compile_c(source, &program, "gcc")?;
    let invocation = Invocation::new(vec![format!("./{name}")], &[])?;
    let run = GuestRun {
        test: format!("bench/{name}"),
        invocation,
        additions: vec![Addition { host: program, guest: format!("/root/{name}") }],
        stdin: Vec::new(),
        machine: counting(),
        timeout: Duration::from_secs(timeout),
        command_line: String::new(),
    };
    let observed = run.run(context)?;
    let output = String::from_utf8_lossy(&observed.stdout).into_owned();
    let status = observed.status(true).with_context(|| format!("{name}; so far:\n{output}"))?;
    ensure!(status == 0, "{name}: exit status {status}; its output:\n{output}");
    let measured = line::parse_output(&output, &defaults(&context.project, name))?;
    ensure!(!measured.is_empty(), "{name} measured nothing; its output:\n{output}");
    Ok(measured)
}

/// What `capbench` says in the log, without what measuring itself costs.
fn measure_invocations(context: &Context, timeout: u64) -> Result<Vec<Measurement>> {
    let run = GuestRun {
        test: format!("bench/{INVOCATIONS}"),
        invocation: Invocation::new(vec!["capbench".into()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: counting(),
        timeout: Duration::from_secs(timeout),
        command_line: "init=boot/programs/capbench".into(),
    };
    let observed = run.run(context)?;
    let status = observed.status(false)?;
    ensure!(status == 0, "capbench: exit status {status}");
    let defaults = defaults(&context.project, INVOCATIONS);
    let measured: Vec<_> = bench_records(&observed.finished.records, &defaults)?;
    ensure!(!measured.is_empty(), "capbench said nothing");
    Ok(measured)
}

/// The measurements in `@bench …` of the kernel's log.
pub fn bench_records(records: &[Record], defaults: &Defaults) -> Result<Vec<Measurement>> {
    let records = records.iter().filter(|record| record.kind == "bench");
    records
        .map(|record| {
            let words: Vec<&str> = record.words.iter().map(String::as_str).collect();
            line::parse(&words, defaults).with_context(|| format!("in @bench {}", words.join(" ")))
        })
        .collect()
}

/// A machine on which time is instructions.
fn counting() -> MachineOptions {
    MachineOptions { cores: 1, mem: MemorySize { mib: 1024 }, icount: true, gdb: false }
}

/// A row for each line of the baseline that was measured, then whatever else was.
fn table(baseline: &str, measured: &[Measurement]) -> String {
    let mut rows =
        format!("{:<48}{:>12}{:>12}{:>8}{:>12}\n", "", "Tessera", "Linux", "ratio", "aim");
    let mut rest: Vec<(&str, f64)> = measured
        .iter()
        .filter_map(|measurement| Some((measurement.question.case.as_str(), measurement.median()?)))
        .collect();
    for line in baseline.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [key, operation, linux, aim] = fields[..] else { continue };
        let key = key.replace('_', " ");
        let Some(at) = rest.iter().position(|(case, _)| *case == key) else { continue };
        let (_, value) = rest.remove(at);
        let verdict = match aim.parse::<f64>() {
            Ok(aim) if value <= aim => "reached",
            Ok(_) => "missed",
            Err(_) => "",
        };
        let aim = aim.parse().map_or(String::new(), grouped);
        let (linux_text, ratio) = match linux.parse::<f64>() {
            Ok(linux) => (grouped(linux), format!("{:.2}", value / linux)),
            Err(_) => Default::default(),
        };
        let value_text = grouped(value);
        let row = format!(
            "{operation:<48}{value_text:>12}{linux_text:>12}{ratio:>8}{aim:>12}  {verdict}"
        );
        rows += &format!("{}\n", row.trim_end());
    }
    rest.sort_by(|left, right| left.0.cmp(right.0));
    for (case, value) in rest {
        rows += &format!("{case:<48}{:>12}\n", grouped(value));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let provenance = Provenance { machine: "q35".into(), commit: "1234567".into() };
        let (clock, system) = (Clock::Instructions, System::Tessera);
        let defaults = Defaults { benchmark: "b".into(), clock, system, provenance };
        let measured =
            line::parse_output("bench a_b 50 60 40\nbench other 1\n", &defaults).unwrap();
        let text = table("# note\na_b\tan operation\t100\t40\nb\tnot measured\t1\t1\n", &measured);
        assert!(text.contains("0.50") && text.contains("missed") && text.contains("other"));
        assert!(!text.contains("not measured"));
    }
}
