//! The kernel without a direct map of programs' memory, in a part of what it must do. All suites go with it:
//! `./x test SUITE/ --map cache`.

use super::guest::{Extras, GuestRun};
use super::native::{collect, read_results};
use super::{Case, Context, TestResult};
use crate::compile;
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use crate::toolchain::Variant;
use anyhow::Result;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Programs that check the invariants again and again, the cores that they boot on, and words for them.
const CASES: [(&str, &str, u32, &str); 2] = [
    ("map/captest", "boot/programs/captest", 1, ""),
    (
        "map/coretest",
        "boot/programs/coretest",
        4,
        "monitor=boot/programs/coretest expect-cores=4 expect-nodes=1",
    ),
];

pub fn cases() -> Vec<Case> {
    let case = |(name, program, cores, words): (&'static str, &'static str, u32, &'static str)| {
        Case::several(name.to_owned(), move |context| {
            collect(name, |results| run(context, name, program, cores, words, results))
        })
    };
    CASES.into_iter().map(case).collect()
}

fn run(
    context: &Context,
    name: &str,
    program: &str,
    cores: u32,
    words: &str,
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
    let kernel = compile::build_kernel(&context.project, Variant::Cached)?;
    let observed = run.run_with(context, Extras { kernel: Some(kernel), ..Extras::default() })?;
    read_results(context, name, &observed, results)
}
