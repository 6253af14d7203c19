//! `./x bench`: measurements in the emulator, beside what Linux needed in the same.
//!
//! `mdb` and `amap` run on the host, without an emulator; see [`bench_host`].
//! `basic` is the standard set (`guest/bench/micro`, [`crate::micro`]), `scale` the set that asks what things
//! cost beside much that is idle (`guest/bench/scale`); `caps` is the native program `capbench`, which takes the place of `init` and says in the kernel's log what capability
//! invocations cost; `papers` is [`crate::papers`]. Linux's numbers were left by `./x compare` in `guest/bench/linux.json`; what Tessera
//! aims at is in `guest/bench/aims.tsv`.

use crate::bench_cores;
use crate::bench_group::Lab;
use crate::bench_host::{self, AMAPS, MAPPING_DATABASE};
use crate::bench_mor;
use crate::bench_net;
use crate::bench_roots;
use crate::bench_sfb::{self, SFB};
use crate::bench_sizes::{self, SIZES};
use crate::bench_uvm;
use crate::compare::session::Session;
use crate::compare::table::{ratio, Table};
use crate::compile::{self, Built, Scope};
use crate::image::Base;
use crate::interrupt::OnInterrupt;
use crate::log::Record;
use crate::machine::{Homes, MachineOptions, MemorySize};
use crate::map::MapOption;
use crate::micro::{self, Extent, Program, Set};
use crate::papers;
use crate::program::Invocation;
use crate::progress::Progress;
use crate::project::Project;
use crate::results::change::{changes, Change};
use crate::results::line::{self, Defaults};
use crate::results::{self, grouped, Clock, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::{Extras, GuestRun};
use crate::testing::Context;
use crate::tracing::{self, Traced};
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Measure Tessera and print a table with Linux's figures beside it
///
/// The emulator counts instructions, so the numbers are the same on every host and in every run.
/// Linux's figures are those of an earlier ./x compare.
#[derive(clap::Args, Debug)]
pub struct BenchOptions {
    /// Which benchmarks: basic (Linux's operations) or some of its programs, such as fork; scale (the
    /// same beside much that is idle) or some of its programs; caps (capability invocations); capsize (the same by the number of capabilities); cores (the same on
    /// machines with many cores; a part of it: cores/local, cores/visits, cores/shootdown,
    /// cores/load, cores/scale, cores/remote); mor (pools and morsels; a part of it: mor/f5.1, mor/f5.4, mor/f5.7, mor/snapshot,
    /// mor/recovery, mor/allocator); roots (the start by the size of the root image); uvm (pages that leave memory; a part of it: uvm/policies, uvm/figures, uvm/load);
    /// net (the program of basic, and servers under a load; a part of it: net/memcached, net/listeners, net/web, net/loss, net/sfb); sfb (ephemeral
    /// mappings: pipes, memory disks and PostMark with three kernels); mdb (the mapping database and others, on the host); amap (layouts of amaps, on the host); papers (the
    /// papers' figures and tables); default: all
    names: Vec<String>,
    #[command(flatten)]
    map: MapOption,
    /// Of basic, scale and mor, measure small sizes only: enough to see that the programs work
    #[arg(long)]
    small: bool,
    /// End a benchmark after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Write the results to FILE, one JSON object a line, as they come [default: target/tessera/bench.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with FILE, which an earlier --json wrote: name what changed, and fail if anything got
    /// worse
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// The standard set.
const BASIC: &str = "basic";
/// The scale set.
const SCALE: &str = "scale";
/// The benchmark of capability invocations.
const INVOCATIONS: &str = "caps";
/// The figures and tables of the papers.
const PAPERS: &str = "papers";

pub fn bench(project: &Project, options: &BenchOptions) -> Result<i32> {
    options.map.choose();
    let chosen = choose(project, &options.names)?;
    // Read first: a wrong file is found before all the measuring.
    let before = options.baseline.as_deref().map(results::read).transpose()?;
    let linux = results::read(&project.path("guest/bench/linux.json"))?;
    let aims = Aims::read(project)?;
    let timeout = Duration::from_secs(options.timeout);
    // What takes long is never lost.
    let usual = || (!options.small).then(|| project.state().join("bench.json"));
    let mut kept = Kept::new(options.json.clone().or_else(usual));
    let _on_interrupt = kept.watch()?;
    let extent = if options.small { Extent::Small } else { Extent::Full };
    for (title, programs) in &chosen.programs {
        let measured = measure(project, programs, extent, timeout, &mut kept)?;
        println!("{}", table(title, &measured, &linux, &aims).render());
    }
    let context = match chosen.is_native() {
        true => Some(prepare(project)?),
        false => None,
    };
    if let Some(context) = context.as_ref().filter(|_| chosen.papers) {
        // It prints as it goes.
        eprintln!("x: measuring what the papers measure");
        papers::measure(context, options.timeout, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.invocations) {
        let progress = Progress::new("measuring invocations of capabilities", 0);
        let measured = kept.keep(INVOCATIONS, measure_invocations(context, timeout))?;
        drop(progress);
        println!("{}", table("caps, in instructions", &measured, &[], &aims).render());
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.sizes) {
        eprintln!("x: measuring by the number of capabilities");
        kept.keep(SIZES, bench_sizes::measure(context, timeout))?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.cores) {
        eprintln!("x: measuring machines with many cores");
        let lab = Lab { context, timeout, small: false };
        bench_cores::CORES.measure(&lab, &options.names, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.morsels) {
        eprintln!("x: measuring pools and morsels");
        let lab = Lab { context, timeout, small: options.small };
        bench_mor::MOR.measure(&lab, &options.names, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.roots) {
        eprintln!("x: measuring root images");
        let lab = Lab { context, timeout, small: options.small };
        bench_roots::ROOTS.measure(&lab, &options.names, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.paging) {
        eprintln!("x: measuring pages that leave memory");
        let lab = Lab { context, timeout, small: options.small };
        bench_uvm::UVM.measure(&lab, &options.names, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.net) {
        eprintln!("x: measuring servers that people know");
        let lab = Lab { context, timeout, small: options.small };
        bench_net::NET.measure(&lab, &options.names, &mut kept)?;
    }
    if let Some(context) = context.as_ref().filter(|_| chosen.sfb) {
        eprintln!("x: measuring three kernels with ephemeral mappings");
        bench_sfb::measure(context, timeout, &mut kept)?;
    }
    if chosen.mapping_database {
        eprintln!("x: measuring mapping databases on the host");
        kept.keep(MAPPING_DATABASE, bench_host::measure(project, &[]))?;
    }
    if chosen.amaps {
        eprintln!("x: measuring layouts of amaps on the host");
        kept.keep(AMAPS, bench_host::measure_amaps(project, options.small))?;
    }
    let worse = before.map_or(0, |before| tell(&changes(&before, &kept.all())));
    Ok(if kept.failed { 1 } else { worse })
}

/// What was measured so far. A part that fails does not take the others along, and whoever ends the
/// tool in the middle has what was measured until then.
pub struct Kept {
    all: Arc<Mutex<Vec<Measurement>>>,
    file: Option<PathBuf>,
    failed: bool,
}

impl Kept {
    /// Nothing yet; all of it goes to `file`, too.
    pub fn new(file: Option<PathBuf>) -> Kept {
        Kept { all: Arc::default(), file, failed: false }
    }

    /// All of it.
    fn all(&self) -> Vec<Measurement> {
        self.all.lock().map_or_else(|_| Vec::new(), |all| all.clone())
    }

    /// Whoever ends the tool in the middle is told what was measured so far.
    fn watch(&self) -> Result<OnInterrupt> {
        let (all, file) = (self.all.clone(), self.file.clone());
        OnInterrupt::new(move || {
            let Ok(all) = all.lock() else { return };
            eprintln!("\nx: interrupted; measured so far:");
            for one in all.iter() {
                let value = one.median().map_or("not supported".to_owned(), grouped);
                println!("{}: {value} {}", one.question, one.question.unit);
            }
            if let Some(file) = file {
                eprintln!("x: {} results in {}", all.len(), file.display());
            }
        })
    }

    /// Keeps what a part has measured, or says why it has not; answers what there is. An error if it
    /// cannot be written.
    pub fn keep(
        &mut self,
        part: &str,
        measured: Result<Vec<Measurement>>,
    ) -> Result<Vec<Measurement>> {
        let measured = measured.unwrap_or_else(|error| {
            self.fail(part, &format!("{error:#}"));
            Vec::new()
        });
        let Ok(mut all) = self.all.lock() else { return Ok(measured) };
        all.extend(measured.iter().cloned());
        if let Some(file) = &self.file {
            results::write(file, &all)?;
        }
        drop(all);
        Ok(measured)
    }

    /// Has any part failed?
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// A part has failed.
    fn fail(&mut self, part: &str, why: &str) {
        eprintln!("x: {part}: {why}");
        self.failed = true;
    }
}

/// Prints what changed; the exit status.
fn tell(changes: &[Change]) -> i32 {
    for change in changes {
        println!("{change}");
    }
    let worse = changes.iter().filter(|change| change.worse).count();
    println!("{worse} worse, {} better than the baseline", changes.len() - worse);
    i32::from(worse > 0)
}

/// What is to be measured.
struct Chosen {
    /// Of both sets, with the titles of their tables.
    programs: Vec<(&'static str, Vec<Program>)>,
    invocations: bool,
    papers: bool,
    sizes: bool,
    cores: bool,
    morsels: bool,
    roots: bool,
    paging: bool,
    net: bool,
    sfb: bool,
    mapping_database: bool,
    amaps: bool,
}

impl Chosen {
    /// Is any of it a native program?
    fn is_native(&self) -> bool {
        let sets = self.invocations || self.papers || self.sizes;
        sets || self.cores || self.morsels || self.roots || self.paging || self.net || self.sfb
    }
}

fn choose(project: &Project, names: &[String]) -> Result<Chosen> {
    let is = |name: &str| names.is_empty() || names.iter().any(|own| own == name);
    let groups = [BASIC, SCALE, INVOCATIONS, PAPERS, SIZES, SFB, MAPPING_DATABASE, AMAPS];
    let is_group = |name: &&String| {
        groups.contains(&name.as_str())
            || bench_cores::CORES.has(name)
            || bench_mor::MOR.has(name)
            || bench_roots::ROOTS.has(name)
            || bench_uvm::UVM.has(name)
            || bench_net::NET.has(name)
    };
    // The group has what needs servers, the program of that name the rest.
    let is_single = |name: &&String| !is_group(name) || *name == bench_net::NET.name;
    let single: Vec<String> = names.iter().filter(is_single).cloned().collect();
    let mut programs = Vec::new();
    if is(BASIC) {
        programs.push(("basic, in instructions", micro::all(project, Set::Standard)?));
    }
    if is(SCALE) {
        programs.push(("scale, in instructions or bytes", micro::all(project, Set::Scale)?));
    }
    if !single.is_empty() {
        programs.push(("in instructions or bytes", micro::choose(project, &single)?));
    }
    let (invocations, papers) = (is(INVOCATIONS), is(PAPERS));
    let (sizes, sfb, mapping_database) = (is(SIZES), is(SFB), is(MAPPING_DATABASE));
    let cores = names.is_empty() || names.iter().any(|name| bench_cores::CORES.has(name));
    let morsels = names.is_empty() || names.iter().any(|name| bench_mor::MOR.has(name));
    let roots = names.is_empty() || names.iter().any(|name| bench_roots::ROOTS.has(name));
    let paging = names.is_empty() || names.iter().any(|name| bench_uvm::UVM.has(name));
    let net = names.is_empty() || names.iter().any(|name| bench_net::NET.has(name));
    Ok(Chosen {
        programs,
        invocations,
        papers,
        sizes,
        cores,
        morsels,
        roots,
        paging,
        net,
        sfb,
        mapping_database,
        amaps: is(AMAPS),
    })
}

/// The standard set in small sizes, without a table.
pub fn measure_basic(
    project: &Project,
    timeout: Duration,
    kept: &mut Kept,
) -> Result<Vec<Measurement>> {
    measure(project, &micro::all(project, Set::Standard)?, Extent::Small, timeout, kept)
}

/// What the programs say on Tessera.
fn measure(
    project: &Project,
    programs: &[Program],
    extent: Extent,
    timeout: Duration,
    kept: &mut Kept,
) -> Result<Vec<Measurement>> {
    let session = Session::prepare(project, &counting(), timeout, None)?;
    let mut all = Vec::new();
    let progress = Progress::new("measuring", programs.len() as u64);
    for program in programs {
        progress.at(&program.name);
        let answer = program.run_to(&session, System::Tessera, Clock::Instructions, extent)?;
        if let Some(why) = &answer.failure {
            kept.fail(&program.name, why);
        }
        all.extend(kept.keep(&program.name, Ok(answer.measurements))?);
        progress.advance();
    }
    Ok(all)
}

/// What native programs need.
fn prepare(project: &Project) -> Result<Context> {
    prepare_built(project, compile::build(project, Scope::Everything)?)
}

/// The same with what was built with probes.
pub fn prepare_traced(project: &Project) -> Result<(Traced, Context)> {
    let traced = tracing::build(project, Scope::Everything)?;
    let context = prepare_built(project, traced.built.clone())?;
    Ok((traced, context))
}

fn prepare_built(project: &Project, built: Built) -> Result<Context> {
    setup::qemu()?;
    let base = Base::prepare(project, &built)?;
    Ok(Context {
        project: project.clone(),
        built,
        base,
        verbose: false,
        cores: 1,
        homes: Homes::One,
        filter: String::new(),
        notes: Default::default(),
        started: Instant::now(),
        day: None,
    })
}

/// A native program that is booted in place of `init` to measure instructions.
pub struct Measuring<'a> {
    /// What the measurements belong to.
    pub benchmark: &'a str,
    /// What the run is called in messages and in the names of files.
    pub name: &'a str,
    pub program: &'a str,
    /// Further words of the kernel's command line.
    pub words: &'a str,
    pub machine: MachineOptions,
    pub timeout: Duration,
}

/// What such a program has said.
pub struct Said {
    pub measured: Vec<Measurement>,
    pub records: Vec<Record>,
    pub provenance: Provenance,
}

impl Measuring<'_> {
    /// Boots it. An error if it fails, or measures nothing.
    pub fn boot(self, context: &Context) -> Result<Said> {
        self.boot_with(context, Extras::default())
    }

    /// The same with more.
    pub fn boot_with(self, context: &Context, extras: Extras) -> Result<Said> {
        let Measuring { benchmark, name, program, words, machine, timeout } = self;
        let provenance = Provenance::emulated(&context.project, &machine, false);
        let run = GuestRun {
            test: format!("bench/{name}"),
            invocation: Invocation::new(vec![program.into()], &[])?,
            additions: Vec::new(),
            stdin: Vec::new(),
            machine,
            timeout,
            command_line: format!("init=boot/programs/{program} {words}"),
        };
        let observed = run.run_with(context, Extras { end_at_fault: true, ..extras })?;
        let status = observed.status(false)?;
        ensure!(status == 0, "{name}: exit status {status}");
        let defaults = Defaults {
            benchmark: benchmark.to_owned(),
            clock: Clock::Instructions,
            system: System::Tessera,
            provenance: provenance.clone(),
        };
        let records = observed.finished.records;
        let measured = bench_records(&records, &defaults)?;
        ensure!(!measured.is_empty(), "{name}: nothing was measured");
        Ok(Said { measured, records, provenance })
    }
}

/// What `capbench` says in the log.
pub fn measure_invocations(context: &Context, timeout: Duration) -> Result<Vec<Measurement>> {
    let program = Measuring {
        benchmark: INVOCATIONS,
        name: INVOCATIONS,
        program: "capbench",
        words: "",
        machine: counting(),
        timeout,
    };
    Ok(program.boot(context)?.measured)
}

/// The measurements in `@bench …` of the kernel's log.
fn bench_records(records: &[Record], defaults: &Defaults) -> Result<Vec<Measurement>> {
    let records = records.iter().filter(|record| record.kind == "bench");
    records
        .map(|record| {
            let words: Vec<&str> = record.words.iter().map(String::as_str).collect();
            line::parse(&words, defaults).with_context(|| format!("in @bench {}", words.join(" ")))
        })
        .collect()
}

/// A machine on which time is instructions.
pub fn counting() -> MachineOptions {
    MachineOptions { mem: MemorySize { mib: 1024 }, icount: true, ..MachineOptions::default() }
}

/// What Tessera aims at, and what cases are called in tables.
#[derive(Default)]
struct Aims(Vec<Aim>);

struct Aim {
    /// As [`results::Question`] is displayed.
    question: String,
    goal: Option<Goal>,
    label: Option<String>,
}

/// How good a value is to be: not worse than this.
enum Goal {
    Value(f64),
    /// So many times the value of another question.
    Times(f64, String),
}

impl Goal {
    /// A number, or a number, `*` and a question.
    fn parse(text: &str) -> Result<Goal> {
        Ok(match text.split_once('*') {
            Some((factor, question)) => Goal::Times(factor.parse()?, question.to_owned()),
            None => Goal::Value(text.parse()?),
        })
    }

    /// The value, given what was measured.
    fn value(&self, measured: &[Measurement]) -> Option<f64> {
        match self {
            Goal::Value(value) => Some(*value),
            Goal::Times(factor, question) => {
                let other = measured.iter().find(|one| one.question.to_string() == *question)?;
                Some(factor * other.median()?)
            }
        }
    }
}

impl Aims {
    fn read(project: &Project) -> Result<Aims> {
        Aims::parse(&fs::read_to_string(project.path("guest/bench/aims.tsv"))?)
    }

    /// Lines of a question, the goal (or nothing) and perhaps a label.
    fn parse(text: &str) -> Result<Aims> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let aims = lines.map(|line| {
            let mut fields = line.split('\t');
            let question = fields.next().unwrap_or_default().to_owned();
            let goal = match fields.next() {
                None | Some("") => None,
                Some(goal) => Some(Goal::parse(goal).with_context(|| format!("aims.tsv: {line}"))?),
            };
            Ok(Aim { question, goal, label: fields.next().map(String::from) })
        });
        Ok(Aims(aims.collect::<Result<_>>()?))
    }

    fn find(&self, question: &str) -> Option<&Aim> {
        self.0.iter().find(|aim| aim.question == question)
    }
}

/// A row for each measurement, with the aims.
pub fn table_with_aims(project: &Project, title: &str, measured: &[Measurement]) -> Result<String> {
    Ok(table(title, measured, &[], &Aims::read(project)?).render())
}

/// A row for each measurement, beside those of Linux.
fn table(title: &str, measured: &[Measurement], linux: &[Measurement], aims: &Aims) -> Table {
    let words = [title, "Tessera", "Linux", "ratio", "aim", ""];
    let mut table = Table::new(words.map(String::from).to_vec());
    for own in measured {
        // With huge pages or without, whichever is better.
        let peers = linux.iter().filter(|other| {
            matches!(other.system, System::Linux | System::LinuxThp)
                && other.question == own.question
        });
        let linux = own.question.better.best(peers.filter_map(Measurement::median));
        let name = own.question.to_string();
        let aim = aims.find(&name);
        let goal = aim.and_then(|aim| aim.goal.as_ref()?.value(measured));
        let verdict = match (own.median(), goal) {
            (Some(value), Some(goal)) if own.question.better.is_reached(value, goal) => "reached",
            (_, Some(_)) => "missed",
            _ => "",
        };
        table.row(vec![
            aim.and_then(|aim| aim.label.clone()).unwrap_or(name),
            own.median().map_or("not supported".to_owned(), grouped),
            linux.map_or(String::new(), grouped),
            if linux.is_some() { ratio(own.median(), linux) } else { String::new() },
            goal.map_or(String::new(), grouped),
            verdict.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_fails_leaves_the_others() {
        let file = std::env::temp_dir().join(format!("tessera-kept.{}.json", std::process::id()));
        let provenance = Provenance { machine: "q35".into(), commit: "1234567".into() };
        let (clock, system) = (Clock::Instructions, System::Tessera);
        let defaults = Defaults { benchmark: "b".into(), clock, system, provenance };
        let own = line::parse_output("bench a 50\n", &defaults).unwrap();
        let mut kept = Kept::new(Some(file.clone()));
        kept.keep("first", Ok(own.clone())).unwrap();
        assert_eq!(kept.keep("second", Err(anyhow::anyhow!("it died"))).unwrap(), []);
        assert_eq!(results::read(&file).unwrap(), own);
        assert!(kept.failed);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn tables() {
        let provenance = Provenance { machine: "q35".into(), commit: "1234567".into() };
        let (clock, system) = (Clock::Instructions, System::Tessera);
        let defaults = Defaults { benchmark: "b".into(), clock, system, provenance };
        let own = line::parse_output("bench a_b 50 60 40\nbench c 1\n", &defaults).unwrap();
        let linux = Defaults { system: System::Linux, ..defaults };
        let linux = line::parse_output("bench a_b 100\n", &linux).unwrap();
        let aims = "# note\nb: a b\t40\nb: c\t0.03*b: a b\ta label\nb: d\t1\n";
        let aims = Aims::parse(aims).unwrap();
        let text = table("b", &own, &linux, &aims).render();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            rows[1].iter().map(|cell| cell.trim()).collect::<Vec<_>>(),
            ["b: a b", "50", "100", "0.50", "40", "missed"]
        );
        assert_eq!(
            rows[2].iter().map(|cell| cell.trim()).collect::<Vec<_>>(),
            ["a label", "1", "1.50", "reached"]
        );
        assert_eq!(rows.len(), 3);
        assert!(Aims::parse("b\tx\n").is_err());
    }
}
