//! `./x bench`: measurements in the emulator, beside Linux's in the same.
//!
//! A benchmark is a C program `bench/micro/NAME.c` that prints `KEY NUMBER` lines, in instructions;
//! or it is `caps`, the native program `capbench` that takes the place of `init` and says in the
//! kernel's log what capability invocations cost. What Linux needs, and what Tessera aims at, is in
//! `bench/linux-baseline.tsv`.

use crate::compile;
use crate::image::{Addition, Base};
use crate::log::Record;
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use crate::project::Project;
use crate::setup;
use crate::testing::guest::GuestRun;
use crate::testing::linux::{compile as compile_c, sources};
use crate::testing::Context;
use anyhow::{bail, ensure, Context as _, Result};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure Tessera and print a table with Linux's figures beside it
///
/// The emulator counts instructions, so the numbers are the same on every host and in every run.
#[derive(clap::Args, Debug)]
pub struct BenchOptions {
    /// Which benchmarks: basic (Linux's operations), caps (capability invocations); default: all
    names: Vec<String>,
    /// End a benchmark after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

pub fn bench(project: &Project, options: &BenchOptions) -> Result<i32> {
    let chosen = choose(project, &options.names)?;
    setup::qemu()?;
    setup::test_tools()?;
    let built = compile::build(project)?;
    let base = Base::prepare(project, &built)?;
    let context = Context { project: project.clone(), built, base, verbose: false };
    let baseline = fs::read_to_string(project.path("bench/linux-baseline.tsv"))?;
    for (name, source) in chosen {
        let measured = match source {
            Some(source) => measure(&context, &name, &source, options.timeout)?,
            None => measure_invocations(&context, options.timeout)?,
        };
        println!("{name}, in instructions\n\n{}", table(&baseline, &measured));
    }
    Ok(0)
}

/// The benchmark of capability invocations, which has no C source.
const INVOCATIONS: &str = "caps";

/// Names, with the source of those that have one.
fn choose(project: &Project, names: &[String]) -> Result<Vec<(String, Option<PathBuf>)>> {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut all: Vec<_> = sources(&project.path("bench/micro"), "c")?
        .into_iter()
        .map(|path| (name(&path), Some(path)))
        .collect();
    all.push((INVOCATIONS.to_owned(), None));
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|(known, _)| known == *name)) {
        let known: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        bail!("there is no benchmark {unknown}; there are: {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name)).collect())
}

/// What the benchmark printed.
fn measure(
    context: &Context,
    name: &str,
    source: &Path,
    timeout: u64,
) -> Result<HashMap<String, f64>> {
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
    let number = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok()?))
    };
    Ok(output.lines().filter_map(number).collect())
}

/// What `capbench` says in the log, without what measuring itself costs.
fn measure_invocations(context: &Context, timeout: u64) -> Result<HashMap<String, f64>> {
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
    let number = |record: &Record| match record.words.as_slice() {
        [key, value, ..] if record.kind == "bench" => Some((key.clone(), value.parse().ok()?)),
        _ => None,
    };
    let measured: HashMap<_, _> = observed.finished.records.iter().filter_map(number).collect();
    ensure!(!measured.is_empty(), "capbench said nothing");
    Ok(measured)
}

/// A machine on which time is instructions.
fn counting() -> MachineOptions {
    MachineOptions { cores: 1, mem: MemorySize { mib: 1024 }, icount: true, gdb: false }
}

/// A row for each line of the baseline that was measured, then whatever else was.
fn table(baseline: &str, measured: &HashMap<String, f64>) -> String {
    let mut rows =
        format!("{:<48}{:>12}{:>12}{:>8}{:>12}\n", "", "Tessera", "Linux", "ratio", "aim");
    let mut rest: Vec<_> = measured.keys().map(String::as_str).collect();
    for line in baseline.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [key, operation, linux, aim] = fields[..] else { continue };
        let Some(value) = measured.get(key) else { continue };
        rest.retain(|other| *other != key);
        let verdict = match aim.parse::<f64>() {
            Ok(aim) if *value <= aim => "reached",
            Ok(_) => "missed",
            Err(_) => "",
        };
        let aim = aim.parse().map_or(String::new(), grouped);
        let (linux_text, ratio) = match linux.parse::<f64>() {
            Ok(linux) => (grouped(linux), format!("{:.2}", value / linux)),
            Err(_) => Default::default(),
        };
        let value_text = grouped(*value);
        let row = format!(
            "{operation:<48}{value_text:>12}{linux_text:>12}{ratio:>8}{aim:>12}  {verdict}"
        );
        rows += &format!("{}\n", row.trim_end());
    }
    rest.sort();
    for key in rest {
        rows += &format!("{key:<48}{:>12}\n", grouped(measured[key]));
    }
    rows
}

/// With a comma between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        assert_eq!(grouped(1234567.0), "1,234,567");
        assert_eq!(grouped(-123.0), "-123");
        let measured = HashMap::from([("a".into(), 50.0), ("other".into(), 1.0)]);
        let text = table("# note\na\tan operation\t100\t40\nb\tnot measured\t1\t1\n", &measured);
        assert!(text.contains("0.50") && text.contains("missed") && text.contains("other"));
        assert!(!text.contains("not measured"));
    }
}
