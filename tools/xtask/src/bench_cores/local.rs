//! Local operations: they cost the same whatever the number of cores.

use super::{Lab, Run, INVOCATIONS, MIB};
use crate::bench_sizes::{paper, SIZES};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::Result;

/// Cores of the machines; the first two are compared.
const MACHINES: [u32; 3] = [1, 8, 2];
/// Databases that are shown, by capabilities beyond those of an idle machine.
const SHOWN: [f64; 3] = [0.0, 4096.0, 65536.0];
/// How much a cost may differ on the second machine from that on the first.
const AIM: f64 = 0.01;

/// Every operation of both programs.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mut all = Vec::new();
    for (program, what) in [(INVOCATIONS, "caps"), (SIZES, "capsize")] {
        let mut machines = Vec::new();
        for cores in MACHINES {
            let benchmark = format!("{what} on {}", title(cores));
            let run = Run { benchmark: &benchmark, program, cores, mib: MIB, words: "" };
            machines.push(lab.boot(&run)?);
        }
        print(what, &machines);
        all.extend(machines.into_iter().flatten());
    }
    Ok(all)
}

fn title(cores: u32) -> String {
    if cores == 1 {
        "1 core".to_owned()
    } else {
        format!("{cores} cores")
    }
}

fn print(what: &str, machines: &[Vec<Measurement>]) {
    let mut words = vec![format!("local operations ({what}), instructions")];
    words.extend(MACHINES.map(title));
    words.extend(["8 by 1 core", "aim", "G18, figures and cycles"].map(String::from));
    let mut table = Table::new(words);
    let (mut total, mut reached) = (0, 0);
    for first in &machines[0] {
        let values = machines.iter().map(|own| alike(own, first));
        let Some(values) = values.collect::<Option<Vec<f64>>>() else { continue };
        let ratio = if values[0] == values[1] { 1.0 } else { values[1] / values[0] };
        let verdict = if (ratio - 1.0).abs() <= AIM { "reached" } else { "missed" };
        total += 1;
        reached += usize::from(verdict == "reached");
        let at = first.question.at.as_ref().filter(|at| at.unit != "cores");
        if at.is_some_and(|at| at.unit == "capabilities" && !SHOWN.contains(&at.value)) {
            continue;
        }
        let case = &first.question.case;
        let label = match at {
            Some(at) => format!("{case}, {} {}", grouped(at.value), at.unit),
            None => case.clone(),
        };
        let mut row = vec![label];
        row.extend(values.iter().map(|value| grouped(*value)));
        row.extend([format!("{ratio:.3}"), verdict.to_owned()]);
        row.push(if what == SIZES { paper(case) } else { String::new() });
        table.row(row);
    }
    println!("{}", table.render());
    println!("{reached} of {total} cost the same with 8 cores as with one, within 1 %\n");
}

/// What another machine says of the same case, at the same size, in the same unit.
fn alike(measured: &[Measurement], wanted: &Measurement) -> Option<f64> {
    let size = |m: &Measurement| {
        m.question.at.as_ref().filter(|at| at.unit != "cores").map(|at| (at.value, at.unit.clone()))
    };
    let same = |m: &&Measurement| {
        m.question.case == wanted.question.case
            && m.question.unit == wanted.question.unit
            && size(m) == size(wanted)
    };
    measured.iter().find(same)?.median()
}
