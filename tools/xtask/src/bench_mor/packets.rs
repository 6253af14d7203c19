//! Figure 5.7: packets that are handed over by mapping them.

use super::{sizes, value, verdict, Lab, INSTRUCTIONS};
use crate::compare::table::Table;
use crate::results::{grouped, Measurement};
use anyhow::Result;

/// 32 MiB.
const PAGES: u64 = 8192;
const SMALL_PAGES: u64 = 256;
/// The sender's rate in percent of that of filling memory, at least.
const AIM: f64 = 95.0;
const CASES: [&str; 5] =
    ["memset", "fill", "map and unmap", "hand over, there and back", "receive: map, read, unmap"];

/// Five packets between two address spaces.
pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let measured = lab.boot_part("packets", 1, 512, lab.choose(PAGES, SMALL_PAGES))?;
    let size = sizes(&measured).first().copied();
    let title = format!("figure 5.7: packets of {} MiB, instructions of one", size.unwrap_or(0.0));
    let mut table = Table::new(vec![title, String::new()]);
    for case in CASES {
        let cost = value(&measured, case, size, INSTRUCTIONS);
        table.row(vec![case.to_owned(), cost.map_or("-".into(), grouped)]);
    }
    println!("{}", table.render());
    if let Some(rate) = value(&measured, "rate", size, "percent") {
        let said = verdict(rate >= AIM);
        println!("the sender's rate is {rate:.2} % of memset's; aim {AIM} %: {said}");
        println!("(MOR figure 5.7: 94 %; POSIX shared memory on Linux: 49 %)\n");
    }
    Ok(measured)
}
