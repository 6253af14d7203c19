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
mod bench_group;
#[cfg(feature = "workbench")]
mod bench_host;
#[cfg(feature = "workbench")]
mod bench_mor;
#[cfg(feature = "workbench")]
mod bench_net;
#[cfg(feature = "workbench")]
mod bench_roots;
#[cfg(feature = "workbench")]
mod bench_sfb;
#[cfg(feature = "workbench")]
mod bench_sizes;
#[cfg(feature = "workbench")]
mod bench_uvm;
#[cfg(feature = "workbench")]
mod book;
#[cfg(feature = "workbench")]
mod check;
#[cfg(feature = "workbench")]
mod compare;
mod compile;
#[cfg(feature = "workbench")]
mod completion;
mod cpio;
mod deb;
mod demo;
mod disk;
mod doctor;
mod dynamic;
mod elf;
mod emulator;
mod export;
mod image;
#[cfg(feature = "workbench")]
mod interrupt;
mod kvm;
#[cfg(feature = "workbench")]
mod layers;
#[cfg(feature = "workbench")]
mod links;
#[cfg(feature = "workbench")]
mod linux;
mod log;
mod machine;
mod map;
#[cfg(feature = "workbench")]
mod micro;
mod net;
mod new;
mod nvdimm;
mod pam;
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
mod rootfs;
mod run;
mod scripts;
mod setup;
mod share;
mod swap;
#[cfg(feature = "workbench")]
mod tables;
mod terminal;
#[cfg(feature = "workbench")]
mod testing;
mod tmpfiles;
mod toolchain;
#[cfg(feature = "workbench")]
mod tracing;
#[cfg(not(feature = "workbench"))]
#[path = "tracing/absent.rs"]
mod tracing;
mod watch;
mod wire;

use anyhow::Result;
use clap::{Parser, Subcommand};
use compile::Scope;
use project::Project;
use std::process::ExitCode;

const TIMES: &str = "\
How long it takes, on two processors without KVM:
  run          0.3 s; the first time about a minute, besides downloads; with --trace another 2 minutes, once
               (with Debian's compiler, which builds Rust's library, too, some 4 minutes each)
  build        2 minutes for everything, the first time; then seconds
  test         seconds for one, the better part of an hour for all
  check, doc   some minutes
  bench        seconds to minutes for one, the better part of an hour for all
  compare      seconds for a program; some 10 minutes for the standard set in instructions (--clock), more with wall times
  report       seconds
  demo         a minute; some minutes more, once, for the last two steps
On a terminal all that takes long shows what it is at; Ctrl-C tells what came of it so far.";

/// Tessera, a multikernel whose virtual memory is a library: build it, run it, test it, measure it
///
/// Everything that is needed and missing is installed on the way (Debian's packages, Rust's
/// bare-metal library), with one line on standard error for each.
#[derive(Parser)]
#[command(name = "x", bin_name = "./x", version, after_help = TIMES)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(Box<run::RunOptions>),
    Demo(demo::DemoOptions),
    /// Look what is there, what is missing, and whether KVM really runs guests; installs nothing
    Doctor,
    New(new::NewOptions),
    #[cfg(feature = "workbench")]
    Completion(completion::CompletionOptions),
    #[cfg(feature = "workbench")]
    Test(testing::TestOptions),
    #[cfg(feature = "workbench")]
    Bench(bench::BenchOptions),
    #[cfg(feature = "workbench")]
    Compare(Box<compare::CompareOptions>),
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
    /// Make the book, in target/book, and the documentation of all packages, in target/doc and target/*/doc
    Doc,
    #[cfg(feature = "workbench")]
    /// Write the table of Linux's system calls in the book (docs/linux-calls.md) from the code
    Tables,
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
        Action::Demo(options) => demo::demo(&project, &options),
        Action::Doctor => doctor::doctor(&project),
        Action::New(options) => new::new(&project, &options),
        #[cfg(feature = "workbench")]
        Action::Completion(options) => completion::completion(&options),
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
        Action::Tables => tables::write(&project).map(|()| 0),
        #[cfg(feature = "workbench")]
        Action::Doc => {
            check::document(&project)?;
            println!("{}", book::make(&project)?.display());
            Ok(0)
        }
    }
}
