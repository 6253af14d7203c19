//! Machines with many cores: that all of them start, what the first domain of each gets, and how a
//! machine ends from any of them.
//!
//! `guest/tests/coretest` boots in place of `init` and of the monitors.

use super::guest::{GuestRun, Observed};
use super::linux;
use super::model::number;
use super::native::{collect, read_results};
use super::{Case, Context, TestResult};
use crate::bench_cores::load::{self, Load, Order, Ran};
use crate::emulator::End;
use crate::machine::{parse_size, Homes, MachineOptions};
use crate::program::Invocation;
use anyhow::{bail, ensure, Result};
use std::fs;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(600);
/// Of races, and of those that are asked for by name.
const RACE_TIMEOUT: Duration = Duration::from_secs(600);
const LONG_RACE_TIMEOUT: Duration = Duration::from_secs(3600);
const PROGRAM: &str = "boot/programs/coretest";

/// A machine.
#[derive(Clone, Copy)]
struct Machine {
    cores: u32,
    nodes: u32,
    mem: &'static str,
    la57: bool,
}

const fn machine(cores: u32, mem: &'static str) -> Machine {
    Machine { cores, nodes: 1, mem, la57: false }
}

const FOUR: Machine = machine(4, "512M");

/// Those on which every core must come.
const MACHINES: [(&str, Machine); 8] = [
    ("one", machine(1, "512M")),
    ("two", machine(2, "512M")),
    ("four", FOUR),
    ("four+la57", Machine { la57: true, ..FOUR }),
    ("many", machine(64, "4G")),
    ("two-nodes", Machine { nodes: 2, ..machine(4, "1G") }),
    ("uneven-nodes", Machine { nodes: 3, ..machine(7, "1G") }),
    ("many-nodes", Machine { nodes: 8, ..machine(64, "4G") }),
];

/// Those on which pages are taken away, and in how many rounds.
const RACES: [(&str, Machine, u64); 2] =
    [("cores/shootdown", FOUR, 200), ("cores/shootdown-8", machine(8, "512M"), 40)];
/// Those on which morsels are used by all cores at once, likewise.
const MORSEL_RACES: [(&str, Machine, u64); 2] =
    [("morsel/race", FOUR, 60), ("morsel/race-8", machine(8, "512M"), 20)];
/// What `captest` calls them.
const MORSEL_TESTS: [&str; 3] =
    ["morsel_race_for_pages", "morsel_race_with_taking", "morsel_race_with_limits"];
/// Rounds when these are asked for by name; `TESSERA_SEED` and `TESSERA_OPS` choose others.
const LONG_RACE: u64 = 3000;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = MACHINES
        .iter()
        .map(|&(name, machine)| {
            let name = format!("cores/{name}");
            Case::several(name.clone(), move |context| all_come(context, &name, machine))
        })
        .collect();
    cases.push(Case::single("cores/little-memory".into(), little_memory));
    cases.push(Case::several("cores/memory-server".into(), memory_server));
    for (name, machine, rounds) in RACES {
        cases.push(Case::several(name.into(), move |context| {
            shootdown(context, name, machine, rounds)
        }));
    }
    for (name, machine, rounds) in MORSEL_RACES {
        cases.push(Case::several(name.into(), move |context| {
            morsel_race(context, name, machine, rounds)
        }));
    }
    cases.push(Case::single("cores/no-shootdown".into(), no_shootdown));
    cases.push(Case::single("cores/no-shootdown-linux".into(), no_shootdown_linux));
    cases.push(Case::single("cores/kept-busy".into(), kept_busy));
    cases.push(Case::single("cores/hostile-requests".into(), hostile_requests));
    for core in [0, 2] {
        let name = format!("cores/panic-{core}");
        cases.push(Case::single(name.clone(), move |context| panic(context, &name, core)));
        let name = format!("cores/shutdown-{core}");
        cases.push(Case::single(name.clone(), move |context| shutdown(context, &name, core)));
    }
    cases
}

/// Boots [`PROGRAM`] on every core.
fn boot(context: &Context, name: &str, machine: Machine, words: &str) -> Result<Observed> {
    boot_program(context, name, machine, PROGRAM, &format!("monitor={PROGRAM} {words}"))
}

fn boot_program(
    context: &Context,
    name: &str,
    machine: Machine,
    program: &str,
    words: &str,
) -> Result<Observed> {
    boot_for(TIMEOUT, context, name, machine, program, words)
}

fn boot_for(
    timeout: Duration,
    context: &Context,
    name: &str,
    machine: Machine,
    program: &str,
    words: &str,
) -> Result<Observed> {
    let Machine { cores, nodes, mem, la57 } = machine;
    let mem = parse_size(mem)?;
    let run = GuestRun {
        test: name.to_owned(),
        invocation: Invocation::new(vec![program.to_owned()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: MachineOptions { cores, nodes, mem, la57, ..MachineOptions::default() },
        timeout,
        command_line: format!("init={program} {words}"),
    };
    run.run(context)
}

/// All lines of the kernel's log.
fn log_of(context: &Context, name: &str) -> Result<Vec<String>> {
    let file = context.project.state().join("logs").join(format!("{}.log", name.replace('/', "-")));
    let text = String::from_utf8_lossy(&fs::read(file)?).into_owned();
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

fn all_come(context: &Context, name: &str, machine: Machine) -> Vec<TestResult> {
    collect(name, |results| {
        let Machine { cores, nodes, .. } = machine;
        let words = format!("expect-cores={cores} expect-nodes={nodes}");
        read_results(context, name, &boot(context, name, machine, &words)?, results)?;
        let said = format!("{cores} of {cores} cores are online");
        ensure!(cores == 1 || log_of(context, name)?.contains(&said), "no line {said:?}");
        ensure!(results.len() > if cores == 1 { 1 } else { 6 }, "parts are missing");
        Ok(())
    })
}

/// The memory server gives memory of the node that is wished for.
fn memory_server(context: &Context) -> Vec<TestResult> {
    let name = "cores/memory-server";
    collect(name, |results| {
        let machine = Machine { nodes: 3, ..machine(6, "1G") };
        let observed = boot_program(context, name, machine, "boot/programs/memtest", "")?;
        read_results(context, name, &observed, results)
    })
}

/// Pages go while programs on other cores use them: `guest/tests/captest/src/race.rs`.
fn race(context: &Context, name: &str, machine: Machine, words: &str) -> Result<Vec<TestResult>> {
    race_of(context, name, machine, &format!("test=race_with_other_cores {words}"), 1)
}

/// Some tests of `captest`, of which so many are chosen.
fn race_of(
    context: &Context,
    name: &str,
    machine: Machine,
    words: &str,
    tests: usize,
) -> Result<Vec<TestResult>> {
    let mut results = Vec::new();
    let timeout = if context.filter == name { LONG_RACE_TIMEOUT } else { RACE_TIMEOUT };
    let observed = boot_for(timeout, context, name, machine, "boot/programs/captest", words)?;
    let ended = read_results(context, name, &observed, &mut results);
    ensure!(results.len() == tests, "not all results: {ended:?}");
    Ok(results)
}

/// Pages of morsels come and go on all cores at once: `guest/tests/captest/src/morsel_race.rs`.
fn morsel_race(context: &Context, name: &str, machine: Machine, rounds: u64) -> Vec<TestResult> {
    collect(name, |results| {
        let words = rounds_and_seed(context, name, rounds)?;
        let words = format!("test=morsel_race {words}");
        results.extend(race_of(context, name, machine, &words, MORSEL_TESTS.len())?);
        Ok(())
    })
}

/// The words for so many rounds, unless others are asked for.
fn rounds_and_seed(context: &Context, name: &str, rounds: u64) -> Result<String> {
    let rounds = if context.filter == name { LONG_RACE } else { rounds };
    let rounds = number("TESSERA_OPS")?.unwrap_or(rounds);
    let seed = number("TESSERA_SEED")?.unwrap_or(1);
    Ok(format!("rounds={rounds} seed={seed}"))
}

fn shootdown(context: &Context, name: &str, machine: Machine, rounds: u64) -> Vec<TestResult> {
    collect(name, |results| {
        let words = rounds_and_seed(context, name, rounds)?;
        results.extend(race(context, name, machine, &words)?);
        Ok(())
    })
}

/// The same fails if no other core is asked to forget anything.
fn no_shootdown(context: &Context) -> Result<()> {
    let results = race(context, "cores/no-shootdown", FOUR, "rounds=200 tlb=unsafe-local")?;
    let outcome = results.first().map(|result| &result.outcome);
    ensure!(matches!(outcome, Some(Err(remark)) if remark.contains("wrong == 0")), "{outcome:?}");
    Ok(())
}

/// A Linux program finds it too, in ways that take no memory away: what others would write to in
/// vain must not be anybody else's.
fn no_shootdown_linux(context: &Context) -> Result<()> {
    /// `mprotect`, `mremap`.
    const WAYS: &str = "0x106";
    let observed = linux::run_named(context, "cores/no-shootdown-linux", "race", |directives| {
        directives.arguments = ["60", "1", WAYS].map(String::from).into();
        directives.command_line = "tlb=unsafe-local".into();
    })?;
    let output = String::from_utf8_lossy(&observed.stdout);
    ensure!(observed.status(context.verbose)? == 1, "it did not fail: {output}");
    ensure!(output.starts_with("WRONG: a"), "it failed otherwise: {output}");
    Ok(())
}

/// A hostile user's requests while others of it run on other cores.
fn hostile_requests(context: &Context) -> Result<()> {
    linux::expect_named(context, "cores/hostile-requests", "fuzz_requests", |directives| {
        directives.cores = Some(4);
    })
}

/// Processes, pipelines and threads keep four cores busy. The cores take turns and count instructions, so
/// that every run is the same; and what is demanded is not there if all may only run on one of them.
fn kept_busy(context: &Context) -> Result<()> {
    let load = Load::prepare(&context.project)?;
    let run = |name: &str, words: &[&str]| {
        let test = format!("cores/{name}");
        load.run(
            context,
            Order { test, cores: 4, homes: Homes::One, words, objects: 6, timeout: TIMEOUT },
        )
    };
    let together = run("kept-busy", &[])?;
    ensure_busy(&together)?;
    let on_one = run("not-kept-busy", &["taskset", "1"])?;
    ensure!(ensure_busy(&on_one).is_err(), "they count as busy though only one may be used");
    ensure!(together.said == on_one.said, "{:?} and {:?}", together.said, on_one.said);
    Ok(())
}

/// What good use of all cores is, in percent of the time.
fn ensure_busy(ran: &Ran) -> Result<()> {
    /// In which each core has something to do, and in which all of them have.
    const LEAST: [(&str, f64, f64); 2] = [("objects", 40.0, 25.0), ("threads", 60.0, 50.0)];
    /// In which somebody waits although a core is idle.
    const MOST: f64 = 35.0;
    for (part, each, all) in LEAST {
        let counts = ran.part(part)?;
        let (busy, full) = (counts.busy(), counts.full());
        ensure!(busy.iter().all(|&share| share >= each), "{part}: busy are {busy:.0?} %");
        ensure!(full >= all, "{part}: all were busy for {full:.0} %");
    }
    let starved = ran.part(load::WHOLE)?.starved();
    ensure!(starved <= MOST, "somebody waited while a core was idle for {starved:.0} %");
    Ok(())
}

/// With too little memory for all, the boot core has it, and the others just wait for work.
fn little_memory(context: &Context) -> Result<()> {
    let name = "cores/little-memory";
    let observed = boot(context, name, machine(16, "128M"), "expect-cores=16")?;
    observed.expect(0, None, context.verbose)?;
    let tests = observed.finished.records.iter().filter_map(|record| record.test());
    let passed: Vec<_> = tests.filter(|(_, ok, _)| *ok).map(|(part, ..)| part).collect();
    ensure!(passed == ["nodes", "boot-core"], "these passed: {passed:?}");
    Ok(())
}

/// The report of a panic is one, whole, and names the core.
fn panic(context: &Context, name: &str, core: u32) -> Result<()> {
    let observed = boot(context, name, FOUR, &format!("panic={core}"))?;
    if observed.finished.end != End::Panic {
        bail!("it ended so: {:?}", observed.finished.end);
    }
    let log = log_of(context, name)?;
    let count = |start: &str| log.iter().filter(|line| line.starts_with(start)).count();
    ensure!(count("kernel panic: ") == 1 && count("@backtrace") == 1, "not one report: {log:#?}");
    ensure!(count(&format!("  core {core}, idle")) == 1, "another core: {log:#?}");
    Ok(())
}

/// A core ends the machine while all cores write to the log: every line arrives whole, the last one
/// too.
fn shutdown(context: &Context, name: &str, core: u32) -> Result<()> {
    boot(context, name, FOUR, &format!("shutdown={core}"))?.expect(0, None, context.verbose)?;
    let log = log_of(context, name)?;
    let noise = log.iter().filter(|line| line.contains("noise") || line.contains("whole"));
    let mut heard = [0; 4];
    for line in noise {
        let words: Vec<_> = line.split(' ').collect();
        let ["noise", "of", "core", number, "line", _, "of", "which", "every", "one", "must", "arrive", "whole:", "end"] =
            words[..]
        else {
            bail!("a broken line: {line:?}");
        };
        let number: usize = number.trim_end_matches(',').parse()?;
        *heard.get_mut(number).ok_or_else(|| anyhow::anyhow!("core {number}?"))? += 1;
    }
    ensure!(heard.iter().all(|&lines| lines > 0), "lines of each core: {heard:?}");
    // The others may write a few until the core has told the kernel what it has said.
    let exit = log.iter().rposition(|line| line == "@exit 0");
    ensure!(exit.is_some_and(|at| log.len() - at < 100), "the status is line {exit:?}");
    Ok(())
}
