//! Persistent memory: what one boot stores the next one finds, on other machines and from another folder.
//!
//! `guest/tests/persisttest` boots in place of `init`.

use super::guest::{Extras, GuestRun};
use super::native::{collect, read_results};
use super::{feed, this_tool, Case, Context, TestResult};
use crate::compile;
use crate::machine::{parse_size, MachineOptions};
use crate::map::Map;
use crate::nvdimm;
use crate::program::Invocation;
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(200);
const PROGRAM: &str = "boot/programs/persisttest";
const MIB: u64 = 1 << 20;

pub fn cases() -> Vec<Case> {
    vec![
        Case::several("persistent/boots".into(), boots),
        Case::several("persistent/map-cache".into(), |context| {
            one(context, "persistent/map-cache", Some(Map::Cache), |_| {})
        }),
        Case::several("persistent/la57".into(), |context| {
            one(context, "persistent/la57", None, |machine| machine.la57 = true)
        }),
        Case::several("persistent/icount".into(), |context| {
            one(context, "persistent/icount", None, |machine| machine.icount = true)
        }),
        Case::several("persistent/no-huge-pages".into(), |context| {
            let change = |machine: &mut MachineOptions| machine.without = vec!["pdpe1gb".into()];
            one(context, "persistent/no-huge-pages", None, change)
        }),
        Case::single("persistent/session".into(), session),
        Case::single("persistent/wrong-files".into(), wrong_files),
    ]
}

/// A folder without the files of other runs.
fn folder(context: &Context, name: &str) -> Result<PathBuf> {
    let folder = context.folder("persistent")?.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// One boot of several.
struct Round<'a> {
    number: u32,
    file: &'a Path,
    /// What follows the file's name.
    rest: &'a str,
    bytes: u64,
    /// Do the caches count as persistent?
    caches: bool,
}

fn boot(
    context: &Context,
    name: &str,
    round: &Round,
    machine: MachineOptions,
    kernel: Option<PathBuf>,
    results: &mut Vec<TestResult>,
) -> Result<()> {
    let wish = nvdimm::parse(&format!("{}{}", round.file.display(), round.rest))?;
    let run = GuestRun {
        test: name.to_owned(),
        invocation: Invocation::new(vec![PROGRAM.to_owned()], &[])?,
        additions: Vec::new(),
        stdin: Vec::new(),
        machine: MachineOptions { nvdimm: Some(wish), ..machine },
        timeout: TIMEOUT,
        command_line: format!(
            "init={PROGRAM} round={} address={:#x} bytes={} caches={}",
            round.number,
            nvdimm::ADDRESS,
            round.bytes,
            u8::from(round.caches)
        ),
    };
    let observed = run.run_with(context, Extras { kernel, ..Extras::default() })?;
    let before = results.len();
    read_results(context, name, &observed, results)?;
    ensure!(results.len() > before, "{name}: nothing was tested");
    Ok(())
}

/// Machines that differ in all else, and a file that is moved.
fn boots(context: &Context) -> Vec<TestResult> {
    let name = "persistent/boots";
    collect(name, |results| {
        let folder = folder(context, "boots")?;
        let (first, elsewhere) = (folder.join("memory"), folder.join("else where,here"));
        fs::create_dir(&elsewhere)?;
        let second = elsewhere.join("moved");
        let machine = |mem, cores, nodes| -> Result<MachineOptions> {
            let mem = parse_size(mem)?;
            Ok(MachineOptions { mem, cores, nodes, ..MachineOptions::default() })
        };
        let bytes = 16 * MIB;
        let round = |number, file, rest, caches| Round { number, file, rest, bytes, caches };
        let rounds = [
            (round(1, first.as_path(), ":16M", true), machine("256M", 1, 1)?),
            (round(2, first.as_path(), "", true), machine("3G", 2, 1)?),
            (round(3, second.as_path(), ",domain=memory", false), machine("512M", 1, 1)?),
            (round(4, second.as_path(), ":16M,domain=cpu", true), machine("1G", 4, 2)?),
        ];
        for (round, machine) in rounds {
            if round.number == 3 {
                fs::rename(&first, &second)?;
            }
            boot(context, &format!("{name}-{}", round.number), &round, machine, None, results)?;
        }
        Ok(())
    })
}

/// Two boots of one machine.
fn one(
    context: &Context,
    name: &'static str,
    map: Option<Map>,
    change: impl Fn(&mut MachineOptions),
) -> Vec<TestResult> {
    collect(name, |results| {
        let folder = folder(context, name.rsplit('/').next().unwrap_or(name))?;
        let kernel = map.map(|map| compile::build_kernel(&context.project, map.variant()));
        let kernel = kernel.transpose()?;
        let file = folder.join("memory");
        // Three bytes that are no whole piece.
        fs::File::create(&file)?.set_len(12 * MIB + 3)?;
        for number in [1, 2] {
            let mut machine = MachineOptions { mem: parse_size("512M")?, ..Default::default() };
            change(&mut machine);
            let round = Round { number, file: &file, rest: "", bytes: 12 * MIB, caches: true };
            let name = format!("{name}-{number}");
            boot(context, &name, &round, machine, kernel.clone(), results)?;
        }
        Ok(())
    })
}

/// `./x run`, in which `unixd` has the memory.
fn run(context: &Context, folder: &Path, arguments: &[&str]) -> Result<(i32, String, String)> {
    let mut command = this_tool(context, folder)?;
    command.arg("run").args(arguments);
    let output = feed(&mut command, b"")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
}

fn session(context: &Context) -> Result<()> {
    let folder = folder(context, "session")?;
    let show = "grep persistent /proc/tessera/memory";
    for (option, bytes, caches) in [("a:4M", 4 * MIB, 1), ("b,domain=memory", 64 * MIB, 0)] {
        let (status, out, err) =
            run(context, &folder, &["--nvdimm", option, "--", "sh", "-c", show])?;
        let expected = format!(
            "persistent {bytes}\npersistent_address {}\npersistent_caches {caches}\n",
            nvdimm::ADDRESS
        );
        ensure!(status == 0 && out == expected, "{option}: {status}, {out:?}, {err}");
    }
    // It is no memory of the system's: without it there is as much, and a page or two of the firmware's tables.
    let total = |options: &[&str]| -> Result<u64> {
        let mut arguments = options.to_vec();
        arguments.extend(["--", "awk", "$1 == \"total\" { print $2 }", "/proc/tessera/memory"]);
        let (_, out, err) = run(context, &folder, &arguments)?;
        out.trim().parse().with_context(|| format!("{out:?}, {err}"))
    };
    let (with, without) = (total(&["--nvdimm", "a"])?, total(&[])?);
    ensure!((with..=with + MIB / 8).contains(&without), "{with} bytes, {without} without");
    Ok(())
}

fn wrong_files(context: &Context) -> Result<()> {
    let folder = folder(context, "wrong")?;
    fs::create_dir(folder.join("folder"))?;
    fs::write(folder.join("small"), "some text")?;
    fs::File::create(folder.join("4M"))?.set_len(4 * MIB)?;
    let wrong = [
        ("folder", "is a folder"),
        ("none/memory", "cannot be opened"),
        ("small", "at least 2M"),
        ("4M:8M", "has 4M, not 8M"),
        ("new:5M", "multiple of 2M"),
        ("new,domain=disk", "cpu or memory"),
    ];
    for (option, part) in wrong {
        let (status, _, said) = run(context, &folder, &["--nvdimm", option, "--", "true"])?;
        ensure!(status == 2 && said.contains(part), "{option}: status {status}, {said}");
    }
    ensure!(!folder.join("new").exists(), "a file was made all the same");
    Ok(())
}
