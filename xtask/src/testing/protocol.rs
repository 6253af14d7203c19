//! The whole model check of the capability protocol, for `./x test protocol`.
//!
//! It takes minutes: `./x test` searches less far, as part of the host's tests. `TESSERA_SEED` and
//! `TESSERA_OPS` choose other random runs.

use super::{host, TestResult};
use crate::project::Project;

/// The suite.
const SUITE: &str = "protocol/";

/// Is `filter` for this suite?
pub fn is_asked_for(filter: &str) -> bool {
    filter == "protocol" || filter.starts_with(SUITE)
}

/// Runs those tests whose name contains what `filter` says after the name of the suite. Also answers
/// what they found: how many states, and what showed each deliberate bug.
pub fn run(project: &Project, filter: &str) -> (Vec<TestResult>, Vec<String>) {
    let inner = filter.strip_prefix(SUITE).unwrap_or("");
    let args = ["--package=capproto", "--lib", "--"];
    // One after the other: each search has two threads.
    let options = ["--include-ignored", "--show-output", "--test-threads=1", inner];
    let (mut results, text) = host::cargo_test(project, &[&args[..], &options].concat());
    for result in &mut results {
        result.name = format!("{SUITE}{}", result.name.trim_start_matches("host/"));
    }
    (results, notes(&text))
}

/// What the tests that passed have printed.
fn notes(text: &str) -> Vec<String> {
    let shown = text.split_once("\nsuccesses:\n").map_or("", |(_, shown)| shown);
    let blocks = shown.split("\n---- ").skip(1).filter_map(|block| block.split("\n\n").next());
    let name = |block: &str| block.replace(" stdout ----", "");
    blocks.map(name).collect()
}
