//! A load like a build on 1, 2 and 4 cores: how well are they kept busy?
//!
//! The cores take turns (`--turns`), and the kernel counts how many have something to do, in the time of
//! a machine on which they work at once (`kernel/src/occupancy.rs`). So the numbers are the same in every
//! run and on every host.

use super::Lab;
use crate::bench::counting;
use crate::compare::table::Table;
use crate::image::Addition;
use crate::machine::{Homes, MachineOptions};
use crate::program::Invocation;
use crate::project::Project;
use crate::results::line::{self, Defaults};
use crate::results::{grouped, Clock, Measurement, Provenance, System};
use crate::setup;
use crate::testing::guest::GuestRun;
use crate::testing::linux::compile;
use crate::testing::Context;
use anyhow::{ensure, Context as _, Result};
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Machines, by their cores and how homes are chosen; the first is what the others are compared with.
const MACHINES: [(u32, Homes); 5] =
    [(1, Homes::One), (2, Homes::One), (4, Homes::One), (2, Homes::Load), (4, Homes::Load)];
/// The load, which begins each of its parts with a line `@cores NAME` and what was counted until then.
const SCRIPT: &str = "guest/bench/cores/build.sh";
/// A program that it runs.
const THREADS: &str = "guest/bench/cores/crew.c";
/// All parts together.
pub const WHOLE: &str = "all";

/// What `/proc/tessera/cores` counted: of each counter, the value on each core.
pub struct Counts(HashMap<String, Vec<u64>>);

/// The load, ready to run.
pub struct Load {
    additions: Vec<Addition>,
}

/// A run of it.
pub struct Order<'a> {
    /// Names the log.
    pub test: String,
    pub cores: u32,
    pub homes: Homes,
    /// Words before the command, such as `taskset 1`.
    pub words: &'a [&'a str],
    /// Objects to be made.
    pub objects: u32,
    pub timeout: Duration,
}

/// What it came to.
pub struct Ran {
    /// Part and counts, the whole last.
    pub(super) parts: Vec<(String, Counts)>,
    /// What it said of its work.
    pub said: Vec<String>,
}

impl Load {
    /// Compiles what it runs.
    pub fn prepare(project: &Project) -> Result<Load> {
        let folder = project.state().join("micro");
        fs::create_dir_all(&folder)?;
        let threads = folder.join("crew");
        setup::c_compiler()?;
        compile(&project.path(THREADS), &threads, "gcc")?;
        let script = Addition { host: project.path(SCRIPT), guest: "/root/build.sh".into() };
        let threads = Addition { host: threads, guest: "/root/crew".into() };
        Ok(Load { additions: vec![script, threads] })
    }

    /// A machine on which cores take turns.
    pub(super) fn machine(cores: u32) -> MachineOptions {
        MachineOptions { cores, turns: true, ..counting() }
    }

    /// Runs it.
    pub fn run(&self, context: &Context, order: Order) -> Result<Ran> {
        let Order { test, cores, homes, words, objects, timeout } = order;
        let words = words.iter().chain(&["sh", "/root/build.sh"]).map(|word| (*word).to_owned());
        let run = GuestRun {
            test,
            invocation: Invocation::new(words.collect(), &[format!("OBJECTS={objects}")])?,
            additions: self.additions.clone(),
            stdin: Vec::new(),
            machine: MachineOptions { homes, ..Load::machine(cores) },
            timeout,
            command_line: String::new(),
        };
        let observed = run.run(context)?;
        ensure!(observed.status(false)? == 0, "the load failed on {cores} cores");
        Ran::read(&String::from_utf8_lossy(&observed.stdout))
    }
}

impl Ran {
    /// What a program printed that begins each of its parts so.
    pub(super) fn read(output: &str) -> Result<Ran> {
        let (mut stages, mut said) = (Vec::<(String, Counts)>::new(), Vec::new());
        let mut lines = output.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix("@cores ") else {
                said.push(line.to_owned());
                continue;
            };
            let counters = lines.by_ref().take_while(|line| *line != "@end").map(counter);
            stages.push((name.to_owned(), Counts(counters.collect::<Result<_>>()?)));
        }
        ensure!(stages.len() > 1, "it did not say what it counted: {output:?}");
        let part = |pair: &[(String, Counts)]| (pair[0].0.clone(), pair[1].1.since(&pair[0].1));
        let mut parts: Vec<_> = stages.windows(2).map(part).collect();
        let whole = stages[stages.len() - 1].1.since(&stages[0].1);
        parts.push((WHOLE.to_owned(), whole));
        Ok(Ran { parts, said })
    }

    /// The counts of a part.
    pub fn part(&self, name: &str) -> Result<&Counts> {
        let found = self.parts.iter().find(|(own, _)| own == name);
        found.map(|(_, counts)| counts).with_context(|| format!("the load has no part {name}"))
    }
}

/// A line with a counter's values.
fn counter(line: &str) -> Result<(String, Vec<u64>)> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default().to_owned();
    let values = words.map(|word| word.parse().with_context(|| format!("in {line:?}")));
    Ok((name, values.collect::<Result<_>>()?))
}

impl Counts {
    /// What was counted after `before`.
    fn since(&self, before: &Counts) -> Counts {
        // How many capabilities there are may become less.
        let less = |(after, before): (&u64, &u64)| after.saturating_sub(*before);
        let differences = |(name, after): (&String, &Vec<u64>)| {
            (name.clone(), after.iter().zip(before.of(name)).map(less).collect())
        };
        Counts(self.0.iter().map(differences).collect())
    }

    fn of(&self, counter: &str) -> &[u64] {
        self.0.get(counter).map_or(&[], |values| values)
    }

    /// Of all cores together.
    pub(super) fn sum(&self, counter: &str) -> f64 {
        self.of(counter).iter().sum::<u64>() as f64
    }

    /// How long it took: instructions that a core could have executed meanwhile.
    pub(super) fn span(&self) -> f64 {
        self.of("span_time").first().map_or(0.0, |&time| time as f64)
    }

    fn share(&self, time: Option<&u64>) -> f64 {
        time.map_or(0.0, |&time| 100.0 * time as f64 / self.span())
    }

    /// Of each core, the percentage of that time in which it had something to do.
    pub fn busy(&self) -> Vec<f64> {
        self.of("busy_time").iter().map(|busy| self.share(Some(busy))).collect()
    }

    /// The percentage in which somebody waited who may run elsewhere, and a core was idle.
    pub fn starved(&self) -> f64 {
        self.share(self.of("starved_time").first())
    }

    /// The percentage in which all cores had something to do.
    pub fn full(&self) -> f64 {
        self.share(self.of("width_time").last())
    }
}

/// Runs it on all machines.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    const OBJECTS: u32 = 16;
    let load = Load::prepare(&lab.context.project)?;
    let mut machines: Vec<(Machine, Ran)> = Vec::new();
    for (cores, homes) in MACHINES {
        let test = format!("bench/load-{cores}{}", suffix(homes));
        let timeout = lab.timeout;
        let order = Order { test, cores, homes, words: &[], objects: OBJECTS, timeout };
        let ran = load.run(lab.context, order)?;
        let before = machines.first().map_or(&ran.said, |(_, first)| &first.said);
        ensure!(*before == ran.said, "{:?} on {cores} cores, before: {before:?}", ran.said);
        machines.push(((cores, homes), ran));
    }
    print(&machines)?;
    results(&lab.context.project, &machines)
}

/// Cores, and how homes are chosen.
type Machine = (u32, Homes);

/// What the names of measurements end with where homes are chosen.
pub(super) fn suffix(homes: Homes) -> String {
    match homes {
        Homes::One => String::new(),
        homes => format!(",_homes_by_{homes}"),
    }
}

fn print(machines: &[(Machine, Ran)]) -> Result<()> {
    let words = [
        "a load like a build",
        "cores",
        "homes",
        "time",
        "speed-up",
        "busy, % of each",
        "all busy, %",
        "waited while one idle, %",
        "executed, by 1 core",
        "visits",
        "placed at once",
        "asked for",
    ];
    let mut table = Table::new(words.map(String::from).to_vec());
    for (part, alone) in &machines[0].1.parts {
        for ((cores, homes), ran) in machines {
            let counts = ran.part(part)?;
            let busy: Vec<_> = counts.busy().iter().map(|share| format!("{share:.0}")).collect();
            table.row(vec![
                part.clone(),
                cores.to_string(),
                homes.to_string(),
                grouped(counts.span()),
                format!("{:.2}", alone.span() / counts.span()),
                busy.join(" "),
                format!("{:.0}", counts.full()),
                format!("{:.1}", counts.starved()),
                format!("{:.2}", counts.sum("busy_time") / alone.sum("busy_time")),
                grouped(counts.sum("visits")),
                grouped(counts.sum("placements")),
                grouped(counts.sum("migrations")),
            ]);
        }
    }
    println!("{}", table.render());
    Ok(())
}

fn results(project: &Project, machines: &[(Machine, Ran)]) -> Result<Vec<Measurement>> {
    let mut all = Vec::new();
    for ((cores, homes), ran) in machines {
        let defaults = Defaults {
            benchmark: "load".into(),
            clock: Clock::Instructions,
            system: System::Tessera,
            provenance: Provenance::emulated(project, &Load::machine(*cores), false),
        };
        for (part, counts) in &ran.parts {
            let (time, starved, end) = (counts.span(), counts.starved(), suffix(*homes));
            for text in [
                format!("{part}{end} {time:.0} at={cores}:cores"),
                format!("{part}_waiting{end} {starved:.2} at={cores}:cores unit=percent"),
            ] {
                all.push(line::parse(&text.split(' ').collect::<Vec<_>>(), &defaults)?);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_differences() {
        let output = "@cores first\na 1 10\n@end\nhello\n@cores second\na 3 30\n@end\n\
                      @cores end\na 6 31\n@end\n";
        let ran = Ran::read(output).unwrap();
        let values = |(name, counts): &(String, Counts)| (name.clone(), counts.of("a").to_vec());
        let values: Vec<_> = ran.parts.iter().map(values).collect();
        let expected = [("first", [2, 20]), ("second", [3, 1]), ("all", [5, 21])];
        assert_eq!(values, expected.map(|(name, own)| (name.to_owned(), own.to_vec())));
        assert_eq!(ran.said, ["hello"]);
        for wrong in ["hello\n", "@cores a\nb c\n@end\n@cores e\n@end"] {
            assert!(Ran::read(wrong).is_err());
        }
    }
}
