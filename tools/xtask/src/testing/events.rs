//! How long the kernel, which is never preempted, keeps the processor: the instructions of each event
//! under hostile load are counted, and none may take more than is promised.
//!
//! `guest/tests/captest` makes the load: its `load_` tests with tens of thousands of everything, and all its
//! other tests, with what they try beside. The kernel is one that counts (`kernel/src/event_lengths.rs`).

use super::guest::{Extras, GuestRun};
use super::native::{collect, read_results};
use super::{Case, Context, TestResult};
use crate::compile;
use crate::log::Record;
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use crate::toolchain::Variant;
use anyhow::{ensure, Result};
use std::fmt::Write;
use std::time::Duration;

const PROGRAM: &str = "boot/programs/captest";
const TIMEOUT: Duration = Duration::from_secs(900);
/// Most instructions of an event: see `docs/capabilities.md`.
const BOUND: u64 = 170_000;
/// What only trusted domains may invoke, and what is said to be slow.
const SLOW: [&str; 4] = ["CheckInvariants", "CapabilityAt", "HolderAt", "Shutdown"];

/// `all`: everything that captest does, with little load; `load`: much load.
const CASES: [(&str, &str); 2] = [("events/all", ""), ("events/load", "test=load_ scale=20")];

pub fn cases() -> Vec<Case> {
    let case = |(name, words): (&'static str, &'static str)| {
        Case::several(name.to_owned(), move |context| {
            collect(name, |results| run(context, name, words, results))
        })
    };
    CASES.into_iter().map(case).collect()
}

fn run(context: &Context, name: &str, words: &str, results: &mut Vec<TestResult>) -> Result<()> {
    let run = GuestRun {
        test: name.to_owned(),
        invocation: Invocation::new(vec![PROGRAM.to_owned()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: MachineOptions {
            icount: true,
            mem: MemorySize { mib: 1536 },
            ..MachineOptions::default()
        },
        timeout: TIMEOUT,
        command_line: format!("init={PROGRAM} {words}"),
    };
    let kernel = compile::build_kernel(&context.project, Variant::Counted)?;
    let observed = run.run_with(context, Extras { kernel: Some(kernel), ..Extras::default() })?;
    // Of all tests, some need more time than instructions that are counted leave them.
    let whole = match words {
        "" => observed.status(context.verbose).map(drop),
        _ => read_results(context, name, &observed, results),
    };
    let mut events: Vec<_> = observed.finished.records.iter().filter_map(Event::read).collect();
    ensure!(events.len() > 10, "the kernel counted nothing");
    events.sort_by_key(|event| std::cmp::Reverse(event.most));
    context.note(&table(name, &events));
    for event in events.iter().filter(|event| !SLOW.contains(&event.name.as_str())) {
        let Event { name: kind, most, .. } = event;
        let outcome = match *most <= BOUND {
            true => Ok(()),
            false => Err(format!("{most} instructions in one event, {BOUND} are promised")),
        };
        results.push(TestResult { name: format!("{name}/{kind}"), outcome });
    }
    whole
}

/// A kind of event.
struct Event {
    name: String,
    /// How many there were.
    count: u64,
    /// Most instructions of one.
    most: u64,
}

impl Event {
    /// `@event NAME COUNT MOST`
    fn read(record: &Record) -> Option<Event> {
        match (record.kind.as_str(), record.words.as_slice()) {
            ("event", [name, count, most]) => {
                let (count, most) = (count.parse().ok()?, most.parse().ok()?);
                Some(Event { name: name.clone(), count, most })
            }
            _ => None,
        }
    }
}

fn table(name: &str, events: &[Event]) -> String {
    let mut text = format!("{name}: most instructions in one event\n");
    for Event { name, count, most } in events {
        let _ = writeln!(text, "  {name:<20} {most:>10}  of {count}");
    }
    text
}
