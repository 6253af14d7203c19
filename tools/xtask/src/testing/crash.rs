//! The machine is killed while it works on `/pmem`, booted again, and what is there compared with what it had said.
//!
//! `guest/tests/crash/load.c` performs operations that follow from a seed, says each that has ended, and knows what must be
//! there. The emulator is killed some time after a random one of them. Its NVDIMM loses no store, so this shows what the order of
//! stores means, not of write-backs: those are tried on the host (docs/morsels.md).

use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Kills of a quick run; `TESSERA_CRASHES` says how many else.
const CRASHES: u64 = 8;
/// The usual seed; `TESSERA_SEED` says which else.
const SEED: u64 = 0x7e55_e7a5_eed0_0001;
/// Blocks that directories and metadata may have grown by and keep.
const KEPT: u64 = 64;
/// Is said when what was left is as it must be.
const LOOKED: &str = "looked";
const FOLDER: &str = "/pmem/crash";

/// What is done, and how it is looked at: words of `load`, and on what.
struct Load {
    name: &'static str,
    work: &'static str,
    check: &'static str,
    place: &'static str,
    /// What is there must be gone before the next time.
    clears: bool,
}

/// Names, attributes and contents.
const FILES: Load =
    Load { name: "files", work: "run", check: "check", place: FOLDER, clears: true };

/// A file that is as it was at the last `msync`.
const ATOMIC: Load = Load {
    name: "atomic",
    work: "stores",
    check: "whole",
    place: "/pmem/crash/atomic",
    clears: false,
};

pub fn cases() -> Vec<Case> {
    vec![
        Case::single("morsel/example".into(), example),
        Case::single("morsel/crash".into(), |context| kills(context, &FILES, "cpu", 1)),
        Case::single("morsel/crash-memory".into(), |context| kills(context, &FILES, "memory", 4)),
        Case::single("morsel/crash-atomic".into(), |context| kills(context, &ATOMIC, "cpu", 1)),
        Case::single("morsel/crash-atomic-memory".into(), |context| {
            kills(context, &ATOMIC, "memory", 2)
        }),
    ]
}

/// `examples/list.c` finds what it has appended, at the same addresses.
fn example(context: &Context) -> Result<()> {
    let folder = context.folder("example")?;
    let image = folder.join("memory");
    if image.exists() {
        fs::remove_file(&image)?;
    }
    compile(&context.project.path("examples/list.c"), &folder.join("list"), "gcc")?;
    let mut all = String::new();
    for (n, words) in [["one", "two"], ["three", "four"]].iter().enumerate() {
        for (index, word) in (2 * n..).zip(words) {
            all.push_str(&format!("{:#x} {word}\n", 0x1000_0000_0018u64 + 64 * index as u64));
        }
        let (nvdimm, cores) = (["memory:64M", "memory"][n], ["1", "2"][n]);
        let mut command = this_tool(context, &folder)?;
        command.args(["run", "--nvdimm", nvdimm, "--cores", cores, "--", "./list"]).args(words);
        let output = feed(&mut command, b"")?;
        let (said, wrong) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
        ensure!(output.status.success(), "{}: {wrong}", output.status);
        ensure!(said == all.as_bytes(), "{:?}, not {all:?}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

fn number(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.trim().parse().with_context(|| format!("{name}={text}")),
        Err(_) => Ok(default),
    }
}

/// What a boot has said before it was killed.
struct Told {
    /// The last operation that it said has ended.
    ended: u64,
    /// Free blocks when nothing was there.
    free: Option<u64>,
    /// What the last boot had left was right.
    looked: bool,
}

fn kills(context: &Context, load: &Load, domain: &str, cores: u32) -> Result<()> {
    let folder = context.folder("crash")?;
    let image = folder.join(format!("{}-{domain}", load.name));
    let program = folder.join("load");
    // What a failure has left is kept until the next run.
    if image.exists() {
        fs::remove_file(&image)?;
    }
    compile(&context.project.path("guest/tests/crash/load.c"), &program, "musl")?;
    let (crashes, seed) = (number("TESSERA_CRASHES", CRASHES)?, number("TESSERA_SEED", SEED)?);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut before, mut operations, mut free) = (None, 0, None);
    for crash in 0..=crashes {
        let next = random.u64(1..1 << 32);
        // The last boot only looks.
        let patience = (crash < crashes).then(|| (random.u64(0..150), random.u64(0..30_000)));
        let told = boot(context, &folder, load, (domain, cores), before, (next, patience))
            .with_context(|| format!("TESSERA_SEED={seed:#x}, kill {crash} of {crashes}"))?;
        match (free, told.free) {
            (None, first) => free = first,
            (Some(first), Some(now)) => ensure!(
                now + KEPT >= first,
                "kill {crash}: {now} blocks are free, {first} were (TESSERA_SEED={seed:#x})"
            ),
            _ => {}
        }
        operations += told.ended;
        before = Some((next, told.ended));
    }
    context.note(&format!("seed {seed:#x}: {crashes} kills after {operations} operations"));
    Ok(())
}

/// One boot: looks at what the last one has left, removes it, and works until it is killed.
fn boot(
    context: &Context,
    folder: &Path,
    load: &Load,
    (domain, cores): (&str, u32),
    before: Option<(u64, u64)>,
    (seed, patience): (u64, Option<(u64, u64)>),
) -> Result<Told> {
    let Load { name, work, check, place, clears } = load;
    let look = match before {
        Some((seed, ended)) => format!("./load {check} {seed} {ended} {place} || exit 9; "),
        None => format!("mkdir {FOLDER}; "),
    };
    let clear = match clears {
        true => format!("./load clear {FOLDER} || exit 8; "),
        false => String::new(),
    };
    let work = match patience {
        Some(_) => format!("exec ./load {work} {seed} 1000000 {place}"),
        None => "true".into(),
    };
    let script = format!("{look}{clear}echo {LOOKED}; {work}");
    let nvdimm = format!("{name}-{domain}:64M,domain={domain}");
    let cores = cores.to_string();
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--verbose", "--nvdimm", &nvdimm, "--cores", &cores]);
    command.args(["--timeout", "120"]);
    command.args(["--file", "load", "--", "sh", "-c", &script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("it has a pipe")?;
    let mut told = Told { ended: 0, free: None, looked: false };
    let mut said = String::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some(blocks) = line.strip_suffix(" blocks free") {
            told.free = Some(blocks.parse()?);
        } else if line == LOOKED {
            told.looked = true;
        } else if let Ok(ended) = line.parse() {
            told.ended = ended;
            if let Some((_, micros)) = patience.filter(|&(most, _)| ended >= most) {
                thread::sleep(Duration::from_micros(micros));
                break;
            }
        } else {
            said.push_str(&line);
            said.push('\n');
        }
    }
    // The emulator goes with it.
    child.kill()?;
    let status = child.wait()?;
    if !told.looked || patience.is_none() && !status.success() {
        let mut complaints = String::new();
        if let Some(mut pipe) = child.stderr.take() {
            pipe.read_to_string(&mut complaints)?;
        }
        bail!("{status}: {said}{complaints}");
    }
    Ok(told)
}
