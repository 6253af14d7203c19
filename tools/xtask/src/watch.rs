//! `./x run --watch`: `tessera-top`, a Linux program of this tree that draws what the guest does.

use crate::progress::Progress;
use crate::project::Project;
use crate::toolchain::host;
use anyhow::{ensure, Context, Result};
use std::path::PathBuf;
use std::process::Stdio;

/// Its name, and that of its package.
pub const NAME: &str = "tessera-top";
/// Static, at a fixed address: what Tessera runs.
const FLAGS: &str =
    "-C target-feature=+crt-static -C relocation-model=static -C strip=symbols -A warnings";
const TARGET: &str = "x86_64-unknown-linux-gnu";
const FOLDER: &str = "target/linux";

/// Builds it if it is out of date. Returns the executable.
pub fn build(project: &Project) -> Result<PathBuf> {
    let _progress = Progress::new("building tessera-top (about a minute the first time)", 0);
    let mut cargo = host(project);
    // Cargo would take the flags for what runs while it builds, too, if it were not told of a target.
    cargo.args(["build", "--release", "--quiet", "--package", NAME, "--target", TARGET]);
    cargo.arg("--target-dir").arg(project.path(FOLDER)).env("RUSTFLAGS", FLAGS);
    let output = cargo.stdin(Stdio::null()).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "{NAME} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(project.path(FOLDER).join(TARGET).join("release").join(NAME))
}
