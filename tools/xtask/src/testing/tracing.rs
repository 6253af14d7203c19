//! The function trace of a shell pipeline: its times are those of a system without probes, and the
//! trees of a page fault and of a fork can be read off.

use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use crate::toolchain::Variant;
use ::trace::dump::{Damage, Dump};
use ::trace::timeline::{Episode, Name, Timeline};
use anyhow::{ensure, Context as _, Result};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};
use std::fs;
use std::path::{Path, PathBuf};

/// How far times of a traced run may be from those of a run without probes.
const TOLERANCE: f64 = 0.10;

pub fn cases() -> Vec<Case> {
    let one =
        |name: &str, body: fn(&Context) -> Result<()>| Case::single(format!("trace/{name}"), body);
    vec![
        one("pipeline", pipeline),
        one("many_cores", many_cores),
        one("no_probes", no_probes),
        one("wrong_files", wrong_files),
    ]
}

/// When the pipeline ran, and how much of that the processor had nothing to do.
struct Window {
    from: u64,
    to: u64,
    idle: u64,
}

fn x(context: &Context, folder: &Path, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = feed(this_tool(context, folder)?.args(arguments), b"")?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((output.status.code().unwrap_or(-1), stdout, stderr))
}

/// Runs `window.c` with these options of `./x run`.
fn run(context: &Context, folder: &Path, options: &[&str]) -> Result<Window> {
    let program = folder.join("window");
    compile(&context.project.path("guest/tests/trace/window.c"), &program, "gcc")?;
    let arguments = [&["run"][..], options, &["--", "./window"]].concat();
    let (status, stdout, stderr) = x(context, folder, &arguments)?;
    ensure!(status == 0, "{arguments:?}: status {status}: {stdout}{stderr}");
    let line = stdout.lines().find_map(|line| line.strip_prefix("window "));
    let numbers: Vec<u64> = line
        .with_context(|| format!("no window: {stdout}"))?
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let &[from, to, idle] = &numbers[..] else { anyhow::bail!("no window: {stdout}") };
    Ok(Window { from, to, idle })
}

fn read(file: &Path) -> Result<Dump> {
    Ok(Dump::from_bytes(&fs::read(file)?)?)
}

/// Builds with probes, unless another test has, and traces the pipeline.
fn traced(context: &Context, name: &str, options: &[&str]) -> Result<(PathBuf, Dump, Window)> {
    let folder = context.folder("trace")?.join(name);
    fs::create_dir_all(&folder)?;
    let file = folder.join("trace");
    let path = file.to_string_lossy();
    let options = [options, &["--trace", &path]].concat();
    let window = run(context, &folder, &options)?;
    Ok((folder, read(&file)?, window))
}

fn pipeline(context: &Context) -> Result<()> {
    let (folder, dump, window) = traced(context, "pipeline", &["--icount"])?;
    let plain = run(context, &folder, &["--icount"])?;
    let without = (plain.to - plain.from - plain.idle) as f64;
    let timeline = Timeline::between(&dump, window.from, window.to);
    ensure!(timeline.lost == 0, "{} events were lost", timeline.lost);
    let sum = timeline.busy() as f64;
    let probes = (window.to - window.from - window.idle) as f64 - sum;
    context.note(&format!(
        "trace/pipeline: {without} instructions without probes; own times add up to {sum} \
         ({:+.1} %), beside {probes} for the probes",
        (sum / without - 1.0) * 100.0
    ));
    ensure!(
        (sum / without - 1.0).abs() < TOLERANCE,
        "own times add up to {sum} instructions, but without probes it is {without}"
    );
    // Otherwise nothing was corrected.
    ensure!(probes > without * TOLERANCE, "the probes cost {probes} instructions only");
    episodes(&dump)?;
    files(&dump)?;
    pictures_and_trees(context, &folder, &dump)
}

/// Every process faults and calls, and the shell forks three times in each round.
fn episodes(dump: &Dump) -> Result<()> {
    const FORKS: [u32; 3] = [56, 57, 58];
    let timeline = Timeline::new(dump);
    let count = |is: &dyn Fn(Episode) -> bool| {
        let matches = |name| matches!(name, Name::Episode(episode) if is(episode));
        timeline.calls.iter().filter(|call| matches(call.name)).count()
    };
    let faults = count(&|episode| episode == Episode::PageFault);
    ensure!(faults >= 100, "{faults} page faults");
    let forks = count(&|episode| matches!(episode, Episode::LinuxCall(n) if FORKS.contains(&n)));
    ensure!(forks == 1 + 3 * 3, "{forks} forks");
    // The first function of the first process has no way back.
    ensure!(timeline.strays <= 3, "{} strays", timeline.strays);
    Ok(())
}

/// Functions are in the source files that their paths name, also methods of types of other files.
fn files(dump: &Dump) -> Result<()> {
    let nameless = dump.functions.values().filter(|function| function.file.is_empty()).count();
    ensure!(nameless * 50 < dump.functions.len(), "{nameless} functions are in no file");
    for (name, file) in [
        (
            "<kernel::startup::handlers::Kernel as kernel::arch::handlers::Handlers>::on_syscall",
            "kernel/src/startup/",
        ),
        ("<kernel::cap::space::CapSpace>::retype", "kernel/src/cap/retype.rs"),
        ("<kernel::vspace::tlb::Translations>::map_many", "kernel/src/vspace/map.rs"),
        ("<uvm::space::Space>::fork", "crates/user/uvm/src/"),
    ] {
        // Itself or a part of it, but not what begins with its name.
        let is_it = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let mut found = dump
            .functions
            .values()
            .filter(|function| function.name.strip_prefix(name).is_some_and(is_it));
        let found = found.next().with_context(|| format!("no function {name}"))?;
        ensure!(found.file.starts_with(file), "{name} is in {}", found.file);
    }
    Ok(())
}

/// What `./x trace` prints and draws.
fn pictures_and_trees(context: &Context, folder: &Path, dump: &Dump) -> Result<()> {
    let (status, stdout, stderr) = x(context, folder, &["trace", "trace"])?;
    ensure!(status == 0, "status {status}: {stderr}");
    let (before, fork) = stdout.split_once("\na fork: the median of").context("no fork")?;
    let (tables, fault) =
        before.split_once("\na page fault: the median of").context("no page fault")?;
    let has = |text: &str, parts: &[&str]| -> Result<()> {
        let missing = parts.iter().find(|part| !text.contains(**part));
        ensure!(missing.is_none(), "{missing:?} is missing in\n{text}");
        Ok(())
    };
    has(
        tables,
        &[
            "times are in instructions",
            "from the first program on",
            "Handlers>::on_syscall",
            "page fault",
            "system call execve",
            "faults    calls  who\n",
            "  process 2\n",
            "  unixd\n",
        ],
    )?;
    // The start of the system is not in it, nor are types that something generic was made for.
    ensure!(!tables.contains("boot::start") && !tables.contains("::<"), "{tables}");
    ensure!(dump.begins_with_program, "the trace shows the start of the system");
    has(
        fault,
        &[
            "page fault  [process",
            "├─kernel::events::on_other_trap",
            "└─libunix::upcall::page_fault",
        ],
    )?;
    has(
        fork,
        &["libunix::upcall::syscall", "libunix::fork::", "kernel::invoke::any::retype", "[unixd]"],
    )?;
    let html = fs::read_to_string(folder.join("trace.html"))?;
    has(
        &html,
        &[
            "Where the time went",
            "Whose time it was",
            ".flame>svg{display:block;width:100%}",
            "libunix::upcall::page_fault",
            "system call execve",
        ],
    )?;
    ensure!(html.matches("<figure>").count() >= 5, "too few distributions");
    let chosen = ["trace", "trace", "--tree", "uvm::", "--html", "other.html"];
    let (status, stdout, stderr) = x(context, folder, &chosen)?;
    ensure!(status == 0 && stdout.contains("uvm::: the median of"), "{stdout}{stderr}");
    ensure!(folder.join("other.html").exists());
    let (status, _, stderr) = x(context, folder, &["trace", "trace", "--tree", "nonesuch"])?;
    ensure!(status == 2 && stderr.contains("no call in the trace has a name with"), "{stderr}");
    Ok(())
}

/// Each core has a buffer, and the calls of each fit together.
fn many_cores(context: &Context) -> Result<()> {
    let (_, dump, _) = traced(context, "many_cores", &["--cores", "2", "--trace-boot"])?;
    ensure!(!dump.begins_with_program, "the trace begins with the program");
    ensure!(dump.cores.len() == 2, "{} cores", dump.cores.len());
    for (number, core) in dump.cores.iter().enumerate() {
        ensure!(core.events.len() > 1000, "core {number} has {} events", core.events.len());
    }
    let timeline = Timeline::new(&dump);
    // A thread may be moved while it records; anything else is an error of ours.
    let share = timeline.strays as f64 / timeline.events as f64;
    ensure!(share < 0.001, "{} of {} events are strays", timeline.strays, timeline.events);
    Ok(())
}

/// What runs without `--trace` has nothing of all this in it.
fn no_probes(context: &Context) -> Result<()> {
    let files = context.built.programs.iter().map(|program| program.file.clone());
    for file in files.chain([context.project.kernel(Variant::Plain)]) {
        let data = fs::read(&file)?;
        let image: ElfFile64 = ElfFile64::parse(&*data)?;
        let places = image.section_by_name_bytes(b"xray_instr_map");
        let empty = places.is_none_or(|section| object::ObjectSection::size(&section) == 0);
        ensure!(empty, "{} has places for probes", file.display());
        let probe = image.symbols().any(|symbol| symbol.name() == Ok("trace_probe"));
        ensure!(!probe, "{} has the probes' code", file.display());
    }
    Ok(())
}

fn wrong_files(context: &Context) -> Result<()> {
    let folder = context.folder("trace")?;
    let whole = Dump { images: vec!["kernel".into()], ..Dump::default() }.to_bytes();
    let mut changed = whole.clone();
    changed[20] ^= 1;
    for (content, complaint) in [
        (b"no trace".to_vec(), Damage::NotATrace.to_string()),
        (whole[..20].to_vec(), Damage::Truncated(20).to_string()),
        (changed, "the trace".into()),
    ] {
        fs::write(folder.join("wrong"), content)?;
        let (status, stdout, stderr) = x(context, &folder, &["trace", "wrong"])?;
        ensure!(status == 2 && stdout.is_empty() && stderr.contains(&complaint), "{stderr}");
    }
    let (status, _, stderr) = x(context, &folder, &["trace", "nonesuch"])?;
    ensure!(status == 2 && stderr.contains("cannot read nonesuch"), "{stderr}");
    Ok(())
}
