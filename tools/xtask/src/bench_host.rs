//! Benchmarks of machine-independent parts, on the host itself.

use crate::project::Project;
use crate::results::line::{self, Defaults};
use crate::results::{Clock, Measurement, Provenance, System};
use crate::toolchain;
use anyhow::{ensure, Context, Result};
use std::process::Stdio;

/// The mapping database beside the data structures of G18 §4.5 (figures 4.2 to 4.6).
pub const MAPPING_DATABASE: &str = "mdb";

/// Runs `crates/model/mdb-bench` with so many capabilities (none: as the paper), prints its tables and returns its
/// measurements, in ticks of the time-stamp counter. They are the only ones that differ from host to host.
pub fn measure(project: &Project, counts: &[&str]) -> Result<Vec<Measurement>> {
    let mut cargo = toolchain::host(project);
    cargo.args(["run", "--release", "--quiet", "--package", "mdb-bench", "--"]).args(counts);
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo for mdb-bench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "mdb-bench failed: {}", output.status);
    println!("{MAPPING_DATABASE}, in ticks of the host's time-stamp counter\n");
    text.lines().filter(|line| !line.starts_with("bench ")).for_each(|line| println!("{line}"));
    let defaults = Defaults {
        benchmark: MAPPING_DATABASE.to_owned(),
        clock: Clock::Wall,
        system: System::Host,
        provenance: Provenance::host(project),
    };
    line::parse_output(&text, &defaults)
}
