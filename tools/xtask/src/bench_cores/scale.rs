//! Threads of one process on 1, 4 and 8 cores, one on each, with the same work for each: how much more is done?
//!
//! As in [`load`](super::load) the cores take turns and the kernel counts what time passes. With as many threads as
//! cores, a part that shares nothing takes as long as on one core, and its speed-up is the number of cores.

use super::load::{Load, Ran, WHOLE};
use super::Lab;
use crate::compare::table::Table;
use crate::image::Addition;
use crate::program::Invocation;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::GuestRun;
use crate::testing::linux::compile;
use anyhow::{ensure, Result};
use std::fs;

/// Cores of the machines; the first is what the others are compared with.
const MACHINES: [u32; 3] = [1, 4, 8];
/// How often each thread does what costs least.
const OPERATIONS: u32 = 4096;
/// What threads do without waiting for each other, and how many times as much 4 of them do as one at least: who plants a lock that all take
/// is found. (Threads that compute do 3.8 times as much.)
const APART: [(&str, f64); 10] = [
    ("computing", 3.6),
    ("getppid", 3.3),
    ("clock_gettime", 3.3),
    ("sigprocmask", 3.3),
    ("lseek", 3.3),
    ("pread", 2.8),
    ("read", 3.2),
    ("futex_wake", 3.3),
    ("futex_mismatch", 3.3),
    ("mmap_munmap", 3.5),
];
const PROGRAM: &str = "guest/bench/cores/threads.c";

pub(super) fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let project = &lab.context.project;
    let folder = project.state().join("micro");
    fs::create_dir_all(&folder)?;
    let program = folder.join("threads");
    setup::c_compiler()?;
    compile(&project.path(PROGRAM), &program, "gcc")?;
    let mut machines: Vec<(u32, Ran)> = Vec::new();
    for cores in MACHINES {
        let words = ["/root/threads".into(), cores.to_string(), OPERATIONS.to_string()];
        let run = GuestRun {
            test: format!("bench/scale-{cores}"),
            invocation: Invocation::new(words.to_vec(), &[])?,
            additions: vec![Addition { host: program.clone(), guest: "/root/threads".into() }],
            stdin: Vec::new(),
            machine: Load::machine(cores),
            timeout: lab.timeout,
            command_line: String::new(),
        };
        let observed = run.run(lab.context)?;
        let output = String::from_utf8_lossy(&observed.stdout);
        ensure!(observed.status(false)? == 0, "it failed on {cores} cores: {output}");
        machines.push((cores, Ran::read(&output)?));
    }
    let mut table = Table::new(
        [
            "threads of a process",
            "cores",
            "time",
            "speed-up",
            "executed, by 1 core",
            "busy, % of each",
            "waited while one idle, %",
            "waits",
            "sleeps",
            "visits",
        ]
        .map(String::from)
        .to_vec(),
    );
    let mut all = Vec::new();
    for (part, alone) in &machines[0].1.parts {
        if part == WHOLE {
            continue;
        }
        for (cores, ran) in &machines {
            let counts = ran.part(part)?;
            let speed_up = f64::from(*cores) * alone.span() / counts.span();
            let executed = counts.sum("busy_time") / alone.sum("busy_time") / f64::from(*cores);
            let busy: Vec<_> = counts.busy().iter().map(|share| format!("{share:.0}")).collect();
            table.row(vec![
                part.clone(),
                cores.to_string(),
                grouped(counts.span()),
                format!("{speed_up:.2}"),
                format!("{executed:.2}"),
                busy.join(" "),
                format!("{:.0}", counts.starved()),
                grouped(counts.sum("lock_waits")),
                grouped(counts.sum("lock_sleeps")),
                grouped(counts.sum("visits")),
            ]);
            let defaults = Defaults {
                benchmark: "scale".into(),
                clock: Clock::Instructions,
                system: System::Tessera,
                provenance: Provenance::emulated(project, &Load::machine(*cores), false),
            };
            for text in [
                format!("threads:_{part} {:.0} at={cores}:cores", counts.span()),
                format!(
                    "threads:_{part},_waits {:.0} at={cores}:cores unit=waits",
                    counts.sum("lock_waits")
                ),
            ] {
                all.push(line::parse(&text.split(' ').collect::<Vec<_>>(), &defaults)?);
            }
        }
    }
    println!("{}", table.render());
    for (part, least) in APART {
        let [alone, four] = [&machines[0].1, &machines[1].1].map(|ran| ran.part(part));
        let speed_up = 4.0 * alone?.span() / four?.span();
        ensure!(speed_up >= least, "{part}: {speed_up:.2} times as much on 4 cores, not {least}");
    }
    Ok(all)
}
