//! Programs that measure: one static C program for each question, the same on every system.
//!
//! There are two sets, a folder each: the standard set, and the scale set, which asks what operations
//! cost beside much that is idle. What a program needs is said in lines at its start:
//!
//! | line | meaning |
//! |---|---|
//! | `// cores: N` | cores that it needs at least |
//! | `// mem: SIZE` | the machine's memory, if it has to be this |
//! | `// beside: FILE BUILD…` | another source in `bench`, compiled in these ways, beside it in `/root` |
//!
//! With `BENCH_SMALL` in the environment a program measures small sizes only.

use crate::compare::session::{Outcome, Session, Task};
use crate::image::Addition;
use crate::machine::{parse_size, MemorySize};
use crate::program::Invocation;
use crate::project::Project;
use crate::results::line::{self, Defaults};
use crate::results::{Clock, Measurement, System};
use crate::testing::linux::{compile, sources};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of programs below `bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Standard,
    Scale,
}

impl Set {
    const ALL: [Set; 2] = [Set::Standard, Set::Scale];

    fn folder(self) -> &'static str {
        match self {
            Set::Standard => "micro",
            Set::Scale => "scale",
        }
    }
}

/// How much a program is to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Full,
    /// Small sizes only, for a test of the program.
    Small,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    executable: PathBuf,
    cores: u32,
    memory: Option<MemorySize>,
    /// Other programs that it starts.
    beside: Vec<Addition>,
}

/// What a program said on one system.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Of a program that failed, those before.
    pub measurements: Vec<Measurement>,
    /// Results that must be the same on every system: their lines.
    pub checks: Vec<String>,
    /// Why it failed: it could not be run, ended badly, or found a wrong result.
    pub failure: Option<String>,
}

/// All of a set, compiled.
pub fn all(project: &Project, set: Set) -> Result<Vec<Program>> {
    files(project, set)?.iter().map(|source| prepare(project, set, source)).collect()
}

/// Those with these names, of whatever set, compiled.
pub fn choose(project: &Project, names: &[String]) -> Result<Vec<Program>> {
    let mut known = Vec::new();
    for set in Set::ALL {
        known.extend(files(project, set)?.into_iter().map(|source| (set, source)));
    }
    let choose = |name: &String| match known.iter().find(|(_, source)| stem(source) == *name) {
        Some((set, source)) => prepare(project, *set, source),
        None => {
            let known: Vec<String> = known.iter().map(|(_, source)| stem(source)).collect();
            bail!("there is no benchmark {name}; there are: {}", known.join(", "))
        }
    };
    names.iter().map(choose).collect()
}

fn files(project: &Project, set: Set) -> Result<Vec<PathBuf>> {
    sources(&project.path("guest/bench").join(set.folder()), "c")
}

fn stem(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn prepare(project: &Project, set: Set, source: &Path) -> Result<Program> {
    let folder = project.state().join(set.folder());
    fs::create_dir_all(&folder)?;
    let name = stem(source);
    let executable = folder.join(&name);
    crate::setup::c_compiler()?;
    compile(source, &executable, "gcc")?;
    let text = fs::read_to_string(source)?;
    let needs = needs(&text).with_context(|| format!("{}", source.display()))?;
    let beside = beside(project, &text)?;
    Ok(Program { name, executable, cores: needs.0, memory: needs.1, beside })
}

/// What is to be beside a program, compiled.
fn beside(project: &Project, source: &str) -> Result<Vec<Addition>> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("// beside: "));
    let mut all = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let source = project.path("guest/bench").join(words.next().context("beside: a file")?);
        for build in words {
            let name = format!("{}.{build}", stem(&source));
            let host = project.state().join(&name);
            if build == "musl" {
                crate::setup::musl_compiler()?;
            }
            compile(&source, &host, build)?;
            all.push(Addition { host, guest: format!("/root/{name}") });
        }
    }
    Ok(all)
}

/// Cores and memory, as the source says.
fn needs(source: &str) -> Result<(u32, Option<MemorySize>)> {
    let said = |key: &str| source.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let cores = said("// cores: ").map(str::parse).transpose()?.unwrap_or(1);
    Ok((cores, said("// mem: ").map(parse_size).transpose()?))
}

impl Program {
    /// Runs it on a system.
    pub fn run(&self, session: &Session, system: System, clock: Clock) -> Result<Answer> {
        self.run_to(session, system, clock, Extent::Full)
    }

    /// The same, perhaps with small sizes only.
    pub fn run_to(
        &self,
        session: &Session,
        system: System,
        clock: Clock,
        extent: Extent,
    ) -> Result<Answer> {
        let guest = format!("/root/{}", self.name);
        let mut variables = vec![match clock {
            Clock::Instructions => "BENCH_CLOCK=instructions".to_owned(),
            Clock::Wall => "BENCH_CLOCK=wall".to_owned(),
        }];
        if extent == Extent::Small {
            variables.push("BENCH_SMALL=1".to_owned());
        }
        let invocation = Invocation::new(vec![guest.clone()], &variables)?;
        let mut files = vec![Addition { host: self.executable.clone(), guest }];
        files.extend(self.beside.iter().cloned());
        let task = Task { cores: self.cores, memory: self.memory, ..Task::new(invocation, files) };
        let ended = match session.run(system, clock, &task)? {
            Outcome::Failed { long, .. } => {
                return Ok(Answer { failure: Some(long), ..Answer::default() });
            }
            Outcome::Ended(ended) => ended,
        };
        let output = String::from_utf8_lossy(&ended.output);
        let last = output.lines().last().unwrap_or("nothing");
        let failure = (ended.status != 0)
            .then(|| format!("exit status {}; the last that it said: {last:.120}", ended.status));
        let defaults = Defaults {
            benchmark: self.name.clone(),
            clock,
            system,
            provenance: session.provenance(clock, &task),
        };
        let measurements = line::parse_output(&output, &defaults)
            .with_context(|| format!("{} on {}", self.name, system.title()))?;
        let checks = output.lines().filter(|line| line.starts_with("check "));
        Ok(Answer { measurements, checks: checks.map(String::from).collect(), failure })
    }
}
