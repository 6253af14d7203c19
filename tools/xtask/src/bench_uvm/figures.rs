//! `./x bench uvm/figures`: figures 5.3 to 5.9 and table 5.1 of UVM, which compare forks with copy-on-write with forks that copy all pages at
//! once, from the function traces of one set of programs (`forks.sh` and `forks.c` of the harness) that runs with both.

use crate::bench_group::Lab;
use crate::compare::harness;
use crate::compare::table::Table;
use crate::results::{grouped, Clock, Direction, Measurement, Provenance, Question, System};
use crate::testing::{feed, this_tool};
use ::trace::dump::Dump;
use ::trace::profile::{label, short};
use ::trace::timeline::{CallId, Episode, Name, Timeline};
use anyhow::{ensure, Context as _, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

/// How a fork copies, in words, and as the environment says it.
const HOWS: [(&str, &str); 2] = [("copy-on-write", "usual"), ("eager", "eager")];
/// The system calls that fork, and the one that executes a program.
const CALLS: [(&str, &[&str]); 2] =
    [("fork, all of it", &["clone", "fork", "clone3"]), ("exec, all of it", &["execve"])];
/// What a parent does to its address space at a fork: `vm_map_clone`.
const CLONE: [&str; 5] = [
    "<uvm::space::Space>::before_fork",
    "<uvm::space::Space>::fork",
    "<libunix::mm::backend::Caps>::share_tables",
    "<uvm::space::Space>::forked",
    "<uvm::space::Space>::copy_now",
];
/// `vm_page_fault`.
const FAULT: &str = "<uvm::space::Space>::fault";
/// A page becomes the process's own: by a copy, if the second is called, or because nobody else has it any more.
const OWN: &str = "<uvm::space::Space>::own_anon";
const COPY: &str = "kernel::operations::copy::make_copy";
/// Kinds of faults, by what they call; the first that fits.
const KINDS: [(&str, &str); 6] = [
    ("a file's page, copied for a write", "<uvm::space::Space>::copy_object"),
    ("written for the first time: zeros", "::pages_zero"),
    ("shown once more, not copied", "<uvm::space::Space>::map_anons"),
    ("a file's page shown", "<uvm::space::Space>::map_object"),
    ("the page of zeros shown", "<uvm::pmap::Pmap>::enter_zeros"),
    ("others", ""),
];
/// Further rows: functions with such names.
const FUNCTIONS: [(&str, &[&str]); 3] = [
    ("amaps copied (5.7)", &["<uvm::amap::Amap>::leave"]),
    ("anons looked up (5.8)", &["<uvm::amap::Amap>::run"]),
    (
        "protection changed (5.9, 5.1)",
        &["kernel::invoke::table::protect", "kernel::invoke::table::protect_many"],
    ),
];

/// Instructions of calls of one kind.
type Times = Vec<u64>;

/// What a run has done.
struct Seen {
    /// By the name of the row.
    rows: Vec<(String, Times)>,
    copied: u64,
    allocated: u64,
}

pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mut runs = Vec::new();
    let mut said = None;
    for (_, how) in HOWS {
        let (output, seen) = run(lab, how)?;
        let first = said.get_or_insert_with(|| output.clone());
        ensure!(*first == output, "programs see how forks copy: {output}");
        runs.push(seen);
    }
    println!("uvm/figures: one set of programs; instructions\n");
    println!("{}", render(&runs));
    let mut all = Vec::new();
    for ((words, _), seen) in HOWS.iter().zip(&runs) {
        let mut add = |case: String, unit: &str, value: u64| {
            let question = Question {
                benchmark: super::UVM.name.into(),
                case: format!("figures, {words}: {case}"),
                at: None,
                clock: Clock::Instructions,
                unit: unit.into(),
                better: Direction::Lower,
            };
            let provenance = Provenance::host(&lab.context.project);
            let samples = vec![value as f64];
            all.push(Measurement { question, system: System::Tessera, samples, provenance });
        };
        add("pages copied".into(), "pages", seen.copied);
        add("pages allocated".into(), "pages", seen.allocated);
        for (name, times) in &seen.rows {
            add(format!("{name}, calls"), "calls", times.len() as u64);
            add(name.clone(), Clock::Instructions.unit(), times.iter().sum());
        }
    }
    Ok(all)
}

/// Runs the programs with probes; what they have said, and what was done for them.
fn run(lab: &Lab, how: &str) -> Result<(String, Seen)> {
    const SET: &str =
        "cat /proc/tessera/counters >before; sh forks.sh; cat /proc/tessera/counters >after";
    let project = &lab.context.project;
    let folder = lab.context.folder("uvm")?;
    harness(project, "forks")?;
    for (from, name) in
        [("target/tessera/harness/forks", "forks"), ("guest/bench/harness/forks.sh", "forks.sh")]
    {
        fs::copy(project.path(from), folder.join(name))?;
    }
    let trace = format!("forks.{how}.trace");
    let mut command = this_tool(lab.context, &folder)?;
    command.args(["run", "--icount", "--mem", "1G", "--trace-buffer", "512M", "--trace", &trace]);
    command.args(["--file", "forks", "--file", "forks.sh", "--out", "before", "--out", "after"]);
    command.args(["--env", &format!("TESSERA_FORK={how}"), "--", "sh", "-c", SET]);
    let output = feed(&mut command, b"")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dump = Dump::from_bytes(&fs::read(folder.join(&trace))?)?;
    // It takes much room.
    fs::remove_file(folder.join(&trace))?;
    let lost: u64 = dump.cores.iter().map(|core| core.lost).sum();
    ensure!(lost == 0, "{lost} events did not fit into the trace");
    let counted = |name: &str| {
        let of = |file: &str| number(&fs::read_to_string(folder.join(file))?, name);
        anyhow::Ok(of("after")? - of("before")?)
    };
    let copied = counted("page_copies")?;
    let allocated = counted("pages_zeroed")? + copied;
    let rows = rows(&dump, &Timeline::shown(&dump));
    Ok((String::from_utf8(output.stdout)?, Seen { rows, copied, allocated }))
}

/// The number behind a name in the list of counters.
fn number(text: &str, name: &str) -> Result<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(key, _)| *key == name).with_context(|| format!("no {name}"))?;
    Ok(value.parse()?)
}

fn rows(dump: &Dump, timeline: &Timeline) -> Vec<(String, Times)> {
    let mut names: HashMap<Name, String> = HashMap::new();
    for call in &timeline.calls {
        names.entry(call.name).or_insert_with(|| short(&label(dump, call.name)));
    }
    let name = |id: CallId| names[&timeline.calls[id].name].as_str();
    let above = |id: CallId| std::iter::successors(Some(id), |&at| timeline.calls[at].parent);
    // Of faults, what they called; of forks, all parts together, by the outermost call.
    let mut called: HashMap<CallId, HashSet<&str>> = HashMap::new();
    let mut clones: BTreeMap<CallId, u64> = BTreeMap::new();
    let mut episodes: BTreeMap<usize, Times> = BTreeMap::new();
    let mut functions: BTreeMap<usize, Times> = BTreeMap::new();
    for (id, call) in timeline.calls.iter().enumerate().filter(|(_, call)| call.ended) {
        if let Name::Episode(Episode::LinuxCall(_)) = call.name {
            let which = CALLS.iter().position(|(_, calls)| {
                name(id).strip_prefix("system call ").is_some_and(|own| calls.contains(&own))
            });
            which.into_iter().for_each(|n| episodes.entry(n).or_default().push(call.total));
        }
        if CLONE.contains(&name(id)) {
            let outermost = above(id).last().unwrap_or(id);
            *clones.entry(outermost).or_default() += call.total;
        }
        let is = |ending: &&str| name(id).ends_with(*ending);
        if let Some(n) = FUNCTIONS.iter().position(|(_, all)| all.iter().any(is)) {
            functions.entry(n).or_default().push(call.total);
        }
        if let Some(fault) = above(id).find(|&at| name(at) == FAULT) {
            called.entry(fault).or_default().insert(name(id));
        }
    }
    let mut kinds: BTreeMap<usize, Times> = BTreeMap::new();
    for (&fault, names) in &called {
        let time = timeline.calls[fault].total;
        let kind = match (names.contains(OWN), names.contains(COPY)) {
            (true, true) => 0,
            (true, false) => 1,
            _ => {
                2 + KINDS
                    .iter()
                    .position(|(_, own)| names.iter().any(|it| it.ends_with(own)))
                    .unwrap_or(0)
            }
        };
        kinds.entry(kind).or_default().push(time);
    }
    let mut rows = vec![("fork, of memory (5.5, 5.1)".to_owned(), clones.into_values().collect())];
    let mut of = |all: &mut BTreeMap<usize, Times>, n: usize, name: &str| {
        rows.push((name.to_owned(), all.remove(&n).unwrap_or_default()));
    };
    CALLS.iter().enumerate().for_each(|(n, (name, _))| of(&mut episodes, n, name));
    let all = called.keys().map(|&fault| timeline.calls[fault].total).collect();
    of(&mut BTreeMap::from([(0, all)]), 0, "page faults (5.6, 5.1)");
    of(&mut kinds, 0, "- a page copied that others have, too");
    of(&mut kinds, 1, "- a page that nobody else has any more");
    KINDS.iter().enumerate().for_each(|(n, (name, _))| of(&mut kinds, n + 2, &format!("- {name}")));
    FUNCTIONS.iter().enumerate().for_each(|(n, (name, _))| of(&mut functions, n, name));
    rows
}

/// For each row and run: how many, how long together, the median, nine of ten are not longer, and the longest.
fn render(runs: &[Seen]) -> String {
    let mut heading = vec![String::new()];
    for (words, _) in HOWS {
        heading.extend([words, "together", "median", "9 of 10", "longest"].map(str::to_owned));
    }
    let mut table = Table::new(heading);
    let plain = |name: &str, of: fn(&Seen) -> u64| {
        let mut cells = vec![name.to_owned()];
        for run in runs {
            cells.push(grouped(of(run) as f64));
            cells.extend(vec![String::new(); 4]);
        }
        cells
    };
    table.row(plain("pages copied (5.3)", |seen| seen.copied));
    table.row(plain("pages allocated (5.4)", |seen| seen.allocated));
    for (n, (name, _)) in runs.first().map_or(&[][..], |run| &run.rows).iter().enumerate() {
        if runs.iter().all(|run| run.rows[n].1.is_empty()) {
            continue;
        }
        let mut cells = vec![name.clone()];
        for run in runs {
            let mut times = run.rows[n].1.clone();
            times.sort_unstable();
            cells.push(grouped(times.len() as f64));
            match times.last() {
                None => cells.extend(vec!["-".to_owned(); 4]),
                Some(&longest) => {
                    let all: u64 = times.iter().sum();
                    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
                    let values = [all, at(0.5), at(0.9), longest];
                    cells.extend(values.map(|value| grouped(value as f64)));
                }
            }
        }
        table.row(cells);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_counts_and_times() {
        let rows = |times: Times| vec![("exec".to_owned(), times)];
        let runs = [
            Seen { rows: rows((1..=10).rev().collect()), copied: 7, allocated: 1234 },
            Seen { rows: rows(Vec::new()), copied: 70, allocated: 5678 },
        ];
        let text = render(&runs);
        let line = text.lines().find(|line| line.starts_with("exec")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["exec", "10", "55", "5", "9", "10", "0", "-", "-", "-", "-"]);
        assert!(text.contains("1,234") && text.contains("70"), "{text}");
        assert_eq!(number("a 1\npage_copies 52\n", "page_copies").unwrap(), 52);
        assert!(number("page_copies_ 52\n", "page_copies").is_err());
    }
}
