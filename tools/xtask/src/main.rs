//! The engine of `./x`: builds Tessera and its boot image, runs it in QEMU, tests and measures it.
//!
//! `./x` builds it twice: without the feature `workbench` it runs programs, and is soon there; with it, it does
//! everything.
// What only the workbench uses of the modules that both have.
#![cfg_attr(not(feature = "workbench"), allow(dead_code))]

mod backtrace;
#[cfg(feature = "workbench")]
mod bench;
#[cfg(feature = "workbench")]
mod bench_cores;
#[cfg(feature = "workbench")]
mod bench_host;
#[cfg(feature = "workbench")]
mod bench_sizes;
#[cfg(feature = "workbench")]
mod check;
#[cfg(feature = "workbench")]
mod compare;
mod compile;
mod cpio;
mod elf;
mod emulator;
mod export;
mod image;
mod kvm;
#[cfg(feature = "workbench")]
mod layers;
#[cfg(feature = "workbench")]
mod links;
#[cfg(feature = "workbench")]
mod linux;
mod log;
mod machine;
#[cfg(feature = "workbench")]
mod micro;
#[cfg(feature = "workbench")]
mod papers;
mod ports;
mod program;
mod progress;
mod project;
#[cfg(feature = "workbench")]
mod report;
#[cfg(feature = "workbench")]
mod results;
mod run;
mod setup;
mod terminal;
#[cfg(feature = "workbench")]
mod testing;
mod toolchain;
#[cfg(feature = "workbench")]
mod tracing;
#[cfg(not(feature = "workbench"))]
#[path = "tracing/absent.rs"]
mod tracing;

use anyhow::Result;
use clap::{Parser, Subcommand};
use compile::Scope;
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
    #[cfg(feature = "workbench")]
    Test(testing::TestOptions),
    #[cfg(feature = "workbench")]
    Bench(bench::BenchOptions),
    #[cfg(feature = "workbench")]
    Compare(compare::CompareOptions),
    #[cfg(feature = "workbench")]
    Report(report::ReportOptions),
    #[cfg(feature = "workbench")]
    Trace(tracing::command::TraceOptions),
    /// Build the kernel, the servers and the programs without running them
    Build,
    #[cfg(feature = "workbench")]
    /// Check what a change must pass besides the tests: formatting, lints, documentation
    Check,
    #[cfg(feature = "workbench")]
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
        #[cfg(feature = "workbench")]
        Action::Test(options) => testing::test(&project, &options),
        #[cfg(feature = "workbench")]
        Action::Bench(options) => bench::bench(&project, &options),
        #[cfg(feature = "workbench")]
        Action::Compare(options) => compare::compare(&project, &options),
        #[cfg(feature = "workbench")]
        Action::Trace(options) => tracing::command::trace(&options),
        #[cfg(feature = "workbench")]
        Action::Report(options) => report::report(&project, &options),
        Action::Build => compile::build(&project, Scope::Everything).map(|_| 0),
        #[cfg(feature = "workbench")]
        Action::Check => check::check(&project).map(|()| 0),
        #[cfg(feature = "workbench")]
        Action::Doc => check::document(&project).map(|()| 0),
    }
}
