//! C programs of `guest/tests/linux`, each linked statically in up to three ways, run unmodified.
//!
//! What a program must print is in NAME.out beside it, or in NAME.BUILD.out where the C libraries
//! differ. Where it says `oracle: linux`, these files are what the very same program printed on
//! Linux; `./x test --record` runs it here and writes them anew. Tests themselves do not ask the
//! machine's own Linux: kernels differ in corners, and a test must not.

use super::directives::{Directives, BUILDS, DYNAMIC};
use super::guest::{GuestRun, Observed};
use super::model::number;
use super::{feed, long, Case, Context};
use crate::dynamic;
use crate::image::Addition;
use crate::machine::Homes;
use crate::program::Invocation;
use crate::project::Project;
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tests that are also run with processes at home on all cores: of waits, signals, terminals, locks, sockets, threads, shared memory,
/// and of who is hostile.
const AT_HOMES: &[&str] = &[
    "cow_promise",
    "dnotify",
    "epoll",
    "exec",
    "fanotify",
    "futex",
    "hostile_fanotify",
    "hostile_leases",
    "hostile_roots",
    "hostile_stop",
    "leases",
    "locks",
    "pid_spaces",
    "pipes",
    "ptys",
    "rseq",
    "shared_events",
    "signals",
    "sockets",
    "swap_killed",
    "thread_signals",
    "threads",
    "userfaultfd",
    "vfork",
    "wait",
    "zerocopy",
];
/// Tests that are also run with forks that copy all pages at once: no program may see a difference.
const EAGER: [&str; 15] = [
    "clone_pidfd",
    "cow",
    "cow_random",
    "exec",
    "forkbomb",
    "madvise",
    "mremap",
    "pipes",
    "random_fork",
    "signals",
    "swap_small",
    "threads",
    "userfaultfd",
    "vfork",
    "wait",
];
/// Whose homes are chosen by this seed: the first program's is not core 0.
const HOMES: Homes = Homes::Seed(1);
/// So many cores then.
const HOMES_CORES: u32 = 4;

pub fn cases(context: &Context) -> Result<Vec<Case>> {
    let (mut cases, mut tests) = (Vec::new(), 0);
    for source in sources(&context.project.path("guest/tests/linux"), "c")? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&source)?;
        let directives =
            Directives::parse(&text, "//").with_context(|| format!("{}", source.display()))?;
        let runs = !directives.when_asked || context.asks_for("linux");
        let builds = BUILDS.into_iter().filter(|build| runs && directives.wants(build));
        let mut ways: Vec<Way> = builds.map(Way::Build).collect();
        ways.extend(AT_HOMES.contains(&name.as_str()).then_some(Way::Homes));
        ways.extend(EAGER.contains(&name.as_str()).then_some(Way::Eager));
        if let Some(day) = context.day {
            ways = of_day(ways, tests + long::turns(&format!("linux/{name}"), day));
        }
        tests += 1;
        cases.extend(ways.into_iter().map(|way| way.case(&source, &name)));
    }
    Ok(cases)
}

/// How a test is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Build(&'static str),
    Homes,
    Eager,
}

impl Way {
    fn case(self, source: &Path, name: &str) -> Case {
        let (source, name) = (source.to_owned(), name.to_owned());
        let kind = match self {
            Way::Build(build) => build,
            Way::Homes => "homes",
            Way::Eager => "eager",
        };
        Case::single(format!("linux/{name}.{kind}"), move |context| match self {
            Way::Build(build) => run(context, &source, &name, build),
            Way::Homes => run_at_homes(context, &source, &name),
            Way::Eager => run_eagerly(context, &source, &name),
        })
    }
}

/// Those of a day in a run of all tests: one of the builds, and every other day what else there is. With all of them the suite is most of
/// the run, and what one shows the others have shown nearly always.
fn of_day(ways: Vec<Way>, day: usize) -> Vec<Way> {
    let is_build = |way: &&Way| matches!(way, Way::Build(_));
    let builds = ways.iter().filter(is_build).count();
    let build = ways.iter().copied().filter(|way| is_build(&way)).nth(day % builds.max(1));
    let others = ways.iter().copied().filter(|way| !is_build(&way));
    build.into_iter().chain(others.skip(day % 2).step_by(2)).collect()
}

/// The files with this extension, sorted.
pub fn sources(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn run(context: &Context, source: &Path, name: &str, build: &str) -> Result<()> {
    let mut directives = Directives::parse(&fs::read_to_string(source)?, "//")?;
    let case = format!("linux/{name}");
    if context.filter.starts_with(&case) {
        directives.lengthen();
    }
    let test = format!("{case}.{build}");
    let run = guest_run(context, test, (source, name, build), &directives)?;
    check(context, run, (source, build), &directives)
}

/// The same program with processes at home on all cores.
fn run_at_homes(context: &Context, source: &Path, name: &str) -> Result<()> {
    let mut directives = Directives::parse(&fs::read_to_string(source)?, "//")?;
    directives.cores.get_or_insert(HOMES_CORES);
    let test = format!("linux/{name}.homes");
    let mut run = guest_run(context, test, (source, name, "gcc"), &directives)?;
    if !matches!(run.machine.homes, Homes::Seed(_)) {
        run.machine.homes = HOMES;
    }
    check(context, run, (source, "gcc"), &directives)
}

/// The same program with forks that copy all pages at once.
fn run_eagerly(context: &Context, source: &Path, name: &str) -> Result<()> {
    let mut directives = Directives::parse(&fs::read_to_string(source)?, "//")?;
    directives.environment.push("TESSERA_FORK=eager".to_owned());
    let test = format!("linux/{name}.eager");
    let run = guest_run(context, test, (source, name, "gcc"), &directives)?;
    check(context, run, (source, "gcc"), &directives)
}

/// Boots, and compares what the program has printed and how it has ended, and looks whether all memory has come back.
fn check(
    context: &Context,
    run: GuestRun,
    (source, build): (&Path, &str),
    directives: &Directives,
) -> Result<()> {
    let stdout = expected_stdout(directives, source, build)?;
    let observed = run.run(context)?;
    observed.expect(directives.expected_status.unwrap_or(0), stdout.as_deref(), context.verbose)?;
    observed.expect_memory(directives.kept)
}

/// The table of requests for a program that makes some up, and what of its arguments was asked for.
fn give_requests(directives: &mut Directives) -> Result<()> {
    let mut table = String::new();
    for request in unixproto::ops::TABLE {
        let reply = if request.reply == "()" { "-" } else { request.reply };
        table += &format!("{} {} {reply}", request.op, request.name);
        for (field, ty) in request.fields {
            table += &format!(" {field}:{ty}");
        }
        table.push('\n');
    }
    directives.stdin = table.into_bytes();
    for (at, name) in ["TESSERA_SEED", "TESSERA_OPS"].into_iter().enumerate() {
        if let (Some(number), Some(argument)) = (number(name)?, directives.arguments.get_mut(at)) {
            *argument = number.to_string();
        }
    }
    Ok(())
}

/// Boots for the program of `guest/tests/linux` with this name, with directives that are changed.
pub fn run_named(
    context: &Context,
    test: &str,
    name: &str,
    change: impl FnOnce(&mut Directives),
) -> Result<Observed> {
    let source = context.project.path("guest/tests/linux").join(name).with_extension("c");
    let mut directives = Directives::parse(&fs::read_to_string(&source)?, "//")?;
    change(&mut directives);
    guest_run(context, test.to_owned(), (&source, name, "gcc"), &directives)?.run(context)
}

/// The same; fails unless its output and its status are as they should be.
pub fn expect_named(
    context: &Context,
    test: &str,
    name: &str,
    change: impl FnOnce(&mut Directives),
) -> Result<()> {
    let source = context.project.path("guest/tests/linux").join(name).with_extension("c");
    let mut status = 0;
    let mut stdout = Ok(None);
    let observed = run_named(context, test, name, |directives| {
        change(directives);
        status = directives.expected_status.unwrap_or(0);
        stdout = expected_stdout(directives, &source, "gcc");
    })?;
    observed.expect(status, stdout?.as_deref(), context.verbose)
}

/// A boot for a program, compiled in a way.
fn guest_run(
    context: &Context,
    test: String,
    (source, name, build): (&Path, &str, &str),
    directives: &Directives,
) -> Result<GuestRun> {
    let mut directives = directives.clone();
    if directives.gives_requests {
        give_requests(&mut directives)?;
    }
    // All builds have the same name, so that they see the same arguments.
    let folder = context.folder(&format!("linux/{build}"))?;
    let program = folder.join(name);
    compile(source, &program, build)?;
    let mut arguments = vec![format!("./{name}")];
    arguments.extend(directives.arguments.iter().cloned());
    let invocation = Invocation::new(arguments, &directives.environment)?;
    let guest = format!("/root/{name}");
    let mut machine = context.machine(&directives)?;
    if let Some(size) = &directives.swap {
        machine.swap = Some(crate::swap::parse(size)?);
    }
    if let Some(words) = &directives.swap_errors {
        let rules = folder.join(format!("{}.rules", test.replace('/', "-")));
        fs::write(&rules, crate::swap::rules(words)?)?;
        machine.swap_errors = Some(rules);
    }
    if let Some(size) = &directives.nvdimm {
        // By the test: the same build also runs with homes, at the same time.
        let memory = folder.join(format!("{}.nvdimm", test.replace('/', "-")));
        if memory.exists() {
            fs::remove_file(&memory)?;
        }
        machine.nvdimm = Some(crate::nvdimm::parse(&format!("{}:{size}", memory.display()))?);
    }
    let mut additions = dynamic::needs(&program)?;
    additions.push(Addition { host: program, guest });
    Ok(GuestRun {
        test,
        invocation,
        additions,
        stdin: directives.stdin.clone(),
        machine,
        timeout: directives.timeout(),
        command_line: directives.command_line.clone(),
    })
}

/// Compiles unless the program is newer than its source and the headers beside it and in the
/// neighbouring folders. Two tests may do so at once: each finds no program, or a whole one.
pub fn compile(source: &Path, program: &Path, build: &str) -> Result<()> {
    let changed = |file: &Path| fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let around = source.parent().and_then(Path::parent).context("a source is in a folder")?;
    let mut headers = Vec::new();
    for folder in fs::read_dir(around)? {
        headers.extend(sources(&folder?.path(), "h")?);
    }
    let newest = headers.iter().map(|header| changed(header)).max().flatten();
    if changed(program) > changed(source).max(newest) {
        return Ok(());
    }
    let (compiler, how): (_, &[&str]) = match build {
        "pie" => ("gcc", &["-static-pie"]),
        DYNAMIC => ("gcc", &["-rdynamic"]),
        "musl" => ("musl-gcc", &["-static"]),
        "nolibc" => ("gcc", &["-static", "-nostdlib", "-DNO_LIBC"]),
        _ => ("gcc", &["-static"]),
    };
    static COMPILED: AtomicUsize = AtomicUsize::new(0);
    let number = COMPILED.fetch_add(1, Ordering::Relaxed);
    let unfinished = program.with_extension(format!("{}-{number}.unfinished", process::id()));
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-Wno-unused-result", "-pthread"])
        .args(how)
        .arg("-o")
        .args([&*unfinished, source])
        .arg("-lm")
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    ensure!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&unfinished, program)?;
    Ok(())
}

/// The output that the test must have, if it is to have any in particular.
fn expected_stdout(directives: &Directives, source: &Path, build: &str) -> Result<Option<Vec<u8>>> {
    if let Some(text) = &directives.expected_stdout {
        return Ok(Some(text.clone()));
    }
    let files = [source.with_extension(format!("{build}.out")), source.with_extension("out")];
    match files.iter().find(|file| file.exists()) {
        Some(file) => Ok(Some(fs::read(file)?)),
        None if directives.linux_is_oracle => {
            bail!("{} is missing: ./x test --record linux/", files[1].display())
        }
        // It would pass whatever it prints.
        None if directives.expected_status.is_none() => {
            bail!("{} expects nothing: say oracle or expect-", source.display())
        }
        None => Ok(None),
    }
}

/// Writes what the programs whose name contains `filter` print on this machine's Linux.
pub fn record(project: &Project, filter: &str) -> Result<()> {
    for source in sources(&project.path("guest/tests/linux"), "c")? {
        let directives = Directives::parse(&fs::read_to_string(&source)?, "//")?;
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let case = format!("linux/{name}");
        if directives.linux_is_oracle && (case.contains(filter) || filter.starts_with(&case)) {
            record_one(project, &directives, &source, &name)
                .with_context(|| format!("cannot record {case}"))?;
        }
    }
    Ok(())
}

fn record_one(project: &Project, directives: &Directives, source: &Path, name: &str) -> Result<()> {
    let mut outputs = Vec::new();
    for build in BUILDS.into_iter().filter(|build| directives.wants(build)) {
        let folder = project.state().join("tests/linux").join(build);
        fs::create_dir_all(&folder)?;
        let program = folder.join(name);
        compile(source, &program, build)?;
        let mut arguments = vec![format!("./{name}")];
        arguments.extend(directives.arguments.iter().cloned());
        let invocation = Invocation::new(arguments, &directives.environment)?;
        let (status, stdout) = ask_linux(&program, &invocation, &directives.stdin)?;
        let expected = directives.expected_status.unwrap_or(0);
        ensure!(status == expected, "{build}: exit status {status}, expected {expected}");
        let _ = fs::remove_file(source.with_extension(format!("{build}.out")));
        outputs.push((build, stdout));
    }
    let Some((_, first)) = outputs.first() else { return Ok(()) };
    if outputs.iter().all(|(_, stdout)| stdout == first) {
        fs::write(source.with_extension("out"), first)?;
        return Ok(());
    }
    let _ = fs::remove_file(source.with_extension("out"));
    for (build, stdout) in outputs {
        fs::write(source.with_extension(format!("{build}.out")), stdout)?;
    }
    Ok(())
}

/// What the program does on this Linux, in an empty folder.
fn ask_linux(program: &Path, invocation: &Invocation, stdin: &[u8]) -> Result<(i32, Vec<u8>)> {
    let folder = program.with_extension(format!("oracle.{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let name = program.file_name().context("a program has a name")?;
    // A copy would be open for writing in children that other threads start meanwhile (ETXTBSY).
    fs::hard_link(program, folder.join(name))?;
    let outcome = ask_linux_in(&folder, invocation, stdin);
    // What it left there is of no use to anybody.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn ask_linux_in(folder: &Path, invocation: &Invocation, stdin: &[u8]) -> Result<(i32, Vec<u8>)> {
    let (program, arguments) = invocation.arguments.split_first().context("no program")?;
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "60", program])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(invocation.environment.iter().map(|(key, value)| (key, value)))
        .stderr(Stdio::null());
    let output = feed(&mut command, stdin).context("cannot run the program on this machine")?;
    match (output.status.code(), output.status.signal()) {
        (Some(124), _) => bail!("took too long on this machine's own Linux"),
        (Some(status), _) => Ok((status, output.stdout)),
        (None, signal) => Ok((128 + signal.unwrap_or(0), output.stdout)),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_day, Way};

    #[test]
    fn each_way_has_its_day() {
        let all =
            [Way::Build("gcc"), Way::Build("pie"), Way::Build("musl"), Way::Homes, Way::Eager];
        for kept in 0..1 << all.len() {
            let ways: Vec<Way> = all
                .into_iter()
                .enumerate()
                .filter(|(at, _)| kept >> at & 1 != 0)
                .map(|(_, way)| way)
                .collect();
            let days: Vec<Way> = (0..6).flat_map(|day| of_day(ways.clone(), day)).collect();
            assert!(ways.iter().all(|way| days.contains(way)), "{ways:?}: {days:?}");
        }
    }
}
