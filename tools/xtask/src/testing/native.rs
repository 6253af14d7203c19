//! Native programs that boot in place of `init` and say by themselves what passed.
//!
//! They write `@test NAME ok` or `@test NAME FAILED remark` to the kernel's log for each thing that
//! they tried, and `@exit 0` at the end.

use super::guest::{GuestRun, Observed};
use super::{Case, Context, TestResult};
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use anyhow::{ensure, Result};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(600);

/// Every program whose manifest says `[package.metadata.tessera] test = true`, on machines with four
/// and with five levels of paging.
pub fn cases(context: &Context) -> Vec<Case> {
    let tests = context.built.programs.iter().filter(|program| program.is_test);
    tests
        .flat_map(|program| {
            let path = program.image_path.clone();
            let short = path.rsplit('/').next().unwrap_or(&path);
            [(format!("native/{short}"), false), (format!("native/{short}+la57"), true)].map(
                |(name, la57)| {
                    let path = path.clone();
                    Case::several(name.clone(), move |context| run(context, &name, &path, la57))
                },
            )
        })
        .collect()
}

fn run(context: &Context, name: &str, path: &str, la57: bool) -> Vec<TestResult> {
    let machine = MachineOptions {
        cores: context.cores,
        mem: MemorySize { mib: 1536 },
        la57,
        ..MachineOptions::default()
    };
    collect(name, |results| boot(context, name, path, "", machine, results))
}

/// The results that `boot` has found, and its own.
pub fn collect(
    name: &str,
    boot: impl FnOnce(&mut Vec<TestResult>) -> Result<()>,
) -> Vec<TestResult> {
    let mut results = Vec::new();
    let whole = boot(&mut results).map_err(|error| format!("{error:#}"));
    // The program's own end counts only if it tells more than its parts do.
    if whole.is_err() && results.iter().all(|result| result.outcome.is_ok()) || results.is_empty() {
        results.push(TestResult { name: name.to_owned(), outcome: whole });
    }
    results
}

/// Boots the program at `path` on a machine, with further words on the kernel's command line.
pub fn boot(
    context: &Context,
    name: &str,
    path: &str,
    words: &str,
    machine: MachineOptions,
    results: &mut Vec<TestResult>,
) -> Result<()> {
    let run = GuestRun {
        test: name.to_owned(),
        invocation: Invocation::new(vec![path.to_owned()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine,
        timeout: TIMEOUT,
        command_line: format!("init={path} {words}"),
    };
    read_results(context, name, &run.run(context)?, results)
}

/// What such a program says about its parts, and whether it ended well.
pub fn read_results(
    context: &Context,
    name: &str,
    observed: &Observed,
    results: &mut Vec<TestResult>,
) -> Result<()> {
    for (part, ok, remark) in observed.finished.records.iter().filter_map(|record| record.test()) {
        let outcome = if ok { Ok(()) } else { Err(remark) };
        results.push(TestResult { name: format!("{name}/{part}"), outcome });
    }
    let status = observed.status(context.verbose)?;
    ensure!(status == 0, "exit status {status}");
    Ok(())
}
