//! Pools that are formatted, filled and recovered.

use super::{sizes, value, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::Result;

const PAGES: u64 = 1 << 18;
const SMALL_PAGES: u64 = 1 << 9;
const CASES: [&str; 2] = ["populate by invocation, per page", "recover"];

/// An object with up to so many pages.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let mib = lab.choose(2048, 512);
    let measured = lab.boot_part("recover", 1, mib, lab.choose(PAGES, SMALL_PAGES))?;
    if let Some(format) = value(&measured, "format, per MiB of pool", None, INSTRUCTIONS) {
        println!("to format a pool takes {} instructions for each MiB\n", grouped(format));
    }
    let mut words = vec!["recovery, instructions by pages in use".to_owned()];
    words.extend(CASES.map(String::from));
    words.push("recover, per page".to_owned());
    let mut table = Table::new(words);
    for size in sizes(&measured) {
        let cost = |case| value(&measured, case, Some(size), INSTRUCTIONS);
        let mut row = vec![grouped(size)];
        row.extend(CASES.map(|case| cost(case).map_or(String::new(), grouped)));
        row.push(cost(CASES[1]).map_or(String::new(), |cost| grouped((cost / size).round())));
        table.row(row);
    }
    println!("{}", table.render());
    Ok(measured)
}
