//! `./x bench capsize`: capability operations by the size of the mapping database, beside what G18
//! measured (figures 4.8 to 4.20 and 4.26 to 4.29, as far as they concern one core).

use crate::bench::{counting, Measuring};
use crate::results::{grouped, Measurement};
use crate::testing::Context;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// The benchmark, and the native program that takes the place of `init`.
pub const SIZES: &str = "capsize";

/// A case, its figure, and what the paper says of it in cycles.
const FIGURES: [(&str, &str, &str); 13] = [
    ("no op", "4.8", "under 250 at every size"),
    ("identify", "", ""),
    ("copy", "", ""),
    ("mint", "", ""),
    ("delete a copy", "4.9, 4.10", "2,000 to 6,000; 4,092 at 4,096"),
    ("delete the last copy", "4.15, 4.16", "6,000 to 15,000; 10,168 at 4,096"),
    ("delete a CNode with 4 in use", "4.17, 4.18", "65,000 to 140,000; 80,000 at 4,096"),
    ("delete a CNode", "4.19", "about 10,000 for each slot in use"),
    ("revoke 10 copies", "4.20, 4.21", "300,000 to 350,000, of which 41,716 delete"),
    ("retype", "4.26, 4.27", "4,000 to 5,000"),
    ("retype beside descendants", "4.28, 4.29", "4,500 to 8,000"),
    ("map a page", "", ""),
    ("unmap a page", "", ""),
];

/// What differs from the paper.
const DIFFERENCES: &str = "\
Ours are instructions, kernel and caller together, in an emulator; the paper's are cycles of a Xeon
E5-2670 v2 at 2.5 GHz. Retype to a Frame zeroes a page. The paper deletes a CNode and revokes
through its monitors, the latter with two broadcasts; on one core neither needs a message here.
";

/// Runs the program, prints its table and returns its measurements.
pub fn measure(context: &Context, timeout: Duration) -> Result<Vec<Measurement>> {
    let program = Measuring {
        benchmark: SIZES,
        name: SIZES,
        program: SIZES,
        words: "",
        machine: counting(),
        timeout,
    };
    let measured = program.boot(context)?.measured;
    println!("{SIZES}, in instructions, by capabilities beyond those of an idle machine\n");
    println!("{}", table(&measured, "capabilities"));
    println!("by slots of the CNode in use, without such capabilities\n");
    println!("{}\n{DIFFERENCES}", table(&measured, "slots"));
    Ok(measured)
}

/// What the paper prints for a case: its figures and their cycles. Empty if it has none.
pub fn paper(case: &str) -> String {
    let own = FIGURES.iter().find(|(own, figures, _)| *own == case && !figures.is_empty());
    own.map_or(String::new(), |(_, figures, cycles)| format!("{figures}: {cycles}"))
}

/// A row for each case that has sizes in `unit`, a column for each size.
fn table(measured: &[Measurement], unit: &str) -> String {
    let size = |measurement: &Measurement| {
        let at = measurement.question.at.as_ref().filter(|at| at.unit == unit)?;
        Some(at.value as u64)
    };
    let sizes: BTreeSet<u64> = measured.iter().filter_map(size).collect();
    let mut text = format!("{:<30}", "");
    sizes.iter().for_each(|size| _ = write!(text, "{:>9}", grouped(*size as f64)));
    text += "  G18, figures and cycles\n";
    for (case, ..) in FIGURES {
        let own = || measured.iter().filter(|m| m.question.case == case && size(m).is_some());
        if own().next().is_none() {
            continue;
        }
        let _ = write!(text, "{case:<30}");
        for wanted in &sizes {
            let median = own().find(|m| size(m) == Some(*wanted)).and_then(Measurement::median);
            let _ = write!(text, "{:>9}", median.map_or(String::new(), grouped));
        }
        let _ = match paper(case) {
            none if none.is_empty() => writeln!(text),
            paper => writeln!(text, "  {paper}"),
        };
    }
    text
}
