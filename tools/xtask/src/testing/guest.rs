//! Boots for one test, and compares what came of it.

use super::Context;
use crate::backtrace::Symbols;
use crate::compile::UserProgram;
use crate::emulator::{self, Console, End, Finished, Limits};
use crate::image::{Addition, Image, Orders};
use crate::log::{panic_report, Log};
use crate::machine::{Boot, MachineOptions, Streams};
use crate::ports::Sink;
use crate::program::Invocation;
use anyhow::{bail, Result};
use std::fs;
use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One boot.
pub struct GuestRun {
    /// Names the log.
    pub test: String,
    pub invocation: Invocation,
    pub additions: Vec<Addition>,
    pub stdin: Vec<u8>,
    pub machine: MachineOptions,
    pub timeout: Duration,
    /// Further words of the kernel's command line.
    pub command_line: String,
}

/// What few tests need.
#[derive(Default)]
pub struct Extras {
    /// See [`Boot::memory_file`].
    pub memory_file: Option<PathBuf>,
    /// Another kernel than the usual one.
    pub kernel: Option<PathBuf>,
    /// See [`Limits::give_up`].
    pub give_up: Option<Arc<AtomicBool>>,
    /// See [`Limits::end_at_fault`].
    pub end_at_fault: bool,
}

/// What came of it.
pub struct Observed {
    pub stdout: Vec<u8>,
    pub finished: Finished,
    /// The ELF files of the kernel and, if it was a native one, of the program.
    files: Vec<PathBuf>,
}

impl GuestRun {
    pub fn run(self, context: &Context) -> Result<Observed> {
        self.run_with(context, Extras::default())
    }

    /// The same with more.
    pub fn run_with(self, context: &Context, extras: Extras) -> Result<Observed> {
        let orders = Orders { arguments: self.invocation.encode(), ..Orders::default() };
        let image = Image::assemble(&context.project, &context.base, &orders, &self.additions)?;
        let mut boot = Boot::new(&context.project, &image.file, &self.machine)?;
        boot.kernel = extras.kernel.unwrap_or_else(|| context.built.kernel.clone());
        boot.memory_file = extras.memory_file;
        boot.streams = Streams::Device;
        boot.command_line =
            format!("stdin=pipe stdout=pipe rows=24 cols=80 verbose=0 {}", self.command_line);
        let logs = context.project.state().join("logs");
        fs::create_dir_all(&logs)?;
        let file = logs.join(format!("{}.log", self.test.replace('/', "-")));
        let log = Log { file, to_stderr: false };
        let output = Captured::default();
        let console = Console {
            input: Box::new(Cursor::new(self.stdin)),
            output: Sink::writer(output.clone()),
            errors: Sink::nowhere(),
            screen: Sink::nowhere(),
            terminal: false,
            files: None,
        };
        let limits = Limits {
            timeout: Some(self.timeout),
            give_up: extras.give_up,
            end_at_fault: extras.end_at_fault,
            ..Limits::default()
        };
        let finished = emulator::run(&boot, console, &log, &limits)?;
        // Of those that boot in place of `init`, or the one that it runs.
        let first = self.command_line.split(' ').find_map(|word| word.strip_prefix("init="));
        let path = first.or(self.invocation.arguments.first().map(String::as_str));
        let named = |own: &&UserProgram| path == Some(own.image_path.as_str());
        let program = context.built.programs.iter().find(named).map(|own| own.file.clone());
        let files = [Some(boot.kernel), program].into_iter().flatten().collect();
        Ok(Observed { stdout: output.take(), finished, files })
    }
}

impl Observed {
    /// The program's exit status; an error if the machine did not end in order.
    pub fn status(&self, verbose: bool) -> Result<i32> {
        let tail = &self.finished.log_tail;
        let excerpt = |lines: &[String], most: usize| {
            let most = if verbose { lines.len() } else { most };
            self.annotated(&lines[lines.len().saturating_sub(most)..])
        };
        match &self.finished.end {
            End::Shutdown(Some(_)) if self.counter("invariants_broken") == Some(1) => {
                bail!("the kernel's invariants are broken\n{}", excerpt(tail, 10))
            }
            End::Shutdown(Some(status)) => Ok(*status),
            End::Shutdown(None) => {
                bail!("shut down without an exit status\n{}", excerpt(tail, 10))
            }
            End::Panic => bail!("the kernel panicked\n{}", excerpt(panic_report(tail), 30)),
            End::Died(how) => bail!("the emulator died: {how}\n{}", excerpt(tail, 10)),
            End::Fault => bail!("a program has failed\n{}", excerpt(tail, 10)),
            End::TimedOut => {
                let output = String::from_utf8_lossy(&self.stdout).into_owned();
                bail!("took too long; its output: {output:?}\n{}", excerpt(tail, 10))
            }
            end => bail!("ended early: {end:?}"),
        }
    }

    /// Lines of the log with the names of functions.
    fn annotated(&self, lines: &[String]) -> String {
        let symbols: Vec<Symbols> = self.files.iter().map(|file| Symbols::load(file)).collect();
        let annotate = |line: &String| {
            symbols.iter().fold(line.clone(), |line, symbols| symbols.annotate(&line))
        };
        lines.iter().map(annotate).collect::<Vec<_>>().join("\n")
    }

    /// The value in `@counter NAME VALUE`.
    fn counter(&self, name: &str) -> Option<u64> {
        let records = self.finished.records.iter().rev();
        let mut values = records.filter_map(|record| record.counter());
        values.find_map(|(own, value)| (own == name).then_some(value))
    }

    /// Fails if the free memory after the session is less than before it, by more than `most` bytes.
    pub fn expect_memory(&self, most: u64) -> Result<()> {
        match (self.counter("free_before"), self.counter("free_after")) {
            (Some(before), Some(after)) if after + most < before => {
                bail!("{} bytes of memory were lost", before - after)
            }
            _ => Ok(()),
        }
    }

    /// Fails unless status and output are these.
    pub fn expect(&self, status: i32, stdout: Option<&[u8]>, verbose: bool) -> Result<()> {
        let got = self.status(verbose)?;
        if let Some(expected) = stdout.filter(|expected| *expected != self.stdout) {
            bail!("exit status {got}, expected {status}\n{}", difference(expected, &self.stdout));
        }
        if got != status {
            let output = String::from_utf8_lossy(&self.stdout);
            bail!("exit status {got}, expected {status}; its output:\n{output}");
        }
        Ok(())
    }
}

/// The first lines in which two outputs differ.
pub fn difference(expected: &[u8], got: &[u8]) -> String {
    let (expected, got) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(got));
    let (mut left, mut right) = (expected.lines(), got.lines());
    let mut shown = String::new();
    for number in 1.. {
        let pair = (left.next(), right.next());
        if shown.lines().count() >= 20 || pair == (None, None) {
            break;
        }
        if pair.0 != pair.1 {
            let line =
                |text: Option<&str>| text.map_or("(nothing)".to_owned(), |t| format!("{t:?}"));
            shown += &format!("line {number}: expected {}\n", line(pair.0));
            shown +=
                &format!("{:>w$}  got {}\n", "", line(pair.1), w = 11 + number.to_string().len());
        }
    }
    match shown.is_empty() {
        true => format!("output differs at its end: expected {expected:?}, got {got:?}"),
        false => shown,
    }
}

/// Output that is kept, up to a limit.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

const MOST_OUTPUT: usize = 64 << 20;

impl Captured {
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        if kept.len() + bytes.len() > MOST_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
