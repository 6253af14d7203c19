//! Where the instructions of a remote operation go: on which core, and for what, from a function trace
//! of a machine on which the same is measured.
//!
//! The cores of the emulator take turns, so their traces have one clock, and each piece of it belongs to
//! one core. What is traced has no probes in it: their cost was taken off. What it differs by from the
//! measurement without probes is said, and whatever cannot be given to one core.

use super::{Lab, Run};
use crate::bench::prepare_traced;
use crate::compare::table::Table;
use crate::log::Record;
use crate::results::{grouped, line};
use crate::testing::guest::Extras;
use crate::tracing::{self, Memory};
use ::trace::dump::{Dump, Function};
use ::trace::timeline::{CallId, Name, Piece, Runs, Timeline};
use anyhow::{ensure, Result};
use std::collections::HashMap;

/// Bytes of each core's trace.
const BUFFER: u64 = 96 << 20;

/// What cores do for an operation.
const PARTS: [&str; PARTS_COUNT] = [
    // The library of whoever invokes.
    "invoker",
    // What the kernel does for it: the attempt, the redirection, the way back.
    "its kernel",
    // The protocol, in user mode.
    "monitors",
    // Rings and boards, in user mode.
    "messages",
    // Invocations of monitors that change or ask the capabilities of their core.
    "steps of CPU drivers",
    // Everything else that kernels do: doorbells, interrupts, scheduling, messages on one core.
    "waiting, waking",
    // Of one core or another.
    "turns",
];
const PARTS_COUNT: usize = 7;
const INVOKER: usize = 0;
const ITS_KERNEL: usize = 1;
const MONITORS: usize = 2;
const MESSAGES: usize = 3;
const STEPS: usize = 4;
const WAITING: usize = 5;
const TURNS: usize = 6;

/// Instructions by part.
type Parts = [f64; PARTS_COUNT];

/// When an operation was measured, on the clock of the time-stamp counter.
struct Window {
    case: String,
    others: u32,
    from: u64,
    to: u64,
    /// So many in a row.
    count: u64,
}

impl Window {
    /// Of `@window CASE OTHERS FROM TO COUNT`.
    fn of(record: &Record) -> Option<Window> {
        let [case, others, from, to, count] = record.words.as_slice() else { return None };
        (record.kind == "window").then_some(Window {
            case: line::spaced(case),
            others: others.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            count: count.parse().ok()?,
        })
    }

    /// Instructions of a piece of time that are in it. The cost of the probes is half before and half
    /// after what they stand at.
    fn part(&self, piece: &Piece) -> u64 {
        match (piece.from >= self.from, piece.to <= self.to) {
            (true, true) => piece.passed(),
            _ => (piece.to.min(self.to).saturating_sub(piece.from.max(self.from)))
                .saturating_sub(piece.cost / 2),
        }
    }
}

/// An operation.
pub struct Traced {
    pub case: String,
    /// Other cores concerned.
    pub others: u32,
    /// By core.
    cores: Vec<Parts>,
}

/// Boots the program with probes and reads what they have recorded.
pub fn measure(lab: &Lab, run: &Run) -> Result<Vec<Traced>> {
    let (traced, context) = prepare_traced(&lab.context.project)?;
    let memory = Memory::new(&context.project);
    let extras = Extras { memory_file: Some(memory.0.clone()), ..Extras::default() };
    let words = format!("{} trace={BUFFER}", run.words);
    let name = format!("{} traced", run.name());
    let program = lab.measuring(&Run { words: &words, ..*run }, &name);
    let machine = program.machine.clone();
    let said = program.boot_with(&context, extras)?;
    let dump = tracing::collect(&traced, &machine, &memory, &said.records)?;
    let lost: u64 = dump.cores.iter().map(|core| core.lost).sum();
    ensure!(lost == 0, "{lost} events did not fit into the trace");
    let windows = said.records.iter().filter_map(Window::of).collect();
    Ok(read(&dump, windows))
}

fn read(dump: &Dump, mut windows: Vec<Window>) -> Vec<Traced> {
    windows.sort_by_key(|window| window.from);
    let mut spent: HashMap<(usize, usize, Runs), u64> = HashMap::new();
    let timeline = Timeline::watched(dump, &mut |piece| {
        let at = windows.partition_point(|window| window.to <= piece.from);
        if let Some(window) = windows.get(at).filter(|window| window.from < piece.to) {
            *spent.entry((at, piece.core, piece.runs)).or_default() += window.part(&piece);
        }
    });
    let reader = Reader::new(dump, &timeline);
    let none = vec![[0.0; PARTS_COUNT]; dump.cores.len()];
    let traced = |Window { case, others, .. }: &Window| {
        let (case, others) = (case.clone(), *others);
        Traced { case, others, cores: none.clone() }
    };
    let mut all: Vec<Traced> = windows.iter().map(traced).collect();
    for ((at, core, runs), time) in spent {
        all[at].cores[core][reader.part(runs)] += time as f64 / windows[at].count as f64;
    }
    all
}

/// Number of the kernel's image.
const KERNEL: u32 = 0;
/// Source files of the kernel in which the capabilities of its core are changed and asked.
const CAPABILITIES: [&str; 2] = ["kernel/src/cap/", "kernel/src/operations/"];
/// Of these, what every invocation needs.
const ALWAYS: [&str; 2] = ["kernel/src/cap/lookup.rs", "kernel/src/cap/mod.rs"];
/// Source files of a monitor that are about rings.
const RINGS: [&str; 2] = ["crates/protocol/ump/", "servers/monitor/src/peers.rs"];

/// Knows what a piece of time was for.
struct Reader<'a> {
    dump: &'a Dump,
    timeline: &'a Timeline,
    /// For each call of the kernel, the outermost that it is in.
    outermost: Vec<CallId>,
    /// Does a call, or one that it makes, change or ask capabilities?
    steps: Vec<bool>,
}

impl<'a> Reader<'a> {
    fn new(dump: &'a Dump, timeline: &'a Timeline) -> Reader<'a> {
        let calls = &timeline.calls;
        let mut reader =
            Reader { dump, timeline, outermost: Vec::new(), steps: vec![false; calls.len()] };
        for (id, call) in calls.iter().enumerate() {
            let outer = call.parent.filter(|&parent| reader.is_kernel(parent));
            reader.outermost.push(outer.map_or(id, |parent| reader.outermost[parent]));
            let is_step = reader.is_kernel(id) && reader.is_about_capabilities(id);
            let outermost = reader.outermost[id];
            reader.steps[outermost] |= is_step;
        }
        reader
    }

    fn function(&self, call: CallId) -> Option<&'a Function> {
        match self.timeline.calls[call].name {
            Name::Function(number) => self.dump.functions.get(&number),
            Name::Episode(_) => None,
        }
    }

    fn is_kernel(&self, call: CallId) -> bool {
        self.function(call).is_some_and(|function| function.image == KERNEL)
    }

    fn is_about_capabilities(&self, call: CallId) -> bool {
        let file = self.function(call).map_or("", |function| function.file.as_str());
        CAPABILITIES.iter().any(|folder| file.starts_with(folder)) && !ALWAYS.contains(&file)
    }

    /// The program of a dispatcher.
    fn image(&self, dispatcher: Option<usize>) -> &'a str {
        let image = dispatcher.and_then(|id| self.timeline.dispatchers[id].image);
        image.map_or("", |image| &self.dump.images[image as usize])
    }

    fn part(&self, runs: Runs) -> usize {
        let call = match runs {
            Runs::Call(call) => call,
            Runs::Program(_) => return INVOKER,
            Runs::Nothing => return WAITING,
            Runs::Turn => return TURNS,
        };
        let image = self.image(self.timeline.calls[call].dispatcher);
        match (self.is_kernel(call), image) {
            (true, super::remote::PROGRAM) => ITS_KERNEL,
            (true, MONITOR) if self.steps[self.outermost[call]] => STEPS,
            (true, _) => WAITING,
            (false, MONITOR) => {
                let file = self.function(call).map_or("", |function| function.file.as_str());
                if RINGS.iter().any(|rings| file.starts_with(rings)) {
                    MESSAGES
                } else {
                    MONITORS
                }
            }
            (false, _) => INVOKER,
        }
    }
}

/// The image of monitors.
const MONITOR: &str = "monitor";

fn sum<'a>(all: impl IntoIterator<Item = &'a Parts>) -> Parts {
    let mut sum = [0.0; PARTS_COUNT];
    for parts in all {
        sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    sum
}

/// The parts on each core, their sum, what was measured without probes, and what the paper says. `measured`
/// and `paper` answer that for a case and a number of other cores.
pub fn table(
    all: &[Traced],
    others: u32,
    measured: impl Fn(&str, u32) -> Option<f64>,
    paper: impl Fn(&str) -> &'static str,
) -> Table {
    let mut words = vec![format!("traced, {others} other{}", if others == 1 { "" } else { "s" })];
    words.extend(PARTS.map(String::from));
    words.extend(["all", "measured", "rest", "G18, figures and cycles"].map(String::from));
    let mut table = Table::new(words);
    for one in all.iter().filter(|one| one.others == others) {
        let Some(whole) = measured(&one.case, others) else { continue };
        let (concerned, idle) = one.cores.split_at((others as usize + 1).min(one.cores.len()));
        let row = |name: String, parts: &Parts| {
            let mut row = vec![name];
            row.extend(
                parts.iter().chain([&parts.iter().sum::<f64>()]).map(|part| grouped(part.round())),
            );
            row
        };
        let mut last = row(one.case.clone(), &sum(&one.cores));
        let rest = whole - sum(&one.cores).iter().sum::<f64>();
        last.extend([grouped(whole), grouped(rest.round()), paper(&one.case).to_owned()]);
        table.row(last);
        table.row(row("  core 0".into(), &concerned[0]));
        let mean = sum(&concerned[1..]).map(|part| part / f64::from(others.max(1)));
        if others > 0 {
            let name = if others == 1 {
                "  core 1".into()
            } else {
                format!("  each of cores 1 to {others}")
            };
            table.row(row(name, &mean));
        }
        table.row(row("  all that are not concerned".into(), &sum(idle)));
    }
    table
}
