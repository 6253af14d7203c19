//! Snapshots by how many pages an object has.

use super::{sizes, value, verdict, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::Result;

const PAGES: u64 = 1 << 18;
const SMALL_PAGES: u64 = 1 << 10;
/// Instructions of a snapshot, at most.
const AIM: f64 = 10_000.0;
const CASES: [&str; 3] = ["snapshot", "first write after it", "next writes, per page"];

/// An object of order 2.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mib = lab.choose(2048, 512);
    let measured = lab.boot_part("snapshot", 1, mib, lab.choose(PAGES, SMALL_PAGES))?;
    let mut words = vec!["snapshots, instructions by pages".to_owned()];
    words.extend(CASES.map(String::from));
    words.extend(["aim".to_owned(), String::new()]);
    let mut table = Table::new(words);
    for size in sizes(&measured) {
        let cost = |case| value(&measured, case, Some(size), INSTRUCTIONS);
        let mut row = vec![grouped(size)];
        row.extend(CASES.map(|case| cost(case).map_or(String::new(), grouped)));
        let reached = cost(CASES[0]).is_some_and(|cost| cost <= AIM);
        row.extend([grouped(AIM), verdict(reached)]);
        table.row(row);
    }
    println!("{}", table.render());
    Ok(measured)
}
