//! Scripts of `guest/tests/shell`, run by the image's shells, and of `guest/tests/programs`, which run the
//! image's native programs; NAME.out is what they print.

use super::directives::Directives;
use super::guest::GuestRun;
use super::linux::sources;
use super::{Case, Context};
use crate::image::Addition;
use crate::program::Invocation;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;

pub fn cases(context: &Context) -> Result<Vec<Case>> {
    let mut cases = cases_of(context, "shell")?;
    cases.extend(cases_of(context, "programs")?);
    Ok(cases)
}

fn cases_of(context: &Context, suite: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for script in sources(&context.project.path("guest/tests").join(suite), "sh")? {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let directives = Directives::parse(&fs::read_to_string(&script)?, "#")
            .with_context(|| format!("{}", script.display()))?;
        let mut shells = directives.shells;
        if shells.is_empty() {
            shells.push("sh".into());
        }
        for shell in shells {
            let (script, case) = (script.clone(), format!("{suite}/{name}.{shell}"));
            let own = case.clone();
            cases.push(Case::single(case, move |context| run(context, &script, &own, &shell)));
        }
    }
    Ok(cases)
}

fn run(context: &Context, script: &Path, case: &str, shell: &str) -> Result<()> {
    let directives = Directives::parse(&fs::read_to_string(script)?, "#")?;
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    let mut arguments = vec![shell.to_owned(), name.clone().into_owned()];
    arguments.extend(directives.arguments.iter().cloned());
    let beside = script.with_extension("out");
    let stdout = match &directives.expected_stdout {
        Some(text) => text.clone(),
        None => fs::read(&beside).with_context(|| format!("{}", beside.display()))?,
    };
    let run = GuestRun {
        test: case.to_owned(),
        invocation: Invocation::new(arguments, &directives.environment)?,
        additions: vec![Addition { host: script.to_owned(), guest: format!("/root/{name}") }],
        stdin: directives.stdin.clone(),
        machine: context.machine(&directives)?,
        timeout: directives.timeout(),
        command_line: directives.command_line,
    };
    let status = directives.expected_status.unwrap_or(0);
    let observed = run.run(context)?;
    observed.expect(status, Some(&stdout), context.verbose)?;
    observed.expect_memory(directives.kept)
}
