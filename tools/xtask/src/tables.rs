//! `./x tables`: which system calls and which files of `/proc` there are, as a page of the book, from the code.
//!
//! What there is says the library's own table of calls; what tests a call, the test programs, which name it. What is known not to be
//! as on Linux is in `tools/calls.txt`.

use crate::project::Project;
use crate::testing::surveys::{self, Kind};
use anyhow::{bail, ensure, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use syscalls::x86_64::Sysno;

/// The page.
const PAGE: &str = "docs/linux-calls.md";
/// The table of calls of the library.
const CALLS: &str = "lib/libunix/src/sys/table.rs";
/// What is known not to be as on Linux.
const NOTES: &str = "tools/calls.txt";
/// Where the names in `/proc` are.
const PROC: &str = "servers/unixd/src/procfs.rs";
/// C programs, whose output is compared with Linux's.
const TESTS: &str = "guest/tests/linux";
/// Scripts that do the same with programs.
const PROGRAMS: [&str; 3] = ["guest/tests/debian", "guest/tests/shell", "guest/tests/programs"];
/// Handlers of calls that are there only to be refused: what they answer.
const ABSENT: &str = "info::not_there";
const REFUSED: &str = "info::not_permitted";
/// No number is as large.
const NUMBERS: usize = 1024;
/// Tests that are named for a call.
const NAMED: usize = 3;

/// Writes the page.
pub fn write(project: &Project) -> Result<()> {
    Ok(fs::write(project.path(PAGE), page(&project.root)?)?)
}

/// Fails if the page is not what the code says.
pub fn check(root: &Path) -> Result<()> {
    let there = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    ensure!(there == page(root)?, "{PAGE} is not up to date: ./x tables writes it");
    Ok(())
}

/// How much of a call there is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extent {
    /// Tests name it, and no difference is known.
    Exact,
    /// No difference is known, and no test names it.
    Untested,
    /// A difference is known.
    Partial,
    /// It is answered with `ENOSYS`.
    Missing,
}

impl Extent {
    fn word(self) -> &'static str {
        match self {
            Extent::Exact => "exact",
            Extent::Untested => "untested",
            Extent::Partial => "partial",
            Extent::Missing => "missing",
        }
    }
}

/// A system call of Linux.
struct Call {
    number: usize,
    name: &'static str,
    extent: Extent,
    note: String,
    tests: Vec<String>,
}

fn page(root: &Path) -> Result<String> {
    let calls = calls(root)?;
    let count = |extent| calls.iter().filter(|call| call.extent == extent).count();
    let (exact, untested) = (count(Extent::Exact), count(Extent::Untested));
    let (partial, missing) = (count(Extent::Partial), count(Extent::Missing));
    let mut text = format!(
        "# What there is of Linux\n\n\
         Made by `./x tables` from the [library's table of calls](../{CALLS}), [what is known not to be as on Linux](../{NOTES}), \
         and the [tests](../{TESTS}), of which each was recorded on Linux. `./x check` fails if it is not up to date.\n\n\
         ## System calls\n\n\
         Of {} calls {exact} are *exact*: tests name them, and no difference is known, which does not say that each flag and error \
         is tested. {untested} are *untested*: there, but no test names them. Of {partial} a difference is known, and {missing} are missing \
         (`ENOSYS`). Behind three tests stands how many more name a call.\n\n\
         | number | call | | what differs | tested by |\n|---|---|---|---|---|\n",
        calls.len()
    );
    for call in &calls {
        let Call { number, name, note, .. } = call;
        let extent = call.extent.word();
        let tests: Vec<String> = call
            .tests
            .iter()
            .take(NAMED)
            .map(|test| format!("[{test}](../{TESTS}/{test}.c)"))
            .collect();
        let more = match call.tests.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" +{more}"),
        };
        writeln!(text, "| {number} | `{name}` | {extent} | {note} | {}{more} |", tests.join(" "))?;
    }
    text += &proc(root)?;
    text += &programs(root)?;
    Ok(text)
}

/// All calls of Linux, by number.
fn calls(root: &Path) -> Result<Vec<Call>> {
    let handlers = handlers(&read(root, CALLS)?)?;
    let mut notes = notes(&read(root, NOTES)?)?;
    let tests = tests(root)?;
    let mut calls = Vec::new();
    for number in 0..NUMBERS {
        let Some(sysno) = Sysno::new(number) else { continue };
        let name = sysno.name();
        let handler = handlers.get(&number);
        if let Some((own, _)) = handler {
            ensure!(own == name, "{CALLS}: {number} is {name}, not {own}");
        }
        let note = notes.remove(name);
        let handler = handler.map(|(_, handler)| &handler[..]);
        let (extent, note) = match (handler, note) {
            (None | Some(ABSENT), None) => (Extent::Missing, String::new()),
            (None | Some(ABSENT), Some(_)) => bail!("{NOTES}: {name} is missing altogether"),
            (Some(REFUSED), None) => (Extent::Partial, "`EPERM` for everybody".into()),
            (Some(_), Some(note)) => (Extent::Partial, note),
            (Some(_), None) => (Extent::Exact, String::new()),
        };
        let is_named = |(test, words): &&(String, BTreeSet<String>)| {
            test == name || names(name).any(|name| words.contains(&name))
        };
        let tests: Vec<String> = match extent {
            Extent::Missing => Vec::new(),
            _ => tests.iter().filter(is_named).map(|(test, _)| test.clone()).collect(),
        };
        let extent = match extent {
            Extent::Exact if tests.is_empty() => Extent::Untested,
            extent => extent,
        };
        calls.push(Call { number, name, extent, note, tests });
    }
    if let Some(name) = notes.keys().next() {
        bail!("{NOTES}: there is no call {name}");
    }
    if let Some(number) = handlers.keys().find(|number| Sysno::new(**number).is_none()) {
        bail!("{CALLS}: Linux has no call {number}");
    }
    Ok(calls)
}

/// Names by which a test program knows a call: its own, with which `syscall` is told it, and what C libraries call it.
fn names(call: &str) -> impl Iterator<Item = String> {
    let short = call.strip_suffix("64").or(call.strip_prefix("rt_"));
    let short = short.unwrap_or_else(|| call.trim_end_matches(|c: char| c.is_ascii_digit()));
    let in_library = match call {
        "newfstatat" => "fstatat",
        "exit_group" => "_exit",
        "clone" => "pthread_create",
        "rt_sigreturn" => "sigaction",
        "umount2" => "umount",
        "prlimit64" => "getrlimit",
        _ => short,
    };
    [
        call.to_owned(),
        short.to_owned(),
        in_library.to_owned(),
        format!("SYS_{call}"),
        format!("__NR_{call}"),
    ]
    .into_iter()
}

/// The functions of the calls that there are, with their names, by number: the rows of `calls! { … }`.
fn handlers(table: &str) -> Result<BTreeMap<usize, (String, String)>> {
    let (_, rows) = table.split_once("\ncalls! {").context("there is no table of calls")?;
    let mut all = BTreeMap::new();
    for row in
        rows.lines().map(str::trim).filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
    {
        let words: Vec<&str> = row.split([' ', ',']).collect();
        let [number, name, handler, ..] = words[..] else { bail!("{row:?} is no row") };
        let known = all.insert(number.parse()?, (name.to_owned(), handler.to_owned()));
        ensure!(known.is_none(), "{number} is there twice");
    }
    ensure!(!all.is_empty(), "the table of calls is empty");
    Ok(all)
}

fn notes(text: &str) -> Result<BTreeMap<String, String>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, note) =
                line.split_once(": ").with_context(|| format!("{NOTES}: {line:?}"))?;
            Ok((name.to_owned(), note.to_owned()))
        })
        .collect()
}

/// The test programs, and the functions that each calls (or numbers of calls that it has).
fn tests(root: &Path) -> Result<Vec<(String, BTreeSet<String>)>> {
    let mut all = Vec::new();
    for (name, path) in listed(root, TESTS, "c")? {
        let text = fs::read_to_string(path)?;
        let mut words = BTreeSet::new();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = &text[..];
        while let Some(start) = rest.find(is_part) {
            let word = &rest[start..];
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let (word, behind) = word.split_at(end);
            if behind.starts_with('(') || word.starts_with("SYS_") || word.starts_with("__NR_") {
                words.insert(word.to_owned());
            }
            rest = behind;
        }
        all.push((name, words));
    }
    Ok(all)
}

/// Files with an ending in a folder, by name.
fn listed(root: &Path, folder: &str, ending: &str) -> Result<BTreeMap<String, std::path::PathBuf>> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
        let path = file?.path();
        if path.extension().is_some_and(|own| own == ending) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            all.insert(name, path);
        }
    }
    Ok(all)
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| file.to_owned())
}

/// The files of `/proc`.
fn proc(root: &Path) -> Result<String> {
    let source = read(root, PROC)?;
    let mut text =
        String::from("\n## `/proc`\n\nWhat is there:\n\n| folder | files |\n|---|---|\n");
    for (folder, list) in [
        ("/proc", "SYSTEM"),
        ("/proc/tessera", "TESSERA"),
        ("/proc/PID", "FILES"),
        ("/proc/PID, links", "LINKS"),
        ("/proc/PID/task/TID", "TASK_FILES"),
    ] {
        let names: Vec<String> =
            strings(&source, list)?.iter().map(|name| format!("`{name}`")).collect();
        writeln!(text, "| `{folder}` | {} |", names.join(" "))?;
    }
    text += "\nAnd `/proc/self`, `/proc/thread-self`, `/proc/PID/fd` with a link for each descriptor, `/proc/PID/ns` with one for each name space, \
             and `/proc/PID/task`. What there is in `/proc/sys` and `/sys` is listed in [the source](../servers/unixd/src/made.rs).\n";
    Ok(text)
}

/// The words of a list of strings in a source file.
fn strings<'a>(source: &'a str, list: &str) -> Result<Vec<&'a str>> {
    let start = format!("const {list}: [&str; ");
    let body = source.split_once(&start).and_then(|(_, rest)| rest.split_once("];"));
    let (body, _) = body.with_context(|| format!("{PROC}: there is no list {list}"))?;
    let (_, body) = body.split_once("] =").with_context(|| format!("{PROC}: {list}"))?;
    Ok(body.split('"').skip(1).step_by(2).collect())
}

/// What scripts run.
fn programs(root: &Path) -> Result<String> {
    let mut text = String::from(
        "\n## Programs that run\n\n\
         Scripts whose output is compared with what they print on Linux, and the programs that they start:\n\n\
         | script | programs |\n|---|---|\n",
    );
    // What comes with every root; words of the shell itself are none.
    let known = [
        "awk", "cat", "cp", "cut", "dd", "df", "du", "find", "grep", "gzip", "head", "kill", "ln",
        "ls", "mkdir", "mount", "mv", "od", "ps", "rm", "sed", "seq", "sh", "sleep", "sort",
        "stat", "tail", "tar", "tee", "top", "tr", "uniq", "vi", "wc", "xargs", "bash", "busybox",
        "free", "hello", "cores", "process",
    ];
    for folder in PROGRAMS {
        for (name, path) in listed(root, folder, "sh")? {
            let script = fs::read_to_string(path)?;
            if let Some(packages) = script.lines().find_map(|line| line.strip_prefix("# deb: ")) {
                let packages = packages.replace(',', " ");
                writeln!(text, "| [{name}](../{folder}/{name}.sh) | Debian's {packages} |")?;
                continue;
            }
            let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
            let words: BTreeSet<&str> =
                lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric())).collect();
            let found: Vec<&str> =
                known.iter().copied().filter(|program| words.contains(program)).collect();
            writeln!(text, "| [{name}](../{folder}/{name}.sh) | {} |", found.join(" "))?;
        }
    }
    text += &surveys(root)?;
    text += "\nDebian's programs that were tried by hand are in [run your own program](howto.md#debians-programs).\n";
    Ok(text)
}

/// What became of the parts of programs that test systems, without those that pass.
fn surveys(root: &Path) -> Result<String> {
    let mut text = String::new();
    for (name, path) in listed(root, surveys::FOLDER, "known")? {
        let all = surveys::read(&fs::read_to_string(path)?);
        let count = |kind| all.values().filter(|(one, _)| *one == kind).count();
        let (passed, skipped) = (count(Kind::Passes), count(Kind::Skipped));
        writeln!(
            text,
            "\n### {name}\n\nOf {} parts {passed} pass and {skipped} are skipped by [the program](../{}/{name}.sh) itself, as it found what `./x test \
             survey/{name}` compares with. The others, and what it said:\n\n| part | | why |\n|---|---|---|",
            all.len(),
            surveys::FOLDER
        )?;
        for (part, (kind, why)) in &all {
            let word = match kind {
                Kind::Passes => continue,
                Kind::Skipped => "skipped",
                Kind::Fails => "fails",
            };
            writeln!(text, "| `{part}` | {word} | {} |", why.replace('|', "\\|"))?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn the_page_is_what_the_code_says() {
        check(root()).unwrap();
    }

    #[test]
    fn what_is_answered_enosys_is_not_there() {
        let handlers = handlers(&read(root(), CALLS).unwrap()).unwrap();
        for Call { number, name, extent, .. } in calls(root()).unwrap() {
            let is_there = handlers.get(&number).is_some_and(|(_, handler)| handler != ABSENT);
            assert_eq!(is_there, extent != Extent::Missing, "{name}");
        }
    }

    #[test]
    fn wrong_tables_are_refused() {
        let rows = |rows: &str| handlers(&format!("calls\ncalls! {{\n{rows}\n}}"));
        let all = rows("    0 read a::read, (i32);\n    // 1 x y,\n    3 close b::c, ();").unwrap();
        assert_eq!(all[&3], ("close".into(), "b::c".into()));
        assert_eq!(all.len(), 2);
        assert!(rows("").is_err() && rows("0 read").is_err());
        assert!(rows("0 read a, ();\n0 read a, ();").is_err());
        assert!(notes("read no").is_err());
        assert_eq!(strings("const X: [&str; 2] = [\"a\", \"b\"];", "X").unwrap(), ["a", "b"]);
    }
}
