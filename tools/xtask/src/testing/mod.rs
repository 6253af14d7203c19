//! `./x test`: every test, on the host and in the emulator.
//!
//! A suite finds its cases by itself; there is no list to keep. Each case runs in its own boot, two
//! at a time, and reports one result or several.

mod bench;
mod benches;
mod cli;
mod compare;
mod cores;
mod crash;
mod debian;
mod devices;
mod directives;
mod disk;
mod events;
mod files;
mod fuzz;
pub mod guest;
mod host;
pub mod linux;
mod lockstep;
mod long;
mod map;
mod model;
mod monitors;
mod mutations;
mod native;
mod net;
mod persistent;
mod processors;
mod protocol;
mod qmp;
mod report;
mod roots;
mod share;
mod shell;
mod streams;
pub mod surveys;
pub mod tracers;
mod tracing;

use crate::compile::{self, Built, Scope};
use crate::image::Base;
use crate::interrupt::OnInterrupt;
use crate::machine::{Homes, MachineOptions};
use crate::map::MapOption;
use crate::progress::{self, Progress};
use crate::project::Project;
use crate::setup;
use anyhow::{Context as _, Result};
pub use crash::Running;
use directives::Directives;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Run the tests, or those whose name contains FILTER
///
/// The suites are host (of the machine-independent parts), native (programs that boot in place of
/// init), processors (that lack features),
/// events (how long the kernel keeps the processor), map (the kernel of --map cache), persistent (memory that the
/// next boot finds as it was), bench (each benchmark,
/// with little work), mutations (planted bugs, each of which a test must find), cores (machines with many), monitors (and programs on many cores), model (random operations
/// compared with a model; `caps` and `memory` run a million), devices (behind an IOMMU), linux (C programs, whose output on Linux
/// is known), shell (scripts), debian (programs of Debian's packages), programs (native programs as commands), cli (this tool), compare
/// (beside Linux in the emulator), report (its page) and trace (of functions). `protocol` is the whole
/// model check of the capability protocol, of which host has a part, and random operations of
/// all cores in the emulator. A test is named SUITE/NAME. Its
/// kernel log is left in target/tessera/logs.
#[derive(clap::Args, Debug)]
pub struct TestOptions {
    /// Part of a test's name, such as linux/ or shell/pipeline
    filter: Option<String>,
    /// How many emulators run at a time
    #[arg(long, short, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Cores of the machine, where a test does not say itself
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    cores: u32,
    /// How homes of programs of C and of the shell are chosen: load, one, or at random by this seed
    #[arg(long, hide = true, value_name = "load|one|SEED", default_value_t = Homes::Load)]
    homes: Homes,
    #[command(flatten)]
    map: MapOption,
    /// Only list the tests
    #[arg(long)]
    list: bool,
    /// Instead of testing, write anew what Linux prints for the C programs (guest/tests/linux/*.out) or, with the filter
    /// debian/, as root, for the scripts there; survey/NAME[/PART,…] notes what became of its parts here
    #[arg(long)]
    record: bool,
    /// Show the kernel's log of failed tests
    #[arg(long, short)]
    verbose: bool,
}

/// What the cases share.
pub struct Context {
    pub project: Project,
    pub built: Built,
    pub base: Base,
    /// Show more of the log of what failed.
    pub verbose: bool,
    /// Cores, where a test does not say.
    pub cores: u32,
    /// How homes of their programs are chosen.
    pub homes: Homes,
    /// What the tests that were asked for have in their names.
    pub filter: String,
    /// What tests have to say though they passed.
    pub notes: Mutex<Vec<String>>,
    /// When the run began.
    pub started: Instant,
    /// In a run of all tests, which does not do all that there is: the number of the day.
    pub day: Option<usize>,
}

impl Context {
    /// The machine for a test that says this.
    pub fn machine(&self, directives: &Directives) -> Result<MachineOptions> {
        Ok(MachineOptions { homes: self.homes, ..directives.machine(self.cores)? })
    }

    /// Is it this suite that was asked for, or some of it, rather than all tests?
    pub fn asks_for(&self, suite: &str) -> bool {
        self.filter.starts_with(suite)
    }

    /// Says more about a test than whether it passed.
    pub fn note(&self, text: &str) {
        if let Ok(mut notes) = self.notes.lock() {
            notes.push(text.to_owned());
        }
    }

    fn take_notes(&self) -> Vec<String> {
        self.notes.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default()
    }

    /// A folder for files of the tests of `suite`.
    pub fn folder(&self, suite: &str) -> Result<PathBuf> {
        let folder = self.project.state().join("tests").join(suite);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

/// One result: its name and, if it failed, why.
pub struct TestResult {
    pub name: String,
    pub outcome: Result<(), String>,
}

/// The number of the day.
pub fn today() -> usize {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() as usize / 86_400
}

/// This tool itself, to be run in `folder` on the same project.
pub fn this_tool(context: &Context, folder: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.current_dir(folder).env("TESSERA_ROOT", &context.project.root).stderr(Stdio::piped());
    Ok(command)
}

/// Runs a command to its end with `stdin` as its standard input; its standard output is kept.
pub fn feed(command: &mut Command, stdin: &[u8]) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // It need not read it.
        let _ = pipe.write_all(stdin);
    }
    Ok(child.wait_with_output()?)
}

type Body = Box<dyn FnOnce(&Context) -> Vec<TestResult> + Send>;

/// Something to run by itself.
pub struct Case {
    name: String,
    body: Body,
}

impl Case {
    /// A case with one result.
    pub fn single(
        name: String,
        body: impl FnOnce(&Context) -> Result<()> + Send + 'static,
    ) -> Case {
        let own = name.clone();
        Case::several(name, move |context| {
            let outcome = body(context).map_err(|error| format!("{error:#}"));
            vec![TestResult { name: own, outcome }]
        })
    }

    /// A case that tells by itself how many results it has.
    pub fn several(
        name: String,
        body: impl FnOnce(&Context) -> Vec<TestResult> + Send + 'static,
    ) -> Case {
        Case { name, body: Box::new(body) }
    }
}

/// Runs them; the exit status.
pub fn test(project: &Project, options: &TestOptions) -> Result<i32> {
    let started = Instant::now();
    options.map.choose();
    let filter = model::full_name(options.filter.as_deref().unwrap_or(""));
    if options.record && filter.starts_with("survey/") {
        surveys::record(project, filter, &prepare(project, options, started)?)?;
        return Ok(0);
    }
    if options.record {
        setup::test_tools()?;
        linux::record(project, filter)?;
        if filter.starts_with("debian") {
            debian::record(project, filter)?;
        }
        return Ok(0);
    }
    let selected = |case: &Case| case.name.contains(filter) || filter.starts_with(&case.name);
    let mut tally = Tally::new();
    let _on_interrupt = tally.watch()?;
    // They need no machine, so that nothing is built for one.
    let host_only = filter == "host" || filter.starts_with(host::SUITE);
    if host_only && !options.list {
        let inner = filter.strip_prefix(host::SUITE).unwrap_or("");
        let _progress = Progress::new("building and running the tests on the host", 0);
        host::run(project, inner).into_iter().for_each(|result| tally.add(result, None));
    }
    if protocol::is_asked_for(filter) && !options.list {
        let (results, notes) = protocol::run(project, filter);
        results.into_iter().for_each(|result| tally.add(result, None));
        notes.iter().for_each(|note| println!("{}", indent(note)));
    }
    if !host_only {
        let context = match prepare(project, options, started) {
            Ok(context) => context,
            Err(error) => {
                let outcome = Err(format!("{error:#}"));
                tally.add(TestResult { name: "build".into(), outcome }, None);
                return Ok(tally.finish());
            }
        };
        let all = cases(&context, filter)?;
        let names: Vec<String> = all.iter().map(|case| case.name.clone()).collect();
        let cases: Vec<Case> = all.into_iter().filter(selected).collect();
        if cases.is_empty() && tally.is_empty() {
            return Ok(nothing_selected(filter, &names));
        }
        if options.list {
            cases.iter().for_each(|case| println!("{}", case.name));
            return Ok(0);
        }
        tally.run(&context, cases, options.jobs);
    }
    Ok(tally.finish())
}

/// Says that no test is meant, and which may have been; the exit status.
fn nothing_selected(filter: &str, names: &[String]) -> i32 {
    let list = similar(filter, names);
    eprintln!(
        "x: no test has {filter:?} in its name{}",
        match list.is_empty() {
            true => "; ./x test --list shows all".to_owned(),
            false => format!("; similar: {} (./x test --list shows all)", list.join(", ")),
        }
    );
    2
}

/// The names most like a word that none of them contains.
fn similar<'a>(word: &str, names: &'a [String]) -> Vec<&'a str> {
    const MOST: usize = 3;
    const LEAST: f64 = 0.75;
    let likeness = |name: &str| {
        let (suite, own) = name.split_once('/').unwrap_or(("", name));
        [name, suite, own]
            .map(|part| strsim::jaro_winkler(word, part))
            .into_iter()
            .fold(0.0, f64::max)
    };
    let mut all: Vec<(f64, &str)> =
        names.iter().map(|name| (likeness(name), name.as_str())).collect();
    all.retain(|(likeness, _)| *likeness >= LEAST);
    all.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    all.into_iter().take(MOST).map(|(_, name)| name).collect()
}

fn prepare(project: &Project, options: &TestOptions, started: Instant) -> Result<Context> {
    setup::qemu()?;
    setup::test_tools()?;
    let built = compile::build(project, Scope::Everything)?;
    let base = Base::prepare(project, &built)?;
    Ok(Context {
        project: project.clone(),
        built,
        base,
        verbose: options.verbose,
        cores: options.cores,
        homes: options.homes,
        filter: options.filter.clone().unwrap_or_default(),
        notes: Mutex::default(),
        started,
        day: (options.filter.as_deref().unwrap_or("").is_empty() && !options.list).then(today),
    })
}

fn cases(context: &Context, filter: &str) -> Result<Vec<Case>> {
    let mut cases = vec![host::case()];
    cases.extend(native::cases(context));
    cases.extend(model::cases(filter));
    cases.extend(protocol::cases(filter));
    cases.extend(cores::cases());
    cases.extend(monitors::cases());
    cases.extend(devices::cases());
    cases.extend(processors::cases());
    cases.extend(events::cases());
    cases.extend(map::cases());
    cases.extend(crash::cases(filter));
    cases.extend(persistent::cases());
    cases.extend(benches::cases());
    cases.extend(cli::cases());
    cases.extend(streams::cases());
    cases.extend(files::cases());
    cases.extend(roots::cases());
    cases.extend(share::cases());
    cases.extend(disk::cases());
    cases.extend(net::cases());
    cases.extend(fuzz::cases());
    cases.extend(bench::cases());
    cases.extend(compare::cases());
    cases.extend(tracers::cases());
    cases.extend(tracing::cases());
    cases.extend(report::cases());
    cases.extend(shell::cases(context)?);
    cases.extend(debian::cases(context)?);
    cases.extend(surveys::cases(context, filter)?);
    cases.extend(linux::cases(context)?);
    // They take what time is left.
    cases.extend(mutations::cases(filter));
    Ok(match context.day {
        Some(day) => long::of_day(cases, day),
        None => cases,
    })
}

/// Counts and shows results as they come.
struct Tally {
    counts: Arc<Mutex<Counts>>,
}

/// What came of the tests so far.
struct Counts {
    passed: usize,
    failed: Vec<String>,
    started: Instant,
}

impl Tally {
    fn new() -> Tally {
        let counts = Counts { passed: 0, failed: Vec::new(), started: Instant::now() };
        Tally { counts: Arc::new(Mutex::new(counts)) }
    }

    /// Whoever ends the tool in the middle is told what came so far.
    fn watch(&self) -> Result<OnInterrupt> {
        let counts = self.counts.clone();
        OnInterrupt::new(move || {
            println!("\ninterrupted");
            if let Ok(counts) = counts.lock() {
                counts.tell();
            }
        })
    }

    fn run(&mut self, context: &Context, cases: Vec<Case>, jobs: u16) {
        let progress = Progress::new("testing", cases.len() as u64);
        let queue = Mutex::new(cases.into_iter());
        let next = || queue.lock().ok()?.next();
        let tally = &*self;
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(case) = next() {
                        progress.at(&case.name);
                        let started = Instant::now();
                        let results = (case.body)(context);
                        let time = started.elapsed();
                        let single = (results.len() == 1).then_some(time);
                        let all = format!("{}: {:.1} s", case.name, time.as_secs_f64());
                        progress.suspend(|| {
                            results.into_iter().for_each(|result| tally.add(result, single));
                            let several = single.is_none().then_some(all);
                            for note in several.into_iter().chain(context.take_notes()) {
                                println!("{}", indent(&note));
                            }
                        });
                        progress.advance();
                    }
                });
            }
        });
    }

    /// No test has run yet.
    fn is_empty(&self) -> bool {
        self.counts.lock().is_ok_and(|counts| counts.passed == 0 && counts.failed.is_empty())
    }

    fn add(&self, result: TestResult, time: Option<Duration>) {
        let time = time.map_or(String::new(), |time| format!("  {:.1} s", time.as_secs_f64()));
        let TestResult { name, outcome } = result;
        let text = match &outcome {
            Ok(()) => format!("ok      {name}{time}"),
            Err(why) => format!("FAILED  {name}{time}\n{}", indent(why)),
        };
        let Ok(mut counts) = self.counts.lock() else { return };
        match outcome {
            Ok(()) => counts.passed += 1,
            Err(_) => counts.failed.push(name),
        }
        println!("{text}");
    }

    fn finish(self) -> i32 {
        let Ok(counts) = self.counts.lock() else { return 1 };
        counts.tell();
        i32::from(!counts.failed.is_empty() || counts.passed == 0)
    }
}

impl Counts {
    fn tell(&self) {
        println!("\n{}", progress::time(self.started.elapsed()));
        if !self.failed.is_empty() {
            println!("failed:");
            self.failed.iter().for_each(|name| println!("  ./x test {name}"));
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("        {line}\n")).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn the_most_similar_names_come_first() {
        let names = ["cli/status_7", "linux/cow_counters", "shell/pipeline"].map(String::from);
        assert_eq!(similar("linux/cow_countres", &names)[0], "linux/cow_counters");
        assert_eq!(similar("pipelin3", &names), ["shell/pipeline"]);
        assert!(similar("zzzz", &names).is_empty());
    }
}
