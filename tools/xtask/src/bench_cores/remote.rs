//! Operations that concern several cores: by how many, by how many there are besides, and by the size of
//! the mapping database (G18 figures 4.11 to 4.14, 4.22 to 4.25 and 4.30 to 4.32).

use super::{plain, traced, value, Lab, Run, SMALL_CORES, SMALL_CROWD};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement, Size};
use anyhow::Result;

/// The program, with a part on every core.
pub const PROGRAM: &str = "corebench";
const INSTRUCTIONS: &str = "instructions";
const MESSAGES: &str = "messages";
/// Cores of the machines.
const MACHINES: [u32; 4] = [8, 2, 4, 64];
/// The memory server gives pieces of powers of two, and the largest crowd needs one of 512 MiB.
const MEMORY_MIB: u64 = 2048;
/// So many other cores are concerned on a machine with few cores (by its place) and on one with more.
const SAME: [(u32, usize, usize); 3] = [(1, 1, 0), (3, 2, 0), (1, 1, 3)];
/// Further capabilities on core 0 of the first machine.
const CROWDS: [u32; 2] = [4096, 65536];
/// How many other cores are concerned of operations that are shown in parts.
const TRACED: [u32; 2] = [1, 7];
/// By how much a cost may depend on cores that are not concerned.
const AIM: f64 = 0.05;

const CALL: &str = "call to the monitor";
const ANSWER: &str = "message and answer";

/// A case, its figures, and what the paper says of it in cycles.
const FIGURES: [(&str, &str); 19] = [
    (CALL, "4.21: 16,000"),
    (ANSWER, "4.14, 4.21: 80,000 with one core, 135,000 with all"),
    ("delete a copy of many", "4.9: 2,000 to 6,000"),
    ("delete a foreign copy", "4.11, 4.12: 6,000 to 10,000"),
    ("delete the last copy here", "4.13, 4.14: 257,000, of which 215,000 find and move the owner"),
    (
        "revoke 10 copies on each",
        "4.24, 4.25: 300,000 to 350,000, of which two times 135,000 ask all",
    ),
    ("revoke a foreign copy with 10 more", "4.22, 4.23: 538,000, of which 197,000 move the owner"),
    ("retype beside descendants", "4.30 to 4.32: 213,000, or 189,000 in one CSpace"),
    ("delete a CNode with 4 in use", "4.17: 65,000 to 140,000, without copies elsewhere"),
    ("delete a dispatcher", ""),
    ("revoke an object 10 copies on each", ""),
    ("delete the last of a part here", ""),
    ("discard a page", ""),
    ("discard a page that each shows alone", ""),
    ("snapshot", ""),
    ("destroy what others had", ""),
    ("map 1 GiB of an object", ""),
    ("map 2 MiB of a Frame in pages", ""),
    ("map 2 MiB of a Frame in one", ""),
];

/// What differs from the paper.
const DIFFERENCES: &str = "\
Ours are instructions of all cores together, from the invocation to its end; the paper's are cycles of
core 0 on a Xeon E5-2670 v2 at 2.5 GHz with 20 cores, at 4,096 further capabilities where it names one
number. The cores that wait sleep; the paper's poll. Other cores than core 0, where the memory comes
from, have a copy each, ten of them to revoke, or RAM made of it to retype beside.
";

/// One boot: cores, further capabilities, and what it said.
struct Machine {
    cores: u32,
    crowd: u32,
    measured: Vec<Measurement>,
}

/// Every operation, on all machines.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let plain = MACHINES.map(|cores| (cores, 0)).into_iter();
    let crowded = CROWDS.into_iter().map(|crowd| (MACHINES[0], crowd));
    let mut machines = Vec::new();
    for (mut cores, mut crowd) in plain.chain(crowded) {
        if lab.small {
            (cores, crowd) = (cores.min(SMALL_CORES), crowd.min(SMALL_CROWD));
        }
        let benchmark = format!("distributed on {cores} cores, {crowd} more capabilities");
        let words = format!("crowd={crowd}");
        let run =
            Run { benchmark: &benchmark, program: PROGRAM, cores, mib: MEMORY_MIB, words: &words };
        machines.push(Machine { cores, crowd, measured: lab.boot(&run)? });
    }
    println!("by other cores concerned, on {} cores\n", MACHINES[0]);
    println!("{}", by_cores(&machines, INSTRUCTIONS, grouped).render());
    println!("{}", by_cores(&machines, MESSAGES, plain_number).render());
    println!("{}", independence(&machines).render());
    println!("{}", by_size(&machines).render());
    let traced = Run {
        benchmark: "distributed",
        program: PROGRAM,
        cores: machines[0].cores,
        mib: MEMORY_MIB,
        words: "",
    };
    let traced = traced::measure(lab, &traced)?;
    for others in TRACED {
        let measured = |case: &str, others| machines[0].value(case, others, INSTRUCTIONS);
        println!("{}", traced::table(&traced, others, measured, paper).render());
    }
    println!("{DIFFERENCES}");
    Ok(machines.into_iter().flat_map(|machine| machine.measured).collect())
}

/// What the paper says of a case.
fn paper(case: &str) -> &'static str {
    FIGURES.iter().find(|(own, _)| *own == case).map_or("", |(_, paper)| paper)
}

fn plain_number(value: f64) -> String {
    plain(value)
}

impl Machine {
    fn value(&self, case: &str, others: u32, unit: &str) -> Option<f64> {
        let at = |m: &&Measurement| {
            m.question.at == Some(Size { value: others.into(), unit: "others".into() })
        };
        value(&self.measured.iter().filter(at).cloned().collect::<Vec<_>>(), case, unit)
    }

    /// How many other cores were concerned, of all cases.
    fn others(&self) -> Vec<u32> {
        let sizes = self.measured.iter().filter_map(|m| m.question.at.as_ref());
        let mut others: Vec<u32> = sizes.map(|at| at.value as u32).collect();
        others.sort();
        others.dedup();
        others
    }
}

fn by_cores(machines: &[Machine], unit: &str, shown: impl Fn(f64) -> String) -> Table {
    let others = machines[0].others();
    let mut words = vec![format!("in {unit}")];
    words.extend(others.iter().map(|count| format!("{count} others")));
    if unit == INSTRUCTIONS {
        words.push("G18, figures and cycles".into());
    }
    let mut table = Table::new(words);
    for (case, paper) in FIGURES {
        let mut row = vec![case.to_owned()];
        let values = others.iter().map(|&count| machines[0].value(case, count, unit));
        row.extend(values.map(|value| value.map_or(String::new(), &shown)));
        if unit == INSTRUCTIONS {
            row.push(paper.to_owned());
        }
        table.row(row);
    }
    table
}

/// The same number of cores concerned, on machines with more and fewer.
fn independence(machines: &[Machine]) -> Table {
    let mut words = vec!["by cores that are not concerned".to_owned()];
    for (others, small, large) in SAME {
        let (most, fewest) = (machines[large].cores, machines[small].cores);
        words.push(format!("{others} others, {fewest} cores"));
        words.push(format!("{most} cores"));
        words.push("ratio".into());
        words.push("aim".into());
    }
    let mut table = Table::new(words);
    for (case, _) in FIGURES {
        let mut row = vec![case.to_owned()];
        for (others, small, large) in SAME {
            let few = machines[small].value(case, others, INSTRUCTIONS);
            let many = machines[large].value(case, others, INSTRUCTIONS);
            row.extend([few, many].map(|value| value.map_or(String::new(), grouped)));
            let ratio = few.zip(many).map(|(few, many)| many / few);
            row.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")));
            let verdict =
                |ratio: f64| if (ratio - 1.0).abs() <= AIM { "reached" } else { "missed" };
            row.push(ratio.map_or(String::new(), |ratio| verdict(ratio).to_owned()));
        }
        if row[1..].iter().any(|cell| !cell.is_empty()) {
            table.row(row);
        }
    }
    table
}

/// One other core concerned, by further capabilities on this one.
fn by_size(machines: &[Machine]) -> Table {
    let crowds: Vec<&Machine> =
        machines.iter().filter(|machine| machine.cores == MACHINES[0]).collect();
    let mut words = vec!["one other core, by further capabilities".to_owned()];
    words.extend(crowds.iter().map(|machine| grouped(machine.crowd.into())));
    let mut table = Table::new(words);
    for (case, _) in FIGURES.iter().filter(|(case, _)| *case != CALL) {
        let mut row = vec![case.to_string()];
        let values = crowds.iter().map(|machine| machine.value(case, 1, INSTRUCTIONS));
        row.extend(values.map(|value| value.map_or(String::new(), grouped)));
        table.row(row);
    }
    table
}
