//! Operations of a dispatcher that runs on another core than its home.

use super::{plain, value, Lab, Run, INTERRUPTS, INVOCATIONS, MIB};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::Result;

/// What is shown of each operation.
const CASES: [&str; 16] = [
    "nothing",
    "no op",
    "refused",
    "identify",
    "copy",
    "delete copy",
    "retype frame",
    "retype ram",
    "delete frame",
    "map one",
    "map 128 at once",
    "protect one",
    "delete mapping",
    "call and answer",
    "call with capability",
    "upcall of syscall",
];
/// Cores of the machine on which two are concerned, and of the one on which they are not all.
const MACHINES: [u32; 2] = [2, 8];

/// Where the program runs, and what runs at its home.
const PLACES: [(&str, &str); 3] =
    [("at home", ""), ("visiting, home idle", "on=1"), ("visiting, home busy", "on=1 busy=1")];

/// The same operations at home and away.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mut columns = Vec::new();
    for cores in MACHINES {
        for (place, words) in PLACES {
            let benchmark = format!("caps {place}");
            let run = Run { benchmark: &benchmark, program: INVOCATIONS, cores, mib: MIB, words };
            columns.push((format!("{place}, {cores} cores"), lab.boot(&run)?));
        }
    }
    print(&columns);
    Ok(columns.into_iter().flat_map(|(_, measured)| measured).collect())
}

/// Columns are the places on the first machine and then on the second.
fn print(columns: &[(String, Vec<Measurement>)]) {
    let mut words =
        vec![format!("operations far from home, instructions on {} cores", MACHINES[0])];
    words.extend(PLACES.map(|(place, _)| place.to_owned()));
    let further = ["more if idle", "if busy", "interrupts", "with 8 cores"];
    words.extend(further.map(String::from));
    let mut table = Table::new(words);
    for case in CASES {
        let costs: Vec<_> =
            columns.iter().map(|(_, own)| value(own, case, "instructions")).collect();
        let (few, many) = costs.split_at(PLACES.len());
        let mut row = vec![case.to_owned()];
        row.extend(few.iter().map(|cost| cost.map_or("-".into(), grouped)));
        for away in &few[1..] {
            let more = away.zip(few[0]).map(|(away, home)| away - home);
            row.push(more.map_or("-".into(), grouped));
        }
        row.push(value(&columns[1].1, case, INTERRUPTS).map_or(String::new(), plain));
        row.push(if few == many { "the same".into() } else { worst_ratio(few, many) });
        table.row(row);
    }
    println!("{}", table.render());
}

/// The ratio that is furthest from one.
fn worst_ratio(few: &[Option<f64>], many: &[Option<f64>]) -> String {
    let ratios =
        few.iter().zip(many).filter_map(|(few, many)| Some(many.as_ref()? / few.as_ref()?));
    let worst = ratios.max_by(|a, b| f64::total_cmp(&a.ln().abs(), &b.ln().abs()));
    worst.map_or("-".into(), |ratio| format!("{ratio:.3}"))
}
