//! Losing rights to pages whose translations other cores may have.

use super::{plain, value, Lab, Run, INTERRUPTS, INVOCATIONS, MIB};
use crate::compare::table::{ratio, Table};
use crate::results::{grouped, Measurement};
use anyhow::Result;

/// Operations of which some must be forgotten elsewhere, and some not.
const CASES: [&str; 9] = [
    "map one",
    "unmap 32",
    "unmap used 1",
    "unmap used 32",
    "unmap used 128",
    "protect used 128",
    "clear dirty 512",
    "delete mapped frame",
    "flush 32 selective",
];
/// Cores of the machine, and other cores that have the address space loaded.
const MACHINES: [(u32, u32); 11] =
    [(1, 0), (8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (2, 1), (4, 3)];

/// Columns of the same number of others, on the largest machine and on one with no further cores.
const SAME: [(usize, usize); 2] = [(2, 9), (4, 10)];

/// The operations while other cores run in the same address space.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let only = CASES.map(|case| case.replace(' ', "_")).join(",");
    let mut columns = Vec::new();
    for (cores, others) in MACHINES {
        let benchmark = format!("caps beside {others} cores");
        let set = ((1u64 << others) - 1) << 1;
        let words = format!("busy={set} only={only}");
        let run =
            Run { benchmark: &benchmark, program: INVOCATIONS, cores, mib: MIB, words: &words };
        columns.push((format!("{others} of {cores}"), lab.boot(&run)?));
    }
    print("in instructions of all cores", "instructions", &columns, grouped);
    print("in interrupts", INTERRUPTS, &columns, plain);
    Ok(columns.into_iter().flat_map(|(_, measured)| measured).collect())
}

fn print(
    title: &str,
    unit: &str,
    columns: &[(String, Vec<Measurement>)],
    shown: impl Fn(f64) -> String,
) {
    println!("by other cores that run in the address space, of cores\n");
    let mut words = vec![title.to_owned()];
    words.extend(columns.iter().map(|(title, _)| title.clone()));
    words.extend(SAME.map(|(many, few)| format!("{}/{}", columns[many].0, columns[few].0)));
    let mut table = Table::new(words);
    for case in CASES {
        let mut row = vec![case.to_owned()];
        let values: Vec<_> = columns.iter().map(|(_, own)| value(own, case, unit)).collect();
        row.extend(values.iter().map(|value| value.map_or("-".into(), &shown)));
        row.extend(SAME.map(|(many, few)| ratio(values[many], values[few])));
        table.row(row);
    }
    println!("{}", table.render());
}
