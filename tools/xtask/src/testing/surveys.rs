//! Programs that test a system by themselves, such as stress-ng and Python's test suite: scripts of
//! `guest/tests/debian/surveys`, which print for each part of it `NAME passes`, `NAME skipped: WHY` or `NAME fails: WHY`.
//!
//! They take long, and run when they are asked for: `./x test survey/NAME`, or with `/PART,…` behind it some of it. What is known
//! is in NAME.known, which `--record` writes and the book shows; a run fails where a part does worse than is known.

use super::debian::{self, Script};
use super::linux::sources;
use super::{Case, Context};
use crate::project::Project;
use anyhow::{bail, ensure, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const SUITE: &str = "survey/";
pub const FOLDER: &str = "guest/tests/debian/surveys";

/// What became of a part. The better is the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Passes,
    Skipped,
    Fails,
}

/// What became of each part, by its name, and why.
pub type Outcomes = BTreeMap<String, (Kind, String)>;

/// The outcomes that a survey prints; other lines are of no concern.
pub fn read(text: &str) -> Outcomes {
    let outcome = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let (kind, why) = rest.split_once(": ").unwrap_or((rest, ""));
        let kind = match kind {
            "passes" => Kind::Passes,
            "skipped" => Kind::Skipped,
            "fails" => Kind::Fails,
            _ => return None,
        };
        Some((name.to_owned(), (kind, why.trim().to_owned())))
    };
    text.lines().filter_map(outcome).collect()
}

fn written(outcomes: &Outcomes) -> String {
    let line = |(name, (kind, why)): (&String, &(Kind, String))| match kind {
        Kind::Passes => format!("{name} passes\n"),
        Kind::Skipped => format!("{name} skipped: {why}\n"),
        Kind::Fails => format!("{name} fails: {why}\n"),
    };
    outcomes.iter().map(line).collect()
}

/// The surveys that a filter asks for.
pub fn cases(context: &Context, filter: &str) -> Result<Vec<Case>> {
    if !filter.starts_with(SUITE) {
        return Ok(Vec::new());
    }
    let paths = sources(&context.project.path(FOLDER), "sh")?;
    let case = |path: PathBuf| {
        let script = Script::read(&path)?;
        let name = format!("{SUITE}{}", script.name);
        Ok(Case::single(name, move |context| run(context, &path, &script)))
    };
    paths.into_iter().map(case).collect()
}

fn run(context: &Context, path: &Path, script: &Script) -> Result<()> {
    let parts = parts(&context.filter);
    let found = outcomes(context, script, &parts)?;
    let known = read(&fs::read_to_string(path.with_extension("known")).unwrap_or_default());
    let count = |kind| found.values().filter(|(one, _)| *one == kind).count();
    let (passed, skipped) = (count(Kind::Passes), count(Kind::Skipped));
    context.note(&format!("of {} {passed} pass, {skipped} are skipped", found.len()));
    let is_worse = |(name, (kind, _)): &(&String, &(Kind, String))| {
        known.get(*name).is_none_or(|(known, _)| kind > known)
    };
    let worse: Outcomes = found
        .iter()
        .filter(is_worse)
        .map(|(name, outcome)| (name.clone(), outcome.clone()))
        .collect();
    ensure!(worse.is_empty(), "worse than is known:\n{}", written(&worse));
    Ok(())
}

/// The parts that are named behind the survey, if not all.
fn parts(filter: &str) -> Vec<&str> {
    let (_, parts) = filter.trim_start_matches(SUITE).split_once('/').unwrap_or_default();
    parts.split(',').filter(|part| !part.is_empty()).collect()
}

fn outcomes(context: &Context, script: &Script, parts: &[&str]) -> Result<Outcomes> {
    let output = debian::start(context, script, parts)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // What was said so far is of use, too, if the machine has not ended as it should.
    let log = context.folder("survey")?.join(format!("{}.log", script.name));
    fs::write(&log, &*text)?;
    let found = read(&text);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {complaint}; {}", output.status, log.display());
    ensure!(!found.is_empty(), "it has found nothing: {complaint}");
    Ok(found)
}

/// Notes what is known from now on of those parts that `filter` names.
pub fn record(project: &Project, filter: &str, context: &Context) -> Result<()> {
    let name = filter.trim_start_matches(SUITE).split('/').next().unwrap_or_default();
    let path = project.path(FOLDER).join(format!("{name}.sh"));
    if name.is_empty() || !path.exists() {
        bail!("there is no survey {name:?} in {FOLDER}");
    }
    let script = Script::read(&path)?;
    let parts = parts(filter);
    let known = path.with_extension("known");
    // Of a part of it the rest stays; of all, what is there no more goes.
    let mut all = match parts.is_empty() {
        true => Outcomes::new(),
        false => read(&fs::read_to_string(&known).unwrap_or_default()),
    };
    all.extend(outcomes(context, &script, &parts)?);
    fs::write(known, written(&all))?;
    println!("recorded {SUITE}{name}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_as_they_are_written() {
        let text = "a passes\nb skipped: no: device\nnoise\nother noise: x\nc fails: errno=5\n";
        let all = read(text);
        assert_eq!(all["b"], (Kind::Skipped, "no: device".into()));
        assert_eq!(written(&all), "a passes\nb skipped: no: device\nc fails: errno=5\n");
        assert!(Kind::Fails > Kind::Skipped && Kind::Skipped > Kind::Passes);
        assert_eq!(parts("survey/stress-ng/a,b"), ["a", "b"]);
        assert!(parts("survey/stress-ng").is_empty());
    }
}
