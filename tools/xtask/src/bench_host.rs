//! Benchmarks of machine-independent parts, on the host itself.

use crate::project::Project;
use crate::results::line::{self, Defaults};
use crate::results::{Clock, Measurement, Provenance, System};
use crate::toolchain;
use anyhow::{ensure, Context, Result};
use std::process::Stdio;

/// The mapping database beside the data structures of G18 §4.5 (figures 4.2 to 4.6).
pub const MAPPING_DATABASE: &str = "mdb";

/// The allocator of pools beside one with a lock.
pub const POOL_ALLOCATOR: &str = "allocator";

/// Runs `crates/model/mdb-bench` with so many capabilities (none: as the paper), prints its tables and returns its
/// measurements, in ticks of the time-stamp counter. They are the only ones that differ from host to host.
pub fn measure(project: &Project, counts: &[&str]) -> Result<Vec<Measurement>> {
    let title = "in ticks of the host's time-stamp counter";
    run(project, "mdb-bench", MAPPING_DATABASE, title, counts)
}

/// The layouts of amaps of UVM §3.2, which figure 5.8 compares.
pub const AMAPS: &str = "amap";

/// Runs `crates/model/amap-bench`, with few pages if `small`, prints its tables and returns its measurements, by the
/// host's clock.
pub fn measure_amaps(project: &Project, small: bool) -> Result<Vec<Measurement>> {
    let words: &[&str] = if small { &["small"] } else { &[] };
    run(project, "amap-bench", AMAPS, "by the host's clock", words)
}

/// Runs `crates/model/pool-bench`, with little work if `small`, prints its tables and returns its measurements, by the
/// host's clock.
pub fn measure_pool(project: &Project, small: bool) -> Result<Vec<Measurement>> {
    let words: &[&str] = if small { &["small"] } else { &[] };
    run(project, "pool-bench", POOL_ALLOCATOR, "by the host's clock", words)
}

fn run(
    project: &Project,
    package: &str,
    benchmark: &str,
    title: &str,
    words: &[&str],
) -> Result<Vec<Measurement>> {
    let mut cargo = toolchain::host(project);
    cargo.args(["run", "--release", "--quiet", "--package", package, "--"]).args(words);
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start cargo for {package}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{package} failed: {}", output.status);
    println!("{benchmark}, {title}\n");
    text.lines().filter(|line| !line.starts_with("bench ")).for_each(|line| println!("{line}"));
    let defaults = Defaults {
        benchmark: benchmark.to_owned(),
        clock: Clock::Wall,
        system: System::Host,
        provenance: Provenance::host(project),
    };
    line::parse_output(&text, &defaults)
}
