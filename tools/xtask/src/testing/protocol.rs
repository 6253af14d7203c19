//! The whole model check of the capability protocol, for `./x test protocol`.
//!
//! It takes minutes: `./x test` searches less far, as part of the host's tests. `TESSERA_SEED` and
//! `TESSERA_OPS` choose other random runs.
//!
//! And the protocol in the running kernel: `guest/tests/prototest` boots in place of `init`, and all cores
//! do random operations on capabilities that they share, while dispatchers and domains are killed in the
//! middle of theirs. `TESSERA_KILLS` and `TESSERA_DEATHS` say how many.

use super::guest::GuestRun;
use super::model::number;
use super::native::{collect, read_results};
use super::{host, Case, Context, TestResult};
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use crate::project::Project;
use anyhow::ensure;
use std::time::Duration;

/// The suite, and what of it runs in the emulator.
const SUITE: &str = "protocol/";
const EMULATOR: &str = "protocol/emulator";
const PROGRAM: &str = "boot/programs/prototest";
/// Cores of the machines.
const CORES: [u32; 2] = [2, 4];
/// What all cores together do.
#[derive(Clone, Copy)]
struct Load {
    /// Random operations.
    operations: u64,
    /// Dispatchers that are deleted in the middle of theirs.
    kills: u64,
    /// Domains that are killed.
    deaths: u64,
}

/// When all tests run, and when these are asked for.
const SOME: Load = Load { operations: 4000, kills: 40, deaths: 40 };
const ALL: Load = Load { operations: 1_000_000, kills: 2000, deaths: 2000 };
/// The usual seed.
const SEED: u64 = 0x7e55_e7a5;
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Is `filter` for the model checks of this suite?
pub fn is_asked_for(filter: &str) -> bool {
    filter == "protocol" || filter.starts_with(SUITE) && !filter.starts_with(EMULATOR)
}

/// The machines on which the protocol runs.
pub fn cases(filter: &str) -> Vec<Case> {
    let load = if filter.starts_with("protocol") { ALL } else { SOME };
    let case = |cores| {
        let name = format!("{EMULATOR}-{cores}");
        Case::several(name.clone(), move |context| emulate(context, &name, cores, load))
    };
    CORES.into_iter().map(case).collect()
}

fn emulate(context: &Context, name: &str, cores: u32, load: Load) -> Vec<TestResult> {
    collect(name, |results| {
        let seed = number("TESSERA_SEED")?.unwrap_or(SEED);
        let operations = number("TESSERA_OPS")?.unwrap_or(load.operations);
        let kills = number("TESSERA_KILLS")?.unwrap_or(load.kills);
        let deaths = number("TESSERA_DEATHS")?.unwrap_or(load.deaths);
        let options = format!("seed={seed} ops={operations} kills={kills} deaths={deaths}");
        context.note(&format!("{name}: {options}"));
        let run = GuestRun {
            test: name.to_owned(),
            invocation: Invocation::new(vec![PROGRAM.to_owned()], &[])?,
            additions: Vec::new(),
            stdin: Vec::new(),
            machine: MachineOptions { cores, mem: MemorySize { mib: 512 }, ..Default::default() },
            timeout: TIMEOUT,
            command_line: format!("init={PROGRAM} {options}"),
        };
        read_results(context, name, &run.run(context)?, results)?;
        ensure!(results.len() >= 6, "parts are missing: there are {}", results.len());
        Ok(())
    })
}

/// Runs those tests whose name contains what `filter` says after the name of the suite. Also answers
/// what they found: how many states, and what showed each deliberate bug.
pub fn run(project: &Project, filter: &str) -> (Vec<TestResult>, Vec<String>) {
    let inner = filter.strip_prefix(SUITE).unwrap_or("");
    let args = ["--package=capproto", "--lib", "--"];
    // One after the other: each search has two threads.
    let options = ["--include-ignored", "--show-output", "--test-threads=1", inner];
    let (mut results, text) = host::cargo_test(project, &[&args[..], &options].concat());
    for result in &mut results {
        result.name = format!("{SUITE}{}", result.name.trim_start_matches("host/"));
    }
    (results, notes(&text))
}

/// What the tests that passed have printed.
fn notes(text: &str) -> Vec<String> {
    let shown = text.split_once("\nsuccesses:\n").map_or("", |(_, shown)| shown);
    let blocks = shown.split("\n---- ").skip(1).filter_map(|block| block.split("\n\n").next());
    let name = |block: &str| block.replace(" stdout ----", "");
    blocks.map(name).collect()
}
