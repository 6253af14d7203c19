//! Monitors, and parts of a program on several cores: `guest/tests/monitortest` boots in place of `init`,
//! the others boot as usual.

use super::guest::GuestRun;
use super::native::{collect, read_results};
use super::{Case, Context, TestResult};
use crate::machine::{parse_size, MachineOptions};
use crate::program::Invocation;
use anyhow::{ensure, Result};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(600);
const PROGRAM: &str = "boot/programs/monitortest";

/// Name, cores, memory, five levels of paging?
const MACHINES: [(&str, u32, &str, bool); 5] = [
    ("two", 2, "512M", false),
    ("four", 4, "512M", false),
    ("four+la57", 4, "512M", true),
    ("eight", 8, "1G", false),
    ("many", 64, "4G", false),
];

pub fn cases() -> Vec<Case> {
    let case = |(name, cores, mem, la57)| {
        let name = format!("monitors/{name}");
        Case::several(name.clone(), move |context| {
            let machine = MachineOptions { cores, la57, ..MachineOptions::default() };
            run(context, &name, machine, mem)
        })
    };
    MACHINES.into_iter().map(case).collect()
}

fn run(context: &Context, name: &str, machine: MachineOptions, mem: &str) -> Vec<TestResult> {
    collect(name, |results| {
        let run = GuestRun {
            test: name.to_owned(),
            invocation: Invocation::new(vec![PROGRAM.to_owned()], &[])?,
            additions: Vec::new(),
            stdin: Vec::new(),
            machine: MachineOptions { mem: parse_size(mem)?, ..machine },
            timeout: TIMEOUT,
            command_line: format!("init={PROGRAM}"),
        };
        read_results(context, name, &run.run(context)?, results)?;
        check_count(results)
    })
}

/// Nothing was left out.
fn check_count(results: &[TestResult]) -> Result<()> {
    ensure!(results.len() >= 30, "parts are missing: there are {}", results.len());
    Ok(())
}
