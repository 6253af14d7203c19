//! `./x run --disk`: file systems that are made, read and checked by the tools of this machine, without mounting them here.

use super::linux::compile;
use super::{feed, this_tool, Case, Context};
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

type Body = fn(&Context, &Path) -> Result<()>;

const CASES: [(&str, Body); 10] = [
    ("as-linux", as_linux),
    ("both-ways", both_ways),
    ("mounted", mounted),
    ("read-only", read_only),
    ("with-swap", with_swap),
    ("full", full),
    ("many", many),
    ("errors", errors),
    ("killed", killed),
    ("wrong-files", wrong_files),
];

/// The beginning of a script.
const MOUNT: &str = "mkdir -p /mnt && mount -t ext4 /dev/vda /mnt || exit 9; ";

pub fn cases() -> Vec<Case> {
    let single = |(name, body): (&'static str, Body)| {
        Case::single(format!("disk/{name}"), move |context| {
            let folder = context.folder("disk")?.join(name);
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

/// A tool of e2fsprogs, which are where an administrator finds them.
fn tool(name: &str, arguments: &[&str], image: &Path) -> Result<Output> {
    let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("env");
    command.arg(format!("PATH={path}")).arg(name).args(arguments).arg(image);
    command.output().with_context(|| format!("{name} (of the package e2fsprogs)"))
}

/// An image with an empty file system.
fn image(folder: &Path, mib: u64) -> Result<PathBuf> {
    let image = folder.join("disk.img");
    fs::File::create(&image)?.set_len(mib << 20)?;
    let made = tool("mkfs.ext4", &["-q", "-F"], &image)?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(image)
}

/// There is nothing to be said against an image, nor left to be done.
fn check(image: &Path) -> Result<()> {
    let checked = tool("e2fsck", &["-fn"], image)?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    Ok(())
}

/// What a file of an image has.
fn cat(image: &Path, name: &str) -> Result<Vec<u8>> {
    Ok(tool("debugfs", &["-R", &format!("cat {name}")], image)?.stdout)
}

/// `./x run` in a folder, with the disk that is there.
fn x_run(context: &Context, folder: &Path, options: &[&str], program: &[&str]) -> Result<Command> {
    let mut command = this_tool(context, folder)?;
    command.args(["run", "--mem", "256M"]).args(options);
    if !options.iter().any(|option| option.starts_with("--timeout")) {
        command.arg("--timeout=600");
    }
    if !options.iter().any(|option| option.starts_with("--disk=")) {
        command.arg("--disk=disk.img");
    }
    command.arg("--").args(program);
    Ok(command)
}

/// Runs a script there, which must end well; what it printed.
fn script(context: &Context, folder: &Path, options: &[&str], text: &str) -> Result<String> {
    let output = feed(&mut x_run(context, folder, options, &["sh", "-c", text])?, b"")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {errors}\n{printed}", output.status);
    Ok(printed)
}

/// A program that shows what each call answers, here and there.
fn as_linux(context: &Context, folder: &Path) -> Result<()> {
    let program = folder.join("folder");
    compile(&context.project.path("guest/tests/share/folder.c"), &program, "gcc")
        .context("compile")?;
    let image = image(folder, 64)?;
    let here = folder.join("here");
    fs::create_dir(&here)?;
    let linux = Command::new(&program).arg(&here).output().context("the program here")?;
    ensure!(linux.status.success(), "on this machine: {}", linux.status);
    let text = format!("{MOUNT}mkdir /mnt/here && /bin/folder /mnt/here");
    let printed = script(context, folder, &["--file=folder:/bin/folder"], &text)?;
    // The library tells whole seconds.
    let seconds = |text: &str| -> String {
        text.lines()
            .map(|line| {
                let times = line.split(' ').map(|word| match word.split_once('.') {
                    Some((whole, part)) if part.len() == 9 => whole,
                    _ => word,
                });
                times.collect::<Vec<_>>().join(" ") + "\n"
            })
            .collect()
    };
    let printed = seconds(&printed);
    let expected = seconds(&String::from_utf8_lossy(&linux.stdout));
    for (expected, printed) in expected.lines().zip(printed.lines()) {
        ensure!(expected == printed, "{printed:?}, on Linux {expected:?}");
    }
    ensure!(expected.lines().count() > 150 && expected == printed, "{printed}");
    check(&image)
}

/// Files come and go both ways.
fn both_ways(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 64)?;
    let noise = folder.join("noise");
    fs::write(&noise, super::streams::noise(5_000_000))?;
    let put = format!("write {} given", noise.display());
    ensure!(tool("debugfs", &["-w", "-R", &put], &image)?.status.success(), "debugfs writes");
    let text = format!(
        "{MOUNT}cd /mnt; cp given taken; mkdir d; ln -s ../given d/link; cmp d/link taken && echo same; \
         dd if=taken of=part bs=1000 skip=3 seek=5 count=7 2>/dev/null; sync; ls -A d; stat -c '%a %s %U' taken"
    );
    let printed = script(context, folder, &[], &text)?;
    ensure!(printed == "same\nlink\n644 5000000 root\n", "{printed}");
    check(&image)?;
    let bytes = fs::read(&noise)?;
    ensure!(cat(&image, "/taken")? == bytes, "another file");
    let part = [&[0; 5000][..], &bytes[3000..10_000]].concat();
    ensure!(cat(&image, "/part")? == part, "another part");
    Ok(())
}

/// `mount` and `umount`, and who may.
fn mounted(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 16)?;
    let program = folder.join("mounts");
    compile(&context.project.path("guest/tests/disk/mounts.c"), &program, "gcc")?;
    let output = feed(&mut x_run(context, folder, &["--cores=2"], &["./mounts"])?, b"")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && printed.ends_with("done\n"), "{}: {printed}", output.status);
    ensure!(!printed.contains("WRONG"), "{printed}");
    check(&image)
}

fn read_only(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 16)?;
    script(context, folder, &[], &format!("{MOUNT}echo text > /mnt/f"))?;
    let before = fs::read(&image)?;
    let text = "mkdir -p /mnt; mount -r -t ext4 /dev/vda /mnt || exit 9; \
        cat /mnt/f; for c in 'touch /mnt/g' 'rm /mnt/f' 'mkdir /mnt/d' 'chmod 600 /mnt/f'; do $c 2>&1 | grep -o Read-only; done; \
        grep -o ' ro,' /proc/mounts; echo x 2>/dev/null > /dev/vda || echo refused";
    let printed = script(context, folder, &["--disk=disk.img:ro"], text)?;
    let expected = "text\nRead-only\nRead-only\nRead-only\nRead-only\n ro,\nrefused\n";
    ensure!(printed == expected, "{printed}");
    ensure!(fs::read(&image)? == before, "it was written");
    Ok(())
}

/// The disk for pages is another one, behind those that have servers.
fn with_swap(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 16)?;
    let text =
        format!("{MOUNT}echo text > /mnt/f; sync; cat /mnt/f; grep -c partition /proc/swaps");
    for cores in ["--cores=1", "--cores=4"] {
        let options = ["--disk=disk.img", "--swap=32M", cores];
        let printed = script(context, folder, &options, &text)?;
        ensure!(printed == "text\n1\n", "{cores}: {printed}");
    }
    check(&image)
}

fn full(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 16)?;
    let text = format!(
        "{MOUNT}cd /mnt; dd if=/dev/zero of=big bs=64k 2>&1 | grep -o 'No space.*'; echo x 2>/dev/null > small; \
         rm big; sleep 1; echo text > small; cat small"
    );
    let printed = script(context, folder, &[], &text)?;
    ensure!(printed == "No space left on device\ntext\n", "{printed}");
    check(&image)
}

/// Many files in a folder, and two who make some at once.
fn many(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 64)?;
    let program = folder.join("many");
    compile(&context.project.path("guest/tests/disk/many.c"), &program, "gcc")?;
    let text = format!("{MOUNT}/bin/many /mnt 2000 && ls /mnt/many | wc -l");
    let printed = script(context, folder, &["--cores=2", "--file=many:/bin/many"], &text)?;
    ensure!(printed == "2000\n", "{printed}");
    // Known, and nothing else: of a scattered directory the library does not count the blocks of its tree of extents (decision 128).
    let found = tool("e2fsck", &["-fn"], &image)?.stdout;
    let found = String::from_utf8_lossy(&found).into_owned();
    let others =
        found.lines().filter(|line| line.ends_with("? no") && !line.contains("i_blocks is"));
    let others: Vec<_> = others.filter(|line| !line.contains("could be narrower")).collect();
    ensure!(others.is_empty(), "{found}");
    let repaired = tool("e2fsck", &["-fp"], &image)?.status.code();
    ensure!(matches!(repaired, Some(0 | 1)), "{repaired:?}: {found}");
    check(&image)?;
    let listed = tool("debugfs", &["-R", "ls -p /many"], &image)?.stdout;
    let count = String::from_utf8_lossy(&listed).lines().filter(|line| line.contains("/f")).count();
    ensure!(count == 2000, "debugfs finds {count}");
    Ok(())
}

/// A sector that cannot be read, of one file.
fn errors(context: &Context, folder: &Path) -> Result<()> {
    let image = image(folder, 16)?;
    script(
        context,
        folder,
        &[],
        &format!("{MOUNT}cd /mnt; head -c 40960 /dev/zero > bad; echo text > good"),
    )?;
    let blocks = tool("debugfs", &["-R", "blocks /bad"], &image)?.stdout;
    let blocks = String::from_utf8_lossy(&blocks).into_owned();
    let first = blocks.split_whitespace().next().context("bad has no blocks")?;
    // mkfs takes small blocks for such a disk.
    let described = tool("dumpe2fs", &["-h"], &image)?.stdout;
    let described = String::from_utf8_lossy(&described).into_owned();
    let size = described.lines().find_map(|line| line.strip_prefix("Block size:"));
    let size: u64 = size.context("no size of a block")?.trim().parse()?;
    let sector = first.parse::<u64>()? * size / 512;
    let rules = format!(
        "[inject-error]\nevent = \"none\"\niotype = \"read\"\nerrno = \"5\"\nsector = \"{sector}\"\nonce = \"off\"\n"
    );
    fs::write(folder.join("rules"), rules)?;
    let text = format!("{MOUNT}cd /mnt; cat bad 2>&1 >/dev/null | grep -o 'Input/output error'; cat good; echo more >> good; cat good");
    let printed = script(context, folder, &["--disk-errors=rules"], &text)?;
    ensure!(printed == "Input/output error\ntext\ntext\nmore\n", "{printed}");
    check(&image)
}

/// The emulator is killed at some moment: what was synced is there, and after the journal was read nothing is wrong.
fn killed(context: &Context, folder: &Path) -> Result<()> {
    let text = format!(
        "{MOUNT}cd /mnt; i=0; while :; do yes $i | head -c 30000 > f$i; mkdir d$i; mv f$i d$i/f; sync; echo $i; \
         test $((i % 3)) = 0 && rm -r d$((i / 2)); i=$((i + 1)); done"
    );
    let mut most = 0;
    for seconds in ["9.3", "11.1", "13.7"] {
        let image = image(folder, 64)?;
        let limit = format!("--timeout={seconds}");
        let output = feed(&mut x_run(context, folder, &[&limit], &["sh", "-c", &text])?, b"")?;
        ensure!(!output.status.success(), "it was not killed");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let synced = printed.lines().filter_map(|line| line.parse::<u32>().ok());
        let synced: Vec<u32> = synced.collect();
        most = most.max(synced.len());
        let repaired = tool("e2fsck", &["-p"], &image)?;
        ensure!(
            matches!(repaired.status.code(), Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&repaired.stdout)
        );
        check(&image)?;
        let last = synced.last().copied().unwrap_or(0);
        // Of the older ones some were removed.
        for number in synced.into_iter().filter(|number| *number > last / 2 + 1) {
            let bytes = cat(&image, &format!("/d{number}/f"))?;
            let line = format!("{number}\n");
            let expected: Vec<u8> = line.bytes().cycle().take(30_000).collect();
            ensure!(bytes == expected, "file {number} of {last} has {} bytes", bytes.len());
        }
    }
    ensure!(most > 3, "hardly anything was synced: {most}");
    Ok(())
}

fn wrong_files(context: &Context, folder: &Path) -> Result<()> {
    fs::write(folder.join("odd"), [0; 700])?;
    fs::write(folder.join("empty"), "")?;
    for (option, words) in [
        ("nonesuch", "--disk nonesuch: No such file or directory"),
        (".", "this is no regular file"),
        ("odd", "its size is no multiple of 512"),
        ("empty", "it is empty"),
        ("", "the name of a file is missing"),
    ] {
        let mut command = x_run(context, folder, &[&format!("--disk={option}")], &["true"])?;
        let output = feed(&mut command, b"")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && said.contains(words), "{option}: {said}");
    }
    // Nothing that can be mounted.
    fs::write(folder.join("disk.img"), super::streams::noise(1 << 20))?;
    let text = "mkdir -p /mnt; mount -t ext4 /dev/vda /mnt 2>/dev/null || echo no; ls /mnt; od -An -tx1 -N4 /dev/vda";
    let printed = script(context, folder, &[], text)?;
    let bytes = super::streams::noise(4);
    let expected: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
    ensure!(printed == format!("no\n{expected}\n"), "{printed}");
    Ok(())
}
