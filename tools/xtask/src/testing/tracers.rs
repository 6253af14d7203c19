//! Debian's own `strace` and `gdb`, unmodified, on a program with threads. They are dynamic programs, and are started
//! by naming the loader, which is a program like any other. What they must print is in `guest/tests/tracers`, numbers and
//! addresses left out; it is what they print on Linux.

use super::guest::GuestRun;
use super::{linux, Case, Context};
use crate::image::Addition;
use crate::machine::MachineOptions;
use crate::program::Invocation;
use crate::setup;
use anyhow::{bail, ensure, Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// What gdb asks about threads, by name.
const THREADS: &str = "/lib/x86_64-linux-gnu/libthread_db.so.1";
/// The libraries that gdb needs beyond those that every Debian has.
const GDB_LIBRARIES: [&str; 7] = [
    "libdebuginfod1",
    "libexpat1",
    "libgmp10",
    "libipt2",
    "libreadline8",
    "libxxhash0",
    "libzstd1",
];

pub fn cases() -> Vec<Case> {
    vec![Case::single("tracers/strace".into(), strace), Case::single("tracers/gdb".into(), gdb)]
}

fn strace(context: &Context) -> Result<()> {
    setup::packages(&["strace"], "a tracer, for the tests", || setup::in_path("strace"))?;
    let Some(strace) = setup::find_in_path("strace") else { bail!("there is no strace") };
    let filter = "trace=clone3,clone,execve,write,exit,exit_group,wait4";
    let script = format!("{LOADER} /usr/bin/strace -f -o log -e {filter} ./threads; cat log");
    let output = run(context, "strace", (&strace, "/usr/bin/strace"), &[], &script)?;
    // Of different threads one line or the other may be first, or be cut in two.
    let lines: BTreeSet<String> = whole_lines(&output).into_iter().collect();
    compare(context, "strace", &lines.into_iter().collect::<Vec<_>>())
}

fn gdb(context: &Context) -> Result<()> {
    let gdb = minimal_gdb(context)?;
    let folder = context.project.path("guest/tests/tracers");
    let more = [
        addition(&folder.join("gdb.commands"), "/root/commands"),
        addition(&folder.join("threads.c"), "/root/threads.c"),
        addition(Path::new(THREADS), THREADS),
    ];
    let script = format!(
        "LC_ALL=C.UTF-8 {LOADER} /usr/bin/gdb -nx -batch -ex 'set substitute-path {} /root' \
         -x commands ./threads 2>&1",
        folder.display()
    );
    let output = run(context, "gdb", (&gdb, "/usr/bin/gdb"), &more, &script)?;
    // The image has no tables of character sets.
    let lines = output.lines().filter(|line| {
        !line.contains("from the host encoding") && !line.starts_with("This normally should not")
    });
    let lines = lines.map(without_numbers);
    // What is told of threads and processes comes when it comes; what is asked for in order.
    let (mut told, mut asked): (Vec<String>, Vec<String>) =
        lines.partition(|line| line.starts_with('[') || line == "child");
    told.sort();
    asked.extend(told);
    compare(context, "gdb", &asked)
}

fn addition(host: &Path, guest: &str) -> Addition {
    Addition { host: host.to_owned(), guest: guest.to_owned() }
}

/// Runs a script with the program, a tracer and all libraries that this needs. Answers what is printed.
fn run(
    context: &Context,
    name: &str,
    (tracer, place): (&Path, &str),
    more: &[Addition],
    script: &str,
) -> Result<String> {
    let program = context.folder("tracers")?.join("threads");
    linux::compile(&context.project.path("guest/tests/tracers/threads.c"), &program, "gcc")?;
    let mut additions = vec![addition(tracer, place), addition(&program, "/root/threads")];
    for library in libraries(tracer)? {
        additions.push(addition(&library, &library.display().to_string()));
    }
    additions.extend(more.iter().cloned());
    let arguments = ["sh", "-c", script].map(String::from).to_vec();
    let run = GuestRun {
        test: format!("tracers/{name}"),
        invocation: Invocation::new(arguments, &[])?,
        additions,
        stdin: Vec::new(),
        machine: MachineOptions { cores: 2, ..MachineOptions::default() },
        timeout: Duration::from_secs(120),
        command_line: String::new(),
    };
    let observed = run.run(context)?;
    ensure!(observed.status(context.verbose)? == 0, "status of {name}: {}", text(&observed.stdout));
    Ok(text(&observed.stdout))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The libraries of a program, and its loader.
pub fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let output = text(&output.stdout);
    ensure!(!output.contains("not found"), "{}: {output}", program.display());
    let paths = output.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

/// Debian's gdb without an interpreter for Python: downloaded and unpacked, since it would replace a
/// gdb that is installed.
fn minimal_gdb(context: &Context) -> Result<PathBuf> {
    let state = context.project.state();
    let folder = setup::unpacked(&state, "gdb-minimal", "a debugger, for the tests")?;
    let gdb = folder.join("usr/bin/gdb");
    let complete = || libraries(&gdb).is_ok() && Path::new(THREADS).exists();
    setup::packages(&GDB_LIBRARIES, "what the debugger needs", complete)?;
    Ok(gdb)
}

/// A line with `N` for each decimal number that is an id, and `0xN` for each address.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("0x") {
        out += &rest[..at];
        out += "0xN";
        rest = rest[at + 2..].trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    }
    out += rest;
    for word in ["LWP ", "process "] {
        if let Some(at) = out.find(word) {
            let start = at + word.len();
            let tail = out[start..].trim_start_matches(|letter: char| letter.is_ascii_digit());
            out = format!("{}N{tail}", &out[..start]);
        }
    }
    // Columns are as wide as the numbers in them.
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of `strace -o`, without ids, those that were cut in two put together again.
fn whole_lines(log: &str) -> Vec<String> {
    const CUT: &str = " <unfinished ...>";
    let mut cut: Vec<(String, String)> = Vec::new();
    let mut lines = Vec::new();
    for line in log.lines() {
        let Some((id, what)) = line.split_once(' ').filter(|(id, _)| id.parse::<u32>().is_ok())
        else {
            continue;
        };
        let what = what.trim_start();
        if let Some(begin) = what.strip_suffix(CUT) {
            cut.push((id.to_owned(), begin.to_owned()));
            continue;
        }
        let whole = match what.split_once(" resumed>") {
            Some((_, end)) => {
                let at = cut.iter().position(|(owner, _)| owner == id);
                format!("{}{end}", at.map(|at| cut.remove(at).1).unwrap_or_default())
            }
            None => what.to_owned(),
        };
        // Behind the name and the first argument there are mostly addresses, ids and times.
        let short = match whole.split_once(", ") {
            Some((short, _)) if !whole.starts_with("write") => short,
            _ => whole.as_str(),
        };
        let short = match short.split_once("{flags=") {
            Some((name, flags)) => format!("{name}{flags}"),
            None => short.to_owned(),
        };
        lines.push(without_numbers(&short));
    }
    lines
}

/// Compares lines with those of `guest/tests/tracers/NAME.out`.
fn compare(context: &Context, name: &str, lines: &[String]) -> Result<()> {
    let file = context.project.path("guest/tests/tracers").join(name).with_extension("out");
    let expected = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let expected: Vec<&str> = expected.lines().collect();
    let got: Vec<&str> = lines.iter().map(String::as_str).collect();
    if let Some(at) = (0..expected.len().max(got.len())).find(|&n| expected.get(n) != got.get(n)) {
        let line = |lines: &[&str]| lines.get(at).map_or("(nothing)".into(), |it| it.to_string());
        bail!(
            "line {} of {}: expected {:?}, got {:?}; all of it:\n{}",
            at + 1,
            file.display(),
            line(&expected),
            line(&got),
            got.join("\n")
        );
    }
    Ok(())
}
