//! Inputs that are led by coverage (`libFuzzer`): those that lead where none has led before are kept, and changed further.
//!
//! A program of its own (`crates/server/netstack/fuzz`) is compiled with instruments that nothing else is to have; its corpus is in the tree, as one file: a
//! length and as many bytes, again and again. `TESSERA_SECONDS` says for how long, `TESSERA_SEED` with which numbers, and `TESSERA_CORPUS=keep` that what was
//! found is to be in the tree.

use super::model::number;
use super::{feed, Case, Context};
use crate::toolchain;
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FOLDER: &str = "crates/server/netstack/fuzz";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Seconds of a quick run.
const SECONDS: u64 = 20;
/// Bytes of an input, and of one that is kept in the tree.
const LONGEST: usize = 8192;
const KEPT: usize = 1024;
/// MiB that it may take, and seconds that one input may.
const MEMORY: u64 = 2048;
const PATIENCE: u64 = 20;
/// Counters for each edge, and comparisons, which only the fuzzer asks for.
const INSTRUMENTS: &str = "-Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

pub fn cases() -> Vec<Case> {
    vec![Case::single("fuzz/net".into(), net)]
}

/// Any frames and commands to the network server's stack.
fn net(context: &Context) -> Result<()> {
    let folder = context.folder("fuzz")?;
    let program = build(context, &folder)?;
    let (corpus, tree) = (folder.join("corpus"), context.project.path(FOLDER).join("corpus"));
    unpack(&tree, &corpus)?;
    let seconds = number("TESSERA_SECONDS")?.unwrap_or(SECONDS);
    let seed = number("TESSERA_SEED")?.unwrap_or(std::process::id().into());
    let mut command = fuzzer(&program, &folder);
    command.arg(&corpus);
    command.args([format!("-max_total_time={seconds}"), format!("-seed={seed}")]);
    let output = run(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = said.lines().rev().take(60).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
    ensure!(output.status.success(), "TESSERA_SEED={seed}: {tail}");
    let done = said.lines().find(|line| line.starts_with("Done ")).context("it has not ended")?;
    let edges = said.lines().rev().find_map(|line| line.split_once("cov: ")?.1.split(' ').next());
    context.note(&format!("seed {seed}: {done}; {} edges", edges.unwrap_or("no")));
    if std::env::var("TESSERA_CORPUS").is_ok_and(|what| what == "keep") {
        pack(&program, &folder, &tree)?;
    }
    Ok(())
}

fn build(context: &Context, folder: &Path) -> Result<PathBuf> {
    let mut cargo = toolchain::host(&context.project);
    cargo.current_dir(context.project.path(FOLDER));
    cargo.args(["build", "--quiet", "--locked", "--release", "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", folder.join("target")).env("RUSTFLAGS", INSTRUMENTS);
    let output = run(&mut cargo)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(folder.join("target").join(TARGET).join("release/netfuzz"))
}

/// It says everything on standard error.
fn run(command: &mut Command) -> Result<Output> {
    feed(command.stderr(Stdio::piped()), b"")
}

fn fuzzer(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command.args([format!("-max_len={LONGEST}"), format!("-rss_limit_mb={MEMORY}")]);
    command.args([format!("-timeout={PATIENCE}"), "-verbosity=1".into()]);
    command
}

/// Inputs of the tree, each in a file of its own.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let all = fs::read(from).with_context(|| from.display().to_string())?;
    let (mut rest, mut number) = (&all[..], 0);
    while let Some((len, more)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len));
        let (one, after) = more.split_at_checked(len).context("the corpus is cut")?;
        fs::write(to.join(number.to_string()), one)?;
        (rest, number) = (after, number + 1);
    }
    Ok(())
}

/// The fewest inputs that lead as far, in the tree.
fn pack(program: &Path, folder: &Path, to: &Path) -> Result<()> {
    let few = folder.join("few");
    if few.exists() {
        fs::remove_dir_all(&few)?;
    }
    fs::create_dir_all(&few)?;
    let mut command = fuzzer(program, folder);
    let output = run(command.arg("-merge=1").args([&few, &folder.join("corpus")]))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all = Vec::new();
    for one in fs::read_dir(&few)? {
        all.push(fs::read(one?.path())?);
    }
    all.retain(|one| one.len() <= KEPT);
    all.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let packed: Vec<u8> = all
        .into_iter()
        .flat_map(|one| [&(one.len() as u16).to_le_bytes()[..], &one].concat())
        .collect();
    Ok(fs::write(to, packed)?)
}
