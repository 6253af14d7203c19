//! The kernels without a direct map of programs' memory, in a part of what they must do. All suites go with them:
//! `./x test SUITE/ --map cache`.

use super::guest::{Extras, GuestRun};
use super::native::{collect, read_results};
use super::{Case, Context, TestResult};
use crate::compile;
use crate::machine::{MachineOptions, MemorySize};
use crate::map::Map;
use crate::program::Invocation;
use anyhow::Result;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(600);

/// Words of `coretest` on four cores.
const FOUR: &str = "monitor=boot/programs/coretest expect-cores=4 expect-nodes=1";

/// Programs that check the invariants again and again, which kernel they boot, on how many cores, and words for them.
const CASES: [(&str, &str, Map, u32, &str); 3] = [
    ("map/captest", "boot/programs/captest", Map::Cache, 1, ""),
    ("map/coretest", "boot/programs/coretest", Map::Cache, 4, FOUR),
    ("map/uncached", "boot/programs/coretest", Map::Uncached, 4, FOUR),
];

pub fn cases() -> Vec<Case> {
    let case = |(name, program, map, cores, words): (&'static str, _, _, _, _)| {
        Case::several(name.to_owned(), move |context| {
            collect(name, |results| run(context, name, program, map, (cores, words), results))
        })
    };
    CASES.into_iter().map(case).collect()
}

fn run(
    context: &Context,
    name: &str,
    program: &str,
    map: Map,
    (cores, words): (u32, &str),
    results: &mut Vec<TestResult>,
) -> Result<()> {
    let mem = MemorySize { mib: 1536 };
    let run = GuestRun {
        test: name.to_owned(),
        invocation: Invocation::new(vec![program.to_owned()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: MachineOptions { cores, mem, ..MachineOptions::default() },
        timeout: TIMEOUT,
        command_line: format!("init={program} {words}"),
    };
    let kernel = compile::build_kernel(&context.project, map.variant())?;
    let observed = run.run_with(context, Extras { kernel: Some(kernel), ..Extras::default() })?;
    read_results(context, name, &observed, results)
}
