//! The programs of `bench/micro`: one static C program for each question, the same on every system.

use crate::compare::session::{Outcome, Session, Task};
use crate::image::Addition;
use crate::program::Invocation;
use crate::project::Project;
use crate::results::line::{self, Defaults};
use crate::results::{Clock, Measurement, System};
use crate::testing::linux::{compile, sources};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::PathBuf;

/// One of them.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    executable: PathBuf,
    /// Cores that it needs at least: what its source says in a line `// cores: N`.
    cores: u32,
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

/// Those with these names, or all, compiled.
pub fn choose(project: &Project, names: &[String]) -> Result<Vec<Program>> {
    let folder = project.state().join("micro");
    fs::create_dir_all(&folder)?;
    let all: Vec<(String, PathBuf)> = sources(&project.path("bench/micro"), "c")?
        .into_iter()
        .map(|source| {
            (source.file_stem().unwrap_or_default().to_string_lossy().into_owned(), source)
        })
        .collect();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|(own, _)| own == *name)) {
        let known: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        bail!("there is no benchmark {unknown}; there are: {}", known.join(", "));
    }
    let chosen = all.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    chosen
        .map(|(name, source)| {
            let executable = folder.join(&name);
            crate::setup::c_compiler()?;
            compile(&source, &executable, "gcc")?;
            let cores = cores_of(&fs::read_to_string(&source)?)
                .with_context(|| format!("{}", source.display()))?;
            Ok(Program { name, executable, cores })
        })
        .collect()
}

/// One, unless the source says something else.
fn cores_of(source: &str) -> Result<u32> {
    let said = source.lines().find_map(|line| line.strip_prefix("// cores: "));
    Ok(said.map(|number| number.trim().parse()).transpose()?.unwrap_or(1))
}

impl Program {
    /// Runs it on a system.
    pub fn run(&self, session: &Session, system: System, clock: Clock) -> Result<Answer> {
        let guest = format!("/root/{}", self.name);
        let variable = match clock {
            Clock::Instructions => "BENCH_CLOCK=instructions",
            Clock::Wall => "BENCH_CLOCK=wall",
        };
        let task = Task {
            invocation: Invocation::new(vec![guest.clone()], &[variable.to_owned()])?,
            additions: vec![Addition { host: self.executable.clone(), guest }],
            stdin: Vec::new(),
            cores: self.cores,
        };
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
            provenance: session.provenance(clock, self.cores),
        };
        let measurements = line::parse_output(&output, &defaults)
            .with_context(|| format!("{} on {}", self.name, system.title()))?;
        let checks = output.lines().filter(|line| line.starts_with("check "));
        Ok(Answer { measurements, checks: checks.map(String::from).collect(), failure })
    }
}
