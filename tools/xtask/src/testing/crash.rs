//! The machine loses power while it works on `/pmem`, and what is left is compared with what it had said.
//!
//! `guest/tests/crash/load.c` performs operations that follow from a seed, says each that has ended, and knows what must be
//! there. Two ways to lose power:
//!
//! * *Killed*: the emulator, some time after a random operation; the next boot looks, and removes what it has found.
//! * *Stopped* ([`states`]) between two instructions, whichever: the file is what it would be after a kill there. It is
//!   copied, and the machine goes on. What is in the copy is found out on the host by the crates that a boot uses; of
//!   some a boot looks, too.
//!
//! The NVDIMM loses no store, so this shows what the order of stores means, not of write-backs: those are tried on
//! the host (docs/morsels.md), by tests of the crates; random sequences of three operations from here, as there are so many.

mod states;

use super::linux::compile;
use super::model::number;
use super::{feed, this_tool, Case, Context};
use crate::toolchain;
use anyhow::{bail, ensure, Context as _, Result};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// Power failures of a quick run; `TESSERA_CRASHES` says how many else.
const CRASHES: u64 = 100;
/// Of so many, one is a kill of the emulator, and the copy of one is booted.
const BOOTED: u64 = 25;
/// The usual seed; `TESSERA_SEED` says which else.
const SEED: u64 = 0x7e55_e7a5_eed0_0001;
/// Blocks that directories and metadata may have grown by and keep.
const KEPT: u64 = 64;
/// Is said when what was left is as it must be.
const LOOKED: &str = "looked";
const FOLDER: &str = "/pmem/crash";
/// Sequences of three operations, each with power failures on the host: when all tests run, and when they are asked for.
/// `TESSERA_TRIPLES` says how many else.
const SOME_THREES: u64 = 10_000;
const ALL_THREES: u64 = 1_000_000;

/// What is done, and how it is looked at: words of `load`, and on what.
struct Load {
    name: &'static str,
    work: &'static str,
    check: &'static str,
    /// Below `/pmem`.
    place: &'static str,
    /// What is there must be gone before the next time.
    clears: bool,
}

/// Names, attributes and contents.
const FILES: Load =
    Load { name: "files", work: "run", check: "check", place: "crash", clears: true };

/// A file that is as it was at the last `msync`.
const ATOMIC: Load =
    Load { name: "atomic", work: "stores", check: "whole", place: "crash/atomic", clears: false };

/// The machine on which it is done.
#[derive(Clone, Copy)]
struct Setting {
    /// What survives: `cpu` or `memory`.
    domain: &'static str,
    cores: u32,
}

pub fn cases(filter: &str) -> Vec<Case> {
    let threes = match filter.starts_with("morsel") {
        true => ALL_THREES,
        false => SOME_THREES,
    };
    let threes = |name: &str, package: &'static str| {
        Case::single(format!("morsel/{name}"), move |context| sequences(context, package, threes))
    };
    let crashes = |name: &str, load: &'static Load, domain, cores| {
        let setting = Setting { domain, cores };
        Case::single(format!("morsel/{name}"), move |context| crashes(context, load, setting))
    };
    vec![
        Case::single("morsel/example".into(), example),
        crashes("crash", &FILES, "cpu", 1),
        crashes("crash-memory", &FILES, "memory", 4),
        crashes("crash-atomic", &ATOMIC, "cpu", 1),
        crashes("crash-atomic-memory", &ATOMIC, "memory", 2),
        // The longest first.
        threes("threes-of-names", "pmfs"),
        threes("threes", "morsel"),
    ]
}

/// Random sequences of three operations of a crate, with power failures.
fn sequences(context: &Context, package: &str, count: u64) -> Result<()> {
    let mut cargo = toolchain::host(&context.project);
    let test = "random_sequences_of_three";
    cargo.args(["test", "--quiet", "--package", package, "--test", "failures", test]);
    cargo.args(["--", "--exact", "--show-output"]);
    cargo.env("TESSERA_TRIPLES", number("TESSERA_TRIPLES")?.unwrap_or(count).to_string());
    let output = feed(&mut cargo, b"")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains("1 passed"), "it did not run: {said}");
    if let Some(line) = said.lines().find(|line| line.contains(" images, ")) {
        context.note(&format!("{package}: {line}"));
    }
    Ok(())
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

/// What a case works with.
struct Place<'a> {
    context: &'a Context,
    folder: PathBuf,
    load: &'static Load,
    setting: Setting,
    /// Of files of this case.
    name: String,
}

fn crashes(context: &Context, load: &'static Load, setting: Setting) -> Result<()> {
    let folder = context.folder("crash")?;
    let name = format!("{}-{}", load.name, setting.domain);
    // Each case has a program of its own: another one may be starting while it is compiled.
    let program = folder.join(format!("load-{name}"));
    compile(&context.project.path("guest/tests/crash/load.c"), &program, "musl")?;
    let place = Place { context, folder, load, setting, name };
    let (crashes, seed) =
        (number("TESSERA_CRASHES")?.unwrap_or(CRASHES), number("TESSERA_SEED")?.unwrap_or(SEED));
    let mut random = fastrand::Rng::with_seed(seed);
    let repeat = || format!("TESSERA_SEED={seed:#x}");
    let kills = (crashes / BOOTED).clamp(2, crashes.max(2));
    let killed = place.kills(kills, &mut random).with_context(repeat)?;
    let stopped = states::stops(&place, crashes, &mut random).with_context(repeat)?;
    context.note(&format!("seed {seed:#x}: {kills} kills after {killed} operations; {stopped}"));
    Ok(())
}

impl Place<'_> {
    /// A command of `load` on what it works on, in a folder that stands for `/pmem`.
    fn command(&self, word: &str, seed: u64, number: u64, root: &str) -> String {
        format!("./load-{} {word} {seed} {number} {root}/{}", self.name, self.load.place)
    }

    /// Where files of persistent memory are.
    fn image(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}-{what}", self.name))
    }

    /// Starts the machine with the image `what`, and a shell that executes a script.
    fn start(&self, what: &str, more: &[&str], script: &str) -> Result<Running> {
        let image = self.image(what);
        let name = image.file_name().and_then(|name| name.to_str()).context("it has a name")?;
        let nvdimm = format!("{name}:8M,domain={}", self.setting.domain);
        let cores = self.setting.cores.to_string();
        let mut command = this_tool(self.context, &self.folder)?;
        command.args(["run", "--verbose", "--nvdimm", &nvdimm, "--cores", &cores]).args(more);
        command.args(["--mem", "256M", "--timeout", "600"]);
        command.args(["--file", &format!("load-{}", self.name), "--", "sh", "-c", script]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Running(child))
    }

    /// What a failure has left is kept until the next run.
    fn remove_image(&self, what: &str) -> Result<()> {
        let image = self.image(what);
        if image.exists() {
            fs::remove_file(&image)?;
        }
        Ok(())
    }

    /// Kills the machine so many times; returns how many operations had ended.
    fn kills(&self, kills: u64, random: &mut fastrand::Rng) -> Result<u64> {
        self.remove_image("killed")?;
        let (mut before, mut operations, mut free) = (None, 0, None);
        for kill in 0..=kills {
            let next = random.u64(1..1 << 32);
            // The last boot only looks.
            let patience = (kill < kills).then(|| (random.u64(0..150), random.u64(0..30_000)));
            let told = self
                .boot(before, (next, patience))
                .with_context(|| format!("kill {kill} of {kills}"))?;
            match (free, told.free) {
                (None, first) => free = first,
                (Some(first), Some(now)) => {
                    ensure!(now + KEPT >= first, "kill {kill}: {now} blocks are free, {first} were")
                }
                _ => {}
            }
            operations += told.ended;
            before = Some((next, told.ended));
        }
        Ok(operations)
    }

    /// One boot: looks at what the last one has left, removes it, and works until it is killed.
    fn boot(
        &self,
        before: Option<(u64, u64)>,
        (seed, patience): (u64, Option<(u64, u64)>),
    ) -> Result<Told> {
        let look = match before {
            Some((seed, ended)) => {
                self.command(self.load.check, seed, ended, "/pmem") + " || exit 9"
            }
            None => format!("mkdir {FOLDER} || exit 7"),
        };
        let clear = match self.load.clears {
            true => format!("./load-{} clear {FOLDER} || exit 8", self.name),
            false => "true".into(),
        };
        let work = match patience {
            Some(_) => format!("exec {}", self.command(self.load.work, seed, 1_000_000, "/pmem")),
            None => "true".into(),
        };
        let script = format!("{look}; {clear}; echo {LOOKED}; {work}");
        let mut machine = self.start("killed", &[], &script)?;
        let mut told = Told { ended: 0, free: None, looked: false };
        let mut said = String::new();
        for line in machine.lines()? {
            let line = line?;
            if let Some(blocks) = line.strip_suffix(" blocks free") {
                told.free = Some(blocks.parse()?);
            } else if line == LOOKED {
                told.looked = true;
            } else if let Ok(ended) = line.parse() {
                told.ended = ended;
                if let Some((_, micros)) = patience.filter(|&(most, _)| ended >= most) {
                    thread::sleep(Duration::from_micros(micros));
                    machine.kill()?;
                    return Ok(told);
                }
            } else {
                said.push_str(&line);
                said.push('\n');
            }
        }
        // It has ended by itself: only the last may, and not because the time was up. Nothing can be said about the next
        // boot of one that has not come to what it was to do.
        let (status, complaints) = machine.ended()?;
        match patience.is_none() && told.looked && status.success() {
            true => Ok(told),
            false => bail!("{status}: {said}{complaints}"),
        }
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

/// A machine that runs; it is killed when this goes.
pub struct Running(pub Child);

impl Running {
    /// What it says, line by line.
    pub fn lines(&mut self) -> Result<impl Iterator<Item = std::io::Result<String>>> {
        Ok(BufReader::new(self.0.stdout.take().context("it has a pipe")?).lines())
    }

    /// Kills it. The emulator goes with it.
    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Waits for its end; what it complained about.
    pub fn ended(&mut self) -> Result<(ExitStatus, String)> {
        let mut complaints = String::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut complaints)?;
        }
        Ok((self.0.wait()?, complaints))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.kill();
    }
}
