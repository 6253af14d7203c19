//! The tests of the packages that run on the host.

use super::{Case, TestResult};
use crate::project::Project;
use crate::toolchain::host;
use std::process::Stdio;

pub const SUITE: &str = "host/";

/// All of them, beside those that boot: one binary of tests runs after the other, and many have a single thread.
pub fn case() -> Case {
    Case::several(SUITE.into(), |context| run(&context.project, ""))
}

/// Runs the tests of the workspace's default members.
pub fn run(project: &Project, filter: &str) -> Vec<TestResult> {
    cargo_test(project, &["--no-fail-fast", "--", filter]).0
}

/// Runs `cargo test` with these arguments; results, and what it printed.
pub fn cargo_test(project: &Project, args: &[&str]) -> (Vec<TestResult>, String) {
    let mut cargo = host(project);
    cargo.args(["test", "--quiet"]).args(args).arg("--format=pretty");
    // Colour would hide the words.
    cargo.env("CARGO_TERM_COLOR", "never").stdin(Stdio::null());
    let failed_to_run = |why: String| vec![TestResult { name: "host".into(), outcome: Err(why) }];
    let output = match cargo.output() {
        Ok(output) => output,
        Err(error) => {
            return (failed_to_run(format!("cannot start cargo: {error}")), String::new())
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut results: Vec<_> = text.lines().filter_map(result).collect();
    let all_passed = results.iter().all(|result| result.outcome.is_ok());
    if !output.status.success() {
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        match all_passed {
            true => results.extend(failed_to_run(complaints)),
            false => explain(&mut results, &text),
        }
    }
    (results, text)
}

/// `test NAME ... ok`
fn result(line: &str) -> Option<TestResult> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match verdict.split(|c: char| !c.is_alphanumeric()).next()? {
        "ok" => Ok(()),
        "FAILED" => Err(String::new()),
        _ => return None,
    };
    Some(TestResult { name: format!("host/{}", name.trim_end_matches(" - should panic")), outcome })
}

/// Adds what each failed test printed.
fn explain(results: &mut [TestResult], text: &str) {
    for result in results {
        if let Err(why) = &mut result.outcome {
            let name = result.name.trim_start_matches("host/");
            let block = text.split_once(&format!("---- {name} stdout ----\n"));
            let block = block.and_then(|(_, after)| after.split("\n\n").next());
            *why = block.unwrap_or("see cargo test").to_owned();
        }
    }
}
