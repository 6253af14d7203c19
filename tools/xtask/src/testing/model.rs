//! Random operations in the running kernel, compared after every step with the model of the rules in
//! `crates/model/capmodel`.
//!
//! `./x test` runs some; `./x test caps` and `./x test memory` a million each. `TESSERA_SEED` and
//! `TESSERA_OPS` choose others; `TESSERA_CAUTIOUS=1` looks at everything after every step, which says
//! more precisely what an operation has broken, and takes long.

use super::guest::{Extras, GuestRun};
use super::lockstep::{Mailbox, Memory};
use super::{Case, Context};
use crate::machine::{MachineOptions, MemorySize};
use crate::nvdimm;
use crate::program::Invocation;
use anyhow::{bail, ensure, Context as _, Result};
use capmodel::compare::Histogram;
use capmodel::{Comparison, Failure, Plan, Profile};
use lockstep::{Facts, EXECUTORS};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The suite.
pub const SUITE: &str = "model/";
/// Random operations when all tests run, and when this one is asked for.
const SOME: u64 = 50_000;
const ALL: u64 = 1_000_000;
/// The usual seed.
const SEED: u64 = 0x7e55_e7a5_eed0_0001;
/// Persistent memory: two large pages.
const PERSISTENT: &str = "4M";
const TIMEOUT: Duration = Duration::from_secs(3600);

/// `caps` and `memory` are names of tests, though other tests' names contain them.
pub fn full_name(filter: &str) -> &str {
    match filter {
        "caps" => "model/caps",
        "memory" => "model/memory",
        other => other,
    }
}

/// Two sequences of operations, and a proof that differences are seen.
pub fn cases(filter: &str) -> Vec<Case> {
    let all = [Setting::CAPS, Setting::MEMORY].into_iter().map(|setting| {
        let asked_for = filter.trim_start_matches(SUITE) == setting.name;
        let count = if asked_for { ALL } else { SOME };
        Case::single(format!("{SUITE}{}", setting.name), move |context| {
            compare(context, setting, number("TESSERA_OPS")?.unwrap_or(count), None)
        })
    });
    let proof = Case::single(format!("{SUITE}falsified"), falsified);
    all.chain([proof]).collect()
}

/// A machine and what is done in it.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    profile: Profile,
    mib: u64,
    /// Physical address of the mailbox, with 64 MiB of unused RAM behind.
    mailbox: u64,
    /// Physical address and bytes of the large Frame.
    big: (u64, u64),
}

impl Setting {
    const CAPS: Setting = Setting {
        name: "caps",
        profile: Profile::Caps,
        mib: 512,
        mailbox: 0x800_0000,
        big: (0xc00_0000, 16 << 20),
    };
    /// With a page of 1 GiB.
    const MEMORY: Setting = Setting {
        name: "memory",
        profile: Profile::Memory,
        mib: 2304,
        mailbox: 0x8000_0000,
        big: (0x4000_0000, 1 << 30),
    };
}

/// A number from the environment.
pub fn number(name: &str) -> Result<Option<u64>> {
    let Ok(text) = env::var(name) else { return Ok(None) };
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map(Some).with_context(|| format!("{name}={text} is no number"))
}

/// One boot, driven by the comparison.
fn compare(
    context: &Context,
    setting: Setting,
    operations: u64,
    falsify: Option<u64>,
) -> Result<()> {
    let seed = number("TESSERA_SEED")?.unwrap_or(SEED);
    let mut plan = Plan::new(seed, setting.profile, operations);
    plan.cautious = env::var_os("TESSERA_CAUTIOUS").is_some();
    let (memory, persistent) = (Memory::new()?, Memory::new()?);
    let nvdimm = nvdimm::parse(&format!("{}:{PERSISTENT}", persistent.path().display()))?;
    let (give_up, ended) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let extras = Extras {
        memory_file: Some(memory.path()),
        give_up: Some(give_up.clone()),
        ..Extras::default()
    };
    let (big, bytes) = setting.big;
    let run = GuestRun {
        test: format!("{SUITE}{}", setting.name),
        invocation: Invocation::new(vec!["modeltest".into()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: MachineOptions {
            mem: MemorySize { mib: setting.mib },
            nvdimm: Some(nvdimm),
            ..MachineOptions::default()
        },
        timeout: TIMEOUT,
        command_line: format!(
            "init=boot/programs/modeltest mailbox={:#x} big={big:#x} bigbytes={bytes}",
            setting.mailbox
        ),
    };
    std::thread::scope(|scope| {
        let driver = scope.spawn({
            let ended = ended.clone();
            move || {
                // The machine must not go on alone, whatever happens here.
                let guard = GiveUp(give_up);
                let driven = drive(memory, setting, plan, falsify, ended);
                if driven.is_ok() {
                    std::mem::forget(guard);
                }
                driven
            }
        });
        let observed = run.run_with(context, extras);
        ended.store(true, Ordering::Relaxed);
        let driven = match driver.join() {
            Ok(driven) => driven,
            Err(_) => bail!("the comparison panicked"),
        };
        let report = match driven {
            Ok(report) => report,
            // What the kernel said last may explain it.
            Err(error) => match observed?.status(context.verbose) {
                Err(end) if !format!("{end}").starts_with("took too long") => {
                    return Err(error.context(end))
                }
                _ => return Err(error),
            },
        };
        let status = observed?.status(context.verbose)?;
        ensure!(status == 0, "exit status {status}");
        context.note(&report.summary);
        if context.verbose {
            context.note(&report.histogram);
        }
        Ok(())
    })
}

/// Ends the machine when the one that drives it is gone, if it has not ended in order.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Report {
    summary: String,
    histogram: String,
}

fn drive(
    memory: Memory,
    setting: Setting,
    plan: Plan,
    falsify: Option<u64>,
    ended: Arc<AtomicBool>,
) -> Result<Report> {
    let mut mailbox = Mailbox::open(memory, setting.mailbox, ended)?;
    mailbox.falsify = falsify;
    let facts: Facts = mailbox.facts()?;
    ensure!(facts.executors.len() == EXECUTORS, "the guest has other executors");
    let started = Instant::now();
    let mut comparison = Comparison::begin(plan, mailbox, &facts).map_err(explain)?;
    comparison.run().map_err(explain)?;
    let time = started.elapsed().as_secs_f64();
    let capmodel::compare::Looks { slots, swept, pages, faults, .. } = comparison.looks();
    let summary = format!(
        "seed {:#x}, {} operations, each compared, with {slots} slots, {swept} more in sweeps, \
         {pages} addresses that led to pages and {faults} that faulted: no difference in {time:.0} s",
        plan.seed, plan.operations
    );
    let histogram = table(comparison.histogram());
    comparison.into_link().stop()?;
    Ok(Report { summary, histogram })
}

fn explain(failure: Failure<anyhow::Error>) -> anyhow::Error {
    match failure {
        Failure::Difference(difference) => anyhow::anyhow!("{difference}"),
        Failure::Link(error, steps) => {
            error.context(format!("after these steps:\n{}", steps.join("\n")))
        }
    }
}

/// Operations and how often each answered what.
fn table(histogram: &Histogram) -> String {
    let mut lines = String::new();
    let mut last = "";
    for ((name, status), count) in histogram {
        if name != last {
            lines += &format!("\n  {name:18}");
            last = name;
        }
        let answer = match captypes::Status::from_word(*status) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        lines += &format!(" {answer} {count}");
    }
    lines.trim_start_matches('\n').to_owned()
}

/// A guest that answers one thing wrongly must be found out, at that step.
fn falsified(context: &Context) -> Result<()> {
    const ANSWER: u64 = 5000;
    match compare(context, Setting::CAPS, 2000, Some(ANSWER)) {
        Ok(()) => bail!("a false answer was not noticed"),
        Err(error) if format!("{error:#}").contains("model:") => Ok(()),
        Err(error) => Err(error),
    }
}
