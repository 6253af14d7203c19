//! Files that `./x run --out` copies out of the guest.

use super::streams::{noise, same};
use super::{feed, this_tool, Case, Context};
use anyhow::{ensure, Context as _, Result};
use rustix::process::{kill_process, Pid, Signal};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

type Body = fn(&Context, &Path) -> Result<()>;

const CASES: [(&str, Body); 11] = [
    ("out_modes_times_links", attributes),
    ("out_patterns_and_places", places),
    ("out_of_killed_programs", killed),
    ("out_when_time_is_up", time_is_up),
    ("out_when_asked_to_end", asked_to_end),
    ("out_missing", missing),
    ("out_100m", much),
    ("out_holes", holes),
    ("out_many", many),
    ("out_of_the_image", of_the_image),
    ("out_in_and_back", in_and_back),
];

pub fn cases() -> Vec<Case> {
    let single = |(name, body): (&'static str, Body)| {
        Case::single(format!("cli/{name}"), move |context| {
            let folder = context.folder("cli-out")?.join(name);
            // What an earlier run has left would count.
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            body(context, &folder)
        })
    };
    CASES.into_iter().map(single).collect()
}

fn x_run(context: &Context, folder: &Path, arguments: &[&str], script: &str) -> Result<Command> {
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--mem", "512M"]).args(arguments);
    if !arguments.contains(&"--timeout") {
        command.arg("--timeout=600");
    }
    command.args(["--", "sh", "-c", script]);
    Ok(command)
}

/// Runs a script with these options; fails unless it exits like that. What was said.
fn run(
    context: &Context,
    folder: &Path,
    arguments: &[&str],
    script: &str,
    status: i32,
) -> Result<String> {
    expect(feed(&mut x_run(context, folder, arguments, script)?, b"")?, status)
}

fn expect(output: Output, status: i32) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(status), "{}, not {status}: {said}", output.status);
    Ok(said)
}

/// The paths of everything in a folder, in order.
fn all(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            found.push(path.to_string_lossy().into_owned());
            if entry.file_type()?.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn expect_all(folder: &Path, expected: &[&str]) -> Result<()> {
    let found = all(folder)?;
    ensure!(found == expected, "there is {found:?}, not {expected:?}");
    Ok(())
}

/// Modes, times and links are kept, of a program that fails.
fn attributes(context: &Context, folder: &Path) -> Result<()> {
    let script = "umask 0; mkdir -p 'd/a b/empty'; cd d; echo text > 'a b/file'; ln -s 'a b/file' link; \
        ln -s /nowhere/at/all broken; chmod 4640 'a b/file'; touch -d @1234567890 'a b/file' 'a b/empty'; \
        mkfifo fifo; chmod 750 'a b'; touch -d @1000000000 'a b'; exit 7";
    let said = run(context, folder, &["--out", "d"], script, 7)?;
    let left_out = said.contains("/root/d/fifo: left out");
    ensure!(left_out && said.lines().count() == 1, "it said {said:?}");
    expect_all(folder, &["d", "d/a b", "d/a b/empty", "d/a b/file", "d/broken", "d/link"])?;
    let d = folder.join("d");
    let facts = |path: &str| -> Result<(u32, i64)> {
        let metadata = fs::metadata(d.join(path))?;
        Ok((metadata.permissions().mode() & 0o7777, metadata.mtime()))
    };
    ensure!(facts("a b/file")? == (0o640, 1_234_567_890), "{:?}", facts("a b/file"));
    ensure!(facts("a b")? == (0o750, 1_000_000_000), "{:?}", facts("a b"));
    ensure!(facts("a b/empty")? == (0o777, 1_234_567_890), "{:?}", facts("a b/empty"));
    ensure!(fs::read_to_string(d.join("link"))? == "text\n", "the link leads elsewhere");
    ensure!(fs::read_link(d.join("broken"))? == Path::new("/nowhere/at/all"), "another link");
    Ok(())
}

fn places(context: &Context, folder: &Path) -> Result<()> {
    fs::create_dir(folder.join("there"))?;
    let script = "mkdir -p o/p; for i in 1 2 3; do echo $i > o/$i.csv; done; echo x > o/p/x; \
        echo l > /tmp/log; touch o/.hidden; ln -s o/1.csv latest";
    let options =
        "--out o/[12].csv --out /tmp/log --out o/*.csv:sub/here --out o/p:there --out o/p:new \
        --out o/3.csv:three --out latest";
    let options: Vec<&str> = options.split_whitespace().collect();
    let said = run(context, folder, &options, script, 0)?;
    ensure!(said.is_empty(), "it said {said:?}");
    expect_all(
        folder,
        &[
            "latest",
            "log",
            "new",
            "new/x",
            "o",
            "o/1.csv",
            "o/2.csv",
            "sub",
            "sub/here",
            "sub/here/1.csv",
            "sub/here/2.csv",
            "sub/here/3.csv",
            "there",
            "there/p",
            "there/p/x",
            "three",
        ],
    )?;
    // A link that is named is followed, as of `--file`.
    let latest = folder.join("latest");
    ensure!(!fs::symlink_metadata(&latest)?.is_symlink(), "the link was copied");
    ensure!(fs::read_to_string(latest)? == "1\n", "the link leads elsewhere");
    // What is there is replaced.
    run(context, folder, &["--out", "log"], "echo new > log", 0)?;
    ensure!(fs::read_to_string(folder.join("log"))? == "new\n", "the old file is there");
    Ok(())
}

fn killed(context: &Context, folder: &Path) -> Result<()> {
    let script = "echo before > f; (sleep 1000 & exec sleep 1000) & kill -9 $$";
    run(context, folder, &["--out", "f"], script, 137)?;
    ensure!(fs::read_to_string(folder.join("f"))? == "before\n", "another text");
    Ok(())
}

fn time_is_up(context: &Context, folder: &Path) -> Result<()> {
    let script = "echo before > f; while :; do :; done";
    let said = run(context, folder, &["--timeout", "4", "--out", "f"], script, 124)?;
    ensure!(said.contains("the time is up"), "it said {said:?}");
    expect_all(folder, &["f"])
}

fn asked_to_end(context: &Context, folder: &Path) -> Result<()> {
    let script = "echo before > f; echo ready; sleep 1000";
    let mut command = x_run(context, folder, &["--out", "f"], script)?;
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("there is no output")?;
    std::io::Read::read_exact(&mut output, &mut [0; 6])?;
    kill_process(Pid::from_child(&child), Signal::TERM)?;
    expect(child.wait_with_output()?, 128 + 15)?;
    expect_all(folder, &["f"])
}

fn missing(context: &Context, folder: &Path) -> Result<()> {
    let options = ["--out", "nonesuch", "--out", "x/*", "--out", "f", "--out", "f:dir/sub"];
    // A file is in the way.
    fs::write(folder.join("dir"), "")?;
    let said = run(context, folder, &options, "echo 1 > f", crate::run::STATUS_FILES)?;
    let lines: Vec<&str> = said.lines().collect();
    ensure!(lines.len() == 3, "it said {said:?}");
    ensure!(lines[0].contains("there is no /root/nonesuch in the guest"), "{said}");
    ensure!(lines[1].contains("there is no /root/x/* in the guest"), "{said}");
    ensure!(lines[2].contains("--out f:dir/sub"), "{said}");
    expect_all(folder, &["dir", "f"])?;
    // The program's own status says more.
    run(context, folder, &options, "exit 3", 3)?;
    let said = run(context, folder, &["--out", ""], "true", 2)?;
    ensure!(said.contains("needs a path in the guest"), "it said {said:?}");
    Ok(())
}

fn much(context: &Context, folder: &Path) -> Result<()> {
    const MUCH: usize = 100 << 20;
    let bytes = noise(MUCH);
    let timed = |options: &[&str]| -> Result<Duration> {
        let began = Instant::now();
        expect(feed(&mut x_run(context, folder, options, "cat > f")?, &bytes)?, 0)?;
        Ok(began.elapsed())
    };
    let (without, with) = (timed(&[])?, timed(&["--out", "f"])?);
    let [with_out, without] = [with, without].map(|time| time.as_secs_f64());
    context.note(&format!("100 MB in and out: {with_out:.2} s; only in: {without:.2} s"));
    same(&fs::read(folder.join("f"))?, &bytes)
}

/// What takes no memory there takes no room here.
fn holes(context: &Context, folder: &Path) -> Result<()> {
    let script =
        "truncate -s 40G f; echo text | dd of=f bs=1 seek=30000000000 conv=notrunc 2>/dev/null";
    run(context, folder, &["--out", "f"], script, 0)?;
    let metadata = fs::metadata(folder.join("f"))?;
    ensure!(metadata.len() == 40 << 30, "{} bytes", metadata.len());
    ensure!(metadata.blocks() * 512 < 4 << 20, "it takes {} blocks", metadata.blocks());
    let file = fs::File::open(folder.join("f"))?;
    let mut text = [0; 7];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut text, 30_000_000_000 - 1)?;
    ensure!(text == *b"\0text\n\0", "there is {text:?}");
    Ok(())
}

fn many(context: &Context, folder: &Path) -> Result<()> {
    let script = "mkdir d; cd d; for i in $(seq 2000); do echo $i > $i; done; \
        n=; for i in $(seq 40); do n=$n/deep$i; done; mkdir -p .$n; echo end > .$n/f";
    run(context, folder, &["--out", "d"], script, 0)?;
    for number in 1..=2000 {
        let text = fs::read_to_string(folder.join(format!("d/{number}")))?;
        ensure!(text == format!("{number}\n"), "{number} has {text:?}");
    }
    let deep: PathBuf = (1..=40).map(|number| format!("deep{number}")).collect();
    ensure!(folder.join("d").join(deep).join("f").exists(), "the deep one is missing");
    Ok(())
}

/// A file that nobody has opened lies in the boot archive.
fn of_the_image(context: &Context, folder: &Path) -> Result<()> {
    run(context, folder, &["--out", "/bin/busybox"], "exit 0", 0)?;
    same(&fs::read(folder.join("busybox"))?, &fs::read(crate::setup::busybox()?)?)
}

/// As with a compiler: a source goes in, what is made of it comes back to its place.
fn in_and_back(context: &Context, folder: &Path) -> Result<()> {
    fs::create_dir(folder.join("src"))?;
    fs::write(folder.join("src/a.txt"), "b\na\n")?;
    let options = ["--file", "src", "--out", "src/a.sorted"];
    run(context, folder, &options, "sort src/a.txt -o src/a.sorted", 0)?;
    ensure!(fs::read_to_string(folder.join("src/a.sorted"))? == "a\nb\n", "another text");
    expect_all(folder, &["src", "src/a.sorted", "src/a.txt"])
}
