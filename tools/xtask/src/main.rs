//! The engine of `./x`: builds Tessera and its boot image, runs it in QEMU, tests and measures it.

mod backtrace;
mod bench;
mod bench_cores;
mod bench_host;
mod bench_sizes;
mod check;
mod compare;
mod compile;
mod cpio;
mod elf;
mod emulator;
mod export;
mod image;
mod kvm;
mod layers;
mod links;
mod linux;
mod log;
mod machine;
mod micro;
mod papers;
mod ports;
mod program;
mod project;
mod report;
mod results;
mod run;
mod setup;
mod terminal;
mod testing;
mod toolchain;
mod tracing;

use anyhow::Result;
use clap::{Parser, Subcommand};
use project::Project;
use std::process::ExitCode;

/// Tessera, a multikernel whose virtual memory is a library: build it, run it, test it, measure it
///
/// Everything that is needed and missing is installed on the way (Debian's packages, Rust's
/// bare-metal library), with one line on standard error for each.
#[derive(Parser)]
#[command(name = "x", bin_name = "./x", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(run::RunOptions),
    Test(testing::TestOptions),
    Bench(bench::BenchOptions),
    Compare(compare::CompareOptions),
    Report(report::ReportOptions),
    Trace(tracing::command::TraceOptions),
    /// Build the kernel, the servers and the programs without running them
    Build,
    /// Check what a change must pass besides the tests: formatting, lints, documentation
    Check,
    /// Build the documentation of all packages, in target/doc and target/*/doc
    Doc,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match perform(cli.command) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("x: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn perform(action: Action) -> Result<i32> {
    let project = Project::find()?;
    match action {
        Action::Run(options) => run::run(&project, &options),
        Action::Test(options) => testing::test(&project, &options),
        Action::Bench(options) => bench::bench(&project, &options),
        Action::Compare(options) => compare::compare(&project, &options),
        Action::Trace(options) => tracing::command::trace(&options),
        Action::Report(options) => report::report(&project, &options),
        Action::Build => compile::build(&project).map(|_| 0),
        Action::Check => check::check(&project).map(|()| 0),
        Action::Doc => check::document(&project).map(|()| 0),
    }
}
