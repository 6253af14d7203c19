//! `./x compare`: one and the same program in Tessera and in Linux, in the same emulator.
//!
//! [`session`] boots one system with one program; [`command`] compares a single program of the
//! user's, [`set`] the standard set or the scale set. How the comparison is made fair is in `docs/compare.md`.

mod command;
mod readme;
pub mod session;
mod set;
pub mod table;

pub use set::questions;

use crate::linux::{Linux, NEWEST};
use crate::machine::MachineOptions;
use crate::micro::{self, Set};
use crate::program::parse_addition;
use crate::project::Project;
use crate::results::{Clock, System};
use crate::rootfs::Folder;
use crate::testing::linux::compile as compile_c;
use anyhow::{bail, ensure, Result};
use session::Session;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Run the same program in Tessera and in Linux, and print both side by side
///
/// Linux is Debian's newest 6.1 cloud kernel, which is downloaded and unpacked, not installed; it
/// boots in the same emulator with the same files. It runs twice, without and with transparent huge
/// pages. PROG is named as for ./x run. Standard input is read first and given to each.
///
/// Without PROG the standard set runs (guest/bench/micro): a table with a row for every operation, and the
/// results in target/tessera/compare.json for ./x report.
///
/// The exit status is 0 if all ended with the same status and output, else 1.
#[derive(clap::Args, Debug)]
pub struct CompareOptions {
    #[command(flatten)]
    machine: MachineOptions,
    /// What to measure: wall time, instructions (as --icount) or both
    #[arg(long, value_enum, default_value = "both")]
    clock: Clocks,
    /// Measure wall time N times, and show median and range (with --icount: count N times)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Set a variable in the program's environment
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Put a file or folder of this machine into both images
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,
    /// The root file system of both is a folder of this machine, as for ./x run
    #[arg(long, value_name = "DIR", conflicts_with = "deb", requires = "program")]
    root: Option<PathBuf>,
    /// The root file system of both is Debian's packages, as for ./x run: Linux unpacks them to its memory before it starts
    #[arg(long, value_name = "PACKAGE,…", value_delimiter = ',', requires = "program")]
    deb: Vec<String>,
    /// End each boot after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Of both sets, run only these programs
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "program")]
    only: Vec<String>,
    /// In place of the standard set, run the scale set (guest/bench/scale)
    #[arg(long, conflicts_with_all = ["program", "only"])]
    scale: bool,
    /// Keep Linux's counts in guest/bench/linux.json for ./x bench
    #[arg(long, conflicts_with = "program")]
    record: bool,
    /// Renew the table in README.md: the rows that it has, and those where Linux is better most
    #[arg(long, conflicts_with_all = ["program", "scale", "only", "no_thp"])]
    readme: bool,
    /// Write the results to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave out the run of Linux with transparent huge pages
    #[arg(long)]
    no_thp: bool,
    /// Compare with the kernel of another Debian package
    #[arg(long, value_name = "PACKAGE", default_value = NEWEST)]
    package: String,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROG")]
    program: Vec<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq)]
enum Clocks {
    Both,
    Wall,
    Instructions,
}

impl CompareOptions {
    /// The columns.
    fn systems(&self) -> &'static [System] {
        match self.no_thp {
            true => &[System::Tessera, System::Linux],
            false => &[System::Tessera, System::Linux, System::LinuxThp],
        }
    }

    /// In the order in which they are measured.
    fn clocks(&self) -> Result<Vec<Clock>> {
        let counted = self.machine.icount || self.clock == Clocks::Instructions;
        Ok(match (counted, self.clock, self.machine.cores) {
            (true, Clocks::Wall, _) => bail!("--icount counts instructions; it measures no time"),
            (true, _, 2..) => bail!("instructions can be counted on one core only"),
            (true, ..) => vec![Clock::Instructions],
            (false, Clocks::Both, 1) => vec![Clock::Wall, Clock::Instructions],
            (false, ..) => vec![Clock::Wall],
        })
    }
}

/// Does it; the result is our exit status.
pub fn compare(project: &Project, options: &CompareOptions) -> Result<i32> {
    let clocks = options.clocks()?;
    let has_counts = clocks.contains(&Clock::Instructions);
    ensure!(has_counts || !options.readme, "--readme is of instructions");
    ensure!(options.machine.gdb.is_none(), "--gdb is for ./x run");
    let files = options.file.iter().map(|text| parse_addition(text)).collect::<Result<_>>()?;
    let programs = match (options.program.is_empty(), options.scale, options.only.is_empty()) {
        (false, ..) => Vec::new(),
        (true, true, _) => micro::all(project, Set::Scale)?,
        (true, false, true) => micro::all(project, Set::Standard)?,
        (true, false, false) => micro::choose(project, &options.only)?,
    };
    let timeout = Duration::from_secs(options.timeout);
    let root = Folder::wanted(project, options.root.as_deref(), &options.deb)?;
    let mut session = Session::prepare(project, &options.machine, timeout, root.as_ref())?;
    // Without it there is still the other column.
    session.linux = Linux::find(project, &options.package).map_err(|error| format!("{error:#}"));
    match programs.is_empty() {
        true => command::compare(&session, options, &clocks, files),
        false => set::compare(&session, options, &clocks, &programs),
    }
}

/// A program of `guest/bench/harness`, compiled.
pub fn harness(project: &Project, name: &str) -> Result<PathBuf> {
    // Two threads must not write the same file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let folder = project.state().join("harness");
    fs::create_dir_all(&folder)?;
    let program = folder.join(name);
    let source = project.path("guest/bench/harness").join(name).with_extension("c");
    let changed = |file: &Path| fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    if changed(&program) <= changed(&source) {
        // Under a name of its own: another call may do, or run, the same.
        let new = folder.join(format!("{name}.{}", std::process::id()));
        compile_c(&source, &new, "gcc")?;
        fs::rename(&new, &program)?;
    }
    Ok(program)
}
