//! Threads of one process on 1, 4 and 8 cores, one on each, with the same work for each: how much more is done? And executed processes, all
//! at home on one core, and at homes that were chosen by load.
//!
//! As in [`load`](super::load) the cores take turns and the kernel counts what time passes. With as many threads as
//! cores, a part that shares nothing takes as long as on one core, and its speed-up is the number of cores.

use super::load::{suffix, Load, Ran, WHOLE};
use super::Lab;
use crate::compare::table::Table;
use crate::image::Addition;
use crate::machine::{Homes, MachineOptions};
use crate::program::Invocation;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::GuestRun;
use crate::testing::linux::compile;
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;

/// Cores of the machines; the first is what the others are compared with.
const MACHINES: [u32; 3] = [1, 4, 8];
/// The same for processes that were executed.
const EXECUTED: [u32; 2] = [1, 4];
/// How often each thread does what costs least.
const OPERATIONS: u32 = 4096;
/// What threads do without waiting for each other, and how many times as much 4 of them do as one at least: who plants a lock that all take
/// is found. (Threads that compute do 3.8 times as much.)
const APART: [(&str, f64); 12] = [
    ("computing", 3.6),
    ("getppid", 3.3),
    ("clock_gettime", 3.3),
    ("sigprocmask", 3.3),
    ("lseek", 3.3),
    ("pread", 2.8),
    ("read", 3.2),
    ("futex_wake", 3.3),
    ("futex_mismatch", 3.3),
    ("faults_of_small", 3.5),
    ("mmap_munmap", 3.5),
    ("mprotect", 2.6),
];
/// What executed processes do at homes that were chosen by load, and do not at one home.
const APART_AT_HOMES: [(&str, f64); 2] = [("faults_of_arenas", 3.0), ("mprotect", 3.0)];
const PROGRAM: &str = "guest/bench/cores/threads.c";

pub(super) fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let project = &lab.context.project;
    let folder = project.state().join("micro");
    fs::create_dir_all(&folder)?;
    let program = folder.join("threads");
    setup::c_compiler()?;
    compile(&project.path(PROGRAM), &program, "gcc")?;
    let mut all = Vec::new();
    let threads = Kind { who: "threads", words: &[], homes: Homes::One };
    let machines = run(lab, &program, &threads, &MACHINES)?;
    report(lab, &threads, &machines, &mut all)?;
    for (part, least) in APART {
        ensure_speed_up(&machines[0].1, &machines[1].1, part, least)?;
    }
    let words = &["all", "processes"];
    let mut kept = None;
    for homes in [Homes::One, Homes::Load] {
        let processes = Kind { who: "processes", words, homes };
        // On one core there is nothing to choose.
        let machines = match kept.take() {
            None => run(lab, &program, &processes, &EXECUTED)?,
            Some(alone) => {
                let mut machines = vec![alone];
                machines.extend(run(lab, &program, &processes, &EXECUTED[1..])?);
                machines
            }
        };
        report(lab, &processes, &machines, &mut all)?;
        if homes != Homes::One {
            for (part, least) in APART_AT_HOMES {
                ensure_speed_up(&machines[0].1, &machines[1].1, part, least)?;
            }
        }
        kept = machines.into_iter().next();
    }
    Ok(all)
}

/// Who does the work.
struct Kind {
    who: &'static str,
    /// Further words of the program.
    words: &'static [&'static str],
    homes: Homes,
}

fn run(lab: &Lab, program: &Path, kind: &Kind, machines: &[u32]) -> Result<Vec<(u32, Ran)>> {
    let mut ran = Vec::new();
    for &cores in machines {
        let mut words = vec!["/root/threads".into(), cores.to_string(), OPERATIONS.to_string()];
        words.extend(kind.words.iter().map(|word| word.to_string()));
        let run = GuestRun {
            test: format!("bench/scale-{}-{cores}{}", kind.who, suffix(kind.homes)),
            invocation: Invocation::new(words, &[])?,
            additions: vec![Addition { host: program.to_owned(), guest: "/root/threads".into() }],
            stdin: Vec::new(),
            machine: MachineOptions { homes: kind.homes, ..Load::machine(cores) },
            timeout: lab.timeout,
            command_line: String::new(),
        };
        let observed = run.run(lab.context)?;
        let output = String::from_utf8_lossy(&observed.stdout);
        ensure!(observed.status(false)? == 0, "it failed on {cores} cores: {output}");
        ran.push((cores, Ran::read(&output)?));
    }
    Ok(ran)
}

/// How many times as much is done on four cores.
fn ensure_speed_up(alone: &Ran, four: &Ran, part: &str, least: f64) -> Result<()> {
    let speed_up = 4.0 * alone.part(part)?.span() / four.part(part)?.span();
    ensure!(speed_up >= least, "{part}: {speed_up:.2} times as much on 4 cores, not {least}");
    Ok(())
}

/// Prints a table, and adds to the measurements.
fn report(
    lab: &Lab,
    kind: &Kind,
    machines: &[(u32, Ran)],
    all: &mut Vec<Measurement>,
) -> Result<()> {
    let project = &lab.context.project;
    let Kind { who, homes, .. } = kind;
    let end = suffix(*homes);
    let title = match (*who, homes) {
        ("threads", _) => "threads of a process".to_owned(),
        (_, Homes::One) => "processes, one home".to_owned(),
        (_, homes) => format!("processes, homes by {homes}"),
    };
    let mut table = Table::new(
        [
            &title,
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
    for (part, alone) in &machines[0].1.parts {
        if part == WHOLE {
            continue;
        }
        for (cores, ran) in machines {
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
                format!("{who}:_{part}{end} {:.0} at={cores}:cores", counts.span()),
                format!(
                    "{who}:_{part},_waits{end} {:.0} at={cores}:cores unit=waits",
                    counts.sum("lock_waits")
                ),
            ] {
                all.push(line::parse(&text.split(' ').collect::<Vec<_>>(), &defaults)?);
            }
        }
    }
    println!("{}", table.render());
    Ok(())
}
