//! `./x compare` itself: what it prints, measures and reports when a side fails.
//!
//! Linux's kernel comes from Debian's archive. Where it cannot be had, the tests that need it are
//! passed over, and say so.

use super::{feed, this_tool, Case, Context, TestResult};
use crate::linux::{Linux, NEWEST};
use crate::results::{self, Clock, Measurement, System};
use anyhow::{ensure, Context as _, Result};
use std::fs;

type Body = fn(&Context) -> Result<()>;

/// Those that need Linux.
const BESIDE_LINUX: [(&str, Body); 6] = [
    ("same", same),
    ("repeatable", repeatable),
    ("hang", hang),
    ("one_side_only", one_side_only),
    ("outputs_differ", outputs_differ),
    ("root", root),
];

const ALONE: [(&str, Body); 2] = [("no_kernel", no_kernel), ("wrong_options", wrong_options)];

/// Ends at once on Tessera and never on Linux.
const HANGS_ON_LINUX: &str = "case $(uname -r) in *tessera) exit 0;; esac; while :; do :; done";

pub fn cases() -> Vec<Case> {
    let beside = BESIDE_LINUX.into_iter().map(|(name, body)| {
        let name = format!("compare/{name}");
        Case::several(name.clone(), move |context| {
            if let Err(why) = Linux::find(&context.project, NEWEST) {
                println!("skipped {name}: {why:#}");
                return Vec::new();
            }
            let outcome = body(context).map_err(|error| format!("{error:#}"));
            vec![TestResult { name, outcome }]
        })
    });
    let alone = ALONE.into_iter().map(|(name, body)| Case::single(format!("compare/{name}"), body));
    beside.chain(alone).collect()
}

/// What a call said.
struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Said {
    /// The cells of the line that begins with `name`.
    fn row(&self, name: &str) -> Result<Vec<&str>> {
        let line = self.stdout.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("no row {name}: {self}"))?;
        // Cells have single spaces in them and at least two between them.
        Ok(line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
    }

    fn expect(&self, status: i32, complaint: &str) -> Result<()> {
        ensure!(self.status == status, "expected exit status {status}: {self}");
        match complaint {
            "" => ensure!(self.stderr.is_empty(), "nothing should be said: {self}"),
            part => ensure!(self.stderr.contains(part), "{part:?} should be said: {self}"),
        }
        Ok(())
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "status {}\n{}\n{}", self.status, self.stdout, self.stderr)
    }
}

fn x_compare(context: &Context, arguments: &[&str], stdin: &[u8]) -> Result<Said> {
    let mut command = this_tool(context, &context.folder("compare")?)?;
    let output = feed(command.args(["compare", "--mem", "512M"]).args(arguments), stdin)?;
    Ok(Said {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        // On a busy machine it says how far it is.
        stderr: String::from_utf8_lossy(&output.stderr)
            .lines()
            .filter(|line| !line.starts_with("x: comparing, "))
            .map(|line| format!("{line}\n"))
            .collect(),
    })
}

fn samples(all: &[Measurement], system: System, clock: Clock) -> Result<&[f64]> {
    let own = |one: &&Measurement| one.system == system && one.question.clock == clock;
    let found = all.iter().find(own).with_context(|| format!("no {system:?} {clock:?}"))?;
    Ok(&found.samples)
}

/// Input goes to all sides; a status other than 0 is one like any other.
fn same(context: &Context) -> Result<()> {
    let file = context.folder("compare")?.join("same.json");
    let path = file.to_string_lossy();
    let script = "sort; cat /proc/self/comm >/dev/null; exit 7";
    let arguments = ["--clock", "wall", "--json", &path, "--", "busybox", "sh", "-c", script];
    let said = x_compare(context, &arguments, b"b\na\n")?;
    said.expect(0, "")?;
    ensure!(said.row("exit status")? == ["7", "7", "7"], "{said}");
    ensure!(said.row("wall time")?.len() == 4, "{said}");
    let all = results::read(&file)?;
    fs::remove_file(&file)?;
    for system in [System::Tessera, System::Linux, System::LinuxThp] {
        let times = samples(&all, system, Clock::Wall)?;
        ensure!(times.len() == 1 && times[0] > 1e4, "{times:?}");
    }
    Ok(())
}

/// Both have the files of a folder as their root, with its links, and busybox for what it lacks.
fn root(context: &Context) -> Result<()> {
    let root = context.folder("compare-root")?;
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::create_dir_all(root.join("data"))?;
    fs::write(root.join("data/text"), "text of a root\n".repeat(1000))?;
    let link = root.join("bin");
    if fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink("usr/bin", link)?;
    }
    let path = root.to_string_lossy();
    let options = ["--clock", "wall", "--no-thp", "--root", &path, "--", "sh", "-c"];
    let script = "md5sum /data/text; ls /data /bin/busybox; readlink /bin; echo $LANG";
    let said = x_compare(context, &[&options[..], &[script]].concat(), b"")?;
    ensure!(said.status == 0 && said.row("exit status")? == ["0", "0"], "{said}");
    ensure!(said.row("wall time")?.len() == 3, "{said}");
    Ok(())
}

/// Two runs agree to the instruction, whatever the machine does meanwhile.
fn repeatable(context: &Context) -> Result<()> {
    let file = context.folder("compare")?.join("repeatable.json");
    let path = file.to_string_lossy();
    let script = "for i in 1 2; do busybox true | busybox cat; done; sleep 1; echo $i";
    let measure = ["--no-thp", "--icount", "--runs", "2", "--json", &path];
    let arguments = [&measure[..], &["--", "sh", "-c", script]].concat();
    x_compare(context, &arguments, b"")?.expect(0, "")?;
    let all = results::read(&file)?;
    fs::remove_file(&file)?;
    for system in [System::Tessera, System::Linux] {
        let counts = samples(&all, system, Clock::Instructions)?;
        ensure!(counts.len() == 2 && counts[0] == counts[1], "{system:?}: {counts:?}");
        // A second of waiting is not a thousand million instructions.
        ensure!((1e5..1e8).contains(&counts[0]), "{system:?}: {counts:?}");
    }
    Ok(())
}

fn hang(context: &Context) -> Result<()> {
    let arguments =
        ["--no-thp", "--clock", "wall", "--timeout", "12", "--", "sh", "-c", HANGS_ON_LINUX];
    let said = x_compare(context, &arguments, b"")?;
    said.expect(1, "Linux: it had not ended after 12 s")?;
    ensure!(said.row("exit status")? == ["0", "timed out"], "{said}");
    let times = said.row("wall time")?;
    ensure!(times[0].ends_with(" ms") && times[1..] == ["-", "-"], "{said}");
    Ok(())
}

fn one_side_only(context: &Context) -> Result<()> {
    let script = "case $(uname -r) in *tessera) kill -9 $$;; esac";
    let said = x_compare(context, &["--no-thp", "--clock", "wall", "--", "sh", "-c", script], b"")?;
    said.expect(1, "the exit statuses differ: Tessera 137, Linux 0")?;
    ensure!(said.row("exit status")? == ["137", "0"], "{said}");
    ensure!(said.row("wall time")?.len() == 3, "{said}");
    Ok(())
}

fn outputs_differ(context: &Context) -> Result<()> {
    let script = "echo same; uname -v";
    let said = x_compare(context, &["--no-thp", "--clock", "wall", "--", "sh", "-c", script], b"")?;
    said.expect(1, "the output on Tessera differs from that on Linux\nline 2: expected \"#1")?;
    ensure!(!said.stderr.contains("line 1"), "{said}");
    Ok(())
}

fn no_kernel(context: &Context) -> Result<()> {
    let package = "linux-image-6.1.0-0-nonesuch-amd64";
    let arguments = ["--package", package, "--", "true"];
    let said = x_compare(context, &arguments, b"")?;
    said.expect(1, &format!("no Linux kernel to compare with ({package})"))?;
    ensure!(said.row("exit status")? == ["0", "no kernel", "no kernel"], "{said}");
    ensure!(said.row("wall time")?[0].ends_with(" ms"), "{said}");
    ensure!(said.row("instructions")?[1..] == ["-", "-", "-"], "{said}");
    Ok(())
}

fn wrong_options(context: &Context) -> Result<()> {
    for (arguments, complaint) in [
        (&["--icount", "--clock", "wall", "--", "true"][..], "measures no time"),
        (&["--icount", "--cores", "2", "--", "true"], "on one core only"),
        (&["--", "nonesuch"], "no such program"),
        (&["--", "./nonesuch"], "no such file"),
        (&["--runs", "0", "--", "true"], "--runs"),
    ] {
        x_compare(context, arguments, b"")?.expect(2, complaint)?;
    }
    Ok(())
}
