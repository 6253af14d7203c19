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

const TIMEOUT: Duration = Duration::from_secs(600);
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
        Case::single("persistent/files".into(), files),
        Case::single("persistent/files-where-caches-are-lost".into(), files_where_caches_are_lost),
        Case::single("persistent/power-cut".into(), power_cut),
        Case::single("persistent/snapshots".into(), snapshots),
        Case::single(
            "persistent/snapshots-where-caches-are-lost".into(),
            snapshots_where_caches_are_lost,
        ),
        Case::single("persistent/snapshots-power-cut".into(), snapshots_power_cut),
        Case::single("persistent/refused".into(), refused),
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

/// A session that must end well; answers what it printed.
fn session_with(
    context: &Context,
    folder: &Path,
    options: &[&str],
    script: &str,
) -> Result<String> {
    let mut arguments = options.to_vec();
    arguments.extend(["--", "sh", "-c", script]);
    let (status, out, err) = run(context, folder, &arguments)?;
    ensure!(status == 0, "{options:?} {script:?}: status {status}, {out:?}, {err}");
    Ok(out)
}

/// What makes a tree with all that is to be found again.
const MAKE: &str = "set -e; cd /pmem; umask 027; mkdir -p d/e; echo text > d/f; ln d/f d/e/g
    ln -s ../f d/e/s; mkfifo -m 600 p; mknod n c 1 3; : > empty; chmod 2751 d; chown 3:4 d/f
    touch -d '2020-02-02 02:02:02' d/f; dd if=/dev/urandom of=large bs=64k count=100 2>/dev/null
    dd if=/dev/zero of=sparse bs=1 count=1 seek=1000000000 2>/dev/null
    echo gone > gone; exec 3< gone; rm gone; read word <&3; [ $word = gone ]";
/// What shows it.
const SHOW: &str =
    "cd /pmem; md5sum large d/f d/e/g; readlink d/e/s; tail -c 1 sparse | od -An -tx1
    find . | sort | xargs stat -c '%n %A %h %u:%g %s %X %Y %Z %i %t:%T'";

/// What one session leaves the next one finds, on other machines and under another name.
fn files(context: &Context) -> Result<()> {
    let folder = folder(context, "files")?;
    let first = session_with(context, &folder, &["--nvdimm", "a:32M"], &format!("{MAKE}; {SHOW}"))?;
    ensure!(first.contains("./d/e/g -rw-r----- 2 3:4 5"), "{first}");
    let other = ["--nvdimm", "a", "--mem", "3G", "--cores", "4"];
    let second = session_with(context, &folder, &other, SHOW)?;
    ensure!(second == first, "{first}\n{second}");
    fs::rename(folder.join("a"), folder.join("b"))?;
    let third = session_with(context, &folder, &["--nvdimm", "b", "--la57"], SHOW)?;
    ensure!(third == first, "{first}\n{third}");
    // All of it can be removed, and is gone then; what it took can be had again.
    let empty = "cd /pmem; rm -r *; dd if=/dev/zero of=all bs=64k count=440 2>/dev/null; wc -c < all; rm all";
    let out = session_with(context, &folder, &["--nvdimm", "b"], empty)?;
    ensure!(out.trim() == "28835840", "{out}");
    let out = session_with(context, &folder, &["--nvdimm", "b"], "ls -A /pmem")?;
    ensure!(out.is_empty(), "{out}");
    Ok(())
}

/// The same where what was stored survives only once it was written back from the caches.
fn files_where_caches_are_lost(context: &Context) -> Result<()> {
    let folder = folder(context, "files-where-caches-are-lost")?;
    let option = ["--nvdimm", "a:32M,domain=memory"];
    let first = session_with(context, &folder, &option, &format!("{MAKE}; sync large; {SHOW}"))?;
    let second = session_with(context, &folder, &["--nvdimm", "a,domain=memory"], SHOW)?;
    ensure!(second == first, "{first}\n{second}");
    Ok(())
}

/// The emulator ends in the middle of something. A file that was renamed has what was written to it before.
fn power_cut(context: &Context) -> Result<()> {
    let folder = folder(context, "power-cut")?;
    let work = "cd /pmem; work() { i=$(ls | wc -l); while :; do i=$((i + 1)); seq $i 2000 > new-$1
            mv new-$1 f$i-$1; [ $((i % 3)) = 0 ] && rm -f f$((i / 2))-$1
            mkdir $1; mv $1 $1-e; rmdir $1-e; done; }
        work a & work b";
    let check = "cd /pmem; for f in f*; do n=${f#f}; seq ${n%-*} 2000 | cmp - $f || exit 1; done
        rm -rf a b *-e new-*; ls | wc -l";
    let mut counts = Vec::new();
    for _ in 0..3 {
        let arguments = ["--nvdimm", "a:64M", "--timeout", "6", "--", "sh", "-c", work];
        let (status, out, err) = run(context, &folder, &arguments)?;
        ensure!(status == 124, "status {status}, {out}, {err}");
        let out = session_with(context, &folder, &["--nvdimm", "a"], check)?;
        counts.push(out.split_whitespace().next().unwrap_or("0").parse::<u32>()?);
    }
    ensure!(counts.windows(2).all(|pair| pair[0] < pair[1]) && counts[0] > 3, "{counts:?}");
    // Nothing is left of what was removed: no more is used than where as many files came and went undisturbed.
    // (The table of names does not shrink.)
    let used = "rm -rf *; df . | awk 'NR == 2 { print $3 }'";
    let cut = session_with(context, &folder, &["--nvdimm", "a"], &format!("cd /pmem; {used}"))?;
    let most = counts[2];
    let as_many = format!(
        "cd /pmem; i=0; while [ $i -lt {most} ]; do i=$((i + 1)); echo > f$i; done; {used}"
    );
    let whole = session_with(context, &folder, &["--nvdimm", "b:64M"], &as_many)?;
    let kib = |text: &str| text.trim().parse::<u64>();
    ensure!(
        kib(&cut)? <= kib(&whole)? + 64,
        "{cut} KiB are used, {whole} where {most} files were made and removed"
    );
    Ok(())
}

/// What shows a tree wherever it is.
const SHOW_TREE: &str =
    "md5sum large d/f d/e/g; readlink d/e/s; tail -c 1 sparse | od -An -tx1
    find . -path ./.snapshots -prune -o -print | sort | xargs stat -c '%n %A %h %u:%g %s %X %Y %Z %t:%T'";

/// A snapshot is found by the next session, as the files were, and nobody changes it.
fn snapshots(context: &Context) -> Result<()> {
    snapshots_on(context, "snapshots", "")
}

/// The same where what was stored survives only once it was written back: all that is in a snapshot was.
fn snapshots_where_caches_are_lost(context: &Context) -> Result<()> {
    snapshots_on(context, "snapshots-where-caches-are-lost", ",domain=memory")
}

fn snapshots_on(context: &Context, name: &str, domain: &str) -> Result<()> {
    let folder = folder(context, name)?;
    let (new, again) = (format!("a:32M{domain}"), format!("a{domain}"));
    let make = format!(
        "{MAKE}; mkdir .snapshots; {SHOW_TREE}; mkdir .snapshots/s
        echo other > d/f; rm -r d/e large; : > sparse; chmod 700 d; echo more > d/new"
    );
    let before = session_with(context, &folder, &["--nvdimm", &new], &make)?;
    ensure!(before.contains("./d/e/g -rw-r----- 2 3:4 5"), "{before}");
    let other = ["--nvdimm", &again, "--mem", "1G", "--cores", "2"];
    let show = format!("cd /pmem/.snapshots/s; {SHOW_TREE}");
    let after = session_with(context, &folder, &other, &show)?;
    // The root itself was changed by the directory that was made in it.
    let without_root = |text: &str| {
        text.lines().filter(|line| !line.starts_with(". ")).collect::<Vec<_>>().join("\n")
    };
    ensure!(without_root(&after) == without_root(&before), "{before}\n{after}");
    let change =
        "cd /pmem/.snapshots; for c in 'touch s/x' 'rm s/d/f' 'mkdir s/y' 'chmod 777 s/d'; do
            $c 2>&1 | grep -c 'Read-only file system'; done; cat /pmem/d/f /pmem/d/new; mkdir t; ls
            rm -f t/d/f; rmdir s; ls; cat t/d/f";
    let out = session_with(context, &folder, &other, change)?;
    let changed = "1\n1\n1\n1\nother\nmore\ns\nt\nt\nother\n";
    ensure!(out.contains(changed), "{out}");
    // With the last snapshot and the files everything goes.
    let empty = "cd /pmem; rmdir .snapshots/t .snapshots; rm -r *
        dd if=/dev/zero of=all bs=64k count=440 2>/dev/null; wc -c < all; rm all; ls -A";
    let out = session_with(context, &folder, &["--nvdimm", &again], empty)?;
    ensure!(out.trim() == "28835840", "{out}");
    Ok(())
}

/// The emulator ends while snapshots come and go: each that is there is whole.
fn snapshots_power_cut(context: &Context) -> Result<()> {
    const FILES: u32 = 60;
    let folder = folder(context, "snapshots-power-cut")?;
    let work = format!(
        "cd /pmem; [ -d .snapshots ] || mkdir .snapshots d; n=$(ls .snapshots | tail -n 1); n=${{n:-1000}}
        while :; do n=$((n + 1)); i=0; while [ $i -lt {FILES} ]; do i=$((i + 1)); echo $n > d/$i; done
            mkdir .snapshots/$n; [ -d .snapshots/$((n - 3)) ] && rmdir .snapshots/$((n - 3)); done"
    );
    let check = format!(
        "cd /pmem/.snapshots; for n in *; do [ $(ls $n/d | wc -l) = {FILES} ] || exit 1
            [ $(cat $n/d/* | grep -cx $n) = {FILES} ] || exit 2; done; ls | wc -l; ls | tail -n 1"
    );
    let mut last = 1000;
    for round in 0..4 {
        let timeout = (4 + round).to_string();
        let arguments = ["--nvdimm", "a:64M", "--timeout", &timeout, "--", "sh", "-c", &work];
        let (status, out, err) = run(context, &folder, &arguments)?;
        ensure!(status == 124, "status {status}, {out}, {err}");
        let out = session_with(context, &folder, &["--nvdimm", "a"], &check)?;
        let numbers: Vec<u32> = out.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        // One may be on its way, and one may have just gone.
        ensure!((2..=4).contains(&numbers[0]) && numbers[1] > last + 2, "{out} after {last}");
        last = numbers[1];
    }
    let used =
        "cd /pmem; rmdir .snapshots/* .snapshots; rm -r d; df . | awk 'NR == 2 { print $3 }'";
    let used: u64 = session_with(context, &folder, &["--nvdimm", "a"], used)?.trim().parse()?;
    let empty = "df /pmem | awk 'NR == 2 { print $3 }'";
    let empty: u64 =
        session_with(context, &folder, &["--nvdimm", "b:64M"], empty)?.trim().parse()?;
    // The table of objects, 64 bytes for each, does not shrink.
    let table = u64::from((last - 1000) * FILES) * 64 / 1024;
    ensure!(used <= empty + table + 64, "{used} KiB are used, {empty} by an empty file system");
    Ok(())
}

const PAGE: usize = 4096;
/// An entry of a page table, or what goes for one, that leads out of all memory.
const NOWHERE: u64 = 0x7_ffff_ffff_f067;
/// Pages behind the first one in which a pool of 16 MiB notes which are free.
const OWN: usize = 9;

/// What is no pool, or a damaged one, is not used, and stays as it is.
fn refused(context: &Context) -> Result<()> {
    let folder = folder(context, "refused")?;
    session_with(
        context,
        &folder,
        &["--nvdimm", "good:16M"],
        "echo text > /pmem/file; mkdir /pmem/d",
    )?;
    let good = fs::read(folder.join("good"))?;
    let mut foreign = good.clone();
    foreign[..24].copy_from_slice(b"something else was here.");
    // Where the directory is, the first word of its first record, a table's entry, and the place of a name.
    let mut bad = vec![("foreign", foreign)];
    let word = |page: usize, n: usize| page * PAGE + n * 8;
    let name = |line: &[u8]| line[16..].starts_with(b"file\0");
    let of_name = good.chunks_exact(64).position(name).context("the name is somewhere")? * 64;
    let places = [
        ("directory", word(0, 8)),
        ("record", word(OWN + 2, 8)),
        ("entry", word(OWN + 1, 0)),
        ("name", of_name + 8),
    ];
    for (case, at) in places {
        let mut image = good.clone();
        image[at..at + 8].copy_from_slice(&NOWHERE.to_le_bytes());
        bad.push((case, image));
    }
    // In a larger file the pool's notes would be where the directory is. Nothing can be found, but there is something.
    let mut larger = good.clone();
    larger.resize(good.len() + (2 << 20), 0);
    bad.push(("larger", larger));
    let mut lost = good.clone();
    lost[word(OWN + 2, 8)..word(OWN + 3, 0)].fill(0);
    bad.push(("lost", lost));
    for (case, image) in bad {
        fs::write(folder.join("bad"), &image)?;
        let script =
            "ls -A /pmem; echo text > /pmem/file; mkdir /pmem/d; grep pmem /proc/mounts; :";
        let arguments = ["--verbose", "--nvdimm", "bad", "--", "sh", "-c", script];
        let (status, out, err) = run(context, &folder, &arguments)?;
        let all = format!("{out}{err}");
        let lines = all.lines().filter(|line| line.contains("/pmem cannot be used"));
        ensure!(status == 0 && lines.count() == 1, "{case}: status {status}, {all}");
        ensure!(all.matches("Read-only file system").count() == 2, "{case}: {all}");
        ensure!(!all.contains("pmem /pmem"), "{case}: {all}");
        ensure!(fs::read(folder.join("bad"))? == image, "{case}: it was changed");
    }
    let out = session_with(context, &folder, &["--nvdimm", "good"], "cat /pmem/file")?;
    ensure!(out == "text\n", "{out}");
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
