//! Processors that lack features which the kernel uses where it finds them. On each, hostile attempts
//! of user mode end as they do on the full one (on the plainest, all other tests of the kernel do, too),
//! and Linux programs run: with vector state, threads, signals, and on two cores.

use super::linux;
use super::native::{self, collect};
use super::{Case, Context, TestResult};
use crate::machine::{MachineOptions, MemorySize};
use anyhow::Result;

/// What each lacks, by QEMU's names.
const PROCESSORS: [(&str, &[&str]); 8] = [
    ("no-smap", &["smap"]),
    ("no-smep", &["smep"]),
    ("no-smap-smep", &["smap", "smep"]),
    ("no-fsgsbase", &["fsgsbase"]),
    ("no-xsave", &["xsave"]),
    ("no-umip", &["umip"]),
    ("no-fsgsbase-xsave", &["fsgsbase", "xsave"]),
    ("plain", &["smap", "smep", "fsgsbase", "xsave", "umip", "pdpe1gb", "rdtscp", "invpcid"]),
];

/// Programs of `guest/tests/linux`, with their cores.
const PROGRAMS: [(&str, u32); 4] =
    [("floats", 1), ("signals", 1), ("registers", 2), ("threads", 2)];

pub fn cases() -> Vec<Case> {
    PROCESSORS
        .iter()
        .map(|(name, lacks)| {
            let name = format!("processors/{name}");
            Case::several(name.clone(), move |context| run(context, &name, lacks))
        })
        .collect()
}

fn run(context: &Context, name: &str, lacks: &[&str]) -> Vec<TestResult> {
    let without: Vec<String> = lacks.iter().map(|&feature| feature.to_owned()).collect();
    let words = if lacks.len() > 2 { "" } else { "test=hostile" };
    let mut results = collect(name, |results| {
        let mem = MemorySize { mib: 1536 };
        let machine = MachineOptions { mem, without: without.clone(), ..MachineOptions::default() };
        native::boot(context, name, "boot/programs/captest", words, machine, results)
    });
    for (program, cores) in PROGRAMS {
        let test = format!("{name}/{program}");
        let outcome = run_program(context, &test, program, cores, &without);
        results.push(TestResult {
            name: test,
            outcome: outcome.map_err(|error| format!("{error:#}")),
        });
    }
    results
}

/// What the program prints is what it prints on Linux, or what it expects of itself.
fn run_program(
    context: &Context,
    test: &str,
    program: &str,
    cores: u32,
    without: &[String],
) -> Result<()> {
    linux::expect_named(context, test, program, |directives| {
        directives.cores = Some(cores);
        directives.without = without.to_vec();
    })
}
