//! `--root`: files of an image are changed as in an ordinary folder of this machine, and a start does not depend on its size.

use super::guest::difference;
use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use crate::bench_group::Lab;
use crate::bench_roots::start;

use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    vec![
        Case::single("roots/changes".into(), changes),
        Case::single("roots/mapped".into(), mapped),
        Case::single("roots/again".into(), again),
        Case::single("roots/size".into(), size),
    ]
}

/// A folder that is to be a root: all that is changed is in `data`.
fn tree(at: &Path) -> Result<()> {
    if at.exists() {
        fs::remove_dir_all(at)?;
    }
    let data = at.join("data");
    for folder in ["sub/inner", "deep/a/b/c", "many", "shared", "empty", "closed"] {
        fs::create_dir_all(data.join(folder))?;
    }
    let bytes = |count: usize| (0..count).map(|at| b'A' + (at % 23) as u8).collect::<Vec<u8>>();
    let files: [(&str, Vec<u8>, u32); 12] = [
        ("text", b"first\n".into(), 0o644),
        ("large", bytes(300_000), 0o644),
        ("one", b"linked\n".into(), 0o644),
        ("mode", b"mode\n".into(), 0o644),
        ("sub/inner/leaf", b"leaf\n".into(), 0o644),
        ("deep/a/leaf", bytes(5000), 0o444),
        ("mapped", bytes(20_000), 0o644),
        ("stored", bytes(16_384), 0o644),
        ("mine", b"mine\n".into(), 0o644),
        ("ours", b"ours\n".into(), 0o666),
        ("secret", b"secret\n".into(), 0o600),
        ("closed/leaf", b"closed\n".into(), 0o644),
    ];
    let many = (0..120).map(|n| (format!("many/{n}"), format!("{n}\n").into_bytes(), 0o644));
    let shared = (0..40).map(|n| (format!("shared/f{n}"), Vec::new(), 0o644));
    let files = files.into_iter().map(|(name, text, mode)| (name.to_owned(), text, mode));
    for (name, text, mode) in files.chain(many).chain(shared) {
        fs::write(data.join(&name), text)?;
        fs::set_permissions(data.join(&name), PermissionsExt::from_mode(mode))?;
    }
    fs::set_permissions(data.join("closed"), PermissionsExt::from_mode(0o700))?;
    fs::hard_link(data.join("one"), data.join("sub/two"))?;
    Ok(symlink("mode", data.join("link"))?)
}

/// What a program says in a folder of this machine, and in the machine with that folder as its root.
fn compare(context: &Context, name: &str, program: &[&str], more: &[&str]) -> Result<()> {
    let folder = context.folder(name)?;
    tree(&folder.join("root"))?;
    tree(&folder.join("here"))?;
    let mut here = Command::new(program[0]);
    let here = feed(here.args(&program[1..]).current_dir(folder.join("here")), b"")?;
    let expected = String::from_utf8(here.stdout)?;
    ensure!(expected.lines().count() > 20, "on this machine: {expected}");
    let mut command = this_tool(context, &folder)?;
    command.args(["run", "--root", "root", "--cores", "4"]).args(more).args(["--", "/bin/busybox"]);
    command.args(["sh", "-c", "cd / && exec \"$@\"", "sh"]);
    let output = feed(command.args(program), b"")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        said == expected,
        "{}{}",
        difference(expected.as_bytes(), said.as_bytes()),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn changes(context: &Context) -> Result<()> {
    let script = context.project.path("guest/tests/roots/changes.sh");
    let here = script.display().to_string();
    let file = format!("{here}:{here}");
    compare(context, "roots-changes", &["busybox", "sh", &here], &["--file", &file])
}

fn mapped(context: &Context) -> Result<()> {
    let folder = context.folder("roots-program")?;
    let program = folder.join("mapped");
    compile(&context.project.path("guest/tests/roots/mapped.c"), &program, "gcc")?;
    let here = program.display().to_string();
    let file = format!("{here}:{here}");
    // Only root has other users at hand.
    let words = [&here[..], "users"];
    let count = if rustix::process::geteuid().is_root() { 2 } else { 1 };
    compare(context, "roots-mapped", &words[..count], &["--file", &file])
}

/// A folder that has changed is another root; one that has not is not copied again.
fn again(context: &Context) -> Result<()> {
    let folder = context.folder("roots-again")?;
    tree(&folder.join("root"))?;
    let run = || -> Result<(String, String)> {
        let mut command = this_tool(context, &folder)?;
        command.args(["run", "--root", "root", "--out", "/data/text", "--"]);
        command.args(["sh", "-c", "cat /data/text; echo changed >/data/text"]);
        let output = feed(&mut command, b"")?;
        let out = fs::read_to_string(folder.join("text")).context("/data/text")?;
        ensure!(out == "changed\n", "what came out: {out}");
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok((said(&output.stdout), said(&output.stderr)))
    };
    let is_made = |said: &str| said.contains("making the root image");
    let (first, said) = run()?;
    ensure!(first == "first\n" && is_made(&said), "{first}{said}");
    let (second, said) = run()?;
    ensure!(second == "first\n" && !is_made(&said), "{second}{said}");
    fs::write(folder.join("root/data/text"), "other\n")?;
    let (third, said) = run()?;
    ensure!(third == "other\n" && is_made(&said), "{third}{said}");
    Ok(())
}

/// Files in a small image, and in one that is as large again fifty times.
const COUNTS: [usize; 2] = [100, 5_243];

fn size(context: &Context) -> Result<()> {
    let folder = context.folder("roots-size")?;
    let lab = Lab { context, timeout: Duration::from_secs(60), small: true };
    let measure = |count: usize| {
        let image: PathBuf = folder.join(format!("{count}.img"));
        let started = start(&lab, &image, count);
        fs::remove_file(&image)?;
        started
    };
    let (small, large) = (measure(COUNTS[0])?, measure(COUNTS[1])?);
    ensure!(large.instructions <= 1.01 * small.instructions, "{small:?} {large:?}");
    ensure!(large.memory <= small.memory + 64.0, "{small:?} {large:?}");
    Ok(())
}
